"""The flags that the commands about recorded days share, each listed once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import typer

from fedhpa.cli import suggestions
from fedhpa.cli.options import Context, Kubeconfig, Name, Namespace

MAX_DAYS = 90
Command = Callable[..., None]


@dataclass(frozen=True)
class ModelFlags:
    """The flags of the model of the workload."""

    traffic: Annotated[
        str,
        typer.Option(
            "--traffic",
            help="shared: ready pods of all clusters share the demand; tied: each cluster has its own.",
        ),
    ] = "shared"
    pod_start: Annotated[
        str,
        typer.Option(
            "--pod-start", help="Time until a new pod is ready; if not set, as in the recording, else 30s."
        ),
    ] = ""
    metrics_age: Annotated[
        str, typer.Option("--metrics-age", help="Age of the metrics that a decision reads; if not set, 30s.")
    ] = ""
    pod_limit: Annotated[
        str,
        typer.Option(
            "--pod-limit",
            help="Most that a pod can use of the metric, as a quantity; if not set, the limit in the "
            "recording, else the largest usage in it.",
        ),
    ] = ""
    carry_over: Annotated[
        bool,
        typer.Option(
            "--carry-over",
            help="Demand that the pods cannot serve waits for them instead of being lost.",
        ),
    ] = False


@dataclass(frozen=True)
class StoreFlags:
    """The flags of the metrics store."""

    prometheus: Annotated[
        str,
        typer.Option(
            "--prometheus",
            metavar="URL",
            help="Base URL of the metrics store: Prometheus, Thanos or Mimir, as for the adapter's "
            "--metrics-store-url.",
        ),
    ] = ""
    metrics_rules: Annotated[
        str,
        typer.Option(
            "--metrics-rules",
            metavar="FILE",
            help="The adapter's rules file, which maps metrics to queries; if not set, CPU and memory as "
            "cAdvisor has them.",
        ),
    ] = ""
    step: Annotated[
        str, typer.Option("--step", help="Time between two values of the recording, 5s to 1h.")
    ] = "30s"
    store_ca: Annotated[
        str,
        typer.Option(
            "--metrics-store-ca-file", metavar="FILE", help="PEM file of CAs that verify the store."
        ),
    ] = ""
    store_token: Annotated[
        str,
        typer.Option(
            "--metrics-store-token-file", metavar="FILE", help="File with the bearer token for the store."
        ),
    ] = ""
    store_tenant: Annotated[
        str,
        typer.Option("--metrics-store-tenant", help="Tenant to send as the header X-Scope-OrgID (Mimir)."),
    ] = ""
    store_deadline: Annotated[
        str, typer.Option("--metrics-store-deadline", help="Time for one query of the store.")
    ] = "30s"


@dataclass(frozen=True)
class HubFlags:
    """The flags of the hub."""

    namespace: Namespace = ""
    kubeconfig: Kubeconfig = ""
    context: Context = ""


@dataclass(frozen=True)
class Inputs:
    """The object, its recorded days, the model, and the form of the output."""

    model: ModelFlags
    store: StoreFlags
    hub: HubFlags
    target: Annotated[
        str,
        typer.Argument(
            metavar="[fhpa]",
            help="The kind, then its name; or fhpa/NAME.",
            autocompletion=suggestions.objects,
        ),
    ] = ""
    name: Name = ""
    file: Annotated[
        str,
        typer.Option(
            "-f",
            "--filename",
            help="YAML or JSON file with the FederatedHPA, and CronFederatedHPAs if wanted, in place of "
            "the stored ones.",
        ),
    ] = ""
    recording: Annotated[
        str,
        typer.Option(
            "--recording",
            metavar="FILE",
            help="Recording to use: JSON, JSON.gz or CSV; - is standard input.",
        ),
    ] = ""
    unserved: Annotated[
        str, typer.Option("--unserved", help="Part of the demand that may stay unserved, as a percentage.")
    ] = "0.1%"
    days: Annotated[
        int, typer.Option("--days", help="Days to read from the metrics store.", min=1, max=MAX_DAYS)
    ] = 7
    output: Annotated[
        str,
        typer.Option(
            "-o",
            "--output",
            help="text, json or yaml; or a file to write, whose name ends with .html, .svg, .png, .json or "
            ".yaml.",
        ),
    ] = "text"


def with_flags(**defaults: Any) -> Callable[[Command], Command]:
    """Lets a command take shared flags: a parameter of a class above stands for the flags in it.

    `defaults` replace those of the classes. A flag whose default is None is no flag of the command.
    """

    def of_command(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters
        groups = {name: one.annotation for name, one in own.items() if is_dataclass(one.annotation)}

        def called(**given: Any) -> None:
            command(**{name: _value(kind, given) for name, kind in groups.items()}, **given)

        found = [one for kind in groups.values() for one in _parameters(kind, defaults)]
        found += [one.replace(kind=one.KEYWORD_ONLY) for name, one in own.items() if name not in groups]
        # The arguments come first, as people write them.
        found.sort(key=lambda one: one.name not in ("target", "name"))
        called.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
        called.__name__, called.__doc__ = command.__name__, command.__doc__
        called.__annotations__ = {}
        return called

    return of_command


def _parameters(kind: Any, defaults: dict[str, Any]) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        if is_dataclass(hints[field.name]):
            yield from _parameters(hints[field.name], defaults)
        elif defaults.get(field.name, field) is not None:
            yield inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(field.name, field.default),
                annotation=hints[field.name],
            )


def _value(kind: Any, given: dict[str, Any]) -> Any:
    """Returns a value of a class, and takes its flags away from those given."""
    hints = get_type_hints(kind)
    values = {name: _value(hint, given) for name, hint in hints.items() if is_dataclass(hint)}
    return kind(**values, **{name: given.pop(name) for name in hints if name in given})
