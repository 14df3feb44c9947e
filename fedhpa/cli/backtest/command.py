"""`fedhpa backtest` shows what an object would have done over recorded days."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.cli import suggestions
from fedhpa.cli.backtest.inputs import (
    CarryOver,
    MetricsAge,
    PodLimit,
    PodStart,
    RecordingFile,
    Subject,
    Traffic,
    Unserved,
    candidates_of,
    options_of,
    part_of,
    progress_bar,
    read_recording,
    read_subject,
)
from fedhpa.cli.backtest.output import Output, check_output, print_report
from fedhpa.cli.backtest.store import (
    Days,
    MetricsRules,
    Prometheus,
    Step,
    StoreCa,
    StoreDeadline,
    StoreFlags,
    StoreTenant,
    StoreToken,
    noted,
    recorded_days,
    store_of,
)
from fedhpa.cli.hub_client import joined, parse_target
from fedhpa.cli.options import Context, Kubeconfig, Name, Namespace

if TYPE_CHECKING:
    from fedhpa.backtest import Recording


def backtest(
    target: Annotated[
        str,
        typer.Argument(
            metavar="[fhpa]",
            help="The kind, then its name; or fhpa/NAME.",
            autocompletion=suggestions.objects,
        ),
    ] = "",
    name: Name = "",
    file: Annotated[
        str,
        typer.Option(
            "-f",
            "--filename",
            help="YAML or JSON file with the FederatedHPA, and CronFederatedHPAs if wanted, in place of "
            "the stored ones.",
        ),
    ] = "",
    recording: RecordingFile = "",
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="FIELD=VALUES",
            help="Also run the object with other values, such as target=50,60; repeated for all "
            "combinations. Fields: "
            "target, minReplicas, maxReplicas, scaleUp.window, scaleUp.percent, scaleUp.pods, "
            "scaleDown.window, "
            "scaleDown.percent, scaleDown.pods.",
        ),
    ] = None,
    unserved: Unserved = "0.1%",
    traffic: Traffic = "shared",
    pod_start: PodStart = "",
    metrics_age: MetricsAge = "",
    pod_limit: PodLimit = "",
    carry_over: CarryOver = False,
    days: Days = 7,
    prometheus: Prometheus = "",
    metrics_rules: MetricsRules = "",
    step: Step = "30s",
    store_ca: StoreCa = "",
    store_token: StoreToken = "",
    store_tenant: StoreTenant = "",
    store_deadline: StoreDeadline = "30s",
    output: Output = "text",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
) -> None:
    """Show what a FederatedHPA would have done over recorded days; nothing is written.

    The days are those of a recording, or are read from a metrics store. Each row of the table is a run: the
    recording itself, the object, and each variant, best first. Exits 1 if the object would leave more of the
    demand unserved than --unserved allows.

    Example: fedhpa backtest -f web.yaml --recording week.json.gz --vary target=50,60,70 -o report.html
    """
    from fedhpa.backtest import PRESENT, compare

    check_output(output)
    options = options_of(traffic, pod_start, metrics_age, pod_limit, carry_over=carry_over)
    bound = part_of("--unserved", unserved)
    chosen = parse_target(joined(target, name)) if target else ""
    found, subject = gathered(
        chosen,
        file,
        recording,
        (namespace, kubeconfig, context),
        (days, prometheus, metrics_rules, step, store_ca, store_token, store_tenant, store_deadline),
    )
    candidates, marks = candidates_of(subject, vary or [], found)
    with progress_bar("backtest") as progress:
        report = compare(found, candidates, options, marks=marks, unserved=bound, progress=progress)
    print_report(report, output)
    present = next(run for run in report.runs if run.name == PRESENT)
    if present.figures.unserved > bound:
        raise typer.Exit(1)


def gathered(
    target: str,
    file: str,
    recording: str,
    hub: tuple[str, str, str],
    store: StoreFlags,
) -> tuple[Recording, Subject]:
    """Returns the recording, from a file or a metrics store, and the object. Raises ConfigError.

    `hub` are namespace, kubeconfig and context; `store` are the flags of the metrics store.
    """
    if bool(recording) == bool(store[1]):
        raise ConfigError("expected either --recording or --prometheus")
    if recording:
        found = read_recording(recording)
        return found, read_subject(target, file, *hub, found, recording)
    recorded, subject = recorded_days(target, file, hub, store_of(*store))
    return noted(recorded), subject
