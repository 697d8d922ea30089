"""Certificates hold whatever the loop believed: junk in, true bounds out."""

import warnings
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest

from instances import draw
from programmes import NEWSVENDOR, TERMS, programme, some_tables
from reference import hull
from reference import programme as reference
from reference.checker import Claim, check
from reference.kernels import describe, kernel_matrix
from reference.losses import newsvendor_minimum
from roodso import ConvergenceWarning, DegenerateDataWarning, RooDSO, SolverError
from roodso.losses import CVaRPortfolio, Newsvendor
from roodso.solver import certificate as certificates
from roodso.solver import rows
from roodso.solver.basis import Shares
from roodso.solver.certificate import certify, certify_upper, pull_inside
from roodso.solver.rows import LoopOptions, LoopResult, generate_rows
from roodso.solver.witness import RKHSFunction

NAMES = ["loaves", "rolls"]
SIDE = Newsvendor(*TERMS, A_ub=[[1.0, 1.0]], b_ub=[2.0], upper=1.6)


def optimum(p, loss=NEWSVENDOR):
    x = cp.Variable(2, nonneg=True)
    feasible = [] if loss is NEWSVENDOR else [cp.sum(x) <= 2.0, x <= 1.6]
    tables = [p.embedding.sources.table(i) for i in range(p.embedding.sources.n_sources)]
    set_ = p.uncertainty
    return reference.hull_programme(
        reference.newsvendor(x, p.support, *np.array(TERMS)),
        feasible,
        p.support,
        tables,
        set_.mixtures,
        set_.cap,
        set_.radius,
        describe(set_.kernel),
    )


def junk(p, seed):
    """What a loop gone wrong might hand over: any decision, witness, shares; cuts are cuts."""
    rng = np.random.default_rng(seed)
    n_points, n_anchors = int(rng.integers(1, 6)), p.uncertainty.n_anchors
    points = rng.choice(len(p.support), n_points, replace=False)
    z = 6.0 * rng.random(2) - 1.0
    g = RKHSFunction.build(
        p.embedding,
        rng.choice(len(p.support), 4, replace=False),
        10.0 ** rng.integers(-2, 4) * rng.standard_normal(4),
        rng.standard_normal(p.embedding.sources.n_sources),
    )
    all_shares = rng.dirichlet(np.ones(n_points + n_anchors))
    if rng.random() < 0.3:  # one point alone
        all_shares = np.eye(n_points + n_anchors)[0]
    mixture = rng.dirichlet(np.ones(n_anchors))
    if rng.random() < 0.3:
        mixture = np.eye(n_anchors)[-1] * 1.01  # more than a mixture may
    shares = Shares(all_shares[:n_points], all_shares[n_points:], mixture)
    # The combination of cuts made at some other decision, by these shares.
    at = 4.0 * rng.random(2)
    weights = np.zeros(len(p.support))
    weights[: len(p.anchor_weights())] = p.anchor_weights() @ shares.anchors
    weights[points] += shares.points
    slope = weights @ p.problem.slopes(at, p.support)
    minorant = float(weights @ p.problem.values(at, p.support) - slope @ at), slope
    return LoopResult(z, g, -1e9, 1e9, points, shares, minorant, 3, "optimal")


PROGRAMMES = {
    "ball": (programme(some_tables(0), radius=0.3), NEWSVENDOR),
    "small ball": (programme(some_tables(1), radius=0.02), NEWSVENDOR),
    "side constraints": (programme(some_tables(2), SIDE, radius=0.3), SIDE),
    "hull": (programme(some_tables(3), mixtures=np.eye(4), cap=0.5, radius=0.2), NEWSVENDOR),
}
OPTIMA = {}


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("name", PROGRAMMES)
def test_bounds_from_junk_are_true_bounds(name, seed):
    p, loss = PROGRAMMES[name]
    value = OPTIMA.setdefault(name, optimum(p, loss))
    found = certify(p, junk(p, seed), 1e-6)
    slack = 1e-7 * abs(value)
    assert found.lower <= value + slack
    assert found.upper >= value - slack
    # The decision is feasible, and the witness majorises its cost.
    region = p.problem.region
    assert (found.z >= region.lower).all()
    assert (found.z <= region.upper).all()
    assert (region.A_ub @ found.z <= region.b_ub + 1e-8).all()
    g = found.g.expanded(p.embedding)
    excess = p.problem.values(found.z, p.support) - g(p.support)
    assert excess.max() == pytest.approx(found.beta, rel=1e-9, abs=1e-9 * found.g.norm)


