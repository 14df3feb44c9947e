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

# Characters. Longer selectors are not cached, so that callers cannot fill the memory with them.
MAX_CACHED: Final = 1024

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
_BLANKS: Final = frozenset(" \t\r\n")
_TOKENS: Final = frozenset((")", ",", "!", "==", "=", ">", "<", "!=", "("))
_END: Final = ""

_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)

_NAME_RULE: Final = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_PREFIX_RULE: Final = (
    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', "
    r"regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_QUALIFIED_RULE: Final = (
    "a qualified name must consist of alphanumeric characters, '-', '_' or '.', "
    "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
)
_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used "
    "for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


class Requirement:
    """A condition on one label. `operator` is a constant of this module; `values` are sorted."""

    __slots__ = ("key", "operator", "values")

    def __init__(self, key: str, operator: str, values: Sequence[str] = ()) -> None:
        self.key = key
        self.operator = operator
        self.values = tuple(sorted(set(values)))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """True if the labels satisfy the requirement. An absent label satisfies !=, notin and !."""
        value = labels.get(self.key)
        if self.operator in (EQUALS, IN):
            return value is not None and value in self.values
        if self.operator in (NOT_EQUALS, NOT_IN):
            return value is None or value not in self.values
        if self.operator == EXISTS:
            return value is not None
        if self.operator == NOT_EXISTS:
            return value is None
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        if value is None or not re.fullmatch(r"[+-]?[0-9]+", value, re.ASCII):
            return False
        difference = int(value) - int(self.values[0])
        return difference > 0 if self.operator == GREATER else difference < 0

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

    __slots__ = ("nothing", "requirements")

    def __init__(self, requirements: Sequence[Requirement] = (), *, nothing: bool = False) -> None:
        self.requirements = tuple(sorted(requirements, key=lambda requirement: requirement.key))
        self.nothing = nothing

    def matches(self, labels: Mapping[str, str] | None) -> bool:
        """True if the selector matches an object with these labels. None means no labels."""
        if self.nothing:
            return False
        known = labels or {}
        return all(requirement.matches(known) for requirement in self.requirements)

    def __str__(self) -> str:
        """Returns the canonical form, which a `labelSelector` parameter accepts."""
        return ",".join(str(requirement) for requirement in self.requirements)

    def __repr__(self) -> str:
        return f"Selector({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Selector) and (self.nothing, str(self)) == (other.nothing, str(other))

    def __hash__(self) -> int:
        return hash((self.nothing, str(self)))


def parse_selector(text: str) -> Selector:
    """Parses the string form ("app=web,tier in (a,b),!canary"). Raises InvalidObject with Go's message."""
    return _parse_cached(text) if len(text) <= MAX_CACHED else Selector(_Parser(text).requirements())


@lru_cache(maxsize=4096)
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
    values = [str(value) for value in expression.get("values") or []]
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
            if not re.fullmatch(r"[+-]?[0-9]+", value, re.ASCII):
                raise InvalidObject(
                    f'values[{index}]: Invalid value: "{value}": '
                    "for 'Gt', 'Lt' operators, the value must be an integer"
                )
        elif value and (len(value) > 63 or not _NAME.fullmatch(value)):
            rule = "must be no more than 63 bytes" if len(value) > 63 else _VALUE_RULE
            raise InvalidObject(f'values[{index}][{key}]: Invalid value: "{value}": {rule}')
    return Requirement(key, operator, values)


def _check_key(key: str) -> None:
    prefix, slash, name = key.rpartition("/")
    rule = ""
    if "/" in prefix:
        rule = _QUALIFIED_RULE
    elif slash and not prefix:
        rule = "prefix part must be non-empty"
    elif slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix)):
        rule = _PREFIX_RULE
    elif not name:
        rule = "name part must be non-empty; " + _NAME_RULE
    elif len(name) > 63:
        rule = "name part must be no more than 63 bytes"
    elif not _NAME.fullmatch(name):
        rule = _NAME_RULE
    if rule:
        # Go prints "<nil>" as the path of a requirement outside an object.
        raise InvalidObject(f'<nil>: Invalid value: "{key}": {rule}')


def _tokens(text: str) -> list[str]:
    found: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        if char in _BLANKS:
            position += 1
            continue
        end = position + 1
        if char in _SYMBOLS:
            # Operators have one or two symbols; the longest match wins.
            if text[position : end + 1] in _TOKENS and end < len(text):
                end += 1
        else:
            while end < len(text) and text[end] not in _SYMBOLS and text[end] not in _BLANKS:
                end += 1
        found.append(text[position:end])
        position = end
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._position = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while True:
            token = self._peek()
            if token == _END:
                return found
            if not (_is_identifier(token) or token == "!"):  # noqa: S105 - a token of the grammar
                raise InvalidObject(f"found '{token}', expected: !, identifier, or 'end of string'")
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
        if self._peek() == ")":
            self._next()
            return []
        values: list[str] = []
        wants_value = True
        while True:
            token = self._next()
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
    for term in text.split(","):
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
