"""A headless Chromium, driven over its DevTools protocol: one page, its errors, keys and screenshots."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp
import pytest

PROGRAMS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# The last ones keep Chromium from looking for addresses, which a closed network would refuse one by one.
FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-port=0",
)
# A machine may give a process a twentieth of its CPU.
START_SECONDS: Final = 150.0
ANSWER_SECONDS: Final = 120.0
KEYS: Final = {
    "ArrowRight": 39,
    "ArrowLeft": 37,
    "ArrowDown": 40,
    "Home": 36,
    "End": 35,
    "Escape": 27,
    "Tab": 9,
}


def program() -> str:
    """Returns the path of a Chromium. Without one the test is skipped, or fails if CI requires everything."""
    found = next((path for each in PROGRAMS if (path := shutil.which(each))), None)
    if found is None:
        reason = "no Chromium is installed: apt-get install chromium"
        if os.environ.get("FEDHPA_REAL_PLANE") == "require":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


class Page:
    """One page. `errors` has what its console reported as an error, and its uncaught exceptions."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._reader = asyncio.create_task(self._read())
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.send(f"{domain}.enable")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)

    async def _read(self) -> None:
        async for message in self._socket:
            event = message.json()
            if "id" in event:
                self._answers.pop(event["id"]).set_result(event)
                continue
            about = event["params"]
            match event["method"]:
                case "Runtime.exceptionThrown":
                    self.errors.append(str(about["exceptionDetails"]))
                case "Runtime.consoleAPICalled" if about["type"] in ("error", "warning", "assert"):
                    self.errors.append(str(about["args"]))
                case "Log.entryAdded" if about["entry"]["level"] in ("error", "warning"):
                    self.errors.append(about["entry"]["text"])
                case "Network.requestWillBeSent":
                    self.requests.append(about["request"]["url"])

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the DevTools protocol and returns its result."""
        number = next(self._numbers)
        self._answers[number] = answer = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        async with asyncio.timeout(ANSWER_SECONDS):
            found = await answer
        assert "error" not in found, (method, found)
        result: dict[str, Any] = found["result"]
        return result

    async def run(self, expression: str) -> Any:
        """Returns the value of an expression in the page; a promise is awaited."""
        found = await self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, (expression, found)
        return found["result"].get("value")

    async def open(self, path: Path, ready: str, width: int = 1280, height: int = 900) -> None:
        """Opens a file and waits until the expression `ready` is true."""
        await self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        await self.send("Page.navigate", url=path.as_uri())
        await self.until(f"document.readyState === 'complete' && ({ready})")

    async def until(self, expression: str) -> None:
        """Waits until an expression is true; an error of the page ends the wait."""
        async with asyncio.timeout(ANSWER_SECONDS):
            while not await self.run(expression):
                assert not self.errors, self.errors
                await asyncio.sleep(0.02)

    async def media(self, media: str = "", scheme: str = "light") -> None:
        """Shows the page as in print (`media` is "print"), or to a reader with the scheme light or dark."""
        feature = {"name": "prefers-color-scheme", "value": scheme}
        await self.send("Emulation.setEmulatedMedia", media=media, features=[feature])

    async def point(self, x: float, y: float, kind: str = "mouseMoved", **more: Any) -> None:
        """Moves the pointer, or presses or releases its button (mousePressed, mouseReleased)."""
        await self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    async def key(self, key: str) -> None:
        """Presses a key."""
        more = {"windowsVirtualKeyCode": KEYS[key]} if key in KEYS else {"text": key}
        await self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **more)
        await self.send("Input.dispatchKeyEvent", type="keyUp", key=key, **more)

    async def screenshot(self, *, whole: bool = True) -> bytes:
        """Returns the page as PNG."""
        found = await self.send("Page.captureScreenshot", captureBeyondViewport=whole, fromSurface=True)
        return base64.b64decode(found["data"])

    async def pdf(self) -> bytes:
        """Returns the page as it is printed."""
        return base64.b64decode((await self.send("Page.printToPDF", printBackground=False))["data"])


@asynccontextmanager
async def browser(folder: Path) -> AsyncIterator[Page]:
    """Starts a browser whose profile is in `folder`, and yields its one page."""
    profile = folder / "profile"
    process = await asyncio.create_subprocess_exec(
        program(),
        *FLAGS,
        f"--user-data-dir={profile}",
        "about:blank",
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        port = await _port(profile / "DevToolsActivePort", process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                pages = [each for each in await answer.json() if each["type"] == "page"]
            # A screenshot has megabytes.
            address = pages[0]["webSocketDebuggerUrl"]
            async with (
                session.ws_connect(address, max_msg_size=256 * 1024 * 1024) as socket,
                Page(socket) as page,
            ):
                yield page
                # Otherwise its helpers would still write into the folder.
                await page.send("Browser.close")
    finally:
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def _port(file: Path, process: asyncio.subprocess.Process) -> int:
    """Returns the port that the browser writes once it listens."""
    async with asyncio.timeout(START_SECONDS):
        while True:
            assert process.returncode is None, "Chromium ended at its start"
            if (text := _content(file)).count("\n"):
                return int(text.partition("\n")[0])
            await asyncio.sleep(0.05)


def _content(file: Path) -> str:
    return file.read_text(encoding="utf-8") if file.exists() else ""
