"""The metrics of an object, and why it is not Ready."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from difflib import get_close_matches
from shlex import quote
from typing import Final

from fedhpa.api.free_json import Json, at, condition, entries, text_at
from fedhpa.doctor.report import names
from fedhpa.doctor.site import KARMADA, Site
from fedhpa.doctor.targets import SHORT, Scaled
from fedhpa.kube import resource_path

# Metrics by the field of their source, with the API that lists their names.
_NAMES: Final = {
    "pods": "/apis/custom.metrics.k8s.io/v1beta2",
    "object": "/apis/custom.metrics.k8s.io/v1beta2",
    "external": "/apis/external.metrics.k8s.io/v1beta1",
}


def _metrics(found: Scaled) -> Iterator[tuple[int, str, Json]]:
    """Yields each metric with its place, the field of its source, and that source."""
    for place, each in enumerate(entries(found.raw, "spec", "metrics")):
        field = text_at(each, "type")[:1].lower() + text_at(each, "type")[1:]
        if isinstance(source := each.get(field), dict):
            yield place, field, source


async def check_external(site: Site, found: Scaled) -> None:
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
        what = f"All {len(sessions)} clusters answer {names(value)} for the metric {name}, and are summed up."
        step = {"op": "add", "path": f"/spec/metrics/{place}/external/aggregation", "value": "Max"}
        command = found.patched(site.commands, [step])
        site.report.add("external-counted-often", found.subject, what, command)


async def check_ready(site: Site, found: Scaled) -> None:
    """Adds a finding if an object is not Ready, with its own reason or the cause that is known."""
    ready = condition(found.raw, "Ready")
    if ready.get("status") == "True":
        return
    reason, message = text_at(ready, "reason"), text_at(ready, "message")
    if "missing request for" in message:
        _requests(site, found, message)
    elif not await _unknown_metric(site, found):
        what = f"{reason}: {message}" if ready else "It has no status yet: no controller has looked at it."
        words = f"explain {SHORT[found.own.kind]} {quote(found.own.name)} {found.where}"
        advice = f"See why: {site.commands.fedhpa(words)}"
        site.report.add("object-not-ready", found.subject, what, advice=advice)


def _requests(site: Site, found: Scaled, message: str) -> None:
    """Adds the finding that a container of the target has no request, with the command that sets one."""
    words = message.partition("missing request for ")[2].split()
    resource, container = words[0], words[3] if words[1:3] == ["in", "container"] else ""
    chosen = f" -c {quote(container)}" if container else ""
    amount = {"cpu": "100m", "memory": "128Mi"}.get(resource, "1")
    target = f"{quote(found.target.kind.lower())}/{quote(found.target.name)}"
    set_words = f"{found.where} set resources {target}{chosen} --requests={quote(resource)}={amount}"
    contexts = [""] if found.propagation == KARMADA else [one.context for one in site.members]
    commands = [site.commands.kubectl(set_words, context) for context in contexts]
    command = " && ".join(commands) if found.propagation == KARMADA or all(contexts) else ""
    advice = "" if command else f"In each member: kubectl {set_words}"
    site.report.add("requests-missing", found.subject, message, command, advice)


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
        what = f"No server has the metric {name}. There are {names(sorted(known))}."
        close = get_close_matches(name, known, 1)
        step = {"op": "replace", "path": f"/spec/metrics/{place}/{field}/{path}", "value": "".join(close)}
        command = found.patched(site.commands, [step]) if close else ""
        site.report.add("metric-unknown", found.subject, what, command)
        return True
    return False
