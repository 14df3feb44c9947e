"""`fedhpa completion` prints what a shell needs to complete commands and options."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import sys
from typing import Annotated, Final, Literal

import typer

# Directives of kubectl's completion (cobra's ShellCompDirective): complete file names too, or do not.
WITH_FILES: Final = 0
WITHOUT_FILES: Final = 4


Shell = Annotated[Literal["bash", "zsh", "fish"], typer.Argument(metavar="bash|zsh|fish", help="The shell.")]


def completion(shell: Shell) -> None:
    """Print the completion script of a shell.

    Example: source <(fedhpa completion bash)
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # it has no __all__

    typer.echo(get_completion_script(prog_name="fedhpa", complete_var="_FEDHPA_COMPLETE", shell=shell))


def register(app: typer.Typer) -> None:
    """Adds the command, and lets the application answer the questions of the scripts."""
    from typer.completion import completion_init  # type: ignore[attr-defined]  # it has no __all__

    completion_init()
    app.command("completion")(completion)


def main() -> None:
    """Runs `kubectl_complete-fedhpa`, which kubectl starts to complete `kubectl fedhpa`.

    The arguments are the words after `fedhpa`; the last one is incomplete and may be empty. Standard output
    gets one completion a line, then `:` and kubectl's directive.
    """
    found = _completions(sys.argv[1:])
    sys.stdout.write("".join(f"{one}\n" for one in found))
    sys.stdout.write(f":{WITHOUT_FILES if found else WITH_FILES}\n")


def _completions(words: list[str]) -> list[str]:
    from fedhpa.cli.main import command

    line = ["fedhpa", *words]
    question = {
        "_FEDHPA_COMPLETE": "complete_bash",
        "COMP_WORDS": shlex.join(line),
        "COMP_CWORD": str(len(line) - 1),
    }
    os.environ.update(question)
    answer = io.StringIO()
    with contextlib.redirect_stdout(answer), contextlib.suppress(SystemExit):
        command()(prog_name="fedhpa")
    return answer.getvalue().split()
