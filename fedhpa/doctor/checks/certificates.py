"""The lifetimes of the certificates that the hops depend on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from fedhpa.doctor.checks.calls import issue_command
from fedhpa.doctor.findings import Finding
from fedhpa.doctor.observations import Certificate

DAY_SECONDS: Final = 86_400.0
# Certificates are renewed with a third of their life left, so a renewal is overdue long before this.
SOON_SECONDS: Final = 14 * DAY_SECONDS
# A certificate that lives for hours is renewed later than two weeks before its end.
LEAST_SHARE: Final = 0.2
RENEW: Final = issue_command("SERVER")


def check_certificates(
    certificates: Iterable[Certificate], now: float, broken: Iterable[str]
) -> Iterator[Finding]:
    """Yields a finding for each certificate that has expired, or expires soon.

    `broken` are the ids of the findings so far. Where the chain of a certificate already has a finding about
    an expired certificate, that finding says everything.
    """
    known = {
        each.removesuffix("-certificate-expired") for each in broken if each.endswith("-certificate-expired")
    }
    for each in certificates:
        left, life = each.expires - now, each.expires - each.begins
        chain = each.place.partition(" ")[0]
        if left > min(SOON_SECONDS, LEAST_SHARE * life) or (left <= 0 and chain in known):
            continue
        if left <= 0:
            yield Finding("certificate-expired", each.place, f"It expired {days(-left)} ago.", RENEW)
        else:
            yield Finding("certificate-expires-soon", each.place, f"It expires in {days(left)}.", RENEW)


def days(seconds: float) -> str:
    """Returns a duration in days, or in hours below two days."""
    if seconds >= 2 * DAY_SECONDS:
        return f"{seconds / DAY_SECONDS:.0f} days"
    return f"{seconds / 3_600:.0f} hours"
