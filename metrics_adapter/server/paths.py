"""The parts of a path below an API's version, read as access to it is reviewed."""

from __future__ import annotations

from urllib.parse import unquote

from fedhpa.kube.paths import segment

# "", apis, GROUP, VERSION
BEFORE = 4


def path_parts(raw_path: str) -> list[str] | None:
    """What is below /apis/GROUP/VERSION, decoded; None if a part is empty or a step up.

    `raw_path` is still percent-encoded, so that an encoded slash stays within its part.
    """
    parts = [unquote(part) for part in raw_path.split("/")[BEFORE:]]
    try:
        for part in parts:
            segment(part)
    except ValueError:
        return None
    return parts
