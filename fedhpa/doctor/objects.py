"""The objects of our kinds: are they Ready, what is wrong with their targets, owners and metrics."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from enum import StrEnum
from shlex import quote
from typing import Any, Final

from controller.cronfederatedhpa import is_run_by_karmada
from controller.hub_check import ACTIVE_SECONDS, KARMADA_MANAGER, status_written
from fedhpa.api.autoscalers import HPA_KIND, Autoscaler, Target, from_json, from_stored
from fedhpa.api.cronfederatedhpa import KIND as CRON_KIND
from fedhpa.api.errors import ApiError, InvalidObject
from fedhpa.api.federatedhpa import GROUP, KIND
from fedhpa.api.free_json import Json, at, condition, entries, text_at, time_at
from fedhpa.api.member_hpas import DELETION_WAITS, MANAGED_BY, MANAGER
from fedhpa.api.taints import LEAVING
from fedhpa.decision import PLACEMENT_UNREADABLE, PUBLISHED
from fedhpa.doctor.report import names
from fedhpa.doctor.session import Cause, Problem, Session
from fedhpa.doctor.site import DIRECT, KARMADA, OUR_KINDS, Site, propagation_of
from fedhpa.kube import resource_path

# Targets that one run looks for. Each costs a request to the hub, and one to a member or more.
MAX_TARGETS: Final = 200
SHORT: Final = {KIND: "fhpa", CRON_KIND: "cronfhpa"}
# A controller removes its finalizers within a minute of the deletion.
DELETION_SECONDS: Final = 120.0
DRY_RUN: Final = "DryRun"
ON_HUB: Final = "the hub"
_SWITCH: Final = {KIND: "federatedHorizontalPodAutoscaler", CRON_KIND: "cronFederatedHorizontalPodAutoscaler"}
# Conditions, by type and status, that are findings beside Ready: scaling goes on.
_CONDITIONS: Final = {
    (PUBLISHED, "False"): "placement-not-published",
    (PLACEMENT_UNREADABLE, "True"): "placement-not-followed",
}
# Metrics by the field of their source, with the API that lists their names.
_NAMES: Final = {
    "pods": "/apis/custom.metrics.k8s.io/v1beta2",
    "object": "/apis/custom.metrics.k8s.io/v1beta2",
    "external": "/apis/external.metrics.k8s.io/v1beta1",
}
# The active autoscalers of each target, each with the server that it is on, "" for objects of our kinds.
_Owners = dict[Target, list[tuple[str, Autoscaler]]]


class Place(StrEnum):
    """The presence of a target on one server, or on several."""

    FOUND = "found"
    ABSENT = "absent"
    UNKNOWN = "unknown"
    NO_KIND = "no kind"
    NO_SCALE = "no scale"


class Scaled:
    """A stored object of ours, with its target and its name for people."""

    def __init__(self, site: Site, own: Autoscaler, raw: Json) -> None:
        self.own, self.raw, self.target = own, raw, own.target
        self.version = text_at(raw, "spec", "scaleTargetRef", "apiVersion")
        self.subject = f"{SHORT[own.kind]} {own.namespace}/{own.name}"
        self.shown = f"{self.target.kind} {self.target.name}"
        self.propagation = propagation_of(raw)
        self.places: tuple[Place, ...] = (Place.UNKNOWN, Place.UNKNOWN)
        self._commands, self._report = site.commands, site.report

    def add(self, kind: str, fix: str = "", /, **facts: Any) -> None:
        """Adds a finding about the object."""
        self._report.add(kind, self.subject, fix, target=self.shown, **facts)

    def patched(self, patch: Json | list[Json]) -> str:
        """Returns the command that changes the object by a patch."""
        words = f"-n {{}} patch {SHORT[self.own.kind]} {{}}"
        return self._commands.patched(words, self.own.namespace, self.own.name, patch=patch)


async def check_objects(site: Site) -> None:
    """Adds what is wrong with the objects. One that is not Ready for another reason has its own words."""
    objects: list[Scaled] = []
    contested: set[str] = set()
    for plural, kind in zip(OUR_KINDS, SHORT, strict=True):
        found = site.lists[plural]
        if found.problem:
            if found.problem.cause is not Cause.ABSENT:
                site.skip(f"the {kind}s", found.problem)
            continue
        site.report.counts[f"{kind}s"] = len(found)
        if acted := [_name(raw) for raw in found if _is_karmadas(site, kind, raw)]:
            contested |= {f"{SHORT[kind]} {name}" for name in acted}
            site.add("karmada-controller-active", f"{kind}s", objects=names(acted), controller=_SWITCH[kind])
        for raw in found:
            if (own := from_json(kind, raw)) is not None:
                objects.append(Scaled(site, own, raw))
            else:
                advice = "Write spec.scaleTargetRef anew; the webhook refuses such an object."
                site.add("object-not-ready", f"{SHORT[kind]} {_name(raw)}", advice, what="It cannot be read.")
    await _find_targets(site, objects)
    owners, told = _owners(site, objects), set[Target]()
    for each in objects:
        before = len(site.report.findings)
        if _is_leaving(site, each):
            continue
        await _check_target(site, each)
        if each.target not in told and _second_owner(site, each, owners):
            told.add(each.target)  # one finding for each target
        _status(each)
        if each.own.kind == KIND:
            await _check_external(site, each)
        if len(site.report.findings) == before and each.subject not in contested:
            await _check_ready(site, each)


def _name(raw: Json) -> str:
    return f"{text_at(raw, 'metadata', 'namespace')}/{text_at(raw, 'metadata', 'name')}"


def _is_karmadas(site: Site, kind: str, raw: Json) -> bool:
    """True if Karmada's controller manager wrote the status a moment ago."""
    try:
        if kind == CRON_KIND:
            return is_run_by_karmada(raw, site.now)
        written = status_written(raw, KARMADA_MANAGER)
        return written is not None and 0 <= site.now - written < ACTIVE_SECONDS
    except (InvalidObject, AttributeError, TypeError, KeyError):
        return False


