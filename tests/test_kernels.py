"""Kernels by the textbook's formulas, their derivatives by differences, and the bandwidth rule."""

import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from reference import formulas
from roodso import kernels
from roodso.kernels import (
    MEDIAN_SUBSAMPLE,
    RBF,
    Kernel,
    Laplace,
    Matern32,
    Matern52,
    Product,
    Sum,
    as_kernel,
    kernel_from_dict,
    median_bandwidth,
    squared_distances,
)

SINGLE = {
    "rbf": (RBF, formulas.rbf),
    "laplace": (Laplace, formulas.laplace),
    "matern32": (Matern32, formulas.matern32),
    "matern52": (Matern52, formulas.matern52),
}
PAIRS = list(itertools.product(SINGLE, repeat=2))


def both(name, sigma):
    """The library's kernel and the textbook's."""
    ours, textbook = SINGLE[name]
    return ours(sigma), textbook(sigma)


def all_kernels():
    """Every single kernel, every sum and product of two, and a nested one."""
    found = [both(name, 0.7) for name in SINGLE]
    for one, other in PAIRS:
        (k1, f1), (k2, f2) = both(one, 0.7), both(other, 1.9)
        found += [(k1 + k2, formulas.plus(f1, f2)), (k1 * k2, formulas.times(f1, f2))]
    nested = (RBF(0.7) + Laplace(1.1)) * Matern32(2.0) + Matern52(0.9)
    by_hand = formulas.plus(
        formulas.times(
            formulas.plus(formulas.rbf(0.7), formulas.laplace(1.1)), formulas.matern32(2.0)
        ),
        formulas.matern52(0.9),
    )
    smooth = (RBF(0.7) + Matern52(1.1)) * (Matern32(2.0) + RBF(0.5))
    smooth_by_hand = formulas.times(
        formulas.plus(formulas.rbf(0.7), formulas.matern52(1.1)),
        formulas.plus(formulas.matern32(2.0), formulas.rbf(0.5)),
    )
    return [*found, (nested, by_hand), (smooth, smooth_by_hand)]


KERNELS = all_kernels()
IDS = [repr(kernel) for kernel, _ in KERNELS]
every_kernel = pytest.mark.parametrize(("kernel", "textbook"), KERNELS, ids=IDS)
smooth_kernels, sharp_kernels = (
    pytest.mark.parametrize(
        ("kernel", "textbook"),
        [pair for pair, name in zip(KERNELS, IDS, strict=True) if ("Laplace" in name) == sharp],
        ids=[name for name in IDS if ("Laplace" in name) == sharp],
    )
    for sharp in (False, True)
)
coordinates = st.floats(-5, 5, allow_subnormal=False)


def assert_exact(values, expected):
    """Equal up to a few roundings; exp turns one in its argument x into |x| of its value."""
    smallest = np.finfo(float).tiny
    argument = np.abs(np.log(np.maximum(expected, smallest)))
    allowed = 4 * np.finfo(float).eps * (2 + argument) * expected + smallest
    assert (np.abs(values - expected) <= allowed).all()


# Values ---------------------------------------------------------------------------------------


@every_kernel
@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_values_are_those_of_the_textbook(kernel, textbook, d):
    rng = np.random.default_rng(d)
    a, b = rng.normal(size=(7, d)), rng.normal(size=(5, d))
    b[0] = a[0]  # a pair that coincides
    expected = np.array(formulas.kernel_rows(textbook, a, b))
    assert_exact(kernel(a, b), expected)


@pytest.mark.parametrize("name", SINGLE)
@given(
    a=arrays(float, (2, 3), elements=coordinates),
    sigma=st.floats(1e-3, 1e3),
)
def test_values_are_those_of_the_textbook_for_any_bandwidth(name, a, sigma):
    kernel, textbook = both(name, sigma)
    expected = np.array(formulas.kernel_rows(textbook, a, a))
    assert_exact(kernel(a, a), expected)


def test_laplace_takes_the_euclidean_norm():
    origin, corner = np.zeros((1, 2)), np.array([[3.0, 4.0]])
    assert Laplace(1.0)(origin, corner)[0, 0] == pytest.approx(np.exp(-5.0), rel=1e-15)
    assert Laplace(1.0)(origin, corner)[0, 0] != pytest.approx(np.exp(-7.0))


