"""Masters, bases, witnesses, the row loop and the level method, each against something slower."""

import warnings
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog

from instances import draw
from programmes import NEWSVENDOR, TERMS, programme, some_tables
from reference import programme as reference
from reference.kernels import describe, kernel_matrix
from reference.losses import newsvendor_minimum, portfolio_minimum
from roodso import ConvergenceWarning, DegenerateDataWarning, RooDSO, SolverError
from roodso.datasets import make_newsvendor_sources
from roodso.kernels import RBF, Laplace, Matern52
from roodso.losses import ConvexLoss, CVaRPortfolio, Newsvendor, Region
from roodso.solver import conic, rows, solve
from roodso.solver.average import minimize_over_mixtures
from roodso.solver.basis import Fixed, Shares, Span, pivoted_cholesky
from roodso.solver.master import Cuts, Master, _balance
from roodso.solver.rows import LoopOptions, WarmStart, generate_rows
from roodso.solver.solve import solve_programme
from roodso.solver.witness import RKHSFunction, best_multiple, support_function

SHOPS = make_newsvendor_sources(6, (8, 20), random_state=5)


def small(loss=NEWSVENDOR, **parameters):
    return RooDSO(loss, **({"n_support": 20, "random_state": 0, "n_jobs": 1} | parameters))


def fitted(data, loss=NEWSVENDOR, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)
        return small(loss, **parameters).fit(data)


def optimum(p):
    """The whole programme's optimal value, by cvxpy."""
    x = cp.Variable(2, nonneg=True)
    costs = reference.newsvendor(x, p.support, *np.array(TERMS))
    tables = [p.embedding.sources.table(i) for i in range(p.embedding.sources.n_sources)]
    set_ = p.uncertainty
    k = describe(set_.kernel)
    return reference.hull_programme(
        costs, [], p.support, tables, set_.mixtures, set_.cap, set_.radius, k
    )


# Cuts and masters


def random_master(seed):
    """A master with cuts at points and anchors, and the same programme in cvxpy."""
    rng = np.random.default_rng(seed)
    n, n_points, rank = int(rng.integers(1, 4)), int(rng.integers(2, 7)), int(rng.integers(1, 5))
    n_anchors = int(rng.integers(1, 4))
    F, A = rng.standard_normal((n_points, rank)), 0.3 * rng.standard_normal((n_anchors, rank))
    cap = float(rng.choice([1.0, max(0.6, 1.0 / n_anchors)]))
    radius = float(rng.choice([1e-3, 0.3, 2.0]))
    lower = rng.uniform(-3, 0, n)
    region = Region.box(lower, lower + rng.uniform(0.5, 4, n))
    if n > 1:
        middle = region.lower + 0.5 * region.side
        region = region.with_inequality(np.ones((1, n)), [middle.sum()])
    cuts, anchor_cuts = Cuts(n), Cuts(n)
    for _ in range(2):
        z = region.lower + region.side * rng.random(n)
        slopes = rng.standard_normal((n_points, n))
        cuts.add(np.arange(n_points), z, rng.standard_normal(n_points), slopes)
        more = rng.standard_normal((n_anchors, n))
        anchor_cuts.add(np.arange(n_anchors), z, rng.standard_normal(n_anchors), more)
    z, y, beta, q = cp.Variable(n), cp.Variable(rank), cp.Variable(), cp.Variable()
    worst = q + cap * cp.sum(cp.pos(A @ y - q))
    problem = cp.Problem(
        cp.Minimize(worst + radius * cp.norm(y) + beta),
        [
            cuts.constant + cuts.slope @ z <= F[cuts.owner] @ y + beta,
            anchor_cuts.constant + anchor_cuts.slope @ z <= A[anchor_cuts.owner] @ y + beta,
            z >= region.lower,
            z <= region.upper,
            region.A_ub @ z <= region.b_ub,
        ],
    )
    value = reference.accurate_value(problem)
    return region, radius, cap, F, A, cuts, anchor_cuts, value


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize(("shift", "unit"), [(0.0, 1.0), (-7.0, 30.0)])
def test_a_master_is_solved_as_by_cvxpy_and_its_multipliers_prove_it(seed, shift, unit):
    region, radius, cap, F, A, cuts, anchor_cuts, value = random_master(seed)
    solution = Master(region, radius, cap, shift, unit).solve(F, A, cuts, anchor_cuts, [])
    assert solution.value == pytest.approx(value, abs=1e-6 * (1 + abs(value)))
    assert solution.accurate
    assert solution.norm == pytest.approx(np.linalg.norm(solution.y), abs=1e-9)
    # Multipliers: a distribution within the radius of an allowed mixture, whose combination of
    # cuts is nowhere below the value.
    w, v, a = solution.cut_weights, solution.anchor_cut_weights, solution.mixture
    assert w.sum() + v.sum() == pytest.approx(1, abs=1e-6)
    assert a.sum() == pytest.approx(1, abs=1e-6)
    assert (a <= cap + 1e-6).all()
    away = w @ F[cuts.owner] + v @ A[anchor_cuts.owner] - a @ A
    assert np.linalg.norm(away) <= radius * (1 + 1e-5)
    constant, slope = (
        one + two for one, two in zip(cuts.minorant(w), anchor_cuts.minorant(v), strict=True)
    )
    assert constant + region.minimize_linear(slope) == pytest.approx(value, abs=1e-5)


