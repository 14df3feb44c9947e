"""`fedhpa backtest` shows what an object would have done over recorded days."""

from __future__ import annotations

from typing import Annotated

import typer

from fedhpa.cli.backtest.flags import Inputs, with_flags
from fedhpa.cli.backtest.inputs import candidates_of, options_of, part_of, progress_bar
from fedhpa.cli.backtest.output import check_output, print_report
from fedhpa.cli.backtest.store import gathered


@with_flags()
def backtest(
    inputs: Inputs,
    vary: Annotated[
        list[str] | None,
        typer.Option(
            "--vary",
            metavar="FIELD=VALUES",
            help="Also run the object with other values, such as target=50,60; repeated for all "
            "combinations. Fields: target, minReplicas, maxReplicas, scaleUp.window, scaleUp.percent, "
            "scaleUp.pods, scaleDown.window, scaleDown.percent, scaleDown.pods.",
        ),
    ] = None,
) -> None:
    """Show what a FederatedHPA would have done over recorded days; nothing is written.

    The days are those of a recording, or are read from a metrics store. Each row of the table is a run: the
    recording itself, the object, and each variant, best first. Exits 1 if the object would leave more of the
    demand unserved than --unserved allows.

    Example: fedhpa backtest -f web.yaml --recording week.json.gz --vary target=50,60,70 -o report.html
    """
    from fedhpa.backtest import PRESENT, compare

    check_output(inputs.output)
    options, bound = options_of(inputs.model), part_of("--unserved", inputs.unserved)
    found, subject = gathered(inputs)
    candidates, marks = candidates_of(subject, vary or [], found)
    with progress_bar("backtest") as progress:
        report = compare(found, candidates, options, marks=marks, unserved=bound, progress=progress)
    print_report(report, inputs.output)
    present = next(run for run in report.runs if run.name == PRESENT)
    if present.figures.unserved > bound:
        raise typer.Exit(1)
