"""Low rank: errors that are bounds, certificates that stay true, and the choice between the two.

What is claimed of the sources is held against all N^2 kernel values; optima come from the whole
programme through cvxpy over the stated ball, with its radius from exact distances; proofs are
confirmed by the independent checker.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import roodso
from instances import draw
from reference.checker import check
from reference.kernels import describe, kernel_matrix
from roodso import RooDSO, lowrank
from roodso.datasets import make_heavy_tailed_sources, make_newsvendor_sources
from roodso.embedding import Coordinates, Embedding, KernelSpace
from roodso.exceptions import ConvergenceWarning
from roodso.kernels import RBF, Laplace, Matern32, Matern52
from roodso.losses import Newsvendor
from roodso.lowrank import LowRank, choose_landmarks, embed, sample_landmarks
from roodso.methods import rood
from roodso.sets import ConformalBall, FixedBall, SupportMeasureBall, ThickenedHull, UncertaintySet
from roodso.sets.ball import squared_distances_to_center, squared_radius
from roodso.solver import certificate
from roodso.solver.rows import LoopOptions, Programme
from roodso.solver.solve import solve_programme
from roodso.solver.witness import RKHSFunction
from roodso.sources import Sources

LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
KERNELS = [RBF(0.7), Laplace(1.5), Matern32(1.0), Matern52(1.0), RBF(0.5) + Laplace(2.0)]


def some_sources(seed, n_sources=5, d=2, size=40):
    """Sources of unequal sizes, with duplicates and an outlier."""
    rng = np.random.default_rng(seed)
    tables = [
        rng.uniform(-1, 1, d) + rng.uniform(0.2, 0.8) * rng.standard_normal((n, d))
        for n in rng.integers(1, 2 * size, n_sources)
    ]
    tables[0] = np.vstack([tables[0], tables[0][:1], 8.0 * np.ones((1, d))])
    return Sources.from_data(tables)


def plain_space(kernel, d):
    return KernelSpace(kernel, Coordinates(np.zeros(d), np.ones(d)))


def both(kernel, sources, extra, **how):
    space = plain_space(kernel, sources.n_columns)
    how = {"max_rank": 20, "tol": 1e-9} | how
    exact = Embedding.compute(space, sources, extra)
    return exact, LowRank.build(space, sources, extra, **how)


# What is known of the sources


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("max_rank", [1, 5, 40, 400])
def test_norms_of_combinations_lie_between_what_is_known(kernel, max_rank):
    sources = some_sources(1)
    exact, low = both(kernel, sources, np.empty((0, 2)), max_rank=max_rank, tol=1e-12)
    rng = np.random.default_rng(0)
    for t in [*np.eye(5), *rng.standard_normal((40, 5)), *(rng.dirichlet(np.ones(5), 20) - 0.2)]:
        true = t @ exact.gram @ t
        least = t @ low.gram @ t
        assert least - 1e-11 <= true <= least + (np.abs(t) @ low.errors) ** 2 + 1e-11


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_errors_are_bounds_whatever_the_data(seed):
    rng = np.random.default_rng(seed)
    d, kernel = int(rng.integers(1, 7)), KERNELS[seed % len(KERNELS)]
    sources = some_sources(seed, int(rng.integers(1, 6)), d, int(rng.integers(1, 30)))
    exact, low = both(kernel, sources, np.empty((0, d)), max_rank=int(rng.integers(1, 60)))
    missing = np.diag(exact.gram - low.gram)
    assert (missing >= -1e-11).all()
    assert (missing <= low.errors**2 + 1e-12).all()


def test_errors_are_bounds_where_a_source_has_many_blocks(monkeypatch):
    monkeypatch.setattr(lowrank, "_FINE", 7)
    monkeypatch.setattr(lowrank, "_COARSE", 7)
    exact, low = both(RBF(0.7), some_sources(2, size=60), np.empty((0, 2)), max_rank=12)
    whole = both(RBF(0.7), some_sources(2, size=60), np.empty((0, 2)), max_rank=12)[1]
    missing = np.diag(exact.gram - low.gram)
    assert (missing <= low.errors**2).all()
    np.testing.assert_allclose(low.means, whole.means, atol=1e-9)


def test_errors_shrink_as_landmarks_are_added_and_vanish_when_all_are():
    sources = some_sources(3)
    errors = [
        both(RBF(0.7), sources, np.empty((0, 2)), max_rank=rank, tol=1e-15)[1].errors.max()
        for rank in (2, 8, 32, sources.n_samples)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-5


def test_the_means_are_the_functions_that_the_landmarks_span():
    sources, extra = some_sources(4), np.random.default_rng(0).uniform(-2, 2, (9, 2))
    _, low = both(Matern52(1.0), sources, extra, max_rank=15)
    known = low.landmarks
    kernel = describe(Matern52(1.0))
    by_hand = kernel_matrix(kernel, low.support, known.points) @ known.coefficients
    np.testing.assert_allclose(low.means, by_hand, atol=1e-12)
    inner = kernel_matrix(kernel, known.points, known.points)
    np.testing.assert_allclose(
        low.gram, known.coefficients.T @ inner @ known.coefficients, atol=1e-9
    )
    wider = low.extended(extra + 0.1)
    np.testing.assert_allclose(
        wider.means[len(low.means) :],
        kernel_matrix(kernel, extra + 0.1, known.points) @ known.coefficients,
        atol=1e-12,
    )


def test_exact_means_are_exact():
    sources = some_sources(5)
    exact, low = both(RBF(0.7), sources, np.zeros((1, 2)), max_rank=4)
    index = np.array([0, 3, sources.n_samples])
    np.testing.assert_allclose(low.exact_means(index), exact.means[index], atol=1e-13)
    assert np.abs(low.means[index] - exact.means[index]).max() > 1e-6


def test_a_function_is_known_exactly():
    sources = some_sources(6)
    _, low = both(RBF(0.7), sources, np.zeros((3, 2)), max_rank=6)
    rng = np.random.default_rng(1)
    index = np.array([1, 4, 7])
    g = RKHSFunction.build(low, index, rng.standard_normal(3), rng.standard_normal(5))
    expanded = g.expanded(low)
    np.testing.assert_allclose(g.values, expanded(low.support), atol=1e-11)
    true = replace(expanded, known_norm=None).norm
    assert true <= g.norm <= true * (1 + 1e-6)
    by_source = [expanded(sources.table(i)).mean() for i in range(5)]
    np.testing.assert_allclose(low.averages(g.values), by_source, atol=1e-11)


# Landmarks


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
def test_residuals_are_schur_complements(kernel):
    points = np.random.default_rng(0).standard_normal((300, 3))
    chosen, residuals = choose_landmarks(kernel, points, 70, 1e-12, np.random.default_rng(1))
    K = kernel_matrix(describe(kernel), points, points)
    inside = K[np.ix_(chosen, chosen)]
    left = np.diag(K) - np.einsum("rn,rn->n", K[chosen], np.linalg.solve(inside, K[chosen]))
    assert len(np.unique(chosen)) == len(chosen) <= 70
    np.testing.assert_allclose(residuals, left, atol=1e-9)


def test_landmarks_are_enough_for_the_residual_asked():
    points = np.random.default_rng(0).standard_normal((500, 2))
    chosen, residuals = choose_landmarks(RBF(1.0), points, 500, 1e-6, np.random.default_rng(1))
    assert residuals.mean() <= 1e-6
    assert len(chosen) < 120


def test_points_that_coincide_give_one_landmark():
    points = np.repeat(np.arange(3.0), 10)[:, None]
    chosen, residuals = choose_landmarks(Laplace(1.0), points, 30, 1e-12, np.random.default_rng(0))
    assert sorted(points[chosen].ravel()) == [0.0, 1.0, 2.0]
    assert residuals.max() < 1e-12


def test_outliers_that_the_sample_missed_become_landmarks(monkeypatch):
    monkeypatch.setattr(lowrank, "_SAMPLE", 60)
    rng = np.random.default_rng(0)
    tables = [rng.normal(0.0, 0.3, (700, 2)) for _ in range(6)]
    tables[2][::100] = rng.uniform(5, 30, (7, 2))
    sources, space = Sources.from_data(tables), plain_space(RBF(1.0), 2)
    points, residual = sample_landmarks(space, sources.samples, max_rank=100, tol=1e-8)
    plain = lowrank._learn(space, sources, points, residual, 100, np.inf, 1)
    swept = LowRank.build(space, sources, np.empty((0, 2)), max_rank=100, tol=1e-8)
    assert plain.errors[2] > 3e-3
    assert swept.errors[2] < 0.05 * plain.errors[2]
    exact = Embedding.compute(space, sources, np.empty((0, 2)))
    missing = np.diag(exact.gram - swept.gram)
    assert (missing <= swept.errors**2).all()


def test_the_same_whatever_the_threads():
    sources = some_sources(7, size=600)
    one, two = (
        LowRank.build(
            plain_space(RBF(0.7), 2), sources, np.zeros((2, 2)), max_rank=30, tol=1e-9, n_jobs=jobs
        )
        for jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.means, two.means)
    np.testing.assert_array_equal(one.errors, two.errors)


@pytest.mark.parametrize("whole", [True, False])
def test_restricted_to_some_samples_it_is_that_of_these(whole):
    sources = some_sources(8)
    _, low = both(RBF(0.7), sources, np.zeros((4, 2)), max_rank=10)
    rows = np.flatnonzero(sources.codes != 2)
    rows = rows if whole else rows[::2]
    part = low.restricted(rows)
    fresh = Embedding.compute(low.space, sources.restricted(rows), np.zeros((4, 2)))
    np.testing.assert_array_equal(part.support, fresh.support)
    assert part.landmarks.rank == low.landmarks.rank
    missing = np.diag(fresh.gram - part.gram)
    assert ((missing >= -1e-12) & (missing <= part.errors**2)).all()
    np.testing.assert_allclose(part.means, fresh.means, atol=part.errors.max())


# Certificates


def exact_radius(model, nu):
    """R of the model's weights, from all kernel values."""
    ball = model.uncertainty_set_
    exact = Embedding.compute(ball.space, ball.sources, np.empty((0, ball.sources.n_columns)))
    squared = squared_distances_to_center(exact.gram, ball.weights)
    return np.sqrt(squared_radius(squared, nu))


