"""The sections of the page as plain content: sentences, tables, pictures.

Each function gives what its section says, or None where it does not apply. Nothing here is markup
but the pictures; the template escapes all else.
"""

from __future__ import annotations

import hashlib
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from roodso import guarantees
from roodso.losses import CVaRPortfolio
from roodso.losses.base import weighted_quantile
from roodso.methods import SAA, ConvexHullDRO
from roodso.plots import (
    RobustnessPathDisplay,
    WorstCaseColumn,
    WorstMixture,
    costs_by_source,
    worst_case_column,
    worst_mixture,
)
from roodso.report import pictures
from roodso.report.formats import Words, listed, share
from roodso.report.subject import Subject

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
    words, worst = subject.words, subject.worst
    amounts = list(zip(subject.parts, map(words.amount, map(float, subject.decision)), strict=True))
    nothing = words.amount(0.0)
    shown = [(name, text) for name, text in amounts if text != nothing] or amounts
    left = [name for name, text in amounts if text == nothing] if len(shown) < len(amounts) else []
    return {
        "noun": words.noun + words.amount_units,
        "amounts": shown,
        "nothing": f"Nothing of {listed(left, most=20)}." if left else "",
        "worst": words.worst(worst.upper_bound),
        "guard": _guard(subject),
        "returns": _returns(subject),
        "certificate": _certificate(subject),
        "explanation": words.explanation,
        "facts": _facts(subject),
    }


def _guard(subject: Subject) -> str:
    """What the worst case is taken over, after "on average"."""
    model, known = subject.model, subject.learned
    if known is not None and (known.radius > 0.0 or known.n_anchors > 1):
        count = subject.sources.n_sources
        return f"whichever distribution it follows in the set learned from your {count} sources"
    if isinstance(model, ConvexHullDRO):
        return "whichever mixture of your sources it turns out to be"
    if isinstance(model, SAA):
        return "provided that it is like all your rows together"
    if known is not None:
        return "provided that it is like the average of your sources"
    return f"whichever distribution it follows in the set of the method ({subject.name})"


def _certificate(subject: Subject) -> str:
    words, worst = subject.words, subject.worst
    upper, lower = worst.upper_bound, worst.lower_bound
    gap = (upper - lower) / abs(upper) if upper != 0.0 else upper - lower
    said = "0.0001 %" if gap < 1e-6 else f"{100 * gap:.2g} %"
    if gap > _LARGE_GAP:
        return (
            f"The certificate is loose: as a cost, the true worst case lies between "
            f"{words.cost(lower)} and {words.cost(upper)}, a gap of {said}. More time for the "
            "solver would tighten it."
        )
    if subject.own:
        return f"This is certified. No {words.noun} can promise better by more than {said}."
    best = subject.model.solution_
    return (
        f"This is certified, and exact to {said}. The best {words.noun} of all promises "
        f"{words.worst(best.upper_bound)}: this one gives up at most "
        f"{words.cost(max(upper - best.lower_bound, 0.0))} of it."
    )


def _returns(subject: Subject) -> str:
    """For portfolios: mean and tail of the return in the worst case."""
    loss, worst, words = subject.model.loss, subject.worst, subject.words
    if not isinstance(loss, CVaRPortfolio):
        return ""
    losses = -(worst.support @ subject.decision)
    weights = worst.worst_case_weights
    tau = weighted_quantile(losses, weights, 1.0 - loss.tail)
    tail = tau + float(weights @ np.maximum(losses - tau, 0.0)) / loss.tail
    return (
        f"In that worst case the portfolio returns {words.spoken(-float(weights @ losses))} on "
        f"average, and {words.spoken(-tail)} on average in the worst {100 * loss.tail:g} % of "
        "outcomes."
    )


def _facts(subject: Subject) -> list[tuple[str, str]]:
    sources = subject.sources
    facts = [
        ("Learned from", f"{sources.n_sources} sources, {sources.n_samples:,} rows"),
        ("Method", subject.name),
    ]
    nu = getattr(getattr(subject.model, "set_learner_", None), "nu", None)
    if nu is not None:
        facts.append(("Sources that may lie outside", f"{share(nu, 0)} (nu = {nu:g})"))
    return facts


def others(subject: Subject) -> dict[str, Any] | None:
    """What the rivals would have chosen, and how all fared on sources held out."""
    comparison = subject.comparison
    if not subject.rivals and comparison is None:
        return None
    words, choices = subject.words, subject.choices()
    summary = None if comparison is None else comparison.summary()
    named = [*choices, *([] if summary is None else [n for n in summary.index if n not in choices])]
    head = ["method", *subject.parts, "worst case"]
    if summary is not None:
        head += ["held out: mean", "held out: worst"]
    rows = []
    for name in named:
        row = [str(name), *[""] * (len(subject.parts) + 1)]
        if name in choices:
            row[1:] = [*map(words.amount, map(float, choices[name])), _at_worst(subject, name)]
        if summary is not None:
            known = name in summary.index
            row += [words.cost(summary.loc[name, c]) if known else "" for c in ("mean", "worst")]
        rows.append(row)
    return {
        "table": Table(_beside(subject), head, rows),
        "verdict": "" if comparison is None else _sentence(comparison.verdict()),
        "picture": None if comparison is None else pictures.costs(comparison),
        "costs": None if comparison is None else _cost_table(subject),
    }


