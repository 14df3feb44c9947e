"""`fedhpa record`, `explain`, `replay` and `preview` as they are run, against a hub over TLS."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest
import yaml

from tests.support.commands import Ran, fedhpa_process, fedhpa_thread, kubeconfig
from tests.support.controller import ControllerWorld, federated_hpa, world_on_sockets
from tests.support.fakeapi import PATIENCE, eventually

# Some commands are run again.
pytestmark = pytest.mark.timeout(600)

T = TypeVar("T")


async def fedhpa(w: ControllerWorld, folder: Path, *arguments: str) -> Ran:
    """Runs the command with a kubeconfig of the hub."""
    return await fedhpa_thread(*arguments, "--kubeconfig", str(kubeconfig(w.hub, folder)))


async def settled(poll: Callable[[], Awaitable[T]], good: Callable[[T], bool]) -> T:
    """Returns the first good result of `poll`, or after the deadline the last one. A command waits three
    seconds for members; this process simulates the members and may pause for longer.
    """
    ends = time.monotonic() + PATIENCE
    while not good(found := await poll()) and time.monotonic() < ends:
        pass
    return found


def wants(ran: Ran, *sizes: int) -> bool:
    """True if the output has decisions for these sizes, now and then."""
    if not ran.out:
        return False  # it said why not
    found = json.loads(ran.out)
    decisions = [found] if isinstance(found, dict) else [found[0]["now"], found[0]["then"]]
    return [one["desiredReplicas"] for one in decisions] == list(sizes)


async def test_a_decision_is_explained_recorded_and_made_again(tmp_path: Path) -> None:
    """Standard output is data alone, so that one command feeds the next."""
    async with world_on_sockets(m1=2, m2=2) as w:
        w.load(400)
        w.scale(dryRun=True)
        async with w.controller():
            await eventually(lambda: w.status().get("desiredReplicas") == 8)
        explained = await fedhpa_process(
            "explain", "fhpa/web", "--kubeconfig", str(kubeconfig(w.hub, tmp_path))
        )
        file = tmp_path / "web.json"

        async def poll() -> tuple[Ran, Ran]:
            recorded = await fedhpa(w, tmp_path, "record", "fhpa/web", "-f", str(file))
            return recorded, await fedhpa_thread("replay", str(file), "-o", "json")

        recorded, replayed = await settled(poll, lambda ran: wants(ran[1], 8))

    assert (explained.code, recorded.code, replayed.code) == (0, 0, 0), recorded.err + replayed.err
    assert "would scale 4 -> 8 replicas" in explained.out
    assert "m2: 200m from 2 pods" in explained.out
    assert recorded.out == ""
    decision = json.loads(replayed.out)
    assert (decision["currentReplicas"], decision["desiredReplicas"]) == (4, 8)


async def test_a_change_is_previewed(tmp_path: Path) -> None:
    """The exit code is 0 if the change would be admitted and 1 if it would be refused. Nothing is written."""
    changed, wrong = tmp_path / "changed.yaml", tmp_path / "wrong.yaml"
    changed.write_text(yaml.safe_dump(federated_hpa(maxReplicas=6)))
    wrong.write_text(yaml.safe_dump(federated_hpa(minReplicas=9, maxReplicas=6)))
    async with world_on_sockets(m1=2, m2=2) as w:
        w.load(400)
        w.scale(dryRun=True)

        async def poll() -> Ran:
            return await fedhpa(
                w, tmp_path, "preview", "-f", str(changed), "--propagation=direct", "-o", "json"
            )

        good = await settled(poll, lambda ran: wants(ran, 8, 6))
        bad = await fedhpa(w, tmp_path, "preview", "-f", str(wrong), "--propagation=direct")
        absent = await fedhpa(w, tmp_path, "record", "fhpa/other")

        assert w.hub.writes == []
    assert (good.code, bad.code, absent.code) == (0, 1, 2), good.err + bad.err
    (preview,) = json.loads(good.out)
    assert (preview["now"]["desiredReplicas"], preview["then"]["desiredReplicas"]) == (8, 6)
    assert "would be refused: spec.maxReplicas" in bad.out
    assert absent.err == (
        "fedhpa: FederatedHPA shop/other not found: name its namespace with -n, or see the names with: "
        "kubectl get fhpa -A\n"
    )


HPAS_PATH = "/apis/autoscaling.karmada.io/v1alpha1/namespaces/shop/federatedhpas"
COMMANDS = [("explain", "fhpa/web"), ("record", "fhpa/web"), ("preview", "-f", "{}", "--propagation=direct")]


REMEDIES = {
    401: "log in again, or correct --kubeconfig or --context",
    403: "ask an administrator of the hub for this right, or choose another --context",
    500: "run the command again",
    404: "the hub does not serve this kind: choose another --context, or see how to install it ",
}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: str(command[0]))
async def test_a_refusal_of_the_hub_is_one_line(tmp_path: Path, command: tuple[str, ...]) -> None:
    """The line names the object and the remedy, and the exit code is 2."""
    changed = tmp_path / "changed.yaml"
    changed.write_text(yaml.safe_dump(federated_hpa()))
    async with world_on_sockets() as w:
        for status, remedy in REMEDIES.items():
            w.hub.faults.status[f"{HPAS_PATH}/web"] = status
            ran = await fedhpa(w, tmp_path, *(part.format(changed) for part in command))

            assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), status
            assert ran.err.startswith("fedhpa: cannot read FederatedHPA shop/web: ")
            assert remedy in ran.err


async def test_a_hub_that_is_down_is_one_line(tmp_path: Path) -> None:
    """Nobody listens at the address of the kubeconfig."""
    async with world_on_sockets() as w:
        file = kubeconfig(w.hub, tmp_path)
    ran = await fedhpa_thread("explain", "fhpa/web", "--kubeconfig", str(file))
    unknown = await fedhpa_thread("explain", "fhpa/web", "--kubeconfig", str(file), "--context", "x")

    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert ran.err.endswith(
        "cannot connect: Connection refused: check --kubeconfig and --context, and the hub with: "
        "kubectl cluster-info\n"
    )
    assert unknown.err == f"fedhpa: kubeconfig {file} has no context 'x': see `kubectl config get-contexts`\n"
