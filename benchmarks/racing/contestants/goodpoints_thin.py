"""Thinning by goodpoints: its kernel herding, kernel thinning, and Compress++."""

from __future__ import annotations

from typing import Any

import numpy as np
from goodpoints import compress, herding, kt
from worker import serve


def solve(data: Any, options: Any) -> dict[str, Any]:
    X, variance = data["samples"], float(data["bandwidth"]) ** 2
    halvings = round(np.log2(len(X) / int(data["size"])))

    def kernel(y: Any, X: Any) -> Any:
        return np.exp(-((X - y) ** 2).sum(axis=1) / (2 * variance))

    if options["algorithm"] == "herding":
        chosen = herding.herding(X, halvings, kernel)
    elif options["algorithm"] == "thinning":
        chosen = kt.thin(X, halvings, kernel, kernel, seed=0)
    else:
        squared = np.array([variance])
        chosen = compress.compresspp_kt(X, b"gaussian", k_params=2 * squared, g=4, seed=0)
    return {"chosen": np.asarray(chosen).tolist()}


if __name__ == "__main__":
    serve(solve, ["goodpoints"])