@every_kernel
def test_nothing_is_lost_between_points_that_nearly_coincide(kernel, textbook):
    for gap in (1e-9, 1e-5, 1e-3):
        a, b = np.array([[1.0, 0.0]]), np.array([[1.0, gap]])
        assert kernel(a, b)[0, 0] == pytest.approx(textbook(gap), rel=1e-15)


@every_kernel
def test_the_bound_is_the_value_at_zero(kernel, textbook):
    assert kernel.bound == textbook(0.0)
    point = np.array([[0.3, -2.0]])
    assert kernel(point, point)[0, 0] == kernel.bound


@every_kernel
@pytest.mark.parametrize("d", [1, 3])
def test_gram_matrices_are_positive_semidefinite(kernel, textbook, d):
    points = np.random.default_rng(1).normal(size=(30, d))
    points[5] = points[6]
    assert np.linalg.eigvalsh(kernel(points, points)).min() > -1e-13 * kernel.bound


@every_kernel
def test_the_scaled_form_that_tiles_use_is_the_same_kernel(kernel, textbook):
    squared = np.random.default_rng(0).uniform(0, 9, (4, 3))
    expected = [[textbook(np.sqrt(cell)) for cell in row] for row in squared]
    u = kernel.factor * squared
    values = kernel.from_scaled(u)
    assert values is u  # in place: tiles make no copies
    assert values == pytest.approx(np.array(expected), rel=1e-14)
    assert kernel.from_squared(squared.copy()) == pytest.approx(np.array(expected), rel=1e-14)


@every_kernel
def test_rounding_below_zero_counts_as_distance_zero(kernel, textbook):
    u = np.full((1, 1), -1e-17 * np.sign(kernel.factor))
    assert kernel.from_scaled(u)[0, 0] == pytest.approx(kernel.bound, abs=1e-15)


def test_a_single_point_may_be_given_as_a_row():
    assert RBF(1.0)(np.zeros(2), np.zeros((3, 2))).tolist() == [[1.0, 1.0, 1.0]]


# Derivatives ----------------------------------------------------------------------------------


@every_kernel
def test_the_profile_is_value_and_slope_in_the_distance(kernel, textbook):
    r = np.array([1e-3, 0.1, 0.5, 1.0, 2.0, 5.0])
    value, slope = kernel.profile(r)
    assert value == pytest.approx(np.array([textbook(x) for x in r]), rel=1e-14)
    h = 1e-5 * r
    ahead, behind = (np.array([textbook(x) for x in r + s * h]) for s in (1, -1))
    assert slope == pytest.approx((ahead - behind) / (2 * h), rel=1e-5, abs=1e-9)


@smooth_kernels
def test_smooth_kernels_are_level_at_distance_zero(kernel, textbook):
    assert not kernel.sharp
    value, slope = kernel.profile(np.zeros(1))
    assert (value[0], slope[0]) == (kernel.bound, 0.0)


@smooth_kernels
def test_curvature_is_minus_the_second_derivative_at_distance_zero(kernel, textbook):
    h = 1e-4
    expected = 2 * (textbook(0.0) - textbook(h)) / h**2  # k is even in r
    assert kernel.curvature == pytest.approx(expected, rel=1e-3)  # Matern32: third order at 0


@every_kernel
def test_no_slope_exceeds_the_steepness(kernel, textbook):
    r = np.concatenate([[0.0], np.geomspace(1e-6, 20, 4000)])
    largest = np.abs(kernel.profile(r)[1]).max()
    assert largest <= kernel.steepness * (1 + 1e-12)
    if len(kernel.bandwidths) == 1:
        assert kernel.steepness == pytest.approx(largest, rel=1e-5)


@sharp_kernels
def test_kernels_with_a_kink_have_a_slope_at_distance_zero(kernel, textbook):
    assert kernel.sharp
    assert kernel.curvature == np.inf
    expected = (textbook(1e-7) - textbook(0.0)) / 1e-7
    assert kernel.profile(np.zeros(1))[1][0] == pytest.approx(expected, rel=1e-5)


