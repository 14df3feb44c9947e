"""Admission and the CRD judge the same objects; the answers of a real API server are recorded."""

from __future__ import annotations

import re
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedhpa.admission.cel.cronfederatedhpa import FOREIGN, SCHEDULE
from fedhpa.cron import InvalidSchedule, parse
from tests.conformance.layers import admission, page, recorded
from tests.conformance.layers.rows import objects
from tests.conformance.tables import table as facts
from tests.support.nightly import examples

OBJECTS = dict(objects())
ANSWERS = recorded.read()["answers"]

SIZES: Final = "lengths and sizes of the contract, which only the API server's cost budget needs"
KARMADAS: Final = "a bound of Karmada's CRD that Karmada's webhook does not have either"

# Changes that the CRD refuses though our validation would admit them, and why.
SCHEMA_ALONE: Final = {
    "target: a name of 600 characters": SIZES,
    "behavior: 65 policies": SIZES,
    "cron rules: a name of 33 characters": KARMADAS,
    "cron rules: no name": KARMADAS,
    "cron rules: successfulHistoryLimit 0": KARMADAS,
    "cron rules: failedHistoryLimit 33": KARMADAS,
    "karmada: rules missing": KARMADAS,
    "karmada: rules null": KARMADAS,
    "karmada: empty rule name not checked by webhook (CRD minLength)": KARMADAS,
    "karmada: failedHistoryLimit -5 not checked by webhook (CRD minimum 0)": KARMADAS,
}


def test_the_recording_is_of_the_present_schema() -> None:
    """A change of a rule or bound needs a new recording with a real API server."""
    assert recorded.read()["schema"] == recorded.schema_digest(), f"run {recorded.COMMAND}"
    assert set(ANSWERS) == set(OBJECTS), f"run {recorded.COMMAND}"


def test_the_page_says_what_the_code_does() -> None:
    """docs/reference/admission-layers.md is up to date with the recording."""
    assert page.rendered() == page.PATH.read_text(encoding="utf-8"), f"run {recorded.COMMAND}"


WEBHOOK = {name: admission.refusal(OBJECTS[name]) for name in OBJECTS}


def test_the_crd_refuses_a_part_of_what_the_webhook_refuses() -> None:
    """The CRD refuses nothing that the webhook admits, except for the listed bounds."""
    alone = {name: ANSWERS[name] for name in OBJECTS if ANSWERS[name] and not WEBHOOK[name]}

    assert {name: schema for name, schema in alone.items() if name not in SCHEMA_ALONE} == {}
    assert set(SCHEMA_ALONE) - set(alone) == set(), "no longer true: drop them from the list"


BOTH = [name for name in OBJECTS if ANSWERS[name] and WEBHOOK[name]]

# Messages of the API server's own decoder and schema, which we cannot choose.
SERVERS_WORDS: Final = ("in body", "Checked value must be of type", "Required value", "may not be more than")
# Messages of the CRD that differ from the webhook's. They may name the remedy; Karmada's messages do not.
REWORDED: Final = (
    "maxReplicas, or its other name federatedMaxReplicas, must be given",
    "must be greater than or equal to 1; 0 needs an Object or External metric",
    "must be the kind of the object, such as Deployment",
    "must be the name of the object",
    "is another name of maxReplicas: give one of them",
    "is another name of minReplicas: give one of them",
    "operator must be In or NotIn, with values, or Exists or DoesNotExist, without",
    "key must be provider, region or zone, and operator In or NotIn, with values",
    (
        "mode is Distributed: each cluster's HPA reads the metric in its own cluster, "
        "nothing is aggregated over clusters; leave aggregation out"
    ),
    "mode is Distributed: apiVersion must specify API group and version, such as apps/v1",
    "mode is Distributed: the apiVersion of a describedObject has at most one /",
    "the names of the rules must differ",
)
# The beginning of a message that continues with what the parser says about the schedule.
CRON_FORMAT: Final = "invalid cron format: "


