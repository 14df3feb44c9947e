"""The `fedhpa` command: one typer application with one module per command or group.

Exit codes: 0 done; 1 a finding (a command raises `typer.Exit(1)`); 2 wrong usage or unreadable input, as one
line on stderr. Data goes to stdout, everything else to stderr. Each module `fedhpa.cli.<noun>` has a
`register(app)`. Slow imports (pydantic, aiohttp, kubernetes) belong inside the commands, because each start
of `fedhpa` imports all modules.
"""

from __future__ import annotations

import sys

import typer

from fedhpa.api.errors import FedHPAError
from fedhpa.cli import (
    apiservice,
    certs,
    crds,
    cron,
    explain,
    preview,
    record,
    replay,
    rules,
    webhook_config,
)

app = typer.Typer(
    name="fedhpa",
    help="Federated autoscaling for Kubernetes.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(version("fedhpa"))
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Federated autoscaling for Kubernetes."""


def _show_full_summaries(group: typer.Typer) -> None:
    """Lists each command with the whole first line of its docstring; typer would shorten the line."""
    for command in group.registered_commands:
        command.short_help = (getattr(command.callback, "__doc__", None) or "").partition("\n")[0]
    for below in group.registered_groups:
        if below.typer_instance is not None:
            _show_full_summaries(below.typer_instance)


for module in (apiservice, certs, crds, cron, explain, preview, record, replay, rules, webhook_config):
    module.register(app)
_show_full_summaries(app)


def run(arguments: list[str]) -> int:
    """Runs one command line, without the program's name, and returns the exit code."""
    try:
        result = app(arguments, prog_name="fedhpa", standalone_mode=False)
    except typer.TyperException as error:
        return _fail(error.format_message())
    except FedHPAError as error:
        return _fail(str(error))
    except typer.Abort:
        return _fail("interrupted")
    return result if isinstance(result, int) else 0


def _fail(message: str) -> int:
    one_line = " ".join(message.split())
    print(f"fedhpa: {one_line}", file=sys.stderr)
    return 2


def main() -> None:
    """Entry point of the console script."""
    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
