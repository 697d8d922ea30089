"""BarycenterSAA: atoms at a local optimum of the barycentre problem, then SAA on them."""

import numpy as np
import ot
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roodso import SAA, BarycenterSAA
from roodso.datasets import make_newsvendor_sources
from roodso.exceptions import ConvergenceWarning
from roodso.losses import CVaRPortfolio, Newsvendor
from roodso.methods.barycenter import wasserstein_barycenter
from roodso.sources import Sources

LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
ITEM = Newsvendor(price=50, cost=20, holding=5, backorder=10)


def objective(atoms, tables):
    """Mean squared W_2 of the sources from the atoms."""
    equal = np.full(len(atoms), 1 / len(atoms))
    total = 0.0
    for table in tables:
        squared = ((atoms[:, None, :] - table[None, :, :]) ** 2).sum(axis=2)
        total += ot.emd2(equal, np.full(len(table), 1 / len(table)), squared)
    return total / len(tables)


def quantile_average(tables, n_atoms):
    """In one dimension: the mean over sources of their quantile functions' mean over each 1/n."""
    atoms = np.zeros(n_atoms)
    for table in tables:
        steps = n_atoms * len(table)  # the quantile function is constant on each step
        fine = np.repeat(np.sort(table.ravel()), n_atoms)
        assert len(fine) == steps
        atoms += fine.reshape(n_atoms, len(table)).mean(axis=1) / len(tables)
    return atoms


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    n_atoms=st.integers(1, 8) | st.none(),
    seed=st.integers(0, 10**6),
)
def test_in_one_dimension_it_is_the_average_of_quantile_functions(sizes, n_atoms, seed):
    rng = np.random.default_rng(seed)
    tables = [rng.normal(rng.uniform(0, 5), rng.uniform(0.1, 2), (n, 1)) for n in sizes]
    model = BarycenterSAA(ITEM, n_atoms=n_atoms, random_state=seed).fit(tables)
    expected = quantile_average(tables, n_atoms or sum(sizes) // len(sizes))
    np.testing.assert_allclose(np.sort(model.barycenter_.ravel()), expected, atol=1e-9)


def test_an_iteration_is_that_of_pot():
    """Same atoms, same steps: POT's own loop, stopped after as many iterations."""
    tables = make_newsvendor_sources(4, (8, 15), random_state=0)
    sources = Sources.from_data(tables)
    start = np.random.default_rng(1).normal(size=(11, 2))
    weights = [np.full(len(table), 1 / len(table)) for table in tables]
    for n_iter in (1, 2, 5):
        ours = wasserstein_barycenter(sources, start, tol=0.0, max_iter=n_iter)
        theirs = ot.lp.free_support_barycenter(
            tables, weights, start, numItermax=n_iter, stopThr=0.0
        )
        np.testing.assert_allclose(ours.atoms, theirs, atol=1e-9)


def test_the_objective_falls_and_ends_below_what_pot_ends_at_within_its_tolerance():
    tables = make_newsvendor_sources(5, (20, 40), random_state=2)
    steps = []
    model = BarycenterSAA(
        LOSS, random_state=0, progress=lambda stage, _, details: steps.append((stage, details))
    ).fit(tables)
    path = [details["objective"] for stage, details in steps if stage == "barycenter"]
    assert len(path) == model.n_iter_
    assert (np.diff(path) <= 1e-12).all()
    reached = objective(model.barycenter_, tables)
    assert reached <= path[-1] + 1e-12
    start = np.random.default_rng(0).normal(size=model.barycenter_.shape)
    weights = [np.full(len(table), 1 / len(table)) for table in tables]
    theirs = ot.lp.free_support_barycenter(tables, weights, start)
    assert reached <= objective(theirs, tables) * (1 + 1e-3)


def test_the_atoms_are_a_fixed_point_where_the_tolerance_is_zero():
    tables = make_newsvendor_sources(3, (6, 12), random_state=3)
    model = BarycenterSAA(LOSS, barycenter_tol=0.0, random_state=0).fit(tables)
    again = wasserstein_barycenter(
        Sources.from_data(tables), model.barycenter_, tol=0.0, max_iter=1
    )
    np.testing.assert_allclose(again.atoms, model.barycenter_, atol=1e-9)
    assert again.objective == pytest.approx(objective(model.barycenter_, tables), rel=1e-9)


@given(seed=st.integers(0, 10**6), shift=st.floats(-50, 50))
def test_shifting_one_source_shifts_the_barycenter_by_its_share(seed, shift):
    tables = make_newsvendor_sources(3, (4, 8), random_state=seed)
    sources = Sources.from_data(tables)
    shifted = Sources.from_data([tables[0] + shift, *tables[1:]])
    start = np.random.default_rng(seed).normal(size=(5, 2))
    before = wasserstein_barycenter(sources, start).atoms
    np.testing.assert_allclose(
        wasserstein_barycenter(shifted, start).atoms, before + shift / 3, atol=1e-8
    )


def test_the_barycenter_has_the_mean_of_the_means():
    tables = make_newsvendor_sources(6, (5, 30), random_state=4)
    model = BarycenterSAA(LOSS, random_state=0).fit(tables)
    means = np.mean([table.mean(axis=0) for table in tables], axis=0)
    np.testing.assert_allclose(model.barycenter_.mean(axis=0), means, atol=1e-12)


def test_one_source_is_saa():
    table = np.random.default_rng(5).uniform(1, 3, (25, 2))
    model = BarycenterSAA(LOSS, random_state=0).fit([table])
    np.testing.assert_allclose(
        np.sort(model.barycenter_, axis=0), np.sort(table, axis=0), atol=1e-12
    )
    assert model.objective_ == pytest.approx(SAA(LOSS).fit([table]).objective_, rel=1e-12)


def test_identical_sources_are_saa():
    table = np.random.default_rng(6).uniform(1, 3, (12, 1))
    model = BarycenterSAA(ITEM, random_state=0).fit([table] * 3)
    np.testing.assert_allclose(np.sort(model.barycenter_, axis=0), np.sort(table, axis=0))
    assert model.objective_ == pytest.approx(SAA(ITEM).fit([table] * 3).objective_, rel=1e-12)


def test_the_decision_is_that_of_saa_on_the_atoms():
    tables = make_newsvendor_sources(4, (10, 20), random_state=7)
    model = BarycenterSAA(LOSS, random_state=1).fit(tables)
    saa = SAA(LOSS).fit([model.barycenter_])
    assert model.objective_ == pytest.approx(saa.objective_, rel=1e-12)
    np.testing.assert_array_equal(model.solution_.support, model.barycenter_)
    assert set(model.solution_.worst_case()["source"]) == {"barycenter"}
    over = np.maximum(model.decision_ - model.barycenter_, 0)
    under = np.maximum(model.barycenter_ - model.decision_, 0)
    costs = (
        -np.minimum(model.decision_, model.barycenter_) @ [50, 40]
        + model.decision_ @ [20, 15]
        + over @ [5, 3]
        + under @ [10, 8]
    )
    assert model.objective_ == pytest.approx(costs.mean(), rel=1e-12)


def test_a_portfolio_on_the_barycenter():
    rng = np.random.default_rng(8)
    tables = [0.05 * rng.standard_normal((20, 3)) + 0.01 * rng.random(3) for _ in range(3)]
    model = BarycenterSAA(CVaRPortfolio(), random_state=0, tol=1e-8).fit(tables)
    saa = SAA(CVaRPortfolio(), tol=1e-8).fit([model.barycenter_])
    assert model.objective_ == pytest.approx(saa.objective_, abs=2e-8)


def test_the_default_number_of_atoms_is_the_mean_size_rounded_down():
    tables = [np.random.default_rng(i).normal(size=(n, 2)) for i, n in enumerate([3, 4, 9, 7])]
    assert BarycenterSAA(LOSS, random_state=0).fit(tables).barycenter_.shape == (5, 2)
    assert BarycenterSAA(LOSS, random_state=0, n_atoms=40).fit(tables).barycenter_.shape == (40, 2)


def test_the_seed_decides_and_the_start_can_be_given():
    tables = make_newsvendor_sources(3, (10, 20), random_state=9)
    one, same, other = (
        BarycenterSAA(LOSS, random_state=seed).fit(tables).barycenter_ for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    start = np.random.default_rng(0).normal(size=(7, 2))
    given_start = BarycenterSAA(LOSS, init=start).fit(tables).barycenter_
    np.testing.assert_array_equal(
        given_start, wasserstein_barycenter(Sources.from_data(tables), start).atoms
    )


def test_an_iteration_too_few_is_said():
    tables = make_newsvendor_sources(3, (10, 20), random_state=10)
    with pytest.warns(ConvergenceWarning, match="after barycenter_iter = 2 iterations"):
        BarycenterSAA(LOSS, barycenter_iter=2, barycenter_tol=0.0, random_state=0).fit(tables)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_atoms": 0}, "n_atoms must be a whole number >= 1, got 0"),
        ({"init": "kmeans"}, "init must be 'subsample' or a table of atoms, got 'kmeans'"),
        ({"init": [[1.0, 2.0]], "n_atoms": 3}, "init must have n_atoms = 3 rows, got 1"),
        ({"init": [[1.0]]}, "init must have 2 columns, got 1"),
        ({"barycenter_tol": -1}, "barycenter_tol must be a number"),
        ({"barycenter_iter": 0}, "barycenter_iter must be a whole number >= 1"),
    ],
)
def test_bad_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        BarycenterSAA(LOSS, **parameters).fit([[[1.0, 2.0]], [[2.0, 2.0]]])
