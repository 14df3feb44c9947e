"""`fedhpa join` and `fedhpa unjoin` register a member cluster with the hub, and remove it again."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.api.member_sources import AcceptedServer
from fedhpa.api.rights import Propagation
from fedhpa.cli import completion
from fedhpa.cli.drain import Timeout, drained_cluster, refusal, timeout_seconds
from fedhpa.cli.hub_client import HUB
from fedhpa.cli.options import Hub, cluster_name, seconds_of, with_flags
from fedhpa.cli.rbac import ScaleTargets, scale_targets

if TYPE_CHECKING:
    from fedhpa.kube import ApiClient

ClusterKubeconfig = Annotated[
    Path | None, typer.Option(help="Kubeconfig of an administrator of the member cluster.")
]
ClusterContext = Annotated[
    str, typer.Option(help="Context of --cluster-kubeconfig; if not set, its current context.")
]
Namespace = Annotated[
    str,
    typer.Option(
        "-n",
        "--namespace",
        help="Namespace of the account in the member, and of the Secret on the hub.",
    ),
]
DEFAULT_NAMESPACE: Final = "fedhpa-system"
# The members stay reachable if no controller runs for ten days.
LIFETIME: Final = "720h"


@with_flags()
def join(
    hub: Hub,
    name: str,
    cluster_kubeconfig: ClusterKubeconfig = None,
    cluster_context: ClusterContext = "",
    namespace: Namespace = DEFAULT_NAMESPACE,
    api_endpoint: str = "",
    token_lifetime: str = LIFETIME,
    propagation: Propagation = "direct",
    scale_target: ScaleTargets = None,
    distributed: bool = False,
    insecure_skip_tls_verify: bool = False,
    controller_user: str = "",
    adapter_user: str = "",
    accept: bool = False,
    print_only: bool = False,
) -> None:
    """Register a member cluster: account and rights in the member, Secret and Cluster on the hub.

    Example: fedhpa join member1 --cluster-kubeconfig member1.kubeconfig

    Options:
    name NAME: Name of the Cluster on the hub.
    --api-endpoint: Address of the member's API server for the hub's processes; if not set, the server of
      --cluster-kubeconfig.
    --token-lifetime: Lifetime of the token, at least 10m. The controller renews the token after two thirds of
      it. The member's API server may shorten it.
    --propagation: The controller's --propagation. direct writes scales in members.
    --distributed: Allow to write HorizontalPodAutoscalers, for FederatedHPAs with mode Distributed.
    --insecure-skip-tls-verify: Register a member whose certificate nobody verifies. Its token can then be
      stolen.
    --controller-user: User of the controller on the hub, if it is not its ServiceAccount.
    --adapter-user: User of the metrics adapter on the hub, if it is not its ServiceAccount.
    --accept: Accept the changed server or CA of member NAME, which a ClusterProfile or a Secret of Argo CD
      registers. Its credentials wait for this. -n is the controller's --members-namespace.
    --print: Print the manifests of both sides for GitOps, and contact no cluster. The token is not among
      them.
    """
    from fedhpa.api import rights
    from fedhpa.api.yaml import print_yaml
    from fedhpa.cli.join import registration

    if accept:
        _accept(cluster_name(name, "NAME"), _namespace(namespace), hub)
        return
    wanted = registration.Wanted(
        name=cluster_name(name, "NAME"),
        namespace=_namespace(namespace),
        member=Hub(_file(cluster_kubeconfig), cluster_context),
        hub=hub,
        endpoint=api_endpoint,
        seconds=_lifetime(token_lifetime),
        switches=rights.Switches(
            propagation,
            distributed=distributed,
            scale_targets=scale_targets(scale_target or []),
        ),
        insecure=insecure_skip_tls_verify,
        controller=rights.user(controller_user) if controller_user else None,
        adapter=rights.user(adapter_user) if adapter_user else None,
    )
    if print_only:
        for title, documents in asyncio.run(registration.parts(wanted)):
            typer.echo(title)
            typer.echo(print_yaml(documents), nl=False)
        return
    from fedhpa.kube import SYSTEM

    asyncio.run(registration.register(wanted, lambda line: typer.echo(line, err=True), clock=SYSTEM))
    typer.echo(f"{name} has joined. Its READY becomes True within seconds: kubectl get cluster {name}")


def _accept(name: str, namespace: str, hub: Hub) -> None:
    """Accepts the server of a member, and says which one."""
    from fedhpa.cli.member_notes import accept_server, check_member

    async def run(api: ApiClient, _: str) -> AcceptedServer | None:
        await check_member(api, namespace, name)
        return await accept_server(api, namespace, name)

    found = hub.run(run)
    if found is None:
        typer.echo(f"{name} has no other server or CA than the accepted one.")
        return
    typer.echo(f"{name} is accepted at {found.server} with the CA {found.ca}: it gets its credentials again.")


@with_flags()
def unjoin(
    hub: Hub,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Name of the Cluster on the hub.", autocompletion=completion.clusters
        ),
    ],
    cluster_kubeconfig: ClusterKubeconfig = None,
    cluster_context: ClusterContext = "",
    namespace: Namespace = DEFAULT_NAMESPACE,
    drain: bool = False,
    timeout: Timeout = "",
    hub_id: str = "",
    force: bool = False,
) -> None:
    """Remove what join made: Cluster, Secret and rights on the hub, account and rights in the member.

    The member's HorizontalPodAutoscalers of mode Distributed go, too, and its workloads keep their replicas.

    Example: fedhpa unjoin member1 --cluster-kubeconfig member1.kubeconfig

    Options:
    --drain: Drain the cluster first. It stays registered if that does not end.
    --hub-id: The controller's --hub-id, which tells its member HPAs from other hubs'.
    --force: Remove account and rights from the cluster of --cluster-kubeconfig although the hub has no
      Cluster NAME.
    """
    from fedhpa.cli.drain import draining
    from fedhpa.cli.join import removal
    from fedhpa.kube import SYSTEM

    name, seconds = cluster_name(name, "NAME"), timeout_seconds(timeout)
    if timeout and not drain:
        raise ConfigError("--timeout: is for --drain, which is not set")
    member = Hub(str(cluster_kubeconfig), cluster_context) if cluster_kubeconfig else None

    async def empty() -> None:
        if drain and not (await drained_cluster(name, seconds, hub)).done:
            typer.echo(f"fedhpa: {name} stays registered, because it is not drained", err=True)
            raise typer.Exit(1)

    try:
        asyncio.run(
            removal.remove(
                name,
                _namespace(namespace),
                hub,
                member,
                typer.echo,
                empty,
                monotonic=SYSTEM.monotonic,
                hub_id=hub_id,
                force=force,
            )
        )
    except draining.Refused as error:
        raise refusal(error) from error


@with_flags()
def release_clusters(
    hub: Hub,
    timeout: str = "2m",
    namespace: str = "",
) -> None:
    """Remove the controller's finalizers from all Clusters, after the controller was uninstalled.

    Otherwise each Cluster that ran replicas could not be deleted. Nothing is removed while a controller runs.

    Example: fedhpa release-clusters

    Options:
    --timeout: Longest wait for a controller that ends; if not set, two minutes.
    -n, --namespace: Namespace of the controller's Leases; if not set, all.
    """
    from fedhpa.cli.join import registration, removal
    from fedhpa.kube import SYSTEM

    seconds = timeout_seconds(timeout) or 0.0

    async def run() -> None:
        async with registration.opened(HUB, hub) as (side, _):
            await removal.release_all(side, namespace, seconds, typer.echo, SYSTEM.monotonic)

    asyncio.run(run())


def _namespace(namespace: str) -> str:
    from fedhpa.api.membership import name_problem

    if problem := name_problem(namespace):
        raise ConfigError(f"--namespace={namespace[:300]!r}: {problem}")
    return namespace


def _file(kubeconfig: Path | None) -> str:
    if kubeconfig is None:
        raise ConfigError("--cluster-kubeconfig is missing: name the kubeconfig of the member cluster")
    return str(kubeconfig)


def _lifetime(text: str) -> int:
    from fedhpa.api.tokens import LONGEST_SECONDS, SHORTEST_SECONDS

    seconds = seconds_of("--token-lifetime", text, LIFETIME)
    if not SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS:
        raise ConfigError(f"--token-lifetime={text}: expected a duration from 10m to 87600h")
    return int(seconds)
