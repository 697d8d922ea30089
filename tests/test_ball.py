"""The ball of support measure clustering: its programme, its radius, and its estimator."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone, is_outlier_detector
from sklearn.exceptions import NotFittedError
from sklearn.svm import OneClassSVM

from reference import ball as reference
from reference import formulas
from roodso import sets
from roodso.datasets import make_newsvendor_sources
from roodso.embedding import Embedding
from roodso.kernels import RBF, Laplace, Matern52
from roodso.sets import SupportMeasureBall, quadratic
from roodso.sets.ball import solve_dual, squared_distances_to_center, squared_radius
from roodso.sources import Sources

EPS = np.finfo(float).eps


@st.composite
def grams(draw):
    """Gram matrices of points, on a coarse grid so that duplicates, ties and flat faces abound."""
    shape = draw(st.integers(1, 12)), draw(st.integers(1, 3))
    points = draw(arrays(float, shape, elements=st.integers(-3, 3)))
    kind = draw(st.sampled_from(["linear", "rbf", "wide rbf", "random"]))
    if kind == "random":
        points = np.random.default_rng(draw(st.integers(0, 10**6))).normal(size=shape)
    if kind in ("linear", "random"):
        return points @ points.T
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    return np.exp(-squared / (2.0 if kind == "rbf" else 2e4))


@st.composite
def programmes(draw):
    """A Gram matrix and nu as a fraction: tiny, 1/M, whole and broken M nu, near 1 and 1."""
    gram = draw(grams())
    M = len(gram)
    nu = draw(
        st.one_of(
            st.integers(1, M).map(lambda k: Fraction(k, M)),
            st.fractions(Fraction(1, 1000), 1, max_denominator=1000),
            st.sampled_from([Fraction(1, 10**12), Fraction(1, 2 * M), 1 - Fraction(1, 10**10)]),
        )
    )
    return gram, nu


def objective(K, a):
    return a @ np.diag(K) - a @ K @ a


def size(K):
    """What rounding is relative to."""
    return max(np.abs(K).max(), 1e-300)


def ball_of(K, nu):
    """Weights, squared distances and squared radius, as the library finds them."""
    a = solve_dual(K, float(nu))
    distances = squared_distances_to_center(K, a)
    return a, distances, squared_radius(distances, float(nu))


# The dual programme ---------------------------------------------------------------------------


@given(programmes())
def test_the_dual_is_solved_as_well_as_by_sequential_minimal_optimization(programme):
    K, nu = programme
    a, expected = solve_dual(K, float(nu)), reference.dual(K, float(nu), tol=1e-11 * size(K))
    assert abs(objective(K, a) - objective(K, expected)) <= 1e-10 * size(K)
    # The weights need not be unique, the centre is.
    between = a - expected
    assert between @ K @ between <= 1e-10 * size(K)


@given(programmes())
def test_weights_distances_and_radius_meet_the_optimality_conditions(programme):
    K, nu = programme
    a, _, R2 = ball_of(K, nu)
    assert reference.kkt_violation(K, float(nu), a, R2) <= 1e-12 * size(K) + 8 * EPS


@given(programmes())
def test_weights_at_a_bound_are_there_exactly(programme):
    K, nu = programme
    a = solve_dual(K, float(nu))
    cap = min(1 / (len(K) * float(nu)), 1.0)
    assert a.sum() == pytest.approx(1.0, abs=1e-14)
    inside = (a > 0) & (a < cap)
    assert ((a == 0) | (a == cap) | inside).all()
    if cap * len(K) > 1 + 1e-9:
        assert (a[inside] > 1e-14).all()


@given(programmes())
def test_strong_duality_and_the_nu_property(programme):
    K, nu = programme
    a, distances, R2 = ball_of(K, nu)
    M = len(K)
    primal = R2 + np.maximum(distances - R2, 0).sum() / (M * float(nu))
    assert primal == pytest.approx(objective(K, a), rel=0, abs=1e-10 * size(K))
    outside = int((distances > R2 + 1e-12 * size(K)).sum())
    assert outside <= M * nu  # at most a share nu is outside: Fractions, no rounding
    at_most = math.floor(M * nu)
    cap = 1 / (M * float(nu))
    assert (a >= cap * (1 - 1e-12)).sum() <= max(at_most, int(nu == 1) * M)
    assert (a > 0).sum() >= min(M * nu, M) - Fraction(1, 10**6)


@pytest.mark.parametrize("seed", range(6))
def test_the_primal_programme_as_it_stands_gives_the_same_ball(seed):
    rng = np.random.default_rng(seed)
    M = int(rng.integers(2, 9))
    points = rng.normal(size=(M, 3))
    K = np.exp(-0.5 * ((points[:, None] - points[None]) ** 2).sum(axis=2))
    nu = float(rng.uniform(0.05, 1.0))
    assume_broken = abs(M * nu - round(M * nu)) > 1e-3 or M * nu < 1
    assert assume_broken  # then R^2 is unique
    a, distances, R2 = ball_of(K, nu)
    value, expected_R2, expected_distances = reference.primal(K, nu)
    assert objective(K, a) == pytest.approx(value, abs=1e-7)
    assert pytest.approx(expected_R2, abs=1e-5) == R2
    assert distances == pytest.approx(expected_distances, abs=1e-5)


@given(grams(), st.floats(1e-300, 1e-3))
def test_below_one_over_m_nu_no_longer_matters(K, tiny):
    hard = solve_dual(K, 1.0 / len(K))
    assert solve_dual(K, min(tiny, 1.0 / len(K))).tolist() == hard.tolist()


@given(grams())
def test_at_nu_one_all_weights_are_equal(K):
    assert solve_dual(K, 1.0) == pytest.approx(np.full(len(K), 1 / len(K)), rel=1e-15)


@given(arrays(float, (2, 2), elements=st.integers(-3, 3)), st.floats(0.01, 1.0))
def test_two_sources_share_the_weight_equally(points, nu):
    K = points @ points.T
    a, distances, R2 = ball_of(K, nu)
    center = 0.5 * points.sum(axis=0)
    assert a @ points == pytest.approx(center, abs=1e-12)
    half = ((points[0] - points[1]) ** 2).sum() / 4
    assert distances == pytest.approx([half, half], abs=1e-12)
    assert pytest.approx(half, abs=1e-12) == R2


def test_one_source_is_its_own_ball():
    for nu in (1e-9, 0.3, 1.0):
        a, distances, R2 = ball_of(np.array([[0.7]]), nu)
        assert (a.tolist(), distances.tolist(), R2) == ([1.0], [0.0], 0.0)


@pytest.mark.parametrize("nu", [0.01, 0.25, 0.5, 0.9])
def test_identical_sources_make_a_ball_of_radius_zero(nu):
    a, _, R2 = ball_of(np.full((5, 5), 0.8), nu)
    assert a.sum() == pytest.approx(1.0)
    assert R2 == 0.0


@pytest.mark.parametrize("spread", [1e-1, 1e-3, 1e-5])
def test_sources_that_are_nearly_alike_keep_their_digits(spread):
    """The Gram matrix is nearly constant, and all that counts is in its last digits."""
    points = np.random.default_rng(0).normal(size=(15, 2))
    squared = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    for nu in (0.01, 0.3, 0.7):
        K = np.exp(-0.5 * spread**2 * squared)
        a = solve_dual(K, nu)
        worth = np.diag(K) - 2 * K @ a
        cap = min(1 / (15 * nu), 1.0)
        violation = worth[a < cap].max() - worth[a > 0].min()
        assert violation <= 1e-13 * spread**2 + 32 * EPS


def test_indefinite_noise_in_the_gram_matrix_is_borne():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(20, 2))
    noise = rng.normal(size=(20, 20))
    K = points @ points.T + 1e-12 * (noise + noise.T)
    for nu in (0.01, 0.22, 0.5, 0.93):
        a, _, R2 = ball_of(K, nu)
        assert reference.kkt_violation(K, nu, a, R2) <= 1e-10


# The radius -----------------------------------------------------------------------------------

GRID = [Fraction(k, 20) for k in range(1, 20)]
SPELLINGS = {
    "arange": np.arange(0.05, 1.0, 0.05)[:19],
    "linspace": np.linspace(0.05, 0.95, 19),
    "multiples": 0.05 * np.arange(1, 20),
    "sums": np.cumsum(np.full(19, 0.05)),
    "fractions": [k / 20 for k in range(1, 20)],
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_radius_is_the_same_however_nu_was_reached(spelling):
    distances = np.arange(1.0, 21.0)
    for nu, exact in zip(SPELLINGS[spelling], GRID, strict=True):
        assert squared_radius(distances, float(nu)) == reference.squared_radius(distances, exact)


def test_the_naive_ceiling_is_wrong_at_seven_of_nineteen_grid_values():
    distances = np.arange(1.0, 21.0)
    naive = [np.sort(distances)[20 - math.ceil(20 * nu)] for nu in SPELLINGS["arange"]]
    exact = [reference.squared_radius(distances, nu) for nu in GRID]
    assert sum(a != b for a, b in zip(naive, exact, strict=True)) == 7


@given(
    distances=st.lists(st.integers(0, 5), min_size=1, max_size=15),
    nu=st.fractions(Fraction(1, 10**6), 1, max_denominator=10**6),
)
def test_the_radius_is_an_order_statistic_with_ties_too(distances, nu):
    found = squared_radius(np.array(distances, dtype=float), float(nu))
    assert found == reference.squared_radius(distances, nu)
    assert sum(found < D for D in distances) <= len(distances) * nu


@given(grams(), st.floats(1e-9, 1.0))
def test_up_to_one_over_m_every_source_is_inside(K, share):
    _, distances, R2 = ball_of(K, share / len(K))
    assert distances.max() == R2


@given(grams(), st.data())
def test_where_m_nu_is_whole_the_larger_optimal_set_is_taken(K, data):
    M = len(K)
    k = data.draw(st.integers(1, M))
    _, distances, R2 = ball_of(K, k / M)
    ordered = np.sort(distances)[::-1]
    assert ordered[k - 1] == R2  # the smallest of the k outer ones
    primal = [r + np.maximum(distances - r, 0).sum() / k for r in (*ordered[k - 1 :], R2)]
    assert primal[0] == pytest.approx(min(primal), abs=1e-12 * size(K))


@given(grams(), st.floats(0.01, 1.0), st.floats(0.01, 1.0))
def test_the_radius_never_grows_with_nu(K, one, other):
    low, high = sorted((one, other))
    assume(high - low > 1e-6)
    assert ball_of(K, low)[2] >= ball_of(K, high)[2] - 1e-9 * size(K)


# The estimator against the references ----------------------------------------------------------

SHOPS = make_newsvendor_sources(8, (5, 12), random_state=1)
NAMED = {f"shop {i}": table for i, table in enumerate(SHOPS)}
NEW = make_newsvendor_sources(5, (4, 9), random_state=2)
TEXTBOOK = {
    "rbf": (RBF(0.6), formulas.rbf(0.6)),
    "laplace": (Laplace(0.6), formulas.laplace(0.6)),
    "matern52": (Matern52(0.6), formulas.matern52(0.6)),
    "sum": (RBF(0.6) + Laplace(1.5), formulas.plus(formulas.rbf(0.6), formulas.laplace(1.5))),
}


def reference_ball(textbook, tables, nu, new=()):
    """Weights, R^2, and squared distances of sources and new tables, by textbook and SMO."""
    K = np.array(formulas.gram(textbook, tables))
    a = reference.dual(K, float(nu))
    distances = reference.squared_distances(K, a)
    center = a @ K @ a
    found = []
    for table in new:
        cross = np.array([row[0] for row in formulas.gram(textbook, [table, *tables])[1:]])
        own = formulas.gram(textbook, [table])[0][0]
        found.append(own - 2 * a @ cross + center)
    return a, reference.squared_radius(distances, nu), distances, np.array(found)


@pytest.mark.parametrize(("kernel", "textbook"), TEXTBOOK.values(), ids=TEXTBOOK)
@pytest.mark.parametrize("nu", [Fraction(1, 100), Fraction(1, 8), Fraction(3, 10), Fraction(1, 2)])
def test_the_learned_ball_is_that_of_the_references(kernel, textbook, nu):
    ball = SupportMeasureBall(float(nu), kernel=kernel).fit(SHOPS)
    a, R2, distances, to_new = reference_ball(textbook, SHOPS, nu, NEW)
    C = kernel.bound
    assert ball.weights_ == pytest.approx(a, abs=1e-6)
    assert ball.radius_**2 == pytest.approx(R2, abs=1e-9 * C)
    assert ball.distances_**2 == pytest.approx(distances, abs=1e-9 * C)
    assert ball.distance(NEW) ** 2 == pytest.approx(to_new, abs=1e-9 * C)
    assert ball.distance(NEW[0]) == ball.distance(NEW)[0]
    assert ball.score_samples(NEW).tolist() == (-ball.distance(NEW)).tolist()
    expected = np.sqrt(R2) - np.sqrt(to_new)
    assert ball.decision_function(NEW) == pytest.approx(expected, abs=1e-8)
    assert ball.predict(NEW).tolist() == np.where(expected >= 0, 1, -1).tolist()
    assert ball.offset_ == -ball.radius_
    cap = 1 / (8 * float(nu))
    assert ball.support_measures_.tolist() == (a > 1e-6).tolist()
    assert ball.exterior_.tolist() == (a > cap - 1e-6).tolist()
    assert ball.boundary_.tolist() == ((a > 1e-6) & (a < cap - 1e-6)).tolist()


@pytest.mark.parametrize("nu", [1e-9, 0.05, 0.125, 0.2, 0.25, 0.5, 0.77, 1.0])
def test_the_sources_fall_into_inner_boundary_and_exterior_ones(nu):
    ball = SupportMeasureBall(nu, kernel="laplace").fit(SHOPS)
    D, R = ball.distances_, ball.radius_
    support, boundary, exterior = ball.support_measures_, ball.boundary_, ball.exterior_
    assert (support == (boundary | exterior)).all()
    assert not (boundary & exterior).any()
    assert (D[~support] <= R + 1e-9).all()  # inner: in the ball
    assert D[boundary] == pytest.approx(np.full(boundary.sum(), R), abs=1e-9)
    assert (D[exterior] >= R - 1e-9).all()
    assert exterior.sum() <= 8 * nu + 1e-9 <= support.sum() + 2e-9 or 8 * nu < 1
    assert support.any()
    if 8 * nu < 1:
        assert not exterior.any()
    assert (ball.fit_predict(SHOPS) == -1).sum() <= 8 * nu


def test_gamma_enlarges_the_squared_radius_alone():
    plain = SupportMeasureBall(0.3).fit(SHOPS)
    larger = SupportMeasureBall(0.3, gamma=0.04).fit(SHOPS)
    assert larger.radius_**2 == pytest.approx(plain.radius_**2 + 0.04, rel=1e-12)
    assert larger.uncertainty_set_.radius_without_gamma == plain.radius_
    assert larger.uncertainty_set_.radius == larger.radius_
    assert larger.weights_.tolist() == plain.weights_.tolist()
    assert larger.distances_.tolist() == plain.distances_.tolist()
    assert (larger.decision_function(SHOPS) > plain.decision_function(SHOPS)).all()


@given(st.sampled_from([0.01, 0.125, 0.2, 0.25, 0.375, 0.5, 0.9, 1.0]), st.integers(0, 99))
def test_boundary_sources_count_as_inside(nu, seed):
    shops = make_newsvendor_sources(8, (5, 12), random_state=seed)
    ball = SupportMeasureBall(nu, kernel="matern32").fit(shops)
    fitted = np.where(ball.distances_ <= ball.radius_ + 1e-10, 1, -1)
    assert ball.predict(shops).tolist() == fitted.tolist()  # each goes through a pass of its own
    assert ball.fit_predict(shops).tolist() == fitted.tolist()
    assert (fitted == 1).sum() >= 8 * (1 - nu)
    assert [ball.uncertainty_set_.contains(shop) for shop in shops] == (fitted == 1).tolist()


def test_a_mixture_of_sources_in_the_ball_is_in_it():
    rng = np.random.default_rng(0)
    shops = make_newsvendor_sources(8, 10, random_state=3)  # equal sizes: stacking mixes evenly
    ball = SupportMeasureBall(0.3).fit(shops)
    inside = np.flatnonzero(ball.predict(shops) == 1)
    for _ in range(20):
        chosen = rng.choice(inside, size=rng.integers(2, len(inside) + 1))
        assert ball.uncertainty_set_.contains(np.vstack([shops[i] for i in chosen]))
    centre = np.vstack(
        [np.repeat(shops[i], round(1000 * ball.weights_[i]), axis=0) for i in range(8)]
    )
    assert ball.distance(centre) < 0.02


def test_the_learned_weights_span_the_sets_single_anchor():
    ball = SupportMeasureBall(0.3).fit(NAMED)
    learned = ball.uncertainty_set_
    assert learned.weights.tolist() == ball.weights_.tolist()
    assert learned.labels == ball.labels_ == tuple(NAMED)
    assert learned.n_anchors == 1
    assert learned.bandwidth == learned.kernel.bandwidth
    centre = ball.weights_ @ learned.gram @ ball.weights_
    assert learned.anchor_gram == pytest.approx(np.array([[centre]]), rel=1e-15)


# Degenerate data ------------------------------------------------------------------------------


def test_one_source():
    ball = SupportMeasureBall(0.5).fit([SHOPS[0]])
    assert (ball.weights_.tolist(), ball.radius_) == ([1.0], 0.0)
    assert ball.predict([SHOPS[0], SHOPS[1]]).tolist() == [1, -1]
    assert ball.support_measures_.tolist() == ball.boundary_.tolist() == [True]


@pytest.mark.parametrize("nu", [0.01, 0.5, 1.0])
@pytest.mark.parametrize("kernel", ["rbf", "laplace"])
def test_identical_sources_in_other_orders_have_radius_zero(nu, kernel):
    rng = np.random.default_rng(0)
    base = rng.normal(size=(700, 2)) + 1e3  # several blocks
    shops = [rng.permutation(base) for _ in range(4)]
    ball = SupportMeasureBall(nu, kernel=kernel).fit(shops)
    assert ball.radius_ == 0.0
    assert ball.predict(shops).tolist() == [1, 1, 1, 1]
    assert ball.predict([base + 0.5]).tolist() == [-1]


def test_a_single_sample_and_samples_that_are_all_equal():
    alone = SupportMeasureBall().fit([[[3.0]]])
    assert (alone.radius_, alone.uncertainty_set_.bandwidth) == (0.0, 1.0)
    equal = SupportMeasureBall().fit([[[3.0]] * 4, [[3.0]]])
    assert (equal.radius_, equal.uncertainty_set_.bandwidth) == (0.0, 1.0)
    assert equal.predict([[[3.0]], [[4.0]]]).tolist() == [1, -1]


@pytest.mark.parametrize("scale", [False, True])
def test_constant_columns_and_duplicates_change_nothing(scale):
    plain = SupportMeasureBall(0.3, scale=scale).fit(SHOPS)
    wider = SupportMeasureBall(0.3, scale=scale).fit([np.insert(t, 1, 0.1, axis=1) for t in SHOPS])
    assert wider.weights_ == pytest.approx(plain.weights_, abs=1e-10)
    assert wider.radius_ == pytest.approx(plain.radius_, abs=1e-10)
    twice = SupportMeasureBall(0.3, bandwidth=plain.uncertainty_set_.bandwidth, scale=scale).fit(
        [np.repeat(t, 2, axis=0) for t in SHOPS]
    )
    assert twice.weights_ == pytest.approx(plain.weights_, abs=1e-10)


def test_a_source_given_twice_shares_its_weight():
    once = SupportMeasureBall(1 / 8, bandwidth=0.5).fit(SHOPS)
    heavy = int(once.weights_.argmax())
    twice = SupportMeasureBall(1 / 9, bandwidth=0.5).fit([*SHOPS, SHOPS[heavy]])
    assert twice.radius_ == pytest.approx(once.radius_, abs=1e-10)
    shared = twice.weights_[heavy] + twice.weights_[8]
    assert shared == pytest.approx(once.weights_[heavy], abs=1e-8)


def test_wild_outliers_leave_the_ball_exact():
    shops = [*SHOPS, SHOPS[0] + 1e5, SHOPS[1] + 1e5]
    ball = SupportMeasureBall(0.15, kernel=RBF(0.6)).fit(shops)
    a, R2, distances, _ = reference_ball(formulas.rbf(0.6), shops, Fraction(3, 20))
    assert ball.weights_ == pytest.approx(a, abs=1e-6)
    assert ball.radius_**2 == pytest.approx(R2, abs=1e-9)
    assert ball.distances_**2 == pytest.approx(distances, abs=1e-9)


# Invariances ----------------------------------------------------------------------------------


def assert_same_ball(one, other, tol=1e-9):
    position = [other.labels_.index(label) for label in one.labels_]
    assert other.weights_[position] == pytest.approx(one.weights_, abs=1e-6)
    assert other.distances_[position] == pytest.approx(one.distances_, abs=tol)
    assert other.radius_ == pytest.approx(one.radius_, abs=tol)


def frame():
    rows = pd.concat(
        [
            pd.DataFrame(t, columns=["loaves", "rolls"]).assign(shop=name)
            for name, t in NAMED.items()
        ]
    )
    return rows.reset_index(drop=True)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_rows_does_not_matter(seed):
    rows = frame()
    mixed = rows.sample(frac=1.0, random_state=seed)
    one, other = (
        SupportMeasureBall(0.3).fit(r[["loaves", "rolls"]], groups=r["shop"]) for r in (rows, mixed)
    )
    assert_same_ball(one, other)


@pytest.mark.parametrize("kernel", ["rbf", "laplace", "matern32", "matern52"])
def test_translation_does_not_matter(kernel):
    here = SupportMeasureBall(0.3, kernel=kernel).fit(NAMED)
    shift = np.array([2.0**20, -(2.0**22)])  # loses nine digits of the data
    there = SupportMeasureBall(0.3, kernel=kernel).fit({k: t + shift for k, t in NAMED.items()})
    assert_same_ball(here, there, tol=1e-8)
    moved = [t + shift for t in NEW]
    assert there.distance(moved) == pytest.approx(here.distance(NEW), abs=1e-8)


def test_units_do_not_matter_with_scale():
    units = np.array([1000.0, 0.01])
    here = SupportMeasureBall(0.3, scale=True).fit(NAMED)
    there = SupportMeasureBall(0.3, scale=True).fit({k: t * units for k, t in NAMED.items()})
    assert_same_ball(here, there)
    assert there.distance([t * units for t in NEW]) == pytest.approx(here.distance(NEW), abs=1e-9)
    assert here.uncertainty_set_.bandwidth == pytest.approx(there.uncertainty_set_.bandwidth)


def test_units_matter_without_scale():
    units = np.array([1000.0, 0.01])
    here = SupportMeasureBall(0.3).fit(NAMED)
    there = SupportMeasureBall(0.3).fit({k: t * units for k, t in NAMED.items()})
    assert abs(here.radius_ - there.radius_) > 1e-3


def test_the_number_of_threads_changes_no_bit():
    balls = [SupportMeasureBall(0.3, n_jobs=n).fit(SHOPS) for n in (1, 2, None)]
    for ball in balls[1:]:
        assert ball.weights_.tobytes() == balls[0].weights_.tobytes()
        assert ball.radius_ == balls[0].radius_


def test_the_seed_draws_the_subsample_for_the_median(monkeypatch):
    monkeypatch.setattr("roodso.kernels.MEDIAN_SUBSAMPLE", 20)

    def bandwidth(seed):
        ball = SupportMeasureBall(random_state=seed).fit(SHOPS)
        return ball.uncertainty_set_.bandwidth

    assert bandwidth(1) == bandwidth(1) == bandwidth(np.random.default_rng(1))
    assert bandwidth(1) != bandwidth(2)


# One path over nu -----------------------------------------------------------------------------


def test_a_path_from_one_embedding_equals_separate_fits():
    nus = [0.01, *np.arange(0.05, 1.0, 0.05), 1.0]
    sources = Sources.from_data(SHOPS)
    learner = SupportMeasureBall(bandwidth=0.5)
    space = learner.kernel_space(sources, np.random.default_rng(0))
    embedding = Embedding.compute(space, sources, np.empty((0, 2)))
    for nu in nus:
        learned = learner.set_params(nu=nu).learn(embedding)
        alone = SupportMeasureBall(nu, bandwidth=0.5).fit(SHOPS)
        assert learned is learner.uncertainty_set_
        assert learner.weights_.tolist() == alone.weights_.tolist()
        assert (learner.radius_, learned.radius) == (alone.radius_, alone.radius_)
        assert learner.exterior_.tolist() == alone.exterior_.tolist()
        assert learner.predict(NEW).tolist() == alone.predict(NEW).tolist()


def test_a_gram_matrix_of_ones_own_replaces_that_of_the_samples():
    sources = Sources.from_data(SHOPS[:3])
    learner = SupportMeasureBall(0.5, bandwidth=0.5)
    space = learner.kernel_space(sources, np.random.default_rng(0))
    embedding = Embedding.compute(space, sources, np.empty((0, 2)))
    learned = learner.learn(embedding, np.diag([1.0, 1.0, 4.0]))
    expected = reference.dual(np.diag([1.0, 1.0, 4.0]), 0.5)
    assert learned.weights == pytest.approx(expected, abs=1e-9)
    assert learned.gram.tolist() == embedding.gram.tolist()  # of the samples: membership is theirs


def test_learn_checks_the_parameters_too():
    sources = Sources.from_data(SHOPS)
    learner = SupportMeasureBall()
    space = learner.kernel_space(sources, np.random.default_rng(0))
    embedding = Embedding.compute(space, sources, np.empty((0, 2)))
    with pytest.raises(ValueError, match=r"nu must be a number in \(0, 1\], got 2"):
        learner.set_params(nu=2).learn(embedding)


# Anomalous groups -----------------------------------------------------------------------------


def test_odd_groups_are_found():
    """Eighteen shops alike and two that differ: one by its mean, one by its spread alone."""
    rng = np.random.default_rng(0)
    shops = {f"shop {i}": rng.normal(0.2 * rng.normal(size=2), 1.0, (60, 2)) for i in range(18)}
    shops["shifted"] = rng.normal(2.5, 1.0, (60, 2))
    shops["narrow"] = rng.normal(0.0, 0.1, (60, 2))
    ball = SupportMeasureBall(nu=0.1)
    found = ball.fit_predict(shops)
    assert {ball.labels_[i] for i in np.flatnonzero(found == -1)} <= {"shifted", "narrow"}
    assert {ball.labels_[i] for i in np.argsort(ball.distances_)[-2:]} == {"shifted", "narrow"}
    usual, odd = rng.normal(0.0, 1.0, (60, 2)), rng.normal(3.0, 1.0, (60, 2))
    scores = ball.decision_function({"usual": usual, "odd": odd})
    assert scores[0] > 0 > scores[1]
    assert ball.predict({"usual": usual, "odd": odd}).tolist() == [1, -1]


def test_where_the_one_class_svm_rejects_every_source_this_ball_does_not():
    """For small nu its offset is scaled by nu and drowns in rounding: 19 or 20 of 20 are out."""
    shops = make_newsvendor_sources(20, (30, 60), random_state=1)
    for nu in (1e-8, 1e-6, 1e-3, 0.01, 0.03, 0.05):
        ball = SupportMeasureBall(nu).fit(shops)
        assert (ball.predict(shops) == 1).all()
        assert (ball.decision_function(shops) >= -1e-12).all()
        gram = ball.uncertainty_set_.gram
        svm = OneClassSVM(kernel="precomputed", nu=nu).fit(gram)
        rejected = int((svm.predict(gram) == -1).sum())
        assert rejected >= (19 if nu <= 1e-6 else 1)


# Manners of scikit-learn -----------------------------------------------------------------------


def test_parameters_are_stored_as_given_and_come_back():
    ball = SupportMeasureBall(
        0.3, kernel="laplace", gamma=0.1, scale=True, random_state=3, n_jobs=1
    )
    parameters = ball.get_params()
    assert parameters == {
        "nu": 0.3,
        "kernel": "laplace",
        "bandwidth": "median",
        "gamma": 0.1,
        "scale": True,
        "clip": None,
        "random_state": 3,
        "n_jobs": 1,
    }
    assert SupportMeasureBall(**parameters).get_params() == parameters
    assert ball.set_params(nu=0.5, bandwidth=2.0) is ball
    assert (ball.nu, ball.bandwidth) == (0.5, 2.0)
    with pytest.raises(ValueError, match="Invalid parameter 'mu'"):
        ball.set_params(mu=1)


def test_a_clone_is_unfitted_and_fits_to_the_same_ball():
    ball = SupportMeasureBall(0.3, kernel=RBF() + Laplace(2.0)).fit(SHOPS)
    fresh = clone(ball)
    assert not hasattr(fresh, "weights_")
    assert fresh.fit(SHOPS).weights_.tolist() == ball.weights_.tolist()


def test_fitting_changes_no_parameter_and_returns_the_estimator():
    ball = SupportMeasureBall(0.3, random_state=0)
    before = ball.get_params()
    assert ball.fit(SHOPS) is ball
    assert ball.get_params() == before


def test_every_form_of_data_gives_the_same_ball():
    rows = frame()
    X, groups = rows[["loaves", "rolls"]], rows["shop"]
    forms = [
        SupportMeasureBall(0.3).fit(X, groups=groups),
        SupportMeasureBall(0.3).fit(X.to_numpy(), groups=groups.to_numpy()),
        SupportMeasureBall(0.3).fit(NAMED),
        SupportMeasureBall(0.3).fit(SHOPS),
        SupportMeasureBall(0.3).fit([table.tolist() for table in SHOPS]),
        SupportMeasureBall(0.3).fit(Sources.from_data(NAMED)),
    ]
    for ball in forms:
        assert ball.weights_.tolist() == forms[0].weights_.tolist()
        assert ball.radius_ == forms[0].radius_
        assert ball.n_features_in_ == 2
    assert [ball.labels_ for ball in forms[:3]] == [tuple(NAMED)] * 3
    assert forms[3].labels_ == tuple(range(8))
    assert forms[0].feature_names_in_.tolist() == ["loaves", "rolls"]
    assert not hasattr(forms[1], "feature_names_in_")


def test_new_samples_come_in_every_form_too():
    rows = frame()
    X = rows[["loaves", "rolls"]]
    ball = SupportMeasureBall(0.3).fit(X, groups=rows["shop"])
    table = pd.DataFrame(NEW[0], columns=["loaves", "rolls"])
    expected = ball.distance(NEW[0])
    assert ball.distance(table) == ball.distance(table[["rolls", "loaves"]]) == expected
    assert ball.distance(NEW[0].tolist()) == expected
    assert isinstance(expected, float)
    for several in (NEW, tuple(NEW), dict(enumerate(NEW)), [t.tolist() for t in NEW]):
        assert ball.distance(several).tolist() == [ball.distance(t) for t in NEW]
        assert ball.predict(several).shape == (5,)
    cube = np.stack([t[:4] for t in NEW])
    assert ball.distance(cube).tolist() == [ball.distance(t[:4]) for t in NEW]
    assert ball.predict(table).shape == ball.score_samples(NEW[0]).shape == (1,)
    assert ball.predict([]).shape == ball.distance([]).shape == (0,)


def test_names_of_an_earlier_fit_do_not_linger():
    rows = frame()
    ball = SupportMeasureBall(0.3).fit(rows[["loaves", "rolls"]], groups=rows["shop"])
    assert not hasattr(ball.fit(SHOPS), "feature_names_in_")


@pytest.mark.parametrize("method", ["distance", "predict", "score_samples", "decision_function"])
def test_an_unfitted_ball_says_so(method):
    with pytest.raises(NotFittedError, match="This SupportMeasureBall instance is not fitted yet"):
        getattr(SupportMeasureBall(), method)(NEW)


def test_it_says_that_it_finds_outliers():
    assert is_outlier_detector(SupportMeasureBall())


# Bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"nu": 0.0}, ValueError, r"nu must be a number in \(0, 1\], got 0.0"),
        ({"nu": 1.01}, ValueError, r"nu must be a number in \(0, 1\], got 1.01"),
        ({"nu": np.nan}, ValueError, r"nu must be a number in \(0, 1\], got nan"),
        ({"nu": "0.2"}, TypeError, r"nu must be a number in \(0, 1\], got '0.2'"),
        ({"gamma": -1e-9}, ValueError, r"gamma must be a number in \[0, inf\), got -1e-09"),
        ({"gamma": np.inf}, ValueError, r"gamma must be a number in \[0, inf\), got inf"),
        ({"gamma": None}, TypeError, r"gamma must be a number in \[0, inf\), got None"),
        ({"kernel": "gauss"}, ValueError, "kernel must be one of 'rbf', 'laplace', 'matern32'"),
        (
            {"bandwidth": 0},
            ValueError,
            r"bandwidth must be a number in \(0, inf\) or 'median', got",
        ),
        ({"bandwidth": "mean"}, ValueError, r"bandwidth must be .* such as '3\*median', got"),
        ({"bandwidth": None}, TypeError, r"bandwidth must be a number in \(0, inf\) or 'median', "),
        (
            {"kernel": RBF(1.0), "bandwidth": 2.0},
            ValueError,
            "bandwidth=2.0 conflicts with the kernel object's own",
        ),
        ({"scale": 1}, TypeError, "scale must be True, False or 'robust', got 1"),
        ({"scale": "yes"}, ValueError, "scale must be True, False or 'robust', got 'yes'"),
        ({"bandwidth": "0*median"}, ValueError, r"such as '3\*median', got '0\*median'"),
        ({"bandwidth": "x*median"}, ValueError, r"such as '3\*median', got 'x\*median'"),
        ({"bandwidth": "nan*median"}, ValueError, r"such as '3\*median', got"),
        ({"bandwidth": "3median"}, ValueError, r"such as '3\*median', got '3median'"),
        ({"clip": 0.5}, ValueError, r"clip must be a number in \(0, 0.5\) or \(low, high\), got"),
        ({"clip": True}, TypeError, r"clip must be a number in \(0, 0.5\)"),
        ({"clip": "some"}, TypeError, r"clip must be a share below 0.5, a pair .* got 'some'"),
        ({"clip": (0.1,)}, TypeError, r"clip must be a share below 0.5"),
        ({"clip": (0.9, 0.1)}, ValueError, r"clip must have low < high, got \(0.9, 0.1\)"),
        ({"clip": (-0.1, 0.9)}, ValueError, r"clip\[0\] must be a number in \[0, 1\], got -0.1"),
        ({"random_state": -1}, TypeError, "random_state must be None, a whole number >= 0 or a"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be None, -1 or a positive whole number, got 0"),
    ],
)
def test_bad_parameters_are_refused_before_any_work(parameters, error, message, monkeypatch):
    def no_work(*args, **kwargs):
        raise AssertionError("work was done")

    monkeypatch.setattr(Sources, "from_data", no_work)
    with pytest.raises(error, match=message):
        SupportMeasureBall(**parameters).fit(SHOPS)


@pytest.mark.parametrize(
    ("X", "groups", "error", "message"),
    [
        (np.zeros((4, 2)), None, ValueError, "groups must name the source of each row"),
        (np.zeros((4, 2)), [0, 1], ValueError, "groups must have one entry for each of the 4 rows"),
        (
            [np.zeros((4, 2)), np.zeros((0, 2))],
            None,
            ValueError,
            "source 1 of X must have at least",
        ),
        (
            [np.zeros((4, 2)), np.zeros((4, 3))],
            None,
            ValueError,
            "source 1 of X must have 2 columns",
        ),
        ([[[1.0, np.nan]]], None, ValueError, "got nan in row 0, column 1"),
        ([], None, ValueError, "X must hold at least one source, got none"),
    ],
)
def test_bad_data_are_refused(X, groups, error, message):
    with pytest.raises(error, match=message):
        SupportMeasureBall().fit(X, groups=groups)


@pytest.mark.parametrize(
    ("samples", "error", "message"),
    [
        (np.zeros((3, 5)), ValueError, "samples must have 2 columns, got 5"),
        (np.zeros(3), ValueError, "samples must be a table of shape .* use x.reshape"),
        ([NEW[0], np.zeros((3, 5))], ValueError, r"samples\[1\] must have 2 columns, got 5"),
        ({"a": NEW[0], "b": [[1.0, np.inf]]}, ValueError, "source 'b' of samples must hold finite"),
        ([NEW[0], np.zeros((0, 2))], ValueError, r"samples\[1\] must have at least 1 row"),
        ([1.0, 2.0], ValueError, r"samples\[0\] must be a table of shape \(n, d\), got shape \(\)"),
        (5, TypeError, "samples must be a table .* or a mapping or sequence of tables, got int"),
        ("shop", TypeError, "samples must be a table .* or sequence of tables, got str"),
        (None, TypeError, "samples must be a table .* or sequence of tables, got NoneType"),
        (
            pd.DataFrame({"loaves": [1.0], "buns": [2.0]}),
            ValueError,
            r"samples must have the columns \['loaves', 'rolls'\], got \['loaves', 'buns'\]",
        ),
    ],
)
def test_bad_new_samples_are_refused(samples, error, message):
    rows = frame()
    ball = SupportMeasureBall().fit(rows[["loaves", "rolls"]], groups=rows["shop"])
    with pytest.raises(error, match=message):
        ball.distance(samples)


def test_methods_that_call_their_argument_x_say_so():
    ball = SupportMeasureBall().fit(SHOPS)
    with pytest.raises(ValueError, match=r"X\[1\] must have 2 columns, got 5"):
        ball.predict([NEW[0], np.zeros((3, 5))])


def test_the_learner_is_exported():
    assert sets.SupportMeasureBall is SupportMeasureBall


# Many sources -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n_sources", [51, 180])
@pytest.mark.parametrize("kind", ["linear", "grid", "rbf", "wide", "narrow"])
@pytest.mark.parametrize("nu", [0.001, 0.2, 0.55, 1.0])
def test_many_sources_are_at_their_optimum(n_sources, kind, nu):
    """Nothing can be moved to where it is worth more, which is what an optimum is."""
    rng = np.random.default_rng(n_sources)
    points = rng.normal(size=(n_sources, 2))
    if kind == "grid":  # duplicates and ties
        points = rng.integers(-2, 3, (n_sources, 2)).astype(float)
    width = {"rbf": 2.0, "wide": 2e4, "narrow": 2e-2}.get(kind)
    squared = ((points[:, None] - points) ** 2).sum(axis=2)
    gram = points @ points.T if width is None else np.exp(-squared / width)
    alpha, cap = solve_dual(gram, nu), min(1.0, 1.0 / (n_sources * nu))
    assert alpha.sum() == pytest.approx(1.0, abs=1e-12)
    assert (alpha >= 0).all()
    assert (alpha <= cap * (1 + 1e-12)).all()
    worth = np.diag(gram) - 2 * gram @ alpha
    could_grow, could_shrink = worth[alpha < cap], worth[alpha > 0]
    if len(could_grow):
        assert could_grow.max() - could_shrink.min() <= 1e-11 * size(gram)


def test_the_exchange_of_pairs_and_the_interior_point_method_agree(monkeypatch):
    points = np.random.default_rng(0).normal(size=(120, 3))
    gram = np.exp(-((points[:, None] - points) ** 2).sum(axis=2) / 2.0)
    by_pairs = solve_dual(gram, 0.2)
    monkeypatch.setattr(quadratic, "_STEPS", 0)  # pairs give up at once
    np.testing.assert_allclose(solve_dual(gram, 0.2), by_pairs, atol=1e-9)


@pytest.mark.parametrize("cap", [0.02, 0.3, 1.0])
def test_the_exchange_of_pairs_comes_near_by_itself(cap):
    points = np.random.default_rng(1).normal(size=(90, 3))
    gram = np.exp(-((points[:, None] - points) ** 2).sum(axis=2) / 2.0)
    linear = points[:, 0]
    a = quadratic._by_pairs(gram, linear, cap)
    worth = linear - 2 * gram @ a
    assert a.sum() == pytest.approx(1.0, abs=1e-12)
    assert worth[a < cap].max() - worth[a > 0].min() <= 2e-6
