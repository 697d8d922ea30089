"""Checks at the door: each names the argument, the value and what is accepted."""

import os
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from roodso._validation import (
    as_vector,
    check_choice,
    check_integer,
    check_jobs,
    check_real,
    check_seed,
    check_table,
)


@pytest.mark.parametrize("value", [0.5, 1, np.float32(0.5), np.int64(1), Fraction(1, 2)])
def test_real_numbers_of_every_kind_become_floats(value):
    found = check_real(value, "x")
    assert type(found) is float
    assert found == float(value)


@pytest.mark.parametrize("value", [None, "1", True, np.True_, 1j, [1.0], np.array([1.0, 2.0])])
def test_what_is_no_number_is_a_type_error(value):
    with pytest.raises(TypeError, match=r"x must be a number in \(-inf, inf\), got"):
        check_real(value, "x")


@pytest.mark.parametrize(
    ("value", "limits", "accepted"),
    [
        (-0.1, {"low": 0.0}, r"\[0, inf\)"),
        (0.0, {"low": 0.0, "low_open": True}, r"\(0, inf\)"),
        (1.1, {"low": 0.0, "high": 1.0}, r"\[0, 1\]"),
        (1.0, {"low": 0.0, "high": 1.0, "high_open": True}, r"\[0, 1\)"),
        (np.nan, {}, r"\(-inf, inf\)"),
        (np.inf, {}, r"\(-inf, inf\)"),
        (-np.inf, {"high": 0.0}, r"\(-inf, 0\]"),
    ],
)
def test_numbers_outside_say_the_interval(value, limits, accepted):
    with pytest.raises(ValueError, match=f"x must be a number in {accepted}, got {value}"):
        check_real(value, "x", **limits)


def test_the_ends_of_closed_intervals_are_inside():
    assert check_real(0.0, "x", low=0.0, high=1.0) == 0.0
    assert check_real(1.0, "x", low=0.0, high=1.0) == 1.0


def test_an_alternative_to_numbers_is_named():
    with pytest.raises(TypeError, match=r"x must be a number in \[0, inf\) or 'auto', got None"):
        check_real(None, "x", low=0.0, instead="'auto'")


def test_whole_numbers():
    assert check_integer(np.int32(3), "n") == 3
    assert type(check_integer(np.int32(3), "n")) is int
    for bad in (True, 3.0, "3", None):
        with pytest.raises(TypeError, match="n must be a whole number >= 0, got"):
            check_integer(bad, "n")
    with pytest.raises(ValueError, match="n must be a whole number >= 2, got 1"):
        check_integer(1, "n", low=2)


def test_choices():
    assert check_choice("b", "x", ("a", "b")) == "b"
    for bad in ("c", None, ["a"], 1):
        with pytest.raises(ValueError, match="x must be one of 'a', 'b', got"):
            check_choice(bad, "x", ("a", "b"))


def test_jobs():
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert check_jobs(None) == check_jobs(-1) == cores
    assert check_jobs(5) == check_jobs(np.int64(5)) == 5
    assert check_jobs(-1000) == 1
    for bad in (0, 1.5, True, "2"):
        with pytest.raises(ValueError, match="n_jobs must be None, -1 or a positive whole number"):
            check_jobs(bad)


def test_seeds():
    for good in (None, 0, 12, np.random.default_rng(0)):
        check_seed(good)
    for bad in (-1, 1.5, "1", object()):
        with pytest.raises(TypeError, match="random_state must be None, a whole number >= 0 or a"):
            check_seed(bad)


def test_checking_a_generator_draws_nothing_from_it():
    generator = np.random.default_rng(0)
    check_seed(generator)
    assert generator.random() == np.random.default_rng(0).random()


def test_vectors_from_a_number_or_as_many_as_columns():
    assert as_vector(2, "x", 3).tolist() == [2.0, 2.0, 2.0]
    assert as_vector([1, 2.5], "x", 2).tolist() == [1.0, 2.5]
    assert as_vector([Decimal(1), Decimal(2)], "x", 2).tolist() == [1.0, 2.0]
    given = np.array([1.0, 2.0])
    assert as_vector(given, "x", 2) is not given  # what the user does to it later changes nothing
    assert as_vector([np.inf, 1], "x", 2, allow_infinite=True).tolist() == [np.inf, 1.0]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        ("high", TypeError, "x must be a number or 2 numbers, got 'high'"),
        ([1, None, 2], ValueError, r"one per column of the data\), got shape \(3,\)"),
        ([1, [2, 3]], TypeError, "x must be a number or 2 numbers, got"),
        ([1.0, 2.0, 3.0], ValueError, r"one per column of the data\), got shape \(3,\)"),
        ([[1.0, 2.0]], ValueError, r"one per column of the data\), got shape \(1, 2\)"),
        ([1.0, np.nan], ValueError, "x must hold finite numbers, got"),
        ([1.0, np.inf], ValueError, "x must hold finite numbers, got"),
        ([1j, 2.0], TypeError, "x must be a number or 2 numbers, got"),
        (np.array(["2020", "2021"], dtype="M8[Y]"), TypeError, "x must be a number or 2 numbers"),
        (np.array([1, 2], dtype="m8[D]"), TypeError, "x must be a number or 2 numbers"),
    ],
)
def test_bad_vectors_say_what_is_accepted(value, error, message):
    with pytest.raises(error, match=message):
        as_vector(value, "x", 2)


def test_infinite_is_allowed_where_said_and_nan_never():
    with pytest.raises(ValueError, match="x must hold finite numbers, got"):
        as_vector(np.nan, "x", 2, allow_infinite=True)


def test_tables_whose_squares_overflow_are_refused():
    assert check_table([[1e150, -1e150]], "X").tolist() == [[1e150, -1e150]]
    with pytest.raises(ValueError, match=r"X must hold numbers of at most 1e\+150 in size, got 2e"):
        check_table([[1.0], [-2e151]], "X")
