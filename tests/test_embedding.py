"""The pass over kernel values equals the textbook's sums, whatever the tiling, and keeps digits."""

import math
import tracemalloc
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reference import formulas
from roodso import embedding
from roodso.embedding import (
    Coordinates,
    Embedding,
    KernelSpace,
    group_means,
    source_means,
    source_means_at,
)
from roodso.kernels import RBF, Laplace, Matern32, Matern52
from roodso.pairs import Pairs
from roodso.sources import Sources

KERNELS = {
    "rbf": (RBF(0.9), formulas.rbf(0.9)),
    "laplace": (Laplace(0.9), formulas.laplace(0.9)),
    "matern32": (Matern32(0.9), formulas.matern32(0.9)),
    "matern52": (Matern52(0.9), formulas.matern52(0.9)),
    "sum": (RBF(0.5) + Laplace(2.0), formulas.plus(formulas.rbf(0.5), formulas.laplace(2.0))),
    "product": (
        Matern52(1.0) * Matern32(2.0),
        formulas.times(formulas.matern52(1.0), formulas.matern32(2.0)),
    ),
}
every_kernel = pytest.mark.parametrize(("kernel", "textbook"), KERNELS.values(), ids=KERNELS)


def tables(sizes, d, seed=0):
    """One table per source, each around a centre of its own."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=d) + 0.7 * rng.normal(size=(n, d)) for n in sizes]


def stacked(sources):
    codes = np.repeat(np.arange(len(sources)), [len(table) for table in sources])
    return np.vstack(sources), codes


def textbook_means(textbook, sources, points):
    return np.array([[formulas.mean_at(textbook, t, p) for t in sources] for p in points])


def embed(kernel, sources, extra=None, *, scale=False, **options):
    data = Sources.from_data(sources)
    coordinates = Coordinates.from_samples(data.samples, scale=scale)
    extra = np.empty((0, data.n_columns)) if extra is None else extra
    return Embedding.compute(KernelSpace(kernel, coordinates), data, extra, **options)


# Values ---------------------------------------------------------------------------------------


@every_kernel
@pytest.mark.parametrize("d", range(1, 7))
def test_means_are_the_sums_of_the_textbook(kernel, textbook, d):
    sources = tables([5, 1, 8, 1, 2], d, seed=d)
    samples, codes = stacked(sources)
    extra = np.random.default_rng(d).normal(size=(4, d))
    means = source_means(kernel, samples, codes, 5, extra)
    expected = textbook_means(textbook, sources, np.vstack([samples, extra]))
    assert means == pytest.approx(expected, rel=0, abs=2e-14)
    at_extra = source_means_at(kernel, extra, samples, codes, 5)
    assert at_extra == pytest.approx(expected[len(samples) :], rel=0, abs=2e-14)


@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=12),
    block=st.integers(2, 9),
    n_extra=st.integers(0, 11),
    kernel=st.sampled_from(list(KERNELS)),
    seed=st.integers(0, 99),
)
def test_tiling_changes_nothing(sizes, block, n_extra, kernel, seed):
    """Sources smaller and larger than a block, blocks that share sources, rows in any order."""
    ours, textbook = KERNELS[kernel]
    sources = tables(sizes, 2, seed)
    samples, codes = stacked(sources)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(samples))
    extra = rng.normal(size=(n_extra, 2))
    with mock.patch.object(embedding, "_BLOCK", block):
        means = source_means(ours, samples[order], codes[order], len(sizes), extra)
        at_extra = source_means_at(ours, extra, samples[order], codes[order], len(sizes))
    expected = textbook_means(textbook, sources, np.vstack([samples[order], extra]))
    assert means == pytest.approx(expected, rel=0, abs=2e-14)
    assert at_extra == pytest.approx(expected[len(samples) :], rel=0, abs=2e-14)


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=20), block=st.integers(2, 16))
def test_blocks_cover_all_samples_once_and_stay_small(sizes, block):
    codes = np.repeat(np.arange(len(sizes)), sizes)
    with mock.patch.object(embedding, "_BLOCK", block):
        blocks = embedding._Grouped(np.zeros((len(codes), 1)), codes, len(sizes)).blocks
    assert [b.start for b in blocks[1:]] == [b.stop for b in blocks[:-1]]
    assert (blocks[0].start, blocks[-1].stop) == (0, len(codes))
    assert all(0 < b.stop - b.start <= 1.5 * block + 1 for b in blocks)


def test_real_block_boundaries_against_kernel_values_of_differences():
    n = embedding._BLOCK
    sizes = [n - 1, 1, n, n + 1, 3, n // 2, 1, 2 * n + 5]
    samples, codes = stacked(tables(sizes, 2))
    extra = np.random.default_rng(0).normal(size=(n + 3, 2))
    kernel = Matern52(0.8)
    means = source_means(kernel, samples, codes, len(sizes), extra)
    for i in range(len(sizes)):
        expected = kernel(np.vstack([samples, extra]), samples[codes == i]).mean(axis=1)
        assert np.abs(means[:, i] - expected).max() <= 2e-14


def test_many_sources_of_one_sample_give_the_kernel_matrix():
    samples = np.random.default_rng(0).normal(size=(1100, 2))  # more than two blocks
    kernel = RBF(1.0)
    means = source_means(kernel, samples, np.arange(1100), 1100)
    assert np.abs(means - kernel(samples, samples)).max() <= 2e-14


def test_no_extra_points_and_a_single_sample():
    one = np.array([[3.0]])
    assert source_means(RBF(1.0), one, np.array([0]), 1).tolist() == [[1.0]]
    assert source_means(RBF(1.0), one, np.array([0]), 1, np.empty((0, 1))).tolist() == [[1.0]]
    assert source_means_at(RBF(1.0), np.empty((0, 1)), one, np.array([0]), 1).shape == (0, 1)


@every_kernel
def test_duplicate_points_have_equal_means(kernel, textbook):
    sources = tables([6, 5], 2)
    sources[0][3] = sources[0][1]
    sources[1][0] = sources[0][1]
    samples, codes = stacked(sources)
    means = source_means(kernel, samples, codes, 2)
    assert means == pytest.approx(textbook_means(textbook, sources, samples), abs=2e-14)
    assert means[3] == pytest.approx(means[1], rel=1e-15)
    assert means[6] == pytest.approx(means[1], rel=1e-15)


def test_samples_that_are_all_equal_have_means_of_exactly_c():
    for kernel, _ in KERNELS.values():
        means = source_means(kernel, np.zeros((5, 3)), np.array([0, 0, 1, 1, 1]), 2)
        assert (means == kernel.bound).all()


# Digits ---------------------------------------------------------------------------------------


@every_kernel
def test_data_far_from_the_origin_lose_nothing(kernel, textbook):
    far = [table + 1e8 for table in tables([7, 4, 9], 3)]  # what is left of the digits counts
    extra = far[0][:2] + 0.25
    found = embed(kernel, far, extra)
    expected = textbook_means(textbook, far, np.vstack([*far, extra]))
    assert found.means == pytest.approx(expected, rel=0, abs=2e-14)
    assert found.gram == pytest.approx(np.array(formulas.gram(textbook, far)), rel=0, abs=2e-14)


@every_kernel
def test_translation_changes_nothing(kernel, textbook):
    near = [np.round(1024 * table) / 1024 for table in tables([7, 4, 9], 3)]
    shift = np.array([1e8, -3e7, 5e8])  # with 2^-10 steps still exact
    here, there = embed(kernel, near), embed(kernel, [table + shift for table in near])
    assert there.means == pytest.approx(here.means, rel=0, abs=2e-14)


@pytest.mark.parametrize("name", ["laplace", "sum"])
@pytest.mark.parametrize("gap", [0.0, 1e-12, 1e-9, 1e-7, 1e-5, 1e-4, 1e-3, 1e-2])
def test_a_kink_keeps_its_digits_between_points_that_nearly_coincide(name, gap):
    kernel, textbook = KERNELS[name]
    base = np.random.default_rng(0).normal(size=(30, 2))  # the extent that rounding comes from
    close = base + np.array([gap, 0.0])
    sources = [base, close]
    means = source_means(kernel, *stacked(sources), 2)
    expected = textbook_means(textbook, sources, np.vstack(sources))
    assert means == pytest.approx(expected, rel=0, abs=1e-13)


@every_kernel
@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("distance", [1e2, 1e3, 1e4, 1e6, 1e9])
def test_wild_outliers_do_not_cost_the_others_digits(kernel, textbook, d, distance):
    sources = tables([12, 6], d)
    sources.append(sources[1] + distance)  # a cluster out there
    samples, codes = stacked(sources)
    means = source_means(kernel, samples - samples.mean(axis=0), codes, 3)
    centred = [table - samples.mean(axis=0) for table in sources]
    expected = textbook_means(textbook, centred, np.vstack(centred))
    assert means == pytest.approx(expected, rel=0, abs=1e-11)


@every_kernel
def test_the_largest_numbers_that_data_may_hold_are_far_apart(kernel, textbook):
    samples = np.array([[0.0, 1.0], [1e150, 0.0], [-1e150, 0.0]])
    values = Pairs(kernel, samples, samples).values()
    assert values == pytest.approx(kernel.bound * np.eye(3), abs=1e-15)


@every_kernel
def test_squared_distances_of_pairs_do_not_depend_on_the_kernels_factor(kernel, textbook):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(6, 3)), rng.normal(size=(5, 3))
    expected = [[math.dist(p, q) ** 2 for q in b] for p in a]
    pairs = Pairs(kernel, a, b)
    assert pairs.squared() == pytest.approx(np.array(expected), abs=1e-13)
    part = pairs.squared(slice(1, 3), slice(2, 5))
    assert part == pytest.approx(np.array(expected)[1:3, 2:5], abs=1e-13)


# Threads and memory ---------------------------------------------------------------------------


@every_kernel
def test_the_number_of_threads_changes_no_bit(kernel, textbook):
    sources = tables([40, 1, 33, 2, 70], 3)
    extra = np.random.default_rng(1).normal(size=(25, 3))
    with mock.patch.object(embedding, "_BLOCK", 16):
        results = [embed(kernel, sources, extra, n_jobs=n_jobs) for n_jobs in (1, 2, 3)]
        later = [r.extended(extra, n_jobs=n) for r, n in zip(results, (1, 2, 3), strict=True)]
    for result, longer in zip(results[1:], later[1:], strict=True):
        assert result.means.tobytes() == results[0].means.tobytes()
        assert result.gram.tobytes() == results[0].gram.tobytes()
        assert longer.means.tobytes() == later[0].means.tobytes()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_pass_holds_no_matrix_of_all_pairs(n_jobs):
    n = 6000
    samples = np.random.default_rng(0).normal(size=(n, 2))
    codes = np.arange(n) % 20
    tracemalloc.start()
    try:
        source_means(RBF(1.0), samples, codes, 20, samples[:500], n_jobs=n_jobs)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 0.1 * 8 * n * n


# Coordinates ----------------------------------------------------------------------------------


def test_coordinates_are_centred_and_in_the_users_units_by_default():
    samples = np.array([[1.0, 10.0], [3.0, 40.0]])
    coordinates = Coordinates.from_samples(samples, scale=False)
    assert coordinates(samples).tolist() == [[-1.0, -15.0], [1.0, 15.0]]
    assert coordinates.scale.tolist() == [1.0, 1.0]


def test_standardized_columns_have_deviation_one():
    samples = np.random.default_rng(0).normal(size=(50, 3)) * [1e-6, 1.0, 1e6] + [1.0, 0.0, -1e7]
    mapped = Coordinates.from_samples(samples, scale=True)(samples)
    assert mapped.mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-9)
    assert mapped.std(axis=0) == pytest.approx(np.ones(3), rel=1e-9)


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e8 / 3, 1e-300])
def test_a_constant_column_is_left_alone(value):
    samples = np.column_stack([np.full(7, value), np.arange(7.0)])
    coordinates = Coordinates.from_samples(samples, scale=True)
    assert coordinates.scale[0] == 1.0
    assert np.abs(coordinates(samples)[:, 0]).max() <= 1e-15 * abs(value)


@every_kernel
def test_with_standardization_units_do_not_matter(kernel, textbook):
    sources = tables([6, 9], 3)
    units = np.array([1000.0, 1.0, 1e-3])
    here = embed(kernel, sources, scale=True)
    there = embed(kernel, [table * units + 5.0 for table in sources], scale=True)
    assert there.means == pytest.approx(here.means, rel=0, abs=1e-12)
    deviation = np.vstack(sources).std(axis=0)
    scaled = [table / deviation for table in sources]
    expected = textbook_means(textbook, scaled, np.vstack(scaled))
    assert here.means == pytest.approx(expected, rel=0, abs=2e-14)


@every_kernel
@pytest.mark.parametrize("scale", [False, True])
def test_constant_columns_change_nothing(kernel, textbook, scale):
    sources = tables([6, 9], 2)
    wider = [np.insert(table, 1, 0.1, axis=1) for table in sources]
    found = embed(kernel, wider, scale=scale).means
    assert found == pytest.approx(embed(kernel, sources, scale=scale).means, rel=0, abs=2e-14)


def test_a_kernel_space_works_on_the_users_units():
    space = KernelSpace(RBF(2.0), Coordinates(np.array([5.0]), np.array([10.0])))
    values = space(np.array([[5.0], [25.0]]), np.array([[5.0]]))
    assert values == pytest.approx(np.array([[1.0], [math.exp(-0.5)]]), rel=1e-15)


# Embedding ------------------------------------------------------------------------------------


@every_kernel
def test_the_gram_matrix_is_that_of_the_textbook(kernel, textbook):
    sources = tables([5, 1, 8, 1, 2], 2)
    gram = embed(kernel, sources).gram
    assert gram == pytest.approx(np.array(formulas.gram(textbook, sources)), rel=0, abs=2e-14)
    assert (gram == gram.T).all()
    assert np.linalg.eigvalsh(gram).min() > -1e-14


def test_rows_may_come_in_any_order():
    sources = tables([5, 1, 8], 2)
    samples, codes = stacked(sources)
    order = np.random.default_rng(0).permutation(len(samples))
    names = np.array(["a", "b", "c"])[codes]
    space = KernelSpace(RBF(1.0), Coordinates.from_samples(samples, scale=False))
    none = np.empty((0, 2))
    straight = Embedding.compute(space, Sources.from_data(samples, names), none)
    mixed = Embedding.compute(space, Sources.from_data(samples[order], names[order]), none)
    position = [mixed.sources.labels.index(name) for name in straight.sources.labels]
    assert mixed.means[:, position] == pytest.approx(straight.means[order], rel=0, abs=1e-15)
    expected = straight.gram
    assert mixed.gram[np.ix_(position, position)] == pytest.approx(expected, rel=0, abs=1e-15)


def test_the_support_is_the_samples_and_the_extra_points_unrounded():
    sources = [table + 1e6 for table in tables([4, 3], 2)]
    extra = np.random.default_rng(0).normal(size=(5, 2))
    found = embed(RBF(1.0), sources, extra, scale=True)
    assert found.support.tobytes() == np.vstack([*sources, extra]).tobytes()
    assert found.points.tobytes() == found.space.coordinates(found.support).tobytes()


@every_kernel
def test_an_embedding_extended_is_the_one_computed_at_once(kernel, textbook):
    sources = tables([5, 3], 2)
    extra = np.random.default_rng(0).normal(size=(6, 2))
    once = embed(kernel, sources, extra)
    steps = embed(kernel, sources, extra[:2]).extended(extra[2:])
    assert steps.means == pytest.approx(once.means, rel=0, abs=1e-14)
    assert steps.support.tolist() == once.support.tolist()
    assert steps.points.tolist() == once.points.tolist()
    assert steps.gram.tolist() == once.gram.tolist()
    assert once.means_at(once.points) == pytest.approx(once.means, rel=0, abs=1e-14)


@every_kernel
def test_columns_are_kernel_values(kernel, textbook):
    found = embed(kernel, tables([5, 3], 2), np.array([[0.5, 0.5]]))
    index = np.array([8, 0, 3])
    expected = formulas.kernel_rows(textbook, found.support, found.support[index])
    assert found.columns(index) == pytest.approx(np.array(expected), rel=0, abs=1e-14)


def test_group_means_average_each_sources_rows_and_symmetrize():
    sources = Sources.from_data(np.zeros((4, 1)), ["x", "y", "x", "x"])
    values = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [9.0, 1.0]])
    by_hand = np.array([[5.0, 3.0], [3.0, 4.0]])  # means: x (5, 3), y (3, 4)
    assert group_means(values, sources) == pytest.approx(by_hand, rel=1e-15)
    values[1] = [4.0, 4.0]  # x (5, 3), y (4, 4): the off-diagonal entries are averaged
    assert group_means(values, sources) == pytest.approx(
        np.array([[5.0, 3.5], [3.5, 4.0]]), rel=1e-15
    )
