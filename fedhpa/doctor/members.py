"""The members: each is followed step by step with the hub's own credentials, up to its first problem."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from shlex import quote
from typing import Final

from fedhpa.api import rights
from fedhpa.api.autoscalers import StoredAutoscaler
from fedhpa.api.cluster_finalizers import own_finalizers
from fedhpa.api.errors import InvalidObject
from fedhpa.api.free_json import entries, text_at, time_at
from fedhpa.api.identity import IDENTITY_PATH, Claim, duplicates_of, valid_uid
from fedhpa.api.member_sources import CLUSTERS
from fedhpa.api.membership import (
    CLUSTER_LABEL,
    METRICS_ANNOTATION,
    RENEWED,
    RENEWED_VALUE,
    SECRET_ANNOTATION,
)
from fedhpa.api.taints import OWN_TAINTS, PROBE_TAINTS
from fedhpa.api.times import parse_time
from fedhpa.api.tokens import life_of
from fedhpa.doctor.certificates import SOON_SECONDS, Certificate, from_bundle
from fedhpa.doctor.hub import MAX_SKEW_SECONDS, skew_text
from fedhpa.doctor.report import DAY_SECONDS, Report, days, names
from fedhpa.doctor.rights import needed, rights_of
from fedhpa.doctor.session import Cause, Problem, Right, Session, date_of
from fedhpa.doctor.site import DIRECT, Site, listed, workloads_of
from fedhpa.kube import ApiClient, Clock, NoCredentials, StaticCredentials, resource_path
from fedhpa.kube.config import ConnectorFactory
from fedhpa.members import (
    METRICS_API,
    NO_LIMITS,
    OWN_REASONS,
    READY,
    Access,
    Cluster,
    Secret,
    api_config,
    metrics_key,
    read_access,
    secret_data,
    secret_key,
)

# Clusters that one run follows, and how many at the same time.
MAX_CLUSTERS: Final = 1_000
MAX_CONCURRENT: Final = 32
# Namespaces whose usage shows if samples are fresh.
MAX_NAMESPACES: Final = 3
# A metrics-server measures every 15 to 60 seconds.
MAX_SAMPLE_AGE_SECONDS: Final = 180.0
# The controller renews a token with a third of its life left, so a renewal is overdue by then.
LEAST_SHARE: Final = 1 / 6
METRICS_SERVER: Final = (
    "https://github.com/kubernetes-sigs/metrics-server/releases/latest/download/components.yaml"
)
HPAS: Final = resource_path("autoscaling/v2", "horizontalpodautoscalers")


class Member:
    """A member that is followed. `session` is None if its API server could not be used."""

    def __init__(self, cluster: Cluster, endpoint: str = "") -> None:
        self.name = cluster.metadata.name
        self.endpoint = endpoint or cluster.spec.apiEndpoint
        self.uid = valid_uid(cluster.spec.id)
        self.report = Report()
        self.session: Session | None = None
        self.autoscalers: Sequence[StoredAutoscaler] | Problem = ()
        self.certificates: list[Certificate] = []

    def add(self, kind: str, what: str, fix: tuple[str, str]) -> None:
        """Adds a finding about this member."""
        self.report.add(kind, self.name, what, *fix)


class Members:
    """Follows the members. The connections stay open until it closes."""

    def __init__(self, site: Site, clock: Clock, connector: ConnectorFactory | None) -> None:
        self._site, self._clock, self._connector = site, clock, connector
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._open = AsyncExitStack()
        self._rights = needed(
            rights_of(rights.member_rights(switches=_switches(site))),
            workloads_of(site.federated, site.crons),
        )

    async def __aenter__(self) -> Members:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def check(self) -> list[Member]:
        """Checks all members. A name that does not count has that finding only."""
        site, clusters = self._site, self._site.clusters
        if CLUSTERS not in site.sources.names or (site.sources.has_foreign and not clusters):
            return []
        if isinstance(clusters, Problem):
            if clusters.cause is not Cause.ABSENT:  # the check of the CRD says so
                site.report.skip("the members", str(clusters))
            return []
        if not clusters:
            advice = "Register one: fedhpa join NAME --cluster-kubeconfig FILE"
            site.report.add("no-members", "clusters", "No Cluster is registered on the hub.", advice=advice)
        if len(clusters) > MAX_CLUSTERS:
            site.report.skip("the members", f"{len(clusters) - MAX_CLUSTERS} Clusters are beyond the limit")
        clusters = clusters[:MAX_CLUSTERS]
        members = await asyncio.gather(*(self._guarded(each) for each in clusters))
        claims = [
            Claim(one.name, one.uid, one.session is not None, cluster.metadata.creationTimestamp or "")
            for one, cluster in zip(members, clusters, strict=True)
        ]
        duplicates = duplicates_of(claims)
        for one, cluster in zip(members, clusters, strict=True):
            if other := duplicates.get(one.name):
                what = f"It is the same cluster as {other}: both have the UID {one.uid}."
                site.report.add("member-duplicate", one.name, what, _removal(site, cluster))
            else:
                site.report.merge(one.report)
            _deletion(site, cluster)
            _taints(site, cluster)
        return [one for one in members if one.name not in duplicates]

    async def _guarded(self, cluster: Cluster) -> Member:
        """Follows one member as far as it goes. Never raises, because a member is nobody else's concern."""
        member = Member(cluster)
        async with self._slots:
            try:
                await self._follow(member, cluster)
            except Exception as error:
                member.add("member-access-invalid", self._site.hub.problem(error).text, self._join(member))
        return member

    async def look_inside(self, cluster: Cluster, access: Access) -> Member:
        """Checks a member that answers and is no Cluster. Adds what it found. Never raises."""
        member = Member(cluster, access.endpoint)
        async with self._slots:
            try:
                member.session = await self._session(member.name, access)
                await self._inside(member, member.session)
            except Exception as error:
                self._site.report.skip(f"the member {member.name}", self._site.hub.problem(error).text)
        self._site.report.merge(member.report)
        return member

    def _join(self, member: Member) -> tuple[str, str]:
        return self._site.commands.join(member.name, member.endpoint)

    async def _follow(self, member: Member, cluster: Cluster) -> None:
        hub, key = self._site.hub, secret_key(cluster)
        annotated = SECRET_ANNOTATION in (cluster.metadata.annotations or {})
        if key is None:
            what = f"The annotation {SECRET_ANNOTATION} is not NAMESPACE/NAME of a Secret."
            unset = "spec.secretRef names no Secret."
            member.add("member-secret-missing", what if annotated else unset, self._join(member))
            return
        shown = "/".join(key)
        secret = await hub.decoded(resource_path("v1", "secrets", *key), Secret)
        if isinstance(secret, Problem):
            if secret.cause is Cause.ABSENT:
                by = f" The annotation {SECRET_ANNOTATION} names it." if annotated else ""
                what = f"The Secret {shown} does not exist.{by}"
                member.add("member-secret-missing", what, self._join(member))
            else:
                member.report.skip(
                    f"the member {member.name}", f"the Secret {shown} cannot be read: {secret}"
                )
            return
        try:
            access = read_access(cluster, secret_data(secret))
            session = await self._session(member.name, access)
        except InvalidObject as error:
            member.add("member-access-invalid", str(error), self._join(member))
            return
        bundle = (secret.data or {}).get("caBundle", "")
        member.certificates = from_bundle(member.name, f"the caBundle of {member.name}", bundle)
        begun = self._clock.wall()
        answer = await session.request("GET", "/readyz")
        middle = (begun + self._clock.wall()) / 2
        foreign = self._foreign(shown, member.name, secret, annotated)
        if isinstance(answer, Problem) and answer.cause is not Cause.FORBIDDEN:
            # The Secret of another cluster has its token and its CA.
            if foreign and answer.cause in (Cause.UNAUTHORIZED, Cause.UNTRUSTED):
                member.add("member-secret-foreign", foreign, self._join(member))
            else:
                self._unreachable(member, access, secret, answer)
            return
        if written := self._written_by_others(cluster):
            member.add("member-not-ready", written, ("", "Ask the controller that wrote the condition."))
            return
        member.session = session
        if foreign:
            member.add("member-secret-foreign", foreign, self._join(member))
        self._token(member, access.token, secret)
        if cluster.metadata.name in self._site.shares_token:
            named = "/".join(metrics_key(cluster) or ()) or f"that the annotation {METRICS_ANNOTATION} names"
            what = f"The Secret {named} does not exist, so the metrics adapter uses {shown}."
            member.add("member-metrics-secret-missing", what, self._join(member))
        date = None if isinstance(answer, Problem) else date_of(answer)
        skew = 0.0 if date is None else date - middle - self._site.skew
        if abs(skew) > MAX_SKEW_SECONDS:
            what = skew_text(f"The clock of {member.name}", "the hub's", skew)
            member.add("member-clock-skew", what, ("", "Synchronize the clocks of both clusters by NTP."))
        await self._inside(member, session)

    async def _inside(self, member: Member, session: Session) -> None:
        """Checks what a member that answers grants and serves."""
        missing, member.autoscalers, usage, version, identity = await asyncio.gather(
            session.lacking(self._rights),
            session.list(HPAS, StoredAutoscaler),
            self._usage(session),
            session.get("/version"),
            session.get(IDENTITY_PATH),
        )
        if isinstance(version, dict):
            self._site.report.versions[member.name] = session.line(text_at(version, "gitVersion"), 64)
        member.uid = valid_uid(text_at(identity, "metadata", "uid")) or member.uid
        if isinstance(missing, Problem):
            member.report.skip(f"the rights in {member.name}", str(missing))
        elif missing:
            what = f"The hub's token may not: {names(missing)}."
            member.add("member-rights-missing", what, await self._grant(member, session))
            if any(each.group == "metrics.k8s.io" and each.verb == "list" for each in missing):
                return  # which explains an error of the metrics
        self._metrics(member, usage)

    async def _grant(self, member: Member, session: Session) -> tuple[str, str]:
        """Returns the command that grants the token its rights, with what it may do already."""
        switches, group = _switches(self._site), "autoscaling"
        writes = await session.allows(Right("create", group, "horizontalpodautoscalers")) is True
        scales = await session.allows(Right("update", "apps", "deployments/scale")) is True
        propagation = DIRECT if scales else switches.propagation
        flag = " --distributed" if writes or switches.distributed else ""
        printed = f"rbac member -n {quote(self._site.system)} --propagation={propagation}{flag}"
        context = self._site.commands.context_of(member.endpoint)
        if context:
            return self._site.commands.applied(printed, context), ""
        return "", f"Run `fedhpa {printed} | kubectl apply -f -` as an administrator of {member.name}."

    async def _session(self, name: str, access: Access) -> Session:
        # A member may take a client certificate alone.
        bearer = f"Bearer {access.token}" if access.token else ""
        credentials = StaticCredentials(bearer) if bearer else NoCredentials()
        config = api_config(name, access, credentials, NO_LIMITS, self._connector)
        seconds = self._site.hub.seconds
        client = await self._open.enter_async_context(ApiClient(config, deadline=seconds))
        return Session(client, seconds, secret=bearer)

    def _written_by_others(self, cluster: Cluster) -> str:
        """Returns what another controller, such as Karmada's, says of a cluster that is not ready."""
        ready = cluster.condition(READY)
        if ready is None or ready.status == "True" or ready.reason in OWN_REASONS:
            return ""
        return f"Its condition Ready is {ready.status}: {ready.reason} {ready.message}"

    @staticmethod
    def _foreign(shown: str, name: str, secret: Secret, annotated: bool) -> str:
        """Returns why a Secret is not that of this Cluster; "" if it is."""
        owner = (secret.metadata.labels or {}).get(CLUSTER_LABEL, "")
        if owner and owner != name:
            return f"The label of the Secret {shown} names the Cluster {owner}."
        if annotated and not owner:
            return f"The annotation {SECRET_ANNOTATION} names {shown}, which fedhpa join did not write."
        return ""

    def _unreachable(self, member: Member, access: Access, secret: Secret, problem: Problem) -> None:
        what = f"{access.endpoint}: {problem.text}"
        life = life_of(access.token, secret.metadata.annotations or {})
        server = f"the API server of {member.name}"
        away = "member-unreachable", ("", f"Start {server}, or correct spec.apiEndpoint of the Cluster.")
        kind, fix = {
            Cause.UNREACHABLE: away,
            Cause.TIMEOUT: away,
            Cause.UNTRUSTED: ("member-certificate", self._join(member)),
            Cause.UNAUTHORIZED: ("member-token-refused", self._join(member)),
        }.get(problem.cause, ("member-not-ready", ("", f"Look into the log of {server}.")))
        if kind == "member-certificate" and "expired" in problem.text:
            fix = ("", f"Renew the certificate of {server}.")
        if kind == "member-token-refused" and life is not None and life.expires <= self._site.now:
            what += f" (the token expired {days(self._site.now - life.expires)} ago)"
        member.add(kind, what, fix)

    def _token(self, member: Member, token: str, secret: Secret) -> None:
        life = life_of(token, secret.metadata.annotations or {})
        if life is None:
            return
        is_renewed = (secret.metadata.labels or {}).get(RENEWED) == RENEWED_VALUE
        left = life.expires - self._site.now
        soon = min(SOON_SECONDS, LEAST_SHARE * (life.expires - life.issued))
        if left > (soon if is_renewed else max(soon, DAY_SECONDS)):
            return
        # The member accepts the token although it has expired, so the clocks differ.
        ends = f"The token expires in {days(left)}" if left > 0 else f"The token expired {days(-left)} ago"
        nobody = "the controller has not renewed it: events of the Cluster say why"
        by = nobody if is_renewed else "nobody renews it"
        member.add("member-token-expires", f"{ends}, and {by}.", self._join(member))

    async def _usage(self, session: Session) -> float | Problem | None:
        """Returns the age of the newest usage by the member's own clock, in seconds; None without usage."""
        objects = listed(self._site.federated)
        spaces = list(dict.fromkeys(text_at(each, "metadata", "namespace") for each in objects))
        paths = [resource_path(METRICS_API, "pods", each) for each in spaces[:MAX_NAMESPACES]]
        paths.append(resource_path(METRICS_API, "nodes"))
        ages: list[float] = []
        for found, now in await asyncio.gather(*map(session.dated, paths)):
            if isinstance(found, Problem):
                return found
            times = [time_at(each, "timestamp") for each in entries(found, "items")]
            ages += [now - each for each in times if each is not None and now is not None]
        return min(ages, default=None)

    def _metrics(self, member: Member, usage: float | Problem | None) -> None:
        context = self._site.commands.context_of(member.endpoint)
        restart = f"restart the metrics-server of {member.name}, or look into its log."
        fix = ("", restart.capitalize())
        if context:
            words = "-n kube-system rollout restart deployment metrics-server"
            fix = (self._site.commands.kubectl(words, context), "")
        if isinstance(usage, Problem) and usage.cause is Cause.ABSENT:
            apply = f"apply -f {METRICS_SERVER}"
            fix = (
                (self._site.commands.kubectl(apply, context), "")
                if context
                else ("", f"Run kubectl {apply} there.")
            )
            what = "metrics.k8s.io is not served: no metrics-server is installed."
            member.add("member-metrics-not-served", what, fix)
        elif isinstance(usage, Problem):
            member.add("member-metrics-failing", f"metrics.k8s.io: {usage.text}", fix)
        elif usage is not None and usage > MAX_SAMPLE_AGE_SECONDS:
            member.add("member-metrics-stale", f"The newest usage is {usage:.0f} s old.", fix)


