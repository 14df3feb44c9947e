"""The Leases of the controller, and the flag of its Deployment about certificates."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.rights import CONTROLLER
from fedhpa.api.times import parse_time
from fedhpa.doctor.observations import Leadership, Lease, Problem
from fedhpa.doctor.reading.session import Session
from fedhpa.kube import resource_path
from fedhpa.kube.leases import API_VERSION

# A controller outside a pod keeps its Leases here.
SYSTEM: Final = "kube-system"
MANAGES: Final = "--manage-certificates"


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class _Spec(msgspec.Struct, frozen=True):
    holderIdentity: str | None = None
    renewTime: str | None = None
    leaseDurationSeconds: int | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


class _Container(msgspec.Struct, frozen=True):
    args: list[str] | None = None


class _PodSpec(msgspec.Struct, frozen=True):
    containers: list[_Container] | None = None


class _Template(msgspec.Struct, frozen=True):
    spec: _PodSpec = _PodSpec()


class _DeploymentSpec(msgspec.Struct, frozen=True):
    template: _Template = _Template()


class _Deployment(msgspec.Struct, frozen=True):
    spec: _DeploymentSpec = _DeploymentSpec()


async def read_leadership(hub: Session, namespace: str, now: float) -> Leadership:
    """Returns the Leases of all namespaces, or of two where the caller may not list all.

    `now` is the hub's time in POSIX seconds.
    """
    listed, deployment = await asyncio.gather(
        _leases(hub, namespace),
        hub.get(resource_path("apps/v1", "deployments", namespace, CONTROLLER), _Deployment),
    )
    flags = (
        []
        if isinstance(deployment, Problem)
        else [
            argument
            for container in deployment.spec.template.spec.containers or ()
            for argument in container.args or ()
        ]
    )
    managed = any(flag == MANAGES or flag == f"{MANAGES}=true" for flag in flags)
    if isinstance(listed, Problem):
        return Leadership(listed, managed)
    found = [each for each in listed if each.metadata.name.startswith(f"{CONTROLLER}-")]
    return Leadership(tuple(_lease(hub, each, now) for each in found), managed)


async def _leases(hub: Session, namespace: str) -> tuple[_Lease, ...] | Problem:
    everywhere = await hub.list(resource_path(API_VERSION, "leases"), _Lease)
    if not isinstance(everywhere, Problem):
        return everywhere
    found = await asyncio.gather(
        *(hub.list(resource_path(API_VERSION, "leases", each), _Lease) for each in (namespace, SYSTEM))
    )
    readable = [each for each in found if not isinstance(each, Problem)]
    return tuple(lease for each in readable for lease in each) if readable else everywhere


def _lease(hub: Session, found: _Lease, now: float) -> Lease:
    spec = found.spec
    try:
        renewed = parse_time(spec.renewTime)
    except InvalidObject:
        renewed = None
    return Lease(
        hub.line(found.metadata.namespace),
        hub.line(found.metadata.name),
        hub.line(spec.holderIdentity or "", 100),
        None if renewed is None else now - renewed,
        float(spec.leaseDurationSeconds or 15),
    )
