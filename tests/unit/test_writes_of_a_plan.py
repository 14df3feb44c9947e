"""A plan of mode Distributed is written batch by batch, and a failed member stops no other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from controller.apply.member_hpas import MemberHpaWriter, NotOwned
from controller.apply.plan import carry_out, to_hpas
from fedhpa.api.errors import ApiError, Conflict, MemberUnavailable
from fedhpa.api.member_hpas import V2, V2BETA2
from fedhpa.assignment import Bounds, Member, Outcome, Plan, Result
from fedhpa.kube import Key
from fedhpa.members.hpas import HpaReading
from tests.support.distributed import assigned, hpa, rules

KEY = ("shop", "web")
FEDERATED: Mapping[str, Any] = {
    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
    "behavior": {"scaleUp": {"tolerance": "0.05"}},
}


@dataclass
class Recorder:
    """A writer that notes each write, and fails as told."""

    errors: Mapping[str, BaseException] = field(default_factory=dict)
    calls: list[tuple[str, int, int]] = field(default_factory=list)
    specs: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    deleted: list[str] = field(default_factory=list)

    async def apply(
        self, cluster: str, key: Key, spec: Mapping[str, Any], api_version: str
    ) -> tuple[str, ...]:
        self.calls.append((cluster, spec["minReplicas"], spec["maxReplicas"]))
        self.specs[cluster] = {**spec, "apiVersion": api_version}
        if cluster in self.errors:
            raise self.errors[cluster]
        return ("maxReplicas",)

    async def delete(self, cluster: str, key: Key) -> bool:
        self.deleted.append(cluster)
        if cluster in self.errors:
            raise self.errors[cluster]
        return True


def bounds(minimum: int, maximum: int) -> Bounds:
    return Bounds(minimum=minimum, maximum=maximum)


def moved() -> Plan:
    """Three replicas of the most of a go to b, and c loses its HPA."""
    members = [hpa((1, most), 1, cluster=name) for name, most in (("a", 6), ("b", 4), ("c", 2))]
    return planned(members, {"a": bounds(1, 3), "b": bounds(1, 9), "c": None})


def planned(members: list[Member], goals: Mapping[str, Bounds | None]) -> Plan:
    """A pass that leaves these goals."""
    before = assigned(members)
    return Plan(rules=rules(), members=members, previous=before, goals=goals, scales={}, left=before)


async def written(writer: Recorder, plan: Plan, versions: Mapping[str, str] | None = None) -> list[Outcome]:
    readings = {name: HpaReading(None, version) for name, version in (versions or {}).items()}
    return list(
        await carry_out(
            plan.next_writes, to_hpas(cast(MemberHpaWriter, writer), KEY, 3.0, FEDERATED, readings)
        )
    )


async def test_maxima_are_raised_after_others_were_lowered() -> None:
    """The sum of the maxima never passes the total."""
    writer = Recorder()

    outcomes = await written(writer, moved())

    assert [cluster for cluster, _, _ in writer.calls] == ["a", "b"]
    assert writer.calls[-1] == ("b", 1, 9)
    assert writer.deleted == ["c"]
    assert {outcome.result for outcome in outcomes} == {Result.CONFIRMED}
    assert all(outcome.reason == "" for outcome in outcomes)


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (Conflict("409", status=409), Result.REFUSED),
        (ApiError("403", status=403), Result.REFUSED),
        (NotOwned("an HPA is not ours"), Result.REFUSED),
        (ApiError("500", status=500), Result.UNKNOWN),
        (ApiError("timed out", status=0, reason="Timeout"), Result.UNKNOWN),
        (MemberUnavailable("a", "no answer within 3 s"), Result.UNKNOWN),
        (RuntimeError("an error of ours"), Result.UNKNOWN),
    ],
    ids=["conflict", "forbidden", "not ours", "server error", "time-out", "unavailable", "our own error"],
)
async def test_what_a_failed_member_keeps_is_not_given_to_another(
    error: BaseException, result: Result
) -> None:
    """Only the two replicas of c go to b, and the reason is kept."""
    writer = Recorder(errors={"a": error})

    outcomes = await written(writer, moved())

    assert ("b", 1, 6) in writer.calls
    failed = next(outcome for outcome in outcomes if outcome.write.cluster == "a")
    assert failed.result is result
    assert failed.reason
    assert sum(cluster == "a" for cluster, _, _ in writer.calls) == 1


@pytest.mark.looptime
async def test_a_member_that_hangs_costs_two_deadlines_and_is_unknown() -> None:
    """A write is a read and a change, so it may take two deadlines."""

    class Hanging(Recorder):
        async def apply(
            self, cluster: str, key: Key, spec: Mapping[str, Any], api_version: str
        ) -> tuple[str, ...]:
            if cluster == "a":
                await asyncio.sleep(3600)
            return await super().apply(cluster, key, spec, api_version)

    writer, began = Hanging(), asyncio.get_running_loop().time()

    outcomes = await written(writer, moved())

    assert asyncio.get_running_loop().time() - began == 6.0
    failed = next(outcome for outcome in outcomes if outcome.write.cluster == "a")
    assert (failed.result, failed.reason) == (Result.UNKNOWN, "no answer within 6 s")
    assert ("b", 1, 6) in writer.calls


async def test_each_member_gets_the_version_that_it_serves() -> None:
    """v2beta2 has no tolerance. A member of unknown version gets v2."""
    members = [hpa(None, 1, cluster="a"), hpa(None, 1, cluster="b")]
    plan = planned(members, {"a": bounds(1, 2), "b": bounds(1, 2)})
    writer = Recorder()

    await written(writer, plan, {"a": V2BETA2})

    assert writer.specs["a"]["apiVersion"] == V2BETA2
    assert writer.specs["a"]["behavior"] == {"scaleUp": {}}
    assert writer.specs["b"]["apiVersion"] == V2
    assert writer.specs["b"]["behavior"] == {"scaleUp": {"tolerance": "0.05"}}
