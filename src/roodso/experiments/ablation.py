r"""The paper's ablation of its two accelerations (section 4.1.1, its figure of times and gaps).

Variants: the paper's RooD-SO with the reduced representer (RCR) and row generation (RG), without
either, without both; and the exact method of this library. All solve the programme over *one common
ball*, learned from the samples (``gram="samples"``; the paper's Algorithm 1 learns it from herded
samples, so that its variants would not share one), with T = 50 herding steps and J = 200.

Claims: RG and RCR together bring "remarkable speedups"; the relative gap Delta that RCR leaves
stays below 2.2%; without either the solver fails within its time limit for M > 12 and n = 1000.

*Time* is that of one fit: kernel values, ball and programme. *Delta* is the difference of a
variant's optimal value to the exact one, relative to that. A programme has `LIMIT` seconds; the
paper's had 1,800 on a machine of eight cores. Factorizing is not interrupted, so a fit that takes
more than twice the limit in all counts as having reached it. Seconds are those of the processor:
where a machine was busy and a solver's clock ran out early, it is run again. A variant that
reaches the limit in every trial at some (M, n) is not run at the same n with more sources, nor at
the same M with more samples, and its rows say so. Which fits reach the limit depends on the
machine, so these rows may differ in another run.

Unlike the paper's, all variants here factorize the Gram matrix by its numerical rank, which for
two items and the median bandwidth is far below the number of points. The cone is then small
whatever the representer, and what the full one costs is the factorization.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from roodso._typing import Array
from roodso.datasets import make_newsvendor_sources
from roodso.exceptions import SolverError
from roodso.experiments.measures import Verdict, table
from roodso.experiments.methods import fitted
from roodso.experiments.runs import Row
from roodso.experiments.study import Study, Task, timed
from roodso.experiments.synthetic import LOSS
from roodso.methods import RooDSO

__all__ = ["LIMIT", "VARIANTS", "Ablation"]

#: Seconds for one programme.
LIMIT = 5.0
#: A solver looks at the wall clock. Where it was stopped before it had the processor for so long,
#: as on a busy machine, it is run again with so many times the limit.
_PATIENCE = (1, 4, 16)
EXACT, BOTH = "exact", "RooD-SO (RCR and RG)"
NEITHER = "w/o RCR and RG"
VARIANTS: dict[str, dict[str, Any]] = {
    EXACT: {"representer": "exact", "rows": "generated"},
    BOTH: {"representer": "herded", "rows": "generated"},
    "w/o RCR": {"representer": "full", "rows": "generated"},
    "w/o RG": {"representer": "herded", "rows": "all"},
    NEITHER: {"representer": "full", "rows": "all"},
}
_NU = 0.2
#: Rows hold values of six digits: relative gaps below this cannot be told from none.
_RESOLVED = 1e-5
#: What became of a fit.
DONE, STOPPED = "solved", "time limit"
_NOT_RUN = "not run: beyond the limit at a smaller size"
_RUN, _SKIP = "run", "skip"


@dataclass(frozen=True)
class Ablation(Study):
    """See `roodso.experiments.study.Study`."""

    name: ClassVar[str] = "ablation"
    title: ClassVar[str] = "Ablation: what the reduced representer and row generation bring"
    about: ClassVar[str] = (
        "The paper's figure on RCR and RG: time and relative gap against M and n, its four "
        "variants and the exact method, all over one common ball."
    )
    keys: ClassVar[tuple[str, ...]] = ("n", "M", "repetition", "variant", "planned")
    order: ClassVar[tuple[str, ...]] = ("n", "M", "repetition", "variant")
    repetitions: ClassVar[tuple[int, int]] = (10, 1)

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """All (n, M), smaller ones first."""
        ns, Ms = (
            ((20, 30), (2, 3)) if self.quick else ((100, 200, 500, 1000), (2, 4, 8, 12, 16, 20))
        )
        return [(n, M) for n in ns for M in Ms]

    def settings(self) -> dict[str, Any]:
        """See `Study`."""
        return {"sizes": [list(size) for size in self.sizes], "nu": _NU, "limit": LIMIT,
                "herding": 50, "support_points": 200}  # fmt: skip

    def tasks(self, repetitions: int, rows: pd.DataFrame) -> list[Task]:
        """See `Study`: up to the first size not yet done, since it decides what follows."""
        done = set() if rows.empty else set(rows[list(self.keys)].itertuples(False, None))
        found: list[Task] = []
        for n, M in self.sizes:
            new = [
                (n, M, trial, variant, _SKIP if _beyond(rows, variant, n, M) else _RUN)
                for variant in VARIANTS
                for trial in range(repetitions)
            ]
            found += new
            if not done.issuperset(new):
                break
        return found

    def total(self, repetitions: int) -> int:
        """See `Study`."""
        return len(self.sizes) * len(VARIANTS) * repetitions

    def work(self, task: Task) -> list[Row]:
        """See `Study`."""
        n, M, trial, variant, planned = task
        if planned == _SKIP:
            return [{"status": _NOT_RUN}]
        rng = np.random.default_rng([self.seed, n, M, trial])
        sources = make_newsvendor_sources(M, n, random_state=rng)
        model = RooDSO(
            LOSS,
            nu=_NU,
            n_herding=50,
            gram="samples",
            random_state=trial,
            n_jobs=1,
            **VARIANTS[variant],
        )
        for patience in _PATIENCE:
            row = _fit(model.set_params(time_limit=patience * LIMIT), sources)
            if row["status"] == DONE or row["cpu_seconds"] >= LIMIT:
                break
        return [row]

    def summarize(self, rows: pd.DataFrame) -> pd.DataFrame:
        """By size and variant: trials, how many were solved, times, and Delta of those solved."""
        keys = ["n", "M", "repetition"]
        exact = rows[rows["variant"] == EXACT].set_index(keys)["value"]
        rows = rows.join(exact.rename("exact"), on=keys)
        rows = rows.assign(delta=(rows["value"] - rows["exact"]) / rows["exact"].abs())
        found = []
        for n, M in [size for size in self.sizes if size in set(zip(rows["n"], rows["M"],
                                                                    strict=True))]:  # fmt: skip
            for variant in VARIANTS:
                here = rows[(rows["n"] == n) & (rows["M"] == M) & (rows["variant"] == variant)]
                solved = here[here["status"] == DONE]
                run = here[here["status"] != _NOT_RUN]
                found.append(
                    {
                        "n": n,
                        "M": M,
                        "variant": variant,
                        "trials": len(run),
                        "solved": len(solved),
                        "seconds": solved["seconds"].mean(),
                        "cpu_seconds": solved["cpu_seconds"].mean(),
                        "delta_mean": solved["delta"].mean(),
                        "delta_max": solved["delta"].max(),
                    }
                )
        return pd.DataFrame(found)

    def verdicts(self, rows: pd.DataFrame) -> list[Verdict]:
        """See `Study`."""
        summary = self.summarize(rows).set_index(["n", "M", "variant"])
        return [_speedups(summary), _gap(summary), _fails(summary)]

    def section(self, rows: pd.DataFrame) -> list[str]:
        """See `Study`."""
        summary = self.summarize(rows)
        cell = {(r["n"], r["M"], r["variant"]): r for r in summary.to_dict("records")}
        sizes = list(dict.fromkeys(zip(summary["n"], summary["M"], strict=True)))
        lines = [
            (
                f"nu = {_NU}, T = 50, J = 200; a limit of {LIMIT:g} "
                "seconds a programme (the paper: 1,800), twice that for all of a fit, on one "
                "thread. Entries are mean CPU seconds of the fits that were solved; in "
                "parentheses how many, where not all were. `limit`: the limit was reached in "
                "every trial; `not run`: beyond the limit at a smaller size."
            ),
            "",
        ]
        cells = [
            [
                str(n),
                str(M),
                str(cell[n, M, EXACT]["trials"]),
                *(_time(cell[n, M, variant]) for variant in VARIANTS),
            ]
            for n, M in sizes
        ]
        lines += [*table(cells, ["n", "M", "trials", *VARIANTS], words=0), ""]
        left = [f"n = {n}, M = {M}" for n, M in self.sizes if (n, M) not in sizes]
        if left:
            lines += [f"Not reached in this run: {'; '.join(left)}.", ""]
        lines += ["Largest relative gap Delta to the exact optimum over the same ball:", ""]
        others = [variant for variant in VARIANTS if variant != EXACT]
        cells = [
            [str(n), str(M), *(_delta(cell[n, M, variant]) for variant in others)] for n, M in sizes
        ]
        return [*lines, *table(cells, ["n", "M", *others], words=0), ""]

    def plot(self, rows: pd.DataFrame) -> Any:
        """See `Study`: time against M, a panel for each n."""
        from matplotlib.figure import Figure

        summary = self.summarize(rows)
        ns = list(dict.fromkeys(summary["n"]))
        figure = Figure(figsize=(3.2 * len(ns), 3.2), layout="constrained")
        axes = figure.subplots(1, len(ns), sharey=True, squeeze=False)
        for ax, n in zip(axes.flat, ns, strict=True):
            for variant in VARIANTS:
                part = summary[(summary["n"] == n) & (summary["variant"] == variant)]
                ax.plot(part["M"], part["cpu_seconds"], marker="o", markersize=3, label=variant)
            ax.axhline(LIMIT, color="black", linewidth=0.8, linestyle="--")
            ax.set(title=f"n = {n}", xlabel="M", yscale="log")
            ax.grid(alpha=0.3)
        axes.flat[0].set_ylabel("CPU seconds (dashed: limit)")
        handles, labels = axes.flat[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=5, frameon=False)
        return figure


def _fit(model: RooDSO, sources: list[Array]) -> Row:
    """One fit, and what became of it."""
    row: Row = {}
    try:
        with timed(row):
            fitted(model, sources)
    except SolverError as error:
        return row | {"status": STOPPED, "solver": error.status}
    solution = model.solution_
    late = solution.status == "time limit" or row["cpu_seconds"] > 2 * LIMIT
    return row | {
        "status": STOPPED if late else DONE,
        "solver": solution.status,
        "value": solution.upper_bound,
        "radius": model.uncertainty_set_.radius,
        "iterations": solution.iterations,
    }


def _beyond(rows: pd.DataFrame, variant: str, n: int, M: int) -> bool:
    """Whether every trial at some smaller size reached the limit, or was beyond it already."""
    if rows.empty:
        return False
    smaller = (rows["n"] <= n) & (rows["M"] <= M) & ~((rows["n"] == n) & (rows["M"] == M))
    part = rows[smaller & (rows["variant"] == variant)]
    reached = part["status"] != DONE
    return bool(reached.groupby([part["n"], part["M"]]).all().any())


def _time(cell: dict[Any, Any]) -> str:
    if cell["trials"] == 0:
        return "not run"
    if cell["solved"] == 0:
        return "limit"
    part = "" if cell["solved"] == cell["trials"] else f" ({cell['solved']:.0f})"
    return f"{cell['cpu_seconds']:.2f}{part}"


def _delta(cell: dict[Any, Any]) -> str:
    return "-" if cell["solved"] == 0 else _gap_text(cell["delta_max"])


def _gap_text(gap: float) -> str:
    """A gap as far as the rows' digits tell."""
    return f"{gap:.1e}" if gap >= _RESOLVED else f"< {_RESOLVED:.0e}"


