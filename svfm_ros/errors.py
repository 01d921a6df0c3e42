"""Errors that a user can act on.

Every message says what was expected and what was given. Programming errors keep their own types.
"""

__all__ = ["ConfigError", "DataError", "SvfmError", "UsageError"]


class SvfmError(Exception):
    """Root of all errors this package raises on purpose; the command line prints its message and exits with 2."""


class ConfigError(SvfmError, ValueError):
    """An option is unknown, of the wrong type or out of its range."""


class DataError(SvfmError, ValueError):
    """A file or an array does not hold what it should."""


class UsageError(SvfmError):
    """Arguments that contradict each other, or name something that is not there."""
