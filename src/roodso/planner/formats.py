"""Money, quantities and shares as people write them; a negative cost is a profit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roodso._typing import Array

__all__ = ["Formats", "decimal", "share", "without_noise"]

#: Parts of a decision below this share of its largest part are rounding of the solver.
_NOISE = 1e-7


@dataclass(frozen=True)
class Formats:
    """How money and quantities are written.

    Parameters
    ----------
    currency : str
        A sign of one character stands before the amount, a word after it.
    unit : str
        What is counted: "loaves".
    minus : str
        The sign of negative amounts: a hyphen for terminals, from which numbers are copied; pages
        have the longer one.

    Examples
    --------
    >>> formats = Formats("EUR", "pieces")
    >>> formats.money(1234.5), formats.quantity(12.0), formats.worst(-43.8)
    ('1,234.50 EUR', '12 pieces', 'a profit of at least 43.80 EUR')
    """

    currency: str = ""
    unit: str = ""
    minus: str = "-"

    def money(self, amount: float) -> str:
        """An amount of money."""
        text = self.decimal(amount)
        minus, text = (self.minus, text[len(self.minus) :]) if text[0] == self.minus else ("", text)
        if len(self.currency) == 1:
            return f"{minus}{self.currency}{text}"
        return f"{minus}{text} {self.currency}".rstrip()

    def quantity(self, amount: float) -> str:
        """A quantity with its unit."""
        return f"{self.number(amount)} {self.unit}".rstrip()

    def number(self, amount: float) -> str:
        """A whole number without decimals, any other with two.

        Examples
        --------
        >>> Formats().number(1200.0), Formats().number(-0.5), Formats().number(-0.0)
        ('1,200', '-0.50', '0')
        """
        if amount == round(amount):
            return self._signed(f"{amount + 0.0:,.0f}")
        return self.decimal(amount)

    def decimal(self, amount: float, places: int = 2) -> str:
        """See `decimal`."""
        return self._signed(decimal(amount, places))

    def share(self, fraction: float, places: int) -> str:
        """See `share`."""
        return self._signed(share(fraction, places))

    def score(self, cost: float) -> str:
        """A number without a unit, to four digits."""
        return self._signed(f"{cost:#.4g}")

    def worst(self, cost: float) -> str:
        """An upper bound on a cost."""
        if cost < 0:
            return f"a profit of at least {self.money(-cost)}"
        return f"a cost of at most {self.money(cost)}"

    def mean(self, cost: float) -> str:
        """A mean cost."""
        return f"a profit of {self.money(-cost)}" if cost < 0 else f"a cost of {self.money(cost)}"

    def _signed(self, text: str) -> str:
        return self.minus + text[1:] if text[0] == "-" else text


def decimal(amount: float, places: int) -> str:
    """A number with thousands separated; small ones keep three digits.

    Examples
    --------
    >>> decimal(1234.567, 2), decimal(0.0012345, 2), decimal(-0.0, 2)
    ('1,234.57', '0.00123', '0.00')
    """
    if amount != 0 and abs(amount) < 10.0 ** (1 - places):
        return f"{amount:.3g}"
    return f"{amount + 0.0:,.{places}f}"


def share(fraction: float, places: int) -> str:
    """A share as a percentage.

    Examples
    --------
    >>> share(0.125, 1), share(-0.00001, 1)
    ('12.5%', '0.0%')
    """
    text = f"{fraction:.{places}%}"
    return text.lstrip("-") if float(text[:-1]) == 0.0 else text


def without_noise(decision: Array) -> Array:
    """A decision to be shown: what is nothing but for the solver's rounding becomes 0.

    Examples
    --------
    >>> without_noise(np.array([83.24, 5.3e-8])).tolist()
    [83.24, 0.0]
    """
    largest = float(np.abs(decision).max(initial=0.0))
    return np.where(np.abs(decision) <= _NOISE * largest, 0.0, decision)
