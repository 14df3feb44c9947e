"""Name constraints of a CA: the names that certificates below it may have.

The rules are those of Go's crypto/x509, with which API servers verify. Subject alternative names are checked,
and the subject is not.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509

# The kinds of names that are checked. A critical constraint on another kind refuses every certificate.
CHECKED: Final = (x509.DNSName, x509.RFC822Name, x509.UniformResourceIdentifier, x509.IPAddress)
# Comparisons of one CA with all names below it.
MAX_COMPARISONS: Final = 100_000


class NameRefused(Exception):
    """A name is not permitted, or cannot be compared. The message says which."""


def check_names(
    constraints: x509.NameConstraints, names: Iterable[x509.GeneralName], *, critical: bool
) -> None:
    """Raises NameRefused unless a CA's constraints permit all names of a certificate below it."""
    permitted, excluded = (constraints.permitted_subtrees or ()), (constraints.excluded_subtrees or ())
    if critical and not all(isinstance(each, CHECKED) for each in (*permitted, *excluded)):
        raise NameRefused("its issuer has critical name constraints of a kind that is not evaluated")
    left = MAX_COMPARISONS
    for name in names:
        kind = next((each for each in CHECKED if isinstance(name, each)), None)
        if kind is None:
            continue
        allowed = [each for each in permitted if isinstance(each, kind)]
        refused = [each for each in excluded if isinstance(each, kind)]
        left -= len(allowed) + len(refused)
        if left < 0:
            raise NameRefused("its issuer has too many name constraints")
        if any(_matches(name, each, excludes=True) for each in refused):
            raise NameRefused(f"the name constraints of its issuer exclude {name.value}")
        if allowed and not any(_matches(name, each) for each in allowed):
            raise NameRefused(f"the name constraints of its issuer do not permit {name.value}")


def _matches(name: x509.GeneralName, constraint: x509.GeneralName, *, excludes: bool = False) -> bool:
    if isinstance(name, x509.IPAddress):
        return _ip_matches(name.value, constraint.value)
    if isinstance(name, x509.DNSName):
        # An excluded name below a wildcard would be served by it.
        if excludes and name.value.startswith("*."):
            return _domain_matches(name.value[2:], constraint.value) or _domain_matches(
                str(constraint.value).lstrip("."), name.value[2:]
            )
        return _domain_matches(name.value, constraint.value)
    if isinstance(name, x509.RFC822Name):
        return _mail_matches(name.value, constraint.value)
    return _domain_matches(_host_of(str(name.value)), constraint.value)


def _labels(domain: str) -> list[str]:
    """Returns the labels of a domain, the last one first. Raises NameRefused for one that is not a domain."""
    labels = domain.lower().removesuffix(".").split(".")
    if not all(0 < len(each) < 64 and each.isascii() and each.isprintable() for each in labels):
        raise NameRefused(f"{domain[:64]!r} is no domain name")
    return labels[::-1]


def _domain_matches(domain: str, constraint: str) -> bool:
    """True for a domain that is the constraint or below it; with a leading dot only below it."""
    found = _labels(domain)
    if not constraint:
        return True
    wanted = _labels(constraint.removeprefix("."))
    if constraint.startswith(".") and len(found) == len(wanted):
        return False
    return found[: len(wanted)] == wanted


def _mail_matches(address: str, constraint: str) -> bool:
    local, at, domain = address.rpartition("@")
    if not at or not local:
        raise NameRefused(f"{address[:64]!r} is no mail address")
    wanted_local, at, wanted = constraint.rpartition("@")
    if at:
        return local == wanted_local and domain.lower() == wanted.lower()
    return _domain_matches(domain, constraint)


def _host_of(uri: str) -> str:
    try:
        host = urlsplit(uri).hostname or ""
    except ValueError as error:
        raise NameRefused(f"{uri[:64]!r} is no URI") from error
    if not host:
        raise NameRefused(f"{uri[:64]!r} has no host")
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return host
    raise NameRefused(f"{uri[:64]!r} has an address as its host, which no constraint can name")


def _ip_matches(address: object, constraint: object) -> bool:
    networks = (ipaddress.IPv4Network, ipaddress.IPv6Network)
    addresses = (ipaddress.IPv4Address, ipaddress.IPv6Address)
    if not isinstance(constraint, networks) or not isinstance(address, addresses):
        raise NameRefused("an address cannot be compared with the name constraints of its issuer")
    return address.version == constraint.version and address in constraint
