"""How one problem is spoken of, on the screen and on pages: decisions, data, costs, promises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roodso.losses import CVaRPortfolio, Newsvendor
from roodso.losses.base import Loss
from roodso.methods import (
    SAA,
    BarycenterSAA,
    ConvexHullDRO,
    IntersectionDRO,
    RooDSO,
    WassersteinDRO,
)
from roodso.methods.base import DecisionMaker
from roodso.planner.formats import Formats, share
from roodso.sets import ConformalBall
from roodso.sets.uncertainty import UncertaintySet

__all__ = ["Promise", "Words", "listed", "named_source", "promise", "sentence"]


class Words:
    """How one problem is spoken of: its decisions, its data and its costs.

    Parameters
    ----------
    loss : Loss
    formats : Formats
    names : sequence of str
        The columns of the data.

    Examples
    --------
    >>> words = Words(CVaRPortfolio(), Formats(), ["stocks", "bonds"])
    >>> words.noun, words.amount(0.25), words.datum(0.0132)
    ('portfolio', '25.0%', '1.32%')
    """

    def __init__(self, loss: Loss, formats: Formats, names: Sequence[str]) -> None:
        self.loss = loss
        self.formats = formats
        self.names = list(names)

    @property
    def is_portfolio(self) -> bool:
        """Whether decisions are weights and data are returns."""
        return isinstance(self.loss, CVaRPortfolio)

    @property
    def in_data_units(self) -> bool:
        """Whether a decision can be marked among the data: an order among demands."""
        return isinstance(self.loss, Newsvendor)

    @property
    def noun(self) -> str:
        """What is decided."""
        if self.is_portfolio:
            return "portfolio"
        return "order" if self.in_data_units else "decision"

    @property
    def data(self) -> str:
        """What the data are."""
        if self.is_portfolio:
            return "return"
        return "demand" if self.in_data_units else "value"

    def parts(self, count: int) -> list[str]:
        """Names of the decision's parts: the columns, where there is one for each."""
        if count == len(self.names):
            return self.names
        return [f"decision {place}" for place in range(1, count + 1)]

    @property
    def in_units(self) -> str:
        """The unit of amounts and data, to stand once above many of them."""
        return f", in {self.formats.unit}" if self.formats.unit else ""

    @property
    def amount_units(self) -> str:
        """The unit of the decision's parts."""
        return self.in_units if self.in_data_units else ""

    def amount(self, part: float) -> str:
        """A part of a decision, without its unit."""
        return self.formats.share(part, 1) if self.is_portfolio else self.formats.number(part)

    def amount_said(self, part: float) -> str:
        """A part of a decision with its unit."""
        return self.formats.quantity(part) if self.in_data_units else self.amount(part)

    @property
    def in_percent(self) -> bool:
        """Whether data are shown as percentages: returns, where no unit is given."""
        return self.is_portfolio and not self.formats.unit

    def datum(self, value: float) -> str:
        """A value of the data, without its unit."""
        return self.formats.share(value, 2) if self.in_percent else self.formats.number(value)

    def datum_said(self, value: float) -> str:
        """A value of the data with its unit."""
        return self.formats.share(value, 2) if self.in_percent else self.formats.quantity(value)

    def cost(self, cost: float) -> str:
        """A cost as a number of a table, not as a profit; `costs` says in what."""
        return self.formats.score(cost) if self.is_portfolio else self.formats.decimal(cost)

    def cost_said(self, cost: float) -> str:
        """A cost with its currency."""
        return self.formats.score(cost) if self.is_portfolio else self.formats.money(cost)

    @property
    def costs(self) -> str:
        """What the numbers of `cost` are."""
        if self.is_portfolio:
            return "risk-adjusted loss"
        currency = f" in {self.formats.currency}" if self.formats.currency else ""
        return f"cost{currency} (negative: profit)"

    def worst(self, cost: float) -> str:
        """An upper bound on a cost, in a sentence."""
        if not self.is_portfolio:
            return self.formats.worst(cost)
        return f"a risk-adjusted loss of at most {self.formats.score(cost)}"

    def mean(self, cost: float) -> str:
        """A mean cost, in a sentence."""
        if not self.is_portfolio:
            return self.formats.mean(cost)
        return f"a risk-adjusted loss of {self.formats.score(cost)}"

    @property
    def explanation(self) -> str:
        """What a cost is, where that does not say itself."""
        if isinstance(self.loss, CVaRPortfolio):
            return (
                f"The risk-adjusted loss is the mean loss plus {self.loss.risk_aversion:g} times "
                f"the mean loss in the worst {100 * self.loss.tail:g}% of outcomes."
            )
        if self.in_data_units:
            return "Amounts are averages for one row of the data: one day, or one week."
        return "Costs are in the units of your loss, averaged over rows of the data."


