"""A metric type is one module and a row of one table. No other module knows it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedhpa.admission.federatedhpa import validate_federatedhpa, warn_federatedhpa
from fedhpa.api.federatedhpa import FederatedHPA
from fedhpa.metric_types import table
from fedhpa.metric_types.entries import MetricSpec, MetricStatus, scaling_metric
from fedhpa.metric_types.metric import CUSTOM_API, EXTERNAL_API, USAGE_API, MetricType, ScalingMetric
from fedhpa.metric_types.table import METRIC_TYPES, metric_type
from tests.support.sources import parsed

ROOT = Path(__file__).parent.parent.parent
# The packages that handle metric types.
PACKAGES = ("fedhpa", "controller", "webhook")
TABLE = "fedhpa/metric_types/table.py"
EACH = pytest.mark.parametrize("row", METRIC_TYPES.values(), ids=lambda row: row.name)


def type_modules() -> set[str]:
    """Returns the paths of the modules of one type, which have its name."""
    return {f"fedhpa/metric_types/{row.attribute}.py" for row in METRIC_TYPES.values()}


# -- the rows ------------------------------------------------------------------------------------------------
def test_each_type_has_a_module() -> None:
    """It has the name of the attribute."""
    assert {path for path in type_modules() if not (ROOT / path).is_file()} == set()


@EACH
def test_the_models_have_the_fields_that_the_row_promises(row: MetricType) -> None:
    """The row's properties say which fields of a source generic code may read."""
    fields = set(row.source.model_fields)

    assert ("described_object" in fields) == row.describes_object
    assert ("aggregation" in fields) == (not row.per_pod)
    assert "target" in fields


@EACH
def test_spec_status_and_decision_have_a_field_for_each_type(row: MetricType) -> None:
    """Both models get their fields from the table."""
    for model, inner in ((MetricSpec, row.source), (MetricStatus, row.status)):
        assert model.model_fields[row.attribute].alias == row.field
        assert model.model_fields[row.attribute].annotation == inner | None


@EACH
def test_the_api_of_each_type_is_read(row: MetricType) -> None:
    """Usage is read for whole namespaces; each metric of another API is a query of its own."""
    from controller.federatedhpa.metric_reader import metric_queries

    spec = ScalingMetric(row, "requests")

    assert row.api in (USAGE_API, CUSTOM_API, EXTERNAL_API)
    assert set(metric_queries([spec])) == ({spec.query_key} if row.api != USAGE_API else set())


@EACH
def test_an_empty_source_is_refused_inside_its_field(row: MetricType) -> None:
    """Each type has rules for its own source."""
    errors = validate_federatedhpa(fhpa({"type": row.name, row.field: {}}))

    assert errors
    assert all(error.path.startswith(f"spec.metrics[0].{row.field}.") for error in errors)


@EACH
def test_the_status_entry_fits_the_model(row: MetricType) -> None:
    """A decision's entry of status.currentMetrics has all fields that the CRD requires, and no others."""
    written = row.status_fields(ScalingMetric(row, "requests", container="web"))

    assert {*written, "current"} == set(row.status.required)


@EACH
def test_the_failure_reason_follows_kubernetes(row: MetricType) -> None:
    """Kubernetes' HPA builds the reason from the name of the type."""
    assert row.failure_reason == f"FailedGet{row.name}Metric"


def test_an_unknown_type_has_a_row_that_nothing_serves() -> None:
    """An object with a type of a later version is still decided on: the metric fails by itself."""
    row = metric_type("Later")
    spec = scaling_metric(MetricSpec(type="Later"))

    assert (row.field, row.api, row.per_pod, row.scales_from_zero) == ("", "", False, False)
    assert row.failure_reason == "InvalidMetricSourceType"
    assert (spec.type, spec.present) == ("Later", False)


def fhpa(*metrics: dict[str, Any]) -> FederatedHPA:
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 9, "metrics": metrics}
    return FederatedHPA.model_validate({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec})


def series(**more: Any) -> dict[str, Any]:
    target = {"type": "AverageValue", "averageValue": "1"}
    return {"metric": {"name": "requests"}, "target": target, **more}


def usage(**more: Any) -> dict[str, Any]:
    return {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}, **more}


SOURCES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "Object": (
        series(describedObject={"kind": "Service", "name": "web"}),
        series(describedObject={"kind": "Service", "name": "front"}),
    ),
    "External": (series(), series(metric={"name": "requests", "selector": {"matchLabels": {"a": "b"}}})),
    "Pods": (series(), series(metric={"name": "errors"})),
    "Resource": (usage(), usage(name="memory")),
    "ContainerResource": (usage(container="web"), usage(container="log")),
}


@EACH
def test_equal_metrics_are_told_from_different_ones(row: MetricType) -> None:
    """Admission warns about a metric that reads the same values as an earlier one, and about no other."""
    first, other = ({"type": row.name, row.field: source} for source in SOURCES[row.name])

    warnings = list(warn_federatedhpa(fhpa(first, other, first)))

    same = "spec.metrics[2]: is the same metric as spec.metrics[0]; only the lower target has an effect"
    assert [text for text in warnings if "same metric" in text] == [same]


# -- nothing else knows the types ----------------------------------------------------------------------------
def modules() -> dict[str, ast.Module]:
    """Returns the syntax trees of all modules that may not know the types, by path."""
    exempt = {TABLE} | type_modules()
    paths = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    names = {path.relative_to(ROOT).as_posix(): path for path in paths}
    return {name: parsed(path) for name, path in names.items() if name not in exempt}


