"""Thickened hulls: their corners are other methods, and what they claim is checked independently.

Optima come from the full formulation through cvxpy (`reference.programme.hull_programme`), proofs
are confirmed by the checker, distances to hulls come from `reference.hull`.
"""

import math
import warnings
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from sklearn.base import clone

import roodso
from instances import LOSSES, draw
from reference import formulas, hull
from reference.checker import check
from roodso import SAA, ConvexHullDRO, RooDSO
from roodso.datasets import make_newsvendor_sources
from roodso.exceptions import SampleSizeWarning
from roodso.kernels import RBF
from roodso.losses import CVaRPortfolio, Newsvendor
from roodso.model_selection import compare, paper_grid, select
from roodso.sets import FixedBall, SupportMeasureBall, ThickenedHull

TERMS = {"price": [50, 40], "cost": [20, 15], "holding": [5, 3], "backorder": [10, 8]}
LOSS = Newsvendor(**TERMS)
SHOPS = make_newsvendor_sources(7, (10, 30), random_state=3)
EVEN = make_newsvendor_sources(6, 20, random_state=4)
RETURNS = [0.01 * table - 0.02 for table in SHOPS]


def solved(learner, shops=SHOPS, loss=LOSS, **changes):
    """RooD-SO over a set; settings alike for all."""
    parameters = {"n_support": 30, "random_state": 0, "tol": 1e-8} | changes
    return RooDSO(loss, uncertainty_set=learner, **parameters).fit(shops)


# Its corners


@pytest.mark.parametrize("loss", [LOSS, CVaRPortfolio(risk_aversion=2.0)], ids=["shops", "returns"])
@pytest.mark.parametrize("tail", [None, 0.5, 0.3, 1.0])
def test_without_thickness_it_is_the_hull(tail, loss):
    data = SHOPS if loss is LOSS else RETURNS
    ours, theirs = solved(ThickenedHull(0, tail=tail), data, loss), ConvexHullDRO(loss, tail=tail)
    theirs.set_params(tol=1e-8).fit(data)
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-6)
    assert ours.solution_.lower_bound == pytest.approx(theirs.solution_.lower_bound, rel=1e-6)
    assert ours.uncertainty_set_.radius == 0.0


def test_without_thickness_and_with_all_sources_mixed_evenly_it_is_the_average():
    ours, theirs = solved(ThickenedHull(0, tail=1.0), EVEN), SAA(LOSS).fit(EVEN)
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-6)
    np.testing.assert_allclose(ours.decision_, theirs.decision_, rtol=1e-6)


@pytest.mark.parametrize("thickness", [0.01, 0.1, 0.5])
def test_with_all_sources_mixed_evenly_it_is_the_ball_around_their_mean(thickness):
    ours = solved(ThickenedHull(thickness, tail=1.0))
    theirs = solved(FixedBall(thickness, weights="equal"))
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-6)
    by_cap = solved(ThickenedHull(thickness, cap=1 / 7))
    assert by_cap.objective_ == pytest.approx(theirs.objective_, rel=1e-6)


def test_the_paper_s_ball_is_the_ball_of_its_centre_and_radius():
    paper = SupportMeasureBall(nu=0.3).fit(SHOPS)
    ours = solved(FixedBall(paper.radius_, weights=paper.weights_))
    theirs = solved(SupportMeasureBall(nu=0.3))
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-6)


def test_around_one_source_it_is_a_ball():
    ours = solved(ThickenedHull(0.2), SHOPS[:1])
    theirs = solved(FixedBall(0.2), SHOPS[:1])
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=1e-6)


def test_the_objective_is_continuous_where_the_thickness_vanishes():
    models = [solved(ThickenedHull(r), n_support=0, tol=1e-6) for r in (0, 1e-5, 1e-4, 1e-3)]
    thin = [model.objective_ for model in models]
    slack = 1e-6 * abs(thin[0])  # the tolerance
    assert thin[0] - 3 * slack <= thin[1] - 2 * slack <= thin[2] - slack <= thin[3]
    assert thin[1] - thin[0] < 0.05 * abs(thin[0])


# Monotone


