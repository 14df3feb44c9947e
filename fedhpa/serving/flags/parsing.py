"""The flags of a process and the four places a value may come from.

A flag's value is taken from the command line, else the environment (`FEDHPA_SECURE_PORT` for
`--secure-port`), else the YAML file named by `--config`, else its default. A value that cannot be used is a
ConfigError of one line naming flag, value and what is expected; processes print it and exit 2.

Our own and not argparse: pflag's forms (`--flag=value`, `--flag value`, `--bool`, `--bool=false`), no
abbreviations, several sources and one-line messages are what Karmada's manifests and
docs/reference/processes.md
ask for, and argparse has none of them.
"""

from __future__ import annotations

import difflib
import os
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NoReturn

import yaml

from fedhpa.api.errors import ConfigError
from fedhpa.serving.flags.types import Flag, Sections, Values, boolean, path, quoted

EXIT_USAGE = 2

CONFIG: Flag[str] = path("config", "", "A YAML file of flag values: a mapping from flag names to values.")
HELP: Flag[bool] = boolean("help", False, "Print this text.")
VERSION: Flag[bool] = boolean("version", False, "Print the version.")


def parse_flags(sections: Sections, argv: Sequence[str], environ: Mapping[str, str]) -> Values:
    """The values of all flags of `sections` (and CONFIG, HELP, VERSION); raises ConfigError."""
    settable: dict[str, Flag[Any]] = {flag.name: flag for flags in sections.values() for flag in flags}
    known = settable | {flag.name: flag for flag in (CONFIG, HELP, VERSION)}
    line = _from_command_line(known, argv)
    if any(flag.name in line and line[flag.name] for flag in (HELP, VERSION)):
        return Values({name: flag.default for name, flag in known.items()} | line, line)
    environment = {
        name: flag.read(environ[flag.variable], flag.variable)
        for name, flag in known.items()
        if flag.variable in environ and flag not in (HELP, VERSION)
    }
    given = environment | line
    config_file = str(given.get(CONFIG.name, ""))
    if config_file:
        given = _from_file(settable, Path(config_file)) | given
    return Values({name: flag.default for name, flag in known.items()} | given, given)


def help_text(program: str, about: str, sections: Sections) -> str:
    """What --help prints."""
    lines = [f"Usage: {program} [flags]", "", *textwrap.wrap(about, 100)]
    for title, flags in {
        **sections,
        "General": (*sections.get("General", ()), CONFIG, HELP, VERSION),
    }.items():
        lines += ["", f"{title}:"]
        for flag in flags:
            short = f"-{flag.shorthand}, " if flag.shorthand else ""
            shown = flag.show(flag.default)
            default = f" (default {shown})" if shown not in ("", "[]", "false") else ""
            lines.append(f"  {short}--{flag.name} {flag.kind}".rstrip())
            lines += textwrap.wrap(
                flag.help + default, 100, initial_indent=" " * 8, subsequent_indent=" " * 8
            )
    return "\n".join(lines) + "\n"


def parse_or_exit(
    program: str,
    about: str,
    sections: Sections,
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Values:
    """`parse_flags` for a process: --help and --version print and exit 0; a bad flag: one line, exit 2."""
    try:
        values = parse_flags(
            sections, sys.argv[1:] if argv is None else argv, os.environ if environ is None else environ
        )
    except ConfigError as error:
        exit_usage(program, error)
    if values[HELP]:
        sys.stdout.write(help_text(program, about, sections))
        raise SystemExit(0)
    if values[VERSION]:
        sys.stdout.write(f"{program} {metadata.version('fedhpa')}\n")
        raise SystemExit(0)
    return values


def exit_usage(program: str, error: ConfigError) -> NoReturn:
    """Print the error as one line on stderr and exit 2."""
    sys.stderr.write(f"{program}: {' '.join(str(error).split())}\n")
    raise SystemExit(EXIT_USAGE)


def _from_command_line(known: Mapping[str, Flag[Any]], argv: Sequence[str]) -> dict[str, Any]:
    short = {"h": "help"} | {flag.shorthand: flag.name for flag in known.values() if flag.shorthand}
    values: dict[str, Any] = {}
    rest = list(argv)
    while rest:
        argument = rest.pop(0)
        if not argument.startswith("-") or argument in ("-", "--"):
            raise ConfigError(f"unexpected argument {quoted(argument)}: expected flags only")
        name, separator, text = argument.lstrip("-").partition("=")
        flag = known.get(name) if argument.startswith("--") else known.get(short.get(name, ""))
        if flag is None:
            given = argument.partition("=")[0] + (f"={quoted(text)}" if separator else "")
            _unknown(given, name, known)
        if not separator and flag.kind == "":
            text = "true"
        elif not separator:
            if not rest:
                raise ConfigError(f"--{flag.name} needs a value: expected {flag.expected}")
            text = rest.pop(0)
        value = flag.read(text)
        values[flag.name] = (*values.get(flag.name, ()), *value) if flag.repeatable else value
    return values


def _from_file(known: Mapping[str, Flag[Any]], file: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--config={file}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        problem = " ".join(str(error).split())
        raise ConfigError(f"--config={file}: is not YAML: {problem}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"--config={file}: expected a mapping from flag names to values")
    values = {}
    for key, value in content.items():
        flag = known.get(str(key))
        if flag is None:
            _unknown(f"--config={file}: key {quoted(str(key))}", str(key), known)
        values[flag.name] = flag.read(_yaml_text(value, flag), str(file))
    return values


def _yaml_text(value: object, flag: Flag[Any]) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list) and flag.repeatable:
        return ",".join(str(item) for item in value)
    return "" if value is None else str(value)


def _unknown(shown: str, name: str, known: Iterable[str]) -> NoReturn:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    hint = f"did you mean --{near[0]}?" if near else "expected one that --help lists"
    raise ConfigError(f"{shown}: unknown flag: {hint}")
