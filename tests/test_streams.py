"""Samples that are not in memory: the same programme, in passes.

What a stream leads to is held against the same samples in memory: the optimum over the stated ball,
with its radius from all kernel values, lies between the bounds.
"""

import pickle
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import roodso
from roodso import RooDSO, guarantees, streams
from roodso.embedding import Embedding
from roodso.exceptions import ConvergenceWarning
from roodso.losses import ConvexLoss, Newsvendor
from roodso.model_selection import select
from roodso.report import build_report
from roodso.sets import (
    FixedBall,
    SupportMeasureBall,
    ThickenedHull,
    UncertaintySet,
    nearest_mixture,
)
from roodso.sets.ball import squared_distances_to_center, squared_radius
from roodso.sets.nearest import products_with_sources
from roodso.solver.rows import LoopOptions, Programme
from roodso.solver.solve import solve_programme
from roodso.sources import Sources

LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])


def shops(n_shops=6, size=300, seed=0, d=2):
    rng = np.random.default_rng(seed)
    return {
        f"shop {i}": 2.0 + 0.3 * rng.uniform(-1, 1, d) + 0.3 * rng.standard_normal((size + i, d))
        for i in range(n_shops)
    }


def frame_of(tables):
    parts = [pd.DataFrame(t, columns=["bread", "rolls"]).assign(shop=k) for k, t in tables.items()]
    return pd.concat(parts, ignore_index=True)


TABLES = shops()
FRAME = frame_of(TABLES).sample(frac=1, random_state=0).reset_index(drop=True)


@pytest.fixture(autouse=True)
def small_samples(monkeypatch):
    """A sample far smaller than the data, as it is where data are large."""
    monkeypatch.setattr(streams, "_KEPT", 150)
    monkeypatch.setattr(streams, "_KEPT_EACH", 10)


def model(loss=LOSS, **parameters):
    defaults = {"bandwidth": 0.8, "random_state": 0, "tol": 1e-6, "n_support": 30, "n_jobs": 1}
    if "uncertainty_set" in parameters:
        del defaults["bandwidth"]
    return RooDSO(loss, **(defaults | parameters))


def check_against_memory(fitted, tables, nu=0.2):
    """The bounds hold for the programme over all samples, the drawn points and the stated set."""
    ball, s = fitted.uncertainty_set_, fitted.solution_
    known = fitted._programme.embedding
    drawn = known.support[known.codes < 0]
    sources = Sources.from_data(tables)
    assert sources.labels == ball.labels
    exact = Embedding.compute(ball.space, sources, drawn)
    radius = ball.radius
    if ball.radius_error > 0.0:
        squared = squared_distances_to_center(exact.gram, ball.weights)
        radius = np.sqrt(squared_radius(squared, nu))
        assert ball.least_radius - 1e-9 <= radius <= ball.radius + 1e-9
    stated = UncertaintySet(
        ball.mixtures, radius, radius, ball.space, sources, exact.gram, ball.cap
    )
    optimum = solve_programme(Programme(fitted._problem, stated, exact), LoopOptions(tol=1e-9))
    assert optimum.status == "optimal"
    slack = 1e-8 * abs(optimum.upper_bound)
    assert s.lower_bound - slack <= optimum.upper_bound
    assert optimum.lower_bound <= s.upper_bound + slack
    assert s.gap <= fitted.tol


# The same in every form


@pytest.mark.parametrize(
    "learner",
    [SupportMeasureBall(0.2, bandwidth=0.8), ThickenedHull(0.15, bandwidth=0.8)],
    ids=["ball", "hull"],
)
@pytest.mark.parametrize(
    "loss",
    [
        LOSS,
        ConvexLoss(
            value=lambda x, xi: ((x - xi) ** 2).sum(axis=1),
            subgradient=lambda x, xi: 2 * (x - xi),
            lower=0,
            upper=4,
        ),
    ],
    ids=["newsvendor", "callables"],
)
def test_bounds_hold_for_all_samples(learner, loss):
    stream = streams.from_arrays(TABLES, chunk_rows=97)
    fitted = model(loss, uncertainty_set=learner).fit(stream)
    check_against_memory(fitted, TABLES)
    s = fitted.solution_
    assert s.status == "optimal"
    assert s.embedding.kind == "low rank"
    assert len(s.support) < 0.5 * len(FRAME)
    total = s.worst_case_weights.sum() + s.source_weights.sum()
    assert total == pytest.approx(1.0, abs=1e-12)
    assert s.source_weights.sum() < 0.1
    names = s.worst_case()["source"]
    assert {name for name in names if name} <= set(TABLES)


