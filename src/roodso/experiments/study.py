"""What an experiment is, and how it is run: tasks, rows, a summary, verdicts, a page, a picture.

A study is a small value that can be sent to another process. It names its tasks; a task gives rows
that hold everything needed to say which ones they are: case, repetition, method. Rows are written
after every task (`roodso.experiments.runs`) and finished tasks are not run again. All that is said
of a study is made from its rows alone.

Every task runs on one thread, so its CPU seconds say more than its wall seconds where the machine
is shared; columns of either kind are the only ones that another run need not repeat.
"""

from __future__ import annotations

import hashlib
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
from threadpoolctl import threadpool_limits

from roodso._typing import Progress
from roodso._validation import check_integer, check_jobs
from roodso.experiments.measures import Verdict
from roodso.experiments.runs import Row, open_runs, perform, refuse_finished, write_atomically

__all__ = ["TIMINGS", "Study", "Task", "find_tables", "origin", "reproduce", "timed"]

#: Columns that depend on the machine and its load.
TIMINGS = ("seconds", "cpu_seconds", "tuning_seconds", "tuning_cpu_seconds")

#: Digits that rows are written with, as many as the solver's tolerance leaves sure.
_DIGITS = 6
#: The values of a study's `keys`.
Task = tuple[Any, ...]


@dataclass(frozen=True)
class Study(ABC):
    """One experiment.

    Parameters
    ----------
    quick : bool, default=False
        The small form that shows in seconds that everything works. It has other settings, so its
        rows are never mixed with the full ones.
    tables : mapping of name to Path, optional
        The tables that were found, of those in ``needs``.
    seed : int, default=0

    Attributes
    ----------
    name, title : str
    about : str
        What is claimed, and by whom.
    keys : tuple of str
        The columns that say which task a row is of.
    order : tuple of str
        The columns that rows are sorted by.
    needs : tuple of str
        Tables that users must bring; the study runs on those that there are.
    repetitions : (int, int)
        The default, in full and quick.
    """

    quick: bool = False
    tables: Mapping[str, Path] = field(default_factory=dict, hash=False)
    seed: int = 0

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    keys: ClassVar[tuple[str, ...]] = ("case", "repetition", "method")
    order: ClassVar[tuple[str, ...]] = ("case", "repetition", "method")
    needs: ClassVar[tuple[str, ...]] = ()
    repetitions: ClassVar[tuple[int, int]] = (30, 1)

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What the rows depend on besides their keys."""

    @abstractmethod
    def tasks(self, repetitions: int, rows: pd.DataFrame) -> list[Task]:
        """Every task there is, as far as the rows so far tell, those done among them."""

    def total(self, repetitions: int) -> int:
        """How many tasks there will have been in the end."""
        return len(self.tasks(repetitions, pd.DataFrame()))

    @abstractmethod
    def work(self, task: Task) -> list[Row]:
        """Do one task."""

    @abstractmethod
    def summarize(self, rows: pd.DataFrame) -> pd.DataFrame:
        """The summary, one row a measure."""

    @abstractmethod
    def verdicts(self, rows: pd.DataFrame) -> list[Verdict]:
        """What became of each claim."""

    @abstractmethod
    def section(self, rows: pd.DataFrame) -> list[str]:
        """How it was done, and tables: lines of Markdown."""

    @abstractmethod
    def plot(self, rows: pd.DataFrame) -> Any:
        """A matplotlib Figure."""

    def fingerprints(self) -> dict[str, str]:
        """The tables' contents in few letters, for the settings."""
        return {
            name: hashlib.sha256(path.read_bytes()).hexdigest()[:12]
            for name, path in sorted(self.tables.items())
        }

    def page(self, rows: pd.DataFrame, picture: str) -> str:
        """All there is to say, in Markdown."""
        lines = [f"## {self.title}", "", self.about, ""]
        if self.quick:
            lines += ["**The quick form: its numbers show that it runs, and nothing else.**", ""]
        lines += ["**Verdicts**", "", *(verdict.line() for verdict in self.verdicts(rows)), ""]
        lines += [f"![{self.title}]({picture})", "", *self.section(rows)]
        return "\n".join(lines).rstrip() + "\n"


