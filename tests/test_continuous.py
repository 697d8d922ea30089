"""The worst case over a whole box: searched, bounded by branch and bound, and repaired."""

import dataclasses
import pickle
import warnings
from math import factorial

import numpy as np
import pytest
from sklearn.base import clone

import instances
import roodso
from instances import Instance
from reference import checker
from reference.kernels import describe, kernel_matrix
from reference.programme import worst_distribution
from roodso import RooDSO, SolverError
from roodso.datasets import make_newsvendor_sources
from roodso.embedding import Coordinates, Embedding, KernelSpace
from roodso.exceptions import ConvergenceWarning, DegenerateDataWarning
from roodso.expansion import KernelExpansion
from roodso.kernels import RBF, Kernel, Laplace, Matern32, Matern52
from roodso.losses import ConvexLoss, CVaRPortfolio, Newsvendor
from roodso.sets import UncertaintySet
from roodso.solver import LoopOptions, Programme, Witness, continuous
from roodso.solver.ascent import ascend
from roodso.solver.branch import bound_excess
from roodso.solver.continuous import BoxSearch, solve_over_box
from roodso.solver.excess import Excess
from roodso.solver.minorant import WitnessMinorant
from roodso.sources import Sources

SMOOTH = {
    "rbf": RBF(0.7),
    "matern52": Matern52(0.8),
    "matern32": Matern32(0.9),
    "rbf + matern52": RBF(0.5) + Matern52(1.1),
    "rbf * matern32": RBF(1.2) * Matern32(0.9),
    "matern52 * matern52": Matern52(1.3) * Matern52(0.9),
    "rbf * rbf + matern32": RBF(1.0) * RBF(1.5) + Matern32(1.0),
}
SHARP = {
    "laplace": Laplace(0.8),
    "rbf + laplace": RBF(0.6) + Laplace(1.0),
    "laplace * rbf": Laplace(1.2) * RBF(0.9),
    "laplace * laplace": Laplace(1.2) * Laplace(0.9),
    "matern32 * laplace": Matern32(0.7) * Laplace(0.8),
}


class Unknown(Kernel):
    """A user's kernel, exp(-r^2 / 2), that states no more than it must."""

    bound, factor, sharp, bandwidths = 1.0, -0.5, False, (1.0,)
    curvature, steepness = 1.0, np.exp(-0.5)

    def from_scaled(self, u):
        return np.exp(u, out=u)

    def profile(self, r):
        return np.exp(-0.5 * r**2), -r * np.exp(-0.5 * r**2)

    def with_bandwidth(self, bandwidth):
        return self

    def to_dict(self):
        return {"kind": "rbf", "bandwidth": 1.0}


KERNELS = SMOOTH | SHARP | {"unknown": Unknown()}
each_smooth = pytest.mark.parametrize("name", SMOOTH)
each_kernel = pytest.mark.parametrize("name", KERNELS)
NEWSVENDOR = {"price": [50, 40], "cost": [20, 15], "holding": [5, 3], "backorder": [10, 8]}


def on_a_line(kernel, t):
    """phi(t) by the reference."""
    return kernel_matrix(describe(kernel), np.zeros((1, 1)), np.reshape(t, (-1, 1)))[0]


def expansion(kernel, d, rng, n=6, scale=None):
    """A random g, in units that the kernel sees scaled and shifted."""
    coordinates = Coordinates(rng.normal(size=d), np.ones(d) if scale is None else scale)
    points = rng.normal(size=(n, d)) * coordinates.scale
    return KernelExpansion(KernelSpace(kernel, coordinates), points, rng.normal(size=n))


def values(g, at):
    """The reference's values of g."""
    s = g.space.coordinates.scale
    return kernel_matrix(describe(g.space.kernel), at / s, g.points / s) @ g.coefficients


# --- What kernels say of themselves --------------------------------------------------------------


@each_kernel
def test_moments_are_the_derivatives_at_zero(name):
    kernel = KERNELS[name]
    t = np.linspace(0, 0.4, 400)
    powers = [0, *range(2, 13)] if not kernel.sharp else range(13)
    coefficients, *_ = np.linalg.lstsq(t[:, None] ** powers, on_a_line(kernel, t), rcond=1e-15)
    for j, moment in enumerate(kernel.moments):
        if np.isfinite(moment):
            fitted = (-1) ** j * factorial(2 * j) * coefficients[list(powers).index(2 * j)]
            assert moment == pytest.approx(fitted, rel=0.02)
    assert kernel.moments[0] == kernel.bound
    assert kernel.moments[1] == kernel.curvature


