"""The programme over an intersection of Wasserstein balls: set, rows, certificate."""

from roodso.solver.intersection.balls import Balls, Inner
from roodso.solver.intersection.continuous import check_continuous, solve_continuous
from roodso.solver.intersection.factor import find_inner, smallest_factor
from roodso.solver.intersection.loop import GenerationOptions
from roodso.solver.intersection.solution import IntersectionSolution
from roodso.solver.intersection.solve import solve_intersection

__all__ = [
    "Balls",
    "GenerationOptions",
    "Inner",
    "IntersectionSolution",
    "check_continuous",
    "find_inner",
    "smallest_factor",
    "solve_continuous",
    "solve_intersection",
]
