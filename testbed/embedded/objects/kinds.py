"""The served kinds: some built-in kinds, and those of CRDs."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from testbed.embedded.api.types import Object
from testbed.embedded.objects.validation import PRESERVE
from testbed.embedded.storage.store import Change, Collection, Store

VERBS: Final = ("create", "delete", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Kind:
    """One kind in one version. `schema` and `columns` come from a CRD; `scale` has the paths of its scale."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    singular: str = ""
    custom: bool = False
    schema: Object = field(default_factory=dict)
    columns: tuple[Object, ...] = ()
    scale: Mapping[str, str] = field(default_factory=dict)

    @property
    def collection(self) -> Collection:
        """The collection in the store, the same for all versions."""
        return (self.group, self.plural)

    @property
    def api_version(self) -> str:
        """For example `apps/v1` or `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_kind(self) -> str:
        """For example `DeploymentList`."""
        return f"{self.kind}List"


def _kind(api_version: str, plural: str, kind: str, *names: str, **more: object) -> Kind:
    group, _, version = api_version.rpartition("/")
    singular = kind.lower()
    return Kind(group, version, plural, kind, short_names=names, singular=singular, **more)  # type: ignore[arg-type]  # keywords of the table below


_STATUS = frozenset({"status"})
_REPLICAS = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".spec.selector",
}
_WORKLOAD: Final = {"subresources": _STATUS | {"scale"}, "scale": _REPLICAS}
_STATUS_ONLY: Final = {"subresources": _STATUS}
_RBAC, _ADMISSION = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"

NAMESPACES: Final = ("", "namespaces")
CRDS: Final = ("apiextensions.k8s.io", "customresourcedefinitions")
API_SERVICES: Final = ("apiregistration.k8s.io", "apiservices")

BUILTIN: Final = (
    _kind("v1", "namespaces", "Namespace", "ns", namespaced=False, **_STATUS_ONLY),
    _kind("v1", "nodes", "Node", "no", namespaced=False, subresources=_STATUS),
    _kind("v1", "pods", "Pod", "po", subresources=_STATUS),
    _kind("v1", "services", "Service", "svc", **_STATUS_ONLY),
    _kind("v1", "secrets", "Secret"),
    _kind("v1", "configmaps", "ConfigMap", "cm"),
    _kind("v1", "serviceaccounts", "ServiceAccount", "sa"),
    _kind("v1", "events", "Event", "ev"),
    _kind("apps/v1", "deployments", "Deployment", "deploy", **_WORKLOAD),
    _kind("apps/v1", "statefulsets", "StatefulSet", "sts", **_WORKLOAD),
    _kind("apps/v1", "replicasets", "ReplicaSet", "rs", **_WORKLOAD),
    _kind("autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa", **_STATUS_ONLY),
    _kind("coordination.k8s.io/v1", "leases", "Lease"),
    _kind(_RBAC, "roles", "Role"),
    _kind(_RBAC, "rolebindings", "RoleBinding"),
    _kind(_RBAC, "clusterroles", "ClusterRole", namespaced=False),
    _kind(_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    _kind(_ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", namespaced=False),
    _kind(_ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", namespaced=False),
    _kind(
        f"{CRDS[0]}/v1", CRDS[1], "CustomResourceDefinition", "crd", "crds", namespaced=False, **_STATUS_ONLY
    ),
    _kind("apiregistration.k8s.io/v1", "apiservices", "APIService", namespaced=False, **_STATUS_ONLY),
)


class Kinds:
    """All served kinds; the custom ones change while the server runs."""

    def __init__(self) -> None:
        self._builtin = {(kind.group, kind.version, kind.plural): kind for kind in BUILTIN}
        self._custom: dict[str, tuple[Kind, ...]] = {}

    def __iter__(self) -> Iterator[Kind]:
        yield from self._builtin.values()
        for kinds in self._custom.values():
            yield from kinds

    def set_custom(self, crd: str, kinds: tuple[Kind, ...]) -> None:
        """Set the kinds of a CRD; none if the CRD is deleted."""
        self._custom[crd] = kinds

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """Returns the kind at a path, or None."""
        return next(
            (kind for kind in self if (kind.group, kind.version, kind.plural) == (group, version, plural)),
            None,
        )

    def of(self, api_version: str, kind: str) -> Kind | None:
        """Returns the kind of an object, or None."""
        return next((each for each in self if (each.api_version, each.kind) == (api_version, kind)), None)


class CustomKinds:
    """Follows the CRDs of a store: registers their kinds and writes their status."""

    def __init__(self, store: Store, kinds: Kinds, now: Callable[[], datetime]) -> None:
        self._store = store
        self._kinds = kinds
        self._now = now
        store.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        if change.collection != CRDS:
            return
        crd = change.object
        if change.type == "DELETED":
            collection = (crd["spec"]["group"], crd["spec"]["names"]["plural"])
            for obj in self._store.list(collection):
                self._store.remove(collection, obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            self._kinds.set_custom(change.name, ())
            return
        self._kinds.set_custom(change.name, kinds_of(crd))
        current = self._store.find(CRDS, "", change.name)  # an earlier listener may have deleted it
        if current is not None:
            self._store.update(CRDS, {**current, "status": self._status(current)})

    def _status(self, crd: Object) -> Object:
        names, old = crd["spec"]["names"], crd.get("status") or {}
        now = f"{self._now():%Y-%m-%dT%H:%M:%SZ}"
        conditions = [
            {"type": each, "status": "True", "lastTransitionTime": now, "reason": "Accepted", "message": ""}
            for each in ("NamesAccepted", "Established")
        ]
        return {
            "conditions": old.get("conditions") or conditions,
            "acceptedNames": {"listKind": f"{names['kind']}List", "singular": names["kind"].lower(), **names},
            "storedVersions": [each["name"] for each in crd["spec"]["versions"] if each["storage"]],
        }


def kinds_of(crd: Object) -> tuple[Kind, ...]:
    """Returns one kind for each served version of a CRD."""
    spec = crd["spec"]
    names = spec["names"]
    return tuple(
        Kind(
            spec["group"],
            version["name"],
            names["plural"],
            names["kind"],
            namespaced=spec["scope"] == "Namespaced",
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=frozenset(version.get("subresources") or ()),
            singular=names.get("singular") or names["kind"].lower(),
            custom=True,
            schema=_schema((version.get("schema") or {}).get("openAPIV3Schema")),
            columns=tuple(version.get("additionalPrinterColumns") or ()),
            scale=(version.get("subresources") or {}).get("scale") or {},
        )
        for version in spec["versions"]
        if version["served"]
    )


def _schema(schema: Object | None) -> Object:
    """Returns a CRD's schema with apiVersion, kind and metadata, whatever it says about them."""
    found = schema or {"type": "object", PRESERVE: True}
    every = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {PRESERVE: True}}
    return {**found, "properties": {**found.get("properties", {}), **every}}
