"""A plain client of one API server, for set-up and observation.

It shares no code with the product's client, because tests must not observe the product through itself.
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
# The deadline of one request, which equals an API server's own.
REQUEST_SECONDS = 60.0
APPLY_SECONDS = 90.0


class PlaneApi:
    """A client of one API server, for use in `async with`. Paths are absolute and objects are plain dicts.

    Raises ApiError for an error response, and aiohttp's errors if there is no response.
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
        """Returns status, headers and body, whatever the status."""
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": accept}
        if data is not None:
            headers["Content-Type"] = content_type
        async with self._session.request(
            method, path, data=data, headers=headers, params=params, allow_redirects=False
        ) as response:
            return response.status, response.headers, await response.read()

    async def send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
    ) -> Any:
        """Returns the decoded body of a response below 300; raises ApiError for others."""
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
        """Returns the object at a path."""
        return await self.send("GET", path, params=params)

    async def find(self, path: str) -> Any | None:
        """Returns the object at a path, or None after 404."""
        try:
            return await self.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def path_of(self, manifest: Mapping[str, Any]) -> str:
        """Returns the object's path. Reads the resource name of its kind from discovery."""
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
        """Creates the object or merges the manifest into the existing one; returns the stored object."""
        params = {"fieldManager": FIELD_MANAGER} | ({"dryRun": "All"} if dry_run else {})
        path = await self.path_of(manifest)
        try:
            return await self.send("POST", path.rpartition("/")[0], body=manifest, params=params)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
        return await self.send(
            "PATCH", path, body=manifest, content_type="application/merge-patch+json", params=params
        )

    async def apply_all(self, manifests: list[dict[str, Any]]) -> None:
        """Applies the manifests in order, and retries each one.

        A new CRD takes a moment to be served, and on a busy machine a webhook may time out.
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
            if error.status in (400, 403, 422):  # an invalid object stays invalid
                raise ValueError(str(error)) from error
            raise

    async def delete(self, path: str) -> None:
        """Deletes the object at a path, if there is one."""
        try:
            await self.send("DELETE", path)
        except ApiError as error:
            if error.status != 404:
                raise

    async def token(self, namespace: str, account: str, **spec: Any) -> str:
        """Makes a token of a ServiceAccount. `spec` is that of the TokenRequest."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return str((await self.send("POST", path, body=body))["status"]["token"])

    async def patch(self, path: str, body: Any) -> Any:
        """Sends a JSON merge patch; returns the patched object."""
        return await self.send("PATCH", path, body=body, content_type="application/merge-patch+json")

    async def wait(
        self, path: str, until: Callable[[Any], bool], *, what: str, seconds: float, every: float = 0.2
    ) -> Any:
        """Returns the object at `path` once `until` is true of it; raises NotInTime."""

        async def find() -> Any | None:
            found = await self.find(path)
            return found if found is not None and until(found) else None

        return await eventually(find, what=what, seconds=seconds, every=every)


def has_condition(thing: Any, *, kind: str, status: str = "True") -> bool:
    """True if the object has a condition of that type and status."""
    conditions = (thing.get("status") or {}).get("conditions") or []
    return any(c["type"] == kind and c["status"] == status for c in conditions)
