"""What all pictures share: axes to draw on, and text that is drawn as it is."""

from __future__ import annotations

import unicodedata
from typing import Any

__all__ = ["axes_or_new", "literal", "printable"]

#: Longer names would leave no room for the picture.
_LONGEST = 24


def axes_or_new(ax: Any = None) -> Any:
    """The axes given, or those of a new figure."""
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'roodso[plot]'") from None
    return plt.subplots(layout="constrained")[1]


def literal(text: object, longest: int = _LONGEST) -> str:
    r"""Text of the user's as matplotlib shows it unchanged, on one line and shortened.

    Between two dollars would be a formula.

    Examples
    --------
    >>> print(literal("$5 or\n$10"))
    \$5 or \$10
    """
    line = " ".join(printable(text).split())
    if len(line) > longest:
        line = line[: longest - 1] + "\N{HORIZONTAL ELLIPSIS}"
    return line.replace("$", r"\$")


def printable(text: object) -> str:
    r"""Text with what no document may hold replaced: control characters and lone surrogates.

    Examples
    --------
    >>> printable("bread\x00 \ud800<&>") == "bread\ufffd \ufffd<&>"
    True
    """
    return "".join("\ufffd" if _forbidden(character) else character for character in str(text))


def _forbidden(character: str) -> bool:
    if character in "\t\n\r":
        return False
    return unicodedata.category(character) in ("Cc", "Cs") or character in "\ufffe\uffff"
