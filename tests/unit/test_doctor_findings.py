"""Each finding of the doctor: one failed check in an observation gives exactly that finding."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fedhpa.cli import main
from fedhpa.doctor import WHY, Observation, diagnose
from fedhpa.doctor.observations import (
    Admission,
    Aggregation,
    Api,
    Cause,
    Certificate,
    Definition,
    Entry,
    Hub,
    Leadership,
    Lease,
    Member,
    Objects,
    Place,
    Problem,
    Right,
    Rights,
    Scaled,
    Token,
    Trial,
)

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "doctor.md"
NOW = 1_800_000_000.0
DAY = 86_400.0
SERVICE = "fedhpa-system/fedhpa-metrics-adapter"
ENTRIES = (
    Entry(
        "fedhpa-webhook", "federatedhpa.karmada.io", ("federatedhpas",), True, "fedhpa-system/fedhpa-webhook"
    ),
    Entry(
        "fedhpa-webhook",
        "cronfederatedhpa.karmada.io",
        ("cronfederatedhpas",),
        True,
        "fedhpa-system/fedhpa-webhook",
    ),
    Entry(
        "fedhpa-webhook", "autoscaling.karmada.io", ("federatedhpas",), False, "fedhpa-system/fedhpa-webhook"
    ),
)
FHPA, CRON = "FederatedHPA", "CronFederatedHPA"
TRIALS = (
    Trial(FHPA, True),
    Trial(FHPA, False, "must be positive", 'admission webhook "x" denied the request: must be positive'),
    Trial(CRON, True),
    Trial(
        CRON, False, "invalid cron format", 'admission webhook "y" denied the request: invalid cron format'
    ),
)
APIS = tuple(
    Api(f"{version}.{group}", group, SERVICE, True, True, "Passed", "all checks passed")
    for group, version in (("custom.metrics.k8s.io", "v1beta2"), ("external.metrics.k8s.io", "v1beta1"))
)
MEMBER = Member("m1", "fedhpa-system/m1", endpoint="https://m1:6443", skew=1.0, sampled=20.0)
WEB = Scaled(FHPA, "shop/web", "Deployment web", "direct", Place.ABSENT, Place.FOUND)
NIGHT = Scaled(CRON, "shop/night", "FederatedHPA web", "", Place.FOUND, Place.ABSENT)
LEASES = (
    Lease("fedhpa-system", "fedhpa-controller-0-of-1", "a", 3.0),
    Lease("fedhpa-system", "fedhpa-controller-cron-0-of-1", "a", 3.0),
    Lease("fedhpa-system", "fedhpa-controller-clusters", "a", 3.0),
    Lease("fedhpa-system", "fedhpa-controller-certificates", "a", 3.0),
)
HEALTHY = Observation(
    NOW,
    Hub("", "https://hub:6443", None, 0.4, "v1.36.3"),
    rights=(
        Rights("fedhpa-controller", "system:serviceaccount:fedhpa-system:fedhpa-controller"),
        Rights("fedhpa-metrics-adapter", "system:serviceaccount:fedhpa-system:fedhpa-metrics-adapter"),
    ),
    definitions=(Definition(FHPA), Definition(CRON), Definition("Cluster")),
    admission=Admission(ENTRIES, TRIALS),
    aggregation=Aggregation(APIS, True, "present"),
    members=(MEMBER, msgspec.structs.replace(MEMBER, name="m2")),
    objects=Objects((WEB,), (NIGHT,)),
    leadership=Leadership(LEASES, True, True),
    certificates=(Certificate("webhook caBundle", NOW - 300 * DAY, NOW + 3_000 * DAY),),
)

put = msgspec.structs.replace


def hub(cause: Cause, text: str = "words") -> Observation:
    """The hub does not answer; nothing behind it was read."""
    return Observation(NOW, Hub("", "https://hub:6443", Problem(cause, text)))


def member(**changes: Any) -> Observation:
    """One of the two members is broken."""
    assert isinstance(HEALTHY.members, tuple)
    return put(HEALTHY, members=(put(MEMBER, **changes), HEALTHY.members[1]))


def no_verdict(text: str) -> Observation:
    """The hub cannot call the webhook."""
    problem = Problem(Cause.FAILED, f'Internal error occurred: failed calling webhook "x": {text}')
    trials = tuple(put(each, refusal="", problem=problem) for each in TRIALS)
    return put(HEALTHY, admission=Admission(ENTRIES, trials))


def api(**changes: Any) -> Observation:
    """All APIs of the adapter are broken in the same way."""
    return put(
        HEALTHY, aggregation=Aggregation(tuple(put(each, **changes) for each in APIS), True, "present")
    )


def unavailable(message: str, reason: str = "FailedDiscoveryCheck") -> Observation:
    return api(available=False, reason=reason, message=message)


def web(**changes: Any) -> Observation:
    return put(HEALTHY, objects=Objects((put(WEB, **changes),), (NIGHT,)))


def leases(*found: Lease, **more: Any) -> Observation:
    return put(HEALTHY, leadership=Leadership(found, **more))


def renewed(name: str, age: float = 3.0, holder: str = "a") -> Lease:
    return Lease("fedhpa-system", f"fedhpa-controller-{name}", holder, age)


def expires(seconds: float, place: str = "webhook caBundle") -> Observation:
    return put(HEALTHY, certificates=(Certificate(place, NOW - 300 * DAY, NOW + seconds),))


POST = 'failed to call webhook: Post "https://fedhpa-webhook.fedhpa-system.svc:443/validate?timeout=3s": '
GET = (
    'failing or missing response from https://10.0.0.1:443/apis/x/v1: Get "https://10.0.0.1:443/apis/x/v1": '
)
MISSING = (Right("list", "autoscaling.karmada.io", "federatedhpas"),)
ABSENT = Problem(Cause.ABSENT, "not found")

BROKEN: dict[str, Observation] = {
    "kubeconfig-unusable": Observation(NOW, Hub("kubeconfig x: no such file")),
    "hub-unreachable": hub(Cause.UNREACHABLE),
    "hub-certificate-untrusted": hub(Cause.UNTRUSTED, "certificate not accepted: unable to get local issuer"),
    "hub-certificate-expired": hub(Cause.UNTRUSTED, "certificate not accepted: certificate has expired"),
    "hub-login-refused": hub(Cause.UNAUTHORIZED),
    "hub-failing": hub(Cause.FAILED, "etcdserver: request timed out"),
    "hub-clock-skew": put(HEALTHY, hub=put(HEALTHY.hub, skew=-90.0)),
    "component-rights-missing": put(HEALTHY, rights=(put(HEALTHY.rights[0], missing=MISSING),)),
    "crd-missing": put(HEALTHY, definitions=(Definition(FHPA, ABSENT), Definition(CRON))),
    "crd-fields-pruned": put(HEALTHY, definitions=(Definition(FHPA, None, ("spec.dryRun",), True),)),
    "crd-outdated": put(HEALTHY, definitions=(Definition(FHPA, None, ("status.summary.reason",)),)),
    "karmada-webhook-registered": put(
        HEALTHY,
        admission=Admission(
            (*ENTRIES, put(ENTRIES[0], configuration="validating-config", place="https://karmada-webhook")),
            tuple(put(each, refusal="refused by Karmada") for each in TRIALS),
        ),
    ),
    "webhook-not-registered": put(
        HEALTHY, admission=Admission((), tuple(put(each, refusal="") for each in TRIALS))
    ),
    "webhook-service-missing": no_verdict(POST + 'service "fedhpa-webhook" not found'),
    "webhook-no-endpoints": no_verdict(POST + 'no endpoints available for service "fedhpa-webhook"'),
    "webhook-name-unknown": no_verdict(
        POST + "dial tcp: lookup fedhpa-webhook.fedhpa-system.svc: no such host"
    ),
    "webhook-connection-refused": no_verdict(POST + "dial tcp 10.0.0.1:443: connect: connection refused"),
    "webhook-timeout": no_verdict(POST + "context deadline exceeded"),
    "webhook-certificate-expired": no_verdict(
        POST + "tls: failed to verify certificate: x509: certificate has expired or is not yet valid"
    ),
    "webhook-certificate-untrusted": no_verdict(
        POST + "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    ),
    "webhook-call-failed": no_verdict(
        "failed to call webhook: the server could not find the requested resource"
    ),
    "webhook-not-asked": put(
        HEALTHY, admission=Admission(ENTRIES, tuple(put(each, refusal="") for each in TRIALS))
    ),
    "webhook-refuses-valid-objects": put(
        HEALTHY, admission=Admission(ENTRIES, tuple(put(each, refusal=f"{each.words} no") for each in TRIALS))
    ),
    "request-header-ca-missing": put(
        api(
            available=False,
            reason="FailedDiscoveryCheck",
            message=f"{GET}bad status from https://x/apis: 401",
        ),
        aggregation=Aggregation(
            tuple(put(each, available=False, message="bad status from https://x: 401") for each in APIS),
            True,
            "",
        ),
    ),
    "apiservice-missing": put(HEALTHY, aggregation=Aggregation((), True, "present")),
    "apiservice-foreign": put(
        HEALTHY,
        aggregation=Aggregation(
            (put(APIS[0], service="karmada-system/karmada-metrics-adapter"),), True, "present"
        ),
    ),
    "apiservice-service-missing": unavailable("service/x is not present", "ServiceNotFound"),
    "apiservice-no-endpoints": unavailable("endpoints have no addresses", "MissingEndpoints"),
    "apiservice-connection-refused": unavailable(GET + "dial tcp 10.0.0.1:443: connect: connection refused"),
    "apiservice-timeout": unavailable(GET + "context deadline exceeded"),
    "apiservice-certificate-expired": unavailable(GET + "x509: certificate has expired or is not yet valid"),
    "apiservice-certificate-untrusted": unavailable(GET + "x509: certificate signed by unknown authority"),
    "apiservice-refuses-hub": unavailable("failing: bad status from https://10.0.0.1:443/apis/x/v1: 401"),
    "apiservice-unavailable": unavailable(GET + "EOF"),
    "certificate-expired": expires(-3 * DAY),
    "certificate-expires-soon": expires(3 * DAY),
    "ca-rotation-due": put(expires(300 * DAY), leadership=Leadership(LEASES, manages_certificates=True)),
    "no-members": put(HEALTHY, members=()),
    "member-duplicate": put(
        HEALTHY,
        members=(put(MEMBER, uid="a-b", created="2026-02-01T00:00:00Z"), put(MEMBER, name="m0", uid="a-b")),
    ),
    "member-secret-unset": put(HEALTHY, members=(Member("m1"),)),
    "member-secret-missing": put(HEALTHY, members=(Member("m1", "x/m1", secret_problem=ABSENT),)),
    "member-secret-foreign": member(is_annotated=True),
    "member-access-invalid": put(HEALTHY, members=(Member("m1", "x/m1", access_error="no caBundle"),)),
    "member-unreachable": member(problem=Problem(Cause.UNREACHABLE, "cannot connect: Connection refused")),
    "member-timeout": member(problem=Problem(Cause.TIMEOUT, "no answer in time")),
    "member-certificate-expired": member(problem=Problem(Cause.UNTRUSTED, "certificate has expired")),
    "member-certificate-untrusted": member(problem=Problem(Cause.UNTRUSTED, "unable to get local issuer")),
    "member-token-refused": member(problem=Problem(Cause.UNAUTHORIZED, "Unauthorized")),
    "member-token-expires-soon": member(token=Token(NOW - 29 * DAY, NOW + DAY)),
    "member-not-ready": member(problem=Problem(Cause.FAILED, "HTTP 500")),
    "member-rights-missing": member(
        missing=(Right("list", "metrics.k8s.io", "pods"),),
        metrics_problem=Problem(Cause.FORBIDDEN, "forbidden"),
    ),
    "member-metrics-not-served": member(metrics_problem=ABSENT, sampled=None),
    "member-metrics-failing": member(metrics_problem=Problem(Cause.FAILED, "unavailable"), sampled=None),
    "member-metrics-stale": member(sampled=400.0),
    "member-clock-skew": member(skew=45.0),
    "member-cordoned": member(own_taints=("fedhpa.io/drain",)),
    "member-not-deleted": member(deleted=NOW - 60.0),
    "controller-not-running": leases(
        renewed("0-of-1", 600.0), renewed("cron-0-of-1", 600.0), is_deciding=True
    ),
    "controller-shards-differ": leases(
        renewed("0-of-1"), renewed("0-of-2"), renewed("cron-0-of-1"), renewed("clusters")
    ),
    "controller-shard-not-led": leases(renewed("0-of-2"), renewed("cron-0-of-1"), renewed("clusters")),
    "federatedhpa-controller-not-running": leases(renewed("cron-0-of-1"), renewed("clusters")),
    "cronfederatedhpa-controller-not-running": leases(
        renewed("0-of-1"), renewed("cron-0-of-1", 500.0), renewed("clusters")
    ),
    "clusters-not-kept": leases(*LEASES[:2], renewed("clusters", 600.0)),
    "certificates-not-renewed": leases(*LEASES[:3], manages_certificates=True),
    "karmada-controller-active": web(by_karmada=True),
    "object-not-deleted": web(deleted=600.0, in_members=Place.ABSENT),
    "target-missing": web(in_members=Place.ABSENT),
    "target-on-hub": web(on_hub=Place.FOUND),
    "second-owner": web(others=("HorizontalPodAutoscaler shop/web in m1",)),
    "replicas-wait": web(leaving=("m2: waiting for 1 new pod in m1",)),
}


def test_nothing_is_found_where_nothing_is_broken() -> None:
    report = diagnose(HEALTHY)

    assert (report.findings, report.not_checked) == ((), ())


def test_each_finding_has_its_case() -> None:
    """The table of findings and the cases below have the same ids, in the same order."""
    assert list(BROKEN) == list(WHY)


@pytest.mark.parametrize("kind", BROKEN)
def test_one_broken_hop_is_one_finding(kind: str) -> None:
    """The observation is healthy but for one check, and the report has that finding and nothing else."""
    report = diagnose(BROKEN[kind])

    assert [each.id for each in report.findings] == [kind]
    finding = report.findings[0]
    assert finding.subject
    assert finding.what
    assert finding.why.endswith(".")


@pytest.mark.parametrize("kind", BROKEN)
def test_a_command_of_ours_exists(kind: str) -> None:
    """A finding names a command of kubectl or of this project, and each of ours has that name and options."""
    command = diagnose(BROKEN[kind]).findings[0].command
    first = shlex.split(command.partition("|")[0])

    assert first[0] in ("kubectl", "fedhpa", "timedatectl", "kubeadm", "karmada-controller-manager")
    assert "{" not in command
    if first[0] == "fedhpa":
        found: Any = main.command()
        words = first[1:]
        while hasattr(found, "commands"):
            found = found.commands[words.pop(0)]
        known = {option for parameter in found.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known


def test_the_page_lists_the_findings() -> None:
    """docs/reference/doctor.md has each id with its reason, in the order of the chains."""
    rows = re.findall(r"^\| `([a-z-]+)` \|.*\| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)

    assert rows == list(WHY.items())


@pytest.mark.parametrize("cause", [Cause.FORBIDDEN, Cause.TIMEOUT, Cause.FAILED])
def test_a_hop_that_cannot_be_seen_is_no_finding(cause: Cause) -> None:
    """Each list that the caller may not read is told as not checked, and no finding."""
    problem = Problem(cause, "forbidden: User cannot list")
    blind = put(
        HEALTHY,
        rights=(Rights("fedhpa-controller", problem=problem), Rights("fedhpa-metrics-adapter")),
        definitions=(Definition(FHPA, problem),),
        admission=Admission(problem, tuple(put(each, refusal="", problem=problem) for each in TRIALS)),
        aggregation=Aggregation(problem),
        members=problem,
        objects=Objects(problem, problem),
        leadership=Leadership(problem),
    )
    report = diagnose(blind)

    assert report.findings == ()
    assert len(report.not_checked) == 10


def test_several_chains_are_reported_in_their_order() -> None:
    """One failed check of each chain gives one finding each, in the order of the chains."""
    seen = put(BROKEN["webhook-timeout"], members=BROKEN["member-timeout"].members)
    seen = put(seen, leadership=BROKEN["controller-shard-not-led"].leadership)

    assert [each.id for each in diagnose(seen).findings] == [
        "webhook-timeout",
        "member-timeout",
        "controller-shard-not-led",
    ]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("dial tcp: lookup x.y.svc on 10.0.0.10:53: read udp: connection refused", "webhook-name-unknown"),
        ("dial tcp: lookup x.y.svc on 10.0.0.10:53: server misbehaving", "webhook-name-unknown"),
        ("dial tcp 10.0.0.1:443: i/o timeout", "webhook-timeout"),
        ("net/http: TLS handshake timeout", "webhook-timeout"),
        ("dial tcp 10.0.0.1:443: connect: no route to host", "webhook-connection-refused"),
        ("x509: certificate is valid for a.svc, not b.svc", "webhook-certificate-untrusted"),
        ("remote error: tls: handshake failure", "webhook-certificate-untrusted"),
        ("EOF", "webhook-call-failed"),
    ],
)
def test_the_words_of_the_api_server_tell_the_cause(words: str, kind: str) -> None:
    """The URL in the message has any words, such as the timeout in its query, and counts for nothing."""
    assert [each.id for each in diagnose(no_verdict(POST + words)).findings] == [kind]


def test_an_expired_certificate_is_told_once() -> None:
    """Where the hub refuses the webhook's expired certificate, its lifetime is no second finding."""
    seen = put(expires(-DAY), admission=BROKEN["webhook-certificate-expired"].admission)

    assert [each.id for each in diagnose(seen).findings] == ["webhook-certificate-expired"]


