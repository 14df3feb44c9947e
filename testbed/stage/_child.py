"""Executes the program in its arguments, which the kernel kills when the parent dies.

Run as `python -I -S _child.py PARENT_PID PROGRAM ARGS...`. It is a separate process because prctl in a forked
copy of the parent (preexec_fn) can deadlock. The pid and the start time survive the exec, so the recorded
process id stays valid. Linux only.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def become(parent: int, command: list[str]) -> None:
    """Replaces this process with `command`, or exits if `parent` has died."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # the parent died before prctl took effect
        sys.exit("the parent is gone")
    os.execv(command[0], command)  # noqa: S606 - needs no shell


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2:])
