"""Characters that a schedule or time zone cannot contain, often because an editor replaced what was typed.

No-break spaces, typographic dashes and letters of other alphabets look right and are wrong. So each message
has the code point and Unicode name of the character, and what to type instead.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

# Anything but the printable characters of ASCII and the tab.
_FOREIGN: Final = re.compile(r"[^\t -~]")
_NAME_LENGTH: Final = 60

# Cyrillic and Greek letters that look like the Latin ones of names, in this order, and signs.
_LOOK_ALIKE: Final = str.maketrans(
    "\u0410\u0412\u0421\u0415\u041d\u0406\u0408\u041a\u041c\u041e\u0420\u0405\u0422\u0425\u0423"
    "\u0391\u0392\u0395\u0397\u0399\u039a\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7\u0396"
    "\u0430\u0441\u0435\u0456\u0458\u043e\u0440\u0455\u0445\u0443\u03bf\u03b1\u03c1\u03c5"
    # Minus, slashes, asterisks, the multiplication sign, a bullet, and commas.
    "\u2212\u2044\u2215\u2217\u204e\u066d\u00d7\u2022\u201a\u060c\u3001",
    "ABCEHIJKMOPSTXY" + "ABEHIKMNOPTYXZ" + "aceijopsxyoapu" + "-//*****,,,",
)


def foreign_character(text: str, what: str) -> str:
    """Returns what to do about the first character that is no printable ASCII and no tab; "" without one.

    `what` names the text. Example: "character U+00A0 (no-break space) at position 4 of the name: use a blank"
    """
    found = _FOREIGN.search(text)
    if found is None:
        return ""
    character, position = found[0], found.start() + 1
    return f"character {_name(character)} at position {position} of the {what}: {_remedy(character)}"


def _name(character: str) -> str:
    unnamed = "control character" if unicodedata.category(character) == "Cc" else "no name"
    return f"U+{ord(character):04X} ({unicodedata.name(character, unnamed).lower()[:_NAME_LENGTH]})"


def _remedy(character: str) -> str:
    category = unicodedata.category(character)
    if category in ("Zs", "Zl", "Zp"):
        return "use a blank"
    if category in ("Cc", "Cf", "Mn", "Me", "Pi", "Pf"):
        return "delete it"
    # Full-width and mathematical characters have a compatible form.
    meant = unicodedata.normalize("NFKC", "-" if category == "Pd" else character.translate(_LOOK_ALIKE))
    if category == "Nd":
        meant = str(unicodedata.decimal(character))
    return f"use {meant}" if len(meant) == 1 and "!" <= meant <= "~" else "use ASCII characters"
