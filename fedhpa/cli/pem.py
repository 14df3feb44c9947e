"""Certificate files that options name."""

from __future__ import annotations

from pathlib import Path

from fedhpa.api.errors import ConfigError


def read_certificates(option: str, path: Path) -> bytes:
    """The PEM of the file that an option names. ConfigError names option, file and what is expected."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{option}={path}: cannot be read: {error.strerror}") from error
    if b"BEGIN CERTIFICATE" not in content:
        raise ConfigError(f"{option}={path}: expected a PEM certificate")
    return content
