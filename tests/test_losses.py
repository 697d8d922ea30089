"""Losses mean what the paper's formulas say, and their regions lose no optimum."""

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linprog
from sklearn.base import clone

from reference.losses import (
    newsvendor_cost,
    newsvendor_game,
    newsvendor_minimum,
    portfolio_cost,
    portfolio_minimum,
)
from roodso import DegenerateDataWarning, RooDSO
from roodso.losses import ConvexLoss, CVaRPortfolio, Newsvendor, Region
from roodso.losses.base import weighted_quantile
from roodso.solver.conic import ConicProgramme

TERMS = ([50.0, 40.0, 9.0], [20.0, 15.0, 4.0], [5.0, 3.0, 0.0], [10.0, 8.0, 0.5])
POINTS = np.random.default_rng(0).uniform(0.5, 3.0, (6, 3))
RETURNS = np.random.default_rng(1).normal(0.01, 0.05, (8, 3))
BOX = POINTS.min(axis=0), POINTS.max(axis=0)

numbers = st.floats(-5.0, 5.0)
costs = st.floats(0.0, 50.0)


def vectors(elements, size=2):
    return arrays(float, size, elements=elements)


def tables(n=4, width=2):
    return arrays(float, (n, width), elements=numbers)


def diff(x, xi):
    """X minus each row of xi, as a cvxpy expression (n, d)."""
    return np.ones((len(xi), 1)) @ cp.reshape(x, (1, xi.shape[1]), order="C") - xi


def quadratic(**changes):
    parameters = {
        "value": lambda x, xi: ((x - xi) ** 2).sum(axis=1),
        "subgradient": lambda x, xi: 2 * (x - xi),
        "lower": -4.0,
        "upper": 6.0,
    }
    return ConvexLoss(**(parameters | changes))


EXPRESSIONS = {
    "quadratic": lambda x, xi: cp.sum(cp.square(diff(x, xi)), axis=1),
    "log-sum-exp": lambda x, xi: cp.log_sum_exp(diff(x, xi), axis=1),
    "distance": lambda x, xi: cp.norm(diff(x, xi), 2, axis=1),
    "power": lambda x, xi: cp.sum(cp.power(cp.abs(diff(x, xi)), 1.5), axis=1),
    "piecewise linear": lambda x, xi: cp.max(cp.abs(diff(x, xi)), axis=1),
    "one column": lambda x, xi: cp.sum(cp.huber(diff(x, xi)), axis=1, keepdims=True),
}
NUMPY = {
    "quadratic": lambda x, xi: ((x - xi) ** 2).sum(axis=1),
    "log-sum-exp": lambda x, xi: np.log(np.exp(x - xi).sum(axis=1)),
    "distance": lambda x, xi: np.sqrt(((x - xi) ** 2).sum(axis=1)),
    "power": lambda x, xi: (np.abs(x - xi) ** 1.5).sum(axis=1),
    "piecewise linear": lambda x, xi: np.abs(x - xi).max(axis=1),
    "one column": lambda x, xi: np.where(
        np.abs(x - xi) <= 1, (x - xi) ** 2, 2 * np.abs(x - xi) - 1
    ).sum(axis=1),
}

PROBLEMS = {
    "newsvendor": Newsvendor(*TERMS).bind(*BOX),
    "portfolio": CVaRPortfolio(10, 0.2).bind(RETURNS.min(axis=0), RETURNS.max(axis=0)),
    "callables": quadratic().bind(*BOX),
} | {
    name: ConvexLoss(expression=expression, lower=0.1, upper=6.0).bind(*BOX)
    for name, expression in EXPRESSIONS.items()
}

every_problem = pytest.mark.parametrize("name", PROBLEMS)


# What they say


@given(vectors(costs), vectors(costs), vectors(costs), vectors(costs), vectors(costs), tables())
def test_the_newsvendor_costs_what_the_paper_says(p, c, h, b, x, xi):
    problem = Newsvendor(p, c, h, b).bind(xi.min(axis=0), xi.max(axis=0))
    expected = [newsvendor_cost(x, row, p, c, h, b) for row in xi]
    np.testing.assert_allclose(problem.values(x, xi), expected, rtol=1e-12, atol=1e-9)