def test_conic_rows_in_a_master_are_the_costs_themselves():
    loss = ConvexLoss(
        expression=lambda x, xi: cp.sum(cp.square(np.ones((len(xi), 1)) @ x[None] - xi), axis=1),
        lower=0,
        upper=5,
    )
    p = programme(some_tables(1), loss, radius=0.2)
    everyone = np.arange(len(p.support))
    basis = Span(p.embedding, p.uncertainty)
    basis.extend(everyone)
    F, A = basis.coordinates()
    empty = Cuts(2)
    conic_rows = [(everyone, p.problem.conic_rows(p.support))]
    solution = Master(p.problem.region, 0.2, 1.0, 1.0, 3.0).solve(F, A, empty, empty, conic_rows)
    x = cp.Variable(2)
    tables = [p.embedding.sources.table(i) for i in range(4)]
    whole = reference.full_programme(
        reference.quadratic(x, p.support),
        [x >= 0, x <= 5],
        p.support,
        tables,
        p.uncertainty.weights,
        0.2,
        ("rbf", 1.0),
    )
    assert solution.value == pytest.approx(whole, rel=1e-6)
    assert solution.conic_weights[0].sum() == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_conic_rows_of_any_size_are_balanced_cone_by_cone(seed):
    rng = np.random.default_rng(seed)
    cones = [("zero", 1), ("nonnegative", 3), ("second_order", 4), ("exponential", 3)]
    in_u = sparse.csc_matrix(rng.standard_normal((11, 2)) * 10.0 ** rng.integers(-8, 8, (11, 1)))
    in_t = sparse.csc_matrix(rng.standard_normal((11, 1)))
    in_o = sparse.csc_matrix(rng.standard_normal((11, 3)) * 10.0 ** rng.integers(-8, 8, (1, 3)))
    by_row, by_o = _balance(in_u, in_t, in_o, cones)
    assert (by_row > 0).all()
    assert (by_o > 0).all()
    assert len(set(by_row[4:8])) == 1
    assert len(set(by_row[8:])) == 1
    o = np.abs(by_row[:, None] * in_o.toarray() * by_o)
    given_ = np.abs(by_row[:, None] * np.hstack([in_u.toarray(), in_t.toarray()]))
    whole = np.hstack([given_, o]).max(axis=1)
    largest = np.array([*whole[:4], whole[4:8].max(), whole[8:].max()])
    assert (largest < 30).all()
    assert (largest > 0.03).all()
    assert (o.max(axis=0) < 30).all()
    none = sparse.csc_matrix((11, 0))
    assert _balance(in_u, in_t, none, cones)[1].shape == (0,)


def test_cuts_remember_where_they_touch_and_how_long_they_are_idle():
    cuts = Cuts(2)
    z = np.array([1.0, 2.0])
    cuts.add(np.array([0, 2]), z, np.array([5.0, 6.0]), np.array([[1.0, 0], [0, 3.0]]))
    cuts.add(np.array([2]), np.zeros(2), np.array([1.0]), np.array([[0.0, 0.5]]))
    np.testing.assert_allclose(cuts.constant + cuts.slope @ z, [5.0, 6.0, 2.0])
    np.testing.assert_array_equal(cuts.touch, [z, z, [0, 0]])
    np.testing.assert_array_equal(cuts.largest(z, 4), [5.0, -np.inf, 6.0, -np.inf])
    for _ in range(2):
        cuts.count_idle(np.array([0.5, 0.0, 1e-12]))
    assert cuts.idle.tolist() == [0, 2, 2]
    assert not cuts.drop_idle(3)
    assert cuts.drop_idle(2)
    assert cuts.owner.tolist() == [0]
    constant, slope = cuts.minorant(np.array([2.0]))
    assert (constant, slope.tolist()) == (8.0, [2.0, 0.0])


