r"""Row generation: few rows at a time, exact at the end (paper, Algorithm 2, and beyond it).

The loop alternates between the master over the rows at hand (`roodso.solver.master`) and a look at
all support points:

1. solve the master: a decision z, multipliers, a witness g;
2. evaluate f(z, v_l) - g(v_l) at every point; with z and g this proves an upper bound, while the
   master, which knows fewer rows, is a lower bound;
3. stop when they meet; otherwise add rows where the excess is largest and go on.

New points are chosen greedily: after a point s is taken, the least change of g that repairs it
raises g by e_s k(s, .) / C, so that much is deducted from its neighbours' excess before the next is
chosen. Ten violated neighbours would teach the master no more than one. Where many points share the
worst case, as they do for a small radius, the neighbours that bind are nearer to each other and a
repair reaches less far: a power of k / C is deducted that grows with their number.

Rows whose multiplier is zero are dropped only after the master's value has risen. The value of the
remaining rows is then that of the last master, which is above all earlier ones, so no set of rows
can come back and the loop cannot cycle.

The paper's own rules (Algorithm 2: seeds drawn at random, the most violated rows first, a tolerance
on the violation, nothing dropped) are a matter of `LoopOptions`. Its first master may be unbounded,
for which the paper has no branch; the aggregated row of each anchor, E_k f(z, .) <= <g, mu_k> +
beta, which the others imply, is always there and bounds it.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace

import numpy as np

from roodso._typing import Array, IntArray, Progress
from roodso.embedding import Embedding
from roodso.exceptions import SolverError
from roodso.kernels import Kernel
from roodso.losses.base import ConicRows, Problem
from roodso.sets.uncertainty import UncertaintySet
from roodso.solver.average import first_decision
from roodso.solver.basis import Basis, Shares, Span
from roodso.solver.master import IDLE, Cuts, Master, MasterSolution
from roodso.solver.witness import RKHSFunction, best_multiple, support_function

__all__ = [
    "AnchorCut",
    "LoopOptions",
    "LoopResult",
    "Programme",
    "WarmStart",
    "choose_spread",
    "generate_rows",
]

logger = logging.getLogger(__name__)

#: Rounds that a cut may be without multiplier before it may go.
_PATIENCE = 3
#: So many rounds, and two more for each variable, may pass until the gap has fallen by a tenth;
#: then the loop gives up, and the certificate says how far it came. At usual radii it takes at most
#: one round for each variable and two, at tiny ones up to thirty.
_STALLS = 40
#: So many points may share the worst case before repairs are taken to be more local.
_CROWD = 10.0


@dataclass(frozen=True)
class AnchorCut:
    """The anchors' mean costs linearised at z: values (K,) and slopes (K, n)."""

    z: Array
    costs: Array
    slopes: Array


@dataclass(frozen=True)
class Programme:
    """The discretised min-max programme: everything that defines it, nothing that solves it.

    Attributes
    ----------
    problem : Problem
    uncertainty : UncertaintySet
    embedding : Embedding
    known_cuts : tuple of AnchorCut
        Where the samples are elsewhere (`roodso.solver.sweeps`): what is known of the anchors' mean
        costs, of which no more can be asked then.
    """

    problem: Problem
    uncertainty: UncertaintySet
    embedding: Embedding
    known_cuts: tuple[AnchorCut, ...] = ()

    @property
    def support(self) -> Array:
        """Support points in the user's units, samples first: (L, d)."""
        return self.embedding.support

    def anchor_weights(self) -> Array:
        """Each anchor's own distribution over the samples: (N, K)."""
        sources = self.embedding.sources
        shares = self.uncertainty.mixtures / sources.sizes
        return np.ascontiguousarray(shares[:, sources.codes].T)

    def start(self) -> Array:
        """A first decision: best for the anchors' average where that is cheap."""
        samples = self.embedding.sources.samples
        return first_decision(self.problem, samples, self.anchor_weights().mean(axis=1))


