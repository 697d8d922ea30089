"""The contract of `RooDSO`, its parameters one by one, and the paper's own variants."""

import subprocess
import sys
import warnings

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut

from instances import draw
from reference import programme as reference
from reference.formulas import herding, rbf
from reference.kernels import describe, kernel_matrix
from roodso import ConvergenceWarning, DegenerateDataWarning, RooDSO, SolverError
from roodso.datasets import make_newsvendor_sources
from roodso.embedding import Embedding
from roodso.losses import ConvexLoss, CVaRPortfolio, Newsvendor
from roodso.sets import SupportMeasureBall
from roodso.solver import conic

LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
SHOPS = make_newsvendor_sources(6, (8, 20), random_state=5)
X = np.vstack(SHOPS)
GROUPS = np.repeat(list("abcdef"), [len(shop) for shop in SHOPS])


def small(**parameters):
    return RooDSO(LOSS, **({"n_support": 20, "random_state": 0, "n_jobs": 1} | parameters))


def plain_cost(x, table):
    """eq:multi_newsvendor with LOSS's terms."""
    over, under = np.maximum(x - table, 0), np.maximum(table - x, 0)
    return -np.minimum(x, table) @ [50, 40] + x @ [20, 15] + over @ [5, 3] + under @ [10, 8]


# The contract


def test_the_contracts_own_example():
    model = RooDSO(LOSS, nu=0.2, random_state=0).fit(X, groups=GROUPS)
    assert model.decision_.shape == (2,)
    assert model.objective_ == model.solution_.upper_bound
    assert model.score(SHOPS[0]) == pytest.approx(-plain_cost(model.decision_, SHOPS[0]).mean())
    s, ball = model.solution_, model.uncertainty_set_
    assert s.lower_bound <= s.upper_bound
    assert s.gap == (s.upper_bound - s.lower_bound) / max(1, abs(s.upper_bound))
    assert s.status == "optimal"
    assert s.iterations >= 1
    assert len(s.support) == len(X) + 200
    assert s.worst_case_weights.shape == (len(X) + 200,)
    assert ball.weights.shape == (6,)
    assert ball.radius == ball.radius_without_gamma > 0
    assert ball.bandwidth > 0
    assert ball.kernel.bandwidths == (ball.bandwidth,)
    assert isinstance(ball.contains(SHOPS[0]), bool)


def test_support_holds_the_samples_unrounded_then_the_drawn_points():
    far = X + 1e6
    model = small(n_support=7).fit(far, groups=GROUPS)
    support = model.solution_.support
    np.testing.assert_array_equal(support[: len(X)], far)
    drawn = support[len(X) :]
    assert len(drawn) == 7
    assert (drawn >= far.min(axis=0)).all()
    assert (drawn <= far.max(axis=0)).all()


def test_source_weights_are_in_the_order_of_first_appearance():
    shuffled = np.random.default_rng(0).permutation(len(X))
    model = small(bandwidth=0.5).fit(X[shuffled], groups=GROUPS[shuffled])
    sorted_model = small(bandwidth=0.5).fit(X, groups=GROUPS)
    labels = list(dict.fromkeys(GROUPS[shuffled].tolist()))
    assert list(model.uncertainty_set_.labels) == labels
    expected = dict(zip("abcdef", sorted_model.uncertainty_set_.weights, strict=True))
    np.testing.assert_allclose(
        model.uncertainty_set_.weights, [expected[name] for name in labels], atol=1e-8
    )


def test_frames_give_a_series_and_anything_else_an_array():
    frame = pd.DataFrame(X, columns=["loaves", "rolls"])
    model = small().fit(frame, groups=pd.Series(GROUPS))
    assert list(model.decision_.index) == ["loaves", "rolls"]
    assert list(model.solution_.worst_case().columns) == ["weight", "source", "loaves", "rolls"]
    np.testing.assert_array_equal(model.decision_, small().fit(SHOPS).decision_)


