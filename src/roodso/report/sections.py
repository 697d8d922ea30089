"""The sections of the page as plain content: sentences, tables, pictures.

Each function gives what its section says, or None where it does not apply. Nothing here is markup
but the pictures; the template escapes all else.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator

from roodso import guarantees
from roodso.losses import CVaRPortfolio
from roodso.losses.base import weighted_quantile
from roodso.methods import SAA, ConvexHullDRO, RooDSO
from roodso.planner.formats import share, without_noise
from roodso.planner.words import Words, listed, sentence
from roodso.plots import (
    RobustnessPathDisplay,
    SourceMap,
    WorstCaseColumn,
    WorstMixture,
    costs_by_source,
    worst_case_column,
    worst_mixture,
)
from roodso.report import pictures
from roodso.report.subject import Subject
from roodso.sets import SupportMeasureBall

__all__ = [
    "Table",
    "afterwards",
    "headline",
    "others",
    "places",
    "price",
    "promises",
    "reproduction",
    "world",
]

#: Points of the worst case, and items drawn.
_POINTS, _DRAWN = 12, 6
#: Gaps above this are said to be large.
_LARGE_GAP = 1e-3
#: Sources with less of the mixture are counted, not named.
_NAMED_SHARE = 0.01
#: Distances below this are rounding.
_TOUCHING = 1e-6
#: And with less than this they are rounding.
_NEGLIGIBLE = 1e-6
_DEPENDENCIES = ("numpy", "scipy", "scikit-learn", "clarabel", "cvxpy")


@dataclass(frozen=True)
class Table:
    """A table: the first ``words`` columns hold words, the others numbers."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1


def headline(subject: Subject) -> dict[str, Any]:
    """The decision, what it costs at worst, and how sure that is."""
    words, worst, promise = subject.words, subject.worst, subject.promise
    shown_parts = map(float, without_noise(subject.decision))
    amounts = list(zip(subject.parts, map(words.amount, shown_parts), strict=True))
    nothing = words.amount(0.0)
    shown = [(name, text) for name, text in amounts if text != nothing] or amounts
    left = [name for name, text in amounts if text == nothing] if len(shown) < len(amounts) else []
    return {
        "noun": words.noun + words.amount_units,
        "amounts": shown,
        "nothing": f"Nothing of {listed(left, most=20)}." if left else "",
        "opening": promise.opening,
        "worst": promise.bound(words, worst.upper_bound),
        "guard": promise.clause,
        "returns": _returns(subject),
        "certificate": _certificate(subject),
        "note": sentence(subject.decision_note),
        "explanation": words.explanation,
        "facts": _facts(subject),
    }


def _certificate(subject: Subject) -> str:
    """How far the bound can be from the truth, and from the best decision."""
    words, worst = subject.words, subject.worst
    upper, lower = worst.upper_bound, worst.lower_bound
    gap = (upper - lower) / abs(upper) if upper != 0.0 else upper - lower
    said = "0.0001%" if gap < 1e-6 else f"{100 * gap:.2g}%"
    if gap > _LARGE_GAP:
        return (
            f"The certificate is loose: as a cost, the true worst case lies between "
            f"{words.cost_said(lower)} and {words.cost_said(upper)}, a gap of {said}. More time "
            "for the solver would tighten it."
        )
    if subject.own:
        return f"This is certified. No {words.noun} can promise better by more than {said}."
    best = subject.model.solution_
    given_up = max(upper - best.lower_bound, 0.0)
    return (
        f"This is certified, and exact to {said}. The best {words.noun} of all promises "
        f"{subject.promise.bound(words, best.upper_bound)}: this one gives up at most "
        f"{words.cost_said(given_up)} of it."
    )


def _returns(subject: Subject) -> str:
    """For portfolios: mean and tail of the return in the worst case."""
    loss, worst, words = subject.model.loss, subject.worst, subject.words
    if not isinstance(loss, CVaRPortfolio):
        return ""
    case = "that worst case" if subject.promise.robust else "that case"
    losses = -(worst.support @ subject.decision)
    weights = worst.worst_case_weights
    tau = weighted_quantile(losses, weights, 1.0 - loss.tail)
    tail = tau + float(weights @ np.maximum(losses - tau, 0.0)) / loss.tail
    return (
        f"In {case} the portfolio returns {words.datum_said(-float(weights @ losses))} on "
        f"average, and {words.datum_said(-tail)} on average in the worst {100 * loss.tail:g}% of "
        "outcomes."
    )


