"""The picture as a Vega-Lite specification: one for the page in a browser, and for SVG and PNG.

No text from outside is part of an expression. Texts are values of data, or entries of a scale's domain.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from fedhpa.backtest.report.drawing import Drawing, DrawnRun
from fedhpa.backtest.report.panels import ROOM, WIDTH, panels
from fedhpa.backtest.report.texts import amount, moment, name, sentence
from fedhpa.backtest.result import Report, percent

FONT: Final = "Liberation Sans, Arial, Helvetica, sans-serif"
# Rows of the comparison in SVG and PNG.
COMPARED: Final = 12
# Where the bars of the comparison begin and end, in pixels.
BARS: Final = (300, 430)


def specification(
    report: Report, drawing: Drawing, colours: Mapping[str, str], shown: int | None = None
) -> dict[str, Any]:
    """Returns the picture.

    With `shown`, the index of a run, it has that run's data, a title and a comparison of all runs.
    """
    fields = list(drawing.runs[0].columns)
    run = DrawnRun("", {field: [] for field in fields}, []) if shown is None else drawing.runs[shown]
    away = [(start, f"{one}: no data") for start, _, one in drawing.gaps]
    parts = panels(report, drawing, colours)
    for part in parts:
        part["data"] = {"name": "run"}
        part["transform"] = [{"flatten": fields}]
    whole: dict[str, Any] = {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "params": [{"name": "from", "value": drawing.start}, {"name": "to", "value": drawing.end}],
        "datasets": {
            "run": [run.columns],
            "changes": [
                {"t": at, "after": after, "up": int(after > before)} for at, before, after, _ in run.changes
            ],
            "gaps": [
                {**one, "end": end}
                for one, (_, end, _) in zip(_labelled(drawing, away), drawing.gaps, strict=True)
            ],
            "marks": list(_labelled(drawing, drawing.marks)),
            "clusters": [{"key": f"n{i}", "cluster": one} for i, one in enumerate(drawing.clusters)],
            "target": [{"at": 1}],
        },
        "spacing": 12,
        "padding": 2 if shown is None else 16,
        "resolve": {"scale": {"x": "shared", "color": "independent", "shape": "independent"}},
        "config": _config(colours),
    }
    if shown is None:
        return {**whole, "background": None, "vconcat": parts}
    return {**whole, **_framed(report, drawing, parts, colours, shown), "background": colours["back"]}


def _labelled(drawing: Drawing, texts: Sequence[tuple[int, str]]) -> Iterator[dict[str, Any]]:
    """Yields each time with its text, "" where that would lie over the one before. `texts` is sorted."""
    room, end = ROOM * (drawing.end - drawing.start), -math.inf
    for at, text in texts:
        yield {"t": at, "label": text if at >= end else ""}
        end = at + room if at >= end else end


def _framed(
    report: Report, drawing: Drawing, parts: list[dict[str, Any]], colours: Mapping[str, str], shown: int
) -> dict[str, Any]:
    """Returns the picture with its title, and with a bar for each run."""
    times = [moment(at / 1000) for at in (drawing.start, drawing.end)]
    title = {
        "text": textwrap.wrap(sentence(report.best), 100),
        "subtitle": [f"{name(report.namespace)}/{name(report.name)}, {' to '.join(times)}; times are UTC"],
        "anchor": "start",
        "frame": "bounds",
        "fontSize": 17,
        "subtitlePadding": 6,
        "offset": 14,
        "color": colours["best"],
        "subtitleFontSize": 12,
        "subtitleColor": colours["muted"],
    }
    return {"title": title, "vconcat": [_comparison(report, colours, shown), *parts]}


def _comparison(report: Report, colours: Mapping[str, str], shown: int) -> dict[str, Any]:
    """Returns a row for each run: its name, a bar of its replica-hours, and its figures."""
    rows = []
    for i, run in enumerate(report.runs[:COMPARED]):
        above = i > 0 and run.figures.unserved > report.bound
        served = f"{percent(run.figures.unserved, report.bound)} not served{' (too much)' if above else ''}"
        late = f"{amount(run.figures.minutesOverTarget)} min over target"
        row: dict[str, Any] = {
            "row": i,
            "hours": run.figures.replicaHours,
            "look": 1 if i == shown else 2 if above else 0,
        }
        row["name"] = ("► " if i == shown else "") + name(run.name)
        row["text"] = f"{amount(run.figures.replicaHours)} replica-hours, {served}, {late}"
        rows.append(row)

    def look(first: str) -> dict[str, Any]:
        scale = {"domain": [0, 1, 2], "range": [colours[first], colours["best"], colours["unserved"]]}
        return {"field": "look", "type": "nominal", "legend": None, "scale": scale}

    text = {"type": "text", "align": "left", "baseline": "middle", "fontSize": 12, "tooltip": None}
    hours = {"domainMin": 0, "nice": False, "range": list(BARS)}
    bar = {"field": "hours", "type": "quantitative", "axis": None, "scale": hours}
    word = look("text")
    layers = (
        ({"type": "bar", "height": 12, "tooltip": None}, {"x": bar, "color": look("muted")}),
        ({**text, "limit": BARS[0] - 8}, {"x": {"value": 0}, "text": {"field": "name"}, "color": word}),
        (text, {"x": {"value": BARS[1] + 10}, "text": {"field": "text"}, "color": word}),
    )
    return {
        "data": {"values": rows},
        "width": WIDTH,
        "height": {"step": 22},
        "encoding": {"y": {"field": "row", "type": "ordinal", "axis": None, "sort": None}},
        "resolve": {"scale": {"color": "independent"}},
        "layer": [{"mark": mark, "encoding": encoding} for mark, encoding in layers],
    }


def _config(colours: Mapping[str, str]) -> dict[str, Any]:
    label, title = colours["muted"], colours["text"]
    return {
        "font": FONT,
        "view": {"stroke": None},
        "axis": {
            "labelColor": label,
            "titleColor": title,
            "gridColor": colours["grid"],
            "tickColor": colours["grid"],
            "domainColor": colours["muted"],
            "labelFontSize": 11,
        },
        # All panels begin at the same place, whatever their numbers: the cursor of the page needs that.
        "axisY": {"minExtent": 44, "maxExtent": 44},
        "legend": {"labelColor": title, "labelFontSize": 12, "labelLimit": 240, "symbolOpacity": 1},
        "title": {"color": title, "fontSize": 13, "fontWeight": "bold", "subtitleColor": label},
    }
