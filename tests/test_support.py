"""Support points drawn by Latin hypercube: one in every stratum of every column, in the box."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roodso.support import data_box, latin_hypercube

bounds = st.floats(-1e6, 1e6)


def draw(lower, upper, n_points, seed=0):
    lower, upper = np.array(lower, dtype=float), np.array(upper, dtype=float)
    return latin_hypercube(lower, upper, n_points, np.random.default_rng(seed))


@given(d=st.integers(1, 6), n_points=st.integers(1, 70), seed=st.integers(0, 10**6))
def test_every_stratum_of_every_column_holds_one_point(d, n_points, seed):
    points = draw(np.zeros(d), np.full(d, n_points), n_points, seed)
    assert points.shape == (n_points, d)
    for column in points.T:
        assert np.sort(np.floor(column)).tolist() == list(range(n_points))


@given(
    ends=st.lists(st.tuples(bounds, bounds), min_size=1, max_size=4),
    n_points=st.integers(0, 20),
    seed=st.integers(0, 99),
)
def test_all_points_lie_in_the_box(ends, n_points, seed):
    lower, upper = (np.array([choose(pair) for pair in ends]) for choose in (min, max))
    points = draw(lower, upper, n_points, seed)
    assert ((points >= lower) & (points <= upper)).all()


def test_a_narrow_box_far_from_the_origin_is_not_left_by_rounding():
    lower = np.array([1e16, 0.1])
    upper = np.array([1e16 + 2, np.nextafter(0.1, 1)])
    points = draw(lower, upper, 50)
    assert ((points >= lower) & (points <= upper)).all()


def test_flat_columns_keep_their_value_exactly():
    points = draw([0.1, 0.0, -7.3], [0.1, 1.0, -7.3], 9)
    assert (points[:, 0] == 0.1).all()
    assert (points[:, 2] == -7.3).all()
    assert np.sort(np.floor(9 * points[:, 1])).tolist() == list(range(9))


@pytest.mark.parametrize("d", [1, 3])
def test_no_points_are_an_empty_table_of_the_right_width(d):
    assert draw(np.zeros(d), np.ones(d), 0).shape == (0, d)


def test_the_seed_determines_the_points():
    first, again, other = (draw([0, 0], [1, 2], 8, seed) for seed in (3, 3, 4))
    assert first.tolist() == again.tolist()
    assert first.tolist() != other.tolist()


def test_columns_are_not_paired_in_order():
    points = draw([0, 0], [1, 1], 200)
    assert abs(np.corrcoef(points.T)[0, 1]) < 0.2


def test_the_box_of_the_data_is_tight():
    samples = np.array([[1.0, 5.0], [3.0, -2.0], [2.0, 0.1]])
    lower, upper = data_box(samples)
    assert (lower.tolist(), upper.tolist()) == ([1.0, -2.0], [3.0, 5.0])


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="n_points must be a whole number >= 0, got -1"):
        draw([0], [1], -1)
    with pytest.raises(TypeError, match=r"n_points must be a whole number >= 0, got 2\.5"):
        draw([0], [1], 2.5)
    with pytest.raises(ValueError, match="lower must not exceed upper, got"):
        draw([0, 2], [1, 1], 5)