def _switches(site: Site) -> rights.Switches:
    """Returns the switches of the rights that the hub's tokens need in members."""
    # Without any decision nobody knows if the controller writes there.
    found = site.switches
    return found if site.propagation == DIRECT else rights.Switches("karmada")


def _deletion(site: Site, cluster: Cluster) -> None:
    """Adds a finding about a deleted Cluster that our finalizers keep."""
    try:
        deleted = parse_time(cluster.metadata.deletionTimestamp)
    except InvalidObject:
        return
    if deleted is not None and own_finalizers(cluster.metadata.finalizers):
        name, ago = cluster.metadata.name, f"{max(site.now - deleted, 0.0):.0f} s ago"
        what = f"It was deleted {ago}, and waits for its replicas to move, at most an hour."
        site.report.add("member-not-deleted", name, what, _removal(site, cluster))


def _removal(site: Site, cluster: Cluster) -> str:
    """Returns the command that removes a Cluster, which `fedhpa unjoin` does only for what join made."""
    name = cluster.metadata.name
    if (cluster.metadata.labels or {}).get(CLUSTER_LABEL) == name:
        return site.commands.fedhpa(f"unjoin {quote(name)}")
    finalizers = cluster.metadata.finalizers or ()
    kept = [each for each in finalizers if each not in own_finalizers(finalizers)]
    patch = quote(json.dumps({"metadata": {"finalizers": kept}}))
    freed = site.commands.kubectl(f"patch cluster {quote(name)} --type=merge -p {patch}")
    deleted = site.commands.kubectl(f"delete cluster {quote(name)}")
    return freed if cluster.metadata.deletionTimestamp else deleted


def _taints(site: Site, cluster: Cluster) -> None:
    """Adds a finding about the taints of a Cluster. A taint that a probe sets has another finding."""
    name = cluster.metadata.name
    taints = [
        (place, taint)
        for place, taint in enumerate(cluster.spec.taints or ())
        if taint.key not in PROBE_TAINTS
    ]
    if not taints:
        return
    command = site.commands.fedhpa(f"uncordon {quote(name)}")
    if not {taint.key for _, taint in taints} <= OWN_TAINTS:
        # The last one first, because each removal moves those behind it.
        steps = [
            step
            for place, taint in reversed(taints)
            for step in (
                {"op": "test", "path": f"/spec/taints/{place}/key", "value": taint.key},
                {"op": "remove", "path": f"/spec/taints/{place}"},
            )
        ]
        words = f"patch cluster {quote(name)} --type=json -p {quote(json.dumps(steps))}"
        command = site.commands.kubectl(words)
    what = f"It has the taints {names(f'{taint.key} ({taint.effect})' for _, taint in taints)}."
    site.report.add("member-tainted", name, what, command)
