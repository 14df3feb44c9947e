"""The life cycle of a process: event loop, logs, signals, exit codes."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import resource
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, NoReturn

import structlog

from fedhpa.api.errors import ConfigError, FedHPAError
from fedhpa.kube import SYSTEM, ApiConfig, Clock, load_config
from fedhpa.serving.flags import common
from fedhpa.serving.flags.parsing import EXIT_USAGE, parse_or_exit, print_error
from fedhpa.serving.flags.types import Flag, Sections, Values
from fedhpa.serving.logs import configure_logs

logger = structlog.get_logger(__name__)

EXIT_DONE, EXIT_FAILED = 0, 1
# glibc's mallopt: each block from this size (bytes, that of a TLS buffer) is returned when it is freed.
M_MMAP_THRESHOLD = -3
LARGE_BLOCK = 256 * 1024


OLDEST: Final = 2
# The survivors of a longer collection are not looked at again. This is CPU time: while other processes are
# busy, each collection takes long, and nearly everything would be taken out.
SHORT_SECONDS: Final = 0.025
CHECK_SECONDS: Final = 60.0
# The blocks of memory in use may grow by so much, times and in all, before everything is looked at again.
# The resident memory would not do: what a collection frees stays with the process, so that each time more
# garbage fitted in before it grew.
GROWTH: Final = 1.1
LEAST_GROWTH: Final = 100_000


def quick_loop() -> asyncio.AbstractEventLoop:
    """Returns a new uvloop event loop, or asyncio's own where uvloop is not installed.

    uvloop needs about a fifth less CPU per request. It has no build for Windows and for interpreters other
    than CPython.
    """
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def raise_file_limit() -> None:
    """Raises the number of files that this process may open to what the system allows, as Go programs do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError) as error:
            logger.debug("the limit of open files stays", limit=soft, error=str(error))


def return_memory() -> None:
    """Makes the C library return large blocks to the system when they are freed.

    By default glibc raises the size from which it does so up to 32 MB. The TLS buffers of a thousand closed
    connections (256 KB each) would then stay with the process for ever.
    """
    try:
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)
    except (OSError, AttributeError) as error:
        logger.debug("the memory allocator stays as it is", error=str(error))