def test_one_number_stands_for_all_items():
    one = Newsvendor(price=7, cost=2, holding=0.5, backorder=1).bind(*BOX)
    many = Newsvendor([7, 7, 7], [2, 2, 2], [0.5] * 3, [1] * 3).bind(*BOX)
    x = np.array([1.0, 2.0, 0.5])
    np.testing.assert_array_equal(one.values(x, POINTS), many.values(x, POINTS))


@given(vectors(st.floats(0, 1)), numbers, tables(), st.floats(0, 20), st.floats(0.01, 1))
def test_the_portfolio_costs_what_the_paper_says(x, tau, xi, aversion, tail):
    problem = CVaRPortfolio(aversion, tail).bind(xi.min(axis=0), xi.max(axis=0))
    expected = [portfolio_cost(x, tau, row, aversion, tail) for row in xi]
    values = problem.values(np.append(x, tau), xi)
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_costs_what_it_says(name):
    x = np.array([1.0, 0.4, 2.0])
    found = PROBLEMS[name].values(x, POINTS)
    np.testing.assert_allclose(found, NUMPY[name](x, POINTS), rtol=1e-10)


@every_problem
@given(seed=st.integers(0, 10**6))
def test_slopes_are_subgradients(name, seed):
    problem, rng = PROBLEMS[name], np.random.default_rng(seed)
    region = problem.region
    x, y = region.lower + region.side * rng.random((2, region.dimension))
    if name == "newsvendor" and rng.random() < 0.5:
        x = np.maximum(x, 0).round(1)  # on a kink now and then
    xi = RETURNS
    if name != "portfolio":  # points that agree with x in one column, and in all
        same = POINTS[:2].copy()
        same[:, 0] = x[0]
        xi = np.vstack([POINTS, same, np.resize(x, 3)])
    below = problem.values(x, xi) + problem.slopes(x, xi) @ (y - x)
    above = problem.values(y, xi)
    assert (below <= above + 1e-8 * (1 + np.abs(above))).all()


@every_problem
def test_the_mean_slope_is_the_mean_of_the_slopes(name):
    problem = PROBLEMS[name]
    xi = RETURNS if name == "portfolio" else POINTS
    z = problem.region.lower + 0.3 * problem.region.side
    weights = np.random.default_rng(0).random((len(xi), 2))
    expected = weights.T @ problem.slopes(z, xi)
    np.testing.assert_allclose(problem.mean_slope(z, xi, weights), expected, rtol=1e-12)
    np.testing.assert_allclose(problem.mean_slope(z, xi, weights[:, 1]), expected[1], rtol=1e-12)


@every_problem
def test_conic_rows_bound_the_cost_exactly(name):
    problem = PROBLEMS[name]
    xi = RETURNS if name == "portfolio" else POINTS
    rows = problem.conic_rows(xi)
    if name == "callables":
        assert rows is None
        return
    rng = np.random.default_rng(3)
    for _ in range(3):
        z = problem.region.lower + problem.region.side * rng.random(problem.region.dimension)
        programme = ConicProgramme()
        programme.add_columns("t", np.ones(len(xi)))
        programme.add_columns("o", np.zeros(rows.A_o.shape[1]))
        programme.add_block({"t": rows.A_t, "o": rows.A_o}, rows.b - rows.A_z @ z, rows.cones)
        programme.solve(1e-9)
        np.testing.assert_allclose(programme["t"], problem.values(z, xi), rtol=1e-6, atol=1e-6)


# The newsvendor's best average, and its region


AVERAGES = {
    "usual": {},
    "price below cost": {"terms": ([3.0, 40, 9], [20.0, 15, 4], [5.0, 3, 0], [0.0, 8, 0.5])},
    "price is cost": {"terms": ([20.0, 40, 9], [20.0, 15, 4], [5.0, 3, 0], [0.0, 8, 0.5])},
    "free to overstock": {"terms": ([50.0, 40, 9], [0.0, 15, 4], [0.0, 3, 0], [10.0, 8, 0.5])},
    "paid to overstock": {
        "terms": ([50.0, 40, 9], [1.0, 15, 4], [-2.0, 3, 0], [10.0, 8, 0.5]),
        "upper": [7.0, np.inf, np.inf],
    },
    "all free": {"terms": ([0.0] * 3, [0.0] * 3, [0.0] * 3, [0.0] * 3)},
    "backorders only": {"terms": ([0.0] * 3, [0.0] * 3, [0.0] * 3, [1.0, 2, 3])},
    "bounded": {"lower": [1.0, 0.0, 2.5], "upper": [1.2, 0.9, 9.0]},
    "above all demand": {"lower": [5.0, 0.0, 4.0]},
    "infinite upper": {"upper": [np.inf, 1.0, np.inf]},
    "fixed": {"lower": [1.0, 1.0, 1.0], "upper": [1.0, 1.0, 1.0]},
    "zero demand": {"points": np.zeros((3, 3))},
    "negative demand": {"points": POINTS - 2.0},
    "one point": {"points": POINTS[:1]},
}


