"""The library that draws (docs/decisions/0039). It is an optional extra, and slow to import."""

from __future__ import annotations

import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from fedhpa.api.errors import ConfigError
from fedhpa.backtest.report.chart import specification
from fedhpa.backtest.report.colours import LIGHT
from fedhpa.backtest.report.drawing import drawn
from fedhpa.backtest.report.texts import BEST
from fedhpa.backtest.result import Report

if TYPE_CHECKING:
    from types import ModuleType

# The library has several versions of Vega-Lite. A fixed one draws the same with every release of the library.
VEGA_LITE: Final = "6.4"
# A script that may not fetch anything. The list has the addresses from which data may be loaded.
NO_ADDRESSES: Final[list[str]] = []
SCALE: Final = 2.0
# An image has no zoom, and is 840 units wide.
POINTS: Final = 900
CLIP: Final = re.compile(r"\bclip\d+\b")
PATH: Final = re.compile(r' d="[^"]*"')
FRACTION: Final = re.compile(r"(\.\d)\d+")


def _library() -> ModuleType:
    try:
        import vl_convert
    except ImportError as error:
        raise ConfigError(
            "the report needs the package vl-convert-python, which is not installed: "
            f"run: {sys.executable} -m pip install 'fedhpa[report]'"
        ) from error
    return vl_convert


def compiled(specification: dict[str, Any]) -> dict[str, Any]:
    """Returns the Vega specification of a Vega-Lite one. Raises ConfigError without the library."""
    vega: dict[str, Any] = _library().vegalite_to_vega(specification, vl_version=VEGA_LITE)
    return vega


@cache
def script() -> str:
    """Returns Vega as one script that defines `vegaEmbed`, 0.9 MB. It takes about two seconds of CPU time.

    Raises ConfigError without the library.
    """
    text: str = _library().javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    return text


def svg(report: Report) -> str:
    """Returns the report as an image in SVG. Raises ConfigError without `fedhpa[report]`.

    Coordinates are cut to a tenth of a pixel, because they are most of the text.
    """
    text: str = _library().vegalite_to_svg(
        _image(report), vl_version=VEGA_LITE, allowed_base_urls=NO_ADDRESSES
    )
    # The library numbers over all pictures of a process.
    numbers = {name: f"clip{number}" for number, name in enumerate(dict.fromkeys(CLIP.findall(text)))}
    text = CLIP.sub(lambda found: numbers[found[0]], text)
    return PATH.sub(lambda path: FRACTION.sub(r"\1", path[0]), text)


def png(report: Report) -> bytes:
    """Returns the report as an image in PNG, about 1,900 pixels wide. Raises what `svg` raises."""
    image: bytes = _library().vegalite_to_png(
        _image(report), vl_version=VEGA_LITE, scale=SCALE, allowed_base_urls=NO_ADDRESSES
    )
    return image


def _image(report: Report) -> dict[str, Any]:
    return specification(report, drawn(report, POINTS), LIGHT, BEST)
