"""Prometheus series about the certificates that the controller keeps."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from certs.hub import SERVICES, Reading
from certs.stages import Stage, stage_of

CA: Final = "ca"


class CertificateMetrics:
    """The series in one registry. Only the leader shows expiries and stages."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._expires = Gauge(
            "fedhpa_controller_certificate_expiration_timestamp_seconds",
            "When a stored certificate expires, as POSIX seconds: ca (the root that signs), webhook, "
            "metrics-adapter. Only the process that keeps the certificates shows it.",
            ("certificate",),
            registry=registry,
        )
        self._stage = Gauge(
            "fedhpa_controller_certificate_stage",
            "1 for the stage of the root: unknown, stable, publish, sign, drop. Only the process that keeps "
            "the certificates shows it.",
            ("stage",),
            registry=registry,
        )
        self._failing = Gauge(
            "fedhpa_controller_certificate_objects_failing",
            "Secrets and registrations that cannot be read or written, or belong to somebody else.",
            registry=registry,
        )
        self._issued = Counter(
            "fedhpa_controller_certificates_issued",
            "Certificates and roots that were created, by certificate.",
            ("certificate",),
            registry=registry,
        )
        for certificate in (CA, *SERVICES):
            self._issued.labels(certificate)

    def show(self, reading: Reading, failing: int) -> None:
        """Shows what is stored, and how many objects fail."""
        expiries = {}
        signer = reading.state.authority.signer
        if signer is not None:
            expiries[CA] = signer.certificate.not_valid_after_utc.timestamp()
        for each in reading.state.serving:
            if each.pair is not None:
                expiries[each.server] = each.pair.certificate.not_valid_after_utc.timestamp()
        for certificate in (CA, *SERVICES):
            if certificate in expiries:
                self._expires.labels(certificate).set(expiries[certificate])
            else:
                self._expires.remove_by_labels({"certificate": certificate})
        stage = stage_of(reading.state)
        for each_stage in Stage:
            self._stage.labels(each_stage).set(each_stage is stage)
        self._failing.set(failing)

    def clear(self) -> None:
        """Shows nothing, because another process keeps the certificates."""
        self._expires.clear()
        self._stage.clear()
        self._failing.set(0)

    def count_issued(self, certificate: str) -> None:
        """Counts a certificate that was created."""
        self._issued.labels(certificate).inc()
