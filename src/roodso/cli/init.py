"""``roodso init``: a problem file to fill in, and a sample table to try things on."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pandas as pd

from roodso.cli.outputs import Outputs
from roodso.cli.problem_file import template
from roodso.cli.screen import Screen
from roodso.cli.settings import Setting
from roodso.datasets import make_newsvendor_sources
from roodso.planner import Note, ProblemError

__all__ = ["SETTINGS", "init", "sample"]

SETTINGS = [
    Setting("problem_kind", "run", "newsvendor or portfolio.", default="newsvendor",
            choices=("newsvendor", "portfolio"), flag="--kind"),
    Setting("output", "run", "Where to write the problem file.", "path", "problem.toml"),
    Setting("sample", "run", "Write a made-up table beside it, to try things on.", "switch", False),
    Setting("force", "run", "Replace files that exist.", "switch", False),
    Setting("debug", "run", "Show the traceback of an error.", "switch", False),
]  # fmt: skip

_TABLES = {"newsvendor": "sales.csv", "portfolio": "returns.csv"}


def init(given: dict[str, Any]) -> None:
    """Write a commented problem file (TOML) to fill in: all settings, each explained."""
    kind = given["problem_kind"] or "newsvendor"
    if kind not in _TABLES:
        raise ProblemError(f"the kind must be newsvendor or portfolio, got {kind!r}")
    place = given["output"] or "problem.toml"
    contents = {"problem file": (place, template(kind))}
    if given["sample"] and place != "-":
        folder = place.rpartition("/")[0]
        name = f"{folder}/{_TABLES[kind]}" if folder else _TABLES[kind]
        contents["sample table"] = (name, sample(kind))
    outputs = Outputs(
        {name: where for name, (where, _) in contents.items()}, force=bool(given["force"])
    )
    for name, (_, content) in contents.items():
        outputs.write(name, content)
    screen = Screen()
    for written in outputs.written:
        screen.note(Note(f"written: {written}"))
    if outputs.written:
        screen.note(Note(f"try: roodso decide {kind} --problem {place}"))


def sample(kind: str) -> str:
    """A made-up table as CSV: the same at every call."""
    rng = np.random.default_rng(0)
    frames = []
    if kind == "newsvendor":
        for number, demand in enumerate(make_newsvendor_sources(12, (40, 60), random_state=7), 1):
            frame = pd.DataFrame((60 * demand).round(), columns=["loaves", "rolls"], dtype=int)
            frame.insert(0, "day", range(1, len(frame) + 1))
            frame.insert(0, "shop", f"shop {number}")
            frames.append(frame)
    else:
        for number in range(1, 11):
            mean = np.array([0.008, 0.003, 0.004]) + rng.normal(0, 0.003, 3)
            spread = np.array([0.045, 0.012, 0.04]) * rng.uniform(0.7, 1.4)
            returns = (mean + spread * rng.standard_t(5, (48, 3))).round(4)
            frame = pd.DataFrame(returns, columns=["stocks", "bonds", "gold"])
            frame.insert(0, "month", range(1, 49))
            frame.insert(0, "family", f"family {number}")
            frames.append(frame)
    stream = io.StringIO()
    pd.concat(frames).to_csv(stream, index=False, lineterminator="\n")
    return stream.getvalue()