def _facts(subject: Subject) -> list[tuple[str, str]]:
    sources = subject.sources
    facts = [
        ("Learned from", f"{sources.n_sources} sources, {sources.n_samples:,} rows"),
        ("Method", subject.name),
    ]
    return facts + _set_facts(subject)


def _set_facts(subject: Subject) -> list[tuple[str, str]]:
    """What shapes the set."""
    learner: Any = getattr(subject.model, "set_learner_", None)
    known, facts = subject.learned, []
    if known is not None and known.n_anchors > 1:
        facts.append(("Thickness", f"{known.radius:.3g}"))
        if known.cap < 1.0:
            facts.append(("Largest share of a source", share(known.cap, 0)))
    if getattr(learner, "promise_", 0.0) > 0.0:
        facts.append(("Holds the new source", f"with {share(learner.promise_, 0)} probability"))
    elif isinstance(learner, SupportMeasureBall):
        facts.append(
            ("Sources that may lie outside", f"{share(learner.nu, 0)} (nu = {learner.nu:g})")
        )
    return facts


def others(subject: Subject) -> dict[str, Any] | None:
    """What the rivals would have chosen, and how all fared on sources held out."""
    comparison = subject.comparison
    if not subject.rivals and comparison is None:
        return None
    words, choices = subject.words, subject.choices()
    summary = None if comparison is None else comparison.summary()
    named = [*choices, *([] if summary is None else [n for n in summary.index if n not in choices])]
    head = ["method", *subject.parts, "worst case" if subject.promise.robust else "expected"]
    if summary is not None:
        head += ["held out: mean", "held out: worst"]
    rows = []
    for name in named:
        row = [str(name), *[""] * (len(subject.parts) + 1)]
        if name in choices:
            parts = map(float, without_noise(choices[name]))
            row[1:] = [*map(words.amount, parts), _at_worst(subject, name)]
        if summary is not None:
            known = name in summary.index
            row += [words.cost(summary.loc[name, c]) if known else "" for c in ("mean", "worst")]
        rows.append(row)
    return {
        "table": Table(_beside(subject), head, rows),
        "robust": subject.promise.robust,
        "verdict": "" if comparison is None else sentence(comparison.verdict()),
        "picture": None if comparison is None else pictures.costs(comparison, subject),
        "costs": None if comparison is None else _cost_table(subject),
    }


def _beside(subject: Subject) -> str:
    words = subject.words
    return f"What each method chooses{words.amount_units}, and its {words.costs}"


def _at_worst(subject: Subject, name: str) -> str:
    """The certified worst case of one of the choices, by the model's own set."""
    if name == subject.name:
        return subject.words.cost(subject.worst.upper_bound)
    rival = subject.rivals[name].solution_.decision
    return subject.words.cost(subject.model.worst_case_cost(rival).upper_bound)


def _cost_table(subject: Subject) -> Table:
    assert subject.comparison is not None
    costs = costs_by_source(subject.comparison)
    rows = [
        [subject.called(source), *[subject.words.cost(cost) for cost in row]]
        for source, row in zip(costs.index, costs.to_numpy(), strict=True)
    ]
    head = [subject.source or "source", *map(str, costs.columns)]
    caption = f"Mean {subject.words.costs} on each source, decided without it"
    return Table(caption, head, rows)


def afterwards(subject: Subject) -> dict[str, Any] | None:
    """What the decisions cost where data were seen later."""
    target = subject.target
    if target is None:
        return None
    words = subject.words
    realised = {n: subject.mean_cost(x, target) for n, x in subject.choices().items()}
    best = SAA(subject.model.loss).fit([target])
    rows = [[name, words.cost(cost)] for name, cost in realised.items()]
    rows.append(["best, had one known the data", words.cost(best.objective_)])
    said = (
        f"In {len(target):,} rows seen afterwards the {words.noun} came to "
        f"{words.mean(realised[subject.name])} on average: {_foretold(subject, realised)}."
    )
    found = subject.map
    if found is not None:
        spot = found.others.loc["target"]
        where = "outside" if spot["place"] == "outside" else "inside"
        what = "the centre, where the radius is"
        if found.hull is not None:
            what = "the nearest mixture of your sources, where the thickness is"
        said += (
            f" The new source lies {where} the set: {spot['distance']:.3f} from {what} "
            f"{found.radius:.3f}."
        )
    table = Table("What each method came to", ["method", f"mean {words.costs}"], rows)
    return {"sentence": said, "table": table}


def _foretold(subject: Subject, realised: dict[str, float]) -> str:
    """What came true, beside what was said beforehand."""
    bound, words = subject.worst.upper_bound, subject.words
    if not subject.promise.robust:
        return f"{words.mean(bound)} was expected"
    held = "within" if realised[subject.name] <= bound else "beyond"
    return f"{held} the worst case that was certified beforehand"


