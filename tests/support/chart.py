"""Renders charts/fedhpa with a real helm, without a cluster."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[2] / "charts" / "fedhpa"
NAMESPACE = "fedhpa-system"
# The chart has no default for it.
IMAGE = {"image": {"registry": "registry.example", "repository": "fedhpa"}}
SECONDS = 60

Manifest = dict[str, Any]


class Refused(Exception):
    """Helm did not render the chart; the message is its standard error."""


def render_text(helm: Path, values: dict[str, Any] | None = None, *, namespace: str = NAMESPACE) -> str:
    """Returns what `helm template` prints for these values with an image. Raises Refused."""
    return _rendered(helm, json.dumps(merged(IMAGE, values or {}), sort_keys=True), namespace)


def render(
    helm: Path, values: dict[str, Any] | None = None, *, namespace: str = NAMESPACE
) -> dict[tuple[str, str], Manifest]:
    """Returns the objects by kind and name. Raises Refused, and AssertionError if two have the same name."""
    documents = [one for one in _loaded(render_text(helm, values, namespace=namespace)) if one]
    found = {(one["kind"], _place(one)): one for one in documents}
    assert len(found) == len(documents)
    return found


def render_anew(helm: Path, values: dict[str, Any]) -> str:
    """As `render_text`, but runs helm also if the same was rendered before."""
    return _rendered.__wrapped__(helm, json.dumps(merged(IMAGE, values), sort_keys=True), NAMESPACE)


@cache
def _rendered(helm: Path, values: str, namespace: str) -> str:
    done = subprocess.run(
        [str(helm), "template", "fedhpa", str(CHART), "--namespace", namespace, "--values", "-"],
        input=values,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise Refused(done.stderr)
    return done.stdout


@cache
def _parsed(text: str) -> str:
    return json.dumps(list(yaml.load_all(text, Loader=yaml.CSafeLoader)))


def _loaded(text: str) -> list[Manifest]:
    # The CRDs take most of the time, and a test may change what it receives.
    return list(json.loads(_parsed(text)))


def _place(manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    elsewhere = metadata.get("namespace") not in (None, NAMESPACE) and manifest["kind"].startswith("Role")
    return f"{metadata['namespace']}/{metadata['name']}" if elsewhere else str(metadata["name"])


def settings(path: str, value: Any) -> dict[str, Any]:
    """Returns the values in which one path with dots is set."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return dict(value)


def merged(*parts: dict[str, Any]) -> dict[str, Any]:
    """Returns values with the settings of all parts; later ones win."""
    result: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items():
            both = isinstance(value, dict) and isinstance(result.get(name), dict)
            result[name] = merged(result[name], value) if both else value
    return result
