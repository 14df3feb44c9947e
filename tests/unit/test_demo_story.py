"""The demo's judgement: an observation is made on what the objects show, and on nothing else."""

import asyncio
from typing import Any

import pytest

from demo.curve import Curve, Load
from demo.picture import OBSERVATIONS, REQUEST_MILLIS, MemberView, Picture, scaled_down, scaled_up
from demo.rules import CAUGHT_UP, FIRED, Rules, RulesPicture
from demo.story import Story
from fedhpa.api.times import format_time, parse_time

MEMBERS = ("a", "b", "c")
LOAD = Load(quiet=120, peak=1200, rise_seconds=6.0, fall_seconds=4.0)


class ToyWorld:
    """Three members that follow the demand at each reading."""

    def __init__(
        self,
        *,
        careless: bool = False,
        admits_anything: bool = False,
        deaf: bool = False,
        forgetful: bool = False,
        late: float = 0.0,
        minute: float = 20.0,
    ) -> None:
        self.careless, self.admits_anything, self.deaf = careless, admits_anything, deaf
        self.forgetful, self.late = forgetful, late
        self.minute = minute
        self.times: dict[float, float] = {}
        self.last: float | None = None
        self.up_since: float | None = 0.0
        self.pods = dict.fromkeys(MEMBERS, 1)
        self.lost: str | None = None
        self.lost_at = 0.0
        self.demand = LOAD.quiet
        self.load = LOAD
        self.created = False

    async def create_scaler(self) -> None:
        self.created = True

    async def try_the_refused(self) -> str:
        return "" if self.admits_anything else "denied the request"

    async def create_rules(self, last: str) -> None:
        assert self.up_since is None, "a controller that runs would overwrite the status"
        self.last = parse_time(last)

    async def stop_controller(self) -> None:
        await asyncio.sleep(1)
        self.up_since = None

    async def start_controller(self) -> None:
        await asyncio.sleep(2)
        self.up_since = self.wall()

    def wall(self) -> float:
        """The time of day, which starts `minute` seconds after a full minute."""
        return 1_699_999_980.0 + self.minute + asyncio.get_running_loop().time()

    @property
    def has_no_answer(self) -> bool:
        """True without a last answer of the lost member: after a minute, or in a new controller."""
        return self.up_since is not None and max(self.up_since, self.wall() - 60) >= self.lost_at

    def apply_rules(self) -> None:
        """Applies the newest execution since the last one: also one of the outage, unless forgotten.

        A member that is away delays it, because it may have the workload, too.
        """
        newest = (self.wall() - self.late) // 60 * 60
        if self.up_since is None or self.last is None or newest <= self.last or self.lost is not None:
            return
        if newest >= self.up_since or not self.forgetful:
            self.times.setdefault(newest, self.wall())
            self.last = newest

    async def read_rules(self) -> RulesPicture:
        self.apply_rules()
        done: list[dict[str, Any]] = [
            {
                "scheduleTime": format_time(due),
                "executionTime": format_time(float(int(at))),
                "appliedReplicas": int(due // 60 % 7),
            }
            for due, at in sorted(self.times.items(), reverse=True)
        ]
        size = done[0]["appliedReplicas"] if done else 1
        return RulesPicture({"status": {"executionHistories": [{"successfulExecutions": done}]}}, size)

    async def play(self, demand_millis: int) -> None:
        self.demand = demand_millis

    async def lose(self, name: str) -> None:
        self.lost, self.lost_at = name, self.wall()

    async def bring_back(self, name: str) -> None:
        self.lost = None

    async def read(self, seconds: float) -> Picture:
        if self.created and not self.deaf and (self.lost is None or self.careless):
            wanted = max(1, min(3, self.demand // 300))
            self.pods |= {name: wanted for name in MEMBERS if name != self.lost}
        each = self.demand // sum(self.pods.values())
        views = {name: MemberView(count, count, each * count) for name, count in self.pods.items()}
        if self.lost is not None:
            views[self.lost] = MemberView(None, None, None)
        return Picture(
            seconds=seconds, members=views, object={"spec": {"maxReplicas": 9}, "status": self.status()}
        )

    def status(self) -> dict[str, Any]:
        complete = {"type": "MetricsComplete", "status": "True", "message": ""}
        if self.lost is not None and self.has_no_answer:
            complete = {"type": "MetricsComplete", "status": "False", "message": f"{self.lost}: away"}
        return {"desiredReplicas": sum(self.pods.values()), "conditions": [complete]}


async def told(world: ToyWorld) -> tuple[list[str], list[str]]:
    lines: list[str] = []
    story = Story(world, Rules(world, world.wall), lines.append, lambda _picture, _demand: None)
    await story.run(once=True)
    return story.missing, lines


@pytest.mark.looptime
async def test_every_observation_is_made_on_a_world_that_behaves() -> None:
    """A careful world shows all eight, each printed as a line of its own."""
    missing, lines = await told(ToyWorld())

    assert missing == []
    assert set(OBSERVATIONS) == {
        line.removeprefix("observed: ") for line in lines if line.startswith("observed: ")
    }


@pytest.mark.parametrize("minute", range(0, 60, 4))
@pytest.mark.looptime
async def test_the_story_ends_within_a_minute_or_so(minute: float) -> None:
    """Whenever in a minute it begins, no rule is due while a member is away, and nobody waits twice."""
    missing, _ = await told(ToyWorld(minute=minute))

    assert missing == []
    assert asyncio.get_running_loop().time() <= 66


@pytest.mark.looptime
async def test_an_execution_that_a_busy_machine_delays_is_tried_again() -> None:
    """The next one counts, a minute later."""
    world = ToyWorld(late=10.0)

    async def in_time() -> None:
        await asyncio.sleep(60)
        world.late = 0.0

    later = asyncio.ensure_future(in_time())
    missing, _ = await told(world)
    await later

    assert missing == []


@pytest.mark.looptime
async def test_scaling_on_missing_data_is_not_passed_over() -> None:
    """A world that scales down while a member is away does not get that observation."""
    missing, _ = await told(ToyWorld(careless=True))

    assert "nothing-scaled-on-missing-data" in missing


@pytest.mark.looptime
async def test_object_that_was_admitted_is_not_called_refused() -> None:
    """Without a refusal there is no observation of one."""
    missing, _ = await told(ToyWorld(admits_anything=True))

    assert missing == ["refused"]


@pytest.mark.looptime
async def test_story_of_a_world_that_does_not_scale_ends() -> None:
    """An observation that does not appear in time ends the story, and the rest counts as missing."""
    missing, lines = await told(ToyWorld(deaf=True))

    assert [name for name in OBSERVATIONS if name not in ("refused", CAUGHT_UP, FIRED)] == missing
    assert any(line.startswith("not seen: more pods") for line in lines)


@pytest.mark.looptime
async def test_execution_that_a_restart_loses_is_not_called_caught_up() -> None:
    """A controller that forgets the executions of its outage only gets the observation of the other one."""
    missing, _ = await told(ToyWorld(forgetful=True))

    assert missing == [CAUGHT_UP]


@pytest.mark.looptime
async def test_execution_that_is_late_is_not_called_fired() -> None:
    """A rule that is applied ten seconds late was caught up, and did not fire on time."""
    missing, _ = await told(ToyWorld(late=10.0))

    assert missing == [FIRED]


def test_an_execution_right_after_the_outage_hides_no_observation() -> None:
    """Both executions may be within the same reading of the object."""
    done = [
        {
            "scheduleTime": "2026-03-11T13:24:00Z",
            "executionTime": "2026-03-11T13:24:00Z",
            "appliedReplicas": 8,
        },
        {
            "scheduleTime": "2026-03-11T13:23:00Z",
            "executionTime": "2026-03-11T13:23:59Z",
            "appliedReplicas": 4,
        },
    ]
    seen = RulesPicture({"status": {"executionHistories": [{"successfulExecutions": done}]}}, 8)
    early, late = parse_time("2026-03-11T13:23:00Z"), parse_time("2026-03-11T13:24:00Z")

    assert early is not None
    assert seen.after(early - 600) == (early, early + 59)
    assert seen.after(early) == (late, late)


@pytest.mark.looptime
async def test_nothing_is_concluded_from_missing_data_while_no_controller_runs() -> None:
    """The story waits with the hold until the controller is started again."""
    world = ToyWorld()
    rules = Rules(world, world.wall)
    held: list[bool] = []

    def say(line: str) -> None:
        if line == "observed: nothing-scaled-on-missing-data":
            held.append(world.up_since is not None)

    await Story(world, rules, say, lambda _picture, _demand: None).run(once=True)

    assert held == [True]


def picture(**pods: int | None) -> Picture:
    members = {
        name: MemberView(count, count, None if count is None else count * REQUEST_MILLIS // 2)
        for name, count in pods.items()
    }
    return Picture(seconds=0, members=members, object={})


def test_growth_in_one_cluster_is_not_scaled_up() -> None:
    """Scaled up means more pods in at least two clusters."""
    before = picture(a=1, b=1, c=1)

    assert not scaled_up(before, picture(a=4, b=1, c=1))
    assert scaled_up(before, picture(a=2, b=2, c=1))


def test_cluster_that_is_away_does_not_count_as_scaled_down() -> None:
    """A silent cluster has an unknown number of pods, not none."""
    before = picture(a=3, b=3)

    assert not scaled_down(before, picture(a=3, b=None))
    assert scaled_down(before, picture(a=3, b=2))


def test_utilization_leaves_out_who_is_away() -> None:
    """Usage in percent of requests is over the clusters that answer."""
    assert picture(a=2, b=None).utilization() == 50
    assert picture(a=None).utilization() is None


def test_curve_goes_from_one_demand_to_another_and_stays() -> None:
    """It never leaves the way between the two, is half way in the middle, and can turn round anywhere."""
    curve = Curve(100)
    curve.move(1100, now=10.0, seconds=8.0)
    way = [curve.at(10.0 + second) for second in range(12)]

    assert (way[0], way[4], way[8:]) == (100, 600, [1100, 1100, 1100, 1100])
    assert way == sorted(way)
    curve.move(1100, now=20.0, seconds=8.0)
    curve.move(0, now=22.0, seconds=0.0)
    assert (curve.at(22.0), curve.at(30.0)) == (0, 0)
