"""The cluster.karmada.io/v1alpha1 Cluster, and the access to the API server that it describes.

Clusters and their Secrets are validated before use. No message quotes a token or a key.
"""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from fedhpa.api.cluster_finalizers import own_finalizers
from fedhpa.api.errors import InvalidObject
from fedhpa.api.known_cluster import API_VERSION, KIND, RawCluster
from fedhpa.api.member_sources import ARGOCD_NAME, METRICS_ENDING
from fedhpa.api.membership import METRICS_ANNOTATION, SECRET_ANNOTATION
from fedhpa.api.wire import ObjectMeta, RawQuantity
from fedhpa.kube import (
    ApiClient,
    ApiConfig,
    Credentials,
    InvolvedObject,
    patch_finalizers,
    resource_path,
    tls_context,
)
from fedhpa.kube.config import ConnectorFactory, certificates, check_proxy, check_url

CLUSTERS_PATH = f"/apis/{API_VERSION}/clusters"
READY = "Ready"
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class ClusterMeta(ObjectMeta, frozen=True):
    """The part of metadata that is read."""

    creationTimestamp: str | None = None
    finalizers: list[str] | None = None


class SecretReference(msgspec.Struct, frozen=True):
    """The namespace and name of the Secret with the credentials."""

    namespace: str = ""
    name: str = ""


class ClusterSpec(RawCluster.Spec, frozen=True):
    """The part of ClusterSpec for reaching, selecting and telling apart the cluster."""

    id: str = ""
    apiEndpoint: str = ""
    secretRef: SecretReference | None = None
    insecureSkipTLSVerification: bool = False
    proxyURL: str = ""
    proxyHeader: dict[str, str] | None = None


class Condition(msgspec.Struct, frozen=True):
    """metav1.Condition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    lastTransitionTime: str | None = None


class ResourceSummary(msgspec.Struct, frozen=True):
    """The resources of a cluster's nodes: allocatable, being allocated, and allocated."""

    allocatable: dict[str, RawQuantity] | None = None
    allocating: dict[str, RawQuantity] | None = None
    allocated: dict[str, RawQuantity] | None = None


class ClusterStatus(msgspec.Struct, frozen=True):
    """The part of ClusterStatus that is read."""

    kubernetesVersion: str = ""
    conditions: list[Condition] | None = None
    resourceSummary: ResourceSummary | None = None


class Cluster(RawCluster, frozen=True):
    """cluster.karmada.io/v1alpha1 Cluster."""

    metadata: ClusterMeta = ClusterMeta()
    spec: ClusterSpec = ClusterSpec()
    status: ClusterStatus = ClusterStatus()

    @property
    def origin(self) -> InvolvedObject:
        """The object on the hub that registers the cluster."""
        return InvolvedObject(API_VERSION, KIND, self.metadata.name, uid=self.metadata.uid)

    def condition(self, kind: str) -> Condition | None:
        """Returns the condition of a type, if there is one."""
        return next((entry for entry in self.status.conditions or () if entry.type == kind), None)


class ForeignCluster(Cluster, frozen=True):
    """The record of a cluster that an object of another kind registers, such as a ClusterProfile.

    We read that object and never write it: it gets no condition, no finalizer and no token. `source` is the
    object, and `health` what it says about the health of the cluster, "" if it is well. `properties` are what
    it says of the cluster besides. With `namespaces`, only those may be read.
    """

    source: InvolvedObject = InvolvedObject("", "", "")
    health: str = ""
    properties: tuple[tuple[str, str], ...] = ()
    namespaces: tuple[str, ...] = ()

    @property
    def origin(self) -> InvolvedObject:
        """The object on the hub that registers the cluster."""
        return self.source


def foreign_meta(meta: ClusterMeta, name: str, argocd_name: str) -> ClusterMeta:
    """Returns the metadata of the record `name` of an object of another kind.

    Our annotations would direct credentials, so only the name in Argo CD is among them.
    """
    return ClusterMeta(
        name=name,
        uid=meta.uid,
        labels=meta.labels,
        annotations={ARGOCD_NAME: argocd_name},
        creationTimestamp=meta.creationTimestamp,
        deletionTimestamp=meta.deletionTimestamp,
    )


