"""A plain client for one plane's API server, for setting up and for looking on.

Deliberately not the product's client: what tests observe must not pass through what they test.
"""

import functools
import json
import ssl
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any

import aiohttp

from fedhpa.api.errors import ApiError
from testbed.stage.waiting import eventually

FIELD_MANAGER = "stage"
# Of one request; more than a busy machine needs, and as long as an API server itself would try.
REQUEST_SECONDS = 60.0
APPLY_SECONDS = 90.0


class PlaneApi:
    """Requests to one API server; use it in `async with`. Paths are absolute, objects are plain dicts.

    Errors: ApiError for an answer that is one, aiohttp's for none.
    """

    def __init__(self, server: str, context: ssl.SSLContext, *, token: str | None = None) -> None:
        self._server = server
        self._context = context
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._resources: dict[str, dict[str, Any]] = {}

    async def __aenter__(self) -> "PlaneApi":
        self._session = aiohttp.ClientSession(
            self._server,
            headers=self._headers,
            connector=aiohttp.TCPConnector(ssl=self._context),
            timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
        accept: str = "*/*",
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of any answer."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": accept}
        if data is not None:
            headers["Content-Type"] = content_type
        async with self._session.request(
            method, path, data=data, headers=headers, params=params, allow_redirects=False
        ) as response:
            return response.status, response.headers, await response.read()

    async def ask(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> Any:
        """The decoded body of an answer below 300; ApiError for others."""
        status, _, raw = await self.request(method, path, body=body, content_type=content_type, params=params)
        try:
            answer = json.loads(raw)
        except ValueError:
            answer = raw.decode(errors="replace")
        if status >= 300:
            body_is_status = isinstance(answer, dict)
            message = answer.get("message", "") if body_is_status else answer
            reason = answer.get("reason", "") if body_is_status else ""
            raise ApiError(f"{method} {path}: {status} {message}".rstrip(), status=status, reason=reason)
        return answer

    async def get(self, path: str, **params: str) -> Any:
        """GET a path."""
        return await self.ask("GET", path, params=params)

    async def find(self, path: str) -> Any | None:
        """GET a path; None where there is nothing (404)."""
        try:
            return await self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def path_of(self, manifest: Mapping[str, Any]) -> str:
        """Where the object lives; asks the server how its kind is called in paths."""
        version, kind = manifest["apiVersion"], manifest["kind"]
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        if kind not in self._resources.get(version, {}):
            found = await self.get(base)
            self._resources[version] = {r["kind"]: r for r in found["resources"] if "/" not in r["name"]}
        resource = self._resources[version].get(kind)
        if resource is None:
            raise ApiError(f"{version} has no kind {kind}", status=404, reason="NotFound")
        metadata = manifest["metadata"]
        scope = f"/namespaces/{metadata.get('namespace', 'default')}" if resource["namespaced"] else ""
        return f"{base}{scope}/{resource['name']}/{metadata['name']}"

    async def apply(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> Any:
        """Create the object, or merge the manifest into the one that is there; the stored object."""
        params = {"fieldManager": FIELD_MANAGER} | ({"dryRun": "All"} if dry_run else {})
        path = await self.path_of(manifest)
        try:
            return await self.ask("POST", path.rpartition("/")[0], body=manifest, params=params)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        return await self.ask(
            "PATCH", path, body=manifest, content_type="application/merge-patch+json", params=params
        )

    async def apply_all(self, manifests: list[dict[str, Any]]) -> None:
        """Apply one after the other; a kind whose CRD was just applied may need a moment to be served, and a
        webhook of a busy machine may miss its time.
        """
        for manifest in manifests:
            await eventually(
                functools.partial(self._apply_unless_refused, manifest),
                what=f"apply {manifest['kind']} {manifest['metadata']['name']}",
                seconds=APPLY_SECONDS,
            )

    async def _apply_unless_refused(self, manifest: Mapping[str, Any]) -> Any:
        try:
            return await self.apply(manifest)
        except ApiError as error:
            if error.status in (400, 403, 422):  # the object is wrong; waiting does not mend it
                raise ValueError(str(error)) from error
            raise

    async def delete(self, path: str) -> None:
        """DELETE a path; nothing there is as good."""
        try:
            await self.ask("DELETE", path)
        except ApiError as error:
            if error.status != 404:
                raise

    async def patch(self, path: str, body: Any) -> Any:
        """A JSON merge patch; the object after it."""
        return await self.ask("PATCH", path, body=body, content_type="application/merge-patch+json")

    async def wait(
        self, path: str, until: Callable[[Any], bool], *, what: str, seconds: float, every: float = 0.2
    ) -> Any:
        """The object at `path` as soon as `until` holds for it; raises NotInTime."""

        async def look() -> Any | None:
            found = await self.find(path)
            return found if found is not None and until(found) else None

        return await eventually(look, what=what, seconds=seconds, every=every)


def has_condition(thing: Any, *, kind: str, status: str = "True") -> bool:
    """Whether the object's status has a condition of that type and status."""
    conditions = (thing.get("status") or {}).get("conditions") or []
    return any(c["type"] == kind and c["status"] == status for c in conditions)
