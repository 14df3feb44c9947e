"""The custom and external metrics of a member: the paths of the requests, and validation of the answers.

Source of the requests: Kubernetes HPA 1.36, metrics APIs 15. An answer with an implausible value (missing,
negative, not a quantity) is rejected as a whole, because it would scale down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from fedhpa.api import wire
from fedhpa.api.errors import ApiError, InvalidObject, MetricsUnavailable
from fedhpa.api.json import GROUP, check_discovery, decode_json, list_items
from fedhpa.kube import NOT_FOUND, ApiGroup, group_path, segment
from fedhpa.members.lists import SharedLists, Upstream
from fedhpa.members.slow_lists import Again
from fedhpa.scaling import CustomSample, ExternalSample, custom_sample, external_sample

T = TypeVar("T", wire.MetricValue, wire.ExternalMetricValue)
R = TypeVar("R", CustomSample, ExternalSample)

CUSTOM: Final = "custom.metrics.k8s.io"
EXTERNAL: Final = "external.metrics.k8s.io"
EXTERNAL_VERSION: Final = f"{EXTERNAL}/v1beta1"
# In order of preference: v1beta2 distinguishes the selector of objects from that of the metric.
CUSTOM_VERSIONS: Final = ("v1beta2", "v1beta1")
# A change of the served version is noticed after this long.
VERSION_SECONDS: Final = 60.0
NO_CUSTOM_API: Final = f"no custom metrics API ({CUSTOM}) registered"


class NotServed(MetricsUnavailable):
    """The member does not serve the metrics API at all, so it cannot have the metric."""


class _Custom(wire.MetricValue, frozen=True, gc=False, kw_only=True):
    value: wire.RawQuantity  # required: a missing value is not zero


class _External(wire.ExternalMetricValue, frozen=True, gc=False, kw_only=True):
    value: wire.RawQuantity


def pods_path(api_version: str, namespace: str, metric: str) -> str:
    """Returns the path of a metric of all pods of a namespace; a labelSelector selects among them."""
    return object_path(api_version, namespace, "pods", "*", metric)


def object_path(api_version: str, namespace: str, resource: str, name: str, metric: str) -> str:
    """Returns the path of a metric of one object; `resource` is like "deployments.apps".

    Kubernetes' HPA uses its own namespace in the path, also for cluster-scoped kinds.
    """
    rest = "/".join(segment(part) for part in (namespace, resource, name, metric))
    return f"{group_path(api_version)}/namespaces/{rest}"


def namespace_path(api_version: str, namespace: str, metric: str) -> str:
    """Returns the path of a metric of a namespace itself."""
    return f"{group_path(api_version)}/namespaces/{segment(namespace)}/metrics/{segment(metric)}"


def external_path(namespace: str, metric: str) -> str:
    """Returns the path of an external metric."""
    return f"{group_path(EXTERNAL_VERSION)}/namespaces/{segment(namespace)}/{segment(metric)}"


async def custom_version(lists: SharedLists, member: Upstream, again: Again | None = None) -> str:
    """Returns the apiVersion in which a member serves custom metrics, from its discovery.

    A caller that comes `again` does not wait for a slow member, as in `SharedLists.get`.

    Raises NotServed if the member serves no known version, and MetricsUnavailable or MemberUnavailable as any
    call.
    """
    try:
        if again is not None:
            again = Again(again.seconds, 2 * VERSION_SECONDS)
        path = f"/apis/{CUSTOM}"
        served = await lists.get(member, path, None, _versions, max_age=VERSION_SECONDS, again=again)
    except MetricsUnavailable as error:
        if isinstance(error.__cause__, ApiError) and error.__cause__.status == NOT_FOUND:
            raise NotServed(NO_CUSTOM_API) from None
        raise
    for version in CUSTOM_VERSIONS:
        if version in served.value:
            return f"{CUSTOM}/{version}"
    raise NotServed(f"{CUSTOM} is served in no version that is known ({', '.join(CUSTOM_VERSIONS)})")


def _versions(body: bytes) -> frozenset[str]:
    check_discovery(body, GROUP)
    return frozenset(entry.version for entry in decode_json(body, ApiGroup).versions or ())


def custom_samples(body: bytes) -> tuple[CustomSample, ...]:
    """Returns the items of a MetricValueList of either version. Raises ValueError or InvalidObject."""
    return _plausible(_custom_items(body), custom_sample)


def external_samples(body: bytes) -> tuple[ExternalSample, ...]:
    """Returns the items of an ExternalMetricValueList. Raises ValueError or InvalidObject."""
    return _plausible(_external_items(body), external_sample)


def custom_values(body: bytes) -> tuple[wire.MetricValue, ...]:
    """Validates like `custom_samples` and returns the items unchanged, to be passed on."""
    items = _custom_items(body)
    _plausible(items, custom_sample)
    return tuple(items)


def external_values(body: bytes) -> tuple[wire.ExternalMetricValue, ...]:
    """Validates like `external_samples` and returns the items unchanged, to be passed on."""
    items = _external_items(body)
    _plausible(items, external_sample)
    return tuple(items)


def _custom_items(body: bytes) -> Sequence[_Custom]:
    return list_items(body, _Custom, "MetricValueList", *(f"{CUSTOM}/{one}" for one in CUSTOM_VERSIONS))


def _external_items(body: bytes) -> Sequence[_External]:
    return list_items(body, _External, "ExternalMetricValueList", EXTERNAL_VERSION)


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
