"""The flags of the three processes, from their flag sets."""

from __future__ import annotations

from typing import Any, Final

from controller.flags import SECTIONS as CONTROLLER
from fedhpa.serving.flags import CONFIG, Flag, Sections
from metrics_adapter.settings import FLAGS as METRICS_ADAPTER
from testbed.reference.markdown import code, table
from webhook.settings import FLAGS as WEBHOOK

_PROCESSES: Final[dict[str, Sections]] = {
    "fedhpa-webhook": WEBHOOK,
    "fedhpa-metrics-adapter": METRICS_ADAPTER,
    "fedhpa-controller": CONTROLLER,
}
_HEADER: Final = ("flag", "environment", "default", "expected", "meaning")
# click adds these two to every command. They are read from the command line only.
_CLICK_ROWS: Final = (
    (f"{code('-h')}, {code('--help')}", "", "", "", "Print the flags and exit."),
    (code("--version"), "", "", "", "Print the version and exit."),
)


def flag_tables() -> list[str]:
    """A chapter for each process, in it a table for each group of flags."""
    lines = ["## Every process", "", "### General", ""]
    lines += [*table(_HEADER, [_row(CONFIG), *_CLICK_ROWS]), ""]
    for program, sections in _PROCESSES.items():
        lines += [f"## {program}", "", *_groups(sections)]
    return lines


def _groups(sections: Sections) -> list[str]:
    lines: list[str] = []
    for title, flags in sections.items():
        lines += [f"### {title}", ""]
        lines += table(_HEADER, map(_row, flags))
        lines.append("")
    return lines


def _row(flag: Flag[Any]) -> tuple[str, ...]:
    short = f"{code('-' + flag.shorthand)}, " if flag.shorthand else ""
    return (
        short + code(f"--{flag.name}"),
        code(flag.variable),
        code(flag.type.show(flag.default)),
        flag.type.expected,
        flag.help,
    )
