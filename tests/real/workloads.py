"""Objects that several real tests apply."""

from typing import Any


def deployment(name: str, namespace: str, *, replicas: int, cpu: str = "500m") -> dict[str, Any]:
    """A Deployment of pods with one container, named like it, that requests `cpu`."""
    container = {"name": name, "image": "registry.invalid/none", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }
