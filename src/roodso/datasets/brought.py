"""The paper's two real studies, from tables that a user brings: their data may not be passed on.

Coffee: *Coffee Shop Sales* of Maven Analytics (its data playground), a year's first half of
transactions; the table wanted has one row a week and product, with mean daily cups by size. ETFs:
monthly log-returns of sets of sector funds, from any vendor's adjusted closing prices.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd
from sklearn.utils import Bunch

__all__ = ["load_coffee", "load_etf"]

_COFFEE = (
    "Mean daily cups sold by week and product: columns product, small, regular and large, one row "
    "a week; week_start and n_days (open days) may stand beside them. The paper's five products, "
    "from the public table 'Coffee Shop Sales' of Maven Analytics' data playground: 1 organic "
    "brewed coffee (Brazilian), 2 gourmet brewed coffee (Columbian Medium Roast), 3 gourmet brewed "
    "coffee (Ethiopia), 4 premium brewed coffee (Jamaican Coffee River), 5 drip coffee (Our Old "
    "Time Diner Blend)."
)
_ETF = (
    "Monthly log-returns of sector funds: columns set, utilities, tech and health, one row a "
    "month; month may stand beside them. Each of the paper's nine sets has one utilities, one "
    "technology and one health care fund of the same family, such as XLU, XLK and XLV."
)


def load_coffee(path: str | os.PathLike[str], *, as_frame: bool = False) -> Bunch:
    """Read the paper's coffee study from a CSV file of yours.

    Parameters
    ----------
    path : str or path-like
        With columns ``product``, ``small``, ``regular`` and ``large``; see ``DESCR``.
    as_frame : bool, default=False
        Whether ``data`` and ``groups`` are a DataFrame and a Series.

    Returns
    -------
    Bunch
        ``data`` (N, 3), ``groups`` (N,) the product of each row, ``feature_names``, ``DESCR``, and
        with ``as_frame`` the whole table as ``frame``.
    """
    return _load(path, "product", ["small", "regular", "large"], _COFFEE, as_frame)


def load_etf(path: str | os.PathLike[str], *, as_frame: bool = False) -> Bunch:
    """Read the paper's study of sector funds from a CSV file of yours.

    Parameters
    ----------
    path : str or path-like
        With columns ``set``, ``utilities``, ``tech`` and ``health``; see ``DESCR``.
    as_frame : bool, default=False
        Whether ``data`` and ``groups`` are a DataFrame and a Series.

    Returns
    -------
    Bunch
        ``data`` (N, 3) of log-returns, ``groups`` (N,) the set of each row, ``feature_names``,
        ``DESCR``, and with ``as_frame`` the whole table as ``frame``.
    """
    return _load(path, "set", ["utilities", "tech", "health"], _ETF, as_frame)


def _load(path: Any, group: str, values: list[str], description: str, as_frame: bool) -> Bunch:
    frame = pd.read_csv(path)
    missing = [name for name in (group, *values) if name not in frame.columns]
    if missing:
        raise ValueError(
            f"{os.fspath(path)!r} must have the columns {[group, *values]}, got "
            f"{list(frame.columns)}; missing: {missing}"
        )
    data = frame[values].apply(pd.to_numeric, errors="coerce").astype(float)
    bad = np.argwhere(~np.isfinite(data.to_numpy()))
    if len(bad):
        row, column = bad[0]
        raise ValueError(
            f"{os.fspath(path)!r} must hold numbers only in the columns {values}, got "
            f"{frame[values].iloc[row, column]!s} in row {row + 2}, column {values[column]!r}"
        )
    return Bunch(
        data=data if as_frame else data.to_numpy(),
        groups=frame[group] if as_frame else frame[group].to_numpy(),
        frame=frame if as_frame else None,
        feature_names=values,
        DESCR=description,
    )
