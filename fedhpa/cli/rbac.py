"""`fedhpa rbac` prints the rights of a process on the hub, or of the hub in a member."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Final, Literal

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.api.names import dns_subdomain
from fedhpa.api.rights import APPS, MetricsVia, Plane, Propagation, ScaleTarget
from fedhpa.cli.member_options import MemberFlags
from fedhpa.cli.options import MetricsApi, secrets_by_namespace, with_flags

# The API servers whose roles each part of the chart has.
PLANES: Final[dict[str, tuple[Plane, ...]]] = {"all": ("hub", "host"), "host": ("host",), "hub": ("hub",)}
COMPONENTS: Final = {
    "hub": ("controller", "metrics-adapter", "webhook", "users", "operator"),
    "controller": ("controller",),
    "adapter": ("metrics-adapter",),
    "webhook": ("webhook",),
    "operator": ("operator",),
}
# Kubernetes' own rules have a few groups; more is a mistake.
MAX_SCALE_TARGETS: Final = 100


ScaleTargets = Annotated[
    list[str] | None,
    typer.Option(
        "--scale-target",
        help="Workloads that may be scaled, as GROUP/RESOURCE[,RESOURCE...]; repeatable. If not set, "
        "apps/deployments,replicasets,statefulsets.",
    ),
]


def scale_targets(texts: list[str]) -> tuple[ScaleTarget, ...]:
    """Returns the values of --scale-target; the default for none. Raises ConfigError."""
    if len(texts) > MAX_SCALE_TARGETS:
        raise ConfigError(f"--scale-target: is given more than {MAX_SCALE_TARGETS} times")
    found = []
    for text in texts:
        group, _, plurals = text.partition("/")
        resources = tuple(plurals.split(","))
        if dns_subdomain(group) or any(dns_subdomain(resource) for resource in resources):
            raise ConfigError(f"--scale-target={text[:300]!r}: expected GROUP/RESOURCE[,RESOURCE...]")
        found.append(ScaleTarget(group, resources))
    return tuple(found) or (APPS,)


@with_flags(
    members_namespace=None, clusterprofile_provider_file=None, exec_plugin_env=None, argocd_servers=None
)
def rbac(
    members: MemberFlags,
    part: Literal["hub", "member", "webhook", "adapter", "controller", "operator"],
    namespace: str = "fedhpa-system",
    user: str = "",
    lease_namespace: str = "",
    propagation: Propagation = "direct",
    metrics_via: MetricsVia = "members",
    scale_target: ScaleTargets = None,
    secret: list[str] | None = None,
    secrets_namespace: str = "",
    manage_certificates: bool = False,
    api: list[MetricsApi] | None = None,
    chart_part: Literal["all", "host", "hub"] = "all",
    aggregate_to_default_roles: bool = False,
    placements: bool = False,
    publish_to: Literal["argocd"] | None = None,
    distributed: bool = False,
    argocd_use_own_tokens: bool = False,
    plugin_secret: list[str] | None = None,
    adapter_plugin_secret: list[str] | None = None,
) -> None:
    """Print the RBAC rights of the processes and operators on the hub, or of the hub in a member.

    Example: fedhpa rbac member | kubectl --context=member1 apply -f -

    Options:
    part hub|member|webhook|adapter|controller|operator: hub: all three processes, and the role of operators;
      member: the hub's account in a member cluster; operator: the role for people who cordon and drain
      clusters.
    -n, --namespace: Namespace of the ServiceAccounts. It must exist.
    --user: User of the process on the hub, if it is not its ServiceAccount.
    --lease-namespace: The controller's --leader-elect-resource-namespace; if not set, that of -n.
    --propagation: The controller's --propagation.
    --metrics-via: The controller's --metrics-via.
    --secret: Secret of a Cluster that may be read, as [NAMESPACE/]NAME; repeatable. `fedhpa join` grants the
      rights to the Secrets that it makes.
    --secrets-namespace: Namespace whose Secrets may all be read, such as Karmada's karmada-cluster. With
      --secret, the namespace of each --secret that has none.
    --manage-certificates: The controller's --manage-certificates.
    --api: With --manage-certificates: metrics API that the adapter serves on the hub; repeatable. If not set,
      all.
    --part: The chart's part. host: the rights in the cluster that runs the processes for a hub elsewhere;
      hub: those on such a hub.
    --aggregate-to-default-roles: With hub: give Kubernetes' roles view, edit and admin the rights to our
      kinds.
    --placements: Allow what spec.placement.publish and clusterAffinity.placementDecision need: to write
      PlacementDecisions, and to read ClusterProfiles.
    --publish-to: The controller's --publish-to.
    --distributed: Allow what FederatedHPAs with mode Distributed need: to write HorizontalPodAutoscalers in
      members, or with --propagation=karmada Works on the hub.
    --argocd-use-own-tokens: The adapter's --argocd-use-own-tokens.
    --plugin-secret: Secret in -n that exec plugins of the controller read; repeatable.
    --adapter-plugin-secret: Secret in -n that exec plugins of the adapter read; repeatable.
    """
    from fedhpa.api import rights
    from fedhpa.api.yaml import print_yaml

    sources = dataclasses.replace(
        # The rights do not depend on the file.
        dataclasses.replace(members, members_namespace=namespace, clusterprofile_provider_file="-").sources(),
        argocd_own_tokens=argocd_use_own_tokens,
        plugin_secrets=tuple(plugin_secret or ()),
        adapter_plugin_secrets=tuple(adapter_plugin_secret or ()),
    )
    switches = rights.Switches(
        propagation,
        metrics_via,
        certificates=manage_certificates,
        external_hub=chart_part != "all",
        aggregate_to_default_roles=aggregate_to_default_roles,
        distributed=distributed,
        placements=placements,
        publish_to_argocd=publish_to == "argocd",
        apis=frozenset(one.value for one in api) if api else rights.METRICS_APIS,
        scale_targets=scale_targets(scale_target or []),
        sources=sources,
    )
    if part == "member":
        documents = rights.member_rights(namespace, switches=switches)
    else:
        secrets = secrets_by_namespace(secret or [], secrets_namespace or rights.CLUSTER_NAMESPACE)
        if secrets_namespace and not secrets:
            secrets = {secrets_namespace: []}
        documents = rights.hub_rights(
            namespace,
            lease_namespace=lease_namespace,
            argocd_namespace=members.argocd_namespace,
            user_name=user,
            secrets=secrets,
            switches=switches,
            planes=PLANES[chart_part],
            components=COMPONENTS[part],
        )
    typer.echo(print_yaml(documents), nl=False)
