"""The observation of one reconcile of a FederatedHPA: its snapshot, and the objects that writes depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.distributed.hpa_reader import HpaReading
from controller.distributed.template import Bound
from controller.federatedhpa.competition import ON_HUB
from controller.federatedhpa.scale_writes import MemberScale
from fedhpa.api.wire import Scale
from fedhpa.decision import Snapshot
from fedhpa.kube import ApiClient


@dataclass(frozen=True)
class Observation:
    """A snapshot, and the scales that writes must be based on: the template's, or each member's.

    `hub_problem` says why the hub could not serve what the snapshot needs; "" if it did.
    `hpas` are the HPAs of mode Distributed. `unselected` are the scales of clusters that have our HPA and are
    no longer selected, None without the workload. `bound` is the ResourceBinding with propagation karmada.
    """

    snapshot: Snapshot
    path: str = ""
    template: Scale | None = None
    members: Mapping[str, MemberScale] = field(default_factory=dict)
    hub_problem: str = ""
    hpas: Mapping[str, HpaReading] = field(default_factory=dict)
    unselected: Mapping[str, MemberScale | None] = field(default_factory=dict)
    bound: Bound | None = None

    def clients(self, hub: ApiClient) -> dict[str, ApiClient]:
        """The API servers that have the workload, by cluster: members, and the hub if it has a template."""
        clients = {name: member.client for name, member in self.members.items()}
        return clients if self.template is None else {**clients, ON_HUB: hub}
