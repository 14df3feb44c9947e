"""Finding, linking and building the programs of a real plane, with a Go that only pretends."""

import os
import sys
from pathlib import Path

import pytest

from testbed.real.assets import PlaneUnavailable, cache_root, ensure_assets, find_assets
from testbed.real.tools import (
    KUBERNETES,
    KUBERNETES_VARIABLE,
    OLDER_KUBERNETES,
    TOOLS,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="real planes need Linux")

NAMES = {tool.name for tool in TOOLS}
OF_KUBERNETES = {tool.package for tool in TOOLS if tool.pinned_by == KUBERNETES}
FAKE_GO = """#!/bin/sh
case $1 in
version) echo "go version {version} linux/amd64" ;;
build)
  while [ "$1" != -o ]; do shift; done
  echo "$3" >> "{log}"
  {build}
  ;;
esac
"""
WRITE = 'printf "#!/bin/sh\\n" > "$2"; chmod +x "$2"'


@pytest.fixture(autouse=True)
def clean_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, and a PATH with a shell and nothing else."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("sh", "chmod", "printf"):
        (commands / name).symlink_to(
            Path("/bin") / name if Path("/bin", name).exists() else Path("/usr/bin", name)
        )
    monkeypatch.setenv("PATH", str(commands))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("GOTOOLCHAIN", raising=False)
    monkeypatch.delenv(KUBERNETES_VARIABLE, raising=False)


def script(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def fake_go(tmp_path: Path, *, version: str = "go1.26.8", build: str = WRITE) -> Path:
    """Put a go command into PATH; the file that lists what it was asked to build."""
    log = tmp_path / "built"
    script(tmp_path / "bin" / "go", FAKE_GO.format(version=version, log=log, build=build))
    return log


def kubebuilder_assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *names: str) -> Path:
    folder = tmp_path / "assets"
    folder.mkdir()
    for name in names:
        script(folder / name, "#!/bin/sh\necho v0.0.1\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(folder))
    return folder


def test_folder_holds_links_to_a_complete_kubebuilder_assets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is built when KUBEBUILDER_ASSETS has everything, and its very files are used."""
    assets = kubebuilder_assets(tmp_path, monkeypatch, *NAMES)
    folder = ensure_assets()

    assert folder.is_absolute()
    assert {name: assets / name for name in NAMES} == {
        path.name: path.readlink() for path in folder.iterdir()
    }


def test_only_what_a_partial_kubebuilder_assets_lacks_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three programs are given, so the others are built, each once."""
    given = ("kube-apiserver", "etcd", "kubectl")
    assets = kubebuilder_assets(tmp_path, monkeypatch, *given)
    log = fake_go(tmp_path)
    folder = ensure_assets()
    built = log.read_text(encoding="utf-8").split()

    assert {tool.package for tool in TOOLS if tool.name not in given} == set(built)
    assert len(built) == len(set(built))
    assert all((folder / name).samefile(assets / name) for name in given)
    assert {path.name for path in folder.iterdir()} == NAMES


def test_second_run_builds_nothing(tmp_path: Path) -> None:
    """A second run finds the built programs in the same folder."""
    log = fake_go(tmp_path)
    first = ensure_assets()
    log.unlink()
    second = ensure_assets()

    assert first == second
    assert not log.exists()


def test_without_go_the_message_names_what_is_missing_and_the_remedy() -> None:
    """Without Go the message names the missing programs and the remedy."""
    with pytest.raises(PlaneUnavailable) as failure:
        ensure_assets()

    assert all(
        name in str(failure.value)
        for name in (*NAMES, "no go command", "install Go 1.26", "KUBEBUILDER_ASSETS")
    )


def test_go_of_another_version_is_refused_by_name(tmp_path: Path) -> None:
    """Go 1.27 that cannot fetch the 1.26 toolchain is not used: its servers would fail at `kubectl apply`."""
    fake_go(tmp_path, version="go1.27.1")

    with pytest.raises(PlaneUnavailable, match=r"is go1\.27\.1, but the planes need Go 1\.26"):
        ensure_assets()


def test_failed_build_shows_its_last_lines_and_leaves_no_program(tmp_path: Path) -> None:
    """Go's output is in the message, and a later run finds no half-built program."""
    fake_go(tmp_path, build='printf half > "$2"; echo "undefined: thing" >&2; exit 1')

    with pytest.raises(PlaneUnavailable, match="undefined: thing"):
        ensure_assets()
    assert [path for path in (cache_root() / "built").rglob("*") if path.is_file()] == []


def test_program_of_path_is_used_only_in_the_pinned_version(tmp_path: Path) -> None:
    """An etcd of PATH that says the pinned version is linked; a kubectl that says another one is built."""
    etcd = next(tool for tool in TOOLS if tool.name == "etcd")
    script(tmp_path / "bin" / "etcd", f"#!/bin/sh\necho etcd Version: {etcd.version.removeprefix('v')}\n")
    script(tmp_path / "bin" / "kubectl", "#!/bin/sh\necho Client Version: v1.20.0\n")
    log = fake_go(tmp_path)
    folder = ensure_assets()

    assert (folder / "etcd").samefile(tmp_path / "bin" / "etcd")
    assert "k8s.io/kubernetes/cmd/kubectl" in log.read_text(encoding="utf-8").split()
    assert os.access(folder / "kubectl", os.X_OK)


def test_older_kubernetes_adds_its_own_programs_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The older Kubernetes gets a folder of its own. etcd, kwok, helm and the others are not built again."""
    log = fake_go(tmp_path)
    folder = ensure_assets()
    log.unlink()
    monkeypatch.setenv(KUBERNETES_VARIABLE, OLDER_KUBERNETES)

    assert find_assets() is None
    older = ensure_assets()
    built = log.read_text(encoding="utf-8").split()
    monkeypatch.delenv(KUBERNETES_VARIABLE)

    assert set(built) == OF_KUBERNETES
    assert len(built) == len(OF_KUBERNETES)
    assert older.name.startswith(f"v{OLDER_KUBERNETES}.")
    assert (older / "etcd").samefile(folder / "etcd")
    assert not (older / "kube-apiserver").samefile(folder / "kube-apiserver")
    assert find_assets() == folder
    assert find_assets(OLDER_KUBERNETES) == older


def test_a_kubernetes_without_a_module_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the variable, the version and the known versions."""
    monkeypatch.setenv(KUBERNETES_VARIABLE, "1.20")

    with pytest.raises(PlaneUnavailable, match=r"FEDHPA_KUBERNETES=1\.20: .* known are 1\.34, or empty"):
        ensure_assets()
