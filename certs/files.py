"""Reads and writes certificate files, so that a certificate never lies beside the key of another one.

A writer holds a lock on the folder, writes and syncs all files under temporary names, and renames them last.
A full disk or a second writer therefore leaves the old files as they were.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fedhpa.api.errors import ConfigError

PRIVATE_MODE = 0o600
PUBLIC_MODE = 0o644

# A writer holds the lock for milliseconds.
LOCK_SECONDS = 10.0
_RETRY_SECONDS = 0.02


@dataclass(frozen=True)
class File:
    """A file to write: its path, its content and its permissions."""

    path: Path
    content: bytes
    mode: int = PUBLIC_MODE


def read(path: Path) -> bytes:
    """Returns the content of a file. Raises ConfigError, which names a file that cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Holds the lock of a folder, which is created if it is missing.

    Raises ConfigError if the folder cannot be locked, or if another process holds the lock for ten seconds.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(f"cannot write to {directory}: {error.strerror}") from error
    try:
        _lock(directory, handle)
        yield
    finally:
        os.close(handle)


def _lock(directory: Path, handle: int) -> None:
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise ConfigError(f"{directory} is locked by another process; try again") from error
            time.sleep(_RETRY_SECONDS)
        except OSError as error:
            raise ConfigError(f"cannot lock {directory}: {error.strerror}") from error


def write_all(files: list[File]) -> None:
    """Replaces files in one folder, in this order. The caller holds the lock of the folder.

    Raises ConfigError, which names a file that cannot be written. In that case no file has changed.
    """
    temporaries: list[str] = []
    try:
        for file in files:
            with _named_in_errors(file.path):
                temporaries.append(_write_temporary(file))
        for file, temporary in zip(files, temporaries, strict=True):
            with _named_in_errors(file.path):
                Path(temporary).replace(file.path)
        _sync_folder(files[0].path.parent)
    finally:
        for temporary in temporaries:
            Path(temporary).unlink(missing_ok=True)


def _write_temporary(file: File) -> str:
    # mkstemp creates the file with mode 0600, so a key is never readable by others. The later rename is
    # atomic because both names are in one folder.
    handle, temporary = tempfile.mkstemp(dir=file.path.parent, prefix=f".{file.path.name}.")
    try:
        with os.fdopen(handle, "wb") as opened:
            opened.write(file.content)
            os.fchmod(opened.fileno(), file.mode)
            opened.flush()
            os.fsync(opened.fileno())
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return temporary


def _sync_folder(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _named_in_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror}") from error
