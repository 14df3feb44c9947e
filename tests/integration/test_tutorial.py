"""The commands of docs/tutorial.md run as they stand and print what the page shows, on the embedded plane."""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conformance.plane.under_test import find_kubectl

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
START = ".venv/bin/python -m testbed.embedded up"
RUN_FOLDER = re.compile(r"/tmp/fedhpa-runs-\d+/run-[\w-]+")
SECONDS = 90.0  # for one command, on a busy machine
# These change nothing: they are repeated until they print what the page shows.
READING = re.compile(r"kubectl (--kubeconfig=\S+ )?(get|top) |fedhpa explain ")


@dataclass(frozen=True)
class Step:
    """A command of the page and the lines that the page shows below it."""

    command: str
    shown: tuple[str, ...]


def blocks(page: str, language: str) -> list[list[str]]:
    """The lines of each fenced block of a language."""
    return [text.splitlines() for text in re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)]


def steps(lines: list[str]) -> Iterator[Step]:
    """The commands of a console block. A block that begins with ^C has the lines after Ctrl-C."""
    command, shown = "", list[str]()
    for line in lines:
        if line.startswith("$ ") or line == "^C":
            if command:
                yield Step(command, tuple(shown))
            command, shown = line.removeprefix("$ "), []
        else:
            shown.append(line)
    yield Step(command, tuple(shown))


def pattern(shown: tuple[str, ...]) -> re.Pattern[str]:
    """Matches the lines. `...` is any text in a line; on a line of its own it is any number of lines.

    Runs of spaces are equal, because kubectl sizes its columns by what is in them.
    """
    lines = []
    for line in shown:
        words = [re.escape(part).replace(r"\ ", " ") for part in " ".join(line.split()).split("...")]
        lines.append(r"(?:.*\n)*?" if line == "..." else "[^\n]*".join(words) + "\n")
    return re.compile("".join(lines))


def tidy(text: str) -> str:
    return "".join(" ".join(line.split()) + "\n" for line in text.splitlines())


class Lines:
    """The output of a process, line by line, with a deadline."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._queue: queue.Queue[str | None] = queue.Queue()
        self._thread = threading.Thread(target=self._read, args=(process,), daemon=True)
        self._thread.start()

    def until(self, last: re.Pattern[str], deadline: float) -> list[str]:
        """The lines up to the one that `last` matches. Raises AssertionError if it does not come."""
        lines: list[str] = []
        while not lines or not last.fullmatch(lines[-1]):
            try:
                line = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                pytest.fail(f"no line {last.pattern!r} in time after: {lines}")
            assert line is not None, f"the output ended after: {lines}"
            lines.append(line)
        return lines

    def rest(self) -> list[str]:
        """The lines up to the end of the output."""
        self._thread.join(SECONDS)
        return list(iter(self._queue.get_nowait, None))

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)


@contextmanager
def started(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process in the checkout. Afterwards it has ended: by SIGTERM, or by SIGKILL after 30 seconds."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


class Terminal:
    """A shell that keeps its variables and its folder from command to command."""

    def __init__(self, shell: subprocess.Popen[str]) -> None:
        self._shell = shell
        self._lines = Lines(shell)

    def run(self, command: str) -> str:
        """Run a command and return what it prints."""
        assert self._shell.stdin is not None
        # Commands must not read the shell's own input.
        self._shell.stdin.write(f"{{ {command}\n}} < /dev/null; echo; echo end of command\n")
        self._shell.stdin.flush()
        lines = self._lines.until(re.compile("end of command"), time.monotonic() + SECONDS)
        return "\n".join(lines[:-1]).strip("\n")

    def check(self, step: Step) -> None:
        """Run a step and compare; a step that only reads is repeated until it prints what the page shows."""
        deadline = time.monotonic() + SECONDS
        printed = self.run(step.command)
        while not pattern(step.shown).fullmatch(tidy(printed)):
            again = READING.match(step.command) and time.monotonic() < deadline
            assert again, f"$ {step.command}\n{printed}\n-- the page shows:\n" + "\n".join(step.shown)
            time.sleep(0.5)
            printed = self.run(step.command)


def save_manifests(page: str, folder: Path) -> None:
    """Save the page's yaml blocks; the first line of each is a comment with the file's name."""
    for name, *content in blocks(page, "yaml"):
        (folder / name.removeprefix("# ")).write_text("\n".join(content), encoding="utf-8")


@pytest.fixture
def programs() -> Path:
    """The folder of kubectl. Without it the test is skipped, and the summary of pytest says so."""
    kubectl = find_kubectl()
    if kubectl is None:
        pytest.skip("no kubectl")
    return kubectl.parent


def test_the_tutorial_works(programs: Path, tmp_path: Path) -> None:
    """Each command of the page prints what the page shows; the plane ends at Ctrl-C and leaves no files.

    The first block is not run, because it downloads the dependencies. The path of the run differs each time.
    """
    page = PAGE.read_text(encoding="utf-8")
    (shown_folder,) = set(RUN_FOLDER.findall(page))
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{programs}:{os.environ['PATH']}",
        "HOME": str(tmp_path),  # for kubectl's cache
        "TMPDIR": str(tmp_path),
    }
    installing, starting, *others = [list(steps(block)) for block in blocks(page, "console")]
    assert [step.command.split()[0] for step in installing] == ["git", "cd", "make"]
    assert [step.command for step in starting] == [START]

    with (
        started([sys.executable, *START.split()[1:]], environment) as plane,
        started(["bash", "--noprofile", "--norc"], environment) as shell,
    ):
        plane_lines = Lines(plane)
        printed = plane_lines.until(re.compile(re.escape(starting[0].shown[-1])), time.monotonic() + SECONDS)
        folder = Path(next(line for line in printed if "/hub/" in line).partition("=")[2]).parents[1]
        assert sorted(starting[0].shown) == sorted(
            line.replace(str(folder), shown_folder) for line in printed
        )

        terminal = Terminal(shell)
        for step in (step for block in others for step in block):
            if step.command == "^C":
                plane.send_signal(signal.SIGINT)
                assert plane.wait(SECONDS) == 0
                assert plane_lines.rest() == list(step.shown)
                continue
            terminal.check(Step(step.command.replace(shown_folder, str(folder)), step.shown))
            if step.command.startswith("cd "):
                save_manifests(page, Path(terminal.run("pwd")))

        assert not folder.exists()
