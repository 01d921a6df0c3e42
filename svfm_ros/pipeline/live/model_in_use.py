"""Name, number of walks and score of the model file in use. No ROS in here.

It is read in a process of its own (``python -m svfm_ros.pipeline.live.model_in_use FILE``): a trainer that is started
beside a model would otherwise keep the 70 MB of libraries that reading it takes.
"""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from svfm_ros.errors import DataError, SvfmError

__all__ = ["ModelInUse", "main", "model_in_use"]


@dataclass(frozen=True, slots=True)
class ModelInUse:
    """Name of a model, walks it was learnt from, and its score on walks that were left out."""

    model_id: str
    walks_seen: int
    held_out_nll: float | None


def model_in_use(path: Path) -> ModelInUse:
    """Read it in a process; raises where the file is no whole model."""
    command = [sys.executable, "-m", "svfm_ros.pipeline.live.model_in_use", str(path)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DataError(done.stderr.strip().rpartition("\n")[2] or f"cannot read {path}: code {done.returncode}")
    return ModelInUse(**json.loads(done.stdout))


def main() -> int:
    """Print it as JSON, or one sentence on stderr."""
    from svfm_ros.forecasting.model_file import load_walk_model

    try:
        file = load_walk_model(Path(sys.argv[1]))
    except SvfmError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    known = ModelInUse(file.model_id, int(file.metrics.get("walks_seen", 0)), file.metrics.get("held_out_nll"))
    sys.stdout.write(json.dumps(asdict(known)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
