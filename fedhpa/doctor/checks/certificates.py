"""The lifetimes of the certificates that the checks depend on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from shlex import quote
from typing import Final

from fedhpa.api.rights import ADAPTER, WEBHOOK
from fedhpa.doctor.checks.calls import issue_command
from fedhpa.doctor.findings import Finding
from fedhpa.doctor.observations import Certificate

DAY_SECONDS: Final = 86_400.0
# Certificates are renewed with a third of their life left, so a renewal is overdue long before this.
SOON_SECONDS: Final = 14 * DAY_SECONDS
# A certificate that lives for hours is renewed later than two weeks before its end.
LEAST_SHARE: Final = 0.2
# Only a person replaces the CA that the controller keeps. As certs.authority.CA_NOTICE.
CA_SECONDS: Final = 365 * DAY_SECONDS
SHOW, ROTATE = "fedhpa certs show", "fedhpa certs rotate-ca"
# Our servers by the first word of a certificate's place.
SERVERS: Final = {"webhook": WEBHOOK, "apiservice": ADAPTER}


def check_certificates(
    certificates: Iterable[Certificate], now: float, namespace: str, broken: Iterable[str]
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
        command = _renewal(each.place, namespace)
        if left <= 0:
            yield Finding("certificate-expired", each.place, f"It expired {days(-left)} ago.", command)
        else:
            yield Finding("certificate-expires-soon", each.place, f"It expires in {days(left)}.", command)


def check_managed_ca(certificates: Iterable[Certificate], now: float) -> Iterator[Finding]:
    """Yields a finding in the last year of the CA that the controller keeps, until its last two weeks."""
    left = min((each.expires - now for each in certificates if is_ca(each.place)), default=2 * CA_SECONDS)
    if SOON_SECONDS < left <= CA_SECONDS:
        yield Finding("ca-rotation-due", "Secret fedhpa-ca", f"The CA expires in {days(left)}.", ROTATE)


def managed_command(finding: Finding, certificates: Iterable[Certificate], now: float) -> str:
    """Returns the command of a finding where the controller issues and publishes our certificates."""
    chain = finding.subject.partition(" ")[0]
    if finding.id.startswith(("webhook-certificate-", "apiservice-certificate-")):
        expired = any(each.expires <= now for each in certificates if is_ca(each.place))
        return ROTATE if expired else SHOW
    if finding.id in ("certificate-expired", "certificate-expires-soon") and chain in SERVERS:
        return ROTATE if is_ca(finding.subject) else SHOW
    return finding.command


def is_ca(place: str) -> bool:
    """True for the place of the CA of our servers."""
    return place in [f"{chain} caBundle" for chain in SERVERS]


def _renewal(place: str, namespace: str) -> str:
    chain, _, rest = place.partition(" ")
    if chain in SERVERS:
        return issue_command(SERVERS[chain], namespace)
    if chain == "member":
        return f"fedhpa join {quote(rest.partition(' ')[0])} --cluster-kubeconfig FILE"
    return "kubectl -n kube-system get configmap extension-apiserver-authentication -o yaml"


def days(seconds: float) -> str:
    """Returns a duration in days, in hours below two days, or in minutes below two hours."""
    if seconds >= 2 * DAY_SECONDS:
        return f"{seconds / DAY_SECONDS:.0f} days"
    if seconds >= 2 * 3_600:
        return f"{seconds / 3_600:.0f} hours"
    return f"{seconds / 60:.0f} minutes"
