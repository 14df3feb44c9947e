"""`fedhpa cordon`, `drain`, `uncordon` and `unjoin --drain` against a hub.

The controller runs where replicas move. For states that stand still, the tests write its statuses.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fedhpa.api.errors import ConfigError
from fedhpa.api.rights import hub_rights
from fedhpa.cli.drain.taints import change_taints, with_taint
from fedhpa.kube import SYSTEM, ApiClient, load_config
from testbed.embedded.api.types import Attributes
from testbed.embedded.controlplane import ControlPlane
from tests.support.commands import Ran, fedhpa_process, fedhpa_thread, kubeconfig
from tests.support.controller import ON_TARGET_MILLI, ControllerWorld, cluster_object, world_on_sockets
from tests.support.draining import CLUSTERS, GROUP, rule, started_hub, status, write
from tests.support.fakeapi import eventually
from tests.support.fewer_rights import first_of
from tests.support.timing import PATIENCE
from tests.support.tutorial import blocks, pattern, steps, tidy

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "take-a-cluster-out-for-maintenance.md"
ROOM = {"type": "SurvivesClusterLoss", "status": "True", "reason": "RoomElsewhere", "message": "room"}
THEIRS = {"key": "network", "value": "slow", "effect": "NoExecute", "timeAdded": "2026-11-24T00:00:00Z"}
# As many as client-go makes.
TRIES = 5
THREE = {"member1": 4, "member2": 4, "member3": 4}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands look ten times as often, also on a busy machine."""
    monkeypatch.setattr("fedhpa.cli.drain.draining.SECONDS", 0.2)
    monkeypatch.setattr("fedhpa.cli.drain.draining.PAUSE_FOR_WORK", 0.0)


def web(**fields: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"maxReplicas": 20}, status(THREE, **fields)


async def fedhpa(hub: ControlPlane, *arguments: str) -> Ran:
    return await fedhpa_thread(*arguments, "--kubeconfig", str(hub.kubeconfig))


async def taints(hub: ControlPlane, name: str = "member2") -> list[Any]:
    async with hub.api() as api:
        found = (await api.get(f"{CLUSTERS}/{name}"))["spec"].get("taints")
        return found if isinstance(found, list) else []


async def taint(hub: ControlPlane, *theirs: dict[str, Any]) -> None:
    async with hub.api() as api:
        await api.patch(f"{CLUSTERS}/member2", {"spec": {"taints": list(theirs)}})


