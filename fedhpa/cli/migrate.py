"""`fedhpa migrate hpa` prints the FederatedHPA that can replace a HorizontalPodAutoscaler, in a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.api.names import dns_subdomain
from fedhpa.api.texts import one_line
from fedhpa.cli.hub_client import API_VERSION, find
from fedhpa.cli.options import HubFlags, Kubeconfig, Namespace, with_flags

if TYPE_CHECKING:
    from fedhpa.kube import ApiClient

HPAS: Final = ("autoscaling/v2", "horizontalpodautoscalers")
# Labels by which other tools know their own objects. The new object is not theirs.
_OWNER_LABELS: Final = (
    "app.kubernetes.io/managed-by",
    "argocd.argoproj.io/",
    "helm.sh/",
    "kustomize.toolkit.fluxcd.io/",
    "helm.toolkit.fluxcd.io/",
    "propagationpolicy.karmada.io/",
    "clusterpropagationpolicy.karmada.io/",
    "resourcebinding.karmada.io/",
    "work.karmada.io/",
    "scaledobject.keda.sh/",
)
# Annotations that record how an object was written, which is true of the old object alone.
_SILENT_ANNOTATIONS: Final = ("kubectl.kubernetes.io/last-applied-configuration",)
# Karmada marks an object that a policy spreads with the policy's name, as a label or an annotation.
_POLICY: Final = ("propagationpolicy.karmada.io/name", "clusterpropagationpolicy.karmada.io/name")
MAX_NAME: Final = 120


class Migration(NamedTuple):
    """The new object, and what the reader must know: each difference is one sentence."""

    federated: dict[str, Any]
    differences: tuple[str, ...]


def register(app: typer.Typer) -> None:
    """Adds the command."""
    group = typer.Typer(help="Print objects that replace those of other projects.", no_args_is_help=True)

    @group.callback()
    def _group() -> None:
        """Keeps `hpa` a command of its own while it is the only one."""

    group.command("hpa")(hpa)
    app.add_typer(group, name="migrate")


@with_flags()
def hpa(
    name: str,
    namespace: Namespace = "",
    cluster_kubeconfig: str = "",
    kubeconfig: Kubeconfig = "",
    context: str = "",
) -> None:
    """Print a FederatedHPA with `dryRun: true` for an existing HorizontalPodAutoscaler.

    Comments above the object name what could not be carried over, and what means something else. Nothing is
    written. Example: fedhpa migrate hpa web -n shop --cluster-kubeconfig member1.config > web.yaml

    Options:
    name NAME: Name of the HorizontalPodAutoscaler.
    --cluster-kubeconfig: Kubeconfig of the member that has the HPA; if not set, the hub has it.
    --context: Context of the kubeconfig that is read.
    """
    from fedhpa.api.yaml import print_yaml
    from fedhpa.cli.preview import admitted

    if problem := dns_subdomain(name):
        raise ConfigError(f"{name[:MAX_NAME]!r} is no name of a HorizontalPodAutoscaler: {problem[0]}")
    source = HubFlags(cluster_kubeconfig or kubeconfig, context, namespace)
    hints = [] if namespace else ["name its namespace with -n"]
    hints += [] if cluster_kubeconfig else ["for an HPA of a member add --cluster-kubeconfig"]
    stored = source.run(lambda api, chosen: _read(api, chosen, name, "; ".join(hints)))
    migration = federated_hpa(stored)
    for difference in migration.differences:
        typer.echo(f"# {one_line(difference, 400)}")
    typer.echo(print_yaml([migration.federated], sort_keys=False), nl=False)
    refusal, warnings, _ = admitted("FederatedHPA", migration.federated)
    for warning in warnings:
        typer.echo(f"fedhpa: warning: {warning}", err=True)
    typer.echo(next_steps(migration.federated, cluster_kubeconfig), err=True, nl=False)
    if refusal:
        typer.echo(f"fedhpa: admission would refuse the object: {refusal}", err=True)
        raise typer.Exit(1)


async def _read(client: ApiClient, namespace: str, name: str, hints: str) -> dict[str, Any]:
    from fedhpa.kube import resource_path

    what = f"HorizontalPodAutoscaler {namespace}/{name}"
    found = await find(client, resource_path(*HPAS, namespace, name), what)
    if found is None:
        raise ConfigError(f"{what} not found: {hints}".rstrip(": "))
    return found


def next_steps(federated: Mapping[str, Any], cluster_kubeconfig: str) -> str:
    """Returns the two commands that follow: compare, then hand over."""
    metadata = federated["metadata"]
    name, namespace = metadata["name"], metadata["namespace"]
    member = f" --kubeconfig {cluster_kubeconfig}" if cluster_kubeconfig else ""
    return (
        f"next, apply the object and compare:\n"
        f"  fedhpa explain fhpa/{name} -n {namespace}; kubectl{member} -n {namespace} get hpa {name}\n"
        f"then hand over, in each cluster that has the HPA and at last on the hub:\n"
        f"  kubectl{member} -n {namespace} delete hpa {name}\n"
        f'  kubectl -n {namespace} patch fhpa {name} --type=merge -p \'{{"spec":{{"dryRun":false}}}}\'\n'
    )


def federated_hpa(stored: Mapping[str, Any]) -> Migration:
    """Returns the FederatedHPA for a stored autoscaling/v2 HorizontalPodAutoscaler."""
    differences: list[str] = []
    metadata = _metadata(_mapping(stored.get("metadata")), differences)
    spec = _spec(_mapping(stored.get("spec")), differences)
    federated = {"apiVersion": API_VERSION, "kind": "FederatedHPA", "metadata": metadata, "spec": spec}
    return Migration(federated, tuple(differences))


def _metadata(old: Mapping[str, Any], differences: list[str]) -> dict[str, Any]:
    labels, annotations = _mapping(old.get("labels")), _mapping(old.get("annotations"))
    new: dict[str, Any] = {"name": old.get("name", ""), "namespace": old.get("namespace", "default")}
    kept = {key: value for key, value in labels.items() if not key.startswith(_OWNER_LABELS)}
    if kept:
        new["labels"] = kept
    for key in labels.keys() - kept.keys():
        differences.append(f"label {key} is not carried over: it belongs to the tool that wrote the HPA")
    for key in annotations:
        if key not in _SILENT_ANNOTATIONS:
            differences.append(f"annotation {key} is not carried over")
    for policy in (labels.get(key) or annotations.get(key) for key in _POLICY):
        if policy:
            differences.append(
                f"the policy {policy} spreads the HPA: take it out of the policy before you delete it"
            )
    for owner in old.get("ownerReferences") or ():
        differences.append(
            f"{owner.get('kind', 'another object')} {owner.get('name', '')} owns the HPA and would create it "
            "again: delete the owner instead"
        )
    return new


def _spec(old: Mapping[str, Any], differences: list[str]) -> dict[str, Any]:
    from fedhpa.admission.crd import FEDERATED_HPA, custom_resource_definition
    from fedhpa.metric_types.table import metric_type

    definition = custom_resource_definition(FEDERATED_HPA)
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    dropped: list[str] = []
    spec = _kept(old, schema, "spec", dropped)
    differences += [f"field {path} is not carried over: a FederatedHPA has no such field" for path in dropped]
    minimum, maximum = old.get("minReplicas", 1), old.get("maxReplicas")
    differences.append(
        f"minReplicas {minimum} and maxReplicas {maximum} were for one cluster, and now are for all clusters "
        "together"
    )
    for index, metric in enumerate(old.get("metrics") or ()):
        kind = metric_type(str(_mapping(metric).get("type")))
        if kind.field and not kind.per_pod:
            differences.append(
                f"spec.metrics[{index}].{kind.field} is now the sum over all clusters: set "
                f"{kind.field}.aggregation to Average, Max or Min for another meaning"
            )
    return {"dryRun": True, **spec}


def _kept(value: Any, schema: Mapping[str, Any], path: str, dropped: list[str]) -> Any:
    """Returns the parts of a value that a schema has, and adds the paths of the others to `dropped`."""
    if isinstance(value, list):
        items = _mapping(schema.get("items"))
        return [_kept(each, items, f"{path}[{index}]", dropped) for index, each in enumerate(value)]
    properties = schema.get("properties")
    if not isinstance(value, Mapping) or properties is None:
        return value
    kept = {}
    for name, each in value.items():
        if name in properties:
            kept[name] = _kept(each, properties[name], f"{path}.{name}", dropped)
        else:
            dropped.append(f"{path}.{name}")
    return kept


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
