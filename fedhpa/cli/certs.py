"""`fedhpa certs`: certificates of a private CA, for the processes and their registrations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedhpa.api.errors import ConfigError

if TYPE_CHECKING:
    from certs import IssuedCertificate

CA_DIR = Annotated[Path, typer.Option(help="The folder of ca.crt and ca.key; created if there is none.")]


def issue(
    ca_dir: CA_DIR,
    out: Annotated[Path, typer.Option(help="The folder for tls.crt and tls.key.")],
    common_name: Annotated[str, typer.Option(help="The CN; of a client certificate: the user.")],
    dns: Annotated[
        list[str] | None, typer.Option(help="A DNS name, such as SERVICE.NAMESPACE.svc; repeatable.")
    ] = None,
    ip: Annotated[list[str] | None, typer.Option(help="An IP address; repeatable.")] = None,
    client: Annotated[bool, typer.Option("--client", help="A client certificate.")] = False,
    organization: Annotated[
        list[str] | None, typer.Option(help="A group of the client's user; repeatable.")
    ] = None,
) -> None:
    """Issue a certificate unless the one that is there is as good; renewed with a third of its life left."""
    from certs.renewal import ensure_authority, ensure_certificate

    if client and (dns or ip):
        raise ConfigError("--client: expected no --dns or --ip, a client certificate has no names")
    if organization and not client:
        raise ConfigError("--organization: expected --client with it")
    authority = ensure_authority(ca_dir, "fedhpa-ca")

    def fresh() -> IssuedCertificate:
        if client:
            return authority.issue_client(common_name, organizations=organization or [])
        return authority.issue_server(common_name, dns=dns or [], ips=ip or [])

    issued = ensure_certificate(authority, out, fresh)
    typer.echo(f"{'issued' if issued else 'kept'} {out / 'tls.crt'}", err=True)


def rotate(ca_dir: CA_DIR) -> None:
    """Replace the root; ca.crt then holds the new and the old one. Publish it, then issue again."""
    from certs import CertificateAuthority

    CertificateAuthority.load(ca_dir).rotate().save(ca_dir)
    typer.echo(f"rotated {ca_dir / 'ca.crt'}", err=True)


def register(app: typer.Typer) -> None:
    """Adds the commands to the application."""
    group = typer.Typer(help="Certificates of a private CA.", no_args_is_help=True)
    group.command("issue")(issue)
    group.command("rotate")(rotate)
    app.add_typer(group, name="certs")
