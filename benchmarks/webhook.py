"""Cost and latency of admission requests to the webhook over keep-alive TLS.

The webhook runs as a real process, so its CPU time and memory count alone. The client is this process and
sends each request in one write, as API servers do. At a constant rate, a wait counts from when the request
was due, not from when it was sent: if the webhook stops for a while, all requests due in between wait. At
full load each connection sends its next request once the last one is answered, and the webhook has one core.
The objects are a FederatedHPA as an API server sends it after an update, and CronFederatedHPAs of two rules,
of 1,000 rules, and of 1,000 different rules with maxDelaySeconds.
"""

from __future__ import annotations

import http.client
import json
import math
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
from benchmarks.process_stats import ProcessStats
from certs import CertificateAuthority
from fedhpa.cron import parse, shortest_interval
from testbed.stage import free_port
from webhook.handlers import MUTATE_FEDERATEDHPA, VALIDATE_CRONFEDERATEDHPA, VALIDATE_FEDERATEDHPA

RATE = 500
SECONDS = 1
# Requests with 1,000 rules take 20 times the work of small ones.
LARGE_RATE = 10
LARGE_SECONDS = 10
LARGE_ROUNDS = 4
# API servers spread concurrent calls over connections; at this rate few are in flight.
CONNECTIONS = 4
# Other work on the machine adds time, so the best of several short rounds counts.
ROUNDS = 8
# Requests of each connection at full load, which take about a second in all.
FULL_LOAD = 600
LARGEST_ANSWER = 64 * 1024
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
    """CPU milliseconds a request, the client's waits in milliseconds, resident megabytes."""
    with _webhook() as (process, client):
        small = federatedhpa_review()
        for path in (MUTATE_FEDERATEDHPA, VALIDATE_FEDERATEDHPA):
            client.post(path, small, WARM_UP)
        waits, cpu = _at_constant_rate(process, client, VALIDATE_FEDERATEDHPA, small)
        _, mutation = _at_constant_rate(process, client, MUTATE_FEDERATEDHPA, small)
        figures = {
            f"FederatedHPA at {RATE}/s over keep-alive TLS, p50 ms": waits[len(waits) // 2] * 1000,
            f"FederatedHPA at {RATE}/s over keep-alive TLS, p99 ms": _p99(waits) * 1000,
            f"FederatedHPA at {RATE}/s over keep-alive TLS, CPU ms/request": cpu,
            f"FederatedHPA mutated at {RATE}/s, CPU ms/request": mutation,
        }
        for name, path in (("reviews", VALIDATE_FEDERATEDHPA), ("mutations", MUTATE_FEDERATEDHPA)):
            figures[f"FederatedHPA {name} at full load, CPU ms each"] = _full_load(
                process, client, path, small
            )
        for name, rules, count in (
            ("2 rules", _rules(2), 200),
            ("1,000 rules", _rules(1000), 20),
            ("1,000 different rules with maxDelaySeconds", _different_rules(), 20),
        ):
            body = _review(_cronfederatedhpa(rules))
            cost = _one_after_another(process, client, VALIDATE_CRONFEDERATEDHPA, body, count)
            figures[f"CronFederatedHPA of {name}, CPU ms/request"] = cost
        before = process.resident
        client.post(VALIDATE_FEDERATEDHPA, small, GROWTH_REQUESTS)
        figures["resident, MB"] = process.resident
        figures[f"growth over {GROWTH_REQUESTS:,} requests, MB"] = process.resident - before
        large = _review(_cronfederatedhpa(_rules(1000)))
        waits, _ = _at_constant_rate(
            process, client, VALIDATE_CRONFEDERATEDHPA, large, LARGE_RATE, LARGE_SECONDS, LARGE_ROUNDS
        )
        named = f"CronFederatedHPA of 1,000 rules at {LARGE_RATE}/s over keep-alive TLS"
        figures[f"{named}, p50 ms"] = waits[len(waits) // 2] * 1000
        figures[f"{named}, p99 ms"] = _p99(waits) * 1000
    return figures


def _at_constant_rate(
    process: ProcessStats,
    client: WebhookClient,
    path: str,
    body: bytes,
    rate: int = RATE,
    seconds: int = SECONDS,
    count: int = ROUNDS,
) -> tuple[list[float], float]:
    """The sorted waits of the best round in seconds, and the CPU milliseconds a request of the cheapest."""
    rounds = []
    for _ in range(count):
        spent = process.cpu
        waits = sorted(client.post_at_rate(path, body, rate, seconds))
        rounds.append((waits, (process.cpu - spent) / len(waits) * 1000))
    return min((waits for waits, _ in rounds), key=_p99), min(cpu for _, cpu in rounds)


def _full_load(process: ProcessStats, client: WebhookClient, path: str, body: bytes) -> float:
    """CPU milliseconds a request of the cheapest round. A webhook has one core, so they bound the rate."""
    costs = []
    for _ in range(ROUNDS):
        spent = process.cpu
        client.post_at_once(path, body, FULL_LOAD)
        costs.append((process.cpu - spent) / (FULL_LOAD * CONNECTIONS) * 1000)
    return min(costs)


def _p99(waits: list[float]) -> float:
    """The nearest rank: of 100 sorted waits the 99th, not the longest."""
    return waits[math.ceil(len(waits) * 0.99) - 1]


def _one_after_another(
    process: ProcessStats, client: WebhookClient, path: str, body: bytes, count: int
) -> float:
    """CPU milliseconds a request of the cheapest round."""
    client.post(path, body, 2)
    costs = []
    for _ in range(ROUNDS):
        spent = process.cpu
        client.post(path, body, count)
        costs.append((process.cpu - spent) / count * 1000)
    return min(costs)


class WebhookClient:
    """Posts AdmissionReviews over connections that stay open."""

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._port = port
        self._context = context
        self._connections = [self._connect() for _ in range(CONNECTIONS)]

    def post(self, path: str, body: bytes, count: int) -> None:
        """Send `count` requests one after another."""
        for _ in range(count):
            _exchange(self._connections[0], path, body)

    def post_at_rate(self, path: str, body: bytes, rate: int, seconds: int) -> list[float]:
        """Send requests at the constant rate; return each one's seconds from its due time to its answer."""
        due = iter([number / rate for number in range(rate * seconds)])
        waits: list[float] = []
        lock = threading.Lock()
        start = time.perf_counter()

        def work(connection: ssl.SSLSocket) -> None:
            while True:
                with lock:
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
        if len(waits) != rate * seconds:
            raise RuntimeError("a client of the webhook failed")
        return waits

    def post_at_once(self, path: str, body: bytes, count: int) -> None:
        """Send `count` requests over each connection, each once the last one is answered."""
        request = _HEADERS % (path.encode(), len(body)) + body
        expected = _exchange(self._connections[0], path, body)

        def work(connection: ssl.SSLSocket) -> None:
            for _ in range(count):
                connection.sendall(request)
                # All answers are equal. Parsing them would take a core of its own.
                answer = connection.recv(LARGEST_ANSWER)
                while not answer.endswith(expected):
                    answer += connection.recv(LARGEST_ANSWER)

        threads = [threading.Thread(target=work, args=(one,)) for one in self._connections]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def close(self) -> None:
        """End the connections."""
        for connection in self._connections:
            connection.close()

    def _connect(self) -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", self._port), DEADLINE)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._context.wrap_socket(plain, server_hostname="127.0.0.1")


def _exchange(connection: ssl.SSLSocket, path: str, body: bytes) -> bytes:
    """Sends a request, and returns the body of its answer."""
    connection.sendall(_HEADERS % (path.encode(), len(body)) + body)
    answer = http.client.HTTPResponse(connection, method="POST")
    answer.begin()
    content = answer.read()
    if not json.loads(content)["response"]["allowed"]:
        raise RuntimeError("the webhook refused the benchmark's object")
    return content


@contextmanager
def _webhook() -> Iterator[tuple[ProcessStats, WebhookClient]]:
    """A running webhook, and a connected client."""
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
                client = _connected(process, port, context)
                yield ProcessStats(process.pid), client
                client.close()
            finally:
                process.terminate()


def _connected(process: subprocess.Popen[bytes], port: int, context: ssl.SSLContext) -> WebhookClient:
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(ConnectionError):
            return WebhookClient(port, context)
        time.sleep(0.05)
    raise RuntimeError("the webhook did not start")


def federatedhpa_review() -> bytes:
    """The AdmissionReview of an update of a valid FederatedHPA."""
    return _review(_federatedhpa())


def _review(obj: dict[str, Any]) -> bytes:
    """An update as an API server sends it: with the old object and the user, without whitespace."""
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
    """The most rules that an object may have, with different schedules and the longest admitted delays."""
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
    """An object as stored, with the fields that the API server and its client add."""
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