class Garbage:
    """Takes the survivors of each long collection out of the later ones, until the process has grown.

    A full collection looks at every object that can be in a cycle, and holds the event loop meanwhile: for
    0.2 s with 1,000 autoscalers in memory, each time that a quarter more objects have come. Nearly all of
    them live as long as the process, and an object in no cycle is freed without a collection.

    An object that was taken out is freed as before, unless it is part of a cycle. Such cycles are found when
    everything is looked at again: each time that the `blocks` in use have grown by GROWTH and LEAST_GROWTH.
    `clock` gives the CPU seconds of the thread.
    """

    def __init__(
        self, clock: Callable[[], float], blocks: Callable[[], int] = sys.getallocatedblocks
    ) -> None:
        self._clock = clock
        self._blocks = blocks
        self._began = 0.0
        self._size = 0

    def follow(self) -> None:
        """Take the loaded modules, which are never garbage, out of all collections, and follow these."""
        self._look_at_all()
        gc.callbacks.append(self._collected)

    def unfollow(self) -> None:
        """Leave the collections as Python does them."""
        gc.callbacks.remove(self._collected)
        gc.unfreeze()

    async def run(self) -> None:
        """Look at everything again when the process has grown, until cancelled."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            self.check()

    def check(self) -> bool:
        """Look at everything again if the process has grown; True if it had."""
        if self._blocks() < max(self._size * GROWTH, self._size + LEAST_GROWTH):
            return False
        gc.unfreeze()
        self._look_at_all()
        return True

    def _look_at_all(self) -> None:
        gc.collect()
        gc.freeze()
        self._size = self._blocks()

    def _collected(self, phase: str, info: dict[str, Any]) -> None:
        if info["generation"] != OLDEST:
            return
        if phase == "start":
            self._began = self._clock()
        elif self._clock() - self._began > SHORT_SECONDS:
            gc.freeze()


class Signals:
    """The signals that a running process has received."""

    def __init__(self) -> None:
        self.stop = asyncio.Event()
        self._reloads: list[Callable[[], object]] = []

    def on_reload(self, action: Callable[[], object]) -> None:
        """Registers `action` to be called at every SIGHUP."""
        self._reloads.append(action)

    def reload(self) -> None:
        """Calls the registered actions, as SIGHUP does."""
        logger.info("reloading")
        for action in self._reloads:
            action()


def run_program(
    program: str, about: str, sections: Sections, serve: Callable[..., Awaitable[None]]
) -> NoReturn:
    """Runs `serve(values, signals, clock=...)` with the flags of the command line, and exits."""
    values = parse_or_exit(program, about, sections)
    main = partial(serve, values, clock=SYSTEM)
    sys.exit(run_process(program, values, main, loop_factory=quick_loop))


async def hub_config(values: Values, clock: Clock, flag: Flag[str] = common.KUBECONFIG) -> ApiConfig:
    """Returns the configuration of the hub, by the flags. `flag` has its kubeconfig. Raises ConfigError."""
    config = await load_config(values[flag] or None, clock=clock)
    return replace(config, qps=values[common.KUBE_API_QPS], burst=values[common.KUBE_API_BURST])


def run_process(
    program: str,
    values: Values,
    main: Callable[[Signals], Awaitable[None]],
    *,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> int:
    """Runs `main` until it returns, and returns the exit code.

    SIGTERM and SIGINT set `Signals.stop`, and `main` then drains and returns. A second signal cancels `main`.
    Exit codes: 0 stopped by a signal; 1 failed; 2 a flag or the kubeconfig is unusable. One line on stderr
    gives the reason for 1 and 2.
    """
    configure_logs(values[common.LOGGING_FORMAT], values[common.VERBOSITY])
    raise_file_limit()
    return_memory()
    garbage = Garbage(time.thread_time)
    garbage.follow()
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(_run(main, garbage))
    except FedHPAError as error:
        failure = error
    except BaseExceptionGroup as group:
        reported = first_reported(group)
        if reported is None:
            raise
        failure = reported
    finally:
        garbage.unfollow()
    print_error(program, failure)
    return EXIT_USAGE if isinstance(failure, ConfigError) else EXIT_FAILED


async def _run(main: Callable[[Signals], Awaitable[None]], garbage: Garbage) -> int:
    signals = Signals()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(report_unhandled)
    task = asyncio.ensure_future(main(signals))
    checks = asyncio.ensure_future(garbage.run())

    def stop() -> None:
        if signals.stop.is_set():
            logger.warning("stopping without draining")
            task.cancel()
        else:
            logger.info("stopping")
            signals.stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    loop.add_signal_handler(signal.SIGHUP, signals.reload)
    try:
        await task
    except asyncio.CancelledError:
        if not signals.stop.is_set():
            raise
        return EXIT_FAILED
    finally:
        checks.cancel()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)
    return EXIT_DONE


def report_unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs what no task handled, as asyncio does, but for connections that ended within TLS.

    uvloop reports a write of TLS to a closed socket with a traceback for each connection, so a peer that
    resets many would fill the log. The code that uses the connection gets its own error.
    """
    if isinstance(context.get("exception"), RuntimeError) and "SSL protocol" in context.get("message", ""):
        logger.debug("a connection ended within TLS", error=str(context["exception"]))
    else:
        loop.default_exception_handler(context)


def first_reported(group: BaseExceptionGroup[BaseException]) -> FedHPAError | None:
    """Returns the first expected error in a TaskGroup's group; None if another error is among them."""
    _, unexpected = group.split(FedHPAError)
    if unexpected is not None:
        return None
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error if isinstance(error, FedHPAError) else None