def test_every_form_of_data_gives_the_same_model():
    expected = small().fit(SHOPS)
    frames = {
        name: pd.DataFrame(shop, columns=["loaves", "rolls"])
        for name, shop in zip("abcdef", SHOPS, strict=True)
    }
    stacked = pd.concat(frames.values())  # whose index repeats itself
    for data, groups in [
        (frames, None),
        ([shop.tolist() for shop in SHOPS], None),
        (tuple(frames.values()), None),
        (X, GROUPS.tolist()),
        (X.tolist(), GROUPS),
        (stacked, pd.Series(GROUPS, index=stacked.index)),
        (stacked, pd.Categorical(GROUPS)),
    ]:
        model = small().fit(data, groups=groups)
        np.testing.assert_array_equal(model.decision_, expected.decision_)
        assert model.objective_ == expected.objective_
        assert isinstance(model.decision_, pd.Series) == (
            data is frames or hasattr(data, "iloc") or isinstance(data, tuple)
        )


def test_models_are_estimators_whose_loss_is_a_parameter():
    model = small(nu=0.3).fit(SHOPS)
    copied = clone(model)
    assert not hasattr(copied, "decision_")
    assert copied.get_params()["nu"] == 0.3
    copied.set_params(loss__price=[90, 80], nu=0.5)
    assert model.loss.price == [50, 40]
    assert copied.fit(SHOPS).objective_ < model.objective_
    with pytest.raises(NotFittedError):
        clone(model).score(X)
    with pytest.raises(NotFittedError):
        clone(model).worst_case_cost([1, 2])


def test_grid_search_needs_routing_and_says_so():
    search = GridSearchCV(small(), {"nu": [0.2, 0.7]}, cv=LeaveOneGroupOut(), error_score="raise")
    with sklearn.config_context(enable_metadata_routing=True):
        found = search.fit(X, groups=GROUPS)
    assert found.best_params_["nu"] in (0.2, 0.7)
    with pytest.raises(ValueError, match="enable_metadata_routing=True"):
        search.fit(X, groups=GROUPS)


def test_the_same_seed_gives_the_same_answer_whatever_the_threads():
    one = small(n_jobs=1).fit(SHOPS)
    two = small(n_jobs=2).fit(SHOPS)
    again = small(n_jobs=None).fit(SHOPS)
    for other in (two, again):
        np.testing.assert_array_equal(one.decision_, other.decision_)
        np.testing.assert_array_equal(
            one.solution_.worst_case_weights, other.solution_.worst_case_weights
        )
        assert one.objective_ == other.objective_
    drawn = small(random_state=1).fit(SHOPS).solution_.support
    assert not np.array_equal(drawn, one.solution_.support)


def test_fitting_changes_neither_data_nor_parameters_and_can_be_repeated():
    before, parameters = X.copy(), repr(small().get_params())
    model = small()
    first = model.fit(X, groups=GROUPS).objective_
    np.testing.assert_array_equal(X, before)
    assert repr(model.get_params()) == parameters
    model.fit(SHOPS[:3])
    assert model.fit(X, groups=GROUPS).objective_ == first


def test_cvar_is_scored_with_the_tau_that_is_best_for_the_new_data():
    returns = [0.02 * (shop - 2) for shop in SHOPS]
    model = RooDSO(CVaRPortfolio(10, 0.2), n_support=20, random_state=0).fit(returns)
    new = np.random.default_rng(0).normal(0.0, 0.02, (50, 2))
    loss = -new @ model.decision_
    tau = cp.Variable()
    cvar = tau + cp.sum(cp.pos(loss - tau)) / (0.2 * len(new))
    best = cp.Problem(cp.Minimize(loss.mean() + 10 * cvar)).solve(solver="CLARABEL")
    assert model.score(new) == pytest.approx(-best, rel=1e-6)
    assert model.decision_.sum() == pytest.approx(1)


# Invariances and monotonicity


def test_the_objective_does_not_depend_on_the_order_of_rows():
    order = np.random.default_rng(1).permutation(len(X))
    plain = small(n_support=0).fit(X, groups=GROUPS)
    mixed = small(n_support=0).fit(X[order], groups=GROUPS[order])
    assert mixed.objective_ == pytest.approx(plain.objective_, rel=2e-6)


