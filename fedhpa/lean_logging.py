"""Imports structlog without rich, which takes a tenth of the start of a process and is of no use to it.

structlog uses rich for traces in a terminal, where it can be imported. The processes render traces themselves
(`fedhpa.serving.logs`). The commands import rich on their own.
"""

from __future__ import annotations

import sys

if "structlog" not in sys.modules and "rich" not in sys.modules:
    # Python's own way to say that a module cannot be imported.
    sys.modules["rich"] = None  # type: ignore[assignment]
    import structlog  # noqa: F401 - for what it leaves out

    del sys.modules["rich"]