# Bases and witnesses


@pytest.mark.parametrize("kernel", [RBF(1.0), Laplace(0.7), RBF(0.5) + Matern52(2.0)])
def test_coordinates_give_back_the_kernel(kernel):
    tables = [np.vstack([table, table[:1]]) for table in some_tables(2)]  # duplicates: rank drops
    p = programme(tables, kernel=kernel)
    every = np.arange(len(p.support))
    K = kernel_matrix(describe(kernel), p.support, p.support)
    means = p.embedding.means @ p.uncertainty.mixtures.T
    for basis in (Span(p.embedding, p.uncertainty), Fixed(p.embedding, p.uncertainty, every)):
        basis.extend(every[:9])
        basis.extend(every[9:])
        F, A = basis.coordinates()
        np.testing.assert_allclose(F @ F.T, K, atol=1e-7)
        np.testing.assert_allclose(F @ A.T, means, atol=1e-7)
        basis.retain(np.array([3, 1]))
        F, A = basis.coordinates()
        np.testing.assert_allclose(F @ F.T, K[np.ix_([3, 1], [3, 1])], atol=1e-7)


def test_a_fixed_basis_sees_the_projections_on_its_span():
    p = programme(some_tables(3))
    given = np.array([0, 4, 7, 20])
    K = kernel_matrix(("rbf", 1.0), p.support, p.support)
    basis = Fixed(p.embedding, p.uncertainty, given)
    assert not basis.exact
    basis.extend(np.arange(len(K)))
    F, _ = basis.coordinates()
    nystrom = K[:, given] @ np.linalg.solve(K[np.ix_(given, given)], K[given])
    np.testing.assert_allclose(F @ F.T, nystrom, atol=1e-8)
    y = np.random.default_rng(0).standard_normal(F.shape[1])
    (g,) = basis.witnesses(y, given, Shares(np.zeros(4), np.ones(1), np.ones(1)))
    np.testing.assert_allclose(g.values, F @ y, atol=1e-8)
    assert g.norm == pytest.approx(np.linalg.norm(y), rel=1e-6)


@given(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10**6))
def test_pivoted_cholesky_factors_gram_matrices_of_any_rank(n, rank, seed):
    points = np.random.default_rng(seed).standard_normal((n, rank))
    gram = points @ points.T
    factor, pivots = pivoted_cholesky(gram)
    assert sorted(pivots) == list(range(n))
    assert factor.shape[1] <= min(n, rank)
    np.testing.assert_allclose(factor @ factor.T, gram[np.ix_(pivots, pivots)], atol=1e-9)


def test_a_function_is_its_kernel_expansion():
    p = programme(some_tables(4), kernel=Laplace(0.8))
    rng = np.random.default_rng(0)
    index, coefficients = np.array([2, 5, 25]), rng.standard_normal(3)
    in_sources = rng.standard_normal(4)
    g = RKHSFunction.build(p.embedding, index, coefficients, in_sources)
    sources = p.embedding.sources
    all_coefficients = np.zeros(len(p.support))
    all_coefficients[: sources.n_samples] = (in_sources / sources.sizes)[sources.codes]
    np.add.at(all_coefficients, index, coefficients)
    K = kernel_matrix(("laplace", 0.8), p.support, p.support)
    np.testing.assert_allclose(g.values, K @ all_coefficients, atol=1e-12)
    norm = np.sqrt(all_coefficients @ K @ all_coefficients)
    assert norm <= g.norm <= norm * (1 + 1e-12)
    means = [g.values[: sources.n_samples][sources.codes == i].mean() for i in range(4)]
    np.testing.assert_allclose(g.source_products, means, atol=1e-12)
    expanded = g.expanded(p.embedding)
    np.testing.assert_allclose(expanded(p.support), g.values, atol=1e-12)
    bound = support_function(p.uncertainty, g)
    assert bound == pytest.approx(np.mean(means) + 0.3 * norm, rel=1e-9)
    np.testing.assert_allclose(g.times(-2.0).values, -2 * g.values)
    assert g.times(-2.0).norm == 2 * g.norm


def test_norms_are_rounded_up():
    """Points so near that the squared norm of their difference drowns in rounding."""
    near = [np.array([[1.0, 2.0], [1.0 + 1e-9, 2.0]]), np.array([[1.0, 3.0]])]
    p = programme(near)
    g = RKHSFunction.build(p.embedding, np.array([0, 1]), np.array([1.0, -1.0]), np.zeros(2))
    exact = np.sqrt(-2 * np.expm1(-0.5e-18))
    assert exact <= g.norm <= 1e-6
    assert g.rounding > 0


