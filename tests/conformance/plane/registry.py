"""The checks by name, and running one."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.conformance.plane.talk import Talk
from tests.conformance.plane.under_test import PlaneUnderTest

# Modules with checks; each has a table of its name.
SUBJECTS = (
    "discovery",
    "objects",
    "refusals",
    "lists",
    "watches",
    "patches",
    "strategic",
    "subresources",
    "deletion",
    "schemas",
    "tables",
    "records",
    "admission",
    "admission_fails",
    "aggregation",
    "authentication",
    "authorization",
    "kubectl",
)

# One check may take so much longer than the longest of what it waits for.
DEADLINE = 1.5

CheckFunction = Callable[[Talk], Awaitable[None]]
_checks: dict[str, Check] = {}


@dataclass(frozen=True)
class Check:
    """One check: "subject/name", what it talks about, and what of the plane it needs besides the API."""

    name: str
    function: CheckFunction
    needs: tuple[str, ...]

    @property
    def subject(self) -> str:
        """The module it is in."""
        return self.name.partition("/")[0]

    def missing(self, plane: PlaneUnderTest) -> str | None:
        """What it needs and the plane has not."""
        return next((need for need in self.needs if getattr(plane, need) is None), None)


def check(*, needs: tuple[str, ...] = ()) -> Callable[[CheckFunction], CheckFunction]:
    """Registers a check under its module's and its own name. `needs` are fields of PlaneUnderTest."""

    def register(function: CheckFunction) -> CheckFunction:
        subject = function.__module__.rpartition(".")[2].removeprefix("about_")
        name = f"{subject}/{function.__name__}"
        _checks[name] = Check(name, function, needs)
        return function

    return register


def all_checks() -> list[Check]:
    """Every check, by subject and in the order they are written."""
    for subject in SUBJECTS:
        importlib.import_module(f"tests.conformance.plane.about_{subject}")
    return sorted(_checks.values(), key=lambda one: SUBJECTS.index(one.subject))


async def converse(one: Check, plane: PlaneUnderTest) -> tuple[list[dict[str, Any]], Exception | None]:
    """Hold the conversation of a check: what was said, and what broke it off (a fact that does not hold)."""
    talk = Talk(plane, one.name)
    try:
        async with asyncio.timeout(DEADLINE * plane.patience), talk:
            await one.function(talk)
    except Exception as error:  # whatever it is, what was said until then tells why
        return talk.entries, error
    return talk.entries, None
