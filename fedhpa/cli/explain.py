"""`fedhpa explain` explains a FederatedHPA from its ScalingRecord, or a CronFederatedHPA from its status.

The right to get both is enough. With --watch the object is read anew once a second at most, and a hub that
goes away for a while ends nothing.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeVar

import typer

from fedhpa.api.default_values import SYNC_PERIOD_SECONDS
from fedhpa.api.errors import ConfigError
from fedhpa.api.free_json import at, entries, time_at
from fedhpa.api.json import convert_json
from fedhpa.api.texts import counted, for_terminal, one_line
from fedhpa.cli.hub_client import find_object, joined, parse_any_target, read_object
from fedhpa.cli.options import HubFlags, Name, with_flags

if TYPE_CHECKING:
    from fedhpa.decision import StoredRecord
    from fedhpa.kube import ApiClient, Clock

T = TypeVar("T")

NO_CONTROLLER: Final = "check that a controller runs and leads: kubectl get leases -A"
# The controller writes a status in which nothing but times moves every ten minutes.
STILL_SECONDS: Final = 600
# Between two looks of --watch.
SECONDS: Final = 1.0


ExplainFormat = Literal["text", "json", "yaml"]


class Explained(NamedTuple):
    """The printed parts of an object: its data (None if there is none) and its text. `note` is for stderr.

    `followed` are the parts whose change prints it again.
    """

    fields: Mapping[str, Any] | None
    text: Callable[[], str]
    note: str
    followed: object


@with_flags()
def explain(
    hub: HubFlags,
    target: str,
    name: Name = "",
    output: ExplainFormat = "text",
    watch: bool = False,
) -> None:
    """Explain why a FederatedHPA has its current replicas, or what the rules of a CronFederatedHPA do.

    The decision is that in the ScalingRecord of the FederatedHPA. A later one that changed nothing is not
    recorded.

    Example: fedhpa explain fhpa web -n shop

    Options:
    target fhpa|cronfhpa: The kind, then its name; or KIND/NAME.
    -o, --output: Output format.
    -w, --watch: Print the explanation again when it changes, until Ctrl-C or deletion.
    """
    kind, name = parse_any_target(joined(target, name), "FederatedHPA")
    read = _explained_cron if kind == "CronFederatedHPA" else _explained

    async def run(api: ApiClient, namespace: str) -> bool:
        raw = await read_object(api, namespace, name, named=bool(hub.namespace), kind=kind)
        if not watch:
            return _print(await read(api, raw), output)
        first: Mapping[str, Any] | None = raw

        async def next_one() -> Explained | None:
            nonlocal first
            found, first = first or await find_object(api, namespace, name, kind), None
            return None if found is None else await read(api, found)

        shown = False

        def show(found: Explained) -> None:
            nonlocal shown
            if shown and output == "text":
                typer.echo()
            shown = _print(found, output) or shown
            sys.stdout.flush()

        await follow(next_one, show, _warn, state=lambda found: found.followed)
        _warn(f"{namespace}/{name} was deleted")
        return False

    if not hub.run(run):
        raise typer.Exit(1)


def _warn(text: str) -> None:
    typer.echo(f"fedhpa: {text}", err=True)


def _print(found: Explained, output: ExplainFormat) -> bool:
    """Prints an object. Returns False if there is nothing yet, which stderr then says."""
    if found.note:
        _warn(found.note)
    if found.fields is None:
        return False
    if output == "text":
        text = found.text()
    elif output == "json":
        text = json.dumps(found.fields, indent=2) + "\n"
    else:
        from fedhpa.api.yaml import print_yaml

        text = print_yaml([found.fields], sort_keys=False)
    typer.echo(text, nl=False)
    return True


async def _explained(hub: ApiClient, raw: Mapping[str, Any]) -> Explained:
    from fedhpa.kube import SYSTEM

    found = await explanation_of(hub, raw, SYSTEM)
    fields = None if found.record is None else found.record.decision
    return Explained(fields, lambda: render(found, SYSTEM.wall()), found.note, explained_parts(found))


async def _explained_cron(hub: ApiClient, raw: Mapping[str, Any]) -> Explained:
    from controller.cronfederatedhpa import planned_targets
    from fedhpa.cli.cron.explain import explanation, explanation_text

    (unit,) = await planned_targets(hub, [raw], [raw["metadata"]["name"]])
    found = explanation(raw, unit)
    note = "" if raw.get("status") else f"{found['object']} has no status yet: {NO_CONTROLLER}"
    return Explained(None if note else found, lambda: for_terminal(explanation_text(found)), note, found)


async def follow(
    read: Callable[[], Awaitable[T | None]],
    show: Callable[[T], None],
    warn: Callable[[str], None],
    *,
    state: Callable[[T], object],
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Show the object whenever its state changed, until it is deleted.

    `read` returns the object, None if it does not exist; `warn` gets each new problem. `state` returns the
    part that a person follows. Raises ConfigError if the first read fails.
    """
    shown: object = None
    warned: str | None = None
    while True:
        try:
            found = await read()
        except ConfigError as error:
            if warned is None:
                raise
            if str(error) != warned:
                warned = str(error)
                warn(f"{warned}; trying again")
        else:
            warned = ""
            if found is None:
                return
            if state(found) != shown:
                show(found)
                shown = state(found)
        await sleep(SECONDS)


