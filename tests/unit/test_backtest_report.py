"""The report of a backtest draws what a run has; text from outside stays text, and every list is bounded."""

from __future__ import annotations

import json
import math
import random
import re
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest

from fedhpa.api.errors import ConfigError
from fedhpa.backtest.report import html, png, svg, terminal
from fedhpa.backtest.report.colours import CLUSTER_COLOURS, DARK, LIGHT
from fedhpa.backtest.report.drawing import MAX_RUNS, drawn, kept_steps
from fedhpa.backtest.result import (
    Assumption,
    Change,
    ClusterRun,
    Figures,
    Gap,
    Mark,
    Report,
    Run,
    percent,
)
from tests.support.office_day import DAY, PICTURE, PICTURE_STEP, START, demand, office_report, run

NOTHING = Figures(0.0, 0.0, 0.0, 0.0, 0, 0)
LARGEST = 6_000_000
ATTACK = "</script><script>hit=1</script><!-- \" ' & <img src=x onerror=hit=1> \u2028 \x00 \u202e \ud800"
SVG = "{http://www.w3.org/2000/svg}"


class Elements(HTMLParser):
    """The elements of a page, their attributes, and the text outside scripts and style sheets."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.data = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        if self.names and self.names[-1] == "script":
            self.data = self.data or data
        elif self.names and self.names[-1] != "style":
            self.text += data


def small(**changes: Any) -> Report:
    """Returns the office day in steps of ten minutes, changed."""
    return msgspec.structs.replace(office_report(step=600.0), **changes)


def attacked() -> Report:
    """Returns a report in which every text is hostile."""
    one = office_report(step=600.0).runs[0]
    hostile = msgspec.structs.replace(
        one,
        name=ATTACK,
        clusters=[ClusterRun(ATTACK + each.name, each.desired, each.ready) for each in one.clusters],
        changes=[Change(each.at, each.before, each.after, ATTACK + each.reason) for each in one.changes],
    )
    return small(
        namespace=ATTACK,
        name=ATTACK,
        metric=ATTACK,
        unit=ATTACK,
        best=ATTACK,
        runs=[hostile, hostile],
        marks=[Mark(START + 3600, ATTACK)],
        gaps=[Gap(ATTACK, START, START + 3600)],
        notes=[ATTACK],
        warnings=[ATTACK],
        assumptions=[Assumption(ATTACK, ATTACK, ATTACK)],
    )


def empty_run(steps: int) -> Run:
    nothing: list[float | None] = [None] * steps
    clusters = [ClusterRun("member1", [None] * steps, [None] * steps)]
    return Run("gaps", clusters, nothing, nothing, nothing, nothing, [], NOTHING)


STRANGE: dict[str, Callable[[], Report]] = {
    "hostile texts": attacked,
    "a name of a megabyte": lambda: small(
        name="x" * 1_000_000, best="y" * 1_000_000, notes=["z" * 1_000_000]
    ),
    "nothing but gaps": lambda: small(runs=[empty_run(48)] * 2),
    "one step": lambda: small(runs=[run("one", [1.0], 600.0, 0.5)] * 2),
}


@pytest.mark.parametrize("report", STRANGE.values(), ids=STRANGE)
def test_strange_reports_are_drawn(report: Callable[[], Report]) -> None:
    """A strange report is drawn in each form, within 6 MB, and neither NaN nor an infinity is shown."""
    page, image, lines = html(report()), svg(report()), terminal(report(), 80)
    elements = Elements(page)
    data = json.loads(elements.data, parse_constant=lambda text: pytest.fail(f"{text} in the data"))
    drawing = ElementTree.fromstring(image)

    assert len(page.encode()) < LARGEST
    assert elements.names.count("script") == 3
    assert not [key for key, _ in elements.attributes if key.startswith("on") or key in ("src", "href")]
    assert "img" not in elements.names
    assert data["end"] >= data["start"]
    assert not list(drawing.iter(f"{SVG}script")) + list(drawing.iter(f"{SVG}image"))
    texts = "".join(each.text or "" for each in drawing.iter()) + elements.text + lines
    assert not re.search(r"\b(nan|inf|Infinity|NaN|None)\b", texts)
    assert all(len(line) <= 80 for line in lines.splitlines())
    assert "\x1b" not in lines


def test_image_is_png() -> None:
    """A PNG is drawn of hostile texts, too, 1,800 to 2,000 pixels wide."""
    image = png(attacked())

    assert image.startswith(b"\x89PNG\r\n")
    assert 1800 <= int.from_bytes(image[16:20], "big") <= 2000


def test_texts_are_shown_as_they_are() -> None:
    """A hostile name is readable in the page and in the image."""
    start = "</script><script>hit=1</script>"

    assert start in Elements(html(attacked())).text
    assert start in "".join(each.text or "" for each in ElementTree.fromstring(svg(attacked())).iter())


def test_missing_library_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra the error names the command that installs it; the terminal needs nothing."""
    from fedhpa.backtest.report import engine

    engine.script.cache_clear()
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    for form in (html, svg, png):
        with pytest.raises(ConfigError, match=r"pip install 'fedhpa\[report\]'"):
            form(small())

    assert "demand against capacity" in terminal(small(), 80)


