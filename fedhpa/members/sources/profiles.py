"""Members that ClusterProfiles register (KEP-4322), with credentials of exec plugins (KEP-5339).

The profile says where the cluster is, and which access providers it has. The first entry of our provider file
that it names makes the credentials. `command`, arguments and variables come from that file alone.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from fedhpa.api.errors import ConfigError, InvalidObject
from fedhpa.api.json import decode_json
from fedhpa.api.member_sources import (
    ARGOCD_NAME,
    CLUSTER_PROFILES,
    PROFILE_API_VERSION,
    PROFILE_KIND,
    PROFILES,
    MemberSources,
)
from fedhpa.api.membership import name_problem
from fedhpa.api.texts import one_line
from fedhpa.kube import ApiClient, Clock, InvolvedObject, Reflector, resource_path, supervise
from fedhpa.kube.config import file_fingerprint
from fedhpa.kube.exec_plugin import CLUSTER_EXTENSION, Credential
from fedhpa.members.cluster import (
    Access,
    Cluster,
    ClusterMeta,
    ClusterStatus,
    Condition,
    ForeignCluster,
    decoded,
    foreign_meta,
)
from fedhpa.members.sources.addresses import checked_proxy, checked_server
from fedhpa.members.sources.notes import MemberNotes
from fedhpa.members.sources.plugins import Plugins, usable_text
from fedhpa.members.sources.providers import Provider, read_providers
from fedhpa.members.sources.source import Changes, Found, Source

log = structlog.get_logger(__name__)

# Access providers of one profile that are looked at, and bytes of what one tells its plugin.
MAX_PROVIDERS: Final = 64
MAX_PROPERTIES: Final = 64
MAX_EXTENSION: Final = 16 * 1024
# A kubelet replaces a mounted file within about a minute.
FILE_SECONDS: Final = 30.0
HEALTHY: Final = "ControlPlaneHealthy"


class _Extension(msgspec.Struct, frozen=True):
    name: str = ""
    extension: msgspec.Raw = msgspec.Raw(b"null")


class ProviderCluster(msgspec.Struct, frozen=True, rename="kebab"):
    """The cluster of an access provider, in the spelling of a kubeconfig."""

    server: str = ""
    tls_server_name: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    proxy_url: str = ""
    extensions: list[_Extension] | None = None


class _AccessProvider(msgspec.Struct, frozen=True):
    name: str = ""
    cluster: ProviderCluster = ProviderCluster()


class Property(msgspec.Struct, frozen=True):
    """A property of the cluster (KEP-2149)."""

    name: str = ""
    value: str = ""


class _Version(msgspec.Struct, frozen=True):
    kubernetes: str = ""


class _Status(msgspec.Struct, frozen=True, rename="camel"):
    version: _Version = _Version()
    conditions: list[Condition] | None = None
    properties: list[Property] | None = None
    access_providers: list[_AccessProvider] | None = None
    # The name of accessProviders before v0.1.
    credential_providers: list[_AccessProvider] | None = None


class _Manager(msgspec.Struct, frozen=True):
    name: str = ""


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    display_name: str = ""
    cluster_manager: _Manager = _Manager()


class ClusterProfile(msgspec.Struct, frozen=True):
    """multicluster.x-k8s.io/v1alpha1 ClusterProfile: the part that is read."""

    metadata: ClusterMeta = ClusterMeta()
    spec: _Spec = _Spec()
    status: _Status = _Status()

    @property
    def providers(self) -> dict[str, ProviderCluster]:
        """The clusters of the access providers by name. The newer field wins."""
        older, newer = self.status.credential_providers or (), self.status.access_providers or ()
        return {one.name: one.cluster for one in (*older[:MAX_PROVIDERS], *newer[:MAX_PROVIDERS])}

    @property
    def health(self) -> str:
        """The bad news of the profile about its control plane; "" if it is well, or nothing is said."""
        found = next((one for one in self.status.conditions or () if one.type == HEALTHY), None)
        if found is None or found.status != "False":
            return ""
        return one_line(f"{HEALTHY} is False: {found.reason} {found.message}".strip(), 300)

    def record(self) -> ForeignCluster:
        """Returns the record of the cluster, without taints."""
        meta = self.metadata
        return ForeignCluster(
            metadata=foreign_meta(meta, meta.name, (meta.annotations or {}).get(ARGOCD_NAME, "")),
            status=ClusterStatus(kubernetesVersion=self.status.version.kubernetes[:64]),
            source=InvolvedObject(PROFILE_API_VERSION, PROFILE_KIND, meta.name, meta.namespace, meta.uid),
            health=self.health,
            properties=tuple(
                (one_line(one.name, 100), one_line(one.value, 100))
                for one in (self.status.properties or ())[:MAX_PROPERTIES]
            ),
        )


def choose(profile: ClusterProfile, providers: Collection[Provider]) -> tuple[Provider, ProviderCluster]:
    """Returns the first provider of the file that a profile names, with its cluster. Raises InvalidObject."""
    named = profile.providers
    for provider in providers:
        if provider.name in named:
            return provider, named[provider.name]
    has = one_line(", ".join(sorted(named)) or "none", 200)
    ours = one_line(", ".join(one.name for one in providers), 200)
    raise InvalidObject(f"its profile has the access providers {has}, and the provider file {ours}: add one")


class ProfileSource(Source):
    """The ClusterProfiles of the namespaces, and the credentials that plugins make for them.

    Raises ConfigError for an unusable provider file. A file that is replaced by an unusable one is kept.
    """

    kind = CLUSTER_PROFILES

    def __init__(
        self, hub: ApiClient, sources: MemberSources, notes: MemberNotes, changed: Changes, *, clock: Clock
    ) -> None:
        self._file = sources.provider_file
        self._fingerprint = file_fingerprint([Path(self._file)])
        self._providers = read_providers(self._file)
        self._member_notes = notes
        self._changed = changed
        self._plugins = Plugins(sources.plugin_environment, changed, clock=clock.monotonic, wall=clock.wall)
        self._profiles = [
            Reflector(
                hub,
                resource_path(PROFILE_API_VERSION, PROFILES, namespace),
                ClusterProfile,
                _named,
                name=f"clusterprofiles in {namespace}",
                clock=clock.monotonic,
            )
            for namespace in sources.profile_namespaces
        ]
        self._namespaces = sources.profile_namespaces
        for reflector in self._profiles:
            reflector.subscribe(lambda key, *_: changed(key[1]))
        places = (f"clusterprofiles in {namespace}" for namespace in self._namespaces)
        super().__init__(list(zip(places, self._profiles, strict=True)), notes)

    def names(self) -> Collection[str]:
        """Returns the names of the profiles."""
        return {name for reflector in self._profiles for _, name in reflector.store}

    def profile(self, name: str) -> ClusterProfile | None:
        """Returns the profile of a name, of the first namespace that has one."""
        for namespace, reflector in zip(self._namespaces, self._profiles, strict=True):
            found = reflector.store.get((namespace, name))
            if found is not None:
                return found
        return None

    def _record(self, name: str) -> Cluster | None:
        profile = self.profile(name)
        return None if profile is None else profile.record()

    def access(self, cluster: Cluster) -> Found:
        """Returns the access to a cluster, with the credentials of its plugin."""
        name = cluster.metadata.name
        profile = self.profile(name)
        if profile is None:
            return Found("its ClusterProfile is gone")
        try:
            provider, described = choose(profile, self._providers)
            access, info = access_of(provider, described), told(described)
        except InvalidObject as error:
            self._plugins.release(name)
            return Found(str(error))
        # The plugin runs only for a server that may have the credentials, because it may send them itself.
        refusal, pending = self._member_notes.refusal(name, access)
        if refusal:
            self._plugins.release(name)
            return Found(refusal, pending)
        run = self._plugins.of(name, provider, info)
        if run.credential is None:
            return Found(run.reason, run.pending)
        try:
            return Found(with_credential(access, run.credential))
        except ConfigError as error:
            return Found(str(error))

    def release(self, name: str) -> None:
        """Forget the credentials of a cluster."""
        self._plugins.release(name)
        self._member_notes.forget(name)

    async def reread(self, cluster: Cluster, apply: Callable[[], Awaitable[None]]) -> None:
        """Run the plugin again."""
        if await self._plugins.renew(cluster.metadata.name):
            await apply()

    async def run(self) -> None:
        """Follow the profiles until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._plugins.within(group)
            self._member_notes.within(group)
            for reflector in self._profiles:
                group.create_task(supervise("profiles-watch", reflector.run))
            group.create_task(supervise("provider-file", self._follow_file))

    async def _follow_file(self) -> None:
        while True:
            await asyncio.sleep(FILE_SECONDS)
            found = await asyncio.to_thread(file_fingerprint, [Path(self._file)])
            if found == self._fingerprint:
                continue
            self._fingerprint = found
            try:
                self._providers = read_providers(self._file)
            except ConfigError as error:
                log.warning("provider file not read again", error=str(error))
                continue
            for name in self.names():
                self._changed(name)


