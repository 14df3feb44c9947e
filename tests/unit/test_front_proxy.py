"""Front proxies authenticate by CA, usage and name, users by certificate. Headers alone prove nothing."""

from __future__ import annotations

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from multidict import CIMultiDict, CIMultiDictProxy
from structlog.testing import capture_logs

from certs import CertificateAuthority, IssuedCertificate
from fedhpa.api.errors import ConfigError
from fedhpa.kube import SYSTEM
from fedhpa.serving.authentication import PeerAuthenticator, RequestHeader, Trust, User
from fedhpa.serving.trust import published_trust

PROXIES = CertificateAuthority.create("front-proxy-ca")
CLIENTS = CertificateAuthority.create("client-ca")
TRUST = Trust(CLIENTS.bundle_pem, RequestHeader(PROXIES.bundle_pem, ("front-proxy-client",)))
JANE = CIMultiDictProxy(
    CIMultiDict(
        [
            ("X-Remote-User", "jane"),
            ("X-Remote-Group", "dev"),
            ("x-remote-group", "ops"),
            ("X-Remote-Extra-Example.com%2fScopes", "a"),
            ("X-Remote-Extra-Example.com%2fScopes", "b"),
            ("X-Remote-Uid", "u-1"),
        ]
    )
)
SPOKEN_FOR = User(
    "jane", ("dev", "ops", "system:authenticated"), "u-1", (("example.com/scopes", ("a", "b")),)
)
NO_HEADERS: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())


def der(issued: IssuedCertificate) -> bytes:
    return issued.certificate.public_bytes(serialization.Encoding.DER)


Key = ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey
NOW = dt.datetime.now(dt.UTC)


def signed(
    name: str,
    key: Key,
    issuer: str,
    signer: Key,
    *extensions: tuple[x509.ExtensionType, bool],
) -> x509.Certificate:
    """Returns a certificate with these extensions (critical or not), as other tools make them."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - dt.timedelta(hours=1))
        .not_valid_after(NOW + dt.timedelta(hours=1))
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(signer, None if isinstance(signer, ed25519.Ed25519PrivateKey) else hashes.SHA256())


def key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(True, False, False, False, False, signs, False, False, False)


ELLIPTIC, EDWARDS = ec.generate_private_key(ec.SECP256R1()), ed25519.Ed25519PrivateKey.generate()
LEAF = ec.generate_private_key(ec.SECP256R1())
IS_CA = (x509.BasicConstraints(ca=True, path_length=None), True)
FOR_CLIENTS = (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), False)
FOR_SERVERS = (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)
CONSTRAINED = (x509.NameConstraints([x509.DNSName("example.com")], None), False)
UNKNOWN = (x509.UnrecognizedExtension(x509.ObjectIdentifier("1.2.3.4"), b"x"), True)


def peer(
    *of_ca: tuple[x509.ExtensionType, bool],
    leaf: tuple[tuple[x509.ExtensionType, bool], ...] = (FOR_CLIENTS,),
    key: Key = ELLIPTIC,
) -> tuple[PeerAuthenticator, bytes]:
    """Returns what trusts a CA with these extensions as that of front proxies, and the leaf of a proxy."""
    authority = signed("ca", key, "ca", key, *of_ca)
    proxy = signed("front-proxy-client", LEAF, "ca", key, *leaf)
    pem = authority.public_bytes(serialization.Encoding.PEM)
    trust = Trust(request_header=RequestHeader(pem, ("front-proxy-client",)))
    return PeerAuthenticator(trust, SYSTEM.wall), proxy.public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    ("authenticator", "leaf"),
    [
        pytest.param(*peer(IS_CA), id="CA without key usage, as from openssl req -x509"),
        pytest.param(*peer((IS_CA[0], False)), id="basic constraints that are not critical"),
        pytest.param(*peer(IS_CA, (key_usage(signs=True), False)), id="key usage that is not critical"),
        pytest.param(*peer(IS_CA, key=EDWARDS), id="Ed25519"),
        pytest.param(*peer(IS_CA, leaf=()), id="leaf without extended key usage"),
        pytest.param(*peer(IS_CA, FOR_CLIENTS), id="CA for clients"),
        pytest.param(*peer(IS_CA, CONSTRAINED), id="name constraints, and no name that they are about"),
    ],
)
def test_what_go_accepts_is_accepted(authenticator: PeerAuthenticator, leaf: bytes) -> None:
    """API servers verify with Go's crypto/x509, and private CAs are made for it."""
    assert authenticator.user(leaf, JANE) == SPOKEN_FOR
    assert authenticator.refusal == ""


