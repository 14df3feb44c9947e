"""`fedhpa rbac` prints the rights of a process on the hub, or of the hub in a member."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from fedhpa.cli.options import MetricsSource, PropagationMode, secrets_by_namespace


class Part(StrEnum):
    """The process or cluster whose rights are printed."""

    HUB = "hub"
    MEMBER = "member"
    WEBHOOK = "webhook"
    ADAPTER = "adapter"
    CONTROLLER = "controller"


def rbac(
    part: Annotated[
        Part,
        typer.Argument(
            metavar="hub|member|webhook|adapter|controller",
            help="hub: all three processes; member: the hub's account in a member cluster.",
        ),
    ],
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Namespace of the ServiceAccounts. It must exist.")
    ] = "fedhpa-system",
    lease_namespace: Annotated[
        str,
        typer.Option(help="The controller's --leader-elect-resource-namespace; if not set, that of -n."),
    ] = "",
    propagation: Annotated[
        PropagationMode | None,
        typer.Option(help="The controller's --propagation; if not set, karmada, and direct for a member."),
    ] = None,
    metrics_via: Annotated[
        MetricsSource, typer.Option(help="The controller's --metrics-via.")
    ] = MetricsSource.MEMBERS,
    secret: Annotated[
        list[str] | None,
        typer.Option(
            help="Secret of a Cluster that may be read, as [NAMESPACE/]NAME; repeatable. If not set, all of "
            "--secrets-namespace."
        ),
    ] = None,
    secrets_namespace: Annotated[
        str, typer.Option(help="Namespace of the Clusters' Secrets. It must exist.")
    ] = "karmada-cluster",
) -> None:
    """Print the RBAC rights of the processes on the hub, or of the hub in a member.

    Example: fedhpa rbac member | kubectl --context=member1 apply -f -
    """
    from fedhpa.api import rights
    from fedhpa.api.yaml import print_yaml

    on_hub: rights.Propagation = propagation.value if propagation else "karmada"
    in_member: rights.Propagation = propagation.value if propagation else "direct"
    via: rights.MetricsVia = metrics_via.value
    secrets = secrets_by_namespace(secret or [], secrets_namespace) or {secrets_namespace: []}
    leases = lease_namespace or namespace
    place = {
        Part.CONTROLLER: rights.CONTROLLER,
        Part.ADAPTER: rights.ADAPTER,
        Part.WEBHOOK: rights.WEBHOOK,
    }
    subject = rights.service_account(namespace, place.get(part, ""))
    if part is Part.HUB:
        documents = rights.hub_rights(
            namespace, lease_namespace=leases, propagation=on_hub, metrics_via=via, secrets=secrets
        )
    elif part is Part.MEMBER:
        documents = rights.member_rights(namespace, propagation=in_member)
    elif part is Part.CONTROLLER:
        documents = rights.controller_rights(
            subject, lease_namespace=leases, propagation=on_hub, metrics_via=via, secrets=secrets
        )
    elif part is Part.ADAPTER:
        documents = rights.adapter_rights(subject, secrets=secrets)
    else:
        documents = rights.webhook_rights(subject, propagation=on_hub)
    if part in place:
        documents.insert(0, rights.account(namespace, place[part]))
    typer.echo(print_yaml(documents), nl=False)


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("rbac")(rbac)
