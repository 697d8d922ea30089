"""Money and quantities as people write them; a negative cost is a profit."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Formats", "decimal"]


@dataclass(frozen=True)
class Formats:
    """How money and quantities are written.

    Examples
    --------
    >>> formats = Formats("EUR", "pieces")
    >>> formats.money(1234.5), formats.quantity(12.0), formats.worst(-43.8)
    ('1,234.50 EUR', '12 pieces', 'a profit of at least 43.80 EUR')
    """

    currency: str = ""
    unit: str = ""

    def money(self, amount: float) -> str:
        """An amount of money; signs of one character stand before it, words after."""
        text = decimal(abs(amount), 2)
        minus = "-" if amount < 0 and float(text.replace(",", "")) != 0 else ""
        if not self.currency:
            return minus + text
        if len(self.currency) == 1:
            return f"{minus}{self.currency}{text}"
        return f"{minus}{text} {self.currency}"

    def quantity(self, amount: float) -> str:
        """A quantity with its unit."""
        text = f"{amount + 0.0:,.0f}" if amount == round(amount) else decimal(amount, 2)
        return f"{text} {self.unit}" if self.unit else text

    def worst(self, cost: float) -> str:
        """A bound on the cost, in plain words."""
        if cost < 0:
            return f"a profit of at least {self.money(-cost)}"
        return f"a cost of at most {self.money(cost)}"

    def mean(self, cost: float) -> str:
        """A mean cost, in plain words."""
        return f"a profit of {self.money(-cost)}" if cost < 0 else f"a cost of {self.money(cost)}"


def decimal(amount: float, places: int) -> str:
    """A number with thousands separated; small ones keep three digits.

    Examples
    --------
    >>> decimal(1234.567, 2), decimal(0.0012345, 2), decimal(0.0, 2)
    ('1,234.57', '0.00123', '0.00')
    """
    if amount != 0 and abs(amount) < 10.0 ** (1 - places):
        return f"{amount:.3g}"
    return f"{amount:,.{places}f}"
