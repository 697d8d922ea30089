"""Options for data with heavy tails: clipping, robust scale, quantile box, wider bandwidths."""

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import pdist
from scipy.stats import binom, norm

import roodso
from reference import programme as reference
from reference.kernels import describe
from roodso import SAA, RooDSO
from roodso.datasets import load_bakery, make_heavy_tailed_sources
from roodso.embedding import Coordinates
from roodso.experiments.defaults import CONTENDERS
from roodso.experiments.defaults_report import PRESET
from roodso.losses import Newsvendor
from roodso.model_selection import compare, select
from roodso.sets import ConformalBall, SupportMeasureBall, ThickenedHull
from roodso.support import check_box

LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
SHOPS = make_heavy_tailed_sources(6, (20, 40), random_state=1)
ALL = np.vstack(SHOPS)
TERMS = ("price", "cost", "holding", "backorder")


def small(**parameters):
    return RooDSO(**({"loss": LOSS, "n_support": 20, "random_state": 0, "n_jobs": 1} | parameters))


def clipped_by_hand(tables, low, high):
    """Every table at quantiles of all rows, column by column, by sorting."""
    rows = np.sort(np.vstack(tables), axis=0)
    fences = []
    for level in (low, high):
        place = level * (len(rows) - 1)
        below, share = int(np.floor(place)), place - np.floor(place)
        above = min(below + 1, len(rows) - 1)
        fences.append((1 - share) * rows[below] + share * rows[above])
    lower, upper = fences
    return [np.minimum(np.maximum(t, lower), upper) for t in tables], lower, upper


# Scale ----------------------------------------------------------------------------------------


def test_robust_scale_is_that_of_the_gaussian_with_the_same_middle_half():
    rng = np.random.default_rng(0)
    samples = rng.normal(size=(4001, 2)) * [3.0, 0.1]
    low, high = (np.sort(samples, axis=0)[i] for i in (1000, 3000))
    scale = Coordinates.from_samples(samples, scale="robust").scale
    assert scale == pytest.approx((high - low) / (norm.ppf(0.75) - norm.ppf(0.25)), rel=1e-12)
    assert scale == pytest.approx([3.0, 0.1], rel=0.1)


def test_outliers_hardly_change_the_robust_scale_and_blow_up_the_other():
    samples = np.random.default_rng(0).normal(size=(500, 1))
    spiked = np.vstack([samples, np.full((5, 1), 1e4)])
    for scale, factor in (("robust", 1.05), (True, 900.0)):
        plain, wild = (Coordinates.from_samples(x, scale=scale).scale[0] for x in (samples, spiked))
        assert (wild < factor * plain) == (scale == "robust")


def test_a_column_that_is_mostly_one_value_is_scaled_by_its_deviation():
    mostly = np.concatenate([np.zeros(80), np.arange(1.0, 21.0)])
    samples = np.column_stack([mostly, np.full(100, 7.0), np.arange(100.0)])
    robust = Coordinates.from_samples(samples, scale="robust").scale
    assert robust[:2] == pytest.approx([mostly.std(), 1.0])
    assert robust[2] == pytest.approx(49.5 / 1.3489795)


def test_with_robust_scale_units_do_not_matter():
    units = np.array([1e4, 1e-3])
    one = small(scale="robust", nu=0.5).fit(SHOPS)
    terms = {
        name: np.array(value) / units for name, value in LOSS.get_params().items() if name in TERMS
    }
    other = small(loss=Newsvendor(**terms), scale="robust", nu=0.5)
    other.fit([shop * units for shop in SHOPS])
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-6)
    assert other.uncertainty_set_.bandwidth == pytest.approx(one.uncertainty_set_.bandwidth)


# Bandwidth ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "factor"),
    [("median", 1), ("3*median", 3), ("0.25 * median", 0.25), ("1e1*median", 10)],
)
def test_multiples_of_the_median(text, factor):
    ball = SupportMeasureBall(bandwidth=text).fit(SHOPS)
    assert ball.uncertainty_set_.bandwidth == pytest.approx(factor * np.median(pdist(ALL)))


# Box ------------------------------------------------------------------------------------------


