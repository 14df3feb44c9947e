"""The controllers: the Leases that somebody must hold."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import Any, Final

from fedhpa.api.free_json import Json, at, text_at, time_at
from fedhpa.api.rights import CONTROLLER
from fedhpa.doctor.report import names
from fedhpa.doctor.site import Site

CLUSTERS_LEASE, CERTIFICATES_LEASE = "fedhpa-controller-clusters", "fedhpa-controller-certificates"
# A still status is written every ten minutes.
RECENT_SECONDS: Final = 900.0
# The number of shards, and what else the names of their Leases end with.
_Division = tuple[int, str]
_SHARD: Final = re.compile(r"fedhpa-controller-(cron-)?(\d{1,4})-of-(\d{1,4})(-by-target)?")


def check_controllers(site: Site) -> None:
    """Adds a finding for each kind of controller that nobody runs."""
    if site.leases.problem:
        site.report.skip("the Leases of the controller", site.leases.problem)
        return
    leases = {text_at(each, "metadata", "name"): each for each in site.leases}
    known: list[str] = []
    kinds = {"": "federatedhpa", "cron-": "cronfederatedhpa"}
    held: dict[str, dict[_Division, set[int]]] = {kind: defaultdict(set) for kind in kinds.values()}
    for name, lease in leases.items():
        if match := _SHARD.fullmatch(name):
            known.append(_state(site, lease))
            if _is_held(site, lease):
                held[kinds[match[1] or ""]][int(match[3]), match[4] or ""].add(int(match[2]))
    if not any(held.values()):
        times = (time_at(each, "status", "decision", "time") for each in site.federated)
        if not known and any(abs(site.now - each) < RECENT_SECONDS for each in times if each is not None):
            site.report.skip("the Leases of the controller", "a controller decides without a Lease")
            return
        what = f"{names(known)}." if known else "No Lease of a controller exists."
        site.report.add("controller-not-running", CONTROLLER, what, *site.revived(CONTROLLER))
        return
    for kind, objects in zip(kinds.values(), (site.federated, site.crons), strict=True):
        _check_shards(site, held[kind], kind, bool(objects))
    for name in (CLUSTERS_LEASE, CERTIFICATES_LEASE):
        found: Json | None = leases.get(name)
        is_wanted = name == CLUSTERS_LEASE or site.manages_certificates or found is not None
        if is_wanted and not _is_held(site, found):
            what = "No such Lease exists." if found is None else f"Nobody renews it: {_state(site, found)}."
            site.report.add("lease-not-held", name, what, *site.revived(CONTROLLER))


def _is_held(site: Site, lease: Any) -> bool:
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


def _check_shards(site: Site, held: dict[_Division, set[int]], kind: str, is_wanted: bool) -> None:
    """Adds a finding unless exactly the shards of one division are held."""
    if len(held) > 1:
        known = (f"{count} shards{by.replace('-', ' ')}" for count, by in sorted(held))
        site.report.add("controller-shards-differ", kind, f"Leases of {' and of '.join(known)} are held.")
        return
    if not held and is_wanted:
        what = f"The hub has {kind}s, but nobody holds a Lease of their controller."
        advice = f"Start a controller whose --controllers have {kind}, which is so by default."
        site.report.add("lease-not-held", f"{kind} controller", what, advice=advice)
    for (count, _), found in held.items():
        if free := [shard for shard in range(min(count, 1_000)) if shard not in found]:
            what = f"Nobody holds the Leases of the shards {names(free)} of {count}."
            site.report.add("lease-not-held", f"{kind} controller", what, *site.revived(CONTROLLER))