@settings(max_examples=20, deadline=None)
@given(st.floats(0, 0.6), st.floats(0, 0.6), st.floats(0.15, 1))
def test_more_thickness_never_costs_less(one, other, cap):
    thin, thick = sorted((one, other))
    values = [solved(ThickenedHull(r, cap=cap), tol=1e-6) for r in (thin, thick)]
    assert values[0].solution_.lower_bound <= values[1].objective_ + 1e-9


@settings(max_examples=20, deadline=None)
@given(st.floats(0.15, 1), st.floats(0.15, 1), st.floats(0, 0.4))
def test_more_cap_never_costs_less(one, other, thickness):
    low, high = sorted((one, other))
    values = [solved(ThickenedHull(thickness, cap=cap), tol=1e-6) for cap in (low, high)]
    assert values[0].solution_.lower_bound <= values[1].objective_ + 1e-9


@pytest.mark.parametrize("thickness", [0.0, 0.1])
def test_another_source_never_costs_less(thickness):
    """With the same kernel and the same support points."""
    extra = np.vstack(SHOPS)
    box = extra.min(axis=0), extra.max(axis=0)
    learner = ThickenedHull(thickness, bandwidth=1.0)
    values = [
        solved(learner, [*SHOPS[:m], *([SHOPS[0]] * (7 - m))], support_box=box).solution_
        for m in (3, 7)
    ]
    # The support of three sources lacks the others' samples, which only adds to the difference.
    assert values[0].lower_bound <= values[1].upper_bound + 1e-9


# Exact and certified


@pytest.mark.parametrize("seed", range(24))
def test_the_bounds_bracket_the_optimum_and_the_proofs_check(seed):
    instance = draw(seed)
    rng = np.random.default_rng(seed)
    n_sources = len(instance.tables)
    model = instance.hull_model(
        thickness=float(rng.choice([0.02, 0.1, 0.4])),
        cap=float(rng.choice([1.0, 0.5, rng.uniform(1 / n_sources, 1)])),
    ).fit(instance.tables)
    solution = model.solution_
    assert solution.status == "optimal"
    assert solution.gap <= 1e-6
    optimum = instance.optimum(model)
    slack = 1e-5 * max(1.0, abs(optimum))
    assert solution.lower_bound - slack <= optimum <= solution.upper_bound + slack
    assert check(instance.claim(model)) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(24, 200))
def test_more_instances(seed):
    test_the_bounds_bracket_the_optimum_and_the_proofs_check(seed)


def smaller_cap(claim):
    return replace(claim, cap=0.9 * claim.source_weights.max())


def larger_cap(claim):
    return replace(claim, cap=1.0)


def other_mixture(claim):
    return replace(claim, source_weights=np.roll(claim.source_weights, 1))


def thinner(claim):
    return replace(claim, radius=0.9 * claim.radius)


@pytest.fixture(scope="module")
def claims():
    """Claims of capped hulls in which the thickness binds and the mixture is uneven."""
    found = {}
    for seed in range(60):
        instance = draw(seed)
        if len(instance.tables) < 4 or instance.kind in found:
            continue
        model = instance.hull_model(thickness=0.1, cap=0.4).fit(instance.tables)
        claim = instance.claim(model)
        # By cap 0.4 three sources are needed; the witness must not be all but flat.
        if model.solution_.witness.g.norm > 1e-2 * abs(model.objective_):
            found[instance.kind] = claim
    assert set(found) == set(LOSSES)
    return found


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize(
    "tamper", [smaller_cap, larger_cap, other_mixture, thinner], ids=lambda f: f.__name__
)
def test_the_checker_notices_tampering(kind, tamper, claims):
    assert check(claims[kind]) == []
    assert check(tamper(claims[kind])) != []


def test_small_thickness_is_solved_too():
    """Where the set is next to a hull, many points share the worst case."""
    shops = make_newsvendor_sources(20, (30, 100), random_state=1)
    for thickness in (1e-4, 1e-3):
        model = solved(ThickenedHull(thickness), shops, n_support=200, tol=1e-6)
        assert model.solution_.status == "optimal"


def test_the_worst_case_of_a_decision_of_ones_own():
    model = solved(ThickenedHull(0.1, tail=0.5))
    other = model.worst_case_cost([1.0, 2.0])
    assert other.gap <= 1e-8
    assert other.upper_bound >= model.solution_.lower_bound
    assert model.worst_case_cost(model.decision_).upper_bound == pytest.approx(model.objective_)


