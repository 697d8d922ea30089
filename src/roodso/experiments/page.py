"""The documentation's pages on experiments, made from the committed results.

``python -m roodso.experiments.page docs`` writes them with their pictures from the folder
``results``, the bakery's table in the README and the tables of how to choose; a test refuses pages
that differ. No figure on them is typed.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from roodso.experiments import coverage, defaults
from roodso.experiments.bakery import Bakery
from roodso.experiments.catalogue import STUDIES
from roodso.experiments.choice import choice
from roodso.experiments.measures import table
from roodso.experiments.runs import write_atomically
from roodso.experiments.study import Study

__all__ = ["reproduction", "with_bakery", "with_choice", "write_pages"]


_HEAD = """\
# The paper's experiments, reproduced

What the paper claims of RooD-SO against its rivals, run again with everything stated, beside real
demand and heavy tails that the paper does not have. This page is made by `python -m
roodso.experiments.page docs` from the rows under `results/`; every figure can be traced to rows of
`results/<study>/rows.csv` (with seed, version and commit; settings beside them in `rows.json`), and
`summary.csv` there has every measure with its interval and its difference to RooD-SO.

```
roodso reproduce table1               # or another study's name, or: all
roodso reproduce coffee --data DIR    # a folder with tables that may not be passed on
roodso reproduce table1 --resume      # go on where it stopped
```

`--quick` runs a small form in seconds. Its numbers mean nothing and are never mixed with full ones.

**How verdicts come about.** Methods are compared pairwise on the same draws. A comparison is
*clear* where the whole 95% interval of the paired difference lies on one side of 0. A claim "A
costs less than B" *holds* on a group of comparisons where more than half are clearly for it and
none is clearly against it, *mostly* where some are; it *does not hold here* where more than half
are clearly against it, and is *undecided here* otherwise. The mean over unseen distributions is one
group; the tail measures (90% quantile over distributions, worst distribution, largest 95% quantile,
largest CVaR) are the other.

Whether the learned sets hold the next source is [another page](coverage.md).
"""


def finished(results: Path) -> dict[str, tuple[Study, pd.DataFrame]]:
    """Studies whose rows are there."""
    found = {}
    for name, make in STUDIES.items():
        path = results / name / "rows.csv"
        if path.exists():
            found[name] = (make(), pd.read_csv(path))
    return found


def reproduction(results: Path) -> str:
    """The page on all studies."""
    studies = finished(results)
    parts = [_HEAD, _at_a_glance(studies)]
    for name, (study, rows) in studies.items():
        parts.append(study.page(rows, f"images/reproduction-{name}.png"))
        parts.append(_made(name, rows))
    return "\n".join(parts)


def _at_a_glance(studies: dict[str, tuple[Study, pd.DataFrame]]) -> str:
    """All verdicts without their numbers."""
    cells = [
        [study.title.split(":")[0], verdict.claim, verdict.verdict]
        for study, rows in studies.values()
        for verdict in study.verdicts(rows)
    ]
    lines = table(cells, ["study", "claim", "verdict"], words=3)
    return "\n".join(["## At a glance", "", *lines]) + "\n"


def _made(name: str, rows: pd.DataFrame) -> str:
    """Which program made the rows."""
    commits = ", ".join(f"`{commit}`" for commit in dict.fromkeys(rows["commit"].dropna()))
    versions = ", ".join(dict.fromkeys(str(version) for version in rows["version"]))
    return (
        f"*{len(rows)} rows in `results/{name}/rows.csv`, version {versions}, commit {commits}.*\n"
    )


def with_bakery(readme: str, results: Path) -> str:
    """The README with the bakery's table as the results have it."""
    rows = pd.read_csv(results / "bakery" / "rows.csv")
    study = Bakery()
    summary = study.summarize(rows)
    here = summary[summary["study"] == f"{study.name}: {study.labels()[0]}"]
    wide = here.pivot_table(index="method", columns="measure", values="value")
    shown = {"mean": "mean", "quantile 90": "90% quantile over stores", "worst": "worst store"}
    cells = [
        [name, *(f"{wide.loc[name, measure]:.0f}" for measure in shown)]
        for name in dict.fromkeys(here["method"])
    ]
    return _filled(readme, "bakery", table(cells, ["method", *shown.values()]))


def with_choice(text: str, results: Path) -> str:
    """The page on choosing, with tables as the results have them."""
    return _filled(text, "choice", choice(finished(results)))


def _filled(text: str, name: str, lines: list[str]) -> str:
    """The text with other lines between the marks of that name."""
    first, last = f"<!-- {name}: made by roodso.experiments.page -->", f"<!-- {name}: end -->"
    before, rest = text.split(first)
    behind = rest.split(last)[1]
    return "\n".join([before + first, *lines, last + behind])


def write_pages(docs: Path, results: Path) -> None:
    """Write the pages and their pictures."""
    for name, (study, rows) in finished(results).items():
        study.plot(rows).savefig(docs / "images" / f"reproduction-{name}.png", dpi=80)
    write_atomically(docs / "reproduction.md", reproduction(results))
    readme = docs.parent / "README.md"
    if (results / "bakery" / "rows.csv").exists() and readme.exists():
        write_atomically(readme, with_bakery(readme.read_text(encoding="utf-8"), results))
    choosing = docs / "how-to-choose.md"
    if choosing.exists():
        text = choosing.read_text(encoding="utf-8")
        write_atomically(choosing, with_choice(text, results))
    for name, module in (("coverage", coverage), ("defaults", defaults)):
        summary = results / name / "summary.csv"
        if summary.exists():
            module.write_page(pd.read_csv(summary), module.Settings(), docs)


if __name__ == "__main__":
    write_pages(Path(sys.argv[1]), Path(sys.argv[2] if len(sys.argv) > 2 else "results"))
