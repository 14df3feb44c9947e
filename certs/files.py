"""Files that appear whole or not at all: readers poll certificate files while they are being replaced."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

PRIVATE_MODE = 0o600
PUBLIC_MODE = 0o644


def write_private(path: Path, content: bytes) -> None:
    """Write a secret: the file is never readable by others, not even for a moment."""
    _write(path, content, PRIVATE_MODE)


def write_public(path: Path, content: bytes) -> None:
    """Write a file that everyone may read."""
    _write(path, content, PUBLIC_MODE)


def _write(path: Path, content: bytes, mode: int) -> None:
    # mkstemp creates with 0600; the rename is atomic because both names are in one folder.
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            os.fchmod(file.fileno(), mode)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
