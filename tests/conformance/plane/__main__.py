"""Runs checks by hand.

    python -m tests.conformance.plane record [NAME...]      run checks on a real plane and store its answers
    python -m tests.conformance.plane compare [NAME...]     run them on the embedded plane, print differences
    python -m tests.conformance.plane list

NAME is a check ("lists/pages") or a pattern ("lists/*"). `record` starts a plane of its own.
"""

from __future__ import annotations

import asyncio
import fnmatch
import sys
import tempfile
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
    """Returns the exit code: 1 if a check failed or differs, 2 for wrong usage."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    command, *patterns = arguments or [""]
    chosen = [
        check
        for check in all_checks()
        if not patterns or any(fnmatch.fnmatch(check.name, pattern) for pattern in patterns)
    ]
    if command == "list":
        print("\n".join(check.name for check in chosen))
        return 0
    if command == "record":
        return asyncio.run(_record(chosen))
    if command == "compare":
        return asyncio.run(_compare(chosen))
    print(__doc__, file=sys.stderr)
    return 2


async def _record(chosen: list[Check]) -> int:
    assets = find_assets()
    if assets is None:
        print("no real control planes: run make real-plane", file=sys.stderr)
        return 1
    plane = Plane(assets, members=("member1",))
    try:
        await plane.start()
        await plane.metrics_work()
        under_test = of_hub(plane.hub, plane.members["member1"])
        async with plane.hub.api() as api:
            version = (await api.get("/version"))["gitVersion"]
        transcripts, failed = {}, 0
        for check in chosen:
            entries, error = await converse(check, under_test)
            if error is None:
                transcripts[check.name] = entries
            else:
                failed += 1
                print(f"{check.name}: {_described(error)}", flush=True)
    finally:
        plane.end()
    known = {check.name for check in all_checks()}
    for path in record.write(f"kube-apiserver {version}", transcripts, known):
        print(path)
    return 1 if failed else 0


async def _compare(chosen: list[Check]) -> int:
    different = 0
    for check in chosen:
        with tempfile.TemporaryDirectory() as folder:
            member = "member_kubeconfig" in check.needs
            async with embedded_plane(Path(folder), find_kubectl(), member=member) as under_test:
                missing = check.missing(under_test)
                entries, error = ([], None) if missing else await converse(check, under_test)
        found = "" if missing else record.differences(record.recorded(check.name), entries)
        found += _described(error) if error else ""
        different += bool(found)
        print(f"{check.name}: {f'skipped, no {missing}' if missing else found or 'same'}", flush=True)
    print(f"{different} of {len(chosen)} differ")
    return 1 if different else 0


def _described(error: Exception) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "about_" in frame.filename]
    where = f"{Path(frames[0].filename).name}:{frames[0].lineno}: {frames[0].line}" if frames else ""
    return f"\n    {type(error).__name__} {error}\n    {where}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
