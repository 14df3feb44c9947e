"""Authorizes requests with SubjectAccessReviews of the hub."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

import msgspec
import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from fedhpa.api.errors import ApiError, FedHPAError, InvalidObject
from fedhpa.api.selectors import parse_field_selector
from fedhpa.api.texts import one_line
from fedhpa.cache import Cache, Fetched
from fedhpa.kube import ApiClient
from fedhpa.serving.authentication import (
    ENTRY_BYTES,
    MAX_CACHED_BYTES,
    REVIEW_DEADLINE,
    Authenticator,
    User,
    review_token,
)
from fedhpa.serving.error_responses import status_response
from fedhpa.serving.fairness import Fairness, Limits
from fedhpa.serving.process_series import CallerSeries

logger = structlog.get_logger(__name__)

ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
USER_KEY: web.RequestKey[User] = web.RequestKey("user", User)

# Kubernetes' RequestInfo: /apis/GROUP/VERSION/[namespaces/NAMESPACE/]RESOURCE[/NAME[/SUBRESOURCE]].
PREFIX_PARTS = 3
# The verbs of requests without a name in their path.
# As in Kubernetes, any other value of `watch` is true.
FALSE_WORDS = ("0", "false")
COLLECTION_VERBS = ("list", "watch", "deletecollection")
# Kubernetes' servers review and then obey these headers. The hub does it for requests that come through it.
IMPERSONATION = "impersonate-"
IMPERSONATION_REFUSED = "impersonation is not supported here: send the request to the hub's API server"
# Verdicts on longer paths are not cached, because callers could fill the memory with them.
MAX_CACHED_PATH = 1024
MAX_CACHED_VERDICTS = 4096
# The user of the access review. The answer does not matter, but the right to ask does.
PROBE_USER = "fedhpa:readiness"
# The token that is reviewed by a process that has none, because it uses a client certificate.
NO_TOKEN = "fedhpa-readiness"  # noqa: S105 - it opens nothing


@dataclass(frozen=True)
class Attributes:
    """The attributes of a request; `resource` is "" for a non-resource path."""

    verb: str
    path: str
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    @classmethod
    def of(cls, request: web.Request) -> Attributes:
        """Returns the attributes of a request, by Kubernetes' rules for paths under /apis."""
        parts = [unquote(part) for part in request.rel_url.raw_path.split("/") if part]
        if len(parts) <= PREFIX_PARTS or parts[0] != "apis":
            return cls(request.method.lower(), request.path)
        group, version, rest = parts[1], parts[2], parts[PREFIX_PARTS:]
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        resource, name, subresource = (*rest[:3], "", "")[:3]
        verb = _verb(request, bool(name))
        if verb in COLLECTION_VERBS:
            name = _selected_name(request)
        return cls(verb, request.path, group, version, resource, subresource, namespace, name)

    def forbidden(self, user: User, reason: str) -> web.Response:
        """Returns the 403 response of Kubernetes' servers."""
        because = f": {reason}" if reason else ""
        if not self.resource:
            text = f'forbidden: User "{user.name}" cannot {self.verb} path "{self.path}"{because}'
            return status_response(403, text, details={})
        place = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        resource = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        subject = f"{self.resource}.{self.group}" + (f' "{self.name}"' if self.name else "")
        text = (
            f'{subject} is forbidden: User "{user.name}" cannot {self.verb} resource "{resource}"'
            f' in API group "{self.group}" {place}{because}'
        )
        details = {"group": self.group, "kind": self.resource} | ({"name": self.name} if self.name else {})
        return status_response(403, text, details=details)


class AccessReviewStatus(msgspec.Struct, frozen=True):
    """The hub's answer to a review, with the reason for the user."""

    allowed: bool = False
    denied: bool = False
    reason: str = ""


class AccessReview(msgspec.Struct, frozen=True):
    """A SubjectAccessReview that the hub answered."""

    status: AccessReviewStatus = AccessReviewStatus()


class Authorizer:
    """Reviews access on the hub and caches verdicts for `allowed_seconds` or `denied_seconds`."""

    def __init__(
        self,
        client: ApiClient,
        *,
        allowed_seconds: float = 10.0,
        denied_seconds: float = 10.0,
        clock: Callable[[], float],
    ) -> None:
        self._client = client
        self._failing = False
        self._allowed_seconds = allowed_seconds
        self._denied_seconds = denied_seconds
        self._clock = clock
        self._verdicts: Cache[tuple[User, Attributes], AccessReviewStatus] = Cache(
            clock=clock,
            max_entries=MAX_CACHED_VERDICTS,
            max_weight=MAX_CACHED_BYTES,
            key_weight=lambda key: ENTRY_BYTES + key[0].size + 2 * len(key[1].path),
        )

    async def verdict(self, user: User, attributes: Attributes) -> AccessReviewStatus:
        """Returns the verdict on a request of `user`. Raises ApiError if the review fails."""
        if len(attributes.path) > MAX_CACHED_PATH:
            return (await self._review(user, attributes)).value
        fetched = await self._verdicts.get((user, attributes), lambda: self._review(user, attributes))
        return fetched.value

    async def _review(self, user: User, attributes: Attributes) -> Fetched[AccessReviewStatus]:
        spec: dict[str, object] = {"user": user.name, "groups": user.groups}
        if user.uid:
            spec["uid"] = user.uid
        if user.extra:
            spec["extra"] = dict(user.extra)
        if attributes.resource:
            names = ("namespace", "verb", "group", "version", "resource", "subresource", "name")
            values = {name: getattr(attributes, name) for name in names}
            spec["resourceAttributes"] = {name: value for name, value in values.items() if value}
        else:
            spec["nonResourceAttributes"] = {"path": attributes.path, "verb": attributes.verb}
        try:
            status = await review_access(self._client, spec)
        except ApiError as error:
            # The response has the reason, but the hub shows its own users only that it was a 500.
            if not self._failing:
                logger.warning("access cannot be reviewed", error=str(error))
            self._failing = True
            raise
        if self._failing:
            logger.info("access is reviewed again")
        self._failing = False
        # A verdict has one field to ask: what is both allowed and denied is not allowed.
        verdict = AccessReviewStatus(status.allowed and not status.denied, reason=status.reason)
        ttl = self._allowed_seconds if verdict.allowed else self._denied_seconds
        return Fetched(verdict, self._clock(), ttl)


