"""Random instances of the core's programme, with the same instance in the references' words."""

from __future__ import annotations

from dataclasses import dataclass, field

import cvxpy as cp
import numpy as np

from reference import programme as reference
from reference.checker import Claim
from reference.kernels import describe
from roodso import RooDSO
from roodso.kernels import RBF, Laplace, Matern52
from roodso.losses import ConvexLoss, CVaRPortfolio, Newsvendor
from roodso.sets import ThickenedHull

KERNELS = [
    "rbf",
    "laplace",
    "matern32",
    "matern52",
    RBF() + Laplace(),
    Matern52() * RBF(2.0),
]
LOSSES = [
    "newsvendor",
    "newsvendor with side constraints",
    "portfolio",
    "quadratic by callables",
    "quadratic by cvxpy",
    "log-sum-exp by cvxpy",
]


@dataclass
class Instance:
    """A programme to solve and what the references need to know of it."""

    seed: int
    kind: str
    kernel: object
    nu: float
    tables: list = field(repr=False)
    loss: object = field(repr=False)
    scale: bool = False
    gamma: float = 0.0

    @property
    def d(self) -> int:
        return self.tables[0].shape[1]

    def model(self, **changes) -> RooDSO:
        """The library's model of the instance."""
        parameters = {
            "nu": self.nu,
            "kernel": self.kernel,
            "gamma": self.gamma,
            "scale": self.scale,
            "n_support": 20,
            "random_state": self.seed,
            "n_jobs": 1,
        }
        return RooDSO(self.loss, **(parameters | changes))

    def hull_model(self, **parameters) -> RooDSO:
        """The same over a thickened hull with these parameters."""
        learner = ThickenedHull(**parameters, kernel=self.kernel, scale=self.scale)
        changes = {"kernel": "rbf", "gamma": 0.0, "scale": False, "nu": 0.2}
        return self.model(uncertainty_set=learner, **changes)

    def costs(self, points):
        """The references' costs at points: the list, the decision variable and constraints."""
        x, feasible = cp.Variable(self.d), []
        if self.kind.startswith("newsvendor"):
            loss = self.loss
            terms = (loss.price, loss.cost, loss.holding, loss.backorder)
            feasible = [x >= 0]
            if loss.A_ub is not None:
                feasible.append(loss.A_ub @ x <= loss.b_ub)
            return reference.newsvendor(x, points, *terms), x, feasible
        if self.kind == "portfolio":
            tau = cp.Variable()
            a, t = self.loss.risk_aversion, self.loss.tail
            feasible = [x >= 0, cp.sum(x) == 1]
            return reference.portfolio(x, tau, points, a, t), x, feasible
        feasible = [x >= self.loss.lower, x <= self.loss.upper]
        costs = reference.quadratic if "quadratic" in self.kind else reference.log_sum_exp
        return costs(x, points), x, feasible

    def values(self, z, points):
        """Costs of a decision, z = (x, internal variables), in plain numpy."""
        if self.kind.startswith("newsvendor"):
            p, c, h, b = (
                getattr(self.loss, name) for name in ("price", "cost", "holding", "backorder")
            )
            over, under = np.maximum(z - points, 0), np.maximum(points - z, 0)
            return -np.minimum(z, points) @ p + z @ c + over @ h + under @ b
        if self.kind == "portfolio":
            x, tau = z[:-1], z[-1]
            excess = np.maximum(-points @ x - tau, 0) / self.loss.tail
            return -points @ x + self.loss.risk_aversion * (tau + excess)
        if "quadratic" in self.kind:
            return ((z - points) ** 2).sum(axis=1)
        return np.log(np.exp(points * z).sum(axis=1))

    def minimum(self, points, weights) -> float:
        """The least mean cost any feasible decision has."""
        costs, _, feasible = self.costs(points)
        mean = sum(w * cost for w, cost in zip(weights, costs, strict=True))
        return reference.accurate_value(cp.Problem(cp.Minimize(mean), feasible))

    def optimum(self, model, solver="CLARABEL") -> float:
        """The whole programme's optimal value, by the reference, over the model's set."""
        support, learned = model.solution_.support, model.uncertainty_set_
        costs, _, feasible = self.costs(support)
        scale = learned.space.coordinates.scale
        stated = costs, feasible, support / scale, [table / scale for table in self.tables]
        kernel = describe(learned.kernel)
        if learned.n_anchors > 1:
            return reference.hull_programme(
                *stated, learned.mixtures, learned.cap, learned.radius, kernel
            )
        return reference.full_programme(*stated, learned.weights, learned.radius, kernel, solver)

    def claim(self, model) -> Claim:
        """What the model claims, for the independent checker."""
        s, ball = model.solution_, model.uncertainty_set_
        return Claim(
            tables=self.tables,
            support=s.support,
            source_weights=s.mixture @ ball.mixtures,
            cap=ball.cap if ball.n_anchors > 1 else None,
            radius=ball.radius,
            kernel=describe(ball.kernel),
            values=self.values,
            minimum=self.minimum,
            decision=np.concatenate([s.decision, s.internal]),
            weights=s.worst_case_weights,
            witness_points=s.witness.g.points,
            witness_coefficients=s.witness.g.coefficients,
            beta=s.witness.beta,
            upper=s.upper_bound,
            lower=s.lower_bound,
            scale=ball.space.coordinates.scale,
        )


