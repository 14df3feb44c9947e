"""Decides what to write next, so that certificates and their root change without a refused connection.

`plan` is a pure function of the stored Secrets and CA bundles. A leader that ends at any point therefore
leaves a state from which the next one continues. The root changes in stages:

1. PUBLISH: the new root is beside the old one in every CA bundle. The old root still signs.
2. SIGN: the new root signs. It begins after every bundle has had both roots for the settle time.
3. DROP: the old root leaves the bundles, after all new certificates were stored for the settle time.

The settle time is how long API servers may use an old CA bundle, and pods an old certificate. The leader
measures it with its own clock from what it sees, so that it depends on no stored time. A new leader waits
for the whole settle time again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from cryptography import x509

from certs.authority import CertificateAuthority, IssuedCertificate
from certs.state import MAX_ROOTS, Authority, Now, Serving, Settings, State, Status

COMMON_NAME: Final = "fedhpa-ca"


class Stage(StrEnum):
    """The stage of the root. UNKNOWN: the CA Secret is missing, unreadable, or belongs to somebody else."""

    UNKNOWN = "unknown"
    STABLE = "stable"
    PUBLISH = "publish"
    SIGN = "sign"
    DROP = "drop"


@dataclass(frozen=True)
class Observed:
    """A subject that the leader sees unchanged, and since when, in seconds of its monotonic clock."""

    subject: object = None
    since: float = 0.0

    def seconds(self, subject: object, clock: float) -> float:
        """Returns for how many seconds `subject` has been seen."""
        return clock - self.since if self.subject == subject else 0.0

    def still(self, subject: object, clock: float) -> Observed:
        """Returns the memory after `subject` was seen now."""
        return self if self.subject == subject else Observed(subject, clock)


@dataclass(frozen=True)
class StoreAuthority:
    """Write the CA Secret. `reason` and `message` say why, for people."""

    authority: Authority
    reason: str
    message: str


@dataclass(frozen=True)
class StoreCertificate:
    """Write the Secret of a server. `issued` is false if only its `ca.crt` changes."""

    server: str
    pair: IssuedCertificate
    roots: tuple[x509.Certificate, ...]
    issued: bool
    reason: str = ""


@dataclass(frozen=True)
class Publish:
    """Write the roots into all caBundles of a registration."""

    name: str
    roots: tuple[x509.Certificate, ...]


Action = StoreAuthority | StoreCertificate | Publish


@dataclass(frozen=True)
class Plan:
    """The writes that are due now, and what to remember for the next call.

    `wait` is the time in seconds until the stage may end; None if no time is awaited.
    """

    stage: Stage
    actions: tuple[Action, ...] = ()
    memory: Observed = field(default_factory=Observed)
    wait: float | None = None


def stage_of(state: State) -> Stage:
    """Returns the stage that the stored objects show."""
    authority = state.authority
    if authority.successor is not None:
        return Stage.PUBLISH
    if state.authority_status is not Status.OURS or authority.signer is None:
        return Stage.UNKNOWN
    if not authority.others:
        return Stage.STABLE
    signed = all(_is_signed(each, authority.signer) for each in state.managed)
    return Stage.DROP if signed else Stage.SIGN


def plan(state: State, settings: Settings, now: Now, clock: float, memory: Observed) -> Plan:
    """Returns the writes that are due. After them the state is read again, and planned again.

    `clock` is the leader's monotonic clock in seconds, and `memory` that of the last plan.
    """
    authority, stage = state.authority, stage_of(state)
    if state.authority_status in (Status.FOREIGN, Status.UNREAD):
        return Plan(stage)
    if authority.signer is None and authority.successor is None:
        return Plan(stage, _begin(state, settings, now))
    issued = _issue(state, settings, now)
    new = {each.server for each in issued}
    spread = [
        each
        for each in _spread(state, authority.roots)
        if isinstance(each, Publish) or each.server not in new
    ]
    if spread or issued:
        return Plan(stage, (*spread, *issued))
    if not state.is_complete:
        return Plan(stage)
    return _turn(state, settings, now, clock, memory)


def _begin(state: State, settings: Settings, now: Now) -> tuple[Action, ...]:
    """Creates the first root, or one in the place of a lost one.

    Servers may still serve certificates of the lost root, so the roots that the bundles have stay trusted.
    """
    if not state.is_complete:
        return ()
    stored = [each.bundle for each in state.managed]
    stored += [bundle for each in state.registrations for bundle in each.bundles]
    found = dict.fromkeys(root for bundle in stored for root in bundle if _is_root(root, now))
    kept = tuple(dict.fromkeys([*state.authority.others, *found]))[: MAX_ROOTS - 1]
    root = _root(settings, now)
    if not kept:  # nothing is trusted yet, so nothing can be interrupted
        return (StoreAuthority(Authority(signer=root), "RootCreated", "created the first root"),)
    message = f"created a root, because Secret fedhpa-ca has no usable key; {len(kept)} roots stay trusted"
    return (StoreAuthority(Authority(successor=root, others=kept), "RootReplaced", message),)


def _spread(state: State, roots: tuple[x509.Certificate, ...]) -> list[Publish | StoreCertificate]:
    """Returns the writes that give every bundle exactly these roots."""
    wanted = frozenset(roots)
    found: list[Publish | StoreCertificate] = [
        Publish(each.name, roots)
        for each in state.registrations
        if any(frozenset(bundle) != wanted for bundle in each.bundles)
    ]
    found += [
        StoreCertificate(each.server, each.pair, roots, issued=False)
        for each in state.managed
        if each.pair is not None and frozenset(each.bundle) != wanted
    ]
    return found


def _issue(state: State, settings: Settings, now: Now) -> list[StoreCertificate]:
    """Issues the certificates that are due and whose registrations all trust the root that signs.

    A registration that cannot be written thus stops neither the renewal of its server's certificate nor any
    other one.
    """
    signer = state.authority.signer
    if signer is None or not _is_valid(signer.certificate, now):
        return []
    distrusting = {
        each.server
        for each in state.registrations
        if any(signer.certificate not in bundle for bundle in each.bundles)
    }
    found = []
    for each in state.managed:
        reason = why_issue(each, signer, now)
        if reason and each.server not in distrusting:
            pair = signer.issue_for_hosts(
                each.common_name, each.hosts, validity=settings.lifetime, now=now.time
            )
            roots = state.authority.roots
            found.append(StoreCertificate(each.server, pair, roots, issued=True, reason=reason))
    return found


def _turn(state: State, settings: Settings, now: Now, clock: float, memory: Observed) -> Plan:
    """Moves the root to its next stage when that is due. Every bundle has all roots already."""
    authority, stage = state.authority, stage_of(state)
    signer, successor = authority.signer, authority.successor
    # A registration that was created again is another one: API servers have just begun to read it.
    seen = (
        frozenset(authority.roots),
        frozenset((each.name, each.uid) for each in state.registrations),
        frozenset(each.pair.cert_pem for each in state.managed if each.pair is not None),
    )
    memory = memory.still(seen, clock)
    wait = settings.settle - memory.seconds(seen, clock)
    if successor is not None:
        if not _is_valid(successor.certificate, now):
            fresh = replace(authority, successor=_root(settings, now))
            message = "replaced the new root, because it is not valid at this time"
            return Plan(stage, (StoreAuthority(fresh, "RootReplaced", message),))
        protected = any(_is_valid(root, now) for root in authority.roots if root != successor.certificate)
        if protected and wait > 0:
            return Plan(stage, memory=memory, wait=wait)
        others = tuple(root for root in authority.roots if root != successor.certificate)[: MAX_ROOTS - 1]
        fresh = replace(authority, signer=successor, successor=None, others=others, rotation_requested=False)
        message = "the new root signs from now on, because every CA bundle has it"
        return Plan(stage, (StoreAuthority(fresh, "RootSigns", message),))
    assert signer is not None, "plan begins with a root"
    if why := _why_rotate(authority, signer, settings, now):
        fresh = replace(authority, successor=_root(settings, now), rotation_requested=False)
        message = f"publishing a new root: {why}"
        return Plan(stage, (StoreAuthority(fresh, "RootRotationStarted", message),))
    if not authority.others:
        return Plan(stage, memory=memory)
    if wait > 0:
        return Plan(stage, memory=memory, wait=wait)
    fresh = replace(authority, others=(), rotation_requested=False)
    message = "dropped the old root, because no server serves a certificate of it any more"
    return Plan(stage, (StoreAuthority(fresh, "RootRotationFinished", message),))


def _why_rotate(authority: Authority, signer: CertificateAuthority, settings: Settings, now: Now) -> str:
    if now.agreed and not _is_valid(signer.certificate, now):
        return "the root that signs is not valid at this time"
    if authority.others:  # a rotation goes on, and a request during it is part of it
        return ""
    if authority.rotation_requested:
        return "a person asked for it"
    if now.agreed and signer.renewal_due(now.time, leaf=settings.lifetime):
        return "two thirds of its life are over"
    return ""


def why_issue(serving: Serving, signer: CertificateAuthority, now: Now) -> str:
    """Returns why a certificate must be issued; "" if the stored one is good."""
    pair = serving.pair
    if pair is None:
        return "there is no usable pair" if serving.status is Status.OURS else "there is none"
    certificate = pair.certificate
    if not signer.issued(certificate):
        return "the root that signs is another one"
    if pair.hosts() != serving.hosts:
        return "its names are others"
    if now.agreed and not _is_valid(certificate, now):
        return "it is not valid at this time"
    if now.agreed and pair.renewal_due(now.time):
        return "two thirds of its life are over"
    return ""


def _is_signed(serving: Serving, signer: CertificateAuthority) -> bool:
    return serving.pair is not None and signer.issued(serving.pair.certificate)


def _is_valid(certificate: x509.Certificate, now: Now) -> bool:
    if not now.agreed:
        return True
    return _checked(lambda: certificate.not_valid_before_utc <= now.time < certificate.not_valid_after_utc)


def _is_root(certificate: x509.Certificate, now: Now) -> bool:
    def is_ca() -> bool:
        return bool(certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)

    return _is_valid(certificate, now) and _checked(is_ca)


def _checked(check: Callable[[], bool]) -> bool:
    """Returns the answer of `check`; False for a certificate with fields that cannot be read."""
    try:
        return check()
    except (ValueError, TypeError, x509.ExtensionNotFound, x509.DuplicateExtension):
        return False


def _root(settings: Settings, now: Now) -> CertificateAuthority:
    return CertificateAuthority.create(COMMON_NAME, validity=settings.root_lifetime, now=now.time)
