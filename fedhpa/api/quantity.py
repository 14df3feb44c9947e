"""Kubernetes quantities: "250m", "1.5Gi", "2e3".

A quantity is stored exactly, as a whole number of nano-units. Parsing rounds finer digits away from zero, as
the API machinery does. Source: Kubernetes 1.36, k8s.io/apimachinery resource.Quantity. One difference: Go's
int64 conversions overflow to 0 or to wrapped numbers; these saturate.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from enum import StrEnum
from typing import Final

from fedhpa.api.errors import InvalidQuantity

RawQuantity = str | int | float

MAX_INT64: Final = 2**63 - 1
_NANO: Final = 10**9
_NANO_PER_MILLI: Final = 10**6
# A larger exponent saturates int64 anyway. Without the bound, 10**exponent could take gigabytes of memory.
_EXPONENT_BOUND: Final = 400
_MAX_LENGTH: Final = 1024

_TEXT = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_DECIMAL_SUFFIX: Final = {exponent: suffix for suffix, exponent in _DECIMAL.items()}
_BINARY_SUFFIX: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

# Suffix -> (factor, divisor) to milli-units, for the forms that metrics and requests usually have.
_FAST: Final = {
    "n": (1, 1_000_000),
    "u": (1, 1_000),
    "m": (1, 1),
    "k": (10**6, 1),
    "M": (10**9, 1),
    "G": (10**12, 1),
}
_FAST_BINARY: Final = {"K": 1000 << 10, "M": 1000 << 20, "G": 1000 << 30, "T": 1000 << 40}


class Format(StrEnum):
    """The format of a quantity; the values are the API machinery's names."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class Quantity:
    """An exact quantity: `nano` units of 10^-9, and the format for printing. Immutable by convention."""

    __slots__ = ("format", "nano")

    def __init__(self, nano: int, format: Format = Format.DECIMAL_SI) -> None:
        self.nano = nano
        self.format = format

    @classmethod
    def parse(cls, value: RawQuantity) -> Quantity:
        """Parses a quantity from its JSON value. Raises InvalidQuantity."""
        return _parse(_as_text(value))

    @classmethod
    def from_milli(cls, milli: int, format: Format = Format.DECIMAL_SI) -> Quantity:
        """Returns a quantity of `milli` thousandths."""
        return cls(milli * _NANO_PER_MILLI, format)

    @property
    def milli(self) -> int:
        """Thousandths, rounded away from zero, within int64."""
        return _saturate(_divide_away(self.nano, _NANO_PER_MILLI))

    @property
    def units(self) -> int:
        """Whole units, rounded away from zero, within int64."""
        return _saturate(_divide_away(self.nano, _NANO))

    def __float__(self) -> float:
        try:
            return self.nano / _NANO
        except OverflowError:
            return math.inf if self.nano > 0 else -math.inf

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nano == other.nano

    def __hash__(self) -> int:
        return hash(self.nano)

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __str__(self) -> str:
        """The canonical form: no fraction digits, the largest suffix that keeps a whole mantissa."""
        if self.nano == 0:
            return "0"
        units, fraction = divmod(abs(self.nano), _NANO)
        if self.format is Format.BINARY_SI and fraction == 0 and units >= 1024:
            return _canonical_binary(self.nano // _NANO)
        return _canonical_decimal(self.nano, self.format)


def in_unit_of(text: str, model: str) -> str:
    """Returns a quantity in the unit that another one is written in, rounded to two decimals, for people.

    A smaller one has one digit instead. One that cannot be read stays as it is.
    """
    suffix = model.lstrip("+-.0123456789")
    try:
        value, unit = Quantity.parse(text).nano, Quantity.parse(f"1{suffix}").nano
    except InvalidQuantity:
        return text
    number = value / unit if unit else 0.0
    rounded = f"{number:.2f}".rstrip("0").rstrip(".")
    return f"{rounded if rounded not in ('0', '-0') else f'{number:.1g}'}{suffix}" if unit else text


def in_one_unit(texts: Collection[str], model: str = "") -> list[str]:
    """Returns the quantities of a column in one unit: that of `model`, or without it that of the largest."""
    return [in_unit_of(text, model or max(texts, key=_size)) for text in texts]


def _size(text: str) -> int:
    try:
        return Quantity.parse(text).nano
    except InvalidQuantity:
        return 0


def parse_milli(value: RawQuantity) -> int:
    """Returns a quantity in milli-units, rounded away from zero, saturating at int64. Raises InvalidQuantity.

    The usual forms of metrics servers and manifests take a fast path; all others go through `Quantity`.
    """
    if type(value) is str and value and value.isascii():
        last = value[-1]
        if last in _FAST:
            digits = value[:-1]
            if digits.isdigit():
                factor, divisor = _FAST[last]
                milli = -(-int(digits) * factor // divisor)
                return milli if milli < MAX_INT64 else MAX_INT64
        elif last == "i":
            digits = value[:-2]
            if digits.isdigit() and value[-2] in _FAST_BINARY:
                milli = int(digits) * _FAST_BINARY[value[-2]]
                return milli if milli < MAX_INT64 else MAX_INT64
        elif value.isdigit() and len(value) < _MAX_LENGTH:
            return min(int(value) * 1000, MAX_INT64)
    return Quantity.parse(value).milli


def format_milli(milli: int, *, binary: bool = False) -> str:
    """Returns milli-units as a canonical quantity; `binary` for memory (Ki, Mi, ...).

    Numbers without a suffix above "m" take a fast path: a decision formats one for each cluster.
    """
    if 0 < milli <= MAX_INT64:
        units = milli // 1000
        if milli % 1000:
            return f"{milli}m"
        if units % 1000 and (units < 1024 or not binary):
            return str(units)
    return str(Quantity.from_milli(milli, Format.BINARY_SI if binary else Format.DECIMAL_SI))


def _as_text(value: RawQuantity) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidQuantity(
            f"{value!r} is not a quantity: write a number or a string such as '250m' or '1.5Gi'"
        )
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidQuantity(f"{value!r} is not a finite quantity")
        return repr(value)
    # The API machinery trims JSON strings, too.
    text = str(value).strip() if isinstance(value, str) else str(value)
    if len(text) > _MAX_LENGTH:
        raise InvalidQuantity(f"a quantity of {len(text)} characters is too long")
    return text


def _parse(text: str) -> Quantity:
    match = _TEXT.fullmatch(text) if text else None
    if match is None:
        raise InvalidQuantity(
            f"{text!r} is not a quantity: quantities must match the regular expression "
            "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    sign, whole, fraction, suffix = match.groups(default="")
    factor, exponent, format_ = _interpret(text, suffix)
    digits = int(whole + fraction or "0")
    scale = exponent - len(fraction) + 9
    amount = digits * factor
    nano = amount * 10**scale if scale >= 0 else -(-amount // 10**-scale)
    if format_ is Format.BINARY_SI:
        nano = min(nano, MAX_INT64 * _NANO)
        if 0 < nano < _NANO:
            format_ = Format.DECIMAL_SI
    return Quantity(-nano if sign == "-" else nano, format_)


def _interpret(text: str, suffix: str) -> tuple[int, int, Format]:
    """Returns the factor, the power of ten and the format of a suffix."""
    if suffix in _DECIMAL:
        return 1, _DECIMAL[suffix], Format.DECIMAL_SI
    if suffix in _BINARY:
        return 1024 ** _BINARY[suffix], 0, Format.BINARY_SI
    if suffix[0] in "eE":
        try:
            exponent = int(suffix[1:])
        except ValueError:
            pass
        else:
            bounded = max(-_EXPONENT_BOUND, min(_EXPONENT_BOUND, exponent))
            return 1, bounded, Format.DECIMAL_EXPONENT
    raise InvalidQuantity(f"{text!r} is not a quantity: unable to parse quantity's suffix")


def _canonical_binary(units: int) -> str:
    power = 0
    while units % 1024 == 0 and power < len(_BINARY_SUFFIX) - 1:
        units //= 1024
        power += 1
    return f"{units}{_BINARY_SUFFIX[power]}"


def _canonical_decimal(nano: int, format: Format) -> str:
    exponent = -9
    # E is the largest SI suffix. Exponents have no upper end.
    limit = 10**6 if format is Format.DECIMAL_EXPONENT else 18
    while nano % 1000 == 0 and exponent < limit:
        nano //= 1000
        exponent += 3
    if format is Format.DECIMAL_EXPONENT:
        return f"{nano}e{exponent}" if exponent else str(nano)
    return f"{nano}{_DECIMAL_SUFFIX[exponent]}"


def _divide_away(value: int, divisor: int) -> int:
    return -(-value // divisor) if value >= 0 else value // divisor


def _saturate(value: int) -> int:
    return max(-MAX_INT64 - 1, min(MAX_INT64, value))
