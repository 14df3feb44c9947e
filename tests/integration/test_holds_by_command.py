"""`fedhpa hold` and `fedhpa release` write annotations of objects and namespaces, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedhpa.api.times import parse_time
from tests.support.commands import Ran, fedhpa_thread, kubeconfig
from tests.support.controller import HPAS, NAMESPACE, NAMESPACES, ControllerWorld, world_on_sockets
from tests.support.fakeapi import Collection
from tests.support.rules import CRONS, put_rules, window

HOLD, UNTIL = "autoscaling.karmada.io/hold", "autoscaling.karmada.io/hold-until"


async def run(w: ControllerWorld, folder: Path, *arguments: str) -> Ran:
    """Runs a command against the hub."""
    return await fedhpa_thread(*arguments, "--kubeconfig", str(kubeconfig(w.hub, folder)))


def annotated(w: ControllerWorld, collection: Collection, name: str, namespace: str = "") -> Any:
    """The annotations of an object on the hub."""
    found = w.hub.find(collection, name, namespace)
    assert found is not None
    return found["metadata"].get("annotations") or {}


async def test_objects_are_held_and_released(tmp_path: Path) -> None:
    """Both kinds get the annotations, other annotations stay, and a release removes what a hold wrote."""
    async with world_on_sockets(m1=1) as w:
        w.scale()
        put_rules(w, window(w, 2, "10m"))
        stored = w.hub.find(HPAS, "web", NAMESPACE)
        assert stored is not None
        w.hub.put(HPAS, {**stored, "metadata": {**stored["metadata"], "annotations": {"team": "shop"}}})
        names = ("fhpa/web", "cronfhpa/office", "-n", NAMESPACE)
        held = await run(w, tmp_path, "hold", "down", *names, "--for", "2h")
        during = [annotated(w, HPAS, "web", NAMESPACE), annotated(w, CRONS, "office", NAMESPACE)]
        released = await run(w, tmp_path, "release", *names)
        after = [annotated(w, HPAS, "web", NAMESPACE), annotated(w, CRONS, "office", NAMESPACE)]

    assert (held.code, released.code) == (0, 0), held.err + released.err
    assert {one[HOLD] for one in during} == {"down"}
    assert abs((parse_time(during[0][UNTIL]) or 0) - w.clock.wall() - 7200) < 600
    assert after == [{"team": "shop"}, {}]
    assert f"FederatedHPA {NAMESPACE}/web is held (down) until {during[0][UNTIL]}." in held.out
    assert f"End it with: fedhpa release fhpa/web cronfhpa/office -n {NAMESPACE} --kubeconfig" in held.out
    assert f"CronFederatedHPA {NAMESPACE}/office is released." in released.out


async def test_a_namespace_is_held_without_an_end(tmp_path: Path) -> None:
    """A hold without an end removes the end of an earlier one."""
    async with world_on_sockets(m1=1) as w:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        w.hub.put(NAMESPACES, body)
        wide = ("--namespace-wide", "-n", NAMESPACE)
        await run(w, tmp_path, "hold", "up", *wide, "--until", "2999-01-01T00:00:00Z")
        ends = annotated(w, NAMESPACES, NAMESPACE)
        held = await run(w, tmp_path, "hold", "all", *wide)

        assert ends == {HOLD: "up", UNTIL: "2999-01-01T00:00:00Z"}
        assert annotated(w, NAMESPACES, NAMESPACE) == {HOLD: "all"}
        assert f"Namespace {NAMESPACE} is held (all) until somebody releases it." in held.out


async def test_an_object_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """The exit code is 2, and the message names the object."""
    async with world_on_sockets(m1=1) as w:
        ran = await run(w, tmp_path, "hold", "down", "fhpa/none", "-n", NAMESPACE)

    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith(f"fedhpa: cannot write FederatedHPA {NAMESPACE}/none: ")
    assert ran.err.endswith(' "none" not found: correct its name, or its namespace with -n\n')


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("hold", "down"), "TARGET: expected fhpa/NAME or cronfhpa/NAME, or --namespace-wide"),
        (("hold", "down", "web"), "'web': expected fhpa/NAME or cronfhpa/NAME"),
        (("hold", "down", "deployment/web"), "'deployment/web': expected fhpa/NAME or cronfhpa/NAME"),
        (("release", "fhpa/web", "--namespace-wide"), "--namespace-wide: give no TARGET with it"),
        (("hold", "up", "fhpa/web", "--for", "-1h"), "--for=-1h: expected a duration above 0, such as 2h"),
        (
            ("hold", "up", "fhpa/web", "--until", "2020-01-01T00:00:00Z"),
            "--until=2020-01-01T00:00:00Z: expected a time in the future",
        ),
        (
            ("hold", "up", "fhpa/web", "--for", "1h", "--until", "2999-01-01T00:00:00Z"),
            "--for and --until: give only one of them",
        ),
    ],
)
async def test_wrong_usage_is_named(arguments: tuple[str, ...], error: str) -> None:
    """The exit code is 2, and one line on standard error says what is expected."""
    ran = await fedhpa_thread(*arguments)

    assert (ran.code, ran.out, ran.err) == (2, "", f"fedhpa: {error}\n")
