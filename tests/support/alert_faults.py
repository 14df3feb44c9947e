"""Faults as the series of the processes show them, minute by minute, for tests of the alerts.

The series come from the processes' own telemetry, so a renamed series or label breaks the test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

from prometheus_client import CollectorRegistry

from controller.cronfederatedhpa import CronMetrics
from controller.decision_series import ControllerMetrics
from controller.member_tokens import Token
from fedhpa.api.tokens import Life
from fedhpa.decision import Coverage, Decision, History
from fedhpa.kube import SYSTEM
from fedhpa.members.member import Member
from fedhpa.serving.fairness import Limits
from fedhpa.serving.peers import Peers
from fedhpa.serving.process_series import CallerSeries, ProcessSeries, register_certificate
from metrics_adapter.adapter_series import Telemetry as AdapterTelemetry
from metrics_adapter.members.probes import Probe
from metrics_adapter.prometheus.store_series import StoreTelemetry
from metrics_adapter.server.caller_limits import CallerLimits
from webhook.admission_review import Refused, Verdict
from webhook.handlers import VALIDATE_FEDERATEDHPA, Review
from webhook.review_series import Telemetry as WebhookTelemetry

USAGE, CUSTOM = "metrics.k8s.io", "custom.metrics.k8s.io"
OBJECT = ("shop", "web")
# A fault of a cluster or of the controller concerns all of them, and raises one alert.
OBJECTS = (OBJECT, ("shop", "api"), ("other", "web"))
# The time at which each history begins, in POSIX seconds.
BEGIN = 1_700_000_000.0
FINDINGS = ("FieldsPruned", "ForeignWebhook", "AnotherController")
MINUTE = 60.0
# Seven minutes before the end of a history of 45 minutes.
LATE = 38 * MINUTE
DAY = 86_400.0
YEAR = 365 * DAY
# Ticks of the event loop that a minute has here; really they are 3,000.
TICKS = 20


class StubMember:
    """A member that is available or not."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.probe_seconds = 0.1

    def unavailable(self) -> str | None:
        """Returns why the member is unavailable; None if it is available."""
        return self.reason


