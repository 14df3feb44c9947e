"""Writes of member HPAs touch nothing that is not ours, and nothing that is right."""

from __future__ import annotations

from typing import Any

import pytest

from controller.apply.member_hpas import NotOwned, apply_hpa, delete_hpa
from fedhpa.api.errors import ApiError, Conflict
from fedhpa.api.member_hpas import MANAGED_BY, MANAGER, OWNER, V2, V2BETA2, Owner, wanted_spec
from tests.support.memory_api import MemoryApi

PATH = "/apis/autoscaling/v2/namespaces/shop/horizontalpodautoscalers/web"
OWNED = Owner("hub", "shop", "web", "1")
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}


def spec(minimum: int = 2, maximum: int = 10) -> dict[str, Any]:
    return wanted_spec({"scaleTargetRef": TARGET}, minimum, maximum, V2)


def foreign() -> dict[str, Any]:
    metadata = {"name": "web", "namespace": "shop", "uid": "7", "resourceVersion": "1"}
    return {
        "apiVersion": V2,
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata,
        "spec": spec(),
        "status": {"currentReplicas": 3},
    }


def ours(**changes: Any) -> dict[str, Any]:
    found = foreign()
    found["metadata"]["labels"] = {MANAGED_BY: MANAGER, "team": "shop"}
    return {**found, **changes}


def writes(api: MemoryApi) -> list[str]:
    return [method for method, _ in api.calls if method != "GET"]


async def test_a_missing_hpa_is_created_with_our_marks() -> None:
    """The collection of the member's version gets it."""
    api = MemoryApi()

    fields = await apply_hpa(api, OWNED, spec(), V2)

    assert "maxReplicas" in fields
    assert api.objects[PATH]["metadata"]["labels"] == {MANAGED_BY: MANAGER}
    assert api.objects[PATH]["metadata"]["annotations"] == {OWNER: "hub/shop/web/1"}
    assert api.objects[PATH]["spec"] == spec()
    assert await apply_hpa(api, Owner("hub", "shop", "old", "1"), spec(), V2BETA2)
    assert ("POST", "/apis/autoscaling/v2beta2/namespaces/shop/horizontalpodautoscalers") in api.calls


async def test_an_hpa_that_is_right_is_not_written() -> None:
    """A quiet world writes nothing."""
    api = MemoryApi()
    api.objects[PATH] = ours()
    api.objects[PATH]["metadata"]["annotations"] = {OWNER: str(OWNED)}

    assert await apply_hpa(api, OWNED, spec(), V2) == ()
    assert writes(api) == []


@pytest.mark.parametrize("owner", ["", "hub/shop/web/0"])
async def test_only_the_spec_and_the_owner_change(owner: str) -> None:
    """Labels and annotations of other people, and the status, stay. An earlier object of the name counts."""
    api = MemoryApi()
    api.objects[PATH] = ours()
    api.objects[PATH]["metadata"]["annotations"] = {"team": "shop"} | ({OWNER: owner} if owner else {})

    assert await apply_hpa(api, OWNED, spec(maximum=12), V2) == ("maxReplicas",)

    assert api.objects[PATH]["spec"]["maxReplicas"] == 12
    assert api.objects[PATH]["metadata"]["labels"]["team"] == "shop"
    assert api.objects[PATH]["metadata"]["annotations"] == {"team": "shop", OWNER: "hub/shop/web/1"}
    assert api.objects[PATH]["status"] == {"currentReplicas": 3}


async def test_an_hpa_of_somebody_else_is_never_touched() -> None:
    """Neither equal values nor a deletion make it ours; the error names it and a remedy."""
    api = MemoryApi()
    api.objects[PATH] = foreign()

    with pytest.raises(
        NotOwned, match=r"shop/web is not ours.*label autoscaling.karmada.io/managed-by=fedhpa"
    ):
        await apply_hpa(api, OWNED, spec(), V2)
    with pytest.raises(NotOwned):
        await delete_hpa(api, OWNED, V2)

    assert writes(api) == []
    assert api.objects[PATH] == foreign()


@pytest.mark.parametrize(
    ("owner", "remedy"),
    [
        (
            "hub-2/shop/web/1",
            "if this hub was rebuilt, start the controller with --hub-id=hub-2; else delete",
        ),
        ("hub/shop/other/1", "so it is a copy: delete it, or remove the annotation to hand it over"),
        ("hub", "so it is a copy"),
        ("x" * 5000, r"xxx\.\.\., so it is a copy"),
    ],
)
async def test_an_hpa_of_another_owner_is_never_touched(owner: str, remedy: str) -> None:
    """The label alone is that of every hub. The error says how the HPA becomes ours."""
    api = MemoryApi()
    api.objects[PATH] = ours()
    api.objects[PATH]["metadata"]["annotations"] = {OWNER: owner}

    with pytest.raises(NotOwned, match=remedy) as refused:
        await apply_hpa(api, OWNED, spec(maximum=12), V2)
    with pytest.raises(NotOwned):
        await delete_hpa(api, OWNED, V2)

    assert writes(api) == []
    assert len(str(refused.value)) < 1000


class ReplacedMeanwhile(MemoryApi):
    """After each read somebody replaces the object by an own one of the same name."""

    def _get(self, path: str, sent: dict[str, Any]) -> dict[str, Any]:
        found = super()._get(path, sent)
        self.objects[path]["metadata"] = {**foreign()["metadata"], "uid": "8", "resourceVersion": "2"}
        return found


async def test_an_hpa_that_was_replaced_after_it_was_read_is_not_touched() -> None:
    """The write names what was read, so it conflicts."""
    for wanted in (
        lambda api: apply_hpa(api, OWNED, spec(maximum=12), V2),
        lambda api: delete_hpa(api, OWNED, V2),
    ):
        api = ReplacedMeanwhile()
        api.objects[PATH] = ours()
        with pytest.raises(Conflict):
            await wanted(api)
        assert api.objects[PATH]["spec"]["maxReplicas"] == 10


async def test_our_hpa_is_deleted_once() -> None:
    """A second deletion finds nothing, which is no error."""
    api = MemoryApi()
    api.objects[PATH] = ours()

    assert await delete_hpa(api, OWNED, V2)
    assert not await delete_hpa(api, OWNED, V2)


async def test_a_member_that_refuses_is_an_error() -> None:
    """An error never counts as a missing HPA."""
    api = MemoryApi()
    api.fail = 403

    with pytest.raises(ApiError):
        await apply_hpa(api, OWNED, spec(), V2)
    with pytest.raises(ApiError):
        await delete_hpa(api, OWNED, V2)
