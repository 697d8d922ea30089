"""How fast the core is, as ratios within one run: `make bench`.

1. A whole `fit` against one bare pass over the same kernel values, which no exact method can do
   without.
2. Nineteen values of nu through one pass against a single fit.
3. A fit against the full programme (eq:discretized_SMC_DRO_SIP_SOCP) given to Clarabel by cvxpy.
4. Growth of the fit with N, M and d.
5. Peak memory at N = 20,000.

Each figure is the best of several repetitions after a warm-up. Nothing here decides a test.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np

from roodso import RooDSO
from roodso.embedding import source_means
from roodso.losses import Newsvendor
from roodso.model_selection import select

N_SOURCES, N_SAMPLES, N_SUPPORT = 20, 1000, 1000
NUS = [round(0.05 * k, 2) for k in range(1, 20)]


def sources(d: int, n_sources: int = N_SOURCES, n_samples: int = N_SAMPLES) -> list[np.ndarray]:
    """Gaussian sources of demand for d items, means uniform on [1, 3] as in the paper."""
    rng = np.random.default_rng(d)
    centers = rng.uniform(1, 3, (n_sources, d))
    deviations = 0.1 * rng.uniform(0.7, 1.4, n_sources)
    return [
        c + s * rng.standard_normal((n_samples, d))
        for c, s in zip(centers, deviations, strict=True)
    ]


def newsvendor(d: int) -> Newsvendor:
    """The paper's costs, spread over d items."""
    ends = {"price": (50, 40), "cost": (20, 15), "holding": (5, 3), "backorder": (10, 8)}
    return Newsvendor(**{name: np.linspace(*pair, d) for name, pair in ends.items()})


def best_time(run: Callable[[], Any], repetitions: int) -> float:
    """Seconds of the fastest repetition, after one that does not count."""
    run()
    times = []
    for _ in range(repetitions):
        started = time.perf_counter()
        run()
        times.append(time.perf_counter() - started)
    return min(times)


def fit_against_pass(d: int, repetitions: int) -> list[Any]:
    """One row: seconds of a fit and of the bare pass, their ratio, rounds and gap."""
    X, model = sources(d), RooDSO(newsvendor(d), n_support=N_SUPPORT, random_state=0)
    fit = best_time(lambda: model.fit(X), repetitions)
    space = model.uncertainty_set_.space
    points = space.coordinates(model.solution_.support)
    samples, drawn = np.split(points, [N_SOURCES * N_SAMPLES])
    codes = np.repeat(np.arange(N_SOURCES), N_SAMPLES)
    cores = os.cpu_count() or 1
    bare = best_time(
        lambda: source_means(space.kernel, samples, codes, N_SOURCES, drawn, n_jobs=cores),
        repetitions,
    )
    s = model.solution_
    return [d, f"{fit:.2f}", f"{bare:.2f}", f"{fit / bare:.2f}", s.iterations, f"{s.gap:.1e}"]


def path_against_fit(d: int, repetitions: int) -> list[Any]:
    """One row: seconds of a path over nu and of one fit, their ratio, the largest gap."""
    X, model = sources(d), RooDSO(newsvendor(d), n_support=N_SUPPORT, random_state=0)
    fit = best_time(lambda: model.fit(X), repetitions)
    path = best_time(lambda: model.path(X, NUS), repetitions)
    gap = max(m.solution_.gap for m in model.path(X, NUS))
    return [d, f"{path:.2f}", f"{fit:.2f}", f"{path / fit:.2f}", f"{gap:.1e}"]


def select_against_fit(n_sources: int, n_samples: int, repetitions: int) -> list[Any]:
    """One row: seconds of `select` over nu, leaving one source out, and of one fit; the ratio."""
    X = sources(2, n_sources, n_samples)
    model = RooDSO(newsvendor(2), n_support=N_SUPPORT, random_state=0)
    fit = best_time(lambda: model.fit(X), repetitions)
    chosen = best_time(lambda: select(model, {"nu": NUS}, X), repetitions)
    fits = len(NUS) * n_sources
    return [n_sources, n_samples, fits, f"{chosen:.2f}", f"{fit:.2f}", f"{chosen / fit:.1f}"]


def full_programme(model: RooDSO, tables: Sequence[np.ndarray]) -> float:
    """The whole programme over the model's ball, vectorised, by cvxpy and Clarabel."""
    support, ball, loss = model.solution_.support, model.uncertainty_set_, model.loss
    K = ball.space(support, support)
    eigenvalues, vectors = np.linalg.eigh(K)
    keep = eigenvalues > 1e-13 * eigenvalues.max()
    root = np.sqrt(eigenvalues[keep])
    F = vectors[:, keep] * root  # g(v) = F y and |g| = |y|
    parts = [
        w * ball.space(support, t).mean(axis=1) for w, t in zip(ball.weights, tables, strict=True)
    ]
    inner = (vectors[:, keep] / root).T @ sum(parts)  # <g, mu_c> = inner'y
    x, y, beta = cp.Variable(support.shape[1]), cp.Variable(F.shape[1]), cp.Variable()
    row = cp.reshape(x, (1, support.shape[1]), order="C")
    over = cp.pos(np.ones((len(support), 1)) @ row - support)
    costs = (
        (loss.cost - loss.price - loss.backorder) @ x
        + support @ loss.backorder
        + over @ (loss.price + loss.backorder + loss.holding)
    )
    rows = [costs <= F @ y + beta, x >= 0]
    problem = cp.Problem(cp.Minimize(inner @ y + ball.radius * cp.norm(y) + beta), rows)
    return float(problem.solve(solver="CLARABEL"))