def case(terms=TERMS, lower=(0.0, 0.0, 0.0), upper=None, points=POINTS):
    loss = Newsvendor(*terms, lower=lower, upper=upper)
    return loss.bind(points.min(axis=0), points.max(axis=0)), terms, lower, upper, points


@pytest.mark.parametrize("name", AVERAGES)
def test_the_best_average_order_is_that_of_a_linear_programme(name):
    problem, terms, lower, upper, points = case(**AVERAGES[name])
    rng = np.random.default_rng(0)
    for trial in range(4):
        weights = np.ones(len(points)) if trial == 0 else rng.random(len(points))
        if trial > 1:
            weights[rng.random(len(points)) < 0.4] = 0.0
            weights[0] = 1.0
        weights = weights / weights.sum()
        z = problem.minimize_average(points, weights)
        assert (z >= problem.region.lower).all()
        assert (z <= problem.region.upper).all()
        found = weights @ [newsvendor_cost(z, row, *terms) for row in points]
        least = newsvendor_minimum(points, weights, terms, lower=lower, upper=upper)
        assert found == pytest.approx(least, rel=1e-9, abs=1e-9)


def test_with_side_constraints_there_is_no_closed_form():
    problem = Newsvendor(*TERMS, A_ub=[[1, 1, 1]], b_ub=[2.0]).bind(*BOX)
    assert problem.minimize_average(POINTS, np.full(6, 1 / 6)) is None


def constrained(seed):
    """A newsvendor with side constraints of any sign, and demands."""
    rng = np.random.default_rng(seed)
    d, rows = int(rng.integers(1, 4)), int(rng.integers(1, 4))
    points = rng.uniform(0.2, 3.0, (int(rng.integers(1, 6)), d))
    terms = [rng.uniform(0, high, d) for high in (50, 20, 5, 10)]
    if rng.random() < 0.3:
        terms[0][0] = 0.1  # price below cost
    if rng.random() < 0.2:
        terms[1][0] = terms[2][0] = 0.0  # free to overstock
    lower = rng.choice([0.0, 1.0, 2.0], d)
    upper = np.where(rng.random(d) < 0.3, lower + rng.uniform(0, 9, d), np.inf)
    A = rng.choice([-1.0, 1.0], (rows, d)) * rng.uniform(0.1, 2.0, (rows, d))
    A[rng.random((rows, d)) < 0.3] = 0.0
    b = A @ (lower + rng.uniform(0, 6, d)) + rng.uniform(-1, 2, rows)
    return terms, {"lower": lower, "upper": upper, "A_ub": A, "b_ub": b}, points


def test_the_finite_box_of_the_orders_cuts_off_no_optimum():
    """Least average and least worst cost are those over all orders, unbounded ones included."""
    seen = {"solved": 0, "beyond demand": 0, "refused": 0}
    for seed in range(300):
        terms, limits, points = constrained(seed)
        loss = Newsvendor(*terms, **limits)
        weights = np.random.default_rng(seed).dirichlet(np.ones(len(points)))
        average = newsvendor_minimum(points, weights, terms, **limits)
        game = newsvendor_game(points, terms, **limits)
        try:
            problem = loss.bind(points.min(axis=0), points.max(axis=0))
            problem.region.some_point()
        except ValueError:
            seen["refused"] += 1
            free_to_overstock = (terms[1] + terms[2] == 0).any()
            assert average is None or free_to_overstock
            continue
        assert np.isfinite(problem.region.side).all()
        boxed = limits | {"upper": problem.region.upper}
        assert newsvendor_minimum(points, weights, terms, **boxed) == pytest.approx(average)
        assert newsvendor_game(points, terms, **boxed) == pytest.approx(game)
        seen["solved"] += 1
        seen["beyond demand"] += bool((problem.region.upper > points.max(axis=0)).any())
    assert seen["solved"] > 150
    assert seen["beyond demand"] > 50
    assert seen["refused"] > 10


