"""The rules of CronFederatedHPAs in a backtest: the bounds that they set over the recorded time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from controller.cronfederatedhpa import planned_targets, values_of
from fedhpa.api.default_values import MIN_REPLICAS
from fedhpa.api.federatedhpa import API_VERSION, KIND
from fedhpa.api.times import format_time
from fedhpa.backtest.recording import Recording
from fedhpa.backtest.result import Mark
from fedhpa.backtest.simulation import BoundsChange
from fedhpa.cron.execution.model import MAXIMUM, MINIMUM
from fedhpa.cron.execution.simulation import SimulatedStep, Simulation

# Rules that fire each minute for four weeks.
MAX_WORK: Final = 200_000
# A picture with more marks shows nothing.
MAX_MARKS: Final = 5_000

Object = Mapping[str, Any]


async def rules_of(
    crons: Sequence[Object], raw: Object, recording: Recording
) -> tuple[list[BoundsChange], list[Mark]]:
    """Returns the bounds that rules set on the object `raw`, and a mark for each execution, by time.

    The rules are taken to be as old as the recording. Raises InvalidObject if an object cannot be read.
    """
    namespace = raw["metadata"].get("namespace", "")
    created = {"namespace": namespace, "creationTimestamp": format_time(recording.start)}
    objects = [
        {**one, "metadata": {**one["metadata"], **created}, "status": {}}
        for one in crons
        if _targets(one, str(raw["metadata"]["name"]))
    ]
    bounds: list[BoundsChange] = []
    marks: list[Mark] = []
    for unit in await planned_targets(None, objects, [one["metadata"]["name"] for one in objects]):
        values = values_of(dict(raw), unit)
        run = Simulation(
            unit.objects, None, values, now=recording.start, until=recording.end, max_work=MAX_WORK
        )
        for step in run.all():
            least, most = step.values.get(MINIMUM), step.values.get(MAXIMUM)
            if most is not None:
                bounds.append(BoundsChange(step.at, MIN_REPLICAS if least is None else least, most))
            marks += [Mark(step.at, text) for text in _texts(step)]
    return bounds, marks[:MAX_MARKS]


def _targets(cron: Object, name: str) -> bool:
    reference = (cron.get("spec") or {}).get("scaleTargetRef") or {}
    return (reference.get("apiVersion"), reference.get("kind"), reference.get("name")) == (
        API_VERSION,
        KIND,
        name,
    )


def _texts(step: SimulatedStep) -> Iterator[str]:
    for applied in step.plan.applied:
        values = ", ".join(f"{field} {value}" for field, value in applied.values.items())
        yield f"{applied.execution.rule.name}: {values}"
    for window in step.plan.closed:
        yield f"{window.rule}: its window ends"