def places(subject: Subject) -> dict[str, Any] | None:
    """The map of the sources."""
    found = subject.map
    if found is None:
        return None
    counts = found.table["place"].value_counts()
    rows = [
        [subject.called(label), f"{rows:,}", f"{distance:.3f}", place, share(weight, 1)]
        for label, _, _, distance, place, weight, rows in found.table.sort_values(
            "distance", kind="stable"
        ).itertuples()
    ]
    hull = found.hull is not None
    weight = "share of the worst case" if hull else "weight in the centre"
    head = [subject.source or "source", "rows", "distance", "place", weight]
    near = "the nearest mixture that is allowed" if hull else "the centre"
    return {
        "sentence": _where(subject, found),
        "radius": f"{found.radius:.3f}",
        "shown": share(found.shown, 0),
        "picture": pictures.source_map(found, counts.to_dict(), subject),
        "table": Table(f"Sources by their distance to {near}", head, rows),
    }


def _where(subject: Subject, found: SourceMap) -> str:
    """Which sources lie outside, and what that means."""
    outside = found.outside
    if not len(outside):
        return f"All {len(found.table)} sources lie inside the set or on its boundary."
    named = [
        f"{subject.called(label)} ({distance:.3f})"
        for label, distance in outside["distance"].items()
    ]
    said = f"{len(outside)} of {len(found.table)} sources lie outside, with their distances: "
    said += f"{listed(named, most=12)}. "
    if found.hull is not None:
        return said + (
            "The set holds mixtures of sources, and no source alone may weigh so much: one more "
            "source just like these is not guarded against."
        )
    return said + (
        "They are the least like the others; look at their data before you trust a decision that "
        "leaves them out, or one that lets them in."
    )


def world(subject: Subject) -> dict[str, Any] | None:
    """The worst case beside the pooled data."""
    if not subject.promise.robust:
        return None
    words, worst = subject.words, subject.worst
    columns = [
        worst_case_column(subject.model, j, worst=worst) for j in range(len(subject.words.names))
    ]
    rows = [
        [c.name, words.datum(c.pooled_mean), words.datum(c.worst_mean), _change(c, words)]
        for c in columns
    ]
    marked = subject.decision if words.in_data_units else [None] * len(columns)
    mixture = _nearest_mixture(subject)
    return {
        "means": Table(
            f"Mean {words.data} in your data and in the worst case{words.in_units}",
            ["", "all rows together", "worst case", "change"],
            rows,
        ),
        "pictures": [
            pictures.worst_case(columns[j], j, marked[j], words) for j in _most_shifted(subject)
        ],
        "left_out": max(len(columns) - _DRAWN, 0),
        "points": _points(subject),
        "mixture": None if mixture is None else _mixture(mixture, subject),
        "mixture_picture": None if mixture is None else pictures.mixture(mixture),
    }


def _nearest_mixture(subject: Subject) -> WorstMixture | None:
    """Where sources shaped the set, with their names as they stand on the page."""
    if isinstance(subject.model, ConvexHullDRO):
        index = pd.Index(list(subject.sources.labels), dtype=object, name="source")
        weights = np.where(subject.worst.mixture > _NEGLIGIBLE, subject.worst.mixture, 0.0)
        found = WorstMixture(pd.Series(weights, index, name="weight"), 0.0, 0.0)
    elif subject.learned is not None:
        found = worst_mixture(subject.model, worst=subject.worst)
    else:
        return None
    return replace(found, weights=found.weights.rename(index=subject.called))


def _change(column: WorstCaseColumn, words: Words) -> str:
    """How the mean moves: for demand as a share of the pooled one."""
    change = column.worst_mean - column.pooled_mean
    plus = "+" if change >= 0 else ""
    if words.in_data_units and column.pooled_mean > 0:
        return plus + words.formats.share(change / column.pooled_mean, 0)
    return plus + words.datum(change)


def _most_shifted(subject: Subject) -> list[int]:
    """The columns that the worst case moves most, in their order."""
    samples, worst = subject.sources.samples, subject.worst
    shift = np.abs(worst.worst_case_weights @ worst.support - samples.mean(axis=0))
    spread = samples.std(axis=0)
    relative = shift / np.where(spread > 0, spread, 1.0)
    return sorted(int(j) for j in np.argsort(-relative, kind="stable")[:_DRAWN])


