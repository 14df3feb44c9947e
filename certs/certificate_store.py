"""Reads and writes the Secrets and registrations through the API.

Each write carries the resourceVersion of the read that it is based on. A process that is no longer the
leader therefore cannot undo what the new leader has written.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from certs.stored import (
    CA_CERT,
    CA_SECRET,
    UNREADABLE,
    Object,
    Problem,
    Reading,
    Registration,
    Serving,
    Status,
    bundle_of,
    decode_ca,
    decode_pair,
    decoded,
    status_of,
    value,
)
from fedhpa.api.errors import ApiError, FedHPAError
from fedhpa.api.free_json import at, entries, text_at
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
MAX_REASON: Final = 300


class Registered(NamedTuple):
    """An object with CA bundles: its API version, plural and name, and the server that it calls."""

    api_version: str
    plural: str
    name: str
    server: str

    def __str__(self) -> str:
        return f"{self.plural}/{self.name}"


REGISTRATIONS: Final = (
    Registered(ADMISSION, "mutatingwebhookconfigurations", WEBHOOK_CONFIGURATION, WEBHOOK),
    Registered(ADMISSION, "validatingwebhookconfigurations", WEBHOOK_CONFIGURATION, WEBHOOK),
    *(Registered(REGISTRATION, "apiservices", name, ADAPTER) for name in API_SERVICES),
)


@dataclass(frozen=True)
class _Answer:
    """An object, None if it does not exist or `problem` says why it was not read, and the server's time."""

    found: Object | None = None
    problem: str = ""
    date: str = ""


class CertificateStore:
    """The Secrets of one namespace, and the registrations of one hub.

    `secrets_api` is the API server with the Secrets, which is the hub itself unless the processes run in
    another cluster. `hosts` are further names for both certificates.
    """

    def __init__(
        self, secrets_api: ApiClient, hub: ApiClient, namespace: str, hosts: Iterable[str] = ()
    ) -> None:
        self.namespace = namespace
        self._hosts = tuple(hosts)
        # The hub's time counts first, because the hub verifies the certificates.
        self._places = {
            str(each): (hub, resource_path(each.api_version, each.plural, name=each.name))
            for each in REGISTRATIONS
        } | {
            f"secrets/{name}": (secrets_api, resource_path("v1", "secrets", namespace, name))
            for name in (CA_SECRET, *SERVING_SECRETS.values())
        }

    async def read(self) -> Reading:
        """Reads all objects. Those that cannot be read are UNREAD, and `problems` says why."""
        async with asyncio.TaskGroup() as group:
            tasks = {
                name: group.create_task(_get(client, path)) for name, (client, path) in self._places.items()
            }
        answers = {name: task.result() for name, task in tasks.items()}
        problems = {
            name: Problem(UNREADABLE, answer.problem) for name, answer in answers.items() if answer.problem
        }
        serving = tuple(self._serving(server, answers, problems) for server in SERVICES)
        hosts = {each.server: each.hosts | (each.pair.hosts() if each.pair else set()) for each in serving}
        registrations = tuple(
            _registration(each, answers[str(each)], hosts[each.server], problems) for each in REGISTRATIONS
        )
        status = self._status(CA_SECRET, answers, problems)
        ca = decode_ca(status, answers[f"secrets/{CA_SECRET}"].found)
        return Reading(ca, serving, registrations, problems, _date(answers.values()))

    async def write(self, name: str, body: Object) -> None:
        """Stores an object by its name in `Reading.problems`. Raises ApiError; Conflict if it has changed."""
        client, path = self._places[name]
        if body["metadata"].get("resourceVersion"):
            await client.put(path, body, manager=MANAGER)
        else:
            await client.post(path.rpartition("/")[0], body)

    def _status(self, name: str, answers: Mapping[str, _Answer], problems: dict[str, Problem]) -> Status:
        answer = answers[f"secrets/{name}"]
        status = Status.UNREAD if answer.problem else status_of(answer.found)
        if status is Status.FOREIGN:
            problems[f"secrets/{name}"] = Problem(
                "ForeignSecret",
                f"it has no label {PART_OF}={PROJECT}, so it is left alone: delete it, or run: "
                f"kubectl -n {self.namespace} label secret {name} {PART_OF}={PROJECT}",
            )
        return status

    def _serving(self, server: str, answers: Mapping[str, _Answer], problems: dict[str, Problem]) -> Serving:
        name, service = SERVING_SECRETS[server], SERVICES[server]
        local = f"{service}.{self.namespace}.svc"
        hosts = frozenset(
            (service, local.removesuffix(".svc"), local, f"{local}.cluster.local", *self._hosts)
        )
        status, found = self._status(name, answers, problems), answers[f"secrets/{name}"].found
        if status is not Status.OURS or found is None:
            return Serving(server, service, hosts, status)
        bundle = bundle_of(value(found, CA_CERT))
        return Serving(server, service, hosts, status, decode_pair(found), bundle, found)