def test_the_whole_box_is_searched_and_proved_as_for_a_ball():
    model = solved(ThickenedHull(0.1), continuous="prove", tol=1e-4)
    assert model.solution_.box.proved
    plain = solved(ThickenedHull(0.1), tol=1e-4)
    assert model.solution_.box.upper_bound >= plain.solution_.lower_bound


@pytest.mark.parametrize("representer", ["herded", "full"])
def test_the_paper_s_representers_restrict_it(representer):
    exact = solved(ThickenedHull(0.1))
    restricted = solved(ThickenedHull(0.1), representer=representer, n_herding=3)
    assert restricted.objective_ >= exact.solution_.lower_bound - 1e-6


# The learner


def textbook(tables, sigma=1.0):
    return np.array(formulas.gram(formulas.rbf(sigma), tables))


@pytest.mark.parametrize("options", [{}, {"tail": 0.5}, {"cap": 0.25}])
def test_distances_are_those_to_the_nearest_mixture_allowed(options):
    learner = ThickenedHull(0.1, bandwidth=1.0, **options).fit(SHOPS)
    cap = {"tail": 1 / 3.5, "cap": 0.25}.get(next(iter(options), ""), 1.0)
    assert learner.cap_ == pytest.approx(cap)
    fresh = make_newsvendor_sources(3, 15, random_state=9)
    for tables, found in ((SHOPS, learner.distances_), (fresh, learner.distance(fresh))):
        for table, distance in zip(tables, found, strict=True):
            expected = hull.squared_distance(textbook([*SHOPS, table]), np.eye(7), cap)
            assert distance**2 == pytest.approx(expected, abs=1e-9)
    inside = learner.distance(fresh) <= 0.1
    assert (learner.predict(fresh) == np.where(inside, 1, -1)).all()
    assert learner.offset_ == -learner.radius_ == -0.1


@pytest.mark.parametrize("tail", [None, 0.5])
@pytest.mark.parametrize("nu", [0.2, 0.5])
def test_leave_one_out_scores_are_distances_to_the_hull_of_the_others(nu, tail):
    learner = ThickenedHull("leave-one-out", nu=nu, tail=tail, bandwidth=1.0).fit(SHOPS)
    K, cap = textbook(SHOPS), 1.0 if tail is None else 1 / (tail * 7)
    scores = []
    for i in range(7):
        others = [j for j in range(7) if j != i]
        among = K[np.ix_([*others, i], [*others, i])]
        scores.append(math.sqrt(hull.squared_distance(among, np.eye(6), cap)))
    np.testing.assert_allclose(learner.scores_, scores, atol=1e-7)
    k = math.ceil((1 - Fraction(str(nu))) * 8)
    assert learner.radius_ == pytest.approx(sorted(scores)[k - 1], abs=1e-7)
    assert learner.promise_ == pytest.approx(k / 8)
    assert learner.calibration_.all()
    assert learner.anchors_.all()


def test_split_scores_are_distances_to_the_hull_of_the_training_sources():
    learner = ThickenedHull("split", nu=0.3, bandwidth=1.0).fit(SHOPS)
    train, calibrate = np.flatnonzero(learner.anchors_), np.flatnonzero(learner.calibration_)
    assert len(train) == 3
    assert sorted([*train, *calibrate]) == list(range(7))
    K = textbook(SHOPS)
    scores = [
        math.sqrt(hull.squared_distance(K[np.ix_([*train, i], [*train, i])], np.eye(3), 1.0))
        for i in calibrate
    ]
    np.testing.assert_allclose(learner.scores_, scores, atol=1e-7)
    assert learner.radius_ == pytest.approx(sorted(scores)[3], abs=1e-7)  # ceil(0.7 * 5) = 4
    assert learner.promise_ == pytest.approx(0.8)
    assert learner.uncertainty_set_.n_anchors == 3


def test_the_sampling_error_enlarges_every_score():
    plain = ThickenedHull("leave-one-out", nu=0.3, bandwidth=1.0).fit(SHOPS)
    wide = clone(plain).set_params(sampling_error=0.1).fit(SHOPS)
    sizes = np.array([len(table) for table in SHOPS])
    error = (1 + np.sqrt(2 * np.log(10))) / np.sqrt(sizes)
    np.testing.assert_allclose(wide.scores_, plain.scores_ + error, atol=1e-12)
    assert wide.promise_ == pytest.approx(plain.promise_ - 0.1)
    assert wide.uncertainty_set_.radius_without_gamma == pytest.approx(plain.radius_)


