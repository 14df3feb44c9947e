"""`fedhpa explain` explains a FederatedHPA or a CronFederatedHPA from its status.

The right to get the object is enough, except where the hub's CRD drops the decision and the record annotation
does not have all of it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from fedhpa.cli.hub import (
    find_object,
    hub_client,
    names_cron,
    parse_cron_target,
    parse_target,
    read_object,
)
from fedhpa.cli.options import Context, Kubeconfig, MetricsVia, Namespace, Propagation

if TYPE_CHECKING:
    from fedhpa.kube import ApiClient, Clock

NO_CONTROLLER: Final = "check that a controller runs and leads: kubectl get leases -A"
# The controller writes a status in which nothing but times moves every ten minutes.
STILL_SECONDS: Final = 600
DEFAULT_PERIOD_SECONDS: Final = 15
# The condition by which the controller says so: type, status and reason.
CRON_KIND: Final = "CronFederatedHPA"
FIELDS_PRUNED: Final = ("HubCompatible", "False", "FieldsPruned")


class ExplainFormat(StrEnum):
    """The output formats of `fedhpa explain`."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("explain")(explain)


def explain(
    target: Annotated[
        str,
        typer.Argument(
            metavar="fhpa/NAME|cronfhpa/NAME", help="Name of the FederatedHPA or CronFederatedHPA."
        ),
    ],
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    propagation: Propagation = "",
    metrics_via: MetricsVia = "",
    output: Annotated[
        ExplainFormat, typer.Option("-o", "--output", help="Output format.")
    ] = ExplainFormat.TEXT,
    watch: Annotated[
        bool,
        typer.Option(
            "-w", "--watch", help="Print the explanation again when it changes, until Ctrl-C or deletion."
        ),
    ] = False,
) -> None:
    """Explain why a FederatedHPA has its current replicas, or what the rules of a CronFederatedHPA do.

    Where the hub's CRD drops status.decision, the record annotation has the decision. If the record is
    shortened or absent, the command decides anew with your rights and writes nothing.
    --propagation and --metrics-via are for that decision only.
    """
    if names_cron(target):
        _explain_cron(parse_cron_target(target), namespace, kubeconfig, context, output, watch=watch)
        return
    name = parse_target(target)
    if watch:

        def show(found: Mapping[str, Any]) -> bool:
            return _show(stored_explanation(found, time.time()), output)

        asyncio.run(_watch(name, namespace, kubeconfig, context, output, show))
        raise typer.Exit(1)
    flags = (propagation, metrics_via)
    if not _show(asyncio.run(_explanation(name, namespace, kubeconfig, context, flags)), output):
        raise typer.Exit(1)


def _explain_cron(
    name: str, namespace: str, kubeconfig: str, context: str, output: ExplainFormat, *, watch: bool
) -> None:
    """Prints what the rules of a CronFederatedHPA do."""
    if watch:
        from fedhpa.cli.cron.explain import explanation

        def show(found: Mapping[str, Any]) -> bool:
            return _show_cron(found, output)

        where = (name, namespace, kubeconfig, context)
        asyncio.run(_watch(*where, output, show, kind=CRON_KIND, state=explanation))
        raise typer.Exit(1)

    async def read() -> dict[str, Any]:
        async with hub_client(kubeconfig, context) as (hub, default):
            chosen = namespace or default
            return await read_object(hub, chosen, name, named=bool(namespace), kind=CRON_KIND)

    if not _show_cron(asyncio.run(read()), output):
        raise typer.Exit(1)


def _show_cron(raw: Mapping[str, Any], output: ExplainFormat) -> bool:
    """Prints what the rules of an object do. Returns False if it has no status, which stderr then says."""
    from fedhpa.cli.cron.explain import explanation, explanation_text

    found = explanation(raw)
    if not raw.get("status"):
        typer.echo(f"fedhpa: {found['object']} has no status yet: {NO_CONTROLLER}", err=True)
        return False
    if output is ExplainFormat.TEXT:
        typer.echo(explanation_text(found), nl=False)
    elif output is ExplainFormat.JSON:
        typer.echo(json.dumps(found, indent=2))
    else:
        from fedhpa.api.yaml import print_yaml

        typer.echo(print_yaml([found], sort_keys=False), nl=False)
    return True


class Explanation(NamedTuple):
    """A status with the decision to explain; an empty one if there is no decision. `note` is for stderr."""

    where: str
    status: Mapping[str, Any]
    note: str = ""
    is_fresh: bool = False


def _show(explanation: Explanation, output: ExplainFormat) -> bool:
    """Prints the explanation. Returns False if there is no decision, which stderr then says."""
    if explanation.note:
        typer.echo(f"fedhpa: {explanation.note}", err=True)
    if not explanation.status:
        return False
    now = None if explanation.is_fresh else time.time()
    typer.echo(render(explanation.status, explanation.where, output, now), nl=False)
    return True


def stored_explanation(raw: Mapping[str, Any], now: float) -> Explanation:
    """Returns the stored decision of a FederatedHPA, with a warning if it is too old at `now`.

    Where the hub's CRD drops the decision, that of the record annotation counts, if it has all details.
    """
    from fedhpa.decision import is_shortened, with_record

    status, metadata = with_record(raw).get("status") or {}, raw["metadata"]
    where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
    if status.get("decision") and not is_shortened(status["decision"]):
        return Explanation(where, status, _late(status, raw.get("spec") or {}, now))
    if _drops_decisions(status):
        note = f"the hub's CRD drops status.decision of {where}: explain it without --watch"
    else:
        note = f"{where} has no decision yet: {NO_CONTROLLER}"
    return Explanation(where, {}, note)


