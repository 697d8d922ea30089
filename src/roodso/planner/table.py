"""From a raw table to samples by source: layout, numbers, missing and negative entries.

Nothing is changed or left out without a note that says what, how often and how to choose otherwise.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import numpy as np
import pandas as pd

from roodso._typing import Array, BoolArray
from roodso.planner.errors import DataError, ProblemError, nearest
from roodso.planner.numerals import choose_reading, is_missing, read_column, tidy
from roodso.planner.reading import RawTable, clean_name, read_file, read_frame

__all__ = ["LAYOUTS", "MISSING", "NEGATIVE", "Note", "PlannerData", "load_table"]

LAYOUTS = ("auto", "wide", "long")
MISSING = ("error", "drop")
NEGATIVE = ("keep", "zero", "drop", "error")


@dataclass(frozen=True)
class Note:
    """Something the user should know.

    Attributes
    ----------
    text : str
    level : {"info", "warning"}
    """

    text: str
    level: str = "info"


@dataclass(frozen=True)
class PlannerData:
    """Samples by source, as the planner sees them.

    Attributes
    ----------
    table : DataFrame of shape (N, d)
        Numbers, one column an item, one row an observation (a day, a week, a month).
    groups : Series of length N
        The source of each row, as text.
    file : str
        Where it is from.
    source : str
        What the user calls a source: the column's name.
    notes : tuple of Note
        What was found and done on the way.
    kind : {"newsvendor", "portfolio"}
        What is decided.
    currency, unit : str
        How money and quantities are written; may be empty.
    gaps : DataFrame of shape (M, d)
        How many entries were missing, by source and item, of those in ``table`` and those left out.
    """

    table: pd.DataFrame
    groups: pd.Series[str]
    file: str
    source: str
    notes: tuple[Note, ...] = ()
    kind: str = "newsvendor"
    currency: str = ""
    unit: str = ""
    gaps: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def items(self) -> list[str]:
        """Names of the columns."""
        return [str(name) for name in self.table.columns]

    @property
    def labels(self) -> list[str]:
        """Names of the sources, by first appearance."""
        return [str(label) for label in self.groups.unique()]

    @property
    def sizes(self) -> pd.Series[int]:
        """Number of rows of each source, by first appearance."""
        return self.groups.value_counts().reindex(self.labels)

    def without(self, label: str) -> PlannerData:
        """The same without one source."""
        kept = self.groups != label
        return replace(
            self,
            table=self.table[kept].reset_index(drop=True),
            groups=self.groups[kept].reset_index(drop=True),
        )

    def of(self, label: str) -> pd.DataFrame:
        """The rows of one source."""
        return self.table[self.groups == label].reset_index(drop=True)


def load_table(
    data: str | os.PathLike[str] | pd.DataFrame,
    source: str,
    items: Sequence[str] | None = None,
    *,
    layout: str = "auto",
    item: str | None = None,
    value: str | None = None,
    row: str | None = None,
    missing: str = "error",
    negative: str = "keep",
    decimal: str | None = None,
    delimiter: str | None = None,
    sheet: str | None = None,
    kind: str = "newsvendor",
    currency: str = "",
    unit: str = "",
    min_sources: int = 2,
    stdin: BinaryIO | None = None,
) -> PlannerData:
    """Load a table of samples from several sources.

    Parameters
    ----------
    data : path, "-" or DataFrame
        CSV, Parquet or Excel; "-" is the standard input.
    source : str
        Column that names the source of each row.
    items : sequence of str, optional
        What is decided about: columns (wide layout) or entries of the column ``item`` (long).
        By default all entries of ``item``, or all other columns that hold numbers only.
    layout : {"auto", "wide", "long"}, default="auto"
        Whether each item has a column, or each entry a row with columns ``item`` and ``value``.
        "auto" means long where ``item`` and ``value`` are given.
    item, value : str, optional
        Columns of the long layout.
    row : str, optional
        Long layout: the column that says which entries were observed together (a date). Without
        it, the k-th entries of all items of a source make up its k-th row.
    missing : {"error", "drop"}, default="error"
        What to do with rows in which an entry is missing. Dropping days that were sold out makes
        demand look smaller than it is.
    negative : {"keep", "zero", "drop", "error"}, default="keep"
        What to do with entries below 0 (returns of goods); of no effect for a portfolio.
    decimal : {".", ","}, optional
        Found out from the numbers by default.
    delimiter, sheet : str, optional
        Of a text table and of an Excel file.
    kind, currency, unit : str
        See `PlannerData`.
    min_sources : int, default=2
    stdin : binary stream, optional

    Returns
    -------
    PlannerData

    Examples
    --------
    >>> import pandas as pd
    >>> sales = pd.DataFrame({"shop": ["a", "a", "b"], "rolls": ["1,200", "900.5", "3"]})
    >>> data = load_table(sales, "shop", ["rolls"])
    >>> data.table["rolls"].tolist(), data.labels
    ([1200.0, 900.5, 3.0], ['a', 'b'])
    >>> data.notes[0].text
    "thousands are separated: '1,200' was read as 1200"
    """
    _choice(layout, "layout", LAYOUTS)
    _choice(missing, "missing", MISSING)
    _choice(negative, "negative", NEGATIVE)
    if decimal is not None:
        _choice(decimal, "decimal", (".", ","))
    if isinstance(data, pd.DataFrame):
        raw = read_frame(data)
    else:
        raw = read_file(data, delimiter=delimiter, sheet=sheet, stdin=stdin)
    if not raw.rows:
        raise DataError(f"{raw.name} has a header and no rows", remedy="add rows of numbers")
    notes = [Note(text) for text in raw.notes]
    wanted = None if items is None else _distinct(items)
    if _is_long(layout, item, value):
        assert item is not None
        assert value is not None
        entries = _long(raw, source, wanted, item, value, row, decimal, notes)
    else:
        entries = _wide(raw, source, wanted, decimal, notes)
    gaps = entries.gaps()
    entries = _without_missing(entries, missing, notes)
    if kind == "newsvendor":
        entries = _without_negative(entries, negative, notes)
    groups, table = entries.groups, entries.frame()
    loaded = PlannerData(
        table, groups, raw.name, clean_name(source), (), kind, currency, unit, gaps
    )
    _check_sources(loaded, min_sources, notes)
    notes += _warnings(loaded)
    return replace(loaded, notes=tuple(notes))


@dataclass(frozen=True)
class _Entries:
    """Numbers by row and item, NaN where missing; labels are None where missing."""

    labels: list[str | None]
    names: list[str]
    numbers: Array
    rows: list[int]

    @property
    def groups(self) -> pd.Series[str]:
        return pd.Series(self.labels, dtype=object, name="source")

    def frame(self) -> pd.DataFrame:
        return pd.DataFrame(self.numbers, columns=self.names)

    def gaps(self) -> pd.DataFrame:
        """The number of missing entries by source and item."""
        absent = pd.DataFrame(np.isnan(self.numbers), columns=self.names)
        return absent.groupby(self.groups.to_numpy(), sort=False).sum().astype(int)

    def kept(self, keep: BoolArray) -> _Entries:
        places = np.flatnonzero(keep).tolist()
        labels = [self.labels[place] for place in places]
        rows = [self.rows[place] for place in places]
        return replace(self, labels=labels, numbers=self.numbers[keep], rows=rows)


def _choice(value: str, name: str, accepted: tuple[str, ...]) -> None:
    if value not in accepted:
        raise ProblemError(
            f"{name} must be one of {', '.join(accepted)}, got {value!r}", remedy="choose one"
        )


def _distinct(items: Sequence[str]) -> list[str]:
    names = [clean_name(name) for name in items]
    for place, name in enumerate(names):
        if not name:
            raise ProblemError("an item has no name", remedy="separate names by single commas")
        if name in names[:place]:
            raise ProblemError(f"item {name!r} is named twice", remedy="name each item once")
    if not names:
        raise ProblemError("no item is named", remedy="name at least one")
    return names


def _is_long(layout: str, item: str | None, value: str | None) -> bool:
    if layout == "wide":
        return False
    if layout == "auto" and item is None and value is None:
        return False
    for name, given in (("item", item), ("value", value)):
        if given is None:
            raise ProblemError(
                f"the long layout needs the column of the {name}s",
                remedy=f"name it by {name} (--{name} COLUMN)",
            )
    return True


def label_of(cell: Any) -> str | None:
    """A source's name as text: 2.0 and 2 are the same shop; None where missing.

    Examples
    --------
    >>> label_of(2.0), label_of(" north "), label_of(None)
    ('2', 'north', None)
    """
    if is_missing(cell):
        return None
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    if isinstance(cell, dt.datetime) and cell.time() == dt.time():
        return cell.date().isoformat()
    return clean_name(tidy(cell))


def _wide(
    raw: RawTable, source: str, items: list[str] | None, decimal: str | None, notes: list[Note]
) -> _Entries:
    labels = [label_of(cell) for cell in raw.column(source, "the source of each row")]
    if items is None:
        items = _number_columns(raw, clean_name(source), decimal, notes)
    if clean_name(source) in items:
        raise ProblemError(
            f"column {clean_name(source)!r} cannot be the source and an item", remedy="take it out"
        )
    cells = {name: raw.column(name, "an item") for name in items}
    reading, note = choose_reading(cells, decimal)
    if note:
        notes.append(Note(note))
    columns = [read_column(name, column, raw.rows, reading) for name, column in cells.items()]
    return _Entries(labels, items, np.column_stack(columns), raw.rows)


def _number_columns(
    raw: RawTable, source: str, decimal: str | None, notes: list[Note]
) -> list[str]:
    """Columns, other than the source, that hold numbers only; each read by itself.

    What is left out is noted, as a warning where most of a column's cells are numbers.
    """
    found = []
    for name, cells in zip(raw.columns, raw.cells, strict=True):
        if name == source or not name or raw.columns.count(name) > 1:
            continue
        try:
            numbers = read_column(name, cells, raw.rows, choose_reading({name: cells}, decimal)[0])
        except DataError as error:
            mostly = (
                pd.to_numeric(pd.Series(list(map(tidy, cells))), errors="coerce").notna().mean()
            )
            text = f"column {name!r} is no item: {error.message}"
            notes.append(Note(text, "warning" if mostly > 0.5 else "info"))
            continue
        if not np.isnan(numbers).all():
            found.append(name)
    if not found:
        raise DataError(
            f"{raw.name} has no column of numbers besides {source!r}",
            remedy="name the columns by --items to see what is wrong with them",
        )
    return found


def _long(
    raw: RawTable,
    source: str,
    items: list[str] | None,
    item: str,
    value: str,
    row: str | None,
    decimal: str | None,
    notes: list[Note],
) -> _Entries:
    """Entries to rows: those of one source and one value of ``row`` belong together."""
    labels = [label_of(cell) for cell in raw.column(source, "the source of each row")]
    names = [label_of(cell) for cell in raw.column(item, "the item of each row")]
    cells = raw.column(value, "the amount of each row")
    reading, note = choose_reading({value: cells}, decimal)
    if note:
        notes.append(Note(note))
    numbers = read_column(clean_name(value), cells, raw.rows, reading)
    _refuse_unnamed(raw, source=labels, item=names)
    items = _wanted(items, names, item)
    keys = _keys(raw, labels, names, row, notes)
    return _pivoted(zip(labels, names, keys, numbers, raw.rows, strict=True), items, row)


def _refuse_unnamed(raw: RawTable, **columns: list[str | None]) -> None:
    for what, column in columns.items():
        if None in column:
            raise DataError(
                f"row {raw.rows[column.index(None)]}: the {what} is missing",
                remedy=f"fill in the {what}, or delete the row",
            )


def _wanted(items: list[str] | None, names: list[str | None], item: str) -> list[str]:
    """The items asked for, by default all that there are."""
    known = list(dict.fromkeys(str(name) for name in names))
    for wanted in items or ():
        if wanted not in known:
            raise DataError(
                f"there is no item {wanted!r} in column {item!r}", remedy=nearest(wanted, known)
            )
    return known if items is None else items


def _pivoted(
    entries: Iterable[tuple[str | None, str | None, Hashable, float, int]],
    items: list[str],
    row: str | None,
) -> _Entries:
    """From (source, item, key, amount, row of the file): one row for each source and key."""
    places: dict[tuple[str | None, Hashable], int] = {}
    table: list[Array] = []
    where: list[int] = []
    for label, name, key, number, file_row in entries:
        if name not in items:
            continue
        if (label, key) not in places:
            places[label, key] = len(table)
            table.append(np.full(len(items), np.nan))
            where.append(file_row)
        target, place = table[places[label, key]], items.index(str(name))
        if not np.isnan(target[place]):
            raise DataError(
                f"row {file_row}: a second entry for {name!r} of {label!r} at {key!r}",
                cause=f"{row!r} should tell the observations of a source apart",
                remedy="delete one of them, or add them up",
            )
        target[place] = number
    return _Entries([label for label, _ in places], items, np.vstack(table), where)


def _keys(
    raw: RawTable,
    labels: list[str | None],
    names: list[str | None],
    row: str | None,
    notes: list[Note],
) -> list[Hashable]:
    """What tells a source's observations apart: the user's column, or the order of entries."""
    if row is not None:
        return [label_of(cell) for cell in raw.column(row, "the observation of each row")]
    seen: dict[tuple[str | None, str | None], int] = {}
    keys: list[Hashable] = []
    for pair in zip(labels, names, strict=True):
        seen[pair] = seen.get(pair, 0) + 1
        keys.append(seen[pair])
    if len(set(names)) > 1:
        notes.append(
            Note(
                "no column says which entries were observed together; the k-th entries of all "
                "items of a source were put in one row (--row COLUMN names a date or the like)",
                "warning",
            )
        )
    return keys


def _without_missing(entries: _Entries, missing: str, notes: list[Note]) -> _Entries:
    absent = np.isnan(entries.numbers)
    unlabelled = np.array([label is None for label in entries.labels])
    bad = absent.any(axis=1) | unlabelled
    if not bad.any():
        return entries
    first = int(np.flatnonzero(bad)[0])
    where = "source" if unlabelled[first] else entries.names[int(np.argmax(absent[first]))]
    count = f"{int(bad.sum())} of {len(bad)} rows"
    gaps = {"source": int(unlabelled.sum())}
    gaps |= dict(zip(entries.names, absent.sum(axis=0).tolist(), strict=True))
    detail = ", ".join(f"{name}: {number}" for name, number in gaps.items() if number)
    if missing == "error":
        raise DataError(
            f"{count} have a missing entry ({detail}), the first in row {entries.rows[first]} "
            f"({where})",
            cause="a day that was sold out or not recorded is not a day without demand",
            remedy="fill them in, or leave these rows out by --missing drop (demand then looks "
            "smaller than it is if the gaps are days that were sold out)",
        )
    if bad.all():
        raise DataError("every row has a missing entry", remedy="name fewer items, or fill them in")
    lost = {str(label) for label in entries.labels if label is not None} - {
        str(label) for label, out in zip(entries.labels, bad, strict=True) if not out
    }
    text = f"{count} had a missing entry ({detail}) and were left out (--missing drop)"
    if lost:
        text += f"; nothing is left of {', '.join(sorted(lost))}"
    notes.append(Note(text, "warning"))
    return entries.kept(~bad)


def _without_negative(entries: _Entries, negative: str, notes: list[Note]) -> _Entries:
    below: BoolArray = entries.numbers < 0
    if not below.any():
        return entries
    row, column = (int(index) for index in np.argwhere(below)[0])
    rows: BoolArray = np.asarray(below.any(axis=1))
    number = int(below.sum())
    count = "1 entry is" if number == 1 else f"{number} entries are"
    count += f" below 0, the first in row {entries.rows[row]} ({entries.names[column]})"
    if negative == "error":
        raise DataError(
            count,
            cause="returned goods are often booked so",
            remedy="correct them, or choose --negative keep, zero or drop",
        )
    if negative == "drop":
        if rows.all():
            raise DataError(
                "every row has an entry below 0", remedy="choose --negative keep or zero"
            )
        notes.append(Note(f"{count}; {int(rows.sum())} rows were left out", "warning"))
        return entries.kept(~rows)
    if negative == "zero":
        notes.append(Note(f"{count}; counted as 0", "warning"))
        return replace(entries, numbers=np.maximum(entries.numbers, 0.0))
    notes.append(
        Note(f"{count}; kept as they are (--negative zero, drop or error to choose)", "warning")
    )
    return entries


def _check_sources(data: PlannerData, min_sources: int, notes: list[Note]) -> None:
    labels = data.labels
    if len(labels) >= min_sources:
        return
    causes = [f"all rows are from {labels[0]!r}"] if len(labels) == 1 else []
    causes += [note.text for note in notes if note.level == "warning"]
    raise DataError(
        f"{len(labels)} source{'s' * (len(labels) != 1)} in column {data.source!r}, "
        f"at least {min_sources} are needed",
        cause="; ".join(causes),
        remedy="name the column that tells shops (regions, fund families) apart, or add data of "
        "other sources",
    )


#: A source whose typical amount is so many times that of the others may be in another unit.
_UNIT_FACTOR = 50.0
_FEW_SOURCES = 5


def _warnings(data: PlannerData) -> list[Note]:
    notes = []
    sizes = data.sizes
    if len(sizes) < _FEW_SOURCES:
        notes.append(
            f"only {len(sizes)} sources: how much an unseen one can differ is hardly known"
        )
    alone = [str(label) for label, size in sizes.items() if size == 1]
    if alone:
        notes.append(f"a single row only: {_listed(alone)}")
    notes += _look_alikes(data.labels)
    for name in data.items:
        column = data.table[name]
        if (column == column.iloc[0]).all():
            notes.append(f"{name!r} is {column.iloc[0]:g} in every row")
    if data.kind == "portfolio":
        notes += _percent(data)
    else:
        notes += _mixed_units(data)
    return [Note(text, "warning") for text in notes]


def _look_alikes(labels: list[str]) -> list[str]:
    folded: dict[str, list[str]] = {}
    for label in labels:
        folded.setdefault(" ".join(label.casefold().split()), []).append(label)
    return [
        f"counted as different sources: {', '.join(map(repr, alike))}"
        for alike in folded.values()
        if len(alike) > 1
    ]


def _mixed_units(data: PlannerData) -> list[str]:
    """Sources whose typical amount is many times that of the others, or a small part of it."""
    typical = data.table.abs().groupby(data.groups.to_numpy(), sort=False).median()
    notes = []
    for name in data.items:
        sizes = typical[name]
        usual = float(sizes.median())
        if len(sizes) < 3 or usual <= 0:
            continue
        for label, size in sizes.items():
            if size >= _UNIT_FACTOR * usual or 0 < size <= usual / _UNIT_FACTOR:
                factor = (
                    f"{size / usual:,.0f} times" if size > usual else f"1/{usual / size:,.0f} of"
                )
                notes.append(
                    f"{name!r} of {label!r} is about {factor} what is usual elsewhere: "
                    "is it in the same unit?"
                )
    return notes


def _percent(data: PlannerData) -> list[str]:
    typical = float(data.table.abs().median().median())
    if typical < 0.3:
        return []
    text = f"a typical return is {typical:g}: are these per cent (or prices)? "
    return [text + "Returns are expected as shares, 0.03 for 3%"]


def _listed(names: list[str], most: int = 5) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
