"""Runs: the programs that one process starts, recorded so that they always end.

Every run has a folder below the temporary folder, named after its owner process. Every program has a file
`pids/NAME` with "PID STARTTIME". The start time (field 22 of /proc/PID/stat) distinguishes our process from a
later one with the same pid. No process is ever selected by name. Programs end with their run, by
`python -m testbed.real stop`, or at the next start. If the owner is killed, the kernel kills its programs
(_child.py), and the next start reaps the survivors.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

CHILD = Path(__file__).with_name("_child.py")
POLL = 0.05  # seconds between checks whether a process has ended
LOG_TAIL = 15


@dataclass(frozen=True)
class ProcessId:
    """A process, identified by pid and start time in clock ticks since boot."""

    pid: int
    start: int

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        """Returns the living process `pid`, or None."""
        start = _start_time(pid)
        return None if start is None else cls(pid, start)

    @classmethod
    def parse(cls, text: str) -> "ProcessId | None":
        """Parses the result of str(); returns None for any other text."""
        words = text.split()
        if len(words) != 2 or not all(word.isdecimal() for word in words):
            return None
        return cls(int(words[0]), int(words[1]))

    def __str__(self) -> str:
        return f"{self.pid} {self.start}"

    @property
    def alive(self) -> bool:
        """True while this process runs. A zombie does not run."""
        return _start_time(self.pid) == self.start

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to this process if it still runs. The pidfd is opened before the check, so that a
        process that reuses the pid never receives the signal.
        """
        try:
            handle = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            if self.alive:
                signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            return
        finally:
            os.close(handle)


def _start_time(pid: int) -> int | None:
    try:
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


class StartFailed(Exception):
    """A program ended early. The message has the last lines of its log."""


class Run:
    """The folder and programs of one run, from `Run.begin` to `end`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "pids").mkdir(exist_ok=True)

    @classmethod
    def begin(cls) -> "Run":
        """Starts a run owned by this process, after reaping crashed runs."""
        reap()
        owner = ProcessId.of(os.getpid())
        if owner is None:
            raise RuntimeError("no /proc: planes need Linux")
        prefix = f"run-{owner.pid}-{owner.start}-"
        return cls(Path(tempfile.mkdtemp(prefix=prefix, dir=runs_folder())))

    def spawn(
        self, name: str, command: list[str], log: Path, *, environment: Mapping[str, str] | None = None
    ) -> ProcessId:
        """Starts and records a program. It has its own session, so Ctrl-C in the terminal does not reach it.

        Call it from the main thread only: the kernel kills a child when the thread that started it ends.
        """
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("programs are started from the main thread only")
        program = shutil.which(command[0])
        if program is None:
            raise FileNotFoundError(command[0])
        with log.open("ab") as output:
            child = subprocess.Popen(
                [sys.executable, "-I", "-S", str(CHILD), str(os.getpid()), program, *command[1:]],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=environment,
            )
        process = ProcessId.of(child.pid)
        if process is None:
            raise ChildProcessError(f"{name} ended at once; its log: {log}")
        self._children[name] = child
        (self.folder / "pids" / name).write_text(f"{process}\n", encoding="utf-8")
        return process

    def running(self, name: str) -> bool:
        """True while the program `name` of this run runs."""
        child = self._children.get(name)
        return child is not None and child.poll() is None

    def check(self, name: str, log: Path) -> None:
        """Raises StartFailed, with the last lines of the log, if the program has ended."""
        code = self.exit_code(name)
        if code is not None:
            tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_TAIL:])
            raise StartFailed(f"{name} ended with {code}:\n{tail}")

    def exit_code(self, name: str) -> int | None:
        """Returns the exit code, minus the signal that ended the program, or None while it runs."""
        child = self._children.get(name)
        return None if child is None else child.poll()

    def stop(self, names: Iterable[str], *, grace: float = 10.0) -> dict[str, int]:
        """Terminates programs, and kills those that run after `grace` seconds. Returns their exit codes."""
        children = {name: child for name in names if (child := self._children.get(name)) is not None}
        for child in children.values():
            child.terminate()  # Popen sends no signal to a child that was waited for
        deadline = time.monotonic() + grace
        codes: dict[str, int] = {}
        for name, child in children.items():
            try:
                codes[name] = child.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                child.kill()
                codes[name] = child.wait()
            # Another thread may stop the same program: a step that was cancelled goes on in its thread.
            self._children.pop(name, None)
            (self.folder / "pids" / name).unlink(missing_ok=True)
        return codes

    def signal(self, name: str, number: signal.Signals) -> None:
        """Sends a signal to a program of this run; raises KeyError for an unknown name."""
        self._children[name].send_signal(number)

    def kill(self, name: str) -> None:
        """Kills a program and waits for its end."""
        child = self._children.pop(name, None)
        if child is not None:
            child.kill()
            child.wait()
        (self.folder / "pids" / name).unlink(missing_ok=True)

    def end(self) -> None:
        """Ends every program of this run within a second, in reverse order, and removes the folder."""
        self.stop(reversed(list(self._children)), grace=1.0)
        shutil.rmtree(self.folder, ignore_errors=True)


def runs_folder() -> Path:
    """Returns the folder of this user's runs; raises PermissionError if another user owns it."""
    folder = Path(tempfile.gettempdir()) / f"fedhpa-runs-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid() or folder.is_symlink():
        raise PermissionError(f"{folder} belongs to another user; remove it or set TMPDIR")
    return folder


def reap(*, living_owners: bool = False) -> list[str]:
    """Ends the programs and removes the folders of runs whose owner died; with `living_owners`, of all runs.

    Returns the names of the programs that were ended. A run that is just starting is safe, because its
    folder's name contains its owner.
    """
    ended: list[str] = []
    for folder in runs_folder().glob("run-*"):
        owner = ProcessId.parse(" ".join(folder.name.split("-")[1:3]))
        if owner is None or (owner.alive and not living_owners):
            continue
        if owner.alive and owner.pid != os.getpid():
            owner.send(signal.SIGTERM)  # the owner ends its programs
            _wait_until_gone({owner}, 15.0)
        ended += _reap_folder(folder)
    return ended


def _reap_folder(folder: Path) -> list[str]:
    remaining: dict[ProcessId, str] = {}
    for file in (folder / "pids").glob("*"):
        process = ProcessId.parse(file.read_text(encoding="utf-8"))
        if process is not None and process.alive:
            remaining[process] = f"{folder.name}/{file.name}"
    for number, patience in ((signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0)):
        for process in remaining:
            process.send(number)
        _wait_until_gone(remaining, patience)
    shutil.rmtree(folder, ignore_errors=True)
    return list(remaining.values())


def _wait_until_gone(processes: Iterable[ProcessId], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while any(process.alive for process in processes) and time.monotonic() < deadline:
        time.sleep(POLL)
