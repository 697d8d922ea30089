"""Table 1's kind of study where demand has heavy tails; not the paper's.

Claim, ours: the paper's box is as large as its worst outlier, and the worst case then puts mass
where no source has any; so on heavy tails the ball costs more than the plain average in the mean,
and what it saves in the tails shrinks.

Sources are those of `make_heavy_tailed_sources`: the paper's means and shapes with Student's t of
2.5 degrees of freedom in place of the Gaussian, so that variances are finite and third moments are
not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

from roodso.datasets import make_heavy_tailed_sources
from roodso.experiments.measures import Verdict, lower
from roodso.experiments.methods import BALL
from roodso.experiments.synthetic import Setting, Synthetic

__all__ = ["HeavyTailed"]


@dataclass(frozen=True)
class HeavyTailed(Synthetic):
    """See `roodso.experiments.study.Study`."""

    name: ClassVar[str] = "heavy-tailed"
    title: ClassVar[str] = "Heavy tails: the same study on Student's t"
    about: ClassVar[str] = (
        "Not in the paper. Table 1's newsvendor on sources with heavy tails (Student's t, 2.5 "
        "degrees of freedom, `make_heavy_tailed_sources`), everything else as there."
    )
    generator = staticmethod(make_heavy_tailed_sources)
    full: ClassVar[tuple[Setting, ...]] = (
        Setting(10, (30, 100)),
        Setting(20, (30, 100)),
        Setting(20, (200, 500)),
    )

    def verdicts(self, rows: pd.DataFrame) -> list[Verdict]:
        """See `Study`."""
        samples = self.samples(rows)
        return [
            lower(samples, "Ours: with heavy tails the pooled average costs less than RooD-SO with "
                  "the paper's box.", ["SAA"], [BALL]),
            lower(samples, "RooD-SO costs less than DRO-Conv, as the paper has it for Gaussian "
                  "sources.", [BALL], ["DRO-Conv"]),
        ]  # fmt: skip
