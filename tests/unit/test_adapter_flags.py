"""The metrics adapter accepts the flags of Karmada's adapter and of Kubernetes' aggregated API servers."""

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
def test_the_flags_of_an_aggregated_server_are_accepted(argument: str) -> None:
    """Flags without effect are accepted too, so that existing Deployments start."""
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
def test_store_flags_without_effect_are_named(arguments: list[str], unused: list[str]) -> None:
    """Store flags without --metrics-source=prometheus are reported, but are not an error."""
    assert without_effect(parse_flags(FLAGS, arguments, {})) == unused
