"""One module per ``svfm`` command; the only modules that print."""

import signal
import sys

__all__ = ["start"]

_INTERRUPTED = 130


def start() -> int:
    """Run the executable ``svfm``; Ctrl-C ends it in one line, also while Python is still loading the rest."""
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # the executable blocks it while Python starts
        from svfm_ros.cli.main import main

        return main()
    except KeyboardInterrupt:
        sys.stderr.write("svfm: interrupted\n")
        return _INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt
