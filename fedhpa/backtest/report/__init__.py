"""The report of a backtest: a page for a browser, SVG, PNG and a chart for the terminal."""

from __future__ import annotations

from fedhpa.backtest.report.engine import png, svg
from fedhpa.backtest.report.page import html
from fedhpa.backtest.report.terminal import terminal
