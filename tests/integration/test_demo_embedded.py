"""The demo on the embedded plane, which needs no Go."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from demo.__main__ import NEXT_COMMANDS
from demo.distributed.burst import Burst
from demo.distributed.hub_down import HubDown
from demo.picture import OBSERVATIONS
from demo.scenarios import DEFAULT, SCENARIOS
from tests.support.nightly import only_at_night

ROOT = Path(__file__).parents[2]
# The demo takes a minute, because its rules fire at full minutes, and gives up a step after 90 s.
SECONDS = 300.0
# The commands that the demo prints at its end.
COMMANDS = [command for _, command in (*SCENARIOS[DEFAULT].commands, *NEXT_COMMANDS)]
# It runs until a signal, and test_embedded_up.py starts it.
UP = ".venv/bin/python -m testbed.embedded up"
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="runs are recorded in /proc"),
    pytest.mark.timeout(2 * SECONDS),
]


async def started(module: str, *arguments: str, folder: Path) -> asyncio.subprocess.Process:
    """Starts `python -m MODULE` with its temporary files below `folder`."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("DEMO_")}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        cwd=ROOT,
        env={**environment, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


async def read_until(process: asyncio.subprocess.Process, text: str) -> list[str]:
    """Reads lines up to one that contains the text."""
    assert process.stdout is not None
    lines: list[str] = []
    async with asyncio.timeout(SECONDS):
        while not lines or text not in lines[-1]:
            line = await process.stdout.readline()
            assert line, "".join(lines)
            lines.append(line.decode())
    return lines


async def read_rest(process: asyncio.subprocess.Process) -> list[str]:
    assert process.stdout is not None
    async with asyncio.timeout(SECONDS):
        rest = (await process.stdout.read()).decode().splitlines()
        await process.wait()
    return rest


def left_in(folder: Path) -> list[Path]:
    return list(folder.glob("fedhpa-*/run-*"))


@only_at_night  # it takes a minute; tests/unit/test_demo_story.py plays it in virtual time
async def test_one_pass_makes_every_observation(tmp_path: Path) -> None:
    """In a pipe the demo prints each observation on a line and the next commands, and leaves no file."""
    process = await started("demo", folder=tmp_path)
    try:
        lines = await read_rest(process)
    finally:
        if process.returncode is None:
            process.kill()

    assert process.returncode == 0, "\n".join(lines)
    assert [f"observed: {name}" for name in sorted(OBSERVATIONS)] == sorted(
        line for line in lines if line.startswith("observed: ")
    )
    assert [f"  {command}" for command in COMMANDS] == [line for line in lines if line.startswith("  .venv")]
    assert left_in(tmp_path) == []


@only_at_night  # each takes two minutes; tests/unit/test_demo_distributed.py plays both in virtual time
@pytest.mark.parametrize(
    ("scenario", "observations"), [("burst", Burst.observations), ("hub-down", HubDown.observations)]
)
async def test_one_pass_of_mode_distributed(
    scenario: str, observations: tuple[str, ...], tmp_path: Path
) -> None:
    """Each scenario makes its observations in their order, and leaves no file."""
    process = await started("demo", f"--scenario={scenario}", folder=tmp_path)
    try:
        lines = await read_rest(process)
    finally:
        if process.returncode is None:
            process.kill()

    assert process.returncode == 0, "\n".join(lines)
    assert [f"observed: {name}" for name in observations] == [
        line for line in lines if line.startswith("observed: ")
    ]
    assert left_in(tmp_path) == []


async def test_ctrl_c_ends_make_without_an_error_of_make(tmp_path: Path) -> None:
    """A terminal sends SIGINT to make, its shell and the demo. make ends by it, after the demo cleaned up."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("DEMO_", "MAKE"))}
    process = await asyncio.create_subprocess_exec(
        *("make", "-o", ".venv/.installed", "demo"),
        cwd=ROOT,
        env={**environment, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        await read_until(process, "ready\n")
        os.killpg(process.pid, signal.SIGINT)
        lines = await read_rest(process)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)

    assert process.returncode == -signal.SIGINT, "\n".join(lines)
    assert UP in COMMANDS
    assert [line for line in lines if line.startswith("make")] == []
    assert "missing: scaled-down" in lines
    assert any("observations made; all processes have ended" in line for line in lines)
    assert left_in(tmp_path) == []


@only_at_night  # the test above sends the same signal through make
async def test_a_signal_ends_the_demo_cleanly(tmp_path: Path) -> None:
    """The demo names the missing observations, exits with 1, and leaves no file."""
    process = await started("demo", folder=tmp_path)
    try:
        await read_until(process, "ready\n")
        process.send_signal(signal.SIGINT)
        lines = await read_rest(process)
    finally:
        if process.returncode is None:
            process.kill()

    assert process.returncode == 1, "\n".join(lines)
    assert "missing: scaled-down" in lines
    assert left_in(tmp_path) == []


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != UP])
def test_printed_commands_work_as_printed(command: str) -> None:
    """Each command succeeds without Go."""
    words = command.replace(".venv/bin/", f"{Path(sys.executable).parent}/")
    answer = subprocess.run(words, shell=True, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS)

    assert answer.returncode == 0, answer.stderr
    assert answer.stdout
