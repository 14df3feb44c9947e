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
        ("size>5,size<9", "size>5,size<9"),
        ("example.com/app = web", "example.com/app=web"),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    """The canonical form sorts requirements and values, and drops blanks."""
    assert str(parse_selector(text)) == canonical


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
        (
            "a in ()",
            (
                "unable to parse requirement: values: Invalid value: []: "
                "for 'in', 'notin' operators, values set can't be empty"
            ),
        ),
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
