"""What an admission request costs the webhook over keep-alive TLS, and how long its caller waits.

The webhook is the process that people run, so that CPU seconds and memory are its own; the caller is this
one, and sends each request in one write, as API servers do. At a constant rate a wait counts from when the
request was due, not from when it was sent: a webhook that stops for a while makes all that were due meanwhile
wait. Objects: a FederatedHPA as an API server sends it after an update, CronFederatedHPAs of two rules,
of 1,000, and of 1,000 different ones with a delay each.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from benchmarks.cron import schedules
from certs import CertificateAuthority
from fedhpa.cron.grammar import parse
from fedhpa.cron.interval import shortest_interval
from testbed.stage.ports import free_port
from webhook.review import MUTATE_FEDERATEDHPA, VALIDATE_CRONFEDERATEDHPA, VALIDATE_FEDERATEDHPA

RATE = 500
SECONDS = 1
# API servers spread concurrent calls over connections; at this rate few are in flight.
CONNECTIONS = 4
# A machine is busy at times; the least of several short rounds is the webhook's own.
ROUNDS = 8
GROWTH_REQUESTS = 5_000
WARM_UP = 500
DEADLINE = 30.0

_HEADERS = (
    b"POST %b?timeout=3s HTTP/1.1\r\nHost: webhook\r\nUser-Agent: kube-apiserver-admission\r\n"
    b"Content-Length: %d\r\nAccept: application/json, */*\r\nContent-Type: application/json\r\n"
    b"Accept-Encoding: gzip\r\n\r\n"
)
_TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
_KIND = {"group": "autoscaling.karmada.io", "version": "v1alpha1", "kind": "FederatedHPA"}


def run() -> dict[str, float]:
    """CPU milliseconds of the webhook's process a request, the caller's waits, resident megabytes."""
    with _webhook() as (process, caller):
        small = _review(_federatedhpa())
        for path in (MUTATE_FEDERATEDHPA, VALIDATE_FEDERATEDHPA):
            caller.post(path, small, WARM_UP)
        waits, cpu = _at_constant_rate(process, caller, VALIDATE_FEDERATEDHPA, small)
        _, mutation = _at_constant_rate(process, caller, MUTATE_FEDERATEDHPA, small)
        figures = {
            f"FederatedHPA at {RATE}/s over keep-alive TLS, p50 ms": waits[len(waits) // 2] * 1000,
            f"FederatedHPA at {RATE}/s over keep-alive TLS, p99 ms": _p99(waits) * 1000,
            f"FederatedHPA at {RATE}/s over keep-alive TLS, CPU ms/request": cpu,
            f"FederatedHPA mutated at {RATE}/s, CPU ms/request": mutation,
        }
        for name, rules, count in (
            ("2 rules", _rules(2), 200),
            ("1,000 rules", _rules(1000), 20),
            ("1,000 different rules with maxDelaySeconds", _different_rules(), 20),
        ):
            body = _review(_cronfederatedhpa(rules))
            cost = _one_after_another(process, caller, VALIDATE_CRONFEDERATEDHPA, body, count)
            figures[f"CronFederatedHPA of {name}, CPU ms/request"] = cost
        before = process.resident
        caller.post(VALIDATE_FEDERATEDHPA, small, GROWTH_REQUESTS)
        figures["resident, MB"] = process.resident
        figures[f"growth over {GROWTH_REQUESTS:,} requests, MB"] = process.resident - before
    return figures


def _at_constant_rate(process: Process, caller: Caller, path: str, body: bytes) -> tuple[list[float], float]:
    """The waits of the best round, sorted, in seconds; CPU milliseconds a request of the cheapest."""
    rounds = []
    for _ in range(ROUNDS):
        spent = process.cpu
        waits = sorted(caller.post_at_rate(path, body))
        rounds.append((waits, (process.cpu - spent) / len(waits) * 1000))
    return min((waits for waits, _ in rounds), key=_p99), min(cpu for _, cpu in rounds)


def _p99(waits: list[float]) -> float:
    return waits[int(len(waits) * 0.99)]


def _one_after_another(process: Process, caller: Caller, path: str, body: bytes, count: int) -> float:
    """CPU milliseconds a request, of the cheapest round."""
    caller.post(path, body, 2)
    costs = []
    for _ in range(ROUNDS):
        spent = process.cpu
        caller.post(path, body, count)
        costs.append((process.cpu - spent) / count * 1000)
    return min(costs)


class Process:
    """What the system says about a running process."""

    def __init__(self, pid: int) -> None:
        self._folder = Path("/proc") / str(pid)
        # Linux' clock of another process' CPU time, as clock_getcpuclockid(3) gives it: in nanoseconds, while
        # /proc has hundredths of a second.
        self._clock = ~pid << 3 | 2

    @property
    def cpu(self) -> float:
        """CPU seconds so far, of all its threads."""
        return time.clock_gettime(self._clock)

    @property
    def resident(self) -> float:
        """Resident megabytes."""
        lines = (self._folder / "status").read_text().splitlines()
        kilobytes = next(line.split()[1] for line in lines if line.startswith("VmRSS:"))
        return int(kilobytes) / 1000


class Caller:
    """Posts reviews over connections that stay open."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._port = port
        self._context = context
        self._connections = [self._connect() for _ in range(CONNECTIONS)]

    def post(self, path: str, body: bytes, count: int) -> None:
        """So many requests one after another."""
        for _ in range(count):
            _exchange(self._connections[0], path, body)

    def post_at_rate(self, path: str, body: bytes) -> list[float]:
        """Requests at the constant rate; for each the seconds from when it was due to its answer."""
        due = iter([number / RATE for number in range(RATE * SECONDS)])
        waits: list[float] = []
        turn = threading.Lock()
        start = time.perf_counter()

        def work(connection: ssl.SSLSocket) -> None:
            while True:
                with turn:
                    at = next(due, None)
                if at is None:
                    return
                time.sleep(max(0.0, start + at - time.perf_counter()))
                _exchange(connection, path, body)
                waits.append(time.perf_counter() - start - at)

        threads = [threading.Thread(target=work, args=(one,)) for one in self._connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if len(waits) != RATE * SECONDS:
            raise RuntimeError("a caller of the webhook failed")
        return waits

    def close(self) -> None:
        """End the connections."""
        for connection in self._connections:
            connection.close()

    def _connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self._port), DEADLINE)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._context.wrap_socket(plain, server_hostname="127.0.0.1")


