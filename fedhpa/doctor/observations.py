"""Everything that the doctor observed of an installation, as data for the checks.

A value that could not be read is a `Problem` in its place. Times are POSIX seconds. All texts of others are
already one printable line of bounded length.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Cause(StrEnum):
    """Reasons why a value could not be read."""

    ABSENT = "absent"
    FORBIDDEN = "forbidden"
    UNAUTHORIZED = "unauthorized"
    UNREACHABLE = "unreachable"
    UNTRUSTED = "untrusted"
    TIMEOUT = "timeout"
    FAILED = "failed"


class Problem(msgspec.Struct, frozen=True):
    """A value that could not be read: the cause, and the words of the server or of the transport."""

    cause: Cause
    text: str = ""


class Certificate(msgspec.Struct, frozen=True):
    """The lifetime of a certificate, with the name of its place for people."""

    place: str
    begins: float
    expires: float


class Hub(msgspec.Struct, frozen=True):
    """The hub itself. `skew` is the hub's clock minus ours, in seconds; None if it sent no date."""

    kubeconfig: str = ""
    server: str = ""
    problem: Problem | None = None
    skew: float | None = None
    version: str = ""


class Right(msgspec.Struct, frozen=True):
    """One verb on one resource, or on one path that is no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    name: str = ""
    namespace: str = ""
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"{self.verb} {self.path}"
        target = f"{self.resource}.{self.group}" if self.group else self.resource
        name = f"/{self.name}" if self.name else ""
        return f"{self.verb} {target}{name}" + (f" in {self.namespace}" if self.namespace else "")


class Rights(msgspec.Struct, frozen=True):
    """The rights that an account lacks, of those that it needs.

    `account` is "" if no account of the component was found. `propagation` is the one that they were compared
    for, "" where it makes no difference.
    """

    component: str
    account: str = ""
    missing: tuple[Right, ...] = ()
    problem: Problem | None = None
    propagation: str = ""


class Definition(msgspec.Struct, frozen=True):
    """A CustomResourceDefinition on the hub. `lost` are the fields of ours that its schema drops.

    `is_foreign` is True if it lacks even the fields that no release of ours lacks.
    """

    kind: str
    problem: Problem | None = None
    lost: tuple[str, ...] = ()
    is_foreign: bool = False


class Entry(msgspec.Struct, frozen=True):
    """A webhook for our kinds. `place` is its URL, or `NAMESPACE/NAME` of its Service.

    `ready` is the number of ready endpoints of the Service; None for a URL, or if it could not be seen.
    """

    configuration: str
    name: str
    resources: tuple[str, ...]
    validates: bool
    place: str
    ready: int | None = None


class Trial(msgspec.Struct, frozen=True):
    """A dry run of an object that the webhook must admit or refuse. `refusal` is "" if it was admitted.

    `words` must be in the refusal of our webhook. `problem` is set if the hub gave no verdict.
    """

    kind: str
    is_valid: bool
    words: str = ""
    refusal: str = ""
    problem: Problem | None = None


class Admission(msgspec.Struct, frozen=True):
    """The webhooks for our kinds, and the dry runs."""

    entries: tuple[Entry, ...] | Problem = ()
    trials: tuple[Trial, ...] = ()


class Api(msgspec.Struct, frozen=True):
    """An APIService for one version of a metrics API. `service` is `NAMESPACE/NAME`, "" for a local one.

    `available` is None without the condition. `problem` is that of a request through the hub.
    """

    name: str
    group: str
    service: str
    is_labelled: bool = False
    available: bool | None = None
    reason: str = ""
    message: str = ""
    problem: Problem | None = None


class Aggregation(msgspec.Struct, frozen=True):
    """The metrics APIs on the hub. `adapter_installed` is None if that could not be seen."""

    apis: tuple[Api, ...] | Problem = ()
    adapter_installed: bool | None = None
    request_header_ca: str | Problem = ""


class Token(msgspec.Struct, frozen=True):
    """The life of a member's token. `is_renewed` is True if the controller renews it."""

    issued: float
    expires: float
    is_renewed: bool = False


