"""Settings and life cycle of a long-running process: freed memory, stop signals, end of the parent process, device."""

import ctypes
import os
import signal
import threading
import time
from types import FrameType

__all__ = ["PARENT_VARIABLE", "StopSignals", "check_device_name", "die_with_parent", "end_with_parent"]
__all__ += ["return_freed_memory"]

PARENT_VARIABLE = "SVFM_PARENT"
"""Environment variable with the id of the process that started this one; this one ends with it."""

_PARENT_CHECK_S = 0.5
_PR_SET_PDEATHSIG = 1  # of Linux's prctl
_MMAP_THRESHOLD, _TRIM_THRESHOLD, _ARENA_MAX = -3, -1, -8  # parameters of glibc's mallopt
_LARGE_BYTES = 256 * 1024
_ARENAS = 2


def return_freed_memory() -> bool:
    """Make malloc return large freed arrays to the system; False where the C library has no ``mallopt``.

    By default glibc raises its mmap threshold to the size of freed arrays (up to 32 MB) and keeps one arena per thread,
    so that maps and tables that are allocated and freed for hours fragment the heap. A fixed threshold maps each large
    array on its own; ``test_process_control`` measures 6 MB instead of over 60 MB left after 100 MB were freed.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    options = ((_MMAP_THRESHOLD, _LARGE_BYTES), (_TRIM_THRESHOLD, _LARGE_BYTES), (_ARENA_MAX, _ARENAS))
    return all(mallopt(name, value) == 1 for name, value in options)


def check_device_name(name: str) -> str:
    """The name of a compute device (auto, cpu or cuda:N); raises where there is no such device.

    torch is imported for cuda names only: that takes seconds.
    """
    if name in ("auto", "cpu"):
        return name
    from svfm_ros.forecasting.batched.device_choice import pick_device

    return pick_device(name)


class StopSignals:
    """Signal handler: the first signal during start-up raises KeyboardInterrupt; later ones are only recorded.

    ``ros2 launch`` forwards the Ctrl-C that the terminal already sent to all processes, so a second signal must not
    interrupt the shutdown that the first one started.
    """

    def __init__(self) -> None:
        self.number = 0  # of the first signal; 0: none yet
        self._started = False

    def started(self) -> None:
        """Start-up is over: from now on signals do not interrupt the main thread."""
        self._started = True

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        """Handle a signal."""
        self.number = self.number or number
        if not self._started:
            self._started = True
            raise KeyboardInterrupt


def end_with_parent() -> None:
    """Send SIGTERM to this process when its parent ends; not under ``nohup``, which ignores SIGHUP.

    ``ros2 launch`` that is killed would leave its nodes running. The launch file passes its process id in
    ``SVFM_PARENT``, so that a node also ends whose parent ended before this function was called.
    """
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        return
    named, parent = os.environ.get(PARENT_VARIABLE, ""), os.getppid()
    leader = int(named) if named.isdigit() else parent
    if leader <= 1:
        return

    def watch() -> None:
        while os.getppid() == parent and _is_alive(leader):
            time.sleep(_PARENT_CHECK_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="end_with_parent", daemon=True).start()


def die_with_parent() -> None:
    """Have the kernel kill this process as soon as the thread that started it ends; does nothing but on Linux.

    For a process whose result nobody would take any more, and that may not look for its parent for a minute.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # a process of another user
        return True
    return True
