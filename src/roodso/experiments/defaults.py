r"""What options do for data with heavy tails: honest costs on unseen sources, against SAA's.

Each *unit* is a set of sources to decide from and targets that no decision has seen:

- bakery: 34 stores of the chain, and the store left out (35 units of one target);
- generated: M sources, heavy-tailed or the paper's, and many fresh ones drawn alike.

For every contender (a method with options, and a grid of what says how cautious it is) each setting
is fitted to the unit's sources and judged on the targets. For some, what leaving a tenth of the
sources out at a time says of the setting is kept as well. So a choice by data can be judged
afterwards: in each unit the setting that cost least on sources left out, among one contender's or
those of many, with its costs on targets that had no part in the choice.

Run as ``roodso reproduce defaults``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import GroupKFold, ParameterGrid

from roodso._typing import Array, Progress
from roodso._validation import check_integer, check_jobs
from roodso.datasets import load_bakery, make_heavy_tailed_sources, make_newsvendor_sources
from roodso.experiments.defaults_report import NOTHING, page
from roodso.experiments.runs import Row, open_runs, perform, refuse_finished, write_atomically
from roodso.losses import Loss, Newsvendor
from roodso.methods import SAA, ConvexHullDRO, RooDSO
from roodso.methods.base import DecisionMaker
from roodso.model_selection import fit_grid, select
from roodso.model_selection.criteria import summarize as judge
from roodso.sets import ThickenedHull
from roodso.sources import Sources

__all__ = [
    "CONTENDERS",
    "FAMILIES",
    "QUICK",
    "Settings",
    "reproduce",
    "run",
    "summarize",
    "write_page",
]

#: Share of the targets, and of the sources left out, that "cvar" averages.
TAIL = 0.2
_NUS = [0.05, 0.2, 0.5, 0.8, 0.95]
_FEW_NUS = [0.2, 0.8, 0.95]
_TAILS = [None, 0.2, 0.5, 1.0]
_THICKNESSES = [0.1, 0.2]

LOSSES = {
    # What a user of such a table may have: the same terms for each product.
    "bakery": Newsvendor(price=[3.0] * 3, cost=[1.0] * 3, holding=[0.2] * 3, backorder=[0.5] * 3),
    "heavy-tailed": Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8]),
    "paper": Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8]),
}
#: Those with heavy tails.
_HEAVY = ("bakery", "heavy-tailed")
_GENERATORS = {"heavy-tailed": make_heavy_tailed_sources, "paper": make_newsvendor_sources}

_Made = tuple[DecisionMaker, dict[str, list[Any]]]
_Make = Callable[[Loss], _Made]


def _ball(nus: list[float] = _NUS, **options: Any) -> _Make:
    def make(loss: Loss) -> _Made:
        return RooDSO(loss, random_state=0, n_jobs=1, **options), {"nu": nus}

    return make


def _thickened(loss: Loss) -> _Made:
    learner = ThickenedHull(scale="robust", random_state=0, n_jobs=1)
    grid: dict[str, list[Any]] = {
        "uncertainty_set__tail": _TAILS[:3],
        "uncertainty_set__thickness": _THICKNESSES,
    }
    return RooDSO(loss, uncertainty_set=learner, random_state=0, n_jobs=1), grid


#: Contenders among whose settings choices are made by data.
_CHOSEN: dict[str, _Make] = {
    "SAA": lambda loss: (SAA(loss), {}),
    "hull of sources": lambda loss: (ConvexHullDRO(loss), {"tail": _TAILS}),
    "paper's setting": _ball(),
    "scale='robust'": _ball(scale="robust"),
    "scale='robust', clip=0.05": _ball(scale="robust", clip=0.05),
    "scale='robust', bandwidth='3*median'": _ball(scale="robust", bandwidth="3*median"),
    "scale='robust', clip=0.05, bandwidth='3*median'": _ball(
        scale="robust", clip=0.05, bandwidth="3*median"
    ),
}
#: Contenders each setting of which is shown as it is.
_FIXED: dict[str, _Make] = {
    "thickened hull, scale='robust'": _thickened,
    "scale=True": _ball(_FEW_NUS, scale=True),
    "n_support=0": _ball(_FEW_NUS, n_support=0),
    "support_box=0.01": _ball(_FEW_NUS, support_box=0.01),
    "clip=0.01": _ball(_FEW_NUS, clip=0.01),
    "clip=0.05": _ball(_FEW_NUS, clip=0.05),
    "clip=0.1": _ball(_FEW_NUS, clip=0.1),
    "clip=(0, 0.95)": _ball(_FEW_NUS, clip=(0.0, 0.95)),
    "bandwidth='0.3*median'": _ball(_FEW_NUS, bandwidth="0.3*median"),
    "bandwidth='3*median'": _ball(_FEW_NUS, bandwidth="3*median"),
    "bandwidth='10*median'": _ball(_FEW_NUS, bandwidth="10*median"),
    "kernel='matern52'": _ball(_FEW_NUS, kernel="matern52"),
    "kernel='laplace'": _ball(_FEW_NUS, kernel="laplace"),
}
CONTENDERS: dict[str, _Make] = _CHOSEN | _FIXED
_BALLS = [name for name in _CHOSEN if name not in ("SAA", "hull of sources")]
#: Contenders whose settings one choice is made among.
FAMILIES: dict[str, list[str]] = {
    **{name: [name] for name in _CHOSEN if name != "SAA"},
    "any ball": _BALLS,
    "any of all, SAA among them": list(_CHOSEN),
}
#: What a choice looks at; see `roodso.model_selection.criteria`.
CHOICES = ("mean", "cvar", "worst")
_MEASURES = ("mean", "worst", "cvar", "regret")
_ORDER = ["dataset", "unit", "contender"]
#: Units in one task, after which the rows are written.
_BATCH = 5


@dataclass(frozen=True)
class Settings:
    """What the rows depend on besides their keys.

    Attributes
    ----------
    n_stores : int
        Of the bakery; the first so many.
    n_sources : int
        M of the generated data.
    n_samples : (int, int)
        Range of their sizes.
    n_fresh, n_population : int
        Targets of a generated unit, and samples of each.
    n_folds : int
        Parts that the sources are left out in.
    seed : int
    """

    n_stores: int = 35
    n_sources: int = 20
    n_samples: tuple[int, int] = (50, 100)
    n_fresh: int = 50
    n_population: int = 2000
    n_folds: int = 10
    seed: int = 0


QUICK = Settings(n_stores=5, n_sources=5, n_samples=(10, 20), n_fresh=5)


def run(
    settings: Settings,
    folder: str | Path,
    *,
    repetitions: int = 40,
    contenders: Iterable[str] | None = None,
    n_jobs: int = 1,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Do what is not yet in ``folder/runs.csv``.

    Parameters
    ----------
    settings : Settings
        Those of the rows in the folder, if there are any.
    folder : str or Path
    repetitions : int, default=40
        Units of each generator; the bakery has one for each store.
    contenders : iterable of str, optional
        Names from `CONTENDERS`; all by default.
    n_jobs : int, default=1
        Processes. It changes no result.
    progress : callable, optional

    Returns
    -------
    DataFrame
        One row per data set, unit, contender and setting.
    """
    n_jobs = check_jobs(n_jobs)
    check_integer(settings.n_stores, "n_stores", low=4)
    check_integer(repetitions, "repetitions", low=1)
    names = list(CONTENDERS if contenders is None else contenders)
    unknown = [name for name in names if name not in CONTENDERS]
    if unknown:
        raise ValueError(f"contenders must be among {list(CONTENDERS)}, got {unknown}")
    path = Path(folder) / "runs.csv"
    rows = open_runs(path, asdict(settings))
    done = set(zip(*(rows[key] for key in _ORDER), strict=True)) if len(rows) else set()
    tasks = []
    for name in names:
        # On light tails only what could be a default matters.
        for dataset in LOSSES if name in _CHOSEN else _HEAVY:
            units = range(settings.n_stores if dataset == "bakery" else repetitions)
            left = [unit for unit in units if (dataset, unit, name) not in done]
            batches = [left[start : start + _BATCH] for start in range(0, len(left), _BATCH)]
            tasks += [(dataset, name, batch) for batch in batches]
    work = partial(_work, settings)
    return perform(path, rows, tasks, work, order=_ORDER, n_jobs=n_jobs, progress=progress)


