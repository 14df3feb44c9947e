"""The forms of a report: a table with a small chart, JSON, YAML, or a file with a picture."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.cli.colours import BOLD, GREEN, YELLOW, columns, painted

if TYPE_CHECKING:
    from fedhpa.backtest.result import Report, Run

FORMATS: Final = ("text", "json", "yaml")
SUFFIXES: Final = (".html", ".svg", ".png", ".json", ".yaml")
_HEAD: Final = ("RUN", "REPLICA-HOURS", "UNSERVED", "OVER TARGET", "CHANGES/H", "PEAK", "STARTED", "COST")


def check_output(output: str) -> None:
    """Raises ConfigError if the output is neither a format nor a file of a known kind in a folder."""
    if output not in FORMATS and not output.endswith(SUFFIXES):
        raise ConfigError(
            f"--output={output[:200]}: expected {', '.join(FORMATS)}, or a file that ends with "
            f"{', '.join(SUFFIXES)}"
        )
    # A search takes minutes, so a mistyped folder is told before.
    if output not in FORMATS and not Path(output).parent.is_dir():
        raise ConfigError(f"--output={output[:200]}: cannot be written: its folder does not exist")


def print_found(
    found: Any, report: Report, reason: str, output: str, yaml: Iterable[str], text: Iterable[str]
) -> None:
    """Prints what was found as JSON, or its lines of YAML or text, or writes the report to a file.

    A file is complete or not there. Raises ConfigError.
    """
    import msgspec

    if output == "json":
        typer.echo(msgspec.json.encode(found).decode())
    elif output in FORMATS:
        typer.echo("\n".join(yaml if output == "yaml" else text))
    else:
        path = Path(output)
        write_file(path, content(report, path.suffix.removeprefix(".")), "--output")
        typer.echo(f"written to {output}; {reason}", err=True)


def write_file(path: Path, content: bytes, option: str) -> None:
    """Writes a file at once. Raises ConfigError that names the option."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(content)
        beside.replace(path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ConfigError(f"{option}={path}: cannot be written: {error.strerror}") from error


def content(report: Report, form: str) -> bytes:
    """Returns the report as a file. Raises ConfigError if a library for pictures is missing."""
    import msgspec

    from fedhpa.backtest import report as pictures

    if form == "json":
        return msgspec.json.encode(report) + b"\n"
    if form == "yaml":
        return "".join(f"{line}\n" for line in yaml_lines(report)).encode()
    if form == "png":
        return pictures.png(report)
    return (pictures.html if form == "html" else pictures.svg)(report).encode()


def yaml_lines(report: Report) -> Iterator[str]:
    """Yields the report as YAML."""
    import msgspec

    from fedhpa.api.yaml import print_yaml

    yield print_yaml([msgspec.to_builtins(report)], sort_keys=False).rstrip("\n")


def chart_lines(report: Report) -> Iterator[str]:
    """Yields the table and a chart of the best run."""
    from fedhpa.backtest import report as pictures

    yield from text_lines(report)
    chart = pictures.terminal(report, shutil.get_terminal_size().columns, painted)
    yield from ["", chart] if chart else []


def text_lines(report: Report) -> list[str]:
    """Returns the table, which run to take, and what the reader must know."""
    from fedhpa.api.times import format_time

    span = f"from {format_time(report.start)} to {format_time(report.end)}"
    title = f"{report.namespace}/{report.name}: {report.metric}, {span}"
    lines = [painted(title, BOLD), *table(report.runs, report.bound), "", painted(report.best, GREEN)]
    lines += [painted(f"warning: {each}", YELLOW) for each in report.warnings]
    lines += [f"note: {note}" for note in report.notes]
    lines += [f"assumed: {one.name}: {one.value} ({one.source})" for one in report.assumptions]
    return lines


def table(runs: list[Run], bound: float) -> list[str]:
    """Returns a line for each run below the names of the columns. `bound` is that of the unserved part."""
    rows = [_HEAD, *(tuple(_cells(run, bound)) for run in runs)]
    if all(run.figures.cost is None for run in runs):
        rows = [row[:-1] for row in rows]
    return columns(rows, right=True)


def _cells(run: Run, bound: float) -> Iterator[str]:
    from fedhpa.backtest.result import percent

    figures = run.figures
    yield run.name
    yield f"{figures.replicaHours:.1f}"
    yield percent(figures.unserved, bound)
    yield f"{figures.minutesOverTarget:.0f} min"
    yield f"{figures.changesPerHour:.2f}"
    yield str(figures.peak)
    yield str(figures.podsStarted)
    yield "" if figures.cost is None else f"{figures.cost:.2f}"
