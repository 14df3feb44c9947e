"""All objects that the CRD judges: the cases of this folder, and the rows of the recorded tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.conformance.layers.cases import CRON, FHPA, cases, manifest
from tests.conformance.tables import table

Json = dict[str, Any]


def objects() -> Iterator[tuple[str, Json]]:
    """Returns the name and manifest of each object."""
    for case in cases():
        yield case.name, case.object()
    yield from table_objects()


def table_objects() -> Iterator[tuple[str, Json]]:
    """Returns the rows whose verdict does not depend on metadata, with valid metadata."""
    hpa = table("k8s_hpa_validation")
    for case in (*hpa["validation_cases"], *hpa["strategy_cases"]):
        if case.get("kind") in (None, "create") and case.get("api_version") in (None, "autoscaling/v2"):
            yield case["id"], manifest(FHPA, case["hpa"]["spec"])
    cron = table("karmada_webhook_cron")
    for run in cron["admissionRuns"]:
        if not run["name"].startswith("metadata"):
            yield f"karmada: {run['name']}", manifest(CRON, run["object"].get("spec", {}))
    for case in cron["upstreamUnitTests"]:
        yield f"upstream: {case['name']}", manifest(CRON, case["spec"])
    for index, row in enumerate(table("karmada_manifests")["manifests"]):
        spec = row["object"]["spec"]
        yield f"{index} {row['from']}", manifest(row["object"]["kind"], spec)
