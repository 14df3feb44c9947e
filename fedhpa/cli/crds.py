"""`fedhpa crds` prints the CustomResourceDefinitions as YAML."""

from __future__ import annotations

from typing import Annotated

import typer


def crds(
    with_clusters: Annotated[
        bool,
        typer.Option(
            "--with-clusters",
            help="Also print the Cluster CRD, for a hub without Karmada. Do not apply it to a Karmada hub.",
        ),
    ] = False,
    records: Annotated[
        bool, typer.Option("--records", help="Print the CRDs of group fedhpa.io alone, for a Karmada hub.")
    ] = False,
) -> None:
    """Print the CustomResourceDefinitions of fedhpa as YAML.

    Example: fedhpa crds --with-clusters | kubectl apply -f -
    """
    from fedhpa.admission import crd

    ours = () if records else ("autoscaling.karmada.io",)
    clusters = ("cluster.karmada.io",) if with_clusters and not records else ()
    typer.echo(crd.text_of(*ours, *clusters, "fedhpa.io"), nl=False)
