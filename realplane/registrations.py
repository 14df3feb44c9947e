"""Where the adapter is registered on a hub, and an object that proves that the webhook is."""

from typing import Any

NAMESPACE = "fedhpa-system"
ADAPTER = "fedhpa-metrics-adapter"
ADAPTER_SERVICE = ADAPTER


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
