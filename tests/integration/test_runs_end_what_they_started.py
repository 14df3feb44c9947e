"""The programs of a run are recorded and end with it."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from testbed.stage.runs import ProcessId, Run, reap, runs_folder
from testbed.stage.waiting import eventually

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc, pidfd and prctl are Linux's")

SLEEP = ["sleep", "300"]
# Begins a run, starts a program, says who they are, and waits to be killed.
OWNER = """
import sys, time
from pathlib import Path
from testbed.stage.runs import Run
run = Run.begin()
print(run.spawn("sleeper", ["sleep", "300"], Path("/dev/null")), flush=True)
time.sleep(300)
"""


@pytest.fixture(autouse=True)
def own_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides the runs of other tests, which run at the same time, so none of them is reaped."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


async def until_gone(process: ProcessId) -> None:
    async def poll() -> bool:
        return not process.alive

    await eventually(poll, what=f"process {process.pid} is gone", seconds=60, every=0.02)


def crashed_owner() -> tuple[ProcessId, Path]:
    """A program whose run was killed: the program, and the folder of the run."""
    with subprocess.Popen([sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        program = ProcessId.parse(owner.stdout.readline())
        owner.kill()
    assert program is not None
    (folder,) = runs_folder().glob("run-*")
    return program, folder


async def test_killed_owner_takes_its_programs_with_it() -> None:
    """SIGKILL of the process that owns a run leaves none of its programs running."""
    program, _ = await asyncio.to_thread(crashed_owner)

    await until_gone(program)


async def test_next_run_removes_what_a_crash_left() -> None:
    """The next run removes the folder of a crashed run."""
    program, folder = await asyncio.to_thread(crashed_owner)
    await until_gone(program)
    run = Run.begin()
    try:
        left = folder.exists()
    finally:
        run.end()

    assert not left
    assert list(runs_folder().glob("run-*")) == []


def test_run_of_a_living_owner_is_left_alone() -> None:
    """Reaping ends no program of a run whose owner lives."""
    run = Run.begin()
    try:
        program = run.spawn("sleeper", SLEEP, run.folder / "log")
        ended = reap()
        alive = program.alive
    finally:
        run.end()

    assert (ended, alive) == ([], True)
    assert not program.alive