@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("webhook certificate", "fedhpa certs issue --ca-dir ca --out tls --common-name fedhpa-webhook"),
        (
            "apiservice caBundle",
            "fedhpa certs issue --ca-dir ca --out tls --common-name fedhpa-metrics-adapter",
        ),
        ("member m1 caBundle", "fedhpa join m1 --cluster-kubeconfig FILE"),
        ("request-header CA", "kubectl -n kube-system get configmap"),
    ],
)
def test_a_certificate_is_renewed_where_it_is(place: str, command: str) -> None:
    """Without --manage-certificates the command issues it; with it, ours are the controller's to renew."""
    seen = put(expires(DAY, place), leadership=Leadership(LEASES))
    managed = put(seen, leadership=Leadership(LEASES, manages_certificates=True))

    assert diagnose(seen).findings[0].command.startswith(command)
    theirs = diagnose(seen).findings[0].command
    of_controller = {
        "webhook certificate": "fedhpa certs show",
        "apiservice caBundle": "fedhpa certs rotate-ca",
    }
    assert diagnose(managed).findings[0].command == of_controller.get(place, theirs)


@pytest.mark.parametrize(("days", "due"), [(364, True), (15, True), (366, False)])
def test_a_managed_ca_is_replaced_in_its_last_year(days: int, due: bool) -> None:
    """It is told once, though two registrations have it. Elsewhere CAs may live shorter."""
    places = ("webhook caBundle", "apiservice caBundle")
    cas = tuple(Certificate(place, NOW - 3000 * DAY, NOW + days * DAY) for place in places)
    managed = put(HEALTHY, certificates=cas, leadership=Leadership(LEASES, manages_certificates=True))

    found = [(each.id, each.command) for each in diagnose(managed).findings]
    assert found == ([("ca-rotation-due", "fedhpa certs rotate-ca")] if due else [])
    assert diagnose(put(managed, leadership=Leadership(LEASES))).findings == ()


