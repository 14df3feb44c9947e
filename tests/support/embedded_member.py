"""A simulated member without a server: a store, its controllers, and a clock that tests advance."""

from datetime import UTC, datetime, timedelta

from testbed.embedded.api.types import Object
from testbed.embedded.cluster.controllers import NODES, Controllers
from testbed.embedded.cluster.load import Load
from testbed.embedded.cluster.pods import PODS, is_ready
from testbed.embedded.storage.store import Store

DEPLOYMENTS = ("apps", "deployments")


class SimulatedMember:
    """A member whose pods become ready 2 s after their start."""

    def __init__(self, load: Load | None = None, *, cpu: str = "4", pods: str = "110") -> None:
        self.now = datetime(2026, 3, 11, 13, 0, 0, tzinfo=UTC)
        self.store = Store(lambda: self.now)
        self.controllers = Controllers(self.store, lambda: self.now, ready_after=2.0)
        self.load = load or Load()
        self.load.join(self.store)
        self.node("node1", cpu=cpu, pods=pods)

    def node(self, name: str, *, cpu: str = "4", pods: str = "110") -> None:
        """Add a node."""
        allocatable = {"cpu": cpu, "memory": "8Gi", "pods": pods}
        conditions = [{"type": "Ready", "status": "True"}]
        self.store.create(
            NODES,
            {"metadata": {"name": name}, "status": {"allocatable": allocatable, "conditions": conditions}},
        )

    def run(
        self, name: str, replicas: int, container: Object | None = None, *, kind: str = "Deployment"
    ) -> Object:
        """Create a workload in the namespace shop."""
        manifest = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": name, "image": "i", **(container or {})}]},
                },
            },
        }
        return self.store.create(("apps", f"{kind.lower()}s"), manifest)

    def resize(self, name: str, replicas: int, *, kind: str = "Deployment") -> None:
        """Write spec.replicas."""
        found = self.store.get(("apps", f"{kind.lower()}s"), "shop", name)
        found["spec"]["replicas"] = replicas
        self.store.update(("apps", f"{kind.lower()}s"), found)

    def settle(self, seconds: float = 2.0) -> None:
        """Run the controllers now and `seconds` later."""
        self.controllers.step()
        self.now += timedelta(seconds=seconds)
        self.controllers.step()

    def pods(self) -> list[Object]:
        """Returns all pods."""
        return self.store.list(PODS)

    def ready(self) -> list[str]:
        """Returns the names of the ready pods."""
        return [pod["metadata"]["name"] for pod in self.pods() if is_ready(pod)]

    def status(self, name: str, *, kind: str = "Deployment") -> Object:
        """Returns the status of a workload."""
        found: Object = self.store.get(("apps", f"{kind.lower()}s"), "shop", name)["status"]
        return found


def condition(obj: Object, kind: str) -> Object:
    """Returns a condition of an object."""
    found: Object = next(each for each in obj["status"]["conditions"] if each["type"] == kind)
    return found
