"""Certificates and their CA change under load, on the embedded plane (tests/real has a real API server)."""

from __future__ import annotations

from testbed.embedded.plane import Plane
from tests.support.kept_certificates import KeptCertificates, rotate_under_load
from tests.support.nightly import only_at_night


@only_at_night  # tests/virtual/test_ca_is_rotated.py has every step, without a process
async def test_no_request_fails_while_certificates_and_ca_change() -> None:
    """Each bundle that may be in use trusts each served certificate. tests/real kills processes, too."""
    plane = Plane(members=())
    try:
        await plane.start()
        kept = KeptCertificates(
            plane,
            plane.hub.kubeconfig,
            "--certificates-lifetime=60s",
            lag=0.5,
            settle=3.0,
        )
        async with plane.hub.api() as api:
            await rotate_under_load(kept, api, rate=30.0, kills=(), renews=False)
        kept.check()
    finally:
        await plane.end()
