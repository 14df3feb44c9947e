"""The embedded plane's schemas of built-in kinds are those of the real API server."""

from testbed.embedded.objects.definitions import definitions, fetch
from testbed.real.plane import Plane


async def test_definitions_are_up_to_date(plane: Plane) -> None:
    """`python -m testbed.embedded.objects.definitions KUBECONFIG` would write what is there already."""
    found = await fetch(str(plane.hub.kubeconfig))

    assert found == definitions()
