"""From a matplotlib figure to SVG that is part of the page: its colours, its font, its contrast.

The drawing is made with colours that stand for places in the page's palette; here they are replaced
by CSS variables, so that the page's light and dark colours apply. Text stays text, in the page's
font. Equal figures give equal SVG, byte for byte: identifiers come from a fixed salt and nothing
says when it was made. Identifiers get a prefix, since several figures share a page.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from xml.etree import ElementTree as ET

from matplotlib import rc_context, rcdefaults, rcParams
from matplotlib.figure import Figure

from roodso.plots._axes import printable

__all__ = ["as_svg", "figure", "palette"]

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
#: What stands for a colour while drawing, and the variable that replaces it.
_INK, _FAINT = "#010101", "#020202"
_CYCLE = [f"#0a000{place}" for place in range(6)]
_VARIABLES = {
    _INK: "var(--ink)",
    _FAINT: "var(--faint)",
    "#999999": "var(--neutral)",
    **{color: f"var(--c{place})" for place, color in enumerate(_CYCLE)},
}
_COLOR = re.compile("|".join(_VARIABLES))
#: The shorthand of older matplotlib, and the family of newer: the page's font replaces both.
_FONT, _FAMILY = re.compile(r"font: ([\d.]+px)[^;]*"), re.compile(r"font-family: [^;]*;? ?")
_REFERENCE = re.compile(r"url\(#([^)]*)\)")
#: CSS pixels of the page for one point of the drawing, at the widest.
_SCALE = 1.5

_SETTINGS = {
    "axes.edgecolor": _FAINT,
    "axes.facecolor": "none",
    "axes.labelcolor": _INK,
    "axes.prop_cycle": f"cycler(color={_CYCLE})",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.facecolor": "none",
    "font.family": "DejaVu Sans",
    "font.size": 10.0,
    "legend.fontsize": 9.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "roodso",
    "text.color": _INK,
    "xtick.color": _FAINT,
    "xtick.labelcolor": _INK,
    "ytick.color": _FAINT,
    "ytick.labelcolor": _INK,
}


@contextmanager
def palette() -> Iterator[None]:
    """Draw with the page's places of colour, whatever style the user has set."""
    with rc_context(), warnings.catch_warnings():
        # The browser draws the text, with fonts that have what matplotlib's lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        rcdefaults()
        rcParams.update(_SETTINGS)
        yield


def figure(width: float, height: float) -> Any:
    """New axes on a figure of this size in inches, known to no global state."""
    return Figure(figsize=(width, height), layout="constrained").add_subplot()


def as_svg(ax: Any, name: str, title: str, description: str) -> str:
    """The figure of these axes as SVG for the page; call it within `palette`.

    Parameters
    ----------
    ax : matplotlib Axes
    name : str
        Prefix of all identifiers: lower-case letters.
    title, description : str
        Read out instead of the picture.
    """
    stream = io.BytesIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    ax.figure.savefig(stream, format="svg", metadata=nothing)
    root = ET.fromstring(stream.getvalue())
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in (f"{{{_SVG}}}metadata", f"{{{_SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        _rewrite(element, name)
    width = float(root.attrib.pop("width").removesuffix("pt"))
    del root.attrib["height"]
    root.set("style", f"max-width:{_SCALE * width:.0f}px")
    root.set("role", "img")
    root.set("aria-labelledby", f"{name}-title {name}-description")
    for place, (tag, text) in enumerate((("title", title), ("desc", description))):
        said = ET.Element(f"{{{_SVG}}}{tag}")
        said.set("id", f"{name}-{'title' if tag == 'title' else 'description'}")
        said.text = printable(text)
        root.insert(place, said)
    ET.register_namespace("", _SVG)
    return ET.tostring(root, encoding="unicode")


def _rewrite(element: ET.Element, name: str) -> None:
    """Colours, fonts and identifiers of one element; text is left alone."""
    link = element.attrib.pop(f"{{{_XLINK}}}href", None)
    if link is not None:
        element.set("href", link.replace("#", f"#{name}-", 1))
    for key, value in element.attrib.items():
        if key == "id":
            element.set(key, f"{name}-{value}")
        elif key in ("style", "fill", "stroke", "clip-path"):
            value = _COLOR.sub(lambda found: _VARIABLES[found.group()], value)
            value = _FAMILY.sub("", _FONT.sub(r"font-size: \1", value))
            element.set(key, _REFERENCE.sub(rf"url(#{name}-\1)", value))
