"""The served kinds: some built-in kinds, and those of CRDs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from testbed.embedded.api.types import Object
from testbed.embedded.storage.store import Collection

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
    # True if PUT needs no resourceVersion; true if DELETE answers with the object.
    unconditional: bool = True
    returns_deleted: bool = False
    custom: bool = False
    schema: Object | None = None
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


_ALL = ("all",)
_STATUS = frozenset({"status"})
_REPLICAS = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".spec.selector",
}
_WORKLOAD: Final = {"categories": _ALL, "subresources": _STATUS | {"scale"}, "scale": _REPLICAS}
_STATUS_ONLY: Final = {"subresources": _STATUS}
_RBAC, _ADMISSION = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"

NAMESPACES: Final = ("", "namespaces")
CRDS: Final = ("apiextensions.k8s.io", "customresourcedefinitions")
API_SERVICES: Final = ("apiregistration.k8s.io", "apiservices")

BUILTIN: Final = (
    _kind("v1", "namespaces", "Namespace", "ns", namespaced=False, **_STATUS_ONLY, returns_deleted=True),
    _kind("v1", "nodes", "Node", "no", namespaced=False, subresources=_STATUS),
    _kind("v1", "pods", "Pod", "po", categories=_ALL, subresources=_STATUS, returns_deleted=True),
    _kind(
        "v1", "services", "Service", "svc",
        categories=_ALL, subresources=_STATUS, returns_deleted=True,
    ),
    _kind("v1", "secrets", "Secret"),
    _kind("v1", "configmaps", "ConfigMap", "cm"),
    _kind("v1", "serviceaccounts", "ServiceAccount", "sa", returns_deleted=True),
    _kind("v1", "events", "Event", "ev"),
    _kind("apps/v1", "deployments", "Deployment", "deploy", **_WORKLOAD),
    _kind("apps/v1", "statefulsets", "StatefulSet", "sts", **_WORKLOAD),
    _kind("apps/v1", "replicasets", "ReplicaSet", "rs", **_WORKLOAD),
    _kind(
        "autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa",
        categories=_ALL, subresources=_STATUS,
    ),
    _kind("coordination.k8s.io/v1", "leases", "Lease", unconditional=False),
    _kind(_RBAC, "roles", "Role"),
    _kind(_RBAC, "rolebindings", "RoleBinding"),
    _kind(_RBAC, "clusterroles", "ClusterRole", namespaced=False),
    _kind(_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    _kind(
        _ADMISSION, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration",
        namespaced=False, unconditional=False, categories=("api-extensions",),
    ),
    _kind(
        _ADMISSION, "validatingwebhookconfigurations", "ValidatingWebhookConfiguration",
        namespaced=False, unconditional=False, categories=("api-extensions",),
    ),
    _kind(
        "apiextensions.k8s.io/v1", "customresourcedefinitions", "CustomResourceDefinition", "crd", "crds",
        namespaced=False, subresources=_STATUS, unconditional=False, categories=("api-extensions",),
        returns_deleted=True,
    ),
    _kind(
        "apiregistration.k8s.io/v1", "apiservices", "APIService",
        namespaced=False, subresources=_STATUS, unconditional=False, categories=("api-extensions",),
    ),
)  # fmt: skip


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

    def is_builtin(self, group: str, version: str) -> bool:
        """True for a group version of Kubernetes itself."""
        return not group or any((kind.group, kind.version) == (group, version) for kind in BUILTIN)