def _points(subject: Subject) -> Table:
    """The heaviest points of the worst case, and what the decision costs there."""
    words, worst = subject.words, subject.worst
    table = worst.worst_case(minimum=1e-4)
    z = np.concatenate([worst.decision, worst.internal])
    costs = subject.problem.values(z, worst.support)
    rows = []
    for index, weight, source, *point in table.head(_POINTS).itertuples():
        seen = "drawn, seen nowhere" if source is None else subject.called(source)
        cost = words.cost(float(costs[index]))
        rows.append([share(weight, 1), seen, *[words.datum(float(v)) for v in point], cost])
    rest = len(table) - len(rows)
    if rest > 0:
        left = float(table["weight"].iloc[_POINTS:].sum())
        rows.append([share(left, 1), f"{rest} more points", *[""] * (len(words.names) + 1)])
    head = ["share", "seen in", *words.names, f"{words.costs} there"]
    caption = f"The points on which the worst case puts its mass{words.in_units}"
    return Table(caption, head, rows, words=2)


def _mixture(mixture: WorstMixture, subject: Subject) -> str:
    weights = mixture.weights[mixture.weights > 0].sort_values(ascending=False, kind="stable")
    named = [f"{share(weight, 0)} of {label}" for label, weight in weights.items()]
    most = max(1, min(6, int((weights >= _NAMED_SHARE).sum())))
    if mixture.distance <= _TOUCHING:
        return f"The worst case is a mixture of your sources: {listed(named, most=most)}."
    if subject.learned is not None and subject.learned.n_anchors > 1:
        return (
            f"The worst case is near a mixture of your sources: {listed(named, most=most)}. It is "
            f"{mixture.distance:.3f} away from it (the thickness is {mixture.radius:.3f})."
        )
    return (
        f"Among mixtures of your sources, the worst case is most like {listed(named, most=most)}. "
        f"It is {mixture.distance:.3f} away from that mixture (the set's radius is "
        f"{mixture.radius:.3f})."
    )


#: What the slider moves, by parameter.
_DIALS = {
    "nu": "The setting nu is the share of your sources that may lie outside the set. The smaller "
    "it is, the larger the set that the decision guards against.",
    "uncertainty_set__nu": "The setting nu is the share of new sources that the set may miss. The "
    "smaller it is, the larger the set that the decision guards against.",
    "uncertainty_set__thickness": "The thickness is how far from a mixture of your sources the new "
    "one may lie. At 0 it has to be a mixture; the larger it is, the more the decision guards "
    "against.",
}


def price(subject: Subject, path: RobustnessPathDisplay | None) -> dict[str, Any] | None:
    """What caution costs: decisions and worst cases along a parameter."""
    if path is None:
        return None
    words, parameter = subject.words, str(path.table.index.name)
    current = subject.model.get_params(deep=True).get(parameter)
    name = parameter.rpartition("__")[2]
    path = _agreeing(path, current, subject)
    values = [float(value) for value in path.table.index]
    picture, positions = pictures.price(path, words)
    stops = [
        _stop(subject, value, path, place) | {"at": round(positions[place] - positions[0], 2)}
        for place, value in enumerate(values)
    ]
    head = [name, *subject.parts, "certified worst case"]
    if "held_out_mean" in path.table:
        head += ["held out: mean", "held out: worst"]
    rows = [[stop["value"], *stop["amounts"], *stop["costs"]] for stop in stops]
    return {
        "name": name,
        "about": _DIALS.get(parameter, f"What changes with {name}."),
        "start": values.index(current) if current in values else 0,
        "current": f"{current:g}" if current in values else None,
        "stops": stops,
        "own": subject.own,
        "noun": words.noun,
        "parts": subject.parts,
        "picture": picture,
        "table": Table(
            f"What is chosen{words.amount_units} and its {words.costs}, by {name}", head, rows
        ),
    }


def _agreeing(path: RobustnessPathDisplay, current: Any, subject: Subject) -> RobustnessPathDisplay:
    """The path through the model's own decision: flat optima have many, and the page shows one."""
    table, decisions = path.table.copy(), path.decisions.copy()
    if current in table.index and len(decisions.columns) == len(subject.decision):
        table.loc[current, "worst_case"] = subject.model.objective_
        decisions.loc[current] = subject.model.solution_.decision
    name = str(table.index.name).rpartition("__")[2]
    return RobustnessPathDisplay(table.rename_axis(index=name), decisions)


