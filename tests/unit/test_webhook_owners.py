"""Two autoscalers of one target are told apart from one that only looks like a rival."""

from __future__ import annotations

from typing import Any

import msgspec

from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import decode
from fedhpa.api.federatedhpa import FederatedHPA
from webhook.owners import HPA_KIND, Owner, Owners, Stored, rival_warnings, stored_owner, written_owner
from webhook.verdict import MAX_WARNING

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
FHPA = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": "web"}


def stored(kind: str, name: str, target: dict[str, str] = DEPLOYMENT, **spec: Any) -> Owner:
    obj = {
        "metadata": {"name": name, "namespace": spec.pop("namespace", "shop"), **spec.pop("metadata", {})},
        "spec": {"scaleTargetRef": target, **spec},
    }
    owner = stored_owner(kind, msgspec.convert(obj, Stored))
    assert owner is not None
    return owner


def written(name: str = "web", **spec: Any) -> Owner:
    metadata = {"name": name, "namespace": "shop"}
    spec = {"scaleTargetRef": DEPLOYMENT, "maxReplicas": 3, **spec}
    return written_owner(decode(FederatedHPA, {"metadata": metadata, "spec": spec}))


def written_cron(name: str, target: dict[str, str], *rules: dict[str, Any]) -> Owner:
    metadata = {"name": name, "namespace": "shop"}
    spec = {"scaleTargetRef": target, "rules": rules or [{"name": "r", "schedule": "0 8 * * *"}]}
    return written_owner(decode(CronFederatedHPA, {"metadata": metadata, "spec": spec}))


def rivals(owner: Owner, *others: Owner) -> list[str]:
    owners = Owners()
    for other in others:
        owners.put(None, other)
    return [rival.name for rival in owners.rivals(owner)]


def test_all_three_kinds_are_rivals_of_a_federatedhpa() -> None:
    """In the order of kind and name, however they came."""
    others = [
        stored(HPA_KIND, "plain"),
        stored("FederatedHPA", "other"),
        stored("CronFederatedHPA", "nightly", rules=[{}]),
        stored("FederatedHPA", "another"),
    ]

    assert rivals(written(), *others) == ["nightly", "another", "other", "plain"]


def test_an_object_is_not_its_own_rival() -> None:
    """The stored form of the object itself is no other; one of its name and another kind is."""
    assert rivals(written("web"), stored("FederatedHPA", "web"), stored(HPA_KIND, "web")) == ["web"]


def test_the_version_of_an_api_makes_no_other_target() -> None:
    """apps/v1 and apps/v1beta1 name the same Deployment; another group, kind, name or namespace does not."""
    same = stored(HPA_KIND, "same", {**DEPLOYMENT, "apiVersion": "apps/v1beta1"})
    others = [
        stored(HPA_KIND, "group", {**DEPLOYMENT, "apiVersion": "other.io/v1"}),
        stored(HPA_KIND, "kind", {**DEPLOYMENT, "kind": "StatefulSet"}),
        stored(HPA_KIND, "name", {**DEPLOYMENT, "name": "api"}),
        stored(HPA_KIND, "namespace", namespace="elsewhere"),
    ]

    assert rivals(written(), same, *others) == ["same"]


def test_a_calendar_for_the_bounds_is_no_rival_of_what_it_bounds() -> None:
    """A CronFederatedHPA of the FederatedHPA and the FederatedHPA itself share nothing."""
    calendar = stored("CronFederatedHPA", "calendar", FHPA, rules=[{}])

    assert rivals(written("web"), calendar) == []
    assert rivals(written_cron("second", FHPA), calendar) == ["calendar"]


def test_who_writes_nothing_is_no_rival() -> None:
    """A dry run, rules that all rest, and what is being deleted change no target."""
    resting = stored("CronFederatedHPA", "rests", rules=[{"suspend": True}])
    idle = [
        stored("FederatedHPA", "dry", dryRun=True),
        resting,
        stored("CronFederatedHPA", "empty", rules=[]),
        stored(HPA_KIND, "going", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    ]
    half = stored("CronFederatedHPA", "half", rules=[{"suspend": True}, {}])

    assert rivals(written(), *idle, half) == ["half"]
    assert rivals(written(dryRun=True), half) == []
    assert rivals(written_cron("rests", DEPLOYMENT, {"name": "r", "suspend": True}), half) == []


def test_an_owner_that_changes_its_target_is_found_there_alone() -> None:
    """What is forgotten leaves no trace, so that a hub where much changes does not fill the memory."""
    owners = Owners()
    before, after = stored(HPA_KIND, "a"), stored(HPA_KIND, "a", {**DEPLOYMENT, "name": "api"})

    owners.put(None, before)
    owners.put(before, after)

    assert owners.rivals(written()) == []
    assert len(owners) == 1
    owners.put(after, None)
    assert len(owners) == 0


def test_bounds_are_read_under_either_name() -> None:
    """A FederatedHPA may call its bounds federatedMinReplicas and federatedMaxReplicas."""
    plain = stored("FederatedHPA", "a", minReplicas=2, maxReplicas=5)
    alias = stored("FederatedHPA", "a", federatedMinReplicas=2, federatedMaxReplicas=5)

    assert (plain.minimum, plain.maximum) == (alias.minimum, alias.maximum) == (2, 5)


def test_what_names_no_target_is_left_out() -> None:
    """Somebody's object without a spec or a reference is no autoscaler of anything."""
    assert stored_owner(HPA_KIND, msgspec.convert({"metadata": {"name": "a"}}, Stored)) is None
    assert stored_owner(HPA_KIND, msgspec.convert({"spec": {"scaleTargetRef": None}}, Stored)) is None


def test_the_warning_names_two_and_counts_the_rest() -> None:
    """It fits into what an API server passes on, however long names are."""
    few = [stored("FederatedHPA", name) for name in ("a", "b")]
    long = [stored(HPA_KIND, "x" * 253), *(stored("CronFederatedHPA", f"{n:0>253}") for n in range(5))]
    target = {**DEPLOYMENT, "kind": "K" * 253, "name": "n" * 253}

    assert list(rival_warnings(written(), few)) == [
        (
            'spec.scaleTargetRef: Deployment "web" is the target of FederatedHPA "a" and FederatedHPA "b" '
            "too; they will overwrite one another"
        )
    ]
    [text] = rival_warnings(written(scaleTargetRef=target), long)
    assert 'xxx..." and 5 more too' in text
    assert len(text) <= MAX_WARNING
    assert list(rival_warnings(written(), [])) == []