@each_smooth
@pytest.mark.parametrize("d", [1, 2, 3])
def test_derivatives_are_gradient_and_hessian(name, d):
    kernel, rng = SMOOTH[name], np.random.default_rng(d)
    at, h = rng.normal(size=(20, d)), 1e-4
    value, first, second = kernel.derivatives(np.linalg.norm(at, axis=1))

    def k(x):
        return kernel_matrix(describe(kernel), x, np.zeros((1, d)))[:, 0]

    np.testing.assert_allclose(value, k(at), rtol=1e-12)
    for i in range(d):
        step = h * np.eye(d)[i]
        slope = (k(at + step) - k(at - step)) / (2 * h)
        np.testing.assert_allclose(first * at[:, i], slope, atol=1e-6)
        for j in range(d):
            other = h * np.eye(d)[j]
            cross = k(at + step + other) - k(at + step - other)
            cross = (cross - k(at - step + other) + k(at - step - other)) / (4 * h * h)
            expected = second * at[:, i] * at[:, j] + first * (i == j)
            np.testing.assert_allclose(expected, cross, atol=1e-5)


@each_smooth
def test_third_bounds_third_derivatives_along_lines(name):
    kernel, rng = SMOOTH[name], np.random.default_rng(0)
    h, largest = 1e-3, 0.0
    for d in (1, 2, 3):
        at, u = rng.normal(size=(4000, d)), rng.normal(size=(4000, d))
        at[:500] *= 0.02  # beside the point, where Matern 3/2 is steepest
        u /= np.linalg.norm(u, axis=1)[:, None]

        def second(x, u=u):  # the Hessian's value along u
            _, first, second = kernel.derivatives(np.linalg.norm(x, axis=1))
            return second * (x * u).sum(axis=1) ** 2 + first

        third = np.abs(second(at + h * u) - second(at - h * u)) / (2 * h)
        largest = max(largest, third.max())
    assert largest <= kernel.third * (1 + 1e-3)
    if name in ("rbf", "matern52", "matern32"):
        assert largest >= 0.97 * kernel.third


@each_kernel
@pytest.mark.parametrize("order", [0, 1, 2])
def test_taylor_remainder_is_the_norm_of_the_remainder(name, order):
    """By the Gram matrix of point evaluations, with differences for the derivatives at 0."""
    kernel, h = KERNELS[name], 1e-3
    if not np.isfinite(kernel.moments[order]):
        assert (kernel.taylor_remainder(np.array([0.0, 0.1]), order) == np.inf).all()
        return
    for t in (0.3, 1.0, 2.5):
        nodes, weights = [t, 0.0], [1.0, -1.0]
        if order >= 1:
            nodes += [h, -h]
            weights += [-t / (2 * h), t / (2 * h)]
        if order == 2:
            nodes += [h, -h, 0.0]
            weights += [-0.5 * t**2 / h**2, -0.5 * t**2 / h**2, t**2 / h**2]
        nodes, weights = np.array(nodes)[:, None], np.array(weights)
        squared = weights @ kernel_matrix(describe(kernel), nodes, nodes) @ weights
        stated = kernel.taylor_remainder(np.array([t]), order)[0]
        assert stated == pytest.approx(np.sqrt(squared), rel=0.02)
    rising = kernel.taylor_remainder(np.linspace(1e-8, 5, 2000), order)
    assert (np.diff(rising) >= -1e-7).all()


@each_kernel
@pytest.mark.parametrize("d", [1, 2, 3])
def test_linear_remainder_holds_everywhere(name, d):
    kernel, rng = KERNELS[name], np.random.default_rng(d)
    for size in (1e-3, 0.1, 1.0, 3.0):
        a = rng.normal(size=(3000, d)) * rng.choice([size, 1.0], (3000, 1))
        a[0] = 0.0
        move = rng.normal(size=(3000, d))
        move *= (
            size * rng.uniform(size=(3000, 1)) ** (1 / d) / np.linalg.norm(move, axis=1)[:, None]
        )
        toward = rng.random(3000) < 0.3  # along the line through the point, past it and away
        along = a[toward] / np.maximum(np.linalg.norm(a[toward], axis=1), 1e-300)[:, None]
        move[toward] = along * rng.uniform(-size, size, (toward.sum(), 1))
        r = np.linalg.norm(a, axis=1)
        k = kernel_matrix(describe(kernel), np.vstack([a, a + move]), np.zeros((1, d)))[:, 0]
        slope = np.where(r > 0, kernel.profile(r)[1] / np.where(r > 0, r, 1.0), 0.0)
        left = k[3000:] - k[:3000] - slope * (a * move).sum(axis=1)
        below, above = kernel.linear_remainder(r[None], np.array([[size]]))
        assert (left <= above[0] + 1e-13).all()
        assert (left >= -below[0] - 1e-13).all()


def test_linear_remainder_of_laplace_is_of_second_order_on_the_upper_side():
    kernel, r = Laplace(1.0), np.array([[0.0, 0.3, 2.0]])
    for radius in (1e-2, 1e-3):
        below, above = kernel.linear_remainder(r, np.array([[radius]]))
        assert (above <= 0.51 * radius**2).all()
        assert (below[0, 1:] <= 2 * radius**2).all()
        assert below[0, 0] <= 2 * radius


