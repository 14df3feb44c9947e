"""The colours of the picture by their role: on white, on a dark page, and as variables of a style sheet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Okabe and Ito, "Color Universal Design" (2008): readers with any kind of colour blindness tell these apart.
# Vermilion is kept for what is not served.
CLUSTER_COLOURS: Final = (
    "#56b4e9",
    "#009e73",
    "#f0e442",
    "#cc79a7",
    "#0072b2",
    "#b3b3b3",
    "#e69f00",
    "#5b4a8a",
)
LIGHT: Final[Mapping[str, str]] = {
    "text": "#1a1a1a",
    "muted": "#595959",
    "grid": "#e3e3e3",
    "line": "#111111",
    "unserved": "#d55e00",
    "gap": "#8a8a8a",
    "band": "#d6e6f2",
    "best": "#00694d",
    "back": "#ffffff",
    "down": "#0072b2",
    **{f"c{i}": colour for i, colour in enumerate(CLUSTER_COLOURS)},
}
# The same hues, darker: the white line of the demand must be seen on them.
DARK_CLUSTER_COLOURS: Final = (
    "#2c7fb0",
    "#00694d",
    "#736a14",
    "#96527a",
    "#1b4f9c",
    "#6e6e6e",
    "#9a6a00",
    "#7566b3",
)
DARK: Final[Mapping[str, str]] = {
    **{f"c{i}": colour for i, colour in enumerate(DARK_CLUSTER_COLOURS)},
    "text": "#ececec",
    "muted": "#b0b0b0",
    "grid": "#3a3a3a",
    "line": "#ffffff",
    "unserved": "#ff7a1a",
    "gap": "#a0a0a0",
    "band": "#263b4a",
    "best": "#4fd1a5",
    "back": "#16181b",
    "down": "#6cc0f5",
}
# In the page, style sheets replace these: so dark mode and print need no second picture.
VARIABLES: Final = {role: f"var(--{role})" for role in LIGHT}
