"""The flags of the three processes, from their flag sets."""

from __future__ import annotations

from typing import Any, Final

from controller.flags import SECTIONS as CONTROLLER
from fedhpa.serving.flags import Flag, Sections
from fedhpa.serving.flags.parsing import CONFIG, HELP, VERSION
from metrics_adapter.settings import FLAGS as METRICS_ADAPTER
from testbed.reference.markdown import code, table
from webhook.settings import FLAGS as WEBHOOK

_PROCESSES: Final[dict[str, Sections]] = {
    "fedhpa-webhook": WEBHOOK,
    "fedhpa-metrics-adapter": METRICS_ADAPTER,
    "fedhpa-controller": CONTROLLER,
}
_GENERAL: Final[Sections] = {"General": (CONFIG, HELP, VERSION)}
# Read from the command line only.
_LINE_ONLY: Final = (HELP, VERSION)


def flag_tables() -> list[str]:
    """A chapter for each process, in it a table for each group of flags."""
    lines = ["## Every process", "", *_groups(_GENERAL)]
    for program, sections in _PROCESSES.items():
        lines += [f"## {program}", "", *_groups(sections)]
    return lines


def _groups(sections: Sections) -> list[str]:
    lines: list[str] = []
    for title, flags in sections.items():
        lines += [f"### {title}", ""]
        lines += table(("flag", "environment", "default", "expected", "meaning"), map(_row, flags))
        lines.append("")
    return lines


def _row(flag: Flag[Any]) -> tuple[str, ...]:
    short = f"{code('-' + flag.shorthand)}, " if flag.shorthand else ""
    environment = "" if flag in _LINE_ONLY else code(flag.variable)
    return (
        short + code(f"--{flag.name}"),
        environment,
        code(flag.show(flag.default)),
        flag.expected,
        flag.help,
    )
