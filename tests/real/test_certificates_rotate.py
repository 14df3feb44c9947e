"""Certificates and their root change under load, on a real API server, and the leader is killed meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from testbed.real.plane import Plane
from tests.support.kept_certificates import KeptCertificates, rotate_under_load
from tests.support.nightly import NIGHT, NIGHTLY

# Requests a second; settle time, and how late kubelet and API servers are, in seconds.
RATE, SETTLE, LAG = (200.0, 8.0, 6.0) if NIGHTLY else (60.0, 3.0, 2.0)


@pytest.mark.parametrize("_", [pytest.param(None, marks=NIGHT, id="nightly" if NIGHTLY else "quick")])
async def test_no_request_fails_while_certificates_and_root_change(assets: Path, _: None) -> None:
    """Neither admission nor metrics fail, and every bundle in use trusts every certificate that is served.

    Webhook and adapter start before their Secrets exist, and the controller has exactly the printed rights.
    Nightly, certificates are also renewed at two thirds of their life, and the leader is killed in each
    stage.
    """
    plane = Plane(assets, members=())
    kept = KeptCertificates(
        plane,
        plane.hub.kubeconfig,
        f"--certificates-settle-time={SETTLE:g}s",
        "--certificates-lifetime=60s",
        lag=LAG,
    )
    try:
        await plane.start()
        async with plane.hub.api() as api:
            kills = ("publish", "drop") if NIGHTLY else ("publish",)
            await rotate_under_load(kept, api, rate=RATE, kills=kills, renews=NIGHTLY)
        kept.check()
    finally:
        plane.end()
