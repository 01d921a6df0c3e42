"""What the steps of a walk say under a model's networks, on the device that they are on.

``tabled`` has the same without torch, by its tables.
"""

import numpy as np
import torch
from numpy.typing import NDArray

from svfm_ros.forecasting.hidden_chain import CLIP, HiddenChain
from svfm_ros.forecasting.likelihood import WalkBatch, log_says, step_terms
from svfm_ros.forecasting.posterior import Belief, SeenSteps, check_positions, weigh
from svfm_ros.forecasting.walk_model import WalkModel

__all__ = ["believe", "see_steps"]

Array = NDArray[np.float64]


@torch.inference_mode()
def see_steps(model: WalkModel, xy: Array) -> SeenSteps:
    """All that needs the networks, on the device they are on; comes back in one piece. ``xy`` (T, 2), T at least 2."""
    check_positions(xy)
    device, dtype = model.shift.device, model.shift.dtype
    walks = WalkBatch(
        xy=torch.as_tensor(xy[None], dtype=dtype, device=device),
        steps=torch.tensor([len(xy) - 1], device=device),
        hour=torch.zeros(1, dtype=dtype, device=device),
        ended=torch.zeros(1, dtype=torch.bool, device=device),
    )
    terms = step_terms(model, walks)
    says = log_says(terms)[0]  # (I, 2, K, G)
    last = torch.stack((terms.eps_v[0, -1], terms.eps_u[0, -1])).clamp(-CLIP, CLIP).unsqueeze(0)  # (1, 2, K, G)
    back = torch.cat((says, last)).double().cpu().numpy()
    return SeenSteps(xy, np.ascontiguousarray(back[:-1]), back[-1, 0], back[-1, 1])


def believe(model: WalkModel, xy: Array, start_hour: float, trust: float = 1.0) -> Belief:
    """The belief after positions (T, 2) on the model's ticks, T at least 2, of a walk that goes on."""
    return weigh(see_steps(model, xy), HiddenChain.of(model), start_hour, trust)