def _stop(
    subject: Subject, value: float, path: RobustnessPathDisplay, place: int
) -> dict[str, Any]:
    """What the page shows at one value."""
    words = subject.words
    decision = without_noise(path.decisions.to_numpy(dtype=float)[place])
    costs = path.table.to_numpy(dtype=float)[place]
    return {
        "value": f"{value:g}",
        "amounts": [words.amount(float(number)) for number in decision],
        "worst": words.worst(float(costs[0])),
        "costs": [words.cost(float(cost)) for cost in costs],
    }


def promises(subject: Subject) -> dict[str, Any]:
    """What is guaranteed, and what is not."""
    words = subject.words
    try:
        found = guarantees.summary(subject.model).sections
    except TypeError:  # the theorems are about the paper's ball
        found = []
    bound = subject.promise.bound(words, subject.worst.upper_bound)
    every = (
        "For every distribution in the method's set"
        if subject.promise.robust
        else ("For the one distribution that the method is about")
    )
    claim = f"{every}, this {words.noun} comes to {bound} on average."
    if subject.worst.witness is not None:
        claim += " That can be checked from the certificate alone, without trusting the solver."
    promised = getattr(getattr(subject.model, "set_learner_", None), "promise_", 0.0) > 0.0
    at_all = "for certain: the chance is below" if promised else "at all"
    assumption = (
        f"That the new source lies in the set {at_all}. It is assumed to be one more source of the "
        "same kind as yours; if it is of another kind, nothing here holds for it."
    )
    unsure = [
        assumption,
        "What happens in a single row (one day, one week). The promise is about averages.",
        "Anything that prices, costs or limits leave out.",
    ]
    if subject.learned is not None:
        unsure.insert(
            1,
            "Values between the points considered. The worst case is taken over the "
            f"{len(subject.worst.support):,} rows and drawn points.",
        )
    unsure[1:1] = _clipped(subject)
    return {
        "sure": [claim],
        "unsure": unsure,
        "statement": _statement(subject),
        "sections": found,
    }


def _statement(subject: Subject) -> str:
    """What the learner of the set promises of the new source, in its own words."""
    learner = getattr(subject.model, "set_learner_", None)
    statement = getattr(learner, "statement", str)()
    return " ".join(statement.split())


def _clipped(subject: Subject) -> list[str]:
    """What the worst case leaves out where samples were moved to fences."""
    if not isinstance(subject.model, RooDSO):
        return []
    moved = int(subject.model.clipped_[["below", "above"]].to_numpy().sum())
    if moved == 0:
        return []
    told = f"Values beyond the fences that data were clipped at. {moved:,} of yours lay beyond "
    return [told + "and were moved to them; the worst case is over what lies between."]


def reproduction(subject: Subject) -> dict[str, Any]:
    """Settings and versions with which the same page comes out again."""
    from roodso import __version__

    model = subject.model
    parameters = [
        (name, _said(value))
        for name, value in model.get_params(deep=False).items()
        if name not in ("loss", "progress", "n_jobs")
    ]
    loss = [(name, _said(value)) for name, value in model.loss.get_params(deep=False).items()]
    versions = [("Python", platform.python_version()), ("roodso", __version__)]
    versions += [(name, version(name)) for name in _DEPENDENCIES]
    solution = model.solution_
    return {
        "settings": [
            (type(model).__name__, parameters),
            (type(model.loss).__name__, loss),
            (
                "Solver",
                [
                    ("status", solution.status),
                    ("rounds", str(solution.iterations)),
                    ("upper bound", f"{solution.upper_bound:.12g}"),
                    ("lower bound", f"{solution.lower_bound:.12g}"),
                    ("support points", f"{len(solution.support):,}"),
                    *(
                        []
                        if solution.embedding is None
                        else [("embeddings", solution.embedding.summary())]
                    ),
                ],
            ),
            ("Versions", versions),
        ],
        "fingerprint": _fingerprint(subject),
        "command": subject.command,
        "call": f"{_said(model)}.fit(X, groups=groups)",
    }


def _said(value: Any) -> str:
    """A parameter's value; where functions live in memory is no part of it."""
    if isinstance(value, BaseEstimator):
        value = value.__repr__(N_CHAR_MAX=100_000)
    elif isinstance(value, np.ndarray):
        value = value.tolist()
    return re.sub(r" at 0x[0-9a-fA-F]+", "", str(value))


def _fingerprint(subject: Subject) -> str:
    """A short hash of samples, groups and names."""
    sources = subject.sources
    digest = hashlib.sha256(np.ascontiguousarray(sources.samples).tobytes())
    digest.update(np.ascontiguousarray(sources.codes, dtype=np.int64).tobytes())
    digest.update(repr((sources.labels, sources.names)).encode("utf-8", "backslashreplace"))
    return digest.hexdigest()[:16]
