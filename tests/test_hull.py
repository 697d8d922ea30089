"""ConvexHullDRO minimises the worst mixture of the sources' means, and can prove it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import draw
from reference import averages
from roodso import SAA, ConvexHullDRO, RooDSO
from roodso.datasets import make_newsvendor_sources
from roodso.exceptions import ConvergenceWarning
from roodso.losses import CVaRPortfolio, Newsvendor

LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
SEEDS = range(24)  # each of the six losses four times


def assert_brackets(solution, optimum, tol):
    slack = tol * max(1.0, abs(optimum))
    assert solution.status == "optimal"
    assert solution.lower_bound - slack <= optimum <= solution.upper_bound + slack
    assert solution.gap <= tol


@pytest.mark.parametrize("seed", SEEDS)
def test_the_worst_source_matches_the_programme_written_out(seed):
    instance = draw(seed)
    solution = ConvexHullDRO(instance.loss, tol=1e-7).fit(instance.tables).solution_
    assert_brackets(solution, averages.worst_group(instance, instance.tables), 1e-7)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tail", [0.35, 0.8])
def test_the_worst_share_of_sources_matches_the_programme_written_out(seed, tail):
    instance = draw(seed)
    model = ConvexHullDRO(instance.loss, tail=tail, tol=1e-7).fit(instance.tables)
    optimum = averages.mean_of_worst_groups(instance, instance.tables, tail)
    assert_brackets(model.solution_, optimum, 1e-7)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("tail", [None, 0.5])
def test_weak_duality_from_the_returned_mixture(seed, tail):
    """No decision brings the mixture's mean below the lower bound: by another solver."""
    instance = draw(seed)
    solution = ConvexHullDRO(instance.loss, tail=tail).fit(instance.tables).solution_
    n_sources = len(instance.tables)
    cap = 1.0 if tail is None else min(1.0, 1 / (tail * n_sources))
    assert solution.mixture.min() >= 0
    assert solution.mixture.max() <= cap * (1 + 1e-12)
    assert solution.mixture.sum() == pytest.approx(1.0, abs=1e-12)
    sizes = [len(table) for table in instance.tables]
    spread = np.repeat(solution.mixture / sizes, sizes)
    np.testing.assert_allclose(solution.worst_case_weights, spread, rtol=1e-12)
    least = instance.minimum(np.vstack(instance.tables), spread)
    assert least >= solution.lower_bound - 1e-7 * max(1.0, abs(least))


@pytest.mark.parametrize("seed", range(6))
def test_the_decision_costs_no_source_more_than_the_objective(seed):
    instance = draw(seed)
    model = ConvexHullDRO(instance.loss).fit(instance.tables)
    z = np.concatenate([model.solution_.decision, model.solution_.internal])
    means = [instance.values(z, table).mean() for table in instance.tables]
    assert max(means) == pytest.approx(model.objective_, rel=1e-12)


def test_one_source_is_saa():
    table = np.random.default_rng(0).uniform(1, 3, (40, 2))
    one, saa = ConvexHullDRO(LOSS).fit([table]), SAA(LOSS).fit([table])
    assert one.objective_ == saa.objective_
    np.testing.assert_array_equal(one.decision_, saa.decision_)


def test_identical_sources_are_saa():
    table = np.random.default_rng(0).uniform(1, 3, (40, 2))
    three, saa = ConvexHullDRO(LOSS, tol=1e-8).fit([table] * 3), SAA(LOSS).fit([table])
    assert three.objective_ == pytest.approx(saa.objective_, rel=2e-8)


def test_tail_one_of_sources_of_one_size_is_saa():
    rng = np.random.default_rng(1)
    tables = [rng.uniform(i, i + 2, (20, 2)) for i in range(4)]
    mean = ConvexHullDRO(LOSS, tail=1.0, tol=1e-8).fit(tables)
    assert mean.objective_ == pytest.approx(SAA(LOSS).fit(tables).objective_, rel=2e-8)
    np.testing.assert_allclose(mean.solution_.mixture, 0.25)


