"""The `fedhpa` command: one typer application with one module per command or group.

Exit codes: 0 done; 1 a finding (a command raises `typer.Exit(1)`); 2 wrong usage or unreadable input, as one
line on stderr; 130 after Ctrl-C. Data goes to stdout, everything else to stderr. Each module
`fedhpa.cli.<noun>` has a `register(app)`. Slow imports (pydantic, aiohttp, kubernetes) belong inside the
commands, because each start of `fedhpa` imports all modules.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import typer
from typer.core import TyperGroup

from fedhpa.api.errors import FedHPAError
from fedhpa.cli import certs, completion, cron, migrate, rules
from fedhpa.cli.backtest.commands import backtest, suggest
from fedhpa.cli.doctor import doctor
from fedhpa.cli.drain import cordon, drain, uncordon
from fedhpa.cli.explain import explain
from fedhpa.cli.hold import hold, release
from fedhpa.cli.join import join, release_clusters, unjoin
from fedhpa.cli.manifests import apiservice, crds, webhook_config
from fedhpa.cli.preview import preview
from fedhpa.cli.rbac import rbac
from fedhpa.cli.record import record
from fedhpa.cli.replay import replay
from fedhpa.cli.top import top

PROGRAM: Final = "fedhpa"
# kubectl runs the program kubectl-fedhpa for `kubectl fedhpa`.
PLUGIN: Final = "kubectl-fedhpa"
EXIT_USAGE: Final = 2
# The words for an option's value, by typer's name of its type.
PLAIN_WORDS: Final = {
    "str": "TEXT",
    "list[str]": "TEXT",
    "path": "FILE",
    "int": "NUMBER",
    "int range": "NUMBER",
    "float": "NUMBER",
}
# As shells report a program that SIGINT ended.
EXIT_INTERRUPTED: Final = 130

app = typer.Typer(
    name=PROGRAM,
    help="Federated autoscaling for Kubernetes.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        version()
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Federated autoscaling for Kubernetes."""


def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed_version

    typer.echo(installed_version("fedhpa"))


def _show_full_summaries(group: typer.Typer) -> None:
    """Lists each command with the whole first line of its docstring; typer would shorten the line."""
    for command in group.registered_commands:
        command.short_help = (getattr(command.callback, "__doc__", None) or "").partition("\n")[0]
    for below in group.registered_groups:
        if below.typer_instance is not None:
            _show_full_summaries(below.typer_instance)


# In the order of the help. A function is the command of its name; a module registers its commands itself.
_COMMANDS: Final[tuple[Callable[..., None] | ModuleType, ...]] = (
    apiservice,
    backtest,
    suggest,
    completion,
    crds,
    doctor,
    cordon,
    drain,
    uncordon,
    explain,
    hold,
    release,
    join,
    unjoin,
    release_clusters,
    preview,
    rbac,
    record,
    replay,
    top,
    webhook_config,
    certs,
    cron,
    migrate,
    rules,
)
for each in _COMMANDS:
    if isinstance(each, ModuleType):
        each.register(app)
    else:
        app.command()(each)
app.command("version")(version)
_show_full_summaries(app)


@cache
def command() -> TyperGroup:
    """The commands of `app`. Built once, because typer reads the parameters of every function."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup), "`app` has several commands"
    _use_plain_words(group)
    return group


def _use_plain_words(group: Any) -> None:
    """Lets the help name values in words, and not by Python's types. An argument has its name for that."""
    for below in group.commands.values() if hasattr(group, "commands") else ():
        _use_plain_words(below)
    for parameter in group.params:
        typed = parameter.display_type if parameter.opts[0].startswith("-") else lambda _: ""
        parameter.display_type = lambda ctx, typed=typed: PLAIN_WORDS.get(
            label := typed(ctx).strip("<>"), label
        )


def run(arguments: list[str], program: str = PROGRAM) -> int:
    """Runs one command line, without the program's name, and returns the exit code.

    `program` is the name of the started file.
    """
    name = PLUGIN.replace("-", " ") if program == PLUGIN else PROGRAM
    try:
        result = command()(arguments, prog_name=name, standalone_mode=False)
    except typer.TyperException as error:
        message = error.format_message()
        if message.startswith("Usage: "):  # a group without a command
            print(message, file=sys.stderr)
            return EXIT_USAGE
        if message.startswith("No such command"):
            message += (
                f" See the commands with: {getattr(getattr(error, 'ctx', None), 'command_path', name)} --help"
            )
        return _fail(name, message.replace("Value error, ", ""))
    except FedHPAError as error:
        return _fail(name, str(error))
    except BaseExceptionGroup as group:
        from fedhpa.serving import first_reported

        expected = first_reported(group)
        if expected is None:
            raise
        return _fail(name, str(expected))
    except typer.Abort:
        _fail(name, "interrupted")
        return EXIT_INTERRUPTED
    return result if isinstance(result, int) else 0


def _fail(name: str, message: str) -> int:
    one_line = " ".join(message.split())
    print(f"{name}: {one_line}", file=sys.stderr)
    return EXIT_USAGE


def main() -> None:
    """Entry point of the console scripts `fedhpa` and `kubectl-fedhpa`."""
    sys.exit(run(sys.argv[1:], Path(sys.argv[0]).stem))


if __name__ == "__main__":
    main()
