"""What the solver hands to everything else: a decision, two bounds, and what proves them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd

from roodso._typing import Array, IntArray
from roodso.expansion import KernelExpansion
from roodso.sources import Sources

__all__ = ["BoxBound", "EmbeddingReport", "Solution", "Witness"]


@dataclass(frozen=True)
class Witness:
    """A function g in the RKHS and a constant beta that together majorize the cost.

    Since f(x, v) <= g(v) + beta at every support point v, no distribution on them within R of the
    centre costs more than <g, mu_c> + R |g| + beta: anyone can check that.

    Attributes
    ----------
    g : KernelExpansion
        ``g.points`` (P, d) in the user's units, ``g.coefficients`` (P,) and ``g.norm``.
    beta : float
    """

    g: KernelExpansion
    beta: float

    def __call__(self, points: Array) -> Array:
        """G + beta at points (m, d) given in the user's units."""
        return self.g(points) + self.beta


@dataclass(frozen=True)
class BoxBound:
    """What is known of the worst case over a whole box, not only over the support points.

    The distributions meant are those in the set on the box and the samples.

    Attributes
    ----------
    lower, upper : ndarray of shape (d,)
        The box, in the user's units.
    upper_bound : float
        No such distribution costs the decision more: a proved bound, infinite where nothing was
        proved. It also bounds the optimal worst case over the box, of which the solution's
        ``lower_bound`` is a lower bound.
    violation_found : float
        The largest excess of the cost over the witness that was met in the box; 0 if none.
    tolerance : float
        What it was to come down to, in the cost's units.
    proved : bool
        Whether ``upper_bound`` is within the tolerance of the solution's ``upper_bound``.
    starts : int
        Starts of the last search for a violation.
    cells : int
        Cells examined by the last branch and bound; 0 where it was not asked for.
    rounds : int
        How many times support points were added.
    points_added : int
    """

    lower: Array
    upper: Array
    upper_bound: float
    violation_found: float
    tolerance: float
    proved: bool
    starts: int = 0
    cells: int = 0
    rounds: int = 0
    points_added: int = 0

    def summary(self) -> str:
        """Say in words what was found and what was proved.

        Examples
        --------
        >>> import numpy as np
        >>> box = BoxBound(np.zeros(1), np.ones(1), np.inf, 0.0, 1e-5, proved=False, starts=64)
        >>> print(box.summary())
        no violation above 1e-05 found from 64 starts, which proves nothing; 0 points added
        """
        at_most = f"at most {self.upper_bound:.8g} proved over the box"
        if self.proved and not self.starts:
            return (
                "proved: only mixtures of the sources are in the set, the box adds nothing to them"
            )
        if self.proved:
            known = f"{at_most}, by branch and bound with {self.cells} cells"
        elif np.isfinite(self.upper_bound):
            known = (
                f"{at_most}, short of the tolerance of {self.tolerance:.2g} ({self.cells} cells)"
            )
        elif self.violation_found <= self.tolerance:
            known = (
                f"no violation above {self.tolerance:.2g} found from {self.starts} starts, which "
                "proves nothing"
            )
        else:
            known = f"a violation of {self.violation_found:.2g} is left, and nothing is proved"
        added = f"{self.points_added} points added"
        return f"{known}; {added}" + (f" in {self.rounds} rounds" if self.rounds else "")


@dataclass(frozen=True)
class EmbeddingReport:
    """How the sources' embeddings were known, and what that leaves open.

    Attributes
    ----------
    kind : str
        "exact" or "low rank".
    rank : int
        Number of landmarks; 0 where the embedding is exact, as is all below.
    residual : float
        What landmarks leave of the kernel on average, relative to k(x, x), where they were chosen.
    error : float
        Bound on what is left of a source's embedding, the largest of all sources.
    radius_error : float
        The set's radius is at most the one stated, and less by this at most.
    weights_gap : float
        By how much the weights of a learned ball may miss the optimum of the sources' own quadratic
        programme (in units of squared distance).
    """

    kind: str
    rank: int
    residual: float
    error: float
    radius_error: float
    weights_gap: float

    def summary(self) -> str:
        """Say it in words.

        Examples
        --------
        >>> print(EmbeddingReport("low rank", 63, 1e-10, 2e-5, 3e-9, 4e-10).summary())
        low rank, 63 landmarks; each source's embedding is known up to 2e-05, the radius up to 3e-09
        >>> print(EmbeddingReport("exact", 0, 0.0, 0.0, 0.0, 0.0).summary())
        exact
        """
        if self.kind == "exact":
            return self.kind
        return (
            f"{self.kind}, {self.rank} landmarks; each source's embedding is known up to "
            f"{self.error:.1g}, the radius up to {self.radius_error:.1g}"
        )


