"""The sources of members: which objects of the hub register clusters, and how their credentials are found."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from fedhpa.api.errors import ConfigError

CLUSTERS: Final = "clusters"
CLUSTER_PROFILES: Final = "clusterprofiles"
ARGOCD: Final = "argocd"
SOURCES: Final = (CLUSTERS, CLUSTER_PROFILES, ARGOCD)

# ConfigMaps in the namespace of the controller, with one key for each member that is no Cluster.
TAINTS_MAP: Final = "fedhpa-taints"
SERVERS_MAP: Final = "fedhpa-servers"

# The name of the Secret with which metrics of a member are read ends so.
METRICS_ENDING: Final = "-metrics"
# Annotation of a Cluster or a ClusterProfile: the name of the cluster in Argo CD, if that is another one.
ARGOCD_NAME: Final = "fedhpa.io/argocd-name"
# Of --argocd-secrets: all cluster Secrets of the namespace.
ALL: Final = "*"

PROFILE_API_VERSION: Final = "multicluster.x-k8s.io/v1alpha1"
PROFILE_KIND: Final = "ClusterProfile"
PROFILES: Final = "clusterprofiles"


class Server(msgspec.Struct, frozen=True):
    """The address of a member, and the SHA-256 of its CA, or a word for a CA that is not its own."""

    server: str = ""
    ca: str = ""


class AcceptedServer(msgspec.Struct, frozen=True, omit_defaults=True):
    """The accepted server of a member, and one that waits to be accepted: a value of SERVERS_MAP."""

    server: str = ""
    ca: str = ""
    changed: Server | None = None

    @property
    def current(self) -> Server:
        """The accepted server."""
        return Server(self.server, self.ca)


@dataclass(frozen=True)
class MemberSources:
    """Where members come from, as the flags say.

    Of two sources that know a cluster, the first in `names` gives it its name. `namespace` has the ConfigMaps
    about members that are no Clusters. With `reads_metrics`, a member is reached only to read metrics.
    Only rights need the Secrets that exec plugins read, those of the controller and those of the adapter.
    """

    names: tuple[str, ...] = (CLUSTERS,)
    namespace: str = ""
    profile_namespaces: tuple[str, ...] = ()
    provider_file: str = ""
    plugin_environment: tuple[str, ...] = ()
    argocd_namespace: str = ARGOCD
    argocd_secrets: tuple[str, ...] = ()
    argocd_servers: tuple[str, ...] = ()
    argocd_insecure: bool = False
    argocd_own_tokens: bool = False
    accepts_changed_servers: bool = False
    plugin_secrets: tuple[str, ...] = ()
    adapter_plugin_secrets: tuple[str, ...] = ()
    reads_metrics: bool = False

    @property
    def has_foreign(self) -> bool:
        """True if other objects than Clusters register members."""
        return self.names != (CLUSTERS,)

    def places(self, use: str, *, reads_metrics: bool) -> Mapping[str, Collection[str]] | None:
        """Returns the namespaces for a use of `namespaceOf` in the file of rights; None for another use.

        Each has the Secrets that may be read there; none mean that the rules are not narrowed.
        """
        if use == "profiles":
            return dict.fromkeys(self.profile_namespaces, ())
        if use == "plugins":
            names = self.adapter_plugin_secrets if reads_metrics else self.plugin_secrets
            return {self.namespace: names} if names else {}
        if use == "argocd":
            own = () if reads_metrics and not self.argocd_own_tokens else self.argocd_secrets
            for_metrics = [f"{name}{METRICS_ENDING}" for name in self.argocd_secrets if reads_metrics]
            return {self.argocd_namespace: () if ALL in own else (*own, *for_metrics)}
        return None

    def check(self) -> None:
        """Raises ConfigError that names a flag without which a source has no members."""
        for source, flag, value in (
            (CLUSTER_PROFILES, "clusterprofile-namespaces", self.profile_namespaces),
            (CLUSTER_PROFILES, "clusterprofile-provider-file", self.provider_file),
            (ARGOCD, "argocd-secrets", self.argocd_secrets),
        ):
            if source in self.names and not value:
                raise ConfigError(f"--members-from={','.join(self.names)}: expected --{flag} with it")
        if ALL in self.argocd_secrets and self.reads_metrics and not self.argocd_own_tokens:
            raise ConfigError(
                f"--argocd-secrets={ALL}: the adapter reads Secrets NAME-metrics, so it needs the names"
            )


ONLY_CLUSTERS: Final = MemberSources()
