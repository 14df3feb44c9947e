"""`fedhpa apiservice`: the objects that register the metrics adapter with a hub."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedhpa.api.errors import ApiError, ConfigError
from fedhpa.cli.hub import DEADLINE_SECONDS, Context, Kubeconfig, hub_client
from fedhpa.cli.pem import read_certificates

if TYPE_CHECKING:
    from metrics_adapter.registration import Placement


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
    secrets_namespace: Annotated[
        str, typer.Option(help="Where the credentials of the Clusters are.")
    ] = "karmada-cluster",
    api: Annotated[
        list[Api] | None, typer.Option(help="Register this API only; may be repeated. Default all.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Ask the hub first, and print nothing if an API is another's.")
    ] = False,
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    member: Annotated[
        bool, typer.Option("--member", help="Instead: the role that the credentials need on each member.")
    ] = False,
) -> None:
    """Print what registers the adapter: fedhpa apiservice --ca-file ca.crt | kubectl apply -f -"""
    import yaml

    from metrics_adapter.registration import APIS, Placement, manifests, member_rights

    placement = Placement(
        namespace=namespace,
        service=service,
        port=port,
        external_name=external_name,
        secrets_namespace=secrets_namespace,
    )
    if member:
        documents = member_rights()
    elif ca_file is None:
        raise ConfigError("--ca-file is missing: the hub verifies the adapter's certificate against it")
    else:
        groups = [group for name, group in APIS.items() if api is None or name in api]
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
    typer.echo("".join("---\n" + yaml.safe_dump(document) for document in documents), nl=False)


async def _owned_by_others(
    services: Sequence[dict[str, Any]], placement: Placement, kubeconfig: str, context: str
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
