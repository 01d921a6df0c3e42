"""What stands on the topic ``model``: a line of JSON that names the checkpoint and says how good it is."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from svfm_ros.errors import DataError

__all__ = ["Announcement"]


@dataclass(frozen=True, slots=True)
class Announcement:
    """A model that is ready to be used."""

    path: str
    model_id: str = ""
    walks: int = 0  # it was trained on
    held_out_nll: float | None = None  # nats per step on walks it has not seen; lower is better

    def to_text(self) -> str:
        """As it goes over the topic."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> "Announcement":
        """From JSON, or from nothing but a path: ``ros2 topic pub model std_msgs/String "{data: my.pt}"`` works."""
        if not text.lstrip().startswith("{"):
            if not text.strip():
                raise DataError("expected the path of a model on the topic model, got nothing")
            return cls(text.strip())
        try:
            cells = json.loads(text)
            known = {k: cells[k] for k in ("path", "model_id", "walks", "held_out_nll") if k in cells}
            return cls(**known)
        except (ValueError, TypeError) as error:
            raise DataError(f"expected a path or JSON with a path on the topic model, got {text[:80]!r}") from error

    @property
    def file(self) -> Path:
        """The checkpoint."""
        return Path(self.path).expanduser()
