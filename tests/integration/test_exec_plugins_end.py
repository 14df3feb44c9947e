"""An exec plugin gets what client-go gives it, and none of its processes outlives deadline or caller."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from fedhpa.api.errors import ConfigError
from fedhpa.kube import SYSTEM, exec_plugin
from fedhpa.kube.config import load_config
from fedhpa.kube.credentials import PluginCredentials
from fedhpa.kube.exec_plugin import ExecPlugin, run_plugin
from fedhpa.serving.process import quick_loop
from tests.support.fakeapi import PATIENCE, eventually

V1 = "client.authentication.k8s.io/v1"
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.new_event_loop, quick_loop]


def script(folder: Path, text: str) -> str:
    path = folder / "plugin.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def answering(**status: Any) -> str:
    answer = {"apiVersion": V1, "kind": "ExecCredential", "status": status}
    return f"echo '{json.dumps(answer)}'"


def plugin_of(command: str, **fields: Any) -> ExecPlugin:
    return ExecPlugin.read({"apiVersion": V1, "command": command, **fields}, "/")


def hanging(folder: Path) -> str:
    """A plugin that ignores SIGTERM, as does the process that it starts. Both write their ids."""
    own, child = folder / "own", folder / "child"
    return script(
        folder,
        f"trap '' TERM\n(exec sleep 1000) &\necho $! > {child}\necho $$ > {own}\nwait\nsleep 1000",
    )


def alive(folder: Path) -> list[str]:
    """Returns the ids of the plugin's processes that still run."""
    found = []
    for name in ("own", "child"):
        pid = (folder / name).read_text().strip()
        with suppress(OSError):
            os.kill(int(pid), 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.append(pid)
    return found


def is_started(folder: Path) -> bool:
    return (folder / "own").exists() and bool((folder / "own").read_text().strip())


@pytest.mark.parametrize("factory", LOOPS, ids=["asyncio", "uvloop"])
def test_no_process_of_a_plugin_is_left_after_its_deadline(
    factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """A plugin that ignores SIGTERM is killed at its deadline with all that it started."""
    plugin = plugin_of(hanging(tmp_path))

    async def main() -> None:
        with pytest.raises(ConfigError, match=r"plugin\.sh failed: no answer within 1 s"):
            await run_plugin(plugin, {}, deadline=1.0)
        await eventually(lambda: not is_started(tmp_path) or not alive(tmp_path))

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())


@pytest.mark.parametrize("factory", LOOPS, ids=["asyncio", "uvloop"])
def test_no_process_of_a_plugin_is_left_after_the_end(
    factory: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    """A process that ends while a plugin runs leaves nothing of the plugin."""
    plugin = plugin_of(hanging(tmp_path))

    async def load() -> tuple[str | None, float | None]:
        found = await run_plugin(plugin, {})
        return found.token, found.expiry

    async def main() -> None:
        source = PluginCredentials(load, (None, 0.0), wall=SYSTEM.wall)
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                asking = asyncio.ensure_future(source.authorization())
                await eventually(lambda: is_started(tmp_path))
                asking.cancel()

    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())

    assert is_started(tmp_path)
    # The system ends a killed process when it gets to it.
    asyncio.run(eventually(lambda: not alive(tmp_path)))


async def test_a_child_that_keeps_the_output_open_is_killed_at_the_deadline(tmp_path: Path) -> None:
    """A plugin that has ended is waited for until its children have closed its output."""
    plugin = plugin_of(
        script(tmp_path, f"sleep 1000 &\necho $! > {tmp_path}/child\necho $$ > {tmp_path}/own")
    )
    with pytest.raises(ConfigError, match="no answer within 1 s"):
        await run_plugin(plugin, {}, deadline=1.0)

    await eventually(lambda: not is_started(tmp_path) or not alive(tmp_path))


async def test_an_endless_output_ends_the_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plugin that prints without end is ended at the bound, and its errors are cut."""
    monkeypatch.setattr(exec_plugin, "MAX_OUTPUT", 100_000)
    with pytest.raises(ConfigError, match="prints more than 100000 bytes"):
        await run_plugin(plugin_of(script(tmp_path, "yes")), {})
    with pytest.raises(ConfigError, match=r"exit code 3: x{190,200}") as raised:
        await run_plugin(plugin_of(script(tmp_path, "yes x | head -c 900000 | tr -d '\\n' >&2; exit 3")), {})

    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("exit 1", "exit code 1"),
        ("echo no login >&2; exit 7", "exit code 7: no login"),
        ("echo nonsense", "its output cannot be read"),
        ("true", "its output cannot be read"),
        ("echo '{}'", "it printed no kind without apiVersion, not ExecCredential"),
        (answering().replace("v1", "v1beta1"), "v1beta1, not ExecCredential client.authentication.k8s.io/v1"),
        (answering().replace("ExecCredential", "Token"), "it printed Token"),
        (answering(), "neither a token nor a certificate"),
        (answering(token=7), "its output cannot be read"),
        (answering(clientCertificateData="c"), "only one of certificate and key"),
        (answering(token="t", expirationTimestamp="soon"), "its output cannot be read"),
    ],
)
async def test_a_plugin_that_fails_says_why(tmp_path: Path, text: str, reason: str) -> None:
    """Each fault has a reason that names the plugin."""
    with pytest.raises(ConfigError, match=r"exec plugin .*plugin\.sh failed") as raised:
        await run_plugin(plugin_of(script(tmp_path, text)), {})

    assert reason in str(raised.value)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        (
            {"command": "no-such-plugin-here", "installHint": "install it with\n`make plugin`"},
            r"started: No such file .*: install it with `make plugin`",
        ),
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "v1alpha1' is not supported"),
        ({"interactiveMode": "Sometimes"}, "interactiveMode 'Sometimes' is not known"),
        ({"interactiveMode": "Always"}, "needs a terminal"),
    ],
)
async def test_a_plugin_that_cannot_run_is_refused(fields: dict[str, Any], reason: str) -> None:
    """One that is not installed, with the installHint of the kubeconfig, an unknown version or mode, and one
    that needs a terminal where there is none.
    """
    with pytest.raises(ConfigError, match=reason):
        await run_plugin(plugin_of(**{"command": "true", **fields}), {})


async def test_a_plugin_is_told_about_the_cluster(tmp_path: Path) -> None:
    """The request has what client-go sends: the version, and the cluster with its CA and own settings."""
    authority = trustme.CA().cert_pem.bytes()
    (tmp_path / "ca.crt").write_bytes(authority)
    bin_folder = tmp_path / "bin"
    bin_folder.mkdir()
    script(
        bin_folder,
        f'echo "$KUBERNETES_EXEC_INFO" > {tmp_path}/info; echo "$1 $EXTRA" > {tmp_path}/args\n'
        + answering(token="t", expirationTimestamp="2100-01-01T00:00:00Z"),
    )
    execution = {
        "apiVersion": V1,
        "command": "./bin/plugin.sh",
        "args": ["login"],
        "env": [{"name": "EXTRA", "value": "more"}],
        "interactiveMode": "IfAvailable",
        "provideClusterInfo": True,
    }
    cluster = {
        "server": "https://10.0.0.1:6443",
        "certificate-authority": "ca.crt",
        "tls-server-name": "api",
        "extensions": [
            {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}},
            {"name": "other", "extension": {"y": "z"}},
        ],
    }
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"exec": execution}}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "main",
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(content))
    config = await load_config(str(tmp_path / "kubeconfig"), clock=SYSTEM)

    info = json.loads((tmp_path / "info").read_text())
    assert (tmp_path / "args").read_text() == "login more\n"
    assert info == {
        "apiVersion": V1,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "https://10.0.0.1:6443",
                "tls-server-name": "api",
                "certificate-authority-data": base64.b64encode(authority).decode(),
                "config": {"audience": "x"},
            },
        },
    }
    assert await config.credentials.authorization() == "Bearer t"


async def test_a_certificate_of_a_plugin_is_used(tmp_path: Path) -> None:
    """A plugin may print a client certificate instead of a token."""
    pair = trustme.CA().issue_cert("client")
    certificate = pair.cert_chain_pems[0].bytes().decode()
    (tmp_path / "answer").write_text(
        json.dumps(
            {
                "apiVersion": V1,
                "kind": "ExecCredential",
                "status": {
                    "clientCertificateData": certificate,
                    "clientKeyData": pair.private_key_pem.bytes().decode(),
                },
            }
        )
    )
    found = await run_plugin(plugin_of("cat", args=[str(tmp_path / "answer")]), {})

    assert found.client_certificate_data == certificate
    assert (found.token, found.expiry) == (None, None)
