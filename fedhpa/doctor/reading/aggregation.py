"""The APIServices of the metrics APIs, a request through each of ours, and the hub's request-header CA."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from fedhpa.api.rights import ADAPTER, ADAPTER_ROLE
from fedhpa.doctor.observations import Aggregation, Api, Cause, Certificate, Problem
from fedhpa.doctor.reading.certificates import from_bundle, from_pem, in_secret, together
from fedhpa.doctor.reading.session import Session
from fedhpa.kube import resource_path
from metrics_adapter.registration import APIS

API_SERVICES: Final = ("apiregistration.k8s.io/v1", "apiservices")
TRUST: Final = ("v1", "configmaps", "kube-system", "extension-apiserver-authentication")
CA_KEY: Final = "requestheader-client-ca-file"
MAX_MESSAGE: Final = 400


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    labels: dict[str, str] | None = None


class _Service(msgspec.Struct, frozen=True):
    namespace: str = ""
    name: str = ""


class _Spec(msgspec.Struct, frozen=True):
    group: str = ""
    version: str = ""
    service: _Service | None = None
    caBundle: str | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] | None = None


class _ApiService(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()
    status: _Status = _Status()


class _ConfigMap(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


class _Any(msgspec.Struct, frozen=True):
    kind: str = ""


async def read_aggregation(hub: Session, namespace: str) -> tuple[Aggregation, tuple[Certificate, ...]]:
    """Returns the metrics APIs, and the certificates that they depend on."""
    listed, trust, installed = await asyncio.gather(
        hub.list(resource_path(*API_SERVICES), _ApiService),
        hub.get(resource_path(*TRUST), _ConfigMap),
        _is_installed(hub, namespace),
    )
    authority = trust if isinstance(trust, Problem) else (trust.data or {}).get(CA_KEY, "").strip()
    if isinstance(listed, Problem):
        return Aggregation(listed, installed, authority), ()
    found = [each for each in listed if each.spec.group in APIS.values()]
    service = f"{namespace}/{ADAPTER}"
    apis = await asyncio.gather(*(_api(hub, each, service) for each in found))
    ours = [each.spec for each in found if _place(each.spec) == service]
    groups = [from_bundle("apiservice caBundle", spec.caBundle) for spec in ours]
    if ours:
        groups.append(await in_secret(hub, "apiservice certificate", namespace, f"{ADAPTER}-tls"))
        if isinstance(authority, str):
            groups.append(from_pem("request-header CA", authority.encode()))
    observed = Aggregation(
        tuple(apis), installed, "present" if isinstance(authority, str) and authority else authority
    )
    return observed, together(groups)


async def _is_installed(hub: Session, namespace: str) -> bool | None:
    """Returns if the hub has the adapter's Service or its binding; None if neither can be seen."""
    bindings = resource_path("rbac.authorization.k8s.io/v1", "clusterrolebindings", name=ADAPTER_ROLE)
    found = await asyncio.gather(
        hub.get(resource_path("v1", "services", namespace, ADAPTER), _Any), hub.get(bindings, _Any)
    )
    if any(not isinstance(each, Problem) for each in found):
        return True
    absent = all(isinstance(each, Problem) and each.cause is Cause.ABSENT for each in found)
    return False if absent else None


def _place(spec: _Spec) -> str:
    return "" if spec.service is None else f"{spec.service.namespace}/{spec.service.name}"


async def _api(hub: Session, found: _ApiService, service: str) -> Api:
    conditions = found.status.conditions or []
    available = next((each for each in conditions if each.type == "Available"), None)
    place, problem = _place(found.spec), None
    if place == service and available is not None and available.status == "True":
        path = f"/apis/{found.spec.group}/{found.spec.version}"
        answer = await hub.request("GET", path)
        problem = answer if isinstance(answer, Problem) else None
    return Api(
        hub.line(found.metadata.name),
        hub.line(found.spec.group),
        hub.line(place),
        is_labelled=(found.metadata.labels or {}).get("app.kubernetes.io/component") == "metrics-adapter"
        and (found.metadata.labels or {}).get("app.kubernetes.io/name") == "fedhpa",
        available=None if available is None else available.status == "True",
        reason="" if available is None else hub.line(available.reason),
        message="" if available is None else hub.line(available.message, MAX_MESSAGE),
        problem=problem,
    )