@dataclass(frozen=True)
class WarmStart:
    """Points that mattered in a neighbouring programme over the same support."""

    points: IntArray
    z: Array


@dataclass(frozen=True)
class LoopOptions:
    """How the loop runs.

    Attributes
    ----------
    tol : float
        Relative gap at which it stops, in units of max(1, |upper bound|).
    max_iter, max_rows : int
        Rounds; points added per round.
    time_limit : float
        Seconds.
    seeds : ndarray of int, optional
        Support points to begin with; by default the costliest ones at the first decision.
    all_rows : bool
        Begin with all support points.
    epsilon : float, optional
        Follow the paper's Algorithm 2: take the most violated rows, drop none, and stop when none
        is violated by more than this.
    conic : bool
        Use the loss's own conic rows wherever it has them, rather than where it prefers them.
    progress : callable or None
    n_jobs : int
        Threads for looking at all points, where these are many.
    """

    tol: float = 1e-6
    max_iter: int = 500
    max_rows: int = 30
    time_limit: float = np.inf
    seeds: IntArray | None = None
    all_rows: bool = False
    epsilon: float | None = None
    conic: bool = False
    progress: Progress | None = None
    n_jobs: int = 1


@dataclass(frozen=True)
class LoopResult:
    """What the loop hands to the certificate, which trusts none of it.

    Attributes
    ----------
    z : ndarray
        The decision whose upper bound is best, with internal variables.
    g : RKHSFunction
        The witness that proves it.
    upper, lower : float
        The loop's own bounds.
    points : ndarray of int, shape (P,)
        Support points with a row in the last master.
    shares : Shares
        The last master's worst-case distribution on these points and the anchors.
    minorant : tuple of float and ndarray
        The multipliers' combination of cuts: below the distribution's mean cost for every z.
    rounds : int
    status : str
        "optimal", or why it stopped before.
    """

    z: Array
    g: RKHSFunction
    upper: float
    lower: float
    points: IntArray
    shares: Shares
    minorant: tuple[float, Array]
    rounds: int
    status: str

    @property
    def active(self) -> IntArray:
        """Support points that mattered: what a neighbouring programme should begin with."""
        return self.points[self.shares.points > IDLE]