async def explanation_of(
    hub: ApiClient, raw: Mapping[str, Any], flags: tuple[str, str] = ("", ""), clock: Clock | None = None
) -> Explanation:
    """Returns the stored decision of a FederatedHPA, or a new one where the hub's CRD drops it.

    `flags` are --propagation and --metrics-via.
    """
    from fedhpa.kube import SYSTEM

    clock = clock or SYSTEM
    stored = stored_explanation(raw, clock.wall())
    if stored.status or not _drops_decisions(raw.get("status") or {}):
        return stored
    from controller.federatedhpa import one_shot_reader, settings_for

    async with one_shot_reader(hub, settings_for(raw, *flags), clock=clock) as reader:
        decision = (await reader.read(raw)).decide()
    note = (
        f"the hub's CRD drops status.decision of {stored.where}, so this decision was made now by this "
        "command, which writes nothing; 'fedhpa crds | kubectl apply -f -' lets the hub keep decisions"
    )
    return Explanation(stored.where, decision.status, note, is_fresh=True)


def _drops_decisions(status: Mapping[str, Any]) -> bool:
    """True if the controller has found that the hub's CRD lacks our fields."""
    conditions = status.get("conditions")
    known = [one for one in (conditions if isinstance(conditions, list) else ()) if isinstance(one, Mapping)]
    return any(tuple(map(one.get, ("type", "status", "reason"))) == FIELDS_PRUNED for one in known)


def _late(status: Mapping[str, Any], spec: Mapping[str, Any], now: float) -> str:
    """Returns a warning if the stored decision is older than a running controller leaves it, else ""."""
    from fedhpa.decision import StoredDecision

    decided = StoredDecision(status["decision"]).time()
    period = spec.get("syncPeriodSeconds")
    expected = STILL_SECONDS + 4 * (period if isinstance(period, int) else DEFAULT_PERIOD_SECONDS)
    if decided is None or now - decided <= expected:
        return ""
    return (
        f"warning: this decision is {age(now - decided)} old, and a running controller renews it within "
        f"{age(expected)}: check that one runs and leads: kubectl get leases -A"
    )


def age(seconds: float) -> str:
    """Returns a duration in its largest units, as kubectl shows ages: 12 s, 3 min, 2 h, 5 d."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{max(int(seconds), 0)} s"


def render(status: Mapping[str, Any], where: str, output: ExplainFormat, now: float | None = None) -> str:
    """Returns the decision of a status as JSON or YAML, or as text with its age and the conditions.

    `now` is None for a decision that was made just now.
    """
    from fedhpa.decision import read_status, to_text

    if output is ExplainFormat.JSON:
        return json.dumps(status["decision"], indent=2) + "\n"
    if output is ExplainFormat.YAML:
        from fedhpa.api.yaml import print_yaml

        return print_yaml([status["decision"]], sort_keys=False)
    decision = read_status(status).last_decision()
    assert decision is not None, "the caller checked status.decision"
    conditions = [
        f"  {condition.type}={condition.status} {condition.reason}: {condition.message}\n"
        for condition in decision.conditions
    ]
    decided = f"decided {age(0.0 if now is None else now - decision.now)} ago\n"
    return to_text(decision, where) + decided + "conditions:\n" + "".join(conditions)


async def _watch(
    name: str,
    namespace: str,
    kubeconfig: str,
    context: str,
    output: ExplainFormat,
    explain_object: Callable[[Mapping[str, Any]], bool],
    *,
    kind: str = "FederatedHPA",
    state: Callable[[Mapping[str, Any]], object] | None = None,
) -> None:
    """Prints the explanation whenever it changes; returns when the object was deleted.

    `explain_object` prints one explanation, and returns False if there is none yet.
    """
    from fedhpa.cli.follow import follow

    between = "\n" if output is ExplainFormat.TEXT else ""
    shown = False

    def show(found: Mapping[str, Any]) -> None:
        nonlocal shown
        if shown:
            typer.echo(between, nl=False)
        shown = explain_object(found) or shown
        sys.stdout.flush()

    def warn(text: str) -> None:
        typer.echo(f"fedhpa: {text}", err=True)

    async with hub_client(kubeconfig, context) as (hub, default):
        chosen = namespace or default
        found: Mapping[str, Any] | None = await read_object(
            hub, chosen, name, named=bool(namespace), kind=kind
        )

        async def read() -> Mapping[str, Any] | None:
            nonlocal found
            known, found = found, None
            return known or await find_object(hub, chosen, name, kind)

        await follow(read, show, warn, state=state)
    warn(f"{chosen}/{name} was deleted")


async def _explanation(
    name: str, namespace: str, kubeconfig: str, context: str, flags: tuple[str, str]
) -> Explanation:
    async with hub_client(kubeconfig, context) as (hub, default):
        raw = await read_object(hub, namespace or default, name, named=bool(namespace))
        return await explanation_of(hub, raw, flags)
