r"""How often a learned set holds an unseen source, and its worst case that source's true cost.

One repetition draws M sources of 50 to 100 samples and learns, for each nu, the paper's ball and
the conformal ones. Then it draws fresh sources in the same way and counts

- ``inside``: empirical distributions in the set, which is what the conformal balls promise;
- ``population_inside``: distributions themselves in the set, each stood for by many more samples,
  whose own sampling error is taken off: :math:`|\mu_P|^2` is estimated without the diagonal;
- ``bounded``: true expected costs of RooD-SO's decision that its certified worst case bounds. That
  is measured and not proved: a continuous distribution is in no set on finitely many points.

Fresh sources of one repetition share the sources and so are not independent trials. Intervals are
those of Korn and Graubard: Clopper and Pearson's with the number of independent trials that have
the variance observed between repetitions.

Run as ``roodso reproduce coverage``.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from roodso._typing import Array, Progress
from roodso._validation import check_integer, check_jobs
from roodso.datasets import (
    make_heavy_tailed_sources,
    make_multimodal_sources,
    make_newsvendor_sources,
)
from roodso.embedding import source_means, source_means_at
from roodso.experiments.coverage_report import MEASURES, METHODS, page, plot
from roodso.experiments.intervals import interval
from roodso.experiments.runs import Row, open_runs, perform, refuse_finished, write_atomically
from roodso.losses import Newsvendor
from roodso.methods import RooDSO
from roodso.sets import ConformalBall, SupportMeasureBall, UncertaintySet

__all__ = [
    "QUICK",
    "Settings",
    "how",
    "repetitions_at",
    "reproduce",
    "run",
    "summarize",
    "write_page",
]

GENERATORS = {
    "paper": make_newsvendor_sources,
    "heavy-tailed": make_heavy_tailed_sources,
    "multimodal": make_multimodal_sources,
}
LEARNERS: dict[str, Any] = dict(
    zip(
        METHODS,
        (
            SupportMeasureBall(),
            ConformalBall(),
            ConformalBall(method="leave-one-out"),
            ConformalBall(sampling_error=0.05),
        ),
        strict=True,
    )
)
_KEYS = ["generator", "n_sources", "nu", "method"]
_ORDER = ["generator", "n_sources", "repetition", "nu", "method"]
#: Repetitions in one task, after which the rows are written.
_BATCH = 5
#: Up to this M all repetitions are made.
_FULL = 20


@dataclass(frozen=True)
class Settings:
    """What the rows depend on besides their keys.

    Attributes
    ----------
    sizes, nus : tuple
        M and nu.
    n_samples : (int, int)
        Range of the sources' sizes.
    n_fresh : int
        Fresh sources a repetition.
    n_population : int
        Samples that stand for a distribution in the set.
    n_cost : int
        Samples that an expected cost is the mean over.
    seed : int
    """

    sizes: tuple[int, ...] = (10, 20, 50, 100, 200)
    nus: tuple[float, ...] = (0.05, 0.1, 0.2, 0.3)
    n_samples: tuple[int, int] = (50, 100)
    n_fresh: int = 20
    n_population: int = 1500
    n_cost: int = 20_000
    seed: int = 0


QUICK = Settings(
    sizes=(10, 20), n_samples=(10, 20), n_fresh=5, n_population=300, n_cost=2000, nus=(0.1, 0.2)
)


def run(
    settings: Settings,
    folder: str | Path,
    *,
    repetitions: int = 80,
    n_jobs: int = 1,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Make the repetitions that are not yet in ``folder/runs.csv``.

    Parameters
    ----------
    settings : Settings
        Those of the rows in the folder, if there are any.
    folder : str or Path
    repetitions : int, default=80
        For M up to 20; fewer for larger M, see `repetitions_at`.
    n_jobs : int, default=1
        Processes. It changes no result.
    executor : concurrent.futures.Executor, optional
        In their place, such as ``client.get_executor()`` of a Dask client.
    progress : callable, optional

    Returns
    -------
    DataFrame
        One row per generator, M, repetition, nu and method.
    """
    check_integer(repetitions, "repetitions", low=1)
    n_jobs = check_jobs(n_jobs)
    path = Path(folder) / "runs.csv"
    rows = open_runs(path, asdict(settings))
    done = set(zip(*(rows[key] for key in _ORDER[:3]), strict=True)) if len(rows) else set()
    tasks = []
    for n_sources in settings.sizes:
        for generator in GENERATORS:
            numbers = range(repetitions_at(n_sources, repetitions))
            left = [number for number in numbers if (generator, n_sources, number) not in done]
            batches = [left[start : start + _BATCH] for start in range(0, len(left), _BATCH)]
            tasks += [(generator, n_sources, batch) for batch in batches]
    work = partial(_repetitions, settings)
    return perform(
        path,
        rows,
        tasks,
        work,
        order=_ORDER,
        n_jobs=n_jobs,
        executor=executor,
        progress=progress,
    )


