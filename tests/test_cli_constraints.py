"""Constraints as people write them, against Python's own evaluation and a second solver."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roodso.planner import ProblemError, parse_constraints
from roodso.planner.constraints import Row, conflict, parse_constraint

ITEMS = ["a", "b", "brown bread"]

_numbers = st.integers(0, 40).map(lambda n: str(n / 4)) | st.integers(0, 9).map(str)
_names = st.sampled_from(["a", "b", "'brown bread'"])


def _sums(depth):
    if depth == 0:
        return st.one_of(
            _names,
            _numbers,
            st.tuples(_numbers, _names).map(" * ".join),
            st.tuples(_names, st.sampled_from(["2", "4", "0.5"])).map(" / ".join),
            st.tuples(_names, _numbers).map("*".join),
        )
    inner = _sums(depth - 1)
    bracketed = st.tuples(_numbers, inner).map(lambda p: f"{p[0]} * ({p[1]})")
    signed = st.tuples(st.sampled_from(["+", "-"]), _sums(0)).map("".join)
    joined = st.tuples(inner, st.sampled_from([" + ", " - "]), _sums(0)).map("".join)
    return st.one_of(joined, bracketed, signed)


@given(_sums(3), _sums(2), st.sampled_from(["<=", ">=", "="]))
def test_a_constraint_means_what_python_makes_of_it(left, right, relation):
    python = [side.replace("'brown bread'", "c") for side in (left, right)]
    points = [(0.0, 0.0, 0.0), (1.0, -2.0, 3.0), (0.25, 7.0, -1.5), (3.0, 1.0, 0.5)]
    differences = [
        eval(python[0], {}, names) - eval(python[1], {}, names)
        for names in (dict(zip("abc", point, strict=True)) for point in points)
    ]
    text = f"{left} {relation} {right}"
    if len({round(difference, 9) for difference in differences}) == 1:  # the names cancel
        with pytest.raises(ProblemError, match="does not restrict"):
            parse_constraint(text, ITEMS)
        return
    (row,) = parse_constraint(text, ITEMS)
    for point, difference in zip(points, differences, strict=True):
        expected = -difference if relation == ">=" else difference
        assert row.coefficients @ point - row.right == pytest.approx(expected, abs=1e-9)
    assert row.equality == (relation == "=")


@pytest.mark.parametrize(
    ("text", "coefficients", "right"),
    [
        ("a <= 3", [1, 0, 0], 3),
        ("2a + 3 b ≤ 6", [2, 3, 0], 6),
        ("a · 2 \u2212 b \u00d7 3 <= 1", [2, -3, 0], 1),
        ("--a <= 1e2", [1, 0, 0], 100),
        ('"brown bread" - (a - (b + 1)) * 2 <= 0', [-2, 2, 1], -2),
        ("3 (a + b) / 6 <= .5", [0.5, 0.5, 0], 0.5),
        ("a <= b", [1, -1, 0], 0),
    ],
)
def test_ways_to_write(text, coefficients, right):
    (row,) = parse_constraint(text, ITEMS)
    np.testing.assert_allclose(row.coefficients, coefficients)
    assert row.right == pytest.approx(right)


def test_chains_are_several_constraints():
    rows = parse_constraint("10 <= a + b <= 300", ITEMS)
    assert [row.right for row in rows] == [-10, 300]
    A, b = parse_constraints(["a = 2", "b <= 1"], ITEMS).inequalities(3)
    assert A.tolist() == [[1, 0, 0], [-1, 0, 0], [0, 1, 0]]
    assert b.tolist() == [2, -2, 1]


def test_names_may_hold_anything_but_their_quotation_marks():
    for name in ("p&l <1>", "2nd", "größe", "北京", 'a "b"', "x.y"):
        mark = '"' if "'" in name else "'"
        (row,) = parse_constraint(f"{mark}{name}{mark} <= 1", [name])
        assert row.coefficients.tolist() == [1.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not understood"),
        ("a", "<=, >= or = should be where the end is"),
        ("a <= ", "a number or a name should be where the end is"),
        ("a < 3", "write <= instead"),
        ("a b <= 3", "a sign such as"),
        ("a * b <= 3", "not linear"),
        ("3 / a <= 3", "not linear"),
        ("a / 0 <= 3", "not linear"),
        ("a + c <= 3", "names 'c', which is no item"),
        ("rools <= 3", "no item"),
        ("(a <= 3", "a closing bracket"),
        ("a) <= 3", "should be where"),
        ("a <= 3 4 5 b c", "should be where|no item"),
        ("1 <= 2", "does not restrict any item"),
        ("a - a <= 2", "does not restrict any item"),
        ("a <= 1e999", "too large"),
        ("1e300 * 1e300 * a <= 1", "too large"),
        ("'a <= 3", "should be where"),
        ("__import__('os') <= 1", "no item"),
        ("a; b <= 1", "should be where"),
        ("(" * 200 + "a" + ")" * 200 + " <= 1", "too many brackets"),
        ("a + " * 4000 + "a <= 1", "longer than"),
    ],
)
def test_what_is_not_understood_is_said(text, message):
    with pytest.raises(ProblemError, match=message):
        parse_constraint(text, ITEMS)


@given(st.text(alphabet="ab12.+-*/()<>= '\"\\xe", max_size=40))
def test_any_text_ends_in_rows_or_a_message(text):
    try:
        rows = parse_constraint(text, ["a", "b"])
    except ProblemError:
        return
    assert all(np.isfinite(row.coefficients).all() and np.isfinite(row.right) for row in rows)


def test_violations_are_named_by_the_users_text():
    constraints = parse_constraints(["a + b <= 3", "a = 1"], ITEMS)
    assert constraints.violated(np.array([1.0, 2.0, 0.0])) == []
    assert constraints.violated(np.array([2.0, 2.0, 0.0])) == ["a + b <= 3", "a = 1"]


def feasible(rows, width):
    """A second solver's word: the least violation that some x can have."""
    x, slack = cp.Variable(width), cp.Variable(nonneg=True)
    constraints = [x <= 1e4, x >= -1e4]
    for row in rows:
        constraints.append(row.coefficients @ x - row.right <= slack)
        if row.equality:
            constraints.append(row.right - row.coefficients @ x <= slack)
    problem = cp.Problem(cp.Minimize(slack), constraints)
    problem.solve(solver=cp.CLARABEL)
    return problem.value < 1e-6


@pytest.mark.parametrize("seed", range(25))
def test_the_conflict_named_is_one_and_none_of_it_is_idle(seed):
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(8):
        coefficients = rng.integers(-2, 3, 3).astype(float)
        coefficients[rng.integers(3)] = 1.0
        right = float(rng.integers(-6, 4))
        rows.append(Row(coefficients, right, bool(rng.random() < 0.2), f"row {number}"))
    texts = conflict(rows, 3)
    named = [row for row in rows if row.text in texts]
    if not texts:
        assert feasible(rows, 3)
        return
    assert not feasible(named, 3)
    for left in itertools.combinations(named, len(named) - 1):
        assert feasible(left, 3)
