"""The life cycle of a process: event loop, logs, signals, exit codes."""

from __future__ import annotations

import asyncio
import ctypes
import resource
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import structlog

from fedhpa.api.errors import ConfigError, FedHPAError
from fedhpa.kube import SYSTEM, ApiConfig, Clock, load_config
from fedhpa.serving.flags import common
from fedhpa.serving.flags.parsing import EXIT_USAGE, parse_or_exit, print_error
from fedhpa.serving.flags.types import Flag, Sections, Values
from fedhpa.serving.garbage import Garbage
from fedhpa.serving.logs import configure_logs

logger = structlog.get_logger(__name__)

EXIT_DONE, EXIT_FAILED = 0, 1
# glibc's mallopt: each block from this size (bytes, that of a TLS buffer) is returned when it is freed.
M_MMAP_THRESHOLD = -3
LARGE_BLOCK = 256 * 1024


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
