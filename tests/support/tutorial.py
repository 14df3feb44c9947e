"""Runs the commands of a page as they stand, and compares what they print with the page.

`run_the_tutorial` does so for docs/tutorial.md. The only substitution there is that of PLANE.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorial.md"
PLANE = "PLANE=embedded"
SECONDS = 240.0  # for one command and its repetitions, on a busy machine
# These change nothing: they are repeated until they print what the page shows.
READING = re.compile(
    r"kubectl (--(context|kubeconfig)[ =]\S+ )?(get|top|describe|wait) |fedhpa (explain |doctor)"
)
INTERRUPT = "^C"


@dataclass(frozen=True)
class Step:
    """A command of the page and the lines that the page shows below it."""

    command: str
    shown: tuple[str, ...]


def blocks(page: str, language: str) -> list[list[str]]:
    """Returns the lines of each fenced block of a language."""
    return [text.splitlines() for text in re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)]


def steps(lines: list[str]) -> Iterator[Step]:
    """Yields the commands of a console block. A block that begins with ^C has the lines after Ctrl-C."""
    command, shown = "", list[str]()
    for line in lines:
        if line.startswith("$ ") or (line == INTERRUPT and not command):
            if command:
                yield Step(command, tuple(shown))
            command, shown = line.removeprefix("$ "), []
        else:
            shown.append(line)
    yield Step(command, tuple(shown))


def pattern(shown: tuple[str, ...]) -> re.Pattern[str]:
    """Returns a pattern of the lines. `...` is any text in a line; on a line of its own, any number of lines.

    Runs of spaces are equal, because kubectl sizes its columns by what is in them. A column may be empty.
    """
    lines = []
    for line in shown:
        first, *others = line.split() or [""]
        words = _text(first) + "".join(map(_column, others))
        lines.append(r"(?:.*\n)*?" if line == "..." else words + "\n")
    return re.compile("".join(lines))


def _text(word: str) -> str:
    return "[^\n]*".join(re.escape(part) for part in word.split("..."))


def _column(word: str) -> str:
    return "(?: [^\n]*)?" if word == "..." else f" {_text(word)}"


def tidy(text: str) -> str:
    """Returns the text with single spaces."""
    return "".join(" ".join(line.split()) + "\n" for line in text.splitlines())


class Lines:
    """The output of a process, line by line, with a deadline."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._queue: queue.Queue[str | None] = queue.Queue()
        self._thread = threading.Thread(target=self._read, args=(process,), daemon=True)
        self._thread.start()

    def until(self, last: re.Pattern[str], seconds: float) -> list[str]:
        """Returns the lines up to the one that `last` matches. Fails the test if it does not come."""
        lines: list[str] = []
        deadline = time.monotonic() + seconds
        while not lines or not last.fullmatch(lines[-1]):
            lines.append(self._next(deadline, lines))
        return lines

    def until_shown(self, shown: tuple[str, ...], seconds: float) -> None:
        """Returns once the lines so far are those that the page shows."""
        lines: list[str] = []
        deadline = time.monotonic() + seconds
        while not pattern(shown).fullmatch(tidy("\n".join(lines))):
            lines.append(self._next(deadline, lines))

    def rest(self) -> list[str]:
        """Returns the lines up to the end of the output."""
        self._thread.join(SECONDS)
        return list(iter(self._queue.get_nowait, None))

    def _next(self, deadline: float, before: list[str]) -> str:
        try:
            line = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            pytest.fail("not in time; the lines so far:\n" + "\n".join(before))
        assert line is not None, "the output ended after:\n" + "\n".join(before)
        return line

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._queue.put(line.rstrip("\n"))
        self._queue.put(None)


