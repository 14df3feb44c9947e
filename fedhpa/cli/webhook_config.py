"""`fedhpa webhook-config` prints the objects that register the webhook with an API server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.api.rights import Propagation
from fedhpa.cli.options import read_certificates, with_flags

if TYPE_CHECKING:
    from webhook.registration import Endpoint


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
        return rights.webhook_rights(rights.user(reader), propagation=propagation)
    if not (namespace and name) or "/" in name:
        raise ConfigError(f"--reader={reader!r}: expected a user's name, or NAMESPACE/NAME of an account")
    return rights.webhook_rights(rights.service_account(namespace, name), propagation=propagation)
