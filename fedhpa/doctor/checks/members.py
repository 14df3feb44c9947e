"""Each member: credentials, address, TLS, token, readiness, rights, metrics and clock."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote
from typing import Final

from fedhpa.api.identity import Claim, duplicates_of
from fedhpa.api.membership import SECRET_ANNOTATION
from fedhpa.api.taints import DRAIN_TAINT
from fedhpa.doctor.checks.certificates import DAY_SECONDS, SOON_SECONDS, days
from fedhpa.doctor.checks.hub import MAX_SKEW_SECONDS, names, seen, skew_text
from fedhpa.doctor.findings import Finding, NotChecked, Result
from fedhpa.doctor.observations import Cause, Member, Problem, Right, Token

# A metrics-server measures every 15 to 60 seconds.
MAX_SAMPLE_AGE_SECONDS: Final = 180.0
USAGE_GROUP: Final = "metrics.k8s.io"
# The controller renews a token with a third of its life left, so a renewal is overdue by then.
LEAST_SHARE: Final = 1 / 6

_SHOW: Final = "kubectl get cluster {name} -o yaml"
_JOIN: Final = "fedhpa join {name} --cluster-kubeconfig FILE"


def check_members(members: tuple[Member, ...] | Problem, now: float) -> Iterator[Result]:
    """Yields the failed checks of all members. `now` is the hub's time in POSIX seconds."""
    if isinstance(members, Problem):
        if members.cause is not Cause.ABSENT:  # the check of the CRD says so
            yield NotChecked("the members", seen(members))
    elif not members:
        what = "No Cluster is registered on the hub."
        yield Finding("no-members", "clusters", what, _JOIN.format(name="NAME"))
    else:
        claims = [Claim(each.name, each.uid, each.problem is None, each.created) for each in members]
        duplicates = duplicates_of(claims)
        for member in members:
            if other := duplicates.get(member.name):
                what = f"It is the same cluster as {other}: both have the UID {member.uid}."
                yield _finding(member, "member-duplicate", what, "fedhpa unjoin {name}")
            else:
                yield from check_member(member, now)
            if member.deleted is not None:
                ago = f"{max(now - member.deleted, 0.0):.0f} s ago"
                what = f"It was deleted {ago}, and waits for its replicas to move, at most an hour."
                yield _finding(member, "member-not-deleted", what, "kubectl describe cluster {name}")
            if member.own_taints:
                is_draining = DRAIN_TAINT in member.own_taints
                what = (
                    f"It {'drains' if is_draining else 'is cordoned'}, by taint {names(member.own_taints)}."
                )
                yield _finding(member, "member-cordoned", what, "fedhpa uncordon {name}")


def check_member(member: Member, now: float) -> Iterator[Result]:
    """Yields the first failed check on the way to a member, or what is wrong behind it."""
    first = next(_way(member, now), None)
    if first is not None:
        yield first
        return
    yield from _foreign_secret(member)
    if member.token is not None:
        yield from _token(member, member.token, now)
    yield from _rights(member)
    if member.skew is not None and abs(member.skew) > MAX_SKEW_SECONDS:
        what = skew_text(f"The clock of {member.name}", "the hub's", member.skew)
        yield Finding("member-clock-skew", member.name, what, "timedatectl")
    if not _lacks_usage(member):
        yield from _metrics(member)


def _way(member: Member, now: float) -> Iterator[Result]:
    name = member.name
    if not member.secret and member.secret_problem is None:
        what = "spec.secretRef names no Secret."
        if member.is_annotated:
            what = f"The annotation {SECRET_ANNOTATION} is not NAMESPACE/NAME of a Secret."
        yield _finding(member, "member-secret-unset", what, _JOIN)
    problem = member.secret_problem
    if problem is not None and problem.cause is Cause.ABSENT:
        what = f"The Secret {member.secret} does not exist."
        if member.is_annotated:
            what = f"{what} The annotation {SECRET_ANNOTATION} names it."
        yield _finding(member, "member-secret-missing", what, _JOIN)
    elif problem is not None:
        yield NotChecked(f"the member {name}", f"the Secret {member.secret} cannot be read: {seen(problem)}")
    if member.access_error:
        yield _finding(member, "member-access-invalid", member.access_error, _SHOW)
    if member.problem is not None:
        # The Secret of another cluster has its token and its CA.
        if member.problem.cause in (Cause.UNAUTHORIZED, Cause.UNTRUSTED):
            yield from _foreign_secret(member)
        yield _unreachable(member, member.problem, now)


