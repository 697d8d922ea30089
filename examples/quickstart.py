"""A shop that opens tomorrow: what to order, and what that can cost at worst.

Twelve sister shops have sold two products for a while; the new one has sold nothing. The data are
generated as in the paper (section 4.1.1); all else is computed here and now.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from roodso import SAA, RooDSO
from roodso.datasets import make_newsvendor_sources
from roodso.losses import Newsvendor

loss = Newsvendor(
    price=[0.50, 0.40], cost=[0.20, 0.15], holding=[0.05, 0.03], backorder=[0.10, 0.08]
)


def sister_shops() -> tuple[pd.DataFrame, pd.Series]:
    """Demand for two products, one row a day and shop, and the shop of each row."""
    tables = make_newsvendor_sources(12, (60, 120), random_state=7)
    frames = [
        pd.DataFrame(100 * table, columns=["loaves", "rolls"]).assign(shop=f"shop {number}")
        for number, table in enumerate(tables, start=1)
    ]
    sales = pd.concat(frames, ignore_index=True)
    return sales[["loaves", "rolls"]], sales["shop"]


def costs_in_unseen_shops(model: RooDSO | SAA) -> np.ndarray:
    """Mean cost a day of the model's decision in each of 200 shops that it has not seen."""
    shops = make_newsvendor_sources(200, 500, random_state=1)
    return np.array(
        [-model.score(pd.DataFrame(100 * t, columns=["loaves", "rolls"])) for t in shops]
    )


def main() -> None:
    """Decide, show the certificate, and see how the decision fares elsewhere."""
    demand, shop = sister_shops()
    robust = RooDSO(loss, nu=0.2, random_state=0).fit(demand, groups=shop)
    plain = SAA(loss).fit(demand, groups=shop)
    solution = robust.solution_

    print(f"{len(demand)} days in {shop.nunique()} shops, {len(solution.support)} support points.")
    print("Costs are a day; negative ones are profit.\n")
    print("Order for the new shop:")
    print(robust.decision_.round(1).to_string(), "\n")
    print(
        f"It costs at most {robust.objective_:.4f} on average, whichever distribution in the\n"
        f"learned set the shop's demand follows. No order can promise less than\n"
        f"{solution.lower_bound:.4f}: that is proved to a relative gap of {solution.gap:.0e}.\n"
    )
    print("The demand that is worst for it:")
    print(solution.worst_case().head(5).round(3).to_string(index=False), "\n")
    print("The average of all shops' days would rather order:")
    print(plain.decision_.round(1).to_string())
    worst = robust.worst_case_cost(plain.decision_).upper_bound
    print(f"which costs up to {worst:.4f} within the same set.\n")

    print("Mean cost in 200 shops that neither has seen:")
    table = pd.DataFrame(
        {
            name: {
                "average": costs.mean(),
                "90% quantile": np.quantile(costs, 0.9),
                "worst shop": costs.max(),
            }
            for name, costs in (
                ("robust", costs_in_unseen_shops(robust)),
                ("pooled average", costs_in_unseen_shops(plain)),
            )
        }
    ).T
    print(table.round(1).to_string())


if __name__ == "__main__":
    main()
