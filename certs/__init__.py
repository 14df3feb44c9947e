"""The private CA: issue, renew and rotate certificates, and publish caBundles where clients look for them.

Code only; keys live where the operator's files or Secrets are.
"""

from certs.authority import CertificateAuthority, IssuedCertificate

__all__ = ["CertificateAuthority", "IssuedCertificate"]
