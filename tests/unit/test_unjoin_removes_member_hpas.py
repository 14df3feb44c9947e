"""The HPAs that `fedhpa unjoin` removes from a member, when others write there at the same time."""

from __future__ import annotations

from typing import Any

import pytest

from fedhpa.api.errors import ConfigError
from fedhpa.api.member_hpas import MANAGED_BY, MANAGER, OWNER
from fedhpa.cli.hub_client import MEMBER
from fedhpa.cli.join.member_hpas import remove_member_hpas
from fedhpa.cli.join.registration import Side
from tests.support.memory_api import MemoryApi

OLDER = "/apis/autoscaling/v2beta2"
HPAS = "namespaces/shop/horizontalpodautoscalers"


class OlderMember(MemoryApi):
    """A member that serves v2beta2. After its HPAs were listed, `written` of them have changed."""

    def __init__(self, *names: str, written: dict[str, dict[str, str]]) -> None:
        super().__init__()
        for name in names:
            metadata = {"namespace": "shop", "name": name, "uid": name, "labels": {MANAGED_BY: MANAGER}}
            head = {"apiVersion": "autoscaling/v2beta2", "kind": "HorizontalPodAutoscaler"}
            self._store(f"{OLDER}/{HPAS}/{name}", {**head, "metadata": metadata, "spec": {}})
        self.written = written

    def _get(self, path: str, sent: dict[str, Any]) -> dict[str, Any]:
        if path != f"{OLDER}/horizontalpodautoscalers":
            return super()._get(path, sent)
        listed = {
            "apiVersion": "autoscaling/v2beta2",
            "kind": "HorizontalPodAutoscalerList",
            "metadata": {},
            "items": list(self.objects.values()),
        }
        for name, marks in self.written.items():
            place = f"{OLDER}/{HPAS}/{name}"
            found = self.objects[place]
            self._store(place, {**found, "metadata": {**found["metadata"], "annotations": marks}})
        return listed

    @property
    def left(self) -> list[str]:
        return [path.rpartition("/")[2] for path in self.objects]


async def test_an_hpa_that_changed_is_removed_and_one_that_was_handed_over_stays() -> None:
    """The HPA controller writes the status of each HPA all the time, and another hub may take one over."""
    member = OlderMember("a", "b", "c", written={"b": {}, "c": {OWNER: "hub-2/shop/c/1"}})
    said: list[str] = []

    await remove_member_hpas(Side(MEMBER, member), "hub", said.append)

    assert member.left == ["c"]
    assert said == ["Removed 2 HorizontalPodAutoscalers of mode Distributed. Replicas stay as they are."]


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        ("GET", f"{OLDER}/horizontalpodautoscalers", "cannot list horizontalpodautoscalers"),
        ("DELETE", f"{OLDER}/{HPAS}/a", "cannot delete horizontalpodautoscalers shop/a"),
    ],
)
async def test_a_refusal_names_what_remains_and_the_option(method: str, path: str, message: str) -> None:
    member = OlderMember("a", written={})
    member.refused[method, path] = 403

    with pytest.raises(ConfigError, match=f"{message}.*--cluster-kubeconfig"):
        await remove_member_hpas(Side(MEMBER, member), "hub", print)

    assert member.left == ["a"]