class Stage:
    """Two controllers, of which the first leads, an adapter over one member and a store, and a webhook."""

    def __init__(self) -> None:
        self.now = 0.0
        self.succeeds = True
        self.hub_current = True
        self.absent = ""
        self.desired, self.maximum = 3, 10
        self.gone: set[str] = set()
        self.member = StubMember()
        names = ("controller-0", "controller-1")
        self.registries = {name: CollectorRegistry() for name in names}
        self.leader, self.standby = (ControllerMetrics(self.registries[n], clock=self.clock) for n in names)
        self.rules = CronMetrics(self.registries[names[0]])
        self.adapter = AdapterTelemetry(lambda: cast(Mapping[str, Member], {"m1": self.member}))
        self.store = StoreTelemetry(self.adapter.registry)
        self.limits = CallerLimits(Limits(0, 0, 0.0, 1), self.adapter.registry, clock=SYSTEM.monotonic)
        self.webhook = WebhookTelemetry()
        self.webhook.follow_hub("FederatedHPA", lambda _: self.hub_current)
        self.registries |= {"adapter": self.adapter.registry, "webhook": self.webhook.registry}
        self.loop = ProcessSeries(self.registries["adapter"])
        self.callers = CallerSeries(self.adapter.registry)
        self.certificate_ends = BEGIN + YEAR
        register_certificate(self.webhook.registry, lambda: self.certificate_ends)
        self.peers = Peers()
        self.registries["webhook"].register(self.peers)
        for kind in ("external", "custom"):
            self.store.rules.labels(kind).set(1)
        self.store.rules_current.set(1)
        self.duplicates: dict[str, Any] = {}
        self.leader.members.watch(
            lambda: cast(Mapping[str, Member], {"m1": self.member}), lambda: self.duplicates
        )
        self.token_issued(days_ago=1)
        self.member_answers()

    def clock(self) -> float:
        """Returns the simulated seconds since the start."""
        return self.now

    def minute(self) -> None:
        """Lets a minute pass in which everything works."""
        self.now += MINUTE
        for controller in (self.leader, self.standby):
            controller.paused.set(False)
            controller.set_leader("0", controller is self.leader)
            for finding in FINDINGS:
                controller.set_hub_finding(finding, False)
        for one in OBJECTS:
            self.leader.set_bounds(*one, 1, self.maximum, late=0.05)
            self.leader.set_conflicts(*one, dry_run=False, competitors=0)
            self.leader.record_decision(*one, self.decision(), written=False, seconds=0.1)
            self.leader.watch_success(*one)
            if self.succeeds:
                self.leader.record_success(*one)
        self.rules.executions.labels("applied").inc()
        self.rules.lateness.observe(0.2)
        self.adapter_answers(USAGE, "200")
        self.store.queries.labels("answered").inc()
        self.admission(Review(Verdict(True), raw={"kind": "FederatedHPA"}))
        for _ in range(TICKS):
            self.loop.lag.observe(0.001)

    def decision(self) -> Decision:
        """Returns a decision that keeps the size. A cluster that is absent has that state."""
        clusters = [{"name": "m1"}, *([{"name": "m2", "state": self.absent}] if self.absent else ())]
        return Decision(
            now=self.now,
            current_replicas=self.desired,
            desired_replicas=self.desired,
            rescale=False,
            reason="",
            error=None,
            coverage=Coverage(("m1",), ("m1",), {}, "Hold", bool(self.absent), {}),
            metrics=(),
            steps=(),
            conditions=(),
            events=(),
            status={"clusters": clusters},
            history=History(),
            assignment={},
        )

    def token_issued(self, *, days_ago: float) -> None:
        """The token of the member, which lasts 30 days, was renewed that long ago."""
        life = Life(BEGIN - days_ago * DAY, BEGIN + (30 - days_ago) * DAY)
        self.leader.tokens.show(Token("m1", "fedhpa-system", "fedhpa-member-m1"), life)

    def member_answers(self, *, api: str = USAGE, answered: bool = True, seconds: float = 0.1) -> None:
        """The member answers a request and a probe, or fails to."""
        self.adapter.outcome(USAGE, "m1", True)
        self.adapter.outcome(CUSTOM, "m1", True)
        self.adapter.outcome(api, "m1", answered)
        self.adapter.probed("m1", Probe(answered or api != USAGE, seconds))

    def adapter_answers(self, api: str, code: str, count: int = 1) -> None:
        """The adapter answers requests with a status code."""
        self.adapter._requests.labels(api, "pods", "list", code).inc(count)

    def admission(self, review: Review, count: int = 1) -> None:
        """The webhook answers requests."""
        for _ in range(count):
            self.webhook.paths[VALIDATE_FEDERATEDHPA].count(review)

    def samples(self, names: Collection[str]) -> Iterator[tuple[str, float]]:
        """Yields the series of these names of all processes, as PromQL has them, with their values."""
        for name, registry in self.registries.items():
            if name in self.gone:
                continue
            for family in registry.collect():
                for sample in family.samples:
                    if sample.name in names:
                        labels = {"process": name, **sample.labels}
                        text = ",".join(f'{label}="{value}"' for label, value in labels.items())
                        yield f"{sample.name}{{{text}}}", sample.value


@dataclass(frozen=True)
class Fault:
    """A fault, repeated each minute, and how often each alert must fire for it; no other may."""

    provoke: Callable[[Stage], Any]
    alerts: Mapping[str, int]


def _both(stage: Stage, leads: bool) -> None:
    stage.leader.set_leader("0", leads)
    stage.standby.set_leader("0", leads)


def _without(*processes: str) -> Callable[[Stage], Any]:
    return lambda stage: stage.gone.update(processes)


def _set(**attributes: Any) -> Callable[[Stage], Any]:
    return lambda stage: vars(stage).update(attributes)


def _held_up(stage: Stage) -> None:
    for _ in range(3):
        stage.loop.lag.observe(0.6)


def _not_ours(stage: Stage) -> None:
    stage.succeeds = False
    for one in OBJECTS:
        stage.leader.unwatch_success(*one)


def _held(since: float) -> Callable[[Stage], None]:
    """Shows a hold since a time."""

    def act(stage: Stage) -> None:
        stage.leader._figures(*OBJECT).held_since = since

    return act


