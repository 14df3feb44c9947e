"""The embedded plane has the schemas of the real API server."""

from testbed.embedded.objects.definitions import definitions
from testbed.real.plane import Plane
from tests.conformance.definitions import fetch


async def test_definitions_are_up_to_date(plane: Plane) -> None:
    """`python -m tests.conformance.definitions KUBECONFIG` would write the same file."""
    found = await fetch(str(plane.hub.kubeconfig))

    assert found == definitions()