def _by_variant(summary: pd.DataFrame, column: str) -> pd.DataFrame:
    """A row a size, a column a variant."""
    return summary.reset_index().pivot_table(index=["n", "M"], columns="variant", values=column)


def _speedups(summary: pd.DataFrame) -> Verdict:
    """Ratios of time without either acceleration to time with both, and with the exact method."""
    wide = _by_variant(summary, "cpu_seconds")
    both, exact = wide[NEITHER] / wide[BOTH], wide[NEITHER] / wide[EXACT]
    n, M = both.index[int(np.nanargmax(both))]
    rows, representer = wide["w/o RG"] / wide[BOTH], wide["w/o RCR"] / wide[BOTH]
    return Verdict(
        'RG and RCR together bring "remarkable speedups".',
        "holds" if both.max() > 10 else "does not hold here",
        f"where both were solved, up to {both.max():.0f} times (n = {n}, M = {M}); "
        f"leaving out RG alone costs up to {rows.max():.0f} times, leaving out "
        f"RCR alone up to {representer.max():.0f} times. The exact method, which needs no RCR, is "
        f"up to {exact.max():.0f} times as fast as without either, and takes "
        f"{(wide[EXACT] / wide[BOTH]).median():.2f} times the time of RCR and RG in the median "
        "over sizes",
    )


