"""WassersteinDRO against the conic programmes of the literature, its limits, and its proofs."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances import draw
from reference import wasserstein as reference
from roodso import SAA, WassersteinDRO
from roodso.losses import ConvexLoss, CVaRPortfolio, Newsvendor
from roodso.losses.base import ColumnPieces
from roodso.solver.transport import best_points

LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
NORMS = [1, 2, np.inf]


def shops(seed, d=2, n=5, n_sources=2):
    rng = np.random.default_rng(seed)
    return [rng.uniform(0.5, 2.5, d) + 0.4 * rng.random((n, d)) for _ in range(n_sources)]


def vendor(seed, d=2, **more):
    rng = np.random.default_rng(seed)
    terms = [rng.uniform(30, 60, d), rng.uniform(10, 25, d), rng.uniform(0, 6, d)]
    return Newsvendor(*terms, rng.uniform(0, 12, d), **more)


def vendor_optimum(loss, tables, radius, norm, box=None, x=None):
    terms = (np.asarray(t, float) for t in (loss.price, loss.cost, loss.holding, loss.backorder))
    samples = np.vstack(tables)
    order = cp.Variable(samples.shape[1]) if x is None else x
    pieces = reference.newsvendor_pieces(order, *terms)
    feasible = [order >= 0] if x is None else []
    if x is None and loss.A_ub is not None:
        feasible.append(loss.A_ub @ order <= loss.b_ub)
    return reference.worst_case(pieces, feasible, samples, radius, norm, box)


def portfolio_optimum(loss, tables, radius, norm, box=None, x=None):
    samples = np.vstack(tables)
    weights, tau = cp.Variable(samples.shape[1]), cp.Variable()
    feasible = [weights >= 0, cp.sum(weights) == 1]
    if x is not None:
        weights, feasible = x, []
    pieces = reference.portfolio_pieces(weights, tau, loss.risk_aversion, loss.tail)
    return reference.worst_case(pieces, feasible, samples, radius, norm, box)


def assert_brackets(solution, optimum, tol=2e-7):
    slack = tol * max(1.0, abs(optimum))
    assert solution.status == "optimal"
    assert solution.lower_bound <= optimum + slack
    assert solution.upper_bound >= optimum - slack
    assert -1e-12 <= solution.gap <= 1e-7


def box_of(tables):
    samples = np.vstack(tables)
    return samples.min(axis=0), samples.max(axis=0)


# --- Against the programmes written out ---------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(2))
def test_newsvendor_on_the_whole_space(seed, norm):
    loss, tables = vendor(seed), shops(seed)
    model = WassersteinDRO(loss, radius=0.3, norm=norm, tol=1e-7).fit(tables)
    assert_brackets(model.solution_, vendor_optimum(loss, tables, 0.3, norm))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("radius", [0.02, 0.3, 0.8])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_newsvendor_in_a_box(d, radius, norm):
    loss, tables = vendor(d, d), shops(d, d, n=4)
    model = WassersteinDRO(loss, radius=radius, norm=norm, support="box", tol=1e-7).fit(tables)
    optimum = vendor_optimum(loss, tables, radius, norm, box_of(tables))
    assert_brackets(model.solution_, optimum)


@pytest.mark.parametrize("norm", NORMS)
def test_newsvendor_with_side_constraints_in_a_given_box(norm):
    loss, tables = vendor(7, A_ub=np.array([[1.0, 2.0]]), b_ub=np.array([4.0])), shops(7)
    box = [0.0, 0.2], [4.0, 3.5]
    model = WassersteinDRO(loss, radius=0.4, norm=norm, support="box", support_box=box, tol=1e-7)
    optimum = vendor_optimum(loss, tables, 0.4, norm, tuple(map(np.array, box)))
    assert_brackets(model.fit(tables).solution_, optimum)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("support", ["unbounded", "box"])
@pytest.mark.parametrize("radius", [0.003, 0.03])
def test_portfolio(radius, support, norm):
    rng = np.random.default_rng(3)
    tables = [0.05 * rng.standard_normal((5, 3)) for _ in range(2)]
    loss = CVaRPortfolio(risk_aversion=3, tail=0.3)
    model = WassersteinDRO(loss, radius=radius, norm=norm, support=support, tol=1e-7).fit(tables)
    box = box_of(tables) if support == "box" else None
    assert_brackets(model.solution_, portfolio_optimum(loss, tables, radius, norm, box))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("support", ["unbounded", "box"])
def test_the_worst_case_of_a_decision_of_ones_own(support, norm):
    loss, tables, x = vendor(1), shops(1), np.array([1.3, 2.9])
    model = WassersteinDRO(loss, radius=0.25, norm=norm, support=support, tol=1e-7).fit(tables)
    box = box_of(tables) if support == "box" else None
    cost = model.worst_case_cost(x)
    assert (cost.decision == x).all()
    assert_brackets(cost, vendor_optimum(loss, tables, 0.25, norm, box, x))
    assert cost.upper_bound >= model.solution_.lower_bound


@pytest.mark.parametrize("support", ["unbounded", "box"])
def test_the_worst_case_of_portfolio_weights_of_ones_own(support):
    tables = [0.05 * table for table in shops(2, 3)]
    loss, x = CVaRPortfolio(risk_aversion=2, tail=0.4), np.array([0.2, 0.5, 0.3])
    model = WassersteinDRO(loss, radius=0.01, support=support, tol=1e-7).fit(tables)
    box = box_of(tables) if support == "box" else None
    cost = model.worst_case_cost(x)
    assert_brackets(cost, portfolio_optimum(loss, tables, 0.01, 2, box, x))


# --- Where a sample is worth most -----------------------------------------------------------


def random_cost(rng, d):
    K, P = [(1, 2), (2, 1), (2, 2)][int(rng.integers(3))]
    steepness = rng.choice([0.0, 1.0, 1.0, 3.0], size=(K, P, d))
    return ColumnPieces(
        rng.normal(size=K), rng.normal(size=(K, P, d)), steepness * rng.normal(size=(K, P, d))
    )


def worth(cost, at, sample, price, norm):
    sums = (cost.offset + cost.slope * at).max(axis=1).sum(axis=1)
    return float((cost.constant + sums).max() - price * np.linalg.norm(at - sample, ord=norm))


def best_by_affine_pieces(cost, sample, lower, upper, price, norm):
    """All combinations of the columns' pieces, each a concave programme, by cvxpy."""
    best = -np.inf
    K, P, d = cost.slope.shape
    for k, chosen in itertools.product(range(K), itertools.product(range(P), repeat=d)):
        offset, slope = (part[k, list(chosen), range(d)] for part in (cost.offset, cost.slope))
        xi = cp.Variable(d)
        value = cost.constant[k] + offset.sum() + slope @ xi - price * cp.norm(xi - sample, norm)
        problem = cp.Problem(cp.Maximize(value), [xi >= lower, xi <= upper])
        best = max(best, problem.solve(solver="CLARABEL"))
    return best


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("seed", range(25))
def test_the_best_points_are_those_of_the_best_affine_piece(seed, norm):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 4))
    cost, lower = random_cost(rng, d), rng.uniform(-1, 0, d)
    upper = lower + rng.uniform(0, 2, d) * rng.choice([0, 1, 1, 1], d)
    sample = lower + (upper - lower) * rng.choice([0, 0.4, 1], d)
    price = float(rng.choice([0.0, 1e-6, rng.uniform(0, 4), 50.0]))
    best = best_by_affine_pieces(cost, sample, lower, upper, price, norm)
    (found,) = best_points(cost, sample[None], lower, upper, price, norm)
    assert ((lower <= found) & (found <= upper)).all()
    assert worth(cost, found, sample, price, norm) == pytest.approx(best, abs=2e-6)


