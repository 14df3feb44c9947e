"""The state that the demo reads from the objects at one moment, and the observations that it proves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from demo.rules import CAUGHT_UP, FIRED, RulesPicture

OBSERVATIONS = (
    "refused",
    "scaled-up",
    "member-lost",
    "nothing-scaled-on-missing-data",
    "member-back",
    "scaled-down",
    CAUGHT_UP,
    FIRED,
)

REQUEST_MILLIS = 200  # CPU that each pod requests, objects.yaml
TARGET = 50  # percent of the request, objects.yaml


@dataclass(frozen=True)
class MemberView:
    """One member: its Deployment, or None while the member is away, and the CPU that the pods use.

    `bounds` are minReplicas and maxReplicas of its HPA, if it has one.
    """

    replicas: int | None
    ready: int | None
    usage_millis: int | None
    bounds: tuple[int, int] | None = None


@dataclass(frozen=True)
class Picture:
    """All members, the FederatedHPA and the rules, `seconds` after the start.

    `hub_away` is True while the hub does not answer. `hpas` tells for each member which HPA it has: a change
    of its spec gives another text.
    """

    seconds: float
    members: Mapping[str, MemberView]
    object: Mapping[str, Any]
    rules: RulesPicture = field(default_factory=RulesPicture)
    hub_away: bool = False
    hpas: Mapping[str, str] = field(default_factory=dict)

    @property
    def replicas(self) -> dict[str, int]:
        """spec.replicas of the members that answer."""
        return {name: view.replicas for name, view in self.members.items() if view.replicas is not None}

    @property
    def total(self) -> int:
        """The replicas of all members that answer."""
        return sum(self.replicas.values())

    @property
    def desired(self) -> int | None:
        """status.desiredReplicas of the FederatedHPA; None before the first decision."""
        value = self._status.get("desiredReplicas")
        return int(value) if value else None

    @property
    def most(self) -> int | None:
        """The FederatedHPA's maxReplicas; None before it exists."""
        value = (self.object.get("spec") or {}).get("maxReplicas")
        return int(value) if value else None

    @property
    def reason(self) -> str:
        """The reason of the last decision, in the words of `fedhpa explain`."""
        return str((self._status.get("summary") or {}).get("reason") or "")

    @property
    def missing(self) -> str:
        """The hub that is away, or the message of MetricsComplete while it is False, else ""."""
        if self.hub_away:
            return "the hub does not answer"
        for condition in self._status.get("conditions") or ():
            if condition["type"] == "MetricsComplete" and condition["status"] == "False":
                return str(condition["message"])
        return ""

    @property
    def complete(self) -> bool:
        """True if MetricsComplete is True: every expected member answered."""
        conditions = self._status.get("conditions") or ()
        return any(c["type"] == "MetricsComplete" and c["status"] == "True" for c in conditions)

    def utilization(self, *members: str) -> float | None:
        """Returns the usage of `members` (default: all) in percent of their requests; None without data."""
        views = [self.members[name] for name in members or self.members]
        known = [(v.usage_millis, v.replicas) for v in views if v.usage_millis is not None and v.replicas]
        if not known:
            return None
        return 100 * sum(usage for usage, _ in known) / (REQUEST_MILLIS * sum(pods for _, pods in known))

    @property
    def _status(self) -> Mapping[str, Any]:
        return self.object.get("status") or {}


def scaled_up(before: Picture, now: Picture) -> bool:
    """True if at least two clusters have more pods than before."""
    return sum(now.replicas.get(name, 0) > count for name, count in before.replicas.items()) >= 2


def scaled_down(before: Picture, now: Picture) -> bool:
    """True if all members answer, none has more pods than before, and the sum is lower."""
    everywhere = set(now.replicas) == set(now.members)
    risen = any(count > before.replicas.get(name, count) for name, count in now.replicas.items())
    return everywhere and not risen and now.total < before.total