def test_constraints_may_force_orders_beyond_the_largest_demand():
    loss = Newsvendor(*TERMS, A_ub=[[-1, -1, -1]], b_ub=[-30.0])
    problem = loss.bind(*BOX)
    weights = np.full(6, 1 / 6)
    limits = {"lower": [0.0] * 3, "A_ub": loss.A_ub, "b_ub": loss.b_ub}
    least = newsvendor_minimum(POINTS, weights, TERMS, **limits)
    boxed = newsvendor_minimum(POINTS, weights, TERMS, **limits, upper=problem.region.upper)
    assert boxed == pytest.approx(least)
    model = RooDSO(loss, n_support=5, random_state=0).fit([POINTS[:3], POINTS[3:]])
    assert model.decision_.sum() >= 30 - 1e-8
    assert model.solution_.status == "optimal"


def test_orders_without_a_finite_bound_are_refused():
    with pytest.raises(ValueError, match=r"cost \+ holding = 0, orders of item 1 have no finite"):
        Newsvendor([9, 9], [1, 0], A_ub=[[1, -1]], b_ub=[-1]).bind(np.zeros(2), np.ones(2))
    with pytest.raises(ValueError, match=r"cost \+ holding must be >= 0 without upper, got -1"):
        Newsvendor(9, -1).bind(np.zeros(2), np.ones(2))
    Newsvendor(9, -1, upper=4).bind(np.zeros(2), np.ones(2))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"price": -9}, r"price \+ backorder \+ holding must be >= 0, got -9 for item 0"),
        ({"lower": -1}, "lower must be >= 0, got -1 for item 0"),
        ({"lower": [0, 2, 0], "upper": 1}, "upper must be >= lower, got 1 for item 1"),
        ({"price": [1, 2]}, "price must be a number or 3 numbers"),
        ({"cost": np.nan}, "cost must hold finite numbers"),
        ({"A_ub": [[1, 1]], "b_ub": [1]}, "A_ub must have 3 columns"),
        ({"A_ub": [[1, 1, 1]], "b_ub": [1, 2]}, r"b_ub must have one entry per row of A_ub \(1\)"),
        ({"A_ub": [[1, np.inf, 1]], "b_ub": [1]}, "A_ub and b_ub must hold finite numbers"),
        ({"b_ub": [1]}, "A_ub and b_ub must be given together"),
        ({"A_ub": [[-1, 0, 0], [1, 0, 0]], "b_ub": [-2, 1]}, "leave no feasible order"),
    ],
)
def test_a_newsvendor_that_makes_no_sense_is_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        Newsvendor(**({"price": 5, "cost": 2} | parameters)).bind(*BOX)


def test_parameters_that_are_no_numbers_are_refused():
    with pytest.raises(TypeError, match="price must be a number or 3 numbers, got 'high'"):
        Newsvendor("high", 1).bind(*BOX)
    with pytest.raises(TypeError, match="A_ub and b_ub must hold numbers"):
        Newsvendor(5, 2, A_ub="all", b_ub=[1]).bind(*BOX)


# The portfolio


@given(tables(5, 3), vectors(st.floats(0.0, 1.0), 5), vectors(st.floats(0, 1), 3), st.floats(0, 1))
def test_tau_is_the_best_one_for_weighted_returns(xi, weights, x, tail):
    tail, x = max(tail, 0.01), x / x.sum() if x.sum() > 0 else np.full(3, 1 / 3)
    weights = weights / weights.sum() if weights.sum() > 1e-9 else np.full(5, 0.2)
    problem = CVaRPortfolio(10, tail).bind(xi.min(axis=0), xi.max(axis=0))
    z = problem.complete(x, xi, weights)
    np.testing.assert_array_equal(z[:3], x)

    def mean(tau):
        return weights @ [portfolio_cost(x, tau, row, 10, tail) for row in xi]

    best = min(mean(tau) for tau in -(xi @ x))  # piecewise linear in tau: least at a kink
    assert mean(z[-1]) == pytest.approx(best, rel=1e-9, abs=1e-9)
    slack = 1e-12 * (1 + np.abs(xi).max())
    assert problem.region.lower[-1] - slack <= z[-1] <= problem.region.upper[-1] + slack


