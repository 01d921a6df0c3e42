"""The figures of ``svfm demo``: what the nodes published, against the truth of the simulation and against targets."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from svfm_ros.nodes.graph_listener import ReceivedMessages
from svfm_ros.sim.demo_days import DemoWalks
from svfm_ros.slam.trajectory_metrics import absolute_error
from svfm_ros.targets import Check, at_least, at_most
from svfm_ros.types import Forecast

__all__ = ["FORECAST_LATENCY", "KITCHEN", "RMSE", "demo_checks", "sure_from_m"]

RMSE = "position error of SLAM, rms m"
FORECAST_LATENCY = "scan to forecast, live, 95 %, ms"
KITCHEN = "kitchen at 70 % or more, m before it"

_WORST_RMSE_M = 0.10
_WORST_SHARE = 0.15
_POSE_MS, _FORECAST_MS = 40.0, 100.0
_SURE, _SURE_BEFORE_M = 0.7, 1.0
_LIVE = ("live", "live_night")  # parts at real pace


def demo_checks(received: ReceivedMessages, walks: DemoWalks, shown: dict[str, Forecast]) -> list[Check]:
    """All figures; ``shown`` has the forecasts at the couch by day and at night."""
    stamps = np.array(sorted(received.poses), dtype=np.int64)
    truth = walks.truth_at(stamps)
    known = np.isfinite(truth[:, 0])
    error = absolute_error(np.array([received.poses[n] for n in stamps[known].tolist()]), truth[known])
    live = sorted(n for n in received.scan_s if _is_live(walks, n))
    forecasts = [n for n in received.forecasts if _is_live(walks, n)]
    pose_ms, forecast_ms = (received.latencies_ms(s, live) for s in (received.pose_s, received.forecast_s))
    return [
        at_least("scans that became poses, share", len(stamps) / sum(walks.scans.values()), 0.99),
        at_most(RMSE, error.rmse_m, _WORST_RMSE_M),
        at_least("walks cut and kept", received.walks, 0.9 * walks.walks),
        at_least("models in use", len(received.models), 1),
        *(_share_check(n, walks.shares[n], shown[n]) for n in ("day", "night")),
        at_least("live forecasts, share of the scans", len(forecasts) / sum(walks.scans[n] for n in _LIVE), 0.8),
        at_least(KITCHEN, _sure_before_m(received, walks, "kitchen"), _SURE_BEFORE_M),
        at_most("scan to pose, live, 95 %, ms", _quantile(pose_ms), _POSE_MS),
        at_most(FORECAST_LATENCY, _quantile(forecast_ms), _FORECAST_MS),
    ]


def _is_live(walks: DemoWalks, stamp_ns: int) -> bool:
    """Whether a scan belongs to a part that was replayed at real pace."""
    return any(walks.parts[name].motion.start_ns <= stamp_ns <= walks.end_ns(name) for name in _LIVE)


def _share_check(name: str, truth: dict[str, float], forecast: Forecast) -> Check:
    """The largest difference over all places."""
    names = set(truth) | set(forecast.shares)
    worst = max(abs(truth.get(n, 0.0) - forecast.shares.get(n, 0.0)) for n in names)
    return at_most(f"endpoint shares from the couch by {name}, largest error", worst, _WORST_SHARE)


def _sure_before_m(received: ReceivedMessages, walks: DemoWalks, place: str) -> float:
    """How far before a place the live walk's forecasts gave it 70 % or more, and did so until the arrival."""
    spot = next(p for p in walks.places if p.name == place)
    begin_ns, end_ns = walks.parts["live"].motion.start_ns, walks.end_ns("live")
    stamps = [n for n in sorted(received.forecasts) if begin_ns <= n <= end_ns and n in received.poses]
    to_go_m = [float(np.hypot(*(received.poses[n][:2] - spot.xy))) - spot.radius_m for n in stamps]
    return sure_from_m(to_go_m, [received.forecasts[n]["shares"].get(place, 0.0) for n in stamps])


def sure_from_m(to_go_m: Sequence[float], shares: Sequence[float]) -> float:
    """Distance to the edge of a place from which on all shares until the arrival are 70 % or more; 0: none."""
    arrived = next((i for i, to_go in enumerate(to_go_m) if to_go <= 0.0), len(to_go_m))
    sure_m = 0.0
    for to_go, share in reversed(list(zip(to_go_m[:arrived], shares[:arrived], strict=True))):
        if share < _SURE:
            break
        sure_m = to_go
    return sure_m


def _quantile(values: Any) -> float:
    return float(np.quantile(values, 0.95)) if len(values) else float("nan")