async def test_the_page_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command of the page prints what the page shows, with the real controller.

    At the end the Cluster is as before, and each replica runs in one of the other members.
    """
    page = PAGE.read_text(encoding="utf-8")
    async with world_on_sockets(**THREE) as w, controller_of(w, tmp_path, monkeypatch):
        followed = [step for block in blocks(page, "console") for step in steps(block)]
        for step in followed:
            ran = await fedhpa_process(*step.command.removeprefix("fedhpa ").split())
            assert pattern(step.shown).fullmatch(tidy(ran.out)), f"{step.command}\n{ran.out}{ran.err}"
            assert ran.code == 0

        assert cluster_object(w, "member2")["spec"].get("taints", []) == []
        assert w.replicas == {"member1": 6, "member2": 0, "member3": 6}
    assert [step.command.split()[1] for step in followed] == ["drain", "cordon", "drain", "uncordon"]


@asynccontextmanager
async def controller_of(
    w: ControllerWorld, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[None]:
    """Runs the controller for shop/web. Commands find the hub without a flag."""
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(w.hub, folder)))
    w.load(ON_TARGET_MILLI * sum(THREE.values()))
    w.scale()
    async with w.controller():
        await eventually(lambda: w.status().get("desiredReplicas") == sum(THREE.values()))
        yield


async def test_a_cordon_keeps_all_other_taints(tmp_path: Path) -> None:
    """It has the time when it was added. A second one writes nothing. Uncordon leaves the others."""
    async with started_hub(tmp_path) as hub:
        await taint(hub, THEIRS)
        first, second = await fedhpa(hub, "cordon", "member2"), await fedhpa(hub, "cordon", "member2")
        found = await taints(hub)
        drained = await fedhpa(hub, "drain", "member2")
        both = await taints(hub)
        undone = await fedhpa(hub, "uncordon", "member2")
        again = await fedhpa(hub, "uncordon", "member2")

        assert await taints(hub) == [THEIRS]
    assert (first.code, second.code, drained.code, undone.code, again.code) == (0, 0, 0, 0, 0)
    assert "was cordoned already" in second.out
    assert found == [THEIRS, {**found[1], "key": "fedhpa.io/cordon", "effect": "NoSchedule"}]
    assert found[1]["timeAdded"].endswith("Z")
    assert [(one["key"], one["effect"]) for one in both[2:]] == [("fedhpa.io/drain", "NoSchedule")]
    assert again.out == "member2 was neither cordoned nor draining.\n"


@asynccontextmanager
async def client(hub: ControlPlane) -> AsyncIterator[ApiClient]:
    async with ApiClient(await load_config(str(hub.kubeconfig), clock=SYSTEM)) as found:
        yield found


@pytest.mark.parametrize("conflicts", [1, TRIES])
async def test_a_conflict_is_tried_again_on_what_is_stored_then(tmp_path: Path, conflicts: int) -> None:
    """A taint that somebody adds in between stays. A Cluster that changes all the time is an error."""
    async with started_hub(tmp_path) as hub, client(hub) as api:
        add, left = with_taint("fedhpa.io/drain", 1_800_000_000.0), conflicts

        def change(before: list[Any]) -> list[Any]:
            nonlocal left
            if left:
                left -= 1
                stored = hub.store.get(("cluster.karmada.io", "clusters"), "", "member2")
                stored["spec"]["taints"] = [*stored["spec"].get("taints", []), {**THEIRS, "key": f"k{left}"}]
                hub.store.update(("cluster.karmada.io", "clusters"), stored)
            return add(before)

        if conflicts == TRIES:
            with pytest.raises(ConfigError, match="cannot write Cluster member2"):
                await change_taints(api, "member2", change)
        else:
            await change_taints(api, "member2", change)
        keys = [one["key"] for one in await taints(hub)]

    assert keys == (
        ["k0", "fedhpa.io/drain"] if conflicts == 1 else [f"k{n}" for n in reversed(range(TRIES))]
    )


async def test_a_hub_that_drops_taints_is_named(tmp_path: Path) -> None:
    """A CRD of an earlier release has no field for them, and drops them without a word."""
    crds = ("apiextensions.k8s.io", "customresourcedefinitions")
    async with started_hub(tmp_path) as hub:
        found = hub.store.get(crds, "", "clusters.cluster.karmada.io")
        spec = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        del spec["properties"]["taints"]
        spec.pop("x-kubernetes-preserve-unknown-fields", None)
        hub.store.update(crds, found)
        ran = await fedhpa(hub, "cordon", "member2")

    assert ran.code == 2
    assert "the hub drops spec.taints of Cluster member2" in ran.err


async def test_a_wrong_name_is_named(tmp_path: Path) -> None:
    async with started_hub(tmp_path) as hub:
        for command in ("cordon", "drain", "uncordon"):
            unknown = await fedhpa(hub, command, "nosuch")
            no_name = await fedhpa(hub, command, "No.Name")

            assert (unknown.code, no_name.code) == (2, 2), command
            assert "Cluster nosuch" in unknown.err
            assert unknown.err.endswith("not found: see the names with: kubectl get clusters\n")
            assert no_name.err.startswith("fedhpa: CLUSTER='No.Name': a lowercase RFC 1123 label")


@pytest.mark.parametrize("timeout", ["soon", "0s", "-1m"])
async def test_a_wrong_timeout_is_named(timeout: str) -> None:
    drained = await fedhpa_thread("drain", "member2", f"--timeout={timeout}")
    unused = await fedhpa_thread("unjoin", "member2", "--timeout=1h")

    assert (drained.code, unused.code) == (2, 2)
    assert drained.err.startswith("fedhpa: --timeout")
    assert unused.err == "fedhpa: --timeout: is for --drain, which is not set\n"


async def test_what_karmada_places_is_refused(tmp_path: Path) -> None:
    """Nothing is written, and the message has the objects and the placement to write."""
    placed = status(THREE, summary={"propagation": "karmada"})
    many: dict[str, Any] = {f"w{number:02}": ({}, placed) for number in range(12)}
    async with started_hub(tmp_path, **many) as hub, hub.api() as api:
        for command in (("cordon",), ("drain",), ("drain", "--dry-run"), ("unjoin", "--drain")):
            ran = await fedhpa(hub, *command, "member2")

            assert (await api.get(f"{CLUSTERS}/member2"))["metadata"]["generation"] == 1
            assert (ran.code, ran.out) == (1, ""), command
            assert "shop/w00, shop/w01" in ran.err
            assert "and 2 more" in ran.err
            assert ran.err.endswith("spec:\n  placement:\n    clusterAffinity:\n      exclude: [member2]\n")


async def test_a_drain_prints_a_line_for_each_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a pipe there is no escape sequence. Each object has its lines, and then the sum."""
    async with world_on_sockets(**THREE) as w:
        for name in ("member1", "member2"):
            w.members[name].deploy(1, "api", "api")
        w.scale("api", scaleTargetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"})
        w.hub.put((GROUP, "cronfederatedhpas"), rule("night", "batch"))
        async with controller_of(w, tmp_path, monkeypatch):
            await eventually(lambda: w.status("api").get("desiredReplicas") == 2)
            ran = await fedhpa_process("drain", "member2")

    lines = ran.out.splitlines()
    assert (ran.code, "\x1b" in ran.out + ran.err) == (0, False)
    assert any(line.startswith("  shop/web: 4 replicas still there: ") for line in lines)
    assert "member2: 5 of 5 replicas moved, 0 objects left" in lines
    assert lines[-3].startswith("member2 is drained: 5 replicas moved.")
    assert lines[-1] == "  shop/night: a CronFederatedHPA alone scales Deployment batch, so its replicas stay"
    assert len(lines) == len(set(lines))


async def test_a_timeout_lists_what_waits(tmp_path: Path) -> None:
    """The cluster goes on draining, and the exit code is 1. JSON is one document with the same."""
    dry = {"dryRun": True}
    async with started_hub(tmp_path, web=(dry, status(THREE))) as hub:
        as_text = await fedhpa(hub, "drain", "member2", "--timeout=300ms")
        as_json = await fedhpa(hub, "drain", "member2", "--timeout=300ms", "-o", "json")
        keys = [one["key"] for one in await taints(hub)]

    waits = {"name": "shop/web", "replicas": 4, "reason": "spec.dryRun is true, so nothing is moved"}
    assert (as_text.code, as_json.code, keys) == (1, 1, ["fedhpa.io/drain"])
    assert (
        "member2 is not drained: 4 replicas still there. It goes on draining.\n  shop/web: 4" in as_text.out
    )
    assert f"Undo it: fedhpa uncordon member2 --kubeconfig={hub.kubeconfig}" in as_text.out
    assert json.loads(as_json.out) == {
        "cluster": "member2",
        "drained": False,
        "replicas": 4,
        "moved": 0,
        "waiting": [waits],
        "notMoved": [],
    }


async def test_ctrl_c_ends_only_the_waiting(tmp_path: Path) -> None:
    """The taint stays, and stderr has the commands that watch again and undo it."""
    async with started_hub(tmp_path, web=({"dryRun": True}, status(THREE))) as hub:
        command = ["drain", "member2", "--kubeconfig", str(hub.kubeconfig)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "fedhpa.cli.main", *command),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(PATIENCE):
                assert process.stdout is not None
                first = await process.stdout.readline()
                process.send_signal(signal.SIGINT)
                _, err = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        keys = [one["key"] for one in await taints(hub)]

    assert first == b"  shop/web: 4 replicas still there: spec.dryRun is true, so nothing is moved\n"
    assert (process.returncode, keys) == (130, ["fedhpa.io/drain"])
    again, undo = (f"fedhpa {name} member2 --kubeconfig={hub.kubeconfig}" for name in ("drain", "uncordon"))
    last = f"member2 goes on draining. Watch it again: {again}. Undo it: {undo}"
    assert err.decode().splitlines()[1:] == [last]


async def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    """It exits 1 if some replicas would stay."""
    async with started_hub(tmp_path, web=web(), old=({"dryRun": True}, status(THREE))) as hub:
        as_text = await fedhpa(hub, "drain", "member2", "--dry-run")
        as_json = await fedhpa(hub, "drain", "member2", "--dry-run", "-o", "json")
        await taint(hub, {"key": "fedhpa.io/cordon", "effect": "NoSchedule"})
        other = await fedhpa(hub, "drain", "member1", "--dry-run")
        left = await taints(hub, "member1")

    found = json.loads(as_json.out)
    assert (as_text.code, as_json.code, left) == (1, 1, [])
    assert "member2 runs 8 replicas of 2 objects; 1 object would keep some there" in as_text.out
    assert [one["division"] for one in found["objects"]] == [None, {"member1": 2, "member3": 2}]
    assert "shop/web: 4 replicas: 4 to member3" in other.out


async def test_unjoin_drains_first(tmp_path: Path) -> None:
    """A cluster that cannot be drained stays registered."""
    async with started_hub(tmp_path, web=web()) as hub:
        stays = await fedhpa(hub, "unjoin", "member2", "--drain", "--timeout=300ms")
        async with hub.api() as api:
            assert await api.find(f"{CLUSTERS}/member2") is not None
            labels = {"fedhpa.io/cluster": "member2"}  # as fedhpa join has made it
            await api.patch(f"{CLUSTERS}/member2", {"metadata": {"labels": labels}})
            await write(api, "web", status({"member1": 6, "member3": 6}))
            goes = await fedhpa(hub, "unjoin", "member2", "--drain", "--timeout=30s")
            assert await api.find(f"{CLUSTERS}/member2") is None

    assert (stays.code, goes.code) == (1, 0)
    assert stays.err.endswith("fedhpa: member2 stays registered, because it is not drained\n")
    assert "member2 is drained: 0 replicas moved." in goes.out
    assert "The hub has forgotten member2." in goes.out


OPERATOR = hub_rights(components=("operator",))
# Verbs of `kubectl get --watch`. The commands list and get.
FOR_KUBECTL = {"watch"}


async def as_operator(hub: ControlPlane, removed: str) -> tuple[list[Ran], set[tuple[str, str]]]:
    """Runs the commands with the role without one rule. Returns them, and what they asked for."""
    (role,) = OPERATOR
    own = {**role, "rules": [one for one in role["rules"] if first_of(one) != removed]}
    group = "rbac.authorization.k8s.io"
    reference = {"apiGroup": group, "kind": "ClusterRole", "name": "fedhpa:operator"}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "maintenance"},
        "roleRef": reference,
        "subjects": [{"apiGroup": group, "kind": "User", "name": "ann"}],
    }
    night = {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "CronFederatedHPA",
        "metadata": {"name": "night", "namespace": "shop"},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "api"},
            "rules": [{"name": "down", "schedule": "0 22 * * *", "targetReplicas": 1}],
        },
    }
    async with hub.api() as api:
        await api.apply_all([own, binding, night])
    kubeconfig = hub.user_kubeconfig("ann")
    asked: set[tuple[str, str]] = set()
    before = hub.apiserver.allowed

    def allowed(attributes: Attributes) -> bool:
        if attributes.user.name == "ann" and attributes.resource:
            asked.add((attributes.verb, attributes.resource))
        return bool(before(attributes))

    hub.apiserver.allowed = allowed
    commands = [
        ("cordon", "member2"),
        ("drain", "member2", "--dry-run"),
        ("drain", "member2", "--timeout=300ms"),
        ("uncordon", "member2"),
        ("explain", "fhpa/web", "-n", "shop"),
        ("hold", "down", "fhpa/web", "-n", "shop"),
        ("release", "fhpa/web", "-n", "shop"),
        ("hold", "down", "--namespace-wide", "-n", "shop"),
        ("release", "--namespace-wide", "-n", "shop"),
        ("hold", "down", "cronfhpa/night", "-n", "shop"),
    ]
    return [await fedhpa_thread(*one, "--kubeconfig", str(kubeconfig)) for one in commands], asked