@pytest.mark.parametrize("seed", [713, 998, 1591, 2356, 2566, 2986, 27015])
def test_pieces_that_meet_when_one_is_at_the_side_and_the_other_not(seed):
    """The few of 40,000 random samples that come out wrong where those meetings are misplaced."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 4))
    cost = ColumnPieces(
        rng.normal(size=1), rng.normal(size=(1, 2, d)), 2 * rng.normal(size=(1, 2, d))
    )
    upper, lower = rng.uniform(0.1, 2, d), np.zeros(d)
    sample, price = upper * rng.random(d), float(rng.uniform(0.2, 3))
    best = best_by_affine_pieces(cost, sample, lower, upper, price, 2)
    (found,) = best_points(cost, sample[None], lower, upper, price, 2)
    assert worth(cost, found, sample, price, 2) == pytest.approx(best, abs=2e-6)


@given(seed=st.integers(0, 10**6), norm=st.sampled_from(NORMS))
def test_no_point_of_a_grid_is_worth_more_than_the_best_one(seed, norm):
    rng = np.random.default_rng(seed)
    d, price = int(rng.integers(1, 4)), float(rng.uniform(0, 3))
    cost, upper = random_cost(rng, d), rng.uniform(0.1, 2, d)
    sample = upper * rng.random(d)
    (found,) = best_points(cost, sample[None], np.zeros(d), upper, price, norm)

    def values(points):
        each = cost.offset[:, :, None, :] + cost.slope[:, :, None, :] * points
        return (cost.constant[:, None] + each.max(axis=1).sum(axis=2)).max(axis=0)

    on_grid = reference.best_on_a_grid(values, sample, np.zeros(d), upper, price, norm, 15)
    assert worth(cost, found, sample, price, norm) >= on_grid - 1e-9


def test_many_samples_are_moved_as_each_alone():
    rng = np.random.default_rng(5)
    cost, samples = random_cost(rng, 3), rng.random((5000, 3))
    for norm in NORMS:
        together = best_points(cost, samples, np.zeros(3), np.ones(3), 0.7, norm)
        for row in (0, 1, 2500, 4999):
            alone = best_points(cost, samples[row][None], np.zeros(3), np.ones(3), 0.7, norm)
            np.testing.assert_array_equal(together[row], alone[0])


# --- The Lipschitz constant ---------------------------------------------------------------------


@given(
    terms=st.tuples(*[st.lists(st.integers(-30, 60), min_size=2, max_size=2)] * 4),
    norm=st.sampled_from(NORMS),
)
def test_the_newsvendor_rises_at_its_lipschitz_constant_far_out(terms, norm):
    """Also where p + h or b is negative: the constant bounds all slopes, and is one of them."""
    p, c, h, b = (np.array(term, float) for term in terms)
    b = np.maximum(b, -p - h)  # p + b + h >= 0, or the cost is not convex
    loss = Newsvendor(p, c, h, b, upper=10.0)
    problem = loss.bind(np.zeros(2), np.ones(2))
    constant, slope = problem.lipschitz(np.ones(2), norm)
    rng = np.random.default_rng(0)
    x, (one, other) = rng.uniform(0, 10, 2), 20 * rng.standard_normal((2, 200, 2))
    ways = np.linalg.norm(one - other, ord=norm, axis=1)
    rises = np.abs(problem.values(x, one) - problem.values(x, other))
    assert (rises <= constant * ways + 1e-9).all()
    assert not slope.any()
    ball = [v / np.linalg.norm(v, ord=norm) for v in rng.standard_normal((4000, 2))]
    ball += [np.array(v, float) for v in itertools.product([-1, 0, 1], repeat=2) if any(v)]
    far = 1e6 * np.array([v / np.linalg.norm(v, ord=norm) for v in ball])
    steepest = (problem.values(x, far) / 1e6).max()
    assert steepest == pytest.approx(constant, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("norm", NORMS)
def test_the_portfolio_rises_at_its_lipschitz_constant_far_out(norm):
    problem = CVaRPortfolio(risk_aversion=4, tail=0.25).bind(-np.ones(3), np.ones(3))
    z = np.array([0.2, 0.5, 0.3, 0.1])
    constant, slope = problem.lipschitz(z, norm)
    worst = {1: np.array([0, 1, 0]), 2: z[:3] / np.linalg.norm(z[:3]), np.inf: np.ones(3)}[norm]
    far = -1e6 * worst[None]
    assert problem.values(z, far)[0] / 1e6 == pytest.approx(constant, rel=1e-5)
    for other in np.random.default_rng(0).dirichlet(np.ones(3), 50):
        at, _ = problem.lipschitz(np.append(other, 0.0), norm)
        assert at >= constant + slope @ (np.append(other, 0.0) - z) - 1e-9
        assert at <= problem.lipschitz_bound(norm) + 1e-9


# --- Limits -----------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("radius", [0.01, 1.0, 100.0])
def test_the_newsvendor_on_the_whole_space_decides_as_saa_does(radius, norm):
    tables = shops(4, n=30)
    saa = SAA(LOSS).fit(tables)
    model = WassersteinDRO(LOSS, radius=radius, norm=norm).fit(tables)
    np.testing.assert_array_equal(model.decision_, saa.decision_)
    steep = np.array([55.0, 43.0])  # p + h, larger than b
    dual = np.linalg.norm(steep, ord=reference.DUAL[norm])
    assert model.objective_ == pytest.approx(saa.objective_ + radius * dual, rel=1e-12)
    assert model.solution_.multipliers == pytest.approx([dual], rel=1e-12)


def test_the_newsvendor_in_a_box_decides_differently():
    tables = shops(4, n=30)
    saa = SAA(LOSS).fit(tables)
    model = WassersteinDRO(LOSS, radius=0.6, support="box").fit(tables)
    assert np.abs(model.decision_ - saa.decision_).max() > 0.1
    assert model.worst_case_cost(saa.decision_).lower_bound > model.objective_ + 0.1


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("support", ["unbounded", "box"])
@pytest.mark.parametrize("loss", [LOSS, CVaRPortfolio(risk_aversion=2)])
def test_radius_zero_is_saa(loss, support, norm):
    tables = shops(5, n=20)
    zero = WassersteinDRO(loss, radius=0, norm=norm, support=support, tol=1e-8).fit(tables)
    saa = SAA(loss, tol=1e-8).fit(tables)
    assert zero.objective_ == pytest.approx(saa.objective_, rel=3e-8)
    assert zero.solution_.worst_case_weights[:40].sum() == pytest.approx(1.0)


@pytest.mark.parametrize("norm", NORMS)
def test_a_large_radius_in_a_box_is_the_worst_point_of_the_box(norm):
    tables = shops(6, n=20)
    lower, upper = box_of(tables)
    model = WassersteinDRO(LOSS, radius=50, norm=norm, support="box", tol=1e-8).fit(tables)
    x = cp.Variable(2)
    terms = (np.array(t, float) for t in (LOSS.price, LOSS.cost, LOSS.holding, LOSS.backorder))
    corners = itertools.product(*zip(lower, upper, strict=True))
    worst = cp.Variable()
    pieces = list(reference.newsvendor_pieces(x, *terms))
    rows = [s @ np.array(v) + c <= worst for v in corners for s, c in pieces]
    optimum = cp.Problem(cp.Minimize(worst), [*rows, x >= 0]).solve(solver="HIGHS")
    assert model.objective_ == pytest.approx(optimum, rel=3e-8)
    assert model.solution_.multipliers == pytest.approx([0.0], abs=1e-5)


@given(
    seed=st.integers(0, 10**6),
    radii=st.lists(st.floats(0, 1.5), min_size=2, max_size=3),
    norm=st.sampled_from(NORMS),
    support=st.sampled_from(["unbounded", "box"]),
)
def test_the_objective_rises_with_the_radius_and_is_least_in_the_box(seed, radii, norm, support):
    tables = shops(seed, n=4)
    models = [
        WassersteinDRO(LOSS, radius=radius, norm=norm, support=support).fit(tables)
        for radius in sorted(radii)
    ]
    for smaller, larger in itertools.pairwise(models):
        slack = 1e-6 * max(1.0, abs(larger.objective_))
        assert smaller.objective_ <= larger.objective_ + slack
    whole = WassersteinDRO(LOSS, radius=max(radii), norm=norm).fit(tables).objective_
    assert models[-1].objective_ <= whole + 1e-6 * max(1.0, abs(whole))


def test_norms_order_the_objectives():
    """Ways are shortest in the inf-norm, so its ball is the largest."""
    tables = shops(8, n=20)
    for support in ("unbounded", "box"):
        one, two, sup = (
            WassersteinDRO(LOSS, radius=0.2, norm=norm, support=support).fit(tables).objective_
            for norm in NORMS
        )
        assert one < two < sup


def test_sources_do_not_matter_only_rows():
    tables = shops(9, n=12)
    apart = WassersteinDRO(LOSS, radius=0.3, support="box").fit(tables)
    together = WassersteinDRO(LOSS, radius=0.3, support="box").fit([np.vstack(tables)])
    np.testing.assert_array_equal(apart.decision_, together.decision_)
    assert apart.objective_ == together.objective_


# --- Proofs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("radius", [0.0, 0.05, 0.4, 3.0])
@pytest.mark.parametrize("kind", ["newsvendor", "portfolio"])
def test_the_worst_distribution_is_in_the_ball_and_no_decision_beats_it(kind, radius, norm):
    instance = draw(0 if kind == "newsvendor" else 2)
    size = 0.05 if kind == "portfolio" else 1.0
    box = np.vstack(instance.tables).min(axis=0), np.vstack(instance.tables).max(axis=0)
    model = WassersteinDRO(instance.loss, radius=radius * size, norm=norm, support="box")
    solution = model.fit(instance.tables).solution_
    pooled = np.vstack(instance.tables)
    points, weights = solution.support, solution.worst_case_weights
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert ((points >= box[0]) & (points <= box[1])).all()
    np.testing.assert_array_equal(points[: len(pooled)], pooled)
    way = reference.distance(norm, points, weights, pooled)
    assert way <= radius * size + 1e-9
    distinct, which = np.unique(points, axis=0, return_inverse=True)
    merged = np.bincount(which.ravel(), weights)
    least = instance.minimum(distinct[merged > 0], merged[merged > 0])
    slack = 1e-7 * max(1.0, abs(least))
    assert least >= solution.lower_bound - slack
    assert solution.lower_bound >= solution.upper_bound - 1e-6 * max(1, abs(least))


@pytest.mark.parametrize("norm", NORMS)
def test_weak_duality_from_the_returned_price(norm):
    """The price, put into the dual by brute force over a grid, gives no more than the objective."""
    tables = shops(10, n=4)
    model = WassersteinDRO(LOSS, radius=0.2, norm=norm, support="box").fit(tables)
    (price,) = model.solution_.multipliers
    x = model.decision_
    lower, upper = box_of(tables)

    def cost(points):
        over, under = np.maximum(x - points, 0), np.maximum(points - x, 0)
        sales = np.minimum(x, points)
        return -sales @ [50, 40] + x @ [20, 15] + over @ [5, 3] + under @ [10, 8]

    best = [
        reference.best_on_a_grid(cost, xi, lower, upper, price, norm, 81)
        for xi in np.vstack(tables)
    ]
    dual = 0.2 * price + np.mean(best)
    assert dual <= model.objective_ + 1e-9
    assert dual >= model.objective_ - 0.05 * abs(model.objective_)


def test_mass_moves_from_a_sample_of_a_source_under_its_name():
    tables = {"north": shops(11)[0], "south": shops(11)[1]}
    model = WassersteinDRO(LOSS, radius=0.2, support="box").fit(tables)
    table = model.solution_.worst_case()
    assert set(table["source"]) <= {"north", "south"}
    by_source = table.groupby("source")["weight"].sum()
    np.testing.assert_allclose(by_source, 0.5, rtol=1e-6)


# --- Losses of the user's own ------------------------------------------------------------------


def test_a_convex_loss_with_its_constant_is_exact():
    """|x - xi|_1 is convex in xi with slopes of signs: sqrt(d) in the 2-norm, by the programme."""
    tables, d = shops(12), 2
    loss = ConvexLoss(
        value=lambda x, xi: np.abs(x - xi).sum(axis=1),
        subgradient=lambda x, xi: np.sign(x - xi),
        lower=0,
        upper=5,
        lipschitz=np.sqrt(d),
        convex_in_xi=True,
    )
    model = WassersteinDRO(loss, radius=0.3, tol=1e-7).fit(tables)
    x = cp.Variable(d)
    signs = [np.array(s, float) for s in itertools.product([-1, 1], repeat=d)]
    pieces = [(sign, -sign @ x) for sign in signs]
    optimum = reference.worst_case(pieces, [], np.vstack(tables), 0.3, 2)
    assert_brackets(model.solution_, optimum)


def test_a_constant_that_depends_on_the_decision():
    """(x'xi)^+ has the constant |x|_2: a regression loss whose regularisation is a norm."""
    tables = shops(13)
    loss = ConvexLoss(
        value=lambda x, xi: np.maximum(1.0 - xi @ x, 0.0),
        subgradient=lambda x, xi: -xi * (xi @ x < 1.0)[:, None],
        lower=-5,
        upper=5,
        lipschitz=lambda x: (
            np.linalg.norm(x),
            x / np.linalg.norm(x) if x.any() else np.zeros_like(x),
        ),
    )
    model = WassersteinDRO(loss, radius=0.5, tol=1e-7).fit(tables)
    x = cp.Variable(2)
    pieces = [(-x, 1.0), (np.zeros(2), 0.0)]
    optimum = reference.worst_case(pieces, [], np.vstack(tables), 0.5, 2)
    assert_brackets(model.solution_, optimum)


def smooth(**more):
    return ConvexLoss(
        value=lambda x, xi: ((x - xi) ** 2).sum(axis=1),
        subgradient=lambda x, xi: 2 * (x - xi),
        lower=0,
        upper=5,
        **more,
    )


def test_what_cannot_be_solved_says_why():
    tables = shops(14)
    with pytest.raises(ValueError, match=r"give ConvexLoss\(..., lipschitz=...\)"):
        WassersteinDRO(smooth(), radius=0.1).fit(tables)
    with pytest.raises(ValueError, match=r'support="box" needs .* \(Newsvendor, CVaRPortfolio\)'):
        WassersteinDRO(smooth(lipschitz=3.0), radius=0.1, support="box").fit(tables)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"radius": -1}, r"radius must be a number in \[0, inf\), got -1"),
        ({"radius": np.inf}, "radius must be"),
        ({"norm": 3}, "norm must be 1, 2 or inf, got 3"),
        ({"norm": "2"}, "norm must be 1, 2 or inf, got '2'"),
        ({"support": "ball"}, "support must be one of 'unbounded', 'box', got 'ball'"),
        ({"support_box": ([0, 0], [9, 9])}, 'support_box has no effect unless support="box"'),
        ({"support": "box", "support_box": ([9, 9], [0, 0])}, "lower <= upper"),
        ({"support": "box", "support_box": ([1, 1], [2, 2])}, "must hold all samples, got row"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        WassersteinDRO(LOSS, **parameters).fit(shops(15))


@pytest.mark.parametrize(
    ("lipschitz", "message"),
    [
        (-1.0, "lipschitz must be a number"),
        (lambda x: 1.0, "lipschitz must return a constant and a subgradient"),
        (lambda x: (1.0, np.zeros(3)), r"the subgradient of lipschitz must return shape \(2,\)"),
        (lambda x: (np.nan, np.zeros(2)), "lipschitz returned a value that is not finite"),
    ],
)
def test_a_bad_constant_is_refused(lipschitz, message):
    with pytest.raises(ValueError, match=message):
        WassersteinDRO(smooth(lipschitz=lipschitz), radius=0.1).fit(shops(16))


@pytest.mark.parametrize("table", [[[1.0, 2.0]], [[1.0, 2.0]] * 3, [[1.0, 2.0], [1.0, 3.0]]])
def test_degenerate_boxes_are_solved(table):
    model = WassersteinDRO(LOSS, radius=0.5, support="box").fit([table])
    optimum = vendor_optimum(
        LOSS, [np.array(table)], 0.5, 2, (np.min(table, axis=0), np.max(table, axis=0))
    )
    assert model.objective_ == pytest.approx(optimum, rel=2e-6)
