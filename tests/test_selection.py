"""Choosing parameters on held-out sources: `select`, its folds, criteria and journal."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GroupShuffleSplit, LeaveOneGroupOut

from roodso import SAA, ConvexHullDRO, RooDSO, WassersteinDRO
from roodso.datasets import make_newsvendor_sources
from roodso.losses import ConvexLoss, CVaRPortfolio, Newsvendor
from roodso.model_selection import WithinSourceSplit, compare, fit_grid, paper_grid, select
from roodso.model_selection.criteria import summarize
from roodso.model_selection.folds import make_folds
from roodso.model_selection.journal import Journal, fingerprint
from roodso.sets import ConformalBall, FixedBall, SupportMeasureBall, ThickenedHull
from roodso.sources import Sources

LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
NUS = [0.1, 0.3, 0.7]


def mean_cost(x, table):
    """eq:multi_newsvendor with LOSS's terms, written out."""
    p, c, h, b = (np.array(getattr(LOSS, n)) for n in ("price", "cost", "holding", "backorder"))
    over, under = np.maximum(x - table, 0), np.maximum(table - x, 0)
    return float((-np.minimum(x, table) @ p + c @ x + over @ h + under @ b).mean())


@pytest.fixture
def shops():
    tables = make_newsvendor_sources(6, (10, 30), random_state=4)
    return {f"shop {i}": table for i, table in enumerate(tables)}


@pytest.fixture
def model():
    return RooDSO(LOSS, n_support=30, random_state=0, n_jobs=1, tol=1e-8)


def costs_of(found, **wanted):
    """The rows of ``costs_`` with these values."""
    table = found.costs_
    for column, value in wanted.items():
        table = table[table[column] == value]
    return table


def without(tables, label):
    return {name: table for name, table in tables.items() if name != label}


# Folds


def test_leaving_one_source_out_is_the_default():
    sources = Sources.from_data({"b": [[1.0], [2.0]], "a": [[3.0]]})
    first, second = make_folds(sources)
    assert first.train.tolist() == [2]
    assert [(label, rows.tolist()) for label, rows in first.units] == [("b", [0, 1])]
    assert second.train.tolist() == [0, 1]


def test_within_source_split_holds_out_a_share_of_each_source():
    groups = np.repeat(["a", "b", "c", "d"], [10, 25, 1, 2])
    splits = list(WithinSourceSplit(n_splits=3, random_state=1).split(None, None, groups))
    assert len(splits) == 3
    for train, test in splits:
        assert sorted([*train, *test]) == list(range(38))
        held_out = pd.Series(groups[test]).value_counts()
        assert held_out.to_dict() == {"b": 5, "a": 2, "d": 1}
    assert not np.array_equal(splits[0][1], splits[1][1])
    again = list(WithinSourceSplit(n_splits=3, random_state=1).split(None, None, groups))
    np.testing.assert_array_equal(splits[2][1], again[2][1])


def test_labels_that_print_alike_are_different_sources():
    groups = np.array([1, 1, "1", "1"], dtype=object)
    _, test = next(WithinSourceSplit(test_size=0.5, random_state=0).split(None, None, groups))
    assert len(test) == 2
    assert {type(groups[row]) for row in test} == {int, str}


@pytest.mark.parametrize(
    ("cv", "error", "message"),
    [
        (3, TypeError, "cv must be None, a scikit-learn splitter"),
        ([([0, 1], [9999])], ValueError, "row numbers from 0 to"),
        ([([], [1])], ValueError, "row numbers from 0 to"),
        ([], ValueError, "at least one pair"),
        (WithinSourceSplit(test_size=1.5), ValueError, "test_size"),
        (WithinSourceSplit(n_splits=0), ValueError, "n_splits"),
    ],
)
def test_bad_folds_are_refused(cv, error, message, model, shops):
    with pytest.raises(error, match=message):
        select(model, {"nu": NUS}, shops, cv=cv)


# Criteria


def test_criteria_by_hand():
    summary = summarize(np.array([5.0, -1.0, 3.0, 1.0]), np.array([0.0, -2.0, 3.0, 0.0]), tail=0.5)
    assert summary == {"mean": 2.0, "worst": 5.0, "cvar": 4.0, "regret": 1.75, "worst regret": 5.0}