def test_a_share_is_short_for_quantiles():
    _, lower, upper = clipped_by_hand(SHOPS, 0.1, 0.9)
    found = check_box(0.1, ALL)
    np.testing.assert_allclose(found, (lower, upper), rtol=1e-12)
    by_share, by_box = small(support_box=0.1).fit(SHOPS), small(support_box=found).fit(SHOPS)
    np.testing.assert_array_equal(by_share.solution_.support, by_box.solution_.support)
    assert by_share.objective_ == by_box.objective_
    drawn = by_share.solution_.support[len(ALL) :]
    assert (drawn >= lower).all()
    assert (drawn <= upper).all()


# Clipping: the same as clipping the data first ------------------------------------------------


@pytest.mark.parametrize(("clip", "levels"), [(0.1, (0.1, 0.9)), ((0.0, 0.8), (0.0, 0.8))])
@pytest.mark.parametrize("scale", [False, True, "robust"])
def test_a_clipped_fit_is_the_fit_to_clipped_data(clip, levels, scale):
    tables, lower, upper = clipped_by_hand(SHOPS, *levels)
    # At a nu where the ball binds: else the objective is that of the support points alone.
    clipped = small(clip=clip, scale=scale, nu=0.95).fit(SHOPS)
    plain = small(scale=scale, nu=0.95).fit(tables)
    one, other = clipped.uncertainty_set_, plain.uncertainty_set_
    assert one.radius == pytest.approx(other.radius, rel=1e-9)
    assert one.bandwidth == pytest.approx(other.bandwidth, rel=1e-9)
    np.testing.assert_allclose(one.space.coordinates.scale, other.space.coordinates.scale)
    np.testing.assert_allclose(clipped.decision_, plain.decision_, rtol=1e-5)
    assert clipped.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    assert clipped.solution_.gap < 1e-6
    np.testing.assert_allclose(clipped.solution_.support, plain.solution_.support, rtol=1e-12)
    report = clipped.clipped_
    np.testing.assert_allclose(report["lower"], lower, rtol=1e-12)
    np.testing.assert_allclose(report["upper"], upper, rtol=1e-12)
    np.testing.assert_array_equal(report["below"], (lower > ALL).sum(axis=0))
    np.testing.assert_array_equal(report["above"], (upper < ALL).sum(axis=0))
    assert report["above"].sum() > 0


def test_the_clipped_programme_agrees_with_the_full_formulation():
    model = small(clip=0.1, nu=0.6, n_support=5).fit(SHOPS)
    ball, support = model.uncertainty_set_, model.solution_.support
    tables, *_ = clipped_by_hand(SHOPS, 0.1, 0.9)
    arguments = (support, tables, ball.weights, ball.radius, describe(ball.kernel))
    worst = reference.worst_distribution(
        model._problem.values(model.solution_.decision, support), *arguments
    )
    assert worst == pytest.approx(model.objective_, rel=1e-5)


def test_without_clipping_nothing_is_reported():
    report = small().fit(SHOPS).clipped_
    assert np.isinf(report[["lower", "upper"]]).all(axis=None)
    assert (report[["below", "above"]] == 0).all(axis=None)
    frames = [pd.DataFrame(shop, columns=["loaves", "rolls"]) for shop in SHOPS]
    assert small(clip=0.1).fit(frames).clipped_.index.tolist() == ["loaves", "rolls"]


def test_new_samples_are_clipped_by_the_set_and_not_by_the_score():
    model = small(clip=0.1).fit(SHOPS)
    ball = model.uncertainty_set_
    fences = model.clipped_[["lower", "upper"]].to_numpy().T
    wild = np.vstack([SHOPS[0], [[1e3, 1e3], [-1e3, 0.0]]])
    assert ball.distance(wild) == pytest.approx(ball.distance(np.clip(wild, *fences)), rel=1e-12)
    over, under = np.maximum(model.decision_ - wild, 0), np.maximum(wild - model.decision_, 0)
    cost = -np.minimum(model.decision_, wild) @ [50, 40] + model.decision_ @ [20, 15]
    cost = cost + over @ [5, 3] + under @ [10, 8]
    assert -model.score(wild) == pytest.approx(cost.mean())


