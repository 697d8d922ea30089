"""Files that are written: all places checked before any work, each file whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from roodso.planner.errors import OutputError

__all__ = ["Outputs"]


class Outputs:
    """Where results go.

    Parameters
    ----------
    places : mapping of name to path or None
        By the setting's name; "-" is the standard output.
    force : bool
        Whether existing files may be replaced.
    inputs : sequence of str
        Files that are read; they are never written to.

    Raises
    ------
    OutputError
        Where something could not be written, before any work is done.
    """

    def __init__(
        self, places: Mapping[str, str | None], *, force: bool, inputs: tuple[str, ...] = ()
    ) -> None:
        self.places = {name: place for name, place in places.items() if place is not None}
        self.force = force
        self.written: list[str] = []
        taken: dict[str, str] = {}
        for name, place in self.places.items():
            key = "-" if place == "-" else _key(name, place)
            if key in taken:
                raise OutputError(
                    f"{taken[key]} and {name} would be written to the same place {place!r}",
                    remedy="choose different ones",
                )
            taken[key] = name
            if place != "-":
                _check(name, Path(place), force, inputs)

    def wants(self, name: str) -> bool:
        """Whether this result was asked for."""
        return name in self.places

    @property
    def to_stdout(self) -> bool:
        """Whether the standard output belongs to a file's content."""
        return "-" in self.places.values()

    def write(self, name: str, content: str) -> None:
        """Write one result, whole or not at all."""
        place = self.places[name]
        if place == "-":
            sys.stdout.write(content)
            sys.stdout.flush()
            return
        try:
            _write(Path(place), content.encode("utf-8"), self.force)
        except FileExistsError:
            raise _exists(name, place) from None
        except OSError as error:
            raise OutputError(
                f"{name} cannot be written to {place!r}", cause=error.strerror or str(error)
            ) from None
        self.written.append(place)


def _key(name: str, place: str) -> str:
    try:
        return os.path.realpath(place)
    except (OSError, ValueError) as error:
        raise OutputError(f"{name} cannot be written to {place!r}", cause=str(error)) from None


def _check(name: str, place: Path, force: bool, inputs: tuple[str, ...]) -> None:
    try:
        exists, folder = os.path.lexists(place), place.parent
        if place.is_dir():
            raise OutputError(f"{name}: {str(place)!r} is a folder", remedy="name a file in it")
        if not folder.is_dir():
            raise OutputError(
                f"{name} cannot be written to {str(place)!r}",
                cause=f"there is no folder {str(folder)!r}",
                remedy="make it first, or choose another",
            )
        if len(os.fsencode(place.name)) > 240:
            raise OutputError(f"{name}: the file name is too long", remedy="choose a shorter one")
        if exists and any(_same(place, other) for other in inputs):
            raise OutputError(
                f"{name} would be written over {str(place)!r}, which is read",
                remedy="choose another file",
            )
    except (OSError, ValueError) as error:
        if isinstance(error, OutputError):
            raise
        raise OutputError(f"{name} cannot be written to {str(place)!r}", cause=str(error)) from None
    if exists and not force:
        raise _exists(name, str(place))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(
            f"{name} cannot be written to {str(place)!r}",
            cause="the folder does not allow it",
            remedy="choose another",
        )


def _same(place: Path, other: str) -> bool:
    return other != "-" and os.path.exists(other) and os.path.samefile(place, other)


def _exists(name: str, place: str) -> OutputError:
    return OutputError(
        f"{name}: {place!r} exists",
        cause="files are not replaced unless asked for",
        remedy="choose another name, or add --force",
    )


def _write(place: Path, content: bytes, force: bool) -> None:
    """Write beside the place and move there; without force the move refuses to replace."""
    handle, temporary = tempfile.mkstemp(prefix=".roodso-", dir=place.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        if force:
            os.replace(temporary, place)
        else:
            os.link(temporary, place)  # fails where a file came to be meanwhile
    finally:
        if os.path.lexists(temporary):
            os.unlink(temporary)