def fit_against_full(n_points: int, repetitions: int) -> tuple[list[Any], float, float]:
    """One row for N + J = n_points, half of them drawn; and the seconds behind it."""
    X = sources(2, 10, n_points // 20)
    model = RooDSO(newsvendor(2), n_support=n_points // 2, random_state=0)
    fit = best_time(lambda: model.fit(X), repetitions)
    started = time.perf_counter()
    value = full_programme(model, X)
    full = time.perf_counter() - started
    apart = abs(value - model.objective_) / abs(value)
    row = [n_points, f"{full:.2f}", f"{fit:.4f}", f"{full / fit:.0f}", f"{apart:.0e}"]
    return row, full, fit


def growth(name: str, sizes: Sequence[int], seconds: Sequence[float]) -> str:
    """Seconds as a power of a size, fitted on logarithms."""
    slope = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    return f"{name}^{slope:.2f}"


def fit_growth(repetitions: int) -> list[list[Any]]:
    """Rows: what grows, its sizes, seconds of a fit at each, and the exponent."""
    base = {"d": 5, "n_sources": 20, "n_samples": 500}
    settings = {
        "N (n a source)": ("n_samples", [250, 500, 1000, 2000]),
        "M (same N)": ("n_sources", [5, 10, 20, 40, 80]),
        "d": ("d", [2, 4, 8, 16]),
    }
    rows = []
    for name, (parameter, sizes) in settings.items():
        seconds = []
        for size in sizes:
            shape = base | {parameter: size}
            if parameter == "n_sources":
                shape["n_samples"] = 10_000 // size
            X, model = sources(**shape), RooDSO(newsvendor(shape["d"]), random_state=0)
            seconds.append(best_time(lambda m=model, X=X: m.fit(X), repetitions))
        listed = " ".join(f"{s:.2f}" for s in seconds)
        rows.append([name, str(sizes), listed, growth(name[0], sizes, seconds)])
    return rows


def peak_memory() -> str:
    """Peak resident memory of a process of its own that fits N = 20,000, d = 10 (Linux)."""
    code = (
        "from core import RooDSO, newsvendor, resident_peak, sources\n"
        "idle = resident_peak()\n"
        "RooDSO(newsvendor(10), n_support=1000, random_state=0).fit(sources(10))\n"
        "print(idle, resident_peak())\n"
    )
    here = Path(__file__).parent
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=here
    )
    idle, peak = (int(word) / 1024 for word in run.stdout.split())
    return f"peak {peak:.0f} MiB, of which {idle:.0f} MiB before the fit; N x N would be 3052 MiB"


def resident_peak() -> int:
    """Peak resident memory of this process in KiB; getrusage would count the parent's too."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    raise RuntimeError("no VmHWM")


def print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table in Markdown."""
    print(f"\n### {title}\n")
    print("| " + " | ".join(header) + " |")
    print("|" + " --- |" * len(header))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def main(repetitions: int) -> None:
    """Print all tables."""
    warnings.simplefilter("ignore")
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, ",
        end="",
    )
    print(f"NumPy {np.__version__}, best of {repetitions}")
    shape = f"M = {N_SOURCES}, n = {N_SAMPLES}, J = {N_SUPPORT}"
    print_table(
        f"A whole fit against one bare pass over the same kernel values ({shape})",
        ["d", "fit (s)", "pass (s)", "ratio", "rounds", "gap"],
        [fit_against_pass(d, repetitions) for d in (2, 10, 30)],
    )
    print_table(
        f"Nineteen values of nu against one fit ({shape})",
        ["d", "path (s)", "fit (s)", "ratio", "largest gap"],
        [path_against_fit(d, repetitions) for d in (2, 10)],
    )
    print_table(
        f"Nineteen values of nu, leaving one source out, against one fit (d = 2, J = {N_SUPPORT})",
        ["M", "n", "fits", "select (s)", "fit (s)", "ratio"],
        [select_against_fit(M, n, repetitions) for M, n in ((20, 350), (20, 1000), (10, 4000))],
    )
    sizes = [400, 800, 1600]
    results = [fit_against_full(size, repetitions) for size in sizes]
    print_table(
        "The full programme by cvxpy and Clarabel against a fit (d = 2, M = 10)",
        ["N + J", "full (s)", "fit (s)", "ratio", "relative difference"],
        [row for row, _, _ in results],
    )
    full, fit = ([result[k] for result in results] for k in (1, 2))
    print(f"\nfull: {growth('L', sizes, full)}, fit: {growth('L', sizes, fit)}")
    print_table(
        "Growth of the fit (J = 200; d = 5, M = 20, n = 500 but for what varies)",
        ["what grows", "sizes", "seconds", "growth"],
        fit_growth(repetitions),
    )
    print(f"\nMemory at N = 20,000, J = 1000, d = 10: {peak_memory()}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=3)
    main(parser.parse_args().repetitions)