def test_a_target_of_another_size_is_warned_of():
    """With what share would lie in the set: a sample has all its variance as squared distance."""
    tables = [np.random.default_rng(i).normal(0, 1, (400, 1)) for i in range(9)]
    learner = ThickenedHull("leave-one-out", nu=0.3, bandwidth=1.0)
    with pytest.warns(SampleSizeWarning, match="target_size=2 is far .* roughly 0% of them"):
        clone(learner).set_params(target_size=2).fit(tables)
    # A larger target only comes nearer, and its distance is not below 0.
    with pytest.warns(SampleSizeWarning, match="roughly 100% of them"):
        clone(learner).set_params(target_size=100_000).fit(tables)


def coverage(thickness, nu, repetitions, *, learned_size=8, fresh_size=8, tail=None):
    """How many fresh sources lie in the sets, of one each repetition."""
    inside = 0
    for repetition in range(repetitions):
        rng = np.random.default_rng([7, repetition])
        sizes = [learned_size] * 9 + [fresh_size]
        tables = [rng.normal(rng.normal(0, 1, 1), 0.5, (n, 1)) for n in sizes]
        learner = ThickenedHull(thickness, nu=nu, bandwidth=1.0, tail=tail).fit(tables[:9])
        inside += int(learner.predict(tables[9:])[0] == 1)
    return inside


@pytest.mark.parametrize("tail", [None, 0.5])
@pytest.mark.parametrize("thickness", ["leave-one-out", "split"])
def test_a_new_source_lies_in_the_calibrated_set_as_often_as_promised(thickness, tail):
    """Binomial margin of one in ten thousand."""
    nu, repetitions = 0.3, 300
    found = coverage(thickness, nu, repetitions, tail=tail)
    assert found >= binom.ppf(1e-4, repetitions, 1 - nu)


@pytest.mark.slow
@pytest.mark.parametrize("nu", [0.1, 0.2, 0.5])
@pytest.mark.parametrize("tail", [None, 0.5])
def test_the_promise_at_length(nu, tail):
    found = coverage("leave-one-out", nu, 3000, tail=tail)
    assert found >= binom.ppf(1e-4, 3000, 1 - nu)


def test_a_source_sampled_otherwise_may_lie_in_it_far_less_often():
    """What must fail: the target has one sample where the sources have many."""
    found = coverage("leave-one-out", 0.3, 200, learned_size=60, fresh_size=1)
    assert found < binom.ppf(1e-4, 200, 0.7)


def test_statements():
    given_ = ThickenedHull(0.1).fit(SHOPS).statement()
    assert given_.startswith("Nothing is proved of a new source: the thickness 0.1 was given.")
    calibrated = ThickenedHull("leave-one-out", nu=0.3, bandwidth=1.0).fit(SHOPS).statement()
    assert "probability at least 0.75" in calibrated
    assert "no news" not in calibrated
    assert "no news" in ThickenedHull(1.5).fit(SHOPS).statement()


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"thickness": -0.1}, ValueError, "thickness must be a number in"),
        ({"thickness": "conformal"}, ValueError, "thickness must be a number >= 0 or 'split'"),
        ({"thickness": None}, TypeError, "thickness must be"),
        ({"tail": 0.0}, ValueError, "tail must be"),
        ({"cap": 1.5}, ValueError, "cap must be"),
        ({"cap": 0.5, "tail": 0.5}, ValueError, "say the same thing"),
        ({"cap": 0.1}, ValueError, "cap=0.1 leaves no mixture of 7 sources .*0.142857"),
        (
            {"thickness": "leave-one-out", "nu": 0.5, "tail": 1.0},
            ValueError,
            "tail=1.0 leaves no mixture of 6 sources, one less than there are, .*0.857143",
        ),
        ({"thickness": "leave-one-out", "nu": 0.05}, ValueError, "nu=0.05 needs 19 calibration"),
        ({"thickness": "split", "random_state": np.random.default_rng()}, TypeError, "Generator"),
    ],
)
def test_bad_parameters_are_named(parameters, error, message):
    with pytest.raises(error, match=message):
        ThickenedHull(**parameters).fit(SHOPS)


