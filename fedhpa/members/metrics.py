"""The custom and external metrics of a member, asked for as Kubernetes' clients ask, read with suspicion.

Source of the requests: Kubernetes HPA 1.36, metrics APIs 15. An answer with a value that nobody can mean
(none at all, a negative one, one that is no quantity) is no answer: it would scale down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from fedhpa.api import wire
from fedhpa.api.errors import ApiError, InvalidObject, MetricsUnavailable
from fedhpa.kube.paths import group_path, segment
from fedhpa.kube.responses import NOT_FOUND, decoder
from fedhpa.members.lists import SharedLists, Upstream
from fedhpa.scaling.records import CustomSample, ExternalSample, custom_sample, external_sample

T = TypeVar("T", wire.MetricValue, wire.ExternalMetricValue)
R = TypeVar("R", CustomSample, ExternalSample)

CUSTOM: Final = "custom.metrics.k8s.io"
EXTERNAL: Final = "external.metrics.k8s.io"
EXTERNAL_VERSION: Final = f"{EXTERNAL}/v1beta1"
# In order of preference: v1beta2 tells the selector of a value from that of its metric.
CUSTOM_VERSIONS: Final = ("v1beta2", "v1beta1")
# An adapter that was replaced by one of another version is noticed after this long.
VERSION_SECONDS: Final = 60.0
NO_CUSTOM_API: Final = f"no custom metrics API ({CUSTOM}) registered"


class NotServed(MetricsUnavailable):
    """The member has no such API at all: it is none of those who could know the metric."""


class _Custom(wire.MetricValue, frozen=True, gc=False, kw_only=True):
    value: wire.RawQuantity  # required: what is not there is not zero


class _External(wire.ExternalMetricValue, frozen=True, gc=False, kw_only=True):
    value: wire.RawQuantity


class _CustomList(msgspec.Struct, frozen=True):
    items: list[_Custom] | None  # required, but Go servers send `null` for an empty one


class _ExternalList(msgspec.Struct, frozen=True):
    items: list[_External] | None


class _ApiVersion(msgspec.Struct, frozen=True):
    version: str = ""


class _ApiGroup(msgspec.Struct, frozen=True):
    versions: list[_ApiVersion] | None = None


def pods_path(api_version: str, namespace: str, metric: str) -> str:
    """Where a metric of all pods of a namespace is; a labelSelector chooses among them."""
    return object_path(api_version, namespace, "pods", "*", metric)


def object_path(api_version: str, namespace: str, resource: str, name: str, metric: str) -> str:
    """Where a metric of one object is; `resource` is the plural with its group ("deployments.apps").

    Kubernetes' HPA asks below its own namespace also for kinds that have none.
    """
    rest = "/".join(segment(part) for part in (namespace, resource, name, metric))
    return f"{group_path(api_version)}/namespaces/{rest}"


def namespace_path(api_version: str, namespace: str, metric: str) -> str:
    """Where a metric of a namespace itself is."""
    return f"{group_path(api_version)}/namespaces/{segment(namespace)}/metrics/{segment(metric)}"


def external_path(namespace: str, metric: str) -> str:
    """Where an external metric is."""
    return f"{group_path(EXTERNAL_VERSION)}/namespaces/{segment(namespace)}/{segment(metric)}"


async def custom_version(lists: SharedLists, member: Upstream) -> str:
    """The apiVersion in which a member serves custom metrics, by its discovery, kept for a while.

    NotServed if it serves none that is known; MetricsUnavailable and MemberUnavailable as for any call.
    """
    try:
        served = await lists.get(member, f"/apis/{CUSTOM}", None, _versions, max_age=VERSION_SECONDS)
    except MetricsUnavailable as error:
        if isinstance(error.__cause__, ApiError) and error.__cause__.status == NOT_FOUND:
            raise NotServed(NO_CUSTOM_API) from None
        raise
    for version in CUSTOM_VERSIONS:
        if version in served.value:
            return f"{CUSTOM}/{version}"
    raise NotServed(f"{CUSTOM} is served in no version that is known ({', '.join(CUSTOM_VERSIONS)})")


def _versions(body: bytes) -> frozenset[str]:
    return frozenset(entry.version for entry in decoder(_ApiGroup).decode(body).versions or ())


def custom_samples(body: bytes) -> tuple[CustomSample, ...]:
    """The items of a MetricValueList, of either version; ValueError or InvalidObject if one is unusable."""
    return _plausible(decoder(_CustomList).decode(body).items or (), custom_sample)


def external_samples(body: bytes) -> tuple[ExternalSample, ...]:
    """The items of an ExternalMetricValueList; ValueError or InvalidObject if one is unusable."""
    return _plausible(decoder(_ExternalList).decode(body).items or (), external_sample)


def custom_values(body: bytes) -> tuple[wire.MetricValue, ...]:
    """As `custom_samples`, but the items as they came, for who passes them on."""
    items = decoder(_CustomList).decode(body).items or ()
    _plausible(items, custom_sample)
    return tuple(items)


def external_values(body: bytes) -> tuple[wire.ExternalMetricValue, ...]:
    """As `external_samples`, but the items as they came, for who passes them on."""
    items = decoder(_ExternalList).decode(body).items or ()
    _plausible(items, external_sample)
    return tuple(items)


def _plausible(items: Sequence[T], read: Callable[[T], R]) -> tuple[R, ...]:
    found: list[R] = []
    for index, item in enumerate(items):
        try:
            sample = read(item)
        except InvalidObject as error:
            raise InvalidObject(f"items[{index}].{error}") from error
        if sample.milli < 0:
            raise InvalidObject(f"items[{index}].value: {str(item.value)[:64]} is negative")
        found.append(sample)
    return tuple(found)