def test_the_form_of_the_data_changes_nothing(tmp_path):
    groups = FRAME["shop"].to_numpy()
    samples = FRAME[["bread", "rolls"]].to_numpy()
    in_memory = np.memmap(tmp_path / "x.bin", dtype=float, mode="w+", shape=samples.shape)
    in_memory[:] = samples
    FRAME.iloc[:1000].to_parquet(tmp_path / "a.parquet")
    FRAME.iloc[1000:].to_parquet(tmp_path / "b.parquet", index=False)
    forms = [
        streams.from_arrays(samples, groups=groups, chunk_rows=1000),
        streams.from_arrays(in_memory, groups=groups, chunk_rows=1000),
        streams.from_parquet(tmp_path, group="shop", chunk_rows=1000),
        streams.from_parquet(f"{tmp_path}/*.parquet", group="shop", chunk_rows=1000),
        streams.from_parquet(
            [tmp_path / "a.parquet", tmp_path / "b.parquet"], group="shop", chunk_rows=1000
        ),
    ]
    fitted = [model().fit(form) for form in forms]
    for one in fitted[1:]:
        assert one.objective_ == fitted[0].objective_
        np.testing.assert_array_equal(np.asarray(one.decision_), np.asarray(fitted[0].decision_))
    assert list(fitted[2].decision_.index) == ["bread", "rolls"]
    in_order = {label: samples[groups == label] for label in pd.unique(groups)}
    check_against_memory(fitted[0], in_order)


def test_one_file_per_source(tmp_path):
    for label, table in TABLES.items():
        pd.DataFrame(table, columns=["bread", "rolls"]).to_parquet(tmp_path / f"{label}.parquet")
    files = {label: tmp_path / f"{label}.parquet" for label in TABLES}
    fitted = model().fit(streams.from_parquet(files))
    assert fitted.uncertainty_set_.labels == tuple(TABLES)
    check_against_memory(fitted, TABLES)


def test_threads_change_nothing():
    one, two = (
        model(n_jobs=jobs).fit(streams.from_arrays(TABLES, chunk_rows=100)) for jobs in (1, 2)
    )
    assert one.objective_ == two.objective_
    assert one.solution_.lower_bound == two.solution_.lower_bound


def test_a_path_any_decision_and_distances():
    stream = streams.from_arrays(TABLES, chunk_rows=200)
    path = model().path(stream, [0.2, 0.5])
    for fitted, nu in zip(path, [0.2, 0.5], strict=True):
        check_against_memory(fitted, TABLES, nu)
    first = path[0]
    cost = first.worst_case_cost([2.0, 2.1])
    assert first.solution_.lower_bound <= cost.upper_bound
    assert cost.upper_bound - cost.lower_bound <= 1e-5 * abs(cost.upper_bound)
    ball = first.uncertainty_set_
    exact = Embedding.compute(ball.space, Sources.from_data(TABLES), np.empty((0, 2)))
    true = np.sqrt(squared_distances_to_center(exact.gram, ball.weights))
    asked = [ball.distance(table) for table in TABLES.values()]
    np.testing.assert_allclose(asked, true, atol=first.solution_.embedding.error)
    assert first.set_learner_.predict([TABLES["shop 0"], 9.0 + TABLES["shop 0"]])[1] == -1
    assert first.score(TABLES["shop 0"]) > 0