def access_of(provider: Provider, described: ProviderCluster) -> Access:
    """Returns the access to a profile's cluster, without credentials. Raises InvalidObject."""
    where = f"cluster.server of access provider {provider.name}"
    server, avoids_local = checked_server(described.server, provider.servers, where, provider.where)
    if described.insecure_skip_tls_verify:
        raise InvalidObject(
            f"access provider {provider.name} has insecure-skip-tls-verify, with which any server may take "
            "the credentials: write certificate-authority-data"
        )
    try:
        bundle = decoded(described.certificate_authority_data, "replace")
    except ValueError as error:
        raise InvalidObject(
            f"access provider {provider.name}: certificate-authority-data is no base64"
        ) from error
    return Access(
        endpoint=server,
        token="",  # a plugin makes it
        ca_bundle=bundle or None,
        proxy=checked_proxy(described.proxy_url, f"cluster.proxy-url of access provider {provider.name}"),
        system_trust=not bundle,
        server_name=described.tls_server_name or None,
        avoids_local=avoids_local,
    )


def told(described: ProviderCluster) -> dict[str, Any]:
    """Returns the cluster as a plugin is told of it. Raises InvalidObject for too large an extension."""
    given = {
        "server": described.server,
        "tls-server-name": described.tls_server_name,
        "certificate-authority-data": described.certificate_authority_data,
        "proxy-url": described.proxy_url,
    }
    found = {key: value for key, value in given.items() if value}
    own = [one.extension for one in described.extensions or () if one.name == CLUSTER_EXTENSION]
    if not own:
        return found
    if len(bytes(own[0])) > MAX_EXTENSION:
        raise InvalidObject(
            f"extension {CLUSTER_EXTENSION} of its profile has more than {MAX_EXTENSION} bytes"
        )
    return {**found, "extensions": [{"name": CLUSTER_EXTENSION, "extension": decode_json(own[0], Any)}]}


def with_credential(access: Access, credential: Credential) -> Access:
    """Returns the access with a plugin's credential. Raises ConfigError if it cannot be used."""
    pair = ""
    if credential.client_certificate_data and credential.client_key_data:
        pair = f"{credential.client_certificate_data.strip()}\n{credential.client_key_data.strip()}\n"
    return dataclasses.replace(access, token=usable_text(credential), pair=pair)


def _named(profile: ClusterProfile) -> ClusterProfile | None:
    """Returns the profile if its name can be that of a member."""
    if problem := name_problem(profile.metadata.name):
        log.warning("profile left out", name=one_line(profile.metadata.name, 100), error=problem)
        return None
    return profile