def test_page_loads_nothing() -> None:
    """The policy of the page allows two scripts by their hashes, and nothing else."""
    page = html(small())
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)

    assert policy is not None
    assert re.fullmatch(
        r"default-src 'none'; script-src( 'sha256-[\w+/=]{44}'){2}; style-src 'unsafe-inline'", policy[1]
    )
    addresses = set(re.findall(r"https?://[\w.]+", page))
    # Names of XML namespaces, and links of the library's menu, which the page switches off.
    assert addresses <= {"http://www.w3.org", "https://vega.github.io", "https://github.com"}


def test_week_of_eight_variants_fits() -> None:
    """Seven days at 15 seconds with eight variants are less than 6 MB, and keep every peak of the demand."""
    load = demand(15.0, 7)
    one, other = run("recorded", load, 15.0, 0.6), run("variant", load, 15.0, 0.7)
    report = small(step=15.0, runs=[one, *[other] * 8])
    drawing = drawn(report)

    assert len(html(report).encode()) < LARGEST
    assert all(len(each.columns["t"]) <= 3000 for each in drawing.runs)
    highest = max(value for value in load)
    assert max(value for value in drawing.runs[0].columns["demand"] if value is not None) == pytest.approx(
        highest, rel=1e-3
    )
    assert len(drawing.runs[0].changes) == len(one.changes)
    assert "no peak is lost" in drawing.notes[0]


def test_largest_report_fits() -> None:
    """A page has at most 6 MB, however many runs, clusters and changes there are, and says what it lacks."""
    steps, noise = 20_000, random.Random(3)
    line: list[float | None] = [noise.random() * 1e9 for _ in range(steps)]
    sizes: list[int | None] = [noise.randrange(1000) for _ in range(steps)]
    changes = [Change(START + 15.0 * i, i % 1000, (i + 7) % 1000, f"{i} " + "é<" * 200) for i in range(steps)]
    clusters = [ClusterRun(f"member{i}", sizes, sizes) for i in range(12)]
    one = Run("large", clusters, line, line, line, line, changes, NOTHING)
    report = small(
        step=15.0,
        runs=[one] * 70,
        marks=[Mark(START + i, "m" * 1000) for i in range(1000)],
        gaps=[Gap("g" * 1000, START + i, START + i + 1) for i in range(1000)],
    )
    page = html(report)

    assert len(page.encode()) < LARGEST
    assert f"The picture has the first {MAX_RUNS} of 70 runs." in page
    assert "are not in the picture" in page
    assert "5 other clusters" in page