# --- Minorants of the witness --------------------------------------------------------------------


@each_kernel
@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("n", [1, 9])
def test_minorants_stay_below_the_witness(name, d, n):
    rng = np.random.default_rng(10 * d + n)
    scale = rng.uniform(0.5, 2.0, d)
    g = expansion(KERNELS[name], d, rng, n=n, scale=scale)
    g = dataclasses.replace(g, n_jobs=2)
    minorant = WitnessMinorant(g, np.full(d, -9.0), np.full(d, 9.0))
    for size in (0.003, 0.05, 0.4, 2.0):
        centers = rng.normal(size=(300, d)) * 1.5
        half = size * rng.uniform(0.2, 1.0, (300, d))
        below = minorant(centers, half)
        share = rng.uniform(-1, 1, (40, 300, d))
        share[:20] = np.sign(share[:20])  # vertices
        move = share * half
        at = (centers + move) * scale + g.space.coordinates.shift
        true = values(g, at.reshape(-1, d)).reshape(40, 300)
        lower = below.value + (below.slope * move).sum(axis=2) - below.shortfall
        lower += 0.5 * below.curvature * (move**2).sum(axis=2)
        assert (true >= lower - below.slack).all()
        assert (true >= below.constant - below.slack).all()
        exact = values(g, centers * scale + g.space.coordinates.shift)
        np.testing.assert_allclose(below.value, exact, atol=1e-12)


@each_smooth
def test_minorants_of_smooth_kernels_are_close_on_small_cells(name):
    rng = np.random.default_rng(0)
    g = expansion(SMOOTH[name], 1, rng)
    minorant = WitnessMinorant(g, np.full(1, -4.0), np.full(1, 4.0))
    centers, half = np.linspace(-2, 2, 50)[:, None], np.full((50, 1), 1e-3)
    below = minorant(centers, half)
    lower = below.value + below.slope[:, 0] * 1e-3 + 0.5 * below.curvature * 1e-6 - below.shortfall
    true = values(g, centers + 1e-3 + g.space.coordinates.shift)
    assert (true - lower <= 1e-6 * g.mass).all()  # third order


# --- Branch and bound ----------------------------------------------------------------------------


def convex_loss(d, rng, kind, origin=0.0):
    """A loss that is convex in xi, with a decision that has no part in it."""
    slopes, offsets = 2 * rng.normal(size=(5, d)), rng.normal(size=5)

    def value(x, xi):
        xi = xi - origin
        if kind == "piecewise":
            return (xi @ slopes.T + offsets).max(axis=1)
        return 0.3 * (xi**2).sum(axis=1) + xi @ slopes[0]

    zero = {"lower": 0.0, "upper": 1.0, "dimension": 1, "convex_in_xi": True}
    return ConvexLoss(value, lambda x, xi: np.zeros((len(xi), 1)), **zero)


def grid(lower, upper, n):
    axes = [np.linspace(a, b, n) for a, b in zip(lower, upper, strict=True)]
    return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, len(axes))


@each_kernel
@pytest.mark.parametrize(("d", "kind"), [(1, "piecewise"), (2, "piecewise"), (2, "quadratic")])
def test_branch_and_bound_meets_a_fine_grid(name, d, kind):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        scale = np.ones(d) if seed == 0 else rng.uniform(0.5, 2.0, d)
        far = 1e5 if seed == 1 else 0.0
        g = expansion(KERNELS[name], d, rng, scale=scale)
        shifted = Coordinates(g.space.coordinates.shift + far, scale)
        g = KernelExpansion(KernelSpace(KERNELS[name], shifted), g.points + far, g.coefficients)
        lower, upper = np.full(d, -2.0) + far, np.full(d, 1.5) + far
        problem = convex_loss(d, rng, kind, far).bind(lower, upper)
        tol = 1e-5 if KERNELS[name].third < np.inf else 1e-2
        excess = Excess(problem, np.zeros(1), Witness(g, 0.3), lower, upper)
        found = bound_excess(excess, tol=tol, budget=400_000)
        points = grid(lower, upper, 2001 if d == 1 else 141)
        highest = (problem.values(np.zeros(1), points) - values(g, points) - 0.3).max()
        assert found.upper >= highest - 1e-9
        assert found.lower <= found.upper
        # The grid misses at most half a step of a slope; the bound is within tol of the truth.
        assert found.upper <= max(tol, found.lower + tol)
        assert found.lower <= highest + (0.05 if d == 1 else 0.3)


