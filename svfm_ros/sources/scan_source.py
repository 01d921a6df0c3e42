"""What every reader of scans hands out: the scans in the order of the file, and what could not be read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from svfm_ros.types import Scan

__all__ = ["ScanSource", "Warn"]

Warn = Callable[[str], None]


@dataclass(slots=True)
class ScanSource:
    """Scans from a file; may be read as often as wanted.

    ``count`` and ``duration_s`` are what the file promises, ``None`` where it does not say. ``warnings`` grows while
    the scans are read: each is one sentence about something left out.
    """

    path: Path
    kind: str
    read: Callable[[Warn], Iterator[Scan]]
    count: int | None = None
    duration_s: float | None = None
    warnings: list[str] = field(default_factory=list)

    def warn(self, sentence: str) -> None:
        """Note something that could not be read; each sentence is kept once."""
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def __iter__(self) -> Iterator[Scan]:
        return self.read(self.warn)

    def __len__(self) -> int:
        if self.count is None:
            raise TypeError(f"{self.path} does not say how many scans it holds")
        return self.count