class _Rows:
    """The rows of the master: active points, and their cuts or conic rows."""

    def __init__(self, programme: Programme, basis: Basis, conic: bool) -> None:
        self.programme = programme
        self.basis = basis
        self.use_conic = conic or programme.problem.prefers_conic_rows
        self.points: IntArray = np.empty(0, dtype=np.intp)
        self.conic: list[tuple[IntArray, ConicRows]] = []
        self.cuts = Cuts(programme.problem.region.dimension)
        self.anchor_cuts = Cuts(programme.problem.region.dimension)
        self.n_anchors = programme.uncertainty.n_anchors
        elsewhere = len(programme.known_cuts) > 0
        self.anchor_weights = np.empty((0, 0)) if elsewhere else programme.anchor_weights()

    def begin_anchors(self, z: Array) -> None:
        """The first aggregated rows, one an anchor at least."""
        everyone = np.arange(self.n_anchors)
        for cut in self.programme.known_cuts:
            self.anchor_cuts.add(everyone, cut.z, cut.costs, cut.slopes)
        if not self.programme.known_cuts:
            self.add_anchors(z, self.anchor_costs(z), everyone)

    def add_points(self, chosen: IntArray, z: Array) -> bool:
        """Add rows at support points; say whether that added anything.

        A new point of a loss with conic rows gets those. All else is linearized at ``z``, also a
        point whose conic rows the solver did not meet accurately.
        """
        problem, support = self.programme.problem, self.programme.support
        fresh = np.setdiff1d(chosen, self.points)
        linear = chosen
        if len(fresh):
            self.basis.extend(fresh)
            self.points = np.concatenate([self.points, fresh])
            rows = problem.conic_rows(support[fresh]) if self.use_conic else None
            if rows is not None:
                first = len(self.points) - len(fresh)
                self.conic.append((np.arange(first, len(self.points)), rows))
                linear = np.setdiff1d(chosen, fresh)
        if len(linear):
            order = np.argsort(self.points)
            owner = order[np.searchsorted(self.points, linear, sorter=order)]
            xi = support[linear]
            self.cuts.add(owner, z, problem.values(z, xi), problem.slopes(z, xi))
        return len(chosen) > 0

    def linearize(self, z: Array) -> None:
        """Put linear cuts at ``z`` in the place of all conic rows, and use no more of those."""
        owners = [owners for owners, _ in self.conic]
        self.conic, self.use_conic = [], False
        if owners:
            self.add_points(self.points[np.concatenate(owners)], z)

    def anchor_costs(self, z: Array) -> Array:
        """E_k f(z, .) for every anchor."""
        samples = self.programme.embedding.sources.samples
        return self.programme.problem.values(z, samples) @ self.anchor_weights

    def add_anchors(self, z: Array, costs: Array, chosen: IntArray) -> None:
        """Add aggregated rows: E_k f(z, .) <= <g, mu_k> + beta."""
        samples = self.programme.embedding.sources.samples
        weights = self.anchor_weights[:, chosen]
        slopes = np.atleast_2d(self.programme.problem.mean_slope(z, samples, weights))
        self.anchor_cuts.add(chosen, z, costs[chosen], slopes)

    def count_idle(self, solution: MasterSolution) -> None:
        """Note which cuts had no multiplier this time."""
        self.cuts.count_idle(solution.cut_weights)
        self.anchor_cuts.count_idle(solution.anchor_cut_weights)

    def drop_idle(self) -> None:
        """Drop cuts idle for long, and points left without any."""
        self.anchor_cuts.drop_idle(_PATIENCE)
        if not self.cuts.drop_idle(_PATIENCE):
            return
        used = np.unique(np.concatenate([self.cuts.owner, *(owners for owners, _ in self.conic)]))
        if len(used) < len(self.points):
            self.points = self.points[used]
            self.basis.retain(used)
            self.cuts.owner = np.searchsorted(used, self.cuts.owner)
            self.conic = [(np.searchsorted(used, owners), rows) for owners, rows in self.conic]

    def shares(self, solution: MasterSolution) -> Shares:
        """The multipliers, as probabilities by active point and by anchor."""
        points = np.zeros(len(self.points))
        np.add.at(points, self.cuts.owner, solution.cut_weights)
        for (owners, _), weights in zip(self.conic, solution.conic_weights, strict=True):
            points[owners] += weights
        anchors = np.zeros(self.n_anchors)
        np.add.at(anchors, self.anchor_cuts.owner, solution.anchor_cut_weights)
        total = points.sum() + anchors.sum()
        if not total > 0:
            raise SolverError("the master programme returned no multipliers")
        return Shares(points / total, anchors / total, solution.mixture / solution.mixture.sum())

    def minorant(self, solution: MasterSolution, z: Array) -> tuple[float, Array]:
        """The multipliers' combination of all rows; conic rows are linearized at ``z``."""
        constant, slope = self.cuts.minorant(solution.cut_weights)
        more, more_slope = self.anchor_cuts.minorant(solution.anchor_cut_weights)
        constant, slope = constant + more, slope + more_slope
        problem, support = self.programme.problem, self.programme.support
        total = solution.cut_weights.sum() + solution.anchor_cut_weights.sum()
        for (owners, _), weights in zip(self.conic, solution.conic_weights, strict=True):
            xi = support[self.points[owners]]
            slopes = problem.slopes(z, xi)
            constant += float(weights @ (problem.values(z, xi) - slopes @ z))
            slope = slope + weights @ slopes
            total += weights.sum()
        return constant / total, slope / total


