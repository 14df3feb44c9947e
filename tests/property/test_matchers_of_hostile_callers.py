"""A caller's text stays a value in a matcher and is never parsed as PromQL."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from fedhpa.api.errors import InvalidObject
from fedhpa.api.selectors import Requirement, Selector, parse_selector
from metrics_adapter.prometheus.promql import GROUP_BY, MATCHERS, equals, fill, quote, selector_matchers

HOSTILE = st.text() | st.sampled_from(
    ['"} or up{a="', "\\", '\\"', "a\nb", "#", "`", "<<.LabelMatchers>>", "<<.GroupBy>>", "\x00", "$1", "\\1"]
)
# As Prometheus reads a string in double quotes: Go's escapes, and no raw newline.
STRING = re.compile(r'"((?:[^"\\\n]|\\["\\nrt]|\\u[0-9a-f]{4}|\\U[0-9a-f]{8})*)"', re.ASCII)
ESCAPE = re.compile(r'\\(u([0-9a-f]{4})|U([0-9a-f]{8})|["\\nrt])')


def read(string: str) -> str:
    """Returns the value of a PromQL string."""
    match = STRING.fullmatch(string)
    assert match is not None, string

    def char(found: re.Match[str]) -> str:
        code = found.group(2) or found.group(3)
        return chr(int(code, 16)) if code else {"n": "\n", "r": "\r", "t": "\t"}.get(found[1], found[1])

    return ESCAPE.sub(char, match.group(1))


def matchers_of(text: str) -> list[tuple[str, str, str]]:
    """Returns label, operator and value of each matcher; nothing may stand between matchers."""
    found = []
    position = 0
    matcher = re.compile(r"([a-zA-Z_][a-zA-Z0-9_]*)(=~|!~|!=|=)" + STRING.pattern, re.ASCII)
    while position < len(text):
        match = matcher.match(text, position)
        assert match is not None, text[position:]
        found.append((match[1], match[2], read(f'"{match[3]}"')))
        position = match.end()
        if position < len(text):
            assert text[position] == ",", text[position:]
            position += 1
    return found


@given(HOSTILE)
def test_a_quoted_text_is_one_string_that_says_it(text: str) -> None:
    """Quotes, backslashes and line ends survive quoting unchanged."""
    try:
        quoted = quote(text)
    except InvalidObject:
        assert any(0xD800 <= ord(char) <= 0xDFFF for char in text)
        return

    assert text == read(quoted)
    assert quoted.isascii()


@given(st.lists(st.tuples(st.sampled_from(["namespace", "pod", "queue"]), HOSTILE), min_size=1, max_size=4))
def test_values_of_callers_never_end_a_matcher(pairs: list[tuple[str, str]]) -> None:
    """A query has exactly the requested matchers, with the given values."""
    try:
        query = fill(f"x{{{MATCHERS}}}", [equals(label, value) for label, value in pairs], [])
    except InvalidObject:
        return

    assert [(label, "=", value) for label, value in pairs] == matchers_of(query[2:-1])


OPERATORS = st.sampled_from(["=", "!=", "in", "notin", "exists", "!", ">", "<"])
KEYS = HOSTILE | st.sampled_from(["app", "app.kubernetes.io/name", "__name__", "9a", "a-b"])


@given(st.lists(st.tuples(KEYS, OPERATORS, st.lists(HOSTILE, min_size=1, max_size=3)), max_size=4))
def test_a_selector_gives_matchers_or_is_refused(given_: list[tuple[str, str, list[str]]]) -> None:
    """Even requirements that no parser accepts give only matchers of plain labels."""
    selector = Selector([Requirement(key, operator, values) for key, operator, values in given_])
    try:
        matchers = selector_matchers(selector, {"app.kubernetes.io/name": "app"}, "labelSelector")
        found = matchers_of(",".join(matchers))
    except InvalidObject:
        return

    assert len(given_) == len(found)
    assert not any(label.startswith("__") for label, _, _ in found)


# Valid label values of Kubernetes, which reach a regular expression.
VALUES = st.from_regex(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,5}[A-Za-z0-9])?", fullmatch=True)


@given(st.lists(VALUES, min_size=2, max_size=4, unique=True), VALUES, st.sampled_from(["in", "notin"]))
def test_sets_match_their_values_and_no_others(values: list[str], other: str, operator: str) -> None:
    """The regular expression agrees with the selector: a dot matches only a dot."""
    selector = parse_selector(f"k {operator} ({','.join(values)})")
    [(label, sign, pattern)] = matchers_of(",".join(selector_matchers(selector, {}, "labelSelector")))
    negated = sign == "!~"

    assert ("k", operator == "notin") == (label, negated)
    for value in [*values, other, values[0].replace(".", "x"), ""]:
        expected = selector.matches({"k": value})
        assert expected == (bool(re.fullmatch(pattern, value)) != negated)


@given(HOSTILE)
def test_what_is_put_in_is_not_looked_at_again(text: str) -> None:
    """A placeholder in a value stays text."""
    try:
        query = fill(f"sum by ({GROUP_BY}) (x{{{MATCHERS}}})", [equals("a", text)], ["cluster"])
    except InvalidObject:
        return

    assert query == f"sum by (cluster) (x{{a={quote(text)}}})"