@pytest.mark.parametrize(
    ("authenticator", "leaf", "reason"),
    [
        pytest.param(*peer(), "its issuer is no CA by its basic constraints", id="no CA"),
        pytest.param(
            *peer((x509.BasicConstraints(ca=False, path_length=None), True)), "is no CA", id="leaf as CA"
        ),
        pytest.param(*peer(IS_CA, (key_usage(signs=False), True)), "by its key usage", id="key usage"),
        pytest.param(*peer(IS_CA, FOR_SERVERS), "CN=ca is not for clients", id="CA for servers"),
        pytest.param(*peer(IS_CA, UNKNOWN), "CN=ca has the critical extension 1.2.3.4", id="extension of CA"),
        pytest.param(*peer(IS_CA, leaf=(FOR_SERVERS,)), "is not for clients by its", id="server"),
        pytest.param(*peer(IS_CA, leaf=(FOR_CLIENTS, UNKNOWN)), "extension 1.2.3.4", id="extension of leaf"),
    ],
)
def test_what_go_refuses_is_refused_and_said_once(
    authenticator: PeerAuthenticator, leaf: bytes, reason: str
) -> None:
    """A certificate that passes TLS and proves nothing is a line in the log, and a note of readiness."""
    with capture_logs() as lines:
        for _ in range(3):
            assert authenticator.user(leaf, JANE) is None

    assert reason in authenticator.refusal
    assert [line["reason"] for line in lines] == [authenticator.refusal]


def test_the_log_of_refused_certificates_is_bounded() -> None:
    """A peer with many certificates of a known CA writes ten lines."""
    authenticator = PeerAuthenticator(TRUST, SYSTEM.wall)

    with capture_logs() as lines:
        for number in range(20):
            authenticator.user(der(PROXIES.issue_client(f"name-{number}")), JANE)

    assert len(lines) == 10
    assert authenticator.refusal == "'name-19' is no allowed name of a front proxy"


def test_a_front_proxy_speaks_for_users() -> None:
    """User, groups, UID and extra come from the headers, in upper or lower case."""
    proxy = der(PROXIES.issue_client("front-proxy-client"))

    assert PeerAuthenticator(TRUST, SYSTEM.wall).user(proxy, JANE) == SPOKEN_FOR


def test_the_hubs_anonymous_is_not_authenticated() -> None:
    """An anonymous user of the hub stays in system:unauthenticated."""
    headers = {"X-Remote-User": "system:anonymous", "X-Remote-Group": "system:unauthenticated"}
    anonymous = CIMultiDictProxy(CIMultiDict(headers))
    proxy = der(PROXIES.issue_client("front-proxy-client"))

    user = PeerAuthenticator(TRUST, SYSTEM.wall).user(proxy, anonymous)

    assert user == User("system:anonymous", ("system:unauthenticated",))


def test_without_allowed_names_any_name_of_the_ca_is_a_proxy() -> None:
    """This is the rule of Kubernetes; the CA must then sign only front proxies."""
    trust = Trust(request_header=RequestHeader(PROXIES.bundle_pem))

    assert (
        PeerAuthenticator(trust, SYSTEM.wall).user(der(PROXIES.issue_client("whoever")), JANE) == SPOKEN_FOR
    )


IMPOSTORS = CertificateAuthority.create("front-proxy-ca")
EXPIRED = PROXIES.issue_client(
    "front-proxy-client",
    validity=dt.timedelta(days=1),
    now=dt.datetime.now(dt.UTC) - dt.timedelta(days=2),
)


