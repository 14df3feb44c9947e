"""An installation as the checks know it: all of its lists, read once, and the commands that mend it.

A list or an object that could not be read is one with a problem, through which checks go without asking.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from fedhpa.api import rights
from fedhpa.api.autoscalers import StoredAutoscaler
from fedhpa.api.federatedhpa import API_VERSION, GROUP
from fedhpa.api.free_json import Json, at, entries, text_at
from fedhpa.api.member_sources import ONLY_CLUSTERS, MemberSources
from fedhpa.doctor.report import Commands, Report
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
KUBE_SYSTEM, TRUST = "kube-system", "extension-apiserver-authentication"
RBAC: Final = "rbac.authorization.k8s.io/v1"
VALIDATING, MUTATING = "validatingwebhookconfigurations", "mutatingwebhookconfigurations"
CRDS, ROLES = "customresourcedefinitions", "clusterrolebindings"
OUR_KINDS: Final = ("federatedhpas", "cronfederatedhpas")
# The lists of the hub that are read, the objects by their names, and those beside the processes.
_LISTS: Final = {
    VALIDATING: "admissionregistration.k8s.io/v1",
    MUTATING: "admissionregistration.k8s.io/v1",
    "apiservices": "apiregistration.k8s.io/v1",
    "leases": LEASES,
}
_DEFINITIONS: Final = (*(f"{plural}.{GROUP}" for plural in OUR_KINDS), "clusters.cluster.karmada.io")
_NAMED: Final = (
    (CRDS, "apiextensions.k8s.io/v1", _DEFINITIONS, ""),
    (ROLES, RBAC, (rights.CONTROLLER_ROLE, rights.ADAPTER_ROLE, rights.WEBHOOK_ROLE), ""),
    ("clusterroles", RBAC, (rights.CONTROLLER_ROLE,), ""),
    ("configmaps", "v1", (TRUST,), KUBE_SYSTEM),
)
_PLACED: Final = {
    "services": (rights.ADAPTER,),
    "serviceaccounts": (rights.CONTROLLER, rights.ADAPTER),
    "secrets": (f"{rights.WEBHOOK}-tls", f"{rights.ADAPTER}-tls"),
}


class Site:
    """An installation on a hub, as far as the caller may see it.

    `system` is the namespace of the installation, `only` the one to which the caller limits the checks.
    `lists` and `found` have what was read, by plurals. `shares_token` has the Clusters whose member the
    metrics adapter reads with the controller's token. `now` is the hub's time in POSIX seconds, and `skew`
    the hub's clock minus ours.
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
        self.add, self.skip = report.add, report.skip
        self.now, self.skew, self.only = now, skew, only
        self.system = rights.NAMESPACE
        self.clusters: Items[Cluster] = Items()
        self.autoscalers: Items[StoredAutoscaler] = Items()
        self.lists: dict[str, Items[Json]] = defaultdict(Items)
        self.deployments: dict[str, Json] = {}
        self.found: dict[str, dict[str, Json | Problem]] = defaultdict(dict)
        self.shares_token: set[str] = set()
        # The members that count, with a session for each that answers.
        self.members: Sequence[Member] = ()

    async def read_objects(self) -> None:
        """Reads the objects of our kinds, and the autoscalers beside them."""
        path = resource_path("autoscaling/v2", "horizontalpodautoscalers", self.only)
        lists = (self._list(plural, API_VERSION, self.only) for plural in OUR_KINDS)
        self.autoscalers, _ = await asyncio.gather(
            self.hub.list(path, StoredAutoscaler), asyncio.gather(*lists)
        )

    async def read(self, system: str) -> None:
        """Reads everything else. `system` is the namespace of the installation; "" looks for it."""
        self.clusters, *_ = await asyncio.gather(
            self.hub.list(CLUSTERS_PATH, Cluster),
            asyncio.gather(*(self._list(plural, version) for plural, version in _LISTS.items())),
            asyncio.gather(*(self._get(*each) for each in _NAMED)),
        )
        subjects = entries(self.found[ROLES][rights.CONTROLLER_ROLE], "subjects")
        found = next((text_at(each, "namespace") for each in subjects if each.get("namespace")), "")
        self.system = system or found or rights.NAMESPACE
        if self.lists["leases"].problem:
            await self._find_leases(self.lists["leases"])
        await asyncio.gather(
            self._list("deployments", "apps/v1", self.system),
            *(self._get(plural, "v1", names, self.system) for plural, names in _PLACED.items()),
        )
        self.deployments = {text_at(each, "metadata", "name"): each for each in self.lists["deployments"]}
        if self.has_adapter:
            await self._find_metrics_secrets()

    async def _list(self, plural: str, version: str, namespace: str = "") -> None:
        self.lists[plural] = await self.hub.list(resource_path(version, plural, namespace), Json)

    async def _get(self, plural: str, version: str, names: Sequence[str], namespace: str) -> None:
        paths = [resource_path(version, plural, namespace, name) for name in names]
        answers = await asyncio.gather(*map(self.hub.get, paths))
        self.found[plural] = dict(zip(names, answers, strict=True))

    async def _find_leases(self, all_of_them: Items[Json]) -> None:
        """Reads the Leases in the two namespaces of controllers, if the caller may not read those of all."""
        found = []
        for place in (self.system, KUBE_SYSTEM):
            await self._list("leases", LEASES, place)
            found.append(self.lists["leases"])
        readable = not all(each.problem for each in found)
        self.lists["leases"] = Items(one for each in found for one in each) if readable else all_of_them

    async def _find_metrics_secrets(self) -> None:
        """Finds the members without a Secret for the adapter, which then takes that of the controller."""

        async def shares(cluster: Cluster) -> bool:
            key = metrics_key(cluster)
            secret = await self.hub.get(resource_path("v1", "secrets", *key)) if key else None
            return secret is None or (isinstance(secret, Problem) and secret.cause is Cause.ABSENT)

        found = await asyncio.gather(*map(shares, self.clusters))
        self.shares_token = {
            each.metadata.name for each, is_shared in zip(self.clusters, found, strict=True) if is_shared
        }

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
        counts = Counter(filter(None, map(propagation_of, self.lists["federatedhpas"])))
        return self.flag("propagation") or (counts.most_common(1)[0][0] if counts else "")

    @property
    def switches(self) -> rights.Switches:
        """The observed settings that decide about the rights."""
        ours, federated = (
            {text_at(each, "spec", "group") for each in self.our_apis},
            self.lists["federatedhpas"],
        )
        return rights.Switches(
            "karmada" if self.propagation == KARMADA else "direct",
            "hub" if self.flag("metrics-via") == "hub" else "members",
            certificates=self.manages_certificates,
            distributed=any(at(each, "spec", "mode") == "Distributed" for each in federated),
            placements=any(
                at(each, "spec", "placement", "publish") is True
                or isinstance(at(each, "spec", "clusterAffinity", "placementDecision"), dict)
                for each in federated
            ),
            publish_to_argocd=self.flag("publish-to") == "argocd",
            sources=self.sources,
            apis=frozenset(name for name, group in APIS.items() if group in ours),
        )

    @property
    def our_apis(self) -> list[Json]:
        """The APIServices of our adapter."""
        service = f"{self.system}/{rights.ADAPTER}"
        return [each for each in self.lists["apiservices"] if service_of(each) == service]

    @property
    def has_adapter(self) -> bool:
        """True if the rights or the pods of the metrics adapter are here."""
        return isinstance(self.found[ROLES][rights.ADAPTER_ROLE], dict) or rights.ADAPTER in self.deployments

    @property
    def configurations(self) -> list[tuple[str, Json]]:
        """Our webhook configurations, each with its plural."""
        found = [(plural, each) for plural in (VALIDATING, MUTATING) for each in self.lists[plural]]
        return [(plural, each) for plural, each in found if name_of(each) == rights.WEBHOOK]

    def hooks(self, plural: str) -> list[Json]:
        """Returns the webhooks of our validating or mutating configuration."""
        return [
            one for kind, each in self.configurations if kind == plural for one in entries(each, "webhooks")
        ]

    @property
    def workloads(self) -> frozenset[str]:
        """The kinds of all targets in lower case."""
        objects = (each for plural in OUR_KINDS for each in self.lists[plural])
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
        named = [one for each in (CRDS, ROLES, "clusterroles") for one in self.found[each].values()]
        webhooks = (*self.lists[VALIDATING], *self.lists[MUTATING])
        others: list[Any] = [*self.deployments.values(), *named, *webhooks]
        for raw in [stored] if isinstance(stored, dict) else others:
            notes = at(raw, "metadata", "annotations")
            if release := text_at(notes, "meta.helm.sh/release-name"):
                place = f"-n {quote(text_at(notes, 'meta.helm.sh/release-namespace'))}"
                # Helm 4 applies on the server, which refuses to undo other writes. Helm 3 lacks the flag.
                sets += " --force-conflicts" if any(map(_is_applied, (raw, *others))) else ""
                words = f"upgrade {quote(release)} {CHART} {place} --reset-then-reuse-values{sets}"
                return self.commands.helm(words)
        return command

    def revived(self, name: str) -> str:
        """Returns the command that starts a process of ours anew, or the advice where it is no pod here."""
        deployment = self.deployments.get(name)
        if deployment is None:
            where = f"It does not run as a Deployment in {self.system}."
            return f"Start {name}, or look into its log. {where}"
        stopped = at(deployment, "spec", "replicas") == 0
        words = "scale deployment {} --replicas=2" if stopped else "rollout restart deployment {}"
        return self.commands.kubectl(f"-n {{}} {words}", self.system, name)

    def ca_of(self, server: str) -> str:
        """Returns the command that prints the CA of a server of ours in base64; "" if it is unknown."""
        words = f"-n {quote(self.system)} get secret {server}-tls -o 'jsonpath={{.data.ca\\.crt}}'"
        known = text_at(self.found["secrets"].get(f"{server}-tls"), "data", "ca.crt")
        return self.commands.kubectl(words) if known else ""

    def registered(self, server: str, words: str) -> str:
        """Returns the command that registers a server of ours, or the advice where its CA is unknown.

        `words` are the command of ours without its CA.
        """
        printed = self.ca_of(server)
        command = self.commands.applied(f"{words} --ca-file=<({printed} | base64 -d)") if printed else ""
        without = self.commands.applied(f"{words} --ca-file=FILE")
        return self.mended(None, command) or f"Run `{without}` with the file of the CA."


def name_of(raw: Any) -> str:
    """Returns the name of an object; "" if it has none."""
    return text_at(raw, "metadata", "name")


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
