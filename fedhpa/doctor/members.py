"""The members: each is followed step by step with the hub's own credentials, up to its first problem.

Those that ClusterProfiles or Argo CD register are reached as the processes reach them.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Final

from fedhpa.api import membership, rights
from fedhpa.api.autoscalers import StoredAutoscaler
from fedhpa.api.cluster_finalizers import own_finalizers
from fedhpa.api.errors import FedHPAError, InvalidObject
from fedhpa.api.free_json import entries, text_at, time_at
from fedhpa.api.identity import IDENTITY_PATH, Claim, duplicates_of, valid_uid
from fedhpa.api.member_sources import CLUSTER_PROFILES, CLUSTERS
from fedhpa.api.taints import OWN_TAINTS, PROBE_TAINTS
from fedhpa.api.times import parse_time
from fedhpa.api.tokens import life_of
from fedhpa.doctor.certificates import SOON_SECONDS, Certificate, from_bundle
from fedhpa.doctor.hub import MAX_SKEW_SECONDS, needed, skew_text
from fedhpa.doctor.report import DAY_SECONDS, expiry, names, removals
from fedhpa.doctor.session import Cause, Items, Problem, Right, Session, date_of
from fedhpa.doctor.site import DIRECT, Site
from fedhpa.kube import ApiClient, Clock, NoCredentials, StaticCredentials, resource_path
from fedhpa.kube.config import ConnectorFactory
from fedhpa.members import (
    METRICS_API,
    OWN_REASONS,
    READY,
    Access,
    Cluster,
    ForeignCluster,
    MemberRegistry,
    Secret,
    api_config,
    metrics_key,
    read_access,
    read_providers,
    secret_data,
    secret_key,
)
from fedhpa.members import Member as Registered

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
# A plugin has ten seconds, and four run at once.
SYNC_SECONDS: Final = 20.0
LOOK_SECONDS: Final = 0.1


class Member:
    """A member that is followed. `session` is None if its API server could not be used.

    `again` is the command that registers it again, or the advice.
    """

    def __init__(self, cluster: Cluster, site: Site, endpoint: str = "") -> None:
        self.cluster, self.name = cluster, cluster.metadata.name
        endpoint = endpoint or cluster.spec.apiEndpoint
        self.again, self.context = site.commands.join(self.name, endpoint), site.commands.context_of(endpoint)
        self.uid = valid_uid(cluster.spec.id)
        self.session: Session | None = None
        self.autoscalers: Items[StoredAutoscaler] = Items()
        self.certificates: list[Certificate] = []


class Members:
    """Follows the members. The connections stay open until it closes."""

    def __init__(self, site: Site, clock: Clock, connector: ConnectorFactory | None) -> None:
        self._site, self._clock, self._connector = site, clock, connector
        self._slots = asyncio.Semaphore(MAX_CONCURRENT)
        self._open = AsyncExitStack()
        # Without any decision nobody knows if the controller writes there.
        self._switches = site.switches if site.propagation == DIRECT else rights.Switches("karmada")
        self._rights = needed(rights.member_rights(switches=self._switches), site.workloads)

    async def __aenter__(self) -> Members:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def check(self) -> list[Member]:
        """Checks all members. A name that does not count has that finding only."""
        site, clusters = self._site, self._site.clusters
        if CLUSTERS not in site.sources.names or (site.sources.has_foreign and not clusters):
            return []
        if clusters.problem:
            if clusters.problem.cause is not Cause.ABSENT:  # the check of the CRD says so
                site.skip("the members", clusters.problem)
            return []
        if not clusters:
            site.add("no-members", "clusters")
        if len(clusters) > MAX_CLUSTERS:
            site.skip("the members", f"{len(clusters) - MAX_CLUSTERS} Clusters are beyond the limit")
        members = await asyncio.gather(*map(self._guarded, clusters[:MAX_CLUSTERS]))
        claims = [
            Claim(one.name, one.uid, one.session is not None, one.cluster.metadata.creationTimestamp or "")
            for one in members
        ]
        duplicates = duplicates_of(claims)
        for one in members:
            if other := duplicates.get(one.name):
                site.report.forget(one.name)
                site.add("member-duplicate", one.name, _removal(site, one.cluster), other=other, uid=one.uid)
            _check_cluster(site, one.cluster)
        return [one for one in members if one.name not in duplicates]

    async def _guarded(self, cluster: Cluster) -> Member:
        """Follows one member as far as it goes. Never raises, because a member is nobody else's concern."""
        member, site = Member(cluster, self._site), self._site
        async with self._slots:
            try:
                await self._follow(member)
            except Exception as error:
                site.add(
                    "member-access-invalid", member.name, member.again, what=site.hub.problem(error).text
                )
        return member

    async def look_inside(self, cluster: Cluster, access: Access) -> Member:
        """Checks a member that answers and is no Cluster. Adds what it found. Never raises."""
        member = Member(cluster, self._site, access.endpoint)
        async with self._slots:
            try:
                member.session = await self._session(member.name, access)
                await self._inside(member, member.session)
            except Exception as error:
                self._site.skip(f"the member {member.name}", self._site.hub.problem(error).text)
        return member

    async def _follow(self, member: Member) -> None:
        site, name, cluster, again = self._site, member.name, member.cluster, member.again
        hub, key = site.hub, secret_key(cluster)
        is_annotated = membership.SECRET_ANNOTATION in (cluster.metadata.annotations or {})
        by = f"The annotation {membership.SECRET_ANNOTATION}" if is_annotated else ""
        if key is None:
            what = f"{by} is not NAMESPACE/NAME of a Secret." if by else "spec.secretRef names no Secret."
            site.add("member-secret-missing", name, again, what=what)
            return
        shown, path = "/".join(key), resource_path("v1", "secrets", *key)
        secret = await hub.guarded(lambda: hub.client.get(path, Secret, kind="", deadline=hub.seconds))
        if isinstance(secret, Problem):
            if secret.cause is Cause.ABSENT:
                what = f"The Secret {shown} does not exist." + (f" {by} names it." if by else "")
                site.add("member-secret-missing", name, again, what=what)
            else:
                site.skip(f"the member {name}", f"the Secret {shown} cannot be read: {secret}")
            return
        access = read_access(cluster, secret_data(secret))
        session = await self._session(name, access)
        bundle = (secret.data or {}).get("caBundle", "")
        member.certificates = from_bundle(name, f"the caBundle of {name}", bundle)
        answer, skew = await session.timed("/readyz", self._clock)
        owner = (secret.metadata.labels or {}).get(membership.CLUSTER_LABEL, "")
        foreign = f"{by} names {shown}, which fedhpa join did not write." if by and not owner else ""
        if owner not in ("", name):
            foreign = f"The label of the Secret {shown} names the Cluster {owner}."
        # The Secret of another cluster has its token and its CA.
        problem = answer if isinstance(answer, Problem) and answer.cause is not Cause.FORBIDDEN else None
        if foreign and (problem is None or problem.cause in (Cause.UNAUTHORIZED, Cause.UNTRUSTED)):
            site.add("member-secret-foreign", name, again, what=foreign)
        elif problem is not None:
            self._unreachable(member, access, secret, problem)
        if problem is not None:
            return
        ready = cluster.condition(READY)
        if ready is not None and ready.status != "True" and ready.reason not in OWN_REASONS:
            what = f"Its condition Ready is {ready.status}: {ready.reason} {ready.message}"
            site.add("member-not-ready", name, "Ask the controller that wrote the condition.", what=what)
            return
        member.session = session
        self._token(member, access.token, secret)
        if name in site.shares_token:
            unread = f"that the annotation {membership.METRICS_ANNOTATION} names"
            named = "/".join(metrics_key(cluster) or ()) or unread
            site.add("member-metrics-secret-missing", name, again, named=named, used=shown)
        if skew and abs(skew - site.skew) > MAX_SKEW_SECONDS:
            site.add("member-clock-skew", name, skew=skew_text(skew - site.skew))
        await self._inside(member, session)

    async def _inside(self, member: Member, session: Session) -> None:
        """Checks what a member that answers grants and serves."""
        site, name = self._site, member.name
        missing, member.autoscalers, usage, version, identity = await asyncio.gather(
            session.lacking(self._rights),
            session.list(HPAS, StoredAutoscaler),
            self._usage(session),
            session.get("/version"),
            session.get(IDENTITY_PATH),
        )
        if not isinstance(version, Problem):
            site.report.versions[name] = session.line(text_at(version, "gitVersion"), 64)
        member.uid = valid_uid(text_at(identity, "metadata", "uid")) or member.uid
        if isinstance(missing, Problem):
            site.skip(f"the rights in {name}", missing)
        elif missing:
            site.add("member-rights-missing", name, await self._grant(member, session), rights=names(missing))
            if any(each.group == "metrics.k8s.io" and each.verb == "list" for each in missing):
                return  # which explains an error of the metrics
        words = "-n kube-system rollout restart deployment metrics-server"
        advice = f"Restart the metrics-server of {name}, or look into its log."
        if isinstance(usage, Problem) and usage.cause is Cause.ABSENT:
            kind, words = "not-served", f"apply -f {METRICS_SERVER}"
            advice = f"Run kubectl {words} there."
        elif isinstance(usage, Problem):
            kind = "failing"
        elif usage is not None and usage > MAX_SAMPLE_AGE_SECONDS:
            kind = "stale"
        else:
            return
        fix = site.commands.kubectl(words, member=member.context) if member.context else advice
        seconds = usage if isinstance(usage, float) else 0.0
        site.add(f"member-metrics-{kind}", name, fix, problem=usage, seconds=f"{seconds:.0f}")

    async def _grant(self, member: Member, session: Session) -> str:
        """Returns the command that grants the token its rights, with what it may do already."""
        writes = Right("create", "autoscaling", "horizontalpodautoscalers")
        scales = Right("update", "apps", "deployments/scale")
        lacks = await session.lacking([writes, scales])
        granted = {writes, scales} - {*(lacks if isinstance(lacks, tuple) else (writes, scales))}
        propagation = DIRECT if scales in granted else self._switches.propagation
        flag = " --distributed" if writes in granted or self._switches.distributed else ""
        printed = f"rbac member -n {self._site.system} --propagation={propagation}{flag}"
        if member.context:
            return self._site.commands.applied(printed, member.context)
        return f"Run `fedhpa {printed} | kubectl apply -f -` as an administrator of {member.name}."

    async def _session(self, name: str, access: Access) -> Session:
        # A member may take a client certificate alone.
        secret, seconds = f"Bearer {access.token}" if access.token else "", self._site.hub.seconds
        credentials = StaticCredentials(secret) if secret else NoCredentials()
        config = api_config(name, access, credentials, self._connector)
        client = await self._open.enter_async_context(ApiClient(config, deadline=seconds))
        return Session(client, seconds, secret=secret)

    def _unreachable(self, member: Member, access: Access, secret: Secret, problem: Problem) -> None:
        what, life = f"{access.endpoint}: {problem}", life_of(access.token, secret.metadata.annotations or {})
        kind, fix = "member-not-ready", ""
        if problem.cause in (Cause.UNREACHABLE, Cause.TIMEOUT):
            kind = "member-unreachable"
        elif problem.cause is Cause.UNTRUSTED:
            renew = f"Renew the certificate of the API server of {member.name}."
            kind, fix = "member-certificate", renew if "expired" in what else member.again
        elif problem.cause is Cause.UNAUTHORIZED:
            kind, fix = "member-token-refused", member.again
            if life is not None and life.expires <= self._site.now:
                what += f" (the token {expiry(life.expires - self._site.now)})"
        self._site.add(kind, member.name, fix, what=what)

    def _token(self, member: Member, token: str, secret: Secret) -> None:
        life = life_of(token, secret.metadata.annotations or {})
        if life is None:
            return
        is_renewed = (secret.metadata.labels or {}).get(membership.RENEWED) == membership.RENEWED_VALUE
        left = life.expires - self._site.now
        soon = min(SOON_SECONDS, LEAST_SHARE * (life.expires - life.issued))
        if left <= (soon if is_renewed else max(soon, DAY_SECONDS)):
            # The member accepts the token although it may have expired, if the clocks differ.
            unrenewed = "the controller has not renewed it: events of the Cluster say why"
            facts = {"expires": expiry(left), "renewal": unrenewed if is_renewed else "nobody renews it"}
            self._site.add("member-token-expires", member.name, member.again, **facts)

    async def _usage(self, session: Session) -> float | Problem | None:
        """Returns the age of the newest usage by the member's own clock, in seconds; None without usage."""
        federated = self._site.lists["federatedhpas"]
        spaces = list(dict.fromkeys(text_at(one, "metadata", "namespace") for one in federated))
        paths = [resource_path(METRICS_API, "pods", each) for each in spaces[:MAX_NAMESPACES]]
        paths.append(resource_path(METRICS_API, "nodes"))
        ages: list[float] = []
        for answer in await asyncio.gather(*(session.request("GET", each) for each in paths)):
            found, now = session.json(answer), date_of(answer)
            if isinstance(found, Problem):
                return found
            times = [time_at(each, "timestamp") for each in entries(found, "items")]
            ages += [now - each for each in times if each is not None and now is not None]
        return min(ages, default=None)


