"""A decision as people and machines read it: on the screen, as JSON, as a table.

The JSON's form is stable: within ``"schema": "roodso.decision/1"`` keys may be added, none change
their meaning or go away.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import roodso
from roodso._typing import Array
from roodso.cli.screen import Screen
from roodso.cli.task import Task
from roodso.losses.base import weighted_quantile
from roodso.methods.base import DecisionMaker
from roodso.planner import Note, PlannerData, WholeOrder
from roodso.planner.formats import share, without_noise
from roodso.planner.words import listed, named_source, promise
from roodso.plots import WorstMixture, worst_mixture
from roodso.sets.uncertainty import UncertaintySet, membership_slack
from roodso.solver.solution import Solution

__all__ = ["Result", "as_json"]

#: Points of the worst case that are shown, and the least share of a source that is named.
_WORLDS, _NAMED = 5, 0.01


@dataclass(frozen=True)
class Result:
    """What was decided, or evaluated.

    Attributes
    ----------
    task : Task
    model : DecisionMaker
        Fitted.
    decision : ndarray of shape (d,)
    worst : Solution
        Its certified worst case.
    whole : WholeOrder or None
        How it was found, where orders are whole.
    pooled : ndarray of shape (d,) or None
        What the average of all rows would choose.
    pooled_worst : Solution or None
        What that could cost.
    evaluated : bool
        Whether the decision is the user's own.
    """

    task: Task
    model: DecisionMaker
    decision: Array
    worst: Solution
    whole: WholeOrder | None = None
    pooled: Array | None = None
    pooled_worst: Solution | None = None
    evaluated: bool = False

    @property
    def items(self) -> list[str]:
        """Names of what is decided."""
        return self.task.data.items

    @property
    def place(self) -> str:
        """What is decided for."""
        return str(self.task.settings.get("target_note") or "a source without data")

    @property
    def floor(self) -> float:
        """No decision at all can promise a lower worst case."""
        return float(self.model.solution_.lower_bound)

    def show(self, screen: Screen) -> None:
        """The decision, its worst case, the world that is feared, and who shaped it."""
        if screen.quiet:
            for item, number in zip(self.items, self.decision, strict=True):
                screen.bare(f"{item}\t{exact(number)}")
            return
        self._decision(screen)
        self._promise(screen)
        self._world(screen)
        self._sources(screen)

    def _decision(self, screen: Screen) -> None:
        noun = self.task.words.noun
        columns, others = ["", "yours" if self.evaluated else noun], []
        if self.evaluated:
            columns.append("best")
            others.append(np.asarray(self.model.solution_.decision))
        if self.pooled is not None:
            columns.append("pooled average")
            others.append(self.pooled)
        choices = [without_noise(x) for x in (self.decision, *others)]
        rows = [
            [item, *[self.task.words.amount_said(float(x[place])) for x in choices]]
            for place, item in enumerate(self.items)
        ]
        screen.table(f"{noun.capitalize()} for {self.place}", columns, rows)

    def _promise(self, screen: Screen) -> None:
        words, kept = self.task.words, promise(self.model)
        bound = kept.bound(words, self.worst.upper_bound)
        screen.say(
            f"\n{kept.opening}: {bound} on average for the new source, {kept.clause}.", style="bold"
        )
        if self.evaluated:
            best = kept.bound(words, self.model.solution_.upper_bound)
            screen.say(f"The best {words.noun} of all promises {best}.")
        screen.say(self._proof())
        if self.whole is not None:
            screen.say(self._packs())
        if self.pooled_worst is not None:
            pooled = kept.bound(words, self.pooled_worst.upper_bound)
            screen.say(f"The choice of the pooled average: {pooled}, likewise.")
        screen.say(words.explanation)

    @property
    def origin(self) -> str:
        """How the decision came about, where it is not simply the model's."""
        if self.evaluated:
            return f"This {self.task.words.noun} is one that was in mind already."
        if self.whole is None:
            return ""
        return f"It is in whole packs, the best of {self.whole.evaluated} that were compared."

    def _packs(self) -> str:
        """How the whole order was found, and what is lost by it."""
        assert self.whole is not None
        how = "all neighbours" if self.whole.all_neighbors else "neighbours"
        lost = self.task.words.cost_said(self.worst.upper_bound - self.floor)
        return (
            f"Whole packs: {how} of the best fractional order were compared "
            f"({self.whole.evaluated} orders); no order, whole or not, is better by more than "
            f"{lost}."
        )

    def _proof(self) -> str:
        """How far from the truth, or from the best decision, the bound can be."""
        words, gap = self.task.words, f"{max(self.worst.gap, 0.0):.0e}"
        if self.worst.gap > 1e-3:
            truth = promise(self.model).bound(words, self.worst.lower_bound)
            return f"Certified, but not to the last: the truth may be {truth}."
        if self.evaluated or self.whole is not None:
            return f"This is certified, to a relative gap of {gap}."
        return f"No {words.noun} can promise better: certified, to a relative gap of {gap}."

    def _world(self, screen: Screen) -> None:
        """The heaviest points of the worst case, and what mixture of sources it is like."""
        if not promise(self.model).robust:
            return
        words, table = self.task.words, self.worst.worst_case(minimum=1e-4)
        rows = []
        for weight, source, *point in table.head(_WORLDS).itertuples(index=False):
            seen = "not seen anywhere" if source is None else self._called(source)
            rows.append([share(weight, 1), seen, *[words.datum_said(v) for v in point]])
        rest = 1.0 - float(table["weight"].head(_WORLDS).sum())
        if len(table) > _WORLDS:
            more = f"{len(table) - _WORLDS} more"
            rows.append([share(rest, 1), more, *[""] * len(self.items)])
        columns = ["share", f"seen in ({self.task.data.source})", *self.items]
        screen.table("The world that is feared", columns, rows, words=2)
        self._likeness(screen)
        if words.is_portfolio:
            mean, tail = self._returns()
            screen.say(
                f"In it this portfolio returns {words.datum_said(mean)} on average, and "
                f"{words.datum_said(tail)} on average in the worst "
                f"{100 * self.task.settings['tail']:g}% of outcomes."
            )

    def _likeness(self, screen: Screen) -> None:
        mixture = self.mixture()
        if mixture is None:
            return
        heavy = mixture.weights[mixture.weights >= _NAMED].sort_values(ascending=False)
        named = [f"{share(weight, 0)} of {self._called(name)}" for name, weight in heavy.items()]
        screen.say(f"Among mixtures of your sources it is most like {listed(named, most=6)}.")

    def _called(self, label: object) -> str:
        return named_source(label, self.task.data.source)

    def mixture(self) -> WorstMixture | None:
        """The mixture of sources nearest to the worst case, where the sources shaped a set."""
        if not isinstance(getattr(self.model, "uncertainty_set_", None), UncertaintySet):
            return None
        return worst_mixture(self.model, worst=self.worst)

    def _returns(self) -> tuple[float, float]:
        """Mean return in the worst case, and the mean over its worst outcomes."""
        weights, share = self.worst.worst_case_weights, self.task.settings["tail"]
        losses = -(self.worst.support @ self.decision)
        tau = weighted_quantile(losses, weights, 1.0 - share)
        beyond = float(weights @ np.maximum(losses - tau, 0.0))
        return -float(weights @ losses), -(tau + beyond / share)

    def _sources(self, screen: Screen) -> None:
        inside = source_places(getattr(self.model, "set_learner_", None))
        if inside is None:
            return
        outside = [name for name, place in inside.items() if place == "outside"]
        text = f"{len(inside) - len(outside)} of {len(inside)} sources lie inside the set"
        if outside:
            text += f"; outside: {listed([self._called(name) for name in outside])}"
        screen.say("\n" + text + ".")
        if getattr(self.model, "set_learner_", None) is not None:
            self._calibration(screen)

    def _calibration(self, screen: Screen) -> None:
        """What a calibrated set promises of the new source."""
        learner: Any = self.model.set_learner_
        if getattr(learner, "promise_", 0.0) > 0.0:
            screen.say(" ".join(learner.statement().split()))

    def as_dict(self, notes: Sequence[Note]) -> dict[str, Any]:
        """Everything for machines; see docs/cli.md for the keys."""
        data = self.task.data
        result: dict[str, Any] = {
            "schema": "roodso.evaluation/1" if self.evaluated else "roodso.decision/1",
            "version": roodso.__version__,
            "kind": data.kind,
            "decision": _by_name(self.items, self.decision),
            "worst_case": _bounds(self.worst),
            "best": {
                "decision": _by_name(self.items, self.model.solution_.decision),
                "worst_case": _bounds(self.model.solution_),
            },
            "method": {
                "name": self.task.method,
                "parameters": self._parameters(),
            },
            "worst_world": self._points(),
            "sources": self._places(),
            "notes": [{"level": note.level, "text": note.text} for note in notes],
            "settings": {
                key: value
                for key, value in self.task.settings.items()
                if key not in ("report", "json", "table", "force", "quiet", "debug")
            },
        }
        mixture = self.mixture()
        if mixture is not None:
            result["nearest_mixture"] = {
                "weights": {str(name): float(w) for name, w in mixture.weights.items()},
                "distance": mixture.distance,
                "radius": mixture.radius,
            }
        if self.whole is not None:
            result["whole"] = {
                "pack_size": _by_name(self.items, self.task.pack),
                "orders_compared": self.whole.evaluated,
                "loss_at_most": self.worst.upper_bound - self.floor,
            }
        if self.pooled is not None and self.pooled_worst is not None:
            result["pooled"] = {
                "decision": _by_name(self.items, self.pooled),
                "worst_case": _bounds(self.pooled_worst),
            }
        return result

    def _points(self) -> list[dict[str, Any]]:
        """The worst case point by point."""
        table = self.worst.worst_case(minimum=1e-9)
        return [
            {
                "weight": float(weight),
                "source": None if source is None else str(source),
                "amounts": _by_name(self.items, point),
            }
            for weight, source, *point in table.itertuples(index=False)
        ]

    def _places(self) -> list[dict[str, Any]]:
        """The sources, and where they lie."""
        data, places = self.task.data, source_places(getattr(self.model, "set_learner_", None))
        return [
            {
                "name": name,
                "rows": int(size),
                "place": None if places is None else places[name],
            }
            for name, size in zip(data.labels, data.sizes, strict=True)
        ]

    def _parameters(self) -> dict[str, Any]:
        """Those of the method; where a set replaces its own, the set's go before them."""
        parameters = self.model.get_params(deep=False)
        learner = parameters.get("uncertainty_set")
        if learner is not None:
            parameters |= learner.get_params()
        plain = (bool, int, float, str, type(None))
        return {key: value for key, value in parameters.items() if isinstance(value, plain)}

    def as_csv(self) -> str:
        """The decision as a table of two columns."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(["item", "weight" if self.task.data.kind == "portfolio" else "order"])
        for item, number in zip(self.items, self.decision, strict=True):
            writer.writerow([item, exact(number)])
        return stream.getvalue()


def exact(number: float) -> str:
    """A number as text that reads back as the same number, whole ones without a point.

    Examples
    --------
    >>> exact(0.1 + 0.2), exact(12.0)
    ('0.30000000000000004', '12')
    """
    return repr(float(number)).removesuffix(".0")


def as_json(content: dict[str, Any]) -> str:
    """JSON that every reader accepts: numbers that are not finite become null."""
    return json.dumps(_finite(content), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _by_name(items: list[str], numbers: Any) -> dict[str, float]:
    return {item: float(number) for item, number in zip(items, numbers, strict=True)}


def _bounds(solution: Solution) -> dict[str, Any]:
    return {
        "upper_bound": float(solution.upper_bound),
        "lower_bound": float(solution.lower_bound),
        "gap": float(solution.gap),
        "status": solution.status,
    }


def source_places(learner: Any) -> dict[str, str] | None:
    """Where each source lies, where a ball was learned: inside, boundary or outside."""
    if not hasattr(learner, "distances_"):
        return None
    excess = learner.distances_**2 - learner.radius_**2
    slack = membership_slack(learner.radius_**2, learner.uncertainty_set_.kernel.bound)
    words = np.where(excess > slack, "outside", np.where(excess >= -slack, "boundary", "inside"))
    return {str(label): str(word) for label, word in zip(learner.labels_, words, strict=True)}


def pooled_choice(task: Task, screen: Screen) -> Array:
    """What the average of all rows would choose."""
    return np.asarray(task.fit(screen, "saa").solution_.decision)


def described(data: PlannerData) -> str:
    """One line on the table."""
    return (
        f"{len(data.table):,} rows of {len(data.labels)} sources ({data.source}) from {data.file}: "
        + ", ".join(data.items)
    )
