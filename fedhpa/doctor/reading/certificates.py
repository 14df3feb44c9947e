"""The lifetimes of certificates: in PEM texts, in our Secrets, and of servers that can be reached."""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

import msgspec
from cryptography import x509

from fedhpa.doctor.observations import Certificate, Problem
from fedhpa.doctor.reading.session import Session
from fedhpa.kube import resource_path

# Certificates of one bundle that are looked at.
MAX_CERTIFICATES: Final = 16
MAX_BUNDLE: Final = 256 * 1024
_BLOCK: Final = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----")


class _Secret(msgspec.Struct, frozen=True):
    data: dict[str, str] | None = None


def from_bundle(place: str, encoded: str | None) -> list[Certificate]:
    """Returns the certificates of a base64-encoded caBundle; none if it cannot be read."""
    try:
        return from_pem(place, base64.b64decode((encoded or "")[: 2 * MAX_BUNDLE]))
    except ValueError:
        return []


def from_pem(place: str, text: bytes) -> list[Certificate]:
    """Returns the lifetime of the newest certificate of a PEM text.

    A bundle keeps its old roots until they expire, and one valid root is enough.
    """
    found = []
    for block in _BLOCK.findall(text[:MAX_BUNDLE])[:MAX_CERTIFICATES]:
        try:
            found.append(x509.load_pem_x509_certificate(block))
        except ValueError:
            continue
    newest = max(found, key=lambda each: each.not_valid_after_utc, default=None)
    return [] if newest is None else [_certificate(place, newest)]


def _certificate(place: str, found: x509.Certificate) -> Certificate:
    return Certificate(place, found.not_valid_before_utc.timestamp(), found.not_valid_after_utc.timestamp())


async def in_secret(hub: Session, place: str, namespace: str, name: str) -> list[Certificate]:
    """Returns the certificate of a TLS Secret; none if the caller may not read it. The key is not decoded."""
    found = await hub.get(resource_path("v1", "secrets", namespace, name), _Secret)
    if isinstance(found, Problem):
        return []
    return from_bundle(place, (found.data or {}).get("tls.crt"))


async def served(place: str, url: str, seconds: float) -> list[Certificate]:
    """Returns the certificate that the server of a URL presents; none if it cannot be reached from here."""
    # Nothing is sent, so the certificate need not be verified.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        parts = urlsplit(url)
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(
                parts.hostname, parts.port or 443, ssl=context, server_hostname=parts.hostname
            )
            try:
                encoded = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            finally:
                writer.close()
        return [_certificate(place, x509.load_der_x509_certificate(encoded))]
    except (OSError, ValueError, TypeError):  # unreachable from here, which the hub may not be
        return []


def together(found: Iterable[Iterable[Certificate]]) -> tuple[Certificate, ...]:
    """Returns the certificates of several places, for each place the one that expires first."""
    places: dict[str, Certificate] = {}
    for group in found:
        for each in group:
            known = places.setdefault(each.place, each)
            places[each.place] = min(known, each, key=lambda one: one.expires)
    return tuple(places.values())
