"""What a flag is: a name, a meaning, and how a text becomes a typed value."""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar, cast

from fedhpa.api.errors import ConfigError, InvalidObject
from fedhpa.api.times import format_duration, parse_duration

T = TypeVar("T")

ENVIRONMENT_PREFIX = "FEDHPA_"
TRUE_WORDS = frozenset({"1", "t", "T", "true", "TRUE", "True"})
FALSE_WORDS = frozenset({"0", "f", "F", "false", "FALSE", "False"})


@dataclass(frozen=True)
class Flag(Generic[T]):
    """One flag: its name, what it means, and how a text becomes its value.

    `parse` raises ValueError (or InvalidObject) for a text that is not `expected`. `kind` is the word that
    stands for the value in --help; a flag of kind "" is boolean and may be given without a value.
    """

    name: str
    default: T
    help: str
    parse: Callable[[str], T]
    expected: str
    kind: str = "string"
    show: Callable[[T], str] = str
    repeatable: bool = False
    shorthand: str = ""

    @property
    def variable(self) -> str:
        """The environment variable that sets this flag."""
        return ENVIRONMENT_PREFIX + self.name.upper().replace("-", "_")

    def with_default(self, default: T) -> Flag[T]:
        """The same flag of a process whose default differs."""
        return replace(self, default=default)

    def read(self, text: str, source: str = "") -> T:
        """The value of `text`; raises ConfigError naming flag, value and what is expected."""
        try:
            return self.parse(text)
        except (ValueError, InvalidObject) as error:
            origin = f" (from {source})" if source else ""
            detail = f": {error}" if isinstance(error, NotBuilt) else ""
            message = f"--{self.name}={quoted(text)}{origin}: invalid value{detail}: expected {self.expected}"
            raise ConfigError(message) from error


class NotBuilt(ValueError):
    """The value is known but this version does not do it yet."""


class Values:
    """The values of a process's flags, by flag."""

    def __init__(self, values: Mapping[str, object], given: Iterable[str] = ()) -> None:
        self._values = dict(values)
        self._given = frozenset(given)

    def __getitem__(self, flag: Flag[T]) -> T:
        return cast("T", self._values[flag.name])

    def given(self, flag: Flag[Any]) -> bool:
        """Whether somebody set the flag, be it to its default."""
        return flag.name in self._given

    def shown(self) -> dict[str, str]:
        """Every value as text, for one log line at start; flags never hold secrets, only files that do."""
        return {name: str(value) for name, value in sorted(self._values.items())}


Sections = Mapping[str, Sequence[Flag[Any]]]


def string(name: str, default: str, text: str, *, kind: str = "string") -> Flag[str]:
    """Any text."""
    return Flag(name, default, text, str, "a text", kind)


def path(name: str, default: str, text: str) -> Flag[str]:
    """The path of a file or folder; read when it is used, not when it is parsed."""
    return string(name, default, text, kind="path")


def integer(
    name: str, default: int, text: str, *, minimum: int | None = None, maximum: int | None = None
) -> Flag[int]:
    """A whole number within bounds."""

    def parse(value: str) -> int:
        number = int(_plain(value))
        if (minimum is not None and number < minimum) or (maximum is not None and number > maximum):
            raise ValueError(value)
        return number

    return Flag(name, default, text, parse, "a whole number" + _bounds(minimum, maximum), "int")


def number(name: str, default: float, text: str, *, minimum: float | None = None) -> Flag[float]:
    """A finite number, not below `minimum`."""

    def parse(value: str) -> float:
        result = float(_plain(value))
        if not math.isfinite(result) or (minimum is not None and result < minimum):
            raise ValueError(value)
        return result

    return Flag(name, default, text, parse, "a number" + _bounds(minimum, None), "float", "{:g}".format)


