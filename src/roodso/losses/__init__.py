"""Losses: what a decision costs."""

from roodso.losses.base import ConicRows, Loss, Problem
from roodso.losses.convex import ConvexLoss
from roodso.losses.newsvendor import Newsvendor
from roodso.losses.portfolio import CVaRPortfolio
from roodso.losses.region import Region

__all__ = ["CVaRPortfolio", "ConicRows", "ConvexLoss", "Loss", "Newsvendor", "Problem", "Region"]