def _work(settings: Settings, task: tuple[str, str, list[int]]) -> list[Row]:
    dataset, name, numbers = task
    return [row for number in numbers for row in _contend(settings, dataset, number, name)]


def _contend(settings: Settings, dataset: str, number: int, name: str) -> list[Row]:
    """One contender in one unit: a row a setting."""
    sources, targets = draw(settings, dataset, number)
    model, grid = CONTENDERS[name](LOSSES[dataset])
    optima = np.array([SAA(model.loss).fit([table]).objective_ for table in targets])
    fitted = fit_grid(model, grid, sources)
    inner = {choice: np.full(len(fitted), np.nan) for choice in CHOICES}
    if name in _CHOSEN:
        cv = GroupKFold(min(settings.n_folds, sources.n_sources))
        inner = select(model, grid, sources, tail=TAIL, cv=cv, refit=False).cv_results_
    rows = []
    for place, (parameters, each) in enumerate(zip(ParameterGrid(grid), fitted, strict=True)):
        costs = np.array([-each.score(table) for table in targets])
        found = judge(costs, optima, TAIL)
        rows.append(
            {"dataset": dataset, "unit": number, "contender": name}
            | {"setting": _text(parameters)}
            | {measure: found[measure] for measure in _MEASURES}
            | {f"inner_{choice}": float(inner[choice][place]) for choice in CHOICES}
        )
    return rows


