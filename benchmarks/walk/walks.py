"""`python -m benchmarks walk`: how many files of the product one unit of work enters, and in how many pairs.

A file is counted if one of its functions runs in the task that does the work. A pair is a file that calls and
the file that it calls, counted once. The caller is the nearest function of the product on the stack: frames
of libraries between are skipped. A file that calls itself is no pair. Work in other tasks is not counted, for
example watches, probes, and requests that several readers share.

What is counted:

- A quiet reconcile: mode Centralized, one CPU metric, two members, direct propagation. Nothing has changed
  since the reconcile before. All that its task does from one wait for the queue to the next belongs to it.
- `decide`: the pure decision on the input of that reconcile, alone.
- An admission: the handler of the validating webhook for a FederatedHPA, from the bytes of the request to
  those of the answer. Receiving the request, and warnings about other objects, are not part of it.
- A window that opens: the pass over a CronFederatedHPA whose rule has a `duration`.
- The pure part of a rule: the files of that pass in packages that do no I/O, and the pairs within them.
- A LIST of pod metrics: the adapter's task of a request whose answer needs new lists of the members.
- The forms of a pod (`benchmarks.walk.forms`): values that carry it, and other objects made around it. They
  are collected in all tasks, from the first list of the members to a quiet reconcile.

Each work is done before it is counted, so that modules are imported and caches are warm. It is then counted
twice, and different results are an error. The numbers do not depend on the machine.

The entry points below and `benchmarks.walk.worlds` are all that is known of the inside of the product.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Final

import structlog

from benchmarks.walk import worlds
from benchmarks.walk.counter import Product, Recorder, Walk, arguments_of, code_of, function_at
from benchmarks.walk.forms import FormFinder, Marks
from benchmarks.webhook import federatedhpa_review
from fedhpa.serving import quick_loop

# The functions whose tasks or calls are counted, as `module:qualified.name`. A redesign changes these lines.
RECONCILE: Final = "controller.federatedhpa.reconciler:FederatedHPAReconciler.reconcile"
RECONCILE_RULES: Final = "controller.cronfederatedhpa.reconciler:CronReconciler.reconcile"
DECIDE: Final = "fedhpa.decision:decide"
ADMIT: Final = "webhook.handlers:judge"
# A function of the library, because each request to the adapter passes through it.
REQUEST: Final = "aiohttp.web:Application._handle"
VALIDATE_PATH: Final = "/validate-federatedhpa"

PACKAGES: Final = ("fedhpa", "webhook", "metrics_adapter", "controller", "certs")
# Of the contract "The pure packages do no I/O" in pyproject.toml.
PURE: Final = tuple(
    f"fedhpa/{name}/" for name in ("api", "admission", "scaling", "assignment", "cron", "decision")
)

WARM_SECONDS: Final = 60.0
# Around an execution, less than the time by which its target is read ahead.
AROUND_SECONDS: Final = 2.0


QUIET_RECONCILE: Final = "a quiet reconcile"
DECISION: Final = "decide"
ADMISSION: Final = "an admission of a FederatedHPA"
WINDOW: Final = "a window that opens"
PURE_RULE: Final = "the pure part of a rule"
POD_METRICS: Final = "a LIST of pod metrics"
WALKS: Final = (QUIET_RECONCILE, DECISION, ADMISSION, WINDOW, PURE_RULE, POD_METRICS)
VALUES: Final = "values that carry a pod"
OBJECTS: Final = "other objects made around a pod"
# The names of all figures.
FIGURES: Final = (
    *(f"{name}, {counted}" for name in WALKS for counted in ("files", "pairs")),
    *(f"{name}, classes" for name in (VALUES, OBJECTS)),
)


@dataclass(frozen=True)
class Measured:
    """The walks by name, and the forms of a pod by kind."""

    walks: Mapping[str, Walk]
    forms: Mapping[str, list[str]]


def run() -> dict[str, float]:
    """The value of each figure, in the unit at the end of its name."""
    return {figure: float(len(counted)) for figure, counted in details().items()}


def details() -> dict[str, list[str]]:
    """The counted files, pairs or classes of each figure, sorted."""
    found, lists = measured(), []
    for name in WALKS:
        walk = found.walks[name]
        lists += [sorted(walk.files), [f"{caller} -> {called}" for caller, called in sorted(walk.pairs)]]
    return dict(zip(FIGURES, [*lists, found.forms[VALUES], found.forms[OBJECTS]], strict=True))


@functools.cache
def measured() -> Measured:
    """Does all the work, once."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    product = Product(PACKAGES)
    try:
        reconcile, decide = worlds.run_virtually(_reconcile_and_decide(product))
        window = worlds.run_virtually(_window(product))
        with asyncio.Runner(loop_factory=quick_loop) as runner:
            listed = runner.run(_pod_metrics(product))
        walks = {
            QUIET_RECONCILE: reconcile,
            DECISION: decide,
            ADMISSION: _admission(product),
            WINDOW: window,
            PURE_RULE: _within(window, PURE),
            POD_METRICS: listed,
        }
        return Measured(walks, worlds.run_virtually(_forms(product)))
    finally:
        structlog.reset_defaults()


