"""The commands about recorded days: `fedhpa backtest` and `fedhpa suggest`."""

from __future__ import annotations

import typer

from fedhpa.cli.backtest.commands import backtest, suggest


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("backtest")(backtest)
    app.command("suggest")(suggest)