def words(text: str) -> str:
    """Returns a message without its path and type, and without a remedy behind Karmada's words."""
    said = text.split(": ", 2)[-1]
    return CRON_FORMAT.rstrip(": ") if said.startswith(CRON_FORMAT) else said.partition("; to change its")[0]


def test_what_both_refuse_the_crd_refuses_in_the_webhooks_words() -> None:
    """The messages agree, except for those of the API server itself and those with a remedy."""
    different = {}
    for name in BOTH:
        said = [words(text) for text in ANSWERS[name]]
        if any(text in REWORDED or any(own in text for own in SERVERS_WORDS) for text in said):
            continue
        if not any(text in error for text in said for error in WEBHOOK[name]):
            different[name] = said, WEBHOOK[name]

    assert different == {}


def test_what_both_refuse_they_refuse_for_the_same_field() -> None:
    """The CRD names the field, or the list that contains it."""
    different = {}
    for name in BOTH:
        said = [text.partition(": ")[0] for text in ANSWERS[name]]
        webhook = [error.partition(": ")[0] for error in WEBHOOK[name]]
        if webhook != ["json"] and not any(each.startswith(field) for field in said for each in webhook):
            different[name] = said, webhook

    assert different == {}


WHOLE_SCHEDULES = [name for name in BOTH if any(CRON_FORMAT in text for text in ANSWERS[name])]


@pytest.mark.parametrize("name", WHOLE_SCHEDULES)
def test_the_crd_says_what_the_parser_says_about_a_schedule(name: str) -> None:
    """The remedies agree, so a person reads the same with the webhook and without it."""
    [said] = [text.partition(CRON_FORMAT)[2] for text in ANSWERS[name] if CRON_FORMAT in text]
    parsed = []
    for rule in OBJECTS[name]["spec"]["rules"]:
        try:
            parse(rule["schedule"])
        except InvalidSchedule as error:
            parsed.append(str(error).removeprefix("schedule: "))

    if not said.startswith("write five fields"):
        assert said in parsed
    else:
        assert "five fields" in parsed[0]


def test_no_rewording_is_forgotten() -> None:
    """Each listed message occurs in an answer of the CRD."""
    said = {words(text) for texts in ANSWERS.values() for text in texts}

    assert set(REWORDED) - said == set()


def matches(schedule: str) -> bool:
    return re.search(SCHEDULE, schedule) is not None or re.search(FOREIGN, schedule) is not None


def is_good(schedule: str) -> bool:
    try:
        parse(schedule)
    except InvalidSchedule:
        return False
    return True


def test_the_shape_of_schedules_lets_every_good_one_pass() -> None:
    """The CRD's pattern accepts every schedule that the parser accepts."""
    schedules = [row["schedule"] for row in facts("karmada_cron_expressions")["expressions"]]
    good = [schedule for schedule in schedules if is_good(schedule)]

    assert len(good) > 40
    assert [schedule for schedule in good if not matches(schedule)] == []


VALUES = st.one_of(st.integers(0, 60).map(str), st.sampled_from(["JAN", "mon", "Sun", "dec"]))
ITEMS = st.builds(
    "{}{}".format,
    st.one_of(st.sampled_from(["*", "?"]), VALUES, st.builds("{}-{}".format, VALUES, VALUES)),
    st.one_of(st.just(""), st.integers(1, 99).map("/{}".format)),
)
FIELD = st.lists(ITEMS, min_size=1, max_size=3).map(",".join)
BLANKS = st.sampled_from([" ", "\t", " \t "])


@pytest.mark.nightly
@settings(max_examples=examples(100, 2_000))
@given(st.lists(FIELD, min_size=5, max_size=5), BLANKS, BLANKS)
def test_the_shape_of_schedules_is_never_finer_than_the_grammar(
    fields: list[str], between: str, at: str
) -> None:
    """The CRD accepts every schedule that the parser accepts."""
    schedule = at + between.join(fields) + at

    assert matches(schedule) or not is_good(schedule)
