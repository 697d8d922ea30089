"""Real demand from truly different sources: three products in 35 stores of a bakery chain."""

from __future__ import annotations

from importlib.resources import files

import pandas as pd
from sklearn.utils import Bunch

from roodso._validation import check_integer

__all__ = ["load_bakery"]

_PRODUCTS = ["p101", "p109", "p110"]


def load_bakery(*, as_frame: bool = False, min_days: int = 1) -> Bunch:
    """Weekly demand for three bakery products in 35 stores.

    Each row is one week of one store: the mean demand per open day.

    Parameters
    ----------
    as_frame : bool, default=False
        Whether ``data`` and ``groups`` are a DataFrame and a Series.
    min_days : int, default=1
        Keep weeks with at least so many open days; 5 leaves out the noisiest weeks.

    Returns
    -------
    Bunch
        ``data`` (N, 3), ``groups`` (N,) the store of each row, ``feature_names``, ``DESCR`` with
        origin and licence, and with ``as_frame`` the whole table as ``frame``: ``store``,
        ``week_start``, ``n_days`` and the products.

    Examples
    --------
    >>> bakery = load_bakery(as_frame=True)
    >>> bakery.data.shape, bakery.groups.nunique(), bakery.feature_names
    ((5866, 3), 35, ['p101', 'p109', 'p110'])
    """
    check_integer(min_days, "min_days", low=1)
    folder = files("roodso.datasets") / "data"
    with (folder / "bakery_weekly.csv").open("r", encoding="utf-8") as stream:
        frame = pd.read_csv(stream, parse_dates=["week_start"])
    frame = frame[frame["n_days"] >= min_days].reset_index(drop=True)
    if frame.empty:
        raise ValueError(f"min_days must be a whole number from 1 to 7, got {min_days}")
    data, groups = frame[_PRODUCTS], frame["store"]
    return Bunch(
        data=data if as_frame else data.to_numpy(),
        groups=groups if as_frame else groups.to_numpy(),
        frame=frame if as_frame else None,
        feature_names=list(_PRODUCTS),
        DESCR=(folder / "README.md").read_text(encoding="utf-8"),
    )
