"""Resource requests of pods: the denominator of utilization.

Source: Kubernetes HPA 1.36, replica arithmetic 6.3, with pod-level resources on (beta since 1.34).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from fedhpa.api import wire
from fedhpa.api.errors import InvalidObject, InvalidQuantity
from fedhpa.api.quantity import parse_milli

K = TypeVar("K")
V = TypeVar("V")
NamedRequests = tuple[str, Mapping[str, int]]

_INTERN_LIMIT: Final = 65_536
# Characters of a text that is interned, and of a whole set of labels or requests. Kubernetes' names and the
# sets of a workload are shorter. Longer ones of a hostile member would occupy the memory for good.
MAX_INTERNED_TEXT: Final = 253
MAX_INTERNED_SET: Final = 2048
_NO_AMOUNTS: Final[Mapping[str, int]] = {}


class PodRequests(msgspec.Struct, frozen=True, gc=False):
    """The requests of one pod in milli-units; pods with equal requests share one object.

    `containers` are the ordinary containers, then the init containers that restart always: name and
    requests. `pod_level` holds the effective requests of a pod that sets spec.resources.requests, else None.
    """

    containers: tuple[NamedRequests, ...] = ()
    pod_level: Mapping[str, int] | None = None


class SharedTexts(dict[str, str]):
    """Equal texts as one object: `texts[text]`. Long ones are returned as they are.

    sys.intern would keep every text for ever on Python 3.12.
    """

    def __missing__(self, text: str) -> str:
        if len(text) <= MAX_INTERNED_TEXT:
            intern_value(self, text, text)
        return text


TEXTS: Final = SharedTexts()
_request_sets: dict[tuple[tuple[str, int], ...], PodRequests] = {}
_amount_sets: dict[tuple[tuple[str, wire.RawQuantity], ...], Mapping[str, int]] = {}


def shared_requests(spec: wire.PodSpec) -> PodRequests:
    """Returns the requests of a pod; equal requests are one object. Raises InvalidObject."""
    counted = (
        *_named("containers", spec.containers),
        *_named("initContainers", spec.initContainers, restarting=True),
    )
    if spec.resources is not None and any(map(_is_pod_level, spec.resources.requests or ())):
        return PodRequests(counted, _effective(spec))
    # Equal mappings are one object, and the entry keeps them alive: their ids identify them.
    key = tuple((name, id(milli)) for name, milli in counted)
    found = _request_sets.get(key)
    if found is None:
        found = PodRequests(counted)
        if sum(len(name) for name, _ in key) <= MAX_INTERNED_SET:
            intern_value(_request_sets, key, found)
    return found


def amounts(quantities: Mapping[str, wire.RawQuantity] | None, field: str) -> Mapping[str, int]:
    """Returns milli-units by resource. Raises InvalidObject naming `field` and the resource."""
    if not quantities:
        return _NO_AMOUNTS
    found = {}
    for resource, quantity in quantities.items():
        try:
            found[TEXTS[resource]] = parse_milli(quantity)
        except InvalidQuantity as error:
            raise InvalidObject(f"{field}.{resource}: {error}") from error
    return found


def intern_value(table: dict[K, V], key: K, value: V) -> None:
    """Intern a value. The limit guards against labels or requests that differ for every pod."""
    if len(table) >= _INTERN_LIMIT:
        table.clear()
    table[key] = value


def _shared_amounts(quantities: Mapping[str, wire.RawQuantity] | None) -> Mapping[str, int]:
    if not quantities:
        return _NO_AMOUNTS
    key = tuple(quantities.items())
    found = _amount_sets.get(key)
    if found is None:
        found = amounts(quantities, "requests")
        if sum(len(name) + len(str(value)) for name, value in key) <= MAX_INTERNED_SET:
            intern_value(_amount_sets, key, found)
    return found


def _named(
    field: str, containers: Sequence[wire.Container] | None, *, restarting: bool = False
) -> list[NamedRequests]:
    return [
        (TEXTS[container.name], _requests_of(container, field, index))
        for index, container in enumerate(containers or ())
        if not restarting or container.restartPolicy == "Always"
    ]


def _requests_of(container: wire.Container, field: str, index: int) -> Mapping[str, int]:
    try:
        return _shared_amounts(container.resources.requests if container.resources else None)
    except InvalidObject as error:
        raise InvalidObject(f"spec.{field}[{index}].resources.{error}") from error


def _is_pod_level(resource: str) -> bool:
    return resource in ("cpu", "memory") or resource.startswith("hugepages-")


def _effective(spec: wire.PodSpec) -> Mapping[str, int]:
    """Returns what the scheduler reserves: containers or start-up peak, then pod level, then overhead."""
    total: dict[str, int] = {}
    for _, milli in _named("containers", spec.containers):
        _add(total, milli)
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for index, container in enumerate(spec.initContainers or ()):
        milli = _requests_of(container, "initContainers", index)
        if container.restartPolicy == "Always":
            _add(total, milli)
            _add(sidecars, milli)
            _raise_to(peak, sidecars)
        else:
            running = dict(sidecars)
            _add(running, milli)
            _raise_to(peak, running)
    _raise_to(total, peak)
    pod_level = amounts(spec.resources.requests, "spec.resources.requests") if spec.resources else _NO_AMOUNTS
    total.update({resource: milli for resource, milli in pod_level.items() if _is_pod_level(resource)})
    _add(total, amounts(spec.overhead, "spec.overhead"))
    return total


def _add(total: dict[str, int], milli: Mapping[str, int]) -> None:
    for resource, amount in milli.items():
        total[resource] = total.get(resource, 0) + amount


def _raise_to(total: dict[str, int], milli: Mapping[str, int]) -> None:
    for resource, amount in milli.items():
        total[resource] = max(total.get(resource, 0), amount)
