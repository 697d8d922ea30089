"""One zip file that holds a JSON document and arrays, written whole or not at all.

Nothing in it is compressed, so that no member can be larger than the file, and numpy or any
language with a zip library reads it. Members are looked up by their expected names and never
unpacked to disk, so a name in the file leads nowhere.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections import Counter
from io import BytesIO
from typing import Any, BinaryIO, Self
from uuid import uuid4

import numpy as np
import numpy.typing as npt

__all__ = ["ArchiveReader", "write_archive"]

_DOCUMENT = "model.json"
#: Booleans, numbers, text, times: kinds of entries that are data and not objects.
_KINDS = "biufcUMm"


def write_archive(
    path: str | os.PathLike[str], document: dict[str, Any], arrays: list[npt.NDArray[Any]]
) -> None:
    """Write a document and arrays; an older file stays as it is until the new one is complete."""
    table = [
        {"member": _member(number), "dtype": array.dtype.str, "shape": list(array.shape)}
        for number, array in enumerate(arrays)
    ]
    text = json.dumps({**document, "arrays": table}, indent=1, allow_nan=False)
    target = os.path.realpath(path)  # a link stays one
    if os.path.isdir(target):
        raise IsADirectoryError(f"{target} is a directory; give the path of a file")
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name}.{uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as stream:
            _write(stream, text, arrays)
            stream.flush()
            os.fsync(stream.fileno())
        if os.path.exists(target):
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise


def _write(stream: BinaryIO, text: str, arrays: list[npt.NDArray[Any]]) -> None:
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        # ZipInfo's own date, 1980, makes equal models equal files.
        archive.writestr(zipfile.ZipInfo(_DOCUMENT), text)
        for number, array in enumerate(arrays):
            info = zipfile.ZipInfo(_member(number))
            with archive.open(info, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def _member(number: int) -> str:
    return f"arrays/{number}.npy"


class ArchiveReader:
    """Reads what `write_archive` wrote; `ValueError` says where a file is something else.

    Parameters
    ----------
    stream : binary file

    Attributes
    ----------
    document : dict
        What the caller wrote, and the table of arrays, which is checked when they are read.
    """

    def __init__(self, stream: BinaryIO) -> None:
        size = stream.seek(0, os.SEEK_END)
        try:
            self._zip = zipfile.ZipFile(stream)
        except zipfile.BadZipFile as error:
            raise ValueError(
                f"it is no zip file with {_DOCUMENT} and arrays, or it is cut off ({error})"
            ) from error
        if sum(info.file_size for info in self._zip.infolist()) > size:
            raise ValueError("its members claim to be larger than the file")
        self._members = {info.filename: info for info in self._zip.infolist()}
        self.document = self._read_document()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._zip.close()

    def _read_document(self) -> dict[str, Any]:
        try:
            document = json.loads(self._read(_DOCUMENT), parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{_DOCUMENT} is not the JSON expected: {error}") from error
        if not isinstance(document, dict):
            raise ValueError(f"{_DOCUMENT} must be a JSON object, got {type(document).__name__}")
        return document

    def arrays(self) -> list[npt.NDArray[Any]]:
        """All arrays, after a check that the members are those of the table and no others."""
        table = self.document.get("arrays")
        if not isinstance(table, list):
            raise ValueError(f"{_DOCUMENT} has no list of arrays")
        expected = {_DOCUMENT, *(_member(number) for number in range(len(table)))}
        found = Counter(info.filename for info in self._zip.infolist())
        for what, names in (
            ("is missing", expected - set(found)),
            ("does not belong there", set(found) - expected),
            ("is there more than once", {name for name, count in found.items() if count > 1}),
        ):
            if names:
                raise ValueError(f"member {min(names)!r} {what}")
        return [self._read_array(number, row) for number, row in enumerate(table)]

    def _read_array(self, number: int, row: Any) -> npt.NDArray[Any]:
        name = _member(number)
        data = self._read(name)
        stream = BytesIO(data)
        try:
            version = np.lib.format.read_magic(stream)
            if version != (1, 0):
                raise ValueError(f"npy format {version}, expected (1, 0)")
            shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        except ValueError as error:
            raise ValueError(f"member {name!r} is no npy array: {error}") from error
        if dtype.kind not in _KINDS:
            raise ValueError(f"member {name!r} holds {dtype}; expected numbers, text or times")
        if row != {"member": name, "dtype": dtype.str, "shape": list(shape)}:
            raise ValueError(
                f"member {name!r} holds {dtype.str} of shape {list(shape)}, but {_DOCUMENT} "
                f"describes it as {row!r}"
            )
        # numpy takes memory for the shape that the header claims, so the claim is checked first.
        length = len(data) - stream.tell()
        if any(side < 0 for side in shape) or _product(shape) * dtype.itemsize != length:
            raise ValueError(
                f"member {name!r} has {length} bytes, which are not {dtype.str} of shape "
                f"{list(shape)}"
            )
        stream.seek(0)
        array = np.lib.format.read_array(stream, allow_pickle=False)
        return array.astype(dtype.newbyteorder("="), copy=False)

    def _read(self, name: str) -> bytes:
        info = self._members.get(name)
        if info is None:
            raise ValueError(f"member {name!r} is missing")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            raise ValueError(f"member {name!r} is compressed; expected it as it is")
        if info.flag_bits & 1:
            raise ValueError(f"member {name!r} is encrypted")
        try:
            return self._zip.read(info)
        except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError) as error:
            raise ValueError(f"member {name!r} cannot be read: {error}") from error


def _product(shape: tuple[int, ...]) -> int:
    product = 1
    for side in shape:  # in Python's whole numbers, which do not overflow
        product *= side
    return product


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