def test_a_model_is_saved_without_the_data(tmp_path):
    fitted = model().fit(streams.from_arrays(TABLES))
    fitted.save(tmp_path / "model.roodso")
    for again in (roodso.load(tmp_path / "model.roodso"), pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(again.decision_, fitted.decision_)
        assert again.uncertainty_set_.distance(TABLES["shop 1"]) == pytest.approx(
            fitted.uncertainty_set_.distance(TABLES["shop 1"])
        )
        with pytest.raises(ValueError, match="out of reach"):
            again.worst_case_cost([1.0, 1.0])


def test_limits_are_kept_and_said():
    with pytest.warns(ConvergenceWarning, match="low rank"):
        fitted = model(max_rank=5).fit(streams.from_arrays(TABLES))
    assert fitted.solution_.embedding.rank == 5
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model(time_limit=1e-9).fit(streams.from_arrays(TABLES))


# The scan


def test_a_scan_counts_and_draws_by_lot():
    stream = streams.from_arrays(TABLES, chunk_rows=41)
    scan = stream.scan()
    assert scan.counts == {label: len(table) for label, table in TABLES.items()}
    pooled = np.vstack(list(TABLES.values()))
    np.testing.assert_array_equal(scan.lower, pooled.min(axis=0))
    np.testing.assert_array_equal(scan.upper, pooled.max(axis=0))
    sources, numbers = stream.sampled()
    assert len(numbers) == len(np.unique(numbers)) == sources.n_samples
    assert 150 <= sources.n_samples <= 150 + 6 * 10
    assert sources.sizes.tolist() == [len(table) for table in TABLES.values()]
    assert np.bincount(sources.codes).min() >= 10
    rows = {tuple(row) for row in pooled}
    assert all(tuple(row) in rows for row in sources.samples)


def test_a_rare_source_is_in_the_sample():
    rare = {"many": np.arange(9000.0)[:, None], "few": np.arange(30.0)[:, None]}
    for rows in (100, 10_000):
        sources, _ = streams.from_arrays(rare, chunk_rows=rows).sampled()
        assert np.bincount(sources.codes).tolist()[1] >= 10
        assert sources.sizes.tolist() == [9000, 30]


def test_lots_favour_no_piece():
    one_source = {"a": np.arange(6000.0)[:, None]}
    places = []
    for seed in range(20):
        stream = streams.from_arrays(one_source, chunk_rows=500)
        places.append(stream.scan(seed).sample.mean())
    # The mean of 150 of 6000 draws has a standard error of 6000 / sqrt(12 * 150) = 141.
    assert abs(np.mean(places) - 3000) < 4 * 141 / np.sqrt(20)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: streams.from_arrays({}), ValueError, "at least one source"),
        (lambda: streams.from_arrays("abc"), TypeError, "mapping or sequence of arrays"),
        (lambda: streams.from_arrays([np.ones(3)]), ValueError, "must be a table"),
        (lambda: streams.from_arrays([np.ones((3, 2)), np.ones((3, 1))]), ValueError, "width"),
        (lambda: streams.from_arrays([np.ones((0, 2))]), ValueError, "at least one row"),
        (lambda: streams.from_arrays(np.ones((3, 2)), groups=[1, 2]), ValueError, "one entry"),
        (lambda: streams.from_arrays(TABLES, chunk_rows=0), ValueError, "chunk_rows"),
        (lambda: streams.from_parquet("nowhere/*.parquet", group="a"), FileNotFoundError, "paths"),
        (lambda: streams.from_parquet("x.parquet"), ValueError, "group must name the column"),
        (lambda: streams.from_parquet({"a": "x"}, group="g"), ValueError, "group must be None"),
        (lambda: streams.from_parquet(3, group="g"), TypeError, "paths must be text"),
    ],
)
def test_what_is_no_data_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_absent_columns_are_named(tmp_path):
    FRAME.to_parquet(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match=r"must have the columns \['store'\]"):
        streams.from_parquet(tmp_path / "x.parquet", group="store")
    with pytest.raises(ValueError, match=r"must have the columns \['cake'\]"):
        streams.from_parquet(tmp_path / "x.parquet", group="shop", columns=["cake"])
    one = streams.from_parquet(tmp_path / "x.parquet", group="shop", columns=["rolls"])
    assert one.names == ("rolls",)


def test_bad_cells_are_named(tmp_path):
    bad = {**TABLES, "odd": np.array([[1.0, np.nan]])}
    with pytest.raises(ValueError, match="'odd' must hold finite numbers, got nan in row 0"):
        model().fit(streams.from_arrays(bad))
    missing = FRAME.assign(shop=FRAME["shop"].where(FRAME.index != 5))
    missing.to_parquet(tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="missing values in the group column"):
        model().fit(streams.from_parquet(tmp_path, group="shop"))
    FRAME.assign(bread="much").to_parquet(tmp_path / "x.parquet")
    with pytest.raises(TypeError, match="must hold numbers only"):
        model().fit(streams.from_parquet(tmp_path, group="shop"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"representer": "herded"},
        {"gram": "herded"},
        {"embedding": "exact"},
        {"continuous": "search"},
    ],
)
def test_what_needs_all_samples_at_hand_is_refused(wrong):
    with pytest.raises(ValueError, match="data that are streamed need"):
        model(**wrong).fit(streams.from_arrays(TABLES))


