"""Admission warns about a hold that cannot be read, on objects of both kinds, and admits the object."""

from __future__ import annotations

import pytest

from fedhpa.admission.cronfederatedhpa import warn_cronfederatedhpa
from fedhpa.admission.federatedhpa import warn_federatedhpa
from fedhpa.api.cronfederatedhpa import CronFederatedHPA
from fedhpa.api.decode import decode
from fedhpa.api.federatedhpa import FederatedHPA
from fedhpa.api.hold import HOLD_ANNOTATION, UNTIL_ANNOTATION


def warnings(annotations: dict[str, object]) -> list[list[str]]:
    """The warnings about holds of an object of either kind."""
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    raw = {
        "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
        "spec": {"scaleTargetRef": target, "maxReplicas": 5},
    }
    found = [*warn_federatedhpa(decode(FederatedHPA, raw), admitted=True)]
    rules = {**raw, "spec": {"scaleTargetRef": target, "rules": []}}
    of_rules = [*warn_cronfederatedhpa(decode(CronFederatedHPA, rules))]
    return [[text for text in texts if "autoscaling.karmada.io/hold" in text] for texts in (found, of_rules)]


@pytest.mark.parametrize(
    ("annotations", "text"),
    [
        (
            {HOLD_ANNOTATION: "downwards"},
            f"annotation {HOLD_ANNOTATION}='downwards' is none of down, up, all, so it counts as all",
        ),
        (
            {HOLD_ANNOTATION: "up", UNTIL_ANNOTATION: "18:00"},
            f"annotation {UNTIL_ANNOTATION}='18:00' is no RFC 3339 time, so it counts as all",
        ),
    ],
)
def test_an_unreadable_hold_is_named(annotations: dict[str, object], text: str) -> None:
    """The warning has the annotation, its value, and how it counts."""
    assert warnings(annotations) == [[text], [text]]


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {HOLD_ANNOTATION: "down"},
        {HOLD_ANNOTATION: "all", UNTIL_ANNOTATION: "2999-01-01T00:00:00Z"},
        {UNTIL_ANNOTATION: "18:00"},
    ],
)
def test_other_annotations_get_no_warning(annotations: dict[str, object]) -> None:
    """A readable hold, and an end without a hold, get none."""
    assert warnings(annotations) == [[], []]