def _is_leaving(site: Site, found: Scaled) -> bool:
    """Returns if an object was deleted that a finalizer of ours keeps; it is a finding after a while."""
    deleted = time_at(found.raw, "metadata", "deletionTimestamp")
    finalizers = at(found.raw, "metadata", "finalizers") or ()
    if deleted is None or not any(str(each).startswith(f"{GROUP}/") for each in finalizers):
        return False
    if site.now - deleted > DELETION_SECONDS:
        waits = f" It waits: {DELETION_WAITS}." if found.own.kind == KIND else ""
        found.add("object-not-deleted", seconds=f"{site.now - deleted:.0f}", waits=waits)
    return True


def _status(found: Scaled) -> None:
    """Adds what the status says beside Ready."""
    moves = [
        f"{text_at(one, 'name')}: {one['waitsFor']}"
        for one in entries(found.raw, "status", "clusters")
        if one.get("membership") == LEAVING and one.get("waitsFor")
    ]
    if moves:
        found.add("replicas-wait", moves=names(moves))
    for one in entries(found.raw, "status", "conditions"):
        kind = _CONDITIONS.get((text_at(one, "type"), text_at(one, "status")))
        if kind and one.get("reason") != DRY_RUN:
            found.add(kind, message=text_at(one, "message"))


async def _find_targets(site: Site, objects: Sequence[Scaled]) -> None:
    """Looks for the targets of objects on the hub and in the members, each target once."""
    wanted = {each.target: each for each in objects}
    if len(wanted) > MAX_TARGETS:
        site.skip("the targets", f"{len(wanted) - MAX_TARGETS} targets are beyond the limit of one run")
    chosen = list(wanted.values())[:MAX_TARGETS]
    on_hub, in_members = await asyncio.gather(
        asyncio.gather(*(_exists(site.hub, each) for each in chosen)),
        asyncio.gather(*(_in_members(site, index, each) for index, each in enumerate(chosen))),
    )
    places = {one.target: found for one, *found in zip(chosen, on_hub, in_members, strict=True)}
    for each in objects:
        each.places = tuple(places.get(each.target, each.places))


async def _check_target(site: Site, found: Scaled) -> None:
    """Adds the finding about the target of an object, if there is one."""
    hub, members = found.places
    seen = {KARMADA: {hub}, DIRECT: {members}}.get(found.propagation, {hub, members})
    if seen == {Place.NO_KIND}:
        await _unknown_kind(site, found)
    elif Place.NO_SCALE in seen and Place.FOUND not in seen:
        found.add("target-kind-unscalable")
    elif seen <= {Place.ABSENT, Place.NO_KIND}:
        where = {DIRECT: "in no member", KARMADA: "not on the hub"}
        found.add("target-missing", where=where.get(found.propagation, "neither on the hub nor in a member"))
    elif found.propagation == DIRECT and hub is Place.FOUND and not found.target.is_federatedhpa:
        # Karmada deletes the copies in the members with the template, so no deletion is proposed.
        found.add("target-on-hub")


