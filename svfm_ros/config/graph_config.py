"""What can be set about the pose graph, above all how loop closures are judged."""

from dataclasses import dataclass

from svfm_ros.config.options import check, option

__all__ = ["GraphConfig"]


@dataclass(frozen=True, slots=True)
class GraphConfig:
    """Options of the pose graph."""

    max_iterations: int = option(30, "steps of the solver at most, each time it settles", low=1)
    tolerance: float = option(1e-6, "settled when a step lowers the cost by less than this share", low=0.0)
    loop_gate: float = option(16.0, "a loop is false when its squared, weighted residual is above this", low=1.0)
    loop_slack_m: float = option(
        0.05, "a loop's position is never trusted more than this when it is judged (m)", low=0.0
    )
    loop_slack_rad: float = option(0.02, "the same for its turn (rad)", low=0.0)
    odometry_slack: float = option(3.0, "how much worse than said the odometry may be when loops are judged", low=1.0)

    def __post_init__(self) -> None:
        check(self)
