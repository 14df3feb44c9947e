"""TLS accepts the certificates of the private CA."""

from __future__ import annotations

import datetime as dt
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from certs import CertificateAuthority, IssuedCertificate
from fedhpa.api.errors import ConfigError

NOW = dt.datetime(2026, 3, 11, 13, 0, tzinfo=dt.UTC)


def handshake(server: IssuedCertificate, CAs: bytes, hostname: str, tmp_path: Path) -> None:
    """Shakes hands in memory. Raises ssl.SSLCertVerificationError if the client refuses the certificate."""
    server.save(tmp_path)
    listening = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    listening.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    calling = ssl.create_default_context(cadata=CAs.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = calling.wrap_bio(to_client, to_server, server_hostname=hostname)
    peer = listening.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):
        for side in (client, peer):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue


def test_a_server_certificate_is_accepted_for_each_of_its_names(tmp_path: Path) -> None:
    """Clients accept its DNS names and IP addresses, and no other name."""
    authority = CertificateAuthority.create("test-ca")
    issued = authority.issue_server(
        "adapter", dns=["fedhpa-metrics-adapter.fedhpa-system.svc"], ips=["127.0.0.1"]
    )

    handshake(issued, authority.bundle_pem, "fedhpa-metrics-adapter.fedhpa-system.svc", tmp_path)
    handshake(issued, authority.bundle_pem, "127.0.0.1", tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(issued, authority.bundle_pem, "elsewhere.svc", tmp_path)


def test_another_authority_is_not_trusted(tmp_path: Path) -> None:
    """A client that trusts another CA of the same name refuses the certificate."""
    issued = CertificateAuthority.create("test-ca").issue_server("a", dns=["a.svc"])
    other = CertificateAuthority.create("test-ca")

    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(issued, other.bundle_pem, "a.svc", tmp_path)


def test_a_client_certificate_carries_user_and_groups() -> None:
    """The user is the common name and the groups are the organizations. The usage is client only."""
    issued = CertificateAuthority.create("ca").issue_client("jane", organizations=["dev", "ops"])
    subject = issued.certificate.subject

    names = [attribute.value for attribute in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = [attribute.value for attribute in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
    usage = issued.certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert names == ["jane"]
    assert sorted(map(str, groups)) == ["dev", "ops"]
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]


def test_a_saved_authority_can_be_loaded(tmp_path: Path) -> None:
    """It has the same certificate, and its key signs."""
    authority = CertificateAuthority.create("ca")
    authority.save(tmp_path / "pki")

    loaded = CertificateAuthority.load(tmp_path / "pki")

    assert loaded.bundle_pem == authority.bundle_pem
    assert loaded.issued(loaded.issue_client("x").certificate)


def test_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    """Key files have mode 0600, and no temporary file remains."""
    authority = CertificateAuthority.create("ca")
    authority.save(tmp_path)
    authority.issue_client("x").save(tmp_path, cert_name="x.crt", key_name="x.key")

    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"ca.crt": 0o644, "ca.key": 0o600, "x.crt": 0o644, "x.key": 0o600}


@pytest.mark.parametrize(("missing", "content"), [("ca.crt", None), ("ca.key", None), ("ca.key", b"rubbish")])
def test_unreadable_files_are_named(tmp_path: Path, missing: str, content: bytes | None) -> None:
    """The message names the file that is missing or invalid."""
    CertificateAuthority.create("ca").save(tmp_path)
    (tmp_path / missing).unlink()
    if content is not None:
        (tmp_path / missing).write_bytes(content)

    with pytest.raises(ConfigError, match=missing):
        CertificateAuthority.load(tmp_path)


def test_a_key_of_another_CA_is_refused(tmp_path: Path) -> None:
    """Clients would trust no certificate that the wrong key signed."""
    CertificateAuthority.create("ca").save(tmp_path)
    CertificateAuthority.create("ca").save(tmp_path / "other")
    (tmp_path / "ca.key").write_bytes((tmp_path / "other" / "ca.key").read_bytes())

    with pytest.raises(ConfigError, match="is not the unencrypted EC key"):
        CertificateAuthority.load(tmp_path)


def test_renewal_is_due_when_a_third_of_the_lifetime_is_left() -> None:
    """A certificate of one year is renewed about four months before it expires."""
    authority = CertificateAuthority.create("ca", now=NOW)
    issued = authority.issue_client("x", now=NOW)

    assert not issued.renewal_due(NOW + dt.timedelta(days=240))
    assert issued.renewal_due(NOW + dt.timedelta(days=250))
    assert issued.renewal_due(NOW + dt.timedelta(days=400))


def test_the_end_of_a_ca_is_announced_a_year_before() -> None:
    """People replace it. A CA that lives shorter announces its end after half of its life."""
    authority = CertificateAuthority.create("ca", now=NOW)
    short = CertificateAuthority.create("ca", now=NOW, validity=dt.timedelta(days=100))

    assert not authority.expires_soon(NOW + dt.timedelta(days=3284))
    assert authority.expires_soon(NOW + dt.timedelta(days=3286))
    assert not short.expires_soon(NOW + dt.timedelta(days=49))
    assert short.expires_soon(NOW + dt.timedelta(days=51))


def test_no_leaf_outlives_its_CA() -> None:
    """A leaf expires with its CA if the CA expires sooner."""
    authority = CertificateAuthority.create("ca", validity=dt.timedelta(days=30), now=NOW)

    issued = authority.issue_client("x", now=NOW)

    assert issued.certificate.not_valid_after_utc == authority.certificate.not_valid_after_utc


def test_a_server_certificate_needs_a_name() -> None:
    """No client accepts a certificate without names. The error names a bad address."""
    authority = CertificateAuthority.create("ca")

    with pytest.raises(ConfigError, match="at least one DNS name"):
        authority.issue_server("x")
    with pytest.raises(ConfigError, match="not-an-ip"):
        authority.issue_server("x", ips=["not-an-ip"])
