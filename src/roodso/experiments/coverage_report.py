"""The coverage experiment's page and pictures, made from its summary alone."""

from __future__ import annotations

from typing import Any

import pandas as pd

__all__ = ["MEASURES", "METHODS", "page", "plot"]

METHODS = ("paper", "split", "leave-one-out", "split, enlarged")

MEASURES = {
    "inside": "Empirical distribution of a fresh source in the set",
    "population_inside": "Distribution itself in the set",
    "bounded": "True expected cost below the certified worst case",
}


_NOTE = (
    "This page is made by `python -m roodso.experiments.page docs` from `results/coverage`, which "
    "`roodso reproduce coverage` writes; its figures are those of the last full run."
)
_ON_COSTS = (
    "- **The worst case as a bound on the true expected cost is promised by none**: a continuous "
    "distribution is in no set on finitely many points, and kernels see little of what lies far "
    "out. It was measured."
)


def page(summary: pd.DataFrame, how: str) -> str:
    """The page of the documentation, in Markdown; every figure of a result is from the summary.

    Parameters
    ----------
    summary : DataFrame
        From `roodso.experiments.coverage.summarize`.
    how : str
        A paragraph on how it was measured.
    """
    lines = [
        "# Does the set hold the next source?",
        "",
        _NOTE,
        "",
        how,
        "",
        "## What is promised and what was seen",
        "",
        f"- **The paper's ball promises nothing at finite M.** {_shortfall(summary)}",
        f"- **The split ball promises 1 - nu or more.** {_kept(summary, 'split')}",
        "- **The leave-one-out ball promises 1 - 2 nu or more.** "
        + _kept(summary, "leave-one-out"),
        "- **The enlarged ball promises 1 - nu - delta for the distribution itself.** "
        + _kept(summary, "split, enlarged", "population_inside"),
        f"{_ON_COSTS} {_binding(summary)}",
        "",
        "A dash says that M is too small for nu: the ball then refuses to be fitted.",
        "",
    ]
    for measure, title in MEASURES.items():
        lines += [f"## {title}", ""]
        lines += [f"![{title}](images/coverage-{measure}.png)", ""]
        for generator in dict.fromkeys(summary["generator"]):
            part = summary[summary["generator"] == generator]
            lines += [f"**{generator.capitalize()} generator**", "", *_table(part, measure), ""]
    lines += ["## Worst case and true cost", ""]
    lines += ["Means over repetitions: certified worst case / true expected cost.", ""]
    for generator in dict.fromkeys(summary["generator"]):
        part = summary[summary["generator"] == generator]
        lines += [f"**{generator.capitalize()} generator**", "", *_table(part, "worst_case"), ""]
    lines += ["## Size of the sets", "", "Mean radius, paper's generator.", ""]
    lines += _table(summary[summary["generator"] == "paper"], "radius")
    return "\n".join(lines) + "\n"


def _shortfall(summary: pd.DataFrame) -> str:
    """One sentence on the cell where the paper's ball misses 1 - nu by most."""
    cells = summary[(summary["generator"] == "paper") & (summary["method"] == "paper")]
    worst = min(cells.to_dict("records"), key=lambda cell: cell["inside"] - (1 - cell["nu"]))
    return (
        f"On its own generator it held {_entry(worst, 'inside')} of fresh sources at "
        f"M = {worst['n_sources']}, nu = {worst['nu']:g}, where {1 - worst['nu']:g} is asked."
    )


def _kept(summary: pd.DataFrame, method: str, measure: str = "inside") -> str:
    """How many cells contradict the promise, and the one that is closest to doing so."""
    cells = summary[summary["method"] == method]
    below = int((cells[f"{measure}_high"] < cells["promise"]).sum())
    closest = min(cells.to_dict("records"), key=lambda cell: cell[measure] - cell["promise"])
    return (
        f"In {below} of {len(cells)} cells the whole interval lies below what is proved there. "
        f"Lowest against its promise: {_entry(closest, measure)}, where "
        f"{closest['promise']:.3f} is proved ({closest['generator']} generator, "
        f"M = {closest['n_sources']}, nu = {closest['nu']:g})."
    )