def test_cvar_takes_a_fraction_of_a_source():
    # 30% of four sources: the worst whole (25%), and a fifth of the next.
    summary = summarize(np.array([5.0, -1.0, 3.0, 1.0]), np.zeros(4), tail=0.3)
    assert summary["cvar"] == pytest.approx((0.25 * 5 + 0.05 * 3) / 0.3)


# Against plain refits


@pytest.mark.parametrize("kernel", ["rbf", "laplace"])
def test_equals_refitting_with_the_same_kernel_and_box(kernel, model, shops):
    model.set_params(kernel=kernel)
    found = select(model, {"nu": NUS}, shops)
    everything = np.vstack(list(shops.values()))
    whole = model.fit(shops)
    fixed = {
        "bandwidth": whole.uncertainty_set_.bandwidth,
        "support_box": (everything.min(axis=0), everything.max(axis=0)),
    }
    for nu_place, nu in enumerate(NUS):
        for label, table in shops.items():
            fresh = RooDSO(
                LOSS, nu=nu, kernel=kernel, n_support=30, random_state=0, tol=1e-8, **fixed
            ).fit(without(shops, label))
            row = costs_of(found, candidate=nu_place, source=label).iloc[0]
            assert row["objective"] == pytest.approx(fresh.objective_, rel=1e-6)
            assert row["cost"] == pytest.approx(mean_cost(fresh.decision_, table), rel=1e-4)


def test_with_refit_kernel_equals_plain_refits(model, shops):
    found = select(model, {"nu": NUS}, shops, refit_kernel=True)
    for place, nu in enumerate(NUS):
        for label, table in shops.items():
            fresh = RooDSO(LOSS, nu=nu, n_support=30, random_state=0, tol=1e-8)
            fresh.fit(without(shops, label))
            row = costs_of(found, candidate=place, source=label).iloc[0]
            assert row["objective"] == pytest.approx(fresh.objective_, rel=1e-6)
            assert row["cost"] == pytest.approx(mean_cost(fresh.decision_, table), rel=1e-4)


def test_a_numeric_bandwidth_is_kept(model, shops):
    model.set_params(bandwidth=0.37, n_support=0)
    for refit_kernel in (False, True):
        found = select(model, {"nu": [0.3]}, shops, refit_kernel=refit_kernel)
        assert found.best_estimator_.uncertainty_set_.bandwidth == 0.37
        for row in found.costs_.itertuples():
            fresh = RooDSO(LOSS, nu=0.3, bandwidth=0.37, n_support=0, tol=1e-8)
            fresh.fit(without(shops, row.source))
            assert row.objective == pytest.approx(fresh.objective_, rel=1e-6)


def test_within_sources_equals_plain_fits_to_the_training_rows(model, shops):
    sources = Sources.from_data(shops)
    cv = WithinSourceSplit(n_splits=2, random_state=0)
    model.set_params(bandwidth=0.5, n_support=0)
    found = select(model, {"nu": NUS}, shops, cv=cv)
    for fold, (train, test) in enumerate(cv.split(None, None, sources.codes)):
        fresh = RooDSO(LOSS, nu=NUS[1], bandwidth=0.5, n_support=0, tol=1e-8)
        fresh.fit(sources.samples[train], groups=sources.codes[train])
        rows = costs_of(found, candidate=1, fold=fold)
        assert rows["rows"].sum() == len(test)
        assert (rows["objective"] == rows["objective"].iloc[0]).all()
        assert rows["objective"].iloc[0] == pytest.approx(fresh.objective_, rel=1e-6)
        for row in rows.itertuples():
            code = sources.labels.index(row.source)
            table = sources.samples[test[sources.codes[test] == code]]
            assert row.cost == pytest.approx(mean_cost(fresh.decision_, table), rel=1e-4)


@pytest.mark.parametrize(
    "rival",
    [SAA(LOSS), ConvexHullDRO(LOSS), WassersteinDRO(LOSS, radius=0.1)],
    ids=lambda rival: type(rival).__name__,
)
def test_rivals_equal_plain_refits(rival, shops):
    found = select(rival, {}, shops)
    for row in found.costs_.itertuples():
        fresh = type(rival)(**rival.get_params(deep=False)).fit(without(shops, row.source))
        assert row.cost == pytest.approx(mean_cost(fresh.decision_, shops[row.source]), rel=1e-9)


