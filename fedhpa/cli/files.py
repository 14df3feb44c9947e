"""Reads the files that a person names on the command line, with bounds."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from fedhpa.api.errors import ConfigError, InvalidObject

# A recorded decision over 10,000 pods has about 20 MB.
MAX_BYTES: Final = 256 * 1024 * 1024
# Manifests and YAML are read about a hundred times more slowly than JSON.
MAX_YAML_BYTES: Final = 16 * 1024 * 1024


def read_file(file: str, *, option: str = "", max_bytes: int = MAX_BYTES) -> bytes:
    """Returns the content of a file, or of standard input for "-".

    Raises ConfigError that names option and file.
    """
    with opened(file, option=option) as stream:
        content = stream.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise ConfigError(f"{option}{'=' if option else ''}{file}: has more than {max_bytes} bytes")
    return content


@contextlib.contextmanager
def opened(file: str, *, option: str = "") -> Iterator[BinaryIO]:
    """Opens a file, or standard input for "-". A failure to read it becomes a ConfigError with its name."""
    try:
        if file == "-":
            yield sys.stdin.buffer
        else:
            with Path(file).open("rb") as stream:
                yield stream
    except (OSError, ValueError) as error:  # ValueError: a NUL byte in the name
        where = f"{option}={file}: cannot be read" if option else f"cannot read {file}"
        raise ConfigError(f"{where}: {getattr(error, 'strerror', None) or error}") from error


def yaml_documents(content: bytes) -> Iterator[Any]:
    """Yields the documents of a YAML or JSON file. Raises InvalidObject."""
    from fedhpa.api.yaml import read_yaml

    if len(content) > MAX_YAML_BYTES:
        raise InvalidObject(f"YAML has more than {MAX_YAML_BYTES} bytes: write it as JSON")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise InvalidObject("it is not UTF-8 text") from error
    yield from read_yaml(text)


def read_items(file: str) -> list[Any]:
    """Returns the objects of a file that --filename names, with the items of lists. Raises ConfigError."""
    try:
        documents = list(yaml_documents(read_file(file, option="--filename", max_bytes=MAX_YAML_BYTES)))
    except InvalidObject as error:
        raise ConfigError(f"--filename={file}: cannot be read: {error}") from error
    objects: list[Any] = []
    for document in documents:
        items = document.get("items") if isinstance(document, dict) else None
        objects.extend(items if isinstance(items, list) else [document])
    return objects