def generate_rows(
    programme: Programme,
    options: LoopOptions,
    *,
    basis: Basis | None = None,
    warm: WarmStart | None = None,
) -> LoopResult:
    """Solve the discretised programme (eq:discretized_SMC_DRO_SIP); the set's radius is positive.

    Parameters
    ----------
    programme : Programme
    options : LoopOptions
    basis : Basis, optional
        Where the witness may lie; by default everywhere that helps, which is exact.
    warm : WarmStart, optional
        Points and a decision to begin with.

    Returns
    -------
    LoopResult
    """
    basis = basis or Span(programme.embedding, programme.uncertainty)
    return _Loop(programme, options, basis).run(warm)


class _Loop:
    """One run of the algorithm: the rows, the bounds so far and the best decision."""

    def __init__(self, programme: Programme, options: LoopOptions, basis: Basis) -> None:
        self.programme = programme
        self.options = options
        self.basis = basis
        self.rows = _Rows(programme, basis, options.conic)
        self.upper, self.lower = np.inf, -np.inf
        self.started = time.monotonic()
        self.gap_before, self.stalled = np.inf, 0
        self.crowd = 0

    def run(self, warm: WarmStart | None) -> LoopResult:
        """Alternate between master and points until the bounds meet."""
        z, costs = self._begin(warm)
        result = self._before_first_round(z, costs)
        for rounds in range(1, self.options.max_iter + 1):
            try:
                solution = self._solve_master(costs)
                shares = self.rows.shares(solution)
            except SolverError as error:
                if self._out_of_time():
                    return replace(result, status="time limit")
                logger.warning("round %d: %s", rounds, error)
                if self.rows.conic:
                    self.rows.linearize(z)
                    continue
                if result.rounds == 0:
                    raise
                return replace(result, status=f"solver failure ({error.status})")
            if self.rows.conic and not solution.accurate:
                logger.info("round %d: conic rows give way to linear cuts", rounds)
                self.rows.linearize(self.programme.problem.region.project(solution.z))
                continue
            z = self.programme.problem.region.project(solution.z)
            costs = self.programme.problem.values(z, self.programme.support)
            lower = self.lower
            g = self._improve_upper(solution, shares, z, costs)
            self.crowd = int((shares.points > IDLE).sum())
            self.lower = max(lower, solution.value)
            risen = self.lower > lower + self._progress()
            self._count_stalls()
            # The beta with which g would prove the master's value: its own, up to rounding.
            beta = solution.value - support_function(self.programme.uncertainty, g)
            excess = costs - g.values - beta
            status = self._judge(rounds, float(excess.max()))
            minorant = self.rows.minorant(solution, self.z)
            result = self._result(shares, minorant, rounds, status or "iteration limit")
            if status:
                break
            if self.options.epsilon is None:
                self.rows.count_idle(solution)
                if risen:
                    self.rows.drop_idle()
            if not self._add_rows(z, costs, excess, g, beta):
                return replace(result, status="stalled")
        return result

    def _out_of_time(self) -> bool:
        return time.monotonic() - self.started > self.options.time_limit

    def _count_stalls(self) -> None:
        self.stalled += 1
        if self.upper - self.lower < 0.9 * self.gap_before:
            self.gap_before, self.stalled = self.upper - self.lower, 0

    def _progress(self) -> float:
        """The smallest rise of the value that lets rows be dropped."""
        return 1e-3 * self.options.tol * max(1.0, abs(self.upper))

    def _threshold(self) -> float:
        """The smallest violation of a row that matters."""
        return 0.1 * self.options.tol * max(1.0, abs(self.upper))

    def _before_first_round(self, z: Array, costs: Array) -> LoopResult:
        """What is known without a master: the anchors' average, and the largest cost."""
        uncertainty, embedding = self.programme.uncertainty, self.programme.embedding
        even = np.full(uncertainty.n_anchors, 1.0 / uncertainty.n_anchors)
        shares = Shares(np.zeros(len(self.rows.points)), even, even)
        none, nothing = np.empty(0, dtype=np.intp), np.zeros(embedding.sources.n_sources)
        self.z, self.upper = z, float(costs.max())
        self.g = RKHSFunction.build(embedding, none, np.empty(0), nothing)
        self.lower = -np.inf
        n_cuts = len(self.rows.anchor_cuts)  # as many of each anchor
        minorant = self.rows.anchor_cuts.minorant(np.full(n_cuts, 1.0 / n_cuts))
        return self._result(shares, minorant, 0, "")

    def _begin(self, warm: WarmStart | None) -> tuple[Array, Array]:
        """First rows: the aggregated ones, seeds or the costliest points, the warm start's."""
        programme = self.programme
        z = programme.start() if warm is None else programme.problem.region.project(warm.z)
        costs = programme.problem.values(z, programme.support)
        if self.options.all_rows:
            chosen = np.arange(len(programme.support))
        elif self.options.seeds is not None:
            chosen = np.unique(self.options.seeds)
        else:
            chosen = self._choose(costs - costs.min(), 0.0)
        if warm is not None:
            chosen = np.union1d(chosen, warm.points)
        self.rows.add_points(chosen, z)
        self.rows.begin_anchors(z)
        return z, costs

    def _solve_master(self, costs: Array) -> MasterSolution:
        """Solve, with costs scaled by their present range."""
        uncertainty, rows = self.programme.uncertainty, self.rows
        unit = self._unit(costs)
        master = Master(
            self.programme.problem.region,
            uncertainty.radius,
            uncertainty.cap,
            shift=float(costs.mean()),
            unit=unit,
            tol=float(np.clip(self._progress() / unit, 1e-12, 1e-9)),
            enough=float(np.clip(self._threshold() / unit, 1e-10, 1e-5)),
            time_limit=self.options.time_limit - (time.monotonic() - self.started),
        )
        F_points, F_anchors = self.basis.coordinates()
        return master.solve(F_points, F_anchors, rows.cuts, rows.anchor_cuts, rows.conic)

    def _unit(self, costs: Array) -> float:
        """The costs' present range, unless that is rounding beside how they vary over the box."""
        side = self.programme.problem.region.side
        cuts = (self.rows.cuts, self.rows.anchor_cuts)
        across = max((np.abs(c.slope) @ side).max(initial=0.0) for c in cuts)
        rounding = 1e-12 * np.abs(costs).max()
        return float(max(np.ptp(costs), 1e-6 * across, rounding)) or 1.0

    def _improve_upper(
        self, solution: MasterSolution, shares: Shares, z: Array, costs: Array
    ) -> RKHSFunction:
        """Take the better upper bound; returns the master's witness, at the master's norm."""
        uncertainty, best, witness = self.programme.uncertainty, np.inf, None
        for h in self.basis.witnesses(solution.y, self.rows.points, shares):
            at_master = solution.norm / h.norm if h.norm > 0 else 0.0
            t, upper = best_multiple(uncertainty, h, costs, at_master)
            if upper < self.upper:
                self.upper, self.z, self.g = upper, z, h.times(t)
            if upper < best or witness is None:
                best, witness = upper, h.times(at_master)
        assert witness is not None
        return witness

    def _judge(self, rounds: int, violation: float) -> str:
        """Why to stop, or an empty string."""
        gap = (self.upper - self.lower) / max(1.0, abs(self.upper))
        n_points = len(self.rows.points)
        logger.debug(
            "round %d: %d points, upper %.10g, lower %.10g, gap %.2e",
            *(rounds, n_points, self.upper, self.lower, gap),
        )
        if self.options.progress is not None:
            details = {"round": rounds, "upper": self.upper, "lower": self.lower, "gap": gap}
            self.options.progress("rows", None, details)
        epsilon = self.options.epsilon
        # Half the tolerance is left to the certificate, whose distribution is pulled inside; below
        # the rounding of |g| there is nothing to gain.
        rounding = self.programme.uncertainty.radius * self.g.rounding / max(1.0, abs(self.upper))
        closed = gap <= max(0.5 * self.options.tol, 2.0 * rounding)
        if closed or (epsilon is not None and violation <= epsilon):
            return "optimal"
        if self._out_of_time():
            return "time limit"
        patience = _STALLS + 2 * self.programme.problem.region.dimension
        return "stalled" if self.stalled > patience else ""

    def _add_rows(
        self, z: Array, costs: Array, excess: Array, g: RKHSFunction, beta: float
    ) -> bool:
        """Add the rows that the present point violates; say whether there were any."""
        rows, epsilon = self.rows, self.options.epsilon
        threshold = self._threshold()
        anchors = self._add_anchors(z, costs, g, beta)
        known = np.full(len(costs), -np.inf)
        known[rows.points] = rows.cuts.largest(z, len(rows.points))
        excess = np.where(costs - known > 0.1 * threshold, excess, -np.inf)
        if epsilon is None:
            chosen = self._choose(excess, threshold)
        else:
            chosen = _worst(excess, np.flatnonzero(excess > epsilon), self.options.max_rows)
        # Points that have rows already cost no new column: all that are violated get a cut.
        again = rows.points[excess[rows.points] > threshold]
        return rows.add_points(np.union1d(chosen, again), z) or anchors

    def _add_anchors(self, z: Array, costs: Array, g: RKHSFunction, beta: float) -> bool:
        """Add the aggregated rows that are violated; say whether there were any."""
        rows, threshold = self.rows, self._threshold()
        if self.programme.known_cuts:
            return False
        products = self.programme.uncertainty.mixtures @ g.source_products
        averages = costs[: len(rows.anchor_weights)] @ rows.anchor_weights
        # Rows that tell the cost at z already are violated by the solver's inaccuracy alone.
        news = averages - rows.anchor_cuts.largest(z, len(averages)) > 0.1 * threshold
        anchors = np.flatnonzero((averages - products - beta > threshold) & news)
        if len(anchors):
            rows.add_anchors(z, averages, anchors)
        return len(anchors) > 0

    def _choose(self, excess: Array, threshold: float) -> IntArray:
        """Violated points, worst first, each deducting from its neighbours' excess."""
        embedding, count = self.programme.embedding, self.options.max_rows
        power = max(1.0, self.crowd / _CROWD)
        return choose_spread(
            embedding.space.kernel, embedding.points, excess, threshold, count, power
        )

    def _result(
        self, shares: Shares, minorant: tuple[float, Array], rounds: int, status: str
    ) -> LoopResult:
        return LoopResult(
            z=self.z,
            g=self.g,
            upper=self.upper,
            lower=self.lower,
            points=self.rows.points,
            shares=shares,
            minorant=minorant,
            rounds=rounds,
            status=status,
        )


def choose_spread(
    kernel: Kernel,
    points: Array,
    excess: Array,
    threshold: float,
    count: int,
    power: float = 1.0,
) -> IntArray:
    """At most ``count`` points of large excess, worst first, that are not each other's neighbours.

    Each taken deducts from its neighbours' excess what the least change of g that repairs it would;
    ``points`` are in the kernel's coordinates. A ``power`` above 1 narrows the neighbourhood.
    """
    candidates = _worst(excess, np.flatnonzero(excess > threshold), 20 * count)
    left = excess[candidates].copy()
    chosen = []
    for _ in range(min(count, len(candidates))):
        worst = int(np.argmax(left))
        if left[worst] <= threshold:
            break
        chosen.append(candidates[worst])
        column = kernel(points[candidates], points[candidates[worst]][None])[:, 0]
        left -= left[worst] * (column / kernel.bound) ** power
        left[worst] = -np.inf
    return np.array(chosen, dtype=np.intp)


def _worst(excess: Array, candidates: IntArray, count: int) -> IntArray:
    """The ``count`` candidates of largest excess."""
    if len(candidates) <= count:
        return candidates
    return candidates[np.argpartition(-excess[candidates], count)[:count]]
