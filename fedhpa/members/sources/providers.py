"""The provider file: which exec plugin makes the credentials of which access provider (KEP-5339).

The file is the administrator's. A profile may choose among its entries, and never adds a command, an argument
or a variable. `servers` is ours: the servers to which an entry may send its credentials.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from fedhpa.api.errors import ConfigError, FedHPAError
from fedhpa.api.json import decode_json
from fedhpa.kube.exec_plugin import ExecPlugin
from fedhpa.members.sources.addresses import ServerPattern, patterns_of

MAX_FILE: Final = 256 * 1024
MAX_PROVIDERS: Final = 64
VERSION: Final = "client.authentication.k8s.io/v1"
IGNORE: Final = "Ignore"
# Variables of ours would tell a plugin about our other credentials.
OWN_VARIABLES: Final = "FEDHPA_"
# Variables of our environment that a plugin may need: for its files, its cloud and its identity.
_NAMES: Final = frozenset(
    ("PATH", "HOME", "TZ", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
)
_PREFIXES: Final = ("KUBERNETES_SERVICE_", "AWS_", "AZURE_", "GOOGLE_", "CLOUDSDK_")


class _Provider(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    exec_config: dict[str, object]
    cli_args_policy: str = msgspec.field(default=IGNORE, name="profileSourcedCLIArgsPolicy")
    env_vars_policy: str = msgspec.field(default=IGNORE, name="profileSourcedEnvVarsPolicy")
    servers: list[str] = []


class _File(msgspec.Struct, frozen=True):
    providers: list[_Provider]


class Provider(msgspec.Struct, frozen=True):
    """An entry of the file. Without `servers` it makes credentials for every server that a profile names."""

    name: str
    plugin: ExecPlugin
    servers: tuple[ServerPattern, ...]

    @property
    def where(self) -> str:
        """The field with its patterns, for messages."""
        return f"servers of provider {self.name}"


def read_providers(path: str) -> tuple[Provider, ...]:
    """Returns the entries of the file in its order. Raises ConfigError that names file, entry and field."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_FILE + 1)
    except OSError as error:
        raise ConfigError(
            f"--clusterprofile-provider-file={path}: cannot be read: {error.strerror}"
        ) from error
    if len(content) > MAX_FILE:
        raise ConfigError(f"--clusterprofile-provider-file={path}: has more than {MAX_FILE} bytes")
    try:
        entries = decode_json(content, _File).providers
        if not 0 < len(entries) <= MAX_PROVIDERS:
            raise ConfigError(f"expected 1 to {MAX_PROVIDERS} providers")
        return tuple(_provider(one, str(Path(path).parent)) for one in entries)
    except FedHPAError as error:
        raise ConfigError(f"--clusterprofile-provider-file={path}: {error}") from error


def _provider(entry: _Provider, folder: str) -> Provider:
    where = f"provider {entry.name[:100]}"
    for field, policy in (
        ("profileSourcedCLIArgsPolicy", entry.cli_args_policy),
        ("profileSourcedEnvVarsPolicy", entry.env_vars_policy),
    ):
        if policy != IGNORE:
            raise ConfigError(
                f"{where}: {field}: {policy[:100]!r} is not supported, because a profile would choose what "
                f"the plugin does: write {IGNORE}, and the arguments into execConfig"
            )
    plugin = ExecPlugin.read(entry.exec_config, folder)
    if plugin.api_version != VERSION:
        raise ConfigError(f"{where}: execConfig.apiVersion: expected {VERSION}")
    if not plugin.command:
        raise ConfigError(f"{where}: execConfig.command is not set")
    if any(variable.name.startswith(OWN_VARIABLES) for variable in plugin.env or ()):
        raise ConfigError(f"{where}: execConfig.env: no name may begin with {OWN_VARIABLES}")
    return Provider(entry.name, plugin, patterns_of(entry.servers, f"{where}: servers"))


def plugin_environment(further: tuple[str, ...]) -> dict[str, str]:
    """Returns the variables of our environment that plugins get. `further` are those of the flag."""
    names = _NAMES | set(further)
    return {
        name: value
        for name, value in os.environ.items()
        if (name in names or name.startswith(_PREFIXES)) and not name.startswith(OWN_VARIABLES)
    }