def _exchange(connection: ssl.SSLSocket, path: str, body: bytes) -> None:
    connection.sendall(_HEADERS % (path.encode(), len(body)) + body)
    answer = http.client.HTTPResponse(connection, method="POST")
    answer.begin()
    if not json.loads(answer.read())["response"]["allowed"]:
        raise RuntimeError("the webhook refused the benchmark's object")


@contextmanager
def _webhook() -> Iterator[tuple[Process, Caller]]:
    """A running webhook, and somebody connected to it."""
    authority, port = CertificateAuthority.create("benchmark"), free_port()
    context = ssl.create_default_context(cadata=authority.bundle_pem.decode())
    with tempfile.TemporaryDirectory() as folder:
        authority.issue_server("benchmark", ips=["127.0.0.1"]).save(Path(folder))
        flags = [
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--cert-dir={folder}",
            "--metrics-bind-address=0",
            "--health-probe-bind-address=0",
            "--shutdown-grace-period=1s",
        ]
        command = [sys.executable, "-m", "webhook", *flags]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("FEDHPA_")}
        with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
            try:
                caller = _connected(process, port, context)
                yield Process(process.pid), caller
                caller.close()
            finally:
                process.terminate()


def _connected(process: subprocess.Popen[bytes], port: int, context: ssl.SSLContext) -> Caller:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(ConnectionError):
            return Caller(port, context)
        time.sleep(0.05)
    raise RuntimeError("the webhook did not start")


def _review(obj: dict[str, Any]) -> bytes:
    """An update as an API server sends it: with the old object, who asks, and no blanks."""
    request = {
        "uid": "0df28fbd-5f5f-11e8-bc74-36e6bb280816",
        "kind": _KIND,
        "resource": {"group": _KIND["group"], "version": _KIND["version"], "resource": "federatedhpas"},
        "requestKind": _KIND,
        "name": "web",
        "namespace": "shop",
        "operation": "UPDATE",
        "userInfo": {"username": "admin", "groups": ["system:masters", "system:authenticated"]},
        "object": obj,
        "oldObject": obj,
        "dryRun": False,
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl"},
    }
    review = {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}
    return json.dumps(review, separators=(",", ":")).encode() + b"\n"


def _federatedhpa() -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": 80}
    spec = {
        "scaleTargetRef": _TARGET,
        "minReplicas": 1,
        "maxReplicas": 10,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    return _object("FederatedHPA", spec)


def _rules(count: int) -> list[dict[str, Any]]:
    return [_rule(number, f"{number % 60} {number % 24} * * MON-FRI") for number in range(count)]


def _different_rules() -> list[dict[str, Any]]:
    """As many as an object may have, no two of one schedule, each with the longest delay that is admitted."""
    return [
        _rule(number, text) | {"maxDelaySeconds": shortest_interval(parse(text)) - 1}
        for number, text in enumerate(schedules())
    ]


def _rule(number: int, schedule: str) -> dict[str, Any]:
    return {
        "name": f"rule-{number}",
        "schedule": schedule,
        "timeZone": "Europe/Berlin",
        "targetReplicas": number,
    }


def _cronfederatedhpa(rules: list[dict[str, Any]]) -> dict[str, Any]:
    return _object("CronFederatedHPA", {"scaleTargetRef": _TARGET, "rules": rules})


def _object(kind: str, spec: dict[str, Any]) -> dict[str, Any]:
    """An object as it is stored: with what the API server and its client write into it."""
    api_version = f"{_KIND['group']}/{_KIND['version']}"
    managed = {
        "manager": "kubectl",
        "operation": "Apply",
        "apiVersion": api_version,
        "time": "2026-03-11T13:23:17Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {f"f:{field}": {} for field in spec}},
    }
    metadata = {
        "name": "web",
        "namespace": "shop",
        "uid": "5e1f0c70-08a3-4b0e-9dc4-74b5ea2e2cb1",
        "resourceVersion": "12345",
        "generation": 3,
        "creationTimestamp": "2026-03-11T13:23:17Z",
        "managedFields": [managed],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


if __name__ == "__main__":
    for name, value in run().items():
        print(f"{name}: {value:.3f}")