@dataclass(frozen=True)
class Solution:
    """A decision with its certificate.

    Attributes
    ----------
    decision : ndarray of shape (n,)
    internal : ndarray
        Internal variables of the loss (tau of the CVaR), often none.
    upper_bound, lower_bound : float
        True bounds on the optimal worst case over the support points; ``upper_bound`` also bounds
        the worst case of this very decision.
    status : str
        "optimal" where the gap is within the tolerance; otherwise why the solver stopped. In paper
        mode "restricted" means that the reduced representer is solved as asked and the gap is what
        it leaves, "stopped by epsilon" that no row was violated by more than epsilon. "low rank"
        means that the gap is what the embedding's errors leave.
    iterations : int
    support : ndarray of shape (L, d)
        Support points in the user's units: the samples in the order given, then the drawn points,
        then those added for the box.
    worst_case_weights : ndarray of shape (L,)
        A distribution on them, inside the set, that no decision brings below ``lower_bound``.
    mixture : ndarray of shape (K,)
        The allowed mixture of the set's anchors within R of which it lies; [1] for a ball.
    witness : Witness or None
        Proves ``upper_bound``. None at radius 0 and for the methods without a kernel, where the
        bound is a largest mean cost that anyone can compute.
    source_weights : ndarray of shape (M,)
        Where the samples were not in memory, the support is a working set of them, and the worst
        case may besides give each source's own distribution as a whole a (tiny) weight:
        ``worst_case_weights`` and these add up to one. Otherwise empty.
    multipliers : ndarray
        Prices of the set's radii, where it is made of Wasserstein balls: by how much the worst
        case rises for each unit of radius. Otherwise empty.
    box : BoxBound or None
        What is known of the worst case over the whole box, where that was asked for.
    timings : dict
        Seconds by stage.
    embedding : EmbeddingReport or None
        Whether the sources' embeddings were exact or of low rank, and how good; None for methods
        without a kernel.
    """

    decision: Array
    internal: Array
    upper_bound: float
    lower_bound: float
    status: str
    iterations: int
    support: Array
    worst_case_weights: Array
    mixture: Array
    witness: Witness | None
    active: IntArray = field(repr=False)
    origin: IntArray = field(repr=False)
    labels: tuple[Hashable, ...] = field(repr=False)
    names: tuple[str, ...] | None = field(default=None, repr=False)
    box: BoxBound | None = None
    timings: dict[str, float] = field(default_factory=dict, repr=False)
    multipliers: Array = field(default_factory=lambda: np.empty(0))
    embedding: EmbeddingReport | None = None
    source_weights: Array = field(default_factory=lambda: np.empty(0))

    @classmethod
    def over(
        cls,
        sources: Sources,
        support: Array,
        z: Array,
        n_decisions: int,
        bounds: tuple[float, float],
        *,
        weights: Array,
        origin: IntArray | None = None,
        active: IntArray | None = None,
        witness: Witness | None = None,
        **rest: Any,
    ) -> Self:
        """Put a solution together: what follows from the sources is filled in.

        Parameters
        ----------
        sources : Sources
        support : ndarray of shape (L, d)
            The samples first.
        z : ndarray
            The decision, then the loss's internal variables.
        n_decisions : int
        bounds : (lower, upper)
        weights : ndarray of shape (L,)
        origin : ndarray of shape (L,), optional
            The source of each support point; by default none (-1) for those after the samples.
        active : ndarray of int, optional
        witness : Witness, optional
        **rest
            The other fields.
        """
        if origin is None:
            drawn = np.full(len(support) - sources.n_samples, -1, dtype=np.intp)
            origin = np.concatenate([sources.codes, drawn])
        return cls(
            decision=z[:n_decisions],
            internal=z[n_decisions:],
            lower_bound=float(bounds[0]),
            upper_bound=float(bounds[1]),
            support=support,
            worst_case_weights=weights,
            witness=witness,
            active=np.empty(0, dtype=np.intp) if active is None else active,
            origin=origin,
            labels=sources.labels,
            names=sources.names,
            **rest,
        )

    @property
    def gap(self) -> float:
        """Relative gap: (upper - lower) / max(1, |upper|)."""
        return (self.upper_bound - self.lower_bound) / max(1.0, abs(self.upper_bound))

    def worst_case(self, minimum: float = 1e-9) -> pd.DataFrame:
        """The worst-case distribution as a table, heaviest point first.

        Parameters
        ----------
        minimum : float, default=1e-9
            Points with less weight, which is the solver's rounding, are left out; 0 keeps all.

        Returns
        -------
        DataFrame
            One row for each support point that has weight: the weight, the source it is from
            (None for drawn points) and its coordinates.
        """
        rows = np.flatnonzero(self.worst_case_weights > max(minimum, 0.0))
        rows = rows[np.argsort(-self.worst_case_weights[rows], kind="stable")]
        labels = [*self.labels, None]
        names = self.names or tuple(f"x{j}" for j in range(self.support.shape[1]))
        table = pd.DataFrame(self.support[rows], columns=list(names), index=rows)
        sources = pd.Series([labels[code] for code in self.origin[rows]], rows, dtype=object)
        table.insert(0, "source", sources)
        table.insert(0, "weight", self.worst_case_weights[rows])
        return table
