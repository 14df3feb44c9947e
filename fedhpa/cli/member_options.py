"""Options that say where members come from, as the processes' flags of the same names do."""

from __future__ import annotations

from dataclasses import dataclass, fields
from shlex import quote
from typing import Annotated, Any

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.api.member_sources import SOURCES, MemberSources


def _option(name: str, help: str = "") -> Any:
    variable = f"FEDHPA_{name.upper().replace('-', '_')}"
    return typer.Option(f"--{name}", envvar=variable, help=help or f"The controller's --{name}.")


@dataclass(frozen=True)
class TaintFlags:
    """The options of a command that writes taints of members."""

    members_from: Annotated[
        str,
        _option("members-from", "The controller's --members-from, of clusters, clusterprofiles and argocd."),
    ] = "clusters"
    members_namespace: Annotated[
        str, _option("members-namespace", "Namespace of the ConfigMaps about members that are no Clusters.")
    ] = "fedhpa-system"

    def words(self) -> list[str]:
        """Returns the flags that are set, for another command."""
        return [
            f"--{field.name.replace('_', '-')}={quote(text)}"
            for field in fields(self)
            if (text := getattr(self, field.name)) != field.default
        ]

    def sources(self) -> MemberSources:
        """Returns the sources, as far as taints depend on them. Raises ConfigError."""
        names = tuple(filter(None, self.members_from.split(",")))
        if not names or set(names) - set(SOURCES):
            expected = f"expected some of {', '.join(SOURCES)}"
            raise ConfigError(f"--members-from={self.members_from[:100]!r}: {expected}")
        return MemberSources(names, self.members_namespace)


@dataclass(frozen=True)
class MemberFlags(TaintFlags):
    """The options of a command that reaches members."""

    clusterprofile_namespaces: Annotated[str, _option("clusterprofile-namespaces")] = ""
    clusterprofile_provider_file: Annotated[
        str,
        _option(
            "clusterprofile-provider-file",
            "The controller's --clusterprofile-provider-file. Its plugins run on this machine.",
        ),
    ] = ""
    exec_plugin_env: Annotated[str, _option("exec-plugin-env")] = ""
    argocd_namespace: Annotated[str, _option("argocd-namespace")] = "argocd"
    argocd_secrets: Annotated[str, _option("argocd-secrets")] = ""
    argocd_servers: Annotated[str, _option("argocd-servers")] = ""

    def sources(self) -> MemberSources:
        """Returns the sources that the options name. Raises ConfigError as the processes do."""
        from fedhpa.serving.flags import members, parse_flags

        arguments = [f"--{name.replace('_', '-')}={text}" for name, text in vars(self).items() if text]
        return members.member_sources(parse_flags({"Members": members.SOURCES_OF_MEMBERS}, arguments, {}))