class Member(msgspec.Struct, frozen=True):
    """A member cluster, as far as it could be followed: each problem ends the chain.

    `is_annotated` is True if the annotation of `fedhpa join` names the Secret. `owner` is the Cluster in the
    Secret's label, "" without one. `token` is None if its life is unknown.
    `own_taints` are the keys of taints of ours that the Cluster has. `deleted` is when it was deleted, in
    POSIX seconds, while a finalizer of ours keeps it.
    `skew` is its clock minus the hub's. `sampled` is the age of the newest usage by the member's own clock;
    None if it reported no usage. `uid` is that of the cluster, "" if unknown, and `created` the time of its
    registration, as the API writes it.
    """

    name: str
    secret: str = ""
    is_annotated: bool = False
    owner: str = ""
    token: Token | None = None
    secret_problem: Problem | None = None
    access_error: str = ""
    endpoint: str = ""
    problem: Problem | None = None
    skew: float | None = None
    missing: tuple[Right, ...] | Problem = ()
    metrics_problem: Problem | None = None
    sampled: float | None = None
    version: str = ""
    own_taints: tuple[str, ...] = ()
    uid: str = ""
    created: str = ""
    deleted: float | None = None


class Place(StrEnum):
    """The existence of a target on one server."""

    FOUND = "found"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class Scaled(msgspec.Struct, frozen=True):
    """A FederatedHPA or CronFederatedHPA with its target. `name` is `NAMESPACE/NAME`.

    `propagation` is that of its last decision, "" if unknown. `others` are the other autoscalers of the
    target. `by_karmada` is True if Karmada's own controller acts on the object. `deleted` is the time since
    its deletion, in seconds, while a finalizer of ours keeps it. `leaving` are the clusters that its replicas
    are to leave, each with what they wait for.
    """

    kind: str
    name: str
    target: str
    propagation: str = ""
    on_hub: Place = Place.UNKNOWN
    in_members: Place = Place.UNKNOWN
    others: tuple[str, ...] = ()
    by_karmada: bool = False
    deleted: float | None = None
    leaving: tuple[str, ...] = ()


class Objects(msgspec.Struct, frozen=True):
    """The objects of our kinds. `unchecked` is the number of objects beyond the limit."""

    scaled: tuple[Scaled, ...] | Problem = ()
    crons: tuple[Scaled, ...] | Problem = ()
    unchecked: int = 0
    notes: tuple[str, ...] = ()


class Lease(msgspec.Struct, frozen=True):
    """A Lease of the controller. `age` is the time since its renewal by the hub's clock, in seconds."""

    namespace: str
    name: str
    holder: str
    age: float | None
    duration: float = 15.0

    @property
    def is_held(self) -> bool:
        """True if a process holds it, and renewed it lately."""
        # Three durations: the hub writes whole seconds, and a leader may be late once.
        return bool(self.holder) and self.age is not None and self.age <= 3 * self.duration


class Leadership(msgspec.Struct, frozen=True):
    """The Leases of the controller. `manages_certificates` is True if its Deployment has that flag.

    `is_deciding` is True if a FederatedHPA has a recent decision.
    """

    leases: tuple[Lease, ...] | Problem = ()
    manages_certificates: bool = False
    is_deciding: bool = False


class Observation(msgspec.Struct, frozen=True):
    """One look at an installation. Parts behind a hub that does not answer stay None."""

    now: float
    hub: Hub
    namespace: str = "fedhpa-system"
    rights: tuple[Rights, ...] = ()
    definitions: tuple[Definition, ...] = ()
    admission: Admission | None = None
    aggregation: Aggregation | None = None
    members: tuple[Member, ...] | Problem | None = None
    objects: Objects | None = None
    leadership: Leadership | None = None
    certificates: tuple[Certificate, ...] = ()
