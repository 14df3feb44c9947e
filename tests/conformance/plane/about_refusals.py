"""The answers to requests that cannot be served."""

from __future__ import annotations

from tests.conformance.plane.registry import check
from tests.conformance.plane.talk import Talk


@check()
async def paths_outside_the_api(talk: Talk) -> None:
    """Health and version need no credentials."""
    for path in ("/livez", "/readyz", "/healthz"):
        answer = await talk.get(path, user="nobody")

        assert (answer.status, answer.json) == (200, "ok")
    version = await talk.get("/version", user="nobody", show=("major",))

    assert version.json["major"] == "1"
