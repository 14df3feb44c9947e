"""Every JSON text from outside is decoded by one function with one error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import MAX_NESTING, InvalidJson, convert_json, decode_json, nested_deeper
from fedhpa.api.wire import ObjectList, Pod

ROOT = Path(__file__).parents[2]
PRODUCT = ("fedhpa", "webhook", "metrics_adapter", "controller")
# Decoding with the library itself, instead of `decode_json`.
DIRECT = re.compile(r"msgspec\.json\.(?:decode|Decoder)\(|\bjson\.loads?\(|\bmsgspec\.convert\(")
# Modules that may: each handles RecursionError itself, or reads only what this process has written.
MAY = {
    "fedhpa/api/json.py": "the function itself",
    "fedhpa/decision/record/scenario.py": "refuses a scenario with the path of the field first",
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
