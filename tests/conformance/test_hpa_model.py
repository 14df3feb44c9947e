"""The benchmarks' model of the HPA controller reproduces the recorded cases of the real one."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.world.hpa.behavior import DOWN, UP, Policy, Rules, rules_of
from benchmarks.world.hpa.normalisation import (
    MESSAGES,
    Recommendation,
    ScaleEvent,
    changed,
    limit,
    limit_legacy,
    remember,
    scale_down_limit,
    scale_up_limit,
    stabilise,
    stabilise_legacy,
)
from benchmarks.world.hpa.pods import PodFacts, Readiness, group_of, group_pods
from benchmarks.world.hpa.proposals import (
    MetricError,
    Proposal,
    Tolerances,
    propose_average,
    propose_utilization,
)
from benchmarks.world.hpa.quantities import approximate, milli, text_of
from benchmarks.world.hpa.specs import read_spec
from tests.conformance.facts import NOW, at, params
from tests.conformance.tables import table

CALCULATOR = table("k8s_replica_calculator")
BEHAVIOR = table("k8s_behavior")
QUANTITIES = table("k8s_quantity")

# Cases that are left out, with the reason. All other cases of these tables are tested.
LEFT_OUT = {
    "replica_cases": (21, "metrics of type Object and External are not modelled"),
    "calculate_requests": (10, "PodFacts has the request of the whole pod"),
    "metrics_client": (13, "PodFacts has the usage that the client reads from the answer"),
}
TESTED = {
    "replica_cases": 57,
    "group_pods": 14,
    "ratio": 5,
    "convert_with_rules_legacy": 5,
    "scale_limit": 2,
    "stabilize_legacy": 5,
    "convert_with_behavior_rate": 42,
    "store_scale_events": 8,
    "stabilize_with_behaviors": 11,
    "generate_rules_defaults": 11,
    "set_behavior_defaults": 4,
}
PER_POD = ("GetResourceReplicas", "GetMetricReplicas")
# The rest of the table has no quantity of CPU: invalid texts, binary suffixes, and what overflows in Go.
CPU_QUANTITIES = 39
DECIMAL_TEXTS = 14


def replica_cases() -> list[dict[str, Any]]:
    """The cases of the calculator's functions that the model has."""
    return [case for case in CALCULATOR["replica_cases"] if case["function"] in PER_POD]


def cpu_quantities() -> list[dict[str, Any]]:
    """Quantities that are valid, have no binary suffix and fit into 64 bits of milli-units."""
    return [
        case
        for case in QUANTITIES["parse"]
        if case["error"] is None
        and not case["input"].endswith("i")
        and case["input"] != "."
        and abs(case["float"]) < 9e15
    ]


def decimal_texts() -> list[dict[str, Any]]:
    """Milli-units with their text in DecimalSI."""
    return [case for case in QUANTITIES["from_milli"] if case["format"] == "DecimalSI"]


def test_no_recorded_case_is_left_out_unnoticed() -> None:
    """Each case of the tables is tested, or counted among those that are left out."""
    recorded = {**CALCULATOR["counts"], **BEHAVIOR["counts"]}
    counted = dict(TESTED)
    for name, (count, _) in LEFT_OUT.items():
        counted[name] = counted.get(name, 0) + count

    assert counted == recorded
    assert {
        name: len(cases) for name, cases in (CALCULATOR | BEHAVIOR).items() if name in recorded
    } == recorded
    assert len(replica_cases()) == TESTED["replica_cases"]
    assert (len(cpu_quantities()), len(decimal_texts())) == (CPU_QUANTITIES, DECIMAL_TEXTS)


def cpu_of(containers: list[dict[str, Any]], name: str, *path: str) -> int | None:
    """Milli-cores of the named container, or of all; None if one of them has none."""
    total = 0
    for container in containers:
        if name in ("", container["name"]):
            found: Any = container
            for key in path:
                found = found.get(key, {})
            if "cpu" not in found:
                return None
            total += milli(found["cpu"])
    return total


