"""The lifetimes of the certificates that the checks depend on."""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from cryptography import x509

from fedhpa.api.free_json import text_at
from fedhpa.api.rights import ADAPTER, WEBHOOK
from fedhpa.doctor.report import DAY_SECONDS, days
from fedhpa.doctor.session import Problem
from fedhpa.doctor.site import Site
from fedhpa.kube import resource_path

# Certificates are renewed with a third of their life left, so a renewal is overdue long before this.
SOON_SECONDS: Final = 14 * DAY_SECONDS
# A certificate that lives for hours is renewed later than two weeks before its end.
LEAST_SHARE: Final = 0.2
# Only a person replaces the CA that the controller keeps. As certs.authority.CA_NOTICE.
CA_SECONDS: Final = 365 * DAY_SECONDS
# Certificates of one bundle that are looked at.
MAX_CERTIFICATES: Final = 16
MAX_BUNDLE: Final = 256 * 1024
# Our servers, by the finding that tells of an expired certificate of theirs.
SERVERS: Final = {WEBHOOK: "webhook-certificate", ADAPTER: "apiservice-certificate"}
_BLOCK: Final = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")


class Certificate(NamedTuple):
    """The lifetime of a certificate. `owner` is a server of ours, a member, or "" for the hub's own."""

    owner: str
    place: str
    begins: float
    expires: float

    @property
    def is_ca(self) -> bool:
        """True for the CA of a server of ours."""
        return self.owner in SERVERS and self.place.endswith("caBundle")


def check_certificates(site: Site, certificates: list[Certificate]) -> None:
    """Adds a finding for each certificate that has expired or expires soon, the first of each place."""
    first: dict[str, Certificate] = {}
    for each in certificates:
        first[each.place] = min(first.setdefault(each.place, each), each, key=lambda one: one.expires)
    told = False
    for each in first.values():
        left, managed = each.expires - site.now, each.is_ca and site.manages_certificates
        limit = min(SOON_SECONDS, LEAST_SHARE * (each.expires - each.begins))
        is_known = left <= 0 and site.report.has(SERVERS.get(each.owner, "-"))
        if is_known or left > (CA_SECONDS if managed else limit) or (managed and told):
            continue
        told = told or managed
        what = f"It expires in {days(left)}." if left > 0 else f"It expired {days(-left)} ago."
        site.report.add("certificate-expires", each.place, what, *_renewal(site, each))


def _renewal(site: Site, found: Certificate) -> tuple[str, str]:
    if found.owner in SERVERS:
        if site.manages_certificates:
            if found.is_ca:
                return site.commands.fedhpa(f"certs rotate-ca -n {site.system}"), ""
            return site.revived("fedhpa-controller")
        words = f"fedhpa certs issue --ca-dir CA --out DIRECTORY --common-name {found.owner}"
        return "", f"Issue another one: {words} --dns {found.owner}.{site.system}.svc"
    if found.owner:
        return site.commands.join(found.owner, "")
    return "", "Renew the request-header CA of the hub's API server, and restart it."


def from_bundle(owner: str, place: str, encoded: str) -> list[Certificate]:
    """Returns the certificate of a base64-encoded PEM text that lives longest; none if it is unreadable.

    A bundle keeps its old roots until they expire, and one valid root is enough.
    """
    try:
        text = base64.b64decode(encoded[: 2 * MAX_BUNDLE])
        blocks = _BLOCK.findall(text[:MAX_BUNDLE])[:MAX_CERTIFICATES]
        found = [x509.load_pem_x509_certificate(block) for block in blocks]
    except ValueError:
        return []
    newest = max(found, key=lambda each: each.not_valid_after_utc, default=None)
    return [] if newest is None else [_certificate(owner, place, newest)]


def _certificate(owner: str, place: str, found: x509.Certificate) -> Certificate:
    lifetime = found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp()
    return Certificate(owner, place, *lifetime)


async def of_server(site: Site, owner: str, url: str = "") -> list[Certificate]:
    """Returns the certificate of a server of ours, at its URL, else in its Secret, as far as it is visible.

    The key in the Secret is not decoded.
    """
    place = f"the certificate of {owner}"
    if not url:
        secret = await site.hub.get(resource_path("v1", "secrets", site.system, f"{owner}-tls"))
        return (
            []
            if isinstance(secret, Problem)
            else from_bundle(owner, place, text_at(secret, "data", "tls.crt"))
        )
    # Nothing is sent, so the certificate need not be verified.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        parts = urlsplit(url)
        async with asyncio.timeout(site.hub.seconds):
            _, writer = await asyncio.open_connection(
                parts.hostname, parts.port or 443, ssl=context, server_hostname=parts.hostname
            )
            try:
                encoded = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            finally:
                writer.close()
        return [_certificate(owner, place, x509.load_der_x509_certificate(encoded))]
    except (OSError, ValueError, TypeError):  # unreachable from here, which the hub may not be
        return []
