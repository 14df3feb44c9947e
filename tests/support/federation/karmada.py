"""A federation whose hub is Karmada's: it applies Works, schedules the workload, and sets its replicas.

The rules are those of Karmada v1.19: pkg/controllers/execution, pkg/util/objectwatcher, pkg/detector, the
scheduler, and the default interpreter's retention of replicas.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from testbed.embedded.api.server import new_namespace
from testbed.embedded.cluster.autoscalers import HPAS
from testbed.embedded.objects.kinds import CRDS, NAMESPACES
from testbed.embedded.storage.store import Collection
from tests.support.federation.distributed import Distributed, distributed
from tests.support.federation.planes import CLUSTERS, DEPLOYMENTS, NAME, NAMESPACE, Object, deployment
from tests.support.timing import background

WORKS: Collection = ("work.karmada.io", "works")
BINDINGS: Collection = ("work.karmada.io", "resourcebindings")
POLICY = {"propagationpolicy.karmada.io/permanent-id": "policy"}
RETAIN = "resourcetemplate.karmada.io/retain-replicas"
MANAGED = "karmada.io/managed"
FINALIZER = "karmada.io/execution-controller"
BINDING = f"{NAME}-deployment"
EQUAL = {"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"}}
# Seconds between two looks of Karmada's controllers.
PERIOD = 0.5


class Karmada(Distributed):
    """A federation in mode Distributed on Karmada's hub.

    While `asleep`, no controller of Karmada runs. It removes no workload from the clusters in `keeps`.
    `refuses` has the messages of clusters that refuse Works.
    """

    asleep = False

    def install(self, placement: Object, schema: Object | None = None) -> None:
        """Put CRDs, namespaces, template and ResourceBinding on the hub."""
        self.refuses: dict[str, str] = {}
        self.keeps: set[str] = set()
        store = self.f.hub.server.store
        define(store, "ResourceBinding", "resourcebindings", "v1alpha2", schema)
        define(store, "Work", "works", "v1alpha1")
        for name in self.f.members:
            store.create(NAMESPACES, new_namespace(f"karmada-es-{name}"))
        template = deployment(self.f.total)
        template["metadata"]["labels"] = dict(POLICY)
        store.create(DEPLOYMENTS, template)
        resource = {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": NAMESPACE, "name": NAME}
        # Karmada drops clusters without replicas.
        clusters = [{"name": name, "replicas": number} for name, number in self.f.replicas.items() if number]
        spec = {"resource": resource, "replicas": self.f.total, "clusters": clusters, "placement": placement}
        metadata = {"namespace": NAMESPACE, "name": BINDING, "labels": dict(POLICY)}
        head = {"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding"}
        store.create(BINDINGS, {**head, "metadata": metadata, "spec": spec})

    @property
    def works(self) -> dict[str, Object]:
        """The Works by cluster."""
        found = self.f.hub.server.store.list(WORKS)
        return {work["metadata"]["namespace"].removeprefix("karmada-es-"): work for work in found}

    @property
    def binding(self) -> Object:
        found: Object = self.f.hub.server.store.get(BINDINGS, NAMESPACE, BINDING)
        return found

    @property
    def template(self) -> Object:
        found: Object = self.f.hub.server.store.get(DEPLOYMENTS, NAMESPACE, NAME)
        return found

    @property
    def suspended(self) -> bool:
        """True if the scheduler leaves the workload alone."""
        return bool((self.binding["spec"].get("suspension") or {}).get("scheduling"))

    @property
    def shares(self) -> dict[str, int]:
        """The replicas by cluster in the ResourceBinding."""
        return {each["name"]: each.get("replicas", 0) for each in self.binding["spec"]["clusters"]}

    def edit_hub(self, collection: Collection, name: str, change: Callable[[Object], Any]) -> None:
        """Change an object of the hub as another client would."""
        store = self.f.hub.server.store
        found = store.get(collection, NAMESPACE, name)
        change(found)
        store.update(collection, found)

    def taint(self, cluster: str, **taint: str) -> None:
        """Taint a Cluster, and nothing else."""
        store = self.f.hub.server.store
        found = store.get(CLUSTERS, "", cluster)
        found["spec"]["taints"] = [taint]
        store.update(CLUSTERS, found)

    def observe(self, group: str) -> None:
        """Let the scheduler name the group of clusterAffinities that it uses."""
        self.edit_hub(
            BINDINGS, BINDING, lambda one: one.update(status={"schedulerObservingAffinityName": group})
        )

    async def run(self) -> None:
        """Run Karmada's controllers."""
        while True:
            if not self.asleep:
                for cluster, work in self.works.items():
                    self._execute(cluster, work)
                self._detect()
                self._schedule()
                self._create()
                self._propagate()
            await asyncio.sleep(PERIOD)

    def _execute(self, cluster: str, work: Object) -> None:
        hub, member = self.f.hub.server.store, self.f.members[cluster].server.store
        (manifest,) = work["spec"]["workload"]["manifests"]
        namespace, name = manifest["metadata"]["namespace"], manifest["metadata"]["name"]
        found = member.find(HPAS, namespace, name)
        managed = found is not None and (found["metadata"].get("labels") or {}).get(MANAGED) == "true"
        if work["metadata"].get("deletionTimestamp"):
            if managed:
                member.delete(HPAS, namespace, name)
            work["metadata"]["finalizers"] = []
            hub.update(WORKS, work)
            return
        problem = self.refuses.get(cluster, "")
        if not problem and found is not None and not managed:
            problem = f"resource(kind=HorizontalPodAutoscaler, {namespace}/{name}) already exists"
        if not problem and found is None:
            member.create(HPAS, manifest)
        elif not problem and found is not None and found["spec"] != {**found["spec"], **manifest["spec"]}:
            member.update(HPAS, {**found, "spec": manifest["spec"]})
        reason = "AppliedFailed" if problem else "AppliedSuccessful"
        condition = {"type": "Applied", "status": str(not problem), "reason": reason, "message": problem}
        if (work.get("status") or {}).get("conditions") != [condition]:
            hub.update(WORKS, {**work, "status": {"conditions": [condition]}})

    def _detect(self) -> None:
        """The detector copies the template's replicas, when the template changed."""
        template, binding = self.template, self.binding
        version = template["metadata"]["resourceVersion"]
        if (
            version != getattr(self, "_seen", None)
            and binding["spec"]["replicas"] != template["spec"]["replicas"]
        ):
            binding["spec"]["replicas"] = template["spec"]["replicas"]
            self.f.hub.server.store.update(BINDINGS, binding)
        self._seen = version

    def _schedule(self) -> None:
        """The scheduler divides equally, or gives each cluster the whole number."""
        binding, shares = self.binding, self.shares
        size = binding["spec"]["replicas"]
        how = (binding["spec"]["placement"].get("replicaScheduling") or {}).get("replicaSchedulingType")
        divided = how == "Divided"
        right = sum(shares.values()) == size if divided else set(shares.values()) == {size}
        if self.suspended or right:
            return
        count = len(shares)
        binding["spec"]["clusters"] = [
            {"name": name, "replicas": size // count + (at < size % count) if divided else size}
            for at, name in enumerate(shares)
        ]
        self.f.hub.server.store.update(BINDINGS, binding)

    def _propagate(self) -> None:
        """Members get the binding's replicas, unless the template's label retains theirs."""
        if (self.template["metadata"].get("labels") or {}).get(RETAIN) == "true":
            return
        for name, replicas in self.shares.items():
            if self.f.members[name].replicas != replicas:
                self.f.members[name].resize(replicas)

    def _create(self) -> None:
        """The clusters of the binding get the workload with the binding's number, the others lose theirs."""
        for name, member in self.f.members.items():
            store = member.server.store
            present = store.find(DEPLOYMENTS, NAMESPACE, NAME) is not None
            if name in self.shares and not present:
                store.create(DEPLOYMENTS, deployment(self.shares[name]))
            elif present and name not in self.shares and name not in self.keeps:
                store.delete(DEPLOYMENTS, NAMESPACE, NAME)


def define(store: Any, kind: str, plural: str, version: str, schema: Object | None = None) -> None:
    """Create a CRD that keeps all fields, or those of a schema."""
    names = {"plural": plural, "kind": kind, "listKind": f"{kind}List"}
    found = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": found},
        "subresources": {"status": {}},
    }
    spec = {"group": "work.karmada.io", "scope": "Namespaced", "names": names, "versions": [served]}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    store.create(CRDS, {**head, "metadata": {"name": f"{plural}.work.karmada.io"}, "spec": spec})


@asynccontextmanager
async def karmada(
    folder: Path, *, placement: Object | None = None, schema: Object | None = None, **replicas: int
) -> AsyncIterator[Karmada]:
    """Karmada's hub, and members as those of `distributed`. The policy divides equally unless said."""
    async with AsyncExitStack() as stack:
        d = await stack.enter_async_context(distributed(folder, **replicas))
        k = Karmada(d.f)
        k.install(EQUAL if placement is None else placement, schema)
        await stack.enter_async_context(background(k.run()))
        yield k
