"""Checks that the hub reviews tokens and access for this process, as each request of a caller needs it to."""

from __future__ import annotations

from fedhpa.api.errors import FedHPAError
from fedhpa.api.texts import one_line
from fedhpa.kube import ApiClient
from fedhpa.serving.authentication import REVIEW_DEADLINE, TOKEN_REVIEWS, TokenReview
from fedhpa.serving.authorization import ACCESS_REVIEWS, AccessReview

# The user of the access review. The answer does not matter, but the right to ask does.
PROBE_USER = "fedhpa:readiness"
# The token that is reviewed by a process that has none, because it uses a client certificate.
NO_TOKEN = "fedhpa-readiness"  # noqa: S105 - it opens nothing


class ReviewProbe:
    """Makes one review of each kind, with the clients that review for callers."""

    def __init__(self, authentication: ApiClient, authorization: ApiClient) -> None:
        self._authentication = authentication
        self._authorization = authorization

    async def problem(self) -> str | None:
        """Returns why callers would be refused; None if both reviews work."""
        try:
            await self._review_access()
        except FedHPAError as error:
            return one_line(f"access cannot be reviewed: {error}")
        try:
            await self._review_token()
        except FedHPAError as error:
            return one_line(f"tokens cannot be reviewed: {error}")
        return None

    async def _review_access(self) -> None:
        attributes = {"path": "/readyz", "verb": "get"}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": PROBE_USER, "nonResourceAttributes": attributes},
        }
        answer = await self._authorization.post(ACCESS_REVIEWS, review, deadline=REVIEW_DEADLINE)
        answer.decode(AccessReview)

    async def _review_token(self) -> None:
        header = await self._authentication.config.credentials.authorization()
        token = (header or "").partition(" ")[2] or NO_TOKEN
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        }
        answer = await self._authentication.post(TOKEN_REVIEWS, review, deadline=REVIEW_DEADLINE)
        answer.decode(TokenReview)
