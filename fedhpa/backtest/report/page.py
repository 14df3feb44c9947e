"""The report as one page: a file without network that opens from disk."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import Any, Final

import msgspec

from fedhpa.api.texts import counted, one_line
from fedhpa.backtest.report import engine
from fedhpa.backtest.report.chart import specification
from fedhpa.backtest.report.colours import DARK, LIGHT, VARIABLES
from fedhpa.backtest.report.drawing import Drawing, drawn
from fedhpa.backtest.report.texts import BEST, MAX_SENTENCE, against, amount, moment, name, sentence
from fedhpa.backtest.result import Figures, Report, Run, percent

# `suggest` tries at most 60 objects.
MAX_ROWS, MAX_DAYS, MAX_LINES = 100, 62, 60
HEAD: Final = (
    "run",
    "replica-hours",
    "not served",
    "minutes over target",
    "changes an hour",
    "peak",
    "pods started",
)


def html(report: Report) -> str:
    """Returns the page, UTF-8, of at most 6 MB.

    It loads nothing: its policy (Content-Security-Policy) allows its two scripts by their hashes, no other
    script, no compilation of texts and no address.
    Raises ConfigError without `fedhpa[report]`.
    """
    drawing = drawn(report)
    scripts = [engine.script(), _file("page.js")]
    title = _text(f"Backtest of {name(report.namespace)}/{name(report.name)}")
    policy = " ".join(f"'sha256-{_digest(each)}'" for each in scripts)
    parts = {
        "policy": f"default-src 'none'; script-src {policy}; style-src 'unsafe-inline'",
        "title": title,
        "style": _style(),
        "heading": f"{title}: {_text(name(report.metric))}, {_range(report)}",
        "verdict": _text(sentence(report.best)),
        "warnings": "".join(
            f'<p class="warning">{_text(sentence(each))}</p>\n' for each in report.warnings[:MAX_LINES]
        ),
        "runs": "\n".join(_runs(report, drawing)),
        "tables": "\n".join(
            [
                *_table(report),
                *_days(report),
                *_list("Notes", [*report.notes, *drawing.notes]),
                *_assumptions(report),
            ]
        ),
        "data": _data(report, drawing),
        "scripts": "\n".join(f"<script>{each}</script>" for each in scripts),
    }
    return Template(_file("page.html")).substitute(parts)


def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _text(text: str) -> str:
    return escape(text, quote=True)


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


def _style() -> str:
    """Returns the style sheet: dark if the reader's system is, and light on paper."""

    def variables(colours: dict[str, str]) -> str:
        return "".join(f"--{role}:{colour};" for role, colour in colours.items())

    light, dark = ({**each, "card": card} for each, card in ((LIGHT, "#f4f6f8"), (DARK, "#22262a")))
    return (
        f":root{{color-scheme:light dark;{variables(light)}}}\n"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{variables(dark)}}}}}\n{_file('page.css')}"
    )


def _data(report: Report, drawing: Drawing) -> str:
    """Returns the data of the script as JSON that ends no script element."""
    picture = engine.compiled(specification(report, drawing, VARIABLES))
    for scale in picture["scales"]:
        if scale["name"] == "x":
            # The page sets these signals. Vega-Lite cannot express that for panels that share a scale.
            scale["domain"] = [{"signal": "from"}, {"signal": "to"}]
    data: dict[str, Any] = {
        "specification": picture,
        "start": drawing.start,
        "end": drawing.end,
        "unit": name(report.unit) if report.unit else "",
        "clusters": drawing.clusters,
        "gaps": drawing.gaps,
        "marks": drawing.marks,
        "reasons": drawing.reasons,
        "runs": drawing.runs,
    }
    text = msgspec.json.encode(data).decode()
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _range(report: Report) -> str:
    return f"{moment(report.start)} to {moment(report.end)} UTC"


def _runs(report: Report, drawing: Drawing) -> Iterable[str]:
    for i, (run, whole) in enumerate(zip(drawing.runs, report.runs, strict=False)):
        figures, checked = whole.figures, " checked" if i == BEST else ""
        opening, badge = '<label class="run">', ""
        if i == BEST:
            opening, badge = '<label class="run first">', "<em>best</em>"
        elif i > 0 and figures.unserved > report.bound:
            badge = '<em class="over">too much unserved</em>'
        yield (
            f'{opening}<input type="radio" name="run" value="{i}"{checked}>{badge}<b>{_text(run.name)}</b>'
            f'<span class="big">{amount(figures.replicaHours)} replica-hours{_versus(report, whole)}</span>'
            f"<span>{percent(figures.unserved, report.bound)} not served, "
            f"{amount(figures.minutesOverTarget)} min over target</span>"
            "</label>"
        )


