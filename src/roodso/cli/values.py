"""Values of settings: from a flag's text or from TOML, to one checked form.

A list of names or amounts is written on the command line as cells of one CSV line, so that a name
may hold commas within quotation marks; amounts go in the items' order or by name (``a=5,b=4``).
"""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from roodso._typing import Array
from roodso.planner.errors import ProblemError, nearest
from roodso.planner.numerals import LARGEST
from roodso.planner.reading import clean_name

__all__ = ["Amounts", "amounts_of", "by_item", "names_of"]

#: One number for all items, numbers in their order, or numbers by name.
Amounts = float | list[float] | dict[str, float]


def split_cells(text: str, name: str) -> list[str]:
    """Cells of one CSV line.

    Examples
    --------
    >>> split_cells('rolls, "bread, brown"', "items")
    ['rolls', 'bread, brown']
    """
    try:
        lines = list(csv.reader([text], skipinitialspace=True, strict=True))
    except csv.Error as error:
        raise ProblemError(
            f"{name}: {text!r} is not understood", cause=str(error), remedy="write it like a,b,c"
        ) from None
    return [cell.strip() for cell in lines[0]] if lines else []


def names_of(value: Any, name: str) -> list[str]:
    """Names from a flag's text or a TOML array."""
    cells = split_cells(value, name) if isinstance(value, str) else value
    if not isinstance(cells, list) or not all(isinstance(cell, str) for cell in cells):
        raise ProblemError(
            f"{name} must be names, got {value!r}", remedy='write them like ["rolls", "loaves"]'
        )
    return cells


def number_of(value: Any, name: str) -> float:
    """A finite number from a cell's text or from TOML."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            raise ProblemError(
                f"{name}: {value!r} is not a number",
                remedy="write numbers with a decimal point, separated by commas",
            ) from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ProblemError(f"{name} must be a number, got {value!r}")
    if math.isnan(value) or abs(value) > LARGEST:
        raise ProblemError(f"{name} must be a number of at most {LARGEST:g}, got {value!r}")
    return float(value)


def amounts_of(value: Any, name: str) -> Amounts:
    """Amounts from a flag's text, or from a TOML number, array or table.

    Examples
    --------
    >>> amounts_of("5", "price"), amounts_of("5,4", "price"), amounts_of("a=5, b=4", "price")
    (5.0, [5.0, 4.0], {'a': 5.0, 'b': 4.0})
    """
    if isinstance(value, str):
        cells = split_cells(value, name)
        if any("=" in cell for cell in cells):
            return _named(cells, name)
        value = cells if len(cells) != 1 else cells[0]
    if isinstance(value, Mapping):
        return {
            clean_name(key): number_of(cell, f"{name} of {key!r}") for key, cell in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [number_of(cell, name) for cell in value]
    return number_of(value, name)


def _named(cells: list[str], name: str) -> dict[str, float]:
    amounts: dict[str, float] = {}
    for cell in cells:
        item, equals, number = cell.rpartition("=")
        if not equals:
            raise ProblemError(
                f"{name}: {cell!r} has no name",
                cause="other amounts are given by name",
                remedy="write them all like a=5,b=4",
            )
        key = clean_name(item)
        if key in amounts:
            raise ProblemError(f"{name}: {key!r} is given twice", remedy="give one amount an item")
        amounts[key] = number_of(number.strip(), f"{name} of {key!r}")
    return amounts


def by_item(
    amounts: Amounts, items: Sequence[str], name: str, default: float | None = None
) -> Array:
    """One amount an item, in the items' order.

    Parameters
    ----------
    amounts : Amounts
    items : sequence of str
    name : str
        The setting's, for messages.
    default : float, optional
        For items that are not named; without it all have to be.

    Returns
    -------
    ndarray of shape (d,)
    """
    if isinstance(amounts, dict):
        for key in amounts:
            if key not in items:
                raise ProblemError(
                    f"{name} names {key!r}, which is no item", remedy=nearest(key, items)
                )
        absent = [item for item in items if item not in amounts]
        if absent and default is None:
            raise ProblemError(
                f"{name} is missing for {', '.join(map(repr, absent))}",
                remedy="give an amount for each item",
            )
        return np.array([amounts.get(item, default) for item in items], dtype=float)
    if isinstance(amounts, list):
        if len(amounts) != len(items):
            raise ProblemError(
                f"{name} has {len(amounts)} numbers for {len(items)} items",
                cause=f"the items are {', '.join(items)}",
                remedy="give one number for each, in their order, or a single one for all",
            )
        return np.array(amounts)
    return np.full(len(items), amounts)
