"""Every JSON text from outside is decoded by one function with one error."""

from __future__ import annotations

import contextlib
import gc
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import (
    MAX_NESTING,
    MAX_VALUES,
    InvalidJson,
    convert_json,
    decode_json,
    has_more_values,
    nested_deeper,
)
from fedhpa.api.wire import ObjectList, Pod
from tests.support.costs import least_cpu_seconds

ROOT = Path(__file__).parents[2]
HELD = 0.05  # The longest hold of an event loop, in seconds.
PRODUCT = ("fedhpa", "webhook", "metrics_adapter", "controller")
# Decoding with the library itself, instead of `decode_json`.
DIRECT = re.compile(r"msgspec\.json\.(?:decode|Decoder)\(|\bjson\.loads?\(|\bmsgspec\.convert\(")
# Modules that may: each handles RecursionError itself, or reads only what this process has written.
MAY = {
    "fedhpa/api/json.py": "the function itself",
    "fedhpa/decision/record/scenario.py": "refuses a scenario with the path of the field first",
    "fedhpa/api/rights.py": "reads a file of ours",
    "fedhpa/cli/replay.py": "splits files into scenarios",
    "fedhpa/cli/cron/preview.py": "turns the times of YAML into strings",
    "fedhpa/cli/cron/next.py": "answers each line of its input",
    "fedhpa/cli/preview.py": "copies an object that was read from a file",
    "webhook/strict_json.py": "has its own limits and messages",
}


def nested(levels: int, opening: bytes = b'{"x":', closing: bytes = b"}") -> bytes:
    return opening * levels + b"1" + closing * levels


@pytest.mark.parametrize("levels", [1_100, 5_000, 200_000])
@pytest.mark.parametrize("kind", [Pod, ObjectList[Pod], dict[str, Any], msgspec.Raw, Any])
def test_nesting_that_no_reader_bears_is_an_ordinary_error(levels: int, kind: type[Any]) -> None:
    """A body that is nested thousands of levels deep raises InvalidJson, whatever it is decoded as."""
    with pytest.raises(InvalidJson, match="nested too deeply"):
        decode_json(nested(levels), kind)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\x00",
        b"nonsense",
        b"\xff\xfe",
        b'{"metadata":{"name":"\xff"}}',
        b'{"metadata":{"name":"\\ud800"}}',
        b'{"metadata":{"generation":' + b"9" * 5_000 + b"}}",
        b'{"metadata":{"generation":1e400}}',
        b'{"metadata":[]}',
        b"[" * 3_000,
    ],
    ids=repr,
)
def test_bytes_that_are_no_pod_raise_one_error(body: bytes) -> None:
    """Malformed JSON, invalid UTF-8, huge numbers and wrong types all raise InvalidJson."""
    with pytest.raises(InvalidJson):
        decode_json(body, Pod)


def test_free_json_has_the_documented_nesting_and_no_more() -> None:
    """Free JSON with MAX_NESTING levels is read, and with one more level refused."""
    value = decode_json(nested(MAX_NESTING), dict[str, Any])

    assert nested_deeper(value, MAX_NESTING - 1)
    assert not nested_deeper(value, MAX_NESTING)
    with pytest.raises(InvalidJson):
        decode_json(nested(MAX_NESTING + 1), dict[str, Any])
    with pytest.raises(InvalidJson):
        decode_json(nested(MAX_NESTING + 1, b"[", b"]"), Any)


def test_a_value_that_is_converted_raises_the_same_error() -> None:
    """Converting decoded JSON of a wrong type raises InvalidJson."""
    with pytest.raises(InvalidJson):
        convert_json({"metadata": []}, Pod)


def test_the_error_is_an_invalid_object() -> None:
    """Callers that handle invalid objects handle unreadable JSON, too."""
    assert issubclass(InvalidJson, InvalidObject)


def test_no_module_decodes_json_in_another_way() -> None:
    """No product module decodes JSON with the library itself, except the modules listed here."""
    found = {
        str(path.relative_to(ROOT))
        for package in PRODUCT
        for path in (ROOT / package).rglob("*.py")
        if DIRECT.search(path.read_text(encoding="utf-8"))
    }

    assert found == set(MAY)


ANY = st.recursive(
    st.none() | st.integers() | st.text(max_size=8) | st.text('"\\\\,{[ü', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text('"\\\\,{[a', max_size=4), inner, max_size=4)
    ),
    max_leaves=20,
)


def separators(value: Any) -> int:
    """Returns how many commas and opening brackets a value has as JSON, outside its strings."""
    if not isinstance(value, dict | list):
        return 0
    children = value.values() if isinstance(value, dict) else value
    return max(len(value), 1) + sum(map(separators, children))


@given(ANY, st.booleans())
def test_values_are_counted_outside_strings(value: Any, escaped: bool) -> None:
    """Commas and brackets in strings count for nothing, whatever is escaped."""
    body = json.dumps(value, ensure_ascii=escaped).encode()
    count = separators(value)

    assert not has_more_values(body, count)
    assert not count or has_more_values(body, count - 1)


def many_keys(count: int) -> bytes:
    return b"{" + b",".join(b'"%019d":"%d"' % (number, number) for number in range(count)) + b"}"


@pytest.mark.parametrize("kind", [Pod, dict[str, Any], Any, msgspec.Raw])
def test_a_text_with_too_many_values_is_refused(kind: type[Any]) -> None:
    """A text with more than MAX_VALUES values is refused. Commas in strings do not count."""
    commas = b'{"metadata":{"name":"web","annotations":{"x":"' + b"," * 2 * MAX_VALUES + b'"}}}'

    with pytest.raises(InvalidJson, match=f"more than {MAX_VALUES} values"):
        decode_json(b'{"metadata":{"labels":' + many_keys(MAX_VALUES) + b"}}", kind)
    decode_json(commas, kind)


@pytest.mark.parametrize(
    "body",
    [
        many_keys(MAX_VALUES - 2),
        many_keys(MAX_VALUES - 2)[:-1] + b',"x":"' + b"," * MAX_VALUES + b'"}',
        b'{"x":[' + b"{}," * 1_300_000 + b"{}]}",
        b'{"x":[' + b'{"a":1},' * (MAX_VALUES // 2 - 2) + b"{}]}",
        b'{"x":"' + b"\\\\," * 1_300_000 + b'"}',
        b'{"x":[' + b'",",' * (MAX_VALUES - 4) + b'"\\"",1]}',
    ],
    ids=["keys", "keys and commas", "objects", "small objects", "escapes", "commas in many strings"],
)
def test_no_text_holds_the_process_for_long(body: bytes) -> None:
    """The most expensive objects of at most 4 MiB are decoded or refused in 50 ms of processor time."""
    gc.collect()
    gc.freeze()  # as the processes do after their start

    assert least_cpu_seconds(lambda: decode_or_refuse(body), HELD) < HELD


def decode_or_refuse(body: bytes) -> None:
    with contextlib.suppress(InvalidJson):
        decode_json(body, dict[str, Any])
