"""Flags: each has a name, a default, a help text, and a click type that turns a text into a value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import Any, Generic, TypeVar, cast

import click
from click.core import ParameterSource

from fedhpa.api.errors import InvalidObject
from fedhpa.api.times import format_duration, parse_duration

T = TypeVar("T")
N = TypeVar("N", int, float)

TRUE_WORDS = frozenset({"1", "t", "T", "true", "TRUE", "True"})
FALSE_WORDS = frozenset({"0", "f", "F", "false", "FALSE", "False"})


class NotBuilt(ValueError):
    """The value is known, but this version does not support it yet."""


@dataclass(frozen=True, eq=False)
class FlagType(click.ParamType[T, object]):
    """The type of a flag: parses a text into a value.

    `parse` raises ValueError or InvalidObject for an unusable text; the message then names what is
    `expected`. `name` stands for the value in --help, and `show` renders a default there.
    """

    name: str
    expected: str
    parse: Callable[[str], T]
    show: Callable[[T], str] = str

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> T:
        """Returns the parsed value, or fails with a line that names flag, value, source and expectation.

        A value from a --config file may be a number or a boolean of YAML.
        """
        text = str(value).lower() if isinstance(value, bool) else str(value)
        try:
            return self.parse(text)
        except (ValueError, InvalidObject) as error:
            assert param is not None, "flags are parsed for an option"
            assert ctx is not None, "flags are parsed for a command"
            detail = f": {error}" if isinstance(error, NotBuilt) else ""
            given = f"{param.opts[0]}={quoted(text)}{_origin(param, ctx)}"
            self.fail(f"{given}: invalid value{detail}: expected {self.expected}")


@dataclass(frozen=True)
class Flag(Generic[T]):
    """One flag. The occurrences of a repeatable flag, whose values are tuples, are joined."""

    name: str
    default: T
    help: str
    type: FlagType[T]
    repeatable: bool = False
    shorthand: str = ""

    @property
    def key(self) -> str:
        """The name as a Python identifier, as click stores the value."""
        return self.name.replace("-", "_")

    @property
    def variable(self) -> str:
        """The environment variable that sets this flag."""
        return "FEDHPA_" + self.key.upper()

    def with_default(self, default: T) -> Flag[T]:
        """Returns the same flag with another default."""
        return replace(self, default=default)


class Values:
    """The values of a process's flags, by flag."""

    def __init__(self, values: Mapping[str, object], given: Iterable[str] = ()) -> None:
        self._values = dict(values)
        self._given = frozenset(given)

    def __getitem__(self, flag: Flag[T]) -> T:
        return cast("T", self._values[flag.name])

    def given(self, flag: Flag[Any]) -> bool:
        """True if any source sets the flag, even to its default."""
        return flag.name in self._given


Sections = Mapping[str, Sequence[Flag[Any]]]


def string(
    name: str,
    default: str,
    text: str,
    *,
    kind: str = "string",
    parse: Callable[[str], str] = str,
    expected: str = "a text",
) -> Flag[str]:
    """Any text, unless `parse` refuses it."""
    return Flag(name, default, text, FlagType(kind, expected, parse))


def path(name: str, default: str, text: str) -> Flag[str]:
    """The path of a file or folder. The file is read when it is used, not when the flag is parsed."""
    return string(name, default, text, kind="path")


def integer(
    name: str, default: int, text: str, *, minimum: int | None = None, maximum: int | None = None
) -> Flag[int]:
    """A whole number within bounds."""
    expected = "a whole number" + _bounds(minimum, maximum)
    parse = FlagType("int", expected, lambda value: _within(int(_plain(value)), minimum, maximum))
    return Flag(name, default, text, parse)


def number(name: str, default: float, text: str, *, minimum: float | None = None) -> Flag[float]:
    """A finite number, not below `minimum`."""
    expected = "a number" + _bounds(minimum, None)
    parse = FlagType("float", expected, lambda value: _within(float(_plain(value)), minimum), "{:g}".format)
    return Flag(name, default, text, parse)


def duration(
    name: str, default: float, text: str, *, minimum: float = 0.0, maximum: float | None = None
) -> Flag[float]:
    """A Go duration, for example "1m30s". The value is in seconds. As in Go, the unit is required."""
    expected = 'a duration such as "15s" or "5m"' + _bounds(minimum, None, "s")
    if maximum is not None:
        expected += f", at most {format_duration(maximum)}"
    parse = FlagType(
        "duration", expected, lambda value: _within(parse_duration(value), minimum, maximum), format_duration
    )
    return Flag(name, default, text, parse)


