"""`fedhpa top`: which objects come first, what a row shows, and that no line is wider than the terminal."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import random
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fedhpa.cli import colours
from fedhpa.cli.top import ENTER, HOME, LEAVE, age, bars, ordered, row, table
from tests.support.commands import fedhpa_thread
from tests.support.installation import FHPAS, federated_hpa, installation

NOW = 1_800_000_000.0


def stored(name: str = "web", ready: str = "True", **status: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": ready, "reason": "FailedGetScale", "message": "404 in m1"}]
    conditions += status.pop("more", [])
    found = {"currentReplicas": 2, "desiredReplicas": 2, "conditions": conditions}
    found["summary"] = {"targets": "cpu: 55%/60%", "max": "8", "reason": "usage calls for no other size"}
    found["clusters"] = [{"name": "m1", "currentReplicas": 2}, {"name": "m2", "currentReplicas": 0}]
    metadata = {"namespace": "shop", "name": name, "creationTimestamp": "2027-01-15T07:00:00Z"}
    return {"metadata": metadata, "status": {**found, **status}}


def limited(reason: str) -> dict[str, Any]:
    message = "the desired replica count is more than the maximum replica count"
    return {"more": [{"type": "ScalingLimited", "status": "True", "reason": reason, "message": message}]}


def test_the_reason_of_a_metric_fits_into_80_columns() -> None:
    """Its end says what the metric calls for, which the words before it left no room for."""
    reason = "cpu resource utilization (percentage of request) above target"
    found = stored(summary={"targets": "cpu: 75%/60%", "max": "8", "reason": reason})

    assert table([row(found, NOW)], 80)[1].endswith("  cpu above target")


def test_no_text_of_an_object_controls_the_terminal() -> None:
    """A status has what its owner may have written."""
    escape = "\x1b[2J\x9b\r\n\x07"
    summary = {"targets": f"cpu: {escape}", "max": escape * 100, "reason": escape}
    found = [
        stored(escape, summary=summary),
        stored("b", more=[{"type": "Held", "status": "True", "message": escape}]),
    ]

    shown = table([row(each, NOW) for each in found], 0)

    assert re.sub(r"\x1b\[\d*m", "", "".join(shown)).isprintable()
    assert max(map(len, shown)) < 200


def test_what_needs_attention_comes_first() -> None:
    """Not Ready, at the maximum, held, being scaled, and then by name."""
    held: dict[str, Any] = {"more": [{"type": "Held", "status": "True", "message": "held by annotation"}]}
    found = [
        stored("e"),
        stored("d", desiredReplicas=4),
        stored("c", **held),
        stored("b", **limited("TooManyReplicas")),
        stored("a-new", ready="False"),
        {"metadata": {"name": "odd", "namespace": "shop"}, "status": [1]},
        stored("a"),
    ]

    names = [one["name"] for one in ordered(row(each, NOW) for each in found)]
    assert names == ["a-new", "odd", "b", "c", "d", "a", "e"]


def test_a_row_has_size_clusters_usage_and_what_holds_it() -> None:
    lines = table(
        ordered(row(each, NOW) for each in (stored(), stored("api", "False", desiredReplicas=5))),
        0,
        "shop",
    )

    assert [" ".join(line.split()) for line in lines] == [
        "NAME REPLICAS CLUSTERS USAGE AGE HOLDS",
        "api 2→5/8 █· 55%/60% 60m FailedGetScale: 404 in m1",
        "web 2/8 █· 55%/60% 60m usage calls for no other size",
    ]


@pytest.mark.parametrize(
    ("reason", "words"),
    [("TooManyReplicas", "at maximum"), ("TooFewReplicas", "at minimum")],
)
def test_what_limits_an_object_fits_into_80_columns(reason: str, words: str) -> None:
    """The sentence of the condition would be cut before it names the limit."""
    found = [row(stored("a-workload-with-a-name", **limited(reason)), NOW)]

    assert table(found, 80)[1].endswith(words)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    """A thousand objects with long names, many clusters and long reasons."""
    source = random.Random(1)
    found = []
    for number in range(1_000):
        raw = stored(f"{'x' * source.randint(1, 60)}-{number}", source.choice(["True", "False"]))
        raw["metadata"]["namespace"] = "n" * source.randint(1, 60)
        raw["status"]["clusters"] = [
            {"name": f"m{each}", "currentReplicas": source.randint(0, 900)} for each in range(20)
        ]
        raw["status"]["summary"] |= {"targets": "memory: 123.45Gi/1.25Gi, cpu: 1%/2%", "reason": "r" * 300}
        found.append(row(raw, NOW))

    lines = table(found, width, "" if width >= 80 else "shop")
    assert len(lines) == 1_001
    assert max(map(len, lines)) <= width


def test_unknown_usage_leaves_room_for_its_target() -> None:
    """kubectl's word for it is longer than the column."""
    found = stored(summary={"targets": "cpu: <unknown>/60%", "max": "8"})

    assert "  ?/60%  " in table([row(found, NOW)], 80)[1]


