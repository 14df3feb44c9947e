"""`fedhpa apiservice`: the objects that register the metrics adapter with a hub."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.cli.pem import read_certificates


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
    member: Annotated[
        bool, typer.Option("--member", help="Instead: the role that the credentials need on each member.")
    ] = False,
) -> None:
    """Print what registers the adapter: fedhpa apiservice --ca-file ca.crt | kubectl apply -f -"""
    import yaml

    from metrics_adapter.registration import Placement, manifests, member_rights

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
        documents = manifests(placement, read_certificates("--ca-file", ca_file))
    typer.echo("".join("---\n" + yaml.safe_dump(document) for document in documents), nl=False)


def register(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command("apiservice")(apiservice)
