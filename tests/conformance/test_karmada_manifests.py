"""The manifests of Karmada's documentation: accepted unchanged, and the same after /mutate."""

from __future__ import annotations

import base64
import copy
import json
from typing import Any

import pytest

from tests.conformance.tables import table
from webhook.handlers import MUTATE_FEDERATEDHPA, VALIDATE_CRONFEDERATEDHPA, VALIDATE_FEDERATEDHPA, judge

MANIFESTS = table("karmada_manifests")["manifests"]
VALIDATE = {"FederatedHPA": VALIDATE_FEDERATEDHPA, "CronFederatedHPA": VALIDATE_CRONFEDERATEDHPA}


def stored(manifest: dict[str, Any]) -> dict[str, Any]:
    """The object as the API server hands it to admission: with a namespace."""
    result = copy.deepcopy(manifest)
    result["metadata"].setdefault("namespace", "default")
    return result


def post(path: str, manifest: dict[str, Any]) -> dict[str, Any]:
    body = {"request": {"uid": "1", "operation": "CREATE", "object": stored(manifest)}}
    response: dict[str, Any] = json.loads(
        judge(path, json.dumps(body).encode(), "application/json").encoded()
    )["response"]
    return response


def mutated(manifest: dict[str, Any]) -> dict[str, Any]:
    """The manifest after /mutate, whose operations only add."""
    result = copy.deepcopy(manifest)
    if manifest["kind"] != "FederatedHPA":
        return result
    for operation in patch_of(manifest):
        *parents, last = operation["path"].split("/")[1:]
        node = result
        for parent in parents:
            node = node[parent]
        node[last] = operation["value"]
    return result


def patch_of(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    response = post(MUTATE_FEDERATEDHPA, manifest)
    assert response["allowed"], response["status"]
    patch: list[dict[str, Any]] = json.loads(base64.b64decode(response.get("patch", "W10=")))
    return patch


@pytest.mark.parametrize("row", MANIFESTS, ids=lambda row: f"{row['from']} {row['object']['kind']}")
def test_a_documented_manifest_is_admitted(row: dict[str, Any]) -> None:
    """Tutorials and proposals alike pass /mutate, then /validate; warnings are allowed, a refusal is not."""
    response = post(VALIDATE[row["object"]["kind"]], mutated(row["object"]))

    assert response["allowed"], response["status"]


AUTOSCALERS = [row for row in MANIFESTS if row["object"]["kind"] == "FederatedHPA"]


@pytest.mark.parametrize("row", AUTOSCALERS, ids=lambda row: row["from"])
def test_mutation_only_adds_karmadas_defaults(row: dict[str, Any]) -> None:
    """Mutation keeps the manifest's fields and only fills in rules of its behavior."""
    patch = patch_of(row["object"])

    assert {operation["op"] for operation in patch} <= {"add"}
    assert all(operation["path"].startswith("/spec/behavior/scale") for operation in patch)
