"""The flags that the commands about recorded days share, each listed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from fedhpa.cli.options import HubFlags, Name

MAX_DAYS = 90


@dataclass(frozen=True)
class ModelFlags:
    """The flags of the model of the workload.

    Options:
    --traffic: shared: ready pods of all clusters share the demand; tied: each cluster has its own.
    --pod-start: Time until a new pod is ready; if not set, as in the recording, else 30s.
    --metrics-age: Age of the metrics that a decision reads; if not set, 30s.
    --pod-limit: Most that a pod can use of the metric, as a quantity; if not set, the limit in the recording,
      else the largest usage in it.
    --carry-over: Demand that the pods cannot serve waits for them instead of being lost.
    """

    traffic: str = "shared"
    pod_start: str = ""
    metrics_age: str = ""
    pod_limit: str = ""
    carry_over: bool = False


@dataclass(frozen=True)
class StoreFlags:
    """The flags of the metrics store.

    Options:
    --prometheus URL: Base URL of the metrics store: Prometheus, Thanos or Mimir, as for the adapter's
      --metrics-store-url.
    --metrics-rules FILE: The adapter's rules file, which maps metrics to queries; if not set, CPU and memory
      as cAdvisor has them.
    --step: Time between two values of the recording, 5s to 1h.
    --metrics-store-ca-file FILE: PEM file of CAs that verify the store.
    --metrics-store-token-file FILE: File with the bearer token for the store.
    --metrics-store-tenant: Tenant to send as the header X-Scope-OrgID (Mimir).
    --metrics-store-deadline: Time for one query of the store.
    """

    prometheus: str = ""
    metrics_rules: str = ""
    step: str = "30s"
    store_ca: str = ""
    store_token: str = ""
    store_tenant: str = ""
    store_deadline: str = "30s"


@dataclass(frozen=True)
class Inputs:
    """The object, its recorded days, the model, and the form of the output.

    Options:
    target [fhpa]: The kind, then its name; or fhpa/NAME.
    -f, --filename: YAML or JSON file with the FederatedHPA, and CronFederatedHPAs if wanted, in place of the
      stored ones.
    --recording FILE: Recording to use: JSON, JSON.gz or CSV; - is standard input.
    --unserved: Part of the demand that may stay unserved, as a percentage.
    -o, --output: text, json or yaml; or a file to write, whose name ends with .html, .svg, .png, .json or
      .yaml.
    """

    model: ModelFlags
    store: StoreFlags
    hub: HubFlags
    target: str = ""
    name: Name = ""
    file: str = ""
    recording: str = ""
    unserved: str = "0.1%"
    days: Annotated[
        int, typer.Option("--days", help="Days to read from the metrics store.", min=1, max=MAX_DAYS)
    ] = 7
    output: str = "text"
