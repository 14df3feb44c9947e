"""`fedhpa certs` issues certificates of a private CA, for the processes and their registrations."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedhpa.api.errors import ConfigError

if TYPE_CHECKING:
    from certs import CertificateAuthority, IssuedCertificate

CaDir = Annotated[Path, typer.Option(help="Folder of the CA's ca.crt and ca.key.")]


def issue(
    ca_dir: CaDir,
    out: Annotated[Path, typer.Option(help="Folder to write tls.crt and tls.key to.")],
    common_name: Annotated[str, typer.Option(help="Common name; in a client certificate, the user name.")],
    dns: Annotated[
        list[str] | None,
        typer.Option(help="DNS name of the server, for example SERVICE.NAMESPACE.svc; repeatable."),
    ] = None,
    ip: Annotated[list[str] | None, typer.Option(help="IP address of the server; repeatable.")] = None,
    client: Annotated[bool, typer.Option("--client", help="Issue a client certificate.")] = False,
    organization: Annotated[
        list[str] | None, typer.Option(help="Group of the client certificate's user; repeatable.")
    ] = None,
) -> None:
    """Issue a certificate, or keep the existing one if it still fits.

    A missing CA is created, and an existing one stays as it is. A certificate is renewed when less than a
    third of its lifetime is left.
    """
    from certs import ensure_authority, ensure_certificate

    if client and (dns or ip):
        raise ConfigError(
            "--client: expected no --dns and no --ip, because a client certificate has no host names"
        )
    if organization and not client:
        raise ConfigError("--organization: expected --client with it")
    authority = ensure_authority(ca_dir, "fedhpa-ca")
    _check_root(authority, ca_dir)

    def fresh() -> IssuedCertificate:
        if client:
            return authority.issue_client(common_name, organizations=organization or [])
        return authority.issue_server(common_name, dns=dns or [], ips=ip or [])

    issued = ensure_certificate(authority, out, fresh)
    typer.echo(f"{'issued' if issued else 'kept'} {out / 'tls.crt'}", err=True)


def rotate(ca_dir: CaDir) -> None:
    """Replace the root certificate of the CA.

    Afterwards ca.crt holds the new and the old root. Distribute ca.crt at once: the new root signs the next
    certificates. Certificates of the old root are kept until their renewal.
    """
    from certs import rotate_authority

    rotate_authority(ca_dir)
    typer.echo(f"rotated {ca_dir / 'ca.crt'}", err=True)


def _check_root(authority: CertificateAuthority, ca_dir: Path) -> None:
    """Raises ConfigError if the root has expired. Says on stderr if it should be replaced soon."""
    end = authority.certificate.not_valid_after_utc
    remedy = f"replace it with: fedhpa certs rotate --ca-dir {ca_dir}"
    if end <= datetime.now(UTC):
        raise ConfigError(f"{ca_dir / 'ca.crt'}: the root expired at {end:%Y-%m-%d %H:%M} UTC; {remedy}")
    if authority.renewal_due():
        typer.echo(f"{ca_dir / 'ca.crt'}: the root expires at {end:%Y-%m-%d %H:%M} UTC; {remedy}", err=True)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="Issue certificates of a private CA.", no_args_is_help=True)
    group.command("issue")(issue)
    group.command("rotate")(rotate)
    app.add_typer(group, name="certs")