def test_branch_and_bound_stops_at_its_budget_with_a_bound_that_holds():
    rng = np.random.default_rng(0)
    g = expansion(Matern52(0.5), 3, rng, n=20)
    lower, upper = np.full(3, -2.0), np.full(3, 2.0)
    problem = convex_loss(3, rng, "piecewise").bind(lower, upper)
    excess = Excess(problem, np.zeros(1), Witness(g, 0.0), lower, upper)
    highest, bounds = excess(grid(lower, upper, 41)).max(), []
    for budget in (1, 100, 1000, 10_000):
        found = bound_excess(excess, tol=1e-6, budget=budget)
        assert found.cells <= budget + 1
        assert found.upper >= highest
        bounds.append(found.upper)
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] < bounds[0]


def test_branch_and_bound_halts_where_it_meets_an_excess():
    rng = np.random.default_rng(1)
    g = expansion(RBF(0.5), 2, rng)
    lower, upper = np.full(2, -2.0), np.full(2, 2.0)
    problem = convex_loss(2, rng, "piecewise").bind(lower, upper)
    excess = Excess(problem, np.zeros(1), Witness(g, 0.0), lower, upper)
    whole = bound_excess(excess, tol=1e-6, budget=100_000)
    half = bound_excess(excess, tol=1e-6, budget=100_000, halt=0.5 * whole.lower)
    assert half.cells < whole.cells
    assert len(half.points) > 0
    assert (excess(half.points) > 0.5 * whole.lower).all()
    assert half.upper >= whole.upper - 1e-6
    assert len(whole.points) == 0


def test_a_flat_box_is_a_point():
    rng = np.random.default_rng(1)
    g = expansion(RBF(0.5), 2, rng)
    at = np.array([0.3, -0.2])
    problem = convex_loss(2, rng, "piecewise").bind(at, at)
    excess = Excess(problem, np.zeros(1), Witness(g, 0.0), at, at)
    found = bound_excess(excess, tol=1e-9, budget=100)
    assert found.upper == pytest.approx(excess(at[None])[0], abs=1e-9)
    assert found.upper >= excess(at[None])[0]
    assert found.cells == 1


# --- Search --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", [Newsvendor(50, 20, 5, 10), CVaRPortfolio(5.0, 0.3)])
def test_slopes_in_xi_are_the_costs_slopes(loss):
    rng = np.random.default_rng(0)
    lower, upper = np.zeros(3), np.ones(3)
    problem = loss.bind(lower, upper)
    xi = rng.uniform(0.1, 0.9, (200, 3))
    elsewhere = rng.uniform(0.1, 0.9, (200, 3))  # so that no row lies on tau's kink
    z = problem.complete(np.array([0.5, 0.3, 0.2]), elsewhere, np.full(200, 1 / 200))
    g = expansion(RBF(1.0), 3, rng)
    differences = Excess(problem, z, Witness(g, 0.0), lower, upper)._differences(xi)
    np.testing.assert_allclose(problem.slopes_in_xi(z, xi), differences, atol=1e-4)


@each_kernel
@pytest.mark.parametrize("d", [1, 2, 4])
def test_ascent_ends_in_the_box_and_never_below_its_start(name, d):
    rng = np.random.default_rng(d)
    scale = rng.uniform(0.3, 3.0, d)
    g = expansion(KERNELS[name], d, rng, scale=scale)
    lower, upper = np.full(d, -2.0), np.full(d, 1.5)
    upper[-1] = lower[-1] if d == 4 else upper[-1]  # a flat column
    problem = convex_loss(d, rng, "piecewise").bind(lower, upper)
    excess = Excess(problem, np.zeros(1), Witness(g, 0.3), lower, upper)
    starts = rng.uniform(lower, upper, (60, d))
    found, reached = ascend(excess, starts, 1e-8)
    assert (found >= lower).all()
    assert (found <= upper).all()
    np.testing.assert_allclose(reached, excess(found), atol=1e-10)
    assert (reached >= excess(starts) - 1e-10).all()
    if d <= 2:
        highest = excess(grid(lower, upper, 2001 if d == 1 else 141)).max()
        assert reached.max() >= highest - 1e-6 * g.mass


# --- The whole -----------------------------------------------------------------------------------


def few(d=2, seed=0, n=6, n_sources=6):
    """Sources of few samples near each other, so that much of the box is empty."""
    rng = np.random.default_rng(seed)
    return [rng.normal(rng.uniform(1.6, 2.4, d), 0.4, (n, d)) for _ in range(n_sources)]


def newsvendor(d):
    return Newsvendor(np.linspace(50, 40, d), np.linspace(20, 15, d), 5.0, 10.0)


def fit(loss, data, how="prove", **parameters):
    defaults = {"nu": 0.5, "n_support": 0, "random_state": 0, "n_jobs": 1, "continuous": how}
    return RooDSO(loss, **(defaults | parameters)).fit(data)


def largest_excess(model, n=201):
    """f - g - beta on a fine grid of the box, by the reference."""
    s, box = model.solution_, model.solution_.box
    box = (s.support.min(axis=0), s.support.max(axis=0)) if box is None else (box.lower, box.upper)
    points = grid(*box, n)
    costs = model._problem.values(np.concatenate([s.decision, s.internal]), points)
    return float((costs - values(s.witness.g, points) - s.witness.beta).max())