async def _reconcile_and_decide(product: Product) -> tuple[Walk, Walk]:
    async with worlds.quiet_fleet():
        await asyncio.sleep(WARM_SECONDS)
        with arguments_of(code_of(DECIDE)) as arguments:
            await asyncio.sleep(worlds.PERIOD_SECONDS)

        async def period() -> None:
            await asyncio.sleep(worlds.PERIOD_SECONDS)

        reconcile = await _counted(product, period, code_of(RECONCILE))

    async def decide() -> None:
        function_at(DECIDE)(**arguments)

    return reconcile, await _counted(product, decide)


async def _window(product: Product) -> Walk:
    async with worlds.rule_with_duration() as first:
        await asyncio.sleep(first - AROUND_SECONDS)
        await asyncio.sleep(worlds.HOUR_SECONDS)  # the first window has no history to keep

        async def around() -> None:
            await asyncio.sleep(2 * AROUND_SECONDS)

        async def rest() -> None:
            await asyncio.sleep(worlds.HOUR_SECONDS - 2 * AROUND_SECONDS)

        return await _counted(product, around, code_of(RECONCILE_RULES), rest)


def _admission(product: Product) -> Walk:
    body = federatedhpa_review()

    async def admit() -> None:
        answer = function_at(ADMIT)(VALIDATE_PATH, body, "application/json")
        assert b'"allowed":true' in answer.encoded()

    async def twice() -> Walk:
        await admit()
        return await _counted(product, admit)

    return asyncio.run(twice())


async def _pod_metrics(product: Product) -> Walk:
    async with worlds.adapter() as list_pods:
        await list_pods()
        return await _counted(product, list_pods, code_of(REQUEST))


async def _forms(product: Product) -> dict[str, list[str]]:
    finder = FormFinder(product, Marks(worlds.POD, (str(worlds.REQUEST), str(worlds.USAGE))))
    with finder:
        async with worlds.quiet_fleet():
            await asyncio.sleep(2 * worlds.PERIOD_SECONDS)
    return {VALUES: finder.values, OBJECTS: finder.objects}


async def _nothing() -> None:
    return


async def _counted(
    product: Product,
    work: Callable[[], Awaitable[None]],
    entry: CodeType | None = None,
    between: Callable[[], Awaitable[None]] = _nothing,
) -> Walk:
    """Returns the walk of some work in the tasks that run `entry`; without it, in this task.

    Raises RuntimeError if the work does not walk the same way twice.
    """
    walks = []
    for _ in range(2):
        with Recorder(product, entry) as recorder:
            await work()
        walks.append(recorder.walk)
        await between()
    if walks[0] != walks[1]:
        files, pairs = walks[0].files ^ walks[1].files, walks[0].pairs ^ walks[1].pairs
        raise RuntimeError(f"two walks differ: {sorted(files)} {sorted(pairs)}")
    return walks[0]


def _within(walk: Walk, folders: tuple[str, ...]) -> Walk:
    """Returns the part of a walk in these folders."""
    files = frozenset(file for file in walk.files if file.startswith(folders))
    return Walk(files, frozenset(pair for pair in walk.pairs if files.issuperset(pair)))
