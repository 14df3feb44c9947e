"""Processes: exit codes, one line on stderr, draining on SIGTERM, health and metrics on plain HTTP."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import pytest
import structlog
from prometheus_client import CollectorRegistry, Counter

from controller.process import main as controller_main
from fedhpa.api.errors import ConfigError, FedHPAError
from fedhpa.serving.flags import common
from fedhpa.serving.flags.parsing import parse_flags
from fedhpa.serving.health import Health
from fedhpa.serving.logs import configure_logs
from fedhpa.serving.process import Signals, run_process
from fedhpa.serving.server import http_listeners
from metrics_adapter.process import main
from tests.support.adapter.process import AdapterWorld, world

SECTIONS = {"Observing": common.OBSERVING, "Logging": common.LOGGING}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--secure-port=x"], 2, '--secure-port="x": invalid value'),
        (["--metrics-source=prometheus"], 2, "expected --metrics-store-url with it"),
        (["--kubeconfig=/nowhere/config"], 2, "/nowhere/config"),
        (["--tls-cert-file=a.crt", "--kubeconfig={kubeconfig}"], 2, "--tls-private-key-file"),
        (["--cert-dir=/nowhere", "--kubeconfig={kubeconfig}"], 1, "cannot read /nowhere/tls.crt"),
    ],
)
def test_a_process_that_cannot_start_says_why(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    arguments: Sequence[str],
    code: int,
    said: str,
) -> None:
    """The process prints one line on stderr and exits with the code."""
    AdapterWorld(tmp_path).flags()  # writes the kubeconfig; these processes end before they use it
    given = [argument.replace("{kubeconfig}", str(tmp_path / "kubeconfig")) for argument in arguments]
    monkeypatch.setattr(sys, "argv", ["fedhpa-metrics-adapter", *given])
    monkeypatch.chdir(tmp_path)

    with pytest.raises(SystemExit) as exited:
        main()

    line = capfd.readouterr().err
    assert exited.value.code == code
    assert line.count("\n") == 1
    assert line.startswith("fedhpa-metrics-adapter: ")
    assert said in line


@pytest.mark.parametrize(
    ("content", "said"),
    [(None, "no such file: correct --certificates"), ("clusters: [", "while parsing"), ("[]", "")],
)
def test_a_controller_without_its_kubeconfig_of_certificates_says_so(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    content: str | None,
    said: str,
) -> None:
    """It ends with 2 and one line that names flag and file, before it asks for any Lease."""
    AdapterWorld(tmp_path).flags()  # writes the kubeconfig of the hub
    own = tmp_path / "own"
    if content is not None:
        own.write_text(content)
    flags = [f"--kubeconfig={tmp_path / 'kubeconfig'}", f"--certificates-kubeconfig={own}"]
    monkeypatch.setattr(sys, "argv", ["fedhpa-controller", "--manage-certificates", *flags])

    with pytest.raises(SystemExit) as exited:
        controller_main()

    line = capfd.readouterr().err
    assert (exited.value.code, line.count("\n")) == (2, 1)
    assert line.startswith("fedhpa-controller: --certificates-kubeconfig: ")
    assert str(own) in line
    assert said in line


async def test_a_terminated_process_exits_0_and_logs_json(tmp_path: Path) -> None:
    """SIGTERM drains, and each log line is one JSON object."""
    async with world(tmp_path) as made:
        flags = made.flags("--logging-format=json", "--health-probe-bind-address=0")
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "metrics_adapter", *flags, stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr is not None
        lines = []
        try:
            async with asyncio.timeout(90):
                while True:
                    line = json.loads(await process.stderr.readline())
                    lines.append(line)
                    if line["event"] == "serving":
                        break
                process.send_signal(signal.SIGTERM)
                rest = (await process.stderr.read()).decode().splitlines()
                code = await process.wait()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    lines += [json.loads(line) for line in rest]
    assert code == 0
    assert "stopping" in [line["event"] for line in lines]
    assert all({"time", "level", "event"} <= set(line) for line in lines)


def run(main_error: BaseException | None, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    values = parse_flags(SECTIONS, [], {})

    async def main(_: Signals) -> None:
        if main_error is not None:
            raise main_error

    code = run_process("fedhpa-test", values, main)
    return code, capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (None, 0, ""),
        (FedHPAError("disk\nfull"), 1, "fedhpa-test: disk full\n"),
        (ConfigError("bad flag"), 2, "fedhpa-test: bad flag\n"),
        (ExceptionGroup("tasks", [FedHPAError("port taken")]), 1, "fedhpa-test: port taken\n"),
        (ExceptionGroup("tasks", [ExceptionGroup("t", [ConfigError("no")])]), 2, "fedhpa-test: no\n"),
    ],
)
def test_exit_codes(
    error: BaseException | None, code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 0 if done, 1 if failed and 2 for wrong usage, also from a task group."""
    assert run(error, capsys) == (code, line)


