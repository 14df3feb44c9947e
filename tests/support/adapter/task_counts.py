"""The adapter's process, which on SIGUSR1 also writes how many tasks it has: python -m ... FILE FLAGS..."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from pathlib import Path

from fedhpa.kube import SYSTEM
from fedhpa.serving.flags.parsing import parse_flags
from fedhpa.serving.process import Signals, quick_loop, run_process
from metrics_adapter.process import serve
from metrics_adapter.settings import FLAGS, PROGRAM


def main() -> int:
    """Run until SIGTERM; the exit code."""
    told = Path(sys.argv[1])
    values = parse_flags(FLAGS, sys.argv[2:], {})

    async def run(signals: Signals) -> None:
        def tell() -> None:
            names = Counter(getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks())
            fresh = told.with_suffix(".new")
            fresh.write_text(json.dumps(names))
            fresh.replace(told)

        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, tell)
        await serve(values, signals, clock=SYSTEM)

    return run_process(PROGRAM, values, run, loop_factory=quick_loop)


if __name__ == "__main__":
    sys.exit(main())