def test_an_expired_managed_ca_is_the_remedy_of_a_refused_webhook() -> None:
    """The hub's words are those of an expired certificate, and the command replaces the CA."""
    seen = put(expires(-DAY), admission=BROKEN["webhook-certificate-expired"].admission)
    managed = put(seen, leadership=Leadership(LEASES, manages_certificates=True))

    found = [(each.id, each.command) for each in diagnose(managed).findings]
    assert found == [("webhook-certificate-expired", "fedhpa certs rotate-ca")]


def test_a_short_certificate_is_not_about_to_expire_for_its_whole_life() -> None:
    """A certificate of one day is overdue with a fifth of its life left."""
    day = Certificate("webhook certificate", NOW - DAY / 2, NOW + DAY / 2)
    late = Certificate("webhook certificate", NOW - 0.9 * DAY, NOW + 0.1 * DAY)

    assert diagnose(put(HEALTHY, certificates=(day,))).findings == ()
    assert [each.id for each in diagnose(put(HEALTHY, certificates=(late,))).findings] == [
        "certificate-expires-soon"
    ]


@pytest.mark.parametrize(
    ("life", "left", "is_renewed", "words"),
    [
        (30 * DAY, 11 * DAY, True, ""),
        (30 * DAY, 4 * DAY, True, "expires in 4 days, and the controller has not renewed it"),
        (30 * DAY, 4 * DAY, False, "expires in 4 days, and nobody renews it"),
        (3_600.0, 1_100.0, True, ""),
        (3_600.0, 500.0, True, "expires in 8 minutes, and the controller has not renewed it"),
        (3_600.0, 3_500.0, False, "expires in 58 minutes, and nobody renews it"),
        (365 * DAY, 20 * DAY, False, ""),
        (365 * DAY, 13 * DAY, False, "expires in 13 days, and nobody renews it"),
    ],
)
def test_a_token_expires_soon_in_proportion_to_its_life(
    life: float, left: float, is_renewed: bool, words: str
) -> None:
    """A renewed token is overdue with a sixth of its life left. Another one is late on its last day too."""
    seen = member(token=Token(NOW + left - life, NOW + left, is_renewed))
    found = [each.what for each in diagnose(seen).findings]

    assert [words in each for each in found] == [True] * bool(words)


