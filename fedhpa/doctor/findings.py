"""The findings of the doctor: one for each check that can fail. The ids are stable, for scripts.

docs/reference/doctor.md lists them, and a test compares the page with this table.
"""

from __future__ import annotations

from typing import Final

import msgspec

_CLOSED: Final = "The hub refuses all objects of our kinds while it cannot call the webhook."
# The reason why a finding matters, by its id, in the order of the chains.
WHY: Final[dict[str, str]] = {
    # the hub
    "kubeconfig-unusable": "Without a kubeconfig nothing can be checked.",
    "hub-unreachable": "Every process needs the hub's API server.",
    "hub-certificate-untrusted": "A client never sends its token to a server that it cannot verify.",
    "hub-certificate-expired": "A client never sends its token to a server that it cannot verify.",
    "hub-login-refused": "The hub answers nothing to a caller that it does not know.",
    "hub-failing": "The API server of the hub answers with errors.",
    "hub-clock-skew": "Leases, schedules and the age of metrics depend on clocks that agree.",
    # rights
    "component-rights-missing": "Without these rights the component fails at its first use of them.",
    # definitions
    "crd-missing": "The hub cannot store an object of a kind that it does not serve.",
    "crd-fields-pruned": "The hub drops these fields without a word, so they have no effect.",
    "crd-outdated": "The hub drops the fields that this release added.",
    # admission
    "karmada-webhook-registered": "Karmada's webhook refuses objects that this project admits.",
    "webhook-not-registered": "Without the webhook the hub stores objects that can never work.",
    "webhook-service-missing": _CLOSED,
    "webhook-no-endpoints": _CLOSED,
    "webhook-name-unknown": _CLOSED,
    "webhook-connection-refused": _CLOSED,
    "webhook-timeout": _CLOSED,
    "webhook-certificate-expired": "The hub never calls a webhook that it cannot verify.",
    "webhook-certificate-untrusted": "The hub never calls a webhook that it cannot verify.",
    "webhook-call-failed": _CLOSED,
    "webhook-not-asked": "The hub stores objects that can never work.",
    "webhook-refuses-valid-objects": "Nobody can create or change such an object.",
    # aggregation
    "request-header-ca-missing": "The adapter cannot know the callers for whom the hub asks.",
    "apiservice-missing": "The hub does not serve the metrics of the members.",
    "apiservice-foreign": "Another server answers for the metrics of the members.",
    "apiservice-service-missing": "The hub answers 503 for this API.",
    "apiservice-no-endpoints": "The hub answers 503 for this API.",
    "apiservice-connection-refused": "The hub answers 503 for this API.",
    "apiservice-timeout": "The hub answers 503 for this API.",
    "apiservice-certificate-expired": "The hub never asks an adapter that it cannot verify.",
    "apiservice-certificate-untrusted": "The hub never asks an adapter that it cannot verify.",
    "apiservice-refuses-hub": "The adapter trusts another front proxy than that of this hub.",
    "apiservice-unavailable": "The hub answers 503 for this API.",
    # certificates
    "certificate-expired": "Connections that depend on it fail.",
    "certificate-expires-soon": "The connection that depends on it fails when it expires.",
    "ca-rotation-due": "All certificates that the controller issues expire with their CA.",
    # members
    "no-members": "Without a member cluster there is nothing to scale.",
    "member-duplicate": "A cluster counts under one name only, so the other one has no effect.",
    "member-secret-unset": "Without credentials no process can read the member.",
    "member-secret-missing": "Without credentials no process can read the member.",
    "member-secret-foreign": "The token is of another cluster, or nobody renews it.",
    "member-access-invalid": "Without a usable address and credentials no process can read the member.",
    "member-unreachable": "A member that does not answer stops scaling down.",
    "member-timeout": "A member that does not answer stops scaling down.",
    "member-certificate-expired": "No process sends its token to a server that it cannot verify.",
    "member-certificate-untrusted": "No process sends its token to a server that it cannot verify.",
    "member-token-refused": "A member that refuses the token stops scaling down.",
    "member-token-expires-soon": "A member that refuses the token stops scaling down.",
    "member-not-ready": "A member that is not ready stops scaling down.",
    "member-rights-missing": "The hub's token cannot read or scale what it must.",
    "member-metrics-not-served": "Metrics of type Resource have no values in this member.",
    "member-metrics-failing": "Metrics of type Resource have no values in this member.",
    "member-metrics-stale": "Sizes follow usage that is no longer true.",
    "member-clock-skew": "The age of pods and metrics is computed from clocks that agree.",
    "member-cordoned": "It gets no more replicas until somebody uncordons it.",
    "member-not-deleted": "The Cluster stays until a controller, or fedhpa unjoin, removes its finalizers.",
    # leadership
    "controller-not-running": "Nothing is scaled while no controller leads.",
    "controller-shards-differ": "Controllers with different numbers of shards never work at the same time.",
    "controller-shard-not-led": "The objects of this shard are not scaled.",
    "federatedhpa-controller-not-running": "No FederatedHPA is reconciled.",
    "cronfederatedhpa-controller-not-running": "No rule of a CronFederatedHPA fires.",
    "clusters-not-kept": "Nobody renews the tokens of members, or writes the condition Ready of Clusters.",
    "certificates-not-renewed": "The serving certificates expire, because nobody renews them.",
    # objects
    "karmada-controller-active": "Two controllers would undo each other's writes, so ours writes nothing.",
    "object-not-deleted": "The object and its namespace stay until a controller removes the finalizer.",
    "target-missing": "There is nothing to scale.",
    "target-on-hub": "The hub runs pods of a workload that only the members should run.",
    "second-owner": "Two autoscalers undo each other's writes.",
    "replicas-wait": "The cluster is not empty until these replicas have moved.",
}


class Finding(msgspec.Struct, frozen=True):
    """A failed check: its id, the object that it is about, the symptom, and the command that fixes it."""

    id: str
    subject: str
    what: str
    command: str

    @property
    def why(self) -> str:
        """The reason why it matters."""
        return WHY[self.id]


class NotChecked(msgspec.Struct, frozen=True):
    """A check that the caller cannot make, with the reason."""

    check: str
    why: str


class Report(msgspec.Struct, frozen=True):
    """The result: the findings in the order of the chains, and the checks that were not made."""

    findings: tuple[Finding, ...]
    not_checked: tuple[NotChecked, ...] = ()

    def to_json(self) -> dict[str, list[dict[str, str]]]:
        """Returns the report in the form of `fedhpa doctor -o json`."""
        findings = [
            {
                "id": each.id,
                "subject": each.subject,
                "what": each.what,
                "why": each.why,
                "command": each.command,
            }
            for each in self.findings
        ]
        return {
            "findings": findings,
            "notChecked": [{"check": each.check, "why": each.why} for each in self.not_checked],
        }


Result = Finding | NotChecked
