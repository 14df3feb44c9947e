"""The certificates that the checks depend on: their lifetimes, and what the hub says of our servers'."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Sequence
from shlex import quote
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from cryptography import x509

from certs.stored import bundle_of, decoded
from fedhpa.api.free_json import Json, entries, text_at
from fedhpa.api.rights import ADAPTER, CONTROLLER, WEBHOOK
from fedhpa.doctor.report import DAY_SECONDS, expiry
from fedhpa.doctor.site import Site

# Certificates are renewed with a third of their life left, so a renewal is overdue long before this.
SOON_SECONDS: Final = 14 * DAY_SECONDS
# A certificate that lives for hours is renewed later than two weeks before its end.
LEAST_SHARE: Final = 0.2
# Only a person replaces the CA that the controller keeps. As certs.authority.CA_NOTICE.
CA_SECONDS: Final = 365 * DAY_SECONDS
# Our servers, by the finding that tells of an expired certificate of theirs.
SERVERS: Final = {WEBHOOK: "webhook-certificate", ADAPTER: "apiservice-certificate"}
# The words of a call that failed. Source: k8s.io/apiserver, kube-aggregator, and Go's net and crypto/x509.
_CERTIFICATE: Final = re.compile(r"x509:|tls: |certificate", re.IGNORECASE)
_NO_SERVICE: Final = re.compile(
    r'service "?[\w./-]*"? ?(?:in "[\w.-]*" )?(?:not found|is not present)|lookup '
)
# The query of a call names its timeout, and a path may contain any word.
_URL: Final = re.compile(r'"https?://[^"]*"|https?://\S+')


class Certificate(NamedTuple):
    """The lifetime of a certificate. `owner` is a server of ours, a member, or "" for the hub's own."""

    owner: str
    place: str
    begins: float
    expires: float


def check_certificates(site: Site, certificates: list[Certificate]) -> None:
    """Adds a finding for each certificate that has expired or expires soon, the first of each place."""
    first: dict[str, Certificate] = {}
    for each in sorted(certificates, key=lambda one: one.expires):
        first.setdefault(each.place, each)
    told = False
    for each in first.values():
        is_ours, left = each.owner in SERVERS, each.expires - site.now
        kept_ca = is_ours and each.place.endswith("caBundle") and site.manages_certificates
        limit = CA_SECONDS if kept_ca else min(SOON_SECONDS, LEAST_SHARE * (each.expires - each.begins))
        is_known = left <= 0 and site.report.has(SERVERS.get(each.owner, "-"))
        if is_known or left > limit or (kept_ca and told):
            continue
        told = told or kept_ca
        fix = site.commands.join(each.owner, "") if each.owner else ""
        if is_ours:
            fix = renewal(site, each.owner, is_expired=kept_ca)
        site.add("certificate-expires", each.place, fix, expires=expiry(left))


def renewal(site: Site, server: str, *, is_expired: bool) -> str:
    """Returns the command or the advice that renews a certificate of a server of ours, or its expired CA."""
    if site.manages_certificates:
        rotate = site.commands.fedhpa("certs rotate-ca -n {}", site.system)
        return rotate if is_expired else site.revived(CONTROLLER)
    words = f"--out DIRECTORY --common-name {server} --dns {server}.{site.system}.svc"
    return f"Issue another one: fedhpa certs issue --ca-dir CA {words}; then run: fedhpa certs publish"


def from_bundle(owner: str, place: str, encoded: str) -> list[Certificate]:
    """Returns the certificate of a base64-encoded PEM text that lives longest; none if it is unreadable.

    A bundle keeps its old roots until they expire, and one valid root is enough.
    """
    newest = max(bundle_of(decoded(encoded)), key=lambda each: each.not_valid_after_utc, default=None)
    return [] if newest is None else [_certificate(owner, place, newest)]


def _certificate(owner: str, place: str, found: x509.Certificate) -> Certificate:
    lifetime = found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp()
    return Certificate(owner, place, *lifetime)


async def of_server(site: Site, owner: str, bundles: Sequence[str], url: str = "") -> list[Certificate]:
    """Returns the certificates of the bundles of a server of ours, and its own as far as it is visible.

    Its own is at the URL, else in its Secret. The key in the Secret is not decoded.
    """
    place = f"the certificate of {owner}"
    found = [one for each in bundles for one in from_bundle(owner, f"{owner} caBundle", each)]
    if not url:
        secret = site.found["secrets"][f"{owner}-tls"]
        return [*found, *from_bundle(owner, place, text_at(secret, "data", "tls.crt"))]
    # Nothing is sent, so the certificate need not be verified.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
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
        return [*found, _certificate(owner, place, x509.load_der_x509_certificate(encoded))]
    except (OSError, ValueError, TypeError):  # unreachable from here, which the hub may not be
        return found


def cause_of(text: str) -> str:
    """Returns why a call of the hub failed, by its words: "certificate", "missing" for its address, or ""."""
    words = _URL.sub("URL", text)
    # A resolver that refuses connections is an unknown name, too.
    return "missing" if _NO_SERVICE.search(words) else "certificate" if _CERTIFICATE.search(words) else ""


def certificate_fix(site: Site, server: str, words: str, stored: Sequence[tuple[str, Json]]) -> str:
    """Returns the command by which the hub trusts a server of ours again, or the advice.

    `stored` are the registrations with their kinds, which name the CA.
    """
    is_expired = "expired" in words
    printed = "" if is_expired or site.manages_certificates else site.ca_of(server)
    if not printed:
        return renewal(site, server, is_expired=is_expired)
    patches = [site.commands.kubectl(_with_ca(kind, raw, printed)) for kind, raw in stored]
    return site.mended(stored[0][1], " && ".join(patches))


def _with_ca(kind: str, stored: Json, printed: str) -> str:
    """Returns the words of kubectl that write the CA that a command prints into a registration."""
    hooks = range(len(entries(stored, "webhooks")))
    paths = [f"/webhooks/{place}/clientConfig/caBundle" for place in hooks] or ["/spec/caBundle"]
    steps = [{"op": "add", "path": path, "value": "$CA"} for path in paths]
    patch = json.dumps(steps).replace('"', '\\"').replace("$CA", f"$({printed})")
    return f'patch {kind} {quote(text_at(stored, "metadata", "name"))} --type=json -p "{patch}"'
