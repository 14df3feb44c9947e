"""The checks by name."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tests.conformance.plane.talk import Talk
from tests.conformance.plane.under_test import PlaneUnderTest

# The modules with checks; the transcripts of each are in a file of its name.
SUBJECTS = (
    "objects",
    "refusals",
    "lists",
    "watches",
    "patches",
    "strategic",
    "subresources",
    "deletion",
    "tables",
    "records",
    "admission",
    "aggregation",
    "authentication",
    "authorization",
    "kubectl",
)

# The deadline of a check, as a multiple of the plane's patience.
DEADLINE = 1.5

CheckFunction = Callable[[Talk], Awaitable[None]]
_checks: dict[str, Check] = {}


@dataclass(frozen=True)
class Check:
    """One check, named "subject/function". `needs` are optional fields of PlaneUnderTest."""

    name: str
    function: CheckFunction
    needs: tuple[str, ...]

    @property
    def subject(self) -> str:
        """The module of the check, without "about_"."""
        return self.name.partition("/")[0]

    def missing(self, plane: PlaneUnderTest) -> str | None:
        """Returns the first need that the plane does not have, or None."""
        return next((need for need in self.needs if getattr(plane, need) is None), None)


def check(*, needs: tuple[str, ...] = ()) -> Callable[[CheckFunction], CheckFunction]:
    """Registers a function as a check."""

    def register(function: CheckFunction) -> CheckFunction:
        subject = function.__module__.rpartition(".")[2].removeprefix("about_")
        name = f"{subject}/{function.__name__}"
        _checks[name] = Check(name, function, needs)
        return function

    return register


def all_checks() -> list[Check]:
    """Returns every check, by subject and in source order."""
    for subject in SUBJECTS:
        importlib.import_module(f"tests.conformance.plane.about_{subject}")
    return sorted(_checks.values(), key=lambda one: SUBJECTS.index(one.subject))


async def converse(one: Check, plane: PlaneUnderTest) -> tuple[list[dict[str, Any]], Exception | None]:
    """Runs a check; returns its transcript and the error that ended it."""
    talk = Talk(plane, one.name)
    try:
        async with asyncio.timeout(DEADLINE * plane.patience), talk:
            await one.function(talk)
    except Exception as error:  # the caller reports the error together with the transcript
        return talk.entries, error
    return talk.entries, None
