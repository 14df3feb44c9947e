"""Parses the flags of a process with click.

A flag's value comes from the command line, else from the environment (`FEDHPA_SECURE_PORT` for
`--secure-port`), else from the YAML file that `--config` names, else it is the default. An unusable value is
a ConfigError of one line that names flag, value and what is expected. Processes print the line and exit 2
(docs/reference/processes.md).
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import click
import yaml
from click.core import ParameterSource

from fedhpa.api.errors import ConfigError, FedHPAError
from fedhpa.serving.flags.types import Flag, Sections, Values, path, quoted, read_boolean

EXIT_USAGE = 2
CONFIG = path("config", "", "YAML file that maps flag names to values.")
EPILOG = (
    "Each flag can also be set by an environment variable (FEDHPA_SECURE_PORT for --secure-port) or in the"
    " file of --config. The command line overrides the environment, and the environment overrides the file."
)


def parse_flags(
    sections: Sections, argv: Sequence[str], environ: Mapping[str, str], program: str = "", about: str = ""
) -> Values:
    """Returns the values of all flags of `sections`; raises ConfigError.

    --help and --version print to stdout and raise click.exceptions.Exit.
    """
    command = _Command(program, about, sections)
    try:
        context = command.make_context(program, command.spelled_out(argv), obj=environ)
    except click.NoSuchOption as error:
        _unknown_argument(error.option_name, argv, [*command.flags, "help", "version"])
    except click.BadOptionUsage as error:
        flag = command.flags.get(error.option_name.lstrip("-"))
        if flag is None:
            raise ConfigError(error.message) from error
        raise ConfigError(f"--{flag.name} needs a value: expected {flag.type.expected}") from error
    except click.UsageError as error:
        raise ConfigError(error.message) from error
    if context.args:
        raise ConfigError(f"unexpected argument {quoted(context.args[0])}: expected flags only")
    given = {
        name: context.params[flag.key]
        for name, flag in command.flags.items()
        if context.get_parameter_source(flag.key) is not ParameterSource.DEFAULT
    }
    return Values({name: flag.default for name, flag in command.flags.items()} | given, given)


def parse_or_exit(
    program: str,
    about: str,
    sections: Sections,
    argv: Sequence[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Values:
    """As `parse_flags`, but a bad flag prints one line and exits 2; --help and --version exit 0."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        return parse_flags(sections, argv, os.environ if environ is None else environ, program, about)
    except ConfigError as error:
        print_error(program, error)
        raise SystemExit(EXIT_USAGE) from error
    except click.exceptions.Exit as done:
        raise SystemExit(done.exit_code) from None


def print_error(program: str, error: FedHPAError) -> None:
    """Prints the error as one line on stderr."""
    sys.stderr.write(f"{program}: {' '.join(str(error).split())}\n")


