"""The controllers: the Leases that somebody must hold."""

from __future__ import annotations

import re
from typing import Final

from fedhpa.api.free_json import Json, at, text_at, time_at
from fedhpa.api.rights import CONTROLLER
from fedhpa.doctor.report import names
from fedhpa.doctor.session import Problem
from fedhpa.doctor.site import Site, listed

CLUSTERS_LEASE, CERTIFICATES_LEASE = "fedhpa-controller-clusters", "fedhpa-controller-certificates"
# A still status is written every ten minutes.
RECENT_SECONDS: Final = 900.0
# The number of shards, and what else the names of their Leases end with.
_Division = tuple[int, str]
_SHARD: Final = re.compile(r"fedhpa-controller-(cron-)?(\d{1,4})-of-(\d{1,4})(-by-target)?")


def check_controllers(site: Site) -> None:
    """Adds a finding for each kind of controller that nobody runs."""
    if isinstance(site.leases, Problem):
        site.report.skip("the Leases of the controller", str(site.leases))
        return
    leases = {text_at(each, "metadata", "name"): each for each in site.leases}
    shards: dict[bool, dict[_Division, set[int]]] = {False: {}, True: {}}
    for name, lease in leases.items():
        if (match := _SHARD.fullmatch(name)) and _is_held(site, lease):
            division = int(match[3]), match[4] or ""
            shards[bool(match[1])].setdefault(division, set()).add(int(match[2]))
    if not any(shards.values()):
        known = [_state(site, each) for name, each in leases.items() if _SHARD.fullmatch(name)]
        if not known and _is_deciding(site):
            site.report.skip("the Leases of the controller", "a controller decides without a Lease")
            return
        what = f"{names(known)}." if known else "No Lease of a controller exists."
        site.report.add("controller-not-running", CONTROLLER, what, *site.revived(CONTROLLER))
        return
    for is_cron, kind in ((False, "federatedhpa"), (True, "cronfederatedhpa")):
        _shards(site, shards[is_cron], kind, bool(listed(site.crons if is_cron else site.federated)))
    _lease(site, leases, CLUSTERS_LEASE)
    if site.manages_certificates or CERTIFICATES_LEASE in leases:
        _lease(site, leases, CERTIFICATES_LEASE)


def _is_held(site: Site, lease: Json) -> bool:
    """True if a process holds the Lease, and renewed it lately."""
    renewed, duration = time_at(lease, "spec", "renewTime"), at(lease, "spec", "leaseDurationSeconds") or 15
    # Three durations: the hub writes whole seconds, and a leader may be late once.
    return bool(text_at(lease, "spec", "holderIdentity")) and site.now - (renewed or 0.0) <= 3 * duration


def _state(site: Site, lease: Json) -> str:
    name, holder = text_at(lease, "metadata", "name"), text_at(lease, "spec", "holderIdentity")
    renewed = time_at(lease, "spec", "renewTime")
    if not holder:
        return f"{name} is free"
    since = "never renewed" if renewed is None else f"renewed {site.now - renewed:.0f} s ago"
    return f"{name} was {since} by {holder}"


def _is_deciding(site: Site) -> bool:
    times = (time_at(each, "status", "decision", "time") for each in listed(site.federated))
    return any(abs(site.now - each) < RECENT_SECONDS for each in times if each is not None)


def _shards(site: Site, held: dict[_Division, set[int]], kind: str, is_wanted: bool) -> None:
    """Adds a finding unless exactly the shards of one division are held."""
    if len(held) > 1:
        known = (f"{count} shards{by.replace('-', ' ')}" for count, by in sorted(held))
        what = f"Leases of {' and of '.join(known)} are held."
        advice = "Start all controllers with the same --shards and --shard-by."
        site.report.add("controller-shards-differ", kind, what, advice=advice)
        return
    if not held and is_wanted:
        what = f"The hub has {kind}s, but nobody holds a Lease of their controller."
        advice = f"Start a controller whose --controllers have {kind}, which is so by default."
        site.report.add("lease-not-held", f"{kind} controller", what, advice=advice)
    for (count, _), found in held.items():
        if free := [shard for shard in range(min(count, 1_000)) if shard not in found]:
            what = f"Nobody holds the Leases of the shards {names(free)} of {count}."
            site.report.add("lease-not-held", f"{kind} controller", what, *site.revived(CONTROLLER))


def _lease(site: Site, leases: dict[str, Json], name: str) -> None:
    """Adds a finding if no process holds the Lease."""
    lease = leases.get(name)
    if lease is None or not _is_held(site, lease):
        what = "No such Lease exists." if lease is None else f"Nobody renews it: {_state(site, lease)}."
        site.report.add("lease-not-held", name, what, *site.revived(CONTROLLER))
