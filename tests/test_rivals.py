"""The methods without a kernel stand on the same footing as RooDSO: data, results, scikit-learn."""

import copy
import inspect
import pickle

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut

import roodso
from instances import draw
from roodso import (
    SAA,
    BarycenterSAA,
    ConvexHullDRO,
    IntersectionDRO,
    RooDSO,
    WassersteinDRO,
)
from roodso.losses import ConvexLoss, CVaRPortfolio, Newsvendor

LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
NAMES = ["loaves", "rolls"]
RNG = np.random.default_rng(0)
TABLES = {
    name: pd.DataFrame(RNG.uniform(low, low + 1, (n, 2)), columns=NAMES)
    for name, low, n in [("north", 1, 12), ("south", 2, 9), ("east", 0.5, 15)]
}
STACKED = pd.concat(TABLES.values(), ignore_index=True)
GROUPS = np.repeat(list(TABLES), [len(table) for table in TABLES.values()])
METHODS = {
    "SAA": (SAA, {}),
    "hull": (ConvexHullDRO, {"tail": 0.5}),
    "ball": (WassersteinDRO, {"radius": 0.2}),
    "ball in a box": (WassersteinDRO, {"radius": 0.2, "support": "box", "norm": np.inf}),
    "barycenter": (BarycenterSAA, {"random_state": 0}),
    "intersection": (IntersectionDRO, {"radius": 2.0, "n_support": 20, "random_state": 0}),
}
GRIDS = {
    "SAA": {"loss__price": [[50, 40], [60, 50]]},
    "hull": {"tail": [0.3, 1.0]},
    "ball": {"radius": [0.0, 0.1]},
    "ball in a box": {"norm": [1, 2]},
    "barycenter": {"n_atoms": [3, 6]},
    "intersection": {"radius": [1.5, 2.0]},
}

every_method = pytest.mark.parametrize("name", METHODS)


def make(name, loss=LOSS, **more):
    method, parameters = METHODS[name]
    return method(loss, **(parameters | more))


def same(a, b):
    np.testing.assert_array_equal(a.decision_, b.decision_)
    assert a.objective_ == b.objective_
    s, t = a.solution_, b.solution_
    assert (s.lower_bound, s.upper_bound, s.status) == (t.lower_bound, t.upper_bound, t.status)
    for field in ("support", "worst_case_weights", "mixture", "multipliers", "internal"):
        np.testing.assert_array_equal(getattr(s, field), getattr(t, field))
    x = 0.9 * np.asarray(a.decision_)
    one, other = a.worst_case_cost(x), b.worst_case_cost(x)
    assert (one.lower_bound, one.upper_bound) == (other.lower_bound, other.upper_bound)
    pd.testing.assert_frame_equal(s.worst_case(), t.worst_case())


@every_method
def test_every_form_of_data_gives_the_same_model(name):
    model = make(name).fit(TABLES)
    same(model, make(name).fit(STACKED, groups=GROUPS))
    arrays = make(name).fit([table.to_numpy() for table in TABLES.values()])
    np.testing.assert_array_equal(arrays.decision_, model.decision_)
    assert isinstance(arrays.decision_, np.ndarray)
    assert isinstance(model.decision_, pd.Series)
    assert list(model.decision_.index) == NAMES
    assert list(model.feature_names_in_) == NAMES
    assert model.n_features_in_ == 2


@every_method
def test_results_are_those_of_every_method(name):
    model = make(name).fit(TABLES)
    solution = model.solution_
    assert model.objective_ == solution.upper_bound
    assert solution.lower_bound <= solution.upper_bound
    assert solution.status == "optimal"
    assert solution.gap <= 1e-6
    assert solution.worst_case_weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert len(solution.worst_case_weights) == len(solution.support)
    assert solution.worst_case()["weight"].sum() == pytest.approx(1.0, abs=1e-6)
    roodso_model = RooDSO(LOSS, n_support=10, random_state=0).fit(TABLES)
    own = {attribute for attribute in vars(roodso_model) if attribute.endswith("_")}
    assert own - {"set_learner_", "uncertainty_set_"} <= set(vars(model))


@every_method
def test_score_is_minus_the_mean_cost(name):
    model = make(name).fit(TABLES)
    new = np.random.default_rng(1).uniform(0.5, 3, (7, 2))
    x = np.asarray(model.decision_)
    over, under = np.maximum(x - new, 0), np.maximum(new - x, 0)
    costs = -np.minimum(x, new) @ [50, 40] + x @ [20, 15] + over @ [5, 3] + under @ [10, 8]
    assert model.score(new) == pytest.approx(-costs.mean())
    frame = pd.DataFrame(new, columns=NAMES)[NAMES[::-1]]
    assert model.score(frame) == pytest.approx(-costs.mean())


