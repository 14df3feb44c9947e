"""What makes a hub call the webhook and the adapter, and an object that proves that it does."""

import base64
from typing import Any

NAMESPACE = "fedhpa-system"
ADAPTER = "fedhpa-metrics-adapter"
ADAPTER_SERVICE = ADAPTER

# Names of Karmada's entries: clients see them in `admission webhook "..." denied the request`.
MUTATING = {"autoscaling.karmada.io": ("federatedhpas", "/mutate-federatedhpa")}
VALIDATING = {
    "federatedhpa.karmada.io": ("federatedhpas", "/validate-federatedhpa"),
    "cronfederatedhpa.karmada.io": ("cronfederatedhpas", "/validate-cronfederatedhpa"),
}


def webhook_configurations(port: int, ca_bundle: bytes) -> list[dict[str, Any]]:
    """Both configurations, by URL: the API server runs on this machine and calls a port of it.

    Mutation is Ignore and validation Fail: a webhook that is down refuses new objects, but nothing that runs
    needs it, since the controller applies all defaults itself.
    """
    return [
        _configuration("MutatingWebhookConfiguration", MUTATING, "Ignore", port, ca_bundle),
        _configuration("ValidatingWebhookConfiguration", VALIDATING, "Fail", port, ca_bundle),
    ]


def _configuration(
    kind: str, entries: dict[str, tuple[str, str]], failure_policy: str, port: int, ca_bundle: bytes
) -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "fedhpa"},
        "webhooks": [
            {
                "name": name,
                "clientConfig": {
                    "url": f"https://127.0.0.1:{port}{path}",
                    "caBundle": base64.b64encode(ca_bundle).decode(),
                },
                "rules": [
                    {
                        "operations": ["CREATE", "UPDATE"],
                        "apiGroups": ["autoscaling.karmada.io"],
                        "apiVersions": ["*"],
                        "resources": [resource],
                        "scope": "Namespaced",
                    }
                ],
                "failurePolicy": failure_policy,
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
                "timeoutSeconds": 3,
            }
            for name, (resource, path) in entries.items()
        ],
    }


def never_comes(name: str, namespace: str = "default") -> dict[str, Any]:
    """A CronFederatedHPA whose date never comes: no schema can know that, only the webhook refuses it."""
    return {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "CronFederatedHPA",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "rules": [{"name": "never", "schedule": "0 0 31 2 *", "targetReplicas": 1}],
        },
    }