@every_kernel
@pytest.mark.parametrize("d", [1, 2, 5])
def test_gradients_are_those_of_differences(kernel, textbook, d):
    rng = np.random.default_rng(d)
    at, points = rng.normal(size=(4, d)), rng.normal(size=(6, d))
    gradient = kernel.gradient(at, points)
    assert gradient.shape == (4, 6, d)
    h = 1e-5
    for axis in range(d):
        step = h * np.eye(d)[axis]
        ahead = np.array(formulas.kernel_rows(textbook, at + step, points))
        behind = np.array(formulas.kernel_rows(textbook, at - step, points))
        expected = (ahead - behind) / (2 * h)
        assert gradient[:, :, axis] == pytest.approx(expected, rel=1e-6, abs=1e-8)


@every_kernel
def test_the_gradient_is_zero_where_points_coincide(kernel, textbook):
    points = np.array([[1.0, 2.0]])
    assert kernel.gradient(points, points).tolist() == [[[0.0, 0.0]]]


# Sums and products ----------------------------------------------------------------------------


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_any_two_kernels_combine(one, other):
    k1, k2 = SINGLE[one][0](0.5), SINGLE[other][0](2.0)
    assert isinstance(k1 + k2, Sum)
    assert isinstance(k1 * k2, Product)
    assert (k1 + k2).bound == 2.0
    assert (k1 * k2).bound == 1.0
    assert (k1 + k2).bandwidths == (k1 * k2).bandwidths == (0.5, 2.0)
    assert (k1 + k2).sharp == (k1 * k2).sharp == ("laplace" in (one, other))


def test_bounds_of_nested_kernels():
    k = RBF(1.0)
    assert ((k + k) * (k + k + k)).bound == 6.0


@pytest.mark.parametrize("other", [1, 2.0, "rbf", None, RBF])
def test_a_kernel_combines_with_kernels_only(other):
    with pytest.raises(TypeError, match="a kernel can be combined with a kernel only, got"):
        RBF(1.0) + other
    with pytest.raises(TypeError, match="a kernel can be combined with a kernel only, got"):
        RBF(1.0) * other


@every_kernel
def test_descriptions_read_back_to_an_equal_kernel(kernel, textbook):
    again = kernel_from_dict(kernel.to_dict())
    assert again == kernel
    assert repr(again) == repr(kernel)
    assert hash(again) == hash(kernel)
    open_ended = kernel_from_dict((RBF() + Laplace(2.0)).to_dict())
    assert open_ended.bandwidths == (None, 2.0)


def test_kernels_of_different_kind_or_bandwidth_differ():
    different = [RBF(1.0), RBF(2.0), RBF(), Laplace(1.0), RBF(1.0) + RBF(1.0), RBF(1.0) * RBF(1.0)]
    assert all((a == b) == (a is b) for a in different for b in different)


# Names and bandwidths -------------------------------------------------------------------------


@pytest.mark.parametrize("name", SINGLE)
def test_names_stand_for_kernels_whose_bandwidth_is_open(name):
    kernel = as_kernel(name)
    assert type(kernel) is SINGLE[name][0]
    assert kernel.bandwidths == (None,)
    assert kernel.with_bandwidth(3.0) == SINGLE[name][0](3.0)


def test_a_kernel_object_passes_as_it_is():
    kernel = RBF(1.0) + Laplace()
    assert as_kernel(kernel) is kernel


@pytest.mark.parametrize("kernel", ["RBF", "gaussian", "", None, 3, RBF, ["rbf"], lambda a, b: 1])
def test_what_is_no_kernel_is_refused(kernel):
    with pytest.raises(
        ValueError,
        match="kernel must be one of 'rbf', 'laplace', 'matern32', 'matern52' or a roodso Kernel",
    ):
        as_kernel(kernel)


def test_a_bandwidth_is_filled_in_only_where_none_was_given():
    kernel = (RBF() + Laplace(2.0)) * Matern52()
    assert kernel.with_bandwidth(0.5) == (RBF(0.5) + Laplace(2.0)) * Matern52(0.5)
    assert kernel.bandwidths == (None, 2.0, None)  # unchanged


@pytest.mark.parametrize("cls", [RBF, Laplace, Matern32, Matern52])
def test_bad_bandwidths_are_refused(cls):
    for bad in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"bandwidth must be a number in \(0, inf\), got"):
            cls(bad)
    for bad in ("1", [1.0], True, 1j):
        with pytest.raises(TypeError, match=r"bandwidth must be a number in \(0, inf\), got"):
            cls(bad)
    assert cls(np.float32(2.0)).bandwidth == 2.0
    assert cls(3).bandwidth == 3.0


