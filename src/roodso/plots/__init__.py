"""Pictures. Each is drawn from plain data that it also hands out; drawing needs matplotlib."""

from roodso.plots.path import RobustnessPathDisplay

__all__ = ["RobustnessPathDisplay"]