@pytest.mark.parametrize("tail", [0.05, 0.2, 1.0])
@pytest.mark.parametrize("aversion", [0.0, 1.0, 10.0])
def test_the_portfolios_region_cuts_off_no_optimum(aversion, tail):
    loss = CVaRPortfolio(aversion, tail)
    with pytest.warns(DegenerateDataWarning):  # one distribution: its sample average
        model = RooDSO(loss, n_support=0).fit([RETURNS, RETURNS])
    least = portfolio_minimum(RETURNS, np.full(8, 1 / 8), aversion, tail)
    assert model.objective_ == pytest.approx(least, abs=2e-6)
    assert model.decision_.sum() == pytest.approx(1, abs=1e-9)
    assert (model.decision_ >= 0).all()


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"tail": 0}, ValueError, r"tail must be a number in \(0, 1\], got 0"),
        ({"tail": 1.5}, ValueError, "tail must be"),
        ({"risk_aversion": -1}, ValueError, "risk_aversion must be"),
        ({"risk_aversion": "low"}, TypeError, "risk_aversion must be"),
        ({"lower": -0.1}, ValueError, "0 <= lower <= upper <= 1"),
        ({"upper": 1.1}, ValueError, "0 <= lower <= upper <= 1"),
        ({"lower": 0.5, "upper": 0.4}, ValueError, "0 <= lower <= upper <= 1"),
    ],
)
def test_a_portfolio_that_makes_no_sense_is_refused(parameters, error, message):
    with pytest.raises(error, match=message):
        CVaRPortfolio(**parameters).bind(*BOX)


def test_a_decision_that_is_no_portfolio_has_no_cost():
    problem = PROBLEMS["portfolio"]
    for x in ([0.5, 0.5, 0.5], [1.5, -0.5, 0.0]):
        with pytest.raises(ValueError, match="x must be non-negative and add up to one"):
            problem.at(np.array(x))


# Any convex loss


def test_callables_and_expressions_give_the_same_decision():
    shops = [POINTS[:3], POINTS[3:]]
    settings = {"n_support": 5, "random_state": 0, "tol": 1e-8}
    by_callables = RooDSO(quadratic(lower=-4, upper=6), **settings).fit(shops)
    expression = ConvexLoss(expression=EXPRESSIONS["quadratic"], lower=-4, upper=6)
    by_expression = RooDSO(expression, **settings).fit(shops)
    assert by_callables.objective_ == pytest.approx(by_expression.objective_, rel=1e-6)
    np.testing.assert_allclose(by_callables.decision_, by_expression.decision_, atol=1e-3)


def test_decisions_may_have_another_dimension_than_the_data():
    loss = ConvexLoss(
        value=lambda x, xi: np.abs(xi @ [1.0, 1.0, 1.0] - x[0]),
        subgradient=lambda x, xi: np.sign(x[0] - xi @ [1.0, 1.0, 1.0])[:, None],
        dimension=1,
        lower=0,
        upper=20,
    )
    with pytest.warns(DegenerateDataWarning):
        model = RooDSO(loss, n_support=5, random_state=0).fit([POINTS, POINTS])
    assert model.decision_.shape == (1,)
    total = POINTS.sum(axis=1)
    assert model.objective_ == pytest.approx(np.abs(total - np.median(total)).mean(), abs=1e-5)


