"""Certificates and their CA change under load on a real API server; leader and command are killed."""

from __future__ import annotations

from pathlib import Path

from testbed.real.plane import Plane
from tests.support.kept_certificates import KeptCertificates, rotate_under_load
from tests.support.nightly import only_at_night

# Seconds. Kubelet and API servers are late by nearly the settle time.
SETTLE, LAG = 9.0, 6.0


@only_at_night
async def test_no_request_fails_while_certificates_and_ca_change(assets: Path) -> None:
    """Of 200 requests a second none fails, and every bundle in use trusts every certificate that is served.

    Webhook and adapter start before their Secrets exist, and the controller has exactly the printed rights.
    Certificates are renewed at two thirds of their life, and leader and command are killed in each step.
    tests/integration/test_certificates_rotate_embedded.py is the shorter test.
    """
    plane = Plane(assets, members=())
    kept = KeptCertificates(
        plane,
        plane.hub.kubeconfig,
        "--certificates-lifetime=90s",
        lag=LAG,
        settle=SETTLE,
    )
    try:
        await plane.start()
        async with plane.hub.api() as api:
            await rotate_under_load(kept, api, rate=200.0, kills=("publish", "switch"), renews=True)
        kept.check()
    finally:
        plane.end()
