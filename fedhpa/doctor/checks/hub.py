"""The first checks: the kubeconfig, the hub's API server, its clock, the accounts' rights, and the CRDs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from shlex import quote
from typing import Final

from fedhpa.doctor.findings import Finding, NotChecked, Result
from fedhpa.doctor.observations import Cause, Definition, Hub, Observation, Problem, Rights

# A lease of 15 s and a period of 15 s bear a difference of this size.
MAX_SKEW_SECONDS: Final = 30.0
# Names in a message. The command shows the others.
MAX_NAMES: Final = 5
CLUSTER_KIND: Final = "Cluster"


def check_hub(hub: Hub) -> Iterator[Finding]:
    """Yields the first failed check on the way to the hub. All other checks depend on it."""
    if hub.kubeconfig:
        yield Finding("kubeconfig-unusable", "kubeconfig", hub.kubeconfig, "kubectl config view")
    elif hub.problem is not None:
        yield _unreachable(hub, hub.problem)


def _unreachable(hub: Hub, problem: Problem) -> Finding:
    found = {
        Cause.UNTRUSTED: ("hub-certificate-untrusted", "kubectl config view --minify"),
        Cause.UNAUTHORIZED: ("hub-login-refused", "kubectl auth whoami"),
        Cause.UNREACHABLE: ("hub-unreachable", "kubectl cluster-info"),
        Cause.TIMEOUT: ("hub-unreachable", "kubectl cluster-info"),
    }
    kind, command = found.get(problem.cause, ("hub-failing", "kubectl get --raw '/readyz?verbose'"))
    if kind == "hub-certificate-untrusted" and "expired" in problem.text:
        kind, command = "hub-certificate-expired", "kubeadm certs renew apiserver"
    return Finding(kind, hub.server or "the hub", problem.text, command)


def check_hub_clock(hub: Hub) -> Iterator[Finding]:
    """Yields a finding if the hub's clock differs from ours."""
    if hub.skew is not None and abs(hub.skew) > MAX_SKEW_SECONDS:
        yield Finding(
            "hub-clock-skew", "the hub", skew_text("The hub's clock", "ours", hub.skew), "timedatectl"
        )


def skew_text(clock: str, other: str, skew: float) -> str:
    """Returns a sentence about a clock that is `skew` seconds ahead of the other."""
    direction = "ahead of" if skew > 0 else "behind"
    return f"{clock} is {abs(skew):.0f} s {direction} {other}."


def check_rights(found: Rights) -> Iterator[Result]:
    """Yields a finding if an account lacks rights."""
    check = f"the rights of {found.component}"
    if found.problem is not None:
        yield NotChecked(check, seen(found.problem))
    elif not found.account:
        yield NotChecked(check, f"no account of {found.component} was found on this hub")
    elif found.missing:
        what = f"{found.account} may not: {names(map(str, found.missing))}."
        part = found.component.removeprefix("fedhpa-").removeprefix("metrics-")
        secrets = {f"{each.namespace}/{each.name}" for each in found.missing if each.resource == "secrets"}
        options = "".join(f" --secret {quote(each)}" for each in sorted(secrets)[:MAX_NAMES])
        if found.propagation:
            options += f" --propagation={found.propagation}"
        command = f"fedhpa rbac {part}{options} | kubectl apply -f -"
        yield Finding("component-rights-missing", found.component, what, command)


def check_definition(definition: Definition) -> Iterator[Result]:
    """Yields a finding if the hub does not serve a kind, or drops fields of ours."""
    clusters = definition.kind == CLUSTER_KIND
    command = f"fedhpa crds{' --with-clusters' if clusters else ''} | kubectl apply -f -"
    problem = definition.problem
    if problem is not None and problem.cause is Cause.ABSENT:
        what = f"The hub does not serve {definition.kind}s."
        yield Finding("crd-missing", definition.kind, what, command)
    elif problem is not None:
        yield NotChecked(f"the CRD of {definition.kind}s", seen(problem))
    elif definition.lost:
        kind = "crd-fields-pruned" if definition.is_foreign else "crd-outdated"
        what = f"The CRD of {definition.kind}s drops {names(definition.lost)}."
        yield Finding(kind, definition.kind, what, command)


def serves(observation: Observation, kind: str) -> bool:
    """True unless the hub is known not to serve a kind."""
    return not any(
        each.kind == kind and each.problem is not None and each.problem.cause is Cause.ABSENT
        for each in observation.definitions
    )


def seen(problem: Problem) -> str:
    """Returns why a value could not be read."""
    if problem.cause is Cause.FORBIDDEN:
        return problem.text or "you lack the right"
    return problem.text or f"it is {problem.cause}"


def names(found: Iterable[object]) -> str:
    """Returns the first names, and the number of the others."""
    listed = [str(each) for each in found]
    more = f" and {len(listed) - MAX_NAMES} more" if len(listed) > MAX_NAMES else ""
    return ", ".join(listed[:MAX_NAMES]) + more
