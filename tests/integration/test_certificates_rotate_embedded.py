"""Certificates and their root change under load, on the embedded plane (tests/real has a real API server)."""

from __future__ import annotations

from testbed.embedded.plane import Plane
from tests.support.kept_certificates import KeptCertificates, rotate_under_load
from tests.support.nightly import only_at_night


@only_at_night  # tests/property/test_certificate_stages.py has every stage, without a process
async def test_no_request_fails_while_certificates_and_root_change() -> None:
    """Each bundle that may be in use trusts each served certificate. tests/real kills the leader, too."""
    plane = Plane(members=())
    try:
        await plane.start()
        kept = KeptCertificates(
            plane,
            plane.hub.kubeconfig,
            "--certificates-settle-time=3s",
            "--certificates-lifetime=60s",
            lag=0.5,
        )
        async with plane.hub.api() as api:
            await rotate_under_load(kept, api, rate=30.0, kills=(), renews=False)
        kept.check()
    finally:
        await plane.end()