@pytest.mark.parametrize("seed", range(15))
def test_it_is_pulled_towards_the_nearest_mixture_whatever_the_loop_says(seed):
    p, _ = PROGRAMMES["hull"]
    result = junk(p, seed)
    _, mixture, _ = pull_inside(p, result, p.start())
    weights = np.zeros(len(p.support))
    weights[: len(p.anchor_weights())] = p.anchor_weights() @ result.shares.anchors
    weights[result.points] += result.shares.points
    sources = np.zeros((4, len(weights)))
    sources[:, : len(p.anchor_weights())] = p.anchor_weights().T
    rows = np.vstack([sources, weights])
    K = rows @ kernel_matrix(describe(p.uncertainty.kernel), p.support, p.support) @ rows.T
    difference = np.append(-mixture, 1.0)
    nearest = hull.squared_distance(K, np.eye(4), p.uncertainty.cap)
    assert difference @ K @ difference == pytest.approx(nearest, abs=1e-8)


def test_the_loop_s_mixture_is_taken_where_no_nearest_is_found(monkeypatch):
    p, _ = PROGRAMMES["hull"]

    def fail(*_):
        raise SolverError("no mixture", "iteration limit")

    monkeypatch.setattr(type(p.uncertainty), "nearest_mixture", fail)
    weights, mixture, _ = pull_inside(p, junk(p, 0), p.start())
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert (mixture <= p.uncertainty.cap * (1 + 1e-12)).all()


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("name", PROGRAMMES)
def test_what_is_pulled_inside_is_inside(name, seed):
    p, _ = PROGRAMMES[name]
    weights, mixture, (constant, slope) = pull_inside(p, junk(p, seed), p.start())
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert mixture.sum() == pytest.approx(1, abs=1e-12)
    assert (mixture >= 0).all()
    assert (mixture <= p.uncertainty.cap * (1 + 1e-12)).all()
    signed = weights.copy()
    signed[: len(p.anchor_weights())] -= p.anchor_weights() @ mixture
    K = kernel_matrix(describe(p.uncertainty.kernel), p.support, p.support)
    assert signed @ K @ signed <= p.uncertainty.radius**2
    # The minorant is nowhere above the mean cost.
    for z in p.problem.region.lower + p.problem.region.side * np.random.default_rng(0).random(
        (20, 2)
    ):
        assert constant + slope @ z <= weights @ p.problem.values(z, p.support) + 1e-9


def test_the_upper_bound_is_what_the_witness_proves():
    p, _ = PROGRAMMES["ball"]
    result = generate_rows(p, LoopOptions())
    z, upper, g, beta = certify_upper(p, result.z, result.g)
    K = kernel_matrix(("rbf", 1.0), p.support, p.support)
    coefficients = np.zeros(len(K))
    np.add.at(coefficients, g.index, g.coefficients)
    sources = p.embedding.sources
    coefficients[: sources.n_samples] += (g.source_coefficients / sources.sizes)[sources.codes]
    norm = np.sqrt(coefficients @ K @ coefficients)
    center = p.anchor_weights()[:, 0] @ (K @ coefficients)[: sources.n_samples]
    over, under = np.maximum(z - p.support, 0), np.maximum(p.support - z, 0)
    price, cost, holding, backorder = np.array(TERMS)
    costs = -np.minimum(z, p.support) @ price + z @ cost + over @ holding + under @ backorder
    assert beta == pytest.approx((costs - K @ coefficients).max(), abs=1e-10)
    assert upper == pytest.approx(center + 0.3 * norm + beta, abs=1e-9)


@pytest.mark.parametrize("noise", [1e-6, 1e-3, 0.3])
@pytest.mark.parametrize("seed", range(4))
def test_a_solver_that_lies_gets_true_bounds_and_a_gap(seed, noise, monkeypatch):
    """Masters return wrong values, decisions, witnesses and multipliers, and say all is well."""
    p, _ = PROGRAMMES["ball"]
    rng = np.random.default_rng(seed)
    original = rows.Master.solve

    def lying(self, *arguments):
        solution = original(self, *arguments)
        return replace(
            solution,
            z=solution.z + noise * rng.standard_normal(2),
            y=solution.y * (1 + noise * rng.standard_normal(len(solution.y))),
            value=solution.value + noise * abs(solution.value),
            cut_weights=solution.cut_weights * (1 + noise * rng.random(len(solution.cut_weights))),
        )

    monkeypatch.setattr(rows.Master, "solve", lying)
    value = OPTIMA.setdefault("ball", optimum(p))
    found = certify(p, generate_rows(p, LoopOptions(max_iter=20)), 1e-6)
    slack = 1e-7 * abs(value)
    assert found.lower <= value + slack
    assert found.upper >= value - slack


