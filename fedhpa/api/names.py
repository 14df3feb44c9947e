"""Validation of names and keys, with Kubernetes' messages byte for byte.

Each function returns one message for each violation, and an empty list for a valid text. Source: Kubernetes
1.36, apimachinery validation.
"""

from __future__ import annotations

import re
from typing import Final

_SUBDOMAIN_FORMAT: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_SUBDOMAIN_RULE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character"
)
_LABEL_FORMAT: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_RULE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character"
)
_QUALIFIED_FORMAT: Final = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_QUALIFIED_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character"
)
_LABEL_VALUE_FORMAT: Final = f"({_QUALIFIED_FORMAT})?"
_LABEL_VALUE_RULE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character"
)

_SUBDOMAIN = re.compile(_SUBDOMAIN_FORMAT)
_LABEL = re.compile(_LABEL_FORMAT)
# Messages print _QUALIFIED_FORMAT, which can take quadratic time. This pattern is equivalent and linear.
_QUALIFIED = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?")

_MAX_SUBDOMAIN: Final = 253
_MAX_LABEL: Final = 63

_STANDARD_CONTAINER_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_STANDARD_RESOURCES: Final = (
    _STANDARD_CONTAINER_RESOURCES
    | frozenset(
        f"{kind}.{name}" for kind in ("requests", "limits") for name in ("cpu", "memory", "ephemeral-storage")
    )
    | frozenset(
        [
            "pods",
            "resourcequotas",
            "services",
            "replicationcontrollers",
            "secrets",
            "configmaps",
            "persistentvolumeclaims",
            "storage",
            "requests.storage",
            "services.nodeports",
            "services.loadbalancers",
        ]
    )
)


def _rule(text: str, format_: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{format_}')"


def _too_long(limit: int, unit: str = "characters") -> str:
    # Both limits count bytes, although Kubernetes' older rules say characters.
    return f"must be no more than {limit} {unit}"


def size_of(text: str) -> int:
    """Returns the bytes of a text in UTF-8, also of one with half a surrogate pair."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def dns_subdomain(text: str, unit: str = "characters") -> list[str]:
    """RFC 1123 subdomain of at most 253 bytes. `unit` is the word for bytes in the message."""
    if size_of(text) > _MAX_SUBDOMAIN:
        # The pattern backtracks, so long texts are checked part by part.
        wrong = [_too_long(_MAX_SUBDOMAIN, unit)]
        if not all(_LABEL.fullmatch(part) for part in text.split(".")):
            wrong.append(_rule(_SUBDOMAIN_RULE, _SUBDOMAIN_FORMAT, "example.com"))
        return wrong
    if not _SUBDOMAIN.fullmatch(text):
        return [_rule(_SUBDOMAIN_RULE, _SUBDOMAIN_FORMAT, "example.com")]
    return []


def dns_label(text: str) -> list[str]:
    """RFC 1123 label of at most 63 bytes."""
    wrong = [_too_long(_MAX_LABEL)] if size_of(text) > _MAX_LABEL else []
    if _LABEL.fullmatch(text):
        return wrong
    if all(_LABEL.fullmatch(part) for part in text.split(".")):
        return [*wrong, "must not contain dots"]
    return [*wrong, _rule(_LABEL_RULE, _LABEL_FORMAT, "my-name", "123-abc")]


def qualified_name(text: str) -> list[str]:
    """`[prefix/]name`: the key of a label or annotation."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        rule = _rule(_QUALIFIED_RULE, _QUALIFIED_FORMAT, "MyName", "my.name", "123-abc")
        hint = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {rule} {hint}"]
    wrong: list[str] = []
    if slash and not prefix:
        wrong.append("prefix part must be non-empty")
    elif slash:
        wrong += [f"prefix part {message}" for message in dns_subdomain(prefix, "bytes")]
    if not name:
        wrong.append("name part must be non-empty")
    elif size_of(name) > _MAX_LABEL:
        wrong.append("name part " + _too_long(_MAX_LABEL, "bytes"))
    if not _QUALIFIED.fullmatch(name):
        wrong.append("name part " + _rule(_QUALIFIED_RULE, _QUALIFIED_FORMAT, "MyName", "my.name", "123-abc"))
    return wrong


def label_value(text: str) -> list[str]:
    """The value of a label."""
    wrong = [_too_long(_MAX_LABEL, "bytes")] if size_of(text) > _MAX_LABEL else []
    if text and not _QUALIFIED.fullmatch(text):
        wrong.append(_rule(_LABEL_VALUE_RULE, _LABEL_VALUE_FORMAT, "MyValue", "my_value", "12345"))
    return wrong


def path_segment(text: str) -> list[str]:
    """A name that becomes a segment of a URL path."""
    if "/" not in text and "%" not in text:
        return [f"may not be '{text}'"] if text in (".", "..") else []
    return [f"may not contain '{part}'" for part in ("/", "%") if part in text]


def container_resource(text: str) -> list[str]:
    """The name of a resource that a container may request."""
    wrong = qualified_name(text)
    if "/" not in text:
        if not wrong and not (text in _STANDARD_RESOURCES or _is_huge_pages(text)):
            wrong.append("must be a standard resource type or fully qualified")
        if not (text in _STANDARD_CONTAINER_RESOURCES or text.startswith("hugepages-")):
            wrong.append("must be a standard resource for containers")
    elif "kubernetes.io/" not in text and not _is_extended(text):
        wrong.append("doesn't follow extended resource name standard")
    return wrong


def _is_huge_pages(text: str) -> bool:
    return text.startswith(("hugepages-", "requests.hugepages-"))


def _is_extended(text: str) -> bool:
    # The name of its quota, requests.NAME, must be a qualified name, too.
    return not text.startswith("requests.") and not qualified_name(f"requests.{text}")
