"""A fleet that other projects register: ClusterProfiles, Argo CD's Secrets, exec plugins, and a registry."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedhpa.api.member_sources import SERVERS_MAP, TAINTS_MAP, MemberSources
from fedhpa.kube import SYSTEM, ApiClient
from fedhpa.members import Member, MemberRegistry
from tests.support.fakeapi import Collection, FakeApi, Object, eventually, fake_api
from tests.support.timing import background

PROFILES: Collection = ("multicluster.x-k8s.io/v1alpha1", "clusterprofiles")
CONFIG_MAPS: Collection = ("v1", "configmaps")
NAMESPACE = "fedhpa-system"
FLEET = "fleet"
ARGOCD = "argocd"
DEADLINE = 60.0


def profile(name: str, server: str, ca: str, **more: Any) -> Object:
    """Returns a ClusterProfile with the access provider `tokens`. `more` are fields of its cluster."""
    described = {
        "server": server,
        "certificate-authority-data": base64.b64encode(ca.encode()).decode(),
        **more,
    }
    return {
        "metadata": {"name": name, "namespace": FLEET, "uid": f"uid-{name}", "labels": {"region": "eu"}},
        "spec": {"displayName": name, "clusterManager": {"name": "test"}},
        "status": {
            "version": {"kubernetes": "v1.36.3"},
            "accessProviders": [{"name": "tokens", "cluster": described}],
        },
    }


def cluster_secret(
    name: str, server: str, token: str, ca: str, *, ending: str = "", shown: str = "", **more: Any
) -> Object:
    """Returns a cluster Secret of Argo CD. `more` are further keys; `config` replaces the credentials."""
    tls = {"caData": base64.b64encode(ca.encode()).decode()}
    config = {"bearerToken": token, "tlsClientConfig": tls}
    texts = {
        "name": shown or name,
        "server": server,
        **more,
        "config": json.dumps(more.get("config", config)),
    }
    return {
        "metadata": {
            "name": f"cluster-{name}{ending}",
            "namespace": ARGOCD,
            "uid": f"uid-{name}{ending}",
            "labels": {"argocd.argoproj.io/secret-type": "cluster", "region": "eu"},
        },
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in texts.items()},
    }


def plugin(folder: Path, text: str, name: str = "plugin") -> str:
    """Writes a plugin of these shell commands, and returns its path."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def printing(token: str, **status: str) -> str:
    """Returns a shell command that prints a credential."""
    version = "client.authentication.k8s.io/v1"
    answer = {"apiVersion": version, "kind": "ExecCredential", "status": {"token": token, **status}}
    return f"echo '{json.dumps(answer)}'"


def provider_file(folder: Path, command: str, **more: Any) -> str:
    """Writes a provider file with the provider `tokens`. By default it names this machine as server."""
    version = "client.authentication.k8s.io/v1"
    entry: dict[str, Any] = {
        "name": "tokens",
        "execConfig": {"apiVersion": version, "command": command, "provideClusterInfo": True},
        "servers": ["127.0.0.1"],
        **more,
    }
    path = folder / "providers.json"
    path.write_text(json.dumps({"providers": [entry]}))
    return str(path)


@dataclass
class Fleet:
    """A hub, API servers by name, and the running registry."""

    hub: FakeApi
    registry: MemberRegistry
    servers: dict[str, FakeApi] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Member:
        return self.registry.members[name]

    async def ready(self, *names: str) -> None:
        """Waits until these members are ready."""
        members = self.registry.members
        await eventually(lambda: all(name in members and members[name].ready for name in names))

    async def away(self, name: str, words: str) -> str:
        """Waits until a member is not ready for a reason with these words; returns the reason."""
        members = self.registry.members
        await eventually(
            lambda: name in members and not members[name].ready and words in members[name].state.message
        )
        return members[name].state.message

    def note(self, config_map: str, **data: str) -> None:
        """Writes one of the ConfigMaps about members."""
        self.hub.put(CONFIG_MAPS, {"metadata": {"name": config_map, "namespace": NAMESPACE}, "data": data})


def profiles_of(file: str, **more: Any) -> MemberSources:
    """Returns the settings for members from ClusterProfiles."""
    given = {"names": ("clusterprofiles",), "profile_namespaces": (FLEET,), "provider_file": file, **more}
    return MemberSources(**{"namespace": NAMESPACE, **given})


def argocd_of(*names: str, **more: Any) -> MemberSources:
    """Returns the settings for members from Argo CD's Secrets of these clusters."""
    secrets = tuple(f"cluster-{name}" for name in names)
    given = {"names": ("argocd",), "argocd_secrets": secrets, "argocd_servers": ("127.0.0.1",), **more}
    return MemberSources(**{"namespace": NAMESPACE, **given})


@asynccontextmanager
async def fleet_of(
    sources: MemberSources, *names: str, profiles: bool = True, refused: str = ""
) -> AsyncIterator[Fleet]:
    """Starts a hub and API servers, and follows what the hub registers. Their token is NAME-token.

    The hub answers 403 to paths that begin with `refused`.
    """
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(fake_api())
        servers = {name: await stack.enter_async_context(fake_api()) for name in names}
        for name, server in servers.items():
            server.token = f"{name}-token"
            if profiles:
                hub.put(PROFILES, profile(name, server.url, server.ca_pem))
        for name in (TAINTS_MAP, SERVERS_MAP):
            hub.put(CONFIG_MAPS, {"metadata": {"name": name, "namespace": NAMESPACE}})
        if refused:
            hub.faults.status[refused] = 403
        client = await stack.enter_async_context(ApiClient(hub.config()))
        registry = MemberRegistry(client, deadline=DEADLINE, probe_period=0.3, sources=sources, clock=SYSTEM)
        await stack.enter_async_context(background(registry.run()))
        yield Fleet(hub, registry, servers)
