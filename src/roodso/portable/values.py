r"""Plain values as JSON and arrays, and back: what is read equals what was written, type and all.

JSON has text, numbers, true, false, null and lists; these stand for themselves. Everything else is
an object with one entry whose name says what it is:

=================  =============================================================
``$float``         "inf", "-inf" or "nan", which JSON's numbers lack
``$tuple``         list of values
``$dict``          list of pairs (key, value)
``$array``         number of an array of the file
``$objects``       shape and values of an array of objects
``$scalar``        numpy type and value
``$series``        values, index, its names, name
``$frame``         one list of values per column, columns, index
``$timestamp``     pandas: whole number of units since 1970 (UTC), unit, time zone
``$datetime``      ISO text, fold, time zone
``$date``          ISO text
``$generator``     numpy Generator: bit generator and its state
=================  =============================================================

A time zone is null, seconds from UTC, or a name of the IANA database. Subclasses (an enumeration
of text, a masked array) are refused: writing them as their base would lose what they are.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pandas as pd

__all__ = ["ValueReader", "ValueWriter"]

#: Numpy types whose values are JSON numbers or text; times have their own rule.
_SCALARS: dict[str, Any] = {
    name: np.dtype(name).type
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "str"),
    )
}
_TIME = re.compile(r"(datetime64|timedelta64)\[\d*(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\]")
#: Others (MT19937, Philox) hold positions in a buffer, which numpy takes from a state unchecked:
#: a crafted file would make it read beyond.
_BIT_GENERATORS: dict[str, Any] = {
    kind.__name__: kind for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.SFC64)
}
_ACCEPTED = (
    "text, numbers, booleans, None, tuples, lists and dicts of these, numpy arrays and scalars, "
    "pandas Series, DataFrames and Timestamps, dates and datetimes"
)


class ValueWriter:
    """Turns values into JSON, and collects arrays on the way.

    Attributes
    ----------
    arrays : list of ndarray
        An array met twice is there once.
    """

    def __init__(self) -> None:
        self.arrays: list[npt.NDArray[Any]] = []
        self._numbers: dict[int, int] = {}

    def write(self, value: Any, where: str) -> Any:
        """Return the JSON of a value; ``where`` names it in an error.

        Raises
        ------
        TypeError
            Where it has no portable form.
        """
        if value is None or type(value) in (bool, int, str):
            return value
        writer = _WRITERS.get(type(value))
        if writer is not None:
            return writer(self, value, where)
        if isinstance(value, np.generic):
            return _write_scalar(value, where)
        raise self.refuse(value, where)

    @staticmethod
    def refuse(value: Any, where: str, accepted: str = _ACCEPTED) -> TypeError:
        """The error to raise for a value that has no portable form."""
        kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        return TypeError(f"{where} cannot be saved: {kind} has no portable form; use {accepted}")

    def write_all(self, values: Any, where: str) -> list[Any]:
        """Return the JSON of each value of a sequence."""
        return [self.write(value, f"{where}[{number}]") for number, value in enumerate(values)]

    def _float(self, value: float, where: str) -> Any:
        return value if math.isfinite(value) else {"$float": str(value)}

    def _tuple(self, value: tuple[Any, ...], where: str) -> Any:
        return {"$tuple": self.write_all(value, where)}

    def _dict(self, value: dict[Any, Any], where: str) -> Any:
        return {
            "$dict": [
                [self.write(key, f"a key of {where}"), self.write(item, f"{where}[{key!r}]")]
                for key, item in value.items()
            ]
        }

    def _array(self, value: npt.NDArray[Any], where: str) -> Any:
        if value.dtype.kind == "O":
            items = self.write_all(value.ravel().tolist(), where)
            return {"$objects": [list(value.shape), items]}
        if value.dtype.kind not in "biufcUMm":
            raise self.refuse(value, f"{where} (of dtype {value.dtype})")
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.arrays)
            self.arrays.append(value)  # which keeps it alive, and its id its own
        return {"$array": self._numbers[id(value)]}

    def _series(self, value: pd.Series, where: str) -> Any:
        return {"$series": [*self._column(value, where), self.write(value.name, f"{where}.name")]}

    def _column(self, value: pd.Series, where: str) -> list[Any]:
        if not isinstance(value.dtype, np.dtype):
            raise self.refuse(value, f"{where} (of dtype {value.dtype})")
        index = self.write_all(value.index, f"{where}.index")
        names = self.write_all(value.index.names, f"{where}.index.names")
        return [self._array(value.to_numpy(), where), index, names]

    def _frame(self, value: pd.DataFrame, where: str) -> Any:
        columns = self.write_all(value.columns, f"{where}.columns")
        names = self.write_all(value.columns.names, f"{where}.columns.names")
        parts = [
            self._column(value.iloc[:, j], f"{where}.iloc[:, {j}]") for j in range(len(columns))
        ]
        index = self._column(pd.Series(np.zeros(len(value)), value.index), where)[1:]
        return {"$frame": [[part[0] for part in parts], columns, names, *index]}

    def _timestamp(self, value: pd.Timestamp, where: str) -> Any:
        zone = self._zone(value.tzinfo, where)
        return {"$timestamp": [int(value.asm8.view(np.int64)), value.unit, zone]}

    def _datetime(self, value: dt.datetime, where: str) -> Any:
        text = value.replace(tzinfo=None).isoformat()
        return {"$datetime": [text, value.fold, self._zone(value.tzinfo, where)]}

    def _date(self, value: dt.date, where: str) -> Any:
        return {"$date": value.isoformat()}

    def _zone(self, zone: dt.tzinfo | None, where: str) -> Any:
        if zone is None:
            return None
        if isinstance(zone, dt.timezone):
            return zone.utcoffset(None).total_seconds()
        name = getattr(zone, "key", None) or getattr(zone, "zone", None)  # zoneinfo; pytz
        if not isinstance(name, str):
            raise self.refuse(zone, f"the time zone of {where}", "zoneinfo or datetime.timezone")
        return name

    def _generator(self, value: np.random.Generator, where: str) -> Any:
        kind = type(value.bit_generator)
        if _BIT_GENERATORS.get(kind.__name__) is not kind:
            accepted = f"a whole number, or a Generator with {', '.join(_BIT_GENERATORS)}"
            raise self.refuse(value.bit_generator, where, accepted)
        state = self.write(dict(value.bit_generator.state), where)
        return {"$generator": [kind.__name__, state]}


def _write_scalar(value: np.generic, where: str) -> Any:
    if isinstance(value, (np.datetime64, np.timedelta64)) and _TIME.fullmatch(value.dtype.name):
        return {"$scalar": [value.dtype.name, int(value.view(np.int64))]}
    name = "str" if isinstance(value, np.str_) else value.dtype.name
    if name not in _SCALARS:
        raise ValueWriter.refuse(value, where)
    plain = value.item()
    if isinstance(plain, float) and not math.isfinite(plain):
        plain = str(plain)
    return {"$scalar": [name, plain]}


_WRITERS: dict[type, Any] = {
    float: ValueWriter._float,
    list: ValueWriter.write_all,
    tuple: ValueWriter._tuple,
    dict: ValueWriter._dict,
    np.ndarray: ValueWriter._array,
    pd.Series: ValueWriter._series,
    pd.DataFrame: ValueWriter._frame,
    pd.Timestamp: ValueWriter._timestamp,
    dt.datetime: ValueWriter._datetime,
    dt.date: ValueWriter._date,
    np.random.Generator: ValueWriter._generator,
}


class ValueReader:
    """Inverse of `ValueWriter`; anything unexpected is an error of some kind.

    Parameters
    ----------
    arrays : list of ndarray
    """

    def __init__(self, arrays: list[npt.NDArray[Any]]) -> None:
        self.arrays = arrays

    def read(self, value: Any) -> Any:
        """Return the value that was written as this JSON."""
        if isinstance(value, list):
            return [self.read(item) for item in value]
        if not isinstance(value, dict):
            return value
        if len(value) != 1:
            raise ValueError(f"expected an object with one entry, got {sorted(value)}")
        ((tag, content),) = value.items()
        return self.read_tagged(tag, content)

    def read_tagged(self, tag: str, content: Any) -> Any:
        """Return the value whose kind is ``tag``."""
        reader = _READERS.get(tag)
        if reader is None:
            raise ValueError(f"unknown kind of value {tag!r}; expected one of {list(_READERS)}")
        return reader(self, content)

    def _tuple(self, content: list[Any]) -> Any:
        return tuple(self.read(item) for item in content)

    def _dict(self, content: list[Any]) -> Any:
        return {self.read(key): self.read(item) for key, item in content}

    def _array(self, content: int) -> Any:
        return self.arrays[whole_number_below(content, len(self.arrays), "array")]

    def _objects(self, content: list[Any]) -> Any:
        shape, items = content
        if len(items) != math.prod(shape):
            raise ValueError(f"{len(items)} values do not fill shape {shape}")
        flat = np.empty(len(items), dtype=object)
        for place, item in enumerate(items):
            flat[place] = self.read(item)
        return flat.reshape(shape)

    def _scalar(self, content: list[Any]) -> Any:
        name, plain = content
        if name in _SCALARS:
            return _SCALARS[name](plain)
        if not _TIME.fullmatch(name):
            raise ValueError(f"unknown numpy type {name!r}")
        return np.int64(plain).view(name)

    def _series(self, content: list[Any]) -> Any:
        values, index, names, name = content
        return pd.Series(self.read(values), index=self._index(index, names), name=self.read(name))

    def _frame(self, content: list[Any]) -> Any:
        parts, columns, column_names, index, names = content
        data = {place: self.read(part) for place, part in enumerate(parts)}
        frame = pd.DataFrame(data, index=self._index(index, names))
        frame.columns = self._index(columns, column_names)
        return frame

    def _index(self, labels: list[Any], names: list[Any]) -> pd.Index:
        index = pd.Index(self.read(labels))
        index.names = self.read(names)
        return index

    def _timestamp(self, content: list[Any]) -> Any:
        count, unit, zone = content
        if unit not in ("s", "ms", "us", "ns"):
            raise ValueError(f"unknown unit of time {unit!r}")
        stamp = pd.Timestamp(np.datetime64(count, unit))
        return stamp if zone is None else stamp.tz_localize("UTC").tz_convert(_read_zone(zone))

    def _datetime(self, content: list[Any]) -> Any:
        text, fold, zone = content
        return dt.datetime.fromisoformat(text).replace(fold=fold, tzinfo=_read_zone(zone))

    def _generator(self, content: list[Any]) -> Any:
        name, state = content
        if name not in _BIT_GENERATORS:
            raise ValueError(f"unknown bit generator {name!r}")
        bit_generator = _BIT_GENERATORS[name](0)
        bit_generator.state = self.read(state)
        return np.random.Generator(bit_generator)


def whole_number_below(value: Any, limit: int, what: str) -> int:
    """Return a number of something; negative ones, which Python would take, are errors too."""
    if type(value) is not int or not 0 <= value < limit:
        raise ValueError(f"there is no {what} {value!r}; they are numbered 0 to {limit - 1}")
    return value


def _read_zone(zone: Any) -> dt.tzinfo | None:
    if zone is None:
        return None
    return ZoneInfo(zone) if isinstance(zone, str) else dt.timezone(dt.timedelta(seconds=zone))


def _read_float(_: ValueReader, content: Any) -> float:
    if content not in ("inf", "-inf", "nan"):
        raise ValueError(f"expected 'inf', '-inf' or 'nan', got {content!r}")
    return float(content)


_READERS: dict[str, Any] = {
    "$float": _read_float,
    "$tuple": ValueReader._tuple,
    "$dict": ValueReader._dict,
    "$array": ValueReader._array,
    "$objects": ValueReader._objects,
    "$scalar": ValueReader._scalar,
    "$series": ValueReader._series,
    "$frame": ValueReader._frame,
    "$timestamp": ValueReader._timestamp,
    "$datetime": ValueReader._datetime,
    "$date": lambda _, content: dt.date.fromisoformat(content),
    "$generator": ValueReader._generator,
}
