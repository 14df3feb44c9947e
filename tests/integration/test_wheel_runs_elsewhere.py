"""The installed wheel is the built one. It runs alone, from a folder that is not the checkout."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"fedhpa", "webhook", "metrics_adapter", "controller", "certs"}
COMMANDS = ("fedhpa", "kubectl-fedhpa", "fedhpa-webhook", "fedhpa-metrics-adapter", "fedhpa-controller")
MODULES = ("webhook", "metrics_adapter", "controller")
SECONDS = 90
# Runs all in one process, because each would import for most of a second.
RUN_ALL = f"""
import contextlib, io, json, runpy, sys

def ran(start, name, *arguments):
    sys.argv = [name, *arguments]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            start(name, run_name="__main__")
        except SystemExit as ended:
            return ended.code or 0, out.getvalue(), err.getvalue()
    return None, out.getvalue(), err.getvalue()

found = {{}}
for script in sys.argv[1:]:
    found[script] = ran(runpy.run_path, script, "--version")
for module in {MODULES}:
    found[module] = ran(runpy.run_module, module, "--no-such-flag")
print(json.dumps(found))
"""


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


def test_commands_and_modules_run_elsewhere(installed: Path, tmp_path: Path) -> None:
    """Each console script says its version from any folder. `python -m` starts each process, and a flag that
    nobody knows is one line and exit 2.
    """
    scripts = [str(installed / "bin" / command) for command in COMMANDS]
    answer = run(installed, tmp_path, sys.executable, "-c", RUN_ALL, *scripts)

    assert (answer.returncode, answer.stderr) == (0, "")
    found = json.loads(answer.stdout)
    for script in scripts:
        code, out, err = found[script]
        assert (code, err) == (0, ""), script
        assert out.strip().endswith("0.1.0")
    for module in MODULES:
        code, _, err = found[module]
        assert (code, len(err.splitlines())) == (2, 1), err
        assert "--no-such-flag" in err


def test_crds_come_with_the_wheel(installed: Path, tmp_path: Path) -> None:
    """`fedhpa crds` needs nothing of the checkout."""
    answer = run(installed, tmp_path, sys.executable, str(installed / "bin" / "fedhpa"), "crds")

    assert answer.returncode == 0
    assert "name: federatedhpas.autoscaling.karmada.io" in answer.stdout
