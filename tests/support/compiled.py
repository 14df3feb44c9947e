"""Compiles the test files of a fresh clone once, before the workers start; each would compile all of them.

pytest has no public function for this. Without its private ones the workers compile as before.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

import pytest

# Fewer files are compiled faster than processes start.
FEW = 20
PROCESSES = 2


def compile_tests(config: pytest.Config, folder: Path) -> None:
    """Writes the compiled form of each test file that has none. Errors are left to the collection."""
    if sys.dont_write_bytecode or sys.platform != "linux":
        return
    with suppress(ImportError):
        from _pytest.assertion.rewrite import PYC_TAIL, get_cache_dir

        missing = [
            path
            for path in sorted(folder.rglob("test_*.py"))
            if not (get_cache_dir(path) / f"{path.stem}{PYC_TAIL}").exists()
        ]
        if len(missing) <= FEW:
            return
        # Forked processes need no second start of pytest.
        context = get_context("fork")
        parts = [
            context.Process(target=_compile, args=(config, missing[number::PROCESSES]))
            for number in range(PROCESSES)
        ]
        for part in parts:
            part.start()
        for part in parts:
            part.join()


def _compile(config: pytest.Config, paths: list[Path]) -> None:
    from _pytest.assertion.rewrite import PYC_TAIL, _rewrite_test, _write_pyc, assertstate_key, get_cache_dir

    for path in paths:
        with suppress(SyntaxError, ValueError, OSError):
            source_hash, code = _rewrite_test(path, config)
            cache = get_cache_dir(path)
            cache.mkdir(parents=True, exist_ok=True)
            _write_pyc(config.stash[assertstate_key], code, source_hash, cache / f"{path.stem}{PYC_TAIL}")
