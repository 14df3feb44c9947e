"""`fedhpa certs` looks after a private CA: in files, or in the Secrets that the controller keeps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedhpa.api.errors import ApiError, ConfigError, Conflict
from fedhpa.cli.hub import hub_client, hub_error
from fedhpa.cli.options import Context, JsonOrText, Kubeconfig, read_certificates

if TYPE_CHECKING:
    from certs import CertificateAuthority, IssuedCertificate
    from certs.hub import CertificateStore, Reading

CaDir = Annotated[Path, typer.Option(help="Folder of the CA's ca.crt and ca.key.")]
OptionalCaDir = Annotated[
    Path | None,
    typer.Option(help="Folder of a CA in files, instead of the controller's Secrets."),
]
SecretsNamespace = Annotated[
    str, typer.Option("-n", "--namespace", help="Namespace of the Secrets: the controller's.")
]
SecretsKubeconfig = Annotated[
    str,
    typer.Option(
        "--certificates-kubeconfig",
        help="Kubeconfig of the cluster with the Secrets; if not set, the hub has them.",
    ),
]
NAMESPACE = "fedhpa-system"


class RotationStage(StrEnum):
    """The steps of a rotation in files."""

    PUBLISH = "publish"
    SIGN = "sign"
    DROP = "drop"


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
    third of its lifetime is left, or when another root signs.
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


def rotate(
    ca_dir: OptionalCaDir = None,
    stage: Annotated[
        RotationStage | None,
        typer.Option(help="With --ca-dir: the step to take. If not set, publish, the first one."),
    ] = None,
    namespace: SecretsNamespace = NAMESPACE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    certificates_kubeconfig: SecretsKubeconfig = "",
) -> None:
    """Replace the root certificate of the CA, in three steps.

    Without --ca-dir the controller is asked to do so, and takes all steps by itself. With --ca-dir: publish
    puts a new root beside the old one in ca.crt, sign lets it sign, and drop removes the old one.
    """
    if ca_dir is None:
        if stage is not None:
            raise ConfigError("--stage: expected --ca-dir with it; the controller takes the steps itself")
        asyncio.run(_request(namespace, kubeconfig, context, certificates_kubeconfig))
        return
    from certs import drop_previous, rotate_authority, sign_with_successor

    again = f"fedhpa certs rotate --ca-dir {ca_dir} --stage"
    if stage is RotationStage.SIGN:
        sign_with_successor(ca_dir)
        said = f"the new root signs; run `fedhpa certs issue` for each certificate, and then: {again} drop"
    elif stage is RotationStage.DROP:
        drop_previous(ca_dir)
        said = f"the old root is dropped; distribute {ca_dir / 'ca.crt'} again"
    else:
        rotate_authority(ca_dir)
        said = f"distribute {ca_dir / 'ca.crt'} with both roots to all clients, and then: {again} sign"
    typer.echo(f"rotated {ca_dir / 'ca.crt'}: {said}", err=True)


def show(
    ca_dir: OptionalCaDir = None,
    namespace: SecretsNamespace = NAMESPACE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    certificates_kubeconfig: SecretsKubeconfig = "",
    output: Annotated[JsonOrText, typer.Option("-o", "--output", help="Output format.")] = JsonOrText.TEXT,
) -> None:
    """Show the stage, the roots, the certificates and the CA bundles. Exit 1 if something is wrong."""
    from fedhpa.cli import certificates

    if ca_dir is None:
        reading = asyncio.run(_read(namespace, kubeconfig, context, certificates_kubeconfig))
        report = certificates.report_of(reading, namespace, datetime.now(UTC))
    else:
        from certs import CertificateAuthority, has_successor

        authority = CertificateAuthority.load(ca_dir)
        report = certificates.report_of_files(authority, ca_dir, successor=has_successor(ca_dir))
    as_json = output is JsonOrText.JSON
    typer.echo(certificates.as_json(report) if as_json else certificates.as_text(report))
    if report["problems"]:
        raise typer.Exit(1)


def publish(
    ca_file: Annotated[
        Path | None, typer.Option(help="PEM file of the CA; if not set, the CA of Secret fedhpa-ca.")
    ] = None,
    namespace: SecretsNamespace = NAMESPACE,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    certificates_kubeconfig: SecretsKubeconfig = "",
) -> None:
    """Write the CA into the webhook configurations and APIServices of this project on the hub.

    The controller with --manage-certificates does so by itself. APIServices of other servers stay as they
    are.
    """
    pem = b"" if ca_file is None else read_certificates("--ca-file", ca_file)
    written = asyncio.run(_publish(pem, namespace, kubeconfig, context, certificates_kubeconfig))
    for name in written:
        typer.echo(f"published {name}", err=True)
    if not written:
        typer.echo("every registration has the CA already", err=True)


@asynccontextmanager
async def _store(
    namespace: str, kubeconfig: str, context: str, certificates_kubeconfig: str
) -> AsyncIterator[CertificateStore]:
    from certs.hub import CertificateStore

    async with AsyncExitStack() as stack:
        hub, _ = await stack.enter_async_context(hub_client(kubeconfig, context))
        api = hub
        if certificates_kubeconfig:
            api, _ = await stack.enter_async_context(hub_client(certificates_kubeconfig, ""))
        yield CertificateStore(api, hub, namespace)


async def _read(*where: str) -> Reading:
    async with _store(*where) as store:
        return await store.read()


async def _request(*where: str) -> None:
    """Asks the leader for a new root, unless a rotation goes on."""
    from certs.stages import Stage, stage_of

    async with _store(*where) as store:
        reading = await store.read()
        stage = stage_of(reading.state)
        _check_kept(reading)
        if stage is Stage.STABLE:
            try:
                await store.request_rotation(reading, f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}")
            except Conflict as error:
                raise ConfigError("Secret fedhpa-ca has just changed: run the command again") from error
            except ApiError as error:
                raise hub_error("cannot change Secret fedhpa-ca", error) from error
            typer.echo("asked the controller for a new root; follow it with: fedhpa certs show", err=True)
        else:
            typer.echo(f"a rotation goes on already, in stage {stage}: fedhpa certs show", err=True)


async def _publish(pem: bytes, *where: str) -> list[str]:
    """Returns the names of the registrations that were written."""
    from certs.secrets import bundle_of
    from certs.stages import Publish
    from certs.state import Status

    async with _store(*where) as store:
        reading = await store.read()
        if pem and reading.state.authority_status is Status.OURS:
            raise ConfigError(
                "--ca-file: Secret fedhpa-ca exists, so the controller would replace this CA: leave it "
                "out, or delete the Secret"
            )
        if not pem:
            _check_kept(reading)
        roots = bundle_of(pem) if pem else reading.state.authority.roots
        ours = tuple(each for each in reading.state.trusting if each.status is Status.OURS)
        stale = [
            each.name
            for each in (ours if pem else reading.state.registrations)
            if any(set(bundle) != set(roots) for bundle in each.bundles)
        ]
        for name in stale:
            try:
                await store.write(Publish(name, roots), reading)
            except ApiError as error:
                raise hub_error(f"cannot write {name}", error) from error
        return stale


def _check_kept(reading: Reading) -> None:
    """Raises ConfigError unless the controller keeps a usable CA."""
    from certs.state import Status

    problem = reading.problems.get("secrets/fedhpa-ca")
    if problem is not None:
        raise ConfigError(f"Secret fedhpa-ca: {problem.text}")
    if reading.state.authority_status is Status.ABSENT or not reading.state.authority.roots:
        raise ConfigError(
            "Secret fedhpa-ca has no root: start a controller with --manage-certificates, or "
            "choose another namespace with -n"
        )


def _check_root(authority: CertificateAuthority, ca_dir: Path) -> None:
    """Raises ConfigError if the root has expired. Says on stderr if it should be replaced soon."""
    from certs import has_successor

    end = authority.certificate.not_valid_after_utc
    stage = " --stage sign" if has_successor(ca_dir) else ""
    remedy = f"replace it with: fedhpa certs rotate --ca-dir {ca_dir}{stage}"
    if end <= datetime.now(UTC):
        raise ConfigError(f"{ca_dir / 'ca.crt'}: the root expired at {end:%Y-%m-%d %H:%M} UTC; {remedy}")
    if authority.renewal_due():
        typer.echo(f"{ca_dir / 'ca.crt'}: the root expires at {end:%Y-%m-%d %H:%M} UTC; {remedy}", err=True)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="Show, issue and rotate certificates of a private CA.", no_args_is_help=True)
    group.command("show")(show)
    group.command("issue")(issue)
    group.command("rotate")(rotate)
    group.command("publish")(publish)
    app.add_typer(group, name="certs")
