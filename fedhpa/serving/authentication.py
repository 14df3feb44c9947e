"""Authenticates requests by front proxy headers, client certificate or bearer token.

The rules are those of Kubernetes' delegated authentication (apiserver, authentication/request). X-Remote-*
headers count only from a peer with a client certificate of the request-header CA and an allowed name. A
certificate of the client CA proves a user and its groups, but never a front proxy. The hub reviews bearer
tokens. There are no anonymous users.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import unquote

import msgspec
import structlog
from aiohttp import web
from cryptography.x509.oid import NameOID
from multidict import CIMultiDictProxy

from fedhpa.cache import Cache, Fetched
from fedhpa.kube import ApiClient
from fedhpa.serving.certificates import NO_ISSUER, ClientVerifier, common_name, names_of
from fedhpa.serving.error_responses import too_many_requests
from fedhpa.serving.tls import peer_certificate, peer_intermediates

logger = structlog.get_logger(__name__)

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path
REVIEW_DEADLINE = 5.0
# Anyone who reaches the port can send unknown tokens, and each one costs the hub a review.
MAX_TOKEN_REVIEWS = 64
MAX_CACHED_TOKENS = 4096
MAX_CACHED_BYTES = 16 * 2**20
# Reasons that one set of CAs logs, because a peer with a certificate of a known CA may present many.
MAX_LOGGED_REFUSALS = 10
MAX_REFUSAL = 300
# Python's memory for a text or an entry, without its characters.
TEXT_BYTES = 64
ENTRY_BYTES = 1024


@dataclass(frozen=True)
class User:
    """The user of a request."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def size(self) -> int:
        """About the bytes that the user occupies. A user may have thousands of groups."""
        extra = (text for key, values in self.extra for text in (key, *values))
        texts = (self.name, self.uid, *self.groups, *extra)
        return sum(len(text) + TEXT_BYTES for text in texts)

    def authenticated(self) -> User:
        """Returns the user with the group system:authenticated, unless the hub calls it unauthenticated."""
        if AUTHENTICATED in self.groups or UNAUTHENTICATED in self.groups:
            return self
        return User(self.name, (*self.groups, AUTHENTICATED), self.uid, self.extra)


