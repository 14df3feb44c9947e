"""When the webhook reads the hub."""

from __future__ import annotations

import pytest

from fedhpa.serving.flags.parsing import parse_flags
from webhook.hub import wants_hub
from webhook.settings import FLAGS


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ([], False),
        (["--kubeconfig=hub.yaml"], True),
        (["--kubeconfig=hub.yaml", "--cross-object-warnings=off"], False),
        (["--cross-object-warnings=on"], True),
        (["--cross-object-warnings=auto"], False),
    ],
)
def test_the_hub_is_read_where_it_is_given_or_asked_for(flags: list[str], expected: bool) -> None:
    """Without a kubeconfig nothing is read, unless the pod's own account is to be taken."""
    assert wants_hub(parse_flags(FLAGS, flags, {})) is expected
