"""A private certificate authority: issues, renews and rotates certificates.

`certs.publish` writes the CA bundle into webhook configurations and APIServices. It is not imported here,
because it needs the API client. This package has code only: keys are in the files or Secrets of the user.
"""

from certs.authority import CertificateAuthority, IssuedCertificate
from certs.renewal import ensure_authority, ensure_certificate, rotate_authority

__all__ = [
    "CertificateAuthority",
    "IssuedCertificate",
    "ensure_authority",
    "ensure_certificate",
    "rotate_authority",
]
