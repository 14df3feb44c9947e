"""Whether the hub is all ours: its schema of our kinds, and who else acts on them.

What counts as evidence: the CustomResourceDefinition as it is served lacks fields of ours, which the API
server then drops from every object; a webhook named `*.karmada.io` that is not of our registration is called
for our kinds; an object's status was written a moment ago by Karmada's controller manager, as its managed
fields tell. That a controller manager runs is no evidence: this controller of it may be switched off.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import structlog

from controller.federatedhpa.ambiguity import Key
from controller.publish import PLURAL
from fedhpa.api.errors import FedHPAError, InvalidObject
from fedhpa.api.federatedhpa import GROUP
from fedhpa.api.times import parse_time
from fedhpa.decision.snapshot import Blocked, Finding
from fedhpa.kube.client import ApiClient
from fedhpa.kube.paths import resource_path

log = structlog.get_logger(__name__)

KEEP_SECONDS: Final = 300.0
DEADLINE_SECONDS: Final = 5.0
# Long enough for several of Karmada's periods; whoever stopped writing for so long was switched off.
ACTIVE_SECONDS: Final = 300.0
KARMADA_MANAGER: Final = "karmada-controller-manager"
OUR_REGISTRATION: Final = "fedhpa-webhook"

FIELDS_PRUNED: Final = "FieldsPruned"
FOREIGN_WEBHOOK: Final = "ForeignWebhook"
ANOTHER_CONTROLLER: Final = "AnotherController"

CRD_PATH: Final = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{PLURAL}.{GROUP}"
OUR_FIELDS: Final = {
    "spec": (
        "mode",
        "dryRun",
        "partialMetrics",
        "syncPeriodSeconds",
        "clusterAffinity",
        "federatedHPAAssignment",
    ),
    "status": ("observedGeneration", "clusters", "decision"),
}


class _Rule(msgspec.Struct, frozen=True):
    apiGroups: list[str] | None = None
    resources: list[str] | None = None

    @property
    def is_ours(self) -> bool:
        """Whether it is about our kind."""
        groups, resources = self.apiGroups or (), self.resources or ()
        return bool({GROUP, "*"}.intersection(groups) and {PLURAL, "*", "*/*"}.intersection(resources))


class _Webhook(msgspec.Struct, frozen=True):
    name: str = ""
    rules: list[_Rule] | None = None


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""


class _Registration(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()
    webhooks: list[_Webhook] | None = None


class HubCheck:
    """What was found on the hub, looked for every few minutes; never raises for the hub."""

    def __init__(
        self,
        hub: ApiClient,
        *,
        clock: Callable[[], float] = time.monotonic,
        shown: Callable[[str, bool], None] = lambda *_: None,
    ) -> None:
        self._hub = hub
        self._clock = clock
        self._shown = shown
        self._until = float("-inf")
        self._rivals: dict[Key, float] = {}
        self._known: set[Key] = set()
        self.findings: tuple[Finding, ...] = ()

    async def look(self) -> None:
        """Bring `findings` up to date if they are old."""
        if self._clock() < self._until:
            return
        self._until = self._clock() + KEEP_SECONDS
        found = tuple(
            finding for finding in (await self._schema(), await self._webhooks()) if finding is not None
        )
        for finding in found:
            if finding not in self.findings:
                log.warning("the hub is not all ours", reason=finding.reason, detail=finding.message)
        self.findings = found
        for reason in (FIELDS_PRUNED, FOREIGN_WEBHOOK):
            self._shown(reason, any(finding.reason == reason for finding in found))

    def rival(self, key: Key, raw: Mapping[str, Any], now: float) -> Blocked | None:
        """Why nothing is written for the object read as `raw`: another controller acts; None if none does.

        Our own writes may hide the evidence, so it counts for as long as one is called active. Then they say
        what was found, which whoever sees the object for the first time goes on from.
        """
        written = _written_by_karmada(raw)
        if key not in self._known:
            self._known.add(key)
            written = max(filter(None, (written, _found_before(raw))), default=None)
        if written is not None and 0 <= now - written < ACTIVE_SECONDS:
            self._rivals[key] = max(written, self._rivals.get(key, written))
        last = self._rivals.get(key)
        if last is not None and now - last >= ACTIVE_SECONDS:
            del self._rivals[key]
        self._shown(ANOTHER_CONTROLLER, bool(self._rivals))
        if key not in self._rivals:
            return None
        message = (
            f"{KARMADA_MANAGER} writes the status of this object, so its own controller acts on it: nothing "
            f"is written to the target; switch it off with --controllers=*,-federatedHorizontalPodAutoscaler"
        )
        return Blocked(ANOTHER_CONTROLLER, message, condition="ScalingActive")

    def forget(self, key: Key) -> None:
        """Drop what is known of a deleted object."""
        self._rivals.pop(key, None)
        self._known.discard(key)

    async def _schema(self) -> Finding | None:
        try:
            definition = await self._hub.get_json(CRD_PATH, deadline=DEADLINE_SECONDS)
        except FedHPAError as error:
            log.debug("CRD not read", error=str(error))  # without the right to, nothing is known
            return None
        lacking = lacking_fields(definition)
        if not lacking:
            return None
        message = f"the hub's CRD drops {', '.join(lacking)}: apply 'fedhpa crds' there"
        return Finding(FIELDS_PRUNED, message)

    async def _webhooks(self) -> Finding | None:
        found: list[str] = []
        for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            path = resource_path("admissionregistration.k8s.io/v1", plural)
            try:
                registrations = (await self._hub.list(path, _Registration)).items
            except FedHPAError as error:
                log.debug("webhook registrations not read", error=str(error))
                continue
            found += [
                f"{webhook.name} of {one.metadata.name}"
                for one in registrations
                if one.metadata.name != OUR_REGISTRATION
                for webhook in one.webhooks or ()
                if webhook.name.endswith(".karmada.io") and any(rule.is_ours for rule in webhook.rules or ())
            ]
        if not found:
            return None
        message = (
            f"another webhook judges FederatedHPAs ({', '.join(found[:4])}): take it out of its registration"
        )
        return Finding(FOREIGN_WEBHOOK, message)


def lacking_fields(definition: Mapping[str, Any]) -> list[str]:
    """Fields of ours that the served schema of a CustomResourceDefinition does not know."""
    versions = (definition.get("spec") or {}).get("versions") or ()
    for version in versions:
        if not version.get("served"):
            continue
        schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
        parts = schema.get("properties") or {}
        return [
            f"{part}.{field}"
            for part, fields in OUR_FIELDS.items()
            for field in fields
            if not _keeps(parts.get(part) or {}, field)
        ]
    return []


def _keeps(schema: Mapping[str, Any], field: str) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields")) or field in (
        schema.get("properties") or {}
    )


def _found_before(raw: Mapping[str, Any]) -> float | None:
    """When a decision was last stored that another controller held back (POSIX seconds); None if none is."""
    status = raw.get("status")
    if not isinstance(status, Mapping):
        return None
    conditions = status.get("conditions")
    held = any(
        isinstance(condition, Mapping) and condition.get("reason") == ANOTHER_CONTROLLER
        for condition in (conditions if isinstance(conditions, list) else ())
    )
    decision = status.get("decision")
    time = decision.get("time") if isinstance(decision, Mapping) else None
    try:
        return parse_time(time) if held and isinstance(time, str) else None
    except InvalidObject:
        return None


def _written_by_karmada(raw: Mapping[str, Any]) -> float | None:
    """When Karmada's controller manager last wrote the object's status (POSIX seconds), if ever."""
    times = []
    for entry in raw["metadata"].get("managedFields") or ():
        if entry.get("manager") == KARMADA_MANAGER and entry.get("subresource") == "status":
            try:
                times.append(parse_time(entry.get("time")) or 0.0)
            except InvalidObject:
                continue
    return max(times, default=None)