def draw(settings: Settings, dataset: str, number: int) -> tuple[Sources, list[Array]]:
    """A unit: sources to decide from, and the targets' tables."""
    if dataset == "bakery":
        bakery = load_bakery()
        stores = Sources.from_data(bakery.data, bakery.groups)
        some = stores.restricted(np.flatnonzero(stores.codes < settings.n_stores))
        return some.without(number), [some.table(number)]
    place = list(_GENERATORS).index(dataset)
    rng = np.random.default_rng([settings.seed, place, number])
    make = _GENERATORS[dataset]
    sources = make(settings.n_sources, settings.n_samples, random_state=rng)
    return Sources.from_data(sources), make(
        settings.n_fresh, settings.n_population, random_state=rng
    )


def _text(parameters: Mapping[str, Any]) -> str:
    """Settings in words, such as "nu=0.2"."""
    words = [
        f"{name.removeprefix('uncertainty_set__')}={value}" for name, value in parameters.items()
    ]
    return ", ".join(words) or NOTHING


def summarize(runs: pd.DataFrame, n_bootstrap: int = 2000) -> pd.DataFrame:
    """Measures with 95% intervals, of fixed settings and of choices by data.

    Parameters
    ----------
    runs : DataFrame
        From `run`.
    n_bootstrap : int, default=2000
        Resamples of the units, the same for all: differences to SAA are of the same units.
        Contenders that have not been through all units are left out.

    Returns
    -------
    DataFrame
        One row per data set, contender and ``setting``, where "by mean" and the like stand for
        choices; per measure its value, ``_low`` and ``_high``, and those of the difference to SAA
        (``_more``, ``_more_low``, ``_more_high``).
    """
    rows = []
    runs = runs.fillna({"setting": NOTHING})
    for dataset in dict.fromkeys(runs["dataset"]):
        part = _finished(runs[runs["dataset"] == dataset])
        n_units = part["unit"].nunique()
        rng = np.random.default_rng(0)
        draws = np.vstack([np.arange(n_units), rng.integers(n_units, size=(n_bootstrap, n_units))])
        single = dataset == "bakery"
        plain = _figures(_units(part[part["contender"] == "SAA"]), draws, single)
        for (contender, setting), units in _choices(part):
            figures = _figures(units, draws, single)
            row: Row = {"dataset": dataset, "contender": contender, "setting": setting}
            row["units"] = n_units
            for measure in _MEASURES:
                values, more = figures[measure], figures[measure] - plain[measure]
                row |= _with_interval(measure, values) | _with_interval(f"{measure}_more", more)
            rows.append(row)
    return pd.DataFrame(rows)


