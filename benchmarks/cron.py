"""CPU time of schedules: the first parse, the next times, and the simulation at admission.

All schedules differ and have all shapes, and the caches are cleared before each parse. Other work on the
machine adds CPU time, so the best of several runs counts.
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from fedhpa.admission.cronfederatedhpa import validate_cronfederatedhpa
from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import decode
from fedhpa.cron import Timetable, forecast_warnings, load_zone, parse, shortest_interval
from fedhpa.cron.execution.model import (
    MAXIMUM,
    MINIMUM,
    ObjectRecord,
    ObservedTarget,
    ScheduledObject,
)
from fedhpa.cron.execution.objects import TargetReference, encode_rules, encode_windows, executable_rules
from fedhpa.cron.execution.outcome import Attempts, settle
from tests.support.timetables import next_times, previous_of

SCHEDULES = 1000
RUNS = 7
NOW = datetime(2026, 3, 11, 13, 23, 17, tzinfo=UTC)
ZONE = "Europe/Berlin"
TARGETS = {
    "Deployment": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    "FederatedHPA": {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": "web"},
}


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    texts = schedules()
    zone = load_zone(ZONE)
    parsed = [parse(text) for text in texts]
    small = _object("Deployment", [{"schedule": "30 2 * * *"}, {"schedule": "0 18 * * MON-FRI"}])
    delays = [shortest_interval(one) - 1 for one in parsed]
    rules = zip(texts, delays, strict=True)
    large = _object("Deployment", [{"schedule": text, "maxDelaySeconds": delay} for text, delay in rules])
    minutely = _object("FederatedHPA", [{"schedule": "* * * * *"} for _ in texts])
    return {
        "1,000 different schedules parsed, CPU ms": _best(lambda: [parse(text) for text in texts], _forget),
        "next three times of each, CPU ms": _best(lambda: [next_times(one, zone, NOW, 3) for one in parsed]),
        "previous time of each, CPU ms": _best(
            lambda: [previous_of(Timetable(one, zone), NOW) for one in parsed]
        ),
        "validation of 1,000 rules, CPU ms": _best(lambda: validate_cronfederatedhpa(large), _forget),
        "simulation of 2 rules, CPU ms": _best(lambda: forecast_warnings(small.spec, NOW)),
        "simulation of 1,000 rules, CPU ms": _best(lambda: forecast_warnings(large.spec, NOW)),
        "simulation of 1,000 rules of every minute, CPU ms": _best(
            lambda: forecast_warnings(minutely.spec, NOW, {"minReplicas": 1, "maxReplicas": 10})
        ),
        "1,000 windows that open in one minute, CPU ms": _best(_opening(), _forget),
    }


def _opening() -> Callable[[], object]:
    """Returns a function that plans the openings of 1,000 windows, and makes the records after them."""
    rules = [{"schedule": "24 14 * * *", "duration": "1h"} for _ in range(SCHEDULES)]
    now = NOW.timestamp()
    owner = ScheduledObject("web", now, executable_rules(_object("FederatedHPA", rules).spec), edited=now)
    target = ObservedTarget({MINIMUM: 1, MAXIMUM: 10})
    reference = TargetReference("autoscaling.karmada.io/v1alpha1", "FederatedHPA", "web")

    def opened() -> None:
        settled = settle(Attempts([owner], None, target, now + 60).plan, now + 60)
        assert settled.record is not None
        encode_windows(reference, settled.record)
        encode_rules(ObjectRecord(settled.states["web"]))

    return opened


def _forget() -> None:
    # All caches of the package, so that a new one cannot flatter the figures.
    modules = [module for name, module in sys.modules.items() if name.startswith("fedhpa.cron")]
    for value in itertools.chain.from_iterable(vars(module).values() for module in modules):
        if isinstance(value, type(parse)):
            value.cache_clear()


def _best(work: Callable[[], object], before: Callable[[], object] = int) -> float:
    spent = []
    for _ in itertools.repeat(None, RUNS):
        before()
        started = time.process_time()
        work()
        spent.append(time.process_time() - started)
    return min(spent) * 1000


def schedules() -> list[str]:
    """Different schedules of values, ranges, steps and lists; each fires at least once a year."""
    chance = random.Random(5)
    found: dict[str, None] = {}
    while len(found) < SCHEDULES:
        fields = (
            _field(chance, 0, 59, star=0.1),
            _field(chance, 0, 23, star=0.2),
            _field(chance, 1, 28, star=0.7),
            _field(chance, 1, 12, star=0.8),
            _field(chance, 0, 6, star=0.5),
        )
        found[" ".join(fields)] = None
    return list(found)


def _field(chance: random.Random, low: int, high: int, *, star: float) -> str:
    if chance.random() < star:
        return "*"
    first, last = sorted((chance.randint(low, high), chance.randint(low, high)))
    return chance.choice((f"{first}", f"{first}-{last}", f"*/{max(last, 1)}", f"{first},{last},{low}"))


def _object(kind: str, rules: list[dict[str, Any]]) -> CronFederatedHPA:
    values = {"Deployment": "targetReplicas", "FederatedHPA": "targetMinReplicas"}[kind]
    filled = [
        {"name": f"rule-{number}", "timeZone": ZONE, values: number + 1, **rule}
        for number, rule in enumerate(rules)
    ]
    metadata = {"name": "web", "namespace": "shop"}
    spec = {"scaleTargetRef": TARGETS[kind], "rules": filled}
    return decode(CronFederatedHPA, {"metadata": metadata, "spec": spec})


if __name__ == "__main__":
    for name, value in run().items():
        print(f"{name}: {value:.3f}")
