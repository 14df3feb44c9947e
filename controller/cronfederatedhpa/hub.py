"""Checks if the hub's CRD of CronFederatedHPAs drops fields of ours, as Karmada's does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from controller.cronfederatedhpa.object_writes import CRON_FEDERATED_HPAS
from controller.hub_check import (
    ANOTHER_CONTROLLER,
    FIELDS_PRUNED,
    KEEP_SECONDS,
    find_pruned,
)
from fedhpa.api.federatedhpa import GROUP
from fedhpa.cron.execution.model import Rule
from fedhpa.cron.execution.objects import DROPPED, RULE_FIELDS
from fedhpa.decision import Finding
from fedhpa.kube import ApiClient, Key, contain

log = structlog.get_logger(__name__)

CRD_PATH: Final = (
    f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRON_FEDERATED_HPAS.plural}.{GROUP}"
)
# Events about one object, and the characters of one message.
MAX_TOLD: Final = 10
MAX_MESSAGE: Final = 1024
PATHS: Final = (
    *(f"spec.rules[].{field}" for field in RULE_FIELDS),
    "status.observedGeneration",
    "status.conditions",
)


class CronHubCheck:
    """The finding about one hub, refreshed every few minutes. Errors of the hub are logged, never raised.

    `on_finding(reason, found)` is called with each result.
    """

    def __init__(
        self,
        hub: ApiClient,
        *,
        clock: Callable[[], float],
        on_finding: Callable[[str, bool], None] = lambda *_: None,
    ) -> None:
        self._hub = hub
        self._clock = clock
        self._on_finding = on_finding
        self._contested: set[Key] = set()
        self._until = float("-inf")
        self._lock = asyncio.Lock()
        self.finding: Finding | None = None

    async def refresh(self) -> None:
        """Brings `finding` up to date if it is old."""
        if self._clock() < self._until:
            return
        async with self._lock:
            if self._clock() < self._until:
                return
            if self._until > float("-inf"):
                self._until = self._clock() + KEEP_SECONDS  # nobody waits for a later answer
            await self._read()
            self._until = self._clock() + KEEP_SECONDS

    def untold(self, told: list[str], rules: Sequence[Rule]) -> list[str]:
        """Returns what an object's events must still say: the finding, and which rules do not run.

        `told` is what they say already; it is brought up to date.
        """
        lines = [f"rule {rule.name} does not run: {rule.problem}" for rule in rules if rule.hash == DROPPED]
        if self.finding is not None:
            lines.insert(0, self.finding.message)
        lines = [line[:MAX_MESSAGE] for line in lines[:MAX_TOLD]]
        found = [line for line in lines if line not in told]
        told[:] = lines
        return found

    def note_contest(self, key: Key, *, contested: bool) -> None:
        """Notes whether another controller runs the rules of an object."""
        (self._contested.add if contested else self._contested.discard)(key)
        self._on_finding(ANOTHER_CONTROLLER, bool(self._contested))

    def end(self) -> None:
        """Withdraws all findings, because another process looks after the objects now."""
        self._contested.clear()
        for reason in (FIELDS_PRUNED, ANOTHER_CONTROLLER):
            self._on_finding(reason, False)

    async def _read(self) -> None:
        before, self.finding = (
            self.finding,
            await contain("hub-check", lambda: find_pruned(self._hub, CRD_PATH, PATHS), lambda _: None),
        )
        if self.finding is not None and self.finding != before:
            log.warning("hub check failed", reason=self.finding.reason, detail=self.finding.message)
        self._on_finding(FIELDS_PRUNED, self.finding is not None)
