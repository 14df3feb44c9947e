"""What the metrics adapter takes of the flags of Karmada's and of Kubernetes' aggregated servers."""

from __future__ import annotations

import pytest

from fedhpa.serving.flags import parse_flags
from metrics_adapter.settings import FLAGS


@pytest.mark.parametrize(
    "argument",
    [
        "--profiling=true",
        "--profiling=false",
        "--disable-http2-serving",
        "--http2-max-streams-per-connection=1000",
        "--requestheader-uid-headers=X-Remote-Uid",
        "--tls-min-version=VersionTLS13",
    ],
)
def test_the_flags_of_an_aggregated_server_are_taken(argument: str) -> None:
    """Also those that change nothing here: a Deployment that has them starts."""
    name = argument.removeprefix("--").partition("=")[0]
    flag = next(flag for flags in FLAGS.values() for flag in flags if flag.name == name)

    assert parse_flags(FLAGS, [argument], {}).given(flag)