def test_a_box_of_the_users_is_kept_between_the_fences():
    model = small(clip=0.1, support_box=([-50.0, 2.0], [50.0, 2.5])).fit(SHOPS)
    fences = model.clipped_[["lower", "upper"]].to_numpy().T
    support = model.solution_.support
    assert (support >= fences[0]).all()
    assert (support <= fences[1]).all()
    drawn = support[len(ALL) :]
    assert drawn[:, 1].min() >= 2.0
    assert drawn[:, 1].max() <= 2.5
    assert np.ptp(drawn[:, 0]) > 0.8 * (fences[1, 0] - fences[0, 0])


@pytest.mark.parametrize("how", ["search", "prove"])
def test_the_worst_case_over_the_box_is_one_between_the_fences(how):
    loss = Newsvendor(price=50, cost=20, holding=5, backorder=10)
    shops = [shop[:12, :1] for shop in SHOPS]
    model = RooDSO(loss, clip=0.1, nu=0.5, n_support=3, continuous=how, random_state=0).fit(shops)
    box = model.solution_.box
    tables, lower, upper = clipped_by_hand(shops, 0.1, 0.9)
    np.testing.assert_allclose([box.lower, box.upper], [lower, upper], rtol=1e-12)
    ball = model.uncertainty_set_
    every = np.vstack([model.solution_.support, np.linspace(lower, upper, 200)])
    worst = reference.worst_distribution(
        model._problem.values(model.solution_.decision, every),
        every,
        tables,
        ball.weights,
        ball.radius,
        describe(ball.kernel),
    )
    assert worst <= model.objective_ + 1e-5 * abs(model.objective_)
    assert box.proved == (how == "prove")


def test_a_path_and_any_decision_share_the_clipping():
    for model in small(clip=0.1).path(SHOPS, [0.3, 0.8]):
        alone = small(clip=0.1, nu=model.nu).fit(SHOPS)
        assert model.objective_ == pytest.approx(alone.objective_, rel=1e-6)
        pd.testing.assert_frame_equal(model.clipped_, alone.clipped_)
    worst = alone.worst_case_cost(alone.decision_)
    assert worst.upper_bound == pytest.approx(alone.objective_, rel=1e-5)


def test_a_clipped_model_comes_back_from_a_file(tmp_path):
    model = small(clip=(0.05, 0.9), scale="robust", bandwidth="2*median").fit(SHOPS)
    model.save(tmp_path / "model")
    loaded = roodso.load(tmp_path / "model")
    pd.testing.assert_frame_equal(loaded.clipped_, model.clipped_)
    assert loaded.objective_ == model.objective_
    wild = SHOPS[0] * 5
    assert loaded.uncertainty_set_.distance(wild) == model.uncertainty_set_.distance(wild)
    assert loaded.get_params()["bandwidth"] == "2*median"


# On held-out sources --------------------------------------------------------------------------


def test_select_clips_what_it_learns_from_and_judges_on_data_as_they_are():
    tables = dict(enumerate(SHOPS))
    model = small(clip=0.1, tol=1e-8)
    found = select(model, {"nu": [0.3, 0.8]}, tables, refit_kernel=True)
    for row in found.costs_.itertuples():
        others = {name: table for name, table in tables.items() if name != row.source}
        fresh = small(clip=0.1, tol=1e-8, nu=[0.3, 0.8][row.candidate]).fit(others)
        assert row.objective == pytest.approx(fresh.objective_, rel=1e-6)
        assert row.cost == pytest.approx(-fresh.score(tables[row.source]), rel=1e-4)


def test_without_refitting_fences_are_those_of_all_sources():
    tables = dict(enumerate(SHOPS))
    clipped, lower, upper = clipped_by_hand(SHOPS, 0.1, 0.9)
    whole = small(clip=0.1).fit(tables)
    found = select(small(clip=0.1, tol=1e-8), {"nu": [0.3]}, tables)
    fixed = {
        "bandwidth": whole.uncertainty_set_.bandwidth,
        "support_box": (lower, upper),
    }
    for row in found.costs_.itertuples():
        others = {i: clipped[i] for i in tables if i != row.source}
        fresh = small(nu=0.3, tol=1e-8, **fixed).fit(others)
        assert row.objective == pytest.approx(fresh.objective_, rel=1e-6)
        assert row.cost == pytest.approx(-fresh.score(tables[row.source]), rel=1e-4)
    levels = select(small(), {"clip": [None, 0.1], "scale": [False, "robust"]}, tables)
    assert len(set(levels.cv_results_["objective"])) == 4