def test_a_witness_exceeded_between_the_samples_is_repaired():
    data = few()
    without = fit(newsvendor(2), data, False)
    tolerance = 1e-6 * abs(without.objective_)
    assert without.solution_.box is None
    assert largest_excess(without) > 1e3 * tolerance
    model = fit(newsvendor(2), data)
    solution, box = model.solution_, model.solution_.box
    assert solution.status == "optimal"
    assert box.proved
    assert box.points_added > 0
    assert box.violation_found <= box.tolerance == pytest.approx(1e-6 * abs(model.objective_))
    assert largest_excess(model) <= box.upper_bound - solution.upper_bound + 1e-9
    assert solution.lower_bound <= solution.upper_bound <= box.upper_bound
    assert box.upper_bound <= solution.upper_bound + box.tolerance
    # The samples come first, then what was added, which is of no source.
    n = 36
    np.testing.assert_array_equal(solution.support[:n], np.vstack(data))
    assert len(solution.support) == n + box.points_added
    assert (solution.origin[n:] == -1).all()
    assert solution.worst_case_weights[n:].sum() > 0.1
    assert (solution.support >= box.lower).all()
    assert (solution.support <= box.upper).all()
    # More support points enlarge the set.
    assert model.objective_ >= without.objective_ - tolerance


ONE_COLUMN = ["rbf", "matern52", "matern32", "laplace", RBF() + Laplace(), Matern52() * RBF(2.0)]


@pytest.mark.parametrize("kernel", ONE_COLUMN, ids=str)
def test_no_distribution_on_a_fine_grid_beats_the_bound_in_one_dimension(kernel):
    data = few(1, seed=3)
    tol = 1e-6 if not roodso.kernels.as_kernel(kernel).sharp else 1e-4
    model = fit(newsvendor(1), data, kernel=kernel, tol=tol)
    s, ball = model.solution_, model.uncertainty_set_
    assert s.box.proved
    support = np.vstack([s.support, grid(s.box.lower, s.box.upper, 150)])
    costs = model._problem.values(s.decision, support)
    arguments = (support, data, ball.weights, ball.radius, describe(ball.kernel))
    worst = worst_distribution(costs, *arguments)
    size = abs(s.box.upper_bound)
    assert worst <= s.box.upper_bound + 1e-7 * size
    assert worst >= s.box.upper_bound - 3 * tol * size  # and the bound is no more than it need be


@pytest.mark.parametrize("kernel", ["rbf", "matern52", "matern32"])
@pytest.mark.parametrize("kind", ["newsvendor", "portfolio"])
def test_no_distribution_on_a_fine_grid_beats_the_bound_in_two_dimensions(kernel, kind):
    data, loss = few(2, seed=1, n_sources=4), newsvendor(2)
    if kind == "portfolio":
        data, loss = [0.05 * (table - 2.0) for table in data], CVaRPortfolio(5.0, 0.2)
    scale = kernel == "matern52"
    model = fit(loss, data, kernel=kernel, scale=scale, tol=1e-5)
    s, ball = model.solution_, model.uncertainty_set_
    assert s.box.proved
    support = np.vstack([s.support, grid(s.box.lower, s.box.upper, 15)])
    costs = model._problem.values(np.concatenate([s.decision, s.internal]), support)
    unit = ball.space.coordinates.scale
    assert (unit != 1).all() == scale
    tables = [table / unit for table in data]
    arguments = (support / unit, tables, ball.weights, ball.radius, describe(ball.kernel))
    worst = worst_distribution(costs, *arguments)
    assert worst <= s.box.upper_bound + 1e-6
    assert worst >= s.box.upper_bound - 3e-5 * max(1.0, abs(s.box.upper_bound))


def test_no_random_distribution_of_the_ball_beats_the_bound():
    data = few(2, seed=2)
    model = fit(newsvendor(2), data)
    s, ball = model.solution_, model.uncertainty_set_
    kernel, rng = describe(ball.kernel), np.random.default_rng(0)
    center = np.vstack(data)
    alpha = np.repeat(ball.weights / 6, 6)
    for _ in range(200):
        points = rng.uniform(s.box.lower, s.box.upper, (30, 2))
        weights = rng.dirichlet(np.full(30, 0.3))
        both = np.vstack([points, center])
        signed = np.concatenate([weights, -alpha])
        far = np.sqrt(signed @ kernel_matrix(kernel, both, both) @ signed)
        share = min(1.0, ball.radius / far)  # pulled onto the ball's boundary
        costs = model._problem.values(s.decision, both)
        mean = share * weights @ costs[:30] + (1 - share) * alpha @ costs[30:]
        assert mean <= s.box.upper_bound


