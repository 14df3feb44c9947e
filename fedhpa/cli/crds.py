"""`fedhpa crds` prints the CustomResourceDefinitions as YAML."""

from __future__ import annotations

import typer

from fedhpa.cli.options import with_flags


@with_flags()
def crds(
    with_clusters: bool = False,
    records: bool = False,
) -> None:
    """Print the CustomResourceDefinitions of fedhpa as YAML.

    Example: fedhpa crds --with-clusters | kubectl apply -f -

    Options:
    --with-clusters: Also print the Cluster CRD, for a hub without Karmada. Do not apply it to a Karmada hub.
    --records: Print the CRDs of group fedhpa.io alone, for a Karmada hub.
    """
    from fedhpa.admission import crd

    if records:
        typer.echo(crd.render_records(), nl=False)
        return
    definitions: tuple[crd.Definition, ...] = (crd.FEDERATED_HPA, crd.CRON_FEDERATED_HPA)
    if with_clusters:
        definitions += (crd.CLUSTER,)
    typer.echo(crd.render(definitions) + crd.render_records(), nl=False)