# With a promise -------------------------------------------------------------------------------


def test_conformal_fences_come_from_the_training_part():
    learner = ConformalBall(nu=0.3, clip=0.1, random_state=0, n_jobs=1)
    shops = make_heavy_tailed_sources(10, (20, 40), random_state=2)
    model = small(uncertainty_set=learner).fit(shops)
    training = [
        shop for shop, out in zip(shops, model.set_learner_.calibration_, strict=True) if not out
    ]
    _, lower, upper = clipped_by_hand(training, 0.1, 0.9)
    np.testing.assert_allclose(model.clipped_["lower"], lower, rtol=1e-12)
    np.testing.assert_allclose(model.clipped_["upper"], upper, rtol=1e-12)
    support = model.solution_.support
    assert (support >= lower - 1e-12).all()
    assert (support <= upper + 1e-12).all()


def test_fences_are_learned_so_leave_one_out_needs_a_training_part():
    for options, expected in (({}, 0), ({"clip": 0.1}, 2)):
        ball = ConformalBall(0.3, method="leave-one-out", bandwidth=1.0, n_jobs=1, **options)
        ball.fit(make_heavy_tailed_sources(10, 10, random_state=0))
        assert (~ball.calibration_).sum() == expected


def test_with_clipping_the_split_covers_with_exactly_the_probability_that_is_proved():
    inside = 0
    for repetition in range(400):
        rng = np.random.default_rng([7, repetition])
        *shops, fresh = make_heavy_tailed_sources(11, (10, 30), random_state=rng)
        ball = ConformalBall(0.2, clip=0.1, scale="robust", random_state=repetition, n_jobs=1)
        inside += int(ball.fit(shops).predict([fresh])[0] == 1)
    promise = ball.promise_  # 5 of 6; scores do not tie
    assert binom.cdf(inside, 400, promise) > 1e-3
    assert binom.sf(inside - 1, 400, promise) > 1e-3


def test_guarantees_say_what_is_clipped():
    model = small(clip=0.1, bandwidth=1.0).fit(SHOPS)
    assert "clipped distributions" in " ".join(roodso.guarantees.summary(model).caveats)


# The preset -----------------------------------------------------------------------------------


def test_the_preset_is_the_setting_that_was_studied_and_gives_way():
    model, grid = CONTENDERS[PRESET[0]](LOSS)
    studied = model.set_params(nu=0.95, n_jobs=None).get_params()
    assert PRESET[1] == "nu=0.95"
    assert 0.95 in grid["nu"]
    assert RooDSO.for_heavy_tails(LOSS, random_state=0).get_params() == studied
    own = RooDSO.for_heavy_tails(LOSS, nu=0.5, clip=0.1)
    assert (own.nu, own.clip, own.scale) == (0.5, 0.1, "robust")
    assert RooDSO(LOSS).get_params()["scale"] is False  # the paper's setting is untouched
    assert RooDSO(LOSS).nu == 0.2


def test_on_the_bakery_compare_says_that_saa_is_best_in_the_mean():
    """Every twelfth week of each store; the ball as the paper has it."""
    bakery = load_bakery()
    loss = Newsvendor(price=[3.0] * 3, cost=[1.0] * 3, holding=[0.2] * 3, backorder=[0.5] * 3)
    methods = {
        "ball": RooDSO(loss, random_state=0, n_jobs=1),
        "preset": RooDSO.for_heavy_tails(loss, random_state=0, n_jobs=1),
        "SAA": SAA(loss),
    }
    found = compare(methods, bakery.data[::12], bakery.groups[::12])
    assert found.verdict().startswith("SAA has the lowest mean cost over the 35 sources")
    summary = found.summary()
    assert summary.index.tolist() == ["SAA", "preset", "ball"]
    assert summary.loc["preset", "worst"] < summary.loc["SAA", "worst"]


def test_the_preset_refuses_a_set_that_it_does_not_shape():
    with pytest.raises(ValueError, match="uncertainty_set must be None for for_heavy_tails"):
        RooDSO.for_heavy_tails(LOSS, uncertainty_set=ThickenedHull(0.1))
