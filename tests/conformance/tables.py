"""Reading the tables of facts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_DATA = Path(__file__).parent / "data"


def table(name: str) -> dict[str, Any]:
    """One table by its file name without the ending; each names its source."""
    content: dict[str, Any] = json.loads((_DATA / f"{name}.json").read_text(encoding="utf-8"))
    return content
