"""Obstacles on the hub: its CRD drops fields of ours, or Karmada's controller runs the rules.

Karmada's controller manager writes the status of an object after each execution. If it wrote after the last
execution that was due, and after our last write, it runs the rules, and so nothing is written here. When it
leaves out an execution, it was switched off, and the execution is caught up.
"""

from __future__ import annotations

from typing import Final

from controller.cronfederatedhpa.objects import (
    CRON_FEDERATED_HPAS,
    FIELD_MANAGER,
    OUR_FIELDS,
    CronObject,
    Object,
)
from controller.hub_check import ANOTHER_CONTROLLER, KARMADA_MANAGER
from fedhpa.api.errors import InvalidObject
from fedhpa.api.federatedhpa import GROUP
from fedhpa.api.times import parse_time
from fedhpa.cron.execution.due import latest_time
from fedhpa.cron.execution.objects import RULE_FIELDS, executable_rules
from fedhpa.decision import Finding

CRD_PATH: Final = (
    f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRON_FEDERATED_HPAS.plural}.{GROUP}"
)
# The fields that Karmada's CRD lacks.
PATHS: Final = (
    *(f"spec.rules[].{field}" for field in RULE_FIELDS),
    *(f"status.{field}" for field in OUR_FIELDS),
)
# Karmada gets this long to write the result of an execution.
GRACE_SECONDS: Final = 60.0
MESSAGE: Final = (
    f"{KARMADA_MANAGER} writes the status of this object, so its own controller runs the rules: nothing is "
    "written here; switch it off with --controllers=*,-cronFederatedHorizontalPodAutoscaler"
)


def other_controller(owner: CronObject, now: float) -> Finding | None:
    """Returns a finding if Karmada runs the rules of an object, else None."""
    theirs = _written_by(owner, KARMADA_MANAGER)
    ours = _written_by(owner, FIELD_MANAGER)
    if theirs is None or (ours is not None and ours >= theirs):
        return None
    due = [
        time
        for rule in executable_rules(owner.cron.spec)
        if (time := latest_time(rule, now - GRACE_SECONDS)) is not None
    ]
    if due and max(due) > theirs:
        return None
    return Finding(ANOTHER_CONTROLLER, MESSAGE)


def is_run_by_karmada(raw: Object, now: float) -> bool:
    """True if Karmada's controller runs the rules of a stored object. Raises InvalidObject."""
    metadata = raw["metadata"]
    owner = CronObject.of((metadata.get("namespace", ""), metadata["name"]), raw)
    return other_controller(owner, now) is not None


def _written_by(owner: CronObject, manager: str) -> float | None:
    """Returns when a manager last wrote the status of an object; None if never."""
    times = []
    for entry in owner.cron.metadata.managed_fields:
        if entry.manager == manager and entry.subresource == "status" and entry.time is not None:
            try:
                times.append(parse_time(entry.time) or 0.0)
            except InvalidObject:
                continue
    return max(times, default=None)
