"""`fedhpa explain --watch` shows an object again when its decision changes, and only then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from controller.cronfederatedhpa import PlannedTarget
from controller.cronfederatedhpa.objects import CronObject
from fedhpa.api.errors import ConfigError
from fedhpa.cli.cron.explain import explanation
from fedhpa.cli.explain import SECONDS, Explanation, explained_parts, follow
from fedhpa.decision import decode_stored, encode_stored
from tests.support.scenarios import cluster, decided, scenario


def at(milli: int, **changes: Any) -> Explanation:
    """The explanation after a decision on two pods with this usage."""
    decision = decided(scenario([cluster("m1", [milli, milli])], **changes))
    return Explanation("shop/web", decode_stored(encode_stored(decision.memory, decision)), decision.status)


async def followed(
    answers: list[Any], state: Callable[[Any], object] = explained_parts
) -> tuple[list[str], list[str], list[float]]:
    """The shown reasons, the warnings and the pauses while the hub gave these answers."""
    left = iter(answers)
    shown: list[str] = []
    warned: list[str] = []
    slept: list[float] = []

    async def read() -> Any:
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    def show(found: Any) -> None:
        status = found.status if isinstance(found, Explanation) else found["status"]
        shown.append((status.get("summary") or {"targets": "no status"})["targets"])

    await follow(read, show, warned.append, sleep=sleep, state=state)
    return shown, warned, slept


async def test_a_decision_is_shown_once_and_again_when_it_changes() -> None:
    """Equal decisions and new times print nothing; another usage or a new status does."""
    later = at(50, now="2026-03-11T13:23:32Z")

    shown, _, slept = await followed(
        [Explanation("shop/web", None, {}), at(50), at(50), later, at(80), at(80), None]
    )

    assert shown == ["no status", "cpu: 50%/50%", "cpu: 80%/50%"]
    assert slept == [SECONDS] * 6


async def test_a_hub_that_goes_away_ends_nothing() -> None:
    """Each new error is told once, and the object is shown when it changed in the meantime."""
    away = ConfigError("cannot read FederatedHPA shop/web: connection refused")

    shown, warned, _ = await followed([at(50), away, away, at(50), away, at(80), None])

    assert shown == ["cpu: 50%/50%", "cpu: 80%/50%"]
    assert warned == [f"{away}; trying again"] * 2


async def test_an_object_that_cannot_be_read_at_first_is_an_error() -> None:
    """A missing right or a wrong name ends the command."""
    with pytest.raises(ConfigError, match="not found"):
        await followed([ConfigError("FederatedHPA shop/web not found")])


def rules(following: str, *failed: str, summary: str = "") -> dict[str, Any]:
    """A CronFederatedHPA with one rule. The times are on 16 March 2026."""
    failures = [{"scheduleTime": at, "executionTime": at, "message": "refused"} for at in failed]
    history = {
        "ruleName": "up",
        "nextExecutionTime": f"2026-03-16T{following}:00Z",
        "failedExecutions": failures,
    }
    target = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": "web"}
    rule = {"name": "up", "schedule": "0 * * * *", "targetMinReplicas": 5}
    return {
        "metadata": {"name": "office", "namespace": "shop"},
        "spec": {"scaleTargetRef": target, "rules": [rule]},
        "status": {"executionHistories": [history], "summary": {"targets": f"next {following}{summary}"}},
    }


async def test_the_rules_of_an_object_are_shown_again_when_an_execution_changes_them() -> None:
    """An execution or a failure prints again. Another text of a column alone prints nothing."""
    failed = rules("10:00", "2026-03-16T10:00:00Z")
    answers = [rules("10:00"), rules("10:00", summary=" soon"), failed, failed, rules("11:00"), None]

    def explained(raw: Mapping[str, Any]) -> Mapping[str, Any]:
        owner = CronObject.of(raw)
        objects = (owner.scheduled(owner.target),)
        return explanation(raw, PlannedTarget(owner.target, owner.reference.api_version, objects, None))

    shown, _, slept = await followed(answers, state=explained)

    assert shown == ["next 10:00", "next 10:00", "next 11:00"]
    assert slept == [SECONDS] * 5