async def _unknown_kind(site: Site, found: Scaled) -> None:
    """Adds that no server has a kind, with the command that writes the served one of that name."""
    kinds: dict[str, str] = {}
    for session in (site.hub, *filter(None, site.sessions)) if found.version else ():
        answer = await session.get(resource_path(found.version, KIND).rpartition("/")[0])
        for each in entries(answer, "resources"):
            if "/" not in text_at(each, "name"):
                kinds[text_at(each, "kind").lower()] = text_at(each, "kind")
    close = get_close_matches(found.target.kind.lower(), kinds, 1)
    fix = found.patched({"spec": {"scaleTargetRef": {"kind": kinds[close[0]]}}}) if close else ""
    found.add("target-kind-unknown", fix, kind=found.target.kind, version=found.version or "no apiVersion")


async def _in_members(site: Site, start: int, found: Scaled) -> Place:
    """Returns FOUND as soon as one member has the target. Each target begins with another member."""
    if found.target.is_federatedhpa:
        return Place.ABSENT
    sessions, places = site.sessions, set()
    for offset in range(len(sessions)):
        session = sessions[(start + offset) % len(sessions)]
        places.add(Place.UNKNOWN if session is None else await _exists(session, found))
        if Place.FOUND in places:
            return Place.FOUND
    order = (Place.UNKNOWN, Place.NO_SCALE, Place.ABSENT, Place.NO_KIND)
    return next((place for place in order if place in places), Place.UNKNOWN)


async def _exists(session: Session, found: Scaled) -> Place:
    target = found.target
    try:
        async with session.mapping:
            version = found.version or "v1"
            resource = await session.mapper.resolve(version, target.kind, deadline=session.seconds)
        if not resource.scale and not target.is_federatedhpa:
            return Place.NO_SCALE
        # The hub's token may read scales in a member, but not single workloads.
        path = resource.path(target.namespace, target.name, "scale" if resource.scale else "")
    except InvalidObject:
        return Place.NO_KIND
    except (ApiError, ValueError):
        return Place.UNKNOWN
    answer = await session.request("GET", path)
    if not isinstance(answer, Problem):
        return Place.FOUND
    return Place.ABSENT if answer.cause is Cause.ABSENT else Place.UNKNOWN


def _owners(site: Site, objects: Sequence[Scaled]) -> _Owners:
    stored: list[tuple[str, Autoscaler | None]] = [("", each.own) for each in objects]
    for where, items in ((ON_HUB, site.autoscalers), *((one.name, one.autoscalers) for one in site.members)):
        # A member whose rights are incomplete has a finding of its own.
        if items.problem and (where == ON_HUB or items.problem.cause is not Cause.FORBIDDEN):
            site.skip("other autoscalers", f"{where}: {items.problem}")
        # Mode Distributed scales a target by HPAs of ours in the members.
        stored += [
            (where, from_stored(HPA_KIND, item))
            for item in items
            if where == ON_HUB or (item.metadata.labels or {}).get(MANAGED_BY) != MANAGER
        ]
    found: _Owners = defaultdict(list)
    for where, one in stored:
        if one is not None and one.active:
            found[one.target].append((where, one))
    return found


def _second_owner(site: Site, found: Scaled, owners: _Owners) -> bool:
    """Adds a finding if others scale the target, too. Rules of one target are planned together."""
    own = found.own
    others = [
        (where, one)
        for where, one in (owners.get(own.target, ()) if own.active else ())
        if (one.kind, one.name) != (own.kind, own.name) and not one.kind == own.kind == CRON_KIND
    ]
    if not others:
        return False
    shown = [f"{one.kind} {one.namespace}/{one.name}{where and f' in {where}'}" for where, one in others]
    contexts, commands = {one.name: one.context for one in site.members}, []
    for where, one in others:
        context = contexts.get(where, "")
        if one.kind == HPA_KIND and (where == ON_HUB or context):
            words = "-n {} delete hpa {}"
            commands.append(site.commands.kubectl(words, one.namespace, one.name, member=context))
    fix = " && ".join(commands) if len(commands) == len(others) else ""
    found.add("second-owner", fix, others=names(shown))
    return True


def _metrics(found: Scaled) -> Iterator[tuple[int, str, Json]]:
    """Yields each metric with its place, the field of its source, and that source."""
    for place, each in enumerate(entries(found.raw, "spec", "metrics")):
        field = text_at(each, "type")[:1].lower() + text_at(each, "type")[1:]
        if isinstance(source := each.get(field), dict):
            yield place, field, source


