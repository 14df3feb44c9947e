"""A certificate never lies beside the key of another one, and `issue` never replaces the CA."""

from __future__ import annotations

import base64
import datetime as dt
import errno
import os
import re
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from certs import CertificateAuthority, IssuedCertificate, ensure_authority, ensure_certificate
from fedhpa.cli.main import run

NOW = dt.datetime(2026, 3, 11, tzinfo=dt.UTC)
OLD = NOW - dt.timedelta(days=3000)
WRITERS = 8


def issue(folder: Path, *more: str) -> int:
    folders = ["--ca-dir", str(folder / "ca"), "--out", str(folder / "web")]
    return run(["certs", "issue", *folders, "--common-name", "web", "--dns", "web.svc", *more])


def content(folder: Path) -> dict[str, bytes]:
    """Returns the content of each file of a folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def test_issuing_never_replaces_an_old_ca(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The old CA signs, and a line on stderr says when it ends."""
    created = CertificateAuthority.create("ca", now=dt.datetime.now(dt.UTC) - dt.timedelta(days=3400))
    created.save(tmp_path / "ca")
    before = content(tmp_path / "ca")

    assert issue(tmp_path) == 0

    assert content(tmp_path / "ca") == before
    assert created.issued(IssuedCertificate.load(tmp_path / "web").certificate)
    assert "the CA expires at " in capsys.readouterr().err


def test_an_expired_ca_signs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The error names the file, the date and the remedy."""
    CertificateAuthority.create("ca", now=OLD - dt.timedelta(days=3000)).save(tmp_path / "ca")

    assert issue(tmp_path) == 2

    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"{tmp_path / 'ca' / 'ca.crt'}: the CA expired at " in error
    assert "another --ca-dir" in error
    assert not (tmp_path / "web").exists()


def pem_of(
    key: ed25519.Ed25519PrivateKey,
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption(),  # noqa: B008
) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


@pytest.mark.parametrize(
    "key", ["of another certificate", "of another kind", "encrypted", "missing", "empty"]
)
def test_a_pair_that_does_not_match_is_replaced(tmp_path: Path, key: str) -> None:
    """A server cannot start with it."""
    issue(tmp_path)
    pem = {
        "of another certificate": CertificateAuthority.create("x").issue_client("x").key_pem,
        "of another kind": pem_of(ed25519.Ed25519PrivateKey.generate()),
        "encrypted": pem_of(
            ed25519.Ed25519PrivateKey.generate(), serialization.BestAvailableEncryption(b"x")
        ),
        "empty": b"",
        "missing": None,
    }[key]
    if pem is None:
        (tmp_path / "web" / "tls.key").unlink()
    else:
        (tmp_path / "web" / "tls.key").write_bytes(pem)

    assert issue(tmp_path) == 0

    assert ssl_loads(tmp_path / "web")


def test_a_certificate_from_the_future_is_replaced(tmp_path: Path) -> None:
    """Clients refuse a certificate that a machine with a wrong clock has issued."""
    authority = CertificateAuthority.create("ca", now=OLD)
    future = NOW + dt.timedelta(days=100)
    ensure_certificate(authority, tmp_path, lambda: authority.issue_client("x", now=future), now=future)

    assert ensure_certificate(authority, tmp_path, lambda: authority.issue_client("x", now=NOW), now=NOW)


class Disk:
    """A disk that is full from the given write on."""

    def __init__(self, patch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        self._fsync = os.fsync
        patch.setattr(os, "fsync", self._write)

    def _write(self, handle: int) -> None:
        if self.room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.room -= 1
        self._fsync(handle)


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        Disk(patch, room)
        yield


@pytest.mark.parametrize("room", [0, 1])
def test_a_full_disk_leaves_the_old_pair(tmp_path: Path, room: int) -> None:
    """No file changes, none remains half written, and the error is one line."""
    issue(tmp_path)
    before = content(tmp_path / "web")

    with full_disk(room):
        assert issue(tmp_path, "--ip", "127.0.0.1") == 2

    assert content(tmp_path / "web") == before


@pytest.mark.parametrize("room", [0, 1])
def test_a_full_disk_leaves_the_old_authority(
    tmp_path: Path, room: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A creation that fails leaves no file, and changes no other CA."""
    issue(tmp_path)
    before = content(tmp_path / "ca")

    with full_disk(room):
        created = issue(tmp_path / "new")

    assert created == 2
    assert content(tmp_path / "ca") == before
    assert content(tmp_path / "new" / "ca") == {}
    assert capsys.readouterr().err.count("No space left on device") == 1


