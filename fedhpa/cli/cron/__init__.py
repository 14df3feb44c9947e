"""The commands `fedhpa cron`: when schedules fire, what rules will do, and windows to add."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated

import typer

from fedhpa.api.errors import ConfigError
from fedhpa.api.texts import for_terminal
from fedhpa.cli.backtest.commands import cron_suggest
from fedhpa.cli.cron.next import cron_next
from fedhpa.cli.hub_client import parse_target
from fedhpa.cli.member_options import MemberFlags
from fedhpa.cli.options import Context, JsonOrText, Kubeconfig, Namespace, with_flags

ABOUT = "Evaluate schedules and rules of CronFederatedHPAs."


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help=ABOUT, no_args_is_help=True)
    # A text that begins with a dash is an invalid schedule, not an unknown option.
    group.command("next", context_settings={"ignore_unknown_options": True})(cron_next)
    group.command("preview")(cron_preview)
    group.command("suggest")(cron_suggest)
    app.add_typer(group, name="cron")


@with_flags()
def cron_preview(
    target: Annotated[
        str | None, typer.Argument(metavar="cronfhpa/NAME", help="Name of the CronFederatedHPA.")
    ] = None,
    file: Annotated[
        str,
        typer.Option(
            "-f",
            "--filename",
            help="YAML or JSON file with CronFederatedHPAs, and their targets if wanted; - reads standard "
            "input.",
        ),
    ] = "",
    namespace: Namespace = "",
    kubeconfig: Kubeconfig = "",
    context: Context = "",
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not ask the hub; only with --filename.")
    ] = False,
    output: Annotated[JsonOrText, typer.Option("-o", "--output", help="Output format.")] = JsonOrText.TEXT,
    *,
    members: MemberFlags,
) -> None:
    """Show what the rules of a target will do in the next seven days; nothing is written.

    Exits 1 if admission would refuse an object of the file, or a write of a rule.
    """
    from fedhpa.cli.cron.preview import KIND, previews_of, read_manifests, refusals_of, to_json, to_text

    if bool(target) == bool(file) or (offline and not file):
        raise ConfigError("expected either cronfhpa/NAME or --filename; --offline needs --filename")
    name, objects = parse_target(target, KIND) if target else "", read_manifests(file) if file else []
    if refusals := refusals_of(objects, namespace):
        typer.echo(for_terminal("\n".join(refusals)))
        raise typer.Exit(1)
    sources = members.sources()
    found = asyncio.run(previews_of(name, objects, namespace, kubeconfig, context, sources, offline=offline))
    if output is JsonOrText.JSON:
        typer.echo(json.dumps([to_json(one) for one in found], indent=2))
    else:
        typer.echo(for_terminal("\n".join(to_text(one) for one in found)), nl=False)
    if any(one.conflicts for one in found):
        raise typer.Exit(1)