@pytest.mark.filterwarnings("ignore::roodso.exceptions.DegenerateDataWarning")
def test_more_that_needs_memory_is_refused():
    stream = streams.from_arrays(TABLES)
    with pytest.raises(ValueError, match="groups must be None"):
        model().fit(stream, groups=[1])
    with pytest.raises(ValueError, match="radius 0"):
        model(uncertainty_set=FixedBall(0.0)).fit(stream)
    prepared = model()._prepare(stream)
    with pytest.raises(ValueError, match="in memory only"):
        prepared.restricted(np.arange(10))
    with pytest.raises(TypeError, match="X must be in memory here"):
        roodso.SAA(LOSS).fit(stream)
    with pytest.raises(TypeError, match="X must be in memory here"):
        select(model(), {"nu": [0.2, 0.4]}, stream)
    with pytest.raises(ValueError, match="fitted to a stream"):
        build_report(model().fit(stream), TABLES)


def test_the_nearest_mixture_is_that_of_all_samples():
    fitted = model().fit(streams.from_arrays(TABLES))
    ball = fitted.uncertainty_set_
    in_memory = replace(ball, sources=Sources.from_data(TABLES), landmarks=None)
    points, weights = 2.0 + 0.1 * np.eye(2), np.array([0.3, 0.7])
    ours, theirs = (products_with_sources(known, points, weights) for known in (ball, in_memory))
    np.testing.assert_allclose(ours[0], theirs[0], atol=1e-3)
    assert ours[1] == theirs[1]
    assert nearest_mixture(ball, points, weights)[0].sum() == pytest.approx(1.0)
    assert "of your 6 sources lie inside" in str(guarantees.summary(fitted))


def test_without_pyarrow_the_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r"pip install 'roodso\[io\]'"):
        streams.from_parquet("x.parquet", group="a")


def test_memory_does_not_grow_with_the_data(tmp_path):
    """Peak memory of a fit to a file of 64 MB: far less than holding it would take."""
    rows, d = 200_000, 40
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((rows, d)), columns=[f"c{j}" for j in range(d)])
    frame["group"] = np.arange(rows) % 3
    frame.to_parquet(tmp_path / "wide.parquet", row_group_size=20_000)
    frame[:20_000].to_parquet(tmp_path / "small.parquet")
    code = """
        import sys, warnings
        from pathlib import Path
        import numpy as np
        from roodso import RooDSO, streams
        from roodso.losses import ConvexLoss

        def peak():
            lines = Path("/proc/self/status").read_text().splitlines()
            return next(int(x.split()[1]) for x in lines if x.startswith("VmHWM")) / 1024

        streams._KEPT = 2000
        warnings.simplefilter("ignore")
        loss = ConvexLoss(
            value=lambda x, xi: abs(x[0] - xi.mean(axis=1)),
            subgradient=lambda x, xi: np.sign(x[0] - xi.mean(axis=1))[:, None],
            dimension=1, lower=-1, upper=1,
        )
        model = RooDSO(loss, max_rank=20, tol=1e-2, n_jobs=1, n_support=20, random_state=0)
        small = streams.from_parquet(sys.argv[2], group="group", chunk_rows=10_000)
        model.fit(small)  # what is imported and set up once
        stream = streams.from_parquet(sys.argv[1], group="group", chunk_rows=10_000)
        before = peak()
        model.fit(stream)
        print(peak() - before)
        """
    run = subprocess.run(
        [
            sys.executable,
            "-c",
            textwrap.dedent(code),
            str(tmp_path / "wide.parquet"),
            str(tmp_path / "small.parquet"),
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    data = rows * d * 8 / 2**20
    assert float(run.stdout) < 0.3 * data


def test_known_cuts_are_no_part_of_the_programme_kept():
    fitted = model().fit(streams.from_arrays(TABLES))
    assert fitted._programme.known_cuts == ()
    assert replace(fitted._programme.embedding, chunks=None).chunks is None
