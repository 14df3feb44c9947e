"""The commands of `fedhpa`, from its typer application."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from fedhpa.cli import main
from testbed.reference.markdown import code, table


def command_tables() -> list[str]:
    """A chapter for each command, in the order of the alphabet."""
    lines: list[str] = []
    for path, command in sorted(_commands(main.command(), "fedhpa")):
        arguments = [one for one in command.params if not one.opts[0].startswith("-")]
        options = [one for one in command.params if one.opts[0].startswith("-") and not one.hidden]
        usage = " ".join([path, *(_argument(one) for one in arguments), *(["[options]"] if options else [])])
        lines += [f"## `{usage}`", "", str(command.help), ""]
        rows = [(code(_argument(one)), "", one.help or "") for one in arguments]
        rows += [(", ".join(map(code, one.opts)), _default(one), one.help or "") for one in options]
        if rows:
            lines += [*table(("argument or option", "default", "meaning"), rows), ""]
    return lines


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    below = getattr(command, "commands", None)
    if below is None:
        yield path, command
        return
    for name, one in below.items():
        yield from _commands(one, f"{path} {name}")


def _argument(argument: Any) -> str:
    name = argument.metavar or argument.name.upper()
    return name if argument.required else f"[{name}]"


def _default(option: Any) -> str:
    if option.required:
        return "required"
    value = option.default
    if value is None or value == "" or isinstance(value, bool):
        return ""
    return code(str(value.value if isinstance(value, Enum) else value))
