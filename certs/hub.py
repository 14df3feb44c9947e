"""Reads and writes the Secrets and registrations of `certs.stages` through the API.

Each write carries the resourceVersion of the read that its plan is based on. A process that is no longer the
leader therefore cannot undo what the new leader has written.
"""

from __future__ import annotations

import asyncio
import base64
import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from certs import secrets
from certs.publish import MUTATING, VALIDATING
from certs.secrets import AUTHORITY_SECRET, Object, decoded
from certs.stages import Action, Publish, StoreAuthority
from certs.state import Serving, State, Status, Trusting, server_hosts
from fedhpa.api.errors import ApiError, FedHPAError
from fedhpa.api.rights import ADAPTER as ADAPTER_SERVICE
from fedhpa.api.rights import API_SERVICES, PART_OF, PROJECT, WEBHOOK_CONFIGURATION
from fedhpa.api.rights import WEBHOOK as WEBHOOK_SERVICE
from fedhpa.api.texts import one_line
from fedhpa.kube import NOT_FOUND, ApiClient, resource_path

WEBHOOK, ADAPTER = "webhook", "metrics-adapter"
# By server: its Service, and the Secret of its certificate.
SERVICES: Final = {WEBHOOK: WEBHOOK_SERVICE, ADAPTER: ADAPTER_SERVICE}
SERVING_SECRETS: Final = {WEBHOOK: "fedhpa-webhook-tls", ADAPTER: "fedhpa-metrics-adapter-tls"}
ADMISSION, REGISTRATION = "admissionregistration.k8s.io/v1", "apiregistration.k8s.io/v1"
MANAGER: Final = "fedhpa-controller"
OPAQUE, TLS = "Opaque", "kubernetes.io/tls"
MAX_REASON: Final = 300


class Registered(NamedTuple):
    """An object with CA bundles: its API version, plural and name, and the server that it calls."""

    api_version: str
    plural: str
    name: str
    server: str

    @property
    def path(self) -> str:
        """The path of the object."""
        return resource_path(self.api_version, self.plural, name=self.name)

    def __str__(self) -> str:
        return f"{self.plural}/{self.name}"


REGISTRATIONS: Final = (
    Registered(ADMISSION, MUTATING, WEBHOOK_CONFIGURATION, WEBHOOK),
    Registered(ADMISSION, VALIDATING, WEBHOOK_CONFIGURATION, WEBHOOK),
    *(Registered(REGISTRATION, "apiservices", name, ADAPTER) for name in API_SERVICES),
)


class Problem(NamedTuple):
    """The problem with an object: a reason for events, and a text for people."""

    reason: str
    text: str


@dataclass(frozen=True)
class Reading:
    """The objects that one look at the API servers found.

    `objects` has the objects that exist, by name as in `secrets/fedhpa-ca`. `dates` are the times of the API
    servers' answers.
    """

    state: State
    objects: Mapping[str, Object] = field(default_factory=dict)
    problems: Mapping[str, Problem] = field(default_factory=dict)
    dates: tuple[dt.datetime, ...] = ()

    @property
    def unregistered(self) -> list[str]:
        """The servers that no registration calls yet."""
        found = (Status.OURS, Status.UNREAD)
        called = {each.server for each in self.state.trusting if each.status in found}
        return [server for server in SERVICES if server not in called]


