"""A cluster is read again only if something of its last reading has changed."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from controller.federatedhpa.pod_index import NO_USAGE, Look, PodIndex
from fedhpa.api.known_cluster import KnownCluster
from fedhpa.api.selectors import parse_selector
from fedhpa.api.wire import ObjectMeta, PodSpec, Scale, ScaleSpec, ScaleStatus
from fedhpa.cache import Entry, Fetched
from fedhpa.decision import ClusterSnapshot
from fedhpa.members.watches import ScaleCache
from fedhpa.scaling.records import PodRecord, UsageRecord
from fedhpa.scaling.requests import shared_requests

WEB = {"app": "web"}
PATH = "/apis/apps/v1/namespaces/shop/deployments/web"
KEY = ("shop", "web")
SCALE = Scale(ObjectMeta("web", "shop", resourceVersion="7"), ScaleSpec(1), ScaleStatus(1, "app=web"))
POD = PodRecord("m1", "shop", "a", WEB, shared_requests(PodSpec()), ready="True")
MAX_AGE = 10.0


def usage(milli: int, at: float = 0.0) -> Fetched[tuple[UsageRecord, ...]]:
    return Fetched((UsageRecord("m1", "shop", "a", 0.0, 15.0, milli, None, (), WEB),), at)


class Named(SimpleNamespace):
    """A member that is a key of a table."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def named(**fields: object) -> Any:
    return Named(**fields)


class Quiet:
    """A cluster that was read at 0 s, and everything that its reading was made of."""

    def __init__(self) -> None:
        self.now = 0.0
        self.client = SimpleNamespace(generation=1, breaker=SimpleNamespace(reason=None))
        about = {"known": KnownCluster("m1"), "short_uid": ""}
        self.member: Any = named(name="m1", closed=False, is_sound=True, client=self.client, **about)
        self.store = {KEY: SCALE}
        self.scales, self.pods = self.reflector(self.store), self.reflector({})
        self.written = ScaleCache(clock=lambda: self.now)
        self.lists: Any = SimpleNamespace(slow={})
        self.index = PodIndex("shop", {("shop", "a"): POD}, lambda: self.now)
        selected = self.index.selected("app=web", parse_selector("app=web"))
        self.look = Look(self.member, PATH, self.scales, self.pods, SCALE, self.index, selected)
        self.entry: Entry[tuple[UsageRecord, ...]] = Entry(fetched=usage(100), at=0.0, expires=float("inf"))
        place: Any = ("the list of usage",)
        self.place = place
        self.look.usage = self.place, self.entry
        self.first = self.look.reading(usage(100))
        self.look.selected.usage = self.entry.fetched

    def reflector(self, store: dict[Any, Any]) -> Any:
        records = SimpleNamespace(changes=0)
        return SimpleNamespace(proven=True, generation=1, records=records, get=store.get, needed_at=0.0)

    def again(self, max_age: float | None = MAX_AGE, path: str = PATH) -> ClusterSnapshot | None:
        return self.look.again(self.member, self.written, self.lists, path, KEY, max_age, self.now)

    def put_pod(self) -> None:
        self.index.change(("shop", "b"), None, PodRecord("m1", "shop", "b", WEB, POD.requests))

    def write(self) -> None:
        self.written.note(self.member, PATH, SCALE)

    def scale(self) -> None:
        self.store[KEY] = Scale(SCALE.metadata, ScaleSpec(2), SCALE.status)
        self.scales.records.changes += 1

    def drop_selection(self) -> None:
        self.now = 10_000.0
        self.entry.at = self.now
        self.index.selected("app=api", parse_selector("app=api"))


CHANGES: dict[str, Callable[[Quiet], object]] = {
    "another cluster of the name": lambda one: setattr(one, "member", named(**vars(one.member))),
    "unregistered": lambda one: setattr(one.member, "closed", True),
    "not ready": lambda one: setattr(one.member, "is_sound", False),
    "its breaker is open": lambda one: setattr(one.client.breaker, "reason", "no answer within 3 s"),
    "other access": lambda one: setattr(one.client, "generation", 2),
    "the watch of scales ended": lambda one: setattr(one.scales, "proven", False),
    "the watch of pods ended": lambda one: setattr(one.pods, "proven", False),
    "the scale changed": lambda one: one.scale(),
    "the scale was written": lambda one: one.write(),
    "older writes were forgotten": lambda one: one.written.forgotten.update(
        {(one.member, 1, "deployments"): "9"}
    ),
    "a pod came": lambda one: one.put_pod(),
    "the usage is too old": lambda one: setattr(one, "now", MAX_AGE + 0.1),
    "the usage is being read": lambda one: setattr(one.entry, "flight", object()),
    "the usage failed": lambda one: setattr(one.entry, "error", ValueError("500")),
    "the usage is read ahead": lambda one: one.lists.slow.update({one.place: None}),
    "nobody has used the selector": lambda one: one.drop_selection(),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_looked_at(what: str) -> None:
    """The last reading does not serve after any change of what it was made of."""
    quiet = Quiet()
    before = quiet.again()
    CHANGES[what](quiet)

    assert before is quiet.first
    assert quiet.again() is None


def test_another_target_is_looked_at() -> None:
    """The reading of one workload does not serve another one."""
    assert Quiet().again(path=PATH + "-2") is None


def test_new_usage_is_taken_over() -> None:
    """A new list of usage changes the usage of the reading alone, once."""
    quiet = Quiet()
    quiet.now = 15.0
    quiet.entry.fetched, quiet.entry.at = usage(300, 15.0), 15.0
    found = quiet.again()

    assert found is not None
    assert isinstance(found.usage, tuple)
    assert [one.cpu for one in found.usage] == [300]
    assert found.pods is quiet.first.pods
    assert quiet.again() is found


def test_without_usage_its_age_does_not_matter() -> None:
    """A reading for which no usage is needed serves however old the list of usage is."""
    quiet = Quiet()
    quiet.now = 1_000.0
    found = quiet.again(max_age=None)

    assert found is not None
    assert found.usage == NO_USAGE.value


def test_changes_of_other_workloads_do_not_matter() -> None:
    """A change of another workload of the namespace leaves the reading as it is."""
    quiet = Quiet()
    quiet.scales.records.changes += 1

    assert quiet.again() is quiet.first