def test_a_refused_token_that_expired_says_so() -> None:
    seen = member(
        token=Token(NOW - 30 * DAY, NOW - 3 * DAY), problem=Problem(Cause.UNAUTHORIZED, "Unauthorized")
    )
    (finding,) = diagnose(seen).findings

    assert finding.what == "https://m1:6443: Unauthorized (the token expired 3 days ago)"


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"owner": "m1", "is_annotated": True}, "", ""),
        (
            {"owner": "m2"},
            "member-secret-foreign",
            "The label of the Secret fedhpa-system/m1 names the Cluster m2",
        ),
        ({"is_annotated": True}, "member-secret-foreign", "which fedhpa join did not write"),
        (
            {"is_annotated": True, "problem": Problem(Cause.UNAUTHORIZED, "no")},
            "member-secret-foreign",
            "which fedhpa join did not write",
        ),
        (
            {"owner": "m2", "problem": Problem(Cause.UNTRUSTED, "unable to get local issuer")},
            "member-secret-foreign",
            "names the Cluster m2",
        ),
        (
            {"is_annotated": True, "problem": Problem(Cause.TIMEOUT, "no")},
            "member-timeout",
            "no",
        ),
        (
            {"is_annotated": True, "secret": "", "endpoint": ""},
            "member-secret-unset",
            "The annotation fedhpa.io/secret is not NAMESPACE/NAME of a Secret.",
        ),
        (
            {"is_annotated": True, "secret_problem": ABSENT},
            "member-secret-missing",
            "does not exist. The annotation fedhpa.io/secret names it.",
        ),
    ],
)
def test_the_secret_of_the_annotation_is_checked(changes: dict[str, Any], kind: str, words: str) -> None:
    """It must exist and be of this Cluster. A Secret of spec.secretRef needs no label."""
    found = [(each.id, words in each.what) for each in diagnose(member(**changes)).findings]

    assert found == ([(kind, True)] if kind else [])