def test_folds_may_hold_out_several_sources(model, shops):
    X = np.vstack(list(shops.values()))
    groups = np.repeat(list(shops), [len(t) for t in shops.values()])
    cv = GroupShuffleSplit(n_splits=2, test_size=2, random_state=0)
    found = select(model.set_params(bandwidth=0.5, n_support=0), {"nu": [0.5]}, X, groups, cv=cv)
    for fold, (train, _) in enumerate(cv.split(X, None, groups)):
        fresh = RooDSO(LOSS, nu=0.5, bandwidth=0.5, n_support=0, tol=1e-8)
        fresh.fit(X[train], groups=groups[train])
        rows = costs_of(found, fold=fold)
        assert len(rows) == 2
        assert rows["objective"].iloc[0] == pytest.approx(fresh.objective_, rel=1e-6)


# What is chosen


@pytest.mark.parametrize("criterion", ["mean", "worst", "cvar", "regret", "worst regret"])
def test_the_best_is_the_best_by_hand(criterion, model, shops):
    found = select(model, {"nu": NUS}, shops, criterion=criterion, tail=0.4)
    by_hand = []
    for place in range(len(NUS)):
        part = costs_of(found, candidate=place)
        cost, regret = part["cost"].to_numpy(), (part["cost"] - part["optimum"]).to_numpy()
        worst = np.sort(cost)[::-1]
        by_hand.append(
            {
                "mean": cost.mean(),
                "worst": cost.max(),
                "cvar": (worst[0] + worst[1] + 0.4 * worst[2]) / 2.4,
                "regret": regret.mean(),
                "worst regret": regret.max(),
            }[criterion]
        )
    np.testing.assert_allclose(found.cv_results_[criterion], by_hand, rtol=1e-12)
    assert found.best_index_ == np.argmin(by_hand)
    assert found.best_params_ == {"nu": NUS[found.best_index_]}
    assert found.best_score_ == pytest.approx(-min(by_hand), rel=1e-12)
    assert found.cv_results_["rank"][found.best_index_] == 1


def test_a_callable_gets_the_costs(model, shops):
    found = select(model, {"nu": NUS}, shops, criterion=lambda costs: np.median(costs))
    medians = found.costs_.groupby("candidate")["cost"].median()
    assert found.best_index_ == medians.argmin()


def test_the_optimum_is_that_of_the_held_out_source(model, shops):
    found = select(model, {"nu": [0.5]}, shops)
    for row in found.costs_.itertuples():
        table = shops[row.source]
        grid = [np.array([x, y]) for x in table[:, 0] for y in table[:, 1]]
        assert row.optimum == pytest.approx(min(mean_cost(x, table) for x in grid), rel=1e-12)


def test_the_best_estimator_is_a_plain_fit(model, shops):
    found = select(model, {"nu": NUS}, shops)
    plain = RooDSO(LOSS, n_support=30, random_state=0, tol=1e-8, **found.best_params_).fit(shops)
    np.testing.assert_array_equal(found.best_estimator_.decision_, plain.decision_)
    assert found.best_estimator_.objective_ == plain.objective_
    assert not hasattr(model, "solution_")
    assert select(model, {"nu": NUS}, shops, refit=False).best_estimator_ is None


def test_parameters_that_shape_the_kernel_can_be_searched_too(model, shops):
    grid = {"nu": [0.2, 0.6], "kernel": ["rbf", "laplace"], "n_support": [0, 20]}
    found = select(model, grid, shops)
    assert pd.DataFrame(found.cv_results_).shape[0] == 8
    for place, parameters in enumerate(found.cv_results_["params"]):
        alone = select(model, {name: [value] for name, value in parameters.items()}, shops)
        rows = costs_of(found, candidate=place)
        np.testing.assert_allclose(rows["objective"], alone.costs_["objective"], rtol=1e-6)


