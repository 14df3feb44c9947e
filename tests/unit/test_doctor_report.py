"""The doctor's report, the words of failed calls, and the lifetimes of certificates."""

from __future__ import annotations

import ast
from pathlib import Path
from string import Formatter
from typing import Any, cast

import pytest

from fedhpa.doctor import report as report_module
from fedhpa.doctor.certificates import Certificate, cause_of, check_certificates
from fedhpa.doctor.hub import check_installed
from fedhpa.doctor.report import TABLE, Commands, Report
from fedhpa.doctor.session import Cause, Problem
from fedhpa.doctor.site import CRDS, ROLES, Site

NOW = 1_800_000_000.0
DAY = 86_400.0
POST = 'failed to call webhook: Post "https://fedhpa-webhook.fedhpa-system.svc:443/validate?timeout=3s": '
MANAGED = {"spec": {"template": {"spec": {"containers": [{"args": ["--manage-certificates"]}]}}}}


def site(*, managed: bool = False) -> Site:
    found = Site(cast(Any, None), Report("hub", "https://hub"), Commands(), NOW, 0.0, "")
    found.deployments = {"fedhpa-controller": MANAGED} if managed else {}
    return found


def found(place: Site) -> list[tuple[str, str]]:
    return [(each.id, each.command or each.advice) for each in place.report.findings]


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        ('service "fedhpa-webhook" not found', "missing"),
        ("dial tcp: lookup x.y.svc on 10.0.0.10:53: read udp: connection refused", "missing"),
        ("dial tcp: lookup x.y.svc on 10.0.0.10:53: server misbehaving", "missing"),
        ("dial tcp 10.0.0.1:443: i/o timeout", ""),
        ("net/http: TLS handshake timeout", ""),
        ("dial tcp 10.0.0.1:443: connect: no route to host", ""),
        ("x509: certificate is valid for a.svc, not b.svc", "certificate"),
        ("tls: failed to verify certificate: x509: certificate has expired", "certificate"),
        ("remote error: tls: handshake failure", "certificate"),
        ("EOF", ""),
    ],
)
def test_the_words_of_the_api_server_tell_the_cause(words: str, cause: str) -> None:
    """The URL in the message has any words, such as the timeout in its query, and counts for nothing."""
    assert cause_of(POST + words) == cause


def test_findings_have_the_order_of_the_table() -> None:
    """The report is sorted by topic, whatever was found first."""
    report = Report("hub", "https://hub")
    for kind in reversed(TABLE):
        report.add(kind, "it", **dict.fromkeys(fields_of(kind), "broken"))

    assert [each.id for each in report.findings] == list(TABLE)
    order = "mend them in this order, because an earlier one may cause a later one"
    assert report.to_text().splitlines()[1] == f"{len(TABLE)} findings: {order}"
    assert report.exit_code == 1


def test_a_report_says_if_it_is_complete() -> None:
    """Exit code 3 is neither healthy nor a finding. A finding comes before it."""
    report = Report("hub", "https://hub")
    assert (report.exit_code, report.to_json()["healthy"]) == (0, True)

    report.skip("the members", "no answer in time")
    report.skip("the members", "no answer in time")

    assert (report.exit_code, report.to_json()["healthy"]) == (3, False)
    assert report.to_text().splitlines() == [
        "context hub, server https://hub",
        "nothing was found, but 1 check was not made",
        "not checked: the members: no answer in time",
    ]
    report.add("no-members", "clusters")
    assert report.exit_code == 1


def test_all_checks_that_lack_a_right_are_one_line_with_the_rights() -> None:
    """The line names what was not checked and by which right it would be. Other causes stand alone."""
    report = Report("hub", "https://hub")
    leases = 'User "t" cannot list resource "leases" in API group "coordination.k8s.io" at the cluster scope'
    reviews = 'User "t" cannot create resource "subjectaccessreviews" in API group "authorization.k8s.io"'
    report.skip("the Leases of the controller", f"leases is forbidden: {leases}")
    report.skip("the rights of a", reviews)
    report.skip("the rights of b", reviews)
    report.skip(
        "the member m1", 'secrets "m1" is forbidden: User "t" cannot get resource "secrets" in API group ""'
    )
    report.skip("the request-header CA", "no answer in time")

    found = (
        "the Leases of the controller (list leases), the rights of a, the rights of b (create "
        "subjectaccessreviews), the member m1 (get secrets)"
    )
    assert report.to_text().splitlines()[2:] == [
        "not checked: the request-header CA: no answer in time",
        f"not checked, because you lack the right in brackets: {found}",
        "with rights in one namespace, check that alone: fedhpa doctor -n NAMESPACE",
    ]


