"""Registers a member: account, rights and token in the member first, then Secret and Cluster on the hub.

Every step can be repeated. The hub is written only after the new token was accepted by the member.
"""

from __future__ import annotations

import asyncio
import dataclasses
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from fedhpa.api import membership, tokens
from fedhpa.api.errors import ApiError, ConfigError, InvalidObject
from fedhpa.api.identity import IDENTITY_PATH
from fedhpa.api.known_cluster import API_VERSION
from fedhpa.api.membership import CLUSTER_LABEL, SECRET_ANNOTATION, Address
from fedhpa.api.rights import MEMBER as MEMBER_ACCOUNT
from fedhpa.api.rights import Manifest, Subject, Switches
from fedhpa.api.texts import one_line
from fedhpa.cli.hub_client import (
    DEADLINE_SECONDS,
    FORBIDDEN,
    HUB,
    MEMBER,
    OPTIONS,
    UNAUTHORIZED,
    asking,
    clusters_of,
    find,
)
from fedhpa.cli.options import Hub, read_certificates
from fedhpa.kube import (
    SYSTEM,
    ApiClient,
    ApiConfig,
    Clock,
    StaticCredentials,
    delete_if_there,
    load_config,
    resource_path,
)

# An API server learns of new accounts and roles by a watch.
SETTLE_SECONDS: Final = 15.0
RETRY_SECONDS: Final = 0.2
MAX_ANSWER: Final = 256 * 1024
MANAGER: Final = "fedhpa-join"
MEMBER_TITLE: Final = """\
# Part of the member {name}: apply it there.
# Each Secret gets a token that does not expire. Nobody renews it."""
HUB_TITLE: Final = """\
# Part of the hub: apply it there. Its Secrets still need the key token, which is not printed.
# Write it with the next commands, or seal the values and add them to these Secrets in your repository:"""
COMMAND: Final = """
#   kubectl -n {namespace} patch secret {secret} -p "{{\\"data\\":{{\\"token\\":\\"$(kubectl \
--context=MEMBER -n {namespace} get secret {token} -o jsonpath='{{.data.token}}')\\"}}}}\""""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """The arguments of `fedhpa join`. `controller` and `adapter` are their subjects on the hub."""

    name: str
    namespace: str
    member: Hub
    hub: Hub
    endpoint: str
    seconds: int
    switches: Switches
    insecure: bool = False
    controller: Subject | None = None
    adapter: Subject | None = None


class Side:
    """One of the two API servers. Its errors name the side and the options that choose it."""

    def __init__(self, side: str, api: ApiClient) -> None:
        self.side = side
        self.api = api

    async def find(self, path: str, what: str) -> dict[str, Any] | None:
        """Returns an object, or None if it does not exist. Raises ConfigError."""
        return await find(self.api, path, what, self.side)

    async def apply(self, manifest: Manifest) -> None:
        """Creates an object, or merges the manifest into the existing one. Raises ConfigError."""
        path, what = path_of(manifest), name_of(manifest)
        with self.asking(f"cannot write {what}"):
            if await self.find(path, what) is None:
                await self.api.post(path.rpartition("/")[0], manifest, deadline=DEADLINE_SECONDS)
            elif manifest["kind"] != "Namespace":
                await self.api.patch(path, manifest, manager=MANAGER, deadline=DEADLINE_SECONDS)

    async def delete(self, manifest: Manifest) -> bool:
        """Deletes an object. Returns False if it does not exist. Raises ConfigError."""
        with self.asking(f"cannot delete {name_of(manifest)}"):
            return await delete_if_there(self.api, path_of(manifest), deadline=DEADLINE_SECONDS)

    async def uid(self) -> str:
        """Returns the UID of kube-system, which identifies a cluster. Raises ConfigError."""
        found = await self.find(IDENTITY_PATH, "namespace kube-system")
        return str(((found or {}).get("metadata") or {}).get("uid") or "")

    def asking(self, action: str) -> AbstractContextManager[None]:
        """Turns an ApiError within the context into a ConfigError with the remedy."""
        return asking(action, self.side)


