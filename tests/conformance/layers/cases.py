"""The objects that both layers judge, grouped as in docs/contributing/admission-layers.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FHPA = "FederatedHPA"
CRON = "CronFederatedHPA"
API_VERSION = "autoscaling.karmada.io/v1alpha1"

TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
FHPA_TARGET = {"apiVersion": API_VERSION, "kind": FHPA, "name": "web"}
LONG = "x" * 600

Json = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One object. `what` describes its mistake in the words of the table."""

    group: str
    what: str
    kind: str
    spec: Json

    @property
    def name(self) -> str:
        """Unique among all cases."""
        return f"{self.group}: {self.what}"

    def object(self) -> Json:
        """The manifest."""
        return manifest(self.kind, self.spec)


def manifest(kind: str, spec: Json) -> Json:
    """Returns an object with this spec and valid metadata."""
    metadata = {"name": "case", "namespace": "default"}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def fhpa(**spec: Any) -> Json:
    """Returns a valid spec with changed fields; None removes a field."""
    whole = {"scaleTargetRef": TARGET, "minReplicas": 1, "maxReplicas": 10, **spec}
    return {name: value for name, value in whole.items() if value is not None}


def resource(name: str = "cpu", **target: Any) -> Json:
    """A Resource metric."""
    return {"type": "Resource", "resource": {"name": name, "target": target}}


def container(**more: Any) -> Json:
    """A ContainerResource metric."""
    body = {"name": "cpu", "container": "app", "target": {"type": "Utilization", "averageUtilization": 80}}
    return {"type": "ContainerResource", "containerResource": {**body, **more}}


def pods(**more: Any) -> Json:
    """A Pods metric."""
    body = {"metric": {"name": "rps"}, "target": {"type": "AverageValue", "averageValue": "10"}}
    return {"type": "Pods", "pods": {**body, **more}}


def external(**more: Any) -> Json:
    """An External metric."""
    body = {"metric": {"name": "queue"}, "target": {"type": "AverageValue", "averageValue": "30"}}
    return {"type": "External", "external": {**body, **more}}


def object_metric(**more: Any) -> Json:
    """An Object metric."""
    body = {
        "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "s"},
        "metric": {"name": "rps"},
        "target": {"type": "Value", "value": "30"},
    }
    return {"type": "Object", "object": {**body, **more}}


def up(**rules: Any) -> Json:
    """Returns a spec with these scaleUp rules."""
    return fhpa(behavior={"scaleUp": rules})


def policy(**fields: Any) -> Json:
    """A spec with one scaling policy."""
    return up(policies=[{"type": "Pods", "value": 4, "periodSeconds": 15, **fields}])


def assignment(type_: str | None = None, *preferences: Json, **more: Any) -> Json:
    """A federatedHPAAssignment."""
    found: Json = {"clusterAutoscalingPreference": list(preferences), **more}
    return found | ({"federatedHPAAssignmentType": type_} if type_ else {})


def cron(*rules: Json, target: Json | None = None) -> Json:
    """A spec of a CronFederatedHPA."""
    return {"scaleTargetRef": target or TARGET, "rules": list(rules)}


def rule(**fields: Any) -> Json:
    """Returns a valid rule for a workload with changed fields; None removes a field."""
    whole = {"name": "r", "schedule": "30 8 * * 1-5", "targetReplicas": 3, "timeZone": "UTC", **fields}
    return {name: value for name, value in whole.items() if value is not None}


def bounds(**fields: Any) -> Json:
    """A rule for a FederatedHPA."""
    return rule(targetReplicas=None, **fields)


CPU = resource(type="Utilization", averageUtilization=80)