async def _get(client: ApiClient, path: str) -> _Answer:
    try:
        response = await client.request("GET", path)
        return _Answer(response.checked(path).json(), date=response.headers.get("Date", ""))
    except FedHPAError as error:
        if isinstance(error, ApiError) and error.status == NOT_FOUND:
            return _Answer()
        return _Answer(problem=one_line(str(error), MAX_REASON))


def _date(answers: Iterable[_Answer]) -> dt.datetime | None:
    """Returns the time of the first answer that has one."""
    for answer in answers:
        try:
            date = parsedate_to_datetime(answer.date)
        except ValueError:
            continue
        return date if date.tzinfo else date.replace(tzinfo=dt.UTC)
    return None


def _registration(
    registered: Registered, answer: _Answer, hosts: frozenset[str], problems: dict[str, Problem]
) -> Registration:
    name, server = str(registered), registered.server
    if answer.found is None:
        return Registration(name, server, Status.UNREAD if answer.problem else Status.ABSENT)
    clients = _clients(answer.found)
    if registered.plural == "apiservices" and text_at(clients, 0, "service", "name") != SERVICES[server]:
        return Registration(name, server, Status.FOREIGN)
    missing = sorted({host for client in clients if (host := _host(client)) and host not in hosts})
    if missing:
        problems[name] = Problem(
            "HostNotInCertificate",
            f"the API server calls {missing[0]!r}, which the certificate does not name: start the controller "
            f"with --certificates-hosts={','.join(missing)}",
        )
        # It may belong to another installation, which has a CA of its own.
        return Registration(name, server, Status.FOREIGN)
    bundles = tuple(bundle_of(decoded(client.get("caBundle"))) for client in clients)
    return Registration(name, server, Status.OURS, bundles, answer.found)


def _clients(found: Object) -> list[Object]:
    """Returns the parts of a registration with a caBundle. Their content may be of any form."""
    if found.get("kind") == "APIService":
        spec = found.get("spec")
        return [spec] if isinstance(spec, dict) and not spec.get("insecureSkipTLSVerify") else []
    configs = (at(entry, "clientConfig") for entry in entries(found, "webhooks"))
    return [config for config in configs if isinstance(config, dict)]


def _host(client: Object) -> str:
    """Returns the name that the API server verifies."""
    service: Any = client.get("service")
    if isinstance(service, dict):
        return f"{service.get('name')}.{service.get('namespace')}.svc"
    try:
        return urlsplit(str(client.get("url") or "")).hostname or ""
    except ValueError:
        return ""


def with_bundle(found: Object, pem: bytes) -> Object:
    """Returns a copy of a registration with this bundle in each of its parts."""
    changed: Object = copy.deepcopy(found)
    for client in _clients(changed):
        client["caBundle"] = base64.b64encode(pem).decode()
    return changed