async def test_an_operator_needs_exactly_the_role(tmp_path: Path) -> None:
    """No right of the role is idle but those of `kubectl get --watch`, and none is missing."""
    granted = {
        (verb, resource)
        for rule in OPERATOR[0]["rules"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in FOR_KUBECTL
    }
    async with started_hub(tmp_path, web=web()) as hub:
        ran, asked = await as_operator(hub, "")

    assert [one.code for one in ran] == [0, 0, 1, 0, 1, 0, 0, 0, 0, 0]
    assert "forbidden" not in "".join(one.err for one in ran)
    assert asked <= granted
    # kubectl shows single rules and lists records; the commands do not.
    assert granted - asked == {("get", "cronfederatedhpas"), ("list", "scalingrecords")}


@pytest.mark.parametrize("removed", [first_of(one) for one in OPERATOR[0]["rules"]])
async def test_each_rule_of_the_operator_is_missed(tmp_path: Path, removed: str) -> None:
    """Without it a command fails with one line that names the right and the remedy."""
    async with started_hub(tmp_path, web=web()) as hub:
        ran, _ = await as_operator(hub, removed)

    failed = [one.err for one in ran if one.code == 2]
    assert failed
    assert all("forbidden" in one and removed.split("/")[1].split()[0] in one for one in failed)