def repetitions_at(n_sources: int, repetitions: int) -> int:
    """Repetitions for this M: all up to M = 20, then fewer, as 1 / sqrt(M).

    A repetition takes longer there, and its fresh sources tell more: sets differ less.

    Examples
    --------
    >>> [repetitions_at(M, 80) for M in (10, 20, 50, 100, 200)]
    [80, 80, 51, 36, 25]
    """
    return max(1, round(repetitions * min(1.0, (_FULL / n_sources) ** 0.5)))


def _repetitions(settings: Settings, task: tuple[str, int, list[int]]) -> list[Row]:
    generator, n_sources, numbers = task
    return [
        row for number in numbers for row in _repetition(settings, generator, n_sources, number)
    ]


def _repetition(settings: Settings, generator: str, n_sources: int, number: int) -> list[Row]:
    """All methods and nu on the same sources and the same fresh ones."""
    key = {"generator": generator, "n_sources": n_sources, "repetition": number}
    place = list(GENERATORS).index(generator)
    rng = np.random.default_rng([settings.seed, place, n_sources, number])
    make = GENERATORS[generator]
    sources = make(n_sources, settings.n_samples, random_state=rng)
    fresh = [_Fresh.draw(make, settings, rng) for _ in range(settings.n_fresh)]
    rows = []
    for method, learner in LEARNERS.items():
        nus = [nu for nu in settings.nus if _is_allowed(learner, nu, n_sources)]
        models = _model(learner, number).path(sources, nus) if nus else []
        counts = _counts([model.uncertainty_set_ for model in models], fresh)
        for nu, model, (inside, population) in zip(nus, models, counts, strict=True):
            costs = np.array([-model.score(source.many) for source in fresh])
            rows.append(
                key
                | {
                    "nu": nu,
                    "method": method,
                    "promise": getattr(model.set_learner_, "promise_", np.nan),
                    "fresh": len(fresh),
                    "inside": inside,
                    "population_inside": population,
                    "bounded": int((costs <= model.objective_).sum()),
                    "radius": model.uncertainty_set_.radius,
                    "worst_case": model.objective_,
                    "mean_cost": costs.mean(),
                }
            )
    return rows


def _is_allowed(learner: Any, nu: float, n_sources: int) -> bool:
    if not isinstance(learner, ConformalBall):
        return True
    least: int = ConformalBall(**(learner.get_params() | {"nu": nu})).least_sources
    return n_sources >= least


def _model(learner: Any, seed: int) -> RooDSO:
    loss = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
    learner = type(learner)(**(learner.get_params() | {"random_state": seed}))
    return RooDSO(loss, uncertainty_set=learner, random_state=seed, n_jobs=1)


@dataclass(frozen=True)
class _Fresh:
    """An unseen source: samples as many as the sources have, and many more of the same law."""

    few: Array
    many: Array
    population: Array

    @classmethod
    def draw(cls, make: Any, settings: Settings, rng: np.random.Generator) -> _Fresh:
        size = int(rng.integers(*settings.n_samples, endpoint=True))
        drawn = make(1, size + settings.n_cost, random_state=rng)[0]
        return cls(drawn[:size], drawn[size:], drawn[size : size + settings.n_population])


def _counts(sets: list[UncertaintySet], fresh: list[_Fresh]) -> list[tuple[int, int]]:
    """For each of sets that share a kernel, how many fresh sources are inside: few, many."""
    if not sets:
        return []
    radii = np.array([one.radius for one in sets])
    few = np.stack([squared_distances(sets, source.few) for source in fresh])
    many = np.stack([squared_distances(sets, source.population, own=False) for source in fresh])
    counts = [(distances <= radii**2).sum(axis=0).tolist() for distances in (few, many)]
    return list(zip(*counts, strict=True))