@pytest.mark.parametrize(
    ("replicas", "drawn"),
    [([], ""), ([0, 0], "··"), ([8, 4, 1, 0], "█▄▁·"), ([None, 3], "?█"), (range(1, 11), "▁▂▂▃▄▅…")],
)
def test_a_bar_is_a_share_of_the_largest_cluster(replicas: Any, drawn: str) -> None:
    assert bars(replicas) == drawn


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "?"), (0, "0s"), (119, "119s"), (120, "2m"), (7_200, "2h"), (172_800, "2d")]
)
def test_an_age_has_its_largest_unit(seconds: int | None, text: str) -> None:
    assert age(seconds) == text


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal shows colours, a pipe and NO_COLOR do not."""
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    shown = colours.painted("x", colours.RED)
    monkeypatch.setenv("NO_COLOR", "1")
    plain = colours.painted("x", colours.RED)
    monkeypatch.setenv("NO_COLOR", "")
    empty = colours.painted("x", colours.RED)

    assert (shown, plain, empty) == ("\x1b[31mx\x1b[0m", "x", "\x1b[31mx\x1b[0m")


async def test_a_hub_is_shown_once_in_a_pipe(tmp_path: Path) -> None:
    """All objects with -A, those of one namespace with -n, and JSON for programs."""
    async with installation(tmp_path) as made:
        other = federated_hpa("api")
        made.store.create(FHPAS, {**other, "metadata": {"name": "api", "namespace": "other"}})
        hub = ("top", "--kubeconfig", str(made.hub.kubeconfig))
        everywhere = await fedhpa_thread(*hub, "-A")
        one = await fedhpa_thread(*hub, "-n", "shop", "--once")
        as_json = await fedhpa_thread(*hub, "-A", "-o", "json")
        none = await fedhpa_thread(*hub, "-n", "nobody")

    assert [line.split()[:2] for line in everywhere.out.splitlines()] == [
        ["NAMESPACE", "NAME"],
        ["other", "api"],
        ["shop", "web"],
    ]
    assert everywhere.out.splitlines()[1].endswith("no controller has looked at it")
    assert [line.split()[0] for line in one.out.splitlines()] == ["NAME", "web"]
    assert [(each["name"], each["attention"]) for each in json.loads(as_json.out)] == [("api", 4), ("web", 1)]
    assert none.out == "No FederatedHPAs found in namespace nobody: see those of all namespaces with -A.\n"


@contextmanager
def terminal(*arguments: str, columns: int, lines: int) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Yields the command as a process in a terminal of this size, and the other end of the terminal."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    environment = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "LINES")}
    process = subprocess.Popen(
        [sys.executable, "-m", "fedhpa.cli.main", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=subprocess.PIPE,
        env=environment | {"TERM": "xterm"},
    )
    os.close(theirs)
    try:
        yield process, ours
    finally:
        process.kill()
        process.communicate()
        os.close(ours)


def read_until(end: int, wanted: str) -> str:
    """Returns what a terminal gets, up to a text."""
    found = b""
    while wanted.encode() not in found:
        found += os.read(end, 65_536)
    return found.decode(errors="replace")


async def test_the_table_follows_a_thousand_objects_in_a_terminal(tmp_path: Path) -> None:
    """Each screen fits into 80 columns and 24 lines. A change shows at the next look, and Ctrl-C ends it."""
    async with installation(tmp_path) as made:
        for number in range(1_000):
            manifest = federated_hpa("web") | stored(f"web-{number:04d}")
            made.store.create(FHPAS, manifest)
        options = ("top", "-A", "--interval", "1", "--kubeconfig", str(made.hub.kubeconfig))
        with terminal(*options, columns=80, lines=24) as (process, end):
            first = await asyncio.to_thread(read_until, end, "less attention")
            unready = stored("web-0777", "False")
            made.edit(FHPAS, "web-0777", "shop", status=unready["status"])
            second = await asyncio.to_thread(read_until, end, "web-0777")
            process.send_signal(signal.SIGINT)
            last = await asyncio.to_thread(read_until, end, LEAVE)
            code = await asyncio.to_thread(process.wait)

    plain = re.sub(r"\x1b\[\d*m", "", (first + second + last).replace("\r\n", "\n"))
    screens = [one.partition(LEAVE)[0].splitlines() for one in plain.split(HOME)[1:]]
    assert first.startswith(ENTER)
    assert len(screens[0]) <= 24
    assert max(len(line) for screen in screens for line in screen) <= 80
    assert code == 130