async def review_access(client: ApiClient, spec: Mapping[str, object]) -> AccessReviewStatus:
    """Returns the hub's answer to a SubjectAccessReview. Raises ApiError if the review fails."""
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = await client.post(ACCESS_REVIEWS, review, deadline=REVIEW_DEADLINE)
    return answer.decode(AccessReview).status


class Guard:
    """Authenticates, limits and authorizes requests: answers 401, 429 or 403, or passes the request on."""

    def __init__(
        self,
        authenticator: Authenticator,
        authorizer: Authorizer,
        always_allowed: Iterable[str],
        fairness: Fairness | None = None,
        series: CallerSeries | None = None,
        *,
        clock: Callable[[], float],
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._always_allowed = tuple(always_allowed)
        self._fairness = fairness or Fairness(Limits(), clock=clock)
        self._series = series or CallerSeries()

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Middleware that passes allowed requests on. `request[USER_KEY]` is the user, also of a denial."""
        if self._is_open(request.path):
            return await handler(request)
        try:
            user = await self._authenticator.user(request)
        except ApiError as error:
            # As in Kubernetes, a token that cannot be reviewed does not authenticate.
            self._series.authentications.labels(CallerSeries.ERROR).inc()
            logger.warning("token could not be reviewed", error=str(error))
            return status_response(401, "Unauthorized")
        if user is None:
            self._series.authentications.labels(CallerSeries.UNAUTHENTICATED).inc()
            return status_response(401, "Unauthorized")
        self._series.authentications.labels(CallerSeries.AUTHENTICATED).inc()
        request[USER_KEY] = user
        if any(name.lower().startswith(IMPERSONATION) for name in request.headers):
            return status_response(403, IMPERSONATION_REFUSED)
        # The limits apply before the review, because a review on the hub is expensive.
        counted = self._fairness.enter(user)
        try:
            return await self._allowed(user, request, handler)
        finally:
            if counted:
                self._fairness.leave(user)

    async def _allowed(self, user: User, request: web.Request, handler: Handler) -> web.StreamResponse:
        attributes = Attributes.of(request)
        try:
            verdict = await self._authorizer.verdict(user, attributes)
        except ApiError as error:
            self._series.authorizations.labels(CallerSeries.ERROR).inc()
            return status_response(500, f"Internal error occurred: access could not be reviewed: {error}")
        self._series.authorizations.labels(
            CallerSeries.ALLOWED if verdict.allowed else CallerSeries.DENIED
        ).inc()
        if not verdict.allowed:
            return attributes.forbidden(user, verdict.reason)
        return await handler(request)

    def _is_open(self, path: str) -> bool:
        path = path.rstrip("/") or "/"
        return any(
            path.startswith(allowed[:-1]) if allowed.endswith("*") else path == allowed
            for allowed in self._always_allowed
        )


async def review_problem(authentication: ApiClient, authorization: ApiClient) -> str | None:
    """Returns why callers would be refused with these clients for reviews; None if both reviews work."""
    what = "access"
    try:
        attributes = {"path": "/readyz", "verb": "get"}
        await review_access(authorization, {"user": PROBE_USER, "nonResourceAttributes": attributes})
        what = "tokens"
        header = await authentication.config.credentials.authorization()
        await review_token(authentication, (header or "").partition(" ")[2] or NO_TOKEN)
    except FedHPAError as error:
        return one_line(f"{what} cannot be reviewed: {error}")
    return None


@web.middleware
async def audit_log(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Middleware that logs user, verb, path and status; outside the Guard, so it also logs denials."""
    response = await handler(request)
    user, attributes = request.get(USER_KEY), Attributes.of(request)
    logger.info(
        "audit",
        user=user.name if user is not None else None,
        verb=attributes.verb,
        path=request.path,
        status=response.status,
    )
    return response


def _selected_name(request: web.Request) -> str:
    """Returns the name that a field selector requires. A right to one name allows to list that one."""
    text = request.query.get("fieldSelector", "")
    if not text:
        return ""
    try:
        selector = parse_field_selector(text)
    except InvalidObject:
        return ""  # The handler refuses it.
    name = selector.required("metadata.name") or ""
    return "" if name in (".", "..") or "/" in name or "%" in name else name


def _verb(request: web.Request, named: bool) -> str:
    if request.method in ("GET", "HEAD"):
        watching = request.query.get("watch", "0").lower() not in FALSE_WORDS
        return "get" if named else "watch" if watching else "list"
    verbs = {"POST": "create", "PUT": "update", "PATCH": "patch"}
    if request.method == "DELETE":
        return "delete" if named else "deletecollection"
    return verbs.get(request.method, request.method.lower())