@dataclass(frozen=True)
class RequestHeader:
    """The trusted front proxies and the headers that they set."""

    ca_pem: bytes
    allowed_names: tuple[str, ...] = ()
    username_headers: tuple[str, ...] = ("X-Remote-User",)
    group_headers: tuple[str, ...] = ("X-Remote-Group",)
    extra_prefixes: tuple[str, ...] = ("X-Remote-Extra-",)
    uid_headers: tuple[str, ...] = ("X-Remote-Uid",)

    def user(self, headers: CIMultiDictProxy[str]) -> User | None:
        """Returns the user that the headers name; None if there is no name or a value is not UTF-8."""
        name = _first(headers, self.username_headers)
        if not name:
            return None
        groups = [group for header in self.group_headers for group in headers.getall(header, []) if group]
        user = User(name, tuple(groups), _first(headers, self.uid_headers), self._extra(headers))
        return user.authenticated() if _is_text(user) else None

    def _extra(self, headers: CIMultiDictProxy[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        found: dict[str, list[str]] = {}
        for header, value in headers.items():
            lowered = header.lower()
            for prefix in self.extra_prefixes:
                if lowered.startswith(prefix.lower()):
                    found.setdefault(unquote(lowered[len(prefix) :]), []).append(value)
        return tuple((key, tuple(values)) for key, values in sorted(found.items()))


@dataclass(frozen=True)
class Trust:
    """The trusted CAs; immutable and replaced as a whole."""

    client_ca: bytes = b""
    request_header: RequestHeader | None = None

    @property
    def bundle(self) -> bytes:
        """All CAs whose client certificates the TLS handshake accepts."""
        proxies = b"" if self.request_header is None else self.request_header.ca_pem
        return b"\n".join(pem for pem in (self.client_ca, proxies) if pem)


class PeerAuthenticator:
    """Authenticates users by the certificate of the connection, with one Trust."""

    def __init__(self, trust: Trust, wall: Callable[[], float]) -> None:
        """`wall` returns POSIX seconds. Raises ConfigError for an unusable CA bundle."""

        def clock() -> dt.datetime:
            return dt.datetime.fromtimestamp(wall(), dt.UTC)

        self.trust = trust
        self._clients = ClientVerifier(trust.client_ca, clock) if trust.client_ca else None
        header = trust.request_header
        self._proxies = ClientVerifier(header.ca_pem, clock) if header is not None else None
        # Why the newest certificate that proved nothing did not; "" if there was none.
        self.refusal = ""
        self._logged: set[str] = set()

    def user(
        self,
        leaf_der: bytes,
        headers: CIMultiDictProxy[str],
        sent: Callable[[], Sequence[bytes]] = lambda: (),
    ) -> User | None:
        """Returns the user of a peer with this certificate; None if the certificate proves none.

        `sent` returns the other certificates that the peer sent.
        """
        header, refusals = self.trust.request_header, []
        if header is not None and self._proxies is not None:
            proxy = self._proxies.verify(leaf_der, sent)
            if isinstance(proxy, str):
                refusals.append(proxy)
            elif header.allowed_names and common_name(proxy) not in header.allowed_names:
                refusals.append(f"{common_name(proxy)!r} is no allowed name of a front proxy")
            elif (user := header.user(headers)) is not None:
                return user
        certificate = NO_ISSUER if self._clients is None else self._clients.verify(leaf_der, sent)
        if isinstance(certificate, str):
            self._note([*refusals, certificate])
            return None
        if not common_name(certificate):
            return None
        groups = names_of(certificate, NameOID.ORGANIZATION_NAME)
        return User(common_name(certificate), groups).authenticated()

    def _note(self, refusals: list[str]) -> None:
        """Notes why a certificate that the TLS layer accepted proves nothing, and logs each reason once."""
        refusal = next((each for each in refusals if each != NO_ISSUER), NO_ISSUER)[:MAX_REFUSAL]
        self.refusal = refusal
        if refusal not in self._logged and len(self._logged) < MAX_LOGGED_REFUSALS:
            self._logged.add(refusal)
            logger.warning("client certificate passed TLS and proves nothing", reason=refusal)


class ReviewedUser(msgspec.Struct, frozen=True):
    """The user of a token."""

    username: str = ""
    uid: str = ""
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class TokenReviewStatus(msgspec.Struct, frozen=True):
    """The answer to a review."""

    authenticated: bool = False
    user: ReviewedUser = ReviewedUser()


class TokenReview(msgspec.Struct, frozen=True):
    """A TokenReview that the hub answered."""

    status: TokenReviewStatus = TokenReviewStatus()


class TokenReviewer:
    """Reviews bearer tokens on the hub and caches the users for `lifetime` seconds."""

    def __init__(self, client: ApiClient, lifetime: float = 10.0, *, clock: Callable[[], float]) -> None:
        self._client = client
        self._lifetime = lifetime
        self._clock = clock
        # The keys are digests, so that no token stays in memory.
        self._users: Cache[bytes, User | None] = Cache(
            clock=clock,
            max_entries=MAX_CACHED_TOKENS,
            max_weight=MAX_CACHED_BYTES,
            key_weight=lambda _: ENTRY_BYTES,
        )

    async def user(self, token: str) -> User | None:
        """Returns the user of a token; None if the hub does not know the token.

        Raises ApiError if the review fails, and HTTPTooManyRequests while too many other tokens are under
        review.
        """
        digest = hashlib.sha256(token.encode()).digest()
        return (await self._users.get(digest, lambda: self._review(token), admit=self._admit)).value

    def _admit(self) -> None:
        if self._users.in_flight >= MAX_TOKEN_REVIEWS:
            raise too_many_requests()

    async def _review(self, token: str) -> Fetched[User | None]:
        user = await review_token(self._client, token)
        size = 0 if user is None else user.size
        return Fetched(user, self._clock(), ttl=self._lifetime, weight=size)


async def review_token(client: ApiClient, token: str) -> User | None:
    """Returns the user of a token that the hub reviews; None if it does not know the token.

    Raises ApiError if the review fails.
    """
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
    status = (await client.post(TOKEN_REVIEWS, review, deadline=REVIEW_DEADLINE)).decode(TokenReview).status
    if not status.authenticated or not status.user.username:
        return None
    extra = tuple((key, tuple(values)) for key, values in sorted((status.user.extra or {}).items()))
    user = User(status.user.username, tuple(status.user.groups or ()), status.user.uid, extra)
    return user.authenticated()


class Authenticator:
    """Authenticates a request by its certificate, or else by its bearer token."""

    def __init__(self, peers: Callable[[], PeerAuthenticator], tokens: TokenReviewer | None = None) -> None:
        self._peers = peers
        self._tokens = tokens

    async def user(self, request: web.Request) -> User | None:
        """Returns the user of the request; None if it is not authenticated.

        Raises ApiError if its token cannot be reviewed.
        """
        connection = request.get_extra_info("ssl_object")
        leaf = peer_certificate(connection)
        if leaf is not None:
            user = self._peers().user(leaf, request.headers, partial(peer_intermediates, connection))
            if user is not None:
                return user
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if self._tokens is None or scheme.lower() != "bearer" or not token or not token.isascii():
            return None
        return await self._tokens.user(token)


def _first(headers: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((headers[name] for name in names if headers.get(name)), "")


def _is_text(user: User) -> bool:
    """True if the user's attributes are valid UTF-8. Others cannot be sent to the hub in a review."""
    parts = [user.name, user.uid, *user.groups]
    parts += [part for key, values in user.extra for part in (key, *values)]
    try:
        "".join(parts).encode()
    except UnicodeEncodeError:
        return False
    return True
