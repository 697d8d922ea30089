"""Losses: the paper's formulas, subgradients, conic rows, closed forms, regions."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from sklearn.base import clone

from roodso.losses import ConvexLoss, CVaRPortfolio, Newsvendor
from roodso.losses.region import Region
from roodso.solver.conic import ConicProgramme

RNG = np.random.default_rng(0)
XI = RNG.uniform(0.5, 3.0, (12, 3))
TERMS = {
    "price": [50.0, 40.0, 30.0],
    "cost": [20.0, 15.0, 12.0],
    "holding": [5.0, 3.0, 0.0],
    "backorder": [10.0, 8.0, 0.0],
}
NEWSVENDOR = Newsvendor(**TERMS)
FUND = CVaRPortfolio(risk_aversion=10, tail=0.2)


def bound(loss, xi=XI):
    return loss.bind(xi.min(axis=0), xi.max(axis=0))


def _quadratic(x, xi):
    n, d = xi.shape
    return cp.sum(cp.square(np.ones((n, 1)) @ cp.reshape(x, (1, d), order="C") - xi), axis=1)


def _log_sum_exp(x, xi):
    row = cp.reshape(x, (1, xi.shape[1]), order="C")
    return cp.log_sum_exp(cp.multiply(xi, row), axis=1)


QUADRATIC = ConvexLoss(
    value=lambda x, xi: ((x - xi) ** 2).sum(axis=1),
    subgradient=lambda x, xi: 2 * (x - xi),
    lower=-4,
    upper=6,
)
QUADRATIC_EXPRESSION = ConvexLoss(expression=_quadratic, lower=-4, upper=6)
LOG_SUM_EXP = ConvexLoss(expression=_log_sum_exp, lower=-4, upper=6)
ALL = [NEWSVENDOR, FUND, QUADRATIC, QUADRATIC_EXPRESSION, LOG_SUM_EXP]
NAMES = ["newsvendor", "portfolio", "callables", "quadratic expression", "log-sum-exp"]
every_loss = pytest.mark.parametrize("loss", ALL, ids=NAMES)


# Values


@given(st.lists(st.floats(0, 5), min_size=3, max_size=3))
def test_the_newsvendors_cost_is_the_papers(x):
    p, c, h, b = (np.array(TERMS[name]) for name in ("price", "cost", "holding", "backorder"))
    x = np.array(x)
    expected = [
        -p @ np.minimum(x, xi) + c @ x + h @ np.maximum(x - xi, 0) + b @ np.maximum(xi - x, 0)
        for xi in XI
    ]
    np.testing.assert_allclose(bound(NEWSVENDOR).values(x, XI), expected, atol=1e-10)


def test_the_portfolios_cost_is_the_papers():
    z = np.array([0.2, 0.5, 0.3, -1.1])
    expected = []
    for xi in XI:
        loss = -z[:3] @ xi
        expected.append(loss + 10 * (z[3] + max(loss - z[3], 0) / 0.2))
    np.testing.assert_allclose(bound(FUND).values(z, XI), expected, rtol=1e-13)


def test_the_two_ways_to_give_a_loss_agree():
    x = np.array([0.3, -1.0, 2.5])
    one, other = bound(QUADRATIC), bound(QUADRATIC_EXPRESSION)
    np.testing.assert_allclose(one.values(x, XI), other.values(x, XI), rtol=1e-12)
    np.testing.assert_allclose(one.slopes(x, XI), other.slopes(x, XI), rtol=1e-12)


@every_loss
def test_subgradients_support_the_cost_everywhere(loss):
    problem = bound(loss)
    region = problem.region
    rng = np.random.default_rng(1)
    for _ in range(30):
        z, other = (rng.uniform(region.lower, region.upper) for _ in range(2))
        below = problem.values(z, XI) + problem.slopes(z, XI) @ (other - z)
        assert (problem.values(other, XI) >= below - 1e-7 * (1 + np.abs(below))).all()
        weights = rng.dirichlet(np.ones(len(XI)), size=2).T
        np.testing.assert_allclose(
            problem.mean_slope(z, XI, weights), weights.T @ problem.slopes(z, XI), atol=1e-9
        )


@pytest.mark.parametrize("loss", [NEWSVENDOR, FUND], ids=NAMES[:2])
def test_the_losses_of_the_paper_are_convex_in_the_data(loss):
    problem, rng = bound(loss), np.random.default_rng(2)
    assert problem.convex_in_xi
    z = rng.uniform(problem.region.lower, problem.region.upper)
    middle = 0.5 * (XI[:6] + XI[6:])
    ends = 0.5 * (problem.values(z, XI[:6]) + problem.values(z, XI[6:]))
    assert (problem.values(z, middle) <= ends + 1e-12).all()


@every_loss
def test_conic_rows_say_what_the_values_say(loss):
    """The least t_l with f(z, xi_l) <= t_l, z held fixed, are the values."""
    problem = bound(loss)
    rows = problem.conic_rows(XI)
    if rows is None:
        assert loss is QUADRATIC
        return
    z = np.random.default_rng(3).uniform(problem.region.lower, problem.region.upper)
    p = ConicProgramme()
    p.add_columns("z", np.zeros(len(z)))
    p.add_columns("t", np.ones(len(XI)))
    p.add_columns("o", np.zeros(rows.A_o.shape[1]))
    p.add_rows("zero", {"z": np.eye(len(z))}, z)
    p.add_block({"z": rows.A_z, "t": rows.A_t, "o": rows.A_o}, rows.b, rows.cones)
    p.solve(1e-10)
    np.testing.assert_allclose(p["t"], problem.values(z, XI), rtol=1e-6, atol=1e-6)


# The best decision for a weighted average


def average_by_linprog(terms, xi, weights, lower, upper):
    """The weighted average's minimum: min over x, o >= (x - xi)^+ of the paper's cost."""
    p, c, h, b = (
        np.array(terms[name], float) for name in ("price", "cost", "holding", "backorder")
    )
    n, d = xi.shape
    # f = (c - p - b)'x + b'xi + (p + b + h)'o
    objective = np.concatenate([weights.sum() * (c - p - b), np.outer(weights, p + b + h).ravel()])
    over = np.hstack([np.tile(np.eye(d), (n, 1)), -np.eye(n * d)])
    bounds = [*zip(lower, upper, strict=True), *[(0, None)] * (n * d)]
    solved = linprog(objective, over, xi.ravel(), bounds=bounds)
    return solved.fun + weights @ xi @ b


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"holding": [-20.0, 3.0, 0.0], "upper": [4.0, 4.0, 4.0]},  # c + h = 0
        {"price": [10.0, 15.0, 12.0], "backorder": 0.0},  # p + b <= c: order nothing
        {"price": [30.0, 15.0, 12.0], "cost": [40.0, 15.0, 12.0], "backorder": [10.0, 0.0, 0.0]},
        {"upper": [1.0, 2.0, 9.0]},
        {"lower": [2.5, 0.0, 1.0]},
        {"lower": 1.5, "upper": 1.5},
        {"cost": 0.0, "holding": 0.0},
    ],
)
def test_the_closed_form_is_the_linear_programmes_optimum(changes):
    loss = Newsvendor(**TERMS).set_params(**changes)
    problem, weights = bound(loss), np.random.default_rng(4).dirichlet(np.ones(len(XI)))
    x = problem.minimize_average(XI, weights)
    terms = {n: np.broadcast_to(np.asarray(getattr(loss, n), float), 3) for n in TERMS}
    lower = np.broadcast_to(np.asarray(loss.lower, float), 3)
    upper = np.full(3, 50.0) if loss.upper is None else np.broadcast_to(loss.upper, 3)
    best = average_by_linprog(terms, XI, weights, lower, upper)
    assert weights @ problem.values(x, XI) == pytest.approx(best, rel=1e-9)
    assert (x >= lower - 1e-12).all()
    assert (x <= upper + 1e-12).all()


def test_the_portfolios_tau_is_the_best_for_its_weights():
    problem, weights = bound(FUND), np.random.default_rng(5).dirichlet(np.ones(len(XI)))
    x = np.array([0.1, 0.7, 0.2])
    z = problem.complete(x, XI, weights)
    np.testing.assert_array_equal(z[:3], x)
    taus = np.linspace(-4, 1, 2001)
    values = [weights @ problem.values(np.append(x, tau), XI) for tau in taus]
    assert weights @ problem.values(z, XI) <= min(values) + 1e-12


# The finite box given to decisions cuts off no optimum


@pytest.mark.parametrize("seed", range(12))
def test_the_box_cuts_off_no_optimum_with_side_constraints(seed):
    rng = np.random.default_rng(seed)
    A, b = rng.uniform(-1, 1, (2, 3)), rng.uniform(0.5, 3, 2)
    if seed % 3 == 0:  # orders are forced beyond the largest demand
        A, b = np.vstack([A, -np.ones(3)]), np.append(b, -12.0)
        A[:2] = np.abs(A[:2]) * 0.01
    loss = Newsvendor(**TERMS).set_params(A_ub=A, b_ub=b)
    problem = bound(loss)
    region = problem.region
    assert np.isfinite(region.lower).all()
    assert np.isfinite(region.upper).all()
    x = cp.Variable(3, nonneg=True)
    p, c, h, bo = (np.array(TERMS[name]) for name in TERMS)
    mean = sum(
        -p @ cp.minimum(x, xi) + c @ x + h @ cp.pos(x - xi) + bo @ cp.pos(xi - x) for xi in XI
    )
    worst = cp.Variable()
    costs = [
        -p @ cp.minimum(x, xi) + c @ x + h @ cp.pos(x - xi) + bo @ cp.pos(xi - x) <= worst
        for xi in XI
    ]
    inside = [x >= region.lower, x <= region.upper]
    for objective, rows in ((mean, []), (worst, costs)):
        free, boxed = (
            cp.Problem(cp.Minimize(objective), [A @ x <= b, *rows, *more]).solve(solver="CLARABEL")
            for more in ([], inside)
        )
        assert boxed == pytest.approx(free, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"price": -100}, "price \\+ backorder \\+ holding must be >= 0, got"),
        ({"holding": -30}, "cost \\+ holding must be >= 0 without upper"),
        ({"lower": -1}, "lower must be >= 0, got -1 for item 0"),
        ({"upper": [1, 0.5, 2], "lower": 1}, "upper must be >= lower"),
        ({"price": [1, 2]}, "price must be a number or 3 numbers"),
        ({"price": np.nan}, "price must hold finite numbers"),
        ({"A_ub": [[1, 1]], "b_ub": [3]}, "A_ub must have 3 columns"),
        ({"A_ub": [[1, 1, 1]], "b_ub": [3, 4]}, "b_ub must have one entry per row"),
        ({"A_ub": [[1, 1, np.inf]], "b_ub": [3]}, "finite"),
    ],
)
def test_bad_newsvendors_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        bound(Newsvendor(**TERMS).set_params(**changes))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"risk_aversion": -1}, "risk_aversion must be"),
        ({"tail": 0}, "tail must be"),
        ({"tail": 1.5}, "tail must be"),
        ({"upper": 1.5}, "0 <= lower <= upper <= 1"),
        ({"lower": 0.5, "upper": 0.4}, "0 <= lower <= upper <= 1"),
    ],
)
def test_bad_portfolios_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        bound(CVaRPortfolio(**parameters))


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({}, ValueError, "finite bounds"),
        ({"lower": 0, "upper": np.inf}, ValueError, "finite"),
        ({"lower": 0, "upper": 1}, ValueError, "both value and subgradient"),
        (
            {
                "lower": 0,
                "upper": 1,
                "value": lambda x, xi: xi.sum(),
                "subgradient": lambda x, xi: xi,
            },
            ValueError,
            r"value must return shape \(2,\)",
        ),
        (
            {
                "lower": 0,
                "upper": 1,
                "value": lambda x, xi: xi[:, 0] / 0 * np.nan,
                "subgradient": lambda x, xi: xi,
            },
            ValueError,
            "not finite",
        ),
        (
            {"lower": 0, "upper": 1, "expression": lambda x, xi: cp.sqrt(x[0]) + xi[:, 0]},
            ValueError,
            "convex in x",
        ),
        (
            {"lower": 0, "upper": 1, "expression": lambda x, xi: cp.sum(x)},
            ValueError,
            "expression must have shape",
        ),
        ({"lower": 0, "upper": 1, "dimension": 0}, ValueError, "dimension"),
        (
            {"lower": 0, "upper": 1, "expression": _quadratic, "value": lambda x, xi: xi},
            ValueError,
            "either expression",
        ),
        (
            {"lower": 0, "upper": 1, "expression": _quadratic, "A_eq": [[1, 1, 1]], "b_eq": [9]},
            ValueError,
            "no feasible decision",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
def test_bad_convex_losses_are_refused(parameters, error, message):
    with pytest.raises(error, match=message):
        bound(ConvexLoss(**parameters))


def test_losses_are_containers_of_parameters():
    copied = clone(NEWSVENDOR).set_params(price=9.0)
    assert copied.price == 9.0
    assert NEWSVENDOR.price == TERMS["price"]
    assert set(NEWSVENDOR.get_params()) >= {"price", "cost", "holding", "backorder", "A_ub", "b_ub"}


# Regions


def violation(region, x):
    """By how much x misses any bound or constraint."""
    parts = [region.lower - x, x - region.upper, region.A_ub @ x - region.b_ub]
    return max(part.max(initial=0.0) for part in [*parts, np.abs(region.A_eq @ x - region.b_eq)])


@pytest.mark.parametrize("seed", range(8))
def test_linear_minima_and_projections_over_a_region(seed):
    rng = np.random.default_rng(seed)
    region = Region.box([0.0, 0.0, -1.0], [2.0, 3.0, 1.0])
    region = region.with_inequality(rng.uniform(-1, 1, (2, 3)), rng.uniform(0.5, 1, 2))
    if seed % 2:
        region = region.with_equality(np.array([[1.0, 1.0, 1.0]]), np.array([1.0]))
    slope, far = rng.standard_normal(3), rng.uniform(region.lower, region.upper)
    x = cp.Variable(3)
    rows = [x >= region.lower, x <= region.upper, region.A_ub @ x <= region.b_ub]
    if len(region.b_eq):
        rows.append(region.A_eq @ x == region.b_eq)
    least = cp.Problem(cp.Minimize(slope @ x), rows).solve(solver="CLARABEL")
    assert region.minimize_linear(slope) == pytest.approx(least, abs=1e-6)
    projected = region.project(far)
    assert violation(region, projected) <= 1e-9
    side = region.upper - region.lower
    cp.Problem(cp.Minimize(cp.sum_squares((x - far) / side)), rows).solve(solver="CLARABEL")
    np.testing.assert_allclose(projected, x.value, atol=1e-5)
    assert violation(region, region.some_point()) <= 1e-9
