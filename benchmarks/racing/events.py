r"""What is raced: instances, who takes part, and by what results are compared.

Every contestant of an event is given the same arrays, from one seed, with the same support points.
Where results are optimal values, all solve one programme and ours brings certified bounds: a peer's
value is compared with the certified upper bound. Where they are sets of points or multipliers, the
suite itself computes what they are worth (`Event.score`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from roodso.datasets import make_newsvendor_sources
from roodso.embedding import Coordinates, Embedding, KernelSpace, source_means, source_means_at
from roodso.kernels import RBF
from roodso.methods.barycenter import wasserstein_barycenter
from roodso.sets import SupportMeasureBall
from roodso.sources import Sources
from roodso.support import latin_hypercube

__all__ = ["EVENTS", "OURS", "Contestant", "Event"]

Arrays = dict[str, Any]
#: The contestant that all others are compared with.
OURS = "roodso"


@dataclass(frozen=True)
class Contestant:
    """Who takes part in an event.

    Attributes
    ----------
    name : str
    script : str
        File among ``contestants/``.
    peer : str
        Its environment in `racing.peers`.
    options : dict
        For the script.
    largest : int or None
        The largest size that it is entered for.
    remark : str
        Said in the report in any case.
    """

    name: str
    script: str
    peer: str
    options: Mapping[str, Any] = field(default_factory=dict)
    largest: int | None = None
    remark: str = ""


@dataclass(frozen=True)
class Event:
    """One kind of work.

    Attributes
    ----------
    name, title : str
    what : str
        A paragraph: the work, and by what results are compared.
    size_name : str
    sizes, quick_sizes : tuple of int
    make : callable
        The arrays of an instance from its size.
    contestants : tuple of Contestant
        Ours first.
    score : callable or None
        What a result is worth, from arrays and result; None where it brings its own value.
    score_name : str
        What that is called; smaller is better.
    relative : bool
        Whether values are reported as differences from ours, relative to ours.
    """

    name: str
    title: str
    what: str
    size_name: str
    sizes: tuple[int, ...]
    quick_sizes: tuple[int, ...]
    make: Callable[[int], Arrays]
    contestants: tuple[Contestant, ...]
    score: Callable[[Arrays, dict[str, Any]], float] | None = None
    score_name: str = "value"
    relative: bool = True


# Instances ------------------------------------------------------------------------------------


def one_sample(n: int) -> Arrays:
    """Demand for two items around (2, 2), n drawn points in its box, R = 0.1, median bandwidth."""
    samples = np.random.default_rng(n).normal(2.0, 0.3, (n, 2))
    return _around(samples, n) | {"loss": "newsvendor"}


def one_line(n: int) -> Arrays:
    """Points (x, y) near the line y = x / 2 + 1, with heavy tails; the rest as in one_sample."""
    rng = np.random.default_rng(n)
    x = rng.uniform(-1.0, 1.0, n)
    samples = np.column_stack([x, 0.5 * x + 1.0 + 0.1 * rng.standard_t(5, n)])
    return _around(samples, n) | {"loss": "least absolute deviations"}


def _around(samples: np.ndarray, n_drawn: int) -> Arrays:
    n = len(samples)
    drawn = _drawn(samples, n_drawn)
    return {
        "support": np.vstack([samples, drawn]),
        "weights": np.concatenate([np.full(n, 1 / n), np.zeros(n_drawn)]),
        "n_samples": n,
        "radius": 0.1,
        "bandwidth": float(np.median(pdist(samples[:1000]))),
    }


def _drawn(samples: np.ndarray, n_drawn: int) -> np.ndarray:
    """The points that a fit with ``random_state=0`` and a given bandwidth draws."""
    box = samples.min(axis=0), samples.max(axis=0)
    return latin_hypercube(*box, n_drawn, np.random.default_rng(0))


def many_sources(n_sources: int, n_samples: int, n_drawn: int) -> Arrays:
    """The paper's sources, with the ball that nu = 0.2 learns from them."""
    shops = make_newsvendor_sources(n_sources, n_samples, random_state=0)
    sources = Sources.from_data(shops)
    bandwidth = float(np.median(pdist(sources.samples[:: max(1, sources.n_samples // 1000)])))
    drawn = _drawn(sources.samples, n_drawn)
    coordinates = Coordinates.from_samples(sources.samples)
    space = KernelSpace(RBF(bandwidth), coordinates)
    embedding = Embedding.compute(space, sources, np.empty((0, 2)))
    ball = SupportMeasureBall(0.2).learn(embedding)
    shares = (ball.weights / sources.sizes)[sources.codes]
    return {
        "support": np.vstack([sources.samples, drawn]),
        "weights": np.concatenate([shares, np.zeros(n_drawn)]),
        "codes": sources.codes,
        "n_samples": sources.n_samples,
        "nu": 0.2,
        "radius": ball.radius,
        "bandwidth": bandwidth,
        "loss": "newsvendor",
    }


def ten_sources(size: int) -> Arrays:
    """Ten sources; half of the N + J support points are drawn."""
    return many_sources(10, size // 20, size // 2)


def twenty_sources(size: int) -> Arrays:
    """Twenty sources of n samples and J = n: N + J = 21 n."""
    return many_sources(20, size // 21, size // 21)


def stacked_sources(size: int) -> Arrays:
    """Twenty sources, N in all."""
    sources = Sources.from_data(make_newsvendor_sources(20, size // 20, random_state=0))
    return {"samples": sources.samples, "codes": sources.codes}


def returns(size: int) -> Arrays:
    """Daily returns of five funds with heavy tails."""
    rng = np.random.default_rng(size)
    common = rng.standard_t(4, (size, 1))
    own = rng.standard_t(4, (size, 5))
    deviations, means = np.linspace(0.006, 0.015, 5), np.linspace(0.0003, 0.001, 5)
    table = np.clip(means + deviations * (0.6 * common + 0.8 * own), -0.5, 0.5)
    return {"returns": table, "risk_aversion": 1.0, "tail": 0.05, "radius": 0.001}


def to_average(size: int) -> Arrays:
    """Ten sources, N in all, and N / 10 atoms to start from."""
    sources = Sources.from_data(make_newsvendor_sources(10, size // 10, random_state=0))
    start = np.random.default_rng(0).normal(2.0, 0.3, (size // 10, 2))
    return {"samples": sources.samples, "codes": sources.codes, "atoms": start}


def to_thin(size: int) -> Arrays:
    """Two clouds in the plane, to be thinned to the square root of their size."""
    rng = np.random.default_rng(size)
    samples = rng.normal(size=(size, 2)) + 2.0 * rng.integers(0, 2, (size, 1))
    bandwidth = float(np.median(pdist(samples[:1000])))
    return {"samples": samples, "bandwidth": bandwidth, "size": int(np.sqrt(size))}


def unit_norm_gram(size: int) -> Arrays:
    """Gram matrix of the embeddings of M Gaussian sources, divided by their norms; nu = 0.2."""
    rng = np.random.default_rng(size)
    centers, spread = rng.uniform(1.0, 3.0, (size, 2)), rng.uniform(0.1, 0.4, size)
    # E k(a, b) for isotropic Gaussians in the plane, and a Gaussian kernel of bandwidth 1.
    variance = 1.0 + spread[:, None] ** 2 + spread**2
    squared = ((centers[:, None] - centers) ** 2).sum(axis=2)
    gram = np.exp(-squared / (2 * variance)) / variance
    norms = np.sqrt(np.diag(gram))
    return {"gram": gram / norms / norms[:, None], "nu": 0.2}


# What results are worth -----------------------------------------------------------------------


def mmd(data: Arrays, result: dict[str, Any]) -> float:
    """Distance in the RKHS from the chosen samples' embedding to that of all."""
    kernel, samples = RBF(float(data["bandwidth"])), data["samples"]
    chosen = samples[np.asarray(result["chosen"])]
    together = np.zeros(len(samples), dtype=np.intp)
    everyone = source_means(kernel, samples, together, 1, n_jobs=2).mean()
    cross = source_means_at(kernel, chosen, samples, together, 1).mean()
    own = kernel(chosen, chosen).mean()
    return float(np.sqrt(max(everyone - 2 * cross + own, 0.0)))


def transport_cost(data: Arrays, result: dict[str, Any]) -> float:
    """The barycentre's objective: the mean squared 2-Wasserstein distance to the sources."""
    sources = Sources(data["samples"], data["codes"], tuple(range(int(data["codes"].max()) + 1)))
    return float(wasserstein_barycenter(sources, np.array(result["atoms"]), max_iter=1).objective)


def dual_objective(data: Arrays, result: dict[str, Any]) -> float:
    """The value alpha'K alpha of the dual, after what is not feasible has been made so."""
    gram, alpha = data["gram"], np.array(result["alpha"])
    bound = 1.0 / (len(gram) * float(data["nu"]))
    for _ in range(100):
        alpha = np.clip(alpha / alpha.sum(), 0.0, bound)
    return float(alpha @ gram @ alpha)


# Events ---------------------------------------------------------------------------------------


def _ours(programme: str, name: str = OURS, **options: Any) -> Contestant:
    largest, remark = options.pop("largest", None), options.pop("remark", "")
    return Contestant(name, "ours", "roodso", {"programme": programme} | options, largest, remark)


def _cvxpy(name: str, solver: str, factor: str, rank: int | None, **more: Any) -> Contestant:
    options = {"solver": solver, "factor": factor, "rank": rank}
    options["settings"] = {"kktsolver": "robust"} if solver == "CVXOPT" else {}
    if solver == "CVXOPT":
        more["remark"] = 'with `kktsolver="robust"`; as cvxpy calls it by default it fails at once'
    return Contestant(name, "lowrank", "cvxpy", options, **more)


SOLVERS = ("CLARABEL", "SCS", "ECOS", "QOCO", "CVXOPT", "SCIP", "MOREAU")
RANK = 100

EVENTS: dict[str, Event] = {
    event.name: event
    for event in (
        Event(
            "ball",
            "One ball: two-item newsvendor, n data and n drawn support points, R = 0.1",
            "The plain MMD ball around one sample, which every kernel DRO package states: the "
            "paper's costs, demand normal around (2, 2) with deviation 0.3, Gaussian kernel at the "
            "median bandwidth. Ours is `RooDSO(loss, uncertainty_set=FixedBall(0.1))`. The "
            f"low-rank scripts keep rank {RANK}, so does RSOME's factor.",
            "n",
            (100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 100_000),
            (100, 250),
            one_sample,
            (
                _ours("ball"),
                _ours(
                    "ball",
                    "roodso, low rank",
                    parameters={"embedding": "low-rank"},
                ),
                _cvxpy("cvxpy, low rank by eigenvectors", "CLARABEL", "eigen", RANK),
                _cvxpy("cvxpy, low rank by pivoted Cholesky", "CLARABEL", "cholesky", RANK),
                Contestant("RSOME by hand", "rsome_ball", "rsome"),
                Contestant("dro, exact", "dro_mmd", "dro", {"accelerate": False}),
                Contestant("dro, Nystrom", "dro_mmd", "dro", {"accelerate": True}, 100),
            ),
        ),
        Event(
            "regression",
            "The same ball: least absolute deviations, which dro has built in",
            "|y - a x - b| over points (x, y) near a line, with the same ball and support; the "
            "loss for which dro's default path, Nystrom features with at most 5,000 rows, solves a "
            "problem of this kind.",
            "n",
            (100, 250, 500, 1000, 2500),
            (100,),
            one_line,
            (
                _ours("ball"),
                _cvxpy("cvxpy, low rank by pivoted Cholesky", "CLARABEL", "cholesky", RANK),
                Contestant("dro, Nystrom", "dro_mmd", "dro", {"accelerate": True}),
                Contestant("dro, exact", "dro_mmd", "dro", {"accelerate": False}, 500),
            ),
        ),
        Event(
            "full",
            "The full programme by every open conic solver that cvxpy finds",
            "eq:discretized_SMC_DRO_SIP_SOCP whole, over the ball that ten of the paper's sources "
            "teach (nu = 0.2), half of the N + J support points drawn. Ours learns the ball as "
            "well; the others are given it.",
            "N + J",
            (200, 400, 800, 1600),
            (200,),
            ten_sources,
            (
                _ours("sources"),
                *(_cvxpy(f"cvxpy, {name}", name, "eigen", None) for name in SOLVERS),
            ),
        ),
        Event(
            "paper",
            "The paper's own variants",
            "M = 20 sources of n samples, J = n, nu = 0.2, all by this library and over one common "
            "ball: the representer is exact (ours), herded (the paper's RCR, 50 points a source) "
            "or full; the rows are generated (the paper's RG) or all there. The certified gap says "
            "what a representer costs: next to nothing here, where the kernel's numerical rank is "
            "below the number of its points.",
            "N + J",
            (525, 1050, 2100, 5250, 21_000),
            (525,),
            twenty_sources,
            (
                _ours("sources"),
                *(
                    _ours(
                        "sources",
                        f"{representer} representer, {rows} rows",
                        parameters={"representer": representer, "rows": rows},
                        largest=largest,
                    )
                    for representer, rows, largest in (
                        ("herded", "generated", None),
                        ("herded", "all", 5250),
                        ("full", "generated", 5250),
                        ("full", "all", 5250),
                    )
                ),
            ),
        ),
        Event(
            "hull",
            "The worst of twenty sources: ConvexHullDRO against dro.GroupDRO",
            "Group DRO with the newsvendor, which GroupDRO is given in the place of its loss.",
            "N",
            (1000, 4000, 16_000, 64_000),
            (1000,),
            stacked_sources,
            (_ours("hull"), Contestant("dro.GroupDRO", "dro_group", "dro")),
        ),
        Event(
            "cvar",
            "Mean-CVaR over a 1-Wasserstein ball: WassersteinDRO against skfolio",
            "Five funds, risk aversion 1, CVaR at 95 %, radius 0.001. skfolio's ball is that of "
            "the 1-norm over returns above -100 %, which ours takes as a box; the whole space is "
            "what ours takes by default, another and larger set with the same value here, because "
            "no mass has to be moved as far as -100 %.",
            "n",
            (100, 300, 1000, 3000, 10_000),
            (100,),
            returns,
            (
                _ours("cvar", support="box"),
                _ours("cvar", "roodso, whole space", support="unbounded"),
                Contestant("skfolio", "skfolio_cvar", "skfolio"),
            ),
        ),
        Event(
            "barycentre",
            "SAA on the Wasserstein barycentre: BarycenterSAA against POT's loop and quantiles",
            "Ten sources, N / 10 atoms from the same start. Both call POT's exact plans; they "
            "differ in when they stop: ours once the objective falls by less than 1e-4 of itself.",
            "N",
            (250, 500, 1000, 2000, 4000),
            (250,),
            to_average,
            (_ours("barycenter"), Contestant("POT", "pot_barycenter", "pot")),
            transport_cost,
            "mean squared distance to the sources",
            False,
        ),
        Event(
            "herding",
            "Thinning n samples to the square root of n: kernel herding against goodpoints",
            "Compared by the distance between the embeddings of the chosen and of all samples "
            "(MMD) at equal size. goodpoints' herding divides the sum over the chosen by one more "
            "than their number (Chen, Welling and Smola), ours by their number, as the paper "
            "has it (eq:herding_step); kernel thinning and Compress++ are other algorithms, with "
            "better rates.",
            "n",
            (1024, 4096, 16_384),
            (1024,),
            to_thin,
            (
                _ours("herding"),
                *(
                    Contestant(f"goodpoints, {name}", "goodpoints_thin", "goodpoints", options)
                    for name, options in (
                        ("herding", {"algorithm": "herding"}),
                        ("kernel thinning", {"algorithm": "thinning"}),
                        ("Compress++", {"algorithm": "compress"}),
                    )
                ),
            ),
            mmd,
            "MMD",
            False,
        ),
        Event(
            "oneclass",
            "The dual of support measure clustering against scikit-learn's OneClassSVM",
            "Embeddings of norm one, so that the programmes are the same up to scale; nu = 0.2. "
            "Compared by the objective after what is not feasible has been made so.",
            "M",
            (20, 100, 500, 2000),
            (20,),
            unit_norm_gram,
            (
                _ours("oneclass"),
                Contestant("OneClassSVM, tol = 1e-3", "sklearn_svm", "sklearn", {"tol": 1e-3}),
                Contestant("OneClassSVM, tol = 1e-10", "sklearn_svm", "sklearn", {"tol": 1e-10}),
            ),
            dual_objective,
            "objective",
        ),
    )
}
