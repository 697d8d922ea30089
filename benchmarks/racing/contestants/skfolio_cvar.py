"""Distributionally robust CVaR of skfolio.

Its ball is that of the 1-Wasserstein distance with the 1-norm over returns above -100 %.
"""

from __future__ import annotations

from typing import Any

from skfolio.optimization import DistributionallyRobustCVaR
from worker import serve


def solve(data: Any, options: Any) -> dict[str, Any]:
    model = DistributionallyRobustCVaR(
        risk_aversion=float(data["risk_aversion"]),
        cvar_beta=1.0 - float(data["tail"]),
        wasserstein_ball_radius=float(data["radius"]),
        save_problem=True,
    )
    model.fit(data["returns"])
    return {"value": float(model.problem_.value), "decision": model.weights_.tolist()}


if __name__ == "__main__":
    serve(solve, ["skfolio", "cvxpy", "clarabel"])
