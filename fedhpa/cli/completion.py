"""`fedhpa completion` prints what a shell needs to complete commands and options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Shell(StrEnum):
    """The shells that can complete."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell.")]) -> None:
    """Print the completion script of a shell.

    Example: source <(fedhpa completion bash)
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # it has no __all__

    typer.echo(get_completion_script(prog_name="fedhpa", complete_var="_FEDHPA_COMPLETE", shell=shell.value))


def register(app: typer.Typer) -> None:
    """Adds the command, and lets the application answer the questions of the scripts."""
    from typer.completion import completion_init  # type: ignore[attr-defined]  # it has no __all__

    completion_init()
    app.command("completion")(completion)
