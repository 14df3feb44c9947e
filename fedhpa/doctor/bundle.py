"""Packs what a bug report needs into a tar.gz that only its owner can read.

No Secret is read for it. Of each object only known fields are kept, and a second pass removes texts that
look like credentials, because people write them into annotations, messages and URLs.
"""

from __future__ import annotations

import asyncio
import gzip
import io
import os
import platform
import tarfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec

from fedhpa.api.errors import ConfigError
from fedhpa.api.federatedhpa import API_VERSION
from fedhpa.doctor.report import Report
from fedhpa.doctor.scrubbing import scrubbed
from fedhpa.doctor.session import Problem, Session
from fedhpa.kube import ApiClient, resource_path
from fedhpa.kube.leases import API_VERSION as LEASES
from fedhpa.members import CLUSTERS_PATH

MAX_OBJECTS: Final = 1_000
MAX_FILE_BYTES: Final = 8 * 1024 * 1024
OWNER_ONLY: Final = 0o600

_METADATA: Final = (
    "name",
    "namespace",
    "generation",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "finalizers",
    "labels",
)
_CLUSTER_SPEC: Final = ("syncMode", "apiEndpoint", "secretRef", "provider", "region", "zone", "zones")
_CLUSTER_STATUS: Final = ("conditions", "kubernetesVersion", "resourceSummary")
_EVENT: Final = ("type", "reason", "message", "count", "firstTimestamp", "lastTimestamp", "involvedObject")
_EVENT_OBJECT: Final = ("kind", "namespace", "name")
_LEASE_SPEC: Final = ("holderIdentity", "leaseDurationSeconds", "renewTime", "leaseTransitions")


def check_bundle(path: Path) -> None:
    """Raises ConfigError if the file exists, which nothing may replace."""
    if os.path.lexists(path):
        raise _taken(path)


async def write_bundle(
    path: Path, hub: ApiClient | None, report: Report, *, seconds: float, now: float
) -> None:
    """Writes the bundle to a new file. Raises ConfigError if the file exists or cannot be written.

    Without `hub`, or with one that does not answer, the bundle has the report and the versions. `now` is the
    time of its files in POSIX seconds.
    """
    versions = {"fedhpa": version("fedhpa"), "python": platform.python_version(), **report.versions}
    files: dict[str, Any] = {"report.json": report.to_json(), "versions.json": versions}
    if hub is not None and "hub" in report.versions:
        secret = await hub.config.credentials.authorization() or ""
        files |= await _objects(Session(hub, seconds, secret=secret))
    content = await asyncio.to_thread(_packed, files, now)
    await asyncio.to_thread(_write, path, content)


async def _objects(hub: Session) -> dict[str, Any]:
    federated, crons, clusters, leases, *events = await asyncio.gather(
        hub.list(resource_path(API_VERSION, "federatedhpas"), dict[str, Any]),
        hub.list(resource_path(API_VERSION, "cronfederatedhpas"), dict[str, Any]),
        hub.list(CLUSTERS_PATH, dict[str, Any]),
        hub.list(resource_path(LEASES, "leases"), dict[str, Any]),
        *(_events(hub, kind) for kind in ("FederatedHPA", "CronFederatedHPA", "Cluster")),
    )
    return {
        "federatedhpas.json": _kept(federated, lambda raw: _picked(raw, ("spec", "status"))),
        "cronfederatedhpas.json": _kept(crons, lambda raw: _picked(raw, ("spec", "status"))),
        "clusters.json": _kept(clusters, _cluster),
        "leases.json": _kept(leases, _lease),
        "events.json": [each for found in events for each in found],
    }


async def _events(hub: Session, kind: str) -> list[Any]:
    answer = await hub.request(
        "GET", "/api/v1/events", fieldSelector=f"involvedObject.kind={kind}", limit=str(MAX_OBJECTS)
    )
    if isinstance(answer, Problem):
        return [msgspec.to_builtins(answer)]
    try:
        items = answer.json().get("items") or []
        return [_event(each) for each in items[:MAX_OBJECTS] if isinstance(each, Mapping)]
    except Exception as error:
        return [msgspec.to_builtins(hub.problem(error))]


def _kept(found: Sequence[Mapping[str, Any]] | Problem, keep: Any) -> Any:
    if isinstance(found, Problem):
        return msgspec.to_builtins(found)
    return [kept for raw in found[:MAX_OBJECTS] if (kept := keep(raw)) is not None]


def _picked(raw: Mapping[str, Any], parts: Sequence[str]) -> dict[str, Any]:
    """Returns an object without annotations and managed fields: kubectl stores whole manifests there."""
    metadata = _some(raw.get("metadata"), _METADATA)
    return {"metadata": metadata, **{part: raw[part] for part in parts if part in raw}}


def _some(value: Any, names: Sequence[str]) -> dict[str, Any]:
    return {name: value[name] for name in names if name in value} if isinstance(value, Mapping) else {}


def _cluster(raw: Mapping[str, Any]) -> dict[str, Any]:
    spec = raw.get("spec")
    parts = {"spec": _some(spec, _CLUSTER_SPEC), "status": _some(raw.get("status"), _CLUSTER_STATUS)}
    if isinstance(spec, Mapping) and spec.get("proxyURL"):
        parts["spec"]["proxyURL"] = "(set)"
    return _picked(raw, ()) | parts


def _lease(raw: Mapping[str, Any]) -> dict[str, Any] | None:
    found = _picked(raw, ()) | {"spec": _some(raw.get("spec"), _LEASE_SPEC)}
    return found if str(found["metadata"].get("name", "")).startswith("fedhpa-") else None


def _event(raw: Mapping[str, Any]) -> dict[str, Any]:
    found = _some(raw, _EVENT)
    found["involvedObject"] = _some(found.get("involvedObject"), _EVENT_OBJECT)
    return found


def _packed(files: Mapping[str, Any], now: float) -> bytes:
    """Returns a tar.gz of JSON files. A file above the limit is cut, which its name then says."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for name, content in files.items():
            body = msgspec.json.format(msgspec.json.encode(scrubbed(content)), indent=2)
            entry = tarfile.TarInfo(f"fedhpa-doctor/{name}")
            if len(body) > MAX_FILE_BYTES:
                body, entry.name = body[:MAX_FILE_BYTES], f"{entry.name}.cut"
            entry.size, entry.mode, entry.mtime = len(body), OWNER_ONLY, int(now)
            archive.addfile(entry, io.BytesIO(body))
    return packed.getvalue()


def _write(path: Path, content: bytes) -> None:
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, OWNER_ONLY)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
    except FileExistsError as error:
        raise _taken(path) from error
    except OSError as error:
        raise ConfigError(f"--bundle={path}: cannot be written: {error.strerror}") from error


def _taken(path: Path) -> ConfigError:
    return ConfigError(f"--bundle={path}: exists already: name a new file")
