"""The facts that all topics need: the lists of an installation, its owner, and the commands that mend it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from fedhpa.api import rights
from fedhpa.api.autoscalers import StoredAutoscaler
from fedhpa.api.federatedhpa import API_VERSION
from fedhpa.api.free_json import Json, at, entries, text_at
from fedhpa.api.member_sources import ONLY_CLUSTERS, MemberSources
from fedhpa.doctor.report import Commands, Fix, Report
from fedhpa.doctor.session import Cause, Items, Problem, Session
from fedhpa.kube import resource_path
from fedhpa.kube.leases import API_VERSION as LEASES
from fedhpa.members import CLUSTERS_PATH, Cluster, metrics_key, secret_key
from metrics_adapter.registration import APIS

if TYPE_CHECKING:
    from fedhpa.doctor.members import Member

DIRECT, KARMADA = "direct", "karmada"
CHART: Final = "charts/fedhpa"
# A controller outside a pod keeps its Leases here.
KUBE_SYSTEM: Final = "kube-system"
REGISTRATION: Final = "admissionregistration.k8s.io/v1"
CRDS: Final = ("apiextensions.k8s.io/v1", "customresourcedefinitions")
CRD_NAMES: Final = (
    "federatedhpas.autoscaling.karmada.io",
    "cronfederatedhpas.autoscaling.karmada.io",
    "clusters.cluster.karmada.io",
)
RBAC: Final = "rbac.authorization.k8s.io/v1"


class Site:
    """An installation on a hub, as far as the caller may see it.

    `system` is the namespace of the installation, `only` the one to which the caller limits the checks.
    `shares_token` has the Clusters whose member the metrics adapter reads with the controller's token.
    `now` is the hub's time in POSIX seconds, and `skew` the hub's clock minus ours.
    """

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
        self.hub, self.report, self.commands, self.sources = hub, report, commands, sources
        self.now, self.skew, self.only = now, skew, only
        self.system = rights.NAMESPACE
        self.clusters: Items[Cluster] = Items()
        self.autoscalers: Items[StoredAutoscaler] = Items()
        self.federated, self.crons, self.leases = Items[Json](), Items[Json](), Items[Json]()
        self.validating, self.mutating, self.apis = Items[Json](), Items[Json](), Items[Json]()
        self.deployments: dict[str, Json] = {}
        self.definitions: dict[str, Json | Problem] = {}
        self.bindings: dict[str, Json | Problem] = {}
        self.shares_token: set[str] = set()
        # The members that count, with a session for each that answers.
        self.members: Sequence[Member] = ()

    async def read_objects(self) -> None:
        """Reads the objects of our kinds, and the autoscalers beside them."""
        self.federated, self.crons, self.autoscalers = await asyncio.gather(
            self._list(API_VERSION, "federatedhpas", self.only),
            self._list(API_VERSION, "cronfederatedhpas", self.only),
            self.hub.list(
                resource_path("autoscaling/v2", "horizontalpodautoscalers", self.only), StoredAutoscaler
            ),
        )

    async def read(self, system: str) -> None:
        """Reads everything else. `system` is the namespace of the installation; "" looks for it."""
        lists, self.definitions, self.bindings, self.clusters = await asyncio.gather(
            asyncio.gather(
                self._list(REGISTRATION, "validatingwebhookconfigurations"),
                self._list(REGISTRATION, "mutatingwebhookconfigurations"),
                self._list("apiregistration.k8s.io/v1", "apiservices"),
                self._list(LEASES, "leases"),
            ),
            self._named(CRDS, CRD_NAMES),
            self._named(
                (RBAC, "clusterrolebindings"),
                (rights.CONTROLLER_ROLE, rights.ADAPTER_ROLE, rights.WEBHOOK_ROLE),
            ),
            self.hub.list(CLUSTERS_PATH, Cluster),
        )
        self.validating, self.mutating, self.apis, self.leases = lists
        subjects = entries(self.bindings[rights.CONTROLLER_ROLE], "subjects")
        found = next((text_at(each, "namespace") for each in subjects if each.get("namespace")), "")
        self.system = system or found or rights.NAMESPACE
        if self.leases.problem:
            places = (self.system, KUBE_SYSTEM)
            some = await asyncio.gather(*(self._list(LEASES, "leases", each) for each in places))
            if not all(each.problem for each in some):
                self.leases = Items(lease for each in some for lease in each)
        running = await self._list("apps/v1", "deployments", self.system)
        self.deployments = {text_at(each, "metadata", "name"): each for each in running}
        if self.has_adapter:
            await self._find_metrics_secrets()

    async def _list(self, version: str, plural: str, namespace: str = "") -> Items[Json]:
        return await self.hub.list(resource_path(version, plural, namespace), Json)

    async def _named(self, resource: tuple[str, str], found: Sequence[str]) -> dict[str, Json | Problem]:
        answers = await asyncio.gather(*(self.hub.get(resource_path(*resource, name=name)) for name in found))
        return dict(zip(found, answers, strict=True))

    async def _find_metrics_secrets(self) -> None:
        """Finds the members without a Secret for the adapter, which then takes that of the controller."""
        keys = {each.metadata.name: metrics_key(each) for each in self.clusters}
        paths = {name: resource_path("v1", "secrets", *key) for name, key in keys.items() if key}
        answers = await asyncio.gather(*map(self.hub.get, paths.values()))
        found = dict(zip(paths, answers, strict=True))
        absent = {
            name for name, one in found.items() if isinstance(one, Problem) and one.cause is Cause.ABSENT
        }
        self.shares_token = absent | (keys.keys() - paths)

    def flag(self, name: str, deployment: str = rights.CONTROLLER) -> str:
        """Returns the value of a flag of a Deployment, "true" for one without value; "" if it is not seen."""
        containers = entries(self.deployments.get(deployment), "spec", "template", "spec", "containers")
        found = ""
        for text in (flag for one in containers for flag in (one.get("args") or ()) if isinstance(flag, str)):
            given, is_set, value = text.partition("=")
            found = (value if is_set else "true") if given == f"--{name}" else found
        return found

    @property
    def sessions(self) -> list[Session | None]:
        """The sessions of the members, None for one that does not answer."""
        return [one.session for one in self.members]

    @property
    def manages_certificates(self) -> bool:
        """True if the controller issues and publishes our certificates."""
        return self.flag("manage-certificates") == "true"

    @property
    def propagation(self) -> str:
        """The controller's flag, or that of most decisions; "" if neither can be seen."""
        counts = Counter(filter(None, map(propagation_of, self.federated)))
        return self.flag("propagation") or (counts.most_common(1)[0][0] if counts else "")

    @property
    def switches(self) -> rights.Switches:
        """The observed settings that decide about the rights."""
        ours = {text_at(each, "spec", "group") for each in self.our_apis}
        return rights.Switches(
            "karmada" if self.propagation == KARMADA else "direct",
            "hub" if self.flag("metrics-via") == "hub" else "members",
            certificates=self.manages_certificates,
            distributed=any(at(each, "spec", "mode") == "Distributed" for each in self.federated),
            placements=any(map(_uses_placements, self.federated)),
            publish_to_argocd=self.flag("publish-to") == "argocd",
            sources=self.sources,
            apis=frozenset(name for name, group in APIS.items() if group in ours),
        )

    @property
    def argocd_namespace(self) -> str:
        """The namespace of Argo CD, by the controller's flag."""
        return self.flag("argocd-namespace") or rights.ARGOCD_NAMESPACE

    @property
    def our_apis(self) -> list[Json]:
        """The APIServices of our adapter."""
        service = f"{self.system}/{rights.ADAPTER}"
        return [each for each in self.apis if service_of(each) == service]

    @property
    def has_adapter(self) -> bool:
        """True if the rights or the pods of the metrics adapter are here."""
        return isinstance(self.bindings[rights.ADAPTER_ROLE], dict) or rights.ADAPTER in self.deployments

    @property
    def workloads(self) -> frozenset[str]:
        """The kinds of all targets in lower case."""
        objects = (*self.federated, *self.crons)
        return frozenset(text_at(each, "spec", "scaleTargetRef", "kind").lower() for each in objects)

    def secrets(self, component: str) -> dict[str, list[str]]:
        """Returns the names of the Secrets of all Clusters that a component reads, by namespace."""
        found: dict[str, list[str]] = {}
        keys = (
            metrics_key(each)
            if component == rights.ADAPTER and each.metadata.name not in self.shares_token
            else secret_key(each)
            for each in self.clusters
        )
        for namespace, name in sorted(filter(None, keys)):
            found.setdefault(namespace, []).append(name)
        return found

    def mended(self, stored: Json | Problem | None, command: str, sets: str = "") -> str:
        """Returns the command that mends an object: `command`, or `helm upgrade` if Helm owns the object.

        The owner of an object that is not there is that of the others. `sets` are further options of helm.
        """
        named = [*self.deployments.values(), *self.definitions.values(), *self.bindings.values()]
        others: list[Any] = [*named, *self.validating, *self.mutating]
        for raw in [stored] if isinstance(stored, dict) else others:
            notes = at(raw, "metadata", "annotations")
            if release := text_at(notes, "meta.helm.sh/release-name"):
                place = f"-n {quote(text_at(notes, 'meta.helm.sh/release-namespace'))}"
                # Helm 4 applies on the server, which refuses to undo other writes. Helm 3 lacks the flag.
                sets += " --force-conflicts" if any(map(_is_applied, (raw, *others))) else ""
                words = f"upgrade {quote(release)} {CHART} {place} --reset-then-reuse-values{sets}"
                return self.commands.helm(words)
        return command

    def revived(self, name: str) -> Fix:
        """Returns the command that starts a process of ours anew, or the advice where it is no pod here."""
        deployment = self.deployments.get(name)
        if deployment is None:
            where = f"It does not run as a Deployment in {self.system}."
            return "", f"Start {name}, or look into its log. {where}"
        stopped = at(deployment, "spec", "replicas") == 0
        words = f"scale deployment {name} --replicas=2" if stopped else f"rollout restart deployment {name}"
        return self.commands.kubectl(f"-n {quote(self.system)} {words}"), ""

    async def ca_of(self, server: str) -> str:
        """Returns the command that prints the CA of a server of ours in base64; "" if it is unknown."""
        secret = await self.hub.get(resource_path("v1", "secrets", self.system, f"{server}-tls"))
        words = f"-n {quote(self.system)} get secret {server}-tls -o 'jsonpath={{.data.ca\\.crt}}'"
        return self.commands.kubectl(words) if text_at(secret, "data", "ca.crt") else ""

    async def registered(self, server: str, words: str) -> Fix:
        """Returns the command that registers a server of ours, or the advice where its CA is unknown.

        `words` are the command of ours without its CA.
        """
        printed = await self.ca_of(server)
        command = self.commands.applied(f"{words} --ca-file=<({printed} | base64 -d)") if printed else ""
        command = self.mended(None, command)
        without = self.commands.applied(f"{words} --ca-file=FILE")
        return command, "" if command else f"Run `{without}` with the file of the CA."


def is_named(raw: Any, name: str) -> bool:
    """True if an object has this name."""
    return text_at(raw, "metadata", "name") == name


def _is_applied(raw: Any) -> bool:
    """True if Helm wrote an object by server-side apply."""
    return any(
        text_at(one, "manager").startswith("helm") and one.get("operation") == "Apply"
        for one in entries(raw, "metadata", "managedFields")
    )


def service_of(registration: Json) -> str:
    """Returns namespace and name of the Service of an APIService; "" for a local API."""
    service = at(registration, "spec", "service")
    return f"{text_at(service, 'namespace')}/{text_at(service, 'name')}" if service else ""


def propagation_of(raw: Json) -> str:
    """Returns the propagation of the object's last decision; "" if it has none."""
    found = text_at(raw, "status", "summary", "propagation")
    return found if found in (DIRECT, KARMADA) else ""


def _uses_placements(raw: Json) -> bool:
    """True if a FederatedHPA publishes its clusters, or follows a PlacementDecision."""
    follows = at(raw, "spec", "clusterAffinity", "placementDecision")
    return at(raw, "spec", "placement", "publish") is True or isinstance(follows, dict)
