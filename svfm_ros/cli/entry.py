"""The executable ``svfm``: Ctrl-C ends it in one line, also while Python is still loading the rest."""

import signal
import sys

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> int:
    """Run the command; returns the exit code."""
    try:
        from svfm_ros.cli.main import main as run

        return run()
    except KeyboardInterrupt:
        sys.stderr.write("svfm: interrupted\n")
        return _INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt


if __name__ == "__main__":
    sys.exit(main())
