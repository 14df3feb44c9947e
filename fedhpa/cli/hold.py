"""`fedhpa hold` and `fedhpa release`: stop scaling during an incident, and let it go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fedhpa.api.errors import ConfigError, InvalidObject
from fedhpa.api.hold import HOLD_ANNOTATION, UNTIL_ANNOTATION
from fedhpa.api.times import format_time, parse_time
from fedhpa.cli import completion
from fedhpa.cli.hub_client import API_VERSION, DEADLINE_SECONDS, asking, expanded, parse_any_target
from fedhpa.cli.options import HubFlags, seconds_of, with_flags

if TYPE_CHECKING:
    from fedhpa.kube import ApiClient


Targets = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TARGET",
        help="fhpa NAME..., cronfhpa NAME..., or each as KIND/NAME; none with --namespace-wide.",
        autocompletion=completion.objects,
    ),
]
NamespaceWide = Annotated[
    bool, typer.Option("--namespace-wide", help="The namespace instead of single objects in it.")
]


@with_flags()
def hold(
    hub: HubFlags,
    direction: Literal["down", "up", "all"],
    targets: Targets = None,
    namespace_wide: NamespaceWide = False,
    duration: str = "",
    until: str = "",
) -> None:
    """Hold objects, or all of a namespace: nothing is scaled in the direction until the end or a release.

    The hold is an annotation, so nothing changes that a GitOps tool would revert. In the namespace of the
    controller it holds all objects of the hub.

    Example: fedhpa hold down fhpa/web -n shop --for 2h

    Options:
    direction DIRECTION: What to stop: down, up or all.
    --for: Time until the hold ends by itself, such as 2h.
    --until: Time at which the hold ends by itself, in RFC 3339.
    """
    from fedhpa.kube import SYSTEM

    end = _end(duration, until, SYSTEM.wall())
    annotations = {HOLD_ANNOTATION: direction, UNTIL_ANNOTATION: end}
    names = expanded(targets or [])
    for title in _annotate(hub, names, annotations, wide=namespace_wide):
        stays = f"until {end}" if end else "until somebody releases it"
        typer.echo(f"{title} is held ({direction}) {stays}.")
    wide = ("--namespace-wide",) if namespace_wide else ()
    typer.echo(f"End it with: {hub.command('release', *names, *wide)}")


@with_flags()
def release(hub: HubFlags, targets: Targets = None, namespace_wide: NamespaceWide = False) -> None:
    """End the hold of objects or of a namespace. Scaling goes on within seconds, by the usual windows.

    A hold of another place stays in force.

    Example: fedhpa release fhpa/web -n shop
    """
    annotations = {HOLD_ANNOTATION: None, UNTIL_ANNOTATION: None}
    for title in _annotate(hub, expanded(targets or []), annotations, wide=namespace_wide):
        typer.echo(f"{title} is released.")


def _end(duration: str, until: str, now: float) -> str | None:
    """Returns the end of a hold in RFC 3339, None without one. Raises ConfigError."""
    if duration and until:
        raise ConfigError("--for and --until: give only one of them")
    if not until:
        return format_time(float(int(now + seconds_of("--for", duration, "2h")))) if duration else None
    try:
        at = parse_time(until)
    except InvalidObject as error:
        raise ConfigError(f"--until: {error}") from error
    if at is None or at <= now:
        raise ConfigError(f"--until={until}: expected a time in the future")
    return format_time(at)


def places(targets: Sequence[str], namespace: str, *, wide: bool) -> dict[str, str]:
    """Returns the paths of the objects or of the namespace, by their names for people. Raises ConfigError."""
    from fedhpa.kube import resource_path

    if wide and targets:
        raise ConfigError("--namespace-wide: give no TARGET with it")
    if wide:
        return {f"Namespace {namespace}": resource_path("v1", "namespaces", name=namespace)}
    if not targets:
        raise ConfigError("TARGET: expected fhpa/NAME or cronfhpa/NAME, or --namespace-wide")
    return {
        f"{kind} {namespace}/{name}": resource_path(API_VERSION, f"{kind.lower()}s", namespace, name)
        for kind, name in map(parse_any_target, targets)
    }


def _annotate(
    hub: HubFlags, targets: Sequence[str], annotations: Mapping[str, str | None], *, wide: bool
) -> list[str]:
    """Writes the annotations; None removes one. Returns the names for people. Raises ConfigError."""
    places(targets, hub.namespace, wide=wide)  # wrong usage is reported before the kubeconfig is read

    async def write(api: ApiClient, namespace: str) -> list[str]:
        found = places(targets, namespace, wide=wide)
        patch = {"metadata": {"annotations": annotations}}
        for title, path in found.items():
            with asking(f"cannot write {title}"):
                await api.patch(path, patch, manager="fedhpa-cli", deadline=DEADLINE_SECONDS)
        return [*found]

    return hub.run(write)
