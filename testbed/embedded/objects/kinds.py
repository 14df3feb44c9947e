"""What the API server serves: the built-in kinds that something here needs, and those of the CRDs."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from testbed.embedded.api.types import Object
from testbed.embedded.storage.store import Collection

VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True)
class Kind:
    """One kind in one version. `schema` and `columns` are a CRD's; `scale` has the paths of its scale."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = frozenset()
    singular: str = ""
    # Whether PUT creates, whether it may be without resourceVersion, whether DELETE gives the object.
    put_creates: bool = False
    unconditional: bool = True
    gives_deleted: bool = False
    custom: bool = False
    storage: bool = True
    schema: Object | None = None
    columns: tuple[Object, ...] = ()
    scale: Mapping[str, str] = field(default_factory=dict)

    @property
    def collection(self) -> Collection:
        """Where its objects are stored, whatever the version."""
        return (self.group, self.plural)

    @property
    def api_version(self) -> str:
        """`apps/v1`, `v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_kind(self) -> str:
        """`DeploymentList`."""
        return f"{self.kind}List"

    @property
    def qualified(self) -> str:
        """`Deployment.apps`, `Pod`: as Kubernetes names kinds in errors."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


def _kind(api_version: str, plural: str, kind: str, *names: str, **more: object) -> Kind:
    group, _, version = api_version.rpartition("/")
    singular = kind.lower()
    return Kind(group, version, plural, kind, short_names=names, singular=singular, **more)  # type: ignore[arg-type]  # rows of the table below


_ALL = ("all",)
_STATUS = frozenset({"status"})
_REPLICAS = {
    "specReplicasPath": ".spec.replicas",
    "statusReplicasPath": ".status.replicas",
    "labelSelectorPath": ".spec.selector",
}
_WORKLOAD: Final = {"categories": _ALL, "subresources": _STATUS | {"scale"}, "scale": _REPLICAS}
_RBAC, _ADMISSION = "rbac.authorization.k8s.io/v1", "admissionregistration.k8s.io/v1"

NAMESPACES: Final = ("", "namespaces")
CRDS: Final = ("apiextensions.k8s.io", "customresourcedefinitions")
API_SERVICES: Final = ("apiregistration.k8s.io", "apiservices")

BUILTIN: Final = (
    _kind("v1", "namespaces", "Namespace", "ns", namespaced=False, subresources=_STATUS, gives_deleted=True),
    _kind("v1", "nodes", "Node", "no", namespaced=False, subresources=_STATUS),
    _kind("v1", "pods", "Pod", "po", categories=_ALL, subresources=_STATUS, gives_deleted=True),
    _kind(
        "v1", "services", "Service", "svc",
        categories=_ALL, subresources=_STATUS, put_creates=True, gives_deleted=True,
    ),
    _kind("v1", "secrets", "Secret"),
    _kind("v1", "configmaps", "ConfigMap", "cm"),
    _kind("v1", "serviceaccounts", "ServiceAccount", "sa", gives_deleted=True),
    _kind("v1", "events", "Event", "ev", put_creates=True),
    _kind("apps/v1", "deployments", "Deployment", "deploy", **_WORKLOAD),
    _kind("apps/v1", "statefulsets", "StatefulSet", "sts", **_WORKLOAD),
    _kind("apps/v1", "replicasets", "ReplicaSet", "rs", **_WORKLOAD),
    _kind(
        "autoscaling/v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler", "hpa",
        categories=_ALL, subresources=_STATUS,
    ),
    _kind("coordination.k8s.io/v1", "leases", "Lease", put_creates=True, unconditional=False),
    _kind(_RBAC, "roles", "Role", put_creates=True),
    _kind(_RBAC, "rolebindings", "RoleBinding", put_creates=True),
    _kind(_RBAC, "clusterroles", "ClusterRole", namespaced=False, put_creates=True),
    _kind(_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False, put_creates=True),
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
        gives_deleted=True,
    ),
    _kind(
        "apiregistration.k8s.io/v1", "apiservices", "APIService",
        namespaced=False, subresources=_STATUS, unconditional=False, categories=("api-extensions",),
    ),
)  # fmt: skip


class Kinds:
    """Every kind served: the built-in ones, and the custom ones that come and go."""

    def __init__(self) -> None:
        self._builtin = {(kind.group, kind.version, kind.plural): kind for kind in BUILTIN}
        self._custom: dict[str, tuple[Kind, ...]] = {}

    def __iter__(self) -> Iterator[Kind]:
        yield from self._builtin.values()
        for kinds in self._custom.values():
            yield from kinds

    def set_custom(self, crd: str, kinds: tuple[Kind, ...]) -> None:
        """What a CRD of that name serves now; nothing if it is gone."""
        if kinds:
            self._custom[crd] = kinds
        else:
            self._custom.pop(crd, None)

    def find(self, group: str, version: str, plural: str) -> Kind | None:
        """The kind at a path."""
        return next(
            (kind for kind in self if (kind.group, kind.version, kind.plural) == (group, version, plural)),
            None,
        )

    def of(self, api_version: str, kind: str) -> Kind | None:
        """The kind of an object."""
        return next((each for each in self if (each.api_version, each.kind) == (api_version, kind)), None)

    def served(self, collection: Collection) -> Kind | None:
        """The kind of a collection, in the version it is stored in."""
        return next((each for each in self if each.collection == collection and each.storage), None)

    def is_builtin(self, group: str, version: str) -> bool:
        """Whether a group's version is one of Kubernetes' own."""
        return not group or any((kind.group, kind.version) == (group, version) for kind in BUILTIN)