def test_the_independent_checker_confirms_the_final_certificate():
    rng = np.random.default_rng(0)
    for kind, how in (
        ("newsvendor", "prove"),
        ("newsvendor with side constraints", "search"),
        ("portfolio", "prove"),
        ("quadratic by callables", "search"),
    ):
        tables = few(2, seed=5, n_sources=4)
        if kind == "portfolio":
            tables = [0.05 * table for table in tables]
        instance = Instance(7, kind, "rbf", 0.5, tables, instances._loss(kind, 2, rng), scale=True)
        model = instance.model(n_support=3, continuous=how).fit(tables)
        assert model.solution_.box.points_added > 0
        assert checker.check(instance.claim(model)) == []
        assert model.solution_.gap <= 1e-6
        # It turns red where the witness is too low.
        claim = dataclasses.replace(instance.claim(model), beta=model.solution_.witness.beta - 1e-3)
        assert checker.check(claim) != []


def test_a_search_does_not_claim_a_proof():
    model = fit(newsvendor(4), few(4), "search")
    box = model.solution_.box
    assert not box.proved
    assert box.upper_bound == np.inf
    assert box.cells == 0
    assert box.starts >= 50
    assert box.violation_found <= box.tolerance
    assert "no violation above" in box.summary()
    assert f"from {box.starts} starts, which proves nothing" in box.summary()


def test_search_and_proof_agree():
    searched, proved = (fit(newsvendor(2), few(), how) for how in ("search", "prove"))
    assert searched.objective_ == pytest.approx(proved.objective_, rel=2e-6)
    s = searched.solution_
    excess = Excess(searched._problem, s.decision, s.witness, s.box.lower, s.box.upper)
    assert bound_excess(excess, tol=s.box.tolerance, budget=100_000).upper <= s.box.tolerance


def test_three_dimensions_report_how_far_the_budget_went():
    data = few(3, n_sources=4)
    with pytest.warns(ConvergenceWarning, match="short of the tolerance"):
        short = fit(newsvendor(3), data, continuous_cells=300)
    whole = fit(newsvendor(3), data)
    box = short.solution_.box
    assert not box.proved
    assert box.cells <= 301
    assert whole.solution_.box.proved
    assert np.isfinite(box.upper_bound)
    assert short.solution_.upper_bound + box.tolerance < box.upper_bound
    assert largest_excess(short, 41) <= box.upper_bound - short.solution_.upper_bound
    assert box.upper_bound >= whole.solution_.lower_bound
    assert "300 cells" in box.summary() or "301 cells" in box.summary()


def test_laplace_in_two_dimensions_says_what_it_reached():
    data = few(2, seed=4, n=4, n_sources=4)
    with pytest.warns(ConvergenceWarning):
        model = fit(
            newsvendor(2), data, kernel="laplace", continuous_rounds=4, continuous_cells=20_000
        )
    box = model.solution_.box
    assert not box.proved
    assert box.violation_found <= box.upper_bound - model.objective_
    assert largest_excess(model) <= box.upper_bound - model.objective_
    assert box.upper_bound - model.objective_ < 0.05 * abs(model.objective_)


def test_rounds_that_end_too_early_leave_a_violation_and_say_so():
    with pytest.warns(ConvergenceWarning, match="a violation of .* is left"):
        model = fit(newsvendor(2), few(), "search", continuous_rounds=1)
    assert model.solution_.box.rounds == 1
    assert model.solution_.box.violation_found > model.solution_.box.tolerance
    with pytest.warns(ConvergenceWarning, match="short of the tolerance"):
        model = fit(newsvendor(2), few(), continuous_rounds=1)
    box = model.solution_.box
    assert box.violation_found > box.tolerance
    assert largest_excess(model) <= box.upper_bound - model.objective_ <= 1.2 * box.violation_found


def test_threads_change_nothing():
    one, three = (fit(newsvendor(2), few(n=40), n_jobs=jobs) for jobs in (1, 3))
    for field in ("support", "worst_case_weights", "decision", "upper_bound", "lower_bound"):
        a, b = (getattr(model.solution_, field) for model in (one, three))
        np.testing.assert_array_equal(a, b)
    for field in dataclasses.fields(one.solution_.box):
        a, b = (getattr(model.solution_.box, field.name) for model in (one, three))
        np.testing.assert_array_equal(a, b)


def test_nothing_changes_where_it_is_off():
    data = few()
    plain = RooDSO(newsvendor(2), random_state=0).fit(data)
    assert plain.solution_.box is None
    assert plain._box_search is None
    other = RooDSO(newsvendor(2), random_state=0, continuous_cells=7, continuous_starts=3).fit(data)
    np.testing.assert_array_equal(plain.solution_.support, other.solution_.support)
    assert plain.objective_ == other.objective_


