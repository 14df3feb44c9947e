"""The registrations that the controller publishes the CA to are those that the commands print."""

from __future__ import annotations

import pytest

from certs.hub import ADAPTER, REGISTRATIONS, SERVICES, WEBHOOK
from controller.flags import SECTIONS, check_certificate_flags
from fedhpa.api.errors import ConfigError
from fedhpa.serving.flags.parsing import parse_flags
from metrics_adapter.registration import NAME, Registration, api_services
from webhook.registration import Endpoint, configurations


def test_they_are_the_printed_ones() -> None:
    """`fedhpa webhook-config` and `fedhpa apiservice` print no other object with a caBundle."""
    printed = [(each, WEBHOOK) for each in configurations(Endpoint(url="https://x"), b"x")]
    printed += [(each, ADAPTER) for each in api_services(Registration(), b"x")]

    assert {
        (each["apiVersion"], f"{each['kind'].lower()}s", each["metadata"]["name"], server)
        for each, server in printed
    } == {tuple(each) for each in REGISTRATIONS}
    assert SERVICES[ADAPTER] == NAME


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ([], ""),
        (["--certificates-lifetime=30m", "--certificates-root-lifetime=1h"], ""),
        (["--certificates-root-lifetime=8760h"], "--certificates-root-lifetime: expected at least twice"),
        (["--certificates-settle-time=3000h"], "--certificates-settle-time: expected at most a third"),
        (
            ["--certificates-root-lifetime=2000000h"],
            "--certificates-root-lifetime: expected at most 100 years",
        ),
    ],
)
def test_lifetimes_fit_each_other(flags: list[str], named: str) -> None:
    """A certificate outlives two settle times after its renewal, and a root two certificates."""
    values = parse_flags(SECTIONS, flags, {})
    if not named:
        check_certificate_flags(values)
        return
    with pytest.raises(ConfigError, match=named):
        check_certificate_flags(values)


@pytest.mark.parametrize("hosts", ["a b", "-x.example", "256.1.1.1.", ",".join(f"h{i}" for i in range(65))])
def test_hosts_are_names_or_addresses(hosts: str) -> None:
    """Other texts are refused at the start, and not at the first certificate."""
    with pytest.raises(ConfigError, match="--certificates-hosts="):
        parse_flags(SECTIONS, [f"--certificates-hosts={hosts}"], {})
