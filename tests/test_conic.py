"""Conic programmes: solutions and multipliers are cvxpy's, and a failing solver is replaced."""

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

from roodso import SolverError
from roodso.solver import conic
from roodso.solver.conic import ConicProgramme, ConicSolution, cone_numbers, solve_conic


def mixed(seed=0):
    """min c'x over a box, a ball, an equality and an exponential cone, in both languages."""
    rng = np.random.default_rng(seed)
    c, e = rng.standard_normal(3), rng.random(3)
    p = ConicProgramme()
    p.add_columns("x", c)
    p.add_columns("t", np.ones(1))
    rows = {
        "zero": p.add_rows("zero", {"x": e[None]}, np.array([0.1])),
        "second_order": p.add_rows(
            "second_order", {"x": np.vstack([np.zeros(3), -np.eye(3)])}, np.array([2.0, 0, 0, 0])
        ),
        # (x_0, 1, t) in the exponential cone: exp(x_0) <= t.
        "exponential": p.add_rows(
            "exponential",
            {"x": -np.eye(3, 3) * [[1], [0], [0]], "t": np.array([[0.0], [0.0], [-1.0]])},
            np.array([0.0, 1.0, 0.0]),
        ),
        "nonnegative": p.add_rows("nonnegative", {"x": np.eye(3)}, np.ones(3)),
    }
    x = cp.Variable(3)
    constraints = {
        "zero": e @ x == 0.1,
        "second_order": cp.norm(x) <= 2,
        "nonnegative": x <= 1,
    }
    problem = cp.Problem(cp.Minimize(c @ x + cp.exp(x[0])), list(constraints.values()))
    problem.solve(solver="CLARABEL", tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    return p, rows, x, constraints, problem


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("solver", ["_clarabel", "_clarabel_regularized", "_scs"])
def test_every_solver_finds_the_solution_and_the_multipliers(solver, seed, monkeypatch):
    def failing(c, *_, **__):
        return ConicSolution(np.full(len(c), np.nan), np.empty(0), "NumericalError", "none")

    order = ["_clarabel", "_clarabel_regularized", "_scs"]
    for earlier in order[: order.index(solver)]:
        monkeypatch.setattr(conic, earlier, failing)
    p, rows, x, constraints, problem = mixed(seed)
    p.solve()
    assert p.value == pytest.approx(problem.value, abs=1e-6)
    np.testing.assert_allclose(p["x"], x.value, atol=1e-4)
    for name in ("zero", "nonnegative"):
        expected = np.atleast_1d(constraints[name].dual_value)
        np.testing.assert_allclose(p.multipliers(rows[name]), expected, atol=1e-3)
    assert p.error <= 1e-6


def test_a_quadratic_cost_is_half_of_x_squared_times_its_factor():
    p = ConicProgramme()
    p.add_columns("free", np.zeros(1))
    p.add_columns("x", np.array([-1.0, -4.0]), quadratic=np.array([2.0, 1.0]))
    p.add_rows("nonnegative", {"x": np.eye(2)}, np.array([9.0, 3.0]))
    p.add_rows("zero", {"free": np.eye(1)}, np.ones(1))
    p.solve()
    np.testing.assert_allclose(p["x"], [0.5, 3.0], atol=1e-7)


def test_blocks_without_rows_are_allowed():
    p = ConicProgramme()
    p.add_columns("x", np.ones(1))
    empty = p.add_rows("zero", {"x": np.zeros((0, 1))}, np.zeros(0))
    p.add_rows("nonnegative", {"x": -np.eye(1)}, np.zeros(1))
    p.solve()
    assert len(p.multipliers(empty)) == 0
    assert p.value == pytest.approx(0, abs=1e-8)


def test_rows_are_numbered_by_cone():
    cones = [("zero", 2), ("second_order", 3), ("psd", 2), ("power", 0.3), ("nonnegative", 1)]
    assert cone_numbers(cones).tolist() == [0, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5]


def half_line(c=1.0, b=0.0):
    """Min c x, x >= -b: as the arguments of `solve_conic`."""
    return np.array([c]), sparse.csc_matrix([[-1.0]]), np.array([b]), [("nonnegative", 1)]


def answering(status, x, error, calls, name):
    def solver(*_, **__):
        calls.append(name)
        return ConicSolution(np.array([x]), np.array([1.0]), status, name, error)

    return solver


def patch(monkeypatch, answers, calls):
    for name, answer in answers.items():
        monkeypatch.setattr(conic, name, answering(*answer, calls, name))


def test_an_inaccurate_solution_is_taken_where_no_attempt_does_better(monkeypatch):
    calls = []
    answers = {
        "_clarabel": ("InsufficientProgress", 1.0, 1e-4),
        "_clarabel_regularized": ("AlmostSolved", 2.0, 1e-5),
        "_scs": ("solved", 3.0, 1e-9),
    }
    patch(monkeypatch, answers, calls)
    solution = solve_conic(*half_line(), tol=1e-9)
    assert solution.x.tolist() == [2.0]
    assert calls == ["_clarabel", "_clarabel_regularized"]


def test_a_solution_near_its_tolerance_is_taken_at_once(monkeypatch):
    calls = []
    patch(monkeypatch, {"_clarabel": ("AlmostSolved", 1.0, 5e-8)}, calls)
    assert solve_conic(*half_line(), tol=1e-9).x.tolist() == [1.0]
    assert calls == ["_clarabel"]


def test_an_unbounded_and_an_infeasible_programme_are_errors_that_say_so():
    with pytest.raises(SolverError, match=r"1 rows and 1 columns \(DualInfeasible") as unbounded:
        solve_conic(*half_line(c=-1.0))
    assert unbounded.value.status == "DualInfeasible"
    c, A, *_ = half_line()
    A, b = sparse.vstack([A, -A], format="csc"), np.array([-1.0, 0.0])
    with pytest.raises(SolverError, match="PrimalInfeasible"):
        solve_conic(c, A, b, [("nonnegative", 2)])


def test_scs_is_not_asked_for_cones_it_does_not_know(monkeypatch):
    calls = []
    failed = ("NumericalError", np.nan, np.inf)
    patch(monkeypatch, {"_clarabel": failed, "_clarabel_regularized": failed}, calls)
    power = np.array([1.0]), sparse.csc_matrix(-np.eye(3, 1)), np.zeros(3), [("power", 0.5)]
    with pytest.raises(SolverError, match="not applicable"):
        solve_conic(*power)


def test_without_time_there_is_no_attempt(monkeypatch):
    calls = []
    patch(monkeypatch, {"_clarabel": ("Solved", 1.0, 0.0)}, calls)
    with pytest.raises(SolverError, match="time limit") as caught:
        solve_conic(*half_line(), time_limit=-1.0)
    assert caught.value.status == "time limit"
    assert calls == []
