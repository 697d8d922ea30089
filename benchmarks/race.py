"""The library against its peers on the work both can do: `python benchmarks/race.py`.

Makes the peers' environments (first time only; several gigabytes, some minutes), runs every
contestant in a process of its own with limits on time and memory, and writes to ``--out``

- ``rows.csv`` and ``rows.json``: one tidy row for each contest, and what all have in common;
- ``race.md`` and ``images/race.png``: the table, growth exponents, and seconds against size;

and to ``--docs`` the same page. It may be stopped at any time, and goes on where it was.
Nothing here decides a test.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from racing.contests import Limits
from racing.events import EVENTS
from racing.picture import draw
from racing.report import page
from racing.run import ROOT, Race, run
from roodso.experiments.runs import write_atomically

QUICK = Limits(seconds=60.0, repetitions=1, enough=0.0)


def parser() -> argparse.ArgumentParser:
    described = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = described.add_argument
    add("--quick", action="store_true", help="the smallest sizes, once each")
    add("--only", nargs="+", metavar="NAME", choices=list(EVENTS), help=", ".join(EVENTS))
    add("--installed", action="store_true", help="make no environments: use this interpreter")
    add("--out", type=Path, help="folder of the results (default: results/race, or race-quick)")
    add("--docs", type=Path, help="folder of the documentation, whose race.md is written too")
    add("--environments", type=Path, default=ROOT / ".venv" / "race", help="of the peers")
    add("--fresh", action="store_true", help="forget the rows that are there")
    add("--redraw", action="store_true", help="run nothing: page and picture from the rows")
    add("--time-limit", type=float, default=Limits.seconds, help="seconds of one process")
    add("--memory-limit", type=float, default=Limits.memory_mb, help="MB of one process")
    return described


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the race, and write what came of it."""
    chosen = parser().parse_args(arguments)
    out = chosen.out or ROOT / "results" / ("race-quick" if chosen.quick else "race")
    if chosen.fresh:
        for name in ("rows.csv", "rows.json"):
            (out / name).unlink(missing_ok=True)
    limits = Limits(chosen.time_limit, chosen.memory_limit)
    if chosen.quick:
        limits = Limits(
            min(limits.seconds, QUICK.seconds), limits.memory_mb, QUICK.repetitions, QUICK.enough
        )
    race = Race(
        tuple(chosen.only or EVENTS), chosen.quick, chosen.installed, chosen.environments, limits
    )
    started = time.perf_counter()
    if chosen.redraw:
        rows, settings = pd.read_csv(out / "rows.csv"), json.loads((out / "rows.json").read_text())
    else:
        try:
            rows = run(race, out, lambda text: print(text, flush=True))
        except ValueError as error:
            sys.exit(f"{error} (or start with --fresh)")
        settings = race.settings()
    report(rows, settings, out, chosen.docs)
    print(f"{time.perf_counter() - started:.0f} s; {out / 'race.md'}")


def report(rows: pd.DataFrame, settings: dict[str, Any], out: Path, docs: Path | None) -> None:
    """Write the page and the picture from the rows."""
    text = page(rows, settings)
    write_atomically(out / "race.md", text)
    draw(rows, out / "images" / "race.png")
    if docs is not None:
        write_atomically(docs / "race.md", text)
        (docs / "images").mkdir(parents=True, exist_ok=True)
        shutil.copyfile(out / "images" / "race.png", docs / "images" / "race.png")


if __name__ == "__main__":
    main()
