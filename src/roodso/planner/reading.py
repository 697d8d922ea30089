"""Tables from files: CSV, Parquet and Excel, told apart by their first bytes.

Text tables are read here cell by cell, as text, so that every complaint can name the line of the
user's file and nothing is turned into something else on the way.
"""

from __future__ import annotations

import csv
import io
import os
import sys
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pandas as pd

from roodso.planner.errors import DataError, MissingPackageError, nearest

__all__ = ["RawTable", "read_file", "read_frame"]

#: A text table's delimiter is the one of these that cuts its first line most often.
_DELIMITERS = (",", ";", "\t", "|")
_LARGEST_CELL = 1_000_000


@dataclass(frozen=True)
class RawTable:
    """Columns of cells as they were found, and where each row is in the user's file.

    Attributes
    ----------
    name : str
        Of the file, for messages.
    columns : tuple of str
        May hold a name twice; `column` refuses to guess then.
    cells : list of lists
        Column by column.
    rows : list of int
        Row of the file (a header is row 1) of each row of the table.
    notes : tuple of str
        What the user should know about how the file was read.
    """

    name: str
    columns: tuple[str, ...]
    cells: list[list[Any]]
    rows: list[int]
    notes: tuple[str, ...] = ()

    def column(self, name: str, purpose: str) -> list[Any]:
        """The cells of a column; says which names there are where there is no such one."""
        wanted = clean_name(name)
        found = [place for place, column in enumerate(self.columns) if column == wanted]
        if not found:
            raise DataError(
                f"there is no column {wanted!r} in {self.name}",
                cause=f"it was asked for as {purpose}",
                remedy=nearest(wanted, [column for column in self.columns if column]),
            )
        if len(found) > 1:
            places = " and ".join(str(place + 1) for place in found)
            raise DataError(
                f"{self.name} has {len(found)} columns named {wanted!r}",
                cause=f"columns number {places}",
                remedy="give each column a name of its own",
            )
        return self.cells[found[0]]


def clean_name(name: object) -> str:
    """A column's name without blanks around it, in Unicode's composed form."""
    return unicodedata.normalize("NFC", str(name)).strip()


def read_file(
    path: str | os.PathLike[str],
    *,
    delimiter: str | None = None,
    sheet: str | None = None,
    stdin: BinaryIO | None = None,
) -> RawTable:
    """Read a table; ``-`` is the standard input.

    Parameters
    ----------
    path : path or "-"
    delimiter : str, optional
        Of a text table; found out by default.
    sheet : str, optional
        Of an Excel file; the first by default.
    stdin : binary stream, optional
        Instead of the process's own.

    Returns
    -------
    RawTable
    """
    name, content = _content(path, stdin)
    if not content.strip():
        raise DataError(f"{name} is empty", remedy="give a table with a header and rows of numbers")
    if content[:4] == b"PAR1":
        return _parquet(name, content)
    if content[:4] == b"PK\x03\x04":
        return _excel(name, content, sheet)
    if content[:8] == bytes.fromhex("d0cf11e0a1b11ae1"):
        raise DataError(f"{name} is in Excel's old format", remedy="save it as .xlsx or .csv")
    if content[:2] == b"\x1f\x8b":
        raise DataError(f"{name} is compressed", remedy="unpack it first, for instance by gunzip")
    return _text(name, content, delimiter)


def read_frame(frame: pd.DataFrame, name: str = "the table") -> RawTable:
    """A DataFrame as a raw table; its rows count from 1."""
    columns = tuple(clean_name(column) for column in frame.columns)
    cells = [frame.iloc[:, place].astype(object).tolist() for place in range(len(columns))]
    return RawTable(name, columns, cells, list(range(1, len(frame) + 1)))


def _content(path: str | os.PathLike[str], stdin: BinaryIO | None) -> tuple[str, bytes]:
    if os.fspath(path) == "-":
        return "standard input", (stdin or sys.stdin.buffer).read()
    place = Path(path)
    try:
        return place.name, place.read_bytes()
    except FileNotFoundError:
        folder = place.parent
        there = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
        raise DataError(
            f"there is no file {str(place)!r}",
            cause="" if folder.is_dir() else f"there is no folder {str(folder)!r}",
            remedy=nearest(place.name, there) if there else "check the path",
        ) from None
    except IsADirectoryError:
        raise DataError(f"{str(place)!r} is a folder", remedy="name a file in it") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{str(place)!r} cannot be read", cause=reason) from None


