"""Asking planes by hand.

    python -m tests.conformance.plane record [NAME...]      ask a real plane, and keep what it says
    python -m tests.conformance.plane compare [NAME...]     ask the embedded plane, and say where it differs
    python -m tests.conformance.plane list

NAME is a check ("lists/pages"), or a pattern ("lists/*"). `record` starts a plane of its own.
"""

from __future__ import annotations

import asyncio
import fnmatch
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

import structlog

from testbed.real.assets import find_assets
from testbed.real.plane import Plane
from tests.conformance.plane import record
from tests.conformance.plane.embedded import embedded_plane
from tests.conformance.plane.real import of_hub
from tests.conformance.plane.registry import Check, all_checks, converse
from tests.conformance.plane.under_test import find_kubectl


def main(arguments: Sequence[str]) -> int:
    """The exit code: 1 if something failed or differs, 2 for wrong usage."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    command, *patterns = arguments or [""]
    chosen = [one for one in all_checks() if _matches(one, patterns)]
    if command == "list":
        print("\n".join(one.name for one in chosen))
        return 0
    if command == "record":
        return asyncio.run(_record(chosen))
    if command == "compare":
        return asyncio.run(_compare(chosen))
    print(__doc__, file=sys.stderr)
    return 2


def _matches(one: Check, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatch.fnmatch(one.name, pattern) for pattern in patterns)


async def _record(chosen: list[Check]) -> int:
    assets = find_assets()
    if assets is None:
        print("no real control planes: make real-plane builds their programs", file=sys.stderr)
        return 1
    plane = Plane(assets, members=("member1",))
    try:
        await plane.start()
        await plane.metrics_work()
        under_test = of_hub(plane.hub, plane.members["member1"])
        async with plane.hub.api() as api:
            version = (await api.get("/version"))["gitVersion"]
        transcripts, failed = {}, 0
        for one in chosen:
            entries, error = await converse(one, under_test)
            if error is None:
                transcripts[one.name] = entries
            else:
                failed += 1
                print(f"{one.name}: {_words(error)}", flush=True)
    finally:
        plane.end()
    known = {one.name for one in all_checks()}
    for path in record.write(f"kube-apiserver {version}", transcripts, known):
        print(path)
    return 1 if failed else 0


async def _compare(chosen: list[Check]) -> int:
    kubectl = find_kubectl()
    different = 0
    for one in chosen:
        started = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            async with embedded_plane(
                Path(folder), kubectl, member="member_kubeconfig" in one.needs
            ) as under_test:
                missing = one.missing(under_test)
                entries, error = ([], None) if missing else await converse(one, under_test)
        said = (
            f"not asked, no {missing}" if missing else record.differences(record.recorded(one.name), entries)
        )
        said = "\n".join(filter(None, [_words(error) if error else "", said]))
        different += bool(said) and not missing
        print(f"{one.name} ({time.monotonic() - started:.1f} s): {said or 'the same'}", flush=True)
    print(f"{different} of {len(chosen)} differ")
    return 1 if different else 0


def _words(error: Exception) -> str:
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if "about_" in frame.filename]
    where = f"{Path(places[0].filename).name}:{places[0].lineno}: {places[0].line}" if places else ""
    return f"\n    BROKEN OFF by {type(error).__name__} {error}\n    {where}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
