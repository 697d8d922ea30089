"""Seconds against size, one panel for each event."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from racing.events import EVENTS, OURS

__all__ = ["draw"]

_COLUMNS = 3


def draw(rows: pd.DataFrame, path: Path) -> None:
    """Draw all events that have rows; needs matplotlib."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    events = [event for name, event in EVENTS.items() if name in set(rows["event"])]
    height = -(-len(events) // _COLUMNS)
    figure, axes = plt.subplots(
        height, _COLUMNS, figsize=(5.2 * _COLUMNS, 4.0 * height), squeeze=False
    )
    colors = plt.get_cmap("tab10").colors
    for axis, event in zip(axes.flat, events, strict=False):
        here = rows[(rows["event"] == event.name) & (rows["status"] == "solved")]
        others = 0
        for contestant in event.contestants:
            own = here[here["contestant"] == contestant.name].sort_values("size")
            if contestant.name == OURS:
                style = {"color": "black", "linewidth": 2.4, "zorder": 5}
            else:
                style = {"color": colors[others % len(colors)], "linewidth": 1.2}
                others += 1
            if len(own):
                axis.loglog(
                    own["size"],
                    own["seconds"],
                    "o-",
                    markersize=3.5,
                    label=contestant.name,
                    **style,
                )
        axis.set_xlabel(event.size_name)
        axis.set_ylabel("seconds")
        axis.set_title(event.title.split(":")[0], fontsize=9)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=6.5)
    for axis in axes.flat[len(events) :]:
        axis.set_visible(False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