@given(st.integers(0, 10**6), st.floats(0, 100))
def test_the_best_multiple_of_a_witness_is_that_of_a_fine_grid(seed, start):
    p = programme(some_tables(5), radius=0.2)
    rng = np.random.default_rng(seed)
    h = RKHSFunction.build(p.embedding, np.arange(6), rng.standard_normal(6), np.zeros(4))
    costs = rng.uniform(-1, 1, len(p.support)) * 10.0 ** rng.integers(-2, 3)

    def bound(t):
        return t * support_function(p.uncertainty, h) + (costs - t * h.values).max()

    t, value = best_multiple(p.uncertainty, h, costs, start)
    assert t >= 0
    assert value == pytest.approx(bound(t), rel=1e-9, abs=1e-9)
    size = np.ptp(costs)
    grid = min(bound(s) for s in size * np.linspace(0, 20, 4001))
    assert value <= grid + 1e-9 * size
    assert value <= bound(start) + 1e-12 * (1 + abs(bound(start)))


# The loop


@pytest.mark.parametrize("cap", [1.0, 0.5])
@pytest.mark.parametrize("radius", [0.05, 0.4])
@pytest.mark.parametrize("seed", range(3))
def test_a_thickened_hull_is_solved_as_by_cvxpy(seed, radius, cap):
    p = programme(some_tables(seed), radius=radius, mixtures=np.eye(4), cap=cap)
    solution = solve_programme(p, LoopOptions())
    assert solution.status == "optimal"
    value = optimum(p)
    slack = 1e-5 * abs(value)
    assert solution.lower_bound - slack <= value <= solution.upper_bound + slack
    assert solution.mixture.sum() == pytest.approx(1, abs=1e-9)
    assert (solution.mixture <= cap + 1e-9).all()


def test_three_seeds_may_leave_the_first_master_unbounded_but_for_the_aggregated_row():
    """The paper's Algorithm 2 has no branch for that."""
    p = programme([table - 5 for table in some_tables(6, 6)], radius=0.1)
    far = np.argsort(p.embedding.means @ p.uncertainty.weights)[:3]  # far from the centre
    basis = Span(p.embedding, p.uncertainty)
    basis.extend(far)
    F, A = basis.coordinates()
    z = p.start()
    cuts, none = Cuts(2), Cuts(2)
    cuts.add(
        np.arange(3), z, p.problem.values(z, p.support[far]), p.problem.slopes(z, p.support[far])
    )
    master = Master(p.problem.region, 0.1, 1.0, 0.0, 100.0)
    with pytest.raises(SolverError, match="DualInfeasible"):
        master.solve(F, A, cuts, none, [])
    found = generate_rows(p, LoopOptions(seeds=far, epsilon=1e-6))
    assert found.rounds > 1
    assert found.upper == pytest.approx(optimum(p), rel=1e-5)


def values_by_round(model, data):
    """(lower, upper) of each round, as the progress callback hears them."""
    heard = []

    def listen(stage, fraction, details):
        assert fraction is None
        if stage == "rows":  # and not "cuts", at radius 0
            heard.append((details["lower"], details["upper"], details["gap"]))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)
        model.set_params(progress=listen).fit(data)
    return np.array(heard).reshape(-1, 3)


@pytest.mark.parametrize("seed", range(36))
def test_no_round_loses_ground(seed, monkeypatch):
    """Masters' values never fall although rows are dropped: no set of rows can come back."""
    monkeypatch.setattr(rows, "_PATIENCE", 1)  # drop all that can be dropped
    values = []
    original = rows._Loop._solve_master

    def noted(self, costs):
        solution = original(self, costs)
        values.append(solution.value)
        return solution

    monkeypatch.setattr(rows._Loop, "_solve_master", noted)
    instance = draw(seed)
    heard = values_by_round(instance.model(max_rows=4), instance.tables)
    if len(heard):
        assert (np.diff(heard[:, 0]) >= 0).all()
        assert (np.diff(heard[:, 1]) <= 0).all()
        assert heard[-1, 2] <= 1e-6
        size = 1e-7 * (1 + np.abs(values).max() + np.ptp(values))
        assert (np.diff(values) >= -size).all()


