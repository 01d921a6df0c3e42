"""The posterior and the sampled paths of many walkers at once, in torch, on a GPU or on the CPU.

The same density and the same order of draws as the compiled ``posterior.py`` and ``sampler.py``; what each row does is
chosen by masks, so that no step waits for a number from the device. Rows are paths: S for each of B walkers.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from svfm_ros.forecasting.batched.free_walker_torch import part_log_densities, rotated, student_log_densities
from svfm_ros.forecasting.batched.tensor_model import (
    FieldHere,
    HabitsNow,
    TensorModel,
    draw_index,
    relative_move_of,
    taken_up_of,
)
from svfm_ros.forecasting.field_step import KEPT
from svfm_ros.forecasting.forward import FREE_ENDS, ODD_SHARE
from svfm_ros.forecasting.free_walker import GOING, MEMORY, TICK_S
from svfm_ros.forecasting.sampler import ARRIVED, MOST_MPS, MOST_SCALES, MOVING, STANDING, SampledWalks

__all__ = ["BatchedModel", "BatchedPosterior", "BatchedWalkers", "PathEnds"]

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BatchedPosterior:
    """What ``Posterior`` holds, for B walkers."""

    state: Tensor  # (B, 2 + 2 K)
    filters: Tensor  # (B, K, KEPT)
    moves: Tensor  # (B, MEMORY, 2)
    known: Tensor  # (B,)
    steps: Tensor  # (B,)


@dataclass(slots=True)
class BatchedWalkers:
    """What ``Walkers`` holds, for R rows, and whose path each row is."""

    xy: Tensor  # (R, 2)
    owner: Tensor  # (R,), walker 0 to B - 1
    component: Tensor  # (R,)
    mode: Tensor  # (R,)
    step: Tensor  # (R,)
    filters: Tensor  # (R, KEPT)
    moves: Tensor  # (R, MEMORY, 2)
    known: Tensor  # (R,)

    def some(self, rows: Tensor) -> "BatchedWalkers":
        """Copies of some of them."""
        return BatchedWalkers(*(getattr(self, f.name)[rows] for f in fields(self)))


@dataclass(slots=True)
class PathEnds:
    """Where each path first ended."""

    ended: Tensor  # (R,)
    component: Tensor  # (R,)
    xy: Tensor  # (R, 2)

    def note(self, now: Tensor, component: Tensor, xy: Tensor) -> None:
        """Add those who arrive ``now`` (R,) and had not before."""
        first = now & ~self.ended
        self.component = torch.where(first, component, self.component)
        self.xy = torch.where(first.unsqueeze(-1), xy, self.xy)
        self.ended = self.ended | now


class BatchedModel(TensorModel):
    """The forward algorithm and the sampler over many rows."""

    @property
    def most_rows(self) -> int:
        """Paths that are worth sampling at once: on the CPU those that fit into its caches."""
        return 2**13 if self.device.type == "cpu" else 2**18

    def filter_walks(self, walks: Sequence[tuple[Array, Array]], habits: HabitsNow) -> BatchedPosterior:
        """The posterior after B walks so far: positions (T, 2) relative to the model's origin, and variances (T,)."""
        longest = max(2, *(len(xy) for xy, _ in walks))
        xy = np.stack([np.pad(x, ((0, longest - len(x)), (0, 0)), mode="edge") for x, _ in walks])
        variance = np.stack([np.pad(v, (0, longest - len(v))) for _, v in walks])
        return self.filter(xy, variance, [len(x) - 1 for x, _ in walks], habits)

    def filter(self, xy: ArrayLike, variance: ArrayLike, moves: ArrayLike, habits: HabitsNow) -> BatchedPosterior:
        """Run the forward algorithm over B walks so far; compare ``filter_walk``.

        ``xy`` (B, T + 1, 2) are metres relative to the model's origin, ``variance`` (B, T + 1) theirs in m^2. Of walk b
        the first ``moves[b]`` moves are seen; after them any finite positions will do. Without a move, the posterior
        is what the habits say.
        """
        model, here, count = self.model, self.put(xy), self.put_whole(moves)
        noise = np.asarray(variance, dtype=float)
        noise_var = self.put(noise[:, 1:] + noise[:, :-1])
        move = self.put(np.diff(np.asarray(xy, dtype=float), axis=1))  # (B, T, 2)
        weights = self.origin_weights(here)
        shares, free = weights @ habits.shares, (weights @ habits.free.unsqueeze(-1)).squeeze(-1)
        batch, steps, k = move.shape[0], move.shape[1], model.components
        each = torch.arange(k, device=self.device).expand(batch, steps + 1, k)
        field = self.field_here(each, here.unsqueeze(2).expand(-1, -1, k, -1))  # (B, T + 1, K)
        gate = shares * taken_up_of(field.support)
        follows = (1.0 - free[:, :1]) * gate[:, 0]
        nobody = torch.zeros(batch, k + 1, device=self.device)
        state = torch.cat([1.0 - follows.sum(1, keepdim=True), follows, nobody], 1)
        filters = torch.zeros(batch, k, KEPT, device=self.device)
        since = torch.zeros(batch, dtype=torch.long, device=self.device)
        hazards = self.look_up(self.hazards, each[:, 1:], here[:, 1:].unsqueeze(2).expand(-1, -1, k, -1))
        stood = move.norm(dim=-1) < model.stand_m
        stood[:, :1] = False  # who sets off moves, however little
        seen = torch.arange(steps, device=self.device) < count.unsqueeze(1)
        free_moves, log_still = self._free_moves(move, noise_var), self._still_log_densities(move, noise_var)
        for i in range(steps):
            share, calm = self.ramp[since.clamp(max=len(model.ramp))].unsqueeze(1).unbind(-1)  # (B, 1)
            now = FieldHere(*(getattr(field, f.name)[:, i] for f in fields(field)))
            m = model.dt_s * now.speed * share
            centre, scale, nu = self.predict(filters, m, calm, now, noise_var[:, i : i + 1])
            relative = relative_move_of(move[:, i].unsqueeze(1), now, m)
            log_p = student_log_densities((relative - centre) / scale, nu.unsqueeze(-1)).sum(-1)
            log_move = log_p - torch.log(scale.prod(-1) * m * m)
            logs = (log_move, log_still[:, i : i + 1], free_moves[:, i])
            taught = self.update(filters, relative, centre, scale, stood[:, i : i + 1])
            goes_on = (i + 1 < count).unsqueeze(1)  # whether the walk ends after the last move is not known
            around = (hazards[:, i - 1] if i else torch.zeros_like(hazards[:, 0]), hazards[:, i])
            after = self._forward(state, logs, around, stood[:, i], gate[:, i + 1], goes_on)
            state = torch.where(seen[:, i : i + 1], after, state)
            filters = torch.where(seen[:, i, None, None], taught, filters)
            since = torch.where(seen[:, i], torch.where(stood[:, i], 0, since + 1), since)
        return BatchedPosterior(state, filters, self._last_moves(move, count), count.clamp(max=MEMORY), since)

    def walkers(self, posterior: BatchedPosterior, xy: ArrayLike, factors: ArrayLike, samples: int) -> BatchedWalkers:
        """``samples`` walkers for each of B, with what is hidden drawn from the posterior.

        ``xy`` (B, 2) is where they are; ``factors`` (B, 2, 2) times its transpose is the covariance of that.
        """
        batch, k = len(posterior.state), self.model.components
        here, factor = self.put(xy), self.put(factors)
        spread = self.normal(batch, samples, 2) @ factor.transpose(1, 2)
        even = (self.order(samples).unsqueeze(0) + self.uniform(batch, 1)) / samples  # compare ``draw_evenly``
        index = draw_index(posterior.state.unsqueeze(1), even.unsqueeze(-1)).reshape(-1)
        component = torch.where(index > k, index - k, index) % (k + 1)
        owner = torch.arange(batch, device=self.device).repeat_interleave(samples)
        return BatchedWalkers(
            (here.unsqueeze(1) + spread).reshape(-1, 2),
            owner,
            component,
            torch.where(index > k, STANDING, MOVING),
            posterior.steps[owner],
            posterior.filters[owner, (component - 1).clamp(min=0)],
            posterior.moves[owner],
            posterior.known[owner],
        )

    def sample(self, walkers: BatchedWalkers, habits: HabitsNow, ticks: int, more_ticks: int) -> SampledWalks:
        """Paths of all rows; compare ``sample_walks``. The device is waited for after each of the two loops alone."""
        choices, none = habits.choices, torch.zeros_like(walkers.owner)
        ends = PathEnds(none.bool(), none, torch.zeros_like(walkers.xy))
        path, walkers = self.walk(walkers, ends, choices, ticks, False)
        late = torch.nonzero(~ends.ended).squeeze(1)
        last = PathEnds(none[late].bool(), none[late], torch.zeros_like(walkers.xy[late]))
        _, rest = self.walk(walkers.some(late), last, choices, more_ticks if len(late) else 0, True)
        found = last.ended
        last.note(~found, rest.component, rest.xy)
        ends.component[late], ends.xy[late], ends.ended[late] = last.component, last.xy, found
        xy, component, ended, end_xy = (x.cpu().numpy() for x in (path, ends.component, ends.ended, ends.xy))
        return SampledWalks(xy.astype(float), component, ended, end_xy.astype(float))

    def walk(
        self, w: BatchedWalkers, ends: PathEnds, choices: Tensor, ticks: int, until_end: bool
    ) -> tuple[Tensor, BatchedWalkers]:
        """Paths (R, ticks + 1, 2) and the walkers at their ends; nothing here waits for the device."""
        path = [w.xy]
        for _ in range(ticks):
            w = self._step(w, ends, choices, until_end)
            if not until_end:
                path.append(w.xy)
        return torch.stack(path, 1), w

    def _step(self, w: BatchedWalkers, ends: PathEnds, choices: Tensor, until_end: bool) -> BatchedWalkers:
        model, switches = self.model, self.model.switches
        chance = self.uniform(len(w.xy), 5)
        goes, follows, standing = w.mode != ARRIVED, w.component > 0, w.mode == STANDING
        field = (w.component - 1).clamp(min=0)
        at_first = self.look_up(self.hazards, field, w.xy) * (w.known > 0).unsqueeze(-1)
        odd = odd_move_of(switches.slip, at_first)
        freely = ~follows | (~standing & (chance[:, 0] < odd))
        move, taught, free_mode = self._move(w, field, freely, standing)
        length = move.norm(dim=-1, keepdim=True)
        move = move * (MOST_MPS * model.dt_s / length.clamp(min=1e-9)).clamp(max=1.0)
        stood = (w.known > 0) & (move.norm(dim=-1) < model.stand_m)
        going = goes.unsqueeze(-1)
        xy = torch.where(going, w.xy + move, w.xy)
        ticks = model.dt_s / TICK_S
        moves = torch.where(going.unsqueeze(-1), torch.cat([move.unsqueeze(1) / ticks, w.moves[:, :-1]], 1), w.moves)
        stop, go, end_go, end_stand = self.look_up(self.hazards, field, xy).unbind(-1)
        end = torch.where(follows, torch.where(standing, end_stand, end_go), self.free_end(xy, stood))
        arrives = goes & (chance[:, 1] < end)
        ends.note(arrives, w.component, xy)
        on = goes & ~arrives
        joins = on & ~follows & (free_mode == MOVING) & (chance[:, 2] < switches.join)
        toggles = on & follows & (chance[:, 2] < torch.where(standing, go, stop))
        leaves = on & follows & (chance[:, 3] < switches.leave)
        rate = torch.where(follows, self.set_off[field], self.set_off.mean())
        sets_off = ~goes & (chance[:, 4] < (0.0 if until_end else rate))
        anew = joins | sets_off
        chosen = self._choose(xy, w.owner, sets_off, choices)
        component = torch.where(anew, chosen, torch.where(leaves, 0, w.component))
        mode = torch.where(toggles, MOVING + STANDING - w.mode, torch.where(goes & ~follows, free_mode, w.mode))
        mode = torch.where(arrives, ARRIVED, torch.where(sets_off, MOVING, mode))
        filters = torch.where((goes & follows).unsqueeze(-1), taught, w.filters)
        filters = torch.where(anew.unsqueeze(-1), 0.0, filters)
        step = torch.where(goes, torch.where(stood, 0, w.step + 1), torch.where(sets_off, 0, w.step))
        known = torch.where(goes, (w.known + 1).clamp(max=MEMORY), torch.where(sets_off, 0, w.known))
        return BatchedWalkers(xy, w.owner, component, mode, step, filters, moves, known)

    def _move(
        self, w: BatchedWalkers, field: Tensor, freely: Tensor, standing: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """A drawn move (R, 2), metres, what it teaches the filters (R, KEPT), and the mode (R,) of free walkers."""
        model, ticks = self.model, self.model.dt_s / TICK_S
        here = self.field_here(field, w.xy)
        share, calm = self.ramp[w.step.clamp(max=len(model.ramp))].unbind(-1)
        m = model.dt_s * here.speed * share
        centre, scale, nu = self.predict(w.filters, m, calm, here, 0.0)
        chance = self.uniform(len(w.xy), 2)
        rested = standing & (w.component == 0)
        begins = rested & (chance[:, 0] < model.free.sets_off(model.dt_s))
        expected, free_nu = self.free_move(w.moves, torch.where(begins, 0, w.known))
        shares = expected.log_share.exp()
        stays = (rested & ~begins) | (~rested & (chance[:, 0] < shares[:, GOING]))
        going = draw_index(shares[:, :GOING], chance[:, 1:])
        part = torch.where(stays.unsqueeze(-1), GOING, going)[..., None].expand(-1, -1, 2)
        free_u = expected.direction
        free_centre, free_scale = (x.gather(1, part).squeeze(1) for x in (expected.centre, expected.scale))
        along = torch.stack([1.0 + centre[:, 0], centre[:, 1]], -1) * m.unsqueeze(-1)
        free, still = freely.unsqueeze(-1), (standing & ~freely).unsqueeze(-1)
        u = torch.where(free, free_u, torch.stack([here.ux, here.uy], -1))
        middle = torch.where(free, free_centre * ticks, torch.where(still, 0.0, along))
        width = torch.where(free, free_scale * ticks, torch.where(still, model.still_m, scale * m.unsqueeze(-1)))
        nus = torch.where(free, free_nu, torch.where(still, 4.0, nu.unsqueeze(-1)))
        gamma = torch._standard_gamma(0.5 * nus, generator=self.generator)
        gamma = torch.where(still, gamma[:, :1], gamma)  # while standing: one two-dimensional Student-t
        z = self.normal(len(nus), 2) / torch.sqrt(2.0 * gamma / nus)
        z = torch.where(still, z, z.clamp(-MOST_SCALES, MOST_SCALES))
        move = rotated(middle + width * z, u)
        stood = (w.known > 0) & (move.norm(dim=-1) < model.stand_m)
        taught = self.update(w.filters, relative_move_of(move, here, m), centre, scale, stood)
        return move, taught, torch.where(stays, STANDING, MOVING)

    def _choose(self, xy: Tensor, owner: Tensor, sets_off: Tensor, choices: Tensor) -> Tensor:
        """A component (R,) for those who set off, or take up a habit, at positions (R, 2)."""
        chance = self.uniform(len(xy), 3)
        origin = draw_index(self.origin_weights(xy), chance[:, :1]).squeeze(-1)
        chosen = draw_index(choices[sets_off.long(), owner, origin], chance[:, 1:2]).squeeze(-1)
        support = self.field_here((chosen - 1).clamp(min=0), xy).support
        return torch.where(chance[:, 2] < taken_up_of(support), chosen, 0)

    def _forward(
        self,
        state: Tensor,
        logs: tuple[Tensor, Tensor, Tensor],
        around: tuple[Tensor, Tensor],
        stood: Tensor,
        gate: Tensor,
        goes_on: Tensor,
    ) -> Tensor:
        """Probabilities (B, 2 + 2 K) after one move; compare ``forward``. ``around``: hazards before and after it."""
        (log_move, log_still, free_moves), s, k = logs, self.model.switches, self.model.components
        log_going, log_rest, log_first, log_any, stops = free_moves.unsqueeze(1).unbind(-1)  # (B, 1)
        set_off = self.model.free.sets_off(self.model.dt_s)
        stop, go, end_go, end_stand = around[1].unbind(-1)  # (B, K)
        end = torch.where(
            stood,
            (FREE_ENDS * end_stand).amax(1).clamp(min=s.free_end_still),
            (FREE_ENDS * end_go).amax(1).clamp(min=s.free_end),
        )
        odd = odd_move_of(s.slip, around[0])
        moved = torch.logaddexp(_log(1.0 - odd) + log_move, _log(odd) + log_any)
        free, rest = state[:, :1], state[:, -1:]
        # who walks freely goes on or sets off; who stands has stopped or stays
        log_free = torch.logaddexp(_log(free * (1.0 - stops)) + log_going, _log(rest * set_off) + log_first)
        log_rests = _log(free * stops + rest * (1.0 - set_off)) + log_rest
        log_seen = torch.cat([log_free, _log(state[:, 1:-1]) + torch.cat([moved, log_still.expand(-1, k)], 1)], 1)
        on = 1.0 - end.unsqueeze(1)
        stays = torch.where(goes_on, torch.cat([on, 1.0 - end_go, 1.0 - end_stand, on], 1), 1.0)
        after = torch.softmax(torch.cat([log_seen, log_rests], 1) + _log(stays), 1)
        free, moving, standing, rest = after[:, :1], after[:, 1 : 1 + k], after[:, 1 + k : -1], after[:, -1:]
        on, halted = moving * (1.0 - stop) + standing * go, moving * stop + standing * (1.0 - go)
        joined = free * s.join * gate
        free = free + on.sum(1, keepdim=True) * s.leave - joined.sum(1, keepdim=True)
        rest = rest + halted.sum(1, keepdim=True) * s.leave
        return torch.cat([free, on * (1.0 - s.leave) + joined, halted * (1.0 - s.leave), rest], 1)

    def _free_moves(self, move: Tensor, noise_var: Tensor) -> Tensor:
        """What ``free_log_densities`` says (B, T, FREE_COLUMNS) of moves (B, T, 2)."""
        ticks, steps = self.model.dt_s / TICK_S, move.shape[1]
        own = move / ticks
        past = torch.nn.functional.pad(own, (0, 0, MEMORY, 0))  # (B, MEMORY + T, 2)
        memory = torch.stack([past[:, MEMORY - 1 - j : MEMORY - 1 - j + steps] for j in range(MEMORY)], 2)
        known = torch.arange(steps, device=self.device).clamp(max=MEMORY).expand(len(move), steps)
        expected, nu = self.free_move(memory, known)
        noise = noise_var / ticks**2
        each = part_log_densities(expected, own, nu.unsqueeze(-2), noise[..., None, None])
        log_share = expected.log_share
        going = torch.logsumexp(each[..., :GOING] + log_share[..., :GOING], -1)
        first_m, first_nu = (float(x) for x in self.model.free.first)
        scale = torch.sqrt(first_m**2 + noise)
        log_first = student_log_densities(own / scale.unsqueeze(-1), nu.new_tensor(first_nu)).sum(-1)
        going_alone = going - torch.logsumexp(log_share[..., :GOING], -1)
        any_of = torch.logaddexp(going, each[..., GOING] + log_share[..., GOING])
        logs = (going_alone, each[..., GOING], log_first - 2.0 * torch.log(scale), any_of)
        return torch.stack([*(x - 2.0 * math.log(ticks) for x in logs), log_share[..., GOING].exp()], -1)

    def _still_log_densities(self, move: Tensor, noise_var: Tensor) -> Tensor:
        scale = self.model.still_m**2 + noise_var
        return -torch.log(2.0 * math.pi * scale) - 3.0 * torch.log1p(move.square().sum(-1) / (4.0 * scale))

    def _last_moves(self, move: Tensor, count: Tensor) -> Tensor:
        """The last moves (B, MEMORY, 2) before move ``count``, newest first, zero before the first."""
        padded = torch.nn.functional.pad(move, (0, 0, MEMORY, 0)) / (self.model.dt_s / TICK_S)
        back = count.unsqueeze(1) + MEMORY - 1 - torch.arange(MEMORY, device=self.device)
        return padded.gather(1, back.unsqueeze(-1).expand(-1, -1, 2))


def odd_move_of(slip: float, hazards: Tensor) -> Tensor:
    """Compare ``odd_move``; ``hazards`` (..., 4) are those where the move begins, 0 at the start of a walk."""
    return 1.0 - (1.0 - slip) * (1.0 - ODD_SHARE * hazards[..., 0]) * (1.0 - ODD_SHARE * hazards[..., 2])


def _log(x: Tensor) -> Tensor:
    """The logarithm; that of zero is small but finite."""
    return torch.log(x.clamp(min=1e-37))