@pytest.mark.parametrize("words", ["connect: connection refused", "i/o timeout", "x509: unknown authority"])
def test_a_service_without_endpoints_explains_a_failed_call(words: str) -> None:
    """An API server that dials the cluster IP cannot tell that nothing is behind it."""
    seen = no_verdict(f"{POST}dial tcp 10.0.0.1:443: {words}")
    assert seen.admission is not None
    entries = tuple(put(each, ready=0) for each in ENTRIES)
    empty = put(seen, admission=put(seen.admission, entries=entries))
    (finding,) = diagnose(empty).findings

    assert finding.id == "webhook-no-endpoints"
    assert finding.what.startswith("The Service fedhpa-system/fedhpa-webhook has no ready endpoint: ")


def test_a_policy_that_refuses_valid_objects_is_shown() -> None:
    """The hub calls the plugin ValidatingAdmissionPolicy before webhooks."""
    text = "ValidatingAdmissionPolicy 'no-rules' with binding 'no-rules' denied request: no"
    trials = tuple(put(each, refusal=text) if each.is_valid else each for each in TRIALS)
    (finding,) = diagnose(put(HEALTHY, admission=Admission(ENTRIES, trials))).findings

    assert finding.id == "webhook-refuses-valid-objects"
    assert finding.command == "kubectl get validatingadmissionpolicies"


