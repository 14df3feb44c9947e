"""Client certificates below intermediate CAs, and name constraints, as Go's crypto/x509 judges them."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from fedhpa.serving.certificates import MAX_INTERMEDIATES, NO_ISSUER, ClientVerifier
from fedhpa.serving.tls import peer_certificate, peer_intermediates
from tests.unit.test_front_proxy import FOR_CLIENTS, FOR_SERVERS, IS_CA, signed

Extension = tuple[x509.ExtensionType, bool]
KEYS = {name: ec.generate_private_key(ec.SECP256R1()) for name in ("root", "a", "b", "c", "d", "e", "leaf")}


def der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


def made(name: str, issuer: str, *extensions: Extension) -> x509.Certificate:
    return signed(name, KEYS[name], issuer, KEYS[issuer], *extensions)


def verifier(*authorities: x509.Certificate) -> ClientVerifier:
    pem = b"".join(each.public_bytes(serialization.Encoding.PEM) for each in authorities)
    return ClientVerifier(pem, lambda: dt.datetime.now(dt.UTC))


def verdict(
    *chain: x509.Certificate, root: x509.Certificate | None = None, sent: Sequence[bytes] | None = None
) -> str:
    """Returns "" if the first of a chain is accepted; the others are what the client sends."""
    rest = [der(each) for each in chain[1:]] if sent is None else list(sent)
    found = verifier(root or made("root", "root", IS_CA)).verify(der(chain[0]), lambda: rest)
    return found if isinstance(found, str) else ""


def names(*of: x509.GeneralName) -> Extension:
    return x509.SubjectAlternativeName(of), False


def limited(length: int) -> Extension:
    return x509.BasicConstraints(ca=True, path_length=length), True


@pytest.mark.parametrize("order", [1, -1])
def test_a_chain_of_intermediates_leads_to_the_bundle(order: int) -> None:
    """The client may send them in any order, with others among them."""
    chain = [made("a", "b", IS_CA), made("b", "root", IS_CA), made("c", "c", IS_CA)]

    assert verdict(made("leaf", "a", FOR_CLIENTS), *chain[::order]) == ""


@pytest.mark.parametrize(
    ("leaf", "sent", "reason"),
    [
        pytest.param(made("leaf", "a", FOR_CLIENTS), (), NO_ISSUER, id="not sent"),
        pytest.param(made("leaf", "a", FOR_CLIENTS), (made("a", "b", IS_CA),), NO_ISSUER, id="a gap"),
        pytest.param(made("leaf", "a", FOR_CLIENTS), (made("a", "a", IS_CA),), NO_ISSUER, id="own root"),
        pytest.param(made("leaf", "a", FOR_CLIENTS), (made("a", "root"),), "is no CA", id="no CA"),
        pytest.param(
            made("leaf", "a", FOR_CLIENTS),
            (made("a", "root", IS_CA, FOR_SERVERS),),
            "CN=a is not for clients",
            id="for servers",
        ),
        pytest.param(
            made("leaf", "a", FOR_CLIENTS),
            (made("a", "b", IS_CA), made("b", "root", limited(0))),
            "may not have so many CAs below it",
            id="path length",
        ),
    ],
)
def test_a_chain_that_go_refuses(
    leaf: x509.Certificate, sent: tuple[x509.Certificate, ...], reason: str
) -> None:
    """An intermediate has to be a CA for clients, itself and for as many CAs as are below it."""
    assert reason in verdict(leaf, *sent)


def test_a_second_path_is_tried() -> None:
    """A cross-signed CA has two certificates, and one of them may be of no use."""
    useless, good = made("a", "root", IS_CA, FOR_SERVERS), made("a", "root", IS_CA)

    assert verdict(made("leaf", "a", FOR_CLIENTS), useless, good) == ""


def test_a_long_chain_is_cut() -> None:
    """Each certificate that a client sends costs signatures to verify."""
    path = ["leaf", "a", "b", "c", "d", "e", "root"]
    chain = [made(one, above, IS_CA) for one, above in pairwise(path)]

    assert len(chain) - 1 > MAX_INTERMEDIATES
    assert verdict(made("leaf", "a", FOR_CLIENTS), *chain[1:]) == NO_ISSUER


def test_a_certificate_is_verified_once() -> None:
    """The connection is asked for the other certificates only if no CA of the bundle signed the leaf."""
    judge, leaf = verifier(made("root", "root", IS_CA)), der(made("leaf", "root", FOR_CLIENTS))

    def sent() -> Sequence[bytes]:
        raise AssertionError

    assert not isinstance(judge.verify(leaf, sent), str)


DNS, MAIL, URI = x509.DNSName, x509.RFC822Name, x509.UniformResourceIdentifier


def address(text: str) -> x509.IPAddress:
    return x509.IPAddress(ipaddress.ip_network(text) if "/" in text else ipaddress.ip_address(text))


@pytest.mark.parametrize(
    ("constraint", "name", "fits"),
    [
        # From the tables of Go's crypto/x509/name_constraints_test.go.
        (DNS("example.com"), DNS("example.com"), True),
        (DNS("example.com"), DNS("a.EXAMPLE.com"), True),
        (DNS("example.com"), DNS("notexample.com"), False),
        (DNS(".example.com"), DNS("example.com"), False),
        (DNS(".example.com"), DNS("a.example.com"), True),
        (DNS(""), DNS("anything.example"), True),
        (MAIL("foo@example.com"), MAIL("foo@EXAMPLE.com"), True),
        (MAIL("foo@example.com"), MAIL("Foo@example.com"), False),
        (MAIL("example.com"), MAIL("foo@example.com"), True),
        (MAIL(".example.com"), MAIL("foo@example.com"), False),
        (URI("example.com"), URI("https://example.com:8443/path"), True),
        (URI(".example.com"), URI("https://example.com/"), False),
        (address("10.0.0.0/8"), address("10.2.3.4"), True),
        (address("10.0.0.0/8"), address("11.2.3.4"), False),
        (address("10.0.0.0/8"), address("::1"), False),
        # Names of another kind than the constraints are about.
        (DNS("example.com"), MAIL("foo@other.com"), True),
    ],
)
def test_names_of_a_leaf_fit_the_constraints_of_its_issuers(
    constraint: x509.GeneralName, name: x509.GeneralName, *, fits: bool
) -> None:
    """A permitted name is accepted and an excluded one refused, whichever CA has the constraint."""
    leaf = made("leaf", "a", FOR_CLIENTS, names(name))
    same_kind = type(constraint) is type(name)
    for permits in (True, False):
        subtrees = ([constraint], None) if permits else (None, [constraint])
        limits = (x509.NameConstraints(*subtrees), True)
        of_root = verdict(leaf, made("a", "root", IS_CA), root=made("root", "root", IS_CA, limits))
        of_intermediate = verdict(leaf, made("a", "root", IS_CA, limits))

        assert of_root == of_intermediate
        assert (of_root == "") == (fits if permits or not same_kind else not fits), (permits, of_root)


@pytest.mark.parametrize(
    ("limits", "name", "reason"),
    [
        ((x509.NameConstraints([DNS("example.com")], None), True), DNS("a..example.com"), "no domain name"),
        (
            (x509.NameConstraints([URI("example.com")], None), True),
            URI("https://10.1.2.3/"),
            "an address as its host",
        ),
        ((x509.NameConstraints(None, [DNS("evil.example.com")]), True), DNS("*.example.com"), "exclude"),
        (
            (x509.NameConstraints(None, [x509.DirectoryName(x509.Name([]))]), True),
            DNS("a.example.com"),
            "of a kind that is not evaluated",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused(limits: Extension, name: x509.GeneralName, reason: str) -> None:
    """A doubt never becomes an acceptance."""
    leaf = made("leaf", "a", FOR_CLIENTS, names(name))

    assert reason in verdict(leaf, made("a", "root", IS_CA, limits))


@cache
def sound() -> tuple[x509.Certificate, ...]:
    """A leaf below two CAs, and three certificates that are not on its path."""
    return (
        made("leaf", "a", FOR_CLIENTS),
        made("a", "b", IS_CA),
        made("b", "root", IS_CA),
        made("c", "c", IS_CA),
        made("d", "c", IS_CA),
        made("b", "a", IS_CA),
    )


def test_a_serial_number_of_zero_is_no_warning() -> None:
    """Go accepts it, and the library only warns of it; the tests make each warning an error."""
    chain = [der(each) for each in sound()]
    serial = sound()[1].serial_number
    length = (serial.bit_length() + 8) // 8
    at = chain[1].index(bytes([2, length]) + serial.to_bytes(length, "big")) + 2
    zero = chain[1][:at] + bytes(length) + chain[1][at + length :]

    assert verdict(sound()[0], sent=[zero, chain[2]])  # its signature is broken, which is said


@given(st.data())
def test_whatever_a_client_sends_is_judged(data: st.DataObject) -> None:
    """No bytes raise, and a leaf is accepted only with both of its CAs unharmed."""
    chain = [der(each) for each in sound()]
    chosen = data.draw(st.lists(st.sampled_from(range(1, 6)), max_size=MAX_INTERMEDIATES))
    sent = []
    for one in chosen:
        raw = bytearray(chain[one])
        if data.draw(st.booleans()):
            raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
        sent.append(bytes(raw))
    found = verdict(sound()[0], sent=sent)

    if not found:
        assert {chain[1], chain[2]} <= set(sent)
    elif set(sent) <= set(chain):
        assert not {1, 2} <= set(chosen)


def test_the_certificates_that_a_client_sends_are_read(tmp_path: Path) -> None:
    """A handshake with a chain file, as clients have them: the leaf and the CA above it."""
    root, between = made("root", "root", IS_CA), made("a", "root", IS_CA)
    leaf, server = made("leaf", "a", FOR_CLIENTS), made("b", "root", names(DNS("localhost")))
    for name, key, *certificates in (("client", "leaf", leaf, between), ("server", "b", server)):
        private = KEYS[key].private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        public = b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)
        (tmp_path / name).write_bytes(private + public)
    contexts = {
        "server": ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        "client": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
    }
    for name, context in contexts.items():
        context.load_cert_chain(tmp_path / name)
        context.load_verify_locations(cadata=root.public_bytes(serialization.Encoding.PEM).decode())
    contexts["server"].verify_mode = ssl.CERT_REQUIRED
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    inside = contexts["server"].wrap_bio(up, down, server_side=True)
    outside = contexts["client"].wrap_bio(down, up, server_hostname="localhost")
    for _ in range(4):
        for side in (outside, inside):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue

    presented = peer_certificate(inside)
    assert presented == der(leaf)
    assert peer_intermediates(inside)[0] == der(between)
    assert not isinstance(verifier(root).verify(presented, lambda: peer_intermediates(inside)), str)
