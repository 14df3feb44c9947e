"""The `fedhpa` command: one typer application, one module a command group.

Exit codes: 0 done; 1 a finding (a command raises `typer.Exit(1)`); 2 wrong usage or unreadable input, as
one line on stderr. Data goes to stdout, everything else to stderr. Each group is a module
`fedhpa.cli.<noun>` with a `register(app)`; such a module imports what is slow to import (pydantic, aiohttp,
kubernetes) inside its commands, because every start of the command pays for the imports of all of them.
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


for group in (apiservice, certs, crds, cron, explain, preview, record, replay, rules, webhook_config):
    group.register(app)


def run(arguments: list[str]) -> int:
    """Runs one command line (without the program's name) and returns its exit code."""
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