def test_a_flat_column_of_the_box_stays_flat():
    data = [np.column_stack([table, np.full(len(table), 2.0)]) for table in few(1, seed=2)]
    model = fit(newsvendor(2), data)
    assert model.solution_.box.proved
    assert (model.solution_.support[:, 1] == 2.0).all()
    assert largest_excess(model, 400) <= model.solution_.box.upper_bound - model.objective_ + 1e-9


@pytest.mark.parametrize("box", [([0.5, 0.5], [4.0, 3.5]), ([1.8, 1.4], [2.1, 2.6])])
def test_the_box_is_the_users(box):
    """Larger than the data, or smaller: then the samples outside count as well."""
    data = few(2, seed=6)
    model = fit(newsvendor(2), data, support_box=box)
    s = model.solution_
    assert s.box.proved
    np.testing.assert_array_equal(s.box.lower, box[0])
    added = s.support[36:]
    assert len(added) > 0
    assert (added >= box[0]).all()
    assert (added <= box[1]).all()
    assert largest_excess(model) <= s.box.upper_bound - s.upper_bound + 1e-9
    every = np.vstack([s.support, grid(*box, 12)])
    ball = model.uncertainty_set_
    arguments = (every, data, ball.weights, ball.radius, describe(ball.kernel))
    worst = worst_distribution(model._problem.values(s.decision, every), *arguments)
    assert worst <= s.box.upper_bound + 1e-6


def test_orders_are_bounded_by_the_box_and_not_by_the_samples():
    """The loss is bound to the whole box: the best order may exceed every sample."""
    data = [table * 0.1 + 1.0 for table in few(1)]
    model = fit(Newsvendor(50.0, 1.0, 0.0, 90.0), data, nu=0.1, support_box=([1.0], [9.0]))
    assert model.solution_.box.proved
    assert model.solution_.support.max() == 9.0
    assert float(np.asarray(model.decision_)[0]) > max(table.max() for table in data)


@pytest.mark.parametrize("how", ["search", "prove"])
def test_at_radius_zero_the_box_adds_nothing(how):
    with pytest.warns(DegenerateDataWarning):
        model = fit(newsvendor(2), few(n_sources=1), how)
    box = model.solution_.box
    assert box.proved
    assert box.upper_bound == model.objective_
    assert (box.points_added, box.starts, box.cells) == (0, 0, 0)
    assert "adds nothing" in box.summary()


def test_a_loss_of_callables_needs_no_slopes_in_xi():
    loss = ConvexLoss(
        value=lambda x, xi: ((x - xi) ** 2).sum(axis=1),
        subgradient=lambda x, xi: 2 * (x - xi),
        lower=-10,
        upper=10,
        convex_in_xi=True,
    )
    model = fit(loss, few(seed=8))
    assert model.solution_.box.proved
    assert model.solution_.box.points_added > 0
    assert largest_excess(model) <= model.solution_.box.upper_bound - model.objective_ + 1e-9


def test_a_hull_of_several_anchors():
    """Every mixture of the sources within a radius: the bound holds against cvxpy's worst one."""
    import cvxpy as cp

    data = few(1, seed=9, n_sources=3)
    sources = Sources.from_data(data, None)
    coordinates = Coordinates.from_samples(sources.samples, scale=False)
    space = KernelSpace(RBF(0.6), coordinates)
    embedding = Embedding.compute(space, sources, np.empty((0, 1)))
    hull = UncertaintySet(np.eye(3), 0.05, 0.05, space, sources, embedding.gram)
    lower, upper = sources.samples.min(axis=0), sources.samples.max(axis=0)
    problem = newsvendor(1).bind(lower, upper)
    search = BoxSearch(lower, upper, prove=True, starts=20, rounds=30, cells=10_000, seed=0)
    _, solution = solve_over_box(Programme(problem, hull, embedding), LoopOptions(), search)
    assert solution.box.proved
    points = np.vstack([solution.support, grid(lower, upper, 60)])
    K = kernel_matrix(("rbf", 0.6), points, points)
    root = np.linalg.cholesky(K + 1e-12 * np.eye(len(K)))
    w, a = cp.Variable(len(points), nonneg=True), cp.Variable(3, nonneg=True)
    spread = np.zeros((len(points), 3))
    spread[np.arange(18), np.repeat(np.arange(3), 6)] = 1 / 6
    near = cp.norm(root.T @ (w - spread @ a)) <= 0.05
    costs = problem.values(solution.decision, points)
    worst = cp.Problem(cp.Maximize(costs @ w), [cp.sum(w) == 1, cp.sum(a) == 1, near]).solve()
    assert worst <= solution.box.upper_bound + 1e-6 * abs(worst)
    assert worst >= solution.box.upper_bound - 1e-4 * abs(worst)


