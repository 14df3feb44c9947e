"""The index finds the competing autoscalers of a target, and no others."""

from __future__ import annotations

from typing import Any

import msgspec

from fedhpa.api.autoscalers import (
    HPA_KIND,
    Autoscaler,
    AutoscalerIndex,
    StoredAutoscaler,
    from_admitted,
    from_stored,
)
from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import decode
from fedhpa.api.federatedhpa import FederatedHPA
from webhook.admission_review import MAX_WARNING
from webhook.hub_reader import warn_competitors

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
FHPA = {"apiVersion": "autoscaling.karmada.io/v1alpha1", "kind": "FederatedHPA", "name": "web"}


def stored(kind: str, name: str, target: dict[str, str] = DEPLOYMENT, **spec: Any) -> Autoscaler:
    obj = {
        "metadata": {"name": name, "namespace": spec.pop("namespace", "shop"), **spec.pop("metadata", {})},
        "spec": {"scaleTargetRef": target, **spec},
    }
    autoscaler = from_stored(kind, msgspec.convert(obj, StoredAutoscaler))
    assert autoscaler is not None
    return autoscaler


def written(name: str = "web", **spec: Any) -> Autoscaler:
    metadata = {"name": name, "namespace": "shop"}
    spec = {"scaleTargetRef": DEPLOYMENT, "maxReplicas": 3, **spec}
    return from_admitted(decode(FederatedHPA, {"metadata": metadata, "spec": spec}))


def written_cron(name: str, target: dict[str, str], *rules: dict[str, Any]) -> Autoscaler:
    metadata = {"name": name, "namespace": "shop"}
    spec = {"scaleTargetRef": target, "rules": rules or [{"name": "r", "schedule": "0 8 * * *"}]}
    return from_admitted(decode(CronFederatedHPA, {"metadata": metadata, "spec": spec}))


def competitors(autoscaler: Autoscaler, *others: Autoscaler) -> list[str]:
    index = AutoscalerIndex()
    for other in others:
        index.replace(None, other)
    return [competitor.name for competitor in index.competitors(autoscaler)]


def test_all_three_kinds_compete_with_a_federatedhpa() -> None:
    """They are sorted by kind and name."""
    others = [
        stored(HPA_KIND, "plain"),
        stored("FederatedHPA", "other"),
        stored("CronFederatedHPA", "nightly", rules=[{}]),
        stored("FederatedHPA", "another"),
    ]

    assert competitors(written(), *others) == ["nightly", "another", "other", "plain"]


def test_an_object_does_not_compete_with_itself() -> None:
    """Its stored form is not a competitor. An object of the same name and another kind is one."""
    assert competitors(written("web"), stored("FederatedHPA", "web"), stored(HPA_KIND, "web")) == ["web"]


def test_the_api_version_does_not_distinguish_targets() -> None:
    """apps/v1 and apps/v1beta1 name the same Deployment. Another group or namespace does not."""
    same = stored(HPA_KIND, "same", {**DEPLOYMENT, "apiVersion": "apps/v1beta1"})
    others = [
        stored(HPA_KIND, "group", {**DEPLOYMENT, "apiVersion": "other.io/v1"}),
        stored(HPA_KIND, "kind", {**DEPLOYMENT, "kind": "StatefulSet"}),
        stored(HPA_KIND, "name", {**DEPLOYMENT, "name": "api"}),
        stored(HPA_KIND, "namespace", namespace="elsewhere"),
    ]

    assert competitors(written(), same, *others) == ["same"]


def test_a_cronfederatedhpa_does_not_compete_with_its_target() -> None:
    """It scales the FederatedHPA, which scales the workload. Windows of two CronFederatedHPAs nest."""
    calendar = stored("CronFederatedHPA", "calendar", FHPA, rules=[{}])

    assert competitors(written("web"), calendar) == []
    assert competitors(written_cron("second", FHPA), calendar) == []


def test_an_inactive_autoscaler_does_not_compete() -> None:
    """It is a dry run, or all its rules are suspended, or it is being deleted."""
    resting = stored("CronFederatedHPA", "rests", rules=[{"suspend": True}])
    idle = [
        stored("FederatedHPA", "dry", dryRun=True),
        resting,
        stored("CronFederatedHPA", "empty", rules=[]),
        stored(HPA_KIND, "going", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
    ]
    half = stored("CronFederatedHPA", "half", rules=[{"suspend": True}, {}])

    assert competitors(written(), *idle, half) == ["half"]
    assert competitors(written(dryRun=True), half) == []
    assert competitors(written_cron("rests", DEPLOYMENT, {"name": "r", "suspend": True}), half) == []


def test_an_autoscaler_with_a_new_target_is_found_only_there() -> None:
    """A removed target leaves nothing in the index, so changes do not fill the memory."""
    index = AutoscalerIndex()
    before, after = stored(HPA_KIND, "a"), stored(HPA_KIND, "a", {**DEPLOYMENT, "name": "api"})

    index.replace(None, before)
    index.replace(before, after)

    assert index.competitors(written()) == []
    assert len(index) == 1
    index.replace(after, None)
    assert len(index) == 0


def test_bounds_are_read_under_either_name() -> None:
    """A FederatedHPA may have federatedMinReplicas and federatedMaxReplicas instead."""
    plain = stored("FederatedHPA", "a", minReplicas=2, maxReplicas=5)
    alias = stored("FederatedHPA", "a", federatedMinReplicas=2, federatedMaxReplicas=5)

    assert (plain.minimum, plain.maximum) == (alias.minimum, alias.maximum) == (2, 5)


def test_an_object_without_a_target_is_ignored() -> None:
    """Its spec or its scaleTargetRef is missing."""
    assert from_stored(HPA_KIND, msgspec.convert({"metadata": {"name": "a"}}, StoredAutoscaler)) is None
    assert (
        from_stored(HPA_KIND, msgspec.convert({"spec": {"scaleTargetRef": None}}, StoredAutoscaler)) is None
    )


def test_the_warning_names_two_and_counts_the_rest() -> None:
    """It is never longer than API servers allow, even with long names."""
    few = [stored("FederatedHPA", name) for name in ("a", "b")]
    long = [stored(HPA_KIND, "x" * 253), *(stored("CronFederatedHPA", f"{n:0>253}") for n in range(5))]
    target = {**DEPLOYMENT, "kind": "K" * 253, "name": "n" * 253}

    assert list(warn_competitors(written(), few)) == [
        (
            'spec.scaleTargetRef: Deployment "web" is the target of FederatedHPA "a" and FederatedHPA "b" '
            "too; they will overwrite one another"
        )
    ]
    [text] = warn_competitors(written(scaleTargetRef=target), long)
    assert 'xxx..." and 5 more too' in text
    assert len(text) <= MAX_WARNING
    assert list(warn_competitors(written(), [])) == []