async def _check_external(site: Site, found: Scaled) -> None:
    """Adds a finding if all members answer the same value of an external metric, which is then summed up."""
    sessions = list(filter(None, site.sessions))
    if len(sessions) < 2 or text_at(found.raw, "spec", "mode") == "Distributed":
        return
    for place, field, source in _metrics(found):
        name = text_at(source, "metric", "name")
        if field != "external" or source.get("aggregation") not in (None, "Sum") or not name:
            continue
        labels = at(source, "metric", "selector", "matchLabels")
        pairs = labels.items() if isinstance(labels, dict) else ()
        chosen = ",".join(f"{key}={value}" for key, value in pairs)
        path = resource_path("external.metrics.k8s.io/v1beta1", name, found.own.namespace)
        answers = await asyncio.gather(*(one.get(path, labelSelector=chosen) for one in sessions))
        values = {tuple(str(each.get("value")) for each in entries(one, "items")) for one in answers}
        value = values.pop()
        if values or not value or set(value) <= {"0"}:
            continue
        step = {"op": "add", "path": f"/spec/metrics/{place}/external/aggregation", "value": "Max"}
        facts = {"clusters": len(sessions), "values": names(value), "metric": name}
        found.add("external-counted-often", found.patched([step]), **facts)


async def _check_ready(site: Site, found: Scaled) -> None:
    """Adds a finding if an object is not Ready, with its own reason or the cause that is known."""
    ready = condition(found.raw, "Ready")
    if ready.get("status") == "True":
        return
    reason, message = text_at(ready, "reason"), text_at(ready, "message")
    if "missing request for" in message:
        found.add("requests-missing", _requests(site, found, message), what=message)
    elif not await _unknown_metric(site, found) and not _is_unattended(site, found.own.kind):
        what = f"{reason}: {message}" if ready else "It has no status yet: no controller has looked at it."
        words = f"explain {SHORT[found.own.kind]} {{}} -n {{}}"
        advice = f"See why: {site.commands.fedhpa(words, found.own.name, found.own.namespace)}"
        found.add("object-not-ready", advice, what=what)


def _is_unattended(site: Site, kind: str) -> bool:
    """True if a finding says that nobody runs the controller of a kind, so that no status is renewed."""
    has = site.report.has
    return has("controller-not-running") or has("lease-not-held", f"{kind.lower()} controller")


def _requests(site: Site, found: Scaled, message: str) -> str:
    """Returns the command that sets a missing request of a container, or the advice."""
    words = message.partition("missing request for ")[2].split()
    resource, container = words[0], words[3] if words[1:3] == ["in", "container"] else ""
    chosen = f" -c {quote(container)}" if container else ""
    amount = {"cpu": "100m", "memory": "128Mi"}.get(resource, "1")
    target = f"{quote(found.target.kind.lower())}/{quote(found.target.name)}"
    requests = f"--requests={quote(resource)}={amount}"
    set_words = f"-n {quote(found.own.namespace)} set resources {target}{chosen} {requests}"
    contexts = [""] if found.propagation == KARMADA else [one.context for one in site.members]
    if found.propagation != KARMADA and not (contexts and all(contexts)):
        return f"In each member: kubectl {set_words}"
    return " && ".join(site.commands.kubectl(set_words, member=context) for context in contexts)


async def _unknown_metric(site: Site, found: Scaled) -> bool:
    """Adds a finding if no server has a metric of an object that cannot be scaled. Returns if it did."""
    if condition(found.raw, "ScalingActive").get("status") != "False":
        return False
    for place, field, source in _metrics(found):
        if field in ("resource", "containerResource"):
            name, path, known = text_at(source, "name"), "name", {"cpu", "memory"}
        else:
            name, path = text_at(source, "metric", "name"), "metric/name"
            asked = (one.get(_NAMES[field]) for one in site.sessions if one and field in _NAMES)
            answers = await asyncio.gather(*asked)
            served = (text_at(each, "name") for one in answers for each in entries(one, "resources"))
            known = {each.rpartition("/")[2] for each in served}
        if name in known or not known:
            continue
        close = get_close_matches(name, known, 1)
        step = {"op": "replace", "path": f"/spec/metrics/{place}/{field}/{path}", "value": "".join(close)}
        fix = found.patched([step]) if close else ""
        found.add("metric-unknown", fix, metric=name, known=names(sorted(known)))
        return True
    return False
