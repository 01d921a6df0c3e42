"""Where does this walk lead? The answer of an oracle that knows the simulator: what any forecaster could say at best.

A recurrent network learns the destination from thousands of walks drawn by the simulator itself, to all destinations
alike, at every moment of each walk. By cross-entropy it comes near to the posterior under the simulator's own law.
A calibrated forecaster that gives a destination the same prior probability cannot say more of it in the mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from benchlib.forecasts.forecast_home import HABITS, Home, windows
from svfm_ros.sim.walker import simulate_protocol
from svfm_ros.types import WalkWindows

__all__ = ["DestinationOracle"]

_WALKS = 1000  # to each destination
_HIDDEN, _EPOCHS, _BATCH = 48, 16, 128
_UNIT_M, _MOVE_M = 2.0, 0.4  # positions and moves are fed to the network in these units


@dataclass(frozen=True, slots=True)
class DestinationOracle:
    """Probabilities of the destinations as a walk unfolds."""

    names: tuple[str, ...]
    centre: NDArray[np.float64]  # (2,), metres
    recurrent: nn.GRU
    head: nn.Linear

    @classmethod
    def of_home(cls, home: Home, seed: int) -> "DestinationOracle":
        """From walks that no other forecaster is asked about or learns from."""
        drawn = simulate_protocol(home.house, seed=seed, repeats=_WALKS, habits=HABITS, book=home.book)
        return cls.learn(windows(drawn), [w.destination for w in drawn], seed)

    @classmethod
    def learn(cls, walks: WalkWindows, destinations: Sequence[str], seed: int) -> "DestinationOracle":
        """From many walks with a known destination each."""
        names = tuple(sorted(set(destinations)))
        target = torch.tensor([names.index(name) for name in destinations])
        torch.manual_seed(seed)
        recurrent, head = nn.GRU(4, _HIDDEN, batch_first=True), nn.Linear(_HIDDEN, len(names))
        oracle = cls(names, walks.xy[walks.valid].mean(0), recurrent, head)
        weights = [*oracle.recurrent.parameters(), *oracle.head.parameters()]
        adam = torch.optim.Adam(weights, lr=5e-3)
        inputs, lengths = oracle._inputs(walks), torch.tensor(walks.lengths)
        for epoch in range(_EPOCHS):
            for group in adam.param_groups:
                group["lr"] = 5e-3 * (1.0 - epoch / _EPOCHS)
            for pick in torch.randperm(len(target)).split(_BATCH):
                log_p = oracle._log_probabilities(inputs[pick])
                under_way = torch.arange(log_p.shape[1]) < lengths[pick, None] - 1
                own = log_p[torch.arange(len(pick)), :, target[pick]]
                adam.zero_grad()
                (-own[under_way].mean()).backward()  # type: ignore[no-untyped-call]
                adam.step()
        return oracle

    def probability(self, walks: WalkWindows, name: str, share: float) -> NDArray[np.float64]:
        """Of the destination ``name``, after a share of each walk (N,)."""
        now = np.minimum(np.round(share * walks.lengths).astype(int), np.maximum(walks.lengths - 2, 0))
        with torch.no_grad():
            found = self._log_probabilities(self._inputs(walks)).exp().numpy()
        return np.asarray(found[np.arange(len(walks)), now, self.names.index(name)], dtype=float)

    def _inputs(self, walks: WalkWindows) -> Tensor:
        """Positions and last moves (N, T, 4)."""
        xy = np.where(walks.valid[..., None], walks.xy, self.centre)
        move = np.diff(xy, axis=1, prepend=xy[:, :1])
        both = np.concatenate([(xy - self.centre) / _UNIT_M, move / _MOVE_M], axis=-1)
        return torch.tensor(both, dtype=torch.float32)

    def _log_probabilities(self, inputs: Tensor) -> Tensor:
        return torch.log_softmax(self.head(self.recurrent(inputs)[0]), dim=-1)