def test_a_metrics_server_of_the_hub_is_not_foreign() -> None:
    """A hub that runs pods has a metrics-server of its own for metrics.k8s.io."""
    usage = Api("v1beta1.metrics.k8s.io", "metrics.k8s.io", "kube-system/metrics-server", False, True)
    both = put(HEALTHY, aggregation=Aggregation((*APIS, usage), True, "present"))
    alone = put(HEALTHY, aggregation=Aggregation((usage,), False, "present"))

    assert diagnose(both).findings == diagnose(alone).findings == ()


def test_a_target_that_may_be_in_a_silent_member_is_not_missing() -> None:
    seen = put(web(in_members=Place.UNKNOWN), members=BROKEN["member-timeout"].members)

    assert [each.id for each in diagnose(seen).findings] == ["member-timeout"]


def test_a_controller_without_a_lease_is_no_finding_while_it_decides() -> None:
    """--leader-elect=false needs no Lease."""
    report = diagnose(put(HEALTHY, leadership=Leadership((), is_deciding=True)))

    assert report.findings == ()
    assert [each.check for each in report.not_checked] == ["the Leases of the controller"]


def test_no_rules_need_no_controller_of_rules() -> None:
    """--controllers=federatedhpa is right on a hub without CronFederatedHPAs."""
    held = leases(renewed("0-of-1"), renewed("clusters"))

    assert diagnose(put(held, objects=Objects((WEB,), ()))).findings == ()


