"""POT's free-support barycentre, from the atoms given and with its own stopping rule, then SAA."""

from __future__ import annotations

from typing import Any

import numpy as np
import ot
from worker import serve

PRICE, COST, HOLDING, BACKORDER = (
    np.array(terms, float) for terms in ([50, 40], [20, 15], [5, 3], [10, 8])
)


def solve(data: Any, options: Any) -> dict[str, Any]:
    codes = data["codes"]
    tables = [data["samples"][codes == i] for i in range(codes.max() + 1)]
    weights = [np.full(len(table), 1 / len(table)) for table in tables]
    atoms = ot.lp.free_support_barycenter(tables, weights, data["atoms"])
    shares = (PRICE - COST + BACKORDER) / (PRICE + HOLDING + BACKORDER)
    columns = zip(atoms.T, shares, strict=True)
    x = [float(np.quantile(column, q, method="inverted_cdf")) for column, q in columns]
    return {"atoms": atoms.tolist(), "decision": x}


if __name__ == "__main__":
    serve(solve, ["pot"])
