"""The pages of docs/reference that have a generated part, and how that part is put into them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from fedhpa.doctor import TABLE
from testbed.reference.chart import VALUES, value_tables, values_yaml
from testbed.reference.commands import command_tables
from testbed.reference.definitions import CRON_FEDERATED_HPA, FEDERATED_HPA
from testbed.reference.fields import field_tables
from testbed.reference.flags import flag_tables
from testbed.reference.markdown import code, table
from testbed.reference.schemas import write_schemas
from testbed.reference.series import series_tables

FOLDER: Final = Path(__file__).parents[2] / "docs" / "reference"
MARKER: Final = "<!-- Everything below is generated: change the code, then run `make docs`. -->"

PAGES: Final[dict[str, Callable[[], list[str]]]] = {
    "federatedhpa.md": lambda: field_tables(FEDERATED_HPA),
    "cronfederatedhpa.md": lambda: field_tables(CRON_FEDERATED_HPA),
    "flags.md": flag_tables,
    "metrics.md": series_tables,
    "cli.md": command_tables,
    "values.md": value_tables,
    "doctor.md": lambda: table(("id", "what is broken", "why it matters"), _findings()),
}


def _findings() -> list[tuple[str, str, str]]:
    return [(code(kind), each["broken"], each["why"]) for kind, each in TABLE.items()]


def rendered(name: str, page: str) -> str:
    """The page with its generated part as the code has it now; what stands above the marker stays.

    Raises ValueError if the page has no marker.
    """
    introduction, marker, _ = page.partition(MARKER)
    if not marker:
        raise ValueError(f"docs/reference/{name}: the line {MARKER!r} is missing")
    return "\n".join([introduction.rstrip(), "", MARKER, "", *PAGES[name]()]).rstrip() + "\n"


def write() -> None:
    """Brings the generated part of every page, the chart's values.yaml and the JSON schemas up to date."""
    write_schemas()
    VALUES.write_text(values_yaml(), encoding="utf-8")
    for name in PAGES:
        path = FOLDER / name
        path.write_text(rendered(name, path.read_text(encoding="utf-8")), encoding="utf-8")