def _check_cluster(site: Site, cluster: Cluster) -> None:
    """Adds findings about a deleted Cluster that our finalizers keep, and about taints.

    A taint that a probe sets has another finding.
    """
    name = cluster.metadata.name
    try:
        deleted = parse_time(cluster.metadata.deletionTimestamp)
    except InvalidObject:
        deleted = None
    if deleted is not None and own_finalizers(cluster.metadata.finalizers):
        seconds = f"{max(site.now - deleted, 0.0):.0f}"
        site.add("member-not-deleted", name, _removal(site, cluster), seconds=seconds)
    every = enumerate(cluster.spec.taints or ())
    taints = [(place, one.key, one.effect) for place, one in every if one.key not in PROBE_TAINTS]
    if not taints:
        return
    command = site.commands.fedhpa("uncordon {}", name)
    if not {key for _, key, _ in taints} <= OWN_TAINTS:
        steps = removals("/spec/taints", "key", [(place, key) for place, key, _ in taints])
        command = site.commands.patched("patch cluster {}", name, patch=steps)
    site.add("member-tainted", name, command, taints=names(f"{key} ({effect})" for _, key, effect in taints))


def _removal(site: Site, cluster: Cluster) -> str:
    """Returns the command that removes a Cluster, which `fedhpa unjoin` does only for what join made."""
    name = cluster.metadata.name
    if (cluster.metadata.labels or {}).get(membership.CLUSTER_LABEL) == name:
        return site.commands.fedhpa("unjoin {}", name)
    if not cluster.metadata.deletionTimestamp:
        return site.commands.kubectl("delete cluster {}", name)
    finalizers = cluster.metadata.finalizers or ()
    kept = [each for each in finalizers if each not in own_finalizers(finalizers)]
    return site.commands.patched("patch cluster {}", name, patch={"metadata": {"finalizers": kept}})


