"""Counts the product files that one task enters, and the pairs of files of which one calls the other.

`sys.setprofile` reports each Python frame that begins, and each coroutine that goes on after a wait. Both
enter their file. The frames of other tasks, of callbacks and of threads are not counted. The code of a module
that runs at its import is not counted either.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import importlib.util
import inspect
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

Task = asyncio.Task[Any] | None


@dataclass(frozen=True)
class Walk:
    """The files that were entered, and the pairs (caller, called), each once."""

    files: frozenset[str] = frozenset()
    pairs: frozenset[tuple[str, str]] = frozenset()


class Product:
    """The packages whose files are counted. Files are named from the folder that holds their package."""

    def __init__(self, packages: Iterable[str]) -> None:
        self._packages = frozenset(packages)
        self._folders = {name: _folder(name) for name in self._packages}
        # Each frame asks. Code is no key: equal functions of two files are equal.
        self._named = functools.cache(self._relative)

    def file(self, code: CodeType) -> str | None:
        """Returns the file of a function, comprehension or generator; None outside the product.

        The code of a module itself runs only at its import.
        """
        return None if code.co_name == "<module>" else self._named(code.co_filename)

    def _relative(self, name: str) -> str | None:
        for folder in self._folders.values():
            if name.startswith(f"{folder}/"):
                return Path(name).relative_to(folder.parent).as_posix()
        return None

    def owns(self, kind: type) -> bool:
        """True for a class of the product."""
        return kind.__module__.partition(".")[0] in self._packages


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    assert spec is not None, f"there is no package {package}"
    assert spec.submodule_search_locations, f"{package} is no package"
    return Path(spec.submodule_search_locations[0])


def function_at(place: str) -> Any:
    """Returns the function or method at `module:qualified.name`."""
    module, _, name = place.partition(":")
    return functools.reduce(getattr, name.split("."), importlib.import_module(module))


def code_of(place: str) -> CodeType:
    """Returns the code of the function at `module:qualified.name`, without its decorators."""
    code = getattr(inspect.unwrap(function_at(place)), "__code__", None)
    assert isinstance(code, CodeType), f"{place} is no Python function"
    return code


class Recorder:
    """Records while it is entered. `walk` is that of the tasks that ran `entry`, or of the recording task.

    Everything that these tasks run is counted, also before and after `entry`: the queue and the retries
    around a reconcile belong to its walk. Record from one quiet moment to the next.
    """

    def __init__(self, product: Product, entry: CodeType | None = None) -> None:
        self._file = product.file
        self._entry = entry
        self._chosen: set[Task] = set()
        self._files: defaultdict[Task, set[str]] = defaultdict(set)
        self._pairs: defaultdict[Task, set[tuple[str, str]]] = defaultdict(set)

    def __enter__(self) -> Recorder:
        if self._entry is None:
            self._chosen.add(current_task())
        self._before = sys.getprofile()
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    @property
    def walk(self) -> Walk:
        """The walk. Raises LookupError if no task ran the entry."""
        if not self._chosen:
            raise LookupError("the entry point was not run while it was recorded")
        files = (self._files[task] for task in self._chosen)
        pairs = (self._pairs[task] for task in self._chosen)
        return Walk(frozenset().union(*files), frozenset().union(*pairs))

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if event != "call":
            return
        if frame.f_code is self._entry:
            self._chosen.add(current_task())
        called = self._file(frame.f_code)
        if called is None:
            return
        task = current_task()
        self._files[task].add(called)
        caller = self._caller(frame)
        if caller is not None and caller != called:
            self._pairs[task].add((caller, called))

    def _caller(self, frame: FrameType) -> str | None:
        """Returns the nearest file of the product on the stack. Frames of libraries between are skipped."""
        above = frame.f_back
        while above is not None:
            found = self._file(above.f_code)
            if found is not None:
                return found
            above = above.f_back
        return None


def current_task() -> Task:
    """Returns the running task; None outside a task."""
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


@contextmanager
def arguments_of(code: CodeType) -> Iterator[dict[str, Any]]:
    """Yields a dictionary that receives the arguments of the last call of a function, by name."""
    found: dict[str, Any] = {}

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is code:
            found.update(frame.f_locals)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(before)
