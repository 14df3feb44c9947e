"""Packs what a bug report needs into a tar.gz that only its owner can read.

No Secret is read for it. Of each object only known fields are kept, and a second pass removes texts that
look like credentials, because people write them into annotations, messages and URLs.
"""

from __future__ import annotations

import asyncio
import io
import os
import platform
import re
import tarfile
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec

from fedhpa.api.errors import ConfigError
from fedhpa.api.federatedhpa import API_VERSION
from fedhpa.api.free_json import Json, entries, text_at
from fedhpa.doctor.report import Report
from fedhpa.doctor.session import Items, Problem, Session
from fedhpa.kube import ApiClient, resource_path
from fedhpa.kube.leases import API_VERSION as LEASES
from fedhpa.members import CLUSTERS_PATH

MAX_OBJECTS: Final = 1_000
MAX_FILE_BYTES: Final = 8 * 1024 * 1024
OWNER_ONLY: Final = 0o600


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The fields that are kept. Annotations and managed fields are not: kubectl stores whole manifests there.
_METADATA: Final = _words(
    "name namespace generation resourceVersion creationTimestamp deletionTimestamp finalizers labels"
)
_OBJECT: Final = {"spec": None, "status": None}
_KEPT: Final[dict[str, tuple[str, Mapping[str, frozenset[str] | None]]]] = {
    "federatedhpas": (resource_path(API_VERSION, "federatedhpas"), _OBJECT),
    "cronfederatedhpas": (resource_path(API_VERSION, "cronfederatedhpas"), _OBJECT),
    "clusters": (
        CLUSTERS_PATH,
        {
            "spec": _words("syncMode apiEndpoint secretRef provider region zone zones proxyURL"),
            "status": _words("conditions kubernetesVersion resourceSummary"),
        },
    ),
    "leases": (
        resource_path(LEASES, "leases"),
        {"spec": _words("holderIdentity leaseDurationSeconds renewTime leaseTransitions")},
    ),
}
_KINDS: Final = ("FederatedHPA", "CronFederatedHPA", "Cluster")
_EVENT: Final = _words("type reason message count firstTimestamp lastTimestamp")
_EVENT_OBJECT: Final = _words("kind namespace name")
REMOVED: Final = "(removed)"
# Fields whose values are never shown, whatever they contain.
_FIELDS: Final = re.compile(
    r"token|password|passwd|secret(?!ref|s?\.|missing|_)|authorization|kubeconfig.+|private.?key|cabundle|"
    r"client.?key|certificate.?authority.?data|proxy.?header|credential|api.?key|env$",
    re.IGNORECASE,
)
_TEXTS: Final = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)",
        r"eyJ[\w-]{8,}(?:\.[\w-]*){0,2}",  # a JSON web token
        r"LS0tLS1CRUdJTi[\w+/=]*",  # PEM in base64
        r"(?i:bearer|basic) +[\w.~+/=-]+",
        r"(?<=://)[^/@\s\"']+@",  # the user and the password of a URL
        r"(?i:(?:token|password|passwd|secret|api_?key)\"?\s*[=:]\s*\"?)[^\s,;\"']+",
    )
)


def check_bundle(path: Path) -> None:
    """Raises ConfigError if the file exists, which nothing may replace."""
    if os.path.lexists(path):
        raise ConfigError(f"--bundle={path}: exists already: name a new file")


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
        session = Session(hub, seconds, secret=secret)
        lists = await asyncio.gather(*(session.list(path, Json) for path, _ in _KEPT.values()))
        files |= {f"{kind}.json": _kept(kind, found) for kind, found in zip(_KEPT, lists, strict=True)}
        events = await asyncio.gather(*(_events(session, kind) for kind in _KINDS))
        files["events.json"] = [each for found in events for each in found]
    await asyncio.to_thread(_write, path, files, now)


async def _events(hub: Session, kind: str) -> list[Any]:
    answer = await hub.get(
        "/api/v1/events", fieldSelector=f"involvedObject.kind={kind}", limit=str(MAX_OBJECTS)
    )
    if isinstance(answer, Problem):
        return [msgspec.to_builtins(answer)]
    return [
        _some(each, _EVENT) | {"involvedObject": _some(each.get("involvedObject"), _EVENT_OBJECT)}
        for each in entries(answer, "items")[:MAX_OBJECTS]
    ]


def _kept(kind: str, found: Items[Json]) -> Any:
    if found.problem:
        return msgspec.to_builtins(found.problem)
    kept = [
        {
            part: _some(raw.get(part), fields)
            for part, fields in {"metadata": _METADATA, **_KEPT[kind][1]}.items()
        }
        for raw in found
        if kind != "leases" or text_at(raw, "metadata", "name").startswith("fedhpa-")
    ]
    for each in kept:
        if each.get("spec", {}).get("proxyURL") and kind == "clusters":
            each["spec"]["proxyURL"] = "(set)"
    return kept[:MAX_OBJECTS]


def _some(value: Any, names: frozenset[str] | None) -> dict[str, Any]:
    """Returns these fields of an object, or all of them."""
    found = value if isinstance(value, Mapping) else {}
    return {name: each for name, each in found.items() if names is None or name in names}


def _write(path: Path, files: Mapping[str, Any], now: float) -> None:
    """Writes a tar.gz of JSON files. A file above the limit is cut, which its name then says."""
    check_bundle(path)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, OWNER_ONLY)
        with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            for name, content in files.items():
                body = msgspec.json.format(msgspec.json.encode(scrubbed(content)), indent=2)
                entry = tarfile.TarInfo(f"fedhpa-doctor/{name}")
                if len(body) > MAX_FILE_BYTES:
                    body, entry.name = body[:MAX_FILE_BYTES], f"{entry.name}.cut"
                entry.size, entry.mode, entry.mtime = len(body), OWNER_ONLY, int(now)
                archive.addfile(entry, io.BytesIO(body))
    except OSError as error:
        raise ConfigError(f"--bundle={path}: cannot be written: {error.strerror}") from error


def scrubbed(value: Any) -> Any:
    """Returns decoded JSON without texts that look like credentials."""
    if isinstance(value, dict):
        return {
            scrubbed(str(key)): REMOVED
            if isinstance(each, str) and _FIELDS.search(str(key))
            else scrubbed(each)
            for key, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [scrubbed(each) for each in value]
    for pattern in _TEXTS if isinstance(value, str) else ():
        value = pattern.sub(REMOVED, value)
    return value