async def check_fleet(site: Site, clock: Clock, members: Members) -> list[Member]:
    """Checks the members that are no Clusters, and returns those that answer.

    Plugins run with the caller's environment, so the rights are those of the caller's credentials.
    """
    if not site.sources.has_foreign:
        return []
    with suppress(FedHPAError):  # the registry says why
        is_read = CLUSTER_PROFILES in site.sources.names
        for provider in read_providers(site.sources.provider_file) if is_read else ():
            if not provider.servers:
                site.add("provider-any-server", provider.name)
    try:
        registry = MemberRegistry(
            site.hub.client, deadline=site.hub.seconds, sources=site.sources, clock=clock
        )
    except FedHPAError as error:
        site.skip("the members from other sources", str(error))
        return []
    task = asyncio.create_task(registry.run())
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(SYNC_SECONDS):
                # Readiness depends on deadlines, for which there is no event.
                while not (  # noqa: ASYNC110
                    registry.synced() and all(map(_is_told, registry.registered.values()))
                ):
                    await asyncio.sleep(LOOK_SECONDS)
        if registry.unlisted is not None:
            site.skip("the members from other sources", registry.unlisted)
        followed = []
        for name, member in sorted(registry.registered.items()):
            cluster = member.cluster
            if not isinstance(cluster, ForeignCluster) or member.same_as:
                continue
            _report(site, name, member, cluster)
            # One that may be read in some namespaces only lacks the other rights on purpose.
            if member.ready and member.access is not None and not cluster.namespaces:
                followed.append(members.look_inside(cluster, member.access))
        return await asyncio.gather(*followed)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _is_told(member: Registered) -> bool:
    """True once the member is ready, or there is a reason that says more than that it was not asked yet."""
    return member.ready or (member.settled and member.state.message != "not asked yet")


def _report(site: Site, name: str, member: Registered, cluster: ForeignCluster) -> None:
    report, origin, sources = site.report, cluster.source, site.sources
    report.counts["members"] = report.counts.get("members", 0) + 1
    where = f"{origin.kind} {origin.namespace}/{origin.name}"
    version = site.hub.line(cluster.status.kubernetesVersion, 64)
    report.versions |= {name: version} if version else {}
    report.members[name] = {"source": where, "version": version, "properties": dict(cluster.properties)}
    if not member.ready:
        message = member.state.message
        waits = "fedhpa join --accept" in message
        fix = site.commands.fedhpa("join {} --accept -n {}", name, sources.namespace) if waits else ""
        site.add("member-source-unusable", name, fix, source=where, problem=message)
    if cluster.health:
        site.add("member-control-plane-unhealthy", name, source=where, problem=cluster.health)
