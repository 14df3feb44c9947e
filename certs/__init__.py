"""A private certificate authority: issues and renews certificates, and is replaced by a person's command.

`certs.certificate_store` reads and writes Secrets and registrations. It is not imported here, as it needs the
API client. This package has code only: keys are in the files or Secrets of the user.
"""

from certs.authority import CertificateAuthority, IssuedCertificate, ensure_authority, ensure_certificate
