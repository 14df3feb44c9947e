"""The commands about recorded days: `fedhpa backtest` and `fedhpa suggest`."""