@pytest.mark.filterwarnings("ignore::roodso.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::roodso.exceptions.DegenerateDataWarning")
@given(st.integers(0, 10_000))
@settings(max_examples=30, deadline=None)
def test_bounds_bracket_the_programme_over_the_stated_ball(seed):
    instance = draw(seed)
    rank = int(np.random.default_rng(seed).integers(1, 25))
    model = instance.model(embedding="low-rank", max_rank=rank).fit(instance.tables)
    s, ball = model.solution_, model.uncertainty_set_
    radius = np.sqrt(exact_radius(model, instance.nu) ** 2 + instance.gamma)
    assert ball.least_radius - 1e-7 <= radius <= ball.radius + 1e-7
    if ball.radius == 0.0 or radius < 1e-6:
        return
    optimum = replace_radius(instance, model, radius)
    slack = 1e-6 * max(1.0, abs(optimum))
    assert s.lower_bound - slack <= optimum <= s.upper_bound + slack
    assert s.status in ("optimal", "low rank", "inaccurate", "stalled")


def replace_radius(instance, model, radius):
    """The reference's optimum for another radius than the stated one."""

    class Stated:
        solution_ = model.solution_
        uncertainty_set_ = replace(model.uncertainty_set_, radius=float(radius))

    return instance.optimum(Stated)


