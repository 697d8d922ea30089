"""Kernel herding step by step as the paper has it, and how fast its embedding approaches."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import formulas
from roodso.embedding import Coordinates, Embedding, KernelSpace
from roodso.herding import herd, herd_sources
from roodso.kernels import RBF, Laplace, Matern32, Matern52
from roodso.sources import Sources

KERNELS = {
    "rbf": (RBF(0.8), formulas.rbf(0.8)),
    "laplace": (Laplace(0.8), formulas.laplace(0.8)),
    "matern32": (Matern32(0.8), formulas.matern32(0.8)),
    "product": (
        Matern52(1.0) * RBF(2.0),
        formulas.times(formulas.matern52(1.0), formulas.rbf(2.0)),
    ),
}
every_kernel = pytest.mark.parametrize(("kernel", "textbook"), KERNELS.values(), ids=KERNELS)


@every_kernel
@given(n=st.integers(3, 14), d=st.integers(1, 4), data=st.data())  # two samples always tie
def test_every_choice_is_the_one_of_the_formula(kernel, textbook, n, d, data):
    n_steps = data.draw(st.integers(1, n - 1))
    samples = np.random.default_rng(data.draw(st.integers(0, 10**6))).normal(size=(n, d))
    chosen = herd(kernel, samples, n_steps).tolist()
    assert chosen == formulas.herding(textbook, samples.tolist(), n_steps)


@every_kernel
def test_a_known_mean_spares_the_pass_and_changes_nothing(kernel, textbook):
    samples = np.random.default_rng(0).normal(size=(30, 2))
    mean = np.array([formulas.mean_at(textbook, samples, row) for row in samples])
    assert herd(kernel, samples, 20, mean).tolist() == herd(kernel, samples, 20).tolist()


def test_the_first_choice_is_where_the_density_is_highest_and_the_second_elsewhere():
    samples = np.array([[0.0], [0.1], [5.0], [5.1], [0.05]])
    assert herd(RBF(0.5), samples, 2).tolist() == [4, 2]


def test_a_sample_may_be_chosen_again():
    samples = np.array([[0.0]] * 3 + [[0.01], [9.0]])
    chosen = herd(RBF(1.0), samples, 4)
    assert len({tuple(point) for point in samples[chosen]}) < 4


@pytest.mark.parametrize("n_steps", [6, 7, 50])
def test_with_as_many_steps_as_samples_the_source_is_taken_whole(n_steps):
    samples = np.random.default_rng(0).normal(size=(6, 2))
    assert herd(RBF(1.0), samples, n_steps).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("n_steps", [0, -1])
def test_no_steps_are_refused(n_steps):
    with pytest.raises(ValueError, match="n_steps must be a whole number >= 1, got"):
        herd(RBF(1.0), np.zeros((3, 1)), n_steps)


def test_sources_are_herded_one_by_one_wherever_their_rows_are():
    rng = np.random.default_rng(0)
    samples, groups = rng.normal(size=(40, 2)) + 7.0, np.resize(["a", "b", "b", "c"], 40)
    groups[:3] = "d"  # a source with fewer samples than steps
    data = Sources.from_data(samples, groups)
    kernel, textbook = KERNELS["matern32"]
    space = KernelSpace(kernel, Coordinates.from_samples(samples, scale=False))
    embedding = Embedding.compute(space, data, rng.normal(size=(5, 2)))
    herded = herd_sources(embedding, 6)
    assert [len(rows) for rows in herded] == [min(6, size) for size in data.sizes]
    for i, rows in enumerate(herded):
        assert (data.codes[rows] == i).all()
        table = data.table(i).tolist()
        if len(table) > 6:
            expected = [table[t] for t in formulas.herding(textbook, table, 6)]
            assert samples[rows].tolist() == expected
        else:
            assert samples[rows].tolist() == table


def mmd_along(kernel, samples, chosen):
    """The distance between the embeddings of the first T choices and of all, T = 1, 2, ..."""
    K = kernel(samples, samples)
    whole, n = K.mean(), len(samples)
    found = []
    for T in range(1, len(chosen) + 1):
        w = np.bincount(chosen[:T], minlength=n) / T
        found.append(np.sqrt(max(w @ K @ w - 2 * w @ K.mean(axis=1) + whole, 0.0)))
    return np.array(found)


@pytest.mark.parametrize("kernel", [RBF(1.0), Matern52(1.0)], ids=["rbf", "matern52"])
@pytest.mark.parametrize("d", [1, 2])
def test_the_distance_falls_like_one_over_the_steps_on_the_whole(kernel, d):
    rng = np.random.default_rng(d)
    samples = rng.normal(size=(600, d))
    steps = np.arange(1, 201)
    herded = mmd_along(kernel, samples, herd(kernel, samples, 200))
    late = steps >= 10
    rate = np.polyfit(np.log(steps[late]), np.log(herded[late]), 1)[0]
    assert rate < -0.8  # drawing at random gives -0.5
    drawn = mmd_along(kernel, samples, rng.choice(600, 200))
    assert herded[-1] < 0.2 * drawn[-1]
    assert (np.diff(herded) > 0).any()  # though not at every step


def test_the_textbooks_mmd_agrees_with_the_one_used_here():
    samples = np.random.default_rng(0).normal(size=(12, 2))
    chosen = herd(RBF(1.0), samples, 5)
    expected = formulas.squared_mmd(formulas.rbf(1.0), samples[chosen], samples)
    assert mmd_along(RBF(1.0), samples, chosen)[-1] == pytest.approx(np.sqrt(expected), rel=1e-12)
