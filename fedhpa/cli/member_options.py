"""Options that say where members come from, as the processes' flags of the same names do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fedhpa.api.member_sources import MemberSources
    from fedhpa.serving.flags import Flag

MembersFrom = Annotated[
    str,
    typer.Option(
        "--members-from",
        envvar="FEDHPA_MEMBERS_FROM",
        help="The controller's --members-from: some of clusters, clusterprofiles, argocd.",
    ),
]
MembersNamespace = Annotated[
    str,
    typer.Option(
        "--members-namespace",
        envvar="FEDHPA_MEMBERS_NAMESPACE",
        help="Namespace of the ConfigMaps about members that are no Clusters.",
    ),
]
ProfileNamespaces = Annotated[
    str,
    typer.Option(
        "--clusterprofile-namespaces",
        envvar="FEDHPA_CLUSTERPROFILE_NAMESPACES",
        help="The controller's --clusterprofile-namespaces.",
    ),
]
ProviderFile = Annotated[
    str,
    typer.Option(
        "--clusterprofile-provider-file",
        envvar="FEDHPA_CLUSTERPROFILE_PROVIDER_FILE",
        help="The controller's --clusterprofile-provider-file. Its plugins run on this machine.",
    ),
]
ArgocdNamespace = Annotated[
    str,
    typer.Option(
        "--argocd-namespace", envvar="FEDHPA_ARGOCD_NAMESPACE", help="The controller's --argocd-namespace."
    ),
]
ArgocdSecrets = Annotated[
    str,
    typer.Option(
        "--argocd-secrets", envvar="FEDHPA_ARGOCD_SECRETS", help="The controller's --argocd-secrets."
    ),
]
DEFAULT = "clusters"
DEFAULT_NAMESPACE = "fedhpa-system"
DEFAULT_ARGOCD = "argocd"


def member_sources(
    members_from: str = DEFAULT,
    members_namespace: str = DEFAULT_NAMESPACE,
    profile_namespaces: str = "",
    provider_file: str = "",
    argocd_namespace: str = DEFAULT_ARGOCD,
    argocd_secrets: str = "",
) -> MemberSources:
    """Returns the sources that the options name. Raises ConfigError as the processes do."""
    from fedhpa.serving.flags import members, parse_flags

    given: dict[Flag[Any], str] = {
        members.MEMBERS_FROM: members_from,
        members.MEMBERS_NAMESPACE: members_namespace,
        members.PROFILE_NAMESPACES: profile_namespaces,
        members.PROVIDER_FILE: provider_file,
        members.ARGOCD_NAMESPACE: argocd_namespace,
        members.ARGOCD_SECRETS: argocd_secrets,
    }
    arguments = [f"--{flag.name}={text}" for flag, text in given.items() if text]
    return members.member_sources(parse_flags({"Members": members.SOURCES_OF_MEMBERS}, arguments, {}))
