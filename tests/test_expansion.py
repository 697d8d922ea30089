"""Kernel expansions: values, norms and gradients by the textbook, and bounds on their rounding."""

import math
from unittest import mock

import numpy as np
import pytest

from reference import formulas
from roodso import expansion
from roodso.embedding import Coordinates, KernelSpace
from roodso.expansion import KernelExpansion
from roodso.kernels import RBF, Laplace, Matern32, Matern52

KERNELS = {
    "rbf": (RBF(0.9), formulas.rbf(0.9)),
    "laplace": (Laplace(0.9), formulas.laplace(0.9)),
    "matern32": (Matern32(0.9), formulas.matern32(0.9)),
    "matern52": (Matern52(0.9), formulas.matern52(0.9)),
    "sum": (RBF(0.1) + Laplace(20.0), formulas.plus(formulas.rbf(0.1), formulas.laplace(20.0))),
    "product": (
        Matern52(1.0) * Laplace(2.0),
        formulas.times(formulas.matern52(1.0), formulas.laplace(2.0)),
    ),
}
every_kernel = pytest.mark.parametrize(("kernel", "textbook"), KERNELS.values(), ids=KERNELS)
SCALE = np.array([2.0, 0.5, 10.0])


def instance(kernel, d=3, n_points=23, shift=0.0, seed=0, **options):
    """An expansion with as many negative as positive coefficients, and where to look at it."""
    rng = np.random.default_rng(seed)
    scale = np.resize(SCALE, d)
    points = shift + scale * rng.normal(size=(n_points, d))
    at = shift + scale * rng.normal(size=(17, d))
    coordinates = Coordinates(np.full(d, shift + 0.25), scale)
    g = KernelExpansion(KernelSpace(kernel, coordinates), points, rng.normal(size=n_points))
    return KernelExpansion(g.space, points, g.coefficients, **options), at


def textbook_values(textbook, g, at):
    scale = g.space.coordinates.scale
    return np.array(
        [formulas.expansion(textbook, g.points / scale, g.coefficients, x / scale) for x in at]
    )


def textbook_gradient(textbook, g, at, h=1e-5):
    """By central differences in the user's units."""
    columns = []
    for axis, unit in enumerate(g.space.coordinates.scale):
        step = np.zeros(at.shape[1])
        step[axis] = h * unit
        ahead, behind = (textbook_values(textbook, g, at + s * step) for s in (1, -1))
        columns.append((ahead - behind) / (2 * h * unit))
    return np.column_stack(columns)


@every_kernel
@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_values_are_the_sums_of_the_textbook(kernel, textbook, d):
    g, at = instance(kernel, d)
    assert g(at) == pytest.approx(textbook_values(textbook, g, at), rel=0, abs=1e-13)
    assert g(g.points) == pytest.approx(textbook_values(textbook, g, g.points), rel=0, abs=1e-13)


@every_kernel
@pytest.mark.parametrize("d", [1, 3])
def test_gradients_are_those_of_differences(kernel, textbook, d):
    g, at = instance(kernel, d)
    expected = textbook_gradient(textbook, g, at)
    assert g.gradient(at) == pytest.approx(expected, rel=1e-5, abs=1e-7)
    values, slopes = g.value_and_gradient(at)
    assert values == pytest.approx(textbook_values(textbook, g, at), rel=0, abs=1e-13)
    assert slopes.tolist() == g.gradient(at).tolist()