def test_thinning_keeps_every_peak() -> None:
    """Every interval of the thinned lines has the lowest and the highest value of each line, and its gap."""
    noise = random.Random(7)
    for _ in range(20):
        steps = noise.randrange(100, 3000)
        lines: list[list[float | None]] = [
            [None if noise.random() < 0.01 else noise.gauss(5, 2) for _ in range(steps)] for _ in range(3)
        ]
        most = noise.randrange(40, 200)
        kept = kept_steps(lines, steps, most)

        assert kept == sorted(set(kept))
        assert kept[0] == 0
        assert kept[-1] == steps - 1
        assert len(kept) <= max(most, 9)
        for line in lines:
            known = [value for value in line if value is not None]
            seen = [line[i] for i in kept]
            assert max(known) in seen
            assert min(known) in seen
            assert (None in seen) == (None in line)


def test_gap_is_no_zero() -> None:
    """A cluster without data has no size there, and its time is shaded."""
    drawing = drawn(office_report())
    away = [
        i for i, at in enumerate(drawing.runs[0].columns["t"]) if 14 <= ((at or 0) / 1000 - START) / 3600 < 15
    ]

    assert away
    assert {drawing.runs[0].columns["n2"][i] for i in away} == {None}
    assert [name for _, _, name in drawing.gaps] == ["edge-north"]
    assert drawing.gaps[0][:2] == (round((START + 14 * 3600) * 1000), round((START + 15 * 3600) * 1000))


def test_long_names_stay_apart() -> None:
    """Clusters whose names differ only after the bound have different labels, and none that of a line."""
    size: list[int | None] = [1, 1]
    names = ["demand", "x" * 100 + "a", "x" * 100 + "b"]
    one = Run(
        "r", [ClusterRun(each, size, size) for each in names], [1, 1], [1, 1], [1, 1], [0, 0], [], NOTHING
    )
    labels = drawn(small(runs=[one])).clusters

    assert len(set(labels)) == 3
    assert "demand" not in labels


def test_exactly_eight_clusters_are_drawn_alone() -> None:
    """Up to eight clusters have a colour each; of more, the last colour is that of all others."""
    for count in (7, 8, 9):
        size: list[int | None] = [1, 2]
        clusters = [ClusterRun(f"member{i}", size, size) for i in range(count)]
        one = Run("r", clusters, [1, 1], [1, 1], [1, 1], [0, 0], [], NOTHING)
        drawing = drawn(small(runs=[one]))
        sizes = [key for key in drawing.runs[0].columns if key[1:].isdecimal()]

        assert len(drawing.clusters) == len(sizes) == min(count, 8)
        assert drawing.runs[0].columns["ready"] == [count, 2 * count]


