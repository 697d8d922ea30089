"""The conformal ball keeps its promise at every M, and only under its premise."""

import pickle
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import binom
from sklearn.base import clone

import roodso
from instances import Instance
from reference import conformal as reference
from reference.checker import check
from reference.kernels import describe, kernel_matrix
from roodso import RooDSO, SampleSizeWarning
from roodso.datasets import make_newsvendor_sources
from roodso.kernels import RBF, Laplace
from roodso.losses import Newsvendor
from roodso.sets import ConformalBall, SupportMeasureBall
from roodso.sets.calibration import (
    conformal_rank,
    expected_squared_distances,
    sampling_error_bound,
)

METHODS = ["split", "leave-one-out"]
LOSS = Newsvendor(
    price=np.array([50.0, 40.0]),
    cost=np.array([20.0, 15.0]),
    holding=np.array([5.0, 3.0]),
    backorder=np.array([10.0, 8.0]),
)


def shops(n_sources=20, size=(8, 12), seed=0):
    return make_newsvendor_sources(n_sources, size, random_state=seed)


def ball(nu=0.2, method="split", **options):
    return ConformalBall(nu, method=method, **({"random_state": 0, "n_jobs": 1} | options))


def parts(fitted):
    return np.flatnonzero(~fitted.calibration_), np.flatnonzero(fitted.calibration_)


def scores_by_reference(fitted, tables, nu):
    kernel = describe(fitted.uncertainty_set_.kernel)
    scale = fitted.uncertainty_set_.space.coordinates.scale
    K = reference.gram(kernel, [table / scale for table in tables])
    if fitted.method == "split":
        return reference.split_scores(K, *parts(fitted), nu)
    return reference.leave_one_out_scores(K, *parts(fitted), nu)


