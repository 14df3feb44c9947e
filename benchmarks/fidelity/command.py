"""`python -m benchmarks fidelity`: how well the model follows recorded runs of real planes."""

from __future__ import annotations

import argparse
import asyncio
import gzip
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.fidelity.measure import RECORDINGS, Measured, measure
from benchmarks.fidelity.plane import record
from benchmarks.fidelity.shapes import MINUTES, MODES, SHAPES, Shape
from benchmarks.fidelity.times import TIMES
from fedhpa.backtest import encode_recording
from testbed.real.assets import PlaneUnavailable, ensure_assets
from testbed.stage import NotInTime, StartFailed

HEAD = ("SHAPE", "MODE", "ERROR", "CONSTANT'S", "PART", "CLOSE", "ITSELF", "CLOSE", "HIDDEN", "")


def main(arguments: Sequence[str]) -> int:
    """Prints the table, after recording the shapes anew if asked. Returns 1 if a run is not followed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks fidelity", description=__doc__)
    parser.add_argument(
        "--record", action="store_true", help="record on a real plane first, both modes side by side"
    )
    parser.add_argument("--shape", action="append", choices=SHAPES, help="repeatable; default: all")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"of a recording (default {MINUTES})")
    parser.add_argument("--folder", type=Path, default=RECORDINGS, help="of the recordings")
    options = parser.parse_args(arguments)
    shapes = [SHAPES[name] for name in options.shape or SHAPES]
    try:
        if options.record:
            _record(shapes, options.minutes, options.folder)
        measured = [measure(shape, mode, options.folder) for shape in shapes for mode in MODES]
    except (PlaneUnavailable, StartFailed, NotInTime, OSError) as error:
        print(f"fidelity: {error}", file=sys.stderr)
        return 1
    rows = [HEAD, *map(_row, measured)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    for one in measured:
        for name, found in one.wrong.items():
            print(f"{one.shape.name} {one.mode}: {name}: error {found.error:.1%}")
    return 0 if all(one.is_good for one in measured) else 1


def _record(shapes: Sequence[Shape], minutes: float, folder: Path) -> None:
    """Records shapes: those that disturb nothing side by side, each other one on a plane of its own."""
    assets = ensure_assets()
    calm = [one for one in shapes if not one.alone]
    for together in [calm] * bool(calm) + [[one] for one in shapes if one.alone]:
        for recording, moments in asyncio.run(record(assets, together, minutes=minutes)):
            file = folder / f"{recording.namespace}.json.gz"
            file.write_bytes(encode_recording(recording, compressed=True))
            times = folder / f"{recording.namespace}{TIMES}"
            times.write_bytes(gzip.compress(msgspec.json.encode(moments), mtime=0))


def _row(one: Measured) -> tuple[str, ...]:
    found = one.found
    return (
        one.shape.name,
        one.mode,
        f"{found.error:.1%}",
        f"{found.constant:.1%}",
        f"{found.part:.2f}",
        f"{found.close:.1%}",
        f"{one.itself.part:.2f}",
        f"{one.itself.close:.1%}",
        f"{one.censored:.1%}",
        "" if one.is_good else "not close",
    )
