"""The facts that all topics need: the lists of an installation, its owner, and the caller's commands."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any, Final

from fedhpa.api import rights
from fedhpa.api.autoscalers import StoredAutoscaler
from fedhpa.api.federatedhpa import API_VERSION
from fedhpa.api.free_json import Json, at, entries, text_at
from fedhpa.api.member_sources import ONLY_CLUSTERS, MemberSources
from fedhpa.doctor.report import Commands, Report
from fedhpa.doctor.session import Cause, Problem, Session
from fedhpa.kube import resource_path
from fedhpa.kube.leases import API_VERSION as LEASES
from fedhpa.members import CLUSTERS_PATH, Cluster, metrics_key, secret_key
from metrics_adapter.registration import APIS

DIRECT, KARMADA = "direct", "karmada"
CHART: Final = "charts/fedhpa"
# A controller outside a pod keeps its Leases here.
KUBE_SYSTEM: Final = "kube-system"
REGISTRATION: Final = "admissionregistration.k8s.io/v1"
CRDS: Final = ("apiextensions.k8s.io/v1", "customresourcedefinitions")
RBAC: Final = "rbac.authorization.k8s.io/v1"
FEDERATED, CRONS = "federatedhpas", "cronfederatedhpas"
MANAGES: Final = "--manage-certificates"
_RELEASE: Final = "meta.helm.sh/release-name"
_RELEASE_NAMESPACE: Final = "meta.helm.sh/release-namespace"


class Site:
    """An installation on a hub, as far as the caller may see it. A list that could not be read is a Problem.

    `system` is the namespace of the installation, `only` the one to which the caller limits the checks.
    `shares_token` has the Clusters whose member the metrics adapter reads with the controller's token.
    `now` is the hub's time in POSIX seconds, and `skew` the hub's clock minus ours.
    """

    clusters: Sequence[Cluster] | Problem
    federated: Sequence[Json] | Problem
    crons: Sequence[Json] | Problem
    autoscalers: Sequence[StoredAutoscaler] | Problem
    leases: Sequence[Json] | Problem = ()
    validating: Sequence[Json] | Problem = ()
    mutating: Sequence[Json] | Problem = ()
    apis: Sequence[Json] | Problem = ()
    deployments: Mapping[str, Json]
    definitions: Mapping[str, Json | Problem]
    bindings: Mapping[str, Json | Problem]

    def __init__(
        self,
        hub: Session,
        report: Report,
        commands: Commands,
        now: float,
        skew: float,
        only: str,
        sources: MemberSources = ONLY_CLUSTERS,
    ) -> None:
        self.hub, self.report, self.commands = hub, report, commands
        self.now, self.skew, self.only = now, skew, only
        self.sources = sources
        self.system = rights.NAMESPACE
        self.deployments, self.definitions, self.bindings = {}, {}, {}
        self.shares_token: set[str] = set()

    async def read_objects(self) -> None:
        """Reads the objects of our kinds, and the autoscalers beside them."""
        hub = self.hub
        self.federated, self.crons, self.autoscalers = await asyncio.gather(
            hub.list(resource_path(API_VERSION, FEDERATED, self.only), Json),
            hub.list(resource_path(API_VERSION, CRONS, self.only), Json),
            hub.list(
                resource_path("autoscaling/v2", "horizontalpodautoscalers", self.only), StoredAutoscaler
            ),
        )

    async def read(self, system: str) -> None:
        """Reads everything else. `system` is the namespace of the installation; "" looks for it."""
        hub = self.hub
        names = ("federatedhpas.autoscaling.karmada.io", "cronfederatedhpas.autoscaling.karmada.io")
        roles = (rights.CONTROLLER_ROLE, rights.ADAPTER_ROLE, rights.WEBHOOK_ROLE)
        lists, crds, bindings, self.clusters = await asyncio.gather(
            asyncio.gather(
                hub.list(resource_path(REGISTRATION, "validatingwebhookconfigurations"), Json),
                hub.list(resource_path(REGISTRATION, "mutatingwebhookconfigurations"), Json),
                hub.list(resource_path("apiregistration.k8s.io/v1", "apiservices"), Json),
                hub.list(resource_path(LEASES, "leases"), Json),
            ),
            self._named(CRDS, (*names, "clusters.cluster.karmada.io")),
            self._named((RBAC, "clusterrolebindings"), roles),
            hub.list(CLUSTERS_PATH, Cluster),
        )
        self.validating, self.mutating, self.apis, self.leases = lists
        self.definitions, self.bindings = crds, bindings
        self.system = system or self._found_system() or rights.NAMESPACE
        if isinstance(self.leases, Problem):
            found = await asyncio.gather(
                *(
                    hub.list(resource_path(LEASES, "leases", each), Json)
                    for each in (self.system, KUBE_SYSTEM)
                )
            )
            readable = [each for each in found if not isinstance(each, Problem)]
            self.leases = [lease for each in readable for lease in each] if readable else self.leases
        running = await hub.list(resource_path("apps/v1", "deployments", self.system), Json)
        if not isinstance(running, Problem):
            self.deployments = {text_at(each, "metadata", "name"): each for each in running}
        await self._find_metrics_secrets()

    async def _named(self, resource: tuple[str, str], found: Sequence[str]) -> dict[str, Json | Problem]:
        answers = await asyncio.gather(*(self.hub.get(resource_path(*resource, name=name)) for name in found))
        return dict(zip(found, answers, strict=True))

    def _found_system(self) -> str:
        """Returns the namespace of the account that the controller's binding names; "" without one."""
        binding = self.bindings[rights.CONTROLLER_ROLE]
        subjects = [] if isinstance(binding, Problem) else entries(binding, "subjects")
        return next((text_at(each, "namespace") for each in subjects if each.get("namespace")), "")

    @property
    def manages_certificates(self) -> bool:
        """True if the controller issues and publishes our certificates."""
        return bool({MANAGES, f"{MANAGES}=true"} & set(self.flags(rights.CONTROLLER)))

    def flags(self, deployment: str) -> list[str]:
        """Returns the arguments of a Deployment's containers; none if it cannot be seen."""
        containers = entries(self.deployments.get(deployment), "spec", "template", "spec", "containers")
        return [flag for one in containers for flag in (one.get("args") or ()) if isinstance(flag, str)]

    @property
    def propagation(self) -> str:
        """The controller's flag, or that of most decisions; "" if neither can be seen."""
        for flag in self.flags(rights.CONTROLLER):
            if flag.startswith("--propagation="):
                return flag.partition("=")[2]
        if isinstance(self.federated, Problem):
            return ""
        counts = Counter(filter(None, map(propagation_of, self.federated)))
        return counts.most_common(1)[0][0] if counts else ""

    @property
    def switches(self) -> rights.Switches:
        """The observed settings that decide about the rights."""
        federated = () if isinstance(self.federated, Problem) else self.federated
        by_hub = "--metrics-via=hub" in self.flags(rights.CONTROLLER)
        ours = {text_at(each, "spec", "group") for each in self.our_apis}
        return rights.Switches(
            "karmada" if self.propagation == KARMADA else "direct",
            "hub" if by_hub else "members",
            certificates=self.manages_certificates,
            distributed=any(at(each, "spec", "mode") == "Distributed" for each in federated),
            placements=any(map(_uses_placements, federated)),
            publish_to_argocd="--publish-to=argocd" in self.flags(rights.CONTROLLER),
            sources=self.sources,
            apis=frozenset(name for name, group in APIS.items() if group in ours),
        )

    @property
    def argocd_namespace(self) -> str:
        """The namespace of Argo CD, by the controller's flag."""
        flags = [flag for flag in self.flags(rights.CONTROLLER) if flag.startswith("--argocd-namespace=")]
        return flags[-1].partition("=")[2] if flags else rights.ARGOCD_NAMESPACE

    @property
    def our_apis(self) -> list[Json]:
        """The APIServices of our adapter."""
        service = f"{self.system}/{rights.ADAPTER}"
        return [each for each in listed(self.apis) if service_of(each) == service]

    @property
    def has_adapter(self) -> bool:
        """True if the rights or the pods of the metrics adapter are here."""
        return isinstance(self.bindings[rights.ADAPTER_ROLE], dict) or rights.ADAPTER in self.deployments

    async def _find_metrics_secrets(self) -> None:
        """Finds the members without a Secret for the adapter, which then takes that of the controller."""
        clusters = () if isinstance(self.clusters, Problem) or not self.has_adapter else self.clusters
        keys = {each.metadata.name: key for each in clusters if (key := metrics_key(each)) is not None}
        answers = await asyncio.gather(
            *(self.hub.get(resource_path("v1", "secrets", *key)) for key in keys.values())
        )
        self.shares_token = {
            name
            for name, answer in zip(keys, answers, strict=True)
            if isinstance(answer, Problem) and answer.cause is Cause.ABSENT
        } | {each.metadata.name for each in clusters if each.metadata.name not in keys}

    def secrets(self, component: str) -> dict[str, list[str]]:
        """Returns the names of the Secrets of all Clusters that a component reads, by namespace."""
        found: dict[str, list[str]] = {}
        clusters = () if isinstance(self.clusters, Problem) else self.clusters
        keys = (
            metrics_key(each)
            if component == rights.ADAPTER and each.metadata.name not in self.shares_token
            else secret_key(each)
            for each in clusters
        )
        for namespace, name in sorted(filter(None, keys)):
            found.setdefault(namespace, []).append(name)
        return found

    def is_installed(self) -> bool:
        """False if it is certain that the hub has neither kinds nor registrations nor processes of ours."""
        registered = [*listed(self.validating), *listed(self.mutating)]
        seen = [*self.definitions.values(), *self.bindings.values()]
        return (
            isinstance(self.validating, Problem)
            or not all(isinstance(each, Problem) and each.cause is Cause.ABSENT for each in seen)
            or any(text_at(each, "metadata", "name") == rights.WEBHOOK for each in registered)
            or bool(self.deployments)
        )

    def mended(self, stored: Json | Problem | None, command: str, sets: str = "") -> str:
        """Returns the command that mends an object: `command`, or `helm upgrade` if Helm owns the object.

        The owner of an object that is not there is that of the others. `sets` are further options of helm.
        """
        owners = [stored] if isinstance(stored, dict) else self._owned()
        for raw in owners:
            notes = at(raw, "metadata", "annotations")
            if release := text_at(notes, _RELEASE):
                place = f"-n {quote(text_at(notes, _RELEASE_NAMESPACE))}"
                # Helm 4 applies on the server, which refuses to undo other writes. Helm 3 lacks the flag.
                applies = any(_is_applied(each) for each in (raw, *self._owned()))
                sets += " --force-conflicts" if applies else ""
                words = f"upgrade {quote(release)} {CHART} {place} --reset-then-reuse-values{sets}"
                return self.commands.helm(words)
        return command

    def _owned(self) -> list[Any]:
        named = [*self.deployments.values(), *self.definitions.values(), *self.bindings.values()]
        return [*named, *listed(self.validating), *listed(self.mutating)]

    def revived(self, name: str) -> tuple[str, str]:
        """Returns the command that starts a process of ours anew, or the advice where it is no pod here."""
        deployment = self.deployments.get(name)
        if deployment is None:
            return (
                "",
                f"Start {name}, or look into its log. It does not run as a Deployment in {self.system}.",
            )
        place = f"-n {quote(self.system)}"
        if at(deployment, "spec", "replicas") == 0:
            return self.commands.kubectl(f"{place} scale deployment {name} --replicas=2"), ""
        return self.commands.kubectl(f"{place} rollout restart deployment {name}"), ""

    async def ca_of(self, server: str) -> str:
        """Returns the command that prints the CA of a server of ours in base64; "" if it is unknown."""
        secret = await self.hub.get(resource_path("v1", "secrets", self.system, f"{server}-tls"))
        if not text_at(secret, "data", "ca.crt"):
            return ""
        words = f"-n {quote(self.system)} get secret {server}-tls -o 'jsonpath={{.data.ca\\.crt}}'"
        return self.commands.kubectl(words)

    async def registered(self, server: str, words: str) -> tuple[str, str]:
        """Returns the command that registers a server of ours, or the advice where its CA is unknown.

        `words` are the command of ours without its CA.
        """
        printed = await self.ca_of(server)
        command = self.commands.applied(f"{words} --ca-file=<({printed} | base64 -d)") if printed else ""
        command = self.mended(None, command)
        without = self.commands.applied(f"{words} --ca-file=FILE")
        return command, "" if command else f"Run `{without}` with the file of the CA."