def _foreign_secret(member: Member) -> Iterator[Finding]:
    """Yields a finding if the Secret belongs to another Cluster, or if the annotation names any Secret."""
    if member.owner and member.owner != member.name:
        what = f"The label of the Secret {member.secret} names the Cluster {member.owner}."
    elif member.is_annotated and not member.owner:
        what = f"The annotation {SECRET_ANNOTATION} names {member.secret}, which fedhpa join did not write."
    else:
        return
    yield _finding(member, "member-secret-foreign", what, _JOIN)


def _token(member: Member, token: Token, now: float) -> Iterator[Finding]:
    left, life = token.expires - now, token.expires - token.issued
    soon = min(SOON_SECONDS, LEAST_SHARE * life)
    if left > (soon if token.is_renewed else max(soon, DAY_SECONDS)):
        return
    # The member accepts the token although it has expired, so the clocks differ.
    ends = f"The token expires in {days(left)}" if left > 0 else f"The token expired {days(-left)} ago"
    if token.is_renewed:
        what = f"{ends}, and the controller has not renewed it. Events of the Cluster say why."
        yield _finding(member, "member-token-expires-soon", what, "kubectl describe cluster {name}")
    else:
        what = f"{ends}, and nobody renews it."
        yield _finding(member, "member-token-expires-soon", what, _JOIN)


def _unreachable(member: Member, problem: Problem, now: float) -> Finding:
    check = "kubectl --server={endpoint} get --raw /readyz"
    found = {
        Cause.UNREACHABLE: ("member-unreachable", check),
        Cause.TIMEOUT: ("member-timeout", check),
        Cause.UNTRUSTED: ("member-certificate-untrusted", _JOIN),
        Cause.UNAUTHORIZED: ("member-token-refused", _JOIN),
        Cause.FORBIDDEN: (
            "member-rights-missing",
            "fedhpa rbac member | kubectl --context={name} apply -f -",
        ),
    }
    kind, command = found.get(
        problem.cause, ("member-not-ready", "kubectl --context={name} get --raw '/readyz?verbose'")
    )
    if kind == "member-certificate-untrusted" and "expired" in problem.text:
        kind, command = "member-certificate-expired", "kubectl --context={name} get --raw /readyz"
    what = f"{member.endpoint}: {problem.text}"
    if kind == "member-token-refused" and member.token is not None and member.token.expires <= now:
        what = f"{what} (the token expired {days(now - member.token.expires)} ago)"
    return _finding(member, kind, what, command)


def _rights(member: Member) -> Iterator[Result]:
    if isinstance(member.missing, Problem):
        yield NotChecked(f"the rights in {member.name}", seen(member.missing))
    elif member.missing:
        what = f"The hub's token may not: {names(member.missing)}."
        flag = " --distributed" if any(map(_is_of_distributed, member.missing)) else ""
        command = f"fedhpa rbac member{flag} | kubectl --context={{name}} apply -f -"
        yield _finding(member, "member-rights-missing", what, command)


def _is_of_distributed(right: Right) -> bool:
    """True for a right that only mode Distributed needs."""
    return right.resource == "horizontalpodautoscalers" and right.verb != "list"


def _lacks_usage(member: Member) -> bool:
    """True if the token may not read usage, which then explains an error of the metrics."""
    return not isinstance(member.missing, Problem) and any(
        each.group == USAGE_GROUP and each.verb == "list" for each in member.missing
    )


def _metrics(member: Member) -> Iterator[Result]:
    command = "kubectl --context={name} get apiservices v1beta1.metrics.k8s.io -o yaml"
    problem = member.metrics_problem
    if problem is not None and problem.cause is Cause.ABSENT:
        what = f"{USAGE_GROUP} is not served: no metrics-server is installed."
        yield _finding(member, "member-metrics-not-served", what, command)
    elif problem is not None:
        yield _finding(member, "member-metrics-failing", f"{USAGE_GROUP}: {problem.text}", command)
    elif member.sampled is not None and member.sampled > MAX_SAMPLE_AGE_SECONDS:
        what = f"The newest usage is {member.sampled:.0f} s old."
        command = "kubectl --context={name} -n kube-system logs -l k8s-app=metrics-server"
        yield _finding(member, "member-metrics-stale", what, command)


def _finding(member: Member, kind: str, what: str, command: str) -> Finding:
    return Finding(
        kind, member.name, what, command.format(name=quote(member.name), endpoint=quote(member.endpoint))
    )