def boolean(name: str, default: bool, text: str) -> Flag[bool]:
    """True or false; the bare flag means true."""

    def parse(value: str) -> bool:
        if value not in TRUE_WORDS and value not in FALSE_WORDS:
            raise ValueError(value)
        return value in TRUE_WORDS

    return Flag(name, default, text, parse, "true or false", "", lambda value: str(value).lower())


def duration(name: str, default: float, text: str, *, minimum: float = 0.0) -> Flag[float]:
    """A Go duration ("1m30s"); the value is in seconds. As in Go, a number without unit is none."""

    def parse(value: str) -> float:
        seconds = parse_duration(value)
        if not math.isfinite(seconds) or seconds < minimum:
            raise ValueError(value)
        return seconds

    expected = 'a duration such as "15s" or "5m"' + _bounds(minimum, None, "s")
    return Flag(name, default, text, parse, expected, "duration", format_duration)


def ip(name: str, default: str, text: str) -> Flag[str]:
    """An IPv4 or IPv6 address."""

    def parse(value: str) -> str:
        return str(ipaddress.ip_address(value))

    return Flag(name, default, text, parse, "an IP address such as 0.0.0.0 or ::", "ip")


def port(name: str, default: int, text: str) -> Flag[int]:
    """A TCP port; 0 lets the system choose one."""
    flag = integer(name, default, text, minimum=0, maximum=65535)
    return replace(flag, expected="a valid port between 0 and 65535 inclusive", kind="port")


def address(name: str, default: str, text: str) -> Flag[str]:
    """HOST:PORT or :PORT to listen on; "0" switches the listener off."""

    def parse(value: str) -> str:
        split_address(value)
        return value

    return Flag(name, default, text, parse, 'an address such as ":8080" or "127.0.0.1:8080", or 0', "address")


def strings(name: str, default: Sequence[str], text: str) -> Flag[tuple[str, ...]]:
    """Comma-separated texts; the flag may be repeated."""

    def parse(value: str) -> tuple[str, ...]:
        return tuple(item.strip() for item in value.split(",") if item.strip())

    return Flag(
        name,
        tuple(default),
        text,
        parse,
        "comma-separated texts",
        "strings",
        lambda items: "[" + ",".join(items) + "]",
        repeatable=True,
    )


def choice(
    name: str, default: str, text: str, *, choices: Sequence[str], not_built: Sequence[str] = ()
) -> Flag[str]:
    """One of `choices`; a value of `not_built` is refused with a message of its own."""

    def parse(value: str) -> str:
        if value in not_built:
            raise NotBuilt("not built in this version")
        if value not in choices:
            raise ValueError(value)
        return value

    expected = "one of " + ", ".join(choices) if len(choices) > 1 else choices[0]
    return Flag(name, default, text, parse, expected, "|".join((*choices, *not_built)))


def split_address(value: str) -> tuple[str, int] | None:
    """(host, port) of a listen address; None for "0" (off), host "" for all; raises ValueError."""
    if value == "0":
        return None
    host, separator, tail = value.rpartition(":")
    if not separator or not tail.isascii() or not tail.isdigit() or int(tail) > 65535:
        raise ValueError(value)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(value)
    return host, int(tail)


def quoted(text: str) -> str:
    """`text` for a message: one line, of bounded length."""
    # One line whatever was given; a value of megabytes would be no help to anyone.
    shown = text if len(text) <= 120 else text[:117] + "..."
    printable = "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in shown
    )
    return f'"{printable}"'


def _plain(value: str) -> str:
    # Python reads digits of all scripts, underscores and blanks; nobody means those in a flag.
    if not value.isascii() or "_" in value or value != value.strip():
        raise ValueError(value)
    return value


def _bounds(minimum: float | None, maximum: float | None, unit: str = "") -> str:
    if minimum is not None and maximum is not None:
        return f" from {minimum:g}{unit} to {maximum:g}{unit}"
    return "" if minimum is None else f", at least {minimum:g}{unit}"
