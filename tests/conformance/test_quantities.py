"""Quantities parse and print as in the API machinery."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fedhpa.api.errors import InvalidQuantity
from fedhpa.api.quantity import MAX_INT64, Format, Quantity, format_milli, parse_milli
from tests.conformance.facts import params
from tests.conformance.tables import table

TABLE = table("k8s_quantity")

# The table holds what ParseQuantity does with a text. Ours always read JSON values, whose strings the API
# machinery trims first.
TRIMMED = {" 1": "1"}


def _fits(number: int) -> bool:
    return -MAX_INT64 - 1 <= number <= MAX_INT64


@pytest.mark.parametrize("case", params(TABLE["parse"], "input"))
def test_parses_as_the_api_machinery(case: dict[str, Any]) -> None:
    """A text is refused with the same message, or has the same value, format and canonical form."""
    text = case["input"]
    if case["error"] is not None and text not in TRIMMED:
        with pytest.raises(InvalidQuantity) as refusal:
            Quantity.parse(text)

        assert case["error"] in str(refusal.value)
        return

    quantity = Quantity.parse(text)

    assert str(quantity) == TRIMMED.get(text, case.get("canonical"))
    if text in TRIMMED:
        return
    assert quantity.format == case["format"]
    assert float(quantity) == pytest.approx(case["float"], rel=1e-15)
    # Where Go's conversion overflows (its answer is 0 or wrapped), ours saturates.
    exact_milli = -(-abs(quantity.nano) // 10**6)
    if _fits(exact_milli):
        assert quantity.milli == case["milliValue"]
        assert parse_milli(text) == case["milliValue"]
    else:
        assert abs(quantity.milli) >= MAX_INT64
    if _fits(-(-abs(quantity.nano) // 10**9)) and text != "-9223372036854775808":
        assert quantity.units == case["value"]


@pytest.mark.parametrize("case", params(TABLE["from_milli"], "string"))
def test_prints_as_the_api_machinery(case: dict[str, Any]) -> None:
    """Milli-units print in canonical form."""
    quantity = Quantity.from_milli(case["milli"], Format(case["format"]))

    assert str(quantity) == case["string"]
    assert (quantity.milli, quantity.units) == (case["milliValue"], case["value"])


def test_the_fast_path_prints_the_same() -> None:
    """Numbers of all sizes print in the same form by the fast path, for memory too."""
    chance = random.Random(1)
    numbers = [*range(-1100, 1100), *(1000 * number for number in range(2100)), MAX_INT64, MAX_INT64 + 1]
    numbers += [chance.randrange(-(10**size), 10**size) for size in range(1, 21) for _ in range(200)]

    found = {(one, binary): format_milli(one, binary=binary) for one in numbers for binary in (False, True)}

    formats = {False: Format.DECIMAL_SI, True: Format.BINARY_SI}
    assert found == {key: str(Quantity.from_milli(key[0], formats[key[1]])) for key in found}


@pytest.mark.parametrize(("text", "expected"), [("1e400", float("inf")), ("-1e400", float("-inf"))])
def test_no_float_is_too_large(text: str, expected: float) -> None:
    """A quantity too large for a float is infinite; valid quantities raise nothing."""
    assert float(Quantity.parse(text)) == expected
