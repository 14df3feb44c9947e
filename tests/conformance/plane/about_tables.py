"""Tables, which `kubectl get` prints."""

from __future__ import annotations

from typing import Any

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import TABLE, Talk
from tests.conformance.plane.things import (
    install_widgets,
    widget,
    widgets,
)


def plain(table: Any) -> Any:
    """Returns the columns and the cells without ages."""
    ages = {number for number, column in enumerate(table["columnDefinitions"]) if column["name"] == "Age"}
    return {
        "columns": [
            {key: column[key] for key in ("name", "type", "format", "priority")}
            for column in table["columnDefinitions"]
        ],
        "cells": [
            ["<age>" if number in ages else cell for number, cell in enumerate(row["cells"])]
            for row in table["rows"]
        ],
        "objects": [[row["object"]["kind"], row["object"]["apiVersion"]] for row in table["rows"]],
        "names": [row["object"]["metadata"]["name"] for row in table["rows"]],
    }


@check()
async def of_custom_objects(talk: Talk) -> None:
    """The CRD defines the columns; absent values are null."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    await talk.make(path, widget("a", name="a", colour="red"), keep=True)
    await talk.make(path, widget("b", name="b", size=7), keep=True)
    await talk.quietly(
        "PATCH", f"{path}/b/status", {"status": {"phase": "Old"}}, content_type="application/merge-patch+json"
    )
    answer = await talk.get(path, accept=TABLE, show=plain)
    one = await talk.get(f"{path}/b", accept=f"{TABLE},application/json", show=plain)

    assert [column["name"] for column in answer.json["columnDefinitions"]] == [
        "Name",
        "Size",
        "Colour",
        "Phase",
        "Age",
    ]
    assert [row["cells"][:4] for row in answer.json["rows"]] == [["a", 3, "red", None], ["b", 7, None, "Old"]]
    assert one.json["rows"][0]["cells"][3] == "Old"


def _narrow(table: Any) -> Any:
    shown = plain(table)
    kept = [number for number, column in enumerate(shown["columns"]) if column["priority"] == 0]
    columns = [shown["columns"][number]["name"] for number in kept]
    return {"columns": columns, "cells": [[row[number] for number in kept] for row in shown["cells"]]}


@check()
async def watched(talk: Talk) -> None:
    """A watch of tables sends one row per event."""
    await install_widgets(talk)
    path = widgets(await talk.begin())
    await talk.make(path, widget("a", name="a"), keep=True)
    async with talk.watching(f"{path}?watch=true", accept=TABLE, show=_rows) as watch:
        await talk.make(path, widget("b", name="b"), keep=True)
        events = await watch.events(2)

    assert [event["object"]["kind"] for event in events] == ["Table", "Table"]
    assert [event["object"]["rows"][0]["cells"][0] for event in events] == ["a", "b"]


def _rows(table: Any) -> Any:
    return {"kind": table["kind"], "cells": [row["cells"][:-1] for row in table["rows"]]}
