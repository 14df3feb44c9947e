"""Prometheus series about the certificates that the controller keeps."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge

from certs.certificate_store import SERVICES
from certs.keeping import CA
from certs.stored import Reading


class CertificateMetrics:
    """The series in one registry. Only the leader shows expiries."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._expires = Gauge(
            "fedhpa_controller_certificate_expiration_timestamp_seconds",
            "When a stored certificate expires, as POSIX seconds: ca (the CA that signs), webhook, "
            "metrics-adapter. Only the process that keeps the certificates shows it.",
            ("certificate",),
            registry=registry,
        )
        self._failing = Gauge(
            "fedhpa_controller_certificate_objects_failing",
            "Secrets and registrations that cannot be read or written, or belong to somebody else.",
            registry=registry,
        )
        self._issued = Counter(
            "fedhpa_controller_certificates_issued",
            "Certificates that were created, by certificate; ca is that of the CA.",
            ("certificate",),
            registry=registry,
        )
        for certificate in (CA, *SERVICES):
            self._issued.labels(certificate)

    def show(self, reading: Reading, failing: int) -> None:
        """Shows what is stored, and how many objects fail."""
        found = {CA: reading.ca.signer, **{each.server: each.pair for each in reading.serving}}
        for name, each in found.items():
            if each is None:
                self._expires.remove_by_labels({"certificate": name})
            else:
                self._expires.labels(name).set(each.certificate.not_valid_after_utc.timestamp())
        self._failing.set(failing)

    def clear(self) -> None:
        """Shows nothing, because another process keeps the certificates."""
        self._expires.clear()
        self._failing.set(0)

    def count_issued(self, certificate: str) -> None:
        """Counts a certificate that was created."""
        self._issued.labels(certificate).inc()
