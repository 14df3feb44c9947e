"""The report of a backtest in a real headless Chromium: hover, keys, variants, dark mode and print.

Without Chromium the tests are skipped; with FEDHPA_REAL_PLANE=require, as in CI, they fail.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from fedhpa.backtest.report import html
from fedhpa.backtest.result import Report
from tests.support.browser import Page, browser
from tests.support.office_day import office_report
from tests.unit.test_backtest_report import ATTACK, attacked

READY = "document.body.dataset.ready === 'yes'"
PANEL = "document.querySelector('#picture .concat_{panel}_group .background').getBoundingClientRect()"
BOX = f"(({{left, top, width, height}}) => [left, top, width, height])({PANEL})"
# A browser takes longer to start than to show all reports.
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Page]:
    """A browser with one page."""
    async with browser(tmp_path_factory.mktemp("browser")) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def page(chromium: Page) -> AsyncIterator[Page]:
    """The page. At the end no error was reported, and nothing but the file was loaded."""
    chromium.errors.clear()
    chromium.requests.clear()
    await chromium.media()
    yield chromium
    assert chromium.errors == []
    assert {url.partition(":")[0] for url in chromium.requests} == {"file"}


async def opened(page: Page, folder: Path, report: Report, **size: int) -> None:
    """Writes the report to a file and opens that."""
    file = folder / "report.html"
    file.write_text(html(report), encoding="utf-8")
    await page.open(file, READY, **size)


async def place(page: Page, part: float, panel: int = 0) -> tuple[float, float]:
    """Returns the place in the window of a part of the time, in the middle of a panel."""
    await page.run("document.getElementById('chart').scrollIntoView()")
    left, top, width, height = await page.run(BOX.replace("{panel}", str(panel)))
    return left + part * width, top + height / 2


async def hint(page: Page) -> str:
    text: str = await page.run("document.getElementById('hint').innerText")
    return text


async def paths(page: Page) -> str:
    """Returns the lines and areas that are drawn."""
    found: list[str] = await page.run(
        "[...document.querySelectorAll('#picture .mark-line path, #picture .mark-area path')]"
        ".map((each) => each.getAttribute('d'))"
    )
    return json.dumps(found)


async def colour(page: Page, selector: str, what: str) -> Any:
    return await page.run(f"getComputedStyle(document.querySelector({selector!r})).{what}")


async def test_pointer_and_keys_tell_the_reason(page: Page, tmp_path: Path) -> None:
    """The pointer shows values, rule, gap and reason in each panel; arrow keys go from change to change."""
    report = office_report()
    await opened(page, tmp_path, report)

    for panel in range(3):
        await page.point(*await place(page, 0.4, panel))
        text = await hint(page)
        assert "2026-03-09 09:3" in text
        assert "usage 10" in text
        # 0.4 of the day is 09:36; the last change before it is that of 08:29:30.
        last = [each for each in report.runs[1].changes if each.at <= report.start + 0.4 * 86_400][-1]
        assert f"{last.before} → {last.after} replicas: {last.reason}" in text

    await page.point(*await place(page, 14.5 / 24))
    assert "no data of edge-north" in await hint(page)
    assert "edge-north no data" in await hint(page)
    await page.point(*await place(page, 7.5 / 24))
    assert "07:30:00 rule work-hours" in await hint(page)

    await page.run("document.getElementById('chart').focus()")
    await page.key("Home")
    for change in report.runs[1].changes[:3]:
        said = await page.run("document.getElementById('said').textContent")
        assert f"{change.before} → {change.after} replicas: {change.reason}" in said
        await page.key("ArrowRight")
    await page.key("Escape")
    assert await colour(page, "#hint", "display") == "none"


async def test_variants_switch(page: Page, tmp_path: Path) -> None:
    """The best run is drawn first; a click or an arrow key draws another one, with its reasons and days."""
    report = office_report(step=300.0, days=2)
    await opened(page, tmp_path, report)
    shown = "document.getElementById('shown').textContent"
    seen = {await paths(page)}
    assert await page.run(shown) == report.runs[1].name

    # Run 2 is the object as it is, which was recorded: it looks like run 0.
    for index in (0, 3, 4, 5, 6):
        await page.run(f"document.querySelector('input[value=\"{index}\"]').click()")
        await page.until(f"document.body.dataset.run === '{index}'")
        assert await page.run(shown) == report.runs[index].name
        await page.until(f"document.querySelectorAll('.days:not([hidden])')[0].dataset.run === '{index}'")
        seen.add(await paths(page))
    assert len(seen) == 6

    await page.run("document.querySelector('input:checked').focus()")
    await page.key("ArrowLeft")
    await page.until("document.body.dataset.run === '5'")
    await page.run("document.querySelector('#changes summary').click()")
    await page.until(f"document.querySelectorAll('#rows tr').length === {len(report.runs[5].changes)}")
    assert report.runs[5].changes[0].reason in await page.run("document.getElementById('rows').innerText")


async def test_zoom(page: Page, tmp_path: Path) -> None:
    """Dragging zooms to a time, the keys change it, a double click shows all again."""
    await opened(page, tmp_path, office_report(step=300.0))
    whole = await paths(page)
    axis = "document.querySelector('#picture .concat_2_group').textContent"

    x, y = await place(page, 0.25)
    await page.point(x, y)
    await page.point(x, y, "mousePressed", button="left", clickCount=1)
    x, y = await place(page, 0.5)
    await page.point(x, y, buttons=1)
    await page.point(x, y, "mouseReleased", button="left", clickCount=1)
    await page.until(f"!{axis}.includes('Tue 10 Mar')")
    assert await paths(page) != whole
    await page.point(*await place(page, 0.5))
    assert "2026-03-09 09:0" in await hint(page)

    await page.run("document.getElementById('chart').focus()")
    await page.key("0")
    await page.until(f"{axis}.includes('Tue 10 Mar')")
    assert await paths(page) == whole
    await page.key("+")
    await page.until(f"!{axis}.includes('Tue 10 Mar')")


async def test_dark_print_and_narrow(page: Page, tmp_path: Path) -> None:
    """Dark mode changes page and picture; paper is white, without controls; no window is too narrow."""
    await opened(page, tmp_path, office_report(step=300.0))
    line = "#picture .mark-line path"
    assert await colour(page, "body", "backgroundColor") == "rgb(255, 255, 255)"
    assert await colour(page, line, "stroke") == "rgb(17, 17, 17)"

    await page.media(scheme="dark")
    assert await colour(page, "body", "backgroundColor") == "rgb(22, 24, 27)"
    assert await colour(page, line, "stroke") == "rgb(255, 255, 255)"

    await page.media("print", scheme="dark")
    assert await colour(page, "body", "backgroundColor") == "rgb(255, 255, 255)"
    assert await colour(page, line, "stroke") == "rgb(17, 17, 17)"
    assert await colour(page, "fieldset", "display") == "none"
    assert await colour(page, "#table", "display") == "table"
    assert (await page.pdf()).startswith(b"%PDF")

    await page.media()
    for width in (800, 400):
        await opened(page, tmp_path, office_report(step=300.0), width=width)
        await page.until(f"document.documentElement.scrollWidth <= {width}")
        # A name of a run is not broken into single characters.
        assert await page.run("document.querySelector('#table tbody th').clientWidth") > 90


async def test_hostile_texts_stay_texts(page: Page, tmp_path: Path) -> None:
    """A hostile text runs nothing: it stands in the page, the hover and the list of changes as it is."""
    await opened(page, tmp_path, attacked())
    await page.point(*await place(page, 0.5))
    await page.run("document.querySelector('#changes summary').click()")
    await page.until("document.querySelectorAll('#rows tr').length > 0")

    assert await page.run("typeof hit") == "undefined"
    assert await page.run("document.querySelectorAll('img').length") == 0
    start = ATTACK.partition(" ")[0]
    assert start in await hint(page)
    assert start in await page.run("document.getElementById('rows').innerText")
    assert start in await page.run("document.querySelector('.verdict').innerText")


async def test_week_responds(page: Page, tmp_path: Path) -> None:
    """A week at 15 seconds switches, zooms and follows the pointer without long pauses."""
    report = office_report(step=15.0, days=7)
    await opened(page, tmp_path, report)
    await page.send("Performance.enable", timeDomain="threadTicks")
    started = await task_seconds(page)
    await page.run("document.querySelector('input[value=\"4\"]').click()")
    await page.until("document.body.dataset.run === '4'")
    await page.run("new Promise(requestAnimationFrame)")
    switched = await task_seconds(page)
    left, height = await place(page, 0)
    for pixel in range(100):
        await page.point(left + 10 * pixel, height)
    followed = await task_seconds(page)

    assert switched - started < 3
    assert followed - switched < 3


async def task_seconds(page: Page) -> float:
    """Returns the seconds of CPU that the page has used: other work on the machine does not count."""
    found = await page.send("Performance.getMetrics")
    return float(next(each["value"] for each in found["metrics"] if each["name"] == "TaskDuration"))
