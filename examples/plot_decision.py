"""The picture in the README: two orders, and what they cost in shops that neither has seen.

Run it with the file to write, or without to see it: `python examples/plot_decision.py out.png`.
"""

from __future__ import annotations

import sys

import matplotlib.pyplot as plt
import numpy as np

from quickstart import costs_in_unseen_shops, loss, sister_shops
from roodso import SAA, RooDSO

BLUE, ORANGE, GREY = "#0b5394", "#c55a11", "#8c8c8c"


def main(path: str | None) -> None:
    """Fit both, draw, and write or show."""
    demand, shop = sister_shops()
    robust = RooDSO(loss, nu=0.2, random_state=0).fit(demand, groups=shop)
    plain = SAA(loss).fit(demand, groups=shop)
    worst = robust.solution_.worst_case()

    figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
    left.scatter(*demand.to_numpy().T, s=5, color=GREY, alpha=0.35, label="demand in 12 shops")
    left.scatter(
        worst["loaves"],
        worst["rolls"],
        s=900 * worst["weight"],
        facecolors="none",
        edgecolors=BLUE,
        linewidths=1.8,
        label="worst case for the robust order",
    )
    left.plot(*robust.decision_, "o", color=BLUE, markersize=9, label="robust order")
    left.plot(*plain.decision_, "s", color=ORANGE, markersize=8, label="pooled average's order")
    left.set(
        xlabel="loaves", ylabel="rolls", title="What to order, and the world it guards against"
    )
    left.legend(loc="upper left", bbox_to_anchor=(0.0, -0.16), ncols=2, frameon=False)

    for model, color, name in ((robust, BLUE, "robust"), (plain, ORANGE, "pooled average")):
        costs = np.sort(costs_in_unseen_shops(model))
        right.step(costs, np.arange(1, len(costs) + 1) / len(costs), color=color, label=name)
    right.axvline(robust.objective_, color=BLUE, linestyle=":", label="certified worst case")
    right.set(
        xlabel="mean cost a day (negative: profit)",
        ylabel="share of 200 unseen shops",
        title="What it costs where no data exist yet",
    )
    right.legend(loc="lower right", frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    if path is None:
        plt.show()
    else:
        figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