@pytest.mark.parametrize("renames", [0, 1])
def test_a_process_that_ends_between_two_renames_leaves_no_half_authority(
    tmp_path: Path, renames: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """The key comes first. A key without its CA is named by the next call, and never overwritten."""
    with ending_after(renames), suppress(KeyboardInterrupt):
        ensure_authority(tmp_path / "ca", "ca")

    assert issue(tmp_path) == (2 if renames else 0)
    assert ("ca.key without ca.crt" in capsys.readouterr().err) == bool(renames)


@contextmanager
def ending_after(renames: int) -> Iterator[None]:
    """The process ends before the rename after so many."""
    left = [renames]
    replace = Path.replace

    def rename(path: Path, target: Path) -> Path:
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        return replace(path, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "replace", rename)
        yield


def test_many_writers_at_once_leave_one_pair(tmp_path: Path) -> None:
    """The certificate lies beside its own key, for any last writer."""
    authority = CertificateAuthority.create("ca")
    together = threading.Barrier(WRITERS)

    def write(turn: int, writer: int) -> None:
        names = [f"turn{turn}-writer{writer}.svc"]
        together.wait()
        ensure_certificate(authority, tmp_path, lambda: authority.issue_server("a", dns=names))

    with ThreadPoolExecutor(WRITERS) as pool:
        for turn in range(20):
            for written in [pool.submit(write, turn, writer) for writer in range(WRITERS)]:
                written.result()

            assert ssl_loads(tmp_path)
    assert sorted(content(tmp_path)) == ["tls.crt", "tls.key"]


def ssl_loads(folder: Path) -> bool:
    """True if a server can start with the pair."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "tls.crt", folder / "tls.key")
    return True


def test_many_creators_at_once_get_one_authority(tmp_path: Path) -> None:
    """All of them sign with the root that is on disk."""
    together = threading.Barrier(WRITERS)

    def create(_: int) -> bytes:
        together.wait()
        return ensure_authority(tmp_path, "ca").bundle_pem

    with ThreadPoolExecutor(WRITERS) as pool:
        bundles = set(pool.map(create, range(WRITERS)))

    assert bundles == {CertificateAuthority.load(tmp_path).bundle_pem}


def test_a_key_without_its_root_is_never_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody lost ca.crt, and the key is needed to use its copy."""
    issue(tmp_path)
    key = (tmp_path / "ca" / "ca.key").read_bytes()
    (tmp_path / "ca" / "ca.crt").unlink()

    assert issue(tmp_path) == 2
    assert (tmp_path / "ca" / "ca.key").read_bytes() == key
    assert "ca.crt" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong",
    [
        ["--common-name", ""],
        ["--common-name", "x" * 65],
        ["--dns", "bücher.svc"],
        ["--dns", ""],
        ["--client", "--organization", ""],
        ["--out", "/dev/null/x"],
        ["--ca-dir", "/dev/null/x"],
    ],
)
def test_a_typing_error_is_one_line(
    tmp_path: Path, wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 2, and nothing is written to the folder of the certificate."""
    arguments = ["--ca-dir", str(tmp_path / "ca"), "--out", str(tmp_path / "web"), "--common-name", "web"]
    if "--client" not in wrong:
        arguments += ["--dns", "web.svc"]

    assert run(["certs", "issue", *arguments, *wrong]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "web").exists()


COMMANDS = (["webhook-config", "--url", "https://h:1"], ["apiservice"])


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_only_certificates_of_a_file_are_printed(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a key of a combined file nor a comment is printed."""
    issued = CertificateAuthority.create("ca").issue_server("a", dns=["a.svc"])
    combined = tmp_path / "combined.pem"
    combined.write_bytes("# Schlüssel\n".encode() + issued.key_pem + b"\nremark\n" + issued.cert_pem)

    assert run([*command, "--ca-file", str(combined)]) == 0

    printed = capsys.readouterr().out
    bundles = {base64.b64decode(text) for text in re.findall(r"caBundle: (\S+)", printed)}
    assert bundles == {issued.cert_pem}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize("bad", ["key only", "damaged", "cut", "large", "empty", "folder"])
def test_a_file_without_a_good_certificate_is_refused(
    tmp_path: Path, command: list[str], bad: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error is one line that names the option and the file, and nothing is printed."""
    issued = CertificateAuthority.create("ca").issue_server("a", dns=["a.svc"])
    path = tmp_path / "ca.pem"
    if bad == "folder":
        path.mkdir()
    else:
        path.write_bytes(
            {
                "key only": issued.key_pem,
                "damaged": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                "cut": issued.cert_pem + issued.cert_pem[:200],
                "large": issued.cert_pem + b"#" * 2_000_000,
                "empty": b"",
            }[bad]
        )

    assert run([*command, "--ca-file", str(path)]) == 2

    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert f"--ca-file={path}" in output.err