def test_equality_constraints_hold():
    loss = quadratic(lower=0, upper=5, A_eq=[[1, 1, 1]], b_eq=[2.0], A_ub=[[1, 0, 0]], b_ub=[0.3])
    model = RooDSO(loss, n_support=5, random_state=0).fit([POINTS[:3], POINTS[3:]])
    assert model.decision_.sum() == pytest.approx(2.0, abs=1e-9)
    assert model.decision_[0] <= 0.3 + 1e-9
    assert model.solution_.status == "optimal"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lower": None}, "finite bounds on the decision: lower and upper"),
        ({"upper": np.inf}, "upper must hold finite numbers"),
        ({"lower": 7.0}, "lower bound of the loss exceeds its upper bound"),
        ({"subgradient": None}, "both value and subgradient"),
        ({"expression": EXPRESSIONS["quadratic"]}, "either expression, or value and subgradient"),
        ({"value": lambda x, xi: 1.0}, r"value must return shape \(2,\), got \(\)"),
        ({"value": lambda x, xi: xi}, r"value must return shape \(2,\), got \(2, 3\)"),
        ({"value": lambda x, xi: np.full(len(xi), np.nan)}, "value returned .* not finite"),
        ({"subgradient": lambda x, xi: x - xi[:1]}, r"subgradient must return shape \(2, 3\)"),
        ({"subgradient": lambda x, xi: np.full(xi.shape, np.inf)}, "subgradient .* not finite"),
        (
            {"value": lambda x, xi: ((x - xi + xi.mean(axis=0)) ** 2).sum(axis=1)},
            "must not depend on the other points",
        ),
        ({"A_ub": [[1, 1, 1], [-1, -1, -1]], "b_ub": [1, -2]}, "no feasible decision"),
        ({"A_eq": [[1, 1, 1]], "b_eq": [100.0]}, "no feasible decision"),
        ({"A_eq": [[1, 1]], "b_eq": [1.0]}, "A_eq must have 3 columns"),
        ({"dimension": 0}, "dimension must be a whole number >= 1"),
    ],
)
def test_a_convex_loss_that_makes_no_sense_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        quadratic(**changes).bind(*BOX)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (lambda x, xi: -cp.sum(cp.square(diff(x, xi)), axis=1), "does not recognise .* as convex"),
        (lambda x, xi: cp.sqrt(cp.sum(diff(x, xi), axis=1)), "does not recognise .* as convex"),
        (lambda x, xi: cp.sum_squares(x), r"expression must have shape \(2,\), got \(\)"),
        (lambda x, xi: cp.square(diff(x, xi)), r"expression must have shape \(2,\), got \(2, 3\)"),
    ],
)
def test_an_expression_that_makes_no_sense_is_refused(expression, message):
    with pytest.raises(ValueError, match=message):
        ConvexLoss(expression=expression, lower=-4, upper=6).bind(*BOX)


def test_an_expression_outside_its_domain_is_refused():
    loss = ConvexLoss(expression=lambda x, xi: -cp.log(x[0]) + xi[:, 0], lower=-4, upper=-1)
    with pytest.raises(ValueError, match="not finite"):
        loss.bind(*BOX)


def test_a_decision_out_of_bounds_has_no_cost():
    problem = quadratic().bind(*BOX)
    with pytest.raises(ValueError, match="x must be within the bounds of ConvexLoss"):
        problem.at(np.array([0.0, 0.0, 6.5]))
    assert problem.at(np.array([0.0, 0.0, 5.5])).region.side.max() == 0


# Parameters


def test_losses_are_parameters_of_models():
    model = RooDSO(Newsvendor(price=5, cost=2))
    model.set_params(loss__price=[6, 7], loss__upper=3.0)
    assert model.loss.price == [6, 7]
    assert model.loss.upper == 3.0
    assert model.get_params()["loss__cost"] == 2
    copied = clone(model)
    assert copied.loss is not model.loss
    assert copied.loss.get_params() == model.loss.get_params()
    for loss in (CVaRPortfolio(tail=0.1), quadratic()):
        assert clone(loss).get_params() == loss.get_params()
    with pytest.raises(ValueError, match="Invalid parameter"):
        model.set_params(loss__colour="red")


# Regions and quantiles