@pytest.mark.parametrize("kernel", ["rbf", "laplace"])
def test_where_the_origin_is_makes_no_difference(kernel):
    def loss(origin):
        return ConvexLoss(
            value=lambda x, xi: np.abs(x - xi).sum(axis=1) + ((x - xi) ** 2).sum(axis=1),
            subgradient=lambda x, xi: np.sign(x - xi) + 2 * (x - xi),
            lower=origin - 1.0,
            upper=origin + 5.0,
        )

    settings = {"n_support": 20, "random_state": 0, "nu": 0.6, "kernel": kernel, "tol": 1e-8}
    plain = RooDSO(loss(0.0), **settings).fit(SHOPS)
    moved = RooDSO(loss(1e6), **settings).fit([shop + 1e6 for shop in SHOPS])
    assert moved.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    np.testing.assert_allclose(moved.decision_ - 1e6, plain.decision_, atol=1e-3)


def test_with_scale_the_objective_does_not_depend_on_the_columns_units():
    units = np.array([1000.0, 0.01])
    money = {name: np.array(getattr(LOSS, name)) for name in ("price", "cost")}
    money |= {name: np.array(getattr(LOSS, name)) for name in ("holding", "backorder")}
    other = Newsvendor(**{name: value / units for name, value in money.items()})
    plain = small(scale=True, nu=0.6).fit(SHOPS)
    scaled = RooDSO(other, n_support=20, random_state=0, scale=True, nu=0.6)
    scaled.fit([shop * units for shop in SHOPS])
    assert scaled.objective_ == pytest.approx(plain.objective_, rel=2e-6)
    without = small(nu=0.6).fit([shop * units for shop in SHOPS])
    assert without.uncertainty_set_.bandwidth > 10  # one column alone decides it


def test_a_larger_gamma_never_costs_less():
    rng = np.random.default_rng(0)
    tables = [2 + 0.1 * rng.standard_normal(2) + rng.random((15, 2)) for _ in range(6)]
    gammas = [0.0, 0.003, 0.01, 0.03, 0.1, 10.0]
    values = [small(nu=1.0, gamma=gamma).fit(tables).objective_ for gamma in gammas]
    assert (np.diff(values) > -1e-6 * np.abs(values[:-1])).all()
    assert values[-1] > values[0] + 1
    # A ball that holds every distribution on the support: a game against single points.
    support = small(nu=1.0).fit(tables).solution_.support
    x, worst = cp.Variable(2, nonneg=True), cp.Variable()
    costs = reference.newsvendor(x, support, *np.array([[50, 40], [20, 15], [5, 3], [10, 8]]))
    game = cp.Problem(cp.Minimize(worst), [cost <= worst for cost in costs])
    assert values[-1] == pytest.approx(game.solve(solver="CLARABEL"), rel=1e-5)


def test_a_set_of_the_users_own_is_what_the_parameters_are_short_for():
    ball = SupportMeasureBall(nu=0.5, kernel="laplace", bandwidth=0.7, gamma=0.01)
    by_set = small(uncertainty_set=ball).fit(SHOPS)
    by_parameters = small(nu=0.5, kernel="laplace", bandwidth=0.7, gamma=0.01).fit(SHOPS)
    assert by_set.objective_ == by_parameters.objective_
    assert not hasattr(ball, "weights_")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nu", 0.3),
        ("kernel", "laplace"),
        ("bandwidth", 1.0),
        ("gamma", 0.1),
        ("scale", True),
        ("clip", 0.1),
    ],
)
def test_a_set_beside_a_ball_parameter_is_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}=.* has no effect where uncertainty_set"):
        small(uncertainty_set=SupportMeasureBall(), **{name: value}).fit(SHOPS)


# The paper's variants


def reduced_programme(model, given):
    """eq:discretized_SMC_DRO_SIP_SOCP with g in the span of given points, by cvxpy."""
    support, ball = model.solution_.support, model.uncertainty_set_
    k = describe(ball.kernel)
    eigenvalues, vectors = np.linalg.eigh(kernel_matrix(k, given, given))
    keep = eigenvalues > 1e-12 * eigenvalues.max()
    coefficients = vectors[:, keep] / np.sqrt(eigenvalues[keep])  # g = sum_j (C y)_j k(., given_j)
    values = kernel_matrix(k, support, given) @ coefficients
    center = reference.center_values(given, SHOPS, ball.weights, k) @ coefficients
    x, y, beta = cp.Variable(2, nonneg=True), cp.Variable(keep.sum()), cp.Variable()
    costs = reference.newsvendor(x, support, *np.array([[50, 40], [20, 15], [5, 3], [10, 8]]))
    rows = [cost <= values[row] @ y + beta for row, cost in enumerate(costs)]
    objective = center @ y + ball.radius * cp.norm(y) + beta
    return reference.accurate_value(cp.Problem(cp.Minimize(objective), rows))


