"""The tokens of `fedhpa join` are renewed by the leader, over days and whatever a member answers."""

from __future__ import annotations

import datetime as dt
import itertools
from asyncio import sleep
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from controller.shards import CRON
from fedhpa.api.membership import RENEWED, RENEWED_VALUE, SECRET_ANNOTATION
from fedhpa.api.rights import MEMBER, MEMBER_METRICS
from fedhpa.api.tokens import IssuedToken, annotations_of
from testbed.embedded.auth.authentication import SERVICE_ACCOUNTS, _token
from testbed.embedded.auth.authorization import Authorizer
from testbed.embedded.auth.reviews import Reviews
from tests.support.federation import Federation, federation, until
from tests.support.federation.planes import CLUSTERS, EVENTS, SECRETS
from tests.support.nightly import NIGHT, NIGHTLY

pytestmark = [*NIGHT, pytest.mark.looptime(noop_cycles=0)]

Logs = list[dict[str, Any]]
# In which namespace the Federation has its Secrets and, here, the members' accounts.
SPACE = "kube-system"
ACCOUNT = f"{SPACE}/{MEMBER}"
HOUR = 3600
# The shortest life that Kubernetes gives a token. Each virtual second costs, so most tests use it.
SHORT = 600


def account(f: Federation, name: str) -> None:
    """Gives a member the account of the hub, and an API that issues tokens."""
    member = f.members[name]
    head = {"apiVersion": "v1", "kind": "ServiceAccount"}
    member.server.store.create(
        SERVICE_ACCOUNTS, {**head, "metadata": {"namespace": SPACE, "name": MEMBER, "uid": f"of-{name}"}}
    )
    reviews = Reviews(member.authenticator, Authorizer(member.server.store), f.date)
    for review, handler in reviews.handlers():
        member.server.add_review(review, handler)


def join(f: Federation, name: str, seconds: int = HOUR) -> str:
    """Stores a new token as `fedhpa join` does; the token of the Federation ends. Returns the new token."""
    member = f.members[name]
    if member.server.store.find(SERVICE_ACCOUNTS, SPACE, MEMBER) is None:
        account(f, name)
    token, expires = member.authenticator.issue(SPACE, MEMBER, seconds)
    f.join(name, token)
    secret = f.hub.server.store.get(SECRETS, SPACE, name)
    issued = IssuedToken(token, expires.timestamp())
    secret["metadata"]["annotations"] = annotations_of(issued, ACCOUNT, seconds, f.clock.wall())
    secret["metadata"]["labels"] = {RENEWED: RENEWED_VALUE}
    f.hub.server.store.update(SECRETS, secret)
    member.authenticator.tokens.pop(f"{name}-token", None)
    return token


def stored(f: Federation, name: str) -> str:
    """The token on the hub."""
    return b64decode(f.hub.server.store.get(SECRETS, SPACE, name)["data"]["token"]).decode()


def renewals(f: Federation, name: str) -> list[float]:
    """When the Secret was written by a client."""
    return [seen.at for seen in f.hub.writes(f"/secrets/{name}") if seen.method == "PUT"]


def trouble(logs: Logs) -> Logs:
    return [entry for entry in logs if entry["log_level"] in ("warning", "error", "critical")]


def of_tokens(logs: Logs) -> list[str]:
    return [entry["event"] for entry in logs if "token" in entry["event"]]


async def test_tokens_are_renewed_for_days(tmp_path: Path, logs: Logs) -> None:
    """The workload is scaled after each token has been renewed many times."""
    life, count = (HOUR, 108) if NIGHTLY else (SHORT, 5)
    async with federation(tmp_path, m1=4, m2=4) as f:
        for name in f.members:
            join(f, name, life)
        async with f.controller(calm=True):
            f.demand(400)
            f.scale(syncPeriodSeconds=300)
            await until(lambda: f.condition("MetricsComplete")[0] == "True", 400)
            await sleep(count * life * 2 / 3)
            f.demand(600)
            await until(lambda: f.total == 12, 900)

            for name in f.members:
                at = renewals(f, name)
                gaps = [after - before for before, after in itertools.pairwise(at)]
                assert len(at) >= count - 1
                assert all(abs(gap - life * 2 / 3) <= 60 for gap in gaps), gaps
            assert f.condition("MetricsComplete")[0] == "True"
            assert trouble(logs) == []