async def register(wanted: Wanted, say: Say, *, clock: Clock) -> None:
    """Registers a member. `say` gets notes for people. Raises ConfigError with the remedy."""
    async with opened(MEMBER, wanted.member) as (member, config), opened(HUB, wanted.hub) as (hub, _):
        address = address_of(wanted, config, say)
        address = dataclasses.replace(address, uid=await member.uid())
        if address.uid and address.uid == await hub.uid():
            raise ConfigError(
                f"the hub and the member are the same cluster ({config.server}): correct "
                "--cluster-kubeconfig or --cluster-context, or --kubeconfig or --context"
            )
        stored = await _stored_cluster(hub, wanted, address)
        if other := await other_name(hub, wanted.name, address.uid, address.endpoint):
            raise ConfigError(
                f"NAME={wanted.name}: the hub knows this cluster as {other}, and would count its replicas "
                f"twice: join it as {other}, or remove that name first with: fedhpa unjoin {other}"
            )
        for account in membership.ACCOUNTS:
            await _check_secret(hub, wanted, account)
        for manifest in membership.member_part(wanted.namespace, wanted.switches):
            await member.apply(manifest)
        secrets = []
        for account in membership.ACCOUNTS:
            issued = await _token(member, wanted, account, say, clock.wall())
            await _token_works(wanted, config, account, issued, clock.monotonic)
            owner = f"{wanted.namespace}/{account}"
            notes = tokens.annotations_of(issued, owner, wanted.seconds, clock.wall())
            secrets.append(
                membership.credentials(wanted.name, wanted.namespace, address, issued.token, notes, account)
            )
        await hub.apply(membership.namespace_of(wanted.namespace))
        for manifest in (
            *secrets,
            *membership.secret_rights(wanted.name, wanted.namespace, wanted.controller, wanted.adapter),
            _cluster(wanted, address, stored, say),
        ):
            await hub.apply(manifest)


async def parts(wanted: Wanted) -> list[tuple[str, list[Manifest]]]:
    """Returns title and manifests of both parts of `fedhpa join --print`, without a token.

    Reads the member's kubeconfig only. Raises ConfigError.
    """
    config = await config_of(MEMBER, wanted.member)
    notes: list[str] = []
    address = address_of(wanted, config, notes.append)
    name, namespace = wanted.name, wanted.namespace
    commands = [
        COMMAND.format(
            namespace=namespace,
            secret=membership.secret_name(name, account),
            token=membership.token_secret(account),
        )
        for account in membership.ACCOUNTS
    ]
    hub = [
        membership.namespace_of(namespace),
        *(membership.credentials(name, namespace, address, account=one) for one in membership.ACCOUNTS),
        *membership.secret_rights(name, namespace, wanted.controller, wanted.adapter),
        membership.cluster(name, namespace, address),
    ]
    member = membership.member_part(namespace, wanted.switches)
    remarks = "".join(f"\n# {note}" for note in notes)
    return [
        (MEMBER_TITLE.format(name=name), [*member, *membership.lasting_tokens(namespace)]),
        (HUB_TITLE + "".join(commands) + remarks, hub),
    ]


@asynccontextmanager
async def opened(side: str, source: Hub) -> AsyncIterator[tuple[Side, ApiConfig]]:
    """Yields one side. Raises ConfigError that names its options."""
    config = await config_of(side, source)
    async with ApiClient(config, deadline=DEADLINE_SECONDS) as api:
        yield Side(side, api), config


async def config_of(side: str, source: Hub) -> ApiConfig:
    """Returns the configuration of a kubeconfig. Raises ConfigError that names its options."""
    try:
        return await load_config(source.kubeconfig or None, source.context or None, clock=SYSTEM)
    except ConfigError as error:
        kubeconfig, context = OPTIONS[side]
        text = str(error).replace("--kubeconfig", kubeconfig)
        given = "" if kubeconfig in text else f" (by {kubeconfig} and {context})"
        raise ConfigError(f"{side}{given}: {text}") from error


