"""The view of the demo fits the terminal, shows the curves, and prints text literally."""

import dataclasses
import io
from collections.abc import Iterator

import pytest
from rich.console import Console

from demo.picture import MemberView, Picture
from demo.rules import RulesPicture
from demo.view import Lines, LiveView

REFUSAL = 'admission webhook denied the request: spec.rules[0].schedule: Invalid value: "[bold]0 0 31 2 *"'
STATUS = {
    "desiredReplicas": 6,
    "summary": {"reason": "cpu resource utilization (percentage of request) above target"},
}


RULES = {
    "target": "Deployment/report",
    "last": "2026-03-11T13:24:00Z even",
    "next": "2026-03-11T13:25:00Z odd",
}


def picture(second: float, *, lost: bool = False) -> Picture:
    members = {name: MemberView(3, 2, 300) for name in ("a", "b", "c")}
    if lost:
        members["c"] = MemberView(None, None, None)
    return Picture(seconds=second, members=members, object={"spec": {"maxReplicas": 9}, "status": STATUS})


def screen(width: int, height: int) -> Console:
    return Console(file=io.StringIO(), width=width, height=height, force_terminal=True, color_system=None)


def drawn(view: LiveView, width: int, height: int) -> list[str]:
    console = screen(width, height)
    with console.capture() as captured:
        console.print(view.render())
    return captured.get().splitlines()


@pytest.fixture
def sizes() -> Iterator[list[LiveView]]:
    """Views to be closed."""
    views: list[LiveView] = []
    yield views
    for view in views:
        view.close()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (140, 45), (200, 60)])
def test_picture_fits_the_terminal(sizes: list[LiveView], width: int, height: int) -> None:
    """However much happened, no line is too long, none is too many, and the newest is there."""
    view = LiveView(2000, ["export KUBECONFIG=" + "x" * 80], screen(width, height))
    sizes.append(view)
    for second in range(300):
        view.show(picture(second, lost=second > 200), 10 * second)
        if second % 5 == 4:
            view.say(f"{REFUSAL} {second}")
    lines = drawn(view, width, height)

    assert len(lines) < height
    assert max(map(len, lines)) <= width
    assert any(" 299 " in line or line.rstrip(" │").endswith("299") for line in lines)


def test_curves_follow_load_and_pods(sizes: list[LiveView]) -> None:
    """Each reading is a column: low where there was little load, full at its peak."""
    view = LiveView(1000, [], screen(80, 24))
    sizes.append(view)
    for second, demand in enumerate((0, 500, 1000)):
        view.show(picture(second), demand)
    (load,) = [line for line in drawn(view, 80, 24) if "load" in line]

    assert "▁▄█" in load
    assert "1000m" in load


def test_column_may_show_several_readings(sizes: list[LiveView]) -> None:
    """A long pass fits into a terminal. The newest reading is always the last column."""
    view = LiveView(1000, [], screen(80, 24), samples_per_column=2)
    sizes.append(view)
    for second, demand in enumerate((1000, 0, 1000, 500, 1000)):
        view.show(picture(second), demand)
    (load,) = [line for line in drawn(view, 80, 24) if "load" in line]

    assert "m  ███ " in load


def test_bounds_of_member_hpas_are_shown(sizes: list[LiveView]) -> None:
    """The table has a column for them, and a line in a pipe has them behind the pods."""
    members = {"a": MemberView(3, 2, 300, (2, 8)), "b": MemberView(3, 3, 300)}
    seen = Picture(seconds=1, members=members, object={}, hub_away=True)
    view = LiveView(1000, [], screen(80, 24))
    sizes.append(view)
    view.show(seen, 100)
    out = io.StringIO()
    Lines(out).show(seen, 100)
    lines = drawn(view, 80, 24)

    assert "a 3 [2..8], b 3;" in out.getvalue()
    assert any("HPA" in line for line in lines)
    assert any("2 to 8" in line for line in lines)
    assert any("the hub does not answer" in line for line in lines)


def test_rules_are_shown_with_their_last_and_next_execution(sizes: list[LiveView]) -> None:
    """The live view has a line of the rules. In a pipe the line appears once for each change."""
    rules = RulesPicture({"status": {"summary": RULES}}, 8)
    first, second = (dataclasses.replace(picture(at), rules=rules) for at in (1, 2))
    view = LiveView(1000, [], screen(120, 30))
    sizes.append(view)
    view.show(first, 100)
    out = io.StringIO()
    lines = Lines(out)
    lines.show(first, 100)
    lines.show(second, 100)
    expected = (
        "rules: Deployment/report: 8 pods; last 2026-03-11T13:24:00Z even; next 2026-03-11T13:25:00Z odd"
    )

    assert any(expected in line for line in drawn(view, 120, 30))
    assert len(drawn(view, 120, 30)) < 30
    assert out.getvalue().count(expected) == 1


def test_pods_of_a_lost_member_are_not_counted_as_none(sizes: list[LiveView]) -> None:
    """The sum of the others is shown as what it is: a part."""
    view = LiveView(1000, [], screen(80, 24))
    sizes.append(view)
    view.show(picture(1, lost=True), 100)
    lines = drawn(view, 80, 24)

    assert any("6 + ?" in line for line in lines)
    assert any("away" in line for line in lines)


def test_text_is_shown_as_it_is(sizes: list[LiveView]) -> None:
    """Square brackets in a message are no markup."""
    view = LiveView(1000, [], screen(140, 40))
    sizes.append(view)
    view.say(REFUSAL)

    assert any("rules[0]" in line and "[bold]" in line for line in drawn(view, 140, 40))


def test_pipe_gets_a_line_for_each_change() -> None:
    """A reading without changes prints nothing."""
    out = io.StringIO()
    lines = Lines(out)
    for second in range(3):
        lines.show(picture(second), 500)
    lines.show(picture(3, lost=True), 500)

    assert len(out.getvalue().splitlines()) == 2
    assert "c ?" in out.getvalue().splitlines()[1]
