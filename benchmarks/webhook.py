"""What an admission request costs the webhook over keep-alive TLS, and how long its caller waits.

The caller is a process of its own, so that the CPU seconds are the webhook's alone. Scenarios: a
FederatedHPA as people write it, and a CronFederatedHPA of 1,000 rules.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import ssl
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import aiohttp

from certs import CertificateAuthority
from fedhpa.serving.flags import parse_flags
from fedhpa.serving.logs import configure_logs
from webhook.process import Webhook
from webhook.review import VALIDATE_CRONFEDERATEDHPA, VALIDATE_FEDERATEDHPA
from webhook.settings import FLAGS

REQUESTS = 1000
LARGE_REQUESTS = 20
WARM_UP = 100

_TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
_METADATA = {"name": "web", "namespace": "shop"}


def run() -> dict[str, float]:
    """CPU milliseconds of the webhook a request, and the caller's 99th percentile in milliseconds."""
    configure_logs("text", 0)
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_run(Path(folder)))


async def _run(folder: Path) -> dict[str, float]:
    authority = CertificateAuthority.create("benchmark")
    authority.issue_server("benchmark", ips=["127.0.0.1"]).save(folder)
    flags = [
        "--bind-address=127.0.0.1",
        "--secure-port=0",
        f"--cert-dir={folder}",
        "--metrics-bind-address=0",
        "--health-probe-bind-address=0",
        "--shutdown-grace-period=1s",
    ]
    spawn = multiprocessing.get_context("spawn")
    to_caller, caller_end = spawn.Pipe()
    caller = spawn.Process(target=_call, args=(caller_end, authority.bundle_pem), daemon=True)
    caller.start()
    webhook = Webhook(parse_flags(FLAGS, flags, {}))
    try:
        async with webhook.running():
            url = f"https://127.0.0.1:{webhook.server.port}"
            small = await _measure(to_caller, url + VALIDATE_FEDERATEDHPA, _federatedhpa(), REQUESTS)
            large = await _measure(
                to_caller, url + VALIDATE_CRONFEDERATEDHPA, _cronfederatedhpa(), LARGE_REQUESTS
            )
    finally:
        caller.terminate()
        caller.join()
    return {
        "FederatedHPA over keep-alive TLS, CPU ms/request": small[0],
        "FederatedHPA over keep-alive TLS, p99 ms": small[1],
        "CronFederatedHPA of 1,000 rules, CPU ms/request": large[0],
    }


async def _measure(caller: Connection, url: str, obj: dict[str, Any], count: int) -> tuple[float, float]:
    body = json.dumps({"request": {"uid": "1", "operation": "CREATE", "object": obj}}).encode()
    caller.send((url, body, WARM_UP if count > WARM_UP else 1))
    await asyncio.to_thread(caller.recv)
    started = time.process_time()
    caller.send((url, body, count))
    waited: list[float] = await asyncio.to_thread(caller.recv)
    spent = time.process_time() - started
    return spent / count * 1000, sorted(waited)[int(len(waited) * 0.99)] * 1000


def _call(orders: Connection, ca_pem: bytes) -> None:
    """The caller: posts a body so often over one connection, sends back how long each took, in seconds."""
    asyncio.run(_serve_orders(orders, ca_pem))


async def _serve_orders(orders: Connection, ca_pem: bytes) -> None:
    connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=ca_pem.decode()), limit=1)
    async with aiohttp.ClientSession(connector=connector) as session:
        while True:
            url, body, count = await asyncio.to_thread(orders.recv)
            waited = []
            for _ in range(count):
                started = time.perf_counter()
                async with session.post(
                    url, data=body, headers={"Content-Type": "application/json"}
                ) as answer:
                    if not json.loads(await answer.read())["response"]["allowed"]:
                        raise RuntimeError("the webhook refused the benchmark's object")
                waited.append(time.perf_counter() - started)
            orders.send(waited)


def _federatedhpa() -> dict[str, Any]:
    target = {"type": "Utilization", "averageUtilization": 80}
    return {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "FederatedHPA",
        "metadata": _METADATA,
        "spec": {
            "scaleTargetRef": _TARGET,
            "minReplicas": 1,
            "maxReplicas": 10,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


def _cronfederatedhpa() -> dict[str, Any]:
    rules = [
        {
            "name": f"rule-{number}",
            "schedule": f"{number % 60} {number % 24} * * MON-FRI",
            "timeZone": "Europe/Berlin",
            "targetReplicas": number,
        }
        for number in range(1000)
    ]
    return {
        "apiVersion": "autoscaling.karmada.io/v1alpha1",
        "kind": "CronFederatedHPA",
        "metadata": _METADATA,
        "spec": {"scaleTargetRef": _TARGET, "rules": rules},
    }


if __name__ == "__main__":
    for name, value in run().items():
        print(f"{name}: {value:.3f}")