def test_few_sources():
    assert ThickenedHull(0.1).fit(SHOPS[:1]).distances_.tolist() == [0.0]
    assert ThickenedHull("leave-one-out", nu=0.5, bandwidth=1.0).least_sources == 2
    assert ThickenedHull("leave-one-out", nu=0.2, bandwidth=1.0).least_sources == 4
    assert ThickenedHull("split", nu=0.2).least_sources == 7


def test_a_model_over_it_is_saved_and_loaded(tmp_path):
    model = solved(ThickenedHull("leave-one-out", nu=0.3, tail=0.5))
    model.save(tmp_path / "model.roodso")
    loaded = roodso.load(tmp_path / "model.roodso")
    assert loaded.objective_ == model.objective_
    assert loaded.set_learner_.statement() == model.set_learner_.statement()
    assert loaded.worst_case_cost([1.0, 1.0]).upper_bound == pytest.approx(
        model.worst_case_cost([1.0, 1.0]).upper_bound
    )


# Choosing thickness and tail


def test_the_default_grid_is_that_of_the_set():
    model = RooDSO(LOSS, uncertainty_set=ThickenedHull())
    grid = paper_grid(model, 7)
    assert set(grid) == {"uncertainty_set__thickness", "uncertainty_set__tail"}
    assert grid["uncertainty_set__thickness"] == [0.0, 0.05, 0.1, 0.2, 0.3]
    wide = RooDSO(LOSS, uncertainty_set=ThickenedHull(kernel=RBF(1.0) + RBF(2.0)))  # C = 2
    thickest = max(paper_grid(wide, 7)["uncertainty_set__thickness"])
    assert thickest == pytest.approx(0.3 * math.sqrt(2))
    calibrated = RooDSO(LOSS, uncertainty_set=ThickenedHull("leave-one-out", cap=0.5))
    assert paper_grid(calibrated, 7) == {}
    conformal = RooDSO(LOSS, uncertainty_set=roodso.sets.ConformalBall(bandwidth=1.0))
    nus = paper_grid(conformal, 13)["uncertainty_set__nu"]
    assert min(nus) == 0.15  # of 12 sources 6 calibrate, which allow 1/7


@pytest.mark.parametrize("refit_kernel", [False, True])
def test_select_over_thickness_and_tail_equals_refitting(refit_kernel):
    grid = {"uncertainty_set__thickness": [0.0, 0.1], "uncertainty_set__tail": [None, 0.5]}
    model = RooDSO(LOSS, uncertainty_set=ThickenedHull(bandwidth=1.0), n_support=0, tol=1e-9)
    found = select(model, grid, SHOPS, criterion="worst", refit_kernel=refit_kernel)
    for candidate, parameters in enumerate(found.cv_results_["params"]):
        costs = []
        for i, table in enumerate(SHOPS):
            others = [other for j, other in enumerate(SHOPS) if j != i]
            costs.append(-clone(model).set_params(**parameters).fit(others).score(table))
        mean = found.cv_results_["mean"][candidate]
        assert mean == pytest.approx(np.mean(costs), rel=1e-4)
    assert (
        found.best_estimator_.set_learner_.thickness
        == (found.best_params_["uncertainty_set__thickness"])
    )


def test_all_settings_share_one_pass_over_kernel_values(monkeypatch):
    passes = []
    compute = roodso.embedding.Embedding.compute.__func__
    monkeypatch.setattr(
        roodso.embedding.Embedding,
        "compute",
        classmethod(lambda cls, *a, **k: passes.append(1) or compute(cls, *a, **k)),
    )
    model = RooDSO(LOSS, uncertainty_set=ThickenedHull(), random_state=0)
    select(model, None, SHOPS)
    assert len(passes) == 1


def test_it_is_compared_with_other_methods():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        comparison = compare(
            {
                "SAA": SAA(LOSS),
                "thick": (
                    RooDSO(LOSS, uncertainty_set=ThickenedHull(), random_state=0),
                    {"uncertainty_set__thickness": [0.0, 0.1]},
                ),
            },
            EVEN,
        )
    assert set(comparison.costs.columns) == {"SAA", "thick"}
    assert comparison.costs.notna().all(axis=None)
