"""The view of the demo fits the terminal, shows the curves, and prints text literally."""

import io
from collections.abc import Iterator

import pytest
from rich.console import Console

from demo.picture import MemberView, Picture
from demo.view import Lines, LiveView

REFUSAL = 'admission webhook denied the request: spec.rules[0].schedule: Invalid value: "[bold]0 0 31 2 *"'
STATUS = {
    "desiredReplicas": 6,
    "summary": {"reason": "cpu resource utilization (percentage of request) above target"},
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
