"""Missing certificates are issued, good ones are kept, and expiring ones are renewed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from certs import CertificateAuthority, IssuedCertificate, ensure_authority, ensure_certificate
from fedhpa.cli.main import run

NOW = dt.datetime(2026, 3, 11, tzinfo=dt.UTC)
LATER = NOW + dt.timedelta(days=300)


def issuer(
    authority: CertificateAuthority, *dns: str, now: dt.datetime = NOW
) -> Callable[[], IssuedCertificate]:
    return lambda: authority.issue_server("a", dns=dns, now=now)


def test_a_good_certificate_is_kept(tmp_path: Path) -> None:
    """The second call changes no file."""
    authority = CertificateAuthority.create("ca", now=NOW)

    assert ensure_certificate(authority, tmp_path, issuer(authority, "a.svc"), now=NOW)
    before = (tmp_path / "tls.crt").read_bytes()
    assert not ensure_certificate(authority, tmp_path, issuer(authority, "a.svc"), now=NOW)
    assert (tmp_path / "tls.crt").read_bytes() == before


def test_a_certificate_that_expires_soon_is_renewed(tmp_path: Path) -> None:
    """It is renewed after two thirds of its year."""
    authority = CertificateAuthority.create("ca", now=NOW)
    ensure_certificate(authority, tmp_path, issuer(authority, "a.svc"), now=NOW)

    assert ensure_certificate(authority, tmp_path, issuer(authority, "a.svc", now=LATER), now=LATER)


def test_other_names_or_another_ca_need_another_certificate(tmp_path: Path) -> None:
    """A certificate for other names, or of another CA, is replaced."""
    authority = CertificateAuthority.create("ca", now=NOW)
    ensure_certificate(authority, tmp_path, issuer(authority, "a.svc"), now=NOW)
    other = CertificateAuthority.create("ca", now=NOW)

    assert ensure_certificate(authority, tmp_path, issuer(authority, "b.svc"), now=NOW)
    assert ensure_certificate(other, tmp_path, issuer(other, "b.svc"), now=NOW)


def test_an_unreadable_certificate_is_replaced(tmp_path: Path) -> None:
    """A damaged file does not stop the process from issuing a new certificate."""
    authority = CertificateAuthority.create("ca", now=NOW)
    (tmp_path / "tls.crt").write_bytes(b"rubbish")
    (tmp_path / "tls.key").write_bytes(b"rubbish")

    assert ensure_certificate(authority, tmp_path, issuer(authority, "a.svc"), now=NOW)


def test_an_authority_is_created_and_kept(tmp_path: Path) -> None:
    """An old one stays, because clients trust no other. So does a CA beside which another one is trusted."""
    created = ensure_authority(tmp_path, "ca", now=NOW)
    kept = ensure_authority(tmp_path, "ca", now=NOW)
    old = ensure_authority(tmp_path, "ca", now=NOW + dt.timedelta(days=3000))
    both = CertificateAuthority.create("ca").bundle_pem + created.bundle_pem
    (tmp_path / "ca.crt").write_bytes(both)

    assert kept.bundle_pem == old.bundle_pem == created.bundle_pem
    assert ensure_authority(tmp_path, "ca").certificate == created.certificate
    assert (tmp_path / "ca.crt").read_bytes() == both


def test_the_command_issues_and_keeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`fedhpa certs issue` prints one word for each outcome."""
    arguments = ["--ca-dir", str(tmp_path / "ca"), "--out", str(tmp_path / "web"), "--common-name", "web"]
    codes = [
        run(["certs", "issue", *arguments, "--dns", "web.svc", "--ip", "127.0.0.1"]),
        run(["certs", "issue", *arguments, "--dns", "web.svc", "--ip", "127.0.0.1"]),
        run(["certs", "issue", *arguments, "--client", "--organization", "ops"]),
    ]

    said = [line.split()[0] for line in capsys.readouterr().err.splitlines()]
    assert codes == [0, 0, 0]
    assert said == ["issued", "kept", "issued"]


@pytest.mark.parametrize("wrong", [[], ["--client", "--dns", "x"], ["--dns", "x", "--organization", "y"]])
def test_the_command_refuses_options_that_do_not_go_together(
    tmp_path: Path, wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2, with one line on stderr."""
    arguments = ["--ca-dir", str(tmp_path), "--out", str(tmp_path / "x"), "--common-name", "web", *wrong]

    assert run(["certs", "issue", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_registration_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has an APIService, its Service, and the adapter's RBAC rules, which have no wildcard."""
    CertificateAuthority.create("ca").save(tmp_path)
    arguments = ["--ca-file", str(tmp_path / "ca.crt"), "--external-name", "localhost", "--port", "6443"]

    assert run(["apiservice", *arguments]) == 0

    documents = list(yaml.safe_load_all(capsys.readouterr().out))
    by_kind = {document["kind"]: document for document in documents}
    spec = by_kind["APIService"]["spec"]
    assert (spec["groupPriorityMinimum"], spec["versionPriority"]) == (100, 200)
    assert spec["service"] == {"namespace": "fedhpa-system", "name": "fedhpa-metrics-adapter", "port": 6443}
    assert "insecureSkipTLSVerify" not in spec
    assert by_kind["Service"]["spec"]["externalName"] == "localhost"
    rules = [rule for document in documents for rule in document.get("rules", [])]
    assert rules
    assert all("*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]] for rule in rules)


def test_the_registration_needs_a_ca(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A CA file that is absent or invalid gives one line of error. A member's role needs no CA."""
    (tmp_path / "key").write_text("no certificate")

    assert run(["apiservice"]) == 2
    assert run(["apiservice", "--ca-file", str(tmp_path / "nowhere")]) == 2
    assert run(["apiservice", "--ca-file", str(tmp_path / "key")]) == 2
    assert capsys.readouterr().err.count("\n") == 3
    assert run(["apiservice", "--member"]) == 0
