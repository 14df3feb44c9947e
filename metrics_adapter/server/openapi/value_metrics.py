"""The OpenAPI schemas and paths of custom and external metrics, which do not depend on the metrics served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedhpa.members.metrics import CUSTOM, EXTERNAL
from metrics_adapter.server.openapi.resource_metrics import QUANTITY, Parameter, Response

STRING = {"type": "string"}
INT64 = {"type": "integer", "format": "int64"}
TIME = {"type": "string", "format": "date-time"}
SELECTOR = {"type": "object", "description": "A label selector of the metric."}
DESCRIBED = {
    "type": "object",
    "description": "The object that the metric describes.",
    "properties": {"kind": STRING, "namespace": STRING, "name": STRING, "apiVersion": STRING},
}
IDENTIFIER = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": STRING, "selector": SELECTOR},
}
CUSTOM_V1BETA1 = {"describedObject": DESCRIBED, "metricName": STRING, "window": INT64, "selector": SELECTOR}
CUSTOM_V1BETA2 = {"describedObject": DESCRIBED, "metric": IDENTIFIER, "windowSeconds": INT64}
EXTERNAL_V1BETA1 = {
    "metricName": STRING,
    "metricLabels": {"type": "object", "additionalProperties": STRING},
    "window": INT64,
}
CUSTOM_QUERIES = ("labelSelector", "metricLabelSelector", "aggregation", "cluster")
CUSTOM_PATHS = (
    "{resource}/{name}/{metric}",
    "namespaces/{namespace}/{resource}/{name}/{metric}",
    "namespaces/{namespace}/metrics/{metric}",
)
EXTERNAL_PATHS = ("namespaces/{namespace}/{metric}",)


@dataclass(frozen=True)
class ValueApi:
    """One version of custom.metrics.k8s.io or external.metrics.k8s.io as schemas and paths."""

    group: str
    version: str
    package: str
    kind: str
    fields: Mapping[str, Any]
    below: tuple[str, ...]
    queries: tuple[str, ...]

    @property
    def api_version(self) -> str:
        """GROUP/VERSION."""
        return f"{self.group}/{self.version}"

    def schemas(self, prefix: str) -> dict[str, Any]:
        """Returns the schemas of an item and its list. `prefix` is where the document keeps its schemas."""
        item = f"{self.package}.{self.kind}"
        listing = {
            "apiVersion": STRING,
            "kind": STRING,
            "metadata": {"type": "object", "description": "Standard list metadata."},
            "items": {"type": "array", "items": {"$ref": prefix + item}},
        }
        return {
            item: {
                "type": "object",
                "description": f"{self.kind} of the member clusters.",
                "required": ["timestamp", "value"],
                "properties": {**self.fields, "timestamp": TIME, "value": QUANTITY},
            },
            f"{item}List": {
                "type": "object",
                "description": f"Values of the member clusters, of kind {self.kind}.",
                "required": ["items"],
                "properties": listing,
                "x-kubernetes-group-version-kind": [self._kind()],
            },
        }

    def paths(self, parameter: Parameter, response: Response, prefix: str) -> dict[str, Any]:
        """Returns the paths, each with its GET operation. Names of resources and metrics are parameters."""
        schema = {"$ref": f"{prefix}{self.package}.{self.kind}List"}
        return {
            f"/apis/{self.api_version}/{below}": {
                "get": {
                    "description": f"read {self.kind} of the member clusters",
                    "operationId": f"read{self.version.capitalize()}{self.kind}{position or ''}",
                    "tags": [f"{self.group.partition('.')[0]}Metrics_{self.version}"],
                    "parameters": [
                        *(parameter(part[1:-1], "path") for part in below.split("/") if part[0] == "{"),
                        *(parameter(name, "query") for name in self.queries),
                    ],
                    "responses": {"200": response(schema)},
                    "x-kubernetes-action": "get",
                    "x-kubernetes-group-version-kind": self._kind(),
                }
            }
            for position, below in enumerate(self.below)
        }

    def _kind(self) -> dict[str, str]:
        return {"group": self.group, "version": self.version, "kind": f"{self.kind}List"}


_PACKAGES = "io.k8s.metrics.pkg.apis"
VALUE_APIS = (
    ValueApi(
        CUSTOM,
        "v1beta1",
        f"{_PACKAGES}.custom_metrics.v1beta1",
        "MetricValue",
        CUSTOM_V1BETA1,
        CUSTOM_PATHS,
        CUSTOM_QUERIES,
    ),
    ValueApi(
        CUSTOM,
        "v1beta2",
        f"{_PACKAGES}.custom_metrics.v1beta2",
        "MetricValue",
        CUSTOM_V1BETA2,
        CUSTOM_PATHS,
        CUSTOM_QUERIES,
    ),
    ValueApi(
        EXTERNAL,
        "v1beta1",
        f"{_PACKAGES}.external_metrics.v1beta1",
        "ExternalMetricValue",
        EXTERNAL_V1BETA1,
        EXTERNAL_PATHS,
        ("labelSelector", "cluster"),
    ),
)
