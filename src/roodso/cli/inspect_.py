"""``roodso inspect``: what is in a table, before anything is solved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import roodso
from roodso.cli.outputs import Outputs
from roodso.cli.results import as_json, described, source_places
from roodso.cli.screen import Screen
from roodso.cli.settings import Setting, merged, settings_of
from roodso.cli.task import load_data, noted
from roodso.planner import Note, PlannerData
from roodso.planner.errors import library_errors
from roodso.planner.formats import decimal
from roodso.sets import SupportMeasureBall

__all__ = ["SETTINGS", "inspect"]

_NAMES = ("nu", "scale", "seed", "jobs")
SETTINGS: list[Setting] = [
    *settings_of("newsvendor", ("data",)),
    *[setting for setting in settings_of("newsvendor", ("method",)) if setting.name in _NAMES],
    *[
        setting
        for setting in settings_of("newsvendor", ("output",))
        if setting.name in ("json", "force", "quiet")
    ],
    *[setting for setting in settings_of("newsvendor", ("run",)) if setting.name == "debug"],
]


def inspect(given: dict[str, Any]) -> None:
    """Look at a table: sources, sizes, missing and negative entries, sources that are odd."""
    values = merged(SETTINGS, given, {})
    inputs = (values["file"],) if values["file"] else ()
    outputs = Outputs({"json": values["json"]}, force=values["force"], inputs=inputs)
    screen = Screen(quiet=values["quiet"] or outputs.to_stdout)
    if given["missing"] is None:  # looking is not deciding: gaps are counted, not refused
        values["missing"] = "drop"
    data = load_data(values, None, min_sources=1)
    ball = _ball(values, data, screen) if len(data.labels) > 1 else None
    screen.note(Note(described(data)))
    for note in data.notes:
        screen.note(note)
    content = as_json(_as_dict(data, ball, screen.notes))
    if not outputs.to_stdout:
        _show(data, ball, values["nu"], screen)
    if outputs.wants("json"):
        outputs.write("json", content)
    for place in outputs.written:
        screen.note(Note(f"written: {place}"))


def _ball(values: dict[str, Any], data: PlannerData, screen: Screen) -> SupportMeasureBall:
    names = {"random_state": "seed", "n_jobs": "jobs"}
    with noted(screen), library_errors():
        ball = SupportMeasureBall(
            nu=values["nu"],
            scale=values["scale"],
            **{name: values[setting] for name, setting in names.items()},
        )
        return ball.fit(data.table, groups=data.groups)


def _outside(ball: SupportMeasureBall) -> list[str]:
    """Sources outside the ball, the farthest first."""
    places = source_places(ball) or {}
    order = np.argsort(-ball.distances_, kind="stable")
    labels = [str(ball.labels_[place]) for place in order]
    return [label for label in labels if places[label] == "outside"]


def _show(data: PlannerData, ball: SupportMeasureBall | None, nu: float, screen: Screen) -> None:
    if screen.quiet:
        for label, size in data.sizes.items():
            screen.bare(f"{label}\t{size}")
        return
    _show_sources(data, ball, screen)
    _show_columns(data, screen)
    outside = [] if ball is None else _outside(ball)
    if ball is None:
        screen.say("There is one source only; nothing can be said about how sources differ.")
        return
    screen.say(
        "Distance is that of a source's distribution to the centre of all; the set that holds a "
        f"share of at least {1 - nu:g} of the sources has radius {ball.radius_:.3f}."
    )
    if outside:
        screen.say(f"Outlying sources (the farthest first): {', '.join(outside)}.", style="bold")
    else:
        screen.say("No source lies outside.", style="bold")


def _show_sources(data: PlannerData, ball: SupportMeasureBall | None, screen: Screen) -> None:
    means = data.table.groupby(data.groups.to_numpy(), sort=False).mean()
    missing = data.gaps.sum(axis=1)
    places = source_places(ball) or {}
    columns = ["source", "rows", "missing", *[f"mean of {item}" for item in data.items]]
    columns += ["distance", "place"] if ball is not None else []
    rows = []
    for place, label in enumerate(data.labels):
        row = [label, f"{data.sizes.iloc[place]:,}", f"{missing.loc[label]:,}"]
        row += [decimal(float(mean), 2) for mean in means.loc[label].to_numpy()]
        if ball is not None:
            row += [f"{ball.distances_[place]:.3f}", places[label]]
        rows.append(row)
    screen.table("Sources", columns, rows)


def _show_columns(data: PlannerData, screen: Screen) -> None:
    table, missing = data.table, data.gaps.sum()
    said = (table.min(), table.median(), table.mean(), table.max())
    rows = [
        [item, f"{missing[item]:,}", *[decimal(float(column[item]), 2) for column in said]]
        for item in data.items
    ]
    screen.table("Columns", ["", "missing", "least", "median", "mean", "largest"], rows)


def _gaps(data: PlannerData, label: str) -> dict[str, int]:
    """Missing entries of a source by item."""
    counts = data.gaps.loc[label].to_numpy().tolist()
    return dict(zip(data.items, counts, strict=True))


def _as_dict(
    data: PlannerData, ball: SupportMeasureBall | None, notes: Sequence[Note]
) -> dict[str, Any]:
    places = source_places(ball)
    return {
        "schema": "roodso.inspection/1",
        "version": roodso.__version__,
        "file": data.file,
        "items": data.items,
        "rows": len(data.table),
        "radius": None if ball is None else float(ball.radius_),
        "sources": [
            {
                "name": label,
                "rows": int(data.sizes.iloc[place]),
                "missing": _gaps(data, label),
                "means": {item: float(mean) for item, mean in data.of(label).mean().items()},
                "distance": None if ball is None else float(ball.distances_[place]),
                "place": None if places is None else places[label],
                "outlying": places is not None and places[label] == "outside",
            }
            for place, label in enumerate(data.labels)
        ],
        "notes": [{"level": note.level, "text": note.text} for note in notes],
    }
