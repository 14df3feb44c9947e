"""Random objects with valid and invalid values, to find where the layers disagree."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.conformance.layers.cases import CRON, FHPA, FHPA_TARGET, TARGET, Json, manifest

# An object has dozens of values; were each bad every third time, none would be good.
BAD = 0.06


class Pool(NamedTuple):
    """Values of a field: valid, invalid, and valid only beside certain others."""

    good: Sequence[Any]
    bad: Sequence[Any] = ()


NUMBERS = Pool((1, 2, 5, 10), (-1, 0))
UNUSED = Pool((1, 2, 5, 10))
SMALL, LARGE = Pool((1, 2), (-1, 0, 20)), Pool((5, 10), (-1, 0, 1))
QUANTITIES = Pool(
    ("1", "500m", "1e3", ".5", "+2", 1, "3Gi", "07"), ("-1", "0", "0m", "-0", 0, -3, "-1n", "0.0")
)
TOLERANCES = Pool(("0", "0.1", "-0", "1", 0, "-0.0m", "50m"), ("-1", "-0.1", -1))
NAMES = Pool(
    ("web", "x" * 63, "cpu"), ("", ".", "..", "a/b", "a%b", "Web", "x" * 64, "hugepages-2Mi", "a.b/c")
)
RESOURCES = Pool(("cpu", "memory", "hugepages-2Mi", "example.com/gpu"), ("gpu", "", "-/x", "a//b"))
TARGETS = Pool(
    (TARGET,),
    (
        {"kind": "Deployment", "name": "web"},
        {"apiVersion": "a/b/c", "kind": "ReplicationController", "name": "web"},
        {"apiVersion": "v1", "kind": "Deployment", "name": "web"},
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a/b"},
    ),
)
SCHEDULE_FIELDS = Pool(
    ("*", "?", "0", "5", "*/5", "1-5", "1,3", "3/2", "1-5/2,4", "?/2", "*/99"),
    ("MON", "mon-FRI", "L", "5#2", "99", "1,,3", "-1", "*-5", "1/2/3", "07"),
)
MACROS = Pool(
    ("@daily", "@HOURLY", " @midnight\t", "@Annually"), ("@always", "@every 5m", "@", "", "@daily @daily")
)
ZONES = Pool(
    (
        "UTC",
        "",
        "Europe/Berlin",
        "Etc/GMT+8",
        "GMT+0",
        "GMT-0",
        "EST5EDT",
        "Local",
        "America/North_Dakota/Center",
    ),
    ("UTC+8", "+08:00", "a b", "/etc", "..", "GMT+1", "Europe/"),
)
DURATIONS = Pool(
    ("8h", "1h30m", 60, "60000ms", "1.5h", "+2h", "61000000us"), ("30s", "soon", "", 59, 0, "-1h", "0")
)
DATES = Pool((["2026-12-25"], []), (["2026-02-30"], ["soon"], ["2026-12-25 "]))
REQUIREMENTS = Pool(
    (
        {"key": "k", "operator": "In", "values": ["a", "b"]},
        {"key": "k", "operator": "NotIn", "values": ["a"]},
        {"key": "k", "operator": "Exists"},
        {"key": "k", "operator": "DoesNotExist", "values": []},
    ),
    (
        {"key": "k", "operator": "In"},
        {"key": "k", "operator": "Exists", "values": ["a"]},
        {"key": "k", "operator": "Is", "values": ["a"]},
        {"key": "a b", "operator": "Exists"},
    ),
)
FIELDS = Pool(
    (
        {"key": "zone", "operator": "In", "values": ["a"]},
        {"key": "region", "operator": "NotIn", "values": ["a"]},
    ),
    ({"key": "name", "operator": "In", "values": ["a"]}, {"key": "zone", "operator": "Exists"}),
)
# The possible targets of each kind of metric.
UTILIZATION = {"type": "Utilization", "averageUtilization": 50}
POLICY_TYPES = Pool(("Pods", "Percent"), ("Other", ""))


def objects(seed: int, count: int) -> Sequence[Json]:
    """Returns `count` objects, the same ones for the same seed."""
    made = _Made(random.Random(seed))
    return [made.fhpa() if number % 3 else made.cron() for number in range(count)]


class _Made:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def fhpa(self) -> Json:
        spec = {"scaleTargetRef": self._one(TARGETS)}
        spec |= self._some(0.5, minReplicas=SMALL) | self._some(0.9, maxReplicas=LARGE)
        spec |= self._some(0.15, federatedMinReplicas=SMALL, federatedMaxReplicas=LARGE)
        spec |= self._some(0.3, mode=Pool(("Centralized", "Distributed"), ("Other",)))
        if self._sometimes(0.7):
            spec["metrics"] = [self._metric() for _ in range(self._chance.randint(0, 2))]
        if self._sometimes(0.4):
            spec["behavior"] = {
                name: self._rules() for name in ("scaleUp", "scaleDown") if self._sometimes(0.6)
            }
        if self._sometimes(0.3):
            spec["partialMetrics"] = self._some(
                0.6,
                policy=Pool(("Hold", "Fallback"), ("Other",)),
                fallbackReplicas=NUMBERS,
                lostAfterSeconds=NUMBERS,
            )
        if self._sometimes(0.3):
            spec["clusterAffinity"] = self._affinity()
        if self._sometimes(0.3):
            spec["federatedHPAAssignment"] = self._assignment()
        return manifest(FHPA, spec)

    def cron(self) -> Json:
        fhpa = self._sometimes(0.5)
        good = FHPA_TARGET if fhpa else TARGET
        target = self._one(Pool((good,), (*TARGETS.bad, {**FHPA_TARGET, "kind": CRON}, TARGET, FHPA_TARGET)))
        rules = [self._rule(number, fhpa=fhpa) for number in range(self._chance.randint(0, 3))]
        return manifest(CRON, {"scaleTargetRef": target, "rules": rules})

    def _metric(self) -> Json:
        target = {"type": "AverageValue", "averageValue": self._one(QUANTITIES)}
        resource = self._odd(UTILIZATION if self._sometimes(0.5) else target)
        name = {"name": self._one(NAMES)}
        described = {
            "apiVersion": self._one(Pool(("v1", "apps/v1"), ("a/b/c",))),
            "kind": self._one(Pool(("Service",), ("", "a/b"))),
            **name,
        }
        value = {"type": "Value", "value": self._one(QUANTITIES)}
        aggregation = self._some(0.1, aggregation=Pool(("Sum", "Max"), ("Other",)))
        bodies: Json = {
            "resource": {"name": self._one(RESOURCES), "target": resource},
            "containerResource": {
                "name": self._one(RESOURCES),
                "container": self._one(NAMES),
                "target": resource,
            },
            "pods": {"metric": name, "target": self._odd(target)},
            "object": {
                "describedObject": described,
                "metric": name,
                "target": self._odd(self._chance.choice((value, target, {**value, "averageValue": "1"}))),
                **aggregation,
            },
            "external": {
                "metric": name,
                "target": self._odd(self._chance.choice((value, target))),
                **aggregation,
            },
        }
        field = self._chance.choice(tuple(bodies))
        own = field[0].upper() + field[1:]
        chosen = {field} | ({self._chance.choice(tuple(bodies))} if self._sometimes(BAD) else set())
        return {
            "type": self._one(Pool((own,), ("Other", "", "Pods"))),
            **{each: bodies[each] for each in chosen},
        }

    def _odd(self, target: Json) -> Json:
        """Returns a target, sometimes with an extra field or another type."""
        if not self._sometimes(2 * BAD):
            return target
        types = Pool(("Utilization", "Value", "AverageValue"), ("Other", ""))
        more = self._some(0.4, value=QUANTITIES, averageValue=QUANTITIES, averageUtilization=NUMBERS)
        return {**target, **more, "type": self._one(types)}

    def _rules(self) -> Json:
        rules = self._some(
            0.4,
            stabilizationWindowSeconds=Pool((0, 10, 3600), (-1, 3601)),
            selectPolicy=Pool(("Max", "Min", "Disabled"), ("Other",)),
            tolerance=TOLERANCES,
        )
        if self._sometimes(0.5):
            rules["policies"] = [
                {
                    "type": self._one(POLICY_TYPES),
                    "value": self._one(Pool((1, 2, 100, 10_000), (0, -1))),
                    "periodSeconds": self._one(Pool((1, 15, 1800), (1801, 0, -1))),
                }
                for _ in range(self._one(Pool((1, 2), (0,))))
            ]
        return rules

    def _affinity(self) -> Json:
        names = Pool((["m1"], [], ["m1", "m2"]), (["m1", ""],))
        affinity = self._some(0.4, clusterNames=names, exclude=names)
        if self._sometimes(0.5):
            affinity["labelSelector"] = {"matchExpressions": [self._one(REQUIREMENTS) for _ in range(2)]}
        if self._sometimes(0.4):
            affinity["fieldSelector"] = {"matchExpressions": [self._one(FIELDS)]}
        return affinity

    def _assignment(self) -> Json:
        preference = self._some(
            0.4, staticWeight=NUMBERS, autoscalingMinThreshold=SMALL, autoscalingMaxThreshold=LARGE
        )
        if self._sometimes(0.3):
            preference["targetCluster"] = self._affinity()
        types = Pool(("StaticWeighted", "Duplicated", "Prioritized"), ("LoadWeighted", "Other"))
        return {
            "clusterAutoscalingPreference": [preference],
            **self._some(0.5, federatedHPAAssignmentType=types, minimumPolicy=Pool(("Exact",), ("Other",))),
        }

    def _rule(self, number: int, *, fhpa: bool) -> Json:
        schedule = " ".join(self._one(SCHEDULE_FIELDS) for _ in range(self._one(Pool((5,), (4, 6)))))
        sizes = (
            self._some(0.95, targetMinReplicas=SMALL) | self._some(0.6, targetMaxReplicas=LARGE)
            if fhpa
            else self._some(0.95, targetReplicas=Pool((0, 1, 9), (-1,)))
        )
        return {
            "name": self._one(Pool((f"r{number}",), ("same",))),
            "schedule": self._one(MACROS) if self._sometimes(0.3) else schedule,
            **sizes,
            # Fields without effect. Only the CRD refuses a bad number there.
            **self._some(BAD, targetReplicas=UNUSED, targetMinReplicas=UNUSED, targetMaxReplicas=UNUSED),
            **self._some(0.4, timeZone=ZONES, duration=DURATIONS),
            **self._some(0.2, excludeDates=DATES, maxDelaySeconds=Pool((1, 30), (0, -1, 10**9))),
        }

    def _sometimes(self, often: float) -> bool:
        return self._chance.random() < often

    def _one(self, pool: Pool) -> Any:
        return self._chance.choice(pool.bad if pool.bad and self._sometimes(BAD) else pool.good)

    def _some(self, often: float, **fields: Pool) -> Json:
        return {name: self._one(pool) for name, pool in fields.items() if self._sometimes(often)}
