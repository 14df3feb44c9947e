"""The watches of the hostile member: lines of any content, floods, lines without end, and silence."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from tests.support.hostile.answers import ANSWERS, CHUNKED, HOLD_SECONDS, MIB, Answer, Exchange, chunk, event
from tests.support.hostile.documents import NOT_FOUND, is_lie, with_damage, with_literal, with_mutation


def line_of(exchange: Exchange) -> bytes:
    """Returns one hostile line of a watch."""
    chance = exchange.chance
    items = exchange.document.get("items") or [{"metadata": {"name": "x", "resourceVersion": "8"}}]
    item = json.loads(json.dumps(chance.choice(items)))
    metadata = {
        **item.get("metadata", {}),
        "resourceVersion": chance.choice(("1", "7", "9" * 18, "", "-1", "x")),
    }
    item["metadata"] = metadata
    kinds = ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "", "added", "X" * 10_000)
    made = {"type": chance.choice(kinds), "object": item}
    expired = {**NOT_FOUND, "code": chance.choice((410, 410, 500, "410", None)), "reason": "Expired"}
    return chance.choice(
        (
            json.dumps(made).encode() + b"\n",
            event("ERROR", expired),
            event("ERROR", chance.choice((None, [], "x"))),
            event("BOOKMARK", {}),
            with_literal(made, chance) + b"\n",
            with_mutation(made, chance) + b"\n",
            with_damage(made, chance).replace(b"\n", b"") + b"\n",
            chance.randbytes(200) + b"\n",
            b"\n" * 1_000,
            b"null\n",
            b"{" * 5_000 + b"\n",
        )
    )


async def hostile_watch(exchange: Exchange) -> None:
    """Lines of all kinds, then the end, a flood of events, a line without end, or silence."""
    await exchange.send(CHUNKED)
    for _ in range(exchange.chance.randrange(30)):
        line = line_of(exchange)
        if not any(is_lie(one) for one in line.splitlines()):
            await exchange.send(chunk(line))
        await asyncio.sleep(exchange.chance.choice((0.0, 0.1)))
    form = exchange.chance.randrange(4)
    if form == 0:
        names = [
            event("ADDED", {"metadata": {"name": f"f-{n}", "resourceVersion": "9"}}) for n in range(1_000)
        ]
        await exchange.flood(chunk(b"".join(names)), 20 * sum(map(len, names)), pause=0.1)
    elif form == 1:
        await exchange.flood(chunk(b"x" * 65_536), 24 * MIB)
    elif form == 2:
        await asyncio.sleep(HOLD_SECONDS)
    await exchange.send(chunk(b""))


WATCHES: Final[tuple[Answer, ...]] = (*(hostile_watch,) * 12, *ANSWERS)