def address_of(wanted: Wanted, config: ApiConfig, say: Say) -> Address:
    """Returns how the processes reach the member. Raises ConfigError if they could not."""
    endpoint = (wanted.endpoint or config.server).rstrip("/")
    option = "--api-endpoint" if wanted.endpoint else "--cluster-kubeconfig"
    if not endpoint.startswith("https://"):
        raise ConfigError(
            f"{option}: {endpoint[:300]}: expected https://HOST[:PORT], because the token would be readable "
            "on the way"
        )
    if config.server_hostname:
        raise ConfigError(
            "--cluster-kubeconfig: its tls-server-name cannot be registered: name a server that its "
            "certificate names, with --api-endpoint or in the kubeconfig"
        )
    if config.proxy:
        say("the proxy-url of --cluster-kubeconfig is registered: the hub's processes use this proxy too")
    if _unverified(config):
        if not wanted.insecure:
            raise ConfigError(
                "--cluster-kubeconfig: insecure-skip-tls-verify is set, so anybody on the way could steal "
                "the token: write the member's certificate-authority into it, or add "
                "--insecure-skip-tls-verify"
            )
        say("warning: nobody verifies the member's certificate, so its token can be stolen on the way")
        return Address(endpoint, proxy=config.proxy or "")
    if config.ca_file is None:
        raise ConfigError(
            "--cluster-kubeconfig: it names no certificate-authority: write the CA of the member's API "
            "server into it"
        )
    bundle = read_certificates("--cluster-kubeconfig: certificate-authority", Path(config.ca_file))
    return Address(endpoint, bundle, config.proxy or "")


def _unverified(config: ApiConfig) -> bool:
    return config.ssl is not None and config.ssl.verify_mode == ssl.CERT_NONE


async def _stored_cluster(hub: Side, wanted: Wanted, address: Address) -> dict[str, Any] | None:
    """Returns the Cluster of that name. Raises ConfigError if it is of another member."""
    path = resource_path(API_VERSION, "clusters", name=wanted.name)
    found = await hub.find(path, f"Cluster {wanted.name}")
    if found is None:
        return None
    spec = found.get("spec") or {}
    same = spec.get("id") == address.uid if spec.get("id") and address.uid else False
    if not same and str(spec.get("apiEndpoint") or "").rstrip("/") != address.endpoint:
        raise ConfigError(
            f"NAME={wanted.name}: the hub has a Cluster of that name with another endpoint "
            f"({one_line(str(spec.get('apiEndpoint')), 300)}): choose another name, or remove it first with: "
            f"fedhpa unjoin {wanted.name}"
        )
    return found


async def other_name(hub: Side, name: str, uid: str, endpoint: str) -> str:
    """Returns another name under which the hub knows a cluster; "" without one. Raises ConfigError.

    A Cluster without spec.id is compared by its endpoint.
    """
    for each in await clusters_of(hub.api, hub.side):
        spec, metadata = each.spec, each.metadata
        same = spec.id == uid if spec.id and uid else spec.apiEndpoint.rstrip("/") == endpoint
        if same and metadata.name != name and not metadata.deletionTimestamp:
            return one_line(metadata.name, 300)
    return ""


async def _check_secret(hub: Side, wanted: Wanted, account: str) -> None:
    """Raises ConfigError if the name of the account's Secret is taken by a Secret of another owner."""
    name = membership.secret_name(wanted.name, account)
    found = await hub.find(resource_path("v1", "secrets", wanted.namespace, name), f"Secret {name}")
    if found is not None and not is_of(found, wanted.name):
        raise ConfigError(
            f"the hub: Secret {wanted.namespace}/{name} exists without the label {CLUSTER_LABEL}="
            f"{wanted.name}, so it is left alone: delete it, or choose another --namespace"
        )


