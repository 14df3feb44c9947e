"""The command-line flags of the processes: their types, where values come from, and the shared flags."""

from __future__ import annotations

from fedhpa.serving.flags.parsing import exit_usage, parse_flags, parse_or_exit
from fedhpa.serving.flags.types import (
    Flag,
    NotBuilt,
    Sections,
    Values,
    address,
    boolean,
    choice,
    duration,
    integer,
    ip,
    number,
    path,
    port,
    split_address,
    string,
    strings,
)

__all__ = [
    "Flag",
    "NotBuilt",
    "Sections",
    "Values",
    "address",
    "boolean",
    "choice",
    "duration",
    "exit_usage",
    "integer",
    "ip",
    "number",
    "parse_flags",
    "parse_or_exit",
    "path",
    "port",
    "split_address",
    "string",
    "strings",
]