@pytest.mark.parametrize(
    ("learner", "name", "values"),
    [
        (ConformalBall(nu=0.4), "method", ["split", "leave-one-out"]),
        (ConformalBall(nu=0.4), "training_share", [0.2, 0.6]),
        (ThickenedHull(nu=0.4), "thickness", [0.1, "split"]),
        (SupportMeasureBall(), "clip", [None, 0.1]),
        (FixedBall(), "scale", [False, "robust"]),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else None,
)
def test_sets_learned_in_another_kernel_share_none(learner, name, values):
    """The training part of a calibrated set shapes its kernel, so the promise depends on it."""
    shops = dict(enumerate(make_newsvendor_sources(8, (10, 20), random_state=7)))
    model = RooDSO(LOSS, uncertainty_set=learner, n_support=10, random_state=0, n_jobs=1)
    fitted = fit_grid(model, {f"uncertainty_set__{name}": values}, shops)
    bandwidths = set()
    for value, found in zip(values, fitted, strict=True):
        alone = clone(model).set_params(**{f"uncertainty_set__{name}": value}).fit(shops)
        assert found.uncertainty_set_.space.kernel == alone.uncertainty_set_.space.kernel
        assert found.uncertainty_set_.radius == pytest.approx(alone.uncertainty_set_.radius)
        assert found.objective_ == pytest.approx(alone.objective_, rel=1e-6)
        bandwidths.add(found.uncertainty_set_.bandwidth)
    assert len(bandwidths) == 2


def test_sets_that_differ_in_size_alone_share_one_pass(shops, monkeypatch):
    passes = []
    original = RooDSO._prepare
    monkeypatch.setattr(
        RooDSO, "_prepare", lambda self, data: passes.append(1) or original(self, data)
    )
    model = RooDSO(LOSS, uncertainty_set=ThickenedHull(), n_support=10, random_state=0, n_jobs=1)
    grid = {"uncertainty_set__thickness": [0.1, 0.2], "uncertainty_set__tail": [None, 0.5]}
    select(model, grid, shops)
    assert len(passes) == 1


def test_losses_of_every_kind(shops):
    returns = {name: 0.02 * (table - 2) for name, table in shops.items()}
    quadratic = ConvexLoss(
        value=lambda x, xi: ((x - xi) ** 2).sum(axis=1),
        subgradient=lambda x, xi: 2 * (x - xi),
        lower=-1,
        upper=1,
    )
    for loss in (CVaRPortfolio(), quadratic):
        model = RooDSO(loss, n_support=10, random_state=0)
        found = select(model, {"nu": [0.3, 0.8]}, returns)
        for row in found.costs_.itertuples():
            assert row.cost >= row.optimum - 1e-6 * max(1, abs(row.optimum))


def test_results_make_a_frame(model, shops):
    found = select(model, [{"nu": [0.1, 0.2]}, {"gamma": [0.1]}], shops)
    frame = pd.DataFrame(found.cv_results_)
    assert frame["param_nu"].tolist() == [0.1, 0.2, None]
    assert frame["param_gamma"].tolist() == [None, None, 0.1]
    assert set(frame["rank"]) <= {1, 2, 3}


def test_frames_and_groups(model, shops):
    frame = pd.DataFrame(np.vstack(list(shops.values())), columns=["loaves", "rolls"])
    groups = pd.Series(np.repeat(list(shops), [len(t) for t in shops.values()]))
    framed = select(model, {"nu": NUS}, frame, groups, cv=LeaveOneGroupOut())
    plain = select(model, {"nu": NUS}, shops)
    pd.testing.assert_frame_equal(
        framed.costs_.drop(columns="seconds").sort_values(["candidate", "source"]),
        plain.costs_.drop(columns="seconds").sort_values(["candidate", "source"]),
    )
    assert list(framed.best_estimator_.decision_.index) == ["loaves", "rolls"]


def test_fit_grid_equals_plain_fits(model, shops):
    for nu, fitted in zip(NUS, fit_grid(model, {"nu": NUS}, shops), strict=True):
        plain = RooDSO(LOSS, nu=nu, n_support=30, random_state=0, tol=1e-8).fit(shops)
        assert fitted.objective_ == pytest.approx(plain.objective_, rel=1e-7)


def test_paper_grids():
    assert paper_grid(RooDSO(LOSS), 5)["nu"] == pytest.approx(np.arange(1, 20) / 20)
    assert paper_grid(WassersteinDRO(LOSS, radius=1.0), 5)["radius"][0] == 0.001
    assert paper_grid(SAA(LOSS), 5) == {}


# Parallel, stopped and resumed


def test_parallel_equals_serial_bit_for_bit(model, shops):
    serial = select(model, {"nu": NUS}, shops)
    parallel = select(model, {"nu": NUS}, shops, n_jobs=2)
    drop = {"columns": "seconds"}
    pd.testing.assert_frame_equal(
        serial.costs_.drop(**drop), parallel.costs_.drop(**drop), check_exact=True
    )


def test_a_stopped_run_loses_no_finished_fold(model, shops, tmp_path, monkeypatch):
    path = tmp_path / "journal.jsonl"
    whole = select(model, {"nu": NUS}, shops)

    class StopError(Exception):
        pass

    def stop_after_two(_, share, __):
        if share >= 2 / 6:
            raise StopError

    with pytest.raises(StopError):
        select(model, {"nu": NUS}, shops, checkpoint=path, progress=stop_after_two)
    assert len(path.read_text().splitlines()) == 1 + 2

    fits = []
    original = RooDSO._fit_prepared

    def counted(self, prepared, warm=None):
        fits.append(self.nu)
        original(self, prepared, warm)

    monkeypatch.setattr(RooDSO, "_fit_prepared", counted)
    resumed = select(model, {"nu": NUS}, shops, checkpoint=path, refit=False)
    assert len(fits) == 4 * len(NUS)
    pd.testing.assert_frame_equal(
        whole.costs_.drop(columns="seconds"),
        resumed.costs_.drop(columns="seconds"),
        check_exact=True,
    )
    select(model, {"nu": NUS}, shops, checkpoint=path, refit=False)
    assert len(fits) == 4 * len(NUS)


def slow_without(label_mark, path, lines):
    """A quadratic loss that waits, where no sample is ``label_mark``, until a file has ``lines``.

    It gives up a minute after it was made. Closures, so that they reach other processes whole.
    """
    import time

    end = time.time() + 60

    def wait(xi):
        while not (xi == label_mark).any() and time.time() < end:
            with open(path) as file:
                if len(file.readlines()) >= lines:
                    return
            time.sleep(0.01)

    def value(x, xi):
        if len(xi) > 5:  # not where a single source is judged
            wait(xi)
        return ((x - xi) ** 2).sum(axis=1)

    def subgradient(x, xi):
        return 2 * (x - xi)

    return ConvexLoss(value=value, subgradient=subgradient, lower=-50, upper=50)


@pytest.mark.parametrize("tool", [select, compare], ids=lambda tool: tool.__name__)
def test_a_slow_fold_holds_no_finished_one_back(tool, tmp_path):
    """In parallel, what is finished is on disk at once: the first waits until it is."""
    path = tmp_path / "journal.jsonl"
    tables = {i: np.full((3, 1), float(i)) for i in range(4)}
    model = SAA(slow_without(0.0, path, lines=3))
    if tool is select:
        select(model, {}, tables, n_jobs=2, checkpoint=path, refit=False)
    else:
        compare({"SAA": model}, tables, n_jobs=2, checkpoint=path)
    order = [json.loads(line)["task"] for line in path.read_text().splitlines()[1:]]
    assert len(order) == 4
    assert "0/0" not in order[:2]


KILLED = """
import sys
from roodso import RooDSO
from roodso.datasets import make_newsvendor_sources
from roodso.losses import Newsvendor
from roodso.model_selection import select

loss = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
shops = make_newsvendor_sources(6, (10, 30), random_state=4)
model = RooDSO(loss, n_support=30, random_state=0, n_jobs=1)


def tell(stage, share, details):
    print(share, flush=True)
    if share >= float(sys.argv[2]):
        sys.stdin.read()  # until killed


select(model, {"nu": [0.1, 0.3, 0.7]}, shops, checkpoint=sys.argv[1], progress=tell)
"""


def test_a_killed_run_loses_no_finished_fold(tmp_path):
    path = tmp_path / "journal.jsonl"
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(path), "0.4"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        while not float(child.stdout.readline()) >= 0.4:
            pass
        child.kill()
    assert len(path.read_text().splitlines()) == 1 + 3
    told = []
    model = RooDSO(LOSS, n_support=30, random_state=0, n_jobs=1)
    shops = make_newsvendor_sources(6, (10, 30), random_state=4)
    grid = {"nu": [0.1, 0.3, 0.7]}
    resumed = select(model, grid, shops, checkpoint=path, progress=lambda *a: told.append(a[1]))
    assert len(told) == 3
    whole = select(model, grid, shops)
    drop = {"columns": "seconds"}
    pd.testing.assert_frame_equal(
        whole.costs_.drop(**drop), resumed.costs_.drop(**drop), check_exact=True
    )


def test_a_line_cut_off_is_dropped_and_computed_anew(model, shops, tmp_path):
    path = tmp_path / "journal.jsonl"
    first = select(model, {"nu": NUS}, shops, checkpoint=path)
    path.write_bytes(path.read_bytes()[:-7])
    second = select(model, {"nu": NUS}, shops, checkpoint=path)
    np.testing.assert_array_equal(first.costs_["cost"], second.costs_["cost"])
    assert len([json.loads(line) for line in path.read_text().splitlines()]) == 1 + 6


def test_another_runs_journal_is_refused_and_kept(model, shops, tmp_path):
    path = tmp_path / "journal.jsonl"
    select(model, {"nu": NUS}, shops, checkpoint=path)
    before = path.read_bytes()
    others = [
        lambda: select(model, {"nu": [0.2]}, shops, checkpoint=path),
        lambda: select(model, {"nu": NUS}, without(shops, "shop 1"), checkpoint=path),
        lambda: select(model.set_params(tol=1e-7), {"nu": NUS}, shops, checkpoint=path),
        lambda: select(model, {"nu": NUS}, shops, cv=WithinSourceSplit(0.2), checkpoint=path),
    ]
    for other in others:
        with pytest.raises(ValueError, match="belongs to another run"):
            other()
    assert path.read_bytes() == before


def test_a_file_that_is_no_journal_is_refused_and_kept(model, shops, tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("dear diary\n")
    with pytest.raises(ValueError, match="not a journal"):
        select(model, {"nu": NUS}, shops, checkpoint=path)
    assert path.read_text() == "dear diary\n"


def test_resuming_needs_a_seed(model, shops, tmp_path):
    with pytest.raises(ValueError, match="whole number as random_state"):
        select(model.set_params(random_state=None), {"nu": NUS}, shops, checkpoint=tmp_path / "j")


def test_journals_keep_every_digit(tmp_path):
    journal = Journal(tmp_path / "j", "run")
    value = [0.1 + 0.2, 1e-300, float("inf")]
    assert journal.add("task", value) == value
    assert Journal(tmp_path / "j", "run").results == {"task": value}


def test_fingerprints_tell_functions_apart():
    def quadratic(x, xi):
        return (x - xi) ** 2

    def cubic(x, xi):
        return (x - xi) ** 3

    prints = {fingerprint(ConvexLoss(f, f, lower=0, upper=1)) for f in (quadratic, cubic)}
    assert len(prints) == 2


def test_progress_ends_at_one(model, shops):
    shares = []
    select(model, {"nu": NUS}, shops, progress=lambda stage, share, _: shares.append(share))
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


# Bad arguments


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"criterion": "median"}, ValueError, "criterion must be one of 'mean'"),
        ({"tail": 0.0}, ValueError, "tail"),
        ({"grid": {"nu": [0.2, 1.5]}}, ValueError, "nu must be"),
        ({"grid": {"knob": [1]}}, ValueError, "knob"),
        ({"grid": {"nu": 0.2}}, TypeError, "grid"),
        ({"n_jobs": 0}, ValueError, "n_jobs"),
        ({"model": LOSS}, TypeError, "model must be"),
    ],
)
def test_bad_arguments_are_refused_before_any_work(
    arguments, error, message, model, shops, monkeypatch
):
    monkeypatch.setattr(RooDSO, "_prepare", lambda *_: pytest.fail("work was done"))
    given = {"model": model, "grid": {"nu": NUS}} | arguments
    with pytest.raises(error, match=message):
        select(given.pop("model"), given.pop("grid"), shops, **given)


def test_one_source_cannot_be_left_out(model):
    with pytest.raises(ValueError, match="at least 2 sources"):
        select(model, {"nu": NUS}, [np.ones((3, 2))])