def boolean(name: str, default: bool, text: str, *, not_built: bool = False) -> Flag[bool]:
    """True or false; the bare flag means true. With `not_built`, true is refused."""

    def parse(value: str) -> bool:
        wanted = read_boolean(value)
        if not_built and wanted:
            raise NotBuilt("not built in this version")
        return wanted

    expected = "false" if not_built else "true or false"
    return Flag(name, default, text, FlagType("", expected, parse, lambda value: str(value).lower()))


def ip(name: str, default: str, text: str) -> Flag[str]:
    """An IPv4 or IPv6 address."""
    expected = "an IP address such as 0.0.0.0 or ::"
    return Flag(name, default, text, FlagType("ip", expected, lambda value: str(ip_address(value))))


def port(name: str, default: int, text: str) -> Flag[int]:
    """A TCP port; 0 lets the system choose one."""
    expected = "a valid port between 0 and 65535 inclusive"
    parse = FlagType("port", expected, lambda value: _within(int(_plain(value)), 0, 65535))
    return Flag(name, default, text, parse)


def address(name: str, default: str, text: str) -> Flag[str]:
    """HOST:PORT or :PORT to listen on; "0" switches the listener off."""

    def parse(value: str) -> str:
        split_address(value)
        return value

    expected = 'an address such as ":8080" or "127.0.0.1:8080", or 0'
    return Flag(name, default, text, FlagType("address", expected, parse))


def strings(name: str, default: Sequence[str], text: str) -> Flag[tuple[str, ...]]:
    """Comma-separated texts; the flag may be repeated."""
    kind = FlagType("strings", "comma-separated texts", split_list, lambda items: "[" + ",".join(items) + "]")
    return Flag(name, tuple(default), text, kind, repeatable=True)


def choice(name: str, default: str, text: str, *, choices: Sequence[str]) -> Flag[str]:
    """One of `choices`."""

    def parse(value: str) -> str:
        if value not in choices:
            raise ValueError(value)
        return value

    expected = "one of " + ", ".join(choices) if len(choices) > 1 else choices[0]
    return Flag(name, default, text, FlagType("|".join(choices), expected, parse))


def read_boolean(value: str) -> bool:
    """Returns the value of a boolean flag, in Go's spellings. Raises ValueError for any other text."""
    if value not in TRUE_WORDS | FALSE_WORDS:
        raise ValueError(value)
    return value in TRUE_WORDS


def split_list(value: str) -> tuple[str, ...]:
    """Returns the items of a comma-separated list, without surrounding blanks and without empty ones."""
    return tuple(item.strip() for item in value.split(",") if item.strip())


def split_address(value: str) -> tuple[str, int] | None:
    """Returns (host, port) of a listen address: host "" for all interfaces, None for "0" (off).

    Raises ValueError for anything else.
    """
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
    """Returns `text` in quotes for a message: on one line and of bounded length."""
    shown = text if len(text) <= 120 else text[:117] + "..."
    printable = "".join(
        char if char.isprintable() else char.encode("unicode_escape", "surrogatepass").decode()
        for char in shown
    )
    return f'"{printable}"'


def _origin(param: click.Parameter, ctx: click.Context) -> str:
    source = ctx.get_parameter_source(param.name)
    if source is ParameterSource.ENVIRONMENT:
        return f" (from {param.envvar})"
    return f" (from {ctx.params['config']})" if source is ParameterSource.DEFAULT_MAP else ""


def _plain(value: str) -> str:
    # Python also reads digits of other scripts, underscores and blanks. In a flag they are mistakes.
    if not value.isascii() or "_" in value or value != value.strip():
        raise ValueError(value)
    return value


def _within(value: N, minimum: float | None, maximum: float | None = None) -> N:
    if not math.isfinite(value):
        raise ValueError(value)
    if (minimum is not None and value < minimum) or (maximum is not None and value > maximum):
        raise ValueError(value)
    return value


def _bounds(minimum: float | None, maximum: float | None, unit: str = "") -> str:
    if minimum is not None and maximum is not None:
        return f" from {minimum:g}{unit} to {maximum:g}{unit}"
    return "" if minimum is None else f", at least {minimum:g}{unit}"
