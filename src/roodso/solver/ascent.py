r"""Search for where a cost exceeds the witness: ascent from many starts, all at once.

h (`roodso.solver.excess`) is maximised over a box by projected gradient steps whose lengths are
Barzilai and Borwein's, start by start; a step that gains too little is shortened. Each step
evaluates all starts that still move in one pass over kernel values: against one run of SciPy's
L-BFGS-B per start, as good and some twenty times as fast.

Steps are taken in the kernel's coordinates, in which g bends alike in all directions. Kinks of f do
not hold the ascent up: they are convex, so h rises from them along any subgradient.
"""

from __future__ import annotations

import numpy as np

from roodso._typing import Array
from roodso.kernels import Kernel
from roodso.solver.excess import Excess

__all__ = ["ascend"]

_STEPS = 200
#: Share of the gain that the slope promises which a step must reach, and the cut if it does not.
_ENOUGH, _SHORTEN = 1e-4, 0.25
#: First step, as a share of the distance over which the kernel falls by a tenth.
_FIRST = 0.25


def ascend(excess: Excess, starts: Array, tol: float) -> tuple[Array, Array]:
    """Local maxima of h reached from ``starts`` (m, d), and h there (m,).

    Goes on until no step promises to gain more than ``tol``.
    """
    scale = excess.witness.g.space.coordinates.scale
    xi = np.clip(starts, excess.lower, excess.upper)
    value, slope = excess.value_and_slope(xi)
    slope *= scale  # with respect to the kernel's coordinates
    across = float(np.linalg.norm((excess.upper - excess.lower) / scale))
    step = _step_of(_FIRST * _length(excess.witness.g.space.kernel, across), slope)
    for _ in range(_STEPS):
        target = np.clip(xi + step[:, None] * slope * scale, excess.lower, excess.upper)
        move = (target - xi) / scale
        promised = np.einsum("md,md->m", slope, move)
        moving = np.flatnonzero(promised > tol)
        if len(moving) == 0:
            break
        new_value, new_slope = excess.value_and_slope(target[moving])
        new_slope *= scale
        better = new_value >= value[moving] + _ENOUGH * promised[moving]
        step[moving[~better]] *= _SHORTEN
        moved = moving[better]
        # Barzilai and Borwein: |move|^2 over move'(change of slope), where h bends downwards.
        bend = -np.einsum("md,md->m", move[moved], new_slope[better] - slope[moved])
        square = np.einsum("md,md->m", move[moved], move[moved])
        xi[moved], value[moved], slope[moved] = target[moved], new_value[better], new_slope[better]
        newton = np.divide(square, bend, out=4.0 * step[moved], where=bend > 0)
        step[moved] = np.minimum(newton, _step_of(across, slope[moved]))
    return xi, value


def _step_of(length: float, slope: Array) -> Array:
    """Step lengths that move by ``length``."""
    steep = np.linalg.norm(slope, axis=1)
    return np.divide(length, steep, out=np.ones(len(slope)), where=steep > 0)


def _length(kernel: Kernel, length: float) -> float:
    """Distance over which the kernel falls by a tenth, by halving ``length``."""
    while length > 0 and kernel.profile(np.array([length]))[0][0] < 0.9 * kernel.bound:
        length *= 0.5
    return length