def reproduce(
    study: Study,
    folder: str | Path,
    *,
    repetitions: int | None = None,
    n_jobs: int = 1,
    executor: Executor | None = None,
    resume: bool = False,
    progress: Progress | None = None,
) -> pd.DataFrame:
    """Run a study, or what is left of it, and write rows, summary, page and picture.

    Parameters
    ----------
    study : Study
    folder : str or Path
        Gets ``rows.csv`` (with its settings in ``rows.json``), ``summary.csv``, ``<name>.md`` and
        ``<name>.png``.
    repetitions : int, optional
        By default the study's own.
    n_jobs : int, default=1
        Processes. It changes no row but for timings.
    executor : concurrent.futures.Executor, optional
        In their place, such as ``client.get_executor()`` of a Dask client.
    resume : bool, default=False
        Whether rows that are there already are taken, and only what is missing is run.
    progress : callable, optional
        ``progress("tasks", share_done, details)`` after each task.

    Returns
    -------
    DataFrame
        The rows.
    """
    if repetitions is None:
        repetitions = study.repetitions[int(study.quick)]
    check_integer(repetitions, "repetitions", low=1)
    n_jobs = check_jobs(n_jobs)
    folder = Path(folder)
    path = folder / "rows.csv"
    refuse_finished(path, resume)
    rows = open_runs(path, {"study": study.name, "seed": study.seed, **study.settings()})
    work = partial(_one_task, study, origin())
    while missing := _missing(study, repetitions, rows):
        rows = perform(
            path,
            rows,
            missing,
            work,
            order=list(study.order),
            n_jobs=n_jobs,
            executor=executor,
            digits=_DIGITS,
            progress=_overall(progress, len(_done(study, rows)), study.total(repetitions)),
        )
    write_results(study, rows, folder, folder / f"{study.name}.png", f"{study.name}.png")
    return rows


def write_results(
    study: Study, rows: pd.DataFrame, folder: Path, picture: Path, address: str
) -> None:
    """Write what is made from the rows."""
    summary = study.summarize(rows).to_csv(index=False, float_format="%.6g")
    write_atomically(folder / "summary.csv", summary)
    write_atomically(folder / f"{study.name}.md", study.page(rows, address))
    picture.parent.mkdir(parents=True, exist_ok=True)
    study.plot(rows).savefig(picture, dpi=80)


def _missing(study: Study, repetitions: int, rows: pd.DataFrame) -> list[Task]:
    done = _done(study, rows)
    return [task for task in study.tasks(repetitions, rows) if task not in done]


def _done(study: Study, rows: pd.DataFrame) -> set[Task]:
    if rows.empty:
        return set()
    return set(rows[list(study.keys)].itertuples(index=False, name=None))


def _overall(progress: Progress | None, before: int, total: int) -> Progress | None:
    """Progress of some tasks as that of all."""
    if progress is None:
        return None

    def told(stage: str, _: float | None, details: dict[str, Any]) -> None:
        done = before + details["done"]
        progress(stage, min(1.0, done / total), {"done": done, "of": total})

    return told


def _one_task(study: Study, made: dict[str, Any], task: Task) -> list[Row]:
    key = dict(zip(study.keys, task, strict=True))
    with threadpool_limits(1):
        return [key | row | {"seed": study.seed} | made for row in study.work(task)]


def origin() -> dict[str, str]:
    """Which program made a row: the version, and the commit where it runs from a repository.

    A commit with changes that are not committed has a + behind it.
    """
    import roodso

    here = Path(__file__).parent
    found = {"version": roodso.__version__, "commit": ""}
    try:
        ask = partial(subprocess.run, cwd=here, capture_output=True, text=True, check=True)
        # A package installed inside somebody else's repository is not of that repository.
        ask(["git", "ls-files", "--error-unmatch", Path(__file__).name])
        commit = ask(["git", "rev-parse", "--short=10", "HEAD"]).stdout.strip()
        changed = ask(["git", "status", "--porcelain", "--untracked-files=no"]).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return found
    return found | {"commit": commit + ("+" if changed else "")}


@contextmanager
def timed(row: Row, prefix: str = "") -> Iterator[None]:
    """Add wall and CPU seconds of what is inside to a row."""
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    row[f"{prefix}seconds"] = time.perf_counter() - wall
    row[f"{prefix}cpu_seconds"] = time.process_time() - cpu


def find_tables(needs: tuple[str, ...], folders: Sequence[str | Path]) -> dict[str, Path]:
    """The tables a study asks for, by name, from the first folder that has each."""
    found: dict[str, Path] = {}
    for name in needs:
        for folder in folders:
            path = Path(folder) / f"{name}.csv"
            if path.is_file():
                found[name] = path
                break
    return found
