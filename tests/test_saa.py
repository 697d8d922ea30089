"""SAA minimises the pooled average, whichever way the average is computed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import draw
from reference import averages
from roodso import SAA, ConvergenceWarning
from roodso.losses import CVaRPortfolio, Newsvendor

SEEDS = range(24)  # each of the six losses four times


@pytest.mark.parametrize("seed", SEEDS)
def test_the_objective_is_the_least_average_cost(seed):
    instance = draw(seed)
    pooled = np.vstack(instance.tables)
    model = SAA(instance.loss, tol=1e-7).fit(instance.tables)
    least = averages.average(instance, pooled)
    solution = model.solution_
    scale = max(1.0, abs(least))
    assert solution.status == "optimal"
    assert solution.lower_bound - 1e-7 * scale <= least <= solution.upper_bound + 1e-7 * scale
    assert solution.gap <= 1e-7
    z = np.concatenate([solution.decision, solution.internal])
    assert np.isclose(instance.values(z, pooled).mean(), model.objective_, rtol=1e-12)


def test_each_row_counts_the_same_whatever_its_source():
    loss = Newsvendor(price=2, cost=1)
    tables = [[[1.0], [1.0], [1.0]], [[5.0]]]
    assert SAA(loss).fit(tables).decision_ == 1.0
    solution = SAA(loss).fit(tables).solution_
    assert solution.worst_case_weights.tolist() == [0.25] * 4
    assert solution.mixture.tolist() == [1.0]


@given(
    demand=st.lists(st.floats(0, 100), min_size=1, max_size=12),
    terms=st.tuples(*[st.integers(0, 50)] * 4),
)
def test_the_newsvendor_decision_beats_every_demand_as_an_order(demand, terms):
    """The mean cost is piecewise linear in the order: its least value is at a demand or at 0."""
    p, c, h, b = terms
    xi = np.array(demand)[:, None]
    model = SAA(Newsvendor(price=p, cost=c, holding=h, backorder=b)).fit([xi])

    def mean_cost(x):
        over, under = np.maximum(x - xi, 0), np.maximum(xi - x, 0)
        return float(np.mean(-p * np.minimum(x, xi) + c * x + h * over + b * under))

    least = min(mean_cost(x) for x in [0.0, *demand])
    assert model.objective_ == pytest.approx(least, rel=1e-12, abs=1e-9)
    assert mean_cost(model.decision_[0]) == pytest.approx(least, rel=1e-12, abs=1e-9)


def test_side_constraints_hold_and_cost_something():
    rng = np.random.default_rng(0)
    tables = [rng.uniform(1, 3, (20, 3)) for _ in range(3)]
    free = SAA(Newsvendor(price=50, cost=20)).fit(tables)
    tight = SAA(Newsvendor(price=50, cost=20, A_ub=np.ones((1, 3)), b_ub=[4.0])).fit(tables)
    assert tight.decision_.sum() <= 4.0 + 1e-12
    assert tight.objective_ > free.objective_


def test_the_cost_of_a_decision_of_ones_own_is_its_average():
    rng = np.random.default_rng(1)
    tables = [rng.uniform(0, 3, (15, 2)) for _ in range(4)]
    model = SAA(Newsvendor(price=50, cost=20, holding=4)).fit(tables)
    x, xi = np.array([2.5, 0.7]), np.vstack(tables)
    expected = -50 * np.minimum(x, xi).sum(1) + 20 * x.sum() + 4 * np.maximum(x - xi, 0).sum(1)
    cost = model.worst_case_cost(x)
    assert cost.upper_bound == pytest.approx(expected.mean(), rel=1e-12)
    assert cost.lower_bound == pytest.approx(expected.mean(), rel=1e-12)


def test_the_cost_of_weights_of_ones_own_takes_the_best_tau():
    rng = np.random.default_rng(2)
    returns = [0.05 * rng.standard_normal((25, 3)) for _ in range(2)]
    model = SAA(CVaRPortfolio(risk_aversion=3, tail=0.3), tol=1e-9).fit(returns)
    x = np.array([0.2, 0.5, 0.3])
    cost = model.worst_case_cost(x)
    losses = -np.vstack(returns) @ x
    cvar = min(tau + np.maximum(losses - tau, 0).mean() / 0.3 for tau in losses)
    assert cost.upper_bound == pytest.approx(losses.mean() + 3 * cvar, abs=2e-9)
    assert cost.upper_bound >= model.objective_
    assert -model.score(np.vstack(returns)) == pytest.approx(model.objective_, abs=2e-9)


def test_it_gives_up_where_costs_have_more_digits_than_the_solver():
    returns = np.random.default_rng(0).normal(0, 0.03, (60, 3))
    returns[5, 1] = -1e15
    with pytest.warns(ConvergenceWarning, match="'stalled'"):
        model = SAA(CVaRPortfolio()).fit([returns])
    solution = model.solution_
    assert solution.iterations < 1000
    assert solution.lower_bound <= solution.upper_bound
    z = np.concatenate([solution.decision, solution.internal])
    assert solution.upper_bound == pytest.approx(model._problem.values(z, returns).mean())