async def test_the_adapters_token_is_renewed_with_the_controllers(tmp_path: Path, logs: Logs) -> None:
    """The account that only reads metrics may not make tokens, so the controller's does it."""
    async with federation(tmp_path, m1=4) as f:
        join(f, "m1", SHORT)
        member, store = f.members["m1"], f.hub.server.store
        found = member.server.store.get(SERVICE_ACCOUNTS, SPACE, MEMBER)
        metadata = {"namespace": SPACE, "name": MEMBER_METRICS, "uid": "of-the-adapter"}
        member.server.store.create(SERVICE_ACCOUNTS, {**found, "metadata": metadata})
        token, expires = member.authenticator.issue(SPACE, MEMBER_METRICS, SHORT)
        notes = annotations_of(
            IssuedToken(token, expires.timestamp()), f"{SPACE}/{MEMBER_METRICS}", SHORT, f.clock.wall()
        )
        secret = store.get(SECRETS, SPACE, "m1")
        marked = {"labels": {RENEWED: RENEWED_VALUE}, "annotations": notes}
        data = {**secret["data"], "token": b64encode(token.encode()).decode()}
        own = {"namespace": SPACE, "name": "m1-metrics", **marked}
        store.create(SECRETS, {**secret, "metadata": own, "data": data})
        async with f.controller(calm=True) as controller:
            await sleep(SHORT)

            assert stored(f, "m1-metrics") != token
            subject, _ = member.authenticator.bearer(stored(f, "m1-metrics")), None
            assert subject is not None
            assert subject.name == f"system:serviceaccount:{SPACE}:{MEMBER_METRICS}"
            users = {seen.user for seen in member.seen if seen.path.endswith(f"{MEMBER_METRICS}/token")}
            assert len(users) == 1
            assert token not in users
            value = controller.series.get_sample_value
            series = "fedhpa_controller_member_token_expiration_timestamp_seconds"
            for name in ("m1", "m1-metrics"):
                assert (value(series, {"cluster": "m1", "secret": name}) or 0) > f.clock.wall()
            assert trouble(logs) == []


async def test_the_next_leader_goes_on(tmp_path: Path, logs: Logs) -> None:
    """The first leader is killed before a renewal, and the second one makes it."""
    async with federation(tmp_path, m1=4) as f:
        first = join(f, "m1", 2400)
        async with f.controller(calm=True) as old, f.controller(calm=True) as new:
            await until(lambda: old.keeps_clusters.leads() or new.keeps_clusters.leads())
            leader, other = (old, new) if old.keeps_clusters.leads() else (new, old)
            await sleep(300)
            await leader.kill()
            await until(lambda: other.keeps_clusters.leads(), 1300)
            assert stored(f, "m1") == first
            await sleep(1700 - 300)
            assert stored(f, "m1") != first

            assert len(renewals(f, "m1")) == 1
            assert "token renewed" in of_tokens(logs)


