"""Rotated tokens and ending watches have no visible effect for hours."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fedhpa.kube.credentials import FileToken
from testbed.embedded.api.types import User
from tests.support.federation import Federation, federation, until

pytestmark = pytest.mark.looptime(noop_cycles=0)

ADMIN_GROUP = ("system:masters",)

Logs = list[dict[str, object]]


def trouble(logs: Logs) -> Logs:
    """The log entries that would alarm a person."""
    return [entry for entry in logs if entry["log_level"] in ("warning", "error", "critical")]


async def rotate(f: Federation, name: str, number: int) -> None:
    """Rotate a member's token: first in the member, then on the hub. The old token ends at once."""
    tokens = f.members[name].authenticator.tokens
    tokens[f"{name}-{number}"] = User("fedhpa-hub", ADMIN_GROUP)
    f.join(name, f"{name}-{number}")
    for old in [token for token in tokens if token.startswith(f"{name}-") and token != f"{name}-{number}"]:
        del tokens[old]


async def test_member_tokens_are_rotated_every_ten_minutes(tmp_path: Path, logs: Logs) -> None:
    """Every reconcile has the members' data, and the watches of pods continue."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller(calm=True) as controller:
        f.demand(400)
        f.scale(syncPeriodSeconds=30)
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        logs.clear()
        written = len(f.hub.writes("/events"))
        for number in range(6):
            await asyncio.sleep(600)
            for name in f.members:
                await rotate(f, name, number)
        f.demand(600)
        await until(lambda: f.total == 12)
        await asyncio.sleep(1)

        assert f.now() > 3600
        assert controller.reconciles > 3600 / 30
        assert f.condition("MetricsComplete")[0] == "True"
        assert [entry for entry in logs if entry["event"] == "member not ready"] == []
        assert trouble(logs) == []
        assert len(f.hub.writes("/events")) - written == 1


async def test_the_hubs_token_is_rotated_every_hour(tmp_path: Path, logs: Logs) -> None:
    """The token file changes before the old token ends, as by the kubelet, and the leader stays leader."""
    folder = tmp_path / "account"
    folder.mkdir()
    async with federation(tmp_path, m1=4) as f:
        tokens, file = f.hub.authenticator.tokens, folder / "token"

        def issue(number: int) -> None:
            tokens[f"hub-{number}"] = User("controller", ADMIN_GROUP)
            file.write_text(f"hub-{number}\n")

        issue(0)
        credentials = FileToken(file, clock=f.now)
        async with f.controller(credentials=credentials, calm=True) as controller:
            f.scale(syncPeriodSeconds=300)
            await until(lambda: f.status())
            for number in range(1, 4):
                await asyncio.sleep(3300)
                issue(number)
                await asyncio.sleep(300)
                del tokens[f"hub-{number - 1}"]

            assert f.now() > 3 * 3600
            assert controller.leads
            assert {seen.user for seen in f.hub.seen} == {f"hub-{number}" for number in range(4)}
            assert trouble(logs) == []
            noticed = (
                "no longer leading",
                "list or watch failed",
                "API server does not answer",
                "configuration reloaded",
            )
            assert [entry for entry in logs if entry["event"] in noticed] == []


async def test_a_token_that_ends_without_a_word_is_read_again(tmp_path: Path) -> None:
    """After a 401 of the hub the newer token in the file is read at once."""
    file = tmp_path / "token"
    async with federation(tmp_path, m1=4) as f:
        tokens = f.hub.authenticator.tokens
        tokens["old"] = tokens["new"] = User("controller", ADMIN_GROUP)
        file.write_text("old")
        async with f.controller(credentials=FileToken(file, clock=f.now)) as controller:
            f.scale()
            await until(lambda: controller.leads and f.status())
            file.write_text("new")
            del tokens["old"]
            await asyncio.sleep(5)

            assert controller.leads
            assert f.hub.seen[-1].user == "new"


async def test_watches_that_end_are_opened_again(tmp_path: Path) -> None:
    """Watches that end every five to ten minutes cause no new list in an hour, and miss no change."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller(calm=True):
        f.demand(400)
        f.scale(syncPeriodSeconds=300)
        await asyncio.sleep(3600)
        member, path = f.members["m1"], "/api/v1/namespaces/shop/pods"
        watches = [seen for seen in member.seen if seen.path == path and "watch" in seen.query]
        lists = [seen for seen in member.seen if seen.path == path and "watch" not in seen.query]
        f.members["m2"].resize(8)
        f.demand(600)
        await until(lambda: f.status()["currentReplicas"] == 12, 600)

        assert len(lists) == 1
        assert 3600 / 600 <= len(watches) <= 3600 / 300 + 2


async def test_expired_versions_are_listed_anew(tmp_path: Path) -> None:
    """If servers compact while watches are broken, new lists have all changes."""
    async with federation(tmp_path, m1=4, m2=4) as f, f.controller():
        f.demand(400)
        f.scale()
        await until(lambda: f.condition("MetricsComplete")[0] == "True")
        for plane in (f.hub, *f.members.values()):
            await plane.listener.stop()
        f.members["m1"].resize(6)
        f.scale("other", scaleTargetRef={"apiVersion": "apps/v1", "kind": "Deployment", "name": "none"})
        f.members["m1"].controllers.step()
        for plane in (f.hub, *f.members.values()):
            plane.server.store.compact()
            await plane.listener.start()
        await until(lambda: f.status().get("currentReplicas") == 10)
        await until(lambda: f.status("other"))
        gets = [seen for seen in f.hub.seen if seen.path.endswith("/federatedhpas")]
        relists = [seen for seen in gets if "watch" not in seen.query]

        assert len(relists) == 2
        assert f.condition("MetricsComplete")[0] == "True"
