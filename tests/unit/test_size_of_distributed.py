"""The code that only mode Distributed uses stays as small as it is, and what it remembers too.

Lines are those of whole files, with comments, docstrings and empty lines. A file counts if it exists for mode
Distributed alone: the arithmetic of bounds, the decision, member HPAs and the Works that carry them, their
removal, and the rights of a member's token.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
ONLY_DISTRIBUTED: Final = (
    *(f"fedhpa/assignment/{name}.py" for name in ("clusters", "divide", "member_hpa", "minima")),
    *(f"fedhpa/assignment/{name}.py" for name in ("passes", "plan", "zero")),
    "fedhpa/decision/distributed/*.py",
    "fedhpa/api/member_hpas.py",
    "fedhpa/members/hpas.py",
    "fedhpa/cli/join/member_hpas.py",
    *(f"controller/federatedhpa/{name}.py" for name in ("distributed", "removal")),
    "controller/apply/member_hpas.py",
)
MOST: Final = 3_392


def test_the_lines_of_mode_distributed() -> None:
    """A change that needs more takes some away first."""
    files = [path for pattern in ONLY_DISTRIBUTED for path in sorted(ROOT.glob(pattern))]
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)

    assert len(files) >= len(ONLY_DISTRIBUTED)
    assert lines <= MOST
