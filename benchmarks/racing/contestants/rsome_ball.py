"""The MMD ball stated by hand in RSOME: an ambiguity set on the scenarios' probabilities.

Every support point is a scenario with one realisation; the probabilities p of the scenarios are
constrained by |F'p - F'w| <= R. The shortage and surplus terms adapt to the scenario. ECOS is the
open solver for cones that RSOME speaks to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from rsome import E, dro, eco_solver, norm
from scipy.linalg.lapack import dpstrf
from scipy.spatial.distance import cdist
from worker import serve

PRICE, COST, HOLDING, BACKORDER = (
    np.array(terms, float) for terms in ([50, 40], [20, 15], [5, 3], [10, 8])
)
RANK = 100


def solve(data: Any, options: Any) -> dict[str, Any]:
    v, w, R, sigma = (data[name] for name in ("support", "weights", "radius", "bandwidth"))
    K = np.exp(-cdist(v, v, "sqeuclidean") / (2 * sigma**2))
    lower, pivots, rank, _ = dpstrf(K, lower=1, tol=1e-13)
    F = np.empty((len(v), min(rank, RANK)))
    F[pivots - 1] = np.tril(lower)[:, : F.shape[1]]
    model = dro.Model(len(v))
    x, over, demand = model.dvar(2), model.dvar(2), model.rvar(2)
    ball = model.ambiguity()
    for s in range(len(v)):
        over.adapt(s)
        ball[s].suppset(demand == v[s])
    ball.probset(norm(F.T @ model.p - F.T @ w) <= float(R))
    cost = (COST - PRICE - BACKORDER) @ x + BACKORDER @ demand
    model.minsup(E(cost + (PRICE + BACKORDER + HOLDING) @ over), ball)
    model.st(over >= x - demand, over >= 0, x >= 0)
    model.solve(eco_solver, display=False)
    return {"value": float(model.get()), "decision": np.asarray(x.get()).ravel().tolist()}


if __name__ == "__main__":
    serve(solve, ["rsome", "ecos"])