def squared_distances(sets: list[UncertaintySet], table: Array, *, own: bool = True) -> Array:
    """Squared distances of a table's embedding to the centres of balls that share a kernel.

    Without ``own``, the table stands for its distribution: pairs of a sample with itself are left
    out of its squared norm, which makes the estimate unbiased.
    """
    first, weights = sets[0], np.stack([one.weights for one in sets])
    used = np.flatnonzero(weights.any(axis=0))
    rows = np.isin(first.sources.codes, used)
    codes = np.searchsorted(used, first.sources.codes[rows])
    known, new = (first.space.coordinates(x) for x in (first.sources.samples[rows], table))
    cross = source_means_at(first.kernel, new, known, codes, len(used)).mean(axis=0)
    norm = source_means(first.kernel, new, np.zeros(len(new), dtype=np.intp), 1).mean()
    if not own:
        norm = (len(new) * norm - first.kernel.bound) / (len(new) - 1)
    centers = np.array([float(one.anchor_gram[0, 0]) for one in sets])
    found: Array = norm - 2 * weights[:, used] @ cross + centers
    return found


def summarize(runs: pd.DataFrame) -> pd.DataFrame:
    """Shares with 95% intervals, and mean radius and worst case, per generator, M, nu and method.

    Parameters
    ----------
    runs : DataFrame
        From `run`.
    """
    rows = []
    order = {name: place for known in (GENERATORS, LEARNERS) for place, name in enumerate(known)}
    runs = runs.sort_values(_KEYS, key=lambda column: column.replace(order), kind="stable")
    for key, cell in runs.groupby(_KEYS, sort=False):
        row: Row = dict(zip(_KEYS, key, strict=True))
        row |= {"promise": cell["promise"].iloc[0], "repetitions": len(cell)}
        row["targets"] = int(cell["fresh"].sum())
        for measure in MEASURES:
            share, low, high = interval(cell[measure].to_numpy(), int(cell["fresh"].iloc[0]))
            row |= {measure: share, f"{measure}_low": low, f"{measure}_high": high}
        for name in ("radius", "worst_case", "mean_cost"):
            row[name] = cell[name].mean()
        rows.append(row)
    return pd.DataFrame(rows)


def reproduce(
    folder: str | Path,
    *,
    quick: bool = False,
    repetitions: int | None = None,
    n_jobs: int = 1,
    resume: bool = False,
    progress: Progress | None = None,
) -> None:
    """Run the study, or what is left of it, and write its runs, summary, page and pictures.

    Parameters
    ----------
    folder : str or Path
    quick : bool, default=False
        The small form that takes seconds.
    repetitions : int, optional
        For M up to 20; by default 80, or 4 where quick.
    n_jobs : int, default=1
        Processes. It changes no result.
    resume : bool, default=False
        Whether runs that are there already are taken, and only what is missing is made.
    progress : callable, optional
    """
    folder = Path(folder)
    settings = QUICK if quick else Settings()
    refuse_finished(folder / "runs.csv", resume)
    if repetitions is None:
        repetitions = 4 if quick else 80
    runs = run(settings, folder, repetitions=repetitions, n_jobs=n_jobs, progress=progress)
    written = folder / "summary.csv"
    write_atomically(written, summarize(runs).to_csv(index=False, float_format="%.5g"))
    # From the file, so that the page can be made again from it.
    write_page(pd.read_csv(written), settings, folder)


def write_page(summary: pd.DataFrame, settings: Settings, folder: Path) -> None:
    """Write ``coverage.md``, with its pictures beside it in ``images``."""
    write_atomically(folder / "coverage.md", page(summary, how(summary, settings)))
    (folder / "images").mkdir(exist_ok=True)
    for measure in MEASURES:
        plot(summary, measure).savefig(folder / "images" / f"coverage-{measure}.png", dpi=80)


def how(summary: pd.DataFrame, settings: Settings) -> str:
    """One paragraph on how it was measured."""
    made = summary.groupby("n_sources")["repetitions"].max()
    counts = ", ".join(f"{count} at M = {n_sources}" for n_sources, count in made.items())
    return (
        f"Each repetition draws M sources of {settings.n_samples[0]} to {settings.n_samples[1]} "
        "samples, learns the sets from them with their default settings, and tries "
        f"{settings.n_fresh} fresh sources drawn alike; repetitions: {counts}. Generators: the "
        "paper's (Gaussian), one with Student's t (2.5 degrees of freedom) in place of the "
        "Gaussian, and mixtures of three Gaussians (`roodso.datasets`). Sets: the paper's ball; "
        "`ConformalBall` in its split form; in its leave-one-out form; and the split form enlarged "
        "for the sampling error (delta = 0.05). The loss is the paper's two-item newsvendor. "
        f"A distribution is stood for by {settings.n_population} samples in the set and by "
        f"{settings.n_cost} in costs. Brackets are 95% intervals that allow for the fresh sources "
        "of a repetition sharing their sets (Korn and Graubard)."
    )
