"""The three panels of one run as layers of Vega-Lite: demand and capacity, usage, and replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fedhpa.backtest.report.drawing import DEMAND, UNSERVED, Drawing
from fedhpa.backtest.report.texts import name
from fedhpa.backtest.result import Report

WIDTH: Final = 840
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
    unit = name(report.unit) if report.unit else name(report.metric)
    demand = f"Demand, and capacity at the target by cluster ({unit})"
    sizes = "Replicas wanted (line) and ready (area), with each change of size"
    found = (
        (demand, 230, _demand_layers(drawing, colours)),
        ("Usage as a part of the target", 110, _usage_layers(drawing, colours)),
        (sizes, 110, _size_layers(drawing, colours)),
    )
    times = {"type": "utc", "domain": [drawing.start, drawing.end], "nice": False}
    axis = {"format": TIMES, "labelOverlap": True, "tickCount": {"expr": "max(2, width / 90)"}}
    # Behind the lines the times without data are shaded. Above them are the marks, and in the first panel the
    # texts of marks and gaps: a text ends before the next one begins (`_labelled`).
    shade = _layer("rect", {"x2": {"field": "end"}}, "gaps", color=colours["gap"], opacity=0.22)
    marks = _layer("rule", {}, "marks", color=colours["text"], strokeDash=[2, 3], strokeWidth=1.2)
    room = {"expr": f"width * {ROOM} - 6"}
    text: dict[str, Any] = {"align": "left", "baseline": "top", "dx": 4, "fontSize": 11, "limit": room}
    text["color"] = colours["text"]
    texts = [
        _layer("text", {"y": {"value": y}, "text": {"field": "label"}}, data, **text, **more)
        for data, y, more in (("gaps", 16, {"fontStyle": "italic"}), ("marks", 2, {}))
    ]
    return [
        {
            "title": {"text": title, "anchor": "start", "frame": "group"},
            "width": WIDTH,
            "height": height,
            "encoding": {"x": {**_field("t", "temporal", times), "axis": {**axis, "labels": last}}},
            "layer": [shade, *drawn, marks, *(texts if first else [])],
        }
        for (title, height, drawn), first, last in zip(
            found, (True, False, False), (False, False, True), strict=True
        )
    ]


def _highest(drawing: Drawing, room: float, *lines: str) -> float:
    """Returns the end of an axis, the same for all runs: so switching between them compares them.

    Above the highest value there is `room`, in the first panel for the texts of marks and gaps.
    """
    values = [
        value for run in drawing.runs for line in lines for value in run.columns[line] if value is not None
    ]
    return room * (max(values, default=0) or 1)


def _field(field: str, kind: str, scale: dict[str, Any]) -> dict[str, Any]:
    return {"field": field, "type": kind, "title": None, "scale": scale}


def _y(field: str, top: float, **axis: Any) -> dict[str, Any]:
    found = _field(field, "quantitative", {"domain": [0, top], "nice": False})
    return {**found, "axis": axis} if axis else found


def _layer(
    kind: str, encoding: dict[str, Any], data: str = "", transform: Sequence[Any] = (), **mark: Any
) -> dict[str, Any]:
    """Returns marks that are cut at the panel, interrupted at gaps, and without a tooltip of the library."""
    fixed = {"type": kind, "clip": True, "invalid": "break-paths-filter-domains", "tooltip": None}
    layer: dict[str, Any] = {"mark": {**fixed, **mark}}
    if encoding:
        layer["encoding"] = encoding
    if data:
        layer["data"] = {"name": data}
    if transform:
        layer["transform"] = list(transform)
    return layer


def _calculated(name: str, expression: str) -> dict[str, str]:
    return {"calculate": expression, "as": name}


def _demand_layers(drawing: Drawing, colours: Mapping[str, str]) -> list[dict[str, Any]]:
    top = _highest(drawing, 1.2, "demand", "capacity")
    sizes = [f"n{i}" for i in range(len(drawing.clusters))]
    scale = {
        "domain": [*drawing.clusters, DEMAND, UNSERVED],
        "range": [*(colours[f"c{i}"] for i in range(len(sizes))), colours["line"], colours["unserved"]],
    }
    legend = {"orient": "top", "symbolType": "square", "columns": 5}
    colour = {"title": None, "scale": scale, "legend": legend}
    # A cluster's part of the capacity is its part of the ready pods.
    part = (
        "isValid(datum.pods) && isValid(datum.capacity) && datum.ready > 0"
        " ? datum.capacity * datum.pods / datum.ready : null"
    )
    by_cluster = [
        {"fold": sizes, "as": ["key", "pods"]},
        _calculated("part", part),
        {"lookup": "key", "from": {"data": {"name": "clusters"}, "key": "key", "fields": ["cluster"]}},
        {"stack": "part", "groupby": ["t"], "sort": [{"field": "key"}], "as": ["bottom", "top"]},
        _calculated("top", "isValid(datum.part) ? datum.top : null"),
    ]
    bands = {"y": _y("top", top), "y2": {"field": "bottom"}}
    bands["color"] = {"field": "cluster", "type": "nominal", **colour}
    lost = {"y": _y("served", top), "y2": {"field": "demand"}, "color": {"datum": UNSERVED, **colour}}
    served = _calculated("served", "datum.unserved > 0 ? datum.demand - datum.unserved : null")
    line = {"y": _y("demand", top), "color": {"datum": DEMAND, **colour}}
    edge: dict[str, Any] = {"stroke": colours["back"], "strokeWidth": 0.4}
    return [
        _layer("area", bands, transform=by_cluster, interpolate=STEP, opacity=0.85, **edge),
        _layer("area", lost, transform=[served], interpolate=STEP, opacity=0.95),
        _layer("line", line, interpolate=STEP, strokeWidth=1.6),
    ]


def _usage_layers(drawing: Drawing, colours: Mapping[str, str]) -> list[dict[str, Any]]:
    top = max(_highest(drawing, 1.06, "usage"), 1.2)
    over = _calculated("over", "datum.usage > 1 ? datum.usage : null")
    area = {"y": _y("over", top), "y2": {"datum": 1}}
    line = {"y": _y("usage", top, format="%", tickCount=4)}
    rule = {"x": None, "y": _y("at", top)}
    return [
        _layer("area", area, transform=[over], interpolate=STEP, color=colours["unserved"], opacity=0.55),
        _layer("line", line, interpolate=STEP, color=colours["line"], strokeWidth=1.2),
        _layer("rule", rule, "target", color=colours["text"], strokeDash=[6, 3]),
    ]


def _size_layers(drawing: Drawing, colours: Mapping[str, str]) -> list[dict[str, Any]]:
    top = _highest(drawing, 1.08, "desired", "ready")
    # The sum of some clusters would look like fewer pods.
    known = " && ".join(f"isValid(datum.n{i})" for i in range(len(drawing.clusters)))
    pods = _calculated("pods", f"{known} ? datum.ready : null")
    area = {"y": _y("pods", top, tickMinStep=1, tickCount=4)}
    by_direction = {"field": "up", "type": "nominal", "legend": None}
    looks = {"shape": ["triangle-up", "triangle-down"], "color": [colours["line"], colours["down"]]}
    points = {
        channel: {**by_direction, "scale": {"domain": [1, 0], "range": values}}
        for channel, values in looks.items()
    }
    points["y"] = _y("after", top)
    return [
        _layer("area", area, transform=[pods], interpolate=STEP, color=colours["band"]),
        _layer("line", {"y": _y("desired", top)}, interpolate=STEP, color=colours["line"], strokeWidth=1.2),
        _layer("point", points, "changes", filled=True, size=38, opacity=1),
    ]