@pytest.mark.parametrize("rows", ["generated", "all"])
@pytest.mark.parametrize("n_herding", [1, 2, 4])
def test_the_herded_representer_solves_the_reduced_programme(rows, n_herding):
    settings = {"nu": 0.6, "epsilon": 1e-6, "max_iter": 100, "max_rows": 10}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = small(representer="herded", rows=rows, n_herding=n_herding, **settings).fit(SHOPS)
    exact = small(nu=0.6).fit(SHOPS)
    herded = []
    for shop in SHOPS:
        chosen = herding(rbf(model.uncertainty_set_.bandwidth), shop, n_herding)
        herded.append(shop[sorted(set(chosen))])
    given = np.vstack([*herded, model.solution_.support[len(X) :]])
    assert model.objective_ == pytest.approx(reduced_programme(model, given), rel=1e-5)
    assert model.objective_ >= exact.objective_ - 1e-5 * abs(exact.objective_)


@pytest.mark.parametrize("representer", ["full", "exact"])
@pytest.mark.parametrize("rows", ["generated", "all"])
def test_full_and_exact_representers_solve_the_whole_programme(representer, rows):
    model = small(nu=0.6, representer=representer, rows=rows, epsilon=1e-6).fit(SHOPS)
    reduced = reduced_programme(model, model.solution_.support)
    assert model.objective_ == pytest.approx(reduced, rel=1e-5)


