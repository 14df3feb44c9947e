"""Quantities of CPU: reading those of a spec, and writing those of a status."""

from __future__ import annotations

import re
from typing import Final

_EXPONENTS: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
# Binary suffixes are left out, because nobody writes CPU in Ki.
_FORM: Final = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?([numkMGTPE]?|[eE][+-]?\d+)")


def _parts(given: str | float) -> tuple[int, int]:
    """Returns a number and a power of ten, whose product is the quantity."""
    found = _FORM.fullmatch(str(given))
    if found is None or not (found[2] or found[3]):
        raise ValueError(f"{given!r} is not a quantity of CPU")
    sign, whole, fraction, suffix = found.groups("")
    exponent = _EXPONENTS[suffix] if suffix in _EXPONENTS else int(suffix[1:])
    number, exponent = int(f"{whole}{fraction}"), exponent - len(fraction)
    if exponent < -9:
        # The API machinery keeps nothing finer than a nano, and rounds up to it.
        number, exponent = -(-number // int(10 ** (-9 - exponent))), -9
    return -number if sign == "-" else number, exponent


def milli(given: str | float) -> int:
    """Returns a quantity in thousandths, rounded away from zero as MilliValue() does."""
    number, exponent = _parts(given)
    exponent += 3
    if exponent >= 0:
        return int(number * 10**exponent)
    whole = -(-abs(number) // int(10**-exponent))
    return whole if number > 0 else -whole


def approximate(given: str | float) -> float:
    """Returns a quantity as a float, with the rounding of AsApproximateFloat64()."""
    number, exponent = _parts(given)
    return float(number * 10.0**exponent)


def text_of(thousandths: int) -> str:
    """Returns the canonical DecimalSI text: the largest suffix that needs no fraction."""
    if thousandths == 0:
        return "0"
    for suffix in "m", "", "k", "M", "G", "T", "P":
        if thousandths % 1000:
            return f"{thousandths}{suffix}"
        thousandths //= 1000
    return f"{thousandths}E"
