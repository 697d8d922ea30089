"""A journal of finished work, so that a long run can be stopped and resumed.

One JSON document a line: first the fingerprint of the run, then each finished task with its result.
A line counts once it is whole; one that was cut off is dropped. JSON keeps every digit of a float,
so a resumed run gives the same results bit for bit.
"""

from __future__ import annotations

import hashlib
import json
import os
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

__all__ = ["Journal", "fingerprint"]


class Journal:
    """Results by task, kept in a file as they come.

    Parameters
    ----------
    path : str or path-like or None
        None keeps them in memory only.
    run : str
        Fingerprint of the run; a file of another run is refused and left as it is.
    """

    def __init__(self, path: str | os.PathLike[str] | None, run: str) -> None:
        self.path = None if path is None else Path(path)
        self.results: dict[str, Any] = {}
        if self.path is None:
            return
        if self.path.exists() and self.path.stat().st_size > 0:
            self._read(self.path, run)
        else:
            self._write({"run": run}, self.path, "w")

    def _read(self, path: Path, run: str) -> None:
        lines = path.read_bytes().split(b"\n")
        whole, cut_off = lines[:-1], lines[-1]
        try:
            documents = [json.loads(line) for line in whole]
            found = documents[0]["run"]
        except (ValueError, IndexError, KeyError, TypeError):
            raise ValueError(f"checkpoint {str(path)!r} is not a journal of this library") from None
        if found != run:
            raise ValueError(
                f"checkpoint {str(path)!r} belongs to another run (other data, model, grid or "
                "folds): give another file, or remove it to begin anew"
            )
        for document in documents[1:]:
            self.results[document["task"]] = document["result"]
        if cut_off:
            with path.open("r+b") as file:
                file.truncate(path.stat().st_size - len(cut_off))

    def add(self, task: str, result: Any) -> Any:
        """Note a finished task; what comes back is what a resumed run will see."""
        text = json.dumps(result)
        if self.path is not None:
            self._write({"task": task, "result": result}, self.path, "a")
        self.results[task] = json.loads(text)
        return self.results[task]

    @staticmethod
    def _write(document: dict[str, Any], path: Path, mode: str) -> None:
        with path.open(mode, encoding="utf-8") as file:
            file.write(json.dumps(document) + "\n")
            file.flush()
            os.fsync(file.fileno())


def fingerprint(*parts: Any) -> str:
    """A digest of everything that determines a run's results.

    Functions enter by name and compiled code, not by what they refer to.

    Examples
    --------
    >>> fingerprint({"nu": 0.1}) == fingerprint({"nu": 0.1}), fingerprint(1) == fingerprint(1.0)
    (True, False)
    """
    digest = hashlib.sha256()
    _feed(digest, parts)
    return digest.hexdigest()


def _feed(digest: Any, value: Any) -> None:
    digest.update(type(value).__qualname__.encode())
    if isinstance(value, np.ndarray) and value.dtype != object:
        digest.update(f"{value.dtype}{value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, (pd.DataFrame, pd.Series)):
        _feed(digest, value.to_numpy())
    elif isinstance(value, BaseEstimator):
        _feed(digest, value.get_params(deep=False))
    elif isinstance(value, dict):
        _feed(digest, list(value.items()))
    elif isinstance(value, (list, tuple, np.ndarray)):
        digest.update(str(len(value)).encode())
        for item in value:
            _feed(digest, item)
    elif isinstance(value, FunctionType):
        digest.update(f"{value.__module__}.{value.__qualname__}".encode())
        _feed(digest, value.__code__)
        _feed(digest, value.__defaults__ or ())
    elif isinstance(value, CodeType):
        digest.update(value.co_code)
        _feed(digest, value.co_names)
        _feed(digest, value.co_consts)
    elif isinstance(value, partial):
        _feed(digest, (value.func, value.args, value.keywords))
    elif hasattr(value, "__dict__") and not isinstance(value, type):
        _feed(digest, vars(value))  # its repr may hold an address
    else:
        digest.update(repr(value).encode())
