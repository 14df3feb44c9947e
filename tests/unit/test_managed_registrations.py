"""The registrations that the controller publishes the CA to are those that the commands print."""

from __future__ import annotations

import pytest

from certs.certificate_store import ADAPTER, REGISTRATIONS, SERVICES, WEBHOOK
from controller.flags import SECTIONS
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


@pytest.mark.parametrize("lifetime", ["59s", "43801h", "9999999999h"])
def test_a_certificate_lives_for_a_minute_to_five_years(lifetime: str) -> None:
    """The CA lives twice as long."""
    parse_flags(SECTIONS, ["--certificates-lifetime=43800h"], {})
    with pytest.raises(ConfigError, match="--certificates-lifetime="):
        parse_flags(SECTIONS, [f"--certificates-lifetime={lifetime}"], {})


@pytest.mark.parametrize("hosts", ["a b", "-x.example", "256.1.1.1.", ",".join(f"h{i}" for i in range(65))])
def test_hosts_are_names_or_addresses(hosts: str) -> None:
    """Other texts are refused at the start, and not at the first certificate."""
    with pytest.raises(ConfigError, match="--certificates-hosts="):
        parse_flags(SECTIONS, [f"--certificates-hosts={hosts}"], {})
