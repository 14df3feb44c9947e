"""Field errors, their values and aggregates, byte for byte."""

from __future__ import annotations

from typing import Any

import pytest

from fedhpa.admission.metadata import validate_metadata
from fedhpa.api.fielderror import TypedText, aggregate, duplicate, invalid, printed, required, too_long
from fedhpa.api.meta import ManagedFieldsEntry, ObjectMeta
from fedhpa.api.names import container_resource, dns_label, dns_subdomain, label_value, qualified_name
from fedhpa.api.quantity import Quantity


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", '"a"'),
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("a\tb\nc\x07\x01\x7f", '"a\\tb\\nc\\a\\x01\\x7f"'),
        ("é\u00a0\u200b\U0001f600", '"é\\u00a0\\u200b😀"'),
        ("<&>", '"<&>"'),
        (TypedText("<&>\u2028"), '"\\u003c\\u0026\\u003e\\u2028"'),
        (TypedText("é\x01"), '"é\\u0001"'),
        (-3, "-3"),
        (True, "true"),
        (0.5, "0.5"),
        (2.0, "2"),
        (Quantity.parse("-0.3"), '"-300m"'),
        ([{"kind": "A"}, "<"], '[{"kind":"A"},"\\u003c"]'),
    ],
)
def test_a_value_is_printed_as_go_prints_it(value: Any, text: str) -> None:
    """Plain texts print with %q, named types and other values as JSON, quantities in canonical form."""
    assert printed(value) == text


def test_the_parts_of_an_error_are_joined_by_colons() -> None:
    """An error prints its path, its type, a value if the type has one, and the detail."""
    assert str(required("a.b")) == "a.b: Required value"
    assert str(required("a.b", "why")) == "a.b: Required value: why"
    assert str(invalid("a[0]", "", "bad")) == 'a[0]: Invalid value: "": bad'
    assert str(duplicate("a", "x")) == 'a: Duplicate value: "x"'
    assert str(too_long("a", 5)) == "a: Too long: may not be more than 5 bytes"


def test_an_aggregate_names_each_text_once_in_order() -> None:
    """A single error stands alone; several are in brackets."""
    first, second = required("b"), required("a")

    assert aggregate([first, first]) == "b: Required value"
    assert aggregate([first, second, first]) == "[b: Required value, a: Required value]"


def test_a_key_with_two_slashes_is_described_whole() -> None:
    """A key with two slashes gets the message about the whole key."""
    (message,) = qualified_name("a/b/c")

    assert message.startswith("a valid label key must consist of alphanumeric characters")
    assert message.endswith(" with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("a", 0),
        ("a/b", 0),
        ("A_b.c-d", 0),
        ("/b", 1),
        ("a/", 2),
        ("A/b", 1),
        ("", 2),
        ("-a", 1),
        ("x" * 64, 1),
    ],
)
def test_keys_have_a_dns_prefix_and_a_short_name(text: str, count: int) -> None:
    """Each invalid part has its own message."""
    assert len(qualified_name(text)) == count


def test_lengths_of_keys_and_values_are_named_in_bytes() -> None:
    """Kubernetes' newer rules say bytes where the older ones say characters."""
    assert qualified_name("x" * 64) == ["name part must be no more than 63 bytes"]
    assert qualified_name("x" * 254 + "/a") == ["prefix part must be no more than 253 bytes"]
    assert label_value("x" * 64) == ["must be no more than 63 bytes"]
    assert dns_label("x" * 64) == ["must be no more than 63 characters"]


def test_names_are_measured_in_bytes_and_matched_whole() -> None:
    """Length and spelling have separate messages; there is one for dots alone."""
    assert dns_subdomain("a" * 254) == ["must be no more than 253 characters"]
    assert len(dns_subdomain("é" * 127)) == 2
    assert len(dns_subdomain("a\n")) == 1
    assert dns_label("a.b") == ["must not contain dots"]
    assert len(dns_label("A" * 64)) == 2


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        ("cpu", []),
        ("hugepages-2Mi", []),
        ("example.com/gpu", []),
        ("kubernetes.io/thing", []),
        ("pods", ["must be a standard resource for containers"]),
        (
            "gpu",
            [
                "must be a standard resource type or fully qualified",
                "must be a standard resource for containers",
            ],
        ),
        ("requests.example.com/gpu", ["doesn't follow extended resource name standard"]),
    ],
)
def test_a_container_requests_standard_or_extended_resources(name: str, messages: list[str]) -> None:
    """A resource name without a domain must be one of Kubernetes' own."""
    assert container_resource(name) == messages


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"generate_name": "Web-"}, ["metadata.generateName: Invalid value"]),
        ({"generate_name": "web-"}, []),
        ({"namespace": "a.b"}, ['metadata.namespace: Invalid value: "a.b": must not contain dots']),
        (
            {"annotations": {"a": "x" * 262144}},
            ["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
        (
            {"finalizers": ("orphan", "foregroundDeletion")},
            [
                (
                    'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: '
                    "finalizer orphan and foregroundDeletion cannot be both set"
                )
            ],
        ),
        (
            {"managed_fields": (ManagedFieldsEntry(operation="Patch", fields_type="V2", manager="é\x07"),)},
            [
                'metadata.managedFields[0].operation: Invalid value: "Patch": must be `Apply` or `Update`',
                'metadata.managedFields[0].fieldsType: Invalid value: "V2": must be `FieldsV1`',
                (
                    'metadata.managedFields[0].manager: Invalid value: "é\\a": '
                    "invalid character U+0007 (at position 2)"
                ),
            ],
        ),
    ],
)
def test_metadata_is_judged_as_api_servers_do(metadata: dict[str, Any], expected: list[str]) -> None:
    """Metadata errors that Karmada's recorded runs do not cover."""
    found = [
        str(error) for error in validate_metadata(ObjectMeta(**{"name": "w", "namespace": "n", **metadata}))
    ]

    assert len(found) == len(expected)
    assert all(text.startswith(start) for text, start in zip(found, expected, strict=True))