@pytest.mark.parametrize("seed", range(18))
@pytest.mark.filterwarnings("ignore::roodso.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::roodso.exceptions.DegenerateDataWarning")
def test_the_independent_checker_confirms_both_bounds(seed):
    instance = draw(seed)
    model = instance.model(embedding="low-rank", max_rank=6).fit(instance.tables)
    if model.solution_.witness is None:
        return
    claim = instance.claim(model)
    assert check(claim, tol=1e-8) == []
    least = replace(claim, radius=model.uncertainty_set_.least_radius)
    assert not [word for word in check(least, tol=1e-8) if "outside" in word]


def test_without_errors_the_bounds_would_be_none(monkeypatch):
    """Projected distances alone are too small: what the errors are for."""
    rng = np.random.default_rng(0)
    shops = [
        2.0 + 0.2 * rng.uniform(-1, 1, 5) + 0.3 * rng.standard_normal((60, 5)) for _ in "abcdef"
    ]
    loss = Newsvendor(price=50, cost=20, holding=5, backorder=10)
    model, bare = (
        RooDSO(loss, embedding="low-rank", max_rank=10, random_state=0) for _ in range(2)
    )
    with pytest.warns(ConvergenceWarning, match="low rank"):
        model.fit(shops)
    radius = exact_radius(model, model.nu)
    optimum = stated_optimum(model, shops, radius)
    assert model.solution_.lower_bound <= optimum <= model.solution_.upper_bound
    monkeypatch.setattr(LowRank, "errors", property(lambda self: np.zeros(len(self.gram))))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        bare.fit(shops)
    assert bare.uncertainty_set_.radius < radius
    assert bare.solution_.upper_bound < optimum