def knowledge(tree: ast.Module) -> Iterator[str]:
    """Yields where a module imports a type, branches on its name, or keeps a mapping by it."""
    names = set(METRIC_TYPES)
    constants = {key for key, value in vars(table).items() if value in METRIC_TYPES.values()}
    homes = {path.removesuffix(".py").replace("/", ".") for path in type_modules()}
    for node in ast.walk(tree):
        place = f"line {getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.ImportFrom):
            imported = {alias.name for alias in node.names}
            if node.module in homes or {f"{node.module}.{name}" for name in imported} & homes:
                yield f"{place}: imports the module of a type"
            if node.module == table.__name__ and imported & constants:
                yield f"{place}: imports the name of a type"
        elif isinstance(node, ast.Import) and {alias.name for alias in node.names} & homes:
            yield f"{place}: imports the module of a type"
        elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("table."):
            if node.attr in constants:
                yield f"{place}: uses the name of a type"
        elif any(names_type(part, names) for part in branches(node)):
            yield f"{place}: branches on the name of a type"


def branches(node: ast.AST) -> list[ast.expr]:
    """Returns the expressions that a node compares with, matches, or uses as keys."""
    if isinstance(node, ast.Compare):
        return [node.left, *node.comparators]
    if isinstance(node, ast.MatchValue):
        return [node.value]
    if isinstance(node, ast.Dict):
        return [key for key in node.keys if key is not None]
    return []


def names_type(node: ast.expr, names: set[str]) -> bool:
    """True if an expression is the name of a type, or a collection with one."""
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return any(names_type(item, names) for item in node.elts)
    return isinstance(node, ast.Constant) and node.value in names


def test_no_other_module_branches_on_the_type_of_a_metric() -> None:
    """Everything but the tables and the types' own modules reads the properties of the row."""
    found = {path: list(knowledge(tree)) for path, tree in modules().items()}

    assert {path: places for path, places in found.items() if places} == {}


@pytest.mark.parametrize(
    "code",
    [
        "if metric.type == 'Pods': pass",
        "if metric.type in ('Object', 'External'): pass",
        "TABLE = {'ContainerResource': 1}",
        "match metric.type:\n    case 'Resource': pass",
        "from fedhpa.metric_types.table import PODS",
        "from fedhpa.metric_types import table\nx = metric.type == table.OBJECT",
        "from fedhpa.metric_types.object import ObjectMetricSource",
        "from fedhpa.metric_types import pods",
        "import fedhpa.metric_types.pods",
    ],
)
def test_the_check_finds_what_it_looks_for(code: str) -> None:
    """Each way to know a type is found."""
    assert list(knowledge(ast.parse(code)))


@pytest.mark.parametrize(
    "code",
    [
        "PODS: Final = 'Pods'\nif policy.type == PODS: pass",
        "if spec.metric_type.per_pod: pass",
        "DEFAULT = 'Resource'",
        "from fedhpa.metric_types.sources import MetricTarget",
    ],
)
def test_the_check_lets_pass_what_is_no_metric_type(code: str) -> None:
    """A property of the row, a default and a scaling policy are no branches on a type."""
    assert list(knowledge(ast.parse(code))) == []


# -- a sixth type --------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def sixth() -> dict[str, Any]:
    """Runs admission, queries and decisions with a type that is in the table and nowhere else."""
    command = [sys.executable, "-m", "tests.support.made_up_metric_type"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def test_a_sixth_type_is_validated(sixth: dict[str, Any]) -> None:
    """Its own rule and the general ones hold, and it may scale from zero, as its row says."""
    assert sixth["errors"] == []
    assert sixth["errors without a topic"] == [
        "spec.metrics[0].queue.topic: Required value: must name the queue"
    ]
    assert sixth["errors without a source"] == [
        "spec.metrics[0].queue: Required value: must populate information for the given metric source"
    ]
    assert sixth["warnings"] == [
        "spec.metrics[1]: is the same metric as spec.metrics[0]; only the lower target has an effect",
        (
            "spec.metrics[0].queue (and 1 more): each cluster reports the metric, and the values are "
            "added up; set aggregation: Max if they all see the same queue, or Sum if each has its own"
        ),
    ]


def test_a_sixth_type_is_in_the_crd(sixth: dict[str, Any]) -> None:
    """The schema has its field in spec and status, and its name."""
    text = " ".join(sixth["crd"].split())

    assert text.count("queue: description: ") == 2
    assert "- Queue" in text


def test_a_sixth_type_is_decided_and_shown(sixth: dict[str, Any]) -> None:
    """120 messages in two clusters, ten a pod, are 12 pods; condition and status are the type's own."""
    decision = sixth["decision"]

    assert sixth["queries"] == 1
    assert (decision["desiredReplicas"], decision["error"]) == (12, None)
    assert decision["metrics"][0]["proposal"] == 12
    assert decision["status"]["currentMetrics"] == [
        {"type": "Queue", "queue": {"topic": "orders", "current": {"averageValue": "15"}}}
    ]
    message = "the HPA was able to successfully calculate a replica count from queue orders"
    assert message in [condition["message"] for condition in decision["conditions"]]


def test_a_sixth_type_fails_with_its_reason(sixth: dict[str, Any]) -> None:
    """The reason of event and condition, and the name of the source, are those of its row."""
    failure = sixth["failure"]

    assert "FailedGetQueueMetric" in [condition["reason"] for condition in failure["conditions"]]
    assert failure["events"][0]["reason"] == "FailedGetQueueMetric"
    assert failure["metrics"][0]["error"] == (
        "failed to get orders queue metric value: no broker has the topic"
    )