@every_kernel
def test_the_gradient_leaves_out_a_term_whose_point_coincides(kernel, textbook):
    g, _ = instance(kernel)
    rest = KernelExpansion(g.space, g.points[1:], g.coefficients[1:])
    expected = textbook_gradient(textbook, rest, g.points[:1])
    assert g.gradient(g.points[:1]) == pytest.approx(expected, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("gap", [1e-9, 1e-6, 1e-4, 1e-3])
def test_a_kink_keeps_its_digits_near_its_points(gap):
    kernel, textbook = KERNELS["laplace"]
    g, _ = instance(kernel)
    at = g.points + np.array([gap, 0.0, 0.0]) * SCALE
    assert g(at) == pytest.approx(textbook_values(textbook, g, at), rel=0, abs=1e-12)
    # Close to its point, the cone of its own term is all but alone in changing direction.
    own = -g.coefficients / 0.9 * np.exp(-gap / 0.9) / SCALE[0]
    rest = [
        KernelExpansion(g.space, np.delete(g.points, p, 0), np.delete(g.coefficients, p))
        for p in range(len(at))
    ]
    expected = [
        textbook_gradient(textbook, others, at[p : p + 1])[0] + [own[p], 0.0, 0.0]
        for p, others in enumerate(rest)
    ]
    assert g.gradient(at) == pytest.approx(np.array(expected), rel=1e-5, abs=1e-6)


@every_kernel
def test_the_norm_is_the_double_sum(kernel, textbook):
    g, _ = instance(kernel)
    squared = math.fsum(
        c * value
        for c, value in zip(g.coefficients, textbook_values(textbook, g, g.points), strict=True)
    )
    assert g.norm == pytest.approx(math.sqrt(squared), rel=1e-13)
    assert g.mass == pytest.approx(math.fsum(abs(c) for c in g.coefficients), rel=1e-15)


def test_a_known_norm_is_taken_on_trust():
    g, _ = instance(RBF(1.0), known_norm=4.25)
    assert g.norm == 4.25


def test_a_function_that_cancels_has_norm_zero():
    space = KernelSpace(RBF(1.0), Coordinates(np.zeros(1), np.ones(1)))
    g = KernelExpansion(space, np.array([[1.0], [1.0]]), np.array([1.0, -1.0]))
    assert g.norm == pytest.approx(0.0, abs=1e-7)
    assert g(np.array([[0.0], [1.0]])).tolist() == [0.0, 0.0]


@every_kernel
def test_no_points_make_the_zero_function(kernel, textbook):
    space = KernelSpace(kernel, Coordinates(np.zeros(2), np.ones(2)))
    g = KernelExpansion(space, np.empty((0, 2)), np.empty(0))
    at = np.array([[1.0, 2.0]])
    assert (g(at).tolist(), g.gradient(at).tolist(), g.norm) == ([0.0], [[0.0, 0.0]], 0.0)


@every_kernel
def test_no_rows_give_no_values(kernel, textbook):
    g, at = instance(kernel)
    assert g(at[:0]).shape == (0,)
    assert g.gradient(at[:0]).shape == (0, 3)


@every_kernel
@pytest.mark.parametrize("block", [1, 5, 17, 23])
def test_tiling_and_threads_change_nothing(kernel, textbook, block):
    with mock.patch.object(expansion, "_BLOCK", block):
        (one, at), (more, _) = instance(kernel), instance(kernel, n_jobs=3)
        values, gradient = one(at), one.gradient(at)
        assert more(at).tobytes() == values.tobytes()
        assert more.gradient(at).tobytes() == gradient.tobytes()
        assert more.norm == one.norm
    whole, _ = instance(kernel)
    assert values == pytest.approx(whole(at), rel=0, abs=1e-13)
    assert gradient == pytest.approx(whole.gradient(at), rel=0, abs=1e-12)


@every_kernel
def test_data_far_from_the_origin_lose_nothing(kernel, textbook):
    g, at = instance(kernel, shift=1e8)
    points, where = ((x - 1e8) / SCALE for x in (g.points, at))  # x - 1e8 is exact
    expected = [formulas.expansion(textbook, points, g.coefficients, x) for x in where]
    assert g(at) == pytest.approx(np.array(expected), rel=0, abs=1e-13)


@every_kernel
@pytest.mark.parametrize("spread", [1.0, 30.0, 1e3, 1e5])
def test_rounding_stays_below_the_bound_that_is_stated(kernel, textbook, spread):
    rng = np.random.default_rng(0)
    space = KernelSpace(kernel, Coordinates(np.zeros(2), np.ones(2)))
    points = spread * rng.uniform(-1, 1, (40, 2))
    g = KernelExpansion(space, points, rng.normal(size=40))
    near = points + rng.choice([0.0, 1e-9, 1e-5, 1e-3, 0.1], (40, 1)) * rng.normal(size=(40, 2))
    at = np.clip(np.vstack([near, spread * rng.uniform(-1, 1, (20, 2))]), -spread, spread)
    value_error, slope_error = g.rounding(np.full(2, -spread), np.full(2, spread))
    assert np.abs(g(at) - textbook_values(textbook, g, at)).max() <= value_error
    assert value_error <= 1e-5  # and it says something
    exact = np.array([_exact_gradient(kernel, g, x) for x in at])
    assert np.abs(g.gradient(at) - exact).max() <= slope_error


def _exact_gradient(kernel, g, x):
    """The sum of the gradient's terms, each from its own difference."""
    terms = []
    for c, p in zip(g.coefficients, g.points, strict=True):
        r = math.dist(x, p)
        if r > 0:
            slope = kernel.profile(np.array([r]))[1][0]
            terms.append(c * slope * (x - p) / r)
    return [math.fsum(column) for column in zip(*terms, strict=True)]
