"""CPU time and memory of another process, as Linux reports them."""

from __future__ import annotations

import time
from pathlib import Path


class ProcessStats:
    """The CPU time and the resident memory of a running process."""

    def __init__(self, pid: int) -> None:
        self._folder = Path("/proc") / str(pid)
        # The clock id of another process's CPU time, as clock_getcpuclockid(3) computes it. It counts in
        # nanoseconds; /proc counts in hundredths of a second.
        self._clock = ~pid << 3 | 2

    @property
    def cpu(self) -> float:
        """CPU seconds so far, of all its threads."""
        return time.clock_gettime(self._clock)

    @property
    def resident(self) -> float:
        """Resident megabytes."""
        return self._megabytes("VmRSS")

    @property
    def most_resident(self) -> float:
        """The most resident megabytes so far."""
        return self._megabytes("VmHWM")

    def _megabytes(self, field: str) -> float:
        lines = (self._folder / "status").read_text().splitlines()
        kilobytes = next(line.split()[1] for line in lines if line.startswith(f"{field}:"))
        return int(kilobytes) / 1000
