"""`fedhpa completion` prints what a shell needs to complete commands and options."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Annotated, Final, Literal

import typer

from fedhpa.api.free_json import entries, text_at
from fedhpa.cli.hub_client import API_VERSION, SHORT, hub_client, kind_of

# A person waits for each Tab.
SECONDS: Final = 2.0
MAX_NAMES: Final = 500
# The path of a list, from the namespace.
Path = Callable[[str], str]
CLUSTERS: Final = "/apis/cluster.karmada.io/v1alpha1/clusters"


def contexts(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the contexts of the kubeconfig."""
    from fedhpa.kube.config import known_contexts

    return _beginning(known_contexts(ctx.params.get("kubeconfig"))[1], incomplete)


def namespaces(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the namespaces of the hub."""
    return _beginning(_names(ctx, lambda _: "/api/v1/namespaces"), incomplete)


def clusters(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the names of the Clusters."""
    return _beginning(_names(ctx, lambda _: CLUSTERS), incomplete)


def objects(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns our objects in the namespace, as KIND/NAME."""
    kinds = [kind_of(incomplete.partition("/")[0])] if "/" in incomplete else list(SHORT)
    found = [f"{SHORT[kind]}/{name}" for kind in filter(None, kinds) for name in _names(ctx, _path(kind))]
    return _beginning(found, incomplete)


def names(ctx: typer.Context, incomplete: str) -> list[str]:
    """Returns the names of the objects whose kind is the argument before."""
    kind = kind_of(str(ctx.params.get("target") or ""))
    return _beginning(_names(ctx, _path(kind)), incomplete) if kind else []


def _path(kind: str) -> Path:
    return lambda namespace: f"/apis/{API_VERSION}/namespaces/{namespace}/{kind.lower()}s"


def _beginning(found: Iterable[str], incomplete: str) -> list[str]:
    return sorted(each for each in found if each.startswith(incomplete))


def _names(ctx: typer.Context, path: Path) -> list[str]:
    async def read() -> list[str]:
        options = (ctx.params.get("kubeconfig") or "", ctx.params.get("context") or "")
        async with asyncio.timeout(SECONDS), hub_client(*options) as (hub, default):
            place = path(ctx.params.get("namespace") or default)
            found = await hub.request("GET", place, params={"limit": str(MAX_NAMES)}, deadline=SECONDS)
            return [text_at(each, "metadata", "name") for each in entries(found.json(), "items")]

    with suppress(Exception):
        return asyncio.run(read())
    return []


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
