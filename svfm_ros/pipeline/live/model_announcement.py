"""Contents of the topic ``model``: JSON with the file and the scores of a trained model, signed by the trainer.

A forecaster opens the file that a message names, so it accepts only messages signed (HMAC-SHA256) with the key that
lies beside the model, readable by its owner alone, and only files in that folder.
"""

import hashlib
import hmac
import json
import os
import secrets
import stat
from dataclasses import asdict, dataclass
from pathlib import Path

from svfm_ros.atomic_files import write_whole
from svfm_ros.errors import DataError

__all__ = ["ModelAnnouncement", "SigningKey", "path_inside"]

KEY_NAME = "model.key"
MAX_TEXT = 4096  # characters of a message
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class SigningKey:
    """Secret shared by the trainer and the forecasters of one model folder."""

    secret: bytes

    @classmethod
    def read(cls, folder: Path) -> "SigningKey":
        """The key in a model folder; raises where there is none or others may read it."""
        path = folder / KEY_NAME
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            raise DataError(f"cannot read the key {path}: {error.strerror}; the trainer makes it") from error
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
                raise DataError(f"expected a key that only its owner can read: chmod 600 {path}")
            secret = file.read(_KEY_BYTES + 1)
        if len(secret) != _KEY_BYTES:
            raise DataError(f"expected a key of {_KEY_BYTES} bytes in {path}: remove it and restart the trainer")
        return cls(secret)

    @classmethod
    def create(cls, folder: Path) -> "SigningKey":
        """The key in a model folder, made (mode 0600) where there is none, or one that a power cut left unfinished."""
        path = folder / KEY_NAME
        if not _has_size(path, _KEY_BYTES):
            try:
                write_whole(path, secrets.token_bytes(_KEY_BYTES))
            except OSError as error:
                raise DataError(f"cannot write the key {path}: {error.strerror}") from error
        return cls.read(folder)

    def sign(self, body: str) -> str:
        """HMAC-SHA256 of a text, in hexadecimal digits."""
        return hmac.new(self.secret, body.encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class ModelAnnouncement:
    """A trained model that is ready for use."""

    path: str
    model_id: str = ""
    walks: int = 0  # it was trained on
    held_out_nll: float | None = None  # nats per step on held-out walks; lower is better

    def to_text(self, key: SigningKey) -> str:
        """The message: JSON with a signature of all other fields."""
        fields = asdict(self)
        return json.dumps({**fields, "signature": key.sign(_canonical(fields))})

    @classmethod
    def from_text(cls, text: str, key: SigningKey) -> "ModelAnnouncement":
        """Parse a message; raises where it is malformed or not signed with the key."""
        if len(text) > MAX_TEXT:
            raise DataError(f"expected at most {MAX_TEXT} characters on the topic model, got {len(text)}")
        try:
            fields = json.loads(text)
            signature = fields.pop("signature", "")
            announced = cls(**fields)
            if not isinstance(announced.path, str) or not isinstance(announced.model_id, str):
                raise TypeError("path and model_id are texts")
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"expected JSON with path and signature on the topic model, got {text[:80]!r}") from error
        if not isinstance(signature, str) or not hmac.compare_digest(
            signature.encode(errors="surrogatepass"), key.sign(_canonical(fields)).encode()
        ):
            raise DataError("a model was announced without the trainer's signature and is not used")
        return announced


def path_inside(path: str, folder: Path) -> Path:
    """The path of an announced model without links; raises unless it is in the folder.

    Its reader checks what is there when it opens the file, and follows no link.
    """
    inside = folder.resolve()
    found = Path(path).expanduser().resolve()
    if not found.is_relative_to(inside):
        raise DataError(f"expected a model inside {inside}, got {found}")
    return found


def _has_size(path: Path, count: int) -> bool:
    try:
        return path.lstat().st_size == count
    except FileNotFoundError:
        return False
    except OSError as error:
        raise DataError(f"cannot read the key {path}: {error.strerror}") from error


def _canonical(fields: dict[str, object]) -> str:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))