@contextmanager
def started(
    command: list[str], environment: Mapping[str, str], folder: Path = ROOT
) -> Iterator[subprocess.Popen[str]]:
    """Yields a process with a session of its own. Afterwards it has ended: by SIGTERM, or by SIGKILL after
    30 seconds.
    """
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
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

    def __init__(self, shell: subprocess.Popen[str], seconds: float = SECONDS) -> None:
        self._shell = shell
        self._seconds = seconds  # for one command, and for one command with its repetitions
        self._lines = Lines(shell)

    def run(self, command: str) -> str:
        """Runs a command and returns what it prints."""
        assert self._shell.stdin is not None
        # Commands must not read the shell's own input.
        self._shell.stdin.write(f"{{ {command}\n}} < /dev/null; echo; echo end of command\n")
        self._shell.stdin.flush()
        return "\n".join(self._lines.until(re.compile("end of command"), self._seconds)[:-1]).strip("\n")

    def check(self, step: Step) -> None:
        """Runs a step and compares. A step that only reads is repeated until it prints what the page shows.

        A step whose last line is ^C runs until it has printed the lines before, and is then interrupted.
        """
        if step.shown[-1:] == (INTERRUPT,):
            return self._check_until_interrupted(step)
        deadline = time.monotonic() + self._seconds
        pause = 0.5
        printed = self.run(step.command)
        while not pattern(step.shown).fullmatch(tidy(printed)):
            again = READING.match(step.command) and time.monotonic() < deadline
            assert again, f"$ {step.command}\n{printed}\n-- the page shows:\n" + "\n".join(step.shown)
            time.sleep(pause)
            pause = min(pause * 1.5, 2.0)  # each kubectl takes a fifth of a second of CPU
            printed = self.run(step.command)
        return None

    def _check_until_interrupted(self, step: Step) -> None:
        variables = dict(line.split("=", 1) for line in self.run("env").splitlines() if "=" in line)
        folder = Path(self.run("pwd"))
        with started(["bash", "-c", step.command], variables, folder) as process:
            Lines(process).until_shown(step.shown[:-1], self._seconds)
            os.killpg(process.pid, signal.SIGINT)
            process.wait(self._seconds)


def save_manifests(page: str, folder: Path) -> None:
    """Saves the page's yaml blocks; the first line of each is a comment with the file's name."""
    for name, *content in blocks(page, "yaml"):
        (folder / name.removeprefix("# ")).write_text("\n".join(content), encoding="utf-8")


def run_the_tutorial(plane: str, environment: Mapping[str, str], *, start_seconds: float) -> None:
    """Runs each command of the page on a plane, embedded or real. Afterwards the plane left no files.

    `environment` is that of the terminals. The first block is not run, because it downloads the dependencies.
    """
    page = PAGE.read_text(encoding="utf-8")
    assert page.count(f"$ {PLANE}\n") == 2
    page = page.replace(f"$ {PLANE}\n", f"$ PLANE={plane}\n")
    installing, starting, *others = [list(steps(block)) for block in blocks(page, "console")]
    assert [step.command.split()[0] for step in installing] == ["git", "cd", "make"]
    up = starting[-1]
    commands = "\n".join([*(step.command for step in starting[:-1]), f"exec {up.command}"])

    with (
        started(["bash", "-c", commands], environment) as clusters,
        started(["bash", "--noprofile", "--norc"], environment) as shell,
    ):
        plane_lines = Lines(clusters)
        printed = plane_lines.until(re.compile(re.escape(up.shown[-1])), start_seconds)
        assert pattern(up.shown).fullmatch(tidy("\n".join(printed))), "\n".join(printed)

        terminal = Terminal(shell)
        for step in (step for block in others for step in block):
            if step.command == INTERRUPT:
                clusters.send_signal(signal.SIGINT)
                assert clusters.wait(SECONDS) == 0
                assert plane_lines.rest() == list(step.shown)
                continue
            terminal.check(step)
            if step.command.startswith("cd "):
                save_manifests(page, Path(terminal.run("pwd")))

    exported = next(line for line in printed if line.startswith("export KUBECONFIG="))
    assert not Path(exported.split()[1].partition("=")[2]).parent.exists()
