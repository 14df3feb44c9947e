"""`fedhpa apiservice` prints the objects that register the metrics adapter with a hub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.api.rights import Propagation
from fedhpa.cli.hub_client import clusters_of, find
from fedhpa.cli.options import Hub, MetricsApi, read_certificates, secrets_by_namespace, with_flags

if TYPE_CHECKING:
    from fedhpa.kube import ApiClient
    from metrics_adapter.registration import Registration
    from webhook.registration import Endpoint


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

    ours = () if records else ("autoscaling.karmada.io",)
    clusters = ("cluster.karmada.io",) if with_clusters and not records else ()
    typer.echo(crd.text_of(*ours, *clusters, "fedhpa.io"), nl=False)


@with_flags()
def webhook_config(
    url: str = "",
    service: str = "",
    ca_file: Path | None = None,
    reader: str = "",
    propagation: Propagation = "direct",
) -> None:
    """Print the objects that register the webhook with an API server.

    Example: fedhpa webhook-config --service fedhpa-system/webhook --ca-file ca.crt | kubectl apply -f -

    Options:
    --url: URL of the webhook for the API server: https://HOST:PORT, without a path.
    --service: Service of the webhook, instead of --url: NAMESPACE/NAME or NAMESPACE/NAME:PORT.
    --ca-file: PEM file of the CA that signed the webhook's certificate.
    --reader: Also print the RBAC objects for warnings about other objects, for this user or for a service
      account as NAMESPACE/NAME.
    --propagation: The webhook's --propagation. With karmada the reader may get scales of targets.
    """
    from fedhpa.api.yaml import print_yaml
    from webhook.registration import configurations

    endpoint = _endpoint(url, service)
    if ca_file is None:
        raise ConfigError(
            "--ca-file is missing: without it the API server could not verify the webhook, and would refuse "
            "all FederatedHPAs"
        )
    documents = _reader_rights(reader, propagation)
    documents += configurations(endpoint, read_certificates("--ca-file", ca_file))
    typer.echo(print_yaml(documents), nl=False)


def _endpoint(url: str, service: str) -> Endpoint:
    from webhook import registration

    if bool(url) == bool(service):
        raise ConfigError("expected either --url or --service")
    if url:
        if not url.startswith("https://"):
            raise ConfigError(
                f"--url={url!r}: expected https://HOST:PORT, the only scheme that API servers call"
            )
        return registration.Endpoint(url=url)
    namespace, slash, rest = service.partition("/")
    name, colon, port = rest.partition(":")
    if not (slash and namespace and name) or (colon and not port.isdecimal()):
        raise ConfigError(f"--service={service!r}: expected NAMESPACE/NAME or NAMESPACE/NAME:PORT")
    return registration.Endpoint(namespace=namespace, service=name, port=int(port) if colon else 443)


def _reader_rights(reader: str, propagation: Propagation) -> list[dict[str, Any]]:
    from fedhpa.api import rights

    if not reader:
        return []
    namespace, slash, name = reader.partition("/")
    if not slash:
        return rights.rights_of("webhook", rights.user(reader), rights.Switches(propagation))
    if not (namespace and name) or "/" in name:
        raise ConfigError(f"--reader={reader!r}: expected a user's name, or NAMESPACE/NAME of an account")
    return rights.rights_of("webhook", rights.service_account(namespace, name), rights.Switches(propagation))


NO_SECRETS = (
    "no Secret is named, so the adapter may not read the credentials of any Cluster: set --secret for each,"
    " or --check, which finds them on the hub"
)


# A hub may have a metrics-server of its own. Only a person can decide that it loses its API.
DEFAULT_APIS = (MetricsApi.CUSTOM, MetricsApi.EXTERNAL)


@with_flags()
def apiservice(
    hub: Hub,
    ca_file: Path | None = None,
    namespace: str = "fedhpa-system",
    service: str = "fedhpa-metrics-adapter",
    port: Annotated[int, typer.Option(help="Port of the Service.", min=1, max=65535)] = 443,
    external_name: str = "",
    secret: list[str] | None = None,
    secrets_namespace: str = "karmada-cluster",
    api: list[MetricsApi] | None = None,
    check: bool = False,
    without_rights: bool = False,
    member: bool = False,
) -> None:
    """Print the objects that register the metrics adapter with a hub.

    Example: fedhpa apiservice --ca-file ca.crt | kubectl apply -f -

    Options:
    --ca-file: PEM file of the CA that signed the adapter's certificate.
    -n, --namespace: Namespace of the adapter's Service.
    --service: Name of the adapter's Service.
    --external-name: DNS name that the Service points to, for a hub that runs no pods.
    --secret: Secret of a Cluster that the adapter may read, as [NAMESPACE/]NAME; repeatable.
    --secrets-namespace: Namespace of each --secret that has none.
    --api: API to register; repeatable. If not set, custom and external. metrics is that of `kubectl top`,
      which a metrics-server may have on this hub.
    --check: Read the hub: add the Secrets of its Clusters, and exit 1 if another server has an API. A
      Cluster's Secret is that of the annotation fedhpa.io/secret, else of spec.secretRef. A Secret with the
      same name and the ending -metrics, or that of the annotation fedhpa.io/metrics-secret, is added instead.
      spec.impersonatorSecretRef is Karmada's own, and not read.
    --without-rights: Leave out the account and its rights, which exist.
    --member: Print only the account and the rights that the adapter's credentials need in each member.
    """
    from fedhpa.api.rights import MEMBER_METRICS, member_rights
    from fedhpa.api.yaml import print_yaml
    from metrics_adapter.registration import APIS, Registration, manifests

    placement = Registration(
        namespace=namespace,
        service=service,
        port=port,
        external_name=external_name,
        secrets=frozenset(
            (place, name)
            for place, names in secrets_by_namespace(secret or (), secrets_namespace).items()
            for name in names
        ),
    )
    if member:
        documents = member_rights(accounts=(MEMBER_METRICS,))
    elif ca_file is None:
        raise ConfigError("--ca-file is missing: the hub verifies the adapter's certificate against it")
    else:
        chosen = DEFAULT_APIS if api is None else api
        groups = [group for name, group in APIS.items() if name in chosen]
        if check:
            named = hub.run(_secrets_of_clusters)
            placement = replace(placement, secrets=placement.secrets | named)
        documents = manifests(placement, read_certificates("--ca-file", ca_file), groups)
        if without_rights:
            documents = [one for one in documents if one["kind"] in ("Service", "APIService")]
        services = [document for document in documents if document["kind"] == "APIService"]
        if check:
            conflicts = hub.run(lambda api, _: _owned_by_others(api, services, placement))
            for line in conflicts:
                typer.echo(line, err=True)
            if conflicts:
                raise typer.Exit(1)
        else:
            names = ", ".join(document["metadata"]["name"] for document in services)
            typer.echo(
                f"applying this takes over {names}; --check finds out which server has them now", err=True
            )
        if not placement.secrets and not without_rights:
            typer.echo(NO_SECRETS, err=True)
    typer.echo(print_yaml(documents), nl=False)


async def _secrets_of_clusters(hub: ApiClient, _: str) -> frozenset[tuple[str, str]]:
    """Returns (namespace, name) of the Clusters' Secrets. Raises ConfigError if the hub does not answer."""
    from fedhpa.kube import resource_path
    from fedhpa.members import metrics_key, secret_key

    found = set()
    for cluster in await clusters_of(hub):
        key, own = secret_key(cluster), metrics_key(cluster)
        path = None if own is None else resource_path("v1", "secrets", *own)
        if path is not None and await find(hub, path, "the Secrets of Clusters") is not None:
            key = own
        if key is not None:
            found.add(key)
    return frozenset(found)


async def _owned_by_others(
    hub: ApiClient, services: Sequence[dict[str, Any]], placement: Registration
) -> list[str]:
    """Returns a message for each API of another server. Raises ConfigError if the hub does not answer."""
    from fedhpa.kube import resource_path
    from metrics_adapter.registration import owner

    found = []
    for service in services:
        name = service["metadata"]["name"]
        path = resource_path(service["apiVersion"], "apiservices", name=name)
        stored = await find(hub, path, f"APIService {name}")
        other = None if stored is None else owner(stored, placement)
        if other is not None:
            found.append(
                f"APIService {name} is served by {other}: leave it out with --api, or delete it first"
            )
    return found