def _finished(part: pd.DataFrame) -> pd.DataFrame:
    """The rows of the contenders that have been through every unit that any has."""
    units = part.groupby("contender")["unit"].transform("nunique")
    return part[units == part["unit"].nunique()]


def _choices(part: pd.DataFrame) -> Iterable[tuple[tuple[str, str], pd.DataFrame]]:
    """Fixed settings, then what is chosen in each unit among those of a family."""
    known = [name for name in CONTENDERS if (part["contender"] == name).any()]
    for name in known:
        own = part[part["contender"] == name]
        for setting in dict.fromkeys(own["setting"]):
            yield (name, setting), _units(own[own["setting"] == setting])
    for family, names in FAMILIES.items():
        candidates = part[part["contender"].isin(names)]
        if len(candidates) == 0:
            continue
        for choice in CHOICES:
            # Among equals the first in the order of the contenders wins.
            order = candidates["contender"].map({name: i for i, name in enumerate(CONTENDERS)})
            sorted_ = candidates.assign(order=order).sort_values(
                ["unit", f"inner_{choice}", "order"], kind="stable"
            )
            yield (family, f"by {choice}"), sorted_.drop_duplicates("unit").set_index("unit")


def _units(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.set_index("unit").sort_index()


def _figures(units: pd.DataFrame, draws: Any, single: bool) -> dict[str, Array]:
    """Each measure over the units themselves (first) and over resamples of them.

    Units of a single target are the targets of one study; others are repetitions of one.
    """
    values = {measure: units[measure].to_numpy()[draws] for measure in _MEASURES}
    result = {measure: drawn.mean(axis=1) for measure, drawn in values.items()}
    if single:
        result["worst"] = values["mean"].max(axis=1)
        n = draws.shape[1]
        share = np.clip(TAIL * n - np.arange(n), 0.0, 1.0) / (TAIL * n)
        result["cvar"] = -np.sort(-values["mean"], axis=1) @ share
    return result


def _with_interval(name: str, values: Array) -> Row:
    low, high = np.quantile(values[1:], [0.025, 0.975])
    return {name: values[0], f"{name}_low": low, f"{name}_high": high}


def reproduce(
    folder: str | Path,
    *,
    quick: bool = False,
    repetitions: int | None = None,
    n_jobs: int = 1,
    resume: bool = False,
    contenders: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> None:
    """Run the study, or what is left of it, and write its runs, summary and page.

    Parameters
    ----------
    folder : str or Path
    quick : bool, default=False
        The small form that takes a minute.
    repetitions : int, optional
        Units of each generator; by default 40, or 2 where quick.
    n_jobs : int, default=1
        Processes. It changes no result.
    resume : bool, default=False
        Whether runs that are there already are taken, and only what is missing is made.
    contenders : sequence of str, optional
        Some of `CONTENDERS`; by default all.
    progress : callable, optional
    """
    folder = Path(folder)
    settings = QUICK if quick else Settings()
    refuse_finished(folder / "runs.csv", resume)
    if repetitions is None:
        repetitions = 2 if quick else 40
    runs = run(
        settings,
        folder,
        repetitions=repetitions,
        contenders=contenders,
        n_jobs=n_jobs,
        progress=progress,
    )
    written = folder / "summary.csv"
    write_atomically(written, summarize(runs).to_csv(index=False, float_format="%.5g"))
    # From the file, so that the page can be made again from it.
    write_page(pd.read_csv(written), settings, folder)


def write_page(summary: pd.DataFrame, settings: Settings, folder: Path) -> None:
    """Write ``heavy-tails.md``."""
    write_atomically(folder / "heavy-tails.md", page(summary, settings))
