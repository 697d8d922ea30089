"""One HTML file that says what was decided, what it could cost at worst, and why."""

from __future__ import annotations

import base64
import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any
from uuid import uuid4

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from roodso.exceptions import SolverError
from roodso.methods import RooDSO
from roodso.methods.base import DecisionMaker
from roodso.model_selection import Comparison
from roodso.planner.formats import Formats
from roodso.plots import RobustnessPathDisplay
from roodso.plots._axes import printable
from roodso.report import sections
from roodso.report.subject import Subject
from roodso.sets import ThickenedHull

__all__ = ["build_report", "write_report"]

logger = logging.getLogger(__name__)

_THICKNESSES = (0.0, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
_NUS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def build_report(
    model: DecisionMaker,
    X: Any,
    groups: Any = None,
    *,
    decision: Any = None,
    rivals: Mapping[str, DecisionMaker] | None = None,
    comparison: Comparison | None = None,
    path: RobustnessPathDisplay | None = None,
    nus: Sequence[float] = _NUS,
    target: Any = None,
    title: str = "What to decide where no data exist yet",
    note: str | None = None,
    remarks: Sequence[str] = (),
    decision_note: str | None = None,
    command: str | None = None,
    name: str | None = None,
    source: str = "",
    currency: str = "",
    unit: str = "",
) -> str:
    """Write the page about a fitted model.

    One file that needs no network: pictures, style and script are inside, and every text from the
    data is escaped. Sections that do not apply are left out. The same arguments give the same page.

    Parameters
    ----------
    model : DecisionMaker
        Fitted: `RooDSO` or a rival.
    X, groups
        The data that it was fitted to.
    decision : sequence of length n, optional
        The decision to show where it is not the model's own: rounded to whole numbers, or one that
        the planner has in mind. Its worst case is certified anew.
    rivals : mapping of name to fitted method, optional
        Whose decisions are set beside it.
    comparison : Comparison, optional
        From `roodso.model_selection.compare`; names should be those of ``rivals`` and ``name``.
    path : RobustnessPathDisplay, optional
        The price of robustness. By default it is computed here where the model is a `RooDSO`: the
        decisions for ``nus``, or for several thicknesses of a `ThickenedHull`.
    nus : sequence of float
        Empty leaves the section out where no ``path`` is given.
    target : (m, d) table, optional
        What the new source turned out to be: says what the decisions cost there.
    title, note : str
        The page's title, and what it is about in a sentence.
    remarks : sequence of str
        What should be known of the data: rows left out, entries that are odd.
    decision_note : str, optional
        How ``decision`` came about: "in packs of 6", "the manager's own".
    command : str, optional
        The command line that made the page, to stand beside its settings.
    name : str, optional
        What the model is called; by default by its class.
    source : str, default=""
        What a source is called: "shop". It stands before names that are mere numbers.
    currency : str, default=""
        A sign of one character stands before the amounts, a word after them.
    unit : str, default=""
        What the data count: "loaves". Returns of a portfolio are percentages without it.

    Returns
    -------
    str
        HTML.

    Examples
    --------
    >>> from roodso import SAA, RooDSO
    >>> from roodso.datasets import make_newsvendor_sources
    >>> from roodso.losses import Newsvendor
    >>> shops = make_newsvendor_sources(6, 30, random_state=0)
    >>> loss = Newsvendor(price=[50, 40], cost=[20, 15])
    >>> model = RooDSO(loss, random_state=0).fit(shops)
    >>> rivals = {"pooled average": SAA(loss).fit(shops)}
    >>> page = build_report(model, shops, rivals=rivals, nus=[0.2, 0.8], currency="EUR")
    >>> page.startswith("<!DOCTYPE html>"), "a profit of at least" in page
    (True, True)
    """
    subject = Subject.checked(
        model,
        X,
        groups,
        decision=decision,
        rivals=rivals,
        comparison=comparison,
        target=target,
        remarks=remarks,
        decision_note=decision_note,
        command=command,
        source=source,
        name=name,
        formats=Formats(currency, unit, minus="\N{MINUS SIGN}"),
    )
    if path is None:
        path = _path(subject, X, groups, nus)
    style, script = (_asset(part) for part in ("style.css", "script.js"))
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    page = (
        _environment()
        .get_template("page.html")
        .render(
            title=title,
            note=note,
            style=Markup(style),
            script=Markup(script),
            script_hash=hashed,
            headline=sections.headline(subject),
            others=sections.others(subject),
            afterwards=sections.afterwards(subject),
            places=sections.places(subject),
            world=sections.world(subject),
            remarks=subject.remarks,
            price=sections.price(subject, path),
            promises=sections.promises(subject),
            reproduction=sections.reproduction(subject),
        )
    )
    return page + "\n"


def write_report(path: str | os.PathLike[str], html: str, *, overwrite: bool = False) -> None:
    """Write a page to a file, whole or not at all.

    Parameters
    ----------
    path : str or path-like
    html : str
        From `build_report`.
    overwrite : bool, default=False
        Whether an existing file may be replaced.

    Raises
    ------
    FileExistsError
        Where there is one and ``overwrite`` is False.

    Examples
    --------
    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = os.path.join(folder, "report.html")
    ...     write_report(place, "<!DOCTYPE html>")
    ...     os.listdir(folder)
    ['report.html']
    """
    target = os.path.realpath(path)  # a link stays one
    if os.path.isdir(target):
        raise IsADirectoryError(f"{target} is a directory; give the path of a file")
    content = html.encode("utf-8")
    folder, name = os.path.split(target)
    temporary = os.path.join(folder, f".{name}.{uuid4().hex}.tmp")
    try:
        with open(temporary, "xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        if overwrite:
            os.replace(temporary, target)
        else:
            _publish(temporary, target)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


def _publish(temporary: str, target: str) -> None:
    """Give a file its name; a link fails where it is taken, also by one who came between."""
    taken = f"{target} exists; pass overwrite=True to replace it"
    if os.path.exists(target):
        raise FileExistsError(taken)
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise FileExistsError(taken) from None
    except OSError:  # a file system without links
        os.replace(temporary, target)


def _path(
    subject: Subject, X: Any, groups: Any, nus: Sequence[float]
) -> RobustnessPathDisplay | None:
    """Decisions along what shapes the set, the model's own among them."""
    model = subject.model
    if not isinstance(model, RooDSO) or len(nus) == 0 or subject.sources.n_sources == 1:
        return None
    parameter, values = _dial(model, nus)
    if not values:
        return None
    try:
        return RobustnessPathDisplay.from_estimator(
            model, X, groups, parameter=parameter, values=values, held_out=False
        )
    except SolverError as error:  # the page is worth having without this section
        logger.warning("the price of caution is left out: %s", error)
        return None


def _dial(model: RooDSO, nus: Sequence[float]) -> tuple[str, list[float]]:
    """The parameter that the slider moves, and its values; none where there is none."""
    learner = model.set_learner_
    if model.uncertainty_set is None:
        return "nu", _with_own(nus, model.nu)
    if isinstance(learner, ThickenedHull) and not isinstance(learner.thickness, str):
        unit = float(np.sqrt(model.uncertainty_set_.kernel.bound))
        values = [unit * value for value in _THICKNESSES]
        return "uncertainty_set__thickness", _with_own(values, learner.thickness)
    if not hasattr(learner, "nu"):
        return "", []
    # Calibrated on m sources, a set can miss no smaller share than 1 / (m + 1).
    counted = getattr(learner, "calibration_", np.zeros(0)).sum()
    least = 1.0 / (counted + 1.0) if counted else 0.0
    allowed = [nu for nu in nus if least <= nu < 1.0]
    return "uncertainty_set__nu", _with_own(allowed, learner.nu)


def _with_own(values: Sequence[float], own: float) -> list[float]:
    return sorted({*map(float, values), float(own)})


def _asset(name: str) -> str:
    return (files("roodso.report") / "templates" / name).read_text(encoding="utf-8")


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("roodso.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalized,
    )


def _finalized(value: Any) -> Any:
    """What no HTML may hold is replaced; markup of our own passes."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
