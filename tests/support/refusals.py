"""Wrong objects, each with the field and the remedy that a person must read when it is refused."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Final

from fedhpa.api.federatedhpa import API_VERSION

TARGET: Final = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
FHPA: Final = {"apiVersion": API_VERSION, "kind": "FederatedHPA", "name": "web"}
CPU: Final = {"type": "Resource", "resource": {"name": "cpu"}}
QUEUE: Final = {"metric": {"name": "queue"}, "target": {"type": "Value", "value": 30}}


@dataclass(frozen=True)
class Refusal:
    """A wrong object, and what a person reads in its refusal or in a warning beside it."""

    name: str
    manifest: dict[str, Any]
    field: str
    remedy: str
    # The field of the schedule, such as day-of-week.
    part: str = ""

    def __str__(self) -> str:
        return self.name

    def unread(self, text: str) -> list[str]:
        """Returns what a text lacks."""
        return [words for words in (self.field, self.part, self.remedy) if words not in text]


def _object(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": "wrong", "namespace": "default"}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}


def calendar(*rules: dict[str, Any], target: dict[str, str] = TARGET) -> dict[str, Any]:
    """Returns a CronFederatedHPA whose first rule is valid."""
    sizes = {"targetReplicas": 3} if target == TARGET else {"targetMinReplicas": 3}
    valid = {"schedule": "0 8 * * *", "timeZone": "UTC", **sizes}
    filled = [{"name": f"r{index}", **valid, **rule} for index, rule in enumerate(({}, *rules))]
    return _object("CronFederatedHPA", {"scaleTargetRef": target, "rules": filled})


def autoscaler(**spec: Any) -> dict[str, Any]:
    """Returns a FederatedHPA with changed fields; None removes a field."""
    whole = {"scaleTargetRef": TARGET, "minReplicas": 1, "maxReplicas": 10, **spec}
    return _object("FederatedHPA", {key: value for key, value in whole.items() if value is not None})


# Schedule, field of the schedule, remedy.
_SCHEDULES: Final = (
    ("", "", "five fields (minute"),
    ("8 * * *", "", "five fields (minute"),
    ("0 0 8 * * *", "", "drop that field"),
    ("0 0 8 * * * 2030", "", "drop both"),
    ("TZ=UTC 0 8 * * *", "", "set the rule's timeZone"),
    ("CRON_TZ=UTC 0 8 * * *", "", "set the rule's timeZone"),
    ("@reboot", "", "write five fields"),
    ("@every 5m", "", "write a step such as */5"),
    ("@always", "", "write five fields or one of"),
    ("@daily 5", "", "drop '5'"),
    ("0 8 * * *\n", "", "write one line"),
    ("0 8\n* * *", "", "write one line"),
    ("0 8 * * *\r\n", "", "write one line"),
    ("1 " * 300, "", "512"),
    ("0 8 L * *", "day-of-month", "name the day"),
    ("0 8 15W * *", "day-of-month", "write the day alone"),
    ("0 8 * * 5#2", "day-of-week", "list the other dates in excludeDates"),
    ("0 8 * * 5L", "day-of-week", "list the other dates in excludeDates"),
    ("0 8 * * L", "day-of-week", "write SAT or SUN"),
    ("H 8 * * *", "minute", "write a number"),
    ("0 8 * JANUARY *", "month", "write JAN"),
    ("0 8 * * MONDAY", "day-of-week", "write MON"),
    ("MON 8 * * *", "minute", "write 0 to 59"),
    ("99 * * * *", "minute", "write 0 to 59"),
    ("0 24 * * *", "hour", "write 0 to 23"),
    ("0 8 0 * *", "day-of-month", "write 1 to 31"),
    ("0 8 * 13 *", "month", "write 1 to 12"),
    ("0 8 * * 8", "day-of-week", "write 0 to 7"),
    ("1,,3 * * * *", "minute", "drop the stray comma"),
    ("5, * * * *", "minute", "drop the stray comma"),
    ("+5 * * * *", "minute", "write 0 to 59"),
    ("*-5 * * * *", "minute", "write * alone"),
    ("5-* * * * *", "minute", "write * alone"),
    ("10-5 * * * *", "minute", "write two ranges, such as 10-59,0-5"),
    ("1/0 * * * *", "minute", "write 1 or more"),
    ("*/5/2 * * * *", "minute", "has two steps; write one"),
    ("0 0 31 2 *", "day-of-month", "choose a day that the month has"),
    ("0 0 31 4 *", "day-of-month", "choose a day that the month has"),
    ("0\u00a08 * * *", "minute", "U+00A0 (no-break space) at position 2 of the field: use a blank"),
    ("0 8 * * 1\u20135", "day-of-week", "U+2013 (en dash) at position 2 of the field: use -"),
    ("\u200b0 8 * * *", "minute", "U+200B (zero width space) at position 1 of the field: delete it"),
    ("\uff10 8 * * *", "minute", "U+FF10 (fullwidth digit zero) at position 1 of the field: use 0"),
    (
        "0 8 * * \u041cON",
        "day-of-week",
        "U+041C (cyrillic capital letter em) at position 1 of the field: use M",
    ),
)
_ZONES: Final = (
    ("UTC+8", "write Etc/GMT-8"),
    ("GMT-5", "write Etc/GMT+5"),
    ("+05:30", "write an IANA name"),
    ("europe/berlin", "write Europe/Berlin"),
    ("America/NewYork", "America/New_York"),
    ("Mars/Phobos", "write an IANA name"),
    ("America", "write a zone of it"),
    ("../etc/passwd", "write an IANA name"),
    ("Europe/Berlin\u200b", "U+200B (zero width space) at position 14 of the name: delete it"),
)
# The mistake, the fields of the rule, the field that is named, remedy.
_RULES: Final[tuple[tuple[str, dict[str, Any], str, str], ...]] = (
    ("no delay", {"maxDelaySeconds": 0}, "maxDelaySeconds", "greater than or equal to 1"),
    (
        "delay of an interval",
        {"maxDelaySeconds": 86400},
        "maxDelaySeconds",
        "must be smaller than the shortest interval between two executions, which is 86400 seconds",
    ),
    ("duration of 30 seconds", {"duration": 30}, "duration", "write 60 or more seconds"),
    ("duration that is a word", {"duration": "soon"}, "duration", "write one such as 8h or 90m, or seconds"),
    ("duration with a blank", {"duration": "8 h"}, "duration", "write one such as 8h or 90m, or seconds"),
    ("duration of two years", {"duration": "17520h"}, "duration", "is longer than a year; without it"),
    ("date in another form", {"excludeDates": ["25.12.2026"]}, "excludeDates[0]", "write YYYY-MM-DD"),
    ("date with a time", {"excludeDates": ["2026-12-25T00:00:00Z"]}, "excludeDates[0]", "write YYYY-MM-DD"),
    (
        "date that does not exist",
        {"excludeDates": ["2026-12-25", "2026-02-29"]},
        "excludeDates[1]",
        "write YYYY-MM-DD",
    ),
    ("range that ends first", {"excludeDates": ["2026-12-26/2026-12-24"]}, "excludeDates[0]", "earlier date"),
    ("range without a year", {"excludeDates": ["--12-24/--12-26"]}, "excludeDates[0]", "--MM-DD for each"),
    ("start without a year", {"startDate": "--12-24"}, "startDate", "write YYYY-MM-DD"),
    ("end that is a range", {"endDate": "2026-12-24/2026-12-26"}, "endDate", "write YYYY-MM-DD"),
    (
        "end before the start",
        {"startDate": "2026-12-02", "endDate": "2026-12-01"},
        "endDate",
        "is before startDate 2026-12-02",
    ),
    ("too many dates", {"excludeDates": ["2026-12-25"] * 367}, "excludeDates", "must have at most 366 items"),
)


def _metric(type_: str, field: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, field: more}


# The mistake, the spec, the field that is named, remedy.
_AUTOSCALERS: Final[tuple[tuple[str, dict[str, Any], str, str], ...]] = (
    ("mode", {"mode": "Elsewhere"}, "spec.mode", 'supported values: "Centralized", "Distributed"'),
    ("dryRun in quotes", {"dryRun": "true"}, "spec.dryRun", "write true without quotes"),
    ("no period", {"syncPeriodSeconds": 0}, "spec.syncPeriodSeconds", "greater than or equal to 1"),
    ("long period", {"syncPeriodSeconds": 301}, "spec.syncPeriodSeconds", "less than or equal to 300"),
    ("policy", {"partialMetrics": {"policy": "Wait"}}, "spec.partialMetrics.policy", '"ScaleUpOnly"'),
    (
        "fallback without a number",
        {"partialMetrics": {"policy": "Fallback"}},
        "spec.partialMetrics.fallbackReplicas",
        "policy Fallback needs the number to fall back to",
    ),
    (
        "fallback below zero",
        {"partialMetrics": {"policy": "Fallback", "fallbackReplicas": -1}},
        "spec.partialMetrics.fallbackReplicas",
        "greater than or equal to 0",
    ),
    (
        "lost at once",
        {"partialMetrics": {"lostAfterSeconds": 0}},
        "spec.partialMetrics.lostAfterSeconds",
        "greater than or equal to 1",
    ),
    (
        "aggregation",
        {"metrics": [_metric("External", "external", aggregation="Median", **QUEUE)]},
        "spec.metrics[0].external.aggregation",
        'supported values: "Average", "Max", "Min", "Sum"',
    ),
    (
        "cluster without a name",
        {"clusterAffinity": {"clusterNames": [""]}},
        "spec.clusterAffinity.clusterNames[0]",
        "at least 1 chars long",
    ),
    (
        "field of clusters",
        {
            "clusterAffinity": {
                "fieldSelector": {"matchExpressions": [{"key": "name", "operator": "In", "values": ["a"]}]}
            }
        },
        "spec.clusterAffinity.fieldSelector.matchExpressions",
        "region",
    ),
    (
        "toleration of nothing",
        {"clusterTolerations": [{"effect": "NoSchedule"}]},
        "spec.clusterTolerations[0].operator",
        "operator must be Exists when `key` is empty",
    ),
    (
        "toleration with a value of any value",
        {"clusterTolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        "spec.clusterTolerations[0].operator",
        "value must be empty",
    ),
    (
        "effect of a toleration",
        {"clusterTolerations": [{"key": "a", "effect": "NoExcute"}]},
        "spec.clusterTolerations[0].effect",
        '"NoExecute"',
    ),
    (
        "seconds of a toleration without NoExecute",
        {"clusterTolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 5}]},
        "spec.clusterTolerations[0].effect",
        "effect must be 'NoExecute'",
    ),
    (
        "assignment type",
        {"federatedHPAAssignment": {"federatedHPAAssignmentType": "Random"}},
        "spec.federatedHPAAssignment.federatedHPAAssignmentType",
        '"StaticWeighted"',
    ),
    (
        "minimumPolicy",
        {"federatedHPAAssignment": {"minimumPolicy": "Some"}},
        "spec.federatedHPAAssignment.minimumPolicy",
        'supported values: "AtLeastOne", "Exact"',
    ),
    (
        "rebalance",
        {"federatedHPAAssignment": {"rebalance": "Always"}},
        "spec.federatedHPAAssignment.rebalance",
        'supported values: "Never", "WhenQuiet"',
    ),
    (
        "no weight",
        {"federatedHPAAssignment": {"clusterAutoscalingPreference": [{"staticWeight": 0}]}},
        "clusterAutoscalingPreference[0].staticWeight",
        "greater than or equal to 1",
    ),
    (
        "thresholds crossed",
        {
            "federatedHPAAssignment": {
                "clusterAutoscalingPreference": [{"autoscalingMinThreshold": 3, "autoscalingMaxThreshold": 2}]
            }
        },
        "clusterAutoscalingPreference[0].autoscalingMinThreshold",
        "must be less than or equal to autoscalingMaxThreshold",
    ),
    (
        "more than the cluster",
        {"clusterHPAPreference": [{"clusterName": "a", "maxResourceUsage": 1.5}]},
        "spec.clusterHPAPreference[0].maxResourceUsage",
        "must be greater than 0 and less than or equal to 1",
    ),
    (
        "share of no cluster",
        {"clusterHPAPreference": [{"maxResourceUsage": 0.5}]},
        "spec.clusterHPAPreference[0].clusterName",
        "must name the cluster",
    ),
    (
        "cluster without a share",
        {"clusterHPAPreference": [{"clusterName": "a"}]},
        "spec.clusterHPAPreference[0].maxResourceUsage",
        "must say how much of the cluster may be used",
    ),
    (
        "delay below zero",
        {"autoscaleMultiClusterDelay": -1},
        "spec.autoscaleMultiClusterDelay",
        "greater than or equal to 0",
    ),
    ("scaleAssist as a word", {"scaleAssist": "no"}, "spec.scaleAssist", "write true or false"),
    ("scalingToZero as a word", {"scalingToZero": "no"}, "spec.scalingToZero", "write true or false"),
    (
        "both names of the maximum",
        {"federatedMaxReplicas": 9},
        "spec.federatedMaxReplicas",
        "is another name of maxReplicas",
    ),
    (
        "both names of the minimum",
        {"federatedMinReplicas": 2},
        "spec.federatedMinReplicas",
        "is another name of minReplicas",
    ),
    (
        "zero without a metric of another object",
        {"minReplicas": 0},
        "spec.minReplicas",
        "0 needs an Object or External metric",
    ),
    ("no maximum", {"maxReplicas": None}, "spec.maxReplicas", "write the upper limit here"),
    ("maximum in quotes", {"maxReplicas": "10"}, "spec.maxReplicas", "write 10 without quotes"),
    (
        "limits crossed",
        {"minReplicas": 5, "maxReplicas": 3},
        "spec.maxReplicas",
        "must be greater than or equal to `minReplicas`",
    ),
    (
        "negative tolerance",
        {"behavior": {"scaleUp": {"tolerance": "-0.1"}}},
        "spec.behavior.scaleUp.tolerance",
        "must be greater than or equal to 0",
    ),
    (
        "quantity with a blank",
        {
            "metrics": [
                _metric(
                    "Resource",
                    "resource",
                    name="memory",
                    target={"type": "AverageValue", "averageValue": "1 Gi"},
                )
            ]
        },
        "spec.metrics[0].resource.target.averageValue",
        "write a quantity such as 500m or 2Gi",
    ),
    (
        "Distributed with an aggregation",
        {"mode": "Distributed", "metrics": [_metric("External", "external", aggregation="Sum", **QUEUE)]},
        "spec.metrics",
        "nothing is aggregated over clusters",
    ),
    (
        "Distributed with LoadWeighted",
        {
            "mode": "Distributed",
            "federatedHPAAssignment": {"federatedHPAAssignmentType": "LoadWeighted"},
        },
        "spec.federatedHPAAssignment.federatedHPAAssignmentType",
        "write DynamicWeighted, or mode Centralized",
    ),
    (
        "Distributed without a group",
        {"mode": "Distributed", "scaleTargetRef": {"kind": "Deployment", "name": "web"}},
        "spec.scaleTargetRef.apiVersion",
        "must specify API group",
    ),
)
# The mistake, the object, the field that is named, remedy.
_TARGETS: Final = (
    (
        "FederatedHPA without apiVersion",
        calendar(
            {"targetReplicas": None, "targetMinReplicas": 2},
            target={"kind": "FederatedHPA", "name": "web"},
        ),
        "spec.rules",
        f"write {API_VERSION}",
    ),
    (
        "FederatedHPA without limits",
        calendar({"targetMinReplicas": None}, target=FHPA),
        "spec.rules",
        "targetMinReplicas and targetMaxReplicas cannot be nil at the same time",
    ),
    (
        "limits of a rule crossed",
        calendar({"targetMinReplicas": 3, "targetMaxReplicas": 2}, target=FHPA),
        "spec.rules",
        "targetMaxReplicas should be larger than or equal to targetMinReplicas",
    ),
    (
        "workload without replicas",
        calendar({"targetReplicas": None}),
        "spec.rules",
        "targetReplicas cannot be nil if you want to scale Deployment",
    ),
    (
        "another kind of the group",
        calendar({}, target={**FHPA, "kind": "CronFederatedHPA"}),
        "spec.scaleTargetRef.kind",
        "only support FederatedHPA",
    ),
    (
        "name with a slash",
        calendar({}, target={**TARGET, "name": "deploy/web"}),
        "spec.scaleTargetRef.name",
        "may not contain '/'",
    ),
    ("1,001 rules", calendar(*[{}] * 1000), "spec.rules", "must have at most 1000 items"),
)


def _without_nulls(manifest: dict[str, Any]) -> dict[str, Any]:
    found = copy.deepcopy(manifest)
    rules = found["spec"]["rules"]
    found["spec"]["rules"] = [
        {key: value for key, value in rule.items() if value is not None} for rule in rules
    ]
    return found


REFUSALS: Final = (
    *(
        Refusal(
            f"schedule {text!a:.40}", calendar({"schedule": text}), "spec.rules[1].schedule", remedy, part
        )
        for text, part, remedy in _SCHEDULES
    ),
    *(
        Refusal(f"zone {name!a}", calendar({"timeZone": name}), "spec.rules[1].timeZone", remedy)
        for name, remedy in _ZONES
    ),
    *(
        Refusal(name, calendar(rule), f"spec.rules[1].{field}", remedy)
        for name, rule, field, remedy in _RULES
    ),
    *(Refusal(name, _without_nulls(manifest), field, remedy) for name, manifest, field, remedy in _TARGETS),
    *(Refusal(name, autoscaler(**spec), field, remedy) for name, spec, field, remedy in _AUTOSCALERS),
)
