"""An independent checker of certificates.

It gets the data, the set (source weights, radius, kernel), the support, the decision, the claimed
bounds and what is to prove them: the worst-case weights and the witness (points, coefficients,
beta). It trusts no claimed norm, distance or cost, and uses nothing of the library.

The set is the ball around the mixture by the source weights; or, where a cap is given, a thickened
hull, and the source weights are the mixture that the worst case is said to be near.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from reference import hull
from reference.kernels import kernel_matrix


@dataclass
class Claim:
    """What is claimed, and the material to prove it."""

    tables: list  # samples by source, in the kernel's own coordinates' units
    support: np.ndarray
    source_weights: np.ndarray
    radius: float
    kernel: object  # what kernel_matrix understands
    values: object  # values(decision, points) -> costs
    minimum: object  # minimum(points, weights) -> min over feasible decisions of the mean cost
    decision: np.ndarray  # with internal variables
    weights: np.ndarray
    witness_points: np.ndarray
    witness_coefficients: np.ndarray
    beta: float
    upper: float
    lower: float
    scale: object = 1.0  # column scales of the kernel
    cap: float | None = None  # of a thickened hull: the largest weight a source may have


def check(claim: Claim, tol: float = 1e-9) -> list[str]:
    """Everything that is wrong with the claim; an empty list confirms it."""
    wrong = []
    scale = claim.scale
    k = claim.kernel
    support = claim.support / scale
    samples = [table / scale for table in claim.tables]
    used = [i for i, a in enumerate(claim.source_weights) if a > 0]
    if abs(claim.source_weights.sum() - 1) > 1e-9 or (claim.source_weights < 0).any():
        wrong.append("source weights are no mixture")
    if claim.cap is not None and claim.source_weights.max() > claim.cap + 1e-9:
        wrong.append("source weights exceed the cap")

    # The lower bound: the weights are a distribution in the set that no decision takes below it.
    w = claim.weights
    if (w < 0).any() or abs(w.sum() - 1) > 1e-9:
        wrong.append("worst-case weights are no distribution")
    on = np.flatnonzero(w > 0)
    center = [claim.source_weights[i] / len(samples[i]) * np.ones(len(samples[i])) for i in used]
    points = np.vstack([support[on], *(samples[i] for i in used)])
    signed = np.concatenate([w[on], *(-c for c in center)])
    distance2 = signed @ kernel_matrix(k, points, points) @ signed
    if distance2 > claim.radius**2 + tol:
        wrong.append(f"worst case is outside: {distance2} > {claim.radius**2}")
    least = claim.minimum(claim.support[on], w[on])
    if least < claim.lower - tol_of(claim, tol):
        wrong.append(f"lower bound {claim.lower} exceeds the worst case's best cost {least}")

    # The upper bound: the witness majorises the cost at every support point.
    y, c = claim.witness_points / scale, claim.witness_coefficients
    g = kernel_matrix(k, support, y) @ c
    excess = (claim.values(claim.decision, claim.support) - g).max()
    if excess > claim.beta + tol_of(claim, tol):
        wrong.append(f"witness is exceeded: {excess} > beta = {claim.beta}")
    norm = np.sqrt(max(c @ kernel_matrix(k, y, y) @ c, 0.0))
    means = np.array([(kernel_matrix(k, table, y) @ c).mean() for table in samples])
    largest = claim.source_weights @ means if claim.cap is None else hull.linear(means, claim.cap)
    bound = largest + claim.radius * norm + claim.beta
    if bound > claim.upper + tol_of(claim, tol):
        wrong.append(f"upper bound {claim.upper} is below what the witness proves, {bound}")
    if claim.lower > claim.upper + tol_of(claim, tol):
        wrong.append("lower bound exceeds upper bound")
    return wrong


def tol_of(claim: Claim, tol: float) -> float:
    """Rounding in costs and in sums of witness coefficients."""
    size = max(1.0, abs(claim.upper), float(np.abs(claim.witness_coefficients).sum()) * 1e-3)
    return 10 * tol * size
