"""The rivals' speed: against the naive formulation where that still runs, then at full size.

Times are of one core and one run; ratios are within the run. Usage: python benchmarks/rivals.py
[--quick].
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import cvxpy as cp
import numpy as np
import ot

from roodso import SAA, BarycenterSAA, ConvexHullDRO, WassersteinDRO
from roodso.datasets import make_newsvendor_sources
from roodso.losses import CVaRPortfolio, Newsvendor
from roodso.methods.barycenter import wasserstein_barycenter
from roodso.sources import Sources

P, C, H, B = (np.array(t, float) for t in ([50, 40], [20, 15], [5, 3], [10, 8]))
LOSS = Newsvendor(P, C, H, B)
FUND = CVaRPortfolio()


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def funds(n_sources: int, n: int, d: int) -> list[Any]:
    rng = np.random.default_rng(0)
    return [0.02 * rng.standard_t(4, (n, d)) + 0.01 * rng.random(d) for _ in range(n_sources)]


def naive_hull(tables: list[Any]) -> float:
    """Group DRO with one constraint a source, as written, through cvxpy."""
    x, worst = cp.Variable(2, nonneg=True), cp.Variable()
    rows = []
    for xi in tables:
        order = np.ones((len(xi), 1)) @ cp.reshape(x, (1, 2), order="C")
        sales = -cp.minimum(order, xi) @ P
        costs = sales + C @ x + cp.pos(order - xi) @ H + cp.pos(xi - order) @ B
        rows.append(cp.sum(costs) / len(xi) <= worst)
    return float(cp.Problem(cp.Minimize(worst), rows).solve(solver="CLARABEL"))


def naive_ball(xi: Any, radius: float, box: tuple[Any, Any]) -> float:
    """The conic programme of a 1-Wasserstein ball in a box, one cone a sample and piece."""
    n, d = xi.shape
    x, lam, s = cp.Variable(d, nonneg=True), cp.Variable(nonneg=True), cp.Variable(n)
    rows = []
    for over in itertools.product([False, True], repeat=d):
        slope = np.where(over, -(P + H), B)
        constant = np.where(over, C + H, C - P - B) @ x
        up, down = cp.Variable((n, d), nonneg=True), cp.Variable((n, d), nonneg=True)
        held = cp.sum(cp.multiply(up, box[1] - xi) + cp.multiply(down, xi - box[0]), axis=1)
        rows.append(constant + xi @ slope + held <= s)
        rows.append(cp.norm(up - down - slope[None], 2, axis=1) <= lam)
    problem = cp.Problem(cp.Minimize(radius * lam + cp.sum(s) / n), rows)
    return float(problem.solve(solver="CLARABEL"))


def compare(name: str, naive: Callable[[], float], model: Callable[[], Any]) -> None:
    slow, value = timed(naive)
    fast, fitted = timed(model)
    differ = abs(value - fitted.objective_) / max(1.0, abs(value))
    print(
        f"{name:44s} naive {slow:8.2f} s   ours {fast:7.3f} s   ratio {slow / fast:7.1f}   "
        f"relative difference {differ:.0e}"
    )


def alone(name: str, model: Callable[[], Any]) -> None:
    seconds, fitted = timed(model)
    s = fitted.solution_
    print(f"{name:44s} {seconds:7.2f} s   {s.iterations:3d} rounds   gap {s.gap:.0e}   {s.status}")


def barycenters(sizes: list[int]) -> None:
    """Time against N at M = 10; POT's own loop (normal start, its stopping rule) beside it."""
    times, totals = [], []
    for n in sizes:
        tables = make_newsvendor_sources(10, (n // 2, 3 * n // 2), random_state=0)
        sources = Sources.from_data(tables)
        weights = [np.full(len(table), 1 / len(table)) for table in tables]
        start = np.random.default_rng(0).normal(size=(sources.n_samples // 10, 2))
        seconds, model = timed(partial(BarycenterSAA(LOSS, random_state=0).fit, tables))
        loop = partial(ot.lp.free_support_barycenter, tables, weights, start, log=True)
        theirs, (atoms, log) = timed(loop)
        steps = len(log["displacement_square_norms"])
        ends = [
            wasserstein_barycenter(sources, at, max_iter=1).objective
            for at in (model.barycenter_, atoms)
        ]
        times.append(seconds)
        totals.append(sources.n_samples)
        print(
            f"N = {sources.n_samples:6d}   BarycenterSAA {seconds:7.2f} s, {model.n_iter_:3d} "
            f"iterations, objective {ends[0]:.6f}   POT's loop {theirs:7.2f} s, {steps:3d}, "
            f"{ends[1]:.6f}   ratio {theirs / seconds:.1f}"
        )
    growth = np.polyfit(np.log(totals), np.log(times), 1)[0]
    print(f"time grows like N^{growth:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    quick = parser.parse_args().quick
    print("Against the naive formulation through cvxpy (Clarabel)")
    shops = make_newsvendor_sources(20, 200 if quick else 1000, random_state=0)
    compare(
        f"ConvexHullDRO, M = 20, N = {sum(map(len, shops))}",
        lambda: naive_hull(shops),
        lambda: ConvexHullDRO(LOSS).fit(shops),
    )
    few = make_newsvendor_sources(10, 20 if quick else 200, random_state=0)
    xi = np.vstack(few)
    compare(
        f"WassersteinDRO in a box, 2-norm, N = {len(xi)}",
        lambda: naive_ball(xi, 0.5, (xi.min(axis=0), xi.max(axis=0))),
        lambda: WassersteinDRO(LOSS, radius=0.5, support="box").fit(few),
    )
    n = 500 if quick else 5000
    print(f"\nAt N = {20 * n}, M = 20")
    shops, returns = make_newsvendor_sources(20, n, random_state=0), funds(20, n, 10)
    alone("SAA, newsvendor", lambda: SAA(LOSS).fit(shops))
    alone("SAA, portfolio of 10", lambda: SAA(FUND).fit(returns))
    alone("ConvexHullDRO, newsvendor", lambda: ConvexHullDRO(LOSS).fit(shops))
    alone("ConvexHullDRO, tail 0.3, newsvendor", lambda: ConvexHullDRO(LOSS, tail=0.3).fit(shops))
    alone("ConvexHullDRO, portfolio of 10", lambda: ConvexHullDRO(FUND).fit(returns))
    alone("WassersteinDRO, newsvendor", lambda: WassersteinDRO(LOSS).fit(shops))
    alone("WassersteinDRO, portfolio", lambda: WassersteinDRO(FUND, radius=0.001).fit(returns))
    for norm in (1, 2, np.inf):
        box: dict[str, Any] = {"norm": norm, "support": "box"}
        shop, fund = (
            WassersteinDRO(LOSS, radius=0.5, **box),
            WassersteinDRO(FUND, radius=0.001, **box),
        )
        alone(f"WassersteinDRO in a box, {norm}-norm, newsvendor", partial(shop.fit, shops))
        alone(f"WassersteinDRO in a box, {norm}-norm, portfolio", partial(fund.fit, returns))
    print("\nBarycenterSAA, M = 10")
    barycenters([20, 50, 100] if quick else [50, 100, 200, 400])


if __name__ == "__main__":
    main()
