"""Group DRO of the package ``dro``, with the newsvendor in the place of its loss."""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
from dro.linear_model import GroupDRO
from worker import serve

PRICE, COST, HOLDING, BACKORDER = (
    np.array(terms, float) for terms in ([50, 40], [20, 15], [5, 3], [10, 8])
)


def newsvendor(X: Any, y: Any, theta: Any, b: Any) -> Any:
    """Cost of every row; the third column is the group."""
    xi, x = X[:, :2], theta[:2]
    order = np.ones((len(xi), 1)) @ cp.reshape(x, (1, 2), order="C")
    over = cp.pos(order - xi) @ (PRICE + BACKORDER + HOLDING)
    # The group's own coefficient must not be free, or the programme has no bounded solution set.
    return (COST - PRICE - BACKORDER) @ x + xi @ BACKORDER + over + cp.abs(theta[2])


def solve(data: Any, options: Any) -> dict[str, Any]:
    X = np.column_stack([data["samples"], data["codes"]])
    model = GroupDRO(3, group_idx=2, model_type="lad", fit_intercept=False)
    model._cvx_loss = newsvendor
    model.fit(X, np.zeros(len(X)))
    return {"value": model.robust_loss_, "decision": model.theta[:2].tolist()}


if __name__ == "__main__":
    serve(solve, ["dro", "cvxpy", "clarabel"])
