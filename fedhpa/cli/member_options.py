"""Options that say where members come from, as the processes' flags of the same names do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

if TYPE_CHECKING:
    from fedhpa.api.member_sources import MemberSources

DEFAULT: Final = "clusters"
DEFAULT_NAMESPACE: Final = "fedhpa-system"
DEFAULT_ARGOCD: Final = "argocd"


def _option(name: str, help: str = "") -> Any:
    variable = f"FEDHPA_{name.upper().replace('-', '_')}"
    return typer.Option(f"--{name}", envvar=variable, help=help or f"The controller's --{name}.")


MembersFrom = Annotated[
    str,
    _option("members-from", "The controller's --members-from, of clusters, clusterprofiles and argocd."),
]
MembersNamespace = Annotated[
    str, _option("members-namespace", "Namespace of the ConfigMaps about members that are no Clusters.")
]
ProfileNamespaces = Annotated[str, _option("clusterprofile-namespaces")]
ArgocdNamespace = Annotated[str, _option("argocd-namespace")]
ArgocdSecrets = Annotated[str, _option("argocd-secrets")]


@dataclass(frozen=True)
class MemberFlags:
    """The options of a command that reaches members."""

    members_from: MembersFrom = DEFAULT
    members_namespace: MembersNamespace = DEFAULT_NAMESPACE
    clusterprofile_namespaces: ProfileNamespaces = ""
    clusterprofile_provider_file: Annotated[
        str,
        _option(
            "clusterprofile-provider-file",
            "The controller's --clusterprofile-provider-file. Its plugins run on this machine.",
        ),
    ] = ""
    exec_plugin_env: Annotated[str, _option("exec-plugin-env")] = ""
    argocd_namespace: ArgocdNamespace = DEFAULT_ARGOCD
    argocd_secrets: ArgocdSecrets = ""
    argocd_servers: Annotated[str, _option("argocd-servers")] = ""

    def sources(self) -> MemberSources:
        """Returns the sources that the options name. Raises ConfigError as the processes do."""
        from fedhpa.serving.flags import members, parse_flags

        arguments = [f"--{name.replace('_', '-')}={text}" for name, text in vars(self).items() if text]
        return members.member_sources(parse_flags({"Members": members.SOURCES_OF_MEMBERS}, arguments, {}))