def draw(seed: int) -> Instance:
    """One random instance: unequal sources, any kernel and loss, sometimes degenerate data."""
    rng = np.random.default_rng(seed)
    kind = LOSSES[seed % len(LOSSES)]
    kernel = KERNELS[(seed // len(LOSSES)) % len(KERNELS)]
    d, n_sources = int(rng.integers(1, 7)), int(rng.integers(2, 8))
    size = 0.05 if kind == "portfolio" else 1.0
    tables = []
    for _ in range(n_sources):
        n = int(rng.integers(1, 9))
        center = size * rng.uniform(1, 3, d)
        tables.append(center + size * rng.uniform(0.1, 0.5) * rng.standard_normal((n, d)))
    if rng.random() < 0.25:  # duplicate points, within and between sources
        tables[0] = np.vstack([tables[0], tables[0][:1], tables[1][:1]])
    if rng.random() < 0.2:  # a constant column
        column = int(rng.integers(d))
        for table in tables:
            table[:, column] = 2.0 * size
    nu = float(rng.choice([rng.uniform(0.01, 1.0), 1.0, 0.5, 1 / n_sources]))
    gamma = float(rng.choice([0.0, 0.0, rng.uniform(0, 0.1)]))
    scale = bool(rng.random() < 0.2)
    return Instance(seed, kind, kernel, nu, tables, _loss(kind, d, rng), scale, gamma)


def _loss(kind: str, d: int, rng):
    if kind.startswith("newsvendor"):
        terms = {
            "price": rng.uniform(30, 60, d),
            "cost": rng.uniform(10, 25, d),
            "holding": rng.uniform(0, 6, d),
            "backorder": rng.uniform(0, 12, d),
        }
        if "side" in kind:
            terms |= {"A_ub": rng.uniform(0.2, 1, (1, d)), "b_ub": np.array([1.2 * d])}
        return Newsvendor(**terms)
    if kind == "portfolio":
        return CVaRPortfolio(risk_aversion=float(rng.uniform(0, 10)), tail=0.2)
    bounds = {"lower": -4.0, "upper": 6.0}
    if kind == "quadratic by callables":
        return ConvexLoss(
            value=lambda x, xi: ((x - xi) ** 2).sum(axis=1),
            subgradient=lambda x, xi: 2 * (x - xi),
            **bounds,
        )
    if kind == "quadratic by cvxpy":
        return ConvexLoss(expression=lambda x, xi: _vector(reference.quadratic(x, xi)), **bounds)
    return ConvexLoss(expression=_log_sum_exp, **bounds)


def _vector(costs):
    return cp.hstack(costs)


def _log_sum_exp(x, xi):
    row = cp.reshape(x, (1, xi.shape[1]), order="C")
    return cp.log_sum_exp(cp.multiply(xi, row), axis=1)
