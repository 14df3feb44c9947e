"""Members that Argo CD registers: Secrets with the label argocd.argoproj.io/secret-type: cluster.

Their tokens are mostly those of an administrator. So the adapter, which only reads metrics, takes Secrets of
the same form under the names NAME-metrics, and reads Argo CD's own ones only with a flag.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final

import msgspec
import structlog

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import decode_json
from fedhpa.api.member_sources import ALL, ARGOCD, METRICS_ENDING, MemberSources
from fedhpa.api.membership import name_problem
from fedhpa.api.texts import one_line
from fedhpa.kube import ApiClient, Clock, InvolvedObject, Reflector, resource_path, supervise
from fedhpa.members.cluster import (
    Access,
    Cluster,
    ClusterMeta,
    ForeignCluster,
    decoded,
    foreign_meta,
)
from fedhpa.members.sources.addresses import checked_proxy, checked_server, patterns_of
from fedhpa.members.sources.notes import MemberNotes
from fedhpa.members.sources.source import REREAD_SECONDS, Changes, Found, Source, read_again

log = structlog.get_logger(__name__)

LABEL: Final = "argocd.argoproj.io/secret-type"
SELECTOR: Final = f"{LABEL}=cluster"
MAX_CONFIG: Final = 256 * 1024
MAX_NAMESPACES: Final = 256
# Fields with which Argo CD makes credentials, and the way to write the same for a ClusterProfile.
_UNSUPPORTED: Final = {
    "exec_provider_config": (
        "execProviderConfig is not supported: register the cluster by a ClusterProfile, and write command "
        "and args into execConfig of --clusterprofile-provider-file"
    ),
    "aws_auth_config": (
        "awsAuthConfig is not supported: register the cluster by a ClusterProfile, with the provider "
        "{command: aws, args: [eks, get-token, --cluster-name, NAME, --output, json]}"
    ),
    "username": "username and password are not supported: write bearerToken, or a client certificate",
}


class _Tls(msgspec.Struct, frozen=True, rename="camel"):
    insecure: bool = False
    server_name: str = ""
    ca_data: str = ""
    cert_data: str = ""
    key_data: str = ""


class _Config(msgspec.Struct, frozen=True, rename="camel"):
    bearer_token: str = ""
    username: str = ""
    tls_client_config: _Tls = _Tls()
    proxy_url: str = ""
    # Their content is not decoded.
    exec_provider_config: msgspec.Raw = msgspec.Raw(b"null")
    aws_auth_config: msgspec.Raw = msgspec.Raw(b"null")

    def refusal(self) -> str:
        """Returns why the credentials cannot be used; "" if they can."""
        for field, text in _UNSUPPORTED.items():
            value = getattr(self, field)
            if bytes(value) != b"null" if isinstance(value, msgspec.Raw) else value:
                return text
        return ""


class _Secret(msgspec.Struct, frozen=True):
    """core/v1 Secret, with the time of its creation."""

    metadata: ClusterMeta = ClusterMeta()
    data: dict[str, str] | None = None


@dataclasses.dataclass(frozen=True)
class ArgoCluster:
    """A cluster Secret. `config` has its credentials, not yet checked, or why there are none.

    `shown` is its name in Argo CD, and `name` that of the member.
    """

    name: str
    shown: str
    metadata: ClusterMeta
    namespaces: tuple[str, ...]
    config: _Config | str = dataclasses.field(repr=False)
    server: str

    def record(self) -> ForeignCluster:
        """Returns the record of the cluster, without taints."""
        meta = self.metadata
        return ForeignCluster(
            metadata=foreign_meta(meta, self.name, self.shown),
            source=InvolvedObject("v1", "Secret", meta.name, meta.namespace, meta.uid),
            namespaces=self.namespaces,
        )


def read_secret(secret: _Secret, ending: str = "") -> ArgoCluster | None:
    """Returns the cluster of a Secret; None if neither its name nor the Secret's is that of a member.

    A member has a name that Cluster objects may have, and Argo CD allows any. `ending` is that of the
    Secret's name, and no part of the member's.
    """
    own = secret.metadata.name.removesuffix(ending) if ending else secret.metadata.name
    data = secret.data or {}
    named = _text(data, "name")
    name = named if named and not name_problem(named) else own
    if problem := name_problem(name):
        log.warning("cluster secret left out", name=one_line(secret.metadata.name, 100), error=problem)
        return None
    config: _Config | str
    try:
        raw = _text(data, "config", MAX_CONFIG) or "{}"
        config = decode_json(raw, _Config)
    except InvalidObject as error:
        config = f"config of its Secret cannot be read: {error}"
    spaces = [each.strip() for each in _text(data, "namespaces").split(",")]
    namespaces = tuple(each for each in spaces if each)[:MAX_NAMESPACES]
    return ArgoCluster(name, named, secret.metadata, namespaces, config, _text(data, "server"))


class ArgoSource(Source):
    """The cluster Secrets of Argo CD that the flag names."""

    kind = ARGOCD

    def __init__(
        self,
        hub: ApiClient,
        sources: MemberSources,
        notes: MemberNotes,
        changed: Changes,
        *,
        deadline: float,
        clock: Clock,
    ) -> None:
        self._hub, self._member_notes, self._deadline = hub, notes, deadline
        self._namespace = sources.argocd_namespace
        self._insecure = sources.argocd_insecure
        self._patterns = patterns_of(list(sources.argocd_servers), "--argocd-servers")
        self._clock = clock.monotonic
        self._reread_at: dict[str, float] = {}
        # Clusters of Secrets that were read after a 401, valid until the watch delivers a change.
        self._reread: dict[str, ArgoCluster] = {}
        metrics, own = sources.reads_metrics, not sources.reads_metrics or sources.argocd_own_tokens
        endings = ([METRICS_ENDING] if metrics else []) + ([""] if own else [])
        self._secrets = [
            self._watch(name, ending, changed, clock)
            for ending in endings
            for name in sources.argocd_secrets
            if name != ALL or not ending
        ]
        where = f"cluster secrets in {self._namespace}"
        super().__init__([(where, one) for one in self._secrets], notes, any_list=True)

    def _watch(self, name: str, ending: str, changed: Changes, clock: Clock) -> Reflector[ArgoCluster]:
        reflector: Reflector[ArgoCluster] = Reflector(
            self._hub,
            resource_path("v1", "secrets", self._namespace),
            _Secret,
            lambda secret: read_secret(secret, ending),
            label_selector=SELECTOR if name == ALL else "",
            field_selector="" if name == ALL else f"metadata.name={name}{ending}",
            name=f"secret {self._namespace}/{name}{ending}",
            clock=clock.monotonic,
        )
        known: set[str] = set()

        def note(*_: object) -> None:
            # A Secret may change the name of its member.
            names = {one.name for one in reflector.store.values()}
            for each in names | known:
                self._reread.pop(each, None)
                changed(each)
            known.clear()
            known.update(names)

        reflector.subscribe(note)
        return reflector

    def _clusters(self) -> Mapping[str, ArgoCluster]:
        """Returns the clusters by name. The first Secret has a name."""
        found: dict[str, ArgoCluster] = {}
        for reflector in self._secrets:
            for one in reflector.store.values():
                found.setdefault(one.name, one)
        return found

    def names(self) -> Collection[str]:
        """Returns the names of the clusters."""
        return self._clusters().keys()

    def _record(self, name: str) -> Cluster | None:
        found = self._clusters().get(name)
        return None if found is None else found.record()

    def access(self, cluster: Cluster) -> Found:
        """Returns the access to a cluster."""
        name = cluster.metadata.name
        found = self._reread.get(name) or self._clusters().get(name)
        if found is None:
            return Found("its cluster Secret is gone")
        try:
            access = self._access_of(found)
        except InvalidObject as error:
            return Found(str(error))
        refusal, pending = self._member_notes.refusal(name, access)
        return Found(refusal, pending) if refusal else Found(access)

    def _access_of(self, found: ArgoCluster) -> Access:
        config = found.config
        if isinstance(config, str):
            raise InvalidObject(config)
        if refusal := config.refusal():
            raise InvalidObject(f"config of its Secret: {refusal}")
        server, avoids_local = checked_server(
            found.server, self._patterns, "server of its Secret", "--argocd-servers"
        )
        tls = config.tls_client_config
        if tls.insecure and not self._insecure:
            raise InvalidObject(
                "tlsClientConfig.insecure of its Secret would give the token to any server: write caData, or "
                "set --argocd-allow-insecure"
            )
        token = config.bearer_token
        if token and (not token.isascii() or not token.isprintable()):
            raise InvalidObject("bearerToken of its Secret has characters that no token has")
        authority = _decoded(tls.ca_data, "caData")
        pair = "\n".join(
            filter(None, (_decoded(tls.cert_data, "certData"), _decoded(tls.key_data, "keyData")))
        )
        if not token and not pair:
            raise InvalidObject("config of its Secret has neither bearerToken nor certData with keyData")
        return Access(
            endpoint=server,
            token=token,
            ca_bundle=None if tls.insecure else authority or None,
            proxy=checked_proxy(config.proxy_url, "proxyUrl of its Secret"),
            pair=pair,
            system_trust=not authority and not tls.insecure,
            server_name=tls.server_name or None,
            avoids_local=avoids_local,
        )

    def release(self, name: str) -> None:
        """Forget what was read of a cluster."""
        self._reread.pop(name, None)
        self._reread_at.pop(name, None)
        self._member_notes.forget(name)

    async def reread(self, cluster: Cluster, apply: Callable[[], Awaitable[None]]) -> None:
        """Read the Secret of a cluster again."""
        name, origin = cluster.metadata.name, cluster.origin
        if self._clock() - self._reread_at.get(name, float("-inf")) < REREAD_SECONDS:
            return
        self._reread_at[name] = self._clock()
        key = (origin.namespace, origin.name)
        secret = await read_again(self._hub, key, _Secret, self._deadline, cluster=name)
        ending = METRICS_ENDING if origin.name.endswith(METRICS_ENDING) else ""
        found = None if secret is None else read_secret(secret, ending)
        if found is not None and found.name == name:
            self._reread[name] = found
            await apply()

    async def run(self) -> None:
        """Follow the Secrets until cancelled."""
        async with asyncio.TaskGroup() as group:
            self._member_notes.within(group)
            for reflector in self._secrets:
                group.create_task(supervise("secret-watch", reflector.run))


def _text(data: Mapping[str, str], key: str, most: int = 4096) -> str:
    """Returns a text of a Secret; "" if it has none, or one that is too long or no text."""
    try:
        text = decoded(data.get(key, ""))
    except ValueError:
        return ""
    return text if len(text) <= most else ""


def _decoded(encoded: str, field: str) -> str:
    try:
        return decoded(encoded, "replace")
    except ValueError as error:
        raise InvalidObject(f"tlsClientConfig.{field} of its Secret is no base64") from error