# --- The estimator -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"continuous": True}, "continuous must be False, 'search' or 'prove', got True"),
        ({"continuous": "both"}, "continuous must be False, 'search' or 'prove', got 'both'"),
        ({"continuous": None}, "continuous must be False"),
        ({"continuous": "search", "representer": "herded"}, "needs representer='exact'"),
        ({"continuous_starts": 0}, "continuous_starts must be a whole number >= 1"),
        ({"continuous_rounds": 0}, "continuous_rounds must be a whole number >= 1"),
        ({"continuous_cells": -1}, "continuous_cells must be a whole number >= 1"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        RooDSO(newsvendor(2), **parameters).fit(few())


def test_a_proof_that_is_impossible_is_refused_before_any_work(monkeypatch):
    monkeypatch.setattr(Embedding, "compute", None)
    with pytest.raises(ValueError, match="up to 3 columns, the data have 4"):
        fit(newsvendor(4), few(4))
    unpromised = ConvexLoss(
        lambda x, xi: ((x - xi) ** 2).sum(axis=1), lambda x, xi: 2 * (x - xi), lower=0, upper=9
    )
    with pytest.raises(ValueError, match="convex in xi"):
        fit(unpromised, few(2))


def test_worst_case_cost_of_another_decision_holds_over_the_box_too():
    data = few(1, seed=3)
    model = fit(newsvendor(1), data)
    best, other = model.solution_, model.worst_case_cost([1.2])
    assert other.box.proved
    assert other.box.upper_bound >= best.lower_bound
    every = np.vstack([other.support, grid(other.box.lower, other.box.upper, 150)])
    ball = model.uncertainty_set_
    arguments = (every, data, ball.weights, ball.radius, describe(ball.kernel))
    worst = worst_distribution(model._problem.values(np.array([1.2]), every), *arguments)
    assert worst <= other.box.upper_bound + 1e-6
    assert worst >= other.lower_bound - 1e-6


def test_a_path_gives_what_fit_gives():
    data = few()
    model = RooDSO(newsvendor(2), n_support=5, random_state=0, n_jobs=1, continuous="prove")
    for fitted in model.path(data, nus=[0.8, 0.5, 0.3]):
        alone = clone(model).set_params(nu=fitted.nu).fit(data)
        assert fitted.solution_.box.proved
        assert fitted.objective_ == pytest.approx(alone.objective_, rel=3e-6)
        n = 36 + 5 + fitted.solution_.box.points_added
        assert len(fitted.solution_.support) == n


def test_a_model_comes_back_from_a_file(tmp_path):
    model = fit(newsvendor(2), few())
    model.save(tmp_path / "model")
    for same in (roodso.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        for field in dataclasses.fields(model.solution_.box):
            a, b = (getattr(m.solution_.box, field.name) for m in (model, same))
            np.testing.assert_array_equal(a, b)
        x = 0.9 * model.decision_
        assert same.worst_case_cost(x).box.upper_bound == model.worst_case_cost(x).box.upper_bound


def test_a_failing_solver_leaves_what_was_known(monkeypatch):
    calls = []

    def fail_at_third(*arguments, **options):
        calls.append(1)
        if len(calls) == 3:
            raise SolverError("no", "broken")
        return solve(*arguments, **options)

    solve = continuous.solve_programme
    monkeypatch.setattr(continuous, "solve_programme", fail_at_third)
    with pytest.warns(ConvergenceWarning):
        model = fit(newsvendor(2), few())
    box = model.solution_.box
    assert box.rounds == 1
    assert len(model.solution_.support) == len(model._programme.support) == 36 + box.points_added
    assert largest_excess(model) <= box.upper_bound - model.objective_ + 1e-9


def test_progress_is_told_of_the_box():
    seen = []
    fit(newsvendor(2), few(), progress=lambda *told: seen.append(told))
    boxes = [told for told in seen if told[0] == "box"]
    assert boxes
    assert all(
        0 <= fraction <= 1 and {"cells", "bound"} <= set(rest) for _, fraction, rest in boxes
    )


def test_the_paper_generator_is_proved_to_tolerance():
    data = make_newsvendor_sources(8, (20, 40), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fit(Newsvendor(**NEWSVENDOR), data, nu=0.9, n_support=50)
    assert model.solution_.box.proved
    assert largest_excess(model) <= model.solution_.box.upper_bound - model.objective_ + 1e-9


def test_models_that_bind_the_loss_to_another_box_share_no_preparation():
    loss = newsvendor(2)
    off, also, on = (RooDSO(loss, continuous=h)._preparation() for h in (False, False, "prove"))
    assert off == also
    assert off != on


def test_the_proof_does_not_rely_on_the_search(monkeypatch):
    """Where the search is blind, branch and bound sees."""
    monkeypatch.setattr(continuous, "ascend", lambda excess, starts, tol: (starts, -starts[:, 0]))
    with pytest.warns(ConvergenceWarning):
        model = fit(newsvendor(2), few())
    box = model.solution_.box
    assert not box.proved
    assert box.violation_found > box.tolerance
    assert largest_excess(model) <= box.upper_bound - model.objective_