class Secret(msgspec.Struct, frozen=True):
    """core/v1 Secret, as read."""

    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None


@dataclass(frozen=True)
class SecretData:
    """The contents of a credentials Secret; None for a key that is absent or not base64-encoded text."""

    token: str | None = field(repr=False)
    ca_bundle: str | None = field(repr=False)


@dataclass(frozen=True)
class Access:
    """Address and credentials of a member. While all but the token stays, so do the connections.

    `token` is "" for a member that takes only the client certificate `pair`, which has its key behind it.
    Without `ca_bundle` nothing is verified, or with `system_trust` the CAs of the system are trusted.
    `server_name` is the name in the certificate of the server, if it is another one than that in the address.
    `avoids_local` refuses addresses of this machine, because somebody else than an administrator of this
    project writes the address.
    """

    endpoint: str
    token: str = field(repr=False)
    ca_bundle: str | None = field(repr=False)
    proxy: str | None = field(repr=False)
    proxy_headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    pair: str = field(default="", repr=False)
    system_trust: bool = False
    server_name: str | None = None
    avoids_local: bool = False


def without_own(finalizers: Sequence[str]) -> list[str]:
    """Returns the finalizers that are not ours."""
    own = own_finalizers(finalizers)
    return [each for each in finalizers if each not in own]


async def change_finalizers(
    hub: ApiClient,
    metadata: Mapping[str, Any],
    change: Callable[[Sequence[str]], list[str]],
    *,
    manager: str,
    deadline: float,
) -> None:
    """Changes the finalizers of the Cluster that was read with these `metadata`.

    Raises Conflict after five tries, and ApiError if the hub refuses.
    """
    path = resource_path(API_VERSION, "clusters", name=metadata["name"])
    await patch_finalizers(hub, path, {"metadata": metadata}, change, manager=manager, deadline=deadline)


def secret_key(cluster: Cluster) -> tuple[str, str] | None:
    """Returns namespace and name of a Cluster's Secret; None if it names none.

    On a Cluster of another owner, `fedhpa join` names its own Secret with an annotation, which comes before
    spec.secretRef.
    """
    annotated = (cluster.metadata.annotations or {}).get(SECRET_ANNOTATION)
    if annotated is not None:
        return _secret_key(annotated)
    reference = cluster.spec.secretRef or SecretReference()
    return _secret_key(f"{reference.namespace}/{reference.name}")


def metrics_key(cluster: Cluster) -> tuple[str, str] | None:
    """Returns namespace and name of the Secret whose token only reads metrics; None if there can be none.

    It need not exist: the Secret of `secret_key` is used then.
    """
    annotated = (cluster.metadata.annotations or {}).get(METRICS_ANNOTATION)
    if annotated is not None:
        return _secret_key(annotated)
    key = secret_key(cluster)
    return None if key is None else (key[0], key[1] + METRICS_ENDING)


def _secret_key(text: str) -> tuple[str, str] | None:
    namespace, _, name = text.partition("/")
    if {"", ".", ".."} & {namespace, name} or "/" in name:
        return None
    return namespace, name


def secret_data(secret: Secret) -> SecretData:
    """Returns the keys `token` and `caBundle` of a Secret."""
    data = secret.data or {}
    return SecretData(_text(data.get("token"), "strict"), _text(data.get("caBundle"), "replace"))


