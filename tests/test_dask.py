"""A cluster of two workers: the same answer, only small things on the wire, and workers may die."""

import os
import signal
import sys

import numpy as np
import pandas as pd
import pytest

from roodso import SAA, RooDSO, streams
from roodso.experiments import coverage
from roodso.losses import ConvexLoss, Newsvendor
from roodso.model_selection import compare, select

pytest.importorskip("distributed")

LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
# Closing sockets and processes of the cluster is its own affair.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning:distributed"),
]


def table(rows=20_000, seed=0):
    rng = np.random.default_rng(seed)
    shop = rng.integers(0, 8, rows)
    middle = 2.0 + 0.3 * rng.uniform(-1, 1, (8, 2))
    demand = middle[shop] + 0.3 * rng.standard_normal((rows, 2))
    return pd.DataFrame(demand, columns=["bread", "rolls"]).assign(
        shop=[f"shop {number}" for number in shop]
    )


TABLE = table()
SMALL = coverage.Settings(
    sizes=(10,), n_samples=(10, 20), n_fresh=3, n_population=100, n_cost=500, nus=(0.2,)
)


def model(loss=LOSS, **parameters):
    defaults = {"bandwidth": 0.8, "random_state": 0, "tol": 1e-5, "n_support": 50, "n_jobs": 1}
    return RooDSO(loss, **(defaults | parameters))


@pytest.fixture(scope="module")
def cluster():
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",
            protocol="tcp",
        ) as started,
        Client(started) as client,
    ):
        yield client


def frame(npartitions=6):
    import dask.dataframe as dd

    return dd.from_pandas(TABLE, npartitions=npartitions)


def slices(npartitions=6):
    """The same pieces, read here."""
    parts = [part.compute() for part in frame(npartitions).partitions]
    assert len({len(part) for part in parts}) <= 2
    return streams.from_arrays(
        TABLE[["bread", "rolls"]].to_numpy(),
        groups=TABLE["shop"].to_numpy(),
        chunk_rows=len(parts[0]),
    )


def test_without_a_cluster_the_partitions_are_worked_on_here():
    here = model().fit(slices())
    fitted = model().fit(frame(), groups="shop")
    assert list(fitted.decision_.index) == ["bread", "rolls"]
    np.testing.assert_allclose(fitted.decision_, here.decision_, rtol=1e-9)
    assert fitted.objective_ == pytest.approx(here.objective_, rel=1e-9)


def test_a_cluster_gives_the_same_answer_within_the_certificate(cluster):
    here = model(embedding="exact").fit(TABLE[["bread", "rolls"]], groups=TABLE["shop"])
    there = model().fit(frame(), groups="shop").solution_
    assert there.status == "optimal"
    slack = 1e-5 * abs(there.upper_bound)  # drawn points are the same; alpha is up to its gap
    assert there.lower_bound - slack <= here.solution_.upper_bound
    assert here.solution_.lower_bound <= there.upper_bound + slack


def test_only_small_things_come_back(cluster, monkeypatch):
    stream = streams.from_dask(frame(), "shop")
    sizes, samples = [], []
    plain = type(stream).pieces

    def noted(self, work, **how):
        for part in plain(self, work, **how):
            if isinstance(part, streams.Scan):
                samples.append(len(part.sample))
            else:
                sizes.append(sum(np.asarray(value).nbytes for value in vars(part).values()))
            yield part

    monkeypatch.setattr(type(stream), "pieces", noted)
    model().fit(stream)
    assert len(samples) == 6  # one scan, of at most so many rows a partition
    assert max(samples) <= streams._KEPT + 8 * streams._KEPT_EACH
    assert max(sizes) < 0.1 * TABLE[["bread", "rolls"]].to_numpy().nbytes / 6


def test_a_worker_that_dies_costs_time_but_not_correctness(cluster, tmp_path):
    """The first process but this one that is asked for a cost kills itself on the spot."""
    flag, here = tmp_path / "killed", os.getpid()

    def value(x, xi):
        if os.getpid() != here and not flag.exists():
            flag.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return ((x - xi) ** 2).sum(axis=1)

    loss = ConvexLoss(value=value, subgradient=lambda x, xi: 2 * (x - xi), lower=0, upper=4)
    undisturbed = model(loss).fit(slices()).solution_
    assert not flag.exists()
    disturbed = model(loss).fit(frame(), groups="shop").solution_
    assert int(flag.read_text()) != here
    assert disturbed.status == "optimal"
    assert disturbed.upper_bound == pytest.approx(undisturbed.upper_bound, rel=1e-9)
    assert disturbed.lower_bound == pytest.approx(undisturbed.lower_bound, rel=1e-9)


def test_the_column_that_names_the_source_is_needed():
    with pytest.raises(ValueError, match="name of the column"):
        model().fit(frame())
    with pytest.raises(ValueError, match="group must be one of the columns"):
        model().fit(frame(), groups="store")
    with pytest.raises(ValueError, match="columns must be some of"):
        streams.from_dask(frame(), "shop", columns=["cake"])
    with pytest.raises(TypeError, match="must be a Dask data frame"):
        streams.from_dask(TABLE, "shop")


def test_without_dask_the_command_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask.dataframe", None)
    with pytest.raises(ImportError, match=r"pip install 'roodso\[dask\]'"):
        streams.from_dask(None, "shop")


def test_model_selection_spreads_over_the_cluster(cluster):
    """By joblib's own backend; `compare` and `select` give what they give here."""
    from joblib import parallel_config

    shops = [TABLE.loc[TABLE["shop"] == name, ["bread", "rolls"]][:60] for name in shop_names()]
    grid = {"nu": [0.2, 0.5]}
    methods = {"average": SAA(LOSS), "ball": model()}
    here = select(model(tol=1e-6), grid, shops)
    with parallel_config(backend="dask"):
        there = select(model(tol=1e-6), grid, shops, n_jobs=2)
        compared = compare(methods, shops, n_jobs=2)
    one, other = (found.costs_.drop(columns="seconds") for found in (here, there))
    pd.testing.assert_frame_equal(one, other)
    assert here.best_params_ == there.best_params_
    pd.testing.assert_frame_equal(compare(methods, shops).costs, compared.costs)


def test_experiments_spread_over_the_cluster(cluster, tmp_path):
    here = coverage.run(SMALL, tmp_path / "here", repetitions=2)
    there = coverage.run(SMALL, tmp_path / "there", repetitions=2, executor=cluster.get_executor())
    pd.testing.assert_frame_equal(here, there)


def shop_names():
    return sorted(TABLE["shop"].unique())
