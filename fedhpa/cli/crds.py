"""`fedhpa crds`: the CustomResourceDefinitions as YAML."""

from __future__ import annotations

from typing import Annotated

import typer


def crds(
    with_clusters: Annotated[
        bool,
        typer.Option(
            "--with-clusters",
            help="Also the Cluster CRD, for a plain hub. Never install it where Karmada serves that API.",
        ),
    ] = False,
) -> None:
    """Print the CRDs: fedhpa crds --with-clusters | kubectl apply -f -"""
    from fedhpa.admission import crd

    definitions: tuple[crd.Definition, ...] = (crd.FEDERATED_HPA, crd.CRON_FEDERATED_HPA)
    if with_clusters:
        definitions += (crd.CLUSTER,)
    typer.echo(crd.render(definitions), nl=False)


def register(app: typer.Typer) -> None:
    """Adds the command to the application."""
    app.command("crds")(crds)