@pytest.mark.parametrize("kernel", [RBF(), Laplace(), Matern32(), Matern52()])
def test_a_kernel_without_bandwidth_says_so(kernel):
    with pytest.raises(ValueError, match="has no bandwidth yet: give one or fit a model"):
        kernel(np.zeros((1, 1)), np.zeros((1, 1)))


def test_the_base_class_cannot_be_used_itself():
    with pytest.raises(TypeError, match="abstract"):
        Kernel()


# Distances and the median heuristic -----------------------------------------------------------


@pytest.mark.parametrize("shift", [0.0, 1e8])
def test_squared_distances_are_exact_far_from_the_origin(shift):
    a = shift + np.array([[0.0, 0.5], [2.0, 1.0]])  # exact in binary, also shifted
    assert squared_distances(a, a).tolist() == [[0.0, 4.25], [4.25, 0.0]]
    out = np.empty((2, 2))
    assert squared_distances(a, a, out) is out


def pairwise_median(samples):
    """The median of all pairwise distances, one pair at a time."""
    rows = samples.tolist()
    return statistics.median(math.dist(p, q) for p, q in itertools.combinations(rows, 2))


@given(
    samples=arrays(
        float,
        st.tuples(st.integers(2, 9), st.integers(1, 3)),
        elements=coordinates,
        unique=True,
    )
)
def test_the_bandwidth_is_the_median_of_all_pairwise_distances(samples):
    assert median_bandwidth(samples) == pytest.approx(pairwise_median(samples), rel=1e-14)


def test_the_median_is_exact_up_to_the_limit(monkeypatch):
    monkeypatch.setattr(kernels, "MEDIAN_SUBSAMPLE", 40)
    samples = np.random.default_rng(0).normal(size=(40, 2))
    seeds = [np.random.default_rng(seed) for seed in range(3)]
    expected = pytest.approx(pairwise_median(samples), rel=1e-14)
    assert all(median_bandwidth(samples, seed) == expected for seed in [None, *seeds])


def test_above_the_limit_the_seed_draws_a_subsample():
    samples = np.random.default_rng(0).normal(size=(MEDIAN_SUBSAMPLE + 500, 2))
    first, again, other = (
        median_bandwidth(samples, np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other
    exact = float(np.median(np.sqrt(squared_distances(samples, samples))))
    assert [first, other] == pytest.approx([exact, exact], rel=0.05)
    assert median_bandwidth(samples) == median_bandwidth(samples)  # without a seed too


def test_the_subsample_is_drawn_without_replacement(monkeypatch):
    monkeypatch.setattr(kernels, "MEDIAN_SUBSAMPLE", 3)
    samples = np.array([[0.0], [1.0], [3.0], [7.0]])  # distances tell which pairs there are
    possible = {pairwise_median(np.delete(samples, row, axis=0)) for row in range(4)}
    found = {median_bandwidth(samples, np.random.default_rng(seed)) for seed in range(40)}
    assert found == possible


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([[2.0]], 1.0),  # one sample: no pair
        ([[2.0], [2.0], [2.0]], 1.0),  # all equal
        ([[0.0]] * 9 + [[4.0]], 4.0),  # most pairs coincide: the median of the others
        ([[0.0]] * 6 + [[4.0], [7.0]], 4.0),
        ([[0.0], [0.0], [1.0], [1.0]], 1.0),  # ties
        ([[0.0], [1.0], [3.0], [6.0]], 3.0),  # six distances: 1 2 3 3 5 6
    ],
)
def test_the_median_with_ties_and_equal_samples(samples, expected):
    assert median_bandwidth(np.array(samples)) == expected


@pytest.mark.parametrize("n", [99_999, 100_001, 100_002, 250_000])
@pytest.mark.parametrize("kind", ["plain", "sorted", "ties", "misleading"])
def test_the_median_of_many_values_is_exact(n, kind):
    values = np.random.default_rng(n).gamma(2.0, size=n)
    if kind == "sorted":
        values.sort()
    elif kind == "ties":
        values = np.round(values, 1)
    elif kind == "misleading":  # the strided sample sees only the largest values
        values[:: n // 10_000] = 50.0
    assert kernels._median(values) == np.median(values)
