"""Who asks: client certificates, bearer tokens of users and of ServiceAccounts, or nobody.

As kube-apiserver with --anonymous-auth: no credentials are system:anonymous, wrong ones are refused. Unlike
there a certificate of another CA ends the handshake already.
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

from fedhpa.api.fielderror import invalid
from fedhpa.serving.authentication import AUTHENTICATED, peer_certificate, utc_now
from fedhpa.serving.certificates import ClientVerifier, common_name, names_of
from testbed.embedded.api import statuses as refusals
from testbed.embedded.api.types import ANONYMOUS, Attributes, Object, User
from testbed.embedded.storage.store import Store

SUPERUSERS = "system:masters"
SERVICE_ACCOUNT = "system:serviceaccount:"
SERVICE_ACCOUNTS = ("", "serviceaccounts")
AUDIENCE = "https://kubernetes.default.svc.cluster.local"
CREDENTIAL = "authentication.kubernetes.io/credential-id"
# k8s.io/kubernetes, apis/authentication/validation.
SHORTEST_TOKEN, LONGEST_TOKEN, DEFAULT_TOKEN = 600, 1 << 32, 3600


@dataclass(frozen=True)
class _ServiceAccountToken:
    namespace: str
    name: str
    uid: str
    expires: dt.datetime


class Authenticator:
    """Users of one plane. `tokens` may be given users at any time; `now` is the clock of tokens' ends."""

    def __init__(self, store: Store, client_ca: bytes, now: Callable[[], dt.datetime] = utc_now) -> None:
        self.tokens: dict[str, User] = {}
        self._store = store
        self._now = now
        self._certificates = ClientVerifier(client_ca, utc_now)
        self._issued: dict[str, tuple[_ServiceAccountToken, User]] = {}

    async def authenticate(self, request: web.Request) -> User | None:
        """The user, or whom it impersonates; ANONYMOUS without proof, None with a wrong one. Refusal."""
        user, other = self._proven(request), request.headers.get("Impersonate-User", "")
        if user is None or not other:
            return user
        if SUPERUSERS not in user.groups:
            raise refusals.not_allowed(Attributes(user, "impersonate", "", resource="users", name=other))
        groups = request.headers.getall("Impersonate-Group", []) or _account_groups(other)
        return _authenticated(User(other, tuple(groups)))

    def _proven(self, request: web.Request) -> User | None:
        leaf = peer_certificate(request)
        certified = self._certified(leaf) if leaf is not None else None
        if certified is not None:
            return certified
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            return self.bearer(token.strip())
        return ANONYMOUS if leaf is None else None

    def bearer(self, token: str) -> User | None:
        """Whose token it is; None if it is nobody's, or no longer."""
        if token in self.tokens:
            return _authenticated(self.tokens[token])
        claim, user = self._issued.get(token, (None, ANONYMOUS))
        if claim is None or self._now() >= claim.expires:
            return None
        account = self._store.find(SERVICE_ACCOUNTS, claim.namespace, claim.name)
        return user if account is not None and account["metadata"]["uid"] == claim.uid else None

    def issue(self, namespace: str, name: str, seconds: int = DEFAULT_TOKEN) -> tuple[str, dt.datetime]:
        """A token for a ServiceAccount, good while that exists, and its end. Refusal for a wrong one."""
        problem = "less than 10 minutes" if seconds < SHORTEST_TOKEN else "larger than 2^32 seconds"
        if not SHORTEST_TOKEN <= seconds <= LONGEST_TOKEN:
            wrong = invalid("spec.expirationSeconds", seconds, f"may not specify a duration {problem}")
            raise refusals.invalid("authentication.k8s.io", "TokenRequest", "", [wrong])
        uid = self._store.get(SERVICE_ACCOUNTS, namespace, name)["metadata"]["uid"]
        username = f"{SERVICE_ACCOUNT}{namespace}:{name}"
        extra = {CREDENTIAL: (f"JTI={uuid.uuid4()}",)}
        user = User(username, _account_groups(username), uid, extra)
        expires = self._now() + dt.timedelta(seconds=seconds)
        token = _token({"sub": user.name, "aud": [AUDIENCE], "exp": int(expires.timestamp())})
        claim = _ServiceAccountToken(namespace, name, uid, expires)
        self._issued[token] = claim, _authenticated(user)
        return token, expires

    def _certified(self, leaf: bytes) -> User | None:
        certificate = self._certificates.verify(leaf)
        if certificate is None or not common_name(certificate):
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
    """A token with the claims of a JWT, for people who look; what proves it is that we know it."""
    parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
    return ".".join(urlsafe_b64encode(p).decode().rstrip("=") for p in (*parts, secrets.token_bytes(32)))


def user_info(user: User) -> Object:
    """authentication.k8s.io/v1 UserInfo."""
    extra = {key: list(values) for key, values in user.extra.items()}
    found = {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}
    return {key: value for key, value in found.items() if value}


def _authenticated(user: User) -> User:
    return replace(user, groups=(*user.groups, AUTHENTICATED))
