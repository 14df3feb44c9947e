"""Tokens of ServiceAccounts: how long one lives, when it is renewed, and which new one may replace it.

Nothing here verifies a signature. The API server that issued a token does so. No message quotes a token.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec

from fedhpa.api.errors import InvalidObject
from fedhpa.api.json import decode_json
from fedhpa.api.times import LAST_TIME, format_time, known_time, parse_time

# Annotations of a Secret whose token the controller renews.
ACCOUNT, LIFETIME = "fedhpa.io/token-service-account", "fedhpa.io/token-lifetime-seconds"
ISSUED, EXPIRES = "fedhpa.io/token-issued", "fedhpa.io/token-expires"
# Characters. A token of Kubernetes has about 1,200; the headers of a request have room for 16 kB.
MAX_TOKEN: Final = 12_000
# Kubernetes issues no token for a shorter time. Its longest time is a flag of the API server.
SHORTEST_SECONDS, LONGEST_SECONDS = 600, 10 * 365 * 86_400
# A token that ends sooner than this could not be renewed in time.
LEAST_LEFT_SECONDS: Final = 60.0
PREFIX: Final = "system:serviceaccount:"


class Life(NamedTuple):
    """When a token was issued and when it expires, in POSIX seconds."""

    issued: float
    expires: float

    @property
    def renew_at(self) -> float:
        """Two thirds of the life."""
        return self.issued + (self.expires - self.issued) * 2 / 3


@dataclass(frozen=True)
class IssuedToken:
    """A token, and when it expires in POSIX seconds."""

    token: str = field(repr=False)
    expires: float = 0.0


class _Claims(msgspec.Struct, frozen=True):
    sub: str = ""
    exp: float = 0.0
    iat: float = 0.0


class _Status(msgspec.Struct, frozen=True):
    token: str = ""
    expirationTimestamp: str = ""


class _Answer(msgspec.Struct, frozen=True):
    kind: str = ""
    status: _Status = _Status()


def token_request(seconds: int) -> dict[str, Any]:
    """Returns a TokenRequest for the API server's own audience."""
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }


def issued_token(body: bytes, account: str, now: float) -> IssuedToken:
    """Returns the token in the answer to a TokenRequest for `account`, as NAMESPACE/NAME.

    Raises InvalidObject unless the token is usable, belongs to that account and does not expire at once.
    """
    answer = decode_json(body, _Answer)
    token = answer.status.token
    if answer.kind != "TokenRequest" or not token:
        raise InvalidObject("the answer has no token")
    if len(token) > MAX_TOKEN:
        raise InvalidObject(f"the token has more than {MAX_TOKEN} characters")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidObject("the token has characters that no token has")
    claims = _claims(token)
    subject = PREFIX + account.replace("/", ":")
    if claims is not None and claims.sub != subject:
        raise InvalidObject(f"the token is of another account than {account}")
    stated = parse_time(answer.status.expirationTimestamp or None)
    ends = [end for end in (stated, claims.exp if claims else None) if end]
    if not ends:
        raise InvalidObject("the answer does not say when the token expires")
    if min(ends) < now + LEAST_LEFT_SECONDS:
        raise InvalidObject("the new token expires within a minute, or has expired: check the clocks")
    return IssuedToken(token, min(ends))


def life_of(token: str, annotations: Mapping[str, str]) -> Life | None:
    """Returns the life of a stored token: from the token, else from its annotations. None if unknown."""
    claims = _claims(token)
    expires = (claims.exp if claims else 0.0) or known_time(annotations.get(EXPIRES))
    issued = (claims.iat if claims else 0.0) or known_time(annotations.get(ISSUED))
    if not expires or not issued or issued >= expires:
        return None
    return Life(issued, expires)


def annotations_of(issued: IssuedToken, account: str, seconds: int, now: float) -> dict[str, str]:
    """Returns the annotations of a Secret with a new token."""
    return {
        ACCOUNT: account,
        LIFETIME: str(seconds),
        ISSUED: _text(now),
        EXPIRES: _text(issued.expires),
    }


def account_of(token: str, annotations: Mapping[str, str]) -> str:
    """Returns the ServiceAccount of a stored token, as NAMESPACE/NAME. Raises InvalidObject if unknown."""
    claims = _claims(token)
    if claims is not None and claims.sub.startswith(PREFIX):
        account = claims.sub.removeprefix(PREFIX).replace(":", "/")
    else:
        account = annotations.get(ACCOUNT, "")
    namespace, slash, name = account.partition("/")
    if not (slash and namespace and name) or "/" in name or {".", ".."} & {namespace, name}:
        raise InvalidObject(f"its annotation {ACCOUNT} is not NAMESPACE/NAME, so its token cannot be renewed")
    return account


def lifetime_of(annotations: Mapping[str, str]) -> int:
    """Returns the lifetime to ask for, in seconds, as it was asked for first; else a day."""
    text = annotations.get(LIFETIME, "")
    asked = int(text) if text.isascii() and text.isdigit() and len(text) < 12 else 86_400
    return min(max(asked, SHORTEST_SECONDS), LONGEST_SECONDS)


def _claims(token: str) -> _Claims | None:
    """Returns the claims of a JSON Web Token; None for a token of another form."""
    parts = token.split(".")
    if len(parts) != 3 or len(token) > MAX_TOKEN:
        return None
    try:
        raw = base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), altchars=b"-_", validate=True)
        found = decode_json(raw, _Claims)
    except (binascii.Error, InvalidObject, ValueError):
        return None
    in_range = 0 <= found.exp <= LAST_TIME and 0 <= found.iat <= LAST_TIME
    return found if in_range else _Claims(found.sub)


def _text(seconds: float) -> str:
    return format_time(int(seconds))
