"""IntersectionDRO against the programme written out in full, and against what it must be."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import ot
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut

import roodso
from instances import LOSSES, draw
from reference import intersection as reference
from reference.programme import ACCURATE, newsvendor
from roodso import SAA, ConvergenceWarning, DegenerateDataWarning, IntersectionDRO
from roodso.datasets import make_newsvendor_sources
from roodso.losses import ConvexLoss, CVaRPortfolio, Newsvendor

LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
NORMS = [2, 1, np.inf]


def instance(seed):
    """Tables and a loss, for one to five sources, unequal radii that leave a set, and a norm."""
    drawn = draw(seed)
    rng = np.random.default_rng(1000 + seed)
    drawn.tables = drawn.tables[: 1 + seed // len(LOSSES) % 5]
    if seed % 4 == 0:  # sources that are close to each other
        drawn.tables = [t - t.mean(axis=0) + drawn.tables[0].mean(axis=0) for t in drawn.tables]
    norm = NORMS[seed % 3]
    radii = rng.uniform(0.2, 1.0, len(drawn.tables))
    if "portfolio" in drawn.kind:
        radii *= 0.05
    model = IntersectionDRO(drawn.loss, radii, 12, norm=norm, random_state=seed, n_jobs=1)
    factor = model.smallest_factor(drawn.tables)
    radii = radii * (1.0 if factor < 0.5 else factor * rng.choice([1.02, 1.1, 1.6]))
    return drawn, model.set_params(radius=radii), factor


def distance(support, weights, table, norm):
    """W1 by POT."""
    used = weights > 0
    between = np.ascontiguousarray(reference.distances(support[used], table, norm))
    shares = weights[used] / weights[used].sum()
    return ot.emd2(shares, np.full(len(table), 1 / len(table)), between, numItermax=10**7)


def proven_upper(solution, cost, tables, radii, norm):
    """The bound that the multipliers prove, from the formula."""
    total, account = float(solution.multipliers @ radii), 0.0
    codes = solution.origin[: len(solution.potentials)]
    for i, table in enumerate(tables):
        s = solution.potentials[codes == i]
        between = reference.distances(solution.support, table, norm)
        total += s.mean()
        account = account + (s + solution.multipliers[i] * between).min(axis=1)
    return total + float((cost - account).max())


def assert_certified(drawn, model, tol=1e-6):
    """What a solution claims, confirmed without the library."""
    s, norm = model.solution_, model.norm
    z = np.concatenate([s.decision, s.internal])
    size = max(1.0, abs(s.upper_bound))
    assert s.lower_bound <= s.upper_bound
    assert s.status == "optimal"
    assert s.gap <= tol
    w = s.worst_case_weights
    assert (w >= 0).all()
    assert w.sum() == pytest.approx(1.0, abs=1e-12)
    for table, radius in zip(drawn.tables, model.radii_, strict=True):
        assert distance(s.support, w, table, norm) <= radius * (1 + 1e-9) + 1e-12
    least = drawn.minimum(s.support[w > 0], w[w > 0])
    assert least >= s.lower_bound - 1e-8 * size
    cost = drawn.values(z, s.support)
    assert w @ cost >= s.lower_bound - 1e-9 * size
    upper = proven_upper(s, cost, drawn.tables, model.radii_, norm)
    assert upper <= s.upper_bound + 1e-9 * size
    assert (s.majorant(s.support) >= cost - 1e-9 * size).all()


# --- Against the full programme --------------------------------------------------------------


def seeds(several):
    """Seeds of which the long form runs more, and more with losses that take long to evaluate."""
    quick = [seed for seed in several if seed < 30 and (seed == 4 or seed % len(LOSSES) != 4)]
    return [pytest.param(seed, marks=() if seed in quick else pytest.mark.slow) for seed in several]


@pytest.mark.parametrize("seed", seeds(range(60)))
def test_bounds_bracket_the_full_programme(seed):
    drawn, model, _ = instance(seed)
    model.fit(drawn.tables)
    support = model.solution_.support
    costs, x, feasible = drawn.costs(support)
    if drawn.kind.startswith("quadratic"):  # one square instead of one for each point
        q = cp.Variable()
        costs = [q - 2 * (xi @ x) + xi @ xi for xi in support]
        feasible = [*feasible, cp.sum_squares(x) <= q]
    # Clarabel does not reach the last digits of curved costs.
    solver = (
        {"solver": "CLARABEL"}
        if drawn.kind.startswith("quadratic") or "log" in drawn.kind
        else ACCURATE
    )
    args = (support, drawn.tables, model.radii_, model.norm)
    optimum = reference.full_programme(costs, feasible, *args, **solver)
    slack = 2e-7 * max(1.0, abs(optimum))
    assert model.solution_.lower_bound - slack <= optimum <= model.solution_.upper_bound + slack
    assert_certified(drawn, model)


@pytest.mark.parametrize("seed", [0, 2, 3, 7, 14, 20, 26, 29])
def test_the_worst_case_of_any_decision_is_that_of_all_couplings(seed):
    drawn, model, _ = instance(seed)
    model.fit(drawn.tables)
    x = model.solution_.decision * 0.9
    if drawn.kind == "portfolio":
        x = np.full(drawn.d, 1.0 / drawn.d)
    cost = model.worst_case_cost(x)
    z = np.concatenate([x, cost.internal])
    args = (cost.support, drawn.tables, model.radii_, model.norm)
    worst = reference.worst_distribution(drawn.values(z, cost.support), *args)
    assert cost.decision.tolist() == x.tolist()
    assert cost.upper_bound == pytest.approx(worst, rel=2e-6, abs=2e-6)
    assert cost.upper_bound >= worst - 1e-7 * max(1.0, abs(worst))


@pytest.mark.parametrize("seed", range(5, 30, 3))
def test_the_smallest_factor_is_that_of_all_couplings(seed):
    drawn, model, _ = instance(seed)
    found = model.smallest_factor(drawn.tables)
    support = model.fit(drawn.tables).solution_.support
    expected = reference.smallest_factor(support, drawn.tables, model.radius, model.norm)
    assert found == pytest.approx(expected, rel=2e-6, abs=1e-7)


def test_an_empty_set_is_refused_with_the_smallest_factor():
    shops = make_newsvendor_sources(4, 12, random_state=3)
    model = IntersectionDRO(LOSS, 0.5, 30, random_state=0)
    factor = model.smallest_factor(shops)
    assert factor > 1
    with pytest.raises(ValueError, match=rf"do not intersect.*multiplied: {factor:.4f}"[:-1]):
        model.fit(shops)
    with pytest.raises(ValueError, match="radius leaves no distribution"):
        clone(model).set_params(radius=0.5 * factor * (1 - 1e-5)).fit(shops)
    fitted = clone(model).set_params(radius=0.5 * factor * (1 + 1e-5)).fit(shops)
    assert fitted.solution_.status == "optimal"


# --- Limits ----------------------------------------------------------------------------------


def test_a_huge_radius_leaves_the_worst_support_point():
    shops = make_newsvendor_sources(3, 10, random_state=0)
    model = IntersectionDRO(LOSS, 100.0, random_state=0).fit(shops)
    support = model.solution_.support
    terms = (np.array(term) for term in ([50, 40], [20, 15], [5, 3], [10, 8]))
    x = cp.Variable(2, nonneg=True)
    worst = cp.maximum(*newsvendor(x, support, *terms))
    optimum = cp.Problem(cp.Minimize(worst)).solve(**ACCURATE)
    assert model.objective_ == pytest.approx(optimum, rel=1e-6)
    assert (model.solution_.multipliers == 0).all()


def test_one_source_and_radius_zero_is_saa():
    shop = make_newsvendor_sources(1, 40, random_state=0)
    with pytest.warns(DegenerateDataWarning, match="all radii are 0"):
        model = IntersectionDRO(LOSS, random_state=0).fit(shop)
    saa = SAA(LOSS).fit(shop)
    assert model.radii_.tolist() == [0.0]
    assert model.objective_ == pytest.approx(saa.objective_, rel=1e-9)
    assert model.decision_ == pytest.approx(saa.decision_)
    assert model.solution_.status == "optimal"
    assert (model.solution_.majorant(model.solution_.support) >= -1e9).all()


def test_a_small_radius_is_near_saa_and_certified():
    drawn = draw(0)
    drawn.tables = drawn.tables[:1]
    model = IntersectionDRO(drawn.loss, 1e-6, random_state=0).fit(drawn.tables)
    saa = SAA(drawn.loss).fit(drawn.tables)
    assert saa.objective_ <= model.objective_ * (1 - 1e-12) or model.objective_ < 0
    assert model.objective_ == pytest.approx(saa.objective_, rel=1e-4)
    assert_certified(drawn, model)


def test_identical_sources_are_one_source():
    shop = make_newsvendor_sources(1, 15, random_state=0)[0]
    one = IntersectionDRO(LOSS, 0.3, random_state=0).fit([shop])
    three = IntersectionDRO(LOSS, 0.3, random_state=0).fit([shop, shop[::-1], shop])
    assert three.objective_ == pytest.approx(one.objective_, rel=2e-6)
    with pytest.warns(DegenerateDataWarning):
        default = IntersectionDRO(LOSS, random_state=0).fit([shop, shop])
    assert default.objective_ == pytest.approx(SAA(LOSS).fit([shop]).objective_, rel=1e-9)


def test_the_objective_rises_with_every_radius_and_falls_with_every_ball():
    shops = make_newsvendor_sources(3, 15, random_state=1)
    base = np.array([1.2, 1.4, 1.3])

    def objective(radii, sources=shops):
        model = IntersectionDRO(LOSS, radii, random_state=0, tol=1e-8).fit(sources)
        return model.objective_

    plain = objective(base)
    for i in range(3):
        assert objective(base + 0.2 * np.eye(3)[i]) >= plain - 1e-6 * abs(plain)
    free = objective([100.0, 1.4, 1.3])
    assert free >= plain


def test_a_zero_radius_leaves_one_sources_own_distribution():
    shops = make_newsvendor_sources(2, 20, random_state=2)
    between = distance(shops[0], np.full(20, 1 / 20), shops[1], 2)
    model = IntersectionDRO(LOSS, [0.0, 1.01 * between], random_state=0).fit(shops)
    assert model.objective_ == pytest.approx(SAA(LOSS).fit(shops[:1]).objective_, rel=1e-9)
    s = model.solution_
    cost = model._problem.values(s.decision, s.support)
    assert proven_upper(s, cost, shops, model.radii_, 2) <= s.upper_bound + 1e-9
    with pytest.raises(ValueError, match="do not intersect"):
        IntersectionDRO(LOSS, [0.0, 0.99 * between], random_state=0).fit(shops)
    with pytest.raises(ValueError, match="none: several balls have radius 0"):
        IntersectionDRO(LOSS, 0.0, random_state=0).fit(shops)
    assert IntersectionDRO(LOSS, 0.0, random_state=0).smallest_factor(shops) == np.inf


def test_the_papers_radii_for_two_sources():
    shops = make_newsvendor_sources(2, (10, 20), random_state=2)
    size = len(shops[0])
    between = distance(shops[0], np.full(size, 1 / size), shops[1], 2)
    model = IntersectionDRO(LOSS, lambdas=(0.3, 0.01), random_state=0).fit(shops)
    assert model.radii_ == pytest.approx([0.3 * 1.01 * between, 0.7 * 1.01 * between])
    assert model.smallest_factor(shops) == pytest.approx(1 / 1.01, rel=1e-6)
    default = IntersectionDRO(LOSS, random_state=0).fit(shops)
    assert default.radii_ == pytest.approx([between, between])


def test_the_default_radius_is_the_largest_distance_between_sources():
    shops = make_newsvendor_sources(4, 10, random_state=2)
    pairs = [distance(a, np.full(10, 0.1), b, 2) for i, a in enumerate(shops) for b in shops[:i]]
    model = IntersectionDRO(LOSS, random_state=0).fit(shops)
    assert model.radii_ == pytest.approx(np.full(4, max(pairs)))


def test_a_set_without_interior_is_solved():
    """lambda_2 = 0: the balls touch, and only distributions between the two sources are left."""
    shops = make_newsvendor_sources(2, 15, random_state=1)
    model = IntersectionDRO(LOSS, lambdas=(0.5, 0.0), n_support=20, random_state=0).fit(shops)
    s = model.solution_
    cost = model._problem.values(s.decision, s.support)
    assert s.status == "optimal"
    assert proven_upper(s, cost, shops, model.radii_, 2) <= s.upper_bound + 1e-7
    assert s.worst_case_weights @ cost >= s.lower_bound - 1e-7
    for table, radius in zip(shops, model.radii_, strict=True):
        assert distance(s.support, s.worst_case_weights, table, 2) <= radius * (1 + 1e-9)


# --- The continuous support ------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_in_one_dimension_the_samples_are_support_enough(seed):
    """Every piece is concave in xi with kinks at samples only, so the two supports agree."""
    rng = np.random.default_rng(seed)
    shops = [rng.uniform(1, 3, (6, 1)), rng.uniform(2, 5, (9, 1))]
    loss = Newsvendor(price=9, cost=4, holding=rng.uniform(0, 2), backorder=rng.uniform(0, 3))
    parameters = {"lambdas": (rng.uniform(0.1, 0.9), rng.uniform(0.01, 0.5)), "n_support": 0}
    discrete = IntersectionDRO(loss, **parameters).fit(shops)
    continuous = IntersectionDRO(loss, support="continuous", **parameters).fit(shops)
    assert continuous.solution_.status == "optimal"
    assert continuous.objective_ == pytest.approx(discrete.objective_, rel=2e-6)


def assert_certified_on_the_box(model, shops):
    s = model.solution_
    w = s.worst_case_weights
    for table, radius in zip(shops, model.radii_, strict=True):
        assert distance(s.support, w, table, 2) <= radius * (1 + 1e-9)
    samples = np.vstack(shops)
    low, high = samples.min(axis=0), samples.max(axis=0)
    assert (s.support >= low).all()
    assert (s.support <= high).all()
    anywhere = np.random.default_rng(0).uniform(low, high, (2000, len(low)))
    z = np.concatenate([s.decision, s.internal])
    cost = model._problem.values(z, np.vstack([anywhere, s.support]))
    assert (s.majorant(np.vstack([anywhere, s.support])) >= cost - 1e-7).all()
    total = s.multipliers @ model.radii_ + s.constant
    total += sum(s.potentials[s.origin[: len(samples)] == i].mean() for i in (0, 1))
    assert total == pytest.approx(s.upper_bound, rel=1e-9)


def test_the_continuous_worst_case_is_the_limit_of_finer_supports():
    shops = make_newsvendor_sources(2, 8, random_state=1)
    parameters = {"lambdas": (0.3, 0.05), "random_state": 0}
    continuous = IntersectionDRO(LOSS, support="continuous", **parameters).fit(shops)
    assert_certified_on_the_box(continuous, shops)
    errors = []
    for n_support in (0, 200, 5000):
        discrete = IntersectionDRO(LOSS, n_support=n_support, **parameters).fit(shops)
        assert discrete.solution_.lower_bound <= continuous.objective_ + 1e-6
        errors.append(continuous.objective_ - discrete.objective_)
    assert errors[2] < errors[0]
    assert errors[2] < 2e-4 * abs(continuous.objective_)


def test_in_huge_balls_the_continuous_worst_case_is_a_corner_of_the_box():
    shops = make_newsvendor_sources(2, 8, random_state=1)
    model = IntersectionDRO(LOSS, 100.0, support="continuous").fit(shops)
    samples = np.vstack(shops)
    ends = np.stack([samples.min(axis=0), samples.max(axis=0)])
    corners = np.array([[a, b] for a in ends[:, 0] for b in ends[:, 1]])
    terms = (np.array(term) for term in ([50, 40], [20, 15], [5, 3], [10, 8]))
    x = cp.Variable(2, nonneg=True)
    worst = cp.maximum(*newsvendor(x, corners, *terms))
    optimum = cp.Problem(cp.Minimize(worst)).solve(**ACCURATE)
    assert model.objective_ == pytest.approx(optimum, rel=1e-6)
    assert_certified_on_the_box(model, shops)
    for order in (ends[0], ends[1]):  # too little, and too much, of everything
        worst = model._problem.values(order, corners).max()
        assert model.worst_case_cost(order).upper_bound == pytest.approx(worst, rel=1e-6)


def test_the_continuous_worst_case_of_a_portfolio():
    rng = np.random.default_rng(0)
    funds = [0.05 * rng.standard_normal((n, 2)) + 0.02 * i for i, n in enumerate((8, 6))]
    loss = CVaRPortfolio(2.0, A_ub=[[1.0, 0.0]], b_ub=[0.7])
    parameters = {"radius": 0.05, "random_state": 0}
    continuous = IntersectionDRO(loss, support="continuous", **parameters).fit(funds)
    discrete = IntersectionDRO(loss, n_support=3000, **parameters).fit(funds)
    assert continuous.solution_.status == "optimal"
    assert_certified_on_the_box(continuous, funds)
    assert discrete.solution_.lower_bound <= continuous.objective_ + 1e-7
    assert continuous.objective_ - discrete.objective_ < 5e-3
    x = np.array([0.4, 0.6])
    assert continuous.worst_case_cost(x).lower_bound >= continuous.solution_.lower_bound - 1e-7


def test_the_continuous_worst_case_at_radius_zero():
    shops = make_newsvendor_sources(2, 8, random_state=1)
    model = IntersectionDRO(LOSS, lambdas=(0.0, 0.01), support="continuous").fit(shops)
    assert model.objective_ == pytest.approx(SAA(LOSS).fit(shops[:1]).objective_, rel=1e-9)
    assert_certified_on_the_box(model, shops)


def test_where_the_continuous_support_is_impossible_it_says_why():
    shops = make_newsvendor_sources(3, 8, random_state=1)
    model = IntersectionDRO(LOSS, support="continuous")
    with pytest.raises(ValueError, match="for two sources, got 3"):
        model.fit(shops)
    with pytest.raises(ValueError, match=r"400 x 400 pairs of samples x 4 pieces"):
        model.fit(make_newsvendor_sources(2, 400, random_state=0))
    square = ConvexLoss(
        lambda x, xi: ((x - xi) ** 2).sum(axis=1), lambda x, xi: 2 * (x - xi), lower=0, upper=4
    )
    with pytest.raises(ValueError, match="maximum of few functions linear in the data"):
        IntersectionDRO(square, support="continuous").fit(shops[:2])
    wide = [np.random.default_rng(i).random((3, 11)) for i in range(2)]
    with pytest.raises(ValueError, match="of up to 10 items"):
        IntersectionDRO(Newsvendor(9, 4), support="continuous").fit(wide)
    with pytest.raises(ValueError, match="norm must be 2 where support is 'continuous'"):
        IntersectionDRO(LOSS, support="continuous", norm=1).fit(shops[:2])


# --- Data, units, limits of effort -----------------------------------------------------------


@pytest.mark.parametrize(
    "tables",
    [
        [[[1.0, 2.0]], [[2.0, 1.0]]],
        [[[1.0, 2.0]] * 4, [[2.0, 1.0], [2.0, 1.0], [1.0, 2.0]]],
        [[[1.0, 2.0], [2.0, 2.0]], [[3.0, 2.0]], [[2.5, 2.0]]],
    ],
    ids=["one sample each", "duplicates", "a constant column"],
)
def test_degenerate_data_are_solved(tables):
    model = IntersectionDRO(LOSS, n_support=15, random_state=0).fit(tables)
    s = model.solution_
    cost = model._problem.values(s.decision, s.support)
    worst = reference.worst_distribution(
        cost, s.support, [np.array(table) for table in tables], model.radii_
    )
    assert s.status == "optimal"
    assert s.upper_bound == pytest.approx(worst, rel=2e-6, abs=2e-6)


@pytest.mark.parametrize(("data", "money"), [(1e4, 1.0), (1e-4, 1.0), (1.0, 1e5), (1e3, 1e-3)])
def test_units_change_nothing(data, money):
    shops = make_newsvendor_sources(3, 12, random_state=1)
    loss = Newsvendor(*([money * t for t in term] for term in ([50, 40], [20, 15], [5, 3])))
    plain = Newsvendor([50, 40], [20, 15], [5, 3])
    radius = 1.3
    one = IntersectionDRO(plain, radius, random_state=0).fit(shops)
    other = IntersectionDRO(loss, data * radius, random_state=0)
    other.fit([data * shop for shop in shops])
    assert other.solution_.status == "optimal"
    scaled = other.objective_ / (data * money)
    slack = 2e-6 * max(abs(one.objective_), 1 / (data * money))
    assert scaled == pytest.approx(one.objective_, abs=slack)


@pytest.mark.parametrize("limits", [{"max_iter": 3}, {"max_iter": 6}, {"time_limit": 1e-4}])
def test_bounds_hold_where_the_effort_ends_early(limits):
    shops = make_newsvendor_sources(4, 20, random_state=3)
    model = IntersectionDRO(LOSS, 1.15, random_state=0)
    model.set_params(radius=1.15 * 1.3 * model.smallest_factor(shops))
    full = clone(model).fit(shops).solution_
    with pytest.warns(ConvergenceWarning, match="both bounds hold"):
        short = model.set_params(**limits).fit(shops)
    s = short.solution_
    assert s.lower_bound <= full.upper_bound
    assert s.upper_bound >= full.lower_bound
    assert s.status == ("iteration limit" if "max_iter" in limits else "time limit")
    for table, radius in zip(shops, short.radii_, strict=True):
        assert distance(s.support, s.worst_case_weights, table, 2) <= radius * (1 + 1e-9)


def test_smaller_tolerances_are_reached():
    shops = make_newsvendor_sources(3, 15, random_state=1)
    model = IntersectionDRO(LOSS, 1.2, random_state=0, tol=1e-10).fit(shops)
    assert model.solution_.gap <= 1e-10


def test_progress_is_reported():
    seen = []
    shops = make_newsvendor_sources(3, 15, random_state=1)
    IntersectionDRO(LOSS, 1.2, random_state=0, progress=lambda *a: seen.append(a)).fit(shops)
    stage, fraction, details = seen[-1]
    assert (stage, fraction) == ("couplings", None)
    assert details["lower"] <= details["upper"] + 1e-9


# --- The contract of estimators --------------------------------------------------------------


def frame(n=15):
    shops = make_newsvendor_sources(3, n, random_state=1)
    table = pd.DataFrame(np.vstack(shops), columns=["loaf", "roll"])
    return table, np.repeat(["a", "b", "c"], n), shops


def test_frames_and_tables_give_the_same():
    table, groups, shops = frame()
    model = IntersectionDRO(LOSS, 1.2, random_state=0).fit(table, groups=groups)
    same = IntersectionDRO(LOSS, 1.2, random_state=0).fit(shops)
    assert model.decision_.index.tolist() == ["loaf", "roll"]
    assert model.decision_.tolist() == same.decision_.tolist()
    cost = model.worst_case_cost(model.decision_[["roll", "loaf"]])
    assert cost.upper_bound == pytest.approx(model.objective_, rel=2e-6)
    values = model._problem.values(model.solution_.decision, table.to_numpy())
    assert model.score(table) == pytest.approx(-values.mean())
    assert model.solution_.worst_case()["weight"].sum() == pytest.approx(1.0)


def test_threads_and_repetitions_change_nothing():
    _, _, shops = frame()
    first = IntersectionDRO(LOSS, 1.2, random_state=0, n_jobs=1).fit(shops)
    second = IntersectionDRO(LOSS, 1.2, random_state=0, n_jobs=2).fit(shops)
    assert first.decision_.tolist() == second.decision_.tolist()
    assert (first.solution_.worst_case_weights == second.solution_.worst_case_weights).all()


def test_clone_and_grid_search():
    table, groups, _ = frame(8)
    model = IntersectionDRO(LOSS, n_support=10, random_state=0)
    assert clone(model).get_params()["n_support"] == 10
    with sklearn.config_context(enable_metadata_routing=True):
        grid = GridSearchCV(model, {"radius": [1.5, 2.5]}, cv=LeaveOneGroupOut())
        grid.fit(table, groups=groups)
    assert grid.best_params_["radius"] in (1.5, 2.5)


@pytest.mark.parametrize("support", ["discrete", "continuous"])
def test_a_saved_model_answers_as_before(support, tmp_path):
    shops = make_newsvendor_sources(2, 8, random_state=1)
    model = IntersectionDRO(LOSS, lambdas=(0.4, 0.05), support=support, random_state=0)
    model.fit(shops)
    model.save(tmp_path / "model.roodso")
    again = roodso.load(tmp_path / "model.roodso")
    assert again.decision_.tolist() == model.decision_.tolist()
    assert again.radii_.tolist() == model.radii_.tolist()
    x = 0.9 * model.decision_
    assert again.worst_case_cost(x).upper_bound == model.worst_case_cost(x).upper_bound
    assert (again.solution_.majorant(shops[0]) == model.solution_.majorant(shops[0])).all()


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"radius": -1.0}, ValueError, "radius must be a number in"),
        ({"radius": [1.0, 2.0]}, ValueError, "one for each of the 3 sources, got 2"),
        ({"radius": [1.0, -2.0, 1.0]}, ValueError, "radius must be >= 0, got -2"),
        ({"radius": [1.0, np.nan, 1.0]}, ValueError, "radius must hold finite numbers"),
        ({"radius": "wide"}, TypeError, "radius must be a number"),
        ({"lambdas": (0.5, 0.1)}, ValueError, "lambdas are for two sources, got 3"),
        ({"lambdas": (0.5, 0.1), "radius": 1.0}, ValueError, "either radius or lambdas"),
        ({"lambdas": 0.5}, TypeError, "lambdas must be a pair"),
        ({"lambdas": (1.5, 0.1)}, ValueError, r"lambdas\[0\] must be a number in \[0, 1\]"),
        ({"support": "grid"}, ValueError, "support must be one of"),
        ({"norm": 3}, ValueError, "norm must be 1, 2 or inf"),
        ({"n_support": -1}, ValueError, "n_support must be"),
        ({"tol": 0.0}, ValueError, "tol must be"),
        ({"max_iter": 0}, ValueError, "max_iter must be"),
        ({"max_rows": 0}, ValueError, "max_rows must be"),
        ({"time_limit": 0.0}, ValueError, "time_limit must be"),
        ({"progress": 3}, TypeError, "progress must be callable"),
        ({"random_state": "x"}, TypeError, "random_state must be"),
        ({"loss": 3}, TypeError, "loss must be a roodso loss"),
    ],
)
def test_bad_parameters_are_refused(parameters, error, message):
    with pytest.raises(error, match=message):
        IntersectionDRO(**({"loss": LOSS} | parameters)).fit(frame(4)[2])