@dataclass(frozen=True)
class Promise:
    """What a method's bound on the cost holds for.

    Attributes
    ----------
    robust : bool
        Whether it is a worst case, over more than one distribution.
    clause : str
        What follows "... on average for the new source, ".
    """

    robust: bool
    clause: str

    @property
    def opening(self) -> str:
        """How the sentence begins."""
        return "At worst" if self.robust else "Expected"

    def bound(self, words: Words, cost: float) -> str:
        """The cost that is promised: a bound, or a mean where there is one distribution only."""
        return words.worst(cost) if self.robust else words.mean(cost)


def promise(model: DecisionMaker) -> Promise:
    """What the bound of a fitted method holds for.

    Examples
    --------
    >>> from roodso.datasets import make_newsvendor_sources
    >>> shops = make_newsvendor_sources(6, 30, random_state=0)
    >>> loss = Newsvendor(price=[50, 40], cost=[20, 15])
    >>> promise(SAA(loss).fit(shops)).clause
    'provided that it is like all your rows together'
    >>> promise(RooDSO(loss, random_state=0).fit(shops)).clause
    'whichever distribution it follows in the set learned from your 6 sources'
    """
    if isinstance(model, RooDSO):
        return _of_set(model)
    if isinstance(model, ConvexHullDRO):
        count = len(model.solution_.labels)
        cap = 1.0 if model.tail is None else min(1.0, 1.0 / (model.tail * count))
        return Promise(True, f"whichever {_mixtures('mixture', count, cap)} it turns out to be")
    fixed = {
        SAA: (False, "provided that it is like all your rows together"),
        BarycenterSAA: (False, "provided that it is like the barycentre of your sources"),
        WassersteinDRO: (True, "whichever distribution near that of all your rows it follows"),
        IntersectionDRO: (True, "whichever distribution near every source at once it follows"),
    }
    for kind, (robust, clause) in fixed.items():
        if isinstance(model, kind):
            return Promise(robust, clause)
    return Promise(True, f"whichever distribution in the set of {type(model).__name__} it follows")


def _of_set(model: RooDSO) -> Promise:
    known: UncertaintySet = model.uncertainty_set_
    count = len(known.labels)
    if known.n_anchors > 1:
        return Promise(True, _of_mixtures(known))
    if known.radius == 0.0 and known.n_anchors == 1:
        return Promise(False, "provided that it is like the average of your sources")
    if isinstance(model.set_learner_, ConformalBall):
        made = f"calibrated on some of your {count} sources"
    else:
        made = f"learned from your {count} sources"
    return Promise(True, f"whichever distribution it follows in the set {made}")


def _of_mixtures(known: UncertaintySet) -> str:
    some = "" if known.n_anchors == len(known.labels) else f"{known.n_anchors} of "
    kind = _mixtures("mixtures", len(known.labels), known.cap, some)
    if known.radius > 0.0:
        kind += f", thickened by {known.radius:.3g}"
    return f"whichever distribution it follows among the {kind}"


def _mixtures(noun: str, count: int, cap: float, some: str = "") -> str:
    limit = f" (none of them with more than {share(cap, 0)})" if cap < 1.0 else ""
    return f"{noun} of {some}your {count} sources{limit}"


def named_source(label: object, noun: str = "") -> str:
    """A source's name in a sentence: a bare number says nothing without the name of its column.

    Examples
    --------
    >>> named_source(4, "store"), named_source("shop 4", "shop"), named_source("north", "shop")
    ('store 4', 'shop 4', 'north')
    """
    text = str(label)
    bare = text.replace(".", "", 1).isdigit()
    return f"{noun} {text}".strip() if bare else text


def sentence(text: str) -> str:
    """With a capital, where a name or a setting stands first.

    Examples
    --------
    >>> sentence("cost in EUR")
    'Cost in EUR'
    """
    return text[:1].upper() + text[1:]


def listed(names: Sequence[object], most: int = 8) -> str:
    """Names in a sentence.

    Examples
    --------
    >>> listed(["a", "b", "c"]), listed(["a", "b", "c", "d"], most=2)
    ('a, b and c', 'a, b and 2 more')
    """
    shown = [str(name) for name in names[:most]]
    if len(names) > most:
        shown.append(f"{len(names) - most} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
