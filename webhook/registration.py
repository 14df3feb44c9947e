"""The manifests that register the webhook with an API server.

Each webhook keeps Karmada's name, because users see it in every denial. The two configuration objects have
names of their own, so they never overwrite Karmada's `mutating-config` and `validating-config`.

Validation fails closed. Mutation fails open, because the schema and the controller have the same defaults.

matchConditions skip requests that the webhook need not see. An object that is being deleted can lose its
finalizer even while the webhook is down, and a status is not validated. The controller's own writes need no
defaults, so in a busy minute of rules the hub makes half as many calls. Kubernetes before 1.28 drops the
conditions. There the result is the same, because the rules name no subresource, the webhook admits objects
that are being deleted, and defaults that are there are not added again.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Final

from fedhpa.api.federatedhpa import GROUP
from webhook.handlers import MUTATE_FEDERATEDHPA, VALIDATE_CRONFEDERATEDHPA, VALIDATE_FEDERATEDHPA

# The name of all objects here.
NAME: Final = "fedhpa-webhook"
TIMEOUT_SECONDS: Final = 3

# CEL for the API server. A request for the object itself has no subResource, not an empty one.
# The last one is for the mutating webhook only. Anybody may use these field managers, and then does without
# defaults that the schema and the controller have, too.
MATCH_CONDITIONS: Final = (
    {"name": "not-on-its-way-out", "expression": "!has(object.metadata.deletionTimestamp)"},
    {"name": "not-a-subresource", "expression": "!has(request.subResource) || request.subResource == ''"},
    {
        "name": "not-from-the-controller",
        "expression": "!has(request.options.fieldManager) || "
        "!(request.options.fieldManager in ['fedhpa-controller', 'fedhpa-cron'])",
    },
)

_LABELS: Final = {"app.kubernetes.io/name": "fedhpa", "app.kubernetes.io/component": "webhook"}


@dataclass(frozen=True)
class Endpoint:
    """The address of the webhook for the API server: a URL without a path, or a Service and its port."""

    url: str = ""
    namespace: str = ""
    service: str = ""
    port: int = 443

    def client_config(self, path: str, ca_bundle: bytes) -> dict[str, Any]:
        """Returns the clientConfig of one path. `ca_bundle` is PEM, or empty to trust the system's roots."""
        if self.url:
            config: dict[str, Any] = {"url": self.url.rstrip("/") + path}
        else:
            service = {"namespace": self.namespace, "name": self.service, "path": path, "port": self.port}
            config = {"service": service}
        if ca_bundle:
            config["caBundle"] = base64.b64encode(ca_bundle).decode("ascii")
        return config


def configurations(endpoint: Endpoint, ca_bundle: bytes) -> list[dict[str, Any]]:
    """Returns the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration."""

    def webhook(name: str, resource: str, path: str, *, mutates: bool = False) -> dict[str, Any]:
        rule = {
            "operations": ["CREATE", "UPDATE"],
            "apiGroups": [GROUP],
            "apiVersions": ["*"],
            "resources": [resource],
            "scope": "Namespaced",
        }
        return {
            "name": name,
            "clientConfig": endpoint.client_config(path, ca_bundle),
            "rules": [rule],
            "failurePolicy": "Ignore" if mutates else "Fail",
            "matchPolicy": "Equivalent",
            "matchConditions": [dict(each) for each in MATCH_CONDITIONS[: None if mutates else -1]],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": TIMEOUT_SECONDS,
        }

    return [
        _configuration(
            "MutatingWebhookConfiguration",
            webhook(GROUP, "federatedhpas", MUTATE_FEDERATEDHPA, mutates=True),
        ),
        _configuration(
            "ValidatingWebhookConfiguration",
            webhook("federatedhpa.karmada.io", "federatedhpas", VALIDATE_FEDERATEDHPA),
            webhook("cronfederatedhpa.karmada.io", "cronfederatedhpas", VALIDATE_CRONFEDERATEDHPA),
        ),
    ]


def _configuration(kind: str, *webhooks: dict[str, Any]) -> dict[str, Any]:
    metadata, version = {"name": NAME, "labels": dict(_LABELS)}, "admissionregistration.k8s.io/v1"
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "webhooks": [*webhooks]}
