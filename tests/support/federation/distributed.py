"""A federation whose members act on their own HPAs, for mode Distributed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from fedhpa.api.member_hpas import MANAGED_BY, PLURAL
from testbed.embedded.cluster.autoscalers import HPAS, SYNC_SECONDS, Autoscalers
from tests.support.federation.planes import HPAS as FEDERATED
from tests.support.federation.planes import NAME, NAMESPACE, Object, Seen
from tests.support.federation.world import Federation, federation
from tests.support.timing import background, until

# Usage is at the target with this much load a pod.
PER_POD: Final = 50


class Distributed:
    """A federation in mode Distributed, with its bounds and its writes."""

    def __init__(self, federation: Federation) -> None:
        self.f = federation

    def scale(self, mode: str | None = "Distributed", **spec: Any) -> None:
        """Put an autoscaler of this mode on the hub, with equal weights."""
        weights = {"federatedHPAAssignment": {"federatedHPAAssignmentType": "StaticWeighted"}}
        spec = {**weights, **spec}
        self.f.scale(**spec, **({} if mode is None else {"mode": mode}))

    async def begin(self, replicas: int = 6, **spec: Any) -> None:
        """Put an autoscaler on the hub, under load for these replicas, and wait for its bounds."""
        self.f.demand(replicas * PER_POD)
        self.scale(**{"minReplicas": 2, "maxReplicas": 12, **spec})
        await until(lambda: self.f.condition("Assigned")[0] == "True")

    def hpa(self, cluster: str) -> Object | None:
        """The HPA of a member as it is stored."""
        return self.f.members[cluster].server.store.find(HPAS, NAMESPACE, NAME)

    def edit(self, cluster: str, **spec: Any) -> None:
        """Change the spec of a member's HPA as another client would."""
        store = self.f.members[cluster].server.store
        found = store.get(HPAS, NAMESPACE, NAME)
        found["spec"].update(spec)
        store.update(HPAS, found)

    @property
    def bounds(self) -> dict[str, tuple[int, int] | None]:
        """minReplicas and maxReplicas of our HPA in each member; None without one."""
        return {name: self._bounds(name) for name in self.f.members}

    def _bounds(self, cluster: str) -> tuple[int, int] | None:
        found = self.hpa(cluster)
        if found is None or MANAGED_BY not in (found["metadata"].get("labels") or {}):
            return None
        return found["spec"]["minReplicas"], found["spec"]["maxReplicas"]

    @property
    def maximum(self) -> int:
        """The sum of all maxima."""
        return sum(bounds[1] for bounds in self.bounds.values() if bounds is not None)

    def writes(self, since: float = 0.0) -> list[Seen]:
        """All requests to members that change something."""
        found = [seen for member in self.f.members.values() for seen in member.writes()]
        return [seen for seen in found if seen.at >= since]

    def hpa_writes(self, since: float = 0.0) -> list[Seen]:
        """The requests to members that change HPAs."""
        return [seen for seen in self.writes(since) if PLURAL in seen.path]

    def change(self, **fields: Any) -> None:
        """Change the spec of the FederatedHPA; None removes a field."""
        store = self.f.hub.server.store
        found = store.get(FEDERATED, NAMESPACE, NAME)
        for name, value in fields.items():
            found["spec"].pop(name, None)
            if value is not None:
                found["spec"][name] = value
        store.update(FEDERATED, found)

    @property
    def object(self) -> Object | None:
        """The FederatedHPA; None if it is gone."""
        found: Object | None = self.f.hub.server.store.find(FEDERATED, NAMESPACE, NAME)
        return found

    def delete(self) -> None:
        """Delete the FederatedHPA."""
        self.f.hub.server.store.delete(FEDERATED, NAMESPACE, NAME)


@asynccontextmanager
async def distributed(folder: Path, **replicas: int) -> AsyncIterator[Distributed]:
    """A hub, and members with so many replicas that scale by their own HPAs every 15 seconds."""
    async with AsyncExitStack() as stack:
        f = await stack.enter_async_context(federation(folder, tls=False, **replicas))  # type: ignore[arg-type]  # no member has the name of an option
        for member in f.members.values():
            autoscalers = Autoscalers(member.server.store, member.metrics, f.date)
            await stack.enter_async_context(background(autoscalers.run(SYNC_SECONDS)))
        yield Distributed(f)
