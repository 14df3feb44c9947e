"""Whether a request can be answered at all, and answers in JSON."""

import json
from collections.abc import Sequence

import msgspec
from aiohttp import web

from testbed.embedded.api import statuses as refusals
from testbed.embedded.api.types import Attributes, Object, Refusal
from testbed.embedded.objects.kinds import NAMESPACES, Kind


def readable(accept: str) -> bool:
    """Whether a client reads what is written here, which is JSON."""
    types = {part.partition(";")[0].strip() for part in accept.split(",")}
    return not types.isdisjoint(("application/json", "application/*", "*/*", ""))


def has_path(at: Attributes, kind: Kind) -> bool:
    """Whether there is anything of a kind at a path."""
    in_place = kind.namespaced or not at.namespace or kind.collection == NAMESPACES
    return in_place and (not at.subresource or at.subresource in kind.subresources)


def has_method(at: Attributes, kind: Kind, method: str) -> bool:
    """Whether it can be asked so."""
    if at.subresource:
        return method in ("GET", "PUT", "PATCH")
    if kind.namespaced and not at.namespace:
        return method == "GET"
    if at.name and at.verb not in ("list", "watch"):
        return method in ("GET", "PUT", "PATCH", "DELETE")
    return method in ("GET", "POST", "DELETE")


def json_response(
    body: Object, status: int = 200, warnings: Sequence[str] = (), *, content_type: str = "application/json"
) -> web.Response:
    """An answer, with warnings in its headers."""
    response = web.Response(
        body=msgspec.json.encode(body), status=status, headers={"Content-Type": content_type}
    )
    response.headers["Cache-Control"] = "no-cache, private"
    for text in dict.fromkeys(warnings):
        response.headers.add("Warning", f"299 - {json.dumps(text, ensure_ascii=False)}")
    return response


def refused(refusal: Refusal, warnings: Sequence[str] = ()) -> web.Response:
    """The Status of a refusal."""
    response = json_response(refusals.status_of(refusal), refusal.code, warnings)
    response.headers.update(refusal.headers)
    return response
