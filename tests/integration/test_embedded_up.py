"""`python -m testbed.embedded up` for one's own objects: kubectl, the load, and members that are lost."""

import io
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import yaml

from testbed.embedded.__main__ import main
from tests.conformance.plane.under_test import find_kubectl

ROOT = Path(__file__).parents[2]
SECONDS = 90.0
PLANE = [sys.executable, "-m", "testbed.embedded"]
pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="runs are recorded in /proc"),
    pytest.mark.timeout(4 * SECONDS),
]


def deployment(name: str) -> dict[str, Any]:
    container = {"name": "web", "image": "web", "resources": {"requests": {"cpu": "100m"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


@dataclass(frozen=True)
class Shell:
    """Runs commands with the kubeconfig of the plane."""

    lines: list[str]
    environment: dict[str, str]
    kubectl_path: Path | None

    @property
    def kubeconfig(self) -> Path:
        return Path(self.environment["KUBECONFIG"])

    def run(self, *command: str, stdin: Any = None) -> subprocess.CompletedProcess[str]:
        text = "" if stdin is None else json.dumps(stdin)
        return subprocess.run(
            command,
            cwd=ROOT,
            env=self.environment,
            input=text,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    def main(self, *words: str) -> tuple[int, str, str]:
        """Runs a command of the plane in this process; returns exit code, output and errors."""
        variables = {name: self.environment[name] for name in ("KUBECONFIG", "TMPDIR")}
        out, err = io.StringIO(), io.StringIO()
        with (
            patch.dict(os.environ, variables),
            patch.object(tempfile, "tempdir", None),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            code = main(list(words))
        return code, out.getvalue(), err.getvalue()

    def plane(self, *words: str) -> str:
        """Returns what a command of the plane prints; it must succeed."""
        code, out, err = self.main(*words)
        assert code == 0, err
        return out

    def kubectl(self, *words: str, stdin: Any = None) -> subprocess.CompletedProcess[str]:
        if self.kubectl_path is None:
            pytest.skip("no kubectl")
        return self.run(str(self.kubectl_path), *words, stdin=stdin)

    def applied(self, manifest: Any, *words: str) -> str:
        """Returns what kubectl prints for an object that must be admitted."""
        answer = self.kubectl(*words, "apply", "-f", "-", stdin=manifest)
        assert answer.returncode == 0, answer.stderr
        return answer.stdout + answer.stderr


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A plane that runs until the tests of this module have ended. SIGTERM ends it, and no file is left."""
    folder = tmp_path_factory.mktemp("plane")
    environment = os.environ | {"TMPDIR": str(folder), "HOME": str(folder)}
    environment.pop("KUBECONFIG", None)
    plane = subprocess.Popen(
        [*PLANE, "up"], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert plane.stdout is not None
        lines: list[str] = []
        while "Ctrl-C" not in "".join(lines[-1:]):
            line = plane.stdout.readline()
            assert line, lines
            lines.append(line.rstrip("\n"))
        exported = subprocess.run(
            [*PLANE, "env"], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS
        ).stdout
        assert exported.strip() in lines
        kubeconfig = exported.split()[1].removeprefix("KUBECONFIG=")
        yield Shell(lines, {**environment, "KUBECONFIG": kubeconfig}, find_kubectl())
    finally:
        plane.send_signal(signal.SIGTERM)
        plane.communicate(timeout=SECONDS)
    assert plane.returncode == 0
    assert list(folder.glob("fedhpa-*/run-*")) == []


def test_one_kubeconfig_has_a_context_for_each_cluster(shell: Shell) -> None:
    """Names of clusters and users are distinct, so that the file can be merged with others."""
    content = yaml.safe_load(shell.kubeconfig.read_text())

    assert stat.S_IMODE(shell.kubeconfig.stat().st_mode) == 0o600
    assert content["current-context"] == "hub"
    assert [one["name"] for one in content["contexts"]] == ["hub", "member1", "member2"]
    assert [one["name"] for one in content["users"]] == ["hub-admin", "member1-admin", "member2-admin"]
    assert len({one["cluster"]["server"] for one in content["clusters"]}) == 3


def test_commands_name_what_is_wrong(shell: Shell) -> None:
    """A wrong workload, quantity or member is refused with what to write instead."""
    refused = {
        ("load", "web", "1"): "'web' is not NAMESPACE/NAME, for example shop/web",
        ("load", "default/web", "1x"): "'1x' is not a quantity",
        ("load", "default/web", "-1"): "the load is -1: it cannot be negative",
        (
            "load",
            "default/web",
            "1",
            "--cluster",
            "here",
        ): "no member 'here': the members are member1, member2",
        ("lose", "hub"): "no member 'hub': the members are member1, member2",
        ("bring-back", "member1"): "member1 is not lost",
    }
    for words, text in refused.items():
        words = (words[0], "--", *words[1:]) if "-1" in words else words
        code, out, err = shell.main(*words)

        assert (code, out) == (1, ""), words
        assert text in err


def test_without_a_plane_the_commands_say_how_to_start_one(shell: Shell, tmp_path: Path) -> None:
    """The remedy is a command."""
    elsewhere = replace(shell, environment={**shell.environment, "TMPDIR": str(tmp_path)})
    code, _, err = elsewhere.main("lose", "member1")

    assert code == 1
    assert "start one with `python -m testbed.embedded up`" in err


def test_the_load_of_a_workload_is_set_by_a_command(shell: Shell) -> None:
    """The ready pods of all members share the load, and those of one member an additional one."""
    assert "none is ready now (member1 0, member2 0)" in shell.plane("load", "default/busy", "240m")
    for member in ("member1", "member2"):
        shell.applied(deployment("busy"), "--context", member)
        available = ("--for=condition=Available", "--timeout=60s", "deployment/busy")
        assert shell.kubectl("--context", member, "wait", *available).returncode == 0

    said = shell.plane("load", "default/busy", "240m")
    usage = shell.kubectl("--context", "member1", "top", "pods", "--no-headers").stdout
    more = shell.plane("load", "default/busy", "40m", "--cluster", "member2")
    increased = shell.kubectl("--context", "member2", "top", "pods", "--no-headers").stdout

    assert said == "default/busy: 240m CPU, shared by the ready pods (member1 2, member2 2)\n"
    assert [line.split()[1] for line in usage.splitlines()] == ["60m", "60m"]
    assert more == "default/busy: 40m CPU in addition, shared by the ready pods (member2 2)\n"
    assert [line.split()[1] for line in increased.splitlines()] == ["80m", "80m"]


def test_a_member_is_lost_and_comes_back(shell: Shell) -> None:
    """Between the two commands the member answers nobody, and the load says so."""
    lost = shell.plane("lose", "member2")
    unreachable = shell.kubectl("--context", "member2", "get", "pods")
    said = shell.plane("load", "default/lost", "1m")
    back = shell.plane("bring-back", "member2")
    reachable = shell.kubectl("--context", "member2", "get", "pods")

    assert lost == "member2: the API server is stopped; the pods keep running\n"
    assert unreachable.returncode == 1
    assert "(member1 0, member2 ?)" in said
    assert back == "member2: the API server runs again\n"
    assert reachable.returncode == 0


def test_what_kubectl_cannot_do_here_is_refused_with_a_remedy(shell: Shell) -> None:
    """A kind whose protobuf is not read. The remedy works as printed."""
    words = ("create", "deployment", "created", "--image=web")
    created = shell.kubectl(*words)
    printed = shell.kubectl(*words, "--dry-run=client", "-o", "yaml")

    assert "does not read the protobuf of Deployment: add --dry-run=client -o yaml" in created.stderr
    assert "created" in shell.applied(yaml.safe_load(printed.stdout))
