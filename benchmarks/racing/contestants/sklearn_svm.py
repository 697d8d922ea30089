r"""The one-class support vector machine of scikit-learn on a precomputed Gram matrix.

LIBSVM solves :math:`\min \frac12 a'Ka, \; 0 \le a_i \le 1, \; \sum_i a_i = \nu M`. Where the
embeddings have norm one, diag(K)'alpha is constant on the simplex and eq:dual_SMC_quadratic is
:math:`\min \alpha'K\alpha, \; 0 \le \alpha_i \le 1 / (M \nu), \; \sum_i \alpha_i = 1`: the same
programme in :math:`\alpha = a / (\nu M)`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.svm import OneClassSVM
from worker import serve


def solve(data: Any, options: Any) -> dict[str, Any]:
    gram, nu = data["gram"], float(data["nu"])
    machine = OneClassSVM(kernel="precomputed", nu=nu, tol=options["tol"]).fit(gram)
    alpha = np.zeros(len(gram))
    alpha[machine.support_] = machine.dual_coef_[0] / (nu * len(gram))
    return {"alpha": alpha.tolist()}


if __name__ == "__main__":
    serve(solve, ["scikit-learn"])