# --- What is computed ------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("nu", "options"),
    [
        ("1/5", {}),
        ("1/5", {"bandwidth": 0.8}),
        ("1/3", {"kernel": "laplace", "scale": True}),
        ("1/4", {"kernel": RBF(0.5) + Laplace(1.0)}),
        ("1/2", {"center_nu": 1.0}),
        ("1/4", {"center_nu": 0.05, "training_share": 0.3}),
    ],
)
def test_centre_and_radius_are_those_of_the_definition(method, nu, options):
    tables = shops(16)
    fitted = ball(float(Fraction(nu)), method, **options).fit(tables)
    center_nu = options.get("center_nu", float(Fraction(nu)))
    weights, scores = scores_by_reference(fitted, tables, center_nu)
    radius = sorted(scores)[reference.rank(len(scores), nu) - 1]
    np.testing.assert_allclose(fitted.weights_, weights, atol=1e-8)
    np.testing.assert_allclose(fitted.scores_, scores, atol=1e-8)
    assert fitted.radius_ == pytest.approx(radius, abs=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_median_and_scale_are_those_of_the_training_sources(method):
    tables = shops(16)
    fitted = ball(0.25, method, scale=True).fit(tables)
    samples = np.vstack([tables[i] for i in parts(fitted)[0]])
    deviations = samples.std(axis=0)
    np.testing.assert_allclose(fitted.uncertainty_set_.space.coordinates.scale, deviations)
    median = np.median(pdist(samples / deviations))
    assert fitted.uncertainty_set_.bandwidth == pytest.approx(median, rel=1e-12)


def test_half_of_the_sources_train_and_the_odd_one_calibrates():
    assert [ball(0.4).fit(shops(M)).calibration_.sum() for M in (8, 9)] == [4, 5]


def test_leave_one_out_needs_a_training_part_only_where_the_kernel_is_learned():
    def n_training(**options):
        return (~ball(method="leave-one-out", **options).fit(shops(16)).calibration_).sum()

    assert n_training() == 4
    assert n_training(bandwidth=1.0, scale=True) == 4
    assert n_training(bandwidth=1.0) == 0
    assert n_training(kernel=RBF(1.0)) == 0
    assert n_training(bandwidth=1.0, training_share=0.5) == 8


def test_the_split_is_drawn_anew_by_another_seed():
    splits = {tuple(ball(random_state=seed).fit(shops()).calibration_) for seed in range(5)}
    assert len(splits) == 5
    drawn = [ball(0.5, random_state=seed).fit(shops(4)).calibration_ for seed in range(300)]
    # Each of 4 sources is in one half as often as in the other: 300 fair draws, 4 sd.
    assert np.abs(np.mean(drawn, axis=0) - 0.5).max() < 4 * 0.5 / np.sqrt(300)


@pytest.mark.parametrize("m", [*range(1, 60), 99, 100, 199, 1000])
def test_the_rank_is_exact_however_nu_was_reached(m):
    for i in range(1, 100):
        expected = reference.rank(m, Fraction(i, 100))
        tenths = sum([0.01] * i)  # with the errors of i additions
        for nu in (i / 100, 1 - (100 - i) / 100, i * 0.01, tenths):
            assert conformal_rank(m, nu) == expected, (nu, m)


@pytest.mark.parametrize("text", ["0.05", "0.1", "1/7", "0.2", "0.25", "0.3", "1/3", "0.5", "0.9"])
def test_the_smallest_number_of_sources_works_and_one_less_is_an_error_that_names_it(text):
    nu, needed = float(Fraction(text)), reference.smallest_calibration(text)
    cases = [
        (ball(nu), 2 * needed - 1 if needed > 1 else 2),
        (ball(nu, "leave-one-out", bandwidth=1.0), max(needed, 2)),
        (
            ball(nu, training_share=0.2),
            next(M for M in range(2, 99) if M - max(1, M // 5) >= needed),
        ),
        (
            ball(nu, "leave-one-out"),
            next(M for M in range(2, 99) if M - max(1, M // 4) >= needed),
        ),
    ]
    for learner, least in cases:
        assert learner.least_sources == least
        learner.fit(shops(least, 3))
        if least > 1:
            with pytest.raises(ValueError, match=rf"at least {least} sources"):
                learner.fit(shops(least - 1, 3))
            with pytest.raises(ValueError, match=rf"nu={nu:g} needs {needed} calibration"):
                RooDSO(LOSS, uncertainty_set=learner).fit(shops(least - 1, 3))


def test_the_error_says_which_nu_the_sources_allow():
    with pytest.raises(ValueError, match=r"10 of them for calibration, which allow nu >= 0\.0909"):
        ball(0.05).fit(shops(20))
    ball(1 / 11).fit(shops(20))


def test_a_tiny_nu_is_an_error_at_once():
    with pytest.raises(ValueError, match="at least 1999997 sources"):
        ball(1e-6).fit(shops(20))


# --- From the training part only ------------------------------------------------------------


@pytest.mark.parametrize("scale", [False, True])
def test_calibration_sources_change_neither_kernel_nor_centre(scale):
    tables = shops()
    fitted = ball(scale=scale).fit(tables)
    rng = np.random.default_rng(7)
    for i in parts(fitted)[1]:
        tables[i] = rng.normal(5.0, 0.1, (30, 2))
    again = ball(scale=scale).fit(tables)
    assert np.array_equal(fitted.calibration_, again.calibration_)
    assert fitted.uncertainty_set_.kernel == again.uncertainty_set_.kernel
    for name in ("shift", "scale"):
        one, other = (getattr(b.uncertainty_set_.space.coordinates, name) for b in (fitted, again))
        assert np.array_equal(one, other)
    # Up to rounding: how kernel values are summed depends on where tiles end.
    np.testing.assert_allclose(again.weights_, fitted.weights_, rtol=0, atol=1e-12)
    assert again.radius_ > fitted.radius_


def test_leave_one_out_learns_the_kernel_from_its_training_part():
    tables = shops()
    fitted = ball(method="leave-one-out").fit(tables)
    for i in parts(fitted)[1]:
        tables[i] = tables[i] + 2.0
    again = ball(method="leave-one-out").fit(tables)
    assert fitted.uncertainty_set_.kernel == again.uncertainty_set_.kernel
    assert not np.array_equal(fitted.weights_, again.weights_)  # whose centre is that of all


def test_in_roodso_kernel_and_centre_come_from_the_same_part():
    """RooDSO asks one clone of the learner for the kernel and another for the set."""
    tables = shops()
    for seed in (None, 3):
        learner = ConformalBall(random_state=seed)
        model = RooDSO(LOSS, uncertainty_set=learner, random_state=0, n_support=20).fit(tables)
        alone = clone(learner).fit(tables)
        assert model.uncertainty_set_.bandwidth == alone.uncertainty_set_.bandwidth
        assert np.array_equal(model.set_learner_.calibration_, alone.calibration_)
        assert (model.uncertainty_set_.weights[alone.calibration_] == 0).all()
        samples = np.vstack([tables[i] for i in parts(alone)[0]])
        assert model.uncertainty_set_.bandwidth == pytest.approx(np.median(pdist(samples)))


def test_a_generator_that_moves_on_cannot_draw_the_split():
    with pytest.raises(TypeError, match="Generator moves on"):
        ball(random_state=np.random.default_rng(0)).fit(shops())


@pytest.mark.parametrize("method", METHODS)
def test_herded_samples_move_the_centre_but_not_what_is_promised(method):
    """With gram="herded" the scores are still distances of the sources as they are."""
    tables = shops(size=(20, 30))
    learner = ball(method=method, bandwidth=1.0)
    model = RooDSO(
        LOSS, uncertainty_set=learner, gram="herded", n_herding=3, random_state=0, n_support=20
    ).fit(tables)
    plain = clone(learner).fit(tables)
    assert not np.allclose(model.uncertainty_set_.weights, plain.weights_, atol=1e-3)
    K = reference.gram(("rbf", 1.0), tables)
    eye = np.eye(len(K))
    found = [reference.distance(K, eye[i], model.uncertainty_set_.weights) for i in range(len(K))]
    np.testing.assert_allclose(model.set_learner_.distances_, found, atol=1e-9)
    if method == "split":
        scores = np.array(found)[model.set_learner_.calibration_]
        np.testing.assert_allclose(model.set_learner_.scores_, scores, atol=1e-9)


# --- Invariance ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [(8, 12), 250])
def test_the_order_of_rows_does_not_matter(method, size):
    """Also where the order of first appearance changes, and where the median is subsampled."""
    tables = shops(20, size)
    X, groups = (
        np.vstack(tables),
        np.repeat([f"shop {i}" for i in range(20)], list(map(len, tables))),
    )
    order = np.random.default_rng(1).permutation(len(X))
    first, second = (ball(method=method).fit(X[o], groups=groups[o]) for o in (slice(None), order))
    assert first.labels_ != second.labels_
    assert first.uncertainty_set_.kernel == second.uncertainty_set_.kernel
    assert first.radius_ == pytest.approx(second.radius_, rel=1e-9)

    def by_label(fitted, values):
        return dict(zip(fitted.labels_, values, strict=True))

    assert by_label(first, first.calibration_) == by_label(second, second.calibration_)
    one, two = by_label(first, first.weights_), by_label(second, second.weights_)
    assert all(one[label] == pytest.approx(two[label], abs=1e-8) for label in one)


def test_the_same_seed_gives_the_same_ball_bit_for_bit_with_any_number_of_threads():
    one, two = (ball(n_jobs=jobs).fit(shops(30, (50, 80))) for jobs in (1, 2))
    assert one.radius_ == two.radius_
    assert np.array_equal(one.weights_, two.weights_)


def test_labels_of_any_kind_can_be_split():
    labels = [0, 1.5, "a", (1, 2), pd.Timestamp("2024-01-01"), "0", 10, -3]
    fitted = ball(0.4).fit(dict(zip(labels, shops(8), strict=True)))
    assert fitted.labels_ == tuple(labels)
    assert fitted.calibration_.sum() == 4


# --- The promise ------------------------------------------------------------------------------


def trial(rng, learner, n_sources, size, target):
    """Whether a ball learned from fresh sources holds a fresh target."""
    fitted = learner.fit(make_newsvendor_sources(n_sources, size, random_state=rng))
    return bool(fitted.predict([target(rng)])[0] == 1)


def alike(size):
    return lambda rng: make_newsvendor_sources(1, size, random_state=rng)[0]


def covered(learner, n_sources, size, target, repetitions, seed=0):
    return sum(
        trial(
            np.random.default_rng([seed, r]),
            learner.set_params(random_state=r),
            n_sources,
            size,
            target,
        )
        for r in range(repetitions)
    )


def too_few(count, repetitions, promise):
    """Whether so few successes would be a 1 in 1,000 event if the promise held."""
    return binom.cdf(count, repetitions, promise) < 1e-3


def too_many(count, repetitions, at_most):
    return binom.sf(count - 1, repetitions, at_most) < 1e-3


@pytest.mark.parametrize(
    ("nu", "n_sources", "rank", "m"), [(0.2, 10, 5, 5), (0.3, 7, 4, 4), (0.1, 20, 10, 10)]
)
def test_the_split_covers_with_exactly_the_probability_that_is_proved(nu, n_sources, rank, m):
    """Scores do not tie here, so coverage is k / (m + 1): neither less nor more."""
    learner = ball(nu)
    count = covered(learner, n_sources, (10, 30), alike((10, 30)), 500)
    assert learner.promise_ == pytest.approx(rank / (m + 1))
    assert not too_few(count, 500, learner.promise_)
    assert not too_many(count, 500, learner.promise_)


@pytest.mark.parametrize(
    ("nu", "n_sources", "promise"),
    [(0.2, 12, 1 - 1 * 3 / 13), (1 / 13, 12, 12 / 13), (0.4, 6, 1 - 3 / 7)],
)
def test_leave_one_out_covers_with_the_probability_that_is_proved(nu, n_sources, promise):
    learner = ball(nu, "leave-one-out", bandwidth=0.9)
    count = covered(learner, n_sources, (10, 30), alike((10, 30)), 300)
    assert learner.promise_ == pytest.approx(promise)
    assert learner.promise_ >= 1 - 2 * nu
    assert not too_few(count, 300, learner.promise_)


def test_leave_one_out_with_a_learned_kernel_covers_with_the_probability_that_is_proved():
    learner = ball(0.25, "leave-one-out")
    count = covered(learner, 12, (10, 30), alike((10, 30)), 300)
    assert learner.promise_ == pytest.approx(1 - 3 / 10)  # m = 9, k = 8
    assert not too_few(count, 300, learner.promise_)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("nu", [0.05, 0.1, 0.15, 0.3, 0.45])
def test_the_promise_is_never_less_than_its_short_form(method, nu):
    for M in (*range(2, 13), 19, 20, 21, 39):
        learner = ball(nu, method, bandwidth=1.0)
        try:
            learner.fit([np.array([[float(i)]]) for i in range(M)])
        except ValueError:
            continue
        asked = 1 - nu if method == "split" else 1 - 2 * nu
        assert learner.promise_ >= asked - 1e-12


def test_the_tournament_bound_on_players_who_beat_k_others_is_tight():
    """Of 2 (m - k) + 1 players in a circle, each beating the next m - k and all outsiders, each
    beats k; and no tournament, of all on five players, has more such players."""
    n = 5  # m + 1 players
    pairs = [(i, j) for i in range(n) for j in range(i)]
    for k in range(1, n):
        most = 0
        for outcome in range(2 ** len(pairs)):
            wins = np.zeros(n, dtype=int)
            for bit, pair in enumerate(pairs):
                wins[pair[outcome >> bit & 1]] += 1
            most = max(most, int((wins >= k).sum()))
        assert most == min(2 * (n - 1 - k) + 1, n)


def test_the_papers_ball_does_not_cover_what_it_asks_for_at_small_m():
    paper = SupportMeasureBall(0.1, n_jobs=1)
    count = covered(paper, 10, (10, 30), alike((10, 30)), 100)
    assert too_few(count, 100, 0.9)


# --- Where the premise fails ------------------------------------------------------------------


def near_twins(n_sources, size, rng):
    """Sources that differ less than their sampling errors do."""
    return [
        rng.normal(rng.uniform(-0.1, 0.1, 2), 1.0, (int(n), 2))
        for n in rng.integers(size[0], size[1], n_sources, endpoint=True)
    ]


def covered_twins(learner, sizes, target_size, repetitions):
    count = 0
    for r in range(repetitions):
        rng = np.random.default_rng([5, r])
        fitted = learner.set_params(random_state=r).fit(near_twins(20, sizes, rng))
        count += int(fitted.predict(near_twins(1, (target_size, target_size), rng))[0] == 1)
    return count


def test_a_target_with_far_fewer_samples_is_not_covered_as_promised():
    """Sources of 200 to 300 samples, one of 8: its sampling error alone takes it outside."""
    learner = ball(0.2, bandwidth=1.5)
    assert covered_twins(learner, (200, 300), 8, 60) < 10
    assert not too_few(covered_twins(learner, (200, 300), 250, 60), 60, learner.promise_)


def test_a_target_from_elsewhere_is_not_covered_as_promised():
    count = covered(ball(0.2), 20, (20, 20), lambda rng: alike(20)(rng) + 1.5, 60)
    assert too_few(count, 60, 0.8)


def test_a_target_of_another_size_is_warned_of_with_an_estimate_of_what_is_left():
    tables = near_twins(20, (200, 300), np.random.default_rng(0))
    with pytest.warns(SampleSizeWarning, match=r"roughly (\d+)% of them") as caught:
        ball(bandwidth=1.5, target_size=8).fit(tables)
    share = int(str(caught[0].message).split("roughly ")[1].split("%")[0])
    assert share <= 20  # it was 8 to 17% over 60 targets, in the test above
    with pytest.warns(SampleSizeWarning, match="200 to 300"):
        ball(target_size=601).fit([*tables[:18], tables[18][:200], np.zeros((300, 2))])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in (min(map(len, tables)), 150, 500):
            ball(target_size=size).fit(tables)
        ball(target_size=8, sampling_error=0.1).fit(tables)


def test_distances_expected_at_another_size_are_the_mean_of_thinned_sources():
    kernel, tables = ("rbf", 1.5), near_twins(4, (4, 6), np.random.default_rng(2))
    K, eye, weights = reference.gram(kernel, tables), np.eye(4), np.array([0, 0, 0.5, 0.5])
    squared = np.array([reference.distance(K, row, weights) ** 2 for row in eye])
    sizes = np.array(list(map(len, tables)))
    found = expected_squared_distances(squared, np.diag(K), sizes, 2, 1.0)
    rng = np.random.default_rng(3)
    for i in (0, 1):
        k = kernel_matrix(kernel, tables[i], tables[i])
        at_center = (
            kernel_matrix(kernel, tables[i], tables[2]).mean(axis=1)
            + kernel_matrix(kernel, tables[i], tables[3]).mean(axis=1)
        ) / 2
        draws = [rng.choice(sizes[i], 2, replace=False) for _ in range(4000)]
        thinned = [
            k[np.ix_(rows, rows)].mean() - 2 * at_center[rows].mean() + weights @ K @ weights
            for rows in draws
        ]
        error = np.std(thinned) / np.sqrt(len(thinned))
        assert np.mean(thinned) == pytest.approx(found[i], abs=4 * error)


# --- The distribution itself ------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_sampling_errors_are_added_source_by_source(method):
    tables = shops(20, (5, 400))
    delta = 0.1
    plain = ball(method=method, kernel=RBF(1.0) + Laplace(1.0)).fit(tables)
    wide = ball(method=method, kernel=RBF(1.0) + Laplace(1.0), sampling_error=delta).fit(tables)
    C = 2.0
    errors = [
        np.sqrt(C / len(tables[i])) + np.sqrt(2 * C * np.log(1 / delta) / len(tables[i]))
        for i in parts(wide)[1]
    ]
    scores = np.sort(plain.scores_ + errors)
    assert wide.radius_ == pytest.approx(scores[conformal_rank(len(scores), 0.2) - 1])
    assert wide.uncertainty_set_.radius_without_gamma == pytest.approx(plain.radius_)
    assert wide.promise_ == pytest.approx(plain.promise_ - delta)
    assert np.array_equal(wide.weights_, plain.weights_)


def test_sources_of_one_size_are_enlarged_by_the_bound_itself():
    tables = shops(20, 25)
    plain, wide = ball().fit(tables), ball(sampling_error=0.05).fit(tables)
    enlargement = sampling_error_bound(25, 0.05)
    assert wide.radius_ == pytest.approx(plain.radius_ + enlargement)


@pytest.mark.parametrize("n", [1, 5, 40])
@pytest.mark.parametrize("delta", [0.3, 0.05])
def test_the_bound_on_the_sampling_error_holds(n, delta):
    rng = np.random.default_rng(0)
    sigma, repetitions, exceeded = 0.5, 400, 0
    for _ in range(repetitions):
        table = rng.standard_normal((n, 2))
        error = reference.gaussian_distance([table], [1.0], sigma, np.zeros(2), np.eye(2))
        exceeded += error > sampling_error_bound(n, delta)
    assert not too_many(exceeded, repetitions, delta)


def gaussian_trial(learner, seed):
    """Whether the target's own distribution is in the set; the target has no samples at all."""
    rng = np.random.default_rng([9, seed])

    def law():
        return rng.uniform(-1, 1, 2), np.diag(rng.uniform(0.02, 0.3, 2))

    laws = [law() for _ in range(21)]
    sizes = rng.choice([5, 100], 20)
    tables = [
        rng.multivariate_normal(*parameters, size=size)
        for parameters, size in zip(laws[:20], sizes, strict=True)
    ]
    fitted = learner.set_params(random_state=seed).fit(tables)
    distance = reference.gaussian_distance(tables, fitted.weights_, 0.5, *laws[20])
    return distance <= fitted.radius_


@pytest.mark.parametrize("method", METHODS)
def test_with_the_sampling_error_the_distribution_itself_is_covered(method):
    learner = ball(0.3, method, bandwidth=0.5, sampling_error=0.1)
    count = sum(gaussian_trial(learner, seed) for seed in range(100))
    assert not too_few(count, 100, learner.promise_)


# --- In the library ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "learner",
    [
        ball(),
        ball(method="leave-one-out"),
        ball(method="leave-one-out", bandwidth=0.8, kernel="laplace"),
        ball(scale=True, sampling_error=0.1),
    ],
    ids=["split", "leave-one-out", "fixed kernel", "enlarged"],
)
def test_roodso_certifies_its_decision_over_the_set(learner):
    tables = shops(12)
    model = RooDSO(LOSS, uncertainty_set=learner, n_support=20, random_state=0, n_jobs=1)
    model.fit(tables)
    assert model.solution_.gap < 1e-6
    instance = Instance(0, "newsvendor", "rbf", 0.2, tables, LOSS)
    assert check(instance.claim(model)) == []
    assert instance.optimum(model) == pytest.approx(model.objective_, rel=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_a_path_over_nu_gives_what_single_fits_give(method):
    tables, nus = shops(), [0.15, 0.3, 0.4]
    model = RooDSO(LOSS, uncertainty_set=ball(0.2, method), n_support=20, random_state=0)
    for nu, along in zip(nus, model.path(tables, nus), strict=True):
        single = clone(model).set_params(uncertainty_set__nu=nu).fit(tables)
        assert along.uncertainty_set.nu == nu
        assert along.uncertainty_set_.radius == single.uncertainty_set_.radius
        assert along.objective_ == pytest.approx(single.objective_, rel=2e-6)


@pytest.mark.parametrize("method", METHODS)
def test_the_set_contains_what_predict_says(method):
    fitted = ball(method=method).fit(shops())
    fresh = shops(30, seed=8)
    inside = [fitted.uncertainty_set_.contains(table) for table in fresh]
    assert fitted.predict(fresh).tolist() == [1 if yes else -1 for yes in inside]
    assert 0 < sum(inside) < 30
    assert (fitted.decision_function(fresh) >= 0).tolist() == inside


@pytest.mark.parametrize("method", METHODS)
def test_a_calibration_source_on_the_sphere_is_inside(method):
    tables = shops()
    fitted = ball(method=method).fit(tables)
    told = fitted.fit_predict(tables)
    rank = conformal_rank(fitted.calibration_.sum(), 0.2)
    assert (told[fitted.calibration_] == 1).sum() >= rank
    assert np.array_equal(fitted.predict(tables), told)


def test_frames_and_groups_are_taken_as_by_the_papers_ball():
    tables = [pd.DataFrame(table, columns=["loaves", "rolls"]) for table in shops(10)]
    stacked = pd.concat(tables)
    groups = np.repeat(list("abcdefghij"), list(map(len, tables)))
    fitted = ball(0.3).fit(stacked, groups=groups)
    assert fitted.labels_ == tuple("abcdefghij")
    assert fitted.feature_names_in_.tolist() == ["loaves", "rolls"]
    assert fitted.predict([tables[0][["rolls", "loaves"]]]) == fitted.predict([tables[0]])


def same(one, other):
    assert one.get_params() == other.get_params()
    names = {name for name in vars(one) if name.endswith("_") and name != "uncertainty_set_"}
    assert names == {name for name in vars(other) if name.endswith("_")} - {"uncertainty_set_"}
    for name in names:
        assert np.array_equal(getattr(one, name), getattr(other, name)), name
    fresh = shops(5, seed=8)
    assert np.array_equal(one.distance(fresh), other.distance(fresh))


@pytest.mark.parametrize("method", METHODS)
def test_clones_and_pickles_are_the_same_ball(method):
    tables = shops()
    fitted = ball(0.3, method, sampling_error=0.1, target_size=10).fit(tables)
    same(fitted, pickle.loads(pickle.dumps(fitted)))
    same(fitted, clone(fitted).fit(tables))


@pytest.mark.parametrize("method", METHODS)
def test_a_model_with_the_ball_comes_back_from_a_portable_file(method, tmp_path):
    learner = ball(0.3, method, training_share=0.4)
    model = RooDSO(LOSS, uncertainty_set=learner, n_support=10, random_state=0).fit(shops())
    model.save(tmp_path / "model.roodso")
    loaded = roodso.load(tmp_path / "model.roodso")
    same(model.set_learner_, loaded.set_learner_)
    assert loaded.uncertainty_set.get_params() == learner.get_params()
    assert np.array_equal(loaded.decision_, model.decision_)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"nu": 0.0}, ValueError, "nu must be"),
        ({"nu": 1.0}, ValueError, "nu must be"),
        ({"nu": "0.1"}, TypeError, "nu must be"),
        ({"method": "loo"}, ValueError, "method must be one of 'split', 'leave-one-out'"),
        ({"training_share": 1.0}, ValueError, "training_share must be"),
        ({"center_nu": 0.0}, ValueError, "center_nu must be"),
        ({"sampling_error": 0.0}, ValueError, "sampling_error must be"),
        ({"sampling_error": 1}, ValueError, "sampling_error must be"),
        ({"target_size": 0}, ValueError, "target_size must be"),
        ({"target_size": 2.5}, TypeError, "target_size must be"),
        ({"random_state": -1}, (TypeError, ValueError), "random_state must be"),
        ({"bandwidth": -1.0}, ValueError, "bandwidth must be"),
        ({"kernel": "linear"}, ValueError, "kernel must be"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be"),
    ],
)
def test_bad_parameters_are_named_before_any_work(options, error, message):
    learner = ConformalBall(**options)
    with pytest.raises(error, match=message):
        learner.fit(shops())
    with pytest.raises(error, match=message):
        RooDSO(LOSS, uncertainty_set=learner).fit(shops())


def test_identical_sources_give_a_set_that_holds_them():
    table = shops(1)[0]
    for method in METHODS:
        fitted = ball(method=method).fit([table] * 12)
        assert fitted.radius_ < 1e-6
        assert fitted.predict([table]).tolist() == [1]


def test_the_statement_says_what_is_proved_and_of_what():
    plain, wide = ball(nu=0.3).fit(shops()), ball(nu=0.3, sampling_error=0.1).fit(shops())
    assert f"{plain.promise_:.3g}" in plain.statement()
    assert "empirical distribution" in plain.statement()
    assert "(8 to 12)" in plain.statement()
    assert f"{wide.promise_:.3g}" in wide.statement()
    assert "empirical" not in wide.statement()
    assert "8 to 12" not in wide.statement()


def test_a_set_that_holds_everything_says_so():
    assert "no news" not in ball().fit(shops()).statement()
    everything = ball(sampling_error=1e-9).fit(shops(20, 2))
    assert "contains every distribution: this is no news" in everything.statement()
    assert everything.predict([np.full((1, 2), 1e6)])[0] == 1


# --- Long forms -------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("nu", "n_sources"), [(0.05, 37), (0.1, 18), (0.2, 50), (0.3, 10)])
def test_long_the_split_covers_with_exactly_the_probability_that_is_proved(nu, n_sources):
    learner = ball(nu)
    count = covered(learner, n_sources, (10, 60), alike((10, 60)), 3000, seed=1)
    assert not too_few(count, 3000, learner.promise_)
    assert not too_many(count, 3000, learner.promise_)


@pytest.mark.slow
@pytest.mark.parametrize("bandwidth", ["median", 0.9])
@pytest.mark.parametrize(("nu", "n_sources"), [(0.1, 14), (0.2, 30), (0.4, 8)])
def test_long_leave_one_out_covers_with_the_probability_that_is_proved(nu, n_sources, bandwidth):
    learner = ball(nu, "leave-one-out", bandwidth=bandwidth)
    count = covered(learner, n_sources, (10, 60), alike((10, 60)), 1500, seed=1)
    assert not too_few(count, 1500, learner.promise_)