@pytest.mark.parametrize(
    "leaf",
    [
        pytest.param(der(PROXIES.issue_client("somebody-else")), id="name not allowed"),
        pytest.param(der(IMPOSTORS.issue_client("front-proxy-client")), id="wrong CA"),
        pytest.param(der(PROXIES.issue_server("front-proxy-client", dns=["x"])), id="server usage"),
        pytest.param(der(EXPIRED), id="expired"),
        pytest.param(b"\x30\x00", id="no certificate"),
    ],
)
def test_nobody_else_is_a_proxy(leaf: bytes) -> None:
    """With a wrong name, CA, usage or time, the headers do not count."""
    assert PeerAuthenticator(TRUST, SYSTEM.wall).user(leaf, JANE) is None


def test_a_proxy_that_names_no_user_proves_nothing() -> None:
    """The certificate of a front proxy is not a user."""
    proxy = der(PROXIES.issue_client("front-proxy-client"))

    assert PeerAuthenticator(TRUST, SYSTEM.wall).user(proxy, NO_HEADERS) is None


@pytest.mark.parametrize(
    "header", ["X-Remote-User", "X-Remote-Group", "X-Remote-Uid", "X-Remote-Extra-A", "X-Remote-Extra-\udc80"]
)
def test_a_user_in_invalid_utf8_is_refused(header: str) -> None:
    """Header bytes that are not UTF-8 cannot be sent to the hub in a review."""
    headers = CIMultiDict(JANE)
    headers.popall(header, None)
    headers.add(header, "\udc80")
    proxy = der(PROXIES.issue_client("front-proxy-client"))

    assert PeerAuthenticator(TRUST, SYSTEM.wall).user(proxy, CIMultiDictProxy(headers)) is None


def test_a_user_certificate_proves_itself_only() -> None:
    """A client certificate of the client CA proves its CN and O, and its X-Remote-* headers do not count."""
    joe = der(CLIENTS.issue_client("joe", organizations=["ops"]))

    assert PeerAuthenticator(TRUST, SYSTEM.wall).user(joe, JANE) == User(
        "joe", ("ops", "system:authenticated")
    )


def test_a_user_certificate_named_like_a_proxy_is_a_user() -> None:
    """The allowed name counts only with the request-header CA."""
    impostor = der(CLIENTS.issue_client("front-proxy-client"))

    user = PeerAuthenticator(TRUST, SYSTEM.wall).user(impostor, JANE)

    assert user == User("front-proxy-client", ("system:authenticated",))


def test_a_verified_certificate_ends_with_its_validity() -> None:
    """A verification is cached for a minute, or until the certificate expires."""
    now = dt.datetime.now(dt.UTC)
    proxy = PROXIES.issue_client("front-proxy-client", validity=dt.timedelta(seconds=30), now=now)
    peers = PeerAuthenticator(TRUST, lambda: now.timestamp())

    assert peers.user(der(proxy), JANE) == SPOKEN_FOR
    now += dt.timedelta(seconds=31)
    assert peers.user(der(proxy), JANE) is None


def test_the_hub_publishes_its_trust() -> None:
    """The trust is read from the keys of the ConfigMap extension-apiserver-authentication."""
    data = {
        "client-ca-file": "C",
        "requestheader-client-ca-file": "R",
        "requestheader-allowed-names": '["front-proxy-client","aggregator"]',
        "requestheader-username-headers": '["X-Remote-User","X-Other"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
    }

    header = RequestHeader(b"R", ("front-proxy-client", "aggregator"), ("X-Remote-User", "X-Other"))
    assert published_trust(data) == Trust(b"C", header)


def test_a_hub_without_aggregation_publishes_no_proxy() -> None:
    """Without a front proxy CA only client certificates and tokens count."""
    assert published_trust({"client-ca-file": "C"}) == Trust(b"C")


def test_an_unreadable_key_of_the_config_map_is_named() -> None:
    """The message names the key."""
    with pytest.raises(ConfigError, match="requestheader-allowed-names"):
        published_trust({"requestheader-client-ca-file": "R", "requestheader-allowed-names": "front"})


def test_an_unusable_ca_is_refused() -> None:
    """A bundle without certificates would silently trust nobody."""
    with pytest.raises(ConfigError, match="no usable PEM certificate"):
        PeerAuthenticator(Trust(b"rubbish"), SYSTEM.wall)
