"""Measures how long processes take to answer, without the time that they, or this one, wait for a CPU.

`python -m tests.support.hostile.latency OUT CA NAME=PID=URL ...` asks each URL five times a second over one
connection, and writes the result to OUT each second. On a machine with other work every process waits for a
CPU. That time (/proc/PID/schedstat) is subtracted: the rest is the work of the process and its waits.
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

PERIOD: Final = 0.2
TIMEOUT: Final = 10.0
KEPT: Final = 5


def waited(pid: int | str) -> float:
    """Returns the seconds that the main thread of a process has waited for a CPU."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


@dataclass
class Target:
    """A URL of a process, and what was measured: milliseconds as measured, and without waits for a CPU."""

    name: str
    pid: int
    url: str
    context: ssl.SSLContext
    count: int = 0
    failures: list[str] = field(default_factory=list)
    measured: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    _connection: http.client.HTTPConnection | None = None

    def ask(self) -> None:
        """Sends one request and measures it."""
        queued = waited(self.pid) + waited("self")
        began = time.monotonic()
        try:
            status = self._status()
            taken = time.monotonic() - began
            queued = waited(self.pid) + waited("self") - queued
        except (OSError, http.client.HTTPException) as error:
            self._close()
            self.failures.append(f"after {time.monotonic() - began:.2f} s: {error!r}")
            return
        if status != 200:
            self.failures.append(f"HTTP {status}")
        self.count += 1
        self.measured = _worst(self.measured, taken)
        self.own = _worst(self.own, taken - queued)

    def _status(self) -> int:
        parts = urlsplit(self.url)
        if self._connection is None:
            host = parts.netloc
            if parts.scheme == "https":
                self._connection = http.client.HTTPSConnection(host, timeout=TIMEOUT, context=self.context)
            else:
                self._connection = http.client.HTTPConnection(host, timeout=TIMEOUT)
        self._connection.request("GET", parts.path)
        answer = self._connection.getresponse()
        answer.read()
        return answer.status

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def result(self) -> dict[str, object]:
        """Returns what was measured so far."""
        return {
            "count": self.count,
            "failures": self.failures[-KEPT:],
            "measured": self.measured,
            "own": self.own,
        }


def _worst(found: list[float], seconds: float) -> list[float]:
    return sorted([*found, round(seconds * 1_000, 1)])[-KEPT:]


def main(out: Path, ca: Path, targets: list[str]) -> None:
    """Measures until it is killed."""
    context = ssl.create_default_context(cafile=ca)
    made = []
    for target in targets:
        name, pid, url = target.split("=", 2)
        made.append(Target(name, int(pid), url, context))
    saved = 0.0
    while True:
        for one in made:
            one.ask()
        if time.monotonic() - saved > 1.0:
            saved = time.monotonic()
            new = out.with_suffix(".new")
            new.write_text(json.dumps({one.name: one.result() for one in made}))
            new.replace(out)
        time.sleep(PERIOD)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])
