"""The flags that make the webhook read the hub."""

from __future__ import annotations

import pytest

from fedhpa.serving.flags.parsing import parse_flags
from webhook.hub_reader import wants_hub
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
def test_the_hub_is_read_with_a_kubeconfig_or_on_request(flags: list[str], expected: bool) -> None:
    """Without a kubeconfig the webhook reads the hub only with --cross-object-warnings=on."""
    assert wants_hub(parse_flags(FLAGS, flags, {})) is expected
