"""The kubectl plugin and its krew manifest, as the release workflow makes them."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from testbed.real.assets import find_program
from tests.support.nightly import only_at_night

ROOT = Path(__file__).parents[2]
VERSION, REPOSITORY = "0.1.0", "https://example.com/fedhpa"
PLATFORMS = ("linux-amd64", "linux-arm64", "darwin-arm64")
BUILD_SECONDS = 1200.0


def manifest(folder: Path) -> dict[str, object]:
    """Returns the manifest of the archives in a folder."""
    command = [str(ROOT / ".github" / "krew" / "render"), VERSION, REPOSITORY, str(folder)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    found: dict[str, object] = yaml.safe_load(ran.stdout)
    return found


def test_the_manifest_names_each_archive_with_its_digest(tmp_path: Path) -> None:
    """krew refuses an archive with another digest than the manifest has."""
    for name in PLATFORMS:
        (tmp_path / f"kubectl-fedhpa-{name}.tar.gz").write_bytes(name.encode())
    spec = manifest(tmp_path)["spec"]
    assert isinstance(spec, dict)

    assert spec["version"] == f"v{VERSION}"
    found = {f"{one['selector']['matchLabels']['os']}-{one['selector']['matchLabels']['arch']}": one
             for one in spec["platforms"]}  # fmt: skip
    assert found.keys() == set(PLATFORMS)
    for name, one in found.items():
        assert one["uri"] == f"{REPOSITORY}/releases/download/v{VERSION}/kubectl-fedhpa-{name}.tar.gz"
        assert one["sha256"] == hashlib.sha256(name.encode()).hexdigest()
        assert one["bin"] == "kubectl-fedhpa/kubectl-fedhpa"
    assert "@" not in str(spec)


def test_a_missing_archive_makes_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        manifest(tmp_path)


@only_at_night
def test_kubectl_runs_the_built_plugin_without_python_and_network(tmp_path: Path) -> None:
    """krew links the program into its folder of plugins, and kubectl finds it in PATH."""
    kubectl = find_program("kubectl")
    assert kubectl is not None
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns(".venv", ".git", "dist", "build", "__pycache__", ".*_cache", "tests")
    shutil.copytree(ROOT, source, ignore=ignored, symlinks=True)
    (source / ".venv").symlink_to(Path(sys.executable).parents[1])
    build = ["make", "plugin", f"PYTHON={sys.executable}"]
    subprocess.run(build, cwd=source, check=True, capture_output=True, timeout=BUILD_SECONDS)
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    with tarfile.open(source / "dist" / f"kubectl-fedhpa-linux-{machine}.tar.gz") as archive:
        archive.extractall(tmp_path / "store", filter="data")
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "kubectl-fedhpa").symlink_to(tmp_path / "store" / "kubectl-fedhpa" / "kubectl-fedhpa")
    shutil.rmtree(source / "build")
    environment = {"PATH": f"{plugins}:{kubectl.parent}", "HOME": str(tmp_path)}
    alone = ["unshare", "--net"] if os.geteuid() == 0 and shutil.which("unshare") else []

    def answer(*words: str) -> str:
        command = [*alone, str(kubectl), "fedhpa", *words]
        program = shutil.which(command[0]) or command[0]
        ran = subprocess.run(
            [program, *command[1:]], env=environment, capture_output=True, text=True, timeout=120, check=True
        )
        return ran.stdout

    assert answer("version").strip() == VERSION
    assert "10:30" in answer("cron", "next", "30 10 * * *", "--time-zone", "Europe/Berlin", "-o", "text")
    assert answer("crds").count("kind: CustomResourceDefinition") > 1
    assert "stay at 9 replicas" in answer("replay", "-o", "text", str(ROOT / "demo" / "lost.json"))
