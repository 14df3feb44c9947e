"""The commands `fedhpa cron`: when schedules fire, what rules will do, and windows to add."""

from __future__ import annotations

import typer

from fedhpa.cli.backtest.commands import cron_suggest
from fedhpa.cli.cron.next import cron_next
from fedhpa.cli.cron.preview import cron_preview

ABOUT = "Evaluate schedules and rules of CronFederatedHPAs."


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    group = typer.Typer(help=ABOUT, no_args_is_help=True)
    # A text that begins with a dash is an invalid schedule, not an unknown option.
    group.command("next", context_settings={"ignore_unknown_options": True})(cron_next)
    group.command("preview")(cron_preview)
    group.command("suggest")(cron_suggest)
    app.add_typer(group, name="cron")