@every_method
def test_worst_case_cost_of_the_decision_is_the_objective(name):
    model = make(name).fit(TABLES)
    cost = model.worst_case_cost(model.decision_)
    assert cost.upper_bound == pytest.approx(model.objective_, rel=3e-6)
    reordered = model.decision_[NAMES[::-1]]
    assert model.worst_case_cost(reordered).upper_bound == cost.upper_bound
    other = model.worst_case_cost([0.1, 9.0])
    assert other.lower_bound > model.objective_


@every_method
def test_clone_and_parameters(name):
    model = make(name)
    copied = clone(model)
    assert repr(copied.get_params(deep=False)) == repr(model.get_params(deep=False))
    copied.set_params(loss__price=[60, 50])
    assert copied.loss.price == [60, 50]
    assert model.loss.price == [50, 40]
    required = [
        p.name
        for p in inspect.signature(type(model)).parameters.values()
        if p.default is inspect.Parameter.empty
    ]
    assert required == ["loss"]


@every_method
def test_grid_search_with_routing(name):
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(make(name), GRIDS[name], cv=LeaveOneGroupOut(), error_score="raise")
        search.fit(STACKED, groups=GROUPS)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    same(search.best_estimator_, clone(search.best_estimator_).fit(STACKED, groups=GROUPS))


@every_method
def test_pickle_and_portable_files(name, tmp_path):
    model = make(name).fit(TABLES)
    same(model, pickle.loads(pickle.dumps(model)))
    same(model, copy.deepcopy(model))
    path = tmp_path / "model.roodso"
    model.save(path)
    same(model, roodso.load(path))
    before, after = (m.get_params(deep=False) for m in (model, roodso.load(path)))
    assert {key: before[key] for key in before if key != "loss"} == {
        key: after[key] for key in after if key != "loss"
    }
    model.save(path, include_loss=False)
    same(model, roodso.load(path, loss=LOSS))


@every_method
@pytest.mark.parametrize("seed", range(6))
def test_every_loss_of_the_core_is_accepted(name, seed):
    """The six kinds of losses; a box needs the form by columns, the whole space a constant."""
    instance = draw(seed)
    loss = instance.loss
    if isinstance(loss, ConvexLoss) and METHODS[name][0] is WassersteinDRO:
        loss = clone(loss).set_params(lipschitz=20.0)
        if name == "ball in a box":
            with pytest.raises(ValueError, match='support="box" needs a loss'):
                make(name, loss).fit(instance.tables)
            return
    model = make(name, loss).fit(instance.tables)
    assert model.solution_.status == "optimal"
    assert np.isfinite(model.score(np.vstack(instance.tables)))
    saa = SAA(loss).fit(instance.tables)
    if name.startswith("ball"):
        assert model.objective_ >= saa.objective_ - 1e-6 * max(1, abs(saa.objective_))


@every_method
def test_side_constraints_hold(name):
    loss = Newsvendor(price=50, cost=20, A_ub=[[1.0, 1.0]], b_ub=[2.0])
    model = make(name, loss).fit(TABLES)
    assert model.decision_.sum() <= 2.0 + 1e-9
    free = make(name, Newsvendor(price=50, cost=20)).fit(TABLES)
    assert model.objective_ >= free.objective_ - 1e-9  # where they do not bind, up to rounding


@every_method
def test_bounds_on_portfolio_weights_hold(name):
    returns = [0.05 * RNG.standard_normal((9, 3)) for _ in range(3)]
    loss = CVaRPortfolio(upper=0.5, A_ub=[[1, 0, 0]], b_ub=[0.2])
    more = {"radius": 0.01} if "ball" in name else {}
    model = make(name, loss, **more).fit(returns)
    assert model.decision_.sum() == pytest.approx(1.0)
    assert model.decision_.max() <= 0.5 + 1e-9
    assert model.decision_[0] <= 0.2 + 1e-9


@every_method
@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"loss": "newsvendor"}, TypeError, "loss must be a roodso loss"),
        ({"tol": 0}, ValueError, "tol must be a number"),
        ({"max_iter": 0}, ValueError, "max_iter must be a whole number >= 1"),
        ({"time_limit": -1}, ValueError, "time_limit must be a number"),
        ({"progress": 5}, TypeError, "progress must be callable or None, got 5"),
    ],
)
def test_bad_parameters_are_refused_before_any_work(name, parameters, error, message):
    with pytest.raises(error, match=message):
        make(name).set_params(**parameters).fit(None)


@every_method
@pytest.mark.parametrize("tables", [[[[1.0, 2.0]]], [[[1.0, 2.0]]] * 3, [np.ones((4, 2))] * 2])
def test_one_row_one_source_and_no_spread_are_solved(name, tables):
    model = make(name).fit(tables)
    assert model.solution_.status == "optimal"
    np.testing.assert_allclose(model.decision_, np.asarray(tables[0])[0], atol=1e-6)


def test_stacked_data_without_groups_say_what_to_do():
    with pytest.raises(ValueError, match="groups must name the source of each row"):
        SAA(LOSS).fit(STACKED)
