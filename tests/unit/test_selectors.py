"""Label selectors are parsed, matched and printed as in the API machinery."""

from __future__ import annotations

import pytest

from fedhpa.api.errors import InvalidObject
from fedhpa.api.selectors import parse_field_selector, parse_selector, selector_of


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        ("app=web", "app=web"),
        ("tier in (b,a), app==web,!x , z!=1", "app=web,tier in (a,b),!x,z!=1"),
        ("a", "a"),
        ("in=x", "in=x"),
        ("a=", "a="),
        ("a notin (,b)", "a notin (,b)"),
        ("a notin ()", "a notin ()"),
        ("a in (,)", "a in ()"),
        ("size>5,size<9", "size>5,size<9"),
        ("example.com/app = web", "example.com/app=web"),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    """The canonical form sorts requirements and values, and drops blanks. It is parsed again as the same."""
    assert str(parse_selector(text)) == canonical
    assert parse_selector(canonical) == parse_selector(text)


@pytest.mark.parametrize(
    "text", ["a in ()", "a notin ()", "a in (,b)", "a notin (b,)", "a in (),b,c notin ()"]
)
def test_an_empty_value_is_one(text: str) -> None:
    """As in Go, () holds the empty value. A selector reads what it prints."""
    found = parse_selector(text)

    assert "" in found.requirements[0].values
    assert parse_selector(str(found)) == found
    assert (
        parse_selector("a notin ()").matches({"a": "x"})
        is parse_selector("a in ()").matches({"a": ""})
        is True
    )
    assert parse_selector("a notin ()").matches({"a": ""}) is parse_selector("a in ()").matches({}) is False
    values = selector_of({"matchExpressions": [{"key": "a", "operator": "In", "values": [""]}]})
    assert parse_selector(str(values)) == values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "cheddar cheese",
            "unable to parse requirement: found 'cheese', expected: in, notin, =, ==, !=, gt, lt",
        ),
        ("(", "found '(', expected: !, identifier, or 'end of string'"),
        ("a,", "found '', expected: identifier after ','"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a in b", "unable to parse requirement: found 'b' expected: '('"),
        ("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    """An invalid selector has Go's message, which a condition shows."""
    with pytest.raises(InvalidObject) as refusal:
        parse_selector(text)

    assert str(refusal.value) == message


@pytest.mark.parametrize("text", ["-a=b", "a/b/c=d", "/a=b", "UPPER/a=b", "a=-b", "a>x", "a=" + "x" * 64])
def test_bad_keys_and_values(text: str) -> None:
    """Keys are qualified names, values are label values, and comparisons need integers."""
    with pytest.raises(InvalidObject, match="Invalid value"):
        parse_selector(text)


@pytest.mark.parametrize(
    ("text", "labels", "expected"),
    [
        ("", {}, True),
        ("app=web", {"app": "web"}, True),
        ("app=web", {}, False),
        ("app!=web", {}, True),
        ("app notin (web)", {"app": "web"}, False),
        ("app in (web,db)", {"app": "db"}, True),
        ("app notin ()", {"app": ""}, False),
        ("app notin ()", {"app": "web"}, True),
        ("app in ()", {"app": ""}, True),
        ("app in ()", {}, False),
        ("app", {"app": ""}, True),
        ("!app", {"app": ""}, False),
        ("size>5", {"size": "6"}, True),
        ("size>5", {"size": "large"}, False),
        ("size<5", {"size": "5"}, False),
        ("a=1,b=2", {"a": "1"}, False),
    ],
)
def test_matching(text: str, labels: dict[str, str], expected: bool) -> None:
    """All requirements must hold; an absent label satisfies !=, notin and !."""
    assert parse_selector(text).matches(labels) is expected


def test_objects() -> None:
    """A LabelSelector object is the conjunction of its labels and expressions."""
    selector = selector_of(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["b", "a"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        }
    )

    assert str(selector) == "app=web,!old,tier in (a,b)"


def test_no_object_selects_nothing_and_an_empty_one_everything() -> None:
    """None matches nothing and {} everything, although both have an empty string form."""
    nothing, everything = selector_of(None), selector_of({})

    assert (str(nothing), nothing.matches({})) == ("", False)
    assert (str(everything), everything.matches({})) == ("", True)


def test_bad_operator_of_an_object() -> None:
    """A LabelSelector object accepts only Kubernetes' operator names."""
    with pytest.raises(InvalidObject, match='"=" is not a valid label selector operator'):
        selector_of({"matchExpressions": [{"key": "a", "operator": "=", "values": ["b"]}]})


def test_field_selectors() -> None:
    """Field selectors test name and namespace with = and !=; other fields are refused."""
    selector = parse_field_selector("metadata.name=web-0,metadata.namespace!=kube-system")

    assert selector.matches(name="web-0", namespace="shop")
    assert not selector.matches(name="web-0", namespace="kube-system")
    assert not selector.matches(name="web-1", namespace="shop")
    assert selector.required("metadata.name") == "web-0"
    assert selector.required("metadata.namespace") is None
    assert str(selector) == "metadata.name=web-0,metadata.namespace!=kube-system"
    with pytest.raises(InvalidObject, match="not a known field selector"):
        parse_field_selector("spec.nodeName=a")
    with pytest.raises(InvalidObject, match="can't understand"):
        parse_field_selector("metadata.name")


DIGITS = "9" * 4301
GREATER_5 = parse_selector("size>5")


def test_an_integer_of_many_digits_is_refused() -> None:
    """Python raises ValueError for 4,301 digits, which would be an unexpected error of the whole request."""
    with pytest.raises(InvalidObject, match="the value must be an integer"):
        parse_selector(f"size>{DIGITS}")


@pytest.mark.parametrize("value", [DIGITS, "9" * 19, "9" * 63, "-" + "9" * 63, "+", ""])
def test_a_label_value_that_is_no_64_bit_integer_is_not_compared(value: str) -> None:
    """As in Go, an object with that label is not selected; the other objects of the list are."""
    found = [labels["size"] for labels in ({"size": value}, {"size": "7"}) if GREATER_5.matches(labels)]

    assert found == ["7"]


@pytest.mark.parametrize(
    "text",
    [
        ",".join(["!a"] * 101),
        ",".join(["!a"] * 20_000),
        "a in (" + ",".join(["b"] * 1002) + ")",
        "!a," * 100_000,
    ],
    ids=["terms", "many terms", "values", "characters"],
)
def test_a_selector_is_bounded(text: str) -> None:
    """Each object is compared with each term, so 20,000 terms would occupy the process for seconds."""
    with pytest.raises(InvalidObject, match="a selector has at most"):
        parse_selector(text)


def test_a_selector_object_is_bounded() -> None:
    """The bounds hold for both forms."""
    expression = {"key": "a", "operator": "In", "values": ["b"] * 1001}
    for given in (
        {"matchLabels": {f"k{number}": "v" for number in range(101)}},
        {"matchExpressions": [{"key": "a", "operator": "Exists"}] * 101},
        {"matchExpressions": [expression]},
    ):
        with pytest.raises(InvalidObject, match="a selector has at most"):
            selector_of(given)


def test_a_field_selector_is_bounded() -> None:
    """Its terms count as those of a label selector."""
    with pytest.raises(InvalidObject, match="a selector has at most 100 terms"):
        parse_field_selector(",".join(["metadata.name!=a"] * 101))


def test_the_largest_selector_is_parsed() -> None:
    """A hundred terms and a thousand values are allowed."""
    values = ",".join(f"v{number}" for number in range(990))
    text = ",".join([*("!a" for _ in range(99)), f"b in ({values})"])

    assert len(parse_selector(text).requirements) == 100
