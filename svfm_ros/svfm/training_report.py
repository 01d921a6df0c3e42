"""What a training leaves to look at: loss curves, restarts, how much each component is used, evaluations."""

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from torch import Tensor

__all__ = ["CurvePoint", "Restart", "TrainReport"]

_DEAD_SHARE = 0.05
_STUCK_NATS = 0.05


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The losses at one look."""

    restart: int
    step: int
    train_loss: float  # mean since the last look
    valid_loss: float
    rate: float  # learning rate of the fields then


@dataclass(frozen=True, slots=True)
class Restart:
    """How one training from its own first weights went."""

    seed: int
    steps: int
    best_step: int
    best_valid: float
    stopped: str  # why it ended: "all steps done", "no better for N looks", "not finite at step N"


@dataclass(frozen=True, slots=True)
class TrainReport:
    """Everything a person asks after a training; plain numbers, ready for JSON."""

    curve: tuple[CurvePoint, ...]
    restarts: tuple[Restart, ...]
    kept: int  # the restart whose weights were kept
    seconds: float
    use: tuple[float, ...] = ()  # share of each component over the training starts
    nfe: dict[str, float] = field(default_factory=dict)  # evaluations per instance: mean, most

    @property
    def best_valid(self) -> float:
        """Validation loss of the weights that were kept."""
        return self.restarts[self.kept].best_valid

    @property
    def dead(self) -> tuple[int, ...]:
        """Components that are hardly ever chosen: below a twentieth of an equal share."""
        return tuple(k for k, share in enumerate(self.use) if share < _DEAD_SHARE / len(self.use))

    @property
    def stuck(self) -> tuple[int, ...]:
        """Restarts that ended clearly worse than the best: a gate can get stuck with all components alive."""
        bar = self.best_valid + _STUCK_NATS
        return tuple(i for i, r in enumerate(self.restarts) if not r.best_valid <= bar)

    def with_nfe(self, nfe: Tensor) -> "TrainReport":
        """The same report with the evaluations (B,) that a solver needed for each instance."""
        counts = nfe.double()
        return replace(
            self, nfe={"mean": counts.mean().item(), "median": counts.median().item(), "most": counts.max().item()}
        )

    def lines(self) -> list[str]:
        """The report in words, a line each."""
        kept = self.restarts[self.kept]
        text = [
            f"validation loss {kept.best_valid:.4f} at step {kept.best_step} of restart {self.kept + 1} "
            f"of {len(self.restarts)} ({kept.stopped}), {self.seconds:.0f} s"
        ]
        if self.use:
            text.append("component use " + ", ".join(f"{k}: {share:.3f}" for k, share in enumerate(self.use)))
        if self.dead:
            text.append(f"dead components: {', '.join(map(str, self.dead))}; try more restarts or a slower gate")
        if self.stuck:
            text.append(f"restarts that got stuck: {', '.join(str(i + 1) for i in self.stuck)}")
        if self.nfe:
            text.append("evaluations per instance: " + ", ".join(f"{k} {v:.1f}" for k, v in self.nfe.items()))
        return text

    def to_mapping(self) -> dict[str, Any]:
        """Plain data for JSON or a checkpoint."""
        return {**asdict(self), "dead": list(self.dead), "stuck": list(self.stuck)}
