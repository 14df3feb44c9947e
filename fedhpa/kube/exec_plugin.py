"""Runs the exec plugin of a kubeconfig, which prints a credential (client.authentication.k8s.io).

The `kubernetes` package can run plugins, too, but offers no way to end one. A plugin that hangs would remain
with all processes that it started. Here a plugin has a process group of its own, which is killed at the
deadline and when the caller is cancelled. The rules are those of client-go.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from fedhpa.api.errors import ConfigError
from fedhpa.api.json import InvalidJson, convert_json, decode_json
from fedhpa.api.texts import cut_line
from fedhpa.kube.credentials import PLUGIN_DEADLINE_SECONDS

# A plugin in a terminal may wait for a person who logs in.
INTERACTIVE_SECONDS: Final = 600.0
# A killed process is gone within this time, unless the system itself hangs.
END_SECONDS: Final = 5.0
# Bytes. A credential is a token, or a certificate with its key.
MAX_OUTPUT: Final = 1024 * 1024
MAX_ERRORS: Final = 4096
SHOWN: Final = 200
# Characters of the errors of a plugin with an environment of its own, which nobody can start by hand.
MAX_SAID: Final = 500
CHUNK: Final = 64 * 1024
# A process that has closed its output ends within a moment.
EXIT_SECONDS: Final = 0.01

VERSIONS: Final = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
CLUSTER_EXTENSION: Final = "client.authentication.k8s.io/exec"
# The fields of a cluster in a kubeconfig that a plugin may be given. A CA file is given as data.
_CLUSTER_FIELDS: Final = (
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "proxy-url",
    "disable-compression",
)


class _Variable(msgspec.Struct, frozen=True):
    name: str
    value: str = ""


class ExecPlugin(msgspec.Struct, frozen=True, rename="camel"):
    """The `exec` of a user in a kubeconfig."""

    api_version: str
    command: str
    args: list[str] | None = None
    env: list[_Variable] | None = None
    install_hint: str | None = None
    interactive_mode: str | None = None
    provide_cluster_info: bool = False

    @classmethod
    def read(cls, raw: object, folder: str) -> ExecPlugin:
        """Returns the plugin of a kubeconfig in `folder`. Raises InvalidObject, or ConfigError.

        A command with a slash is relative to the folder.
        """
        plugin = convert_json(raw, cls)
        if plugin.api_version not in VERSIONS:
            raise ConfigError(
                f"exec plugin {plugin.shown}: apiVersion {plugin.api_version[:100]!r} is not supported:"
                f" update the plugin, and write {VERSIONS[0]}"
            )
        if os.sep in plugin.command:
            plugin = msgspec.structs.replace(plugin, command=str(Path(folder, plugin.command)))
        return plugin

    @property
    def shown(self) -> str:
        """The command, for messages."""
        return self.command[:100]


class Credential(msgspec.Struct, frozen=True, rename="camel"):
    """The status of an ExecCredential: a token, or a client certificate with its key, or both."""

    expiration_timestamp: str | None = None
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None

    @property
    def expiry(self) -> float | None:
        """The POSIX time at which the credential expires; None if it does not. Raises ValueError."""
        if not self.expiration_timestamp:
            return None
        time = datetime.fromisoformat(self.expiration_timestamp)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


class _ExecCredential(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: Credential | None = None


async def run_plugin(
    plugin: ExecPlugin,
    cluster: Mapping[str, Any],
    *,
    deadline: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> Credential:
    """Returns the credential that the plugin prints. Raises ConfigError with the reason.

    `cluster` is that of the kubeconfig, with an absolute path of the CA. `deadline` is in seconds.
    Nothing of the plugin's process group is left after an error. With an `environment`, the plugin gets this
    one instead of ours, has no terminal, and nothing of its process group outlives it.
    """
    alone = environment is not None
    interactive = not alone and _is_interactive(plugin)
    if deadline is None:
        deadline = INTERACTIVE_SECONDS if interactive else PLUGIN_DEADLINE_SECONDS
    info: dict[str, Any] = {"interactive": interactive}
    if plugin.provide_cluster_info:
        info["cluster"] = _cluster_info(cluster)
    request = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": info}
    given = {variable.name: variable.value for variable in plugin.env or ()}
    base = os.environ if environment is None else environment
    whole = {**base, **given, "KUBERNETES_EXEC_INFO": msgspec.json.encode(request).decode()}
    try:
        async with asyncio.timeout(deadline):
            output = await _run(plugin, whole, interactive, alone=alone)
    except TimeoutError:
        raise _failure(plugin, f"no answer within {deadline:g} s") from None
    return _credential(plugin, output)


def _is_interactive(plugin: ExecPlugin) -> bool:
    mode = plugin.interactive_mode or "IfAvailable"
    if mode not in ("Never", "IfAvailable", "Always"):
        raise ConfigError(f"exec plugin {plugin.shown}: interactiveMode {mode[:100]!r} is not known")
    terminal = sys.stdin is not None and sys.stdin.isatty()
    if mode == "Always" and not terminal:
        raise _failure(plugin, "it needs a terminal (interactiveMode Always), and there is none")
    return mode != "Never" and terminal


def _cluster_info(cluster: Mapping[str, Any]) -> dict[str, Any]:
    info = {name: cluster[name] for name in _CLUSTER_FIELDS if cluster.get(name)}
    authority = cluster.get("certificate-authority")
    if authority and "certificate-authority-data" not in info:
        info["certificate-authority-data"] = base64.b64encode(Path(authority).read_bytes()).decode()
    for extension in cluster.get("extensions") or ():
        if extension["name"] == CLUSTER_EXTENSION:
            info["config"] = extension.get("extension")
    return info


async def _run(
    plugin: ExecPlugin, environment: dict[str, str], interactive: bool, *, alone: bool = False
) -> bytes:
    """Returns what the plugin prints. Kills its process group unless it ends by itself; `alone`: always."""
    process = _start(plugin, environment, interactive)
    try:
        await process.closed.wait()
        if process.is_whole:
            await (process.exit_unreaped() if alone else process.exit())
    finally:
        # A process that is not reaped keeps the number of its group, so no other group is killed.
        if alone or not process.has_ended:
            process.kill(alone=interactive)
        process.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_SECONDS):
                await process.exit()
    if not process.is_whole:
        raise _failure(plugin, f"it prints more than {MAX_OUTPUT} bytes")
    if process.code:
        said = cut_line(process.errors.decode(errors="replace").strip(), MAX_SAID if alone else SHOWN)
        raise _failure(plugin, f"exit code {process.code}" + (f": {said}" if said else ""))
    return bytes(process.output)


def _start(plugin: ExecPlugin, environment: dict[str, str], interactive: bool) -> _Process:
    # asyncio would kill the process alone, without its children, if the caller is cancelled during the start.
    try:
        started = subprocess.Popen(
            [plugin.command, *(plugin.args or ())],
            env=environment,
            stdin=None if interactive else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            # A person reads the questions there.
            stderr=None if interactive else subprocess.PIPE,
            # Only the session of the terminal may read from it.
            start_new_session=not interactive,
        )
    except (OSError, ValueError) as error:
        hint = f": {cut_line(plugin.install_hint, SHOWN)}" if plugin.install_hint else ""
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _failure(plugin, f"it cannot be started: {reason}{hint}") from error
    return _Process(started)


class _Process:
    """A running plugin and its output so far. `closed` is set at the end of the output, or at its bound."""

    def __init__(self, started: subprocess.Popen[bytes]) -> None:
        self.output = bytearray()
        self.errors = bytearray()
        self.closed = asyncio.Event()
        self._started = started
        self._loop = asyncio.get_running_loop()
        self._pipes: dict[int, IO[bytes]] = {}
        for pipe, kept, most in (
            (started.stdout, self.output, MAX_OUTPUT + 1),
            (started.stderr, self.errors, MAX_ERRORS),
        ):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                self._pipes[pipe.fileno()] = pipe
                self._loop.add_reader(pipe.fileno(), self._read, pipe.fileno(), kept, most)

    @property
    def is_whole(self) -> bool:
        """False if the output is larger than the bound."""
        return len(self.output) <= MAX_OUTPUT

    @property
    def has_ended(self) -> bool:
        """True if the process and all holders of its output are gone."""
        return not self._pipes and self.code is not None

    @property
    def code(self) -> int | None:
        """The exit code; None while the process runs."""
        return self._started.poll()

    async def exit(self) -> None:
        """Wait until the process has ended."""
        while self.code is None:  # noqa: ASYNC110  # no event announces the end of a process
            await asyncio.sleep(EXIT_SECONDS)

    async def exit_unreaped(self) -> None:
        """Wait until the process has ended, and leave it to be reaped."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        while os.waitid(os.P_PID, self._started.pid, options) is None:  # noqa: ASYNC110, ASYNC222  # WNOHANG
            await asyncio.sleep(EXIT_SECONDS)

    def kill(self, *, alone: bool) -> None:
        """Kill the process group, or the process `alone` if it shares our group."""
        with contextlib.suppress(ProcessLookupError):
            if alone:
                self._started.kill()
            else:
                os.killpg(self._started.pid, signal.SIGKILL)

    def close(self) -> None:
        """Read nothing more."""
        for number in list(self._pipes):
            self._close(number)

    def _read(self, number: int, kept: bytearray, most: int) -> None:
        try:
            data = os.read(number, CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        kept += data[: most - len(kept)]
        if not data:
            self._close(number)
        if not self._pipes or not self.is_whole:
            self.closed.set()

    def _close(self, number: int) -> None:
        self._loop.remove_reader(number)
        self._pipes.pop(number).close()


def _credential(plugin: ExecPlugin, output: bytes) -> Credential:
    try:
        answer = decode_json(output, _ExecCredential)
        found = answer.status
        if found is not None:
            _ = found.expiry
    except (InvalidJson, ValueError) as error:
        # The error names a field. The output itself has secrets.
        raise _failure(plugin, f"its output cannot be read: {cut_line(str(error), SHOWN)}") from None
    if (answer.kind, answer.api_version) != ("ExecCredential", plugin.api_version):
        shown = f"{answer.kind or 'no kind'} {answer.api_version or 'without apiVersion'}"
        raise _failure(plugin, f"it printed {shown[:SHOWN]}, not ExecCredential {plugin.api_version}")
    if found is None:
        raise _failure(plugin, "it printed no status")
    if bool(found.client_certificate_data) != bool(found.client_key_data):
        raise _failure(plugin, "it printed only one of certificate and key")
    if not found.token and not found.client_certificate_data:
        raise _failure(plugin, "it printed neither a token nor a certificate")
    return found


def _failure(plugin: ExecPlugin, reason: str) -> ConfigError:
    return ConfigError(f"exec plugin {plugin.shown} failed: {reason}")
