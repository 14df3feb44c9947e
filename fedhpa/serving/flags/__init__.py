"""The command-line flags of the processes: their types, where values come from, and the shared flags."""

from fedhpa.serving.flags.parsing import CONFIG, exit_usage, parse_flags, parse_or_exit
from fedhpa.serving.flags.types import (
    Flag,
    FlagType,
    NotBuilt,
    Sections,
    Values,
    boolean,
    choice,
    duration,
    integer,
    number,
    path,
    split_list,
    string,
    strings,
)

__all__ = [
    "CONFIG",
    "Flag",
    "FlagType",
    "NotBuilt",
    "Sections",
    "Values",
    "boolean",
    "choice",
    "duration",
    "exit_usage",
    "integer",
    "number",
    "parse_flags",
    "parse_or_exit",
    "path",
    "split_list",
    "string",
    "strings",
]
