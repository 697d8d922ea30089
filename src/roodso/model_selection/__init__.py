"""Choose parameters and methods by what they cost on sources held out."""

from roodso.model_selection.comparison import Comparison, compare
from roodso.model_selection.criteria import CRITERIA
from roodso.model_selection.folds import WithinSourceSplit
from roodso.model_selection.selection import Selection, fit_grid, paper_grid, select

__all__ = [
    "CRITERIA",
    "Comparison",
    "Selection",
    "WithinSourceSplit",
    "compare",
    "fit_grid",
    "paper_grid",
    "select",
]
