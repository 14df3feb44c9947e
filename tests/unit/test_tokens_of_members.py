"""When a member's token is renewed, and which answer may replace it."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from fedhpa.api.errors import InvalidObject
from fedhpa.api.tokens import (
    ACCOUNT,
    EXPIRES,
    ISSUED,
    LIFETIME,
    MAX_TOKEN,
    Life,
    account_of,
    annotations_of,
    issued_token,
    life_of,
    lifetime_of,
)

NOW = 1_800_000_000.0
HUB = "fedhpa-system/fedhpa-hub"
SUBJECT = "system:serviceaccount:fedhpa-system:fedhpa-hub"


def token(**claims: Any) -> str:
    """A token in the form that API servers issue."""
    parts = [json.dumps(part).encode() for part in ({"alg": "RS256"}, claims)]
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in (*parts, b"signature"))


def answer(text: Any, expires: str = "2027-01-16T08:00:00Z", kind: str = "TokenRequest") -> bytes:
    """The answer to a TokenRequest. NOW is 2027-01-15T08:00:00Z."""
    return json.dumps({"kind": kind, "status": {"token": text, "expirationTimestamp": expires}}).encode()


def test_a_token_is_renewed_after_two_thirds_of_its_life() -> None:
    """The times are those in the token."""
    assert life_of(token(iat=NOW, exp=NOW + 900, sub=SUBJECT), {}) == Life(NOW, NOW + 900)
    assert Life(NOW, NOW + 900).renew_at == NOW + 600


def test_annotations_tell_the_life_of_an_opaque_token() -> None:
    """Not every API server issues tokens that can be read."""
    annotations = {ISSUED: "2027-01-15T08:00:00Z", EXPIRES: "2027-01-16T08:00:00Z"}

    assert life_of("opaque", annotations) == Life(NOW, NOW + 86_400)
    assert life_of(token(iat=NOW, exp=NOW + 600), annotations) == Life(NOW, NOW + 600)


@pytest.mark.parametrize(
    ("text", "annotations"),
    [
        ("opaque", {}),
        ("opaque", {ISSUED: "yesterday", EXPIRES: "tomorrow"}),
        ("opaque", {ISSUED: "2027-01-16T08:00:00Z", EXPIRES: "2027-01-15T08:00:00Z"}),
        (token(exp=1e300, iat=1.0), {}),
        (token(exp=-1.0, iat=1.0), {}),
        (token(exp="soon"), {}),
        ("a.b.c", {}),
        (".." + "x" * (MAX_TOKEN + 1), {}),
        (token(x=[[[[]]]] * 50_000), {}),
    ],
)
def test_a_life_that_cannot_be_read_is_unknown(text: str, annotations: dict[str, str]) -> None:
    """An error never becomes a number."""
    assert life_of(text, annotations) is None


def test_the_new_token_is_taken_from_the_answer() -> None:
    """The earlier of the two expiries counts."""
    new = token(iat=NOW, exp=NOW + 600, sub=SUBJECT)
    issued = issued_token(answer(new), HUB, NOW)

    assert (issued.token, issued.expires) == (new, NOW + 600)
    assert new not in repr(issued)
    assert issued_token(answer("opaque"), HUB, NOW).expires == NOW + 86_400


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "truncated"),
        (b"[]", "object"),
        (b"{}", "has no token"),
        (answer(""), "has no token"),
        (answer(None), "token"),
        (answer("opaque", kind="Status"), "has no token"),
        (answer("x" * (MAX_TOKEN + 1)), "more than"),
        (answer("two\nlines"), "characters"),
        (answer("two words"), "characters"),
        (answer("größer"), "characters"),
        (answer(token(sub="system:serviceaccount:kube-system:admin", exp=NOW + 900)), "another account"),
        (answer(token(exp=NOW + 900)), "another account"),
        (answer("opaque", "2027-01-15T08:00:30Z"), "within a minute"),
        (answer(token(sub=SUBJECT, exp=NOW - 1)), "within a minute"),
        (answer("opaque", ""), "does not say when"),
        (answer("opaque", "soon"), "RFC 3339"),
    ],
)
def test_a_hostile_answer_is_refused(body: bytes, reason: str) -> None:
    """A member may answer anything. Its token is used only if it can be, and the message never quotes it."""
    with pytest.raises(InvalidObject, match=reason) as raised:
        issued_token(body, HUB, NOW)

    assert "x" * 100 not in str(raised.value)


def test_the_account_is_that_of_the_token() -> None:
    """The annotation counts for opaque tokens only, so nobody can point it at another account."""
    assert account_of(token(sub=SUBJECT), {ACCOUNT: "kube-system/admin"}) == HUB
    assert account_of("opaque", {ACCOUNT: HUB}) == HUB
    for text in ("", "fedhpa-hub", "/x", "x/", "a/b/c", "../x"):
        with pytest.raises(InvalidObject, match="NAMESPACE/NAME"):
            account_of("opaque", {ACCOUNT: text})


def test_the_lifetime_is_the_one_that_was_asked_for_first() -> None:
    """A shortened token is asked for at full length again. Other texts mean a day."""
    new = issued_token(answer("opaque"), HUB, NOW)
    annotations = annotations_of(new, HUB, 7200, NOW)

    assert lifetime_of(annotations) == 7200
    assert life_of("opaque", annotations) == Life(NOW, NOW + 86_400)
    found = [lifetime_of({LIFETIME: text}) for text in ("", "-5", "1e9", "5", "9" * 11)]
    assert found == [86_400, 86_400, 86_400, 600, 315_360_000]
