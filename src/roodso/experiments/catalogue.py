"""The studies by name, in the order in which they are run and shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from roodso.experiments import coverage, defaults
from roodso.experiments.ablation import Ablation
from roodso.experiments.bakery import Bakery
from roodso.experiments.coffee import Coffee
from roodso.experiments.etf import Etf
from roodso.experiments.heavy_tailed import HeavyTailed
from roodso.experiments.study import Study, find_tables
from roodso.experiments.table1 import Table1

__all__ = ["NAMES", "OF_THEIR_OWN", "STUDIES", "make_study"]

STUDIES: dict[str, type[Study]] = {
    study.name: study for study in (Table1, Ablation, Coffee, Etf, Bakery, HeavyTailed)
}
#: Studies of this library's own sets and options, which have pages of their own.
OF_THEIR_OWN: dict[str, Callable[..., None]] = {
    "coverage": coverage.reproduce,
    "defaults": defaults.reproduce,
}
#: All that ``roodso reproduce`` knows.
NAMES = (*STUDIES, *OF_THEIR_OWN, "all")


def make_study(name: str, *, quick: bool = False, folders: Sequence[str | Path] = ()) -> Study:
    """A study with the tables that the folders hold.

    Raises
    ------
    ValueError
        Where it needs tables and no folder has any of them.

    Examples
    --------
    >>> make_study("table1", quick=True).settings()["test_distributions"]
    [10, 200]
    """
    if name not in STUDIES:
        raise ValueError(f"name must be one of {', '.join(STUDIES)}, got {name!r}")
    needs = STUDIES[name].needs
    tables = find_tables(needs, folders)
    if needs and not tables:
        wanted = ", ".join(f"{one}.csv" for one in needs)
        raise ValueError(
            f"{name} needs a folder (--data) with one of {wanted}, got "
            f"{[str(folder) for folder in folders]}: these tables may not be passed on; "
            "roodso.datasets says what they hold and where the originals are to be had"
        )
    return STUDIES[name](quick=quick, tables=tables)