def facts_of(pod: dict[str, Any], container: str = "") -> PodFacts:
    """A recorded pod without its metrics."""
    status = pod.get("status", {})
    condition = next((one for one in status.get("conditions", ()) if one["type"] == "Ready"), None)
    return PodFacts(
        pod["metadata"]["name"],
        phase=status.get("phase", ""),
        started=at(status.get("startTime")),
        ready=condition is not None and condition["status"] == "True",
        ready_changed=None if condition is None else at(condition["lastTransitionTime"]),
        deleted="deletionTimestamp" in pod["metadata"],
        request=cpu_of(pod.get("spec", {}).get("containers", []), container, "resources", "requests"),
    )


def samples_of(case: dict[str, Any]) -> dict[str, tuple[int | None, float, float]]:
    """Usage, timestamp and window by the name of the pod."""
    if "metrics" in case:
        return {
            name: (one["value_milli"], at(one["timestamp"]) or 0.0, one["window_s"])
            for name, one in case["metrics"].items()
        }
    if case["function"] == "GetMetricReplicas":
        return {
            one["pod"]: (
                one["value_milli"],
                at(one["timestamp"]) or 0.0,
                60.0 if one["window_s"] is None else one["window_s"],
            )
            for one in case["metric_values"]
        }
    return {
        item["metadata"]["name"]: (
            cpu_of(item["containers"], case["container"], "usage"),
            at(item["timestamp"]) or 0.0,
            item["window"],
        )
        for item in case["pod_metrics_items"]
    }


def measured_pods(case: dict[str, Any]) -> tuple[list[PodFacts], list[int]]:
    """The recorded pods with their metrics, and the usage of pods that are not listed."""
    samples = samples_of(case)
    pods = [facts_of(pod, case.get("container", "")) for pod in case["pods"]]
    for pod in pods:
        if pod.name in samples:
            pod.usage, pod.measured, pod.window = samples[pod.name]
    listed = {pod.name for pod in pods}
    return pods, [sample[0] or 0 for name, sample in samples.items() if name not in listed]


def readiness_of(case: dict[str, Any]) -> Readiness | None:
    """The periods of a case; None if its metric is not CPU."""
    if case.get("resource") != "cpu":
        return None
    return Readiness(NOW, case["cpu_initialization_period_s"], case["initial_readiness_delay_s"])


def propose(case: dict[str, Any]) -> Proposal:
    """The proposal of the model."""
    pods, strays = measured_pods(case)
    groups = group_pods(pods, readiness_of(case), strays)
    tolerances = Tolerances(case["tolerances"]["scale_up"], case["tolerances"]["scale_down"])
    if case["function"] == "GetResourceReplicas":
        return propose_utilization(groups, case["target_utilization"], case["current_replicas"], tolerances)
    return propose_average(groups, case["target_milli"], case["current_replicas"], tolerances)


@pytest.mark.parametrize("case", params(replica_cases()))
def test_proposes_what_the_calculator_proposes(case: dict[str, Any]) -> None:
    """Pods and metrics give the calculator's replicas and values, or its error."""
    observed = case["observed"]
    if observed["error"] is not None:
        with pytest.raises(MetricError) as refusal:
            propose(case)

        # PodFacts does not know the names of containers.
        assert str(refusal.value) == observed["error"].replace("in container container1 ", "")
        return

    proposal = propose(case)

    assert (proposal.replicas, proposal.average) == (observed["replicas"], observed["value_milli"])
    assert proposal.utilization == observed.get("utilization")


@pytest.mark.parametrize("case", params(CALCULATOR["group_pods"]))
def test_groups_pods_as_the_calculator(case: dict[str, Any]) -> None:
    """Each pod falls into the calculator's group."""
    pods, strays = measured_pods(case)
    readiness = readiness_of(case)
    groups = group_pods(pods, readiness, strays)

    expect = case["expect"]
    for group in "unready", "missing", "ignored":
        assert [pod.name for pod in pods if group_of(pod, readiness) == group] == expect[group]
        assert getattr(groups, group) == len(expect[group])
    assert groups.ready == expect["ready_count"]


