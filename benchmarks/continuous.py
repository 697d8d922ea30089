"""What the worst case over the whole box costs: `python benchmarks/continuous.py`.

For one to three columns and every kernel, on sources that lie near each other (which leaves a
witness to speak of; on the paper's generator the ball is so large that the worst case sits in the
box's corners, which is easy) and on the paper's generator: seconds of a fit without and with
``continuous``, rounds and points added, cells of the last proof, and what was proved, as a share of
the objective. One line with four columns and more shows the search alone.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np

from roodso import RooDSO
from roodso.exceptions import ConvergenceWarning
from roodso.losses import Newsvendor

KERNELS = ["rbf", "matern52", "matern32", "laplace"]
DATA = {"near": (1.8, 2.2, 0.3), "paper": (1.0, 3.0, 0.1)}


def sources(kind: str, d: int, n_samples: int) -> list[np.ndarray]:
    """Twenty Gaussian sources with means in a box."""
    low, high, deviation = DATA[kind]
    rng = np.random.default_rng(d)
    centers = rng.uniform(low, high, (20, d))
    return [center + deviation * rng.standard_normal((n_samples, d)) for center in centers]


def newsvendor(d: int) -> Newsvendor:
    """The paper's costs, spread over d items."""
    ends = {"price": (50, 40), "cost": (20, 15), "holding": (5, 3), "backorder": (10, 8)}
    return Newsvendor(**{name: np.linspace(*pair, d) for name, pair in ends.items()})


def fit(data: list[np.ndarray], d: int, **parameters: Any) -> tuple[RooDSO, float]:
    """A fitted model, and the seconds it took."""
    model = RooDSO(newsvendor(d), random_state=0, time_limit=120.0, **parameters)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data)
    return model, time.perf_counter() - started


def line(kind: str, d: int, kernel: str, n_samples: int) -> str:
    """One row of the table."""
    data, nu = sources(kind, d, n_samples), 0.2 if kind == "near" else 0.9
    _, without = fit(data, d, nu=nu, kernel=kernel)
    how = "prove" if d <= 3 else "search"
    model, seconds = fit(data, d, nu=nu, kernel=kernel, continuous=how)
    box = model.solution_.box
    assert box is not None
    size = max(1.0, abs(model.objective_))
    what = (box.upper_bound - model.objective_) / size
    radius = model.uncertainty_set_.radius
    return (
        f"{kind:6} {d:2} {kernel:9} {n_samples:5} {radius:6.2f} {without:8.2f} {seconds:8.2f} "
        f"{box.rounds:7} {box.points_added:7} {box.cells:8} {box.violation_found / size:9.1e} "
        f"{what:9.1e}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200, help="samples of a source")
    parser.add_argument("--columns", type=int, nargs="+", default=[1, 2, 3, 5, 10])
    parser.add_argument("--kernels", nargs="+", default=KERNELS[:3])
    chosen = parser.parse_args()
    names = ("rounds", "points", "cells", "found", "proved")
    head = f"{'data':6} {'d':>2} {'kernel':9} {'n':>5} {'radius':>6} {'fit (s)':>8} {'box (s)':>8} "
    print(head + "{:>7} {:>7} {:>8} {:>9} {:>9}".format(*names))
    for kind in DATA:
        for d in chosen.columns:
            for kernel in chosen.kernels:
                print(line(kind, d, kernel, chosen.samples), flush=True)


if __name__ == "__main__":
    main()
