r"""Linear constraints as people write them: ``a + 2 * 'brown bread' <= 300``.

.. code-block:: text

    constraint := sum (relation sum)+            relation := <= | >= | = | ==
    sum        := [+ -] product ((+ | -) product)*
    product    := atom (* atom | / atom | atom)*  a number before a name multiplies it
    atom       := number | name | 'any name' | "any name" | ( sum )

Every part is a linear form :math:`c_0 + \sum_j c_j x_j`; a product needs a constant on one side.

Where constraints and bounds exclude each other, a deletion filter names a smallest set of them that
does: each in turn is left out, and stays out if the rest is still impossible. What remains is
impossible together and possible without any one of its members.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from roodso._typing import Array
from roodso.planner.errors import ProblemError, nearest
from roodso.planner.reading import clean_name

__all__ = ["Constraints", "Row", "conflict", "parse_constraint", "parse_constraints"]

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<quoted>'[^']*'|"[^"]*")
      | (?P<relation><=|>=|==|=|≤|≥)
      | (?P<sign>[-+*/()\u2212\u00b7\u00d7])
      | (?P<name>[^\W\d]\w*)
      | (?P<strict>[<>])
    )""",
    re.VERBOSE,
)
_PLAIN = {"==": "=", "≤": "<=", "≥": ">=", "\u2212": "-", "\u00b7": "*", "\u00d7": "*"}
_DEEPEST = 50


@dataclass(frozen=True)
class Row:
    """One requirement: coefficients @ x <= right, or = right.

    Attributes
    ----------
    coefficients : ndarray of shape (d,)
    right : float
    equality : bool
    text : str
        As the user wrote it, for messages.
    """

    coefficients: Array
    right: float
    equality: bool
    text: str


@dataclass(frozen=True)
class Constraints:
    """All requirements on a decision besides its bounds."""

    rows: tuple[Row, ...] = ()

    def inequalities(self, width: int) -> tuple[Array, Array]:
        """A and b of A @ x <= b; an equality is two of its rows."""
        A, b = [np.zeros((0, width))], [np.zeros(0)]
        for row in self.rows:
            A.append(row.coefficients[None, :])
            b.append(np.array([row.right]))
            if row.equality:
                A.append(-row.coefficients[None, :])
                b.append(np.array([-row.right]))
        return np.vstack(A), np.concatenate(b)

    def violated(self, x: Array, tolerance: float = 1e-6) -> list[str]:
        """The texts of the requirements that ``x`` does not meet."""
        missed = []
        for row in self.rows:
            excess = float(row.coefficients @ x) - row.right
            excess = abs(excess) if row.equality else excess
            if excess > tolerance * (1.0 + abs(row.right)):
                missed.append(row.text)
        return missed


def parse_constraints(texts: Sequence[str], items: Sequence[str]) -> Constraints:
    """Parse all constraints; see `parse_constraint`."""
    return Constraints(tuple(row for text in texts for row in parse_constraint(text, items)))


def parse_constraint(text: str, items: Sequence[str]) -> list[Row]:
    """Parse one constraint, or a chain such as ``10 <= a + b <= 300``.

    Parameters
    ----------
    text : str
    items : sequence of str
        The names that may appear.

    Returns
    -------
    list of Row
        One for each relation.

    Examples
    --------
    >>> row = parse_constraint("2a + 'brown bread' <= 300 - a", ["a", "brown bread"])[0]
    >>> row.coefficients.tolist(), row.right
    ([3.0, 1.0], 300.0)
    """
    if len(text) > 10_000:
        raise ProblemError("a constraint is longer than 10,000 characters", remedy="split it")
    parser = _Parser(text, [clean_name(name) for name in items])
    sides, relations = [parser.sum()], []
    while parser.kind == "relation":
        relations.append(parser.take())
        sides.append(parser.sum())
    if not relations or parser.kind != "end":
        raise parser.unexpected("<=, >= or =" if not relations else "the end")
    rows = []
    for relation, left, right in zip(relations, sides, sides[1:], strict=False):
        form = right - left if relation == ">=" else left - right
        if not np.isfinite(form).all():
            raise ProblemError(f"constraint {text!r} has a number that is too large")
        if not form[1:].any():
            raise ProblemError(
                f"constraint {text!r} does not restrict any item",
                cause="no name is left in it" if len(relations) == 1 else "one part has no name",
                remedy=f"use the items' names: {', '.join(map(repr, items))}",
            )
        rows.append(Row(form[1:], 0.0 - float(form[0]), relation == "=", text.strip()))
    return rows