@pytest.mark.parametrize("case", params(CALCULATOR["ratio"]))
def test_computes_ratios_as_the_calculator(case: dict[str, Any]) -> None:
    """Utilization is cut to whole per cent before the ratio, and averages are cut."""
    metrics = case["metrics_milli"]
    requests = case.get("requests_milli", dict.fromkeys(metrics))
    pods = [PodFacts(name, request=request, usage=metrics.get(name)) for name, request in requests.items()]
    # Without any pod the calculator would not compute a ratio.
    pods.append(PodFacts("ignored", deleted=True))
    groups = group_pods(pods, None, [usage for name, usage in metrics.items() if name not in requests])
    tolerances = Tolerances(0.1, 0.1)
    expect = case["expect"]
    if expect.get("error"):
        with pytest.raises(MetricError, match=expect["error"]):
            propose_utilization(groups, case["target_utilization"], 1, tolerances)
        return

    if "target_utilization" in case:
        proposal = propose_utilization(groups, case["target_utilization"], 1, tolerances)
    else:
        proposal = propose_average(groups, case["target_milli"], 1, tolerances)

    assert (proposal.ratio, proposal.average) == (expect["ratio"], expect["average_milli"])
    assert proposal.utilization == expect.get("utilization")


@pytest.mark.parametrize(("strays", "expected"), [([], 4), ([700], 6)])
def test_a_second_pass_counts_metrics_of_unlisted_pods(strays: list[int], expected: int) -> None:
    """2000 x 100 / 3000 is cut to 66; 66 / 50 times three pods is 4, and times four metrics 6."""
    pods = [PodFacts("a", usage=1000), PodFacts("b", usage=1000), PodFacts("c")]

    assert (
        propose_utilization(group_pods(pods, None, strays), 50, 3, Tolerances(0.1, 0.1)).replicas == expected
    )


def recorded_rules(given: dict[str, Any]) -> Rules:
    """Rules as they are, without defaults."""
    return Rules(
        tuple(Policy(one["type"], one["value"], one["periodSeconds"]) for one in given["policies"]),
        given["selectPolicy"],
        given.get("stabilizationWindowSeconds"),
        None if given.get("tolerance") is None else milli(given["tolerance"]) / 1000,
    )


def events_of(given: list[dict[str, Any]]) -> list[ScaleEvent]:
    """Recorded scale events."""
    return [ScaleEvent(at(one["time"]) or 0.0, one["replicaChange"]) for one in given]


def recommendations_of(given: list[dict[str, Any]], now: float | None = None) -> list[Recommendation]:
    """Recorded recommendations; `now` takes the place of the time of new ones."""
    return [
        Recommendation(now if now and one["time"] == 0 else at(one["time"]) or 0.0, one["recommendation"])
        for one in given
    ]


@pytest.mark.parametrize("case", params(BEHAVIOR["convert_with_rules_legacy"]))
def test_limits_without_behavior(case: dict[str, Any]) -> None:
    """Without behavior the bounds and max(factor x current, floor) limit the size."""
    replicas, reason = limit_legacy(
        case["current_replicas"],
        case["desired_replicas"],
        case["min_replicas"],
        case["max_replicas"],
        factor=case["scale_up_limit_factor"],
        floor=case["scale_up_limit_minimum"],
    )

    assert {"replicas": replicas, "reason": reason} == case["expect"]
    assert MESSAGES[reason] == case["observed_message"]


@pytest.mark.parametrize("case", params(BEHAVIOR["scale_limit"]))
def test_limit_of_one_direction(case: dict[str, Any]) -> None:
    """The policies of a direction give its limit."""
    compute = scale_up_limit if case["direction"] == "up" else scale_down_limit
    events = events_of(case["scale_up_events"]), events_of(case["scale_down_events"])

    assert {"limit": compute(case["current_replicas"], recorded_rules(case["rules"]), events, NOW)} == case[
        "expect"
    ]


