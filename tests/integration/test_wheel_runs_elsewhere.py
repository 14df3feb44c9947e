"""The installed wheel is the built one. It runs alone, from a folder that is not the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"fedhpa", "webhook", "metrics_adapter", "controller", "certs"}
COMMANDS = ("fedhpa", "kubectl-fedhpa", "fedhpa-webhook", "fedhpa-metrics-adapter", "fedhpa-controller")
SECONDS = 90


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=SECONDS)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the wheel is installed into."""
    folder = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", str(folder)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True, timeout=SECONDS)
    return folder


def run(installed: Path, elsewhere: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command with the installed packages only, in a folder that is not the checkout."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        command, cwd=elsewhere, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )


def test_wheel_holds_the_product_only(wheel: Path) -> None:
    """No tests, demo, testbed or benchmarks are shipped, and no key."""
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.partition("/")[0] for name in names if ".dist-info" not in name}

    assert top == PACKAGES
    assert [name for name in names if name.endswith((".key", ".pem", ".crt"))] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run_elsewhere(installed: Path, tmp_path: Path, command: str) -> None:
    """Each console script starts from any folder and says its version."""
    answer = run(installed, tmp_path, sys.executable, str(installed / "bin" / command), "--version")

    assert (answer.returncode, answer.stderr) == (0, "")
    assert answer.stdout.strip().endswith("0.1.0")


@pytest.mark.parametrize("module", ["webhook", "metrics_adapter", "controller"])
def test_processes_are_modules_too(installed: Path, tmp_path: Path, module: str) -> None:
    """`python -m` starts each process; a flag that nobody knows is one line and exit 2."""
    answer = run(installed, tmp_path, sys.executable, "-m", module, "--no-such-flag")

    assert answer.returncode == 2
    assert len(answer.stderr.splitlines()) == 1
    assert "--no-such-flag" in answer.stderr


def test_crds_come_with_the_wheel(installed: Path, tmp_path: Path) -> None:
    """`fedhpa crds` needs nothing of the checkout."""
    answer = run(installed, tmp_path, sys.executable, str(installed / "bin" / "fedhpa"), "crds")

    assert answer.returncode == 0
    assert "name: federatedhpas.autoscaling.karmada.io" in answer.stdout