def _gap(summary: pd.DataFrame) -> Verdict:
    gaps = _by_variant(summary, "delta_max")[[BOTH, "w/o RG"]].max(axis=1)
    return Verdict(
        "The relative gap Delta that RCR leaves stays below 2.2%.",
        "holds" if gaps.max() < 0.022 else "does not hold here",
        f"the largest of all trials is {_gap_text(gaps.max())} over one common ball",
    )


def _fails(summary: pd.DataFrame) -> Verdict:
    """Where each variant stops being solved within the limit."""
    claim = (
        "Without RCR and RG the solver fails within its time limit (1,800 s) for M > 12 and "
        "n = 1000."
    )
    largest, most = max((n, M) for n, M, _ in summary.index)
    if largest < 1000 or most <= 12:
        return Verdict(claim, "undecided here", "these sizes were not reached")
    part = summary.xs(largest, level="n").xs(NEITHER, level="variant")
    within = part.index[part["solved"] > 0]
    fails = part["solved"].iloc[-1] == 0
    reach = f"it is solved up to M = {within.max()}" if len(within) else "it is never solved"
    exact = summary.xs(largest, level="n").xs(EXACT, level="variant")
    return Verdict(
        claim,
        "holds" if fails else "does not hold here",
        f"with n = {largest} and a limit of {LIMIT:g} s {reach}; the exact method takes "
        f"{exact['cpu_seconds'].iloc[-1]:.2f} CPU seconds at M = {exact.index[-1]}",
    )
