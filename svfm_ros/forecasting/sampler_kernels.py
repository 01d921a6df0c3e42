"""Steps of all sampled paths, and whether they pass through walls; compiled, for many forecasts a second.

The rules are those of ``pathlik``, which says how likely a step is; here it is drawn. Random numbers come in from
outside, so that the same seed gives the same paths.
"""

import numpy as np

from svfm_ros.compiled import kernel

__all__ = ["count_visits", "crossings", "stride"]

_FADE = np.float32(1e-9)


@kernel
def _corner(x, y, low, cell_m, shape, component):  # type: ignore[no-untyped-def]
    """Row of the table's lower left node, and how far right and up of it a position is."""
    _, nx, ny = shape
    fx = min(max((x - low[0]) / np.float32(cell_m), np.float32(0.0)), np.float32(nx - 1.001))
    fy = min(max((y - low[1]) / np.float32(cell_m), np.float32(0.0)), np.float32(ny - 1.001))
    ix, iy = int(fx), int(fy)
    return (component * nx + ix) * ny + iy, np.float32(fx - ix), np.float32(fy - iy)


@kernel
def _between(cells, at, ny, fx, fy, column):  # type: ignore[no-untyped-def]
    """One number of the table, bilinear between its nodes."""
    one = np.float32(1.0)
    lower = cells[at, column] * (one - fy) + cells[at + 1, column] * fy
    upper = cells[at + ny, column] * (one - fy) + cells[at + ny + 1, column] * fy
    return lower + fx * (upper - lower)


@kernel
def _end_logit(cells, at, ny, fx, fy, speed, speeds):  # type: ignore[no-untyped-def]
    """Logit of ending here after a step at that speed; straight lines between the speeds of the table."""
    i = 0
    while i < len(speeds) - 2 and speed > speeds[i + 1]:
        i += 1
    share = min((speed - speeds[i]) / (speeds[i + 1] - speeds[i]), np.float32(1.0))
    slower = _between(cells, at, ny, fx, fy, 4 + i)
    faster = _between(cells, at, ny, fx, fy, 5 + i)
    return slower * (np.float32(1.0) - share) + faster * share


@kernel
def stride(  # type: ignore[no-untyped-def]
    table, speeds, dt_s, ramps, noise, pauses, ends, step, rows, normal, uniform, path
):
    """Steps of everyone who has not arrived; after each: who arrives, who pauses, who walks on.

    ``table`` is (cells, low, cell_m, shape); ``ramps`` (2, R) the shares of speed and noise in a walker's first steps;
    ``noise`` (variance a sensor adds, spread in a pause, part that stays along and across, most it may say, how much
    wider the fields' spreads are taken);
    ``pauses`` the chance to begin and to end one; ``ends`` (whether walks have ends, logit added to one in the first
    steps); ``step`` how many steps were taken before. ``rows`` (x, y, component, pace, eps_v, eps_u, pausing, ended,
    speed) are changed in place, and ``path`` (T, S, 2) holds where everyone is after each step. Returns how many steps
    it took until all had arrived, at most T.
    """
    cells, low, cell_m, shape = table
    x, y, component, pace, eps_v, eps_u, pausing, ended, speed = rows
    floor, still_m, keep_v, keep_u, clip, widen = noise
    ny = shape[2]
    part_v, part_u = np.float32(np.sqrt(1.0 - keep_v**2)), np.float32(np.sqrt(1.0 - keep_u**2))
    for t in range(len(path)):
        starting = step + t < ramps.shape[1]
        reach = np.float32(dt_s * (ramps[0, step + t] if starting else 1.0))
        steady = ramps[1, step + t] if starting else np.float32(1.0)
        going = 0
        for s in range(len(x)):
            if not ended[s]:
                at, fx, fy = _corner(x[s], y[s], low, cell_m, shape, component[s])
                ax, ay = _between(cells, at, ny, fx, fy, 0), _between(cells, at, ny, fx, fy, 1)
                length = np.sqrt(ax * ax + ay * ay + _FADE)
                m = length * pace[s] * reach
                sd_u = steady * np.sqrt((m * widen * _between(cells, at, ny, fx, fy, 2)) ** 2 + floor)
                sd_v = steady * np.sqrt((m * widen * _between(cells, at, ny, fx, fy, 3)) ** 2 + floor)
                if step + t > 0:
                    eps_v[s] = keep_v * min(max(eps_v[s], -clip), clip) + part_v * normal[t, 0, s]
                    eps_u[s] = keep_u * min(max(eps_u[s], -clip), clip) + part_u * normal[t, 1, s]
                along, across = max(m + sd_v * eps_v[s], np.float32(0.0)), sd_u * eps_u[s]
                if pausing[s]:
                    along, across = still_m * normal[t, 0, s], still_m * normal[t, 1, s]
                    eps_v[s], eps_u[s] = (along - m) / sd_v, across / sd_u
                dx, dy = (along * ax - across * ay) / length, (along * ay + across * ax) / length
                x[s] += dx
                y[s] += dy
                speed[s] = np.sqrt(dx * dx + dy * dy) / np.float32(dt_s)
                if ends[0]:
                    at, fx, fy = _corner(x[s], y[s], low, cell_m, shape, component[s])
                    logit = _end_logit(cells, at, ny, fx, fy, speed[s], speeds)
                    logit += ends[1] if starting else np.float32(0.0)
                    ended[s] = uniform[t, 0, s] * (np.float32(1.0) + np.exp(-logit)) < np.float32(1.0)
                pausing[s] = uniform[t, 1, s] > pauses[1] if pausing[s] else uniform[t, 1, s] < pauses[0]
                going += not ended[s]
            path[t, s, 0], path[t, s, 1] = x[s], y[s]
        if going == 0:
            return t + 1
    return len(path)


@kernel
def crossings(occupied, cells_xy, looks, crossed):  # type: ignore[no-untyped-def]
    """Mark in ``crossed`` (S,) the paths (S, K, 2), in cells, that touch an occupied cell anywhere."""
    height, width = occupied.shape
    for s in range(len(cells_xy)):
        for k in range(cells_xy.shape[1] - 1):
            x, y = cells_xy[s, k, 0], cells_xy[s, k, 1]
            dx, dy = cells_xy[s, k + 1, 0] - x, cells_xy[s, k + 1, 1] - y
            for look in range(looks):
                share = look / looks
                column, row = int(np.floor(x + share * dx)), int(np.floor(y + share * dy))
                if 0 <= row < height and 0 <= column < width and occupied[row, column]:
                    crossed[s] = True
                    break
            if crossed[s]:
                break


@kernel
def count_visits(cells_xy, visits):  # type: ignore[no-untyped-def]
    """Add one to each cell (H, W) that a path (S, K, 2), in cells, passes; once for each path, and none is skipped."""
    last = np.full(visits.shape, -1, dtype=np.int32)
    for s in range(len(cells_xy)):
        for k in range(cells_xy.shape[1]):
            x, y = cells_xy[s, k, 0], cells_xy[s, k, 1]
            after = min(k + 1, cells_xy.shape[1] - 1)
            dx, dy = cells_xy[s, after, 0] - x, cells_xy[s, after, 1] - y
            looks = int(np.ceil(max(abs(dx), abs(dy)))) + 1
            for look in range(looks):
                column, row = int(x + look / looks * dx), int(y + look / looks * dy)
                if last[row, column] != s:
                    last[row, column] = s
                    visits[row, column] += 1
