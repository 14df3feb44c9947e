"""Alerts compare counters with what they were before, so each series exists before its first event."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from prometheus_client import CollectorRegistry

from controller.decision_series import TASKS as CONTROLLER_TASKS
from controller.decision_series import ControllerMetrics
from fedhpa.kube import KUBE_TASKS, SYSTEM
from fedhpa.members import MEMBER_TASKS
from metrics_adapter.adapter_series import TASKS as ADAPTER_TASKS
from metrics_adapter.adapter_series import Telemetry
from tests.support.sources import parsed

ROOT = Path(__file__).parents[2]
REPORTERS = {
    "supervise",
    "contain",
    "contain_each",
    "contain_unlogged",
    "reason_of",
    "report_failure",
    "Background",
}
SCALES = "fedhpa_controller_scale_write_failures_total"


def reported(room: str) -> set[str]:
    """The names of tasks in the calls of a room that count failures; names in variables are left out."""
    return {name for path in (ROOT / room).rglob("*.py") for name in _tasks(path)}


def _tasks(path: Path) -> Iterator[str]:
    tree = parsed(path)
    constants = {
        node.target.id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    for node in ast.walk(tree):
        called = node.func if isinstance(node, ast.Call) else node
        named = getattr(called, "id", "") in REPORTERS or getattr(called, "attr", "") == "_report"
        if isinstance(node, ast.Call) and named and node.args:
            first = node.args[0]
            value = constants.get(first.id, first) if isinstance(first, ast.Name) else first
            choices = (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
            yield from (str(one.value) for one in choices if isinstance(one, ast.Constant))


def samples(registry: CollectorRegistry, name: str) -> dict[str, float]:
    """The values of a series by its only label."""
    return {
        next(iter(sample.labels.values())): sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name
    }


def test_tasks_are_those_in_the_code() -> None:
    """Each process lists all tasks that its code and the shared packages may report."""
    assert set(KUBE_TASKS) == reported("fedhpa/kube")
    assert set(MEMBER_TASKS) == reported("fedhpa/members")
    assert set(CONTROLLER_TASKS) == {*KUBE_TASKS, *MEMBER_TASKS, *reported("controller")}
    assert set(ADAPTER_TASKS) == {*KUBE_TASKS, *MEMBER_TASKS, *reported("metrics_adapter")}


def test_failures_of_tasks_and_reconciles_begin_at_zero() -> None:
    """A process that just started shows them."""
    registry = CollectorRegistry()
    ControllerMetrics(registry, clock=SYSTEM.monotonic)

    controller = samples(registry, "fedhpa_task_failures_total")
    adapter = samples(Telemetry(dict).registry, "fedhpa_task_failures_total")

    assert controller == dict.fromkeys(CONTROLLER_TASKS, 0.0)
    assert adapter == dict.fromkeys(ADAPTER_TASKS, 0.0)
    assert samples(registry, "fedhpa_controller_reconcile_failures_total") == {
        "InvalidObject": 0.0,
        "ReconcileFailed": 0.0,
        "ReconcileTimedOut": 0.0,
    }


def test_failed_writes_exist_while_the_cluster_does() -> None:
    """A registered cluster begins at 0 and leaves with its registration; the hub is always there."""
    registry = CollectorRegistry()
    metrics = ControllerMetrics(registry, clock=SYSTEM.monotonic)
    members: dict[str, Any] = {}
    metrics.members.watch(lambda: cast(Any, members))

    class Probed:
        probe_seconds = 0.5

    assert samples(registry, SCALES) == {"": 0.0}
    members |= {"m1": Probed(), "m2": Probed()}
    assert samples(registry, SCALES) == {"": 0.0, "m1": 0.0, "m2": 0.0}
    metrics.members.count_scale_failure("m2")
    assert samples(registry, SCALES) == {"": 0.0, "m1": 0.0, "m2": 1.0}
    del members["m2"]
    assert samples(registry, SCALES) == {"": 0.0, "m1": 0.0}
    assert registry.get_sample_value(SCALES, {"cluster": "m1"}) == 0.0
