"""The flags of the sources of members, which all processes and commands that reach members share."""

from __future__ import annotations

import os
from typing import Any, Final

from fedhpa.api import rights
from fedhpa.api.member_sources import ARGOCD, CLUSTERS, SOURCES, MemberSources
from fedhpa.api.names import dns_label
from fedhpa.kube.config import SERVICE_ACCOUNT
from fedhpa.serving.flags.types import Flag, FlagType, Values, boolean, path, split_list, string

MAX_NAMES: Final = 256


def _sources(text: str) -> tuple[str, ...]:
    names = split_list(text)
    if not names or set(names) - set(SOURCES) or len(set(names)) < len(names):
        raise ValueError(text)
    return names


def _names(text: str) -> tuple[str, ...]:
    names = split_list(text)
    if len(names) > MAX_NAMES or any("/" in name or name in (".", "..") for name in names):
        raise ValueError(text)
    return names


def _namespaces(text: str) -> tuple[str, ...]:
    names = _names(text)
    if any(dns_label(name) for name in names):
        raise ValueError(text)
    return names


def _variables(text: str) -> tuple[str, ...]:
    names = _names(text)
    if any(name.startswith("FEDHPA_") or not name.isidentifier() for name in names):
        raise ValueError(text)
    return names


MEMBERS_FROM: Flag[tuple[str, ...]] = Flag(
    "members-from",
    (CLUSTERS,),
    "Objects of the hub that register members. Of two that know a cluster, the first source gives its name.",
    FlagType("strings", "some of " + ", ".join(SOURCES), _sources, ",".join),
)
MEMBERS_NAMESPACE = string(
    "members-namespace",
    "",
    "Namespace of the ConfigMaps fedhpa-taints and fedhpa-servers, about members that are no Clusters; if "
    "not set, the pod's own namespace, or fedhpa-system outside a pod.",
)
PROFILE_NAMESPACES: Flag[tuple[str, ...]] = Flag(
    "clusterprofile-namespaces",
    (),
    "Namespaces of ClusterProfiles. With --members-from=clusterprofiles they are members, and whoever writes "
    "them directs their credentials. PlacementDecisions name them: a member has the one with the label "
    "fedhpa.io/cluster, or the one of its own name.",
    FlagType("strings", f"at most {MAX_NAMES} namespaces", _namespaces, ",".join),
    repeatable=True,
)
PROVIDER_FILE = path(
    "clusterprofile-provider-file",
    "",
    "JSON file of the exec plugins that make credentials for ClusterProfiles, in the format of the Cluster "
    "Inventory API. An entry may have `servers`: the servers that may get its credentials.",
)
PLUGIN_ENVIRONMENT: Flag[tuple[str, ...]] = Flag(
    "exec-plugin-env",
    (),
    "Further environment variables that exec plugins of ClusterProfiles get. None that begins with FEDHPA_.",
    FlagType("strings", f"at most {MAX_NAMES} names of variables", _variables, ",".join),
    repeatable=True,
)
ARGOCD_NAMESPACE = string(
    "argocd-namespace",
    ARGOCD,
    "Namespace of Argo CD: of cluster Secrets that are members, and of Placements for --publish-to=argocd.",
)
ARGOCD_SECRETS: Flag[tuple[str, ...]] = Flag(
    "argocd-secrets",
    (),
    "Names of the cluster Secrets of Argo CD that are members. With *, all of the namespace, which needs the "
    "right to read each Secret there.",
    FlagType("strings", f"at most {MAX_NAMES} names of Secrets, or *", _names, ",".join),
    repeatable=True,
)
ARGOCD_SERVERS: Flag[tuple[str, ...]] = Flag(
    "argocd-servers",
    (),
    "Servers that may get the credentials of Argo CD's Secrets, as HOST, *.DOMAIN or a network, each with or "
    "without :PORT; if not set, any.",
    FlagType("strings", "patterns of servers", split_list, ",".join),
    repeatable=True,
)
ARGOCD_INSECURE = boolean(
    "argocd-allow-insecure",
    False,
    "Use cluster Secrets of Argo CD with tlsClientConfig.insecure, whose servers nobody verifies. For tests.",
)
ARGOCD_OWN_TOKENS = boolean(
    "argocd-use-own-tokens",
    False,
    "Metrics adapter: read members with the token in Argo CD's Secret, which mostly is that of an "
    "administrator, where there is no Secret NAME-metrics.",
)
ACCEPT_CHANGED_SERVERS = boolean(
    "accept-changed-servers",
    False,
    "Use another server or CA of a known member at once, without `fedhpa join --accept`. For fleets whose "
    "manager replaces them, and whose ClusterProfiles nobody else may write.",
)

SOURCES_OF_MEMBERS: tuple[Flag[Any], ...] = (
    MEMBERS_FROM,
    MEMBERS_NAMESPACE,
    PROFILE_NAMESPACES,
    PROVIDER_FILE,
    PLUGIN_ENVIRONMENT,
    ARGOCD_NAMESPACE,
    ARGOCD_SECRETS,
    ARGOCD_SERVERS,
    ARGOCD_INSECURE,
    ACCEPT_CHANGED_SERVERS,
)


def member_sources(values: Values, *, reads_metrics: bool = False) -> MemberSources:
    """Returns the sources that the flags name. Raises ConfigError if one lacks a flag."""
    found = MemberSources(
        names=values[MEMBERS_FROM],
        namespace=values[MEMBERS_NAMESPACE] or own_namespace(),
        profile_namespaces=values[PROFILE_NAMESPACES],
        provider_file=values[PROVIDER_FILE],
        plugin_environment=values[PLUGIN_ENVIRONMENT],
        argocd_namespace=values[ARGOCD_NAMESPACE],
        argocd_secrets=values[ARGOCD_SECRETS],
        argocd_servers=values[ARGOCD_SERVERS],
        argocd_insecure=values[ARGOCD_INSECURE],
        argocd_own_tokens=reads_metrics and values[ARGOCD_OWN_TOKENS],
        accepts_changed_servers=values[ACCEPT_CHANGED_SERVERS],
        reads_metrics=reads_metrics,
    )
    found.check()
    return found


def own_namespace(outside: str = rights.NAMESPACE) -> str:
    """Returns the namespace of the pod; outside a pod that of an installation, or another one."""
    mounted = SERVICE_ACCOUNT / "namespace"
    found = os.environ.get("POD_NAMESPACE", "")
    return found or (mounted.read_text().strip() if mounted.is_file() else outside)
