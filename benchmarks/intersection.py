"""How fast the intersection of Wasserstein balls is solved, and against what.

1. M = 20 sources of the paper's generator at its heuristic radii (the largest distance between two
   sources), where the paper prints a dash, and between these and
2. tight radii: 10% above the smallest common factor that leaves the intersection non-empty. Finding
   that factor is timed beside.
3. The same with large sources.
4. The full linear programme, all L n_i rows of every ball, given to HiGHS by cvxpy, where that
   still runs, as a ratio.
5. Growth with M and n_i at tight radii, as a fitted exponent.

Seconds are those of whole calls of `fit` or `smallest_factor`, distances between sources included,
beside the seconds of processor time: on a busy machine the first say little.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import cvxpy as cp
import numpy as np
from scipy.spatial.distance import cdist

from roodso import IntersectionDRO
from roodso.datasets import make_newsvendor_sources
from roodso.losses import Newsvendor

LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])


def timed(run: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a call returns, its seconds and its seconds of processor time."""
    wall, processor = time.perf_counter(), time.process_time()
    result = run()
    return result, time.perf_counter() - wall, time.process_time() - processor


def fit(shops: list[np.ndarray], radius: Any) -> tuple[IntersectionDRO, float, float]:
    return timed(lambda: IntersectionDRO(LOSS, radius, random_state=0).fit(shops))


def factor(shops: list[np.ndarray]) -> tuple[float, float, float]:
    """The smallest radius that leaves the intersection of equal balls non-empty."""
    return timed(lambda: IntersectionDRO(LOSS, 1.0, random_state=0).smallest_factor(shops))


def row(name: str, seed: int, radius: float, model: Any, wall: float, processor: float) -> list:
    s = model.solution_
    active, atoms = int((s.multipliers > 0).sum()), int((s.worst_case_weights > 1e-9).sum())
    seconds = f"{wall:.2f}", f"{processor:.2f}"
    return [name, seed, f"{radius:.3f}", *seconds, s.iterations, active, atoms, f"{s.gap:.0e}"]


def settings(sizes: tuple[int, int], seeds: Sequence[int], tight: bool) -> list[list]:
    """Heuristic radii, something between, tight radii; the search for the latter."""
    rows = []
    for seed in seeds:
        shops = make_newsvendor_sources(20, sizes, random_state=seed)
        model, *seconds = fit(shops, None)
        heuristic = float(model.radii_[0])
        rows.append(row("heuristic", seed, heuristic, model, *seconds))
        rows.append(row("0.8 of it", seed, 0.8 * heuristic, *fit(shops, 0.8 * heuristic)))
        if tight:
            smallest, wall, processor = factor(shops)
            rows.append(["(smallest)", seed, f"{smallest:.3f}", f"{wall:.2f}", f"{processor:.2f}"])
            rows.append(row("tight", seed, 1.1 * smallest, *fit(shops, 1.1 * smallest)))
    return rows


def full_programme(model: IntersectionDRO, shops: list[np.ndarray]) -> float:
    """All rows of every ball at once, vectorised, by cvxpy and HiGHS."""
    support, d = model.solution_.support, 2
    x, lam = cp.Variable(d, nonneg=True), cp.Variable(len(shops), nonneg=True)
    objective, account, constraints = lam @ model.radii_, 0, []
    ones = np.ones((len(support), 1))
    for i, shop in enumerate(shops):
        s, u = cp.Variable((1, len(shop))), cp.Variable((len(support), 1))
        constraints.append(u @ np.ones((1, len(shop))) <= ones @ s + lam[i] * cdist(support, shop))
        objective, account = objective + cp.sum(s) / len(shop), account + u[:, 0]
    p, c, h, b = (np.array(getattr(LOSS, t)) for t in ("price", "cost", "holding", "backorder"))
    over = cp.pos(ones @ cp.reshape(x, (1, d), order="C") - support)
    constraints.append((c - p - b) @ x + support @ b + over @ (p + b + h) <= account)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # cvxpy multiplies infinite bounds by 0
        return float(cp.Problem(cp.Minimize(objective), constraints).solve(solver="HIGHS"))


def against_full(cases: Sequence[tuple[int, int]]) -> list[list]:
    rows = []
    for n_sources, size in cases:
        shops = make_newsvendor_sources(n_sources, size, random_state=0)
        radius = 1.1 * factor(shops)[0]
        model, wall, _ = fit(shops, radius)
        value, full, _ = timed(lambda m=model, s=shops: full_programme(m, s))
        apart = abs(value - model.objective_) / max(1.0, abs(value))
        ratio = f"{full / wall:.1f}"
        rows.append([n_sources, size, f"{wall:.2f}", f"{full:.2f}", ratio, f"{apart:.0e}"])
    return rows


def growth(numbers: Sequence[int], sizes: Sequence[int]) -> list[list]:
    """Processor time at tight radii against M (n_i = 60) and against n_i (M = 5)."""
    rows = []
    for name, cases in (
        ("M", [(m, 60, m) for m in numbers]),
        ("n_i", [(5, n, n) for n in sizes]),
    ):
        seconds = []
        for n_sources, size, _ in cases:
            shops = make_newsvendor_sources(n_sources, size, random_state=0)
            radius = 1.1 * factor(shops)[0]
            seconds.append(fit(shops, radius)[2])
        values = [case[2] for case in cases]
        slope = np.polyfit(np.log(values), np.log(seconds), 1)[0]
        timings = ", ".join(f"{v}: {t:.2f}" for v, t in zip(values, seconds, strict=True))
        rows.append([name, timings, f"{slope:.1f}"])
    return rows


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print an aligned table."""
    cells = [[str(cell) for cell in r] + [""] * (len(header) - len(r)) for r in rows]
    widths = [max(len(r[k]) for r in [list(header), *cells]) for k in range(len(header))]
    print(f"\n{title}")
    for line in [list(header), ["-" * w for w in widths], *cells]:
        print("  ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)).rstrip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, small sizes")
    quick = parser.parse_args().quick
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    load = os.getloadavg()[0]
    print(f"load of the machine at the start: {load:.1f}")
    IntersectionDRO(LOSS, 3.0).fit(make_newsvendor_sources(2, 5, random_state=0))  # imports
    header = ["radii", "seed", "radius", "seconds", "cpu", "rounds", "balls", "atoms", "gap"]
    seeds = range(1) if quick else range(5)
    table("M = 20, n_i in [30, 100]", header, settings((30, 100), seeds, True))
    if not quick:
        table("M = 20, n_i in [200, 500]", header, settings((200, 500), range(3), False))
        table("the same, tight", header, settings((200, 500), range(1), True)[2:])
    # On Linux the peak is in kilobytes.
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"\npeak memory so far: {peak:.2f} GB")
    cases = [(2, 20), (3, 20)] if quick else [(2, 30), (2, 60), (2, 100), (3, 30), (3, 60), (5, 30)]
    header = ["M", "n_i", "seconds", "full programme", "ratio", "values apart"]
    table("Against the full programme (tight radii)", header, against_full(cases))
    numbers, sizes = ((2, 5), (20, 40)) if quick else ((5, 10, 20, 40), (30, 60, 120, 240))
    table("Growth (tight radii)", ["of", "cpu seconds", "exponent"], growth(numbers, sizes))


if __name__ == "__main__":
    main()
