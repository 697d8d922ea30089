r"""Numbers as people write them: 1234.5, 1,234.5, 1.234,5, 1 234,5.

What separates thousands and what decimals is a property of a table, not of a cell: ``1,234`` alone
can be read both ways. So all number cells are looked at together. Those readings remain that every
cell allows; where more than one does and they differ in value, nobody can tell, and we ask.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from numbers import Real

import numpy as np
import pandas as pd

from roodso._typing import Array
from roodso.planner.errors import DataError

__all__ = ["MISSING_WORDS", "Reading", "choose_reading", "read_column"]

#: Cells that mean 'no entry', in lower case.
MISSING_WORDS = frozenset(
    ["", "-", "\u2013", "?", ".", "na", "n/a", "#n/a", "nan", "<na>", "null", "none", "missing"]
)

#: Beyond this, squares of amounts and their differences lose their meaning in floating point.
LARGEST = 1e15

_BLANKS = dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f"), " ") | {ord("\u2212"): "-"}
_EXPONENT = r"(?:[eE][+-]?\d{1,3})?"


@dataclass(frozen=True)
class Reading:
    """One way to read numbers: the decimal sign, and what may separate thousands.

    Examples
    --------
    >>> POINT.value("1,234.5"), COMMA.value("1.234,5"), POINT.value("12 pieces")
    (1234.5, 1234.5, None)
    """

    decimal: str
    thousands: str

    @property
    def name(self) -> str:
        """In words."""
        return f"decimal {'point' if self.decimal == '.' else 'comma'}"

    def value(self, cell: str) -> float | None:
        """The number a cell holds; None where it holds none that this reading allows."""
        if not self._pattern.fullmatch(cell):
            return None
        plain = re.sub(f"[{re.escape(self.thousands)} ']", "", cell).replace(self.decimal, ".")
        return float(plain)

    @property
    def _pattern(self) -> re.Pattern[str]:
        return _PATTERNS[self.decimal]


def _pattern(decimal: str, thousands: str) -> re.Pattern[str]:
    mark, groups = re.escape(decimal), re.escape(thousands)
    grouped = rf"[1-9]\d{{0,2}}(?P<sep>[{groups} '])\d{{3}}(?:(?P=sep)\d{{3}})*(?:{mark}\d*)?"
    plain = rf"\d+(?:{mark}\d*)?|{mark}\d+"
    return re.compile(rf"[+-]?(?:{grouped}|{plain}){_EXPONENT}", re.ASCII)


POINT, COMMA = Reading(".", ","), Reading(",", ".")
_PATTERNS = {
    reading.decimal: _pattern(reading.decimal, reading.thousands) for reading in (POINT, COMMA)
}


def tidy(cell: object) -> str:
    """A cell's text without blanks around it; typographic blanks and minus signs made plain."""
    return str(cell).translate(_BLANKS).strip()


def is_missing(cell: object) -> bool:
    """Whether a cell means 'no entry'.

    Examples
    --------
    >>> [is_missing(cell) for cell in ("", " n/a ", None, float("nan"), "0", 0)]
    [True, True, True, True, False, False]
    """
    if isinstance(cell, str):
        return tidy(cell).casefold() in MISSING_WORDS
    return cell is None or cell is pd.NaT or cell is pd.NA or bool(cell != cell)


