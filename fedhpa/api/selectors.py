"""Label selectors in string and object form, and field selectors on metadata.name and metadata.namespace.

Source: Kubernetes 1.36, k8s.io/apimachinery labels and metav1.LabelSelector: grammar, canonical form and
messages. Users see the messages in the condition InvalidSelector.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from fedhpa.api.errors import InvalidObject
from fedhpa.api.names import label_value, qualified_name
from fedhpa.api.quantity import MAX_INT64

# The requirements of one selector, and the values in all of them. Each object of a list is compared with all
# of them, so a selector without bounds could occupy the process for seconds.
MAX_TERMS: Final = 100
MAX_VALUES: Final = 1000
# Characters of a selector. One with the most terms and values that are allowed is shorter.
MAX_LENGTH: Final = 128 * 1024
# Characters of a selector that is cached, and the number of them: together at most about 25 MB.
MAX_CACHED: Final = 256
MAX_CACHED_SELECTORS: Final = 1024
# Characters of an integer. A label value has at most 63.
MAX_INTEGER: Final = 63


EXISTS: Final = "exists"
NOT_EXISTS: Final = "!"
IN: Final = "in"
NOT_IN: Final = "notin"
EQUALS: Final = "="
NOT_EQUALS: Final = "!="
GREATER: Final = ">"
LESS: Final = "<"

_OPERATORS: Final = {
    "=": EQUALS,
    "==": EQUALS,
    "!=": NOT_EQUALS,
    ">": GREATER,
    "<": LESS,
    "in": IN,
    "notin": NOT_IN,
}
_SYMBOLS: Final = frozenset("=!(),><")
# Operators have one or two symbols; the longest match wins.
_TOKEN = re.compile(r"==|!=|[=!(),><]|[^=!(),>< \t\r\n]+")
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
_END: Final = ""


class Requirement:
    """A condition on one label. `operator` is a constant of this module; `values` are sorted."""

    __slots__ = ("_set", "key", "operator", "values")

    def __init__(self, key: str, operator: str, values: Sequence[str] = ()) -> None:
        self.key = key
        self.operator = operator
        self._set = frozenset(values)
        self.values = tuple(sorted(self._set))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True if the labels satisfy the requirement. An absent label satisfies !=, notin and !."""
        value = labels.get(self.key)
        if self.operator in (EQUALS, IN):
            return value is not None and value in self._set
        if self.operator in (NOT_EQUALS, NOT_IN):
            return value is None or value not in self._set
        if self.operator == EXISTS:
            return value is not None
        if self.operator == NOT_EXISTS:
            return value is None
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        found, bound = _int64(value or ""), _int64(self.values[0])
        if found is None or bound is None:
            return False
        return found > bound if self.operator == GREATER else found < bound

    def __str__(self) -> str:
        if self.operator == EXISTS:
            return self.key
        if self.operator == NOT_EXISTS:
            return f"!{self.key}"
        if self.operator in (IN, NOT_IN):
            return f"{self.key} {self.operator} ({','.join(self.values)})"
        return f"{self.key}{self.operator}{self.values[0]}"


class Selector:
    """Requirements that must all hold, sorted by key. Without requirements, everything matches.

    With `nothing`, no object matches.
    """

    __slots__ = ("_text", "nothing", "requirements")

    def __init__(self, requirements: Sequence[Requirement] = (), *, nothing: bool = False) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self.nothing = nothing
        self._text: str | None = None

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """True if the selector matches an object with these labels. None means no labels."""
        if self.nothing:
            return False
        known = labels or {}
        return all(requirement.matches(known) for requirement in self.requirements)

    def __str__(self) -> str:
        """Returns the canonical form, which a `labelSelector` parameter accepts."""
        if self._text is None:
            self._text = ",".join(str(requirement) for requirement in self.requirements)
        return self._text

    def __repr__(self) -> str:
        return f"Selector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and (self.nothing, str(self)) == (other.nothing, str(other))

    def __hash__(self) -> int:
        return hash(str(self))


