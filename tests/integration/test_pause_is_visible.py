"""A paused controller shows that it is paused."""

from __future__ import annotations

from pathlib import Path

import aiohttp

from testbed.stage.ports import free_port
from tests.integration.test_controller_leads import process
from tests.support.controller import world_on_sockets
from tests.support.fakeapi import eventually


async def test_paused_is_seen_from_outside(tmp_path: Path) -> None:
    """/readyz?verbose and the series show the pause, and /decisions still requires a token."""
    metrics, health = free_port(), free_port()
    async with world_on_sockets(m1=2) as w, aiohttp.ClientSession() as session:
        w.load(400)
        w.scale()
        flags = (
            f"--metrics-bind-address=127.0.0.1:{metrics}",
            f"--health-probe-bind-address=127.0.0.1:{health}",
            # It leads, and its member is there, however long the machine stands still.
            "--member-deadline=60s",
            "--leader-elect-lease-duration=180s",
            "--leader-elect-renew-deadline=120s",
        )
        async with process(w, tmp_path, "first", "--pause", *flags):
            await eventually(
                lambda: w.members["m1"].request_count("GET", "/v1beta1/namespaces/shop/pods") >= 2
            )
            async with session.get(f"http://127.0.0.1:{health}/readyz?verbose") as answer:
                ready = await answer.text()
            async with session.get(f"http://127.0.0.1:{metrics}/metrics") as answer:
                series = await answer.text()
            async with session.get(f"http://127.0.0.1:{metrics}/decisions") as answer:
                refused = answer.status

        assert w.replicas == {"m1": 2}
    assert "[+]paused-by-flag ok" in ready
    assert "fedhpa_controller_paused 1.0" in series
    assert refused == 401
