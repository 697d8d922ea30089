"""The solver: rows, master, certificate, solution."""

from roodso.solver.rows import LoopOptions, Programme, WarmStart
from roodso.solver.solution import Solution, Witness
from roodso.solver.solve import solve_programme

__all__ = ["LoopOptions", "Programme", "Solution", "WarmStart", "Witness", "solve_programme"]