class Explanation(NamedTuple):
    """A recorded decision, None if there is none, and the object's status. `note` is for stderr."""

    where: str
    record: StoredRecord | None
    status: Mapping[str, Any]
    note: str = ""


async def explanation_of(hub: ApiClient, raw: Mapping[str, Any], clock: Clock) -> Explanation:
    """Returns the last recorded decision of a FederatedHPA, with a warning if no controller seems to run.

    Raises ConfigError if it cannot be read.
    """
    from controller.federatedhpa import read_recording

    recording = await read_recording(hub, raw)
    metadata, status = raw["metadata"], raw.get("status") or {}
    where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    record = recording.record
    if record is None:
        note = recording.lost or f"{where} has no decision yet: {NO_CONTROLLER}"
    elif not record.decision:
        note = f"the last decision of {where} was too large to be recorded"
    else:
        return Explanation(where, record, status, _delay(raw, clock.wall()))
    return Explanation(where, None, status, note)


def _delay(raw: Mapping[str, Any], now: float) -> str:
    """Returns why a deleted object is still there, or that its status is too old; else ""."""
    from fedhpa.api.member_hpas import DELETION_WAITS
    from fedhpa.api.times import parse_time

    if (deleted := parse_time(raw["metadata"].get("deletionTimestamp"))) is not None:
        return f"it was deleted {age(now - deleted)} ago, and waits: {DELETION_WAITS}"
    if (old := silent_seconds(raw, now)) is None:
        return ""
    longest = age(STILL_SECONDS + 4 * period_of(raw))
    renews = f"a running controller renews it within {longest}: {NO_CONTROLLER}"
    return f"warning: the status is {age(old)} old, and {renews}"


def period_of(raw: Mapping[str, Any]) -> float:
    """Returns the seconds between two decisions on a FederatedHPA."""
    found = at(raw, "spec", "syncPeriodSeconds")
    return found if isinstance(found, int) and found > 0 else SYNC_PERIOD_SECONDS


def silent_seconds(raw: Mapping[str, Any], now: float) -> float | None:
    """Returns the age of a status that is older than a running controller leaves it; None for any other."""
    seen = time_at(raw, "status", "lastSeen")
    is_old = seen is not None and now - seen > STILL_SECONDS + 4 * period_of(raw)
    return now - seen if seen is not None and is_old else None


def age(seconds: float) -> str:
    """Returns a duration in its largest units, as kubectl shows ages: 12 s, 3 min, 2 h, 5 d."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(int(seconds), 0)} s"


def render(found: Explanation, now: float) -> str:
    """Returns a recorded decision as text, with its age and the object's conditions."""
    from fedhpa.decision import StoredStatus, to_text

    assert found.record is not None, "the caller checked it"
    conditions = convert_json(found.status, StoredStatus).conditions
    decision = found.record.last_decision(conditions)
    assert decision is not None, "the caller checked the decision"
    lines = [
        f"  {condition.type}={condition.status} {condition.reason}: {condition.message}\n"
        for condition in conditions
    ]
    # A later decision that changes nothing is not recorded.
    decided = f"recorded {age(now - decision.now)} ago\n"
    text = to_text(decision, found.where)
    # The status is younger: Ready says what was decided last, in the words of the first line.
    ready = next((one for one in conditions if one.type == "Ready" and one.status == "True"), None)
    if ready is not None and text.partition("\n")[0] != f"{found.where}: {ready.message}":
        text = f"{found.where}: {ready.message}\nthe last recorded decision: {to_text(decision)}"
    moves = "".join(f"  {line}\n" for line in memberships(found.status))
    clusters = f"clusters that are no Member:\n{moves}" if moves else ""
    return for_terminal(text + decided + clusters + "conditions:\n" + "".join(lines))


def memberships(status: Mapping[str, Any]) -> list[str]:
    """Returns a line for each cluster that is no Member, with its replicas and what it waits for."""
    lines = []
    for entry in entries(status, "clusters"):
        if not entry.get("membership"):
            continue
        name, membership, waits_for = (
            one_line(str(entry.get(field) or "")) for field in ("name", "membership", "waitsFor")
        )
        count = entry.get("currentReplicas")
        runs = counted(count, "replica") if isinstance(count, int) else "an unknown number of replicas"
        lines.append(f"{name} ({membership}): {runs} there{f', {waits_for}' if waits_for else ''}")
    return lines


def explained_parts(found: Explanation) -> object:
    """Returns the parts that a person follows, without times."""
    fields = {} if found.record is None else found.record.decision
    conditions = [
        (one.get("type"), one.get("status"), one.get("reason"), one.get("message"))
        for one in found.status.get("conditions") or ()
    ]
    decided = {key: value for key, value in fields.items() if key != "time"}
    return decided, conditions, memberships(found.status)
