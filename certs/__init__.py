"""A private certificate authority: issues, renews and rotates certificates.

`certs.hub` reads and writes Secrets and registrations. It is not imported here, because it needs the API
client. This package has code only: keys are in the files or Secrets of the user.
"""

from certs.authority import CertificateAuthority, IssuedCertificate
from certs.renewal import (
    drop_previous,
    ensure_authority,
    ensure_certificate,
    has_successor,
    rotate_authority,
    sign_with_successor,
)

__all__ = [
    "CertificateAuthority",
    "IssuedCertificate",
    "drop_previous",
    "ensure_authority",
    "ensure_certificate",
    "has_successor",
    "rotate_authority",
    "sign_with_successor",
]