def some_region(seed):
    """A region that is not empty, whose sides and distance from the origin differ widely."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    lower = rng.uniform(-1, 1, n) * 10.0 ** rng.integers(-3, 4)
    upper = lower + rng.uniform(0, 1, n) * 10.0 ** rng.integers(-2, 3, n)
    inside = lower + (upper - lower) * rng.choice([0.0, 1.0, 0.5], n)
    A = rng.standard_normal((int(rng.integers(0, 3)), n))
    region = Region.box(lower, upper).with_inequality(A, A @ inside + rng.choice([0, 1], len(A)))
    if rng.random() < 0.5:
        ones = np.ones((1, n))
        region = region.with_equality(ones, ones @ inside)
    return region, inside, rng


def by_highs(region, slope):
    solved = linprog(
        slope / np.abs(slope).max(),
        A_ub=region.A_ub if len(region.b_ub) else None,
        b_ub=region.b_ub if len(region.b_ub) else None,
        A_eq=region.A_eq if len(region.b_eq) else None,
        b_eq=region.b_eq if len(region.b_eq) else None,
        bounds=np.column_stack([region.lower, region.upper]),
    )
    return solved.fun * np.abs(slope).max()


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9])
def test_linear_minima_are_bounds_and_tight_whatever_the_units(size):
    for seed in range(150):
        region, inside, rng = some_region(seed)
        slope = size * rng.standard_normal(region.dimension)
        found = region.minimize_linear(slope)
        terms = np.abs(slope) @ np.maximum(np.abs(region.lower), np.abs(region.upper))
        assert found <= slope @ inside + 1e-12 * terms
        assert found == pytest.approx(by_highs(region, slope), abs=1e-6 * terms)
    assert Region.box([-1.0], [2.0]).minimize_linear(np.zeros(1)) == 0.0


def misses(region, z):
    """By how much a point misses the region, in shares of each constraint's range."""
    parts = [region.lower - z, z - region.upper]
    for A, over in [
        (region.A_ub, region.A_ub @ z - region.b_ub),
        (region.A_eq, np.abs(region.A_eq @ z - region.b_eq)),
    ]:
        reach = (np.abs(A) * region.side).max(axis=1, initial=1e-3)
        parts.append(over / reach)
    return max(part.max(initial=0.0) for part in parts)


def test_projections_lie_in_the_region_and_are_nearest():
    for seed in range(150):
        region, inside, rng = some_region(seed)
        side = np.where(region.side > 0, region.side, 1.0)
        far = inside + side * rng.standard_normal(region.dimension)
        z = region.project(far)
        assert misses(region, z) <= 1e-8
        # The angle at the nearest point of a convex set, towards any other of its points, is blunt.
        away, towards = (far - z) / side, (inside - z) / side
        assert away @ towards <= 1e-5 * (1 + np.linalg.norm(away))


def test_what_misses_the_region_by_rounding_is_moved_by_as_little():
    """A quadratic programme to 1e-12 would place it to 1e-6 only."""
    for seed in range(150):
        region, inside, rng = some_region(seed)
        side = np.where(region.side > 0, region.side, 1.0)
        near = inside + 1e-10 * side * rng.standard_normal(region.dimension)
        z = region.project(near)
        assert misses(region, z) <= 1e-8
        assert np.linalg.norm((z - near) / side) <= 1e-7
    simplex = Region.box(np.zeros(3), np.ones(3)).with_equality(np.ones((1, 3)), np.ones(1))
    for z in ([0.3, 0.3, 0.4 + 1e-10], [-1e-9, 0.5, 0.5], [1.0 + 1e-9, -1e-9, 1e-9]):
        assert simplex.project(np.array(z)).sum() == pytest.approx(1.0, abs=1e-14)
    region = Region.box([0.0, 0.0], [1.0, 1.0])
    np.testing.assert_array_equal(region.project(np.array([0.25, 2.0])), [0.25, 1.0])


def test_an_empty_region_says_so():
    region = Region.box([0.0], [1.0]).with_inequality(np.ones((1, 1)), np.array([-1.0]))
    with pytest.raises(ValueError, match="no feasible decision"):
        region.some_point()
    with pytest.raises(ValueError, match="exceeds its upper bound"):
        Region.box([2.0], [1.0]).some_point()


@given(vectors(numbers, 5), vectors(st.floats(0, 1), 5), st.floats(0, 1))
def test_weighted_quantiles_are_where_the_distribution_reaches_the_level(values, weights, level):
    if weights.sum() == 0:
        weights = np.ones(5)
    found = weighted_quantile(values, weights, level)
    total = weights.sum()
    assert found in values
    assert weights[values <= found].sum() >= level * total * (1 - 1e-9)
    below = values[values < found]
    if len(below):
        assert weights[values <= below.max()].sum() <= level * total * (1 + 1e-9)