def stated_optimum(model, tables, radius):
    """The optimum over the model's weights and another radius, through the exact embedding."""
    programme, ball = model._programme, model.uncertainty_set_
    low = programme.embedding
    exact = Embedding.compute(low.space, low.sources, low.support[low.sources.n_samples :])
    stated = UncertaintySet.ball(ball.weights, radius**2, 0.0, ball.space, ball.sources, exact.gram)
    solved = solve_programme(Programme(programme.problem, stated, exact), LoopOptions(tol=1e-9))
    assert solved.status == "optimal"
    return solved.upper_bound


@pytest.mark.parametrize("d", [2, 5, 10, 30])
def test_intervals_contain_the_exact_optimum(d):
    check_interval(d, n_sources=8, size=50, max_rank=100, widest=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("d", [2, 5, 10, 30])
def test_intervals_contain_the_exact_optimum_at_twenty_thousand_samples(d, seed):
    check_interval(d, n_sources=20, size=1000, max_rank=2000, widest=0.005, seed=seed)


def check_interval(d, *, n_sources, size, max_rank, widest, seed=0):
    """The exact optimum over the stated ball lies in the certified interval, which is not wide."""
    rng = np.random.default_rng([d, seed])
    middle = rng.uniform(1, 3, d)
    tables = [
        middle + 0.25 * rng.uniform(-1, 1, d) + 0.3 * rng.standard_normal((size, d))
        for _ in range(n_sources)
    ]
    ends = {"price": (50, 40), "cost": (20, 15), "holding": (5, 3), "backorder": (10, 8)}
    loss = Newsvendor(**{name: np.linspace(*pair, d) for name, pair in ends.items()})
    model = RooDSO(loss, embedding="low-rank", max_rank=max_rank, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(tables)
    s, ball = model.solution_, model.uncertainty_set_
    radius = exact_radius(model, model.nu)
    assert ball.least_radius - 1e-9 <= radius <= ball.radius + 1e-9
    optimum = stated_optimum(model, tables, radius)
    slack = 1e-9 * abs(optimum)
    assert s.lower_bound - slack <= optimum <= s.upper_bound + slack
    assert s.gap < widest


@pytest.mark.parametrize(
    "learner",
    [
        ThickenedHull(0.2),
        ThickenedHull(0.2, tail=0.5),
        ThickenedHull("leave-one-out", nu=0.3, bandwidth=1.0),
        ThickenedHull("split", nu=0.3),
        ConformalBall(nu=0.3),
        ConformalBall(nu=0.3, method="leave-one-out", bandwidth=1.0),
        SupportMeasureBall(nu=0.3, gamma=0.01),
        FixedBall(0.15),
    ],
    ids=lambda learner: f"{type(learner).__name__} {getattr(learner, '_method', '')}",
)
@pytest.mark.filterwarnings("ignore::roodso.ConvergenceWarning")
def test_every_set_keeps_its_radius_and_its_bounds(learner):
    shops = make_newsvendor_sources(8, (30, 60), random_state=2)
    exact = RooDSO(LOSS, uncertainty_set=learner, random_state=0, tol=1e-8).fit(shops)
    low = RooDSO(
        LOSS, uncertainty_set=learner, embedding="low-rank", max_rank=12, random_state=0, tol=1e-8
    ).fit(shops)
    one, other = exact.uncertainty_set_, low.uncertainty_set_
    if isinstance(learner, FixedBall) or learner.get_params().get("thickness") == 0.2:
        assert other.radius == other.least_radius == one.radius  # given, hence known
    else:
        assert low.solution_.embedding.radius_error > 0.0
    if not isinstance(learner, SupportMeasureBall | ConformalBall):  # the same set, but for R
        stated = replace(one, radius=other.radius)
        largest = solve_programme(
            replace(exact._programme, uncertainty=stated), LoopOptions(tol=1e-8)
        )
        stated = replace(one, radius=other.least_radius)
        least = solve_programme(
            replace(exact._programme, uncertainty=stated), LoopOptions(tol=1e-8)
        )
        assert largest.lower_bound <= low.solution_.upper_bound + 1e-6
        assert low.solution_.lower_bound <= least.upper_bound + 1e-6
        assert other.least_radius - 1e-9 <= one.radius <= other.radius + 1e-9
    if isinstance(learner, SupportMeasureBall):
        assert (low.set_learner_.distances_ <= other.radius).mean() >= 1 - learner.nu


@pytest.mark.filterwarnings("ignore::roodso.ConvergenceWarning")
def test_distances_and_membership_are_those_of_the_sources():
    shops = make_newsvendor_sources(9, 50, random_state=3)
    model = RooDSO(LOSS, embedding="low-rank", max_rank=10, random_state=0).fit(shops)
    learner, ball = model.set_learner_, model.uncertainty_set_
    exact = Embedding.compute(ball.space, ball.sources, np.empty((0, 2)))
    true = np.sqrt(squared_distances_to_center(exact.gram, ball.weights))
    error = model.solution_.embedding.error
    assert (learner.distances_ >= true - 1e-12).all()
    assert (learner.distances_**2 <= true**2 + (2 * error) ** 2 + 1e-12).all()
    asked = np.array([ball.distance(table) for table in shops])
    assert (np.abs(asked**2 - true**2) <= error**2 + 1e-12).all()
    assert (learner.distances_ <= ball.radius * (1 + 1e-12)).sum() >= 0.8 * len(shops)


@pytest.mark.filterwarnings("ignore::roodso.ConvergenceWarning")
def test_any_decision_is_certified_and_a_path_shares_landmarks():
    shops = make_newsvendor_sources(9, 50, random_state=4)
    model = RooDSO(LOSS, embedding="low-rank", max_rank=60, random_state=0)
    path = model.path(shops, [0.1, 0.3, 0.5])
    exact = RooDSO(LOSS, embedding="exact", random_state=0).path(shops, [0.1, 0.3, 0.5])
    for low, full in zip(path, exact, strict=True):
        assert low.solution_.embedding.kind == "low rank"
        assert low.objective_ == pytest.approx(full.objective_, rel=1e-3)
    x = [1.5, 1.2]
    ours, theirs = path[0].worst_case_cost(x), exact[0].worst_case_cost(x)
    assert ours.embedding.kind == "low rank"
    assert ours.upper_bound == pytest.approx(theirs.upper_bound, rel=1e-3)
    assert ours.upper_bound >= path[0].solution_.lower_bound


def test_the_box_can_be_searched_with_low_rank():
    shops = make_newsvendor_sources(6, 40, random_state=5)
    low, full = (
        RooDSO(
            LOSS, embedding=kind, continuous="prove", n_support=30, random_state=0, tol=1e-4
        ).fit(shops)
        for kind in ("low-rank", "exact")
    )
    assert low.solution_.box.proved
    assert low.solution_.box.upper_bound == pytest.approx(full.solution_.box.upper_bound, rel=1e-3)


@pytest.mark.filterwarnings("ignore::roodso.ConvergenceWarning")
def test_a_model_of_low_rank_is_portable(tmp_path):
    shops = make_newsvendor_sources(7, 60, random_state=6)
    model = RooDSO(LOSS, embedding="low-rank", max_rank=20, random_state=0).fit(shops)
    model.save(tmp_path / "model.roodso")
    again = roodso.load(tmp_path / "model.roodso")
    assert again.solution_.embedding == model.solution_.embedding
    assert isinstance(again._programme.embedding, LowRank)
    ours, theirs = model.worst_case_cost([1.0, 1.0]), again.worst_case_cost([1.0, 1.0])
    assert (ours.lower_bound, ours.upper_bound) == (theirs.lower_bound, theirs.upper_bound)


def test_heavy_tails_are_no_trouble():
    shops = make_heavy_tailed_sources(6, 200, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = RooDSO(LOSS, embedding="low-rank", random_state=0).fit(shops)
    radius = exact_radius(model, model.nu)
    optimum = stated_optimum(model, shops, radius)
    assert model.solution_.lower_bound <= optimum + 1e-6 * abs(optimum)
    assert optimum <= model.solution_.upper_bound + 1e-6 * abs(optimum)


# The choice, and what is said of it


def test_few_samples_are_embedded_exactly():
    model = RooDSO(LOSS, random_state=0).fit(make_newsvendor_sources(5, 30, random_state=0))
    report = model.solution_.embedding
    assert (report.kind, report.rank, report.error, report.radius_error) == ("exact", 0, 0.0, 0.0)
    assert model.uncertainty_set_.radius_error == 0.0


def chosen(d, monkeypatch, *, affordable, bearable, **how):
    monkeypatch.setattr(lowrank, "_AFFORDABLE", affordable)
    monkeypatch.setattr(lowrank, "_BEARABLE", bearable)
    rng = np.random.default_rng(d)
    sources = Sources.from_data([rng.normal(0.1 * i, 1.0, (60, d)) for i in range(4)])
    space = plain_space(RBF(np.sqrt(2.0 * d)), d)
    return type(embed(space, sources, np.empty((0, d)), **how))


def test_the_choice_follows_size_and_spectrum(monkeypatch):
    pairs = 240 * 241 / 2
    few, many = {"max_rank": 150, "tol": 1e-3}, {"max_rank": 20, "tol": 1e-3}
    choice = chosen(2, monkeypatch, affordable=pairs, bearable=pairs)
    assert choice is Embedding
    assert chosen(2, monkeypatch, affordable=0, bearable=pairs, **few) is LowRank
    assert chosen(20, monkeypatch, affordable=0, bearable=pairs, **many) is Embedding
    assert chosen(20, monkeypatch, affordable=0, bearable=0, **many) is LowRank
    assert chosen(20, monkeypatch, affordable=0, bearable=0, kind="exact") is Embedding
    assert chosen(2, monkeypatch, affordable=pairs, bearable=pairs, kind="low-rank") is LowRank


def test_memory_that_does_not_suffice_is_said_with_the_gap_reached():
    rng = np.random.default_rng(0)
    shops = [rng.normal(2.0 + 0.1 * i, 0.4, (80, 2)) for i in range(6)]
    scarce = RooDSO(LOSS, embedding="low-rank", memory_limit="20 kB", random_state=0)
    with pytest.warns(ConvergenceWarning, match=r"low rank.*gap"):
        scarce.fit(shops)
    ample = RooDSO(LOSS, embedding="low-rank", random_state=0).fit(shops)
    assert scarce.solution_.status == "low rank"
    assert scarce.solution_.embedding.rank < ample.solution_.embedding.rank
    assert scarce.solution_.gap > 1e-6 >= ample.solution_.gap
    assert "landmarks" in scarce.solution_.embedding.summary()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"embedding": "nystrom"}, "embedding must be one of 'auto', 'exact', 'low-rank'"),
        ({"max_rank": 0}, "max_rank must be a whole number >= 1"),
        ({"memory_limit": "2 apples"}, "memory_limit must be a number of bytes or text"),
        ({"memory_limit": "1.2.3 MB"}, "memory_limit must be a number of bytes or text"),
        ({"memory_limit": 0}, "memory_limit must be a number in"),
        ({"embedding": "low-rank", "representer": "herded"}, "needs representer='exact'"),
        ({"embedding": "low-rank", "gram": "herded"}, "needs representer='exact'"),
    ],
)
def test_wrong_parameters_are_refused(wrong, message):
    with pytest.raises((ValueError, TypeError), match=message):
        RooDSO(LOSS, **wrong).fit(make_newsvendor_sources(3, 10, random_state=0))


def test_the_papers_variants_are_exact_whatever_the_size(monkeypatch):
    monkeypatch.setattr(lowrank, "_AFFORDABLE", 0)
    monkeypatch.setattr(lowrank, "_BEARABLE", 0)
    shops = make_newsvendor_sources(4, 30, random_state=0)
    model = RooDSO(LOSS, representer="herded", random_state=0).fit(shops)
    assert model.solution_.embedding.kind == "exact"
    assert RooDSO(LOSS, random_state=0).fit(shops).solution_.embedding.kind == "low rank"


def test_the_certificate_asks_for_exact_means_only_where_there_is_weight(monkeypatch):
    asked = []
    plain = LowRank.exact_means

    def noted(self, index):
        asked.append(len(index))
        return plain(self, index)

    monkeypatch.setattr(LowRank, "exact_means", noted)
    shops = make_newsvendor_sources(6, 50, random_state=0)
    RooDSO(LOSS, embedding="low-rank", random_state=0).fit(shops)
    assert asked
    assert max(asked) <= 40
    assert certificate._MARGIN < 1e-9
    assert rood._PREPARATION.count("embedding") == 1
