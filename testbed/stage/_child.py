"""Becomes the program of its arguments, after asking the kernel to end it when its parent dies.

Run as `python -I -S _child.py PARENT_PID PROGRAM ARGS...`. A process of its own, because prctl in a forked
copy of the parent (preexec_fn) can deadlock, and because pid and start time survive the exec: what was
recorded stays true. Linux only.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def become(parent: int, command: list[str]) -> None:
    """Replace this process by `command`, or end if `parent` is gone already."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it died before the kernel was told whom to watch
        sys.exit("the parent is gone")
    os.execv(command[0], command)  # noqa: S606 - no shell is wanted


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2:])
