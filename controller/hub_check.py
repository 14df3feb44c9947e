"""Checks of the hub: a schema that drops fields of ours, other actors on our kinds, and its identity.

Three facts count as evidence:
- The served CustomResourceDefinition lacks fields of ours. The API server drops them from every object.
- A webhook named `*.karmada.io` that this project did not register is called when our objects are created or
  updated.
- Karmada's controller manager wrote an object's status a moment ago, as its managed fields show. A running
  controller manager proves nothing, because its FederatedHPA controller may be switched off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from weakref import WeakSet, finalize

import msgspec
import structlog

from controller.publish import FEDERATED_HPAS
from fedhpa.api.errors import FedHPAError
from fedhpa.api.federatedhpa import GROUP, VERSION, FederatedHPASpec
from fedhpa.api.federatedhpa_status import FederatedHPAStatus
from fedhpa.api.free_json import entries
from fedhpa.api.identity import IDENTITY_PATH, valid_uid
from fedhpa.api.member_hpas import HUB_ID_FLAG
from fedhpa.api.shape import properties
from fedhpa.api.texts import one_line
from fedhpa.api.times import known_time
from fedhpa.api.wire import ObjectMeta, WithMetadata
from fedhpa.decision import Blocked, Finding
from fedhpa.kube import ApiClient, contain, resource_path

log = structlog.get_logger(__name__)

KEEP_SECONDS: Final = 300.0
DEADLINE_SECONDS: Final = 5.0
# Several of Karmada's sync periods. A controller without a write for so long was switched off.
ACTIVE_SECONDS: Final = 300.0
# Until then mode Distributed is held, so a right that was granted should act soon.
IDENTITY_SECONDS: Final = 60.0
MAX_REASON: Final = 256
_NO_IDENTITY: Final = (
    "mode Distributed waits, because nobody can tell the HPAs of this hub in members from another hub's: "
    f"give the controller the right to get namespace kube-system of the hub, or the flag {HUB_ID_FLAG}"
)
KARMADA_MANAGER: Final = "karmada-controller-manager"
OUR_REGISTRATION: Final = "fedhpa-webhook"

FIELDS_PRUNED: Final = "FieldsPruned"
FOREIGN_WEBHOOK: Final = "ForeignWebhook"
ANOTHER_CONTROLLER: Final = "AnotherController"

PLURAL: Final = FEDERATED_HPAS.plural
_CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD_PATH: Final = f"{_CRDS}/{PLURAL}.{GROUP}"
CRON_CRD_PATH: Final = f"{_CRDS}/cronfederatedhpas.{GROUP}"
# The fields of specification and status that Karmada's CRD has. All others are ours.
_KARMADAS: Final = frozenset(("scaleTargetRef", "minReplicas", "maxReplicas", "metrics", "behavior"))
_KARMADAS_STATUS: Final = frozenset(
    (
        "observedGeneration",
        "lastScaleTime",
        "currentReplicas",
        "desiredReplicas",
        "currentMetrics",
        "conditions",
    )
)
OUR_PATHS: Final = tuple(
    f"{part}.{name}"
    for part, model in (("spec", FederatedHPASpec), ("status", FederatedHPAStatus))
    for name in properties(model)
    if name not in _KARMADAS | _KARMADAS_STATUS
)

Check = Callable[[], Awaitable[Finding | None]]


class _Rule(msgspec.Struct, frozen=True):
    apiGroups: list[str] | None = None
    apiVersions: list[str] | None = None
    resources: list[str] | None = None
    operations: list[str] | None = None
    scope: str = "*"

    def covers(self, plural: str) -> bool:
        """True if the webhook is called when such an object of our group is created or updated.

        Karmada has a webhook that guards every object of all groups against its deletion.
        """
        wanted = (
            ({GROUP}, self.apiGroups),
            ({VERSION}, self.apiVersions),
            ({plural, "*/*"}, self.resources),
            ({"CREATE", "UPDATE"}, self.operations),
        )
        covered = all(not (names | {"*"}).isdisjoint(found or ()) for names, found in wanted)
        return covered and self.scope != "Cluster"


class _Webhook(msgspec.Struct, frozen=True):
    name: str = ""
    rules: list[_Rule] | None = None


class _Registration(msgspec.Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    webhooks: list[_Webhook] | None = None


class HubIdentity:
    """The identity of the hub, which tells its member HPAs from those of other hubs.

    `id` is the flag's value, else the UID of the hub's namespace kube-system, "" until it was read. `problem`
    says why it is unknown, with the remedy.
    """

    def __init__(self, hub: ApiClient, given: str, *, clock: Callable[[], float]) -> None:
        self.id = given
        self.problem = ""
        self._hub = hub
        self._clock = clock
        self._again_at = float("-inf")
        self._reading = asyncio.Lock()

    async def read(self) -> None:
        """Read the identity unless it is known; after a failure, once a minute. Raises nothing."""
        if self.id:
            return
        async with self._reading:
            # Others may have read it while this one waited.
            if self._clock() >= self._again_at:
                await self._read()
                self._again_at = self._clock() + IDENTITY_SECONDS

    async def _read(self) -> None:
        try:
            found = await self._hub.get(IDENTITY_PATH, WithMetadata, deadline=DEADLINE_SECONDS)
            self.id, reason = valid_uid(found.metadata.uid), "it has no usable UID"
        except FedHPAError as error:
            reason = str(error)
        before, self.problem = self.problem, ""
        if not self.id:
            self.problem = f"{_NO_IDENTITY}: {one_line(reason, MAX_REASON)}"
            (log.debug if before else log.warning)("hub not identified", error=self.problem)


@dataclass(eq=False)
class Contest:
    """The evidence that another controller acts on one object. It lives as long as what is known of it.

    `since` is when the other one wrote the object last, as far as its status tells that, in POSIX seconds.
    `is_known` is True once the stored status was judged.
    """

    since: float | None = None
    is_known: bool = False


class HubCheck:
    """The findings on one hub, refreshed every few minutes. Errors of the hub are logged, never raised.

    The CRD at `crd_path` must keep the fields at `paths`. With `plural`, no webhook of Karmada may judge
    these objects. `on_finding(reason, found)` is called with each new result.
    """

    def __init__(
        self,
        hub: ApiClient,
        crd_path: str,
        paths: Iterable[str],
        *,
        plural: str = "",
        clock: Callable[[], float],
        on_finding: Callable[[str, bool], None] = lambda *_: None,
    ) -> None:
        self._hub = hub
        self._checks: list[Check] = [partial(find_pruned, hub, crd_path, tuple(paths))]
        if plural:
            self._checks.append(partial(find_foreign_webhook, hub, plural))
        self._clock = clock
        self._on_finding = on_finding
        self._until = float("-inf")
        self._lock = asyncio.Lock()
        # Those that another controller acts on. Its reference to one goes with what is known of the object.
        self._contested: WeakSet[Contest] = WeakSet()
        # The results that `on_finding` knows.
        self._shown: dict[str, bool] = {}
        self.findings: tuple[Finding, ...] = ()

    @property
    def pruned(self) -> Finding | None:
        """The finding that the hub drops fields; None if it keeps them, as far as known."""
        return next((finding for finding in self.findings if finding.reason == FIELDS_PRUNED), None)

    async def refresh(self) -> None:
        """Bring `findings` up to date if they are old. All callers wait for the first answer, and no more."""
        if self._clock() < self._until:
            return
        async with self._lock:
            if self._clock() < self._until:
                return
            if self._until > float("-inf"):
                self._until = self._clock() + KEEP_SECONDS
            await self._read()
            self._until = self._clock() + KEEP_SECONDS

    async def _read(self) -> None:
        # An answer of another shape than expected is no finding, and no object's fault.
        results = [await contain("hub-check", check, lambda _: None) for check in self._checks]
        found = tuple(finding for finding in results if finding is not None)
        for finding in found:
            if finding not in self.findings:
                log.warning("hub check failed", reason=finding.reason, detail=finding.message)
        self.findings = found
        for reason in (FIELDS_PRUNED, FOREIGN_WEBHOOK):
            self._show(reason, any(finding.reason == reason for finding in found))

    def other_controller(self, contest: Contest, raw: Mapping[str, Any], now: float) -> Blocked | None:
        """The reason to write nothing for the object read as `raw`, if another controller acts on it.

        Our own status writes may overwrite the managed fields, so the evidence stays valid for
        ACTIVE_SECONDS. A new leader that finds it in the status waits for as long.
        """
        written = status_written(raw, KARMADA_MANAGER)
        if not contest.is_known:
            contest.is_known = True
            blocked = entries(raw, "status", "conditions")
            if any(one.get("reason") == ANOTHER_CONTROLLER for one in blocked):
                written = now  # another controller blocked it before
        seen = (written, contest.since)
        last = max((at for at in seen if at is not None and 0 <= now - at < ACTIVE_SECONDS), default=None)
        self.note_contest(contest, last)
        if last is None:
            return None
        message = (
            f"{KARMADA_MANAGER} writes the status of this object, so its own controller acts on it: nothing "
            f"is written to the target; switch it off with --controllers=*,-federatedHorizontalPodAutoscaler"
        )
        return Blocked(ANOTHER_CONTROLLER, message, condition="ScalingActive")

    def note_contest(self, contest: Contest, since: float | None) -> None:
        """Note that another controller acts on an object, or with None that nobody else does."""
        contest.since = since
        if since is None:
            self._contested.discard(contest)
        elif contest not in self._contested:
            self._contested.add(contest)
            finalize(contest, self._show_contests).atexit = False
        self._show_contests()

    def _show_contests(self) -> None:
        self._show(ANOTHER_CONTROLLER, any(True for _ in self._contested))

    def _show(self, reason: str, found: bool) -> None:
        if self._shown.get(reason) != found:
            self._shown[reason] = found
            self._on_finding(reason, found)

    def end(self) -> None:
        """Withdraw all findings, because another process looks after the objects now."""
        self._contested.clear()
        for reason in (FIELDS_PRUNED, FOREIGN_WEBHOOK, ANOTHER_CONTROLLER):
            self._show(reason, False)


async def find_foreign_webhook(hub: ApiClient, plural: str) -> Finding | None:
    """Returns the finding that a webhook of Karmada judges these objects of ours, or None."""
    found: list[str] = []
    for registrations in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
        path = resource_path("admissionregistration.k8s.io/v1", registrations)
        try:
            listed = (await hub.list(path, _Registration)).items
        except FedHPAError as error:
            log.debug("webhook configurations not listed", error=str(error))
            continue
        found += [
            f"{webhook.name} of {one.metadata.name}"
            for one in listed
            if one.metadata.name != OUR_REGISTRATION
            for webhook in one.webhooks or ()
            if webhook.name.endswith(".karmada.io")
            and any(rule.covers(plural) for rule in webhook.rules or ())
        ]
    if not found:
        return None
    message = (
        f"another webhook judges FederatedHPAs ({', '.join(found[:4])}): take it out of its registration"
    )
    return Finding(FOREIGN_WEBHOOK, message)


async def find_pruned(hub: ApiClient, crd_path: str, paths: Iterable[str]) -> Finding | None:
    """Returns the finding that a CRD of the hub drops some of these fields, or None."""
    try:
        definition = await hub.get_json(crd_path, deadline=DEADLINE_SECONDS)
    except FedHPAError as error:
        log.debug("CRD not read", error=str(error))  # the permission may be missing
        return None
    pruned = pruned_paths(definition, paths)
    if not pruned:
        return None
    return Finding(FIELDS_PRUNED, f"the hub's CRD drops {', '.join(pruned)}: apply 'fedhpa crds' there")


def pruned_paths(definition: Mapping[str, Any], paths: Iterable[str]) -> list[str]:
    """Returns the paths, such as `spec.rules[].duration`, that the served schema of a CRD does not keep."""
    for version in (definition.get("spec") or {}).get("versions") or ():
        if version.get("served"):
            schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
            return [path for path in paths if not _keeps_path(schema, path)]
    return []


def _keeps_path(schema: Mapping[str, Any], path: str) -> bool:
    for name in path.split("."):
        if schema.get("x-kubernetes-preserve-unknown-fields"):
            return True
        found = (schema.get("properties") or {}).get(name.removesuffix("[]"))
        if found is None:
            return False
        schema = (found.get("items") or {}) if name.endswith("[]") else found
    return True


def is_foreign(definition: Mapping[str, Any]) -> bool:
    """True if the CRD of FederatedHPAs is that of another project, and not an older one of ours."""
    # Every CRD of ours has these.
    return bool(pruned_paths(definition, ("spec.mode", "spec.dryRun")))


def status_written(raw: Mapping[str, Any], manager: str) -> float | None:
    """Returns when a field manager last wrote an object's status, in POSIX seconds; None if never."""
    times = []
    for entry in raw["metadata"].get("managedFields") or ():
        if entry.get("manager") == manager and entry.get("subresource") == "status":
            times.append(known_time(entry.get("time")) or 0.0)
    return max(times, default=None)