@given(seed=st.integers(0, 10**6), tails=st.lists(st.floats(0.05, 1), min_size=2, max_size=3))
def test_the_objective_falls_with_the_tail_and_rises_with_added_sources(seed, tails):
    tables = make_newsvendor_sources(5, (2, 8), random_state=seed)
    objectives = [ConvexHullDRO(LOSS, tail=t).fit(tables).objective_ for t in sorted(tails)]
    worst, fewer = (ConvexHullDRO(LOSS).fit(t).objective_ for t in (tables, tables[:-1]))
    slack = 2e-6 * abs(worst)
    for heavier, lighter in zip([worst, *objectives], objectives, strict=False):
        assert lighter <= heavier + slack
    assert fewer <= worst + slack


def test_it_is_the_thickened_hull_of_radius_zero():
    """A ball round identical sources has radius 0: the same solver, asked by the other method."""
    table = np.random.default_rng(0).uniform(1, 3, (30, 2))
    hull = ConvexHullDRO(LOSS, tol=1e-8).fit([table, table])
    with pytest.warns(UserWarning, match="radius 0"):
        ball = RooDSO(LOSS, random_state=0, tol=1e-8).fit([table, table])
    assert hull.objective_ == pytest.approx(ball.objective_, rel=3e-8)


def test_worst_case_cost_is_the_costliest_source():
    tables = make_newsvendor_sources(6, (10, 20), random_state=3)
    model = ConvexHullDRO(LOSS).fit(tables)
    x = np.array([1.5, 2.5])
    costs = [
        -(np.minimum(x, t) @ [50, 40])
        + x @ [20, 15]
        + np.maximum(x - t, 0) @ [5, 3]
        + np.maximum(t - x, 0) @ [10, 8]
        for t in tables
    ]
    cost = model.worst_case_cost(x)
    worst = int(np.argmax([c.mean() for c in costs]))
    assert cost.upper_bound == pytest.approx(costs[worst].mean(), rel=1e-12)
    assert cost.lower_bound == pytest.approx(costs[worst].mean(), rel=1e-6)
    assert cost.mixture[worst] == pytest.approx(1.0, abs=1e-6)
    assert (cost.decision == x).all()


def test_worst_case_cost_of_portfolio_weights_takes_the_best_tau():
    rng = np.random.default_rng(4)
    tables = [0.05 * rng.standard_normal((12, 3)) + 0.01 * rng.random(3) for _ in range(3)]
    model = ConvexHullDRO(CVaRPortfolio(risk_aversion=2, tail=0.4)).fit(tables)
    x = np.array([0.1, 0.6, 0.3])

    def worst(tau):
        costs = [-(t @ x) for t in tables]
        return max(c.mean() + 2 * (tau + np.maximum(c - tau, 0).mean() / 0.4) for c in costs)

    best = min(worst(tau) for tau in np.linspace(-0.2, 0.2, 40_001))
    cost = model.worst_case_cost(x)
    assert cost.lower_bound - 1e-6 <= best <= cost.upper_bound + 1e-4
    assert cost.upper_bound <= best + 1e-6


def test_a_round_too_few_is_said_and_the_bounds_hold():
    instance = draw(0)
    model = ConvexHullDRO(instance.loss, max_iter=2)
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        model.fit(instance.tables)
    optimum = averages.worst_group(instance, instance.tables)
    assert model.solution_.lower_bound <= optimum <= model.solution_.upper_bound
    assert model.solution_.gap > 1e-6


def test_no_time_is_said():
    instance = draw(0)
    model = ConvexHullDRO(instance.loss, time_limit=1e-9)
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model.fit(instance.tables)


@pytest.mark.parametrize("tail", [0, -1, 1.5, np.nan])
def test_a_tail_that_is_no_share_is_refused(tail):
    with pytest.raises(ValueError, match=r"tail must be a number in \(0, 1\], got"):
        ConvexHullDRO(LOSS, tail=tail).fit([[[1.0, 2.0]]])
