"""Refits: what is taken over from an earlier fit changes the time, not the answer."""

import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from roodso import RooDSO, refit, streams
from roodso.embedding import Coordinates, Embedding, KernelSpace
from roodso.exceptions import DegenerateDataWarning
from roodso.kernels import RBF, Laplace
from roodso.losses import CVaRPortfolio, Newsvendor
from roodso.refit import same_kernel, updated
from roodso.sources import Sources

LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])


def space(shift=0.0, kernel=None):
    return KernelSpace(kernel or RBF(0.8), Coordinates(np.full(2, shift), np.ones(2)))


def shops(n_shops=6, size=120, seed=0):
    rng = np.random.default_rng(seed)
    return {
        f"shop {i}": 2.0 + 0.3 * rng.uniform(-1, 1, 2) + 0.3 * rng.standard_normal((size, 2))
        for i in range(n_shops)
    }


# Kernel values


@given(st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_an_update_is_the_embedding_of_the_new_data(seed):
    """Rows added and removed, sources added, removed, reordered; duplicates; other points."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 4, (40, 2)).astype(float)  # many rows coincide
    before = {f"s{i}": values[rng.integers(0, 40, rng.integers(1, 9))] for i in range(4)}
    drawn = rng.uniform(0, 4, (5, 2))
    after = {}
    for name in rng.permutation([*before, "new"]).tolist():
        if rng.random() < 0.2 and after:
            continue
        old = before.get(name, np.empty((0, 2)))
        stays = old[rng.random(len(old)) < rng.choice([0.5, 1.0])]
        fresh = values[rng.integers(0, 40, rng.integers(0 if len(stays) else 1, 4))]
        after[name] = rng.permutation(np.vstack([stays, fresh]))
    extra = drawn if rng.random() < 0.5 else drawn[rng.integers(0, 5, 3)]
    kernel = Laplace(1.0) if seed % 2 else RBF(1.0)
    known = Embedding.compute(space(kernel=kernel), Sources.from_data(before), drawn)
    sources = Sources.from_data(after)
    moved = space(0.7, kernel)
    ours = updated(known, moved, sources, extra)
    fresh = Embedding.compute(moved, sources, extra)
    np.testing.assert_array_equal(ours.support, fresh.support)
    np.testing.assert_allclose(ours.means, fresh.means, atol=1e-13)
    np.testing.assert_allclose(ours.gram, fresh.gram, atol=1e-13)


def test_only_what_is_new_is_computed(monkeypatch):
    counted = []
    plain = refit.source_means_at

    def counting(kernel, points, samples, *rest, **how):
        counted.append(len(points) * len(samples))
        return plain(kernel, points, samples, *rest, **how)

    monkeypatch.setattr(refit, "source_means_at", counting)
    before = shops()
    known = Embedding.compute(space(), Sources.from_data(before), np.empty((0, 2)))
    more = {**before, "shop 2": np.vstack([before["shop 2"], [[2.0, 2.0]]])}
    updated(known, space(), Sources.from_data(more), np.empty((0, 2)))
    n = known.sources.n_samples
    assert sum(counted) <= 2 * n + 1
    counted.clear()
    updated(
        known, space(), Sources.from_data({**before, "new": before["shop 0"] + 1}), np.empty((0, 2))
    )
    assert sum(counted) <= 2 * 120 * n + 120**2


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (space(3.0), True),
        (space(kernel=RBF(0.9)), False),
        (space(kernel=Laplace(0.8)), False),
        (KernelSpace(RBF(0.8), Coordinates(np.zeros(2), np.full(2, 2.0))), False),
    ],
)
def test_a_kernel_is_the_same_but_for_the_shift(other, same):
    assert same_kernel(space(), other) is same


# Fits


def fitted(data, groups=None, **parameters):
    defaults = {"bandwidth": 0.8, "random_state": 0, "tol": 1e-6, "n_support": 30, "n_jobs": 1}
    return RooDSO(LOSS, **(defaults | parameters)).fit(data, groups=groups)


def changed(kind):
    before = shops()
    if kind == "rows":
        return before, {**before, "shop 3": np.vstack([before["shop 3"], before["shop 1"][:5]])}
    if kind == "source":
        return before, {**before, "new": before["shop 0"] + 0.2}
    if kind == "fewer":
        return before, {name: before[name][5:] for name in list(before)[1:]}
    return before, shops(seed=9)


@pytest.mark.parametrize("bandwidth", [0.8, "median"])
@pytest.mark.parametrize("kind", ["rows", "source", "fewer", "all"])
def test_a_refit_gives_the_answer_of_a_fresh_fit(kind, bandwidth):
    before, after = changed(kind)
    warm = fitted(before, warm_start=True, bandwidth=bandwidth)
    warm.fit(after)
    cold = fitted(after, bandwidth=bandwidth)
    one, other = warm.solution_, cold.solution_
    assert one.status == other.status == "optimal"
    np.testing.assert_array_equal(one.support, other.support)
    slack = 1e-9 * abs(other.upper_bound)
    assert one.lower_bound <= other.upper_bound + slack
    assert other.lower_bound <= one.upper_bound + slack
    assert warm.uncertainty_set_.radius == pytest.approx(cold.uncertainty_set_.radius, rel=1e-9)


def test_a_refit_begins_where_the_last_one_ended():
    before, after = changed("rows")
    warm = fitted(before, warm_start=True)
    first = warm.solution_.iterations
    warm.fit(before)
    assert warm.solution_.iterations <= 2 < first
    warm.fit(after)
    assert warm.solution_.iterations <= fitted(after).solution_.iterations


def test_a_changed_nu_is_a_warm_start_too():
    data = shops()
    warm = fitted(data, warm_start=True, nu=0.2)
    warm.set_params(nu=0.25).fit(data)
    cold = fitted(data, nu=0.25)
    assert warm.objective_ == pytest.approx(cold.objective_, rel=2e-6)
    assert warm.solution_.iterations <= cold.solution_.iterations


@pytest.mark.filterwarnings("ignore::roodso.ConvergenceWarning")
def test_low_rank_and_streams_begin_warm_too():
    data = shops()
    for form in (data, streams.from_arrays(data)):
        warm = fitted(form, warm_start=True, embedding="low-rank")
        once = warm.solution_
        again = warm.fit(form).solution_
        assert again.iterations <= once.iterations
        assert again.upper_bound == pytest.approx(once.upper_bound, rel=1e-5)


def test_data_of_another_kind_begin_afresh():
    warm = fitted(shops(), warm_start=True)
    one_column = {name: table[:, :1] for name, table in shops().items()}
    warm.set_params(loss=Newsvendor(price=5, cost=2)).fit(one_column)
    assert len(warm.decision_) == 1
    returns = {name: 0.01 * table for name, table in shops().items()}
    warm.set_params(loss=CVaRPortfolio(risk_aversion=2.0)).fit(returns)
    assert warm.decision_.sum() == pytest.approx(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)
        warm.set_params(loss=LOSS).fit([[[1.0, 2.0]]]).fit(shops())
    assert warm.solution_.status == "optimal"


def test_it_is_a_parameter_like_others():
    frame = pd.DataFrame(np.vstack(list(shops().values())), columns=["a", "b"])
    groups = np.repeat(list(shops()), 120)
    model = fitted(frame, groups=groups, warm_start=True)
    assert clone(model).warm_start is True
    assert not hasattr(clone(model), "solution_")
    assert list(model.fit(frame, groups=groups).decision_.index) == ["a", "b"]
    with pytest.raises(TypeError, match="warm_start must be True or False"):
        fitted(shops(), warm_start=1)
