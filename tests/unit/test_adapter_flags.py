"""What the metrics adapter takes of the flags of Karmada's and of Kubernetes' aggregated servers."""

from __future__ import annotations

import pytest

from fedhpa.serving.flags.parsing import parse_flags
from metrics_adapter.settings import FLAGS, without_effect


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


@pytest.mark.parametrize(
    ("arguments", "unused"),
    [
        ([], []),
        (["--metrics-rules=rules.yaml"], ["--metrics-rules"]),
        (["--metrics-source=prometheus", "--metrics-rules=rules.yaml"], []),
    ],
)
def test_flags_of_a_store_that_is_not_asked_are_named(arguments: list[str], unused: list[str]) -> None:
    """Whoever switches back to the members by one flag is told, not stopped."""
    assert without_effect(parse_flags(FLAGS, arguments, {})) == unused
