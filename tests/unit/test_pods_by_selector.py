"""The pods of each selector are kept up to date by the watch's changes."""

from __future__ import annotations

import random
from collections.abc import Mapping

from controller.federatedhpa.pod_index import KEEP_SECONDS, PodIndex
from fedhpa.api.selectors import parse_selector
from fedhpa.api.wire import PodSpec, Scale
from fedhpa.cache import Fetched
from fedhpa.kube.records import Key
from fedhpa.scaling.records import PodRecord, UsageRecord
from fedhpa.scaling.requests import shared_requests

NO_REQUESTS = shared_requests(PodSpec())
# The same at each call: what depends on the pods must follow them all the same.
SCALE = Scale()
WEB, API, NEITHER = {"app": "web"}, {"app": "api"}, {"tier": "back"}


def pod(
    name: str, labels: Mapping[str, str] = WEB, namespace: str = "shop", ready: str = "True"
) -> PodRecord:
    return PodRecord("m1", namespace, name, labels, NO_REQUESTS, ready=ready)


def usage(name: str, labels: Mapping[str, str] | None = WEB, namespace: str = "shop") -> UsageRecord:
    return UsageRecord("m1", namespace, name, 0.0, 15.0, 100, None, (), labels)


class Watch:
    """A store of pods and the index that follows it."""

    def __init__(self, *pods: PodRecord) -> None:
        self.now = 0.0
        self.pods: dict[Key, PodRecord] = {(one.namespace, one.name): one for one in pods}
        self.here = PodIndex("shop", self.pods, lambda: self.now)

    def put(self, new: PodRecord) -> None:
        key = (new.namespace, new.name)
        old = self.pods.get(key)
        self.pods[key] = new
        self.here.change(key, old, new)

    def remove(self, name: str) -> None:
        old = self.pods.pop(("shop", name))
        self.here.change(("shop", name), old, None)

    def names(self, selector: str) -> list[str]:
        return sorted(one.name for one in self.here.selected(selector, parse_selector(selector)).pods)

    def used(self, selector: str, *records: UsageRecord, fetched: object = None) -> list[str]:
        answer = fetched if isinstance(fetched, Fetched) else Fetched(records, 0.0)
        selected = self.here.selected(selector, parse_selector(selector))
        return sorted(record.name for record in self.here.usage(answer, selected))


def test_pods_come_change_and_go() -> None:
    """Each selector has its pods at any time, also those from before its first use."""
    watch = Watch(pod("a"), pod("b", API))
    before = watch.names("app=web")
    watch.put(pod("c"))
    watch.put(pod("a", ready="False"))
    watch.remove("b")

    assert before == ["a"]
    assert watch.names("app=web") == ["a", "c"]
    assert watch.names("app=api") == []
    assert {one.ready for one in watch.here.selected("app=web", parse_selector("app=web")).pods} == {
        "True",
        "False",
    }


def test_pod_with_other_labels_changes_sides() -> None:
    """A pod with new labels belongs to its new workload."""
    watch = Watch(pod("a"))
    watch.names("app=web")
    watch.names("app=api")
    watch.put(pod("a", API))

    assert (watch.names("app=web"), watch.names("app=api")) == ([], ["a"])


def test_pods_of_other_namespaces_hide_nothing() -> None:
    """Pods of another namespace in a member's list are ignored."""
    watch = Watch(pod("a"), pod("a", namespace="bank"))
    watch.put(pod("a", API, namespace="bank"))

    assert watch.names("app=web") == ["a"]
    assert watch.names("app=api") == []


def test_any_history_gives_what_a_search_gives() -> None:
    """After a thousand random changes each selector has the pods that it matches, and the sets of labels."""
    rng = random.Random(7)
    shared = [{"app": "web"}, {"app": "api"}, {"app": "web", "tier": "front"}, {"tier": "front"}]
    selectors = ["app=web", "app=api", "tier=front", "app in (web,api),!tier", "nothing=here"]
    watch = Watch()
    for _ in range(1000):
        name = f"pod-{rng.randrange(20)}"
        if ("shop", name) in watch.pods and rng.random() < 0.3:
            watch.remove(name)
        else:
            watch.put(pod(name, rng.choice(shared), ready=rng.choice(["True", "False"])))
        text = rng.choice(selectors)
        matches = parse_selector(text).matches
        wanted = {one.name: one for one in watch.pods.values() if matches(one.labels)}
        selected = watch.here.selected(text, parse_selector(text))

        assert {one.name: one for one in selected.pods} == wanted
        assert {id(labels) for labels in selected.scaled_by("", SCALE)[1].label_sets} == {
            id(one.labels) for one in wanted.values()
        }


def test_unused_selectors_are_dropped() -> None:
    """An unused selector costs nothing, and its pods are there again at the next use."""
    watch = Watch(pod("a"))
    watch.names("app=web")
    watch.now = KEEP_SECONDS + 1
    watch.names("app=api")
    kept = len(watch.here._selections)
    watch.put(pod("b"))

    assert kept == 1
    assert watch.names("app=web") == ["a", "b"]


def test_usage_is_of_the_selected_pods() -> None:
    """Usage is matched by the pod's name; usage of other namespaces is ignored."""
    watch = Watch(pod("a"), pod("b", API))
    records = (usage("a", None), usage("b", None), usage("a", None, "bank"), usage("c", None))

    assert watch.used("app=web", *records) == ["a"]
    assert watch.used("app=api", *records) == ["b"]


def test_usage_of_unlisted_pods_goes_by_its_own_labels() -> None:
    """As the metrics API would answer: usage includes pods that are not listed yet or any more."""
    watch = Watch(pod("a"))
    fetched = Fetched((usage("a"), usage("new"), usage("other", API)), 0.0)
    first = watch.used("app=web", fetched=fetched)
    watch.put(pod("new", API))
    relabelled = watch.used("app=web", fetched=fetched)
    watch.remove("a")

    assert first == ["a", "new"]
    assert relabelled == ["a", "new"]  # its usage still has the old labels
    assert watch.used("app=web", fetched=fetched) == ["a", "new"]
    assert watch.used("app=api", fetched=fetched) == ["new", "other"]


def lists_after(seconds: float, listed: int, replicas: int) -> int:
    """Returns how often pods were listed anew in so many seconds, with a reconcile every five."""
    pods = {("shop", f"web-{number}"): pod(f"web-{number}") for number in range(listed)}
    now, lists = 0.0, 0

    def list_anew() -> None:
        nonlocal lists
        lists += 1

    index = PodIndex("shop", pods, lambda: now, list_anew)
    while now <= seconds:
        index.compare(index.selected("app=web", parse_selector("app=web")), replicas)
        now += 5
    return lists


def test_pods_that_do_not_fit_the_status_are_listed_anew_rarely() -> None:
    """After half a minute, and then every five minutes while pods are missing; a surplus is listed once."""
    assert lists_after(3600, listed=5, replicas=5) == 0
    assert lists_after(25, listed=5, replicas=10) == 0
    assert lists_after(30, listed=5, replicas=10) == 1
    assert lists_after(630, listed=5, replicas=10) == 3
    assert lists_after(3600, listed=10, replicas=5) == 1