async def _token(member: Side, wanted: Wanted, account: str, say: Say, now: float) -> tokens.IssuedToken:
    """Returns a token of the account. Raises ConfigError."""
    path = resource_path("v1", "serviceaccounts", wanted.namespace, account, "token")
    body = msgspec.json.encode(tokens.token_request(wanted.seconds))
    try:
        with member.asking("cannot request a token"):
            answer = await member.api.request(
                "POST", path, body=body, deadline=DEADLINE_SECONDS, limit=MAX_ANSWER
            )
        issued = tokens.issued_token(answer.body, f"{wanted.namespace}/{account}", now)
    except InvalidObject as error:
        raise ConfigError(f"the member: cannot use its token: {error}") from error
    if issued.expires < now + wanted.seconds * 0.9 and account == MEMBER_ACCOUNT:  # said once for both
        say(f"the member has shortened the token's lifetime to {(issued.expires - now) / 3600:.1f} hours")
    return issued


async def _token_works(
    wanted: Wanted,
    config: ApiConfig,
    account: str,
    issued: tokens.IssuedToken,
    monotonic: Callable[[], float],
) -> None:
    """Raises ConfigError unless the member is ready, and gives the token what its account may read."""
    # Without the administrator's certificate, which would be accepted instead of the token.
    with_token = dataclasses.replace(
        config,
        ssl=_without_certificate(config),
        credentials=StaticCredentials(f"Bearer {issued.token}"),
    )
    ends = monotonic() + SETTLE_SECONDS
    async with ApiClient(with_token, deadline=DEADLINE_SECONDS) as api:
        while True:
            try:
                for path in ("/readyz", "/api/v1/pods" if account == MEMBER_ACCOUNT else IDENTITY_PATH):
                    await api.request("GET", path, params={"limit": "1"}, limit=8 * 1024 * 1024)
            except ApiError as error:
                refused = error.status in (UNAUTHORIZED, FORBIDDEN)
                if not refused or monotonic() > ends:
                    raise ConfigError(
                        f"the member does not accept the new token of {wanted.namespace}/{account}: "
                        f"{one_line(str(error))}: the hub was left as it was"
                    ) from error
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return


def _without_certificate(config: ApiConfig) -> ssl.SSLContext | None:
    from fedhpa.kube import tls_context

    if config.ssl is None:
        return None
    ca_file = str(config.ca_file) if config.ca_file else None
    return tls_context(ca_file=ca_file, verify=not _unverified(config))


def _cluster(wanted: Wanted, address: Address, stored: dict[str, Any] | None, say: Say) -> Manifest:
    """Returns the Cluster. One of another owner keeps its secretRef, and an annotation names our Secret."""
    ours = membership.cluster(wanted.name, wanted.namespace, address)
    if stored is None:
        return ours
    if is_of(stored, wanted.name):
        # A merge keeps what the manifest does not name.
        return ours | {"spec": {"insecureSkipTLSVerification": None, "proxyURL": None} | ours["spec"]}
    say(f"Cluster {wanted.name} belongs to another owner: only its annotation {SECRET_ANNOTATION} is set")
    secret = f"{wanted.namespace}/{membership.secret_name(wanted.name)}"
    metadata = {"name": wanted.name, "annotations": {SECRET_ANNOTATION: secret}}
    return {"apiVersion": ours["apiVersion"], "kind": ours["kind"], "metadata": metadata}


def is_of(found: dict[str, Any], cluster: str) -> bool:
    """True if an object on the hub was made by `fedhpa join` for this member."""
    labels = (found.get("metadata") or {}).get("labels") or {}
    return bool(labels.get(CLUSTER_LABEL) == cluster)


def path_of(manifest: Manifest) -> str:
    """Returns the path of an object."""
    metadata, plural = manifest["metadata"], f"{manifest['kind'].lower()}s"
    return resource_path(manifest["apiVersion"], plural, metadata.get("namespace", ""), metadata["name"])


def name_of(manifest: Manifest) -> str:
    """Returns kind and name for messages."""
    metadata = manifest["metadata"]
    return f"{manifest['kind']} {'/'.join((*filter(None, [metadata.get('namespace')]), metadata['name']))}"
