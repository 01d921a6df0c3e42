"""Errors that a user can act on.

Every message says what was expected and what was given. Programming errors keep their own types.
"""

import reprlib
from typing import Any

__all__ = ["ConfigError", "DataError", "StoreUnavailableError", "SvfmError", "UsageError", "printable", "reason_of"]
__all__ += ["short"]

_SHORT = reprlib.Repr()  # a nested value may be endless
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 2, 60, 60
_BIDI = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}  # they turn the direction of what follows


class SvfmError(Exception):
    """Root of all errors this package raises on purpose; the command line prints its message and exits with 2."""


class ConfigError(SvfmError, ValueError):
    """An option is unknown, of the wrong type or out of its range."""

    def __init__(self, message: str, option: str = "", owner: str = "") -> None:
        """``option`` is the name of the field, ``owner`` that of its dataclass; empty where it is not about one."""
        super().__init__(f"{option}: {message}" if option else message)
        self.message, self.option, self.owner = message, option, owner


class DataError(SvfmError, ValueError):
    """A file or an array does not hold what it should."""


class StoreUnavailableError(DataError):
    """A store cannot be used now, but perhaps later: the disk is full, or another program holds it."""


class UsageError(SvfmError):
    """Arguments that contradict each other, or name something that is not there."""


def reason_of(error: Exception) -> str:
    """An error in one sentence: our own say what is wrong, others get the name of their type."""
    return str(error) if isinstance(error, SvfmError) else f"{type(error).__name__}: {error}"


def short(value: Any) -> str:
    """A value for a sentence, cut off where it is long or deep."""
    return _SHORT.repr(value)


def printable(text: str) -> str:
    """Text whose control characters, line ends included, are shown as escapes, so that none reaches a terminal."""
    return "".join(c if c.isprintable() or _is_harmless(c) else ascii(c)[1:-1] for c in text)


def _is_harmless(character: str) -> bool:
    return ord(character) > 0x9F and ord(character) not in _BIDI and not 0xD800 <= ord(character) <= 0xDFFF
