"""The controllers: the Leases that somebody must hold."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from fedhpa.doctor.checks.hub import names, seen
from fedhpa.doctor.findings import Finding, NotChecked, Result
from fedhpa.doctor.observations import Leadership, Lease, Problem

CONTROLLER: Final = "fedhpa-controller"
CLUSTERS_LEASE: Final = "fedhpa-controller-clusters"
CERTIFICATES_LEASE: Final = "fedhpa-controller-certificates"
_SHARD: Final = re.compile(r"fedhpa-controller-(cron-)?(\d{1,4})-of-(\d{1,4})")
_SHOW: Final = "kubectl get leases -A"
_FLAG: Final = "kubectl -n {} get deployment fedhpa-controller -o yaml"
_KINDS: Final = {False: "federatedhpa", True: "cronfederatedhpa"}


def check_leadership(found: Leadership, namespace: str, wanted: Sequence[str]) -> Iterator[Result]:
    """Yields a finding for each kind of controller that nobody runs.

    `wanted` are the values of --controllers with objects on the hub.
    """
    if isinstance(found.leases, Problem):
        yield NotChecked("the Leases of the controller", seen(found.leases))
        return
    shards: dict[bool, dict[int, dict[int, Lease]]] = {False: {}, True: {}}
    for lease in found.leases:
        if (match := _SHARD.fullmatch(lease.name)) and lease.is_held:
            shards[bool(match[1])].setdefault(int(match[3]), {})[int(match[2])] = lease
    if not any(shards.values()):
        yield _nobody(found, namespace)
        return
    for is_cron, name in _KINDS.items():
        yield from _kind(shards[is_cron], name, namespace, name in wanted)
    yield from _not_held(found.leases, CLUSTERS_LEASE, "clusters-not-kept", namespace)
    if found.manages_certificates or any(each.name == CERTIFICATES_LEASE for each in found.leases):
        yield from _not_held(found.leases, CERTIFICATES_LEASE, "certificates-not-renewed", namespace)


def _nobody(found: Leadership, namespace: str) -> Result:
    assert not isinstance(found.leases, Problem)
    known = [each for each in found.leases if _SHARD.fullmatch(each.name)]
    if not known and found.is_deciding:
        return NotChecked("the Leases of the controller", "a controller decides without a Lease")
    what = f"{names(_state(each) for each in known)}." if known else "No Lease of a controller exists."
    command = f"kubectl -n {namespace} get pods -l app.kubernetes.io/component=controller"
    return Finding("controller-not-running", CONTROLLER, what, command)


def _state(lease: Lease) -> str:
    if not lease.holder:
        return f"{lease.name} is free"
    if lease.age is None:
        return f"{lease.name} was never renewed"
    return f"{lease.name} was renewed {lease.age:.0f} s ago by {lease.holder}"


def _kind(held: dict[int, dict[int, Lease]], name: str, namespace: str, is_wanted: bool) -> Iterator[Finding]:
    if not held:
        if is_wanted:
            what = f"The hub has objects for the controller {name}, but nobody holds a Lease of it."
            yield Finding(
                f"{name}-controller-not-running",
                CONTROLLER,
                f"{what} --controllers may lack it.",
                _FLAG.format(namespace),
            )
        return
    if len(held) > 1:
        what = f"Leases of {' and of '.join(map(str, sorted(held)))} shards are held."
        yield Finding("controller-shards-differ", name, what, _SHOW)
        return
    ((count, leases),) = held.items()
    free = [shard for shard in range(min(count, 1_000)) if shard not in leases]
    if free:
        what = f"Nobody holds the Leases of the shards {names(free)} of {count}."
        yield Finding("controller-shard-not-led", name, what, _SHOW)


def _not_held(leases: Sequence[Lease], name: str, finding: str, namespace: str) -> Iterator[Finding]:
    """Yields this finding if no process holds the Lease."""
    lease = next((each for each in leases if each.name == name), None)
    if lease is None or not lease.is_held:
        what = "No such Lease exists." if lease is None else f"Nobody renews it: {_state(lease)}."
        command = f"kubectl -n {namespace} logs -l app.kubernetes.io/component=controller"
        yield Finding(finding, name, what, command)
