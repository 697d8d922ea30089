"""Generated sources follow the laws that are documented; sizes and seeds do what they say."""

import numpy as np
import pytest
from scipy import stats

from roodso.datasets import (
    make_heavy_tailed_sources,
    make_multimodal_sources,
    make_newsvendor_sources,
)

NOMINAL = np.array([[0.01, 0.008], [0.008, 0.01]])  # paper, section 4.1.1


def test_sizes_are_drawn_from_the_range_with_both_ends():
    sizes = [len(s) for s in make_newsvendor_sources(200, (3, 6), random_state=0)]
    assert set(sizes) == {3, 4, 5, 6}
    assert [len(s) for s in make_newsvendor_sources(3, 7, random_state=0)] == [7, 7, 7]
    assert [len(s) for s in make_newsvendor_sources(2, [4, 4], random_state=0)] == [4, 4]
    by_default = make_newsvendor_sources(random_state=0)
    assert len(by_default) == 20
    assert all(s.shape[1] == 2 and 200 <= len(s) <= 500 for s in by_default)


def test_the_seed_determines_everything():
    def drawn(seed):
        return [s.tolist() for s in make_newsvendor_sources(3, (5, 9), random_state=seed)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert drawn(np.random.default_rng(1)) == drawn(1)
    assert drawn(None) != drawn(None)


def test_each_source_is_the_nominal_gaussian_turned_and_scaled():
    for source in make_newsvendor_sources(5, 40_000, random_state=0):
        covariance = np.cov(source.T)
        factor = np.trace(covariance) / np.trace(NOMINAL)
        assert 0.48 < factor < 2.1
        expected = factor * np.linalg.eigvalsh(NOMINAL)  # turning changes no eigenvalue
        assert np.linalg.eigvalsh(covariance) == pytest.approx(expected, rel=0.05)
        white = np.linalg.solve(np.linalg.cholesky(covariance), (source - source.mean(0)).T)
        assert stats.kstest(white[0], "norm").pvalue > 1e-3
        assert stats.kstest(white[1], "norm").pvalue > 1e-3


def test_means_angles_and_factors_follow_their_laws():
    sources = make_newsvendor_sources(500, 1000, random_state=0)
    means = np.array([s.mean(axis=0) for s in sources])
    covariances = np.array([np.cov(s.T) for s in sources])
    factors = np.trace(covariances, axis1=1, axis2=2) / np.trace(NOMINAL)
    axes = np.array([np.linalg.eigh(c)[1][:, -1] for c in covariances])
    angles = np.mod(np.arctan2(axes[:, 1], axes[:, 0]) - np.pi / 4, np.pi)
    for observed, low, width in [
        (means[:, 0], 1.0, 2.0),
        (means[:, 1], 1.0, 2.0),
        (factors, 0.5, 1.5),
        (angles, 0.0, np.pi),
    ]:
        assert stats.kstest(observed, "uniform", args=(low, width)).pvalue > 1e-3


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_sources": 0}, ValueError, "n_sources must be a whole number >= 1, got 0"),
        ({"n_sources": 2.0}, TypeError, "n_sources must be a whole number >= 1, got 2.0"),
        ({"n_samples": 0}, ValueError, "n_samples must be a whole number >= 1, got 0"),
        ({"n_samples": "30"}, TypeError, "n_samples must be a whole number >= 1, got '30'"),
        ({"n_samples": None}, TypeError, "n_samples must be a whole number >= 1, got None"),
        ({"n_samples": (9, 3)}, ValueError, r"n_samples\[1\] must be a whole number >= 9, got 3"),
        ({"n_samples": (0, 3)}, ValueError, r"n_samples\[0\] must be a whole number >= 1, got 0"),
        ({"n_samples": (1, 2, 3)}, ValueError, r"n_samples must be a number or a pair \(low, high"),
        ({"random_state": -1}, TypeError, "random_state must be None, a whole number >= 0 or"),
        ({"random_state": "0"}, TypeError, "random_state must be None, a whole number >= 0 or"),
    ],
)
def test_bad_input_says_what_is_accepted(arguments, error, message):
    with pytest.raises(error, match=message):
        make_newsvendor_sources(**arguments)


# --- Beyond the paper -------------------------------------------------------------------------


def moments(make, n_sources=400, size=2000, **options):
    sources = make(n_sources, size, random_state=0, **options)
    return np.array([s.mean(axis=0) for s in sources]), np.array([np.cov(s.T) for s in sources])


@pytest.mark.parametrize("make", [make_heavy_tailed_sources, make_multimodal_sources])
def test_the_others_take_sizes_and_seeds_alike(make):
    first, again, other = (make(4, (5, 9), random_state=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])
    assert {len(source) for source in make(60, (3, 5), random_state=0)} == {3, 4, 5}


def test_heavy_tails_are_those_of_the_t_distribution():
    """|x - mean|^2 in the shape's own metric, halved, is F distributed with (2, df) degrees."""
    sources = make_heavy_tailed_sources(40, 1000, degrees=4.0, random_state=0)
    squared = []
    for source in sources:
        centered = source - np.median(source, axis=0)
        shape = np.cov(source.T) * (4.0 - 2.0) / 4.0
        squared.append(np.einsum("ni,ij,nj->n", centered, np.linalg.inv(shape), centered))
    pooled = np.concatenate(squared) / 2
    for share in (0.5, 0.9, 0.99):
        expected = stats.f(2, 4).ppf(share)
        assert np.quantile(pooled, share) == pytest.approx(expected, rel=0.1)


def test_heavy_tailed_demand_is_never_negative():
    pooled = np.vstack(make_heavy_tailed_sources(50, 500, degrees=1.0, random_state=0))
    assert pooled.min() == 0.0


def test_multimodal_sources_have_more_spread_than_one_mode_has():
    """Var = mean within + between: three means uniform on [1, 3] with uniform weights.

    With weights w uniform on the simplex of K, E sum_k w_k^2 = 2 / (K + 1), so the variance between
    modes has mean (1 - 2 / (K + 1)) (2^2 / 12) = 1/6 for K = 3; within it is 1.25 * 0.01.
    """
    _, covariances = moments(make_multimodal_sources, n_sources=1500, size=200)
    expected = 1 / 6 + 1.25 * 0.01
    assert covariances[:, 0, 0].mean() == pytest.approx(expected, rel=0.06)


def test_one_mode_is_the_papers_law():
    means, covariances = moments(make_multimodal_sources, n_modes=1)
    reference = moments(make_newsvendor_sources)
    assert stats.ks_2samp(means[:, 0], reference[0][:, 0]).pvalue > 0.01
    traces = [np.trace(c, axis1=1, axis2=2) for c in (covariances, reference[1])]
    assert stats.ks_2samp(*traces).pvalue > 0.01


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (make_heavy_tailed_sources, {"degrees": 0.0}, "degrees"),
        (make_multimodal_sources, {"n_modes": 0}, "n_modes"),
        (make_heavy_tailed_sources, {"n_sources": 0}, "n_sources"),
        (make_multimodal_sources, {"n_samples": (5, 4)}, "n_samples"),
    ],
)
def test_bad_arguments_of_the_others_are_named(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)
