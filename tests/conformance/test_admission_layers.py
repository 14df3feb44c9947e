"""Admission and the CRD judge the same objects; the answers of a real API server are recorded."""

from __future__ import annotations

from typing import Final

from tests.conformance.layers import admission, page, recorded
from tests.conformance.layers.rows import objects

OBJECTS = dict(objects())
ANSWERS = recorded.read()["answers"]

SIZES: Final = "lengths and sizes of the contract, which Karmada does not have"
KARMADAS: Final = "a bound of Karmada's CRD that Karmada's webhook does not have either"

UNUSED: Final = "a number that no rule may set, in a field that has no effect with this target"

# Changes that the CRD refuses though our validation would admit them, and why.
SCHEMA_ALONE: Final = {
    "target: a name of 600 characters": SIZES,
    "behavior: 65 policies": SIZES,
    "cron rules: a name of 33 characters": KARMADAS,
    "cron rules: no name": KARMADAS,
    "cron rules: a FederatedHPA with targetReplicas beside": UNUSED,
    "cron rules: successfulHistoryLimit 0": KARMADAS,
    "cron rules: failedHistoryLimit 33": KARMADAS,
    "karmada: fhpa targetReplicas ignored even if negative": UNUSED,
    "karmada: deployment ignores min/max": UNUSED,
    "karmada: rules missing": KARMADAS,
    "karmada: rules null": KARMADAS,
    "karmada: empty rule name not checked by webhook (CRD minLength)": KARMADAS,
    "karmada: failedHistoryLimit -5 not checked by webhook (CRD minimum 0)": KARMADAS,
}


def test_the_recording_is_of_the_present_schema() -> None:
    """A change of a bound needs a new recording with a real API server."""
    assert recorded.read()["schema"] == recorded.schema_digest(), f"run {recorded.COMMAND}"
    assert set(ANSWERS) == set(OBJECTS), f"run {recorded.COMMAND}"


def test_the_page_says_what_the_code_does() -> None:
    """docs/contributing/admission-layers.md is up to date with the recording."""
    assert page.rendered() == page.PATH.read_text(encoding="utf-8"), f"run {recorded.COMMAND}"


WEBHOOK = {name: admission.refusal(OBJECTS[name]) for name in OBJECTS}


def test_the_crd_refuses_a_part_of_what_the_webhook_refuses() -> None:
    """The CRD refuses nothing that the webhook admits, except for the listed bounds."""
    alone = {name: ANSWERS[name] for name in OBJECTS if ANSWERS[name] and not WEBHOOK[name]}

    assert {name: schema for name, schema in alone.items() if name not in SCHEMA_ALONE} == {}
    assert set(SCHEMA_ALONE) - set(alone) == set(), "no longer true: drop them from the list"


# Objects with several mistakes, and each layer reports another one.
SEVERAL: Final = {
    "karmada: karmada apiVersion other kind: stops early, other errors hidden",
    "upstream: nil targetMinReplicas and targetMaxReplicas when scaling FHPA",
}
BOTH = [name for name in OBJECTS if ANSWERS[name] and WEBHOOK[name] and name not in SEVERAL]


def test_what_both_refuse_they_refuse_for_the_same_field() -> None:
    """The CRD names the field, or the list that contains it."""
    different = {}
    for name in BOTH:
        said = [text.partition(": ")[0] for text in ANSWERS[name]]
        webhook = [error.partition(": ")[0] for error in WEBHOOK[name]]
        if webhook != ["json"] and not any(each.startswith(field) for field in said for each in webhook):
            different[name] = said, webhook

    assert different == {}
