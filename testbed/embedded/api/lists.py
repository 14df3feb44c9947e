"""Lists: all or selected objects of a collection, in pages that show one moment."""

import base64
from collections.abc import Mapping
from typing import Final

import msgspec

from testbed.embedded.api import statuses as refusals
from testbed.embedded.api.calls import Call
from testbed.embedded.api.selection import selection
from testbed.embedded.api.types import Object, Refusal
from testbed.embedded.storage.store import Store

_EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)


def listed(store: Store, call: Call) -> Object:
    """The list that a request asks for. Refusal BadRequest, Timeout or Expired."""
    kind, query = call.kind, call.query
    wanted = selection(kind, query)
    # As a real API server, which answers "whatever version" from its cache, in one piece.
    limit = 0 if query.get("resourceVersion") == "0" else int(query.get("limit") or 0)
    version, start = _version(store, query), ""
    if query.get("continue"):
        version, start = _read_token(query["continue"])
    try:
        found = store.at(kind.collection, version, call.namespace)
    except Refusal as error:
        raise refusals.expired(_EXPIRED) if start else error from error
    items = [obj for obj in found if _key(obj) > start and wanted(obj)]
    metadata: Object = {"resourceVersion": str(version)}
    if limit and len(items) > limit:
        metadata["continue"] = _token(version, _key(items[limit - 1]))
        if wanted.everything:
            metadata["remainingItemCount"] = len(items) - limit
        items = items[:limit]
    for obj in items:
        # Of built-in kinds only the list says what they are.
        said = {"kind": kind.kind, "apiVersion": kind.api_version} if kind.custom else {}
        for name in ("kind", "apiVersion"):
            obj.pop(name, None)
        obj |= said
    return {"kind": kind.list_kind, "apiVersion": kind.api_version, "metadata": metadata, "items": items}


def _version(store: Store, query: Mapping[str, str]) -> int:
    """The version to list at: the newest, unless a certain one is asked for."""
    asked = int(query.get("resourceVersion") or 0)
    if asked > store.version:
        text = f"Timeout: Too large resource version: {asked}, current: {store.version}"
        causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
        details = {"causes": causes, "retryAfterSeconds": 1}
        raise Refusal(504, "Timeout", text, details=details, headers={"Retry-After": "1"})
    return asked if query.get("resourceVersionMatch") == "Exact" else store.version


def _key(obj: Object) -> str:
    return f"{obj['metadata'].get('namespace', '')}/{obj['metadata']['name']}"


def _token(version: int, last: str) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode((version, last))).decode()


def _read_token(token: str) -> tuple[int, str]:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(token), type=tuple[int, str])
    except (ValueError, msgspec.DecodeError) as error:
        raise refusals.bad_request(f"continue key is not valid: {error}") from error