def _text(name: str, content: bytes, delimiter: str | None) -> RawTable:
    text, notes = _decoded(name, content)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise DataError(
            f"{delimiter!r} cannot separate cells", remedy="give one character, as , or ;"
        )
    delimiter = delimiter or _delimiter(text)
    previous = csv.field_size_limit(_LARGEST_CELL)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        records: list[list[str]] = []
        lines: list[int] = []
        first = 1
        for record in reader:
            if any(cell.strip() for cell in record):
                records.append(record)
                lines.append(first)
            first = reader.line_num + 1
    except csv.Error as error:
        raise DataError(
            f"{name} is not a well-formed table",
            cause=f"line {first}: {error}",
            remedy="check quotation marks and line ends there",
        ) from None
    finally:
        csv.field_size_limit(previous)
    if not records:
        raise DataError(f"{name} is empty", remedy="give a table with a header and rows of numbers")
    width = len(records[0])
    for record, line in zip(records, lines, strict=True):
        surplus = [cell for cell in record[width:] if cell.strip()]
        if len(record) < width or surplus:
            raise DataError(
                f"{name}, row {line}: {len(record)} cells where the header has {width}",
                cause=f"cells are taken to be separated by {_spoken(delimiter)}",
                remedy="quote cells that hold the separator, or give another one by --delimiter",
            )
    columns = tuple(clean_name(cell) for cell in records[0])
    cells = [[record[place] for record in records[1:]] for place in range(width)]
    return RawTable(name, columns, cells, lines[1:], notes)


def _decoded(name: str, content: bytes) -> tuple[str, tuple[str, ...]]:
    wide = content[:2] in (b"\xff\xfe", b"\xfe\xff")
    for encoding in ["utf-16"] if wide else ["utf-8-sig", "cp1252"]:
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" in text:
            break
        if encoding == "cp1252":
            return text, (f"{name} is not UTF-8; it was read as Western European (Windows-1252)",)
        return text, ()
    raise DataError(
        f"{name} is no table of a kind known here",
        remedy="give CSV (UTF-8), Parquet or Excel (.xlsx)",
    )


def _delimiter(text: str) -> str:
    """The candidate that cuts the first line that is not blank into most cells."""
    header = next(line for line in text.splitlines() if line.strip())
    unquoted = "".join(header.split('"')[::2])
    counts = Counter({mark: unquoted.count(mark) for mark in _DELIMITERS})
    return max(_DELIMITERS, key=lambda mark: counts[mark])


def _spoken(delimiter: str) -> str:
    names = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
    return names.get(delimiter, repr(delimiter))


def _parquet(name: str, content: bytes) -> RawTable:
    try:
        import pyarrow.parquet
    except ImportError:
        raise _needs("pyarrow", name) from None
    try:
        # One thread: a table this small gains nothing, and forked test runners stay safe.
        table = pyarrow.parquet.read_table(io.BytesIO(content), use_threads=False)
        cells = [column.to_pylist() for column in table.columns]
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        raise _damaged(name, "Parquet", error) from None
    columns = tuple(clean_name(column) for column in table.column_names)
    return RawTable(name, columns, cells, list(range(1, table.num_rows + 1)))


def _excel(name: str, content: bytes, sheet: str | None) -> RawTable:
    try:
        import openpyxl
    except ImportError:
        raise _needs("openpyxl", name) from None
    try:
        # Values instead of formulae; openpyxl raises whatever its parsers do on damaged files.
        book = openpyxl.load_workbook(io.BytesIO(content), read_only=True, data_only=True)
        names = list(book.sheetnames)
        if sheet is not None and sheet not in names:
            raise DataError(f"{name} has no sheet {sheet!r}", remedy=nearest(sheet, names))
        records = [list(row) for row in book[sheet or names[0]].iter_rows(values_only=True)]
    except DataError:
        raise
    except Exception as error:
        raise _damaged(name, "Excel", error) from None
    kept = [(row, record) for row, record in enumerate(records, 1) if not _blank(record)]
    if not kept:
        raise DataError(f"{name}: the sheet {sheet or names[0]!r} is empty")
    header = kept[0][1]
    width = max(place for place, cell in enumerate(header, 1) if cell is not None)
    columns = tuple("" if cell is None else clean_name(cell) for cell in header[:width])
    body = [[*record[:width], *[None] * (width - len(record))] for _, record in kept[1:]]
    cells = [[record[place] for record in body] for place in range(width)]
    notes: tuple[str, ...] = ()
    if sheet is None and len(names) > 1:
        notes = (f"{name} has {len(names)} sheets; {names[0]!r} was read (--sheet names another)",)
    return RawTable(name, columns, cells, [row for row, _ in kept[1:]], notes)


def _blank(record: Sequence[Any]) -> bool:
    return all(cell is None or (isinstance(cell, str) and not cell.strip()) for cell in record)


def _needs(package: str, name: str) -> MissingPackageError:
    return MissingPackageError(
        f"{name} cannot be read without the package {package}",
        remedy="install it: pip install 'roodso[io]'",
    )


def _damaged(name: str, kind: str, error: Exception) -> DataError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return DataError(f"{name} looks like {kind} but cannot be read", cause=reason[:200])