def read_access(cluster: Cluster, secret: SecretData | None, key: tuple[str, str] | None = None) -> Access:
    """Returns the access to a cluster. `secret` is None if it does not exist. Raises InvalidObject.

    `key` is the Secret's namespace and name, if it is not that of `secret_key`.

    Rules of Karmada v1.19: endpoint, secretRef and token are required, and caBundle unless verification is
    off. An endpoint without a scheme is https. Commas separate the values of a proxy header.
    """
    spec = cluster.spec
    key = key or secret_key(cluster)
    if key is None:
        if SECRET_ANNOTATION in (cluster.metadata.annotations or {}):
            raise InvalidObject(f"annotation {SECRET_ANNOTATION} is not NAMESPACE/NAME of a Secret")
        raise InvalidObject("spec.secretRef is not set: name the Secret with the token")
    where = f"secret {key[0]}/{key[1]}"
    if secret is None:
        raise InvalidObject(f"{where} does not exist")
    endpoint = spec.apiEndpoint
    endpoint = (endpoint if not endpoint or "://" in endpoint else f"https://{endpoint}").rstrip("/")
    parts_of(endpoint, "spec.apiEndpoint")
    if not secret.token:
        raise InvalidObject(f"{where} has no key token, or it is empty")
    if not secret.token.isascii() or not secret.token.isprintable():
        raise InvalidObject(f"{where}: the token has characters that no token has")
    verify = endpoint.startswith("https:") and not spec.insecureSkipTLSVerification
    if verify and not secret.ca_bundle:
        raise InvalidObject(f"{where} has no key caBundle, and insecureSkipTLSVerification is not set")
    return Access(
        endpoint=endpoint,
        token=secret.token,
        ca_bundle=secret.ca_bundle if verify else None,
        proxy=_proxy(spec.proxyURL),
        proxy_headers=_proxy_headers(spec.proxyHeader) if spec.proxyURL else (),
    )


def api_config(
    name: str,
    access: Access,
    credentials: Credentials,
    connector: ConnectorFactory | None = None,
    *,
    qps: float = 0.0,
    burst: int = 0,
) -> ApiConfig:
    """Returns the configuration of a member's client. Raises InvalidObject for an unusable caBundle, or http.

    Responses are compressed with gzip: members are far away and lists compress well. Decompression costs less
    than decrypting the bytes it saves (28 MB of pods from a nearby server: 0.22 s CPU, 0.33 s uncompressed).
    """
    context: ssl.SSLContext | None = None
    if access.endpoint.startswith("http:") and connector is None:
        # A connector of its own is no network, but the memory of this process.
        raise InvalidObject("spec.apiEndpoint is http, which would show the token to everybody: use https")
    if access.endpoint.startswith("https:"):
        try:
            authority = certificates(access.ca_bundle) if access.ca_bundle is not None else None
            verify = authority is not None or access.system_trust
            context = tls_context(ca_data=authority, pair=access.pair, verify=verify)
        except Exception as error:  # the library raises errors of several kinds for a bad certificate
            which = ", or its client certificate is unusable" if access.pair else ""
            raise InvalidObject(
                "caBundle holds no usable PEM certificate: write the CA of the member's API server into it"
                + which
            ) from error
    return ApiConfig(
        server=access.endpoint,
        ssl=context,
        credentials=credentials,
        proxy=access.proxy,
        proxy_headers=access.proxy_headers,
        server_hostname=access.server_name,
        avoids_local=access.avoids_local,
        name=name,
        compression=True,
        qps=qps,
        burst=burst,
        connector=connector,
    )


def parts_of(url: str, field: str) -> SplitResult:
    """Returns the parts of the address in a field. Raises InvalidObject unless it can be an API server's."""
    if not url:
        raise InvalidObject(f"{field} is not set")
    try:
        parts = urlsplit(check_url(url))
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("it has a user, a query or a fragment")
    except ValueError as error:
        raise InvalidObject(f"{field} is no URL of the form https://HOST[:PORT][/PATH]: {error}") from error
    return parts


def _proxy(url: str) -> str | None:
    if not url:
        return None
    try:
        return check_proxy(url)
    except ValueError as error:
        raise InvalidObject(f"spec.proxyURL cannot be used: {error}") from error


def _proxy_headers(headers: dict[str, str] | None) -> tuple[tuple[str, str], ...]:
    pairs = []
    for name, values in sorted((headers or {}).items()):
        for value in values.split(","):
            if not HEADER_NAME.fullmatch(name) or not value.isprintable():
                raise InvalidObject(
                    "spec.proxyHeader has a name or value that no HTTP header can have: correct or remove it"
                )
            pairs.append((name, value))
    return tuple(pairs)


def decoded(encoded: str, errors: str = "strict") -> str:
    """Returns a text that is encoded in base64, without spaces around it. Raises ValueError."""
    return base64.b64decode(encoded, validate=True).decode(errors=errors).strip()


def _text(encoded: str | None, errors: str) -> str | None:
    try:
        return None if encoded is None else decoded(encoded, errors)
    except ValueError:
        return None