def parse_selector(text: str) -> Selector:
    """Parses the string form ("app=web,tier in (a,b),!canary"). Raises InvalidObject with Go's message.

    A selector of more than MAX_TERMS requirements or MAX_VALUES values is refused, too.
    """
    if len(text) > MAX_LENGTH:
        raise InvalidObject(f"a selector has at most {MAX_LENGTH} characters; this one has {len(text)}")
    return _parse_cached(text) if len(text) <= MAX_CACHED else Selector(_Parser(text).requirements())


@lru_cache(maxsize=MAX_CACHED_SELECTORS)
def _parse_cached(text: str) -> Selector:
    return Selector(_Parser(text).requirements())


def selector_of(label_selector: Mapping[str, object] | None) -> Selector:
    """Returns the selector of a metav1.LabelSelector, given as decoded JSON. Raises InvalidObject.

    None matches nothing. Its string form is empty, so it adds no query parameter.
    """
    if label_selector is None:
        return Selector(nothing=True)
    labels = label_selector.get("matchLabels") or {}
    expressions = label_selector.get("matchExpressions") or []
    if not isinstance(labels, Mapping) or not isinstance(expressions, Sequence):
        raise InvalidObject("a label selector has matchLabels (an object) and matchExpressions (a list)")
    _check_terms(len(labels) + len(expressions))
    found = [_requirement(str(key), EQUALS, [str(value)]) for key, value in labels.items()]
    found.extend(_expression(expression) for expression in expressions)
    return Selector(found)


def _expression(expression: object) -> Requirement:
    names = {"In": IN, "NotIn": NOT_IN, "Exists": EXISTS, "DoesNotExist": NOT_EXISTS}
    if not isinstance(expression, Mapping):
        raise InvalidObject(f"{expression!r} is not a label selector requirement")
    operator = names.get(str(expression.get("operator", "")))
    if operator is None:
        raise InvalidObject(f'"{expression.get("operator", "")}" is not a valid label selector operator')
    given = expression.get("values") or []
    if not isinstance(given, Sequence):
        raise InvalidObject("the values of a label selector requirement are a list")
    _check_values(len(given))
    values = [str(value) for value in given]
    return _requirement(str(expression.get("key", "")), operator, values)


def _requirement(key: str, operator: str, values: Sequence[str]) -> Requirement:
    _check_key(key)
    if operator in (IN, NOT_IN) and not values:
        raise InvalidObject(
            "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
        )
    if operator in (EXISTS, NOT_EXISTS) and values:
        quoted = ",".join(f'"{value}"' for value in values)
        raise InvalidObject(
            f"values: Invalid value: [{quoted}]: values set must be empty for exists and does not exist"
        )
    for index, value in enumerate(sorted(values)):
        if operator in (GREATER, LESS):
            if _int64(value) is None:
                raise InvalidObject(
                    f'values[{index}]: Invalid value: "{value}": '
                    "for 'Gt', 'Lt' operators, the value must be an integer"
                )
        elif wrong := label_value(value):
            raise InvalidObject(f'values[{index}][{key}]: Invalid value: "{value}": {"; ".join(wrong)}')
    return Requirement(key, operator, values)


def _check_key(key: str) -> None:
    if wrong := qualified_name(key):
        # Go prints "<nil>" as the path of a requirement outside an object.
        raise InvalidObject(f'<nil>: Invalid value: "{key}": {"; ".join(wrong)}')


def _check_terms(count: int) -> None:
    if count > MAX_TERMS:
        raise InvalidObject(f"a selector has at most {MAX_TERMS} terms; this one has more")


def _check_values(count: int) -> None:
    if count > MAX_VALUES:
        raise InvalidObject(f"a selector has at most {MAX_VALUES} values; this one has more")