class _Option(click.Option):
    """One flag as click reads it; `Context.obj` is the environment."""

    def __init__(self, flag: Flag[Any], **options: Any) -> None:
        super().__init__(
            [f"--{flag.name}"], type=flag.type, envvar=flag.variable, multiple=flag.repeatable, **options
        )
        self._flag = flag

    def value_from_envvar(self, ctx: click.Context) -> Any:
        """Returns the variable's text, also an empty one, which click would ignore."""
        text = ctx.obj.get(self.envvar)
        return text if text is None or not self.multiple else [text]

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Returns the typed value; the lists of a repeatable flag are joined."""
        typed = super().type_cast_value(ctx, value)
        return sum(typed, ()) if self.multiple else typed

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:  # noqa: ARG002 - click's signature
        """Returns the flag with its kind of value, and its help with its default."""
        flag = self._flag
        short = f"-{flag.shorthand}, " if flag.shorthand else ""
        shown = flag.type.show(flag.default)
        default = f" (default {shown})" if shown not in ("", "[]", "false") else ""
        return f"{short}--{flag.name} {flag.type.name}".rstrip(), flag.help + default


class _Command(click.Command):
    """The command line of one process. Its --help lists the flags by section."""

    def __init__(self, program: str, about: str, sections: Sections) -> None:
        options: dict[str, list[click.Parameter]] = {
            title: [_Option(flag) for flag in flags] for title, flags in sections.items()
        }
        config = _Option(CONFIG, is_eager=True, callback=self._read_file)
        super().__init__(
            program,
            params=[option for group in options.values() for option in group] + [config],
            help=about,
            epilog=EPILOG,
            options_metavar="[flags]",
            context_settings={"allow_extra_args": True, "max_content_width": 102},
        )
        click.version_option(package_name="fedhpa", prog_name=program, message="%(prog)s %(version)s")(self)
        self._sections = options
        self._settable = {flag.name: flag for flags in sections.values() for flag in flags}
        self.flags = self._settable | {CONFIG.name: CONFIG}

    def spelled_out(self, argv: Sequence[str]) -> list[str]:
        """Returns the arguments with pflag's short forms written out: --pause becomes --pause=true.

        --help=true becomes --help, and --help=false is left out, because click takes no value there. The
        same holds for --version. Raises ConfigError if the value is neither true nor false.
        """
        long = {f"-{flag.shorthand}": f"--{name}" for name, flag in self.flags.items()} | {"-h": "--help"}
        switches = {f"--{name}" for name, flag in self.flags.items() if not flag.type.name}
        arguments = []
        for argument in argv:
            name, equals, text = argument.partition("=")
            name = long.get(name, name) if len(name) == 2 else name
            if name in ("--help", "--version") and equals:
                arguments += [name] if _boolean_value(name, text) else []
            else:
                bare = name in switches and not equals
                arguments.append(f"{name}=true" if bare else f"{name}{equals}{text}")
        return arguments

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the flags section by section, each help text on lines of its own."""
        *_, config, version = self.params
        general = [option for option in (config, version, self.get_help_option(ctx)) if option is not None]
        for title, options in {**self._sections, "General": general}.items():
            with formatter.section(title):
                records = [record for option in options if (record := option.get_help_record(ctx))]
                # click does not know -h, because `spelled_out` replaces it.
                rows = [(flag.replace("--help", "-h, --help"), text) for flag, text in records]
                formatter.write_dl(rows, col_max=4)

    def _read_file(self, ctx: click.Context, _: click.Parameter, file: str | None) -> str | None:
        if file:
            ctx.default_map = _values_of_file(self._settable, Path(file))
        return file


def _boolean_value(name: str, text: str) -> bool:
    try:
        return read_boolean(text)
    except ValueError as error:
        raise ConfigError(f"{name}={quoted(text)}: invalid value: expected true or false") from error


def _values_of_file(settable: Mapping[str, Flag[Any]], file: Path) -> dict[str, object]:
    """Returns the values in a --config file, by key of the flag. Raises ConfigError."""
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
    values: dict[str, object] = {}
    for key, value in content.items():
        flag = settable.get(str(key))
        if flag is None:
            _unknown(f"--config={file}: key {quoted(str(key))}", str(key), settable)
        value = "" if value is None else value
        values[flag.key] = [value] if flag.repeatable and not isinstance(value, list) else value
    return values


def _unknown_argument(name: str, argv: Sequence[str], known: Iterable[str]) -> NoReturn:
    # click reads the letters after a single dash one by one: for -secure-port=1 it names -s.
    letter = not name.startswith("--")
    argument = next(
        text for text in argv if text.partition("=")[0] == name or (letter and text.startswith(name))
    )
    given, equals, text = argument.partition("=")
    _unknown(f"{given}={quoted(text)}" if equals else given, given.lstrip("-"), known)


def _unknown(shown: str, name: str, known: Iterable[str]) -> NoReturn:
    near = difflib.get_close_matches(name, sorted(known), n=1)
    hint = f"did you mean --{near[0]}?" if near else "expected one that --help lists"
    raise ConfigError(f"{shown}: unknown flag: {hint}")
