"""`make demo SCENARIO=burst`: the data centre fills first, the cloud takes the rest and drains first."""

from demo.picture import TARGET, Picture
from demo.play import Play

FIRST, SECOND = "data-centre", "cloud"
MEMBERS = (FIRST, SECOND)
# The data centre's node runs 8 pods that request 200m each (burst.yaml).
CPU = {FIRST: "1600m"}
# An HPA changes nothing while usage is within a tenth of its target.
SERVED = TARGET * 1.1
# The stabilization window of burst.yaml and a pass of the hub are more than a minute each.
DRAIN_SECONDS = 300.0


class Burst(Play):
    """A rising load fills the data centre and then the cloud. As it falls, the cloud scales down first."""

    observations = ("assigned", "data-centre-full", "cloud-took-the-rest", "cloud-drained-first")

    async def _tell(self) -> None:
        self._say("applying the FederatedHPA: Prioritized, the data centre before the cloud")
        await self._create_scaler()
        start = await self._until(assigned, "an HPA in each member")
        self._say(f"each member has an HPA: {bounds_text(start)}")
        self._observe("assigned")
        await self._until(at_least_the_minimum, "the minimum in each member")
        self._say("the load rises")
        self._move(self._load.peak, self._load.rise_seconds)
        full = await self._until(
            lambda p: (p.members[FIRST].ready or 0) >= _bounds(p, FIRST)[1], "a full data centre"
        )
        self._say(f"the data centre runs {full.replicas[FIRST]} pods, all that its node can run")
        self._observe("data-centre-full")
        risen = self._seconds + self._load.rise_seconds
        peak = await self._until(
            lambda p: p.seconds > risen and served(p) and p.replicas[SECOND] > _bounds(p, SECOND)[0],
            "a cloud that serves the rest",
        )
        self._say(f"the cloud serves the rest with {peak.replicas[SECOND]} pods")
        self._observe("cloud-took-the-rest")
        self._say("the load falls; the hub holds the data centre, so that the cloud scales down first")
        self._move(self._load.quiet, self._load.fall_seconds)
        drained = await self._until(
            lambda p: p.replicas.get(SECOND) == _bounds(start, SECOND)[0],
            "a drained cloud",
            seconds=DRAIN_SECONDS,
        )
        self._say(
            f"the cloud runs {drained.replicas[SECOND]}, the data centre {drained.replicas[FIRST]} pods"
        )
        if drained.replicas[FIRST] == peak.replicas[FIRST]:
            self._observe("cloud-drained-first")


def assigned(picture: Picture) -> bool:
    """True if each member has an HPA, and their maxima add up to maxReplicas."""
    maxima = [view.bounds[1] for view in picture.members.values() if view.bounds is not None]
    return len(maxima) == len(picture.members) and sum(maxima) == picture.most


def at_least_the_minimum(picture: Picture) -> bool:
    """True if each member runs at least what its HPA demands, and all these pods are ready."""
    return all(
        view.bounds is not None and (view.ready or 0) >= view.bounds[0] for view in picture.members.values()
    )


def served(picture: Picture) -> bool:
    """True if usage is at or below the target, within the tolerance."""
    usage = picture.utilization()
    return usage is not None and usage <= SERVED


def bounds_text(picture: Picture) -> str:
    """Returns minReplicas and maxReplicas of each member's HPA."""
    parts = (
        f"{name} {view.bounds[0]} to {view.bounds[1]}"
        for name, view in picture.members.items()
        if view.bounds is not None
    )
    return ", ".join(parts)


def _bounds(picture: Picture, name: str) -> tuple[int, int]:
    """Returns the bounds of the member's HPA; (0, 0) if it has none."""
    return picture.members[name].bounds or (0, 0)