def _sentence(text: str) -> str:
    """With a capital, where the name of a method stands first."""
    return text[:1].upper() + text[1:]


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
        [str(source), *[subject.words.cost(cost) for cost in row]]
        for source, row in zip(costs.index, costs.to_numpy(), strict=True)
    ]
    head = ["source", *map(str, costs.columns)]
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
    held = realised[subject.name] <= subject.worst.upper_bound
    sentence = (
        f"In {len(target):,} rows seen afterwards the {words.noun} came to "
        f"{words.mean(realised[subject.name])} on average: "
        + ("within" if held else "beyond")
        + " the worst case that was certified beforehand."
    )
    found = subject.map
    if found is not None:
        spot = found.others.loc["target"]
        where = "outside" if spot["place"] == "outside" else "inside"
        sentence += (
            f" The new source lies {where} the set: {spot['distance']:.3f} from the centre, where "
            f"the radius is {found.radius:.3f}."
        )
    table = Table("What each method came to", ["method", f"mean {words.costs}"], rows)
    return {"sentence": sentence, "table": table}


def places(subject: Subject) -> dict[str, Any] | None:
    """The map of the sources."""
    found = subject.map
    if found is None:
        return None
    counts = found.table["place"].value_counts()
    outside = found.outside
    if len(outside):
        named = [f"{label} ({distance:.3f})" for label, distance in outside["distance"].items()]
        sentence = (
            f"{len(outside)} of {len(found.table)} sources lie outside, with their distances: "
            f"{listed(named, most=12)}. They are the least like the others; look at their data "
            "before you trust a decision that leaves them out, or one that lets them in."
        )
    else:
        sentence = f"All {len(found.table)} sources lie inside the set or on its boundary."
    rows = [
        [str(label), f"{rows:,}", f"{distance:.3f}", place, share(weight, 1)]
        for label, _, _, distance, place, weight, rows in found.table.sort_values(
            "distance", kind="stable"
        ).itertuples()
    ]
    head = ["source", "rows", "distance", "place", "weight in the centre"]
    return {
        "sentence": sentence,
        "radius": f"{found.radius:.3f}",
        "shown": share(found.shown, 0),
        "picture": pictures.source_map(found, counts.to_dict()),
        "table": Table("Sources by their distance to the centre", head, rows),
    }


def world(subject: Subject) -> dict[str, Any]:
    """The worst case beside the pooled data."""
    words, worst = subject.words, subject.worst
    columns = [
        worst_case_column(subject.model, j, worst=worst) for j in range(len(subject.words.names))
    ]
    rows = [
        [c.name, words.datum(c.pooled_mean), words.datum(c.worst_mean), _change(c, words)]
        for c in columns
    ]
    marked = subject.decision if words.in_data_units else [None] * len(columns)
    mixture = None if subject.learned is None else worst_mixture(subject.model, worst=worst)
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
        "mixture": None if mixture is None else _mixture(mixture),
        "mixture_picture": None if mixture is None else pictures.mixture(mixture),
    }


def _change(column: WorstCaseColumn, words: Words) -> str:
    """How the mean moves: for demand as a share of the pooled one."""
    change = column.worst_mean - column.pooled_mean
    plus = "+" if change >= 0 else ""
    if words.in_data_units and column.pooled_mean > 0:
        return plus + share(change / column.pooled_mean, 0)
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
        seen = "drawn, seen nowhere" if source is None else str(source)
        cost = words.cost(float(costs[index]))
        rows.append([share(weight, 1), seen, *[words.datum(float(v)) for v in point], cost])
    rest = len(table) - len(rows)
    if rest > 0:
        left = float(table["weight"].iloc[_POINTS:].sum())
        rows.append([share(left, 1), f"{rest} more points", *[""] * (len(words.names) + 1)])
    head = ["share", "seen in", *words.names, f"{words.costs} there"]
    caption = f"The points on which the worst case puts its mass{words.in_units}"
    return Table(caption, head, rows, words=2)


def _mixture(mixture: WorstMixture) -> str:
    weights = mixture.weights[mixture.weights > 0].sort_values(ascending=False, kind="stable")
    named = [f"{share(weight, 0)} {label}" for label, weight in weights.items()]
    most = max(1, min(6, int((weights >= _NAMED_SHARE).sum())))
    return (
        f"Among mixtures of your sources, the worst case is most like {listed(named, most=most)}. "
        f"It is {mixture.distance:.3f} away from that mixture (the set's radius is "
        f"{mixture.radius:.3f})."
    )


def price(subject: Subject, path: RobustnessPathDisplay | None) -> dict[str, Any] | None:
    """What caution costs: decisions and worst cases along a parameter."""
    if path is None:
        return None
    words, name = subject.words, str(path.table.index.name)
    current = getattr(subject.model, name, None)
    path = _agreeing(path, current, subject)
    values = [float(value) for value in path.table.index]
    picture, positions = pictures.price(path)
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
        "start": values.index(current) if current in values else 0,
        "current": f"{current:g}" if current in values else None,
        "stops": stops,
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
    return RobustnessPathDisplay(table, decisions)


def _stop(
    subject: Subject, value: float, path: RobustnessPathDisplay, place: int
) -> dict[str, Any]:
    """What the page shows at one value."""
    words = subject.words
    decision = path.decisions.to_numpy(dtype=float)[place]
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
    worst = words.worst(subject.worst.upper_bound)
    claim = (
        f"For every distribution in the method's set, this {words.noun} comes to {worst} on "
        "average."
    )
    if subject.worst.witness is not None:
        claim += " That can be checked from the certificate alone, without trusting the solver."
    assumption = (
        "That the new source lies in the set at all. It is assumed to be one more source of the "
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
    return {"sure": [claim], "unsure": unsure, "sections": found}


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