@pytest.mark.parametrize("changes", [{"max_rows": 1}, {"max_rows": 1000}, {"tol": 1e-9}])
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_how_rows_are_added_changes_no_optimum(seed, changes):
    instance = draw(seed)
    plain = instance.model().fit(instance.tables)
    other = instance.model(**changes).fit(instance.tables)
    assert other.solution_.status == "optimal"
    assert other.objective_ == pytest.approx(plain.objective_, rel=2.1e-6, abs=2.1e-6)


def test_no_more_than_max_rows_points_are_added_in_a_round():
    counts = []

    class Counting(Span):
        def extend(self, points):
            counts.append(len(points))
            super().extend(points)

    p = programme(some_tables(7, 8), radius=0.05, n_extra=60)
    generate_rows(p, LoopOptions(max_rows=2), basis=Counting(p.embedding, p.uncertainty))
    assert max(counts) <= 2
    assert len(counts) > 2


def test_a_warm_start_changes_no_answer():
    p = programme(some_tables(8, 6), radius=0.3)
    cold = solve_programme(p, LoopOptions(tol=1e-9))
    rng = np.random.default_rng(0)
    for points in (cold.active, rng.choice(len(p.support), 9, replace=False), np.arange(0)):
        z = rng.uniform(0, 9, 2)  # need not even be in the region
        warm = solve_programme(p, LoopOptions(tol=1e-9), warm=WarmStart(points, z))
        assert warm.status == "optimal"
        assert warm.upper_bound == pytest.approx(cold.upper_bound, rel=3e-9)
    assert (
        solve_programme(p, LoopOptions(), warm=WarmStart(cold.active, cold.decision)).iterations
        <= 2
    )


# Radii


def test_a_huge_radius_leaves_a_game_against_single_points():
    p = programme(some_tables(9), radius=50.0)
    solution = solve_programme(p, LoopOptions())
    x, worst = cp.Variable(2, nonneg=True), cp.Variable()
    costs = reference.newsvendor(x, p.support, *np.array(TERMS))
    game = reference.accurate_value(
        cp.Problem(cp.Minimize(worst), [cost <= worst for cost in costs])
    )
    assert solution.upper_bound == pytest.approx(game, rel=2e-6)
    assert solution.status == "optimal"


@pytest.mark.parametrize(("kernel", "limit"), [("rbf", 36), ("laplace", 25), ("matern52", 40)])
@pytest.mark.parametrize("radius", [1e-3, 1e-4, 1e-5])
def test_a_small_radius_neither_crawls_nor_fails(kernel, limit, radius):
    """The closer to one distribution, the more points share the worst case.

    Repairs that reach as far as the kernel take 46, 34 and 60 rounds.
    """
    shop = make_newsvendor_sources(1, 120, random_state=0)[0]
    model = fitted([shop, shop], kernel=kernel, gamma=radius**2)
    assert model.solution_.status == "optimal"
    assert model.solution_.iterations <= limit
    saa = newsvendor_minimum(shop, np.full(120, 1 / 120), TERMS, lower=[0, 0])
    assert model.objective_ >= saa - 1e-6 * abs(saa)
    larger = fitted([shop, shop], kernel=kernel, gamma=4 * radius**2)
    assert larger.objective_ >= model.solution_.lower_bound