def test_algorithm_2_adds_at_most_c_max_rows_a_round_and_stops_at_epsilon():
    model = small(nu=0.6, representer="full", n_seeds=3, epsilon=0.5, max_rows=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(SHOPS)
    solution = model.solution_
    assert len(solution.active) <= 3 + 4 * solution.iterations
    exact = small(nu=0.6).fit(SHOPS)
    # A violation of epsilon moves the value by epsilon at most: beta can rise by that much.
    assert exact.objective_ - 1e-5 <= model.objective_ <= exact.objective_ + 0.5 + 1e-5


def test_the_iteration_limit_warns_and_the_bounds_still_hold():
    exact = small(nu=0.6).fit(SHOPS)
    with pytest.warns(ConvergenceWarning, match="iteration limit"):
        model = small(nu=0.6, max_iter=1, max_rows=1, tol=1e-9).fit(SHOPS)
    assert model.solution_.status == "iteration limit"
    assert model.solution_.lower_bound <= exact.objective_ + 1e-6
    assert model.solution_.upper_bound >= exact.solution_.lower_bound - 1e-6
    assert model.solution_.gap > 1e-9


def test_herded_gram_matrices_shape_the_ball_as_in_algorithm_1():
    plain, herded = (small(gram=gram, n_herding=3).fit(SHOPS) for gram in ("samples", "herded"))
    assert plain.uncertainty_set_.radius != herded.uncertainty_set_.radius
    whole = small(gram="herded", n_herding=50).fit(SHOPS)  # T above every n_i takes them whole
    assert whole.uncertainty_set_.radius == pytest.approx(plain.uncertainty_set_.radius, rel=1e-9)


# Paths


@pytest.mark.parametrize("nus", [[0.05, 0.2, 0.5, 0.9], [0.9, 0.1]])
def test_a_path_is_what_single_fits_give_from_one_pass(nus, monkeypatch):
    passes = []
    original = Embedding.compute

    def counted(*arguments, **keywords):
        passes.append(1)
        return original(*arguments, **keywords)

    monkeypatch.setattr(Embedding, "compute", counted)
    models = small(tol=1e-8).path(SHOPS, nus)
    assert len(passes) == 1
    for nu, model in zip(nus, models, strict=True):
        single = small(tol=1e-8, nu=nu).fit(SHOPS)
        assert model.nu == nu
        assert model.objective_ == pytest.approx(single.objective_, rel=1e-7)
        np.testing.assert_allclose(
            model.uncertainty_set_.weights, single.uncertainty_set_.weights, atol=1e-12
        )


# Degenerate data


@pytest.mark.parametrize(
    "tables",
    [
        [SHOPS[0]],
        [SHOPS[0], SHOPS[0], SHOPS[0]],
        [np.array([[1.5, 2.0]])],
        [np.full((4, 2), 3.0), np.full((2, 2), 3.0)],
    ],
    ids=["one source", "identical sources", "one sample", "one point"],
)
def test_without_spread_between_sources_the_average_decides(tables):
    with pytest.warns(DegenerateDataWarning, match="radius 0"):
        model = small().fit(tables)
    pooled = np.vstack(tables)
    candidates = [np.array([a, b]) for a in pooled[:, 0] for b in pooled[:, 1]]
    least = min(plain_cost(x, tables[0]).mean() for x in candidates)
    assert model.objective_ == pytest.approx(least, rel=1e-9)
    assert model.solution_.gap <= 1e-9
    assert model.solution_.witness is None
    assert model.solution_.worst_case_weights[len(pooled) :].sum() == 0


def test_a_constant_column_and_duplicate_points_are_no_obstacle():
    tables = [np.column_stack([shop[:, 0], np.full(len(shop), 2.0)]) for shop in SHOPS]
    tables[0] = np.vstack([tables[0], tables[0], tables[1]])
    for scale in (False, True):
        model = small(scale=scale).fit(tables)
        assert model.solution_.status == "optimal"
        assert model.decision_[1] == pytest.approx(2.0)


@pytest.mark.parametrize("factor", [1e-6, 1e6])
def test_units_of_data_and_money_may_be_tiny_or_huge(factor):
    plain = small(tol=1e-8).fit(SHOPS)
    scaled = small(tol=1e-8 * min(1, factor)).fit([factor * shop for shop in SHOPS])
    assert scaled.objective_ == pytest.approx(factor * plain.objective_, rel=1e-5)


# Failures


def test_a_failing_solver_is_replaced_by_the_next(monkeypatch):
    expected = small(nu=0.6).fit(SHOPS).objective_
    used = []

    def failing(*arguments, **keywords):
        used.append(1)
        return conic.ConicSolution(np.full(1, np.nan), np.full(1, np.nan), "NumericalError", "x")

    monkeypatch.setattr(conic, "_clarabel", failing)
    model = small(nu=0.6, tol=1e-5).fit(SHOPS)
    assert used
    assert model.objective_ == pytest.approx(expected, rel=1e-4)
    assert model.solution_.gap <= 1e-5


def test_where_every_solver_fails_there_is_an_error_and_no_result(monkeypatch):
    def failing(*arguments, **keywords):
        return conic.ConicSolution(np.full(1, np.nan), np.full(1, np.nan), "NumericalError", "x")

    for name in ("_clarabel", "_clarabel_regularized", "_scs"):
        monkeypatch.setattr(conic, name, failing)
    model = small(nu=0.6)
    with pytest.raises(SolverError, match="no conic solver") as caught:
        model.fit(SHOPS)
    assert caught.value.status == "NumericalError"
    assert not hasattr(model, "solution_")
    assert not hasattr(model, "decision_")


def test_nothing_is_printed_even_where_the_solver_fails():
    code = """
import warnings
import numpy as np
from roodso import RooDSO
from roodso.losses import Newsvendor
from roodso.solver import conic

warnings.simplefilter("ignore")
real, left = conic.solve_conic, [2]

def fragile(*arguments, **keywords):
    left[0] -= 1
    if left[0] < 0:
        raise conic.SolverError("gone", "Failed")
    return real(*arguments, **keywords)

conic.solve_conic = fragile
rng = np.random.default_rng(0)
shops = [rng.uniform(0, 1, 2) + rng.uniform(1, 3, (9, 2)) for _ in range(5)]
model = RooDSO(Newsvendor(price=5, cost=2), nu=1.0, max_rows=1, random_state=0).fit(shops)
assert "solver failure" in model.solution_.status
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


# Bad arguments


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"nu": 0}, ValueError, r"nu must be a number in \(0, 1\], got 0"),
        ({"nu": 1.2}, ValueError, "nu must be"),
        ({"nu": "0.2"}, TypeError, "nu must be"),
        ({"gamma": -0.1}, ValueError, "gamma must be"),
        ({"kernel": "cosine"}, ValueError, "kernel must be one of 'rbf'"),
        ({"bandwidth": 0}, ValueError, "bandwidth must be"),
        ({"bandwidth": "mean"}, ValueError, "bandwidth must be .*'median'"),
        ({"n_support": -1}, ValueError, "n_support must be a whole number"),
        ({"n_support": 2.5}, TypeError, "n_support must be a whole number"),
        ({"support_box": ([0, 0], [-1, 1])}, ValueError, "support_box must have lower <= upper"),
        ({"representer": "sparse"}, ValueError, "representer must be one of 'exact'"),
        ({"rows": "some"}, ValueError, "rows must be one of 'generated', 'all'"),
        ({"n_herding": 0}, ValueError, "n_herding must be a whole number >= 1"),
        ({"tol": 0}, ValueError, "tol must be"),
        ({"max_iter": 0}, ValueError, "max_iter must be"),
        ({"max_rows": 0}, ValueError, "max_rows must be"),
        ({"n_seeds": 0}, ValueError, "n_seeds must be"),
        ({"epsilon": 0.0}, ValueError, "epsilon must be"),
        ({"time_limit": -1}, ValueError, "time_limit must be"),
        ({"scale": "yes"}, ValueError, "scale must be True, False or 'robust'"),
        ({"support_box": 0.5}, ValueError, r"support_box must be a number in \(0, 0.5\)"),
        ({"clip": 0.7}, ValueError, r"clip must be a number in \(0, 0.5\)"),
        ({"random_state": "zero"}, TypeError, "random_state must be"),
        ({"n_jobs": 0}, ValueError, "n_jobs must be"),
        ({"progress": 3}, TypeError, "progress must be callable"),
        ({"loss": "newsvendor"}, TypeError, "loss must be a roodso loss"),
        ({"uncertainty_set": 3}, TypeError, "uncertainty_set must be a learner"),
    ],
)
def test_bad_parameters_are_refused_before_any_work(parameters, error, message, monkeypatch):
    monkeypatch.setattr(Embedding, "compute", lambda *_, **__: pytest.fail("work was done"))
    model = small().set_params(**parameters)
    with pytest.raises(error, match=message):
        model.fit(SHOPS)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (Newsvendor(price=[1, 2, 3], cost=1), "price must be a number or 2 numbers"),
        (Newsvendor(price=5, cost=2, upper=-1), "upper must be >= lower"),
        (Newsvendor(price=-9, cost=1), "price \\+ backorder \\+ holding must be >= 0"),
        (Newsvendor(price=5, cost=2, A_ub=[[1, 1]], b_ub=[-1]), "no feasible"),
        (Newsvendor(price=5, cost=2, A_ub=[[1, 1]]), "A_ub and b_ub must be given together"),
        (CVaRPortfolio(tail=0), "tail must be"),
        (CVaRPortfolio(lower=0.6), "feasible"),
        (ConvexLoss(value=lambda x, xi: xi[:, 0]), "finite bounds"),
    ],
)
def test_losses_that_do_not_fit_are_refused_before_any_work(loss, message, monkeypatch):
    monkeypatch.setattr(Embedding, "compute", lambda *_, **__: pytest.fail("work was done"))
    with pytest.raises(ValueError, match=message):
        RooDSO(loss, n_support=5).fit(SHOPS)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([[1.0, np.nan]], "nan in row 0, column 1"),
        ([[1.0, np.inf]], "inf in row 0, column 1"),
        (np.empty((0, 2)), "at least 1 row"),
        ([[1.0, 2.0, 3.0]], "must have 2 columns, got 3"),
    ],
)
def test_bad_tables_are_refused_where_they_are(table, message):
    with pytest.raises(ValueError, match=message):
        small().fit([SHOPS[0], table])


def test_worst_case_cost_of_a_wrong_decision_is_refused():
    model = small().fit(SHOPS)
    with pytest.raises(ValueError, match="x must be a number or 2 numbers"):
        model.worst_case_cost([1, 2, 3])
    with pytest.raises(ValueError, match="x must hold finite numbers"):
        model.worst_case_cost([1, np.nan])


def test_instances_with_the_same_seed_are_the_same():
    first, second = draw(3), draw(3)
    np.testing.assert_array_equal(np.vstack(first.tables), np.vstack(second.tables))
