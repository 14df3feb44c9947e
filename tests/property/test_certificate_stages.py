"""Certificates and their root change, leaders die after any write, and no server's certificate is distrusted.

API servers may use an old bundle, and pods may serve an old certificate, for nearly the settle time.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field, replace
from typing import Any

from cryptography import x509
from hypothesis import given, settings
from hypothesis import strategies as st

from certs import secrets
from certs.authority import IssuedCertificate
from certs.stages import Action, Observed, Publish, Stage, StoreAuthority, plan, stage_of
from certs.state import Now, Serving, Settings, State, Status, Trusting, server_hosts
from tests.support.nightly import NIGHTLY, examples

START = dt.datetime(2026, 3, 11, tzinfo=dt.UTC)
SETTINGS = Settings(lifetime=dt.timedelta(hours=10), root_lifetime=dt.timedelta(hours=40), settle=300.0)
# Seconds that an API server or a pod may be behind the stored objects.
LAG = 290.0
SERVERS = ("webhook", "metrics-adapter")
REGISTRATIONS = {"mutating": "webhook", "validating": "webhook", "custom": "metrics-adapter"}
MOST_PASSES = 12


@dataclass
class Versions:
    """The values stored one after another, with the time at which each ceased to be the newest."""

    newest: Any = None
    older: list[tuple[float, Any]] = field(default_factory=list)

    def store(self, value: Any, clock: float) -> None:
        if self.newest is not None:
            self.older.append((clock, self.newest))
        self.newest = value

    def in_use(self, clock: float) -> list[Any]:
        found = [value for ended, value in self.older if clock - ended < LAG]
        return found if self.newest is None else [*found, self.newest]


class World:
    """Secrets and bundles as they are stored, and the clocks of the API server and of the leader."""

    def __init__(self) -> None:
        self.clock = 0.0
        self.step = 0.0
        self.secrets: dict[str, dict[str, Any]] = {}
        self.bundles: dict[str, Versions] = {name: Versions() for name in REGISTRATIONS}
        self.served: dict[str, Versions] = {server: Versions() for server in SERVERS}
        self.uids = 0
        self.unread: set[str] = set()
        self.memory = Observed()

    def now(self) -> Now:
        """The API server's time counts. The leader's own clock may have stepped."""
        return Now(START + dt.timedelta(seconds=self.clock), agreed=abs(self.step) <= 300)

    def state(self) -> State:
        stored = self.secrets.get("ca")
        serving = tuple(
            Serving(
                server,
                server,
                server_hosts(server, "ns"),
                Status.ABSENT if server not in self.secrets else Status.OURS,
                secrets.decode_pair(self.secrets.get(server)),
                secrets.decode_bundle(self.secrets.get(server)),
            )
            for server in SERVERS
        )
        trusting = tuple(
            Trusting(name, server, Status.UNREAD)
            if name in self.unread
            else Trusting(name, server, Status.OURS, "", (self.bundles[name].newest or (),))
            for name, server in REGISTRATIONS.items()
        )
        return State(secrets.decode_authority(stored), secrets.status_of(stored), serving, trusting)

    def run(self, writes: int = 1000) -> None:
        """Plans and writes until nothing is due. The leader dies after that many writes."""
        for _ in range(MOST_PASSES):
            planned = plan(self.state(), SETTINGS, self.now(), self.clock, self.memory)
            self.memory = planned.memory
            if not planned.actions:
                return
            for action in planned.actions:
                if not writes:
                    self.memory = Observed()
                    return
                writes -= 1
                self.write(action)
                self.check()
        raise AssertionError("the plan does not end")

    def write(self, action: Action) -> None:
        if isinstance(action, Publish):
            self.bundles[action.name].store(action.roots, self.clock)
            return
        if isinstance(action, StoreAuthority):
            name, data = "ca", secrets.encode_authority(action.authority)
        else:
            name, data = action.server, secrets.encode_serving(action.pair, action.roots)
            if action.issued:
                self.served[name].store(action.pair, self.clock)
        self.secrets[name] = secrets.secret_with(self.secrets.get(name), "ns", name, "Opaque", data)

    def check(self) -> None:
        """Each API server trusts each certificate that a pod may still serve."""
        now = self.now().time
        for name, server in REGISTRATIONS.items():
            for bundle in self.bundles[name].in_use(self.clock):
                for pair in self.served[server].in_use(self.clock):
                    assert is_trusted(pair, bundle, now), (name, server, self.clock)

    # ---- what may happen

    def advance(self, seconds: float) -> None:
        """Passes time in steps as the leader looks."""
        for _ in range(int(seconds // 60)):
            self.clock += 60
            self.check()
            self.run()

    def rotate(self) -> None:
        if "ca" in self.secrets:
            self.secrets["ca"]["metadata"].setdefault("annotations", {})[secrets.ROTATE] = "now"

    def create_again(self, name: str) -> None:
        self.bundles[name] = Versions()

    def delete(self, name: str) -> None:
        """Pods serve the deleted certificate until they have another one."""
        self.secrets.pop(name, None)

    @property
    def is_whole(self) -> bool:
        return "ca" in self.secrets and secrets.decode_authority(self.secrets["ca"]).signer is not None


def is_trusted(pair: IssuedCertificate, bundle: tuple[x509.Certificate, ...], now: dt.datetime) -> bool:
    leaf = pair.certificate
    for root in bundle:
        try:
            leaf.verify_directly_issued_by(root)
        except Exception:  # any failure means that this root did not sign
            continue
        valid = root.not_valid_before_utc <= now < root.not_valid_after_utc
        if valid and leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc:
            return True
    return False


names = st.sampled_from(sorted(REGISTRATIONS))
events = st.one_of(
    st.tuples(st.just("advance"), st.sampled_from([60, 180, 420, 3600, 10800])),
    st.tuples(st.just("rotate"), st.none()),
    st.tuples(st.just("crash"), st.integers(0, 6)),
    st.tuples(st.just("step"), st.sampled_from([-(10**9), -3600, 0, 0, 120, 86400, 10**9])),
    st.tuples(st.just("create"), names),
    st.tuples(st.just("unread"), names),
    st.tuples(st.just("delete"), st.sampled_from([*SERVERS, "ca"])),
)


@settings(max_examples=examples(15, 3000), deadline=None)
@given(st.lists(events, max_size=14))
def test_every_certificate_that_may_be_served_is_trusted(happened: list[tuple[str, Any]]) -> None:
    """Events come in any order. In the end there is one root, and it signed each certificate."""
    world = World()
    world.run()
    for what, value in happened:
        if what == "advance":
            world.advance(value)
        elif what == "rotate":
            world.rotate()
        elif what == "crash":
            world.memory = Observed()
            world.run(value)
        elif what == "step":
            world.step = value
        elif what == "unread":
            world.unread ^= {value}
        elif world.is_whole and what == "create":  # who has lost everything has lost it
            world.create_again(value)
        elif world.is_whole:
            world.delete(value)
        # A clock that differs for long stops renewals, and so does an object that cannot be read.
        if world.step or world.unread:
            world.advance(120)
            world.step, world.unread = 0.0, set()
            world.memory = Observed()
    world.advance(1800)

    state = world.state()
    signer = state.authority.signer
    assert stage_of(state) is Stage.STABLE
    assert signer is not None
    assert {bundle for each in state.trusting for bundle in each.bundles} == {(signer.certificate,)}
    assert all(each.pair and signer.issued(each.pair.certificate) for each in state.serving)


def test_a_leader_killed_after_each_write_of_a_rotation_loses_nothing() -> None:
    """A rotation has about twelve writes. The leader is killed after each of them, and once more later."""
    for first in range(14):
        for second in range(14) if NIGHTLY else (3,):
            world = World()
            world.run()
            before = world.state().authority.roots
            world.rotate()
            for writes in (first, second):
                world.memory = Observed()
                world.run(writes)
                world.advance(360)
            world.advance(1800)

            assert stage_of(world.state()) is Stage.STABLE
            assert not set(before) & set(world.state().authority.roots)


def test_each_leader_that_is_killed_at_each_pass_still_finishes() -> None:
    """Leaders that live for longer than the settle time make progress, however often they are killed."""
    world = World()
    world.run()
    before = world.state().authority.roots
    world.rotate()
    stages = []
    for _ in range(6):
        world.memory = Observed()
        world.advance(420)
        stages.append(stage_of(world.state()))

    assert stages[-1] is Stage.STABLE
    assert not set(before) & set(world.state().authority.roots)


def test_an_early_switch_would_be_seen() -> None:
    """The checks of this file find a leader that signs before the bundles were reloaded."""
    hasty = replace(SETTINGS, settle=0.0)
    world = World()
    world.run()
    world.clock += 3600
    world.rotate()
    try:
        for _ in range(MOST_PASSES):
            planned = plan(world.state(), hasty, world.now(), world.clock, world.memory)
            for action in planned.actions:
                world.write(action)
                world.check()
    except AssertionError:
        return
    raise AssertionError("nothing was found")