class _Parser:
    """Recursive descent; a linear form is an array (constant, coefficients)."""

    def __init__(self, text: str, items: list[str]) -> None:
        self.text = text
        self.items = items
        self.place = 0
        self.depth = 0
        self.advance()

    def advance(self) -> None:
        """Read the next token into ``kind`` and ``token``."""
        self.start = self.place
        match = _TOKEN.match(self.text, self.place)
        if match is None:
            if self.text[self.place :].strip():
                raise self.unexpected("a number, a name or a sign")
            self.kind, self.token = "end", ""
            return
        self.kind = str(match.lastgroup)
        self.token = _PLAIN.get(match[self.kind], match[self.kind])
        self.place = match.end()
        if self.kind == "strict":
            raise ProblemError(
                f"constraint {self.text!r} uses {self.token}",
                cause="an optimum need not exist with strict inequalities",
                remedy=f"write {self.token}= instead",
            )

    def take(self) -> str:
        """The present token; moves on."""
        token = self.token
        self.advance()
        return token

    def unexpected(self, wanted: str) -> ProblemError:
        """What to say where something else should be."""
        rest = self.text[self.start :].strip()
        found = f"{rest[:20]!r}" if rest else "the end"
        return ProblemError(
            f"constraint {self.text!r} is not understood",
            cause=f"{wanted} should be where {found} is",
            remedy="write it like: a + 2 * b <= 300, with names that hold blanks or signs in "
            "quotation marks: 'brown bread' + rolls <= 300",
        )

    def sum(self) -> Array:
        """Sum := [sign] product (sign product)*."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ProblemError(f"constraint {self.text!r} has too many brackets in one another")
        total = np.zeros(len(self.items) + 1)
        sign = 1.0
        while self.token in ("+", "-") and self.kind == "sign":
            sign = -sign if self.take() == "-" else sign
        total += sign * self.product()
        while self.kind == "sign" and self.token in ("+", "-"):
            sign = -1.0 if self.take() == "-" else 1.0
            total += sign * self.product()
        self.depth -= 1
        return total

    def product(self) -> Array:
        """Product := atom (* atom | / atom | atom)*."""
        form = self.atom()
        while True:
            if self.kind == "sign" and self.token == "*":
                self.take()
                form = self.times(form, self.atom())
            elif self.kind == "sign" and self.token == "/":
                self.take()
                divisor = self.atom()
                if divisor[1:].any() or divisor[0] == 0.0:
                    raise self.not_linear("divide by numbers other than 0 only")
                form = form / divisor[0]
            elif self.kind in ("name", "quoted", "number") or self.token == "(":
                if form[1:].any():
                    raise self.unexpected("a sign such as + or *")
                form = self.times(form, self.atom())
            else:
                return form

    def times(self, left: Array, right: Array) -> Array:
        """A product, linear if one side is a constant."""
        if left[1:].any() and right[1:].any():
            raise self.not_linear("multiply items by numbers only")
        if right[1:].any():
            left, right = right, left
        with np.errstate(over="ignore", invalid="ignore"):
            return left * right[0]

    def not_linear(self, remedy: str) -> ProblemError:
        return ProblemError(f"constraint {self.text!r} is not linear", remedy=remedy)

    def atom(self) -> Array:
        """Atom := number | name | (sum)."""
        form = np.zeros(len(self.items) + 1)
        if self.kind == "number":
            form[0] = float(self.take())
            if not math.isfinite(form[0]):
                raise ProblemError(f"constraint {self.text!r} has a number that is too large")
            return form
        if self.kind in ("name", "quoted"):
            name = clean_name(self.token[1:-1] if self.kind == "quoted" else self.token)
            if name not in self.items:
                raise ProblemError(
                    f"constraint {self.text!r} names {name!r}, which is no item",
                    remedy=nearest(name, self.items),
                )
            self.take()
            form[1 + self.items.index(name)] = 1.0
            return form
        if self.kind == "sign" and self.token == "(":
            self.take()
            form = self.sum()
            if self.token != ")":
                raise self.unexpected("a closing bracket")
            self.take()
            return form
        raise self.unexpected("a number or a name")


def conflict(rows: Sequence[Row], width: int) -> list[str]:
    """Which of some requirements exclude each other; none where they do not.

    Parameters
    ----------
    rows : sequence of Row
        All of them, bounds as well.
    width : int
        d.

    Returns
    -------
    list of str
        The texts of a set that is impossible, and possible without any one of them.

    Examples
    --------
    >>> rows = [row for text in ("a >= 5", "b >= 1", "a + b <= 4") for row in
    ...         parse_constraint(text, ["a", "b"])]
    >>> conflict([*rows, *parse_constraint("b >= 0", ["a", "b"])], 2)
    ['a >= 5', 'a + b <= 4', 'b >= 0']
    """
    if _possible(rows, width):
        return []
    needed = list(rows)
    for row in rows:
        fewer = [other for other in needed if other is not row]
        if not _possible(fewer, width):
            needed = fewer
    return list(dict.fromkeys(row.text for row in needed))


def _possible(rows: Sequence[Row], width: int) -> bool:
    """Whether some x meets all rows, each scaled to a largest coefficient of one."""
    upper = [_scaled(row) for row in rows if not row.equality]
    equal = [_scaled(row) for row in rows if row.equality]
    result = linprog(
        np.zeros(width),
        A_ub=np.array([form[:-1] for form in upper]) if upper else None,
        b_ub=np.array([form[-1] for form in upper]) if upper else None,
        A_eq=np.array([form[:-1] for form in equal]) if equal else None,
        b_eq=np.array([form[-1] for form in equal]) if equal else None,
        bounds=(None, None),
    )
    return bool(result.status != 2)


def _scaled(row: Row) -> Array:
    size = np.abs(row.coefficients).max()
    return np.append(row.coefficients, row.right) / (size if size > 0 else 1.0)
