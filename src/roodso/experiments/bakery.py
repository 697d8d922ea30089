"""Real demand, truly different sources: an order for each of 35 bakery stores from the other 34.

Not in the paper; its claims for the coffee study are put to it: RooD-SO costs least on stores that
it has not seen, less than the averages of all stores and less than the worst case over their
mixtures.

Demand is real (`roodso.datasets.load_bakery`: three products, mean a day of each week with at
least five open days). Prices and costs are not known: these are made up, those of ``roodso demo``,
with two variations. Products sell in different numbers (some 220, 30 and 45 a day), so the kernel
sees columns divided by their standard deviations (``scale=True``), the command line's default.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from roodso.datasets import load_bakery
from roodso.experiments.held_out import (
    HINDSIGHT,
    TUNED,
    Case,
    HeldOut,
    measured,
    replications,
    with_intervals,
)
from roodso.experiments.measures import Verdict, lower
from roodso.experiments.methods import BALL
from roodso.losses import Newsvendor

__all__ = ["Bakery"]

#: Weeks with fewer open days are left out.
_DAYS = 5
_LOSSES = {
    "costs of the demo": Newsvendor(
        price=[0.40, 2.50, 1.20], cost=[0.15, 0.90, 0.45],
        holding=[0.02, 0.10, 0.05], backorder=[0.05, 0.30, 0.15],
    ),
    "low margin": Newsvendor(
        price=[0.40, 2.50, 1.20], cost=[0.30, 1.80, 0.90],
        holding=[0.02, 0.10, 0.05], backorder=[0.05, 0.30, 0.15],
    ),
    "unmet demand dear": Newsvendor(
        price=[0.40, 2.50, 1.20], cost=[0.15, 0.90, 0.45],
        holding=[0.02, 0.10, 0.05], backorder=[0.40, 2.50, 1.20],
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Bakery(HeldOut):
    """See `roodso.experiments.study.Study`."""

    name: ClassVar[str] = "bakery"
    unit: ClassVar[str] = "store"
    title: ClassVar[str] = "Bakery: 35 stores, real demand, each in turn unseen"
    about: ClassVar[str] = (
        "Not in the paper. Real weekly demand for three products in 35 stores; each store's "
        "order is decided from the other 34."
    )
    repetitions: ClassVar[tuple[int, int]] = (1, 1)
    vary_hindsight: ClassVar[bool] = False

    def labels(self) -> list[str]:
        """See `HeldOut`."""
        return list(_LOSSES)[: 1 if self.quick else None]

    def described(self, label: str) -> dict[str, Any]:
        """See `HeldOut`."""
        return {"loss": _LOSSES[label].to_dict(), "least_days": _DAYS, "scale": True}

    def cases(self) -> dict[str, Case]:
        """See `HeldOut`."""
        data, groups = _weeks(self.quick)
        return {name: Case(name, _LOSSES[name], data, groups, scale=True) for name in self.labels()}

    def verdicts(self, rows: pd.DataFrame) -> list[Verdict]:
        """See `Study`."""
        samples = [s for s in self.samples(rows) if s.study.endswith(self.labels()[0])]
        return [
            lower(samples, "RooD-SO costs less than the averages of the sources (SAA, DRO-W, "
                  "SAA-WB).", [BALL], ["SAA", "DRO-W", "SAA-WB"]),
            lower(samples, "RooD-SO costs less than DRO-Conv.", [BALL], ["DRO-Conv"]),
            lower(samples, "RooD-SO costs less than DRO-Intx.", [BALL], ["DRO-Intx"]),
        ]  # fmt: skip

    def section(self, rows: pd.DataFrame) -> list[str]:
        """See `Study`."""
        summary = self.summarize(rows)
        labels = self._ordered(rows["case"])
        lines = [
            "Costs are negative where money is earned; lower is better. Prices and costs a "
            "unit are made up: " + "; ".join(f"{name}: {_said(_LOSSES[name])}" for name in labels)
            + f". {replications(rows)} Brackets are 95% bootstrap "
            f"intervals over the {rows['target'].nunique()} stores.",
            "",
        ]  # fmt: skip
        for tuning, words in ((TUNED, "parameters chosen on stores held out"),
                              (HINDSIGHT, "parameters chosen in hindsight")):  # fmt: skip
            study = f"{self.name}: {labels[0]}" + ("" if tuning == TUNED else f", {tuning}")
            lines += [f"### Bakery: {words}", "", *with_intervals(summary, study, 1, self), ""]
        lines += ["### Bakery: other costs", ""]
        for measure in ("mean", "worst"):
            studies = [f"{self.name}: {label}" for label in labels]
            lines += [f"Measure: {measure}.", ""]
            lines += [*measured(summary, studies, measure, 1, labels), ""]
        return lines


def _said(loss: Newsvendor) -> str:
    return (
        f"price {loss.price}, cost {loss.cost}, holding {loss.holding}, backorder {loss.backorder}"
    )


@lru_cache(maxsize=2)
def _weeks(quick: bool) -> tuple[np.ndarray, np.ndarray]:
    """Weeks with at least five open days; few of few stores where quick."""
    bakery = load_bakery(min_days=_DAYS)
    data, groups = bakery.data, bakery.groups
    if quick:
        stores = list(dict.fromkeys(groups.tolist()))[:5]
        kept = np.concatenate([np.flatnonzero(groups == store)[:15] for store in stores])
        data, groups = data[kept], groups[kept]
    return data, groups
