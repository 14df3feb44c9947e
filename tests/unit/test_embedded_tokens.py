"""Tokens of the embedded API server, and what its reviews say of tokens, access and oneself."""

import datetime as dt
import json

import pytest

from certs import CertificateAuthority
from testbed.embedded.api.types import Object, Refusal, User
from testbed.embedded.auth.authentication import AUDIENCE, Authenticator
from testbed.embedded.auth.authorization import Authorizer, bootstrap
from testbed.embedded.auth.reviews import Reviews
from testbed.embedded.storage.store import Store
from tests.unit.test_embedded_rights import GROUP, PLURALS

ROBOT = "system:serviceaccount:shop:robot"


class Plane:
    """A store, a clock that is moved by hand, and who reviews."""

    def __init__(self) -> None:
        self.time = dt.datetime(2026, 3, 11, 13, tzinfo=dt.UTC)
        self.store = Store(self.now)
        for obj in bootstrap():
            self.store.create((GROUP, PLURALS[obj["kind"]]), obj)
        self.authenticator = Authenticator(
            self.store, CertificateAuthority.create("clients").bundle_pem, self.now
        )
        self.reviews = Reviews(self.authenticator, Authorizer(self.store), self.now)
        self.account = self.store.create(
            ("", "serviceaccounts"), {"metadata": {"namespace": "shop", "name": "robot"}}
        )

    def now(self) -> dt.datetime:
        return self.time

    def review(self, token: str) -> Object:
        body = {"kind": "TokenReview", "spec": {"token": token}}
        found: Object = self.reviews.token(body, User("adapter"), "", "")["status"]
        return found

    def token(self, **spec: object) -> Object:
        body = {"kind": "TokenRequest", "spec": spec}
        return self.reviews.new_token(body, User("hub"), "shop", "robot")


@pytest.fixture
def plane() -> Plane:
    return Plane()


def test_a_service_accounts_token_is_that_account_until_it_ends(plane: Plane) -> None:
    """With the groups and the uid that Kubernetes gives it."""
    status = plane.token(expirationSeconds=600)["status"]
    review = plane.review(status["token"])

    assert status["expirationTimestamp"] == "2026-03-11T13:10:00Z"
    assert review["authenticated"] is True
    assert review["audiences"] == [AUDIENCE]
    assert review["user"]["username"] == ROBOT
    assert review["user"]["uid"] == plane.account["metadata"]["uid"]
    assert review["user"]["groups"] == [
        "system:serviceaccounts",
        "system:serviceaccounts:shop",
        "system:authenticated",
    ]

    plane.time += dt.timedelta(seconds=600)

    assert plane.review(status["token"]) == {"user": {}, "error": "invalid bearer token"}


def test_a_token_ends_with_its_account(plane: Plane) -> None:
    """Also if another of the same name comes."""
    token = plane.token()["status"]["token"]
    plane.store.delete(("", "serviceaccounts"), "shop", "robot")

    assert plane.authenticator.bearer(token) is None

    plane.store.create(("", "serviceaccounts"), {"metadata": {"namespace": "shop", "name": "robot"}})

    assert plane.authenticator.bearer(token) is None


@pytest.mark.parametrize(
    ("seconds", "detail"),
    [
        (599, "may not specify a duration less than 10 minutes"),
        (2**32 + 1, "may not specify a duration larger than 2^32 seconds"),
    ],
)
def test_a_token_lives_neither_too_short_nor_too_long(plane: Plane, seconds: int, detail: str) -> None:
    """422, as Kubernetes words it."""
    with pytest.raises(Refusal) as refused:
        plane.token(expirationSeconds=seconds)

    assert refused.value.code == 422
    assert str(refused.value) == (
        'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: '
        f"Invalid value: {seconds}: {detail}"
    )


def test_no_token_for_an_account_that_is_not_there(plane: Plane) -> None:
    """404 of the ServiceAccount."""
    with pytest.raises(Refusal, match='serviceaccounts "ghost" not found') as refused:
        plane.reviews.new_token({"spec": {}}, User("hub"), "shop", "ghost")

    assert refused.value.code == 404


def test_tokens_of_users_are_a_table(plane: Plane) -> None:
    """Which may be changed at any time."""
    plane.authenticator.tokens["t0k3n"] = User("jane", ("dev",))

    assert plane.review("t0k3n")["user"] == {"username": "jane", "groups": ["dev", "system:authenticated"]}

    del plane.authenticator.tokens["t0k3n"]

    assert plane.review("t0k3n") == {"user": {}, "error": "invalid bearer token"}


def test_a_review_without_a_token_is_refused(plane: Plane) -> None:
    """400."""
    with pytest.raises(Refusal, match="token is required for TokenReview in authentication") as refused:
        plane.review("")

    assert refused.value.code == 400


def test_access_is_reviewed_for_whoever_is_named(plane: Plane) -> None:
    """With RBAC's reason where there is one."""

    def reviewed(**spec: object) -> Object:
        body = {"kind": "SubjectAccessReview", "spec": spec}
        found: Object = plane.reviews.access(body, User("adapter"), "", "")["status"]
        return found

    path = {"path": "/apis", "verb": "get"}
    pods = {"verb": "list", "resource": "pods", "namespace": "shop", "version": "v1"}
    assert reviewed(user="jane", groups=["system:authenticated"], nonResourceAttributes=path) == {
        "allowed": True,
        "reason": 'RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery"'
        ' to Group "system:authenticated"',
    }
    assert reviewed(user="jane", resourceAttributes=pods) == {"allowed": False}
    assert reviewed(user="root", groups=["system:masters"], resourceAttributes=pods) == {"allowed": True}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"user": "jane"}, "spec.resourceAttributes: Invalid value: null: exactly one of"),
        ({"resourceAttributes": {}}, 'spec.user: Invalid value: "": at least one of user or group'),
        (
            {"user": "jane", "resourceAttributes": {}, "nonResourceAttributes": {}},
            "cannot be specified in combination with resourceAttributes",
        ),
    ],
)
def test_an_unclear_access_review_is_refused(plane: Plane, spec: Object, message: str) -> None:
    """422: it must say who, and either a resource or a path."""
    with pytest.raises(Refusal) as refused:
        plane.reviews.access({"spec": spec}, User("adapter"), "", "")

    assert refused.value.code == 422
    assert message in str(refused.value)


def test_one_may_ask_about_oneself(plane: Plane) -> None:
    """`kubectl auth can-i` and `kubectl auth whoami`."""
    jane = User("jane", ("system:authenticated",), extra={"scope": ("a",)})
    attributes = {"verb": "delete", "resource": "nodes"}
    body = {"spec": {"resourceAttributes": attributes}}

    assert plane.reviews.own_access(body, jane, "", "")["status"] == {"allowed": False}
    assert plane.reviews.oneself({}, jane, "", "")["status"]["userInfo"] == {
        "username": "jane",
        "groups": ["system:authenticated"],
        "extra": {"scope": ["a"]},
    }
    assert json.dumps(plane.reviews.oneself({}, jane, "", ""))
