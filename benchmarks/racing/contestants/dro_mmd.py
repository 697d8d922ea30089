"""MMD-DRO of the package ``dro``: its exact path and its default, the Nystroem features.

It draws the support points that it adds to the data; they are replaced by the race's own. The
newsvendor is a loss of the user's own, put in the place of ``_cvx_loss`` as the package's
documentation of custom losses has it; the default path never calls it, which is checked. Least
absolute deviations are built in.
"""

from __future__ import annotations

from typing import Any
from unittest import mock

import cvxpy as cp
import numpy as np
from dro.linear_model import MMD_DRO
from worker import OtherProblemError, serve

PRICE, COST, HOLDING, BACKORDER = (
    np.array(terms, float) for terms in ([50, 40], [20, 15], [5, 3], [10, 8])
)


def solve(data: Any, options: Any) -> dict[str, Any]:
    n = int(data["n_samples"])
    samples, drawn = np.split(data["support"], [n])
    custom = str(data["loss"]) == "newsvendor"
    model = MMD_DRO(
        2 if custom else 1,
        model_type="lad",
        sampling_method="hull",
        kernel_gamma=float(1 / (2 * data["bandwidth"] ** 2)),
    )
    model.update({"eta": float(data["radius"])})
    calls = 0

    def newsvendor(xi: Any, y: Any, theta: Any, b: Any) -> Any:
        nonlocal calls
        calls += 1
        cost = (COST - PRICE - BACKORDER) @ theta + BACKORDER @ xi
        # Orders have no sign here; at the optimum they are positive.
        return cost + cp.pos(theta - xi) @ (PRICE + BACKORDER + HOLDING) + 0 * b

    if custom:
        model._cvx_loss = newsvendor
        X, y, draws = samples, np.zeros(n), [drawn, np.zeros((n, 1))]
    else:
        X, y, draws = samples[:, :1], samples[:, 1], [drawn[:, :1], drawn[:, 1:]]
    with mock.patch("numpy.random.uniform", side_effect=draws):
        model.fit(X, y, accelerate=options["accelerate"])
    if custom and not calls:
        raise OtherProblemError(
            f"the loss was called 0 times; least absolute deviations were fitted instead, without "
            f"a word (theta = {np.round(model.theta, 4).tolist()})"
        )
    decision = model.theta if custom else [*model.theta, model.b]
    return {"value": model.robust_obj, "decision": np.ravel(decision).astype(float).tolist()}


if __name__ == "__main__":
    serve(solve, ["dro", "cvxpy", "clarabel"])