def seen_by(colour: str, kind: str) -> tuple[float, ...]:
    """Returns a colour in CIE L*a*b* as a colour-blind reader sees it (Machado et al. 2009, severity 1)."""
    matrix = {
        "protanopia": (
            (0.152286, 1.052583, -0.204868),
            (0.114503, 0.786281, 0.099216),
            (-0.003882, -0.048116, 1.051998),
        ),
        "deuteranopia": (
            (0.367322, 0.860646, -0.227968),
            (0.280085, 0.672501, 0.047413),
            (-0.011820, 0.042940, 0.968881),
        ),
        "tritanopia": (
            (1.255528, -0.076749, -0.178779),
            (-0.078411, 0.930809, 0.147602),
            (0.004733, 0.691367, 0.303900),
        ),
        "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    }[kind]
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    red, green, blue = (
        min(1, max(0, sum(a * b for a, b in zip(row, linear, strict=True)))) for row in matrix
    )
    whole = (
        (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505,
        0.2126 * red + 0.7152 * green + 0.0722 * blue,
        (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089,
    )
    x, y, z = (each ** (1 / 3) if each > 0.008856 else 7.787 * each + 16 / 116 for each in whole)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("kind", ["protanopia", "deuteranopia", "tritanopia", "all"])
@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_neighbours_can_be_told_apart(kind: str, colours: dict[str, str]) -> None:
    """Bands that lie on each other, and what is not served, differ for every kind of colour blindness."""
    bands = [colours[f"c{i}"] for i in range(len(CLUSTER_COLOURS))]
    pairs = [*pairwise(bands), *((band, colours["unserved"]) for band in bands[:4])]

    # 10 is a difference that is seen at a glance; 2.3 is the least that is seen at all.
    assert [pair for pair in pairs if math.dist(*(seen_by(each, kind) for each in pair)) < 10] == []


def test_terminal_shows_demand_sizes_rules_and_gaps() -> None:
    """The chart has the best run: the demand, a bar of the size for each column, rules and gaps."""
    lines = terminal(office_report(), 80).splitlines()

    assert lines[0] == "target 70, minReplicas 24 from 07:30 to 10:00: demand against capacity at the..."
    assert [len(re.findall("[█▓]", line)) for line in lines[2:10]] == sorted(
        len(re.findall("[█▓]", line)) for line in lines[2:10]
    )
    # The recording has demand at every time, and the floor of 24 replicas is there before the demand is.
    assert lines[9].count("█") + lines[9].count("▓") == 71
    assert re.search(r"░█", lines[7])
    assert re.fullmatch(r"replicas [▁▂▃▄▅▆▇█]{71}", lines[10])
    assert lines[11].startswith("   to 41 Mon 00:00 ")
    assert lines[12:] == [
        "2026-03-09 07:30 rule work-hours",
        "2026-03-09 10:00 rule after-rush",
        "2026-03-09 14:00 to 2026-03-09 15:00 no data of edge-north",
    ]


def test_terminal_paints_what_is_above_the_capacity() -> None:
    """Demand above the capacity is red; without a painter there are no escapes."""
    painted = terminal(office_report(), 80, lambda text, style: f"<{style}>{text}</>" if style else text)

    assert re.search(r"<31>▓+</>", painted)
    assert re.sub(r"<\d+>|</>", "", painted) == terminal(office_report(), 80)


@pytest.mark.parametrize("width", [0, 40, 60, 80, 132, 10_000])
def test_terminal_keeps_its_width(width: int) -> None:
    """No line is wider than the terminal, which has at least 40 characters."""
    assert max(map(len, terminal(office_report(), width).splitlines())) <= max(width, 40)


@pytest.mark.parametrize(
    ("part", "bound", "text"),
    [
        (0.0, 0.001, "0%"),
        (0.00004, 0.001, "<0.01%"),
        (0.00098, 0.001, "0.098%"),
        (0.001, 0.001, "0.1%"),
        (0.001004, 0.001, "0.1004%"),
        (0.00004, 0.00001, "0.004%"),
        (0.1249, 0.125, "12.5%"),
        (0.12504, 0.125, "12.504%"),
    ],
)
def test_a_part_above_the_bound_is_no_number_within_it(part: float, bound: float, text: str) -> None:
    """A run that breaks the bound of 0.1% is not shown with 0.1%."""
    assert percent(part, bound) == text


def test_warnings_stand_below_the_sentence() -> None:
    """Warnings are read before the picture."""
    text = Elements(html(small(warnings=["demand is hidden on 1 day"]))).text

    assert text.index("Take target 70") < text.index("Demand is hidden") < text.index("Choose a run")


def test_days_are_shown() -> None:
    """A report of several days has a table of the days of each run."""
    page = Elements(html(office_report(step=600.0, days=2)))

    assert page.attributes.count(("class", "wide days")) == 7
    assert "2026-03-10" in page.text
    assert DAY == 86_400


def test_picture_of_the_pages_is_current() -> None:
    """docs/backtest.svg is what `make docs` draws."""
    assert PICTURE.read_text(encoding="utf-8") == svg(office_report(PICTURE_STEP)) + "\n"