def test_a_bug_is_not_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    """An unexpected error keeps its trace."""
    with pytest.raises(ExceptionGroup):
        run(ExceptionGroup("tasks", [FedHPAError("a"), ValueError("b")]), capsys)


async def fetch(url: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_http_listeners_serve_health_and_metrics() -> None:
    """If both flags name the same address, one listener serves both."""
    health, registry = Health(), CollectorRegistry()
    Counter("fedhpa_test", "A test.", registry=registry).inc()
    check = health.readiness("members", latches=True)
    hub = health.readiness("hub", latches=False)
    address = "127.0.0.1:0"
    argv = [f"--metrics-bind-address={address}", f"--health-probe-bind-address={address}"]
    async with http_listeners(parse_flags(SECTIONS, argv, {}), health, registry) as (bound,):
        base = f"http://127.0.0.1:{bound}"
        before = await fetch(f"{base}/readyz")
        check.succeed()
        hub.succeed()
        after = await fetch(f"{base}/readyz")
        check.fail("a member went away")
        latched = await fetch(f"{base}/readyz/")
        hub.fail("no route to host")
        lost = await fetch(f"{base}/readyz?verbose")

        assert before[0] == 500
        assert after == (200, "ok")
        assert latched == (200, "ok")
        assert lost[0] == 500
        assert lost[1].splitlines() == [
            "[+]ping ok",
            "[+]shutdown ok",
            "[+]members ok",
            "[-]hub failed: no route to host",
            "readyz check failed",
        ]
        assert (await fetch(f"{base}/livez"))[0] == 200
        assert (await fetch(f"{base}/readyz/members")) == (200, "ok")
        assert (await fetch(f"{base}/readyz/nothing"))[0] == 404
        assert "fedhpa_test_total 1.0" in (await fetch(f"{base}/metrics"))[1]


async def test_http_listeners_can_be_closed_or_taken() -> None:
    """`0` starts no listener. The error names an occupied port, and the flag that chooses another."""
    off = ["--metrics-bind-address=0", "--health-probe-bind-address=0"]
    async with http_listeners(parse_flags(SECTIONS, off, {}), Health(), CollectorRegistry()) as bound:
        assert bound == []

    one = ["--metrics-bind-address=127.0.0.1:0", "--health-probe-bind-address=0"]
    async with http_listeners(parse_flags(SECTIONS, one, {}), Health(), CollectorRegistry()) as (first,):
        taken = [f"--metrics-bind-address=127.0.0.1:{first}", "--health-probe-bind-address=0"]
        listeners = http_listeners(parse_flags(SECTIONS, taken, {}), Health(), CollectorRegistry())
        with pytest.raises(FedHPAError) as refused:
            await listeners.__aenter__()

        flag = "--metrics-bind-address"
        assert str(refused.value) == (
            f"cannot listen on 127.0.0.1:{first}: Address already in use: choose another port, "
            f"for example {flag}=127.0.0.1:{first + 1}, or {flag}=0 for none"
        )


def test_debug_lines_come_with_verbosity_4() -> None:
    """Debug lines appear from verbosity 4 on, and the libraries' logs have the same format."""
    for verbosity, events in ((0, ["ours", "theirs"]), (4, ["ours", "detail", "theirs"])):
        stream = io.StringIO()
        configure_logs("json", verbosity, stream)
        log = structlog.get_logger("test")
        log.info("ours", cluster="m1")
        log.debug("detail")
        logging.getLogger("library").warning("theirs")

        assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == events