class CertificateStore:
    """The Secrets of one namespace, and the registrations of one hub.

    `secrets_api` is the API server with the Secrets, which is the hub itself unless the processes run in
    another cluster. `hosts` are further names for both certificates.
    """

    def __init__(
        self, secrets_api: ApiClient, hub: ApiClient, namespace: str, hosts: Iterable[str] = ()
    ) -> None:
        self._secrets = secrets_api
        self._hub = hub
        self.namespace = namespace
        self._hosts = tuple(hosts)

    async def read(self) -> Reading:
        """Reads all objects. Those that cannot be read are UNREAD, and `problems` says why."""
        paths = {f"secrets/{name}": self._secret_path(name) for name in _SECRETS}
        async with asyncio.TaskGroup() as group:
            tasks = {name: group.create_task(_get(self._secrets, path)) for name, path in paths.items()} | {
                str(each): group.create_task(_get(self._hub, each.path)) for each in REGISTRATIONS
            }
        found = {name: task.result() for name, task in tasks.items()}
        problems = {
            name: Problem("Unreadable", answer.problem) for name, answer in found.items() if answer.problem
        }
        serving = [self._serving(server, found, problems) for server in SERVICES]
        hosts = {each.server: each.hosts | each.served_hosts for each in serving}
        trusting = tuple(_trusting(each, found[str(each)], hosts, problems) for each in REGISTRATIONS)
        authority = found[f"secrets/{AUTHORITY_SECRET}"]
        status = _secret_status(AUTHORITY_SECRET, self.namespace, authority, problems)
        content = secrets.decode_authority(authority.object if status is Status.OURS else None)
        return Reading(
            State(content, status, tuple(serving), trusting),
            {name: answer.object for name, answer in found.items() if answer.object is not None},
            problems,
            _dates(found),
        )

    async def write(self, action: Action, reading: Reading) -> None:
        """Makes one write. Raises ApiError; Conflict if the object has changed since the reading."""
        if isinstance(action, StoreAuthority):
            data = secrets.encode_authority(action.authority)
            await self._write_secret(AUTHORITY_SECRET, OPAQUE, data, reading)
        elif isinstance(action, Publish):
            registered = next(each for each in REGISTRATIONS if str(each) == action.name)
            changed = _with_bundle(reading.objects[action.name], secrets.bundle_pem(action.roots))
            await self._hub.put(registered.path, changed, manager=MANAGER)
        else:
            data = secrets.encode_serving(action.pair, action.roots)
            await self._write_secret(SERVING_SECRETS[action.server], TLS, data, reading)

    async def request_rotation(self, reading: Reading, when: str) -> None:
        """Asks the leader for a new root, by an annotation on the CA Secret. Raises ApiError."""
        found = reading.objects[f"secrets/{AUTHORITY_SECRET}"]
        metadata = {
            "resourceVersion": found["metadata"].get("resourceVersion", ""),
            "annotations": {secrets.ROTATE: when},
        }
        await self._secrets.patch(self._secret_path(AUTHORITY_SECRET), {"metadata": metadata})

    async def _write_secret(self, name: str, kind: str, data: Mapping[str, bytes], reading: Reading) -> None:
        found = reading.objects.get(f"secrets/{name}")
        body = secrets.secret_with(found, self.namespace, name, kind, data)
        if found is None:
            await self._secrets.post(resource_path("v1", "secrets", self.namespace), body)
        else:
            await self._secrets.put(self._secret_path(name), body, manager=MANAGER)

    def _serving(self, server: str, found: Mapping[str, _Answer], problems: dict[str, Problem]) -> Serving:
        name, service = SERVING_SECRETS[server], SERVICES[server]
        answer = found[f"secrets/{name}"]
        status = _secret_status(name, self.namespace, answer, problems)
        content = answer.object if status is Status.OURS else None
        return Serving(
            server,
            service,
            server_hosts(service, self.namespace, self._hosts),
            status,
            secrets.decode_pair(content),
            secrets.decode_bundle(content),
        )

    def _secret_path(self, name: str) -> str:
        return resource_path("v1", "secrets", self.namespace, name)


_SECRETS: Final = (AUTHORITY_SECRET, *SERVING_SECRETS.values())


@dataclass(frozen=True)
class _Answer:
    """An object, None if it does not exist or `problem` says why it was not read, and the server's time."""

    object: Object | None = None
    problem: str = ""
    date: str = ""


async def _get(client: ApiClient, path: str) -> _Answer:
    try:
        response = await client.request("GET", path)
        return _Answer(response.checked(path).json(), date=response.headers.get("Date", ""))
    except ApiError as error:
        return _Answer() if error.status == NOT_FOUND else _Answer(problem=one_line(str(error), MAX_REASON))
    except FedHPAError as error:
        return _Answer(problem=one_line(str(error), MAX_REASON))