def fields_of(kind: str) -> set[str]:
    """Returns the fields of the texts of a finding, without those that every finding has."""
    texts = (TABLE[kind].get(part, "") for part in ("what", "do"))
    return {field for text in texts for _, field, *_ in Formatter().parse(text) if field} - {"subject"}


def test_each_finding_is_added_with_the_fields_of_its_words() -> None:
    """A field that is not given would raise while something is broken, which no other test may reach."""
    calls = [
        (node, node.args[0])
        for path in Path(report_module.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add"
    ]
    seen = 0
    for node, first in calls:
        given = {keyword.arg for keyword in node.keywords}
        kinds = {each.value for each in ast.walk(first) if isinstance(each, ast.Constant)} & set(TABLE)
        if None in given or not kinds:  # **facts, or no finding
            continue
        seen += 1
        for kind in kinds:
            assert given | {"target"} >= fields_of(str(kind)), kind
    assert seen > 40


@pytest.mark.parametrize(("left", "told"), [(3 * DAY, True), (-3 * DAY, True), (15 * DAY, False)])
def test_a_certificate_that_nobody_keeps_is_told_two_weeks_before(left: float, told: bool) -> None:
    place = site()
    check_certificates(place, [Certificate("fedhpa-webhook", "the CA", NOW - 300 * DAY, NOW + left)])

    assert [kind for kind, _ in found(place)] == ["certificate-expires"] * told


def test_an_expired_certificate_is_told_once() -> None:
    """Where the hub refuses the webhook's expired certificate, its lifetime is no second finding."""
    place = site()
    place.add("webhook-certificate", "fedhpa-webhook", what="x509: certificate has expired")
    check_certificates(place, [Certificate("fedhpa-webhook", "the CA", NOW - 300 * DAY, NOW - DAY)])

    assert [kind for kind, _ in found(place)] == ["webhook-certificate"]


@pytest.mark.parametrize(("days", "due"), [(364, True), (15, True), (366, False)])
def test_a_managed_ca_is_replaced_in_its_last_year(days: int, due: bool) -> None:
    """It is told once, though two registrations have it. Elsewhere CAs may live shorter."""
    cas = [
        Certificate(owner, f"{owner} caBundle", NOW - 3000 * DAY, NOW + days * DAY)
        for owner in ("fedhpa-webhook", "fedhpa-metrics-adapter")
    ]
    managed, alone = site(managed=True), site()
    check_certificates(managed, cas)
    check_certificates(alone, cas)

    expected = [("certificate-expires", "fedhpa certs rotate-ca -n fedhpa-system")] if due else []
    assert (found(managed), found(alone)) == (expected, [])


def test_a_short_certificate_is_not_about_to_expire_for_its_whole_life() -> None:
    """A certificate of one day is overdue with a fifth of its life left."""
    day, late = site(), site()
    check_certificates(day, [Certificate("m1", "the caBundle of m1", NOW - DAY / 2, NOW + DAY / 2)])
    check_certificates(late, [Certificate("m1", "the caBundle of m1", NOW - 0.9 * DAY, NOW + 0.1 * DAY)])

    assert found(day) == []
    assert [kind for kind, _ in found(late)] == ["certificate-expires"]


@pytest.mark.parametrize(("cause", "installed"), [(Cause.ABSENT, False), (Cause.FORBIDDEN, True)])
def test_what_may_not_be_seen_may_be_installed(cause: Cause, installed: bool) -> None:
    """Only a hub that answers 404 to all of it has no installation."""
    place = site()
    place.found[CRDS] = {"federatedhpas.autoscaling.karmada.io": Problem(cause)}
    place.found[ROLES] = {"fedhpa:controller": Problem(Cause.ABSENT)}

    assert check_installed(place) is installed
