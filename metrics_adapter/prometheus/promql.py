"""Putting what callers ask for into a PromQL query, so that nothing they write is ever read as PromQL.

Callers choose names, namespaces and label selectors; the query itself is the operator's. What callers choose
comes in as whole label matchers only, its values quoted and its label names checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from fedhpa.api.errors import InvalidObject
from fedhpa.api.selectors import EQUALS, EXISTS, IN, NOT_EQUALS, NOT_EXISTS, NOT_IN, Selector

# As prometheus-adapter's rules write them, for people who bring theirs along.
MATCHERS = "<<.LabelMatchers>>"
GROUP_BY = "<<.GroupBy>>"
PLACEHOLDER = re.compile(r"<<[^<>]*>>")

LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
# Selects every series, also those without the label: a query must stay well-formed where there is nothing to
# select by, and PromQL has no braces that begin with a comma.
ANY = 'cluster=~".*"'
# What Go's regexp.QuoteMeta quotes.
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")


def is_label_name(text: str) -> bool:
    """Whether it can be selected by: a classic label name, none of the store's own."""
    return LABEL_NAME.fullmatch(text) is not None and not text.startswith("__")


def quote(text: str) -> str:
    """A PromQL string whose value is `text`, whatever that is."""
    return '"' + "".join(_quoted(char) for char in text) + '"'


def _quoted(char: str) -> str:
    if char in ('"', "\\"):
        return "\\" + char
    if char.isascii() and char.isprintable():
        return char
    code = ord(char)
    if 0xD800 <= code <= 0xDFFF:
        raise InvalidObject("half a surrogate pair is no text: write UTF-8")
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def equals(label: str, value: str) -> str:
    """The matcher of one value."""
    return f"{label}={quote(value)}"


def selector_matchers(selector: Selector, names: Mapping[str, str], field: str) -> list[str]:
    """The matchers of a label selector; `names` maps its keys to labels of series, others stay as they are.

    To a store a label that is empty is one that is absent. Raises InvalidObject for what it cannot select by.
    """
    found = []
    for requirement in selector.requirements:
        label = names.get(requirement.key, requirement.key)
        if not is_label_name(label):
            raise InvalidObject(
                f"{field}: {requirement.key!r} is no label name of a metrics store: map it with the rule's"
                " selectorLabels"
            )
        found.append(_matcher(label, requirement.operator, requirement.values, field))
    return found


def _matcher(label: str, operator: str, values: Sequence[str], field: str) -> str:
    if operator == EXISTS:
        return f'{label}!=""'
    if operator == NOT_EXISTS:
        return f'{label}=""'
    if operator not in (EQUALS, IN, NOT_EQUALS, NOT_IN):
        raise InvalidObject(
            f"{field}: a metrics store cannot compare {label!r} by {operator!r}: use in, notin"
        )
    negated = operator in (NOT_EQUALS, NOT_IN)
    if len(values) == 1:
        return f"{label}{'!=' if negated else '='}{quote(values[0])}"
    choices = "|".join(_SPECIAL.sub(r"\\\g<0>", value) for value in values)
    return f"{label}{'!~' if negated else '=~'}{quote(choices)}"


def filled(query: str, matchers: Iterable[str], group_by: Iterable[str]) -> str:
    """The query with its placeholders replaced, all at once: what is put in is not looked at again."""
    texts = {MATCHERS: ",".join(matchers) or ANY, GROUP_BY: ",".join(group_by)}
    return PLACEHOLDER.sub(lambda found: texts[found.group()], query)