_FHPA: Mapping[str, Mapping[str, Json]] = {
    "limits": {
        "nothing": fhpa(),
        "no maximum": fhpa(maxReplicas=None),
        "maximum 0": fhpa(minReplicas=None, maxReplicas=0),
        "maximum below minimum": fhpa(minReplicas=5, maxReplicas=3),
        "minimum -1": fhpa(minReplicas=-1),
        "minimum 0 with metrics of pods alone": fhpa(minReplicas=0, metrics=[CPU, pods()]),
        "minimum 0 without metrics": fhpa(minReplicas=0),
        "minimum 0 beside an External metric": fhpa(minReplicas=0, metrics=[CPU, external()]),
        "minimum 0 beside an Object metric": fhpa(minReplicas=0, metrics=[object_metric()]),
        "limits under their other names": fhpa(
            minReplicas=None, maxReplicas=None, federatedMinReplicas=2, federatedMaxReplicas=3
        ),
        "both names of the maximum, equal": fhpa(federatedMaxReplicas=10),
        "both names of the maximum, different": fhpa(federatedMaxReplicas=11),
        "both names of the minimum, different": fhpa(federatedMinReplicas=2),
        "federatedMaxReplicas 0": fhpa(minReplicas=None, maxReplicas=None, federatedMaxReplicas=0),
        "federatedMaxReplicas below federatedMinReplicas": fhpa(
            minReplicas=None, maxReplicas=None, federatedMinReplicas=5, federatedMaxReplicas=3
        ),
        "federatedMinReplicas 0 without metrics": fhpa(minReplicas=None, federatedMinReplicas=0),
        "maximum beyond 32 bits": fhpa(maxReplicas=3_000_000_000),
        "maximum as a text": fhpa(maxReplicas="10"),
    },
    "target": {
        "no kind": fhpa(scaleTargetRef={"apiVersion": "apps/v1", "kind": "", "name": "web"}),
        "no name": fhpa(scaleTargetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": ""}),
        "no target at all": fhpa(scaleTargetRef=None),
        "a name that is ..": fhpa(scaleTargetRef={**TARGET, "name": ".."}),
        "a name with a slash": fhpa(scaleTargetRef={**TARGET, "name": "deploy/web"}),
        "a name with a percent sign": fhpa(scaleTargetRef={**TARGET, "name": "a%b"}),
        "no apiVersion": fhpa(scaleTargetRef={"kind": "Deployment", "name": "web"}),
        "a name of 600 characters": fhpa(scaleTargetRef={**TARGET, "name": LONG}),
    },
    "metrics": {
        "each type once": fhpa(metrics=[CPU, container(), pods(), object_metric(), external()]),
        "no metrics": fhpa(metrics=[]),
        "no type": fhpa(metrics=[{"resource": CPU["resource"]}]),
        "an unknown type": fhpa(metrics=[{**CPU, "type": "Memory"}]),
        "a type without its field": fhpa(metrics=[{"type": "Pods"}]),
        "a type with another's field": fhpa(metrics=[{**CPU, "type": "Pods"}]),
        "two fields": fhpa(metrics=[{**CPU, **pods()}]),
        "65 metrics": fhpa(metrics=[CPU] * 65),
        "a Resource without a name": fhpa(metrics=[resource("", type="Utilization", averageUtilization=1)]),
        "a container that is no label": fhpa(metrics=[container(container="App")]),
        "no container": fhpa(metrics=[container(container="")]),
        "a container of 64 characters": fhpa(metrics=[container(container="a" * 64)]),
        "a container's resource that is none": fhpa(metrics=[container(name="gpu")]),
        "a container's resource with a domain": fhpa(metrics=[container(name="example.com/gpu")]),
        "a container's resource with a bad domain": fhpa(metrics=[container(name="-/gpu")]),
        "no name of the metric": fhpa(metrics=[pods(metric={"name": ""})]),
        "a metric's name with a slash": fhpa(metrics=[external(metric={"name": "a/b"})]),
        "a selector nobody can read": fhpa(
            metrics=[pods(metric={"name": "rps", "selector": {"matchLabels": {"a b": "c"}}})]
        ),
        "the same metric twice": fhpa(metrics=[CPU, CPU]),
        "a described object without a kind": fhpa(
            metrics=[object_metric(describedObject={"kind": "", "name": "s"})]
        ),
        "an unknown aggregation": fhpa(metrics=[external(aggregation="Median")]),
    },
    "targets of metrics": {
        "no type": fhpa(metrics=[resource(averageUtilization=80)]),
        "an unknown type": fhpa(metrics=[resource(type="Percent", averageUtilization=80)]),
        "a type that does not go with its field": fhpa(
            metrics=[resource(type="Value", averageUtilization=8)]
        ),
        "Resource: neither utilization nor value": fhpa(metrics=[resource(type="Utilization")]),
        "Resource: both utilization and value": fhpa(
            metrics=[resource(type="Utilization", averageUtilization=8, averageValue="1")]
        ),
        "ContainerResource: neither utilization nor value": fhpa(
            metrics=[container(target={"type": "Utilization"})]
        ),
        "ContainerResource: both utilization and value": fhpa(
            metrics=[container(target={"type": "Utilization", "averageUtilization": 8, "averageValue": 1})]
        ),
        "Pods: no averageValue": fhpa(metrics=[pods(target={"type": "AverageValue", "value": "1"})]),
        "Object: neither value": fhpa(metrics=[object_metric(target={"type": "Value"})]),
        "Object: type Value, averageValue given": fhpa(
            metrics=[object_metric(target={"type": "Value", "averageValue": "1"})]
        ),
        "Object: type AverageValue, value given": fhpa(
            metrics=[object_metric(target={"type": "AverageValue", "value": "1"})]
        ),
        "Object: both values": fhpa(
            metrics=[object_metric(target={"type": "Value", "value": 1, "averageValue": 1})]
        ),
        "External: neither value": fhpa(metrics=[external(target={"type": "Value"})]),
        "External: both values": fhpa(
            metrics=[external(target={"type": "Value", "value": "1", "averageValue": "1"})]
        ),
        "utilization 0": fhpa(metrics=[resource(type="Utilization", averageUtilization=0)]),
        "value 0": fhpa(metrics=[resource(type="AverageValue", averageValue=0)]),
        "value -1": fhpa(metrics=[resource(type="AverageValue", averageValue="-1")]),
        "value 0m": fhpa(metrics=[resource(type="AverageValue", averageValue="0m")]),
        "a value that is no quantity": fhpa(metrics=[resource(type="AverageValue", averageValue="1 Gi")]),
    },
    "behavior": {
        "empty": fhpa(behavior={}),
        "no policy": up(policies=[]),
        "window -1": up(stabilizationWindowSeconds=-1),
        "window 3601": up(stabilizationWindowSeconds=3601),
        "window 3600": up(stabilizationWindowSeconds=3600),
        "an unknown selectPolicy": up(selectPolicy="Most"),
        "tolerance below 0": up(tolerance="-0.1"),
        "tolerance -0": up(tolerance="-0"),
        "tolerance 0.05": up(tolerance="0.05"),
        "an unknown type of policy": policy(type="Nodes"),
        "policy value 0": policy(value=0),
        "period 0": policy(periodSeconds=0),
        "period 1801": policy(periodSeconds=1801),
        "65 policies": up(policies=[{"type": "Pods", "value": 4, "periodSeconds": 15}] * 65),
    },
    "partial metrics and period": {
        "everything": fhpa(
            syncPeriodSeconds=300,
            dryRun=True,
            partialMetrics={"policy": "Fallback", "lostAfterSeconds": 1, "fallbackReplicas": 0},
        ),
        "syncPeriodSeconds 0": fhpa(syncPeriodSeconds=0),
        "syncPeriodSeconds 301": fhpa(syncPeriodSeconds=301),
        "an unknown policy": fhpa(partialMetrics={"policy": "Wait"}),
        "Fallback without a number": fhpa(partialMetrics={"policy": "Fallback"}),
        "a fallback outside the limits": fhpa(partialMetrics={"policy": "Fallback", "fallbackReplicas": 99}),
        "fallbackReplicas -1": fhpa(partialMetrics={"policy": "Fallback", "fallbackReplicas": -1}),
        "lostAfterSeconds 0": fhpa(partialMetrics={"lostAfterSeconds": 0}),
    },
    "clusters": {
        "everything": fhpa(
            clusterAffinity={
                "clusterNames": ["m1"],
                "exclude": ["m2"],
                "labelSelector": {
                    "matchLabels": {"a": "b"},
                    "matchExpressions": [{"key": "c", "operator": "In", "values": ["d"]}],
                },
                "fieldSelector": {
                    "matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["z"]}]
                },
            },
            federatedHPAAssignment=assignment(
                "StaticWeighted",
                {
                    "targetCluster": {"clusterNames": ["m1"]},
                    "staticWeight": 1,
                    "autoscalingMinThreshold": 2,
                    "autoscalingMaxThreshold": 2,
                },
                minimumPolicy="Exact",
                rebalance="WhenQuiet",
            ),
            clusterHPAPreference={"clusterName": "m1", "maxResourceUsage": 0.5},
            autoscaleMultiClusterDelay=0,
            scaleAssist=True,
        ),
        "a cluster without a name": fhpa(clusterAffinity={"clusterNames": [""]}),
        "1,001 names": fhpa(clusterAffinity={"clusterNames": [f"m{number}" for number in range(1001)]}),
        "an unknown operator of labels": fhpa(
            clusterAffinity={"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}
        ),
        "In without values": fhpa(
            clusterAffinity={"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}
        ),
        "a label that is none": fhpa(clusterAffinity={"labelSelector": {"matchLabels": {"a b": "c"}}}),
        "a field that clusters do not have": fhpa(
            clusterAffinity={
                "fieldSelector": {"matchExpressions": [{"key": "name", "operator": "In", "values": ["m1"]}]}
            }
        ),
        "tolerations": fhpa(
            clusterTolerations=[
                {
                    "key": "a",
                    "operator": "Equal",
                    "value": "b",
                    "effect": "NoExecute",
                    "tolerationSeconds": 5,
                },
                {"operator": "Exists"},
            ]
        ),
        "a toleration without key and operator": fhpa(clusterTolerations=[{"effect": "NoSchedule"}]),
        "a toleration of an unknown effect": fhpa(clusterTolerations=[{"key": "a", "effect": "NoExcute"}]),
        "a toleration with an unknown operator": fhpa(clusterTolerations=[{"key": "a", "operator": "In"}]),
        "65 tolerations": fhpa(clusterTolerations=[{"operator": "Exists"}] * 65),
        "an unknown assignment type": fhpa(federatedHPAAssignment=assignment("Random")),
        "an unknown minimumPolicy": fhpa(federatedHPAAssignment=assignment(minimumPolicy="Some")),
        "staticWeight 0": fhpa(federatedHPAAssignment=assignment(None, {"staticWeight": 0})),
        "thresholds crossed": fhpa(
            federatedHPAAssignment=assignment(
                None, {"autoscalingMinThreshold": 3, "autoscalingMaxThreshold": 2}
            )
        ),
        "a threshold below 0": fhpa(federatedHPAAssignment=assignment(None, {"autoscalingMaxThreshold": -1})),
        "a cap without a cluster": fhpa(clusterHPAPreference=[{"maxResourceUsage": 0.5}]),
        "a cap above 1": fhpa(clusterHPAPreference=[{"clusterName": "m1", "maxResourceUsage": 1.5}]),
        "two caps of one cluster": fhpa(
            clusterHPAPreference=[{"clusterName": "m1", "maxResourceUsage": 0.5}] * 2
        ),
        "a cap that is a text": fhpa(clusterHPAPreference="m1"),
        "autoscaleMultiClusterDelay -1": fhpa(autoscaleMultiClusterDelay=-1),
    },
    "mode": {
        "Distributed": fhpa(mode="Distributed", metrics=[CPU, external(), object_metric()]),
        "an unknown mode": fhpa(mode="Elsewhere"),
        "Distributed with an aggregation": fhpa(
            mode="Distributed", metrics=[CPU, external(aggregation="Sum")]
        ),
        "Distributed with a target without a group": fhpa(
            mode="Distributed", scaleTargetRef={"kind": "Deployment", "name": "web"}
        ),
        "Distributed with a described object of two slashes": fhpa(
            mode="Distributed",
            metrics=[object_metric(describedObject={"apiVersion": "a/b/c", "kind": "Service", "name": "s"})],
        ),
        "Distributed with LoadWeighted": fhpa(
            mode="Distributed", federatedHPAAssignment=assignment("LoadWeighted")
        ),
    },
}

_CRON: Mapping[str, Mapping[str, Json]] = {
    "cron target": {
        "a workload": cron(rule()),
        "a FederatedHPA": cron(bounds(targetMinReplicas=1, targetMaxReplicas=1), target=FHPA_TARGET),
        "another kind of our group": cron(rule(), target={**FHPA_TARGET, "kind": CRON}),
        "a name with a slash": cron(rule(), target={**TARGET, "name": "a/b"}),
        "no name": cron(rule(), target={**TARGET, "name": ""}),
        "a FederatedHPA without apiVersion": cron(
            bounds(targetMinReplicas=1), target={"kind": FHPA, "name": "web"}
        ),
    },
    "cron rules": {
        "none": cron(),
        "1,001 rules": cron(*(rule(name=f"r{number}") for number in range(1001))),
        "the same name twice": cron(rule(), rule()),
        "a name of 33 characters": cron(rule(name="r" * 33)),
        "no name": cron(rule(name="")),
        "a workload without targetReplicas": cron(rule(), rule(name="s", targetReplicas=None)),
        "a workload with targetReplicas -1": cron(rule(targetReplicas=-1)),
        "a workload with targetReplicas 0": cron(rule(targetReplicas=0)),
        "a FederatedHPA without limits": cron(bounds(), target=FHPA_TARGET),
        "a FederatedHPA with minimum 0": cron(bounds(targetMinReplicas=0), target=FHPA_TARGET),
        "a FederatedHPA with maximum 0": cron(
            bounds(targetMinReplicas=1, targetMaxReplicas=0), target=FHPA_TARGET
        ),
        "a FederatedHPA with its limits crossed": cron(
            bounds(targetMinReplicas=5, targetMaxReplicas=3), target=FHPA_TARGET
        ),
        "a FederatedHPA with targetReplicas beside": cron(
            bounds(targetMinReplicas=1) | {"targetReplicas": -1}, target=FHPA_TARGET
        ),
        "successfulHistoryLimit 0": cron(rule(successfulHistoryLimit=0)),
        "failedHistoryLimit 33": cron(rule(failedHistoryLimit=33)),
    },
    "schedules": {
        "@daily": cron(rule(schedule="@Daily")),
        "lists, ranges, steps, names": cron(rule(schedule=" 0,30 8-18/2 ?\t* MON-FRI ")),
        "none": cron(rule(schedule="")),
        "four fields": cron(rule(schedule="8 * * 1-5")),
        "six fields": cron(rule(schedule="0 30 8 * * 1-5")),
        "a newline": cron(rule(schedule="30 8 * * 1-5\n")),
        "a prefix with the zone": cron(rule(schedule="TZ=UTC 30 8 * * *")),
        "@every": cron(rule(schedule="@every 5m")),
        "@reboot": cron(rule(schedule="@reboot")),
        "@always": cron(rule(schedule="@always")),
        "@daily with a field": cron(rule(schedule="@daily 5")),
        "seven fields": cron(rule(schedule="0 30 8 * * 1-5 2030")),
        "a no-break space": cron(rule(schedule="30\u00a08 * * 1-5")),
        "an en dash": cron(rule(schedule="30 8 * * 1\u20135")),
        "#": cron(rule(schedule="0 8 * * 5#2")),
        "L": cron(rule(schedule="0 8 L * *")),
        "minute 99": cron(rule(schedule="99 * * * *")),
        "a date that never comes": cron(rule(schedule="0 0 31 2 *")),
    },
    "time zones": {
        "none": cron(rule(timeZone=None)),
        "empty": cron(rule(timeZone="")),
        "a city": cron(rule(timeZone="America/Argentina/Buenos_Aires")),
        "Etc/GMT-8": cron(rule(timeZone="Etc/GMT-8")),
        "an offset": cron(rule(timeZone="UTC+8")),
        "a bare offset": cron(rule(timeZone="+08:00")),
        "a path": cron(rule(timeZone="../etc/passwd")),
        "in lower case": cron(rule(timeZone="europe/berlin")),
        "of Mars": cron(rule(timeZone="Mars/Phobos")),
    },
    "windows": {
        "everything": cron(
            rule(
                maxDelaySeconds=600,
                duration="8h",
                startDate="2026-11-27",
                endDate="2027-11-30",
                excludeDates=["2026-12-25", "2027-07-20/2027-08-31", "--01-01"],
                atLeast=True,
            )
        ),
        "maxDelaySeconds 0": cron(rule(maxDelaySeconds=0)),
        "maxDelaySeconds as long as the interval": cron(rule(maxDelaySeconds=86400)),
        "duration 30 seconds": cron(rule(duration=30)),
        "duration 30s": cron(rule(duration="30s")),
        "a duration that is none": cron(rule(duration="soon")),
        "a duration of 600 characters": cron(rule(duration="1" * 600 + "s")),
        "a date with a time": cron(rule(excludeDates=["2026-12-25T00:00:00Z"])),
        "a date that is none": cron(rule(excludeDates=["25.12.2026"])),
        "a day that does not exist": cron(rule(excludeDates=["2026-02-29"])),
        "a range that ends before it begins": cron(rule(excludeDates=["2026-12-26/2026-12-24"])),
        "a start without a year": cron(rule(startDate="--12-24")),
        "an end before the start": cron(rule(startDate="2026-12-02", endDate="2026-12-01")),
        "a word for atLeast": cron(rule(atLeast="yes")),
    },
}


def cases() -> Iterator[Case]:
    """Returns all cases in the order of the table."""
    for kind, groups in ((FHPA, _FHPA), (CRON, _CRON)):
        for group, specs in groups.items():
            for what, spec in specs.items():
                yield Case(group, what, kind, spec)
