"""Admission warnings about a FederatedHPA: remedies, and what is admitted though it hardly means well.

Messages of refusals stay Karmada's to the byte; what to do about them is said here.
"""

from __future__ import annotations

from collections.abc import Iterator

from fedhpa.admission.validation.extensions import DISTRIBUTED
from fedhpa.admission.warnings.extensions import warn_own_fields
from fedhpa.admission.warnings.metrics import warn_metrics
from fedhpa.admission.warnings.remedies import remedies
from fedhpa.api.federatedhpa import FederatedHPA, FederatedHPASpec
from fedhpa.api.fielderror import quoted
from fedhpa.api.model import MAX_TEXT


def warn_federatedhpa(fhpa: FederatedHPA, *, admitted: bool = False) -> Iterator[str]:
    """Warnings about an object; what keeps it from being admitted comes first, unless it is known to be.

    For the registered clusters see `warnings.extensions.warn_unknown_clusters`.
    """
    spec = fhpa.spec
    if not admitted:
        yield from remedies(spec)
    yield from _api_version(spec)
    yield from warn_metrics(spec.metrics, "spec.metrics")
    yield from warn_own_fields(spec)


def _api_version(spec: FederatedHPASpec) -> Iterator[str]:
    """Karmada never checks it; in mode Distributed it is refused where a member would refuse it."""
    reference = spec.scale_target_ref
    group, slash, version = reference.api_version.partition("/")
    if (reference.kind == "ReplicationController" and reference.api_version == "v1") or (
        slash and group and version and "/" not in version
    ):
        return
    if spec.mode != DISTRIBUTED:
        shown = quoted(reference.api_version[:MAX_TEXT])
        instead = "names no API group and version; write one such as apps/v1"
        yield f"spec.scaleTargetRef.apiVersion: {shown} {instead}"
