"""Front proxies authenticate by CA, usage and name, users by certificate. Headers alone prove nothing."""

from __future__ import annotations

import datetime as dt

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from multidict import CIMultiDict, CIMultiDictProxy

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


def without_usage() -> bytes:
    """Returns a front proxy's certificate without extended key usage."""
    key = ec.generate_private_key(ec.SECP256R1())
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "front-proxy-client")]))
        .issuer_name(PROXIES.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(hours=1))
        .sign(PROXIES.key, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.DER)


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
        pytest.param(without_usage(), id="no usage"),
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