def _is_applied(raw: Any) -> bool:
    """True if Helm wrote an object by server-side apply."""
    writes = entries(raw, "metadata", "managedFields")
    return any(
        text_at(one, "manager").startswith("helm") and one.get("operation") == "Apply" for one in writes
    )


def listed(found: Sequence[Json] | Problem) -> Sequence[Json]:
    """Returns a list, which is empty if it could not be read."""
    return () if isinstance(found, Problem) else found


def service_of(registration: Json) -> str:
    """Returns namespace and name of the Service of an APIService; "" for a local API."""
    service = at(registration, "spec", "service")
    return f"{text_at(service, 'namespace')}/{text_at(service, 'name')}" if service else ""


def propagation_of(raw: Json) -> str:
    """Returns the propagation of the object's last decision; "" if it has none."""
    found = text_at(raw, "status", "summary", "propagation")
    return found if found in (DIRECT, KARMADA) else ""


def workloads_of(*lists: Sequence[Json] | Problem) -> frozenset[str]:
    """Returns the kinds of all targets in lower case."""
    return frozenset(
        text_at(raw, "spec", "scaleTargetRef", "kind").lower() for each in lists for raw in listed(each)
    )


def _uses_placements(raw: Json) -> bool:
    """True if a FederatedHPA publishes its clusters, or follows a PlacementDecision."""
    follows = at(raw, "spec", "clusterAffinity", "placementDecision")
    return at(raw, "spec", "placement", "publish") is True or isinstance(follows, dict)
