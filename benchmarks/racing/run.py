"""The whole race: every contestant on every instance, one row each, resumable.

Rows are written as they are finished (`roodso.experiments.runs`); a race that is started again goes
on after the last. Rows of other code, another machine or other limits are never mixed in.

A contestant that was stopped by a limit, crashed, is not there or solves another problem is not
started again at larger sizes of the event: its rows say so, and why.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from racing.contests import Limits, contest
from racing.events import EVENTS, Contestant, Event
from racing.machine import busy, digest, machine
from racing.peers import MissingPeerError, interpreter
from roodso.experiments.runs import open_runs, perform

__all__ = ["COLUMNS", "Race", "run"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COLUMNS = [
    *("event", "contestant", "size", "status", "seconds", "processor_seconds", "repetitions"),
    *("idle_mb", "peak_mb", "value", "lower", "load", "note", "detail", "versions"),
]
#: After these a contestant is not started at larger sizes.
_FINAL = ("time limit", "memory limit", "crashed", "not installed", "other problem", "not run")
#: What a result must leave in its row, or its values would be judged by nobody.
_ABSENT = {"value": np.nan, "lower": np.nan, "note": ""}

_LONGEST = 250

Say = Callable[[str], None]


@dataclass(frozen=True)
class Race:
    """What is to be run.

    Attributes
    ----------
    events : tuple of str
    quick : bool
        Small sizes, once each.
    installed : bool
        Make no environments: run everything in this interpreter, which may lack packages.
    environments : Path
        Where the peers' environments are kept.
    limits : Limits
    """

    events: tuple[str, ...]
    quick: bool
    installed: bool
    environments: Path
    limits: Limits

    def settings(self) -> dict[str, Any]:
        """What rows must have in common to be compared."""
        return {
            "quick": self.quick,
            "installed": self.installed,
            "limits": asdict(self.limits),
            "code": digest([ROOT / "src" / "roodso", HERE]),
            "machine": machine(),
        }

    def tasks(self) -> list[tuple[Event, int, Contestant]]:
        """In the order in which they are run: sizes outside, so that ratios are of one moment."""
        return [
            (event, size, contestant)
            for event in map(EVENTS.__getitem__, self.events)
            for size in (event.quick_sizes if self.quick else event.sizes)
            for contestant in event.contestants
        ]


def run(race: Race, out: Path, say: Say) -> pd.DataFrame:
    """Run what has no row yet; returns all rows."""
    path = out / "rows.csv"
    done = open_runs(path, race.settings())
    known = {(r.event, r.contestant, r.size) for r in done.itertuples()} if len(done) else set()
    tasks = [t for t in race.tasks() if (t[0].name, t[2].name, t[1]) not in known]
    say(f"{len(tasks)} contests to run, {len(known)} done before")
    with TemporaryDirectory(prefix="race-") as folder:
        referee = _Referee(race, Path(folder), done, say)
        if not tasks:
            return done
        return perform(path, done, tasks, referee.row, order=["event", "size", "contestant"])


def _one_line(words: str) -> str:
    """What a contestant said, fit for a list: without line breaks and folders, not too long."""
    short = " ".join(re.sub(r"(?:[a-z]+:)?(?:/+[^\s/]+)+/", "", words).split())
    return short if len(short) <= _LONGEST else short[: _LONGEST - 3] + "..."


class _Referee:
    """Starts contestants, and keeps what they have in common."""

    def __init__(self, race: Race, folder: Path, done: pd.DataFrame, say: Say) -> None:
        self.race, self.folder, self.say = race, folder, say
        self.instances: dict[tuple[str, int], dict[str, Any]] = {}
        self.interpreters: dict[str, Path | MissingPeerError] = {}
        self.ended: dict[tuple[str, str], tuple[int, str]] = {}
        for r in done.itertuples():
            self._remember(r.event, r.contestant, r.size, r.status)

    def row(self, task: tuple[Event, int, Contestant]) -> list[dict[str, Any]]:
        """The row of one contest."""
        event, size, contestant = task
        load = busy()
        answer = self._answer(event, size, contestant)
        result = _ABSENT | answer.pop("result", {})
        if event.score is not None and answer["status"] == "solved":
            result["value"] = event.score(self._instance(event, size), result)
        packages = ", ".join(f"{k} {v}" for k, v in answer.pop("versions", {}).items())
        row = {"event": event.name, "contestant": contestant.name, "size": size, **result, **answer}
        row |= {"versions": packages, "load": load}
        self._remember(event.name, contestant.name, size, row["status"])
        row["detail"] = _one_line(row.get("detail", ""))
        took = f"{row['seconds']:.4g} s" if row["status"] == "solved" else row["detail"]
        self.say(f"{event.name:10} {size:7d}  {contestant.name:38} {row['status']}: {took}")
        return [{name: row.get(name) for name in COLUMNS}]

    def _remember(self, event: str, contestant: str, size: int, status: str) -> None:
        if status in _FINAL and status != "not run":
            self.ended.setdefault((event, contestant), (size, status))

    def _answer(self, event: Event, size: int, contestant: Contestant) -> dict[str, Any]:
        before = self.ended.get((event.name, contestant.name))
        if before is not None:
            detail = f"{before[1]} at {event.size_name} = {before[0]}"
            return {"status": "not run", "detail": detail}
        if contestant.largest is not None and size > contestant.largest:
            detail = f"entered up to {event.size_name} = {contestant.largest}"
            return {"status": "not run", "detail": detail}
        try:
            python = self._interpreter(contestant.peer)
        except MissingPeerError as error:
            return {"status": "not installed", "detail": str(error)}
        smallest = (event.quick_sizes if self.race.quick else event.sizes)[0]
        request = {
            "data": str(self._file(event, size)),
            "warm_up": str(self._file(event, smallest)),
            "options": dict(contestant.options),
        }
        script = HERE / "contestants" / f"{contestant.script}.py"
        environment = {"PYTHONPATH": str(ROOT / "src")} if contestant.peer == "roodso" else {}
        threads = str(machine()["cores"])
        environment |= {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
        if contestant.peer != "roodso":
            environment |= {"PYTHONPATH": ""}
        return contest(python, script, request, self.race.limits, environment)

    def _interpreter(self, peer: str) -> Path:
        if peer not in self.interpreters:
            name = "roodso" if self.race.installed else peer
            try:
                self.interpreters[peer] = interpreter(name, self.race.environments, log=self.say)
            except MissingPeerError as error:
                self.interpreters[peer] = error
        found = self.interpreters[peer]
        if isinstance(found, MissingPeerError):
            raise found
        return found

    def _instance(self, event: Event, size: int) -> dict[str, Any]:
        if (event.name, size) not in self.instances:
            self.instances = {k: v for k, v in self.instances.items() if k[0] == event.name}
            self.instances[event.name, size] = event.make(size)
        return self.instances[event.name, size]

    def _file(self, event: Event, size: int) -> Path:
        path = self.folder / f"{event.name}-{size}.npz"
        if not path.exists():
            np.savez(path, **self._instance(event, size))
        return path