def test_where_the_worst_cases_own_best_cost_fails_the_bound_without_it_stands(monkeypatch):
    def failing(*_, **__):
        raise SolverError("no")

    p, _ = PROGRAMMES["ball"]
    monkeypatch.setattr(certificates, "minimize_over_mixtures", failing)
    found = certify(p, junk(p, 0), 1e-6)
    assert -np.inf < found.lower <= OPTIMA.setdefault("ball", optimum(p)) + 1e-6


# worst_case_cost


def fitted(loss=SIDE, data=None, **parameters):
    tables = [np.abs(table) for table in some_tables(5, 5)] if data is None else data
    settings = {"n_support": 15, "random_state": 0, "n_jobs": 1, "nu": 0.5}
    return RooDSO(loss, **(settings | parameters)).fit(tables)


def inner(model, costs):
    ball, support = model.uncertainty_set_, model.solution_.support
    tables = [ball.sources.table(i) for i in range(ball.sources.n_sources)]
    return reference.worst_distribution(
        costs, support, tables, ball.weights, ball.radius, describe(ball.kernel)
    )


def plain_costs(x, points):
    price, cost, holding, backorder = np.array(TERMS)
    over, under = np.maximum(x - points, 0), np.maximum(points - x, 0)
    return -np.minimum(x, points) @ price + x @ cost + over @ holding + under @ backorder


@pytest.mark.parametrize("x", [[1.0, 0.9], [0.0, 0.0], [1.9, 1.9], [30.0, 2.0], [1.0, -3.0]])
def test_the_worst_case_of_any_decision_inside_or_outside_the_constraints(x):
    model = fitted()
    found = model.worst_case_cost(x)
    value = inner(model, plain_costs(np.array(x), model.solution_.support))
    assert found.status == "optimal"
    slack = 1e-6 * max(1.0, abs(value))
    assert found.lower_bound - slack <= value <= found.upper_bound + slack
    np.testing.assert_array_equal(found.decision, x)
    # Its weights are a worst distribution for x.
    weights = found.worst_case_weights
    assert weights @ plain_costs(np.array(x), found.support) >= found.lower_bound - slack
    if max(x) <= 1.6 and sum(x) <= 2.0 and min(x) >= 0:
        assert found.upper_bound >= model.solution_.lower_bound


def test_the_worst_case_of_the_decision_is_the_objective():
    model = fitted()
    found = model.worst_case_cost(model.decision_)
    assert found.upper_bound == pytest.approx(model.objective_, rel=3e-6)
    assert found.lower_bound <= model.objective_ + 1e-9


def test_the_checker_confirms_the_worst_case_of_any_decision():
    model = fitted()
    x = np.array([1.9, 0.4])
    found, ball = model.worst_case_cost(x), model.uncertainty_set_
    claim = Claim(
        tables=[ball.sources.table(i) for i in range(5)],
        support=found.support,
        source_weights=ball.weights,
        radius=ball.radius,
        kernel=describe(ball.kernel),
        values=plain_costs,
        minimum=lambda points, weights: weights @ plain_costs(x, points),
        decision=x,
        weights=found.worst_case_weights,
        witness_points=found.witness.g.points,
        witness_coefficients=found.witness.g.coefficients,
        beta=found.witness.beta,
        upper=found.upper_bound,
        lower=found.lower_bound,
    )
    assert check(claim) == []
    assert check(replace(claim, decision=x + 1.0)) != []


def test_decisions_are_matched_by_name():
    tables = [pd.DataFrame(np.abs(table), columns=NAMES) for table in some_tables(5, 5)]
    model = fitted(data=tables)
    by_name = model.worst_case_cost(pd.Series({"rolls": 0.4, "loaves": 1.1}))
    np.testing.assert_array_equal(by_name.decision, [1.1, 0.4])
    by_place = model.worst_case_cost([1.1, 0.4])
    assert by_name.upper_bound == by_place.upper_bound
    with pytest.raises(ValueError, match="x must have the columns"):
        model.worst_case_cost(pd.Series({"rolls": 0.4, "cakes": 1.1}))


