"""The command-line flags of the processes: their types, where values come from, and the shared flags."""

from fedhpa.serving.flags.parsing import CONFIG, parse_flags
from fedhpa.serving.flags.types import (
    Flag,
    FlagType,
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
