"""Learners of uncertainty sets, and the set they hand to the solver."""

from roodso.sets.ball import SupportMeasureBall
from roodso.sets.conformal import ConformalBall
from roodso.sets.fixed import FixedBall
from roodso.sets.nearest import nearest_mixture
from roodso.sets.thickened import ThickenedHull
from roodso.sets.uncertainty import UncertaintySet

__all__ = [
    "ConformalBall",
    "FixedBall",
    "SupportMeasureBall",
    "ThickenedHull",
    "UncertaintySet",
    "nearest_mixture",
]
