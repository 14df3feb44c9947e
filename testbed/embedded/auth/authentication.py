"""Authenticates users by client certificate, by static token, or by ServiceAccount token.

A request without credentials is system:anonymous; wrong credentials are refused. A client certificate of
another CA fails in the TLS handshake; kube-apiserver would answer 401.
"""

import datetime as dt
import hashlib
import json
import secrets
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, replace

from aiohttp import web
from cryptography.x509.oid import NameOID

from fedhpa.serving import ClientVerifier, common_name, names_of, peer_certificate
from fedhpa.serving.authentication import AUTHENTICATED
from testbed.embedded.api.types import ANONYMOUS, Object, User
from testbed.embedded.clock import utc_now
from testbed.embedded.storage.store import Store

SUPERUSERS = "system:masters"
SERVICE_ACCOUNT = "system:serviceaccount:"
SERVICE_ACCOUNTS = ("", "serviceaccounts")
AUDIENCE = "https://kubernetes.default.svc.cluster.local"
CREDENTIAL = "authentication.kubernetes.io/credential-id"
DEFAULT_TOKEN = 3600


@dataclass(frozen=True)
class _IssuedToken:
    namespace: str
    name: str
    uid: str
    expires: dt.datetime
    user: User


class Authenticator:
    """The users of one plane. Callers may change `tokens`; `now` is the clock of token expiry."""

    def __init__(self, store: Store, client_ca: bytes, now: Callable[[], dt.datetime] = utc_now) -> None:
        self.tokens: dict[str, User] = {}
        self._store = store
        self._now = now
        self._certificates = ClientVerifier(client_ca, utc_now)
        self._issued: dict[str, _IssuedToken] = {}

    def authenticate(self, request: web.Request) -> User | None:
        """Returns the user, ANONYMOUS without credentials, None for wrong ones."""
        leaf = peer_certificate(request.get_extra_info("ssl_object"))
        certified = self._certified(leaf) if leaf is not None else None
        if certified is not None:
            return certified
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            return self.bearer(token.strip())
        return ANONYMOUS if leaf is None else None

    def bearer(self, token: str) -> User | None:
        """Returns the user of a token, or None for an unknown or expired token."""
        if token in self.tokens:
            return _authenticated(self.tokens[token])
        issued = self._issued.get(token)
        if issued is None or self._now() >= issued.expires:
            return None
        account = self._store.find(SERVICE_ACCOUNTS, issued.namespace, issued.name)
        return issued.user if account is not None and account["metadata"]["uid"] == issued.uid else None

    def issue(self, namespace: str, name: str, seconds: int = DEFAULT_TOKEN) -> tuple[str, dt.datetime]:
        """Returns a token of a ServiceAccount and its expiry. Raises StatusError NotFound."""
        uid = self._store.get(SERVICE_ACCOUNTS, namespace, name)["metadata"]["uid"]
        username = f"{SERVICE_ACCOUNT}{namespace}:{name}"
        extra = {CREDENTIAL: (f"JTI={uuid.uuid4()}",)}
        user = _authenticated(User(username, _account_groups(username), uid, extra))
        expires = self._now() + dt.timedelta(seconds=seconds)
        token = _token({"sub": username, "aud": [AUDIENCE], "exp": int(expires.timestamp())})
        self._issued[token] = _IssuedToken(namespace, name, uid, expires, user)
        return token, expires

    def _certified(self, leaf: bytes) -> User | None:
        certificate = self._certificates.verify(leaf)
        if isinstance(certificate, str) or not common_name(certificate):
            return None
        groups = names_of(certificate, NameOID.ORGANIZATION_NAME)
        extra = {CREDENTIAL: (f"X509SHA256={hashlib.sha256(leaf).hexdigest()}",)}
        return _authenticated(User(common_name(certificate), groups, extra=extra))


def _account_groups(username: str) -> tuple[str, ...]:
    if not username.startswith(SERVICE_ACCOUNT):
        return ()
    namespace = username.removeprefix(SERVICE_ACCOUNT).partition(":")[0]
    return ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")


def _token(claims: Object) -> str:
    """Returns a random token in the format of a JWT; the server looks it up instead of verifying it."""
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    return ".".join(urlsafe_b64encode(p).decode().rstrip("=") for p in (*parts, secrets.token_bytes(32)))


def user_info(user: User) -> Object:
    """Returns an authentication.k8s.io/v1 UserInfo."""
    extra = {key: list(values) for key, values in user.extra.items()}
    found = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    return {key: value for key, value in found.items() if value}


def _authenticated(user: User) -> User:
    return replace(user, groups=(*user.groups, AUTHENTICATED))
