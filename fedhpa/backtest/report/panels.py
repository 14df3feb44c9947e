"""The three panels of one run as layers of Vega-Lite: demand and capacity, usage, and replicas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fedhpa.backtest.report.drawing import DEMAND, UNSERVED, Drawing
from fedhpa.backtest.report.texts import name
from fedhpa.backtest.result import Report

WIDTH: Final = 840
HEIGHTS: Final = (230, 110, 110)
# Room above the highest value: in the first panel for the texts of marks and gaps.
ROOMS: Final = (1.2, 1.06, 1.08)
STEP: Final = "step-after"
# The part of the width that the text of a mark or gap may have.
ROOM: Final = 0.1
# The text of an instant on the axis, by the largest unit that begins with it.
TIMES: Final = {
    "year": "%Y",
    "quarter": "%b %Y",
    "month": "%b %Y",
    "week": "%a %d %b",
    "date": "%a %d %b",
    "hours": "%H:%M",
    "minutes": "%H:%M",
    "seconds": "%H:%M:%S",
    "milliseconds": "%H:%M:%S",
}


def panels(report: Report, drawing: Drawing, colours: Mapping[str, str]) -> list[dict[str, Any]]:
    """Returns the three panels of a run, from top to bottom.

    Their data sets are run, changes, gaps, marks, clusters and target (`chart.specification`).
    """
    times = {
        "field": "t",
        "type": "temporal",
        "title": None,
        "scale": {"type": "utc", "domain": [drawing.start, drawing.end], "nice": False},
    }
    axis = {"format": TIMES, "labelOverlap": True, "tickCount": {"expr": "max(2, width / 90)"}}
    unit = name(report.unit) if report.unit else name(report.metric)
    lines = (("demand", "capacity"), ("usage",), ("desired", "ready"))
    highest = [room * _highest(drawing, *names) for room, names in zip(ROOMS, lines, strict=True)]
    texts = (
        f"Demand, and capacity at the target by cluster ({unit})",
        "Usage as a part of the target",
        "Replicas wanted (line) and ready (area), with each change of size",
    )
    layers = (
        _demand_layers(drawing, colours, highest[0]),
        _usage_layers(colours, highest[1]),
        _size_layers(drawing, colours, highest[2]),
    )
    return [
        {
            "title": {"text": text, "anchor": "start", "frame": "group"},
            "width": WIDTH,
            "height": height,
            "encoding": {"x": {**times, "axis": {**axis, "labels": number == len(layers) - 1}}},
            "layer": [
                _gaps(colours),
                *drawn,
                *_names(colours, named=number == 0),
            ],
        }
        for number, (text, height, drawn) in enumerate(zip(texts, HEIGHTS, layers, strict=True))
    ]


def _highest(drawing: Drawing, *lines: str) -> float:
    """Returns the end of an axis, the same for all runs: so switching between them compares them."""
    values = [
        value for run in drawing.runs for line in lines for value in run.columns[line] if value is not None
    ]
    return max(values, default=0) or 1


def _y(field: str, top: float, **more: Any) -> dict[str, Any]:
    return {
        "field": field,
        "type": "quantitative",
        "title": None,
        "scale": {"domain": [0, top], "nice": False},
        **more,
    }


def _mark(kind: str, **more: Any) -> dict[str, Any]:
    """Returns a mark that is cut at the panel, is interrupted at gaps, and has no tooltip of the library."""
    return {"type": kind, "clip": True, "invalid": "break-paths-filter-domains", "tooltip": None, **more}


def _gaps(colours: Mapping[str, str]) -> dict[str, Any]:
    """Returns the layer behind the lines that shades the times without data."""
    return {
        "data": {"name": "gaps"},
        "mark": _mark("rect", color=colours["gap"], opacity=0.22),
        "encoding": {"x2": {"field": "end"}},
    }


def _names(colours: Mapping[str, str], *, named: bool) -> list[dict[str, Any]]:
    """Returns the layers above the lines: the marks, and in the first panel the texts of marks and gaps."""
    rule = {
        "data": {"name": "marks"},
        "mark": _mark("rule", color=colours["text"], strokeDash=[2, 3], strokeWidth=1.2),
    }
    if not named:
        return [rule]
    # A text ends before the next one begins (`_labels`).
    room = {"expr": f"width * {ROOM} - 6"}
    text = {
        "align": "left",
        "baseline": "top",
        "dx": 4,
        "fontSize": 11,
        "limit": room,
        "color": colours["text"],
    }
    return [
        rule,
        {
            "data": {"name": "gaps"},
            "mark": _mark("text", fontStyle="italic", **text),
            "encoding": {"y": {"value": 16}, "text": {"field": "label"}},
        },
        {
            "data": {"name": "marks"},
            "mark": _mark("text", **text),
            "encoding": {"y": {"value": 2}, "text": {"field": "label"}},
        },
    ]


def _demand_layers(drawing: Drawing, colours: Mapping[str, str], top: float) -> list[dict[str, Any]]:
    sizes = [f"n{i}" for i in range(len(drawing.clusters))]
    scale = {
        "domain": [*drawing.clusters, DEMAND, UNSERVED],
        "range": [*(colours[f"c{i}"] for i in range(len(sizes))), colours["line"], colours["unserved"]],
    }
    colour = {
        "title": None,
        "scale": scale,
        "legend": {"orient": "top", "symbolType": "square", "columns": 5},
    }
    bands = {
        "transform": [
            {"fold": sizes, "as": ["key", "pods"]},
            # A cluster's part of the capacity is its part of the ready pods.
            {
                "calculate": "isValid(datum.pods) && isValid(datum.capacity) && datum.ready > 0"
                " ? datum.capacity * datum.pods / datum.ready : null",
                "as": "part",
            },
            {"lookup": "key", "from": {"data": {"name": "clusters"}, "key": "key", "fields": ["cluster"]}},
            {
                "stack": "part",
                "groupby": ["t"],
                "sort": [{"field": "key"}],
                "as": ["bottom", "top"],
            },
            {"calculate": "isValid(datum.part) ? datum.top : null", "as": "top"},
        ],
        "mark": _mark("area", interpolate=STEP, opacity=0.85, stroke=colours["back"], strokeWidth=0.4),
        "encoding": {
            "y": _y("top", top),
            "y2": {"field": "bottom"},
            "color": {"field": "cluster", "type": "nominal", **colour},
        },
    }
    lost = {
        "transform": [
            {"calculate": "datum.unserved > 0 ? datum.demand - datum.unserved : null", "as": "served"},
        ],
        "mark": _mark("area", interpolate=STEP, opacity=0.95),
        "encoding": {
            "y": _y("served", top),
            "y2": {"field": "demand"},
            "color": {"datum": UNSERVED, **colour},
        },
    }
    demand = {
        "mark": _mark("line", interpolate=STEP, strokeWidth=1.6),
        "encoding": {"y": _y("demand", top), "color": {"datum": DEMAND, **colour}},
    }
    return [bands, lost, demand]


def _usage_layers(colours: Mapping[str, str], top: float) -> list[dict[str, Any]]:
    top = max(top, 1.2)
    return [
        {
            "transform": [{"calculate": "datum.usage > 1 ? datum.usage : null", "as": "over"}],
            "mark": _mark("area", interpolate=STEP, color=colours["unserved"], opacity=0.55),
            "encoding": {"y": _y("over", top), "y2": {"datum": 1}},
        },
        {
            "mark": _mark("line", interpolate=STEP, color=colours["line"], strokeWidth=1.2),
            "encoding": {"y": _y("usage", top, axis={"format": "%", "tickCount": 4})},
        },
        {
            "data": {"name": "target"},
            "mark": _mark("rule", color=colours["text"], strokeDash=[6, 3]),
            "encoding": {"x": None, "y": _y("at", top)},
        },
    ]


def _size_layers(drawing: Drawing, colours: Mapping[str, str], top: float) -> list[dict[str, Any]]:
    up, down = colours["line"], colours["down"]
    # The sum of some clusters would look like fewer pods.
    known = " && ".join(f"isValid(datum.n{i})" for i in range(len(drawing.clusters)))
    return [
        {
            "transform": [{"calculate": f"{known} ? datum.ready : null", "as": "pods"}],
            "mark": _mark("area", interpolate=STEP, color=colours["band"]),
            "encoding": {"y": _y("pods", top, axis={"tickMinStep": 1, "tickCount": 4})},
        },
        {
            "mark": _mark("line", interpolate=STEP, color=colours["line"], strokeWidth=1.2),
            "encoding": {"y": _y("desired", top)},
        },
        {
            "data": {"name": "changes"},
            "mark": _mark("point", filled=True, size=38, opacity=1),
            "encoding": {
                "y": _y("after", top),
                "shape": {
                    "field": "up",
                    "type": "nominal",
                    "legend": None,
                    "scale": {"domain": [1, 0], "range": ["triangle-up", "triangle-down"]},
                },
                "color": {
                    "field": "up",
                    "type": "nominal",
                    "legend": None,
                    "scale": {"domain": [1, 0], "range": [up, down]},
                },
            },
        },
    ]
