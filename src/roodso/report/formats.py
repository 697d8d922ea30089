"""Money, quantities and costs in words. Negative costs are said as profit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roodso.losses import CVaRPortfolio, Newsvendor
from roodso.losses.base import Loss

__all__ = ["Formats", "Words", "listed", "number", "share"]


@dataclass(frozen=True)
class Formats:
    """How money and quantities are written.

    Parameters
    ----------
    currency : str
        A sign of one character stands before the amount, a word after it.
    unit : str
        What is counted: "loaves".

    Examples
    --------
    >>> formats = Formats("EUR", "pieces")
    >>> formats.money(1234.5), formats.quantity(12.0), formats.worst(-43.8)
    ('1,234.50 EUR', '12 pieces', 'a profit of at least 43.80 EUR')
    """

    currency: str = ""
    unit: str = ""

    def money(self, amount: float) -> str:
        """An amount of money."""
        text = _decimal(abs(amount), 2)
        minus = "\N{MINUS SIGN}" if amount < 0 and float(text.replace(",", "")) != 0 else ""
        if not self.currency:
            return minus + text
        if len(self.currency) == 1:
            return f"{minus}{self.currency}{text}"
        return f"{minus}{text} {self.currency}"

    def quantity(self, amount: float) -> str:
        """A quantity with its unit."""
        text = number(amount)
        return f"{text} {self.unit}" if self.unit else text

    def worst(self, cost: float) -> str:
        """An upper bound on a cost."""
        if cost < 0:
            return f"a profit of at least {self.money(-cost)}"
        return f"a cost of at most {self.money(cost)}"

    def mean(self, cost: float) -> str:
        """A mean cost."""
        return f"a profit of {self.money(-cost)}" if cost < 0 else f"a cost of {self.money(cost)}"


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
    ('portfolio', '25.0 %', '1.32 %')
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
        return share(part, 1) if self.is_portfolio else number(part)

    def datum(self, value: float) -> str:
        """A value of the data, without its unit; returns are fractions where no unit is given."""
        if self.is_portfolio and not self.formats.unit:
            return share(value, 2)
        return number(value)

    def spoken(self, value: float) -> str:
        """A value of the data in a sentence."""
        if self.is_portfolio and not self.formats.unit:
            return share(value, 2)
        return self.formats.quantity(value)

    def cost(self, cost: float) -> str:
        """A cost as a number of a table, not as a profit."""
        return _score(cost) if self.is_portfolio else self.formats.money(cost)

    @property
    def costs(self) -> str:
        """What the numbers of `cost` are."""
        return "risk-adjusted loss" if self.is_portfolio else "cost (negative: profit)"

    def worst(self, cost: float) -> str:
        """An upper bound on a cost, in a sentence."""
        if not self.is_portfolio:
            return self.formats.worst(cost)
        return f"a risk-adjusted loss of at most {_score(cost)}"

    def mean(self, cost: float) -> str:
        """A mean cost, in a sentence."""
        if not self.is_portfolio:
            return self.formats.mean(cost)
        return f"a risk-adjusted loss of {_score(cost)}"

    @property
    def explanation(self) -> str:
        """What a cost is, where that does not say itself."""
        if isinstance(self.loss, CVaRPortfolio):
            return (
                f"The risk-adjusted loss is the mean loss plus {self.loss.risk_aversion:g} times "
                f"the mean loss in the worst {100 * self.loss.tail:g} % of outcomes."
            )
        if self.in_data_units:
            return "Amounts are averages for one row of the data: one day, or one week."
        return "Costs are in the units of your loss, averaged over rows of the data."


def number(amount: float) -> str:
    """A whole number without decimals, any other with two.

    Examples
    --------
    >>> number(1200.0), number(-0.5), number(0.0)
    ('1,200', '−0.50', '0')
    """
    text = f"{amount + 0.0:,.0f}" if amount == round(amount) else _decimal(amount, 2)
    return text.replace("-", "\N{MINUS SIGN}", 1) if amount < 0 else text


def share(fraction: float, places: int) -> str:
    """A share as a percentage.

    Examples
    --------
    >>> share(0.125, 1), share(-0.00001, 1)
    ('12.5 %', '0.0 %')
    """
    text = f"{100 * fraction:.{places}f}"
    if float(text) == 0.0:
        text = text.lstrip("-")
    return text.replace("-", "\N{MINUS SIGN}") + " %"


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


def _score(cost: float) -> str:
    return f"{cost:.4g}".replace("-", "\N{MINUS SIGN}", 1) if cost < 0 else f"{cost:.4g}"


def _decimal(amount: float, places: int) -> str:
    """A number with thousands separated; small ones keep three digits.

    Examples
    --------
    >>> _decimal(1234.567, 2), _decimal(0.0012345, 2), _decimal(0.0, 2)
    ('1,234.57', '0.00123', '0.00')
    """
    if amount != 0 and abs(amount) < 10.0 ** (1 - places):
        return f"{amount:.3g}"
    return f"{amount:,.{places}f}"