def _versus(report: Report, run: Run) -> str:
    """Returns the difference of the replica-hours to the recording after a space, "" for the recording."""
    recorded = report.runs[0]
    difference = "" if run is recorded else against(run.figures.replicaHours, recorded.figures.replicaHours)
    return f" ({difference})" if difference else ""


def _table(report: Report) -> Iterable[str]:
    priced = any(run.figures.cost is not None for run in report.runs)
    yield '<h2>All runs</h2><div class="wide"><table id="table">'
    yield (
        "<caption>The first row is what happened. The others are sorted: first those that leave at most "
        f"{percent(report.bound)} not served, the cheapest first.</caption>"
    )
    yield _header(_head(priced))
    for i, run in enumerate(report.runs[:MAX_ROWS]):
        opening = '<tr class="first">' if i == BEST else "<tr>"
        cells = _cells(run.figures, report.bound, priced, _versus(report, run))
        yield f'{opening}<th scope="row">{_text(name(run.name))}</th>{cells}</tr>'
    yield "</tbody></table></div>"
    if len(report.runs) > MAX_ROWS:
        yield f"<p>{counted(len(report.runs) - MAX_ROWS, 'further run')} left out.</p>"


def _header(texts: Sequence[str], attribute: str = "") -> str:
    cells = "".join(f'<th {attribute}scope="col">{each}</th>' for each in texts)
    return f"<thead><tr>{cells}</tr></thead><tbody>"


def _head(priced: bool) -> Sequence[str]:
    return (*HEAD, "cost") if priced else HEAD


def _cells(figures: Figures, bound: float, priced: bool, versus: str = "") -> str:
    above = figures.unserved > bound
    texts = [
        amount(figures.replicaHours) + (f"<small>{versus.strip()[1:-1]}</small>" if versus else ""),
        percent(figures.unserved, bound) + ("<small>too much</small>" if above else ""),
        amount(figures.minutesOverTarget),
        amount(figures.changesPerHour),
        amount(figures.peak),
        amount(figures.podsStarted),
        *([amount(figures.cost)] if priced else []),
    ]
    return "".join(
        f'<td class="over">{each}</td>' if above and i == 1 else f"<td>{each}</td>"
        for i, each in enumerate(texts)
    )


def _days(report: Report) -> Iterable[str]:
    """Returns a table of days for each run, of which the script shows that of the drawn one."""
    drawn_runs = [(i, run) for i, run in enumerate(report.runs[:12]) if len(run.days) > 1]
    if not drawn_runs:
        return
    yield "<h2>Day by day, of the drawn run</h2>"
    for i, run in drawn_runs:
        priced = any(day.figures.cost is not None for day in run.days)
        hidden = "" if i == BEST else " hidden"
        yield f'<div class="wide days" data-run="{i}"{hidden}><table>'
        yield _header(("day (UTC)", *_head(priced)[1:]))
        for day in run.days[:MAX_DAYS]:
            cells = _cells(day.figures, report.bound, priced)
            yield f'<tr><th scope="row">{moment(day.at)[:10]}</th>{cells}</tr>'
        yield "</tbody></table></div>"


def _list(title: str, lines: Sequence[str]) -> Iterable[str]:
    if lines:
        yield f"<h2>{title}</h2><ul>"
        yield from (f"<li>{_text(sentence(each))}</li>" for each in lines[:MAX_LINES])
        yield "</ul>"


def _assumptions(report: Report) -> Iterable[str]:
    if report.assumptions:
        yield '<h2>Assumptions of the model</h2><div class="wide"><table>'
        yield _header(("input", "value", "from"), 'class="text" ')
        for each in report.assumptions[:MAX_LINES]:
            cells = "".join(
                f'<td class="text">{_text(one_line(one, MAX_SENTENCE))}</td>'
                for one in (each.value, each.source)
            )
            yield f'<tr><th scope="row">{_text(sentence(each.name))}</th>{cells}</tr>'
        yield "</tbody></table></div>"