@pytest.mark.parametrize("case", params(BEHAVIOR["convert_with_behavior_rate"]))
def test_limits_with_behavior(case: dict[str, Any]) -> None:
    """Policies, past scale events and bounds limit the size, with the reason and message."""
    replicas, reason = limit(
        case["current_replicas"],
        case["desired_replicas"],
        case["min_replicas"],
        case["max_replicas"],
        (recorded_rules(case["scale_up_rules"]), recorded_rules(case["scale_down_rules"])),
        (events_of(case["scale_up_events"]), events_of(case["scale_down_events"])),
        NOW,
    )

    found = {"replicas": replicas, "reason": reason, "message": MESSAGES[reason]}
    assert found == case["observed"]


@pytest.mark.parametrize("case", params(BEHAVIOR["stabilize_legacy"]))
def test_stabilises_without_behavior(case: dict[str, Any]) -> None:
    """The highest recommendation of the window wins, and the log is kept entry by entry."""
    past = recommendations_of(case["recommendations"])
    cutoff = NOW - case["downscale_stabilization_s"]
    replicas = stabilise_legacy(case["desired_replicas"], past, cutoff)
    remember(past, Recommendation(NOW, case["desired_replicas"]), cutoff)

    assert {"replicas": replicas, "log_length": len(past)} == case["expect"]
    assert past == recommendations_of(case["observed_recommendations_after"], NOW)


@pytest.mark.parametrize("case", params(BEHAVIOR["stabilize_with_behaviors"]))
def test_stabilises_with_behavior(case: dict[str, Any]) -> None:
    """Each direction's window holds back a change, and the log is kept entry by entry."""
    past = recommendations_of(case["recommendations"])
    up_cutoff, down_cutoff = NOW - case["scale_up_window_s"], NOW - case["scale_down_window_s"]
    replicas, reason = stabilise(
        case["current_replicas"], case["desired_replicas"], past, up_cutoff, down_cutoff
    )
    remember(past, Recommendation(NOW, case["desired_replicas"]), min(up_cutoff, down_cutoff))

    observed = case["observed"]
    assert (replicas, reason) == (observed["replicas"], observed["reason"])
    assert MESSAGES[reason] == observed["message"]
    assert past == recommendations_of(observed["recommendationsAfter"], NOW)


@pytest.mark.parametrize("case", params(BEHAVIOR["store_scale_events"]))
def test_stores_scale_events(case: dict[str, Any]) -> None:
    """A scale takes the place of the last outdated event, else is appended; without behavior none is kept."""
    events = events_of(case["prev_events"])
    before = changed(events, case["change_period_s"], NOW)
    if case["rules"] is not None:
        cutoff = NOW - recorded_rules(case["rules"]).longest_period()
        remember(events, ScaleEvent(NOW, case["replica_change"]), cutoff)

    assert before == case["expect"]["change_in_period_before"]
    assert [event.change for event in events] == [
        event["replicaChange"] for event in case["expect"]["events_after"]
    ]


@pytest.mark.parametrize("case", params(BEHAVIOR["generate_rules_defaults"]))
def test_fills_the_rules_of_a_direction(case: dict[str, Any]) -> None:
    """Given fields win, and a list of policies replaces the default list."""
    defaults = UP if case["direction"] == "up" else DOWN

    assert rules_of(case["given"], defaults) == recorded_rules(case["expect"])


@pytest.mark.parametrize("case", params(BEHAVIOR["set_behavior_defaults"]))
def test_fills_both_directions(case: dict[str, Any]) -> None:
    """With behavior, both directions have rules; without it, none has."""
    spec = read_spec({"maxReplicas": 1, "behavior": case["given"]})

    expect = case["expect"]
    filled = expect and (recorded_rules(expect["scaleUp"]), recorded_rules(expect["scaleDown"]))
    assert spec.rules == filled


@pytest.mark.parametrize("case", params(cpu_quantities(), "input"))
def test_reads_quantities(case: dict[str, Any]) -> None:
    """A quantity of CPU has the API machinery's milli-units and float."""
    assert milli(case["input"]) == case["milliValue"]
    assert approximate(case["input"]) == pytest.approx(case["float"], rel=1e-15)


@pytest.mark.parametrize("case", params(decimal_texts(), "string"))
def test_writes_quantities(case: dict[str, Any]) -> None:
    """Milli-units have the API machinery's text."""
    assert text_of(case["milli"]) == case["string"]
