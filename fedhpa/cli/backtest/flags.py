"""The flags that the commands about recorded days share, each listed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from fedhpa.cli import suggestions
from fedhpa.cli.options import HubFlags, Name

MAX_DAYS = 90


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
