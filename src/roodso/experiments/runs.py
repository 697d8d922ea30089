"""Long experiments that can be stopped: tidy rows in one CSV file, written as they are finished.

Work comes in tasks, each of which gives some rows. After each task the file is replaced as a whole,
so it never holds part of one. Started again, an experiment skips the tasks whose rows are there.
The settings stand beside it in JSON; rows of other settings are never mixed in.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from uuid import uuid4

import pandas as pd

from roodso._typing import Progress

__all__ = ["open_runs", "perform", "refuse_finished", "write_atomically"]

Row = dict[str, Any]


def write_atomically(path: Path, text: str) -> None:
    """Write a text file whole, or leave the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def open_runs(path: Path, settings: dict[str, Any]) -> pd.DataFrame:
    """The rows that are there already, after a check that they are of the same settings."""
    beside = path.with_suffix(".json")
    text = json.dumps(settings, indent=1) + "\n"
    if path.exists():
        found = beside.read_text(encoding="utf-8") if beside.exists() else "none"
        if found != text:
            raise ValueError(
                f"{path} holds runs of other settings ({beside.name}: {found.strip()}); "
                "choose another folder, or delete it"
            )
        return pd.read_csv(path)
    write_atomically(beside, text)
    return pd.DataFrame()


def refuse_finished(path: Path, resume: bool) -> None:
    """Refuse a file of rows that is there already, unless it is to be resumed."""
    if path.exists() and not resume:
        raise ValueError(
            f"{path} exists: resume to take its rows and run what is missing, or choose another "
            "folder"
        )


def perform(
    path: Path,
    done: pd.DataFrame,
    tasks: Sequence[Any],
    work: Callable[[Any], list[Row]],
    *,
    order: list[str],
    n_jobs: int = 1,
    digits: int = 12,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Do the tasks, and write the rows after each of them.

    Parameters
    ----------
    path : Path
        The CSV file.
    done : DataFrame
        What `open_runs` returned.
    tasks : sequence
    work : callable
        The rows of one task; a function of a module, so that processes can share the work.
    order : list of str
        Columns to sort the rows by, so that the file does not depend on who finished first.
    n_jobs : int, default=1
        Processes.
    digits : int, default=12
        Of each number. Up to 15, reading and writing again returns every one.
    executor : concurrent.futures.Executor, optional
        Does the tasks in their place: ``client.get_executor()`` of a Dask client spreads them over
        its cluster.
    progress : callable, optional

    Returns
    -------
    DataFrame
        All rows as read back from the file.
    """
    rows = done
    for count, new in enumerate(_in_any_order(work, tasks, n_jobs, executor), start=1):
        rows = pd.concat([rows, pd.DataFrame(new)]) if len(rows) else pd.DataFrame(new)
        rows = rows.sort_values(order, kind="stable", ignore_index=True)
        write_atomically(path, rows.to_csv(index=False, float_format=f"%.{digits}g"))
        if progress is not None:
            progress("tasks", count / len(tasks), {"done": count, "of": len(tasks)})
    return pd.read_csv(path)


def _in_any_order(
    work: Callable[[Any], list[Row]], tasks: Iterable[Any], n_jobs: int, executor: Executor | None
) -> Iterator[list[Row]]:
    if executor is not None:
        for future in as_completed([executor.submit(work, task) for task in tasks]):
            yield future.result()
        return
    if n_jobs == 1:
        yield from map(work, tasks)
        return
    # A forked child could inherit a lock that a thread of the parent holds.
    with ProcessPoolExecutor(n_jobs, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(work, task) for task in tasks]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