def choose_reading(
    columns: Mapping[str, Sequence[object]], decimal: str | None = None
) -> tuple[Reading, str | None]:
    """The reading that the text cells of some columns allow, and a note where it is not the plain.

    Parameters
    ----------
    columns : mapping of name to cells
    decimal : {".", ","}, optional
        The user's word; then nothing is guessed.

    Returns
    -------
    reading : Reading
    note : str or None
        For the user, where separators were taken for something.

    Raises
    ------
    DataError
        Where both readings are possible and differ.
    """
    if decimal is not None:
        return (POINT if decimal == "." else COMMA), None
    marked = [
        (name, text)
        for name, cells in columns.items()
        for text in _texts(cells)
        if not text.isdecimal() and any(mark in text for mark in ".,' ")
    ]
    readings = [(text, POINT.value(text), COMMA.value(text)) for _, text in marked]
    numbers = [found for found in readings if found[1] is not None or found[2] is not None]
    as_point = sum(found[1] is not None for found in numbers)
    as_comma = sum(found[2] is not None for found in numbers)
    commas = [found for found in numbers if "," in found[0]]
    if as_comma > as_point:
        example = next(found for found in numbers if found[1] is None)
        return COMMA, f"numbers have a decimal comma: {example[0]!r} was read as {example[2]:.15g}"
    if commas and as_comma == as_point:
        text, point, comma = commas[0]
        if point is None or comma is None or point == comma:
            raise DataError(
                "numbers are written in two ways",
                cause=f"{commas[0][0]!r} has a comma, and other cells only make sense with a point",
                remedy="write all numbers alike, or say which sign is the decimal one: --decimal .",
            )
        raise DataError(
            f"{text!r} can be read as {point:.15g} and as {comma:.15g}",
            cause="no number in the table tells whether its comma separates thousands or decimals",
            remedy="say which sign is the decimal one: --decimal . or --decimal ,",
        )
    grouped = [
        found for found in numbers if re.search(r"\d[,' ]\d", found[0]) and found[1] is not None
    ]
    if grouped:
        text, point, _ = grouped[0]
        return POINT, f"thousands are separated: {text!r} was read as {point:.15g}"
    return POINT, None


def _texts(cells: Iterable[object]) -> list[str]:
    return [tidy(cell) for cell in cells if isinstance(cell, str) and not is_missing(cell)]


def read_column(name: str, cells: Sequence[object], rows: Sequence[int], reading: Reading) -> Array:
    """Numbers of a column, NaN where an entry is missing.

    Parameters
    ----------
    name : str
        The column's, for messages.
    cells : sequence of length N
    rows : sequence of length N
        Where the user finds each cell: row numbers of the file.
    reading : Reading

    Raises
    ------
    DataError
        Naming the first cell that holds no number, or too large a one.
    """
    numbers = np.empty(len(cells))
    for place, cell in enumerate(cells):
        number = _number(cell, reading)
        if number is None:
            raise _not_a_number(name, cell, rows[place], reading)
        if abs(number) > LARGEST:
            raise DataError(
                f"row {rows[place]}, column {name!r}: {tidy(cell)} is too large to be an amount",
                remedy="correct it, or use a larger unit",
            )
        numbers[place] = number
    return numbers


def _number(cell: object, reading: Reading) -> float | None:
    if is_missing(cell):
        return np.nan
    if isinstance(cell, str):
        return reading.value(tidy(cell))
    if isinstance(cell, (bool, np.bool_)) or not isinstance(cell, (Real, Decimal)):
        return None
    try:
        return float(cell)
    except OverflowError:
        return np.inf


def _not_a_number(name: str, cell: object, row: int, reading: Reading) -> DataError:
    text = tidy(cell)
    shown = text if len(text) <= 40 else text[:37] + "..."
    remedy = "put a number there, or leave the cell empty where there is none"
    if re.fullmatch(r"[+-]?[\d.,' ]+\s*%", text):
        remedy = "write shares as numbers without the percent sign: 0.03 for 3%"
    elif any(character.isdigit() for character in text):
        stripped = re.sub(r"[^\d.,+-]", "", text)
        other = COMMA if reading is POINT else POINT
        if other.value(text) is not None and reading.value(text) is None:
            remedy = f"numbers are read with a {reading.name}: write this one alike"
        elif reading.value(stripped) is not None:
            remedy = f"write {stripped} without the unit or currency"
    return DataError(
        f"row {row}, column {name!r}: {shown!r} is not a number",
        cause="the column is used as amounts",
        remedy=remedy,
    )
