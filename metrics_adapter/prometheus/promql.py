"""Builds PromQL from an operator's query and a caller's request, without PromQL injection.

The operator writes the query. Callers choose names, namespaces and label selectors. These enter the query
only as whole label matchers, with quoted values and validated label names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from fedhpa.api.errors import InvalidObject
from fedhpa.api.selectors import EQUALS, EXISTS, IN, NOT_EQUALS, NOT_EXISTS, NOT_IN, Selector

# The placeholders of prometheus-adapter, so that its rules can be reused.
MATCHERS = "<<.LabelMatchers>>"
GROUP_BY = "<<.GroupBy>>"
PLACEHOLDER = re.compile(r"<<[^<>]*>>")

LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)
# Matches every series, with or without the label. It fills the placeholder if there is nothing to select by,
# because PromQL does not allow braces that begin with a comma.
MATCH_ALL = 'cluster=~".*"'
# The characters that Go's regexp.QuoteMeta escapes.
_SPECIAL = re.compile(r"[\\.+*?()|\[\]{}^$]")


def is_label_name(text: str) -> bool:
    """True for a classic label name that the store does not reserve for itself (__name)."""
    return LABEL_NAME.fullmatch(text) is not None and not text.startswith("__")


def quote(text: str) -> str:
    """Returns the PromQL string literal of any text. Raises InvalidObject for half a surrogate pair."""
    return '"' + "".join(_quoted(char) for char in text) + '"'


def _quoted(char: str) -> str:
    if char in ('"', "\\"):
        return "\\" + char
    if char.isascii() and char.isprintable():
        return char
    code = ord(char)
    if 0xD800 <= code <= 0xDFFF:
        raise InvalidObject("the text has half a surrogate pair: write UTF-8")
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def equals(label: str, value: str) -> str:
    """Returns the matcher of a label and one value."""
    return f"{label}={quote(value)}"


def selector_matchers(selector: Selector, names: Mapping[str, str], field: str) -> list[str]:
    """Returns the matchers of a label selector. `names` maps keys to labels of series; other keys stay.

    To a store, an empty label equals an absent one. Raises InvalidObject for a key or operator that a store
    does not support.
    """
    found = []
    for requirement in selector.requirements:
        label = names.get(requirement.key, requirement.key)
        if not is_label_name(label):
            raise InvalidObject(
                f"{field}: {requirement.key!r} is not a label name of a metrics store: map it with the rule's"
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


def fill(query: str, matchers: Iterable[str], group_by: Iterable[str]) -> str:
    """Replaces the placeholders in one pass, so that inserted text is never scanned for placeholders."""
    texts = {MATCHERS: ",".join(matchers) or MATCH_ALL, GROUP_BY: ",".join(group_by)}
    return PLACEHOLDER.sub(lambda found: texts[found.group()], query)
