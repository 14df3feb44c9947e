"""The benchmark of walks counts files and pairs of one task, and the classes that carry a pod."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from benchmarks.__main__ import BUDGET
from benchmarks.walk import walks, worlds
from benchmarks.walk.counter import Product, Recorder, Walk, code_of, function_at

LIBRARY = """
def call(function, *arguments):
    return function(*arguments)
"""
FIRST = """
import asyncio, walk_library
from walk_product import second, third

def twice():
    own()
    walk_library.call(second.work)
    second.work()

def own():
    return [third.work() for _ in range(2)]

async def reconcile():
    await asyncio.sleep(0)
    second.work()
    await asyncio.gather(asyncio.create_task(elsewhere()))

async def elsewhere():
    third.work()

async def queue():
    await asyncio.sleep(0)
    await reconcile()
    third.work()

def late():
    import walk_product.imported
"""
SECOND = """
def work(number=1):
    return number
"""
FORMS = """
from dataclasses import dataclass, field

@dataclass(frozen=True)
class Metadata:
    name: str

@dataclass(frozen=True)
class Pod:
    metadata: Metadata
    request: int

@dataclass(frozen=True)
class Clusters:
    pods: tuple[Pod, ...]

@dataclass
class Store:
    pods: dict[str, Pod] = field(default_factory=dict)

class View:
    def __init__(self, clusters):
        self.ready = True
        look(self)
        self.pods = clusters.pods

class Service:
    def __init__(self, view):
        self.view = view

def look(it):
    return it

def read(name, amount, store):
    look(store)
    pod = Pod(Metadata(name), amount)
    store.pods[name] = pod
    look(store)
    look(Metadata(name))
    return look(Service(View(Clusters((pod,)))))
"""


@pytest.fixture
def product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Product]:
    """A made-up package that calls itself through a library."""
    package = tmp_path / "walk_product"
    package.mkdir()
    (tmp_path / "walk_library.py").write_text(LIBRARY)
    modules = {
        "__init__": "",
        "first": FIRST,
        "second": SECOND,
        "third": SECOND,
        "forms": FORMS,
        "imported": "from walk_product import second; second.work()",
    }
    for name, text in modules.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    import_module("walk_product.first")
    yield Product(["walk_product"])
    for name in [name for name in sys.modules if name.startswith(("walk_product", "walk_library"))]:
        del sys.modules[name]


def walk_of(*files: str, pairs: tuple[tuple[str, str], ...] = ()) -> Walk:
    place = "walk_product/{}.py".format
    return Walk(
        frozenset(place(file) for file in files), frozenset((place(one), place(two)) for one, two in pairs)
    )


def test_a_pair_is_counted_once_and_a_library_between_is_skipped(product: Product) -> None:
    """The same pair by two calls and through a library is one; a file that calls itself is none."""
    with Recorder(product) as recorder:
        function_at("walk_product.first:twice")()

    expected = walk_of("first", "second", "third", pairs=(("first", "second"), ("first", "third")))
    assert expected == recorder.walk


async def test_other_tasks_are_not_counted(product: Product) -> None:
    """A task that the reconcile starts has a walk of its own."""
    task = asyncio.create_task(function_at("walk_product.first:reconcile")())
    with Recorder(product, code_of("walk_product.first:reconcile")) as recorder:
        await task

    assert walk_of("first", "second", pairs=(("first", "second"),)) == recorder.walk


async def test_the_task_around_the_entry_is_counted(product: Product) -> None:
    """The work of the task before and after the entry belongs to the walk."""
    task = asyncio.create_task(function_at("walk_product.first:queue")())
    with Recorder(product, code_of("walk_product.first:reconcile")) as recorder:
        await task

    expected = walk_of("first", "second", "third", pairs=(("first", "second"), ("first", "third")))
    assert expected == recorder.walk


def test_an_entry_that_nobody_runs_is_an_error(product: Product) -> None:
    """A moved entry point cannot pass as a short walk."""
    with Recorder(product, code_of("walk_product.first:reconcile")) as recorder:
        function_at("walk_product.first:twice")()

    with pytest.raises(LookupError):
        _ = recorder.walk


def test_each_figure_has_a_budget() -> None:
    """A walk without a limit could grow, and a limit without a walk would fail `make bench`."""
    budget = yaml.safe_load(BUDGET.read_text())["walk"]

    assert set(walks.FIGURES) == set(budget)


@pytest.mark.parametrize(
    "place",
    [
        *(walks.RECONCILE, walks.RECONCILE_RULES, walks.DECIDE, walks.ADMIT, walks.REQUEST),
        worlds.SERVE,
    ],
)
def test_entry_points_exist(place: str) -> None:
    """Each is a Python function, whatever decorates it."""
    assert code_of(place).co_name == place.replace(":", ".").rpartition(".")[2]
