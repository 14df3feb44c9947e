"""`fedhpa certs` issues certificates of a CA in files, and looks after the CA that the controller keeps."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.cli.hub_client import asking
from fedhpa.cli.options import Hub, JsonOrText, Output, read_certificates, seconds_of, with_flags

if TYPE_CHECKING:
    from cryptography import x509

    from certs import IssuedCertificate
    from certs.certificate_store import CertificateStore
    from certs.stored import Reading
    from fedhpa.kube import ApiClient

T = TypeVar("T")

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
NO_CA = "start a controller with --manage-certificates, or choose another namespace with -n"
# Certificates and registrations without content, by their status.
TEXTS = {
    "ours": "no usable certificate",
    "absent": "does not exist",
    "foreign": "of another owner, left alone",
    "unread": "cannot be read",
}


@with_flags()
def issue(
    ca_dir: Path,
    out: Path,
    common_name: str,
    dns: list[str] | None = None,
    ip: list[str] | None = None,
    client: bool = False,
    organization: list[str] | None = None,
) -> None:
    """Issue a certificate from a CA in files, or keep the existing one if it still fits.

    A missing CA is created for ten years, and an existing one stays as it is. A certificate is renewed when
    less than a third of its lifetime is left, or when another CA signs.

    Options:
    --ca-dir: Folder of the CA's ca.crt and ca.key.
    --out: Folder to write tls.crt and tls.key to.
    --common-name: Common name; in a client certificate, the user name.
    --dns: DNS name of the server, for example SERVICE.NAMESPACE.svc; repeatable.
    --ip: IP address of the server; repeatable.
    --client: Issue a client certificate.
    --organization: Group of the client certificate's user; repeatable.
    """
    from certs import ensure_authority, ensure_certificate

    if client and (dns or ip):
        raise ConfigError(
            "--client: expected no --dns and no --ip, because a client certificate has no host names"
        )
    if organization and not client:
        raise ConfigError("--organization: expected --client with it")
    authority = ensure_authority(ca_dir, "fedhpa-ca")
    end = authority.certificate.not_valid_after_utc
    if authority.expires_soon():
        expired = end <= datetime.now(UTC)
        said = f"the CA {'expired' if expired else 'expires'} at {end:%Y-%m-%d %H:%M} UTC"
        said = f"{ca_dir / 'ca.crt'}: {said}; replace it with one in another --ca-dir"
        if expired:
            raise ConfigError(said)
        typer.echo(said, err=True)

    def fresh() -> IssuedCertificate:
        if client:
            return authority.issue_client(common_name, organizations=organization or [])
        return authority.issue_server(common_name, dns=dns or [], ips=ip or [])

    issued = ensure_certificate(authority, out, fresh)
    typer.echo(f"{'issued' if issued else 'kept'} {out / 'tls.crt'}", err=True)


@with_flags()
def show(
    hub: Hub,
    namespace: SecretsNamespace = NAMESPACE,
    certificates_kubeconfig: SecretsKubeconfig = "",
    output: Output = JsonOrText.TEXT,
) -> None:
    """Show the CA, the certificates and the CA bundles of the controller. Exit 1 if something is wrong."""
    reading = _with_store(lambda store: store.read(), hub, namespace, certificates_kubeconfig)
    report = report_of(reading, namespace)
    typer.echo(json.dumps(report, indent=2) if output is JsonOrText.JSON else as_text(report))
    if report["problems"]:
        raise typer.Exit(1)


@with_flags()
def publish(
    hub: Hub,
    ca_file: Path,
    namespace: SecretsNamespace = NAMESPACE,
) -> None:
    """Write a CA in a file into the webhook configurations and APIServices of this project on the hub.

    The controller with --manage-certificates publishes its own CA by itself. APIServices of other servers
    stay as they are.

    Options:
    --ca-file: PEM file of the CA, or of two of them.
    """
    pem = read_certificates("--ca-file", ca_file)
    written = _with_store(lambda store: _publish(pem, store), hub, namespace)
    for name in written:
        typer.echo(f"published {name}", err=True)
    if not written:
        typer.echo("every registration has the CA already", err=True)


@with_flags()
def rotate_ca(
    hub: Hub,
    settle_time: str = "5m",
    timeout: str = "2m",
    namespace: SecretsNamespace = NAMESPACE,
    certificates_kubeconfig: SecretsKubeconfig = "",
) -> None:
    """Replace the CA that the controller keeps, without a refused request. Takes about 11 minutes.

    The new CA is published beside the old one, then both certificates are issued from it, and then the old
    CA is dropped. After an interruption nothing fails: run the command again, and it continues. Needs a
    controller with --manage-certificates. Exit 1 if the controller does not do its part in time.

    Options:
    --settle-time: Time in which every API server uses a new CA, and every pod a new certificate.
    --timeout: Time in which the controller must publish a CA and issue certificates.
    """
    from certs.rotation import NotKept

    settle = seconds_of("--settle-time", settle_time, "5m", zero=True)
    longest = seconds_of("--timeout", timeout, "2m", zero=True)
    again = "No request is refused meanwhile. Continue with the same command"
    try:
        with asking("cannot change Secret fedhpa-ca"):
            rotated = functools.partial(_rotate, settle, longest)
            _with_store(rotated, hub, namespace, certificates_kubeconfig)
    except NotKept as error:
        typer.echo(f"stopped: {error}. See: fedhpa certs show, and the controller's log. {again}.", err=True)
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        typer.echo(f"{again}; fedhpa certs show has the step.", err=True)
        raise


async def _rotate(settle: float, timeout: float, store: CertificateStore) -> None:
    from certs.rotation import Rotation
    from certs.stored import CA_SECRET, Status

    reading = await store.read()
    name = f"Secret {CA_SECRET} in {store.namespace}"
    if problem := reading.problems.get(f"secrets/{CA_SECRET}"):
        raise ConfigError(f"{name}: {problem.text}")
    if reading.ca.status is Status.ABSENT or reading.ca.signer is None:
        raise ConfigError(f"{name} has no CA: {NO_CA}")
    say = functools.partial(typer.echo, err=True)
    await Rotation(store, say, time.time, settle=settle, timeout=timeout).run()


async def _publish(pem: bytes, store: CertificateStore) -> list[str]:
    """Returns the names of the registrations that were written."""
    from certs.certificate_store import with_bundle
    from certs.stored import Status, bundle_of

    reading, written = await store.read(), []
    if reading.ca.status is Status.OURS:
        raise ConfigError("--ca-file: Secret fedhpa-ca exists, so the controller would replace this CA")
    for each in reading.registrations:
        if each.found is not None and not each.trusts_only(bundle_of(pem)):
            with asking(f"cannot write {each.name}"):
                await store.write(each.name, with_bundle(each.found, pem))
            written.append(each.name)
    return written


def _with_store(
    call: Callable[[CertificateStore], Awaitable[T]], flags: Hub, namespace: str, secrets: str = ""
) -> T:
    """Returns what a call returns. `secrets` is the kubeconfig of the Secrets, "" if the hub has them."""

    async def run(hub: ApiClient, _: str) -> T:
        from certs.certificate_store import CertificateStore

        async with AsyncExitStack() as stack:
            api = (await stack.enter_async_context(Hub(secrets).client()))[0] if secrets else hub
            return await call(CertificateStore(api, hub, namespace))

    return flags.run(run)


def report_of(reading: Reading, namespace: str) -> dict[str, Any]:
    """Returns the report of `fedhpa certs show`. Fingerprints are SHA-256, times RFC 3339."""
    from certs.authority import is_signed_by
    from certs.certificate_store import SERVING_SECRETS
    from certs.keeping import UNFINISHED, Now, ca_problem, is_valid
    from certs.stored import CA_SECRET, Status, fingerprint

    def dates(certificate: x509.Certificate) -> dict[str, str]:
        begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        times = {"notBefore": f"{begin:%Y-%m-%dT%H:%M:%SZ}", "notAfter": f"{end:%Y-%m-%dT%H:%M:%SZ}"}
        return {"fingerprint": fingerprint(certificate), **times}

    ca, now = reading.ca, Now(reading.date or datetime.now(UTC))
    problems = [(name, *problem) for name, problem in sorted(reading.problems.items())]
    if ca.status is Status.ABSENT:
        # The names of the missing certificates are no problem of their own.
        problems = [each for each in problems if each[1] != "HostNotInCertificate"]
        text = f"it does not exist in {namespace}: {NO_CA}"
        problems.append((f"secrets/{CA_SECRET}", "Missing", text))
    about_ca = ca_problem(reading, now)
    if about_ca is not None and about_ca.reason != UNFINISHED:
        problems.append((f"secrets/{CA_SECRET}", *about_ca))
    certificates = []
    for each in reading.serving:
        entry: dict[str, Any] = {
            "server": each.server,
            "secret": SERVING_SECRETS[each.server],
            "status": each.status.value,
        }
        if each.pair is not None:
            leaf = each.pair.certificate
            signers = (fingerprint(one) for one in ca.trusted if is_signed_by(leaf, one))
            entry |= dates(leaf) | {"hosts": sorted(each.pair.hosts()), "signedBy": next(signers, "")}
            if not is_valid(leaf, now):
                problems.append((f"secrets/{entry['secret']}", "Expired", f"its end is {entry['notAfter']}"))
        certificates.append(entry)
    roles = {
        each.certificate: role
        for each, role in ((ca.signer, "signs"), (ca.successor, "next"))
        if each is not None
    }
    return {
        "source": f"secrets in {namespace}",
        "step": ca.step.value,
        "cas": [{"role": roles.get(each, "trusted"), **dates(each)} for each in ca.trusted],
        "certificates": certificates,
        "registrations": [
            {
                "name": each.name,
                "server": each.server,
                "status": each.status.value,
                "current": each.trusts_only(ca.trusted),
                "cas": sorted({fingerprint(one) for bundle in each.bundles for one in bundle}),
            }
            for each in reading.registrations
        ],
        "problems": [dict(zip(("object", "reason", "message"), each, strict=True)) for each in problems],
    }


def as_text(report: dict[str, Any]) -> str:
    """Returns the report as lines for people."""
    lines = [report["source"]]
    if report["step"] != "none":
        lines[0] += f": step {report['step']} of a change of the CA, continue with: fedhpa certs rotate-ca"
    lines += [
        f"  CA {each['fingerprint'][:16]} {each['role']}, until {each['notAfter']}" for each in report["cas"]
    ]
    for each in report["certificates"]:
        found = TEXTS[each["status"]]
        if "notAfter" in each:
            found = f"until {each['notAfter']}, signed by {each['signedBy'][:16] or 'another CA'}"
        lines.append(f"  certificate {each['server']} ({each['secret']}): {found}")
    for each in report["registrations"]:
        found = TEXTS[each["status"]]
        if each["status"] == "ours":
            found = "has these CAs" if each["current"] else "has other CAs" if each["cas"] else "has no CA"
        lines.append(f"  {each['name']}: {found}")
    lines += [f"  problem: {each['object']}: {each['message']}" for each in report["problems"]]
    return "\n".join(lines)


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help="Show, issue and replace certificates of a private CA.", no_args_is_help=True)
    group.command("show")(show)
    group.command("issue")(issue)
    group.command("publish")(publish)
    group.command("rotate-ca")(rotate_ca)
    app.add_typer(group, name="certs")
