"""The embedded bakery table."""

import numpy as np
import pytest

from roodso.datasets import load_bakery


def test_the_table_is_whole():
    bakery = load_bakery(as_frame=True)
    assert bakery.frame.shape == (5866, 6)
    assert bakery.groups.nunique() == 35
    sizes = bakery.groups.value_counts()
    assert (sizes.min(), sizes.max()) == (48, 175)
    assert not bakery.frame.isna().any(axis=None)
    assert (bakery.data >= 0).all(axis=None)
    assert "ddop" in bakery.DESCR
    assert "Copyright" in bakery.DESCR


def test_arrays_hold_the_same_as_the_frame():
    plain, framed = load_bakery(), load_bakery(as_frame=True)
    np.testing.assert_array_equal(plain.data, framed.data.to_numpy())
    np.testing.assert_array_equal(plain.groups, framed.groups.to_numpy())
    assert plain.frame is None


def test_weeks_with_few_open_days_can_be_left_out():
    bakery = load_bakery(as_frame=True, min_days=5)
    assert bakery.frame["n_days"].min() == 5
    sizes = bakery.groups.value_counts()
    assert (sizes.min(), sizes.max()) == (45, 173)


@pytest.mark.parametrize("min_days", [0, 8, -1])
def test_impossible_numbers_of_days_are_refused(min_days):
    with pytest.raises(ValueError, match="min_days"):
        load_bakery(min_days=min_days)