def test_a_lease_of_clusters_that_never_was_is_found() -> None:
    assert [each.id for each in diagnose(leases(*LEASES[:2])).findings] == ["clusters-not-kept"]


def test_a_deletion_may_take_two_minutes() -> None:
    """The finalizers of ours are removed within one."""
    assert diagnose(web(deleted=100.0)).findings == ()


HOSTILE = "x; rm -rf $HOME `id` {0} '"


@pytest.mark.parametrize(
    "seen",
    [
        member(name=HOSTILE, problem=Problem(Cause.UNAUTHORIZED, "no")),
        member(endpoint=f"https://m1/{HOSTILE}", problem=Problem(Cause.UNREACHABLE, "no")),
        web(target=f"Deployment {HOSTILE}", on_hub=Place.FOUND),
        put(HEALTHY, rights=(put(HEALTHY.rights[0], missing=(Right("get", "", "secrets", HOSTILE, "x"),)),)),
        put(
            HEALTHY,
            aggregation=Aggregation(
                (put(APIS[0], name=HOSTILE, service="a/b"),),
                adapter_installed=True,
                request_header_ca="present",
            ),
        ),
        put(
            HEALTHY,
            admission=Admission((*ENTRIES, put(ENTRIES[0], name="x.karmada.io", configuration=HOSTILE)), ()),
        ),
    ],
)
def test_a_command_is_safe_to_paste(seen: Observation) -> None:
    """A name of others is one word of the command, whatever it contains."""
    (finding,) = diagnose(seen).findings

    assert any(HOSTILE in word for word in shlex.split(finding.command.removesuffix(" | kubectl apply -f -")))