def test_the_worst_case_of_a_portfolio_takes_the_best_tau():
    returns = [0.02 * (table - 2) for table in some_tables(6, 5, 3)]
    model = fitted(CVaRPortfolio(10, 0.2), returns)
    ball, support = model.uncertainty_set_, model.solution_.support
    x = np.array([0.2, 0.5, 0.3])
    found = model.worst_case_cost(x)
    tau = cp.Variable()
    value = reference.full_programme(
        reference.portfolio(x, tau, support, 10, 0.2),
        [],
        support,
        returns,
        ball.weights,
        ball.radius,
        describe(ball.kernel),
    )
    assert found.lower_bound - 1e-6 <= value <= found.upper_bound + 1e-6
    assert found.gap <= 1e-6


def test_at_radius_zero_the_worst_case_is_the_mean():
    with pytest.warns(DegenerateDataWarning):
        model = fitted(NEWSVENDOR, [some_tables(1)[0]])
    x = np.array([1.0, 4.0])
    found = model.worst_case_cost(x)
    mean = plain_costs(x, some_tables(1)[0]).mean()
    assert found.upper_bound == pytest.approx(mean, rel=1e-12)
    assert found.lower_bound == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_the_worst_case_of_any_instance_is_not_below_the_optimum(seed):
    instance = draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)
        model = instance.model().fit(instance.tables)
    x = model.decision_ * 0.9
    if instance.kind == "portfolio":
        x = np.full(instance.d, 1 / instance.d)
    found = model.worst_case_cost(x)
    assert found.status == "optimal"
    assert found.upper_bound >= model.solution_.lower_bound - 1e-9


# The table


def test_the_worst_case_is_a_table_of_points_with_their_sources():
    tables = {
        f"shop {i}": pd.DataFrame(np.abs(table), columns=NAMES)
        for i, table in enumerate(some_tables(5, 5))
    }
    model = fitted(data=tables)
    solution = model.solution_
    table = solution.worst_case()
    assert list(table.columns) == ["weight", "source", *NAMES]
    assert table["weight"].is_monotonic_decreasing
    assert table["weight"].min() > 1e-9
    assert table["weight"].sum() == pytest.approx(1, abs=1e-6)
    np.testing.assert_array_equal(table[NAMES].to_numpy(), solution.support[table.index])
    stacked = pd.concat(tables.values(), ignore_index=True)
    for row, source in table["source"].items():
        if row < len(stacked):
            assert (tables[source].to_numpy() == stacked.loc[row].to_numpy()).all(axis=1).any()
        else:
            assert source is None
    everything = solution.worst_case(minimum=0.0)
    assert len(everything) == (solution.worst_case_weights > 0).sum()
    assert everything["weight"].sum() == pytest.approx(1, abs=1e-12)
    used = table.index.to_numpy()
    least = newsvendor_minimum(
        solution.support[used],
        table["weight"].to_numpy(),
        TERMS,
        lower=[0, 0],
        upper=[1.6, 1.6],
        A_ub=[[1, 1]],
        b_ub=[2],
    )
    assert least == pytest.approx(solution.lower_bound, rel=1e-5)


def test_bounds_hold_where_the_loop_is_stopped_early():
    whole = fitted(nu=1.0, kernel="laplace")
    for limit in (1, 2, 3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = fitted(nu=1.0, kernel="laplace", max_iter=limit, max_rows=1)
        assert model.solution_.lower_bound <= whole.objective_ + 1e-9
        assert model.solution_.upper_bound >= whole.solution_.lower_bound - 1e-9
        ball = model.uncertainty_set_
        claim = Claim(
            tables=[ball.sources.table(i) for i in range(5)],
            support=model.solution_.support,
            source_weights=ball.weights,
            radius=ball.radius,
            kernel=describe(ball.kernel),
            values=plain_costs,
            minimum=lambda points, weights: newsvendor_minimum(
                points, weights, TERMS, lower=[0, 0], upper=[1.6, 1.6], A_ub=[[1, 1]], b_ub=[2]
            ),
            decision=model.decision_,
            weights=model.solution_.worst_case_weights,
            witness_points=model.solution_.witness.g.points,
            witness_coefficients=model.solution_.witness.g.coefficients,
            beta=model.solution_.witness.beta,
            upper=model.solution_.upper_bound,
            lower=model.solution_.lower_bound,
        )
        assert check(claim) == []
