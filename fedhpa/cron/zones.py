"""Time zones by IANA name.

All data comes from the tzdata package and none from the system, so every machine gives the same verdict.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib import resources
from typing import Final
from zoneinfo import ZoneInfo

from fedhpa.api.errors import InvalidObject
from fedhpa.cron.characters import foreign_character

# Characters; longer than any name.
_MAX_NAME: Final = 64
_OFFSET = re.compile(r"(?:UTC|GMT|Z)?([+-])([0-9]{1,2})(?::?([0-9]{2}))?", re.ASCII | re.IGNORECASE)


class UnknownZone(InvalidObject):
    """A time zone does not exist.

    The message is that of Karmada's webhook, the text of Go's time zone loader. `remedy` says what to write.
    """

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.remedy = remedy


@cache
def _names() -> frozenset[str]:
    return frozenset(resources.files("tzdata").joinpath("zones").read_text(encoding="ascii").split())


@cache
def _spellings() -> dict[str, str]:
    """Returns zones by folder (`America/`), lower-case name, and letters (`newyork`, `americanewyork`)."""
    names = sorted(_names(), reverse=True)
    found = {_letters(name.rpartition("/")[2]): name for name in names}
    for name in names:
        parts = name.split("/")
        found |= {"/".join((*parts[:depth], "")): name for depth in range(1, len(parts))}
    return found | {_letters(name): name for name in names} | {name.lower(): name for name in names}


def _letters(text: str) -> str:
    return "".join(character for character in text[:_MAX_NAME].lower() if character.isalnum())


@lru_cache(maxsize=1024)
def load_zone(name: str | None) -> ZoneInfo:
    """Returns the zone of a case-sensitive IANA name. Raises UnknownZone.

    None, "" and "Local" are UTC. In Karmada, "Local" is the zone of the process. A zone is always the same
    object, so zones compare by identity.
    """
    if not name or name == "Local":
        return load_zone("UTC")
    if ".." in name or name[0] in "/\\":
        raise UnknownZone(
            "time: invalid location name", "write an IANA name such as Europe/Berlin, not a path"
        )
    if name not in _names():
        example = _spellings().get(f"{name.rstrip('/')}/")
        if example is not None:
            raise UnknownZone("is a directory", f"write a zone of it, such as {example}")
        raise UnknownZone(f"unknown time zone {name}", _remedy(name))
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def _remedy(name: str) -> str:
    if character := foreign_character(name, "name"):
        return character
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        hours = int(offset[2])
        # The sign in Etc names counts the other way: east of Greenwich is minus.
        etc = f"Etc/GMT{'-' if offset[1] == '+' else '+'}{hours}" if hours else "Etc/UTC"
        if int(offset[3] or 0) == 0 and etc in _names():
            etc = f"{etc} (the sign counts the other way there) or an IANA name"
        else:
            etc = "an IANA name such as Asia/Kolkata"
        return f"offsets are not zones: write {etc}"
    same = _spellings().get(name.strip().lower())
    if same is not None:
        return f"names are case-sensitive and without blanks: write {same}"
    alike = _spellings().get(_letters(name))
    if alike is not None:
        return f"write the whole IANA name, which may be {alike}"
    return "write an IANA name such as Europe/Berlin"
