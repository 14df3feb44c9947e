"""Keeps the CA, the serving certificates and the CA bundles of the webhook and the metrics adapter.

One process does so at a time: the holder of the Lease `fedhpa-controller-certificates`. What to write is
decided by `certs.keeping`; docs/how-to/certificates.md is for people.
"""

from controller.certificates.leading import CERTIFICATES_LEASE, keep_certificates, secrets_config
from controller.certificates.manager import CertificateMetrics
