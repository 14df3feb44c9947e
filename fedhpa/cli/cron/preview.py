"""`fedhpa cron preview` shows what the rules of a target will do in the next seven days."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from itertools import islice
from typing import Any, Final, NamedTuple

from controller.cronfederatedhpa import PlannedTarget, planned_targets, read_target, values_of
from fedhpa.api.errors import ApiError, ConfigError, FedHPAError
from fedhpa.api.federatedhpa import API_VERSION
from fedhpa.api.member_sources import ONLY_CLUSTERS, MemberSources
from fedhpa.api.times import format_time
from fedhpa.cli.cron.lines import REFUSED, Line, known, line_texts, lines_of, shown
from fedhpa.cli.files import read_items
from fedhpa.cli.hub_client import hub_client, hub_error
from fedhpa.cli.preview import admitted
from fedhpa.cron import affected_times
from fedhpa.cron.execution.model import ObservedTarget, Values
from fedhpa.cron.execution.simulation import UNKNOWN, Simulation
from fedhpa.kube import SYSTEM, ApiClient, resource_path

DAYS: Final = 7
MAX_LINES: Final = 1000
# Rules that cannot run and are named.
MAX_PROBLEMS: Final = 10
# Clock changes are told further ahead than executions, because people prepare for them.
CLOCK_CHANGE_DAYS: Final = 366
MAX_CLOCK_CHANGES: Final = 5
KIND: Final = "CronFederatedHPA"
DEFAULT_NAMESPACE: Final = "default"
DEADLINE_SECONDS: Final = 10.0

Object = dict[str, Any]


class PreviewedObjects(NamedTuple):
    """The CronFederatedHPAs of one namespace, the names of those to preview, and manifests of targets."""

    raws: dict[str, Object]
    names: tuple[str, ...]
    manifests: tuple[Object, ...] = ()
    notes: tuple[str, ...] = ()


class TargetPreview(NamedTuple):
    """The preview of one target. `end` is the last instant that the lines cover."""

    unit: PlannedTarget
    values: Values
    notes: tuple[str, ...]
    lines: list[Line]
    start: float
    end: float
    complete: bool

    @property
    def conflicts(self) -> int:
        """The number of writes that admission would refuse."""
        return sum(line["action"] == REFUSED for line in self.lines)


def read_manifests(file: str) -> list[Object]:
    """Returns the objects of a YAML or JSON file. Raises ConfigError if none is a CronFederatedHPA."""
    objects = read_items(file)
    for index, one in enumerate(objects):
        metadata = one.get("metadata") if isinstance(one, dict) else None
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise ConfigError(f"--filename={file}: object {index}: metadata.name is missing")
    if not any(one.get("kind") == KIND for one in objects):
        raise ConfigError(f"--filename={file}: has no {KIND}")
    # Times of YAML are strings on the wire.
    return [json.loads(json.dumps(one, default=str)) for one in objects]


def refusals_of(objects: Iterable[Object], namespace: str) -> list[str]:
    """Returns why admission would refuse objects.

    API servers give an object without a namespace that of the request.
    """
    found = []
    for raw in objects:
        if raw["kind"] != KIND:
            continue
        metadata = {"namespace": namespace or DEFAULT_NAMESPACE, **raw["metadata"]}
        message, warnings, _ = admitted(KIND, {**raw, "metadata": metadata})
        if not message:
            # The webhook admits one rule without a name. The schema refuses it.
            unnamed = [index for index, rule in enumerate(raw["spec"]["rules"] or ()) if not rule.get("name")]
            message = f"spec.rules[{unnamed[0]}].name: Required value" if unnamed else ""
        if message:
            remedies = "".join(f"\n  {text}" for text in warnings)
            found.append(f"{KIND} {metadata['name']} would be refused: {message}{remedies}")
    return found


async def previews_of(
    name: str,
    objects: list[Object],
    namespace: str,
    kubeconfig: str,
    context: str,
    sources: MemberSources,
    *,
    offline: bool,
) -> list[TargetPreview]:
    """Returns the previews of a stored object, or without a name of manifests. Raises ConfigError."""
    async with AsyncExitStack() as stack:
        hub, default, note = None, DEFAULT_NAMESPACE, ""
        try:
            if not offline:
                hub, default = await stack.enter_async_context(hub_client(kubeconfig, context))
        except ConfigError as error:
            if name or kubeconfig or context:
                raise
            note = f"the present values are unknown: {error}"
        place, now = namespace or default, SYSTEM.wall()
        if hub is not None and name:
            return await previews(hub, await read_live(hub, place, name, named=bool(namespace)), now, sources)
        return await previews_of_manifests(hub, objects, place, now, note, sources)


async def read_live(hub: ApiClient, namespace: str, name: str, *, named: bool = True) -> PreviewedObjects:
    """Returns an object and all others of its namespace. Raises ConfigError if it does not exist."""
    try:
        raws = await list_crons(hub, namespace)
    except ApiError as error:
        raise hub_error(f"cannot list CronFederatedHPAs in namespace {namespace}", error) from error
    if name not in raws:
        hint = "" if named else ": name its namespace with -n"
        raise ConfigError(f"{KIND} {namespace}/{name} not found{hint}")
    return PreviewedObjects(raws, (name,))


async def list_crons(hub: ApiClient, namespace: str) -> dict[str, Object]:
    """Returns the CronFederatedHPAs of a namespace by name. Raises ApiError."""
    path = resource_path(API_VERSION, "cronfederatedhpas", namespace)
    async with asyncio.timeout(DEADLINE_SECONDS):
        items = (await hub.list(path, dict[str, Any])).items
    return {raw["metadata"]["name"]: raw for raw in items}


async def previews_of_manifests(
    hub: ApiClient | None,
    objects: list[Object],
    namespace: str,
    now: float,
    note: str = "",
    sources: MemberSources = ONLY_CLUSTERS,
) -> list[TargetPreview]:
    """Returns the previews of manifests. `namespace` is that of a manifest without one."""
    by_namespace: dict[str, list[Object]] = {}
    for one in objects:
        one["metadata"].setdefault("namespace", namespace)
        by_namespace.setdefault(one["metadata"]["namespace"], []).append(one)
    found = []
    for place, here in by_namespace.items():
        crons = {one["metadata"]["name"]: one for one in here if one["kind"] == KIND}
        manifests = tuple(one for one in here if one["kind"] != KIND)
        stored, notes = dict[str, Object](), (note,) if note else ()
        if hub is not None and crons:
            try:
                stored = await list_crons(hub, place)
            except (FedHPAError, TimeoutError) as error:
                notes = (f"the stored objects are unknown: {str(error) or 'the hub did not answer'}",)
        raws = stored | {name: _applied(one, stored.get(name), now) for name, one in crons.items()}
        found += await previews(hub, PreviewedObjects(raws, tuple(crons), manifests, notes), now, sources)
    return found


def _applied(changed: Object, stored: Object | None, now: float) -> Object:
    """Returns an object as it is after the file was applied now."""
    edit = {"fieldsV1": {"f:spec": {}}, "time": format_time(float(int(now)))}
    if stored is None:
        metadata = {**changed["metadata"], "creationTimestamp": edit["time"]}
        return {**changed, "metadata": metadata, "status": {}}
    if stored.get("spec") == changed.get("spec"):
        return stored
    edits = [*(stored["metadata"].get("managedFields") or ()), edit]
    metadata = {**stored["metadata"], "managedFields": edits}
    return {**stored, "spec": changed.get("spec") or {}, "metadata": metadata}


async def previews(
    hub: ApiClient | None, objects: PreviewedObjects, now: float, sources: MemberSources = ONLY_CLUSTERS
) -> list[TargetPreview]:
    """Returns the preview of each target of the named objects. Without a hub the values may be unknown.

    A workload that only members have is read in those of the `sources`.
    """
    found = []
    for unit in await planned_targets(hub, objects.raws.values(), objects.names):
        manifest = next((one for one in objects.manifests if _is_target(one, unit)), None)
        target = None
        if manifest is not None:
            target = ObservedTarget(values_of(manifest, unit))
        elif hub is not None:
            target = await read_target(hub, unit, sources, clock=SYSTEM)
        found.append(preview_of(unit, target, now, objects.notes))
    return found


def _is_target(manifest: Object, unit: PlannedTarget) -> bool:
    version, kind = manifest.get("apiVersion", ""), manifest.get("kind", "")
    named = (version.rpartition("/")[0], kind, manifest["metadata"]["name"])
    return named == (unit.target.group, unit.target.kind, unit.target.name)


def preview_of(
    unit: PlannedTarget, target: ObservedTarget | None, now: float, notes: Sequence[str]
) -> TargetPreview:
    """Returns the preview of one target. `target` is None if its values are unknown."""
    said = [*notes, *unit.notes]
    rules = {f"{each.name}/{rule.name}": rule for each in unit.objects for rule in each.rules}
    problems = (f"{name} cannot run: {rule.problem}" for name, rule in rules.items() if rule.problem)
    said += islice(problems, MAX_PROBLEMS)
    tables = {name: rule.timetable for name, rule in rules.items() if rule.timetable is not None}
    changes = affected_times(tables, now, now + CLOCK_CHANGE_DAYS * 86400)
    said += map(str, islice(changes, MAX_CLOCK_CHANGES))
    values: Values = dict.fromkeys(unit.fields, UNKNOWN)
    if unit.record is not None:
        values |= unit.record.applied
    if target is not None and not target.error:
        values |= target.values
    elif target is not None:
        said.append(f"{target.error}; until this is fixed, each execution fails")
    end = now + DAYS * 86400
    steps = Simulation(unit.objects, unit.record, values, now=now, until=end)
    lines = list(islice(lines_of(steps.all(), unit.objects, unit.record), MAX_LINES))
    complete = len(lines) < MAX_LINES and steps.until == end
    return TargetPreview(unit, values, tuple(said), lines, now, end, complete)


def to_json(found: TargetPreview) -> Object:
    """Returns a preview as data."""
    target = found.unit.target
    return {
        "target": {
            "apiVersion": found.unit.api_version,
            "kind": target.kind,
            "namespace": target.namespace,
            "name": target.name,
        },
        "objects": [each.name for each in found.unit.objects],
        "from": format_time(float(int(found.start))),
        "until": format_time(float(int(found.end))),
        "present": known(found.values),
        "notes": list(found.notes),
        "lines": found.lines,
        "conflicts": found.conflicts,
        "complete": found.complete,
    }


def to_text(found: TargetPreview) -> str:
    """Returns a preview as a table."""
    names = ", ".join(each.name for each in found.unit.objects)
    text = f"{found.unit.target} ({KIND} {names})\n  now: {shown(found.values)}\n"
    for window in () if found.unit.record is None else found.unit.record.open:
        text += f"  open: {window.label} until {format_time(window.closes)}: {shown(dict(window.values))}\n"
    text += "".join(f"  note: {note}\n" for note in found.notes)
    rows = [("WHEN", "RULE", "WHAT", "THEN"), *(line_texts(line, found.values) for line in found.lines)]
    if len(rows) == 1:
        return f"{text}  nothing happens until {format_time(float(int(found.end)))}\n"
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=False))
        text += f"  {'  '.join((*cells, row[3]))}\n"
    if not found.complete:
        text += f"  ... and more: only the first {len(found.lines)} lines are shown\n"
    if found.conflicts:
        text += f"  conflicts: {found.conflicts}; admission refuses these writes\n"
    return text