@pytest.mark.parametrize("kinds", [(CRON,), (CRON, ""), ("", CRON)], ids=["rules", "both", "reversed"])
async def test_controllers_of_any_kind_renew(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    """Also where each process runs one kind of controller, one of them renews, and only one."""
    async with federation(tmp_path, m1=4) as f, AsyncExitStack() as stack:
        first = join(f, "m1", SHORT)
        for kind in kinds:
            await stack.enter_async_context(f.controller(calm=True, kind=kind))
        await sleep(SHORT)

        assert stored(f, "m1") != first
        assert len(renewals(f, "m1")) == 1
        assert len(f.members["m1"].writes("/token")) == 1


async def test_only_marked_secrets_are_renewed(tmp_path: Path) -> None:
    """A Secret without the label, such as Karmada's, is never written."""
    async with federation(tmp_path, m1=4) as f:
        join(f, "m1", SHORT)
        secret = f.hub.server.store.get(SECRETS, SPACE, "m1")
        secret["metadata"]["labels"] = {}
        f.hub.server.store.update(SECRETS, secret)
        async with f.controller(calm=True):
            await sleep(SHORT)

            assert renewals(f, "m1") == []
            assert f.members["m1"].writes("/token") == []


async def test_on_karmadas_hub_our_own_secret_is_used(tmp_path: Path) -> None:
    """The annotation comes before spec.secretRef. Karmada's Secret keeps its token."""
    async with federation(tmp_path, m1=4) as f:
        store = f.hub.server.store
        theirs = stored(f, "m1")
        ours = join(f, "m1", SHORT)
        secret = store.get(SECRETS, SPACE, "m1")
        metadata = {key: secret["metadata"][key] for key in ("annotations", "labels", "namespace")}
        store.create(SECRETS, {**secret, "metadata": {**metadata, "name": "ours"}})
        secret["metadata"] |= {"labels": {}, "annotations": {}}
        store.update(
            SECRETS, {**secret, "data": {**secret["data"], "token": b64encode(theirs.encode()).decode()}}
        )
        cluster = store.get(CLUSTERS, "", "m1")
        cluster["metadata"]["annotations"] = {SECRET_ANNOTATION: f"{SPACE}/ours"}
        store.update(CLUSTERS, cluster)
        async with f.controller(calm=True):
            await sleep(SHORT)

            assert stored(f, "m1") == theirs
            assert stored(f, "ours") != ours
            users = {seen.user for seen in f.members["m1"].seen}
            assert users == {ours, stored(f, "ours")}


Answer = Callable[[Federation], tuple[str, dt.datetime]]


def later(f: Federation) -> dt.datetime:
    return f.date() + dt.timedelta(hours=1)


HOSTILE: dict[str, tuple[Answer, str]] = {
    "empty": (lambda f: ("", later(f)), "the answer has no token"),
    "huge": (lambda f: ("x" * 20_000, later(f)), "more than 12000 characters"),
    "larger than the bound": (lambda f: ("x" * 200_000, later(f)), "larger than"),
    "two lines": (lambda f: ("a\nb", later(f)), "characters that no token has"),
    "expired": (lambda f: ("opaque", f.date() - dt.timedelta(hours=1)), "within a minute"),
    "foreign": (
        lambda f: (_token({"sub": "system:serviceaccount:shop:web", "exp": 4e9}), later(f)),
        "another account",
    ),
    "unknown to the member": (lambda f: ("opaque", later(f)), "refuses the token that it has just issued"),
}


@pytest.mark.parametrize("kind", HOSTILE)
async def test_a_hostile_answer_changes_nothing(tmp_path: Path, logs: Logs, kind: str) -> None:
    """The old token stays, the failure is counted, logged once and told by an event, and later renewed."""
    answer, reason = HOSTILE[kind]
    async with federation(tmp_path, m1=4, m2=4) as f:
        before = {name: join(f, name, SHORT) for name in f.members}
        bad = f.members["m1"].authenticator
        issue, bad.issue = bad.issue, lambda *_: answer(f)  # type: ignore[method-assign]  # the member's answer
        async with f.controller(calm=True) as controller:
            await sleep(470)
            count = controller.series.get_sample_value
            total = "fedhpa_controller_member_token_renewals_total"
            failed, renewed = (count(total, {"result": result}) for result in ("failed", "renewed"))
            told = [e for e in f.hub.all(EVENTS) if e["reason"] == "TokenNotRenewed"]

            assert stored(f, "m1") == before["m1"]
            assert stored(f, "m2") != before["m2"]
            assert (failed or 0) >= 2
            assert renewed == 1
            assert [e["involvedObject"]["name"] for e in told] == ["m1"]
            assert reason in told[0]["message"]
            assert of_tokens(logs).count("token not renewed") == 1
            assert controller.members.members["m1"].state.ready

            bad.issue = issue  # type: ignore[method-assign]  # the member behaves again
            await until(lambda: stored(f, "m1") != before["m1"], 400)
            assert "token is renewed again" in of_tokens(logs)


async def test_an_expired_token_names_the_remedy(tmp_path: Path, logs: Logs) -> None:
    """Nothing can renew it, so nobody tries. After a new join all is well."""
    async with federation(tmp_path, m1=4) as f:
        join(f, "m1", SHORT)
        await sleep(SHORT + 1)
        async with f.controller(calm=True) as controller:
            await until(lambda: "token not renewed" in of_tokens(logs), 60)
            line = next(entry for entry in logs if entry["event"] == "token not renewed")
            assert line["error"].endswith("run fedhpa join m1 again")
            assert f.members["m1"].writes("/token") == []

            join(f, "m1", SHORT)
            await until(lambda: controller.members.registered["m1"].state.ready, 400)
            await until(lambda: len(renewals(f, "m1")) == 1, SHORT)


async def test_a_missing_right_on_the_hub_is_told(tmp_path: Path, logs: Logs) -> None:
    """The member's new token is dropped if the hub does not store it."""
    async with federation(tmp_path, m1=4) as f:
        before = join(f, "m1", SHORT)
        allowed = f.hub.server.allowed
        f.hub.server.allowed = lambda one: (
            one.verb != "update" or one.resource != "secrets" or allowed(one) is None
        )
        async with f.controller(calm=True):
            await sleep(450)

            assert stored(f, "m1") == before
            assert "token not renewed" in of_tokens(logs)