def _once(provoke: Callable[[Stage], Any]) -> Callable[[Stage], Any]:
    """The fault occurs once, late enough that its alert still fires at the end."""
    return lambda stage: provoke(stage) if stage.now == LATE else None


_DENIED = Review(Verdict(False, 403, "Forbidden", "wrong"), raw={"kind": "FederatedHPA"})
_MALFORMED = Review(Refused("no JSON").verdict)

_FAULTS: dict[str, tuple[Callable[[Stage], Any], str]] = {
    "nothing is wrong": (lambda _: None, ""),
    "all controllers are gone": (_without("controller-0", "controller-1"), "NoController"),
    "one of two controllers is gone": (_without("controller-1"), ""),
    "nobody leads": (lambda s: _both(s, False), "ShardWithoutLeader"),
    "two lead": (lambda s: _both(s, True), "ShardWithTwoLeaders"),
    "another controller acts": (lambda s: s.leader.set_hub_finding(FINDINGS[2], True), "HubFinding"),
    "no reconcile succeeds": (_set(succeeds=False), "NotReconciled"),
    "an object must not be scaled": (_not_ours, ""),
    "one reconcile raises": (
        _once(lambda s: s.leader.count_failure(*OBJECT, "ReconcileFailed")),
        "ReconcileFailures",
    ),
    "one reconcile times out": (_once(lambda s: s.leader.count_failure(*OBJECT, "ReconcileTimedOut")), ""),
    "one scale is not written": (_once(lambda s: s.leader.members.count_scale_failure("m1")), ""),
    "one status is not written": (_once(lambda s: s.leader.status_failures.inc()), ""),
    "one event is dropped": (_once(lambda s: s.leader.events_dropped.inc()), ""),
    "one caller is limited": (_once(lambda s: s.limits.refused.labels("user").inc()), ""),
    "one token is not reviewed": (
        _once(lambda s: s.callers.authentications.labels(s.callers.ERROR).inc()),
        "",
    ),
    "one query is refused": (_once(lambda s: s.store.queries.labels("refused").inc()), ""),
    "one task raises": (_once(lambda s: s.leader.task_failed("reflector")), "TaskFailures"),
    "a reconcile raises": (lambda s: s.leader.count_failure(*OBJECT, "ReconcileFailed"), "ReconcileFailures"),
    "a reconcile times out": (
        lambda s: s.leader.count_failure(*OBJECT, "ReconcileTimedOut"),
        "ReconcileFailures",
    ),
    "a stored object is invalid": (
        lambda s: s.leader.count_failure(*OBJECT, "InvalidObject"),
        "InvalidObjects",
    ),
    "reconciles are late": (lambda s: s.leader.set_bounds(*OBJECT, 1, 10, late=40.0), "ReconcilesLate"),
    "scales are not written": (lambda s: s.leader.members.count_scale_failure("m1"), "ScaleWriteFailures"),
    "statuses are not written": (lambda s: s.leader.status_failures.inc(), "StatusWriteFailures"),
    "events are dropped": (lambda s: s.leader.events_dropped.inc(), "EventsDropped"),
    "a cluster is missing": (_set(absent="Missing"), "ClusterMissing"),
    "a cluster has no metrics": (_set(absent="MetricsMissing"), "ClusterMissing"),
    "a cluster is lost": (_set(absent="Lost"), "ClusterLost"),
    "a cluster is registered twice": (
        lambda s: s.duplicates.update(m3=SimpleNamespace(same_as="m1")),
        "ClusterDuplicate",
    ),
    "a token is not renewed": (lambda s: s.token_issued(days_ago=23), "TokenExpires"),
    "a token is renewed now": (lambda s: s.token_issued(days_ago=20.5), ""),
    "no more replicas are allowed": (_set(desired=10), "AtMaximum AtMaximum"),
    "the size is fixed": (_set(desired=1, maximum=1), ""),
    "another autoscaler acts": (
        lambda s: s.leader.set_conflicts(*OBJECT, dry_run=False, competitors=1),
        "CompetingAutoscalers",
    ),
    "the controller is paused": (lambda s: s.leader.paused.set(True), "Paused"),
    "a hold is forgotten": (_held(BEGIN - 10 * DAY), "HeldLong"),
    "a hold began today": (_held(BEGIN - DAY / 2), ""),
    "a rule waits for days": (lambda s: s.rules.show(OBJECT, None, BEGIN - 10 * DAY, ()), "CronHeldLong"),
    "a rule fails": (lambda s: s.rules.executions.labels("failed").inc(), "CronRulesFail"),
    "a rule failed once, long ago": (
        lambda s: s.rules.executions.labels("failed").inc() if s.now == 600 else None,
        "",
    ),
    "an execution is missed": (_once(lambda s: s.rules.executions.labels("missed").inc()), "CronFiresLate"),
    "an execution is late": (_once(lambda s: s.rules.lateness.observe(600.0)), "CronFiresLate"),
    "an execution is a little late": (lambda s: s.rules.lateness.observe(20.0), ""),
    "a member fails": (lambda s: s.member_answers(answered=False), "MemberDown"),
    "a member is gone": (lambda s: vars(s.member).update(reason="no connection"), "MemberDown"),
    "a member has no custom metrics": (
        lambda s: s.member_answers(api=CUSTOM, answered=False),
        "MemberApiDown",
    ),
    "a member is slow": (lambda s: s.member_answers(seconds=4.0), "MemberSlow"),
    "the adapter has no answer": (lambda s: s.adapter_answers(USAGE, "503", 3), "AdapterErrors"),
    "a few requests fail": (lambda s: s.adapter_answers(USAGE, "503") if s.now < 300 else None, ""),
    "strangers call the adapter": (lambda s: s.adapter_answers(USAGE, "401", 20), "AdapterRefusesCallers"),
    "tokens cannot be reviewed": (
        lambda s: s.callers.authentications.labels(s.callers.ERROR).inc(),
        "AdapterReviewsFail",
    ),
    "access cannot be reviewed": (
        lambda s: s.callers.authorizations.labels(s.callers.ERROR).inc(),
        "AdapterReviewsFail",
    ),
    "callers are limited": (lambda s: s.limits.refused.labels("user").inc(), "AdapterLimits"),
    "the store is gone": (lambda s: s.store.up.set(0), "StoreDown"),
    "the store refuses a query": (lambda s: s.store.queries.labels("refused").inc(), "StoreQueriesFail"),
    "the store has odd series": (lambda s: s.store.dropped.labels("no_cluster").inc(), "StoreSeriesDropped"),
    "the rules file is invalid": (lambda s: s.store.rules_current.set(0), "RulesInvalid"),
    "the webhook fails": (
        lambda s: s.admission(_DENIED.failed(ZeroDivisionError())),
        "WebhookInternalErrors",
    ),
    "malformed requests": (lambda s: s.admission(_MALFORMED, 3), "WebhookMalformedRequests"),
    "invalid objects": (lambda s: s.admission(_DENIED, 3), "WebhookDenials"),
    "an invalid object now and then": (lambda s: s.admission(_DENIED) if s.now % 300 == 0 else None, ""),
    "the webhook cannot read the hub": (_set(hub_current=False), "WebhookHubStale"),
    "a task of a member raises": (lambda s: s.leader.task_failed("member m1"), "TaskFailures"),
    "a task of the adapter raises": (lambda s: s.adapter.task_failed("member m1"), "TaskFailures"),
    "the process has no more files": (lambda s: s.peers.no_files(), "ConnectionLimits"),
    "a certificate expires": (
        lambda s: vars(s).update(certificate_ends=BEGIN + 6 * DAY),
        "CertificateExpires",
    ),
    "a CA expires": (
        lambda s: s.leader.certificates._expires.labels("ca").set(BEGIN + 89 * DAY),
        "CaExpires",
    ),
    "certificates cannot be kept": (lambda s: s.leader.certificates._failing.set(1), "CertificatesNotKept"),
    "the event loop is held up": (_held_up, "EventLoopBlocked"),
    "the event loop is held up once": (lambda s: _held_up(s) if s.now == 600 else None, ""),
}
FAULTS = {
    name: Fault(provoke, Counter(f"Fedhpa{alert}" for alert in alerts.split()))
    for name, (provoke, alerts) in _FAULTS.items()
}