def _dates(found: Mapping[str, _Answer]) -> tuple[dt.datetime, ...]:
    """Returns the times of the answers, those of the hub first, because it verifies the certificates."""
    ordered = [answer for name, answer in found.items() if not name.startswith("secrets/")]
    ordered += [answer for name, answer in found.items() if name.startswith("secrets/")]
    dates = []
    for answer in ordered:
        try:
            date = parsedate_to_datetime(answer.date)
        except ValueError:
            continue
        dates.append(date if date.tzinfo else date.replace(tzinfo=dt.UTC))
    return tuple(dates)


def _secret_status(name: str, namespace: str, answer: _Answer, problems: dict[str, Problem]) -> Status:
    if answer.problem:
        return Status.UNREAD
    status = secrets.status_of(answer.object)
    if status is Status.FOREIGN:
        problems[f"secrets/{name}"] = Problem(
            "ForeignSecret",
            f"it has no label {PART_OF}={PROJECT}, so it is left alone: delete it, or run: "
            f"kubectl -n {namespace} label secret {name} {PART_OF}={PROJECT}",
        )
    return status


def _trusting(
    registered: Registered,
    answer: _Answer,
    hosts: Mapping[str, frozenset[str]],
    problems: dict[str, Problem],
) -> Trusting:
    name, server = str(registered), registered.server
    if answer.problem:
        return Trusting(name, server, Status.UNREAD)
    if answer.object is None:
        return Trusting(name, server, Status.ABSENT)
    uid = str((answer.object.get("metadata") or {}).get("uid") or "")
    clients = _clients(answer.object)
    if registered.plural == "apiservices" and _service(clients) != SERVICES[server]:
        return Trusting(name, server, Status.FOREIGN, uid)
    missing = sorted({host for client in clients if (host := _host(client)) and host not in hosts[server]})
    if missing:
        problems[name] = Problem(
            "HostNotInCertificate",
            f"the API server calls {missing[0]!r}, which the certificate does not name: start the controller "
            f"with --certificates-hosts={','.join(missing)}",
        )
        # It may belong to another installation, which has a CA of its own.
        return Trusting(name, server, Status.FOREIGN, uid)
    bundles = tuple(secrets.bundle_of(decoded(client.get("caBundle"))) for client in clients)
    return Trusting(name, server, Status.OURS, uid, bundles)


def _clients(found: Object) -> list[Object]:
    """Returns the parts of a registration with a caBundle. Their content may be of any form."""
    if found.get("kind") == "APIService":
        spec = found.get("spec")
        return [spec] if isinstance(spec, dict) and not spec.get("insecureSkipTLSVerify") else []
    entries = found.get("webhooks")
    return [
        entry["clientConfig"]
        for entry in (entries if isinstance(entries, list) else [])
        if isinstance(entry, dict) and isinstance(entry.get("clientConfig"), dict)
    ]


def _service(clients: Iterable[Object]) -> str:
    services = [client.get("service") for client in clients]
    return next((str(each.get("name", "")) for each in services if isinstance(each, dict)), "")


def _host(client: Object) -> str:
    """Returns the name that the API server verifies."""
    service: Any = client.get("service")
    if isinstance(service, dict):
        return f"{service.get('name')}.{service.get('namespace')}.svc"
    try:
        return urlsplit(str(client.get("url") or "")).hostname or ""
    except ValueError:
        return ""


def _with_bundle(found: Object, pem: bytes) -> Object:
    """Returns a registration with this bundle in each of its parts."""
    bundle = base64.b64encode(pem).decode()
    if found.get("kind") == "APIService":
        return {**found, "spec": {**found["spec"], "caBundle": bundle}}
    webhooks = [
        {**entry, "clientConfig": {**entry["clientConfig"], "caBundle": bundle}}
        if isinstance(entry, dict) and isinstance(entry.get("clientConfig"), dict)
        else entry
        for entry in found["webhooks"]
    ]
    return {**found, "webhooks": webhooks}
