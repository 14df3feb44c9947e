"""Admission warnings about a FederatedHPA: remedies, and what is admitted though it hardly means well.

Messages of refusals stay Karmada's to the byte; what to do about them is said here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from fedhpa.api.affinity import KnownCluster
from fedhpa.api.federatedhpa import FederatedHPA, FederatedHPASpec
from fedhpa.api.fielderror import quoted
from fedhpa.api.remedies import remedies
from fedhpa.api.validation_own import DISTRIBUTED
from fedhpa.api.warnings_metrics import warn_metrics
from fedhpa.api.warnings_own import warn_own_fields, warn_unknown_clusters

# API servers cut a warning at 256 characters, and drop what is beyond 4 KiB of a response.
MAX_LENGTH: Final = 255
# More than these nobody reads.
MAX_COUNT: Final = 5


def presentable(warnings: Iterable[str]) -> list[str]:
    """At most as many warnings as a person reads, each of them short, without control characters."""
    texts = list(dict.fromkeys(warnings))
    shown = ["".join(c if c.isprintable() else "?" for c in text[:MAX_LENGTH]) for text in texts[:MAX_COUNT]]
    if len(texts) > MAX_COUNT:
        shown[-1] = f"and {len(texts) - MAX_COUNT + 1} more warnings"
    return shown


def warn_federatedhpa(fhpa: FederatedHPA, clusters: Sequence[KnownCluster] | None = None) -> Iterator[str]:
    """Warnings about an object, whether it is admitted or not; what keeps it from being admitted comes first.

    `clusters` are those registered on the hub, None if nobody can tell: then nothing is said about them.
    """
    spec = fhpa.spec
    yield from remedies(spec)
    yield from _api_version(spec)
    yield from warn_metrics(spec.metrics, "spec.metrics")
    yield from warn_own_fields(spec)
    if clusters is not None:
        yield from warn_unknown_clusters(spec, clusters)


def _api_version(spec: FederatedHPASpec) -> Iterator[str]:
    """Karmada never checks it; in mode Distributed it is refused where a member would refuse it."""
    reference = spec.scale_target_ref
    group, slash, version = reference.api_version.partition("/")
    if (reference.kind == "ReplicationController" and reference.api_version == "v1") or (
        slash and group and version and "/" not in version
    ):
        return
    if spec.mode != DISTRIBUTED:
        shown = quoted(reference.api_version[:MAX_LENGTH])
        instead = "names no API group and version; write one such as apps/v1"
        yield f"spec.scaleTargetRef.apiVersion: {shown} {instead}"