def _int64(text: str) -> int | None:
    """Returns the integer as Go's ParseInt reads it, or None. Python refuses integers of 4,300 digits."""
    if len(text) > MAX_INTEGER or not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if -MAX_INT64 - 1 <= value <= MAX_INT64 else None


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._position = 0
        self._values = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while True:
            token = self._peek()
            if token == _END:
                return found
            if not (_is_identifier(token) or token == "!"):  # noqa: S105 - a token of the grammar
                raise InvalidObject(f"found '{token}', expected: !, identifier, or 'end of string'")
            _check_terms(len(found) + 1)
            try:
                found.append(self._requirement())
            except InvalidObject as error:
                raise InvalidObject(f"unable to parse requirement: {error}") from error
            separator = self._next()
            if separator == _END:
                return found
            if separator != ",":
                raise InvalidObject(f"found '{separator}', expected: ',' or 'end of string'")
            following = self._peek()
            if not (_is_identifier(following) or following == "!"):
                raise InvalidObject(f"found '{following}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        key = self._next()
        negated = key == "!"
        if negated:
            key = self._next()
        if not _is_identifier(key):
            raise InvalidObject(f"found '{key}', expected: identifier")
        _check_key(key)
        if negated:
            return _requirement(key, NOT_EXISTS, [])
        if self._peek() in (_END, ","):
            return _requirement(key, EXISTS, [])
        word = self._next()
        operator = _OPERATORS.get(word)
        if operator is None:
            raise InvalidObject(f"found '{word}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._set() if operator in (IN, NOT_IN) else [self._value()]
        return _requirement(key, operator, values)

    def _value(self) -> str:
        if self._peek() in (_END, ","):
            return ""
        token = self._next()
        if not _is_identifier(token):
            raise InvalidObject(f"found '{token}', expected: identifier")
        return token

    def _set(self) -> list[str]:
        token = self._next()
        if token != "(":  # noqa: S105
            raise InvalidObject(f"found '{token}' expected: '('")
        first = self._peek()
        if not (_is_identifier(first) or first in (",", ")")):
            raise InvalidObject(f"found '{first}', expected: ',', ')' or identifier")
        values: list[str] = []
        wants_value = True
        while True:
            token = self._next()
            self._values += 1
            _check_values(self._values // 2)  # Commas and parentheses count as well as values.
            if token == ")":  # noqa: S105
                return [*values, ""] if wants_value else values
            if token == ",":  # noqa: S105
                if wants_value:
                    values.append("")
                wants_value = True
            elif _is_identifier(token) and wants_value:
                values.append(token)
                wants_value = False
            else:
                expected = "',', or identifier" if wants_value else "',' or ')'"
                raise InvalidObject(f"found '{token}', expected: {expected}")

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else _END

    def _next(self) -> str:
        token = self._peek()
        self._position += 1
        return token


def _is_identifier(token: str) -> bool:
    return token != _END and token[0] not in _SYMBOLS


class FieldSelector:
    """A field selector on metadata.name and metadata.namespace, the fields that metrics.k8s.io supports."""

    __slots__ = ("_terms",)

    def __init__(self, terms: Sequence[tuple[str, bool, str]] = ()) -> None:
        self._terms = tuple(terms)

    @property
    def is_empty(self) -> bool:
        """True if every object matches."""
        return not self._terms

    def matches(self, *, name: str, namespace: str) -> bool:
        """True if the selector matches an object of this name and namespace."""
        fields = {"metadata.name": name, "metadata.namespace": namespace}
        return all((fields[field] == value) is equal for field, equal, value in self._terms)

    def required(self, field: str) -> str | None:
        """Returns the value that the selector requires of `field`, or None."""
        return next((value for known, equal, value in self._terms if known == field and equal), None)

    def __str__(self) -> str:
        return ",".join(f"{field}{'=' if equal else '!='}{value}" for field, equal, value in self._terms)


def parse_field_selector(text: str) -> FieldSelector:
    """Parses a text such as "metadata.name=web-0,metadata.namespace!=kube-system". Raises InvalidObject."""
    terms: list[tuple[str, bool, str]] = []
    parts = text.split(",", MAX_TERMS)
    _check_terms(len(parts))
    for term in parts:
        if not term:
            continue
        match = re.fullmatch(r"([^=!]*)(!=|==|=)(.*)", term, re.DOTALL)
        if match is None:
            raise InvalidObject(f"invalid selector: '{text}'; can't understand '{term}'")
        field, operator, value = match.groups()
        if field not in ("metadata.name", "metadata.namespace"):
            raise InvalidObject(
                f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'
            )
        terms.append((field, operator != "!=", value))
    return FieldSelector(terms)