def _binding(summary: pd.DataFrame) -> str:
    """How often the worst case bounded the true cost, and whether the radius had a part in it."""
    least = min(summary.to_dict("records"), key=lambda cell: cell["bounded"])
    shares = []
    for generator, part in summary.groupby("generator", sort=False):
        cells = part.groupby(["nu", "n_sources"])
        spread = cells["worst_case"].max() - cells["worst_case"].min()
        margin = (part["worst_case"] - part["mean_cost"]).mean()
        shares.append(f"{100 * spread.max() / margin:.2g}% ({generator} generator)")
    return (
        f"Least often: {_entry(least, 'bounded')} ({least['generator']} generator, "
        f"M = {least['n_sources']}, nu = {least['nu']:g}, method: {least['method']}). The sets "
        "have little part in that where their radius hardly matters: between the four sets of one "
        "cell the mean worst case differs, in parts of the mean distance from worst case to true "
        f"cost, by at most {', '.join(shares)}. Where that is next to nothing the ball does not "
        "bind: it holds the worst distribution on the support points, and the decision is that of "
        "robust optimisation "
        "over them."
    )


def _table(cells: pd.DataFrame, measure: str) -> list[str]:
    """A Markdown table: a row for each nu and M, a column for each method."""
    found = {(c["nu"], c["n_sources"], c["method"]): c for c in cells.to_dict("records")}
    lines = [
        f"| nu | M | {' | '.join(METHODS)} |",
        f"|---:|---:|{'---|' * len(METHODS)}",
    ]
    for nu, n_sources in sorted({key[:2] for key in found}):
        entries = [
            _entry(found[nu, n_sources, method], measure)
            if (nu, n_sources, method) in found
            else "-"
            for method in METHODS
        ]
        lines.append(f"| {nu:g} | {n_sources} | {' | '.join(entries)} |")
    return lines


def _entry(cell: dict[Any, Any], measure: str) -> str:
    if measure == "worst_case":
        return f"{cell['worst_case']:.1f} / {cell['mean_cost']:.1f}"
    if measure == "radius":
        return f"{cell['radius']:.3f}"
    low, high = cell[f"{measure}_low"], cell[f"{measure}_high"]
    return f"{cell[measure]:.3f} [{low:.3f}, {high:.3f}]"


def plot(summary: pd.DataFrame, measure: str) -> Any:
    """A figure of one measure: a row for each nu, a column for each generator.

    Parameters
    ----------
    summary : DataFrame
        From `summarize`.
    measure : {"inside", "population_inside", "bounded"}

    Returns
    -------
    matplotlib Figure
    """
    from matplotlib.figure import Figure

    generators = list(dict.fromkeys(summary["generator"]))
    nus = sorted(set(summary["nu"]))
    figure = Figure(figsize=(3.2 * len(generators), 2.2 * len(nus)), layout="constrained")
    axes = figure.subplots(len(nus), len(generators), sharex=True, sharey=True, squeeze=False)
    for i, nu in enumerate(nus):
        for j, generator in enumerate(generators):
            here = summary[(summary["nu"] == nu) & (summary["generator"] == generator)]
            _draw(axes[i, j], here, measure)
            axes[i, j].axhline(1 - nu, color="black", linewidth=0.8, linestyle="--")
            if i == 0:
                axes[i, j].set_title(f"{generator} generator", fontsize=10)
            if j == 0:
                axes[i, j].set_ylabel(f"share, nu = {nu:g}")
            if i == len(nus) - 1:
                axes[i, j].set_xlabel("M")
    handles = {
        label: handle
        for ax in axes.flat
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(f"{MEASURES[measure]} (dashed: 1 - nu)", fontsize=11)
    return figure


def _draw(ax: Any, cells: pd.DataFrame, measure: str) -> None:
    """Shares against M with their intervals, the methods side by side."""
    for place, method in enumerate(METHODS):
        part = cells[cells["method"] == method].sort_values("n_sources")
        share = part[measure]
        around = [share - part[f"{measure}_low"], part[f"{measure}_high"] - share]
        x = part["n_sources"] * 1.04 ** (place - (len(METHODS) - 1) / 2)
        ax.errorbar(x, share, around, label=method, marker="o", markersize=3, linewidth=1)
    ax.set_xscale("log")
    sizes = sorted(set(cells["n_sources"]))
    ax.set_xticks(sizes, [str(size) for size in sizes])
    ax.minorticks_off()
    ax.grid(alpha=0.3)