@pytest.mark.parametrize("radius", [3e-7, 1e-6])
def test_where_rounding_rules_the_bounds_hold_and_the_gap_is_said(radius):
    """Squared distances are wrong by 1e-15: at R = 3e-7 that is a hundredth of R squared."""
    shop = make_newsvendor_sources(1, 25, random_state=0)[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        tiny, small_ = (fitted([shop, shop], gamma=r**2) for r in (radius, 1e-4))
    solution = tiny.solution_
    assert solution.lower_bound <= solution.upper_bound <= small_.objective_ + 1e-6
    assert solution.gap <= 1e-3
    assert (solution.gap <= 1e-6) == (solution.status == "optimal")
    saa = newsvendor_minimum(shop, np.full(25, 1 / 25), TERMS, lower=[0, 0])
    assert solution.upper_bound >= saa - 1e-9


@pytest.mark.parametrize("data", [[SHOPS[0]], [SHOPS[0], SHOPS[0]], [SHOPS[0][:1]]])
def test_radius_zero_is_the_sample_average(data):
    model = fitted(data)
    assert model.uncertainty_set_.radius == 0
    table = data[0]
    weights = np.full(len(table), 1 / len(table))
    saa = newsvendor_minimum(table, weights, TERMS, lower=[0, 0])
    assert model.objective_ == pytest.approx(saa, rel=1e-9)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("gamma", [1e-6, 10.0])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_one_point_in_a_ball_of_any_radius_is_met_exactly(size, gamma, seed):
    """All costs are equal but for rounding: their range is no unit to count them in."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 60)), int(rng.integers(1, 11))
    point, price, cost = rng.uniform(1, 3, d), rng.uniform(3e4, 6e4, d), rng.uniform(1e4, 2e4, d)
    data = [np.tile(size * point, (n, 1)), np.tile(size * point, (2, 1))]
    shelf = {"A_ub": np.ones((1, d)), "b_ub": [0.6 * size * point.sum()]}
    capped = linprog(
        cost - price, [np.ones(d)], [0.6 * point.sum()], bounds=[(0, x) for x in point]
    )
    for loss, value in [
        (Newsvendor(price, cost, *rng.uniform(0, 9, (2, d))), (cost - price) @ point),
        (Newsvendor(0.1 * cost, cost), 0.0),
        (Newsvendor(price, cost, **shelf), capped.fun),
    ]:
        model = fitted(data, loss, gamma=gamma, tol=1e-6 * min(1, 1e4 * size))
        assert model.uncertainty_set_.radius > 0
        assert model.solution_.status == "optimal"
        assert model.objective_ == pytest.approx(size * value, rel=1e-5, abs=1e-2 * size)


# Data and money of any size


def transformed(kind):
    """SHOPS, made hard in one way."""
    rng = np.random.default_rng(1)
    if kind == "heavy tails":
        return [np.exp(rng.uniform(0, 14, shop.shape)) for shop in SHOPS]
    if kind == "far away":
        return [shop + 1e6 for shop in SHOPS]
    if kind == "tiny units":
        return [1e-6 * shop for shop in SHOPS]
    if kind == "constant column":
        return [np.column_stack([shop[:, 0], np.full(len(shop), 2.0)]) for shop in SHOPS]
    if kind == "duplicates":
        return [np.round(shop) for shop in SHOPS]
    if kind == "single samples":
        return [shop[:1] for shop in SHOPS]
    return [rng.uniform(1, 3, (6, 10)) + rng.uniform(0, 1, 10) for _ in range(5)]


KINDS = [
    "heavy tails",
    "far away",
    "tiny units",
    "constant column",
    "duplicates",
    "single samples",
    "ten columns",
]


def lower_and_upper(model, table, worth):
    """The bounds, confirmed by hand: cost of the worst case's best decision, and the majorant."""
    s, ball = model.solution_, model.uncertainty_set_
    used = s.worst_case_weights > 0
    terms = [np.full(table.shape[1], value) for value in worth]
    least = newsvendor_minimum(
        s.support[used], s.worst_case_weights[used], terms, lower=np.zeros(table.shape[1])
    )
    x, p, c, h, b = s.decision, *terms
    over, under = np.maximum(x - s.support, 0), np.maximum(s.support - x, 0)
    costs = -np.minimum(x, s.support) @ p + x @ c + over @ h + under @ b
    excess = costs - s.witness(s.support)
    center = sum(w * s.witness.g(ball.sources.table(i)).mean() for i, w in enumerate(ball.weights))
    return least, center + ball.radius * s.witness.g.norm + s.witness.beta + excess.max()


@pytest.mark.parametrize("money", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("kind", KINDS)
def test_hard_data_and_any_money_are_solved(kind, money):
    data = transformed(kind)
    worth = 50 * money, 20 * money, 5 * money, 10 * money
    costs = worth[0] * max(table.max() for table in data)
    model = fitted(data, Newsvendor(*worth), tol=1e-6 * min(1, costs), nu=0.5)
    solution = model.solution_
    assert solution.status == "optimal"
    least, upper = lower_and_upper(model, data[0], worth)
    size = 1e-9 * max(abs(upper), np.ptp(model.solution_.support) * worth[0])
    assert solution.lower_bound <= least + size
    assert solution.upper_bound >= upper - size


@pytest.mark.parametrize(
    "loss",
    [
        Newsvendor(price=[5, 40], cost=[20, 15], backorder=[0, 8]),
        Newsvendor(price=0, cost=0),
        Newsvendor(price=[50, 40], cost=[0, 15]),
        Newsvendor(price=[0, 40], cost=[0, 15], backorder=[0, 1]),
    ],
    ids=["price below cost", "nothing costs", "free to overstock", "an item without a cost"],
)
def test_odd_terms_are_solved(loss):
    model = fitted(SHOPS, loss)
    assert model.solution_.status == "optimal"
    instance_terms = [
        np.broadcast_to(np.asarray(term, float), 2)
        for term in (loss.price, loss.cost, loss.holding, loss.backorder)
    ]
    x = cp.Variable(2, nonneg=True)
    ball = model.uncertainty_set_
    whole = reference.full_programme(
        reference.newsvendor(x, model.solution_.support, *instance_terms),
        [x <= 10],
        model.solution_.support,
        SHOPS,
        ball.weights,
        ball.radius,
        describe(ball.kernel),
    )
    assert model.objective_ == pytest.approx(whole, rel=1e-5, abs=1e-5)


# Failures and limits


def after(count, status="NumericalError"):
    """A conic solver that works ``count`` times and then no more."""
    original = conic.solve_conic
    left = [count]

    def solve(*arguments, **keywords):
        left[0] -= 1
        if left[0] < 0:
            raise SolverError("no conic solver could solve it", status)
        return original(*arguments, **keywords)

    return solve


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_failure_on_the_way_leaves_bounds_that_hold(count, monkeypatch):
    exact = small(nu=1.0, kernel="laplace").fit(SHOPS)
    monkeypatch.setattr(conic, "solve_conic", after(count))
    with pytest.warns(ConvergenceWarning, match="solver failure"):
        model = small(nu=1.0, kernel="laplace", max_rows=1).fit(SHOPS)
    solution = model.solution_
    assert solution.status == "solver failure (NumericalError)"
    assert solution.lower_bound <= exact.objective_ + 1e-9
    assert solution.upper_bound >= exact.solution_.lower_bound - 1e-9
    assert solution.gap > 1e-6


def test_a_failed_refit_leaves_the_model_as_it_was(monkeypatch):
    model = small(nu=0.6).fit(SHOPS)
    before = {name: id(value) for name, value in vars(model).items()}
    monkeypatch.setattr(conic, "solve_conic", after(0))
    with pytest.raises(SolverError, match="no conic solver"):
        model.fit([shop + 1 for shop in SHOPS])
    assert {name: id(value) for name, value in vars(model).items()} == before


def quadratic_expression(x, xi):
    return cp.sum(cp.square(np.ones((len(xi), 1)) @ cp.reshape(x, (1, 2), order="C") - xi), axis=1)


def test_conic_rows_in_large_money_are_no_harder():
    """Not balanced, they are more than the solver can manage, and 19 rounds of cuts are needed."""
    loss = ConvexLoss(expression=lambda x, xi: 1e8 * quadratic_expression(x, xi), lower=0, upper=9)
    model = fitted(some_tables(1, 1), loss, gamma=0.1)
    assert model.solution_.status == "optimal"
    assert model.solution_.iterations <= 8


@pytest.mark.parametrize("how", ["inaccurate", "fails"])
def test_conic_rows_that_the_solver_cannot_manage_give_way_to_cuts(how, monkeypatch):
    loss = ConvexLoss(expression=quadratic_expression, lower=0, upper=5)
    expected = fitted(SHOPS, loss, nu=0.6)
    original = conic._clarabel

    def fragile(c, A, b, cones, *rest, **more):
        solution = original(c, A, b, cones, *rest, **more)
        if sum(kind == "second_order" for kind, _ in cones) < 2:
            return solution
        status, error = ("InsufficientProgress", 1e-4) if how == "inaccurate" else ("Failed", 1.0)
        return conic.ConicSolution(solution.x + 0.1, solution.z, status, "Clarabel", error)

    monkeypatch.setattr(conic, "_clarabel", fragile)
    monkeypatch.setattr(conic, "_scs", lambda *_: None)
    model = fitted(SHOPS, loss, nu=0.6)
    assert model.solution_.status == "optimal"
    assert model.objective_ == pytest.approx(expected.objective_, rel=3e-6)


def test_what_the_certificate_proves_counts_whatever_the_loop_says(monkeypatch):
    p = programme(some_tables(0))
    original = solve.generate_rows
    monkeypatch.setattr(
        solve, "generate_rows", lambda *a, **k: replace(original(*a, **k), status="stalled")
    )
    assert solve_programme(p, LoopOptions()).status == "optimal"
    monkeypatch.setattr(
        solve, "generate_rows", lambda *a, **k: replace(original(*a, **k), z=np.zeros(2))
    )
    assert solve_programme(p, LoopOptions()).status == "inaccurate"


@pytest.mark.parametrize("rows_", ["generated", "all"])
def test_a_time_limit_is_said_and_the_bounds_hold(rows_):
    exact = small(nu=0.6).fit(SHOPS)
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model = small(nu=0.6, time_limit=1e-9, rows=rows_).fit(SHOPS)
    solution = model.solution_
    assert solution.status == "time limit"
    assert solution.lower_bound <= exact.objective_ + 1e-9
    assert solution.upper_bound >= exact.solution_.lower_bound - 1e-9
    assert model.decision_.shape == (2,)


def test_what_a_reduced_representer_leaves_is_no_failure_of_the_solver():
    """The reduced programme is solved; the certified gap says what the reduction costs."""
    settings = {"nu": 1.0, "n_support": 0}
    model = small(**settings, representer="herded", rows="all", n_herding=1).fit(SHOPS)
    assert model.solution_.status == "restricted"
    exact = small(**settings).fit(SHOPS)
    assert model.solution_.lower_bound <= exact.objective_ <= model.objective_ + 1e-6
    stopped = small(**settings, representer="full", epsilon=5.0).fit(SHOPS)
    assert stopped.solution_.status == "stopped by epsilon"


# The level method


def squares(x, xi):
    return ((x - xi) ** 2).sum(axis=1)


def squares_slope(x, xi):
    return 2 * (x - xi)


@pytest.mark.parametrize("seed", range(4))
def test_the_level_method_finds_means_and_centres(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 6))
    xi = rng.uniform(-2, 2, (9, d))
    problem = ConvexLoss(squares, squares_slope, lower=-1.0, upper=1.5).bind(xi.min(0), xi.max(0))
    weights = rng.dirichlet(np.ones(9), 3).T
    start = np.zeros(d)
    one = minimize_over_mixtures(problem, xi, weights[:, :1], cap=1.0, start=start, tol=1e-8)
    best = np.clip(weights[:, 0] @ xi, -1.0, 1.5)
    assert one.upper == pytest.approx(weights[:, 0] @ squares(best, xi), rel=1e-7)
    assert one.upper - one.lower <= 1e-8 * max(1, one.upper)
    for cap in (1.0, 0.5):
        found = minimize_over_mixtures(problem, xi, weights, cap=cap, start=start, tol=1e-7)
        x, q = cp.Variable(d), cp.Variable()
        means = [
            sum(w * c for w, c in zip(column, reference.quadratic(x, xi), strict=True))
            for column in weights.T
        ]
        worst = q + cap * sum(cp.pos(mean - q) for mean in means)
        value = reference.accurate_value(cp.Problem(cp.Minimize(worst), [x >= -1, x <= 1.5]))
        assert found.lower - 1e-6 <= value <= found.upper + 1e-6
        assert found.upper - found.lower <= 1e-7 * max(1, found.upper)
        # The mixture proves the bound: none of its decisions costs less.
        mixed = weights @ found.mixture
        best = np.clip(mixed @ xi, -1.0, 1.5)
        assert mixed @ squares(best, xi) >= found.lower - 1e-9


def test_the_level_method_stops_where_its_bound_is_enough_or_cannot_be():
    xi = np.random.default_rng(0).uniform(-2, 2, (9, 4))
    problem = ConvexLoss(squares, squares_slope, lower=-1.0, upper=1.5).bind(xi.min(0), xi.max(0))
    even = np.full((9, 1), 1 / 9)
    settings = {"cap": 1.0, "start": np.full(4, -1.0), "tol": 1e-10}
    full = minimize_over_mixtures(problem, xi, even, **settings)
    for enough in (full.upper - 0.5, full.upper + 0.5):
        early = minimize_over_mixtures(problem, xi, even, **settings, enough=enough)
        assert early.rounds < full.rounds
        assert early.lower <= full.upper + 1e-9
    assert early.upper - early.lower <= 0.01 * 0.5 + 0.01
    known = minimize_over_mixtures(
        problem, xi, even, **settings, first_cut=(full.lower, np.zeros(4))
    )
    assert known.upper == pytest.approx(full.upper, rel=1e-8)


def test_a_portfolio_average_is_that_of_a_linear_programme():
    returns = np.random.default_rng(2).normal(0.01, 0.05, (12, 4))
    problem = CVaRPortfolio(10, 0.2).bind(returns.min(axis=0), returns.max(axis=0))
    weights = np.random.default_rng(3).dirichlet(np.ones(12))
    start = problem.complete(np.full(4, 0.25), returns, weights)
    found = minimize_over_mixtures(
        problem, returns, weights[:, None], cap=1.0, start=start, tol=1e-8
    )
    assert found.upper == pytest.approx(portfolio_minimum(returns, weights, 10, 0.2), abs=1e-7)
