"""The paper's generator: sizes, seeds, and the laws of means, angles and factors."""

import numpy as np
import pytest
from scipy import stats

from roodso.datasets import make_newsvendor_sources

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
