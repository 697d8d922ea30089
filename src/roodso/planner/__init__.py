"""A planner's table and constraints, checked and explained: what the command line works on."""

from roodso.planner.constraints import Constraints, parse_constraints
from roodso.planner.errors import (
    DataError,
    MissingPackageError,
    OutputError,
    PlannerError,
    ProblemError,
)
from roodso.planner.orders import WholeOrder, whole_order
from roodso.planner.table import Note, PlannerData, load_table

__all__ = [
    "Constraints",
    "DataError",
    "MissingPackageError",
    "Note",
    "OutputError",
    "PlannerData",
    "PlannerError",
    "ProblemError",
    "WholeOrder",
    "load_table",
    "parse_constraints",
    "whole_order",
]
