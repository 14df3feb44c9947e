"""`fedhpa apiservice`: the objects that register the metrics adapter with a hub."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedhpa.api.errors import ApiError, ConfigError
from fedhpa.cli.hub import DEADLINE_SECONDS, Context, Kubeconfig, hub_client
from fedhpa.cli.pem import read_certificates

if TYPE_CHECKING:
    from metrics_adapter.registration import Registration

NO_SECRETS = (
    "no Secret is named, so the adapter may read no credentials of Clusters: give --secret for each,"
    " or --check, which finds them on the hub"
)


class Api(StrEnum):
    """What the adapter serves, by the first word of the group."""

    METRICS = "metrics"
    CUSTOM = "custom"
    EXTERNAL = "external"


def apiservice(
    ca_file: Annotated[
        Path | None, typer.Option(help="The CA that signed the adapter's certificate, PEM.")
    ] = None,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="The adapter's namespace.")
    ] = "fedhpa-system",
    service: Annotated[str, typer.Option(help="Its Service.")] = "fedhpa-metrics-adapter",
    port: Annotated[int, typer.Option(help="The Service's port.", min=1, max=65535)] = 443,
    external_name: Annotated[
        str, typer.Option(help="The DNS name behind the Service, where the hub runs no pods.")
    ] = "",
    secret: Annotated[
        list[str] | None,
        typer.Option(help="[NAMESPACE/]NAME of a Cluster's Secret, which the adapter may read; repeated."),
    ] = None,
    secrets_namespace: Annotated[
        str, typer.Option(help="The namespace of a --secret that names none.")
    ] = "karmada-cluster",
    api: Annotated[
        list[Api] | None, typer.Option(help="Register this API only; may be repeated. Default all.")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Ask the hub first: print nothing if an API is another's, and name the Clusters' Secrets.",
        ),
    ] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    member: Annotated[
        bool, typer.Option("--member", help="Instead: the role that the credentials need on each member.")
    ] = False,
) -> None:
    """Print what registers the adapter: fedhpa apiservice --ca-file ca.crt | kubectl apply -f -"""
    import yaml

    from metrics_adapter.registration import APIS, Registration, manifests, member_rights

    placement = Registration(
        namespace=namespace,
        service=service,
        port=port,
        external_name=external_name,
        secrets=frozenset(_secret_key(text, secrets_namespace) for text in secret or ()),
    )
    if member:
        documents = member_rights()
    elif ca_file is None:
        raise ConfigError("--ca-file is missing: the hub verifies the adapter's certificate against it")
    else:
        groups = [group for name, group in APIS.items() if api is None or name in api]
        if check:
            named = asyncio.run(_secrets_of_clusters(kubeconfig, context))
            placement = replace(placement, secrets=placement.secrets | named)
        documents = manifests(placement, read_certificates("--ca-file", ca_file), groups)
        services = [document for document in documents if document["kind"] == "APIService"]
        if check:
            taken = asyncio.run(_owned_by_others(services, placement, kubeconfig, context))
            for line in taken:
                typer.echo(line, err=True)
            if taken:
                raise typer.Exit(1)
        else:
            names = ", ".join(document["metadata"]["name"] for document in services)
            typer.echo(f"applying this takes over {names}; --check looks whose they are on the hub", err=True)
        if not placement.secrets:
            typer.echo(NO_SECRETS, err=True)
    typer.echo("".join("---\n" + yaml.safe_dump(document) for document in documents), nl=False)


def _secret_key(text: str, default: str) -> tuple[str, str]:
    namespace, slash, name = text.rpartition("/")
    if not name or "/" in namespace or (slash and not namespace):
        raise ConfigError(f'--secret="{text}": expected NAME or NAMESPACE/NAME')
    return namespace or default, name


async def _secrets_of_clusters(kubeconfig: str, context: str) -> frozenset[tuple[str, str]]:
    """Where the hub's Clusters have their credentials. ConfigError if the hub cannot be asked."""
    from fedhpa.kube.responses import NOT_FOUND
    from fedhpa.members.cluster import CLUSTERS_PATH, Cluster

    async with hub_client(kubeconfig, context) as (hub, _):
        try:
            clusters = (await hub.list(CLUSTERS_PATH, Cluster, idle=DEADLINE_SECONDS)).items
        except ApiError as error:
            if error.status == NOT_FOUND:
                return frozenset()
            raise ConfigError(f"cannot list Clusters: {error}") from error
    references = [cluster.spec.secretRef for cluster in clusters]
    return frozenset((ref.namespace, ref.name) for ref in references if ref and ref.namespace and ref.name)


async def _owned_by_others(
    services: Sequence[dict[str, Any]], placement: Registration, kubeconfig: str, context: str
) -> list[str]:
    """A sentence for each API that the hub has from somebody else. ConfigError if the hub cannot be asked."""
    from fedhpa.kube.paths import resource_path
    from fedhpa.kube.responses import NOT_FOUND
    from metrics_adapter.registration import owner

    found = []
    async with hub_client(kubeconfig, context) as (hub, _):
        for service in services:
            name = service["metadata"]["name"]
            path = resource_path(service["apiVersion"], "apiservices", name=name)
            try:
                stored = await hub.get_json(path, deadline=DEADLINE_SECONDS)
            except ApiError as error:
                if error.status == NOT_FOUND:
                    continue
                raise ConfigError(f"cannot read APIService {name}: {error}") from error
            whose = owner(stored, placement)
            if whose is not None:
                found.append(
                    f"APIService {name} is served by {whose}: leave it out with --api, or delete it first"
                )
    return found


def register(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command("apiservice")(apiservice)
