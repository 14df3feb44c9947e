"""How well a backtest follows recorded runs of real planes."""
