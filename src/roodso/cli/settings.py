"""All settings of the command line, each defined once.

From this list come the flags, the keys of the problem file, the file that ``roodso init`` writes
and the reference page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from roodso.cli.values import amounts_of, names_of, number_of
from roodso.planner.errors import ProblemError
from roodso.planner.table import LAYOUTS, MISSING, NEGATIVE

__all__ = ["CRITERIA", "METHODS", "SECTIONS", "SETTINGS", "Setting", "merged", "settings_of"]

SETS = ("ball", "hull", "thick")
METHODS = ("rood", "conformal", "thick", "saa", "hull", "wasserstein", "barycenter", "intersection")
CRITERIA = ("mean", "worst", "cvar", "regret", "worst regret")

#: Sections of the problem file and panels of the help, in order, with what they are about.
SECTIONS = {
    "data": "The table: one row a day (week, month) and source, one column an item.",
    "newsvendor": "What a unit brings and costs: one number for all items, or one for each.",
    "portfolio": "What is feared: the mean of the worst outcomes, weighed against the mean return.",
    "decision": "What orders (or weights) are possible.",
    "method": "How to decide.",
    "output": "What to show and where to write it.",
    "run": "",
}


@dataclass(frozen=True)
class Setting:
    """One setting.

    Attributes
    ----------
    name : str
        Key in the problem file; with ``no`` the flag's name differs from it.
    section : str
        One of `SECTIONS`.
    help : str
    kind : {"text", "path", "number", "level", "whole", "switch", "names", "amounts", "texts"}
        A level is a number or one of the choices.
    default : object
        Taken where neither flag nor file says anything.
    choices : tuple of str
    example : str
        TOML for the file that ``roodso init`` writes; empty leaves the key out of it.
    active : bool
        Whether the example stands in that file, or in a comment.
    flag : str
        By default ``--name``.
    problems : tuple of str
        The kinds of problem it is for.
    """

    name: str
    section: str
    help: str
    kind: str = "text"
    default: Any = None
    choices: tuple[str, ...] = ()
    example: str = ""
    active: bool = False
    flag: str = ""
    problems: tuple[str, ...] = ("newsvendor", "portfolio")

    @property
    def option(self) -> str:
        """The flag."""
        return self.flag or "--" + self.name.replace("_", "-")

    def checked(self, value: Any) -> Any:
        """The value in its one form, from a flag or from TOML; says what is accepted."""
        return _CHECKS[self.kind](self, value)


def _text(setting: Setting, value: Any) -> str:
    if not isinstance(value, str):
        raise ProblemError(f"{setting.name} must be text in quotation marks, got {value!r}")
    if setting.choices and value not in setting.choices:
        raise ProblemError(
            f"{setting.name} must be one of {', '.join(setting.choices)}, got {value!r}"
        )
    return value


def _path(setting: Setting, value: Any) -> str:
    text = _text(setting, value)
    if not text or "\0" in text:
        raise ProblemError(f"{setting.name} must be the path of a file, got {text!r}")
    return text


def _number(setting: Setting, value: Any) -> float:
    if isinstance(value, str):
        raise ProblemError(f"{setting.name} must be a number without quotes, got {value!r}")
    return number_of(value, setting.name)


def _level(setting: Setting, value: Any) -> float | str:
    if value in setting.choices:
        return str(value)
    try:
        return number_of(value, setting.name)
    except ProblemError:
        words = ", ".join(setting.choices)
        raise ProblemError(
            f"{setting.name} must be a number or one of {words}, got {value!r}"
        ) from None


def _whole(setting: Setting, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise ProblemError(f"{setting.name} must be a whole number, got {value!r}")
    if abs(value) >= 2**63:
        raise ProblemError(f"{setting.name} must be a whole number below 2^63, got {value!r}")
    return value


def _switch(setting: Setting, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ProblemError(f"{setting.name} must be true or false, got {value!r}")
    return value


def _texts(setting: Setting, value: Any) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
        raise ProblemError(
            f"{setting.name} must be texts, got {value!r}", remedy='write them like ["a <= 5"]'
        )
    return value


_CHECKS: dict[str, Callable[[Setting, Any], Any]] = {
    "text": _text,
    "path": _path,
    "number": _number,
    "level": _level,
    "whole": _whole,
    "switch": _switch,
    "names": lambda setting, value: names_of(value, setting.name),
    "amounts": lambda setting, value: amounts_of(value, setting.name),
    "texts": _texts,
}

_NEWS, _PORT = ("newsvendor",), ("portfolio",)

_ALL = [
    Setting("file", "data", "The table: CSV, Parquet or Excel; - is the standard input.", "path",
            example='"sales.csv"', active=True),
    Setting("source", "data", "Column that names the source (shop, region, fund family) of a row.",
            example='"shop"', active=True),
    Setting("items", "data", "What is ordered: columns of the table, separated by commas.", "names",
            example='["loaves", "rolls"]', active=True, problems=_NEWS),
    Setting("assets", "data", "What is held: columns of returns, separated by commas.", "names",
            example='["stocks", "bonds"]', active=True, problems=_PORT),
    Setting("layout", "data", "wide: a column an item; long: columns item and value.",
            default="auto", choices=LAYOUTS, example='"wide"'),
    Setting("item", "data", "Long layout: the column that names the item.", example='"item"'),
    Setting("value", "data", "Long layout: the column of the amounts.", example='"sold"'),
    Setting("row", "data", "Long layout: the column that says what was observed together (a date).",
            example='"date"'),
    Setting("missing", "data", "Rows with a missing entry: refuse the table, or leave them out.",
            default="error", choices=MISSING, example='"error"'),
    Setting("negative", "data", "Entries below 0 (returned goods): keep, count as 0, leave the row "
            "out, or refuse.", default="keep", choices=NEGATIVE, example='"keep"', problems=_NEWS),
    Setting("decimal", "data", "The decimal sign, where the table leaves it open.",
            choices=(".", ","), example='"."'),
    Setting("delimiter", "data", "What separates cells of a text table; 'tab' for a tab.",
            example='";"'),
    Setting("sheet", "data", "Sheet of an Excel file.", example='"Sheet1"'),
    Setting("price", "newsvendor", "What a unit sold brings.", "amounts", example="[50, 40]",
            active=True, problems=_NEWS),
    Setting("cost", "newsvendor", "What a unit ordered costs.", "amounts", example="[20, 15]",
            active=True, problems=_NEWS),
    Setting("holding", "newsvendor", "What a unit left over costs besides; below 0 where it can be "
            "sold off.", "amounts", 0.0, example="[5, 3]", active=True, problems=_NEWS),
    Setting("backorder", "newsvendor", "What a unit of demand not met costs besides the sale lost.",
            "amounts", 0.0, example="[10, 8]", active=True, problems=_NEWS),
    Setting("risk_aversion", "portfolio", "Weight of the worst outcomes against the mean return.",
            "number", 10.0, example="10.0", active=True, problems=_PORT),
    Setting("tail", "portfolio", "Share of outcomes that counts as the worst.", "number", 0.2,
            example="0.2", active=True, problems=_PORT),
    Setting("lower", "decision", "Least amounts.", "amounts", 0.0, example="0"),
    Setting("upper", "decision", "Largest amounts.", "amounts", example="500", problems=_NEWS),
    Setting("upper", "decision", "Largest weights.", "amounts", 1.0, example="0.5", problems=_PORT),
    Setting("constraints", "decision", 'Side constraint, such as "a + 2 * b <= 300"; may be given '
            "again.", "texts", [], example='["loaves + rolls <= 300"]', flag="--constraint"),
    Setting("integer", "decision", "Order whole numbers; the certified worst case decides between "
            "neighbours.", "switch", False, example="true", problems=_NEWS),
    Setting("pack_size", "decision", "Units in a pack; implies --integer.", "amounts",
            example="{ loaves = 6, rolls = 12 }", problems=_NEWS),
    Setting("set", "method", "The distributions to guard against: the ball around the sources, as "
            "in the paper; the mixtures of sources (hull); these and what is near one (thick), "
            "which is ours. Short for --method rood, hull or thick.",
            choices=SETS, example='"ball"'),
    Setting("method", "method", "How to decide, the paper's rivals included; see `roodso compare`.",
            default="rood", choices=METHODS, example='"rood"'),
    Setting("nu", "method", "Conservatism: the share of sources that may lie outside the set. Of "
            "a calibrated set: the share of new sources that it may miss.",
            "number", 0.2, example="0.2"),
    Setting("thickness", "method", "Set thick: how far from a mixture of sources the new one may "
            "lie, from 0 to about 1.4; or how it is calibrated on sources held back.", "level", 0.1,
            choices=("split", "leave-one-out"), example="0.1"),
    Setting("source_tail", "method", "Sets hull and thick: the share of the sources that counts as "
            "the worst; without it, the worst source alone may.", "number", example="0.2"),
    Setting("auto", "method", "Choose the set's settings by what they cost on sources held out.",
            "switch", False, example="true"),
    Setting("criterion", "method", "What --auto looks at.", default="mean", choices=CRITERIA,
            example='"mean"'),
    Setting("support_points", "method", "Points drawn in the data's box besides the samples, where "
            "the worst case may lie as well.", "whole", 200, example="200"),
    Setting("scale", "method", "Compare columns by their own spread.", "switch", True,
            example="true"),
    Setting("seed", "method", "Of what is drawn at random; same seed, same answer.", "whole", 0,
            example="0"),
    Setting("jobs", "method", "Threads; all cores by default. It changes no result.", "whole",
            example="2"),
    Setting("currency", "output", "How money is written.", default="", example='"EUR"'),
    Setting("unit", "output", "How quantities are written.", default="", example='"pieces"',
            problems=_NEWS),
    Setting("target_note", "output", "A word on what is decided for; stands in report and JSON.",
            default="", example='"the shop at the station"'),
    Setting("report", "output", "Write a page for people (HTML).", "path",
            example='"report.html"'),
    Setting("json", "output", "Write everything for machines; - is the standard output.", "path",
            example='"result.json"'),
    Setting("table", "output", "Write the decision as a table (CSV); - is the standard output.",
            "path", example='"order.csv"'),
    Setting("force", "output", "Replace files that exist.", "switch", False),
    Setting("quiet", "output", "Print the bare decision only.", "switch", False),
    Setting("problem", "run", "A problem file (TOML) as `roodso init` writes it; flags go before "
            "it.", "path"),
    Setting("debug", "run", "Show the traceback of an error.", "switch", False),
]  # fmt: skip

SETTINGS: dict[str, dict[str, Setting]] = {
    problem: {setting.name: setting for setting in _ALL if problem in setting.problems}
    for problem in ("newsvendor", "portfolio")
}


def settings_of(problem: str, sections: Iterable[str], but: Iterable[str] = ()) -> list[Setting]:
    """The settings of some sections for a kind of problem, in order."""
    return [
        setting
        for setting in SETTINGS[problem].values()
        if setting.section in tuple(sections) and setting.name not in tuple(but)
    ]


def merged(
    settings: Iterable[Setting], given: Mapping[str, Any], stored: Mapping[str, Any]
) -> dict[str, Any]:
    """Values of settings: from the flags, else from the problem file, else the default.

    Parameters
    ----------
    settings : iterable of Setting
    given : mapping
        Flags by name; None where not given.
    stored : mapping
        From the problem file, checked already.
    """
    values: dict[str, Any] = {}
    for setting in settings:
        flag = given.get(setting.name)
        if flag is not None and flag != []:
            values[setting.name] = setting.checked(flag)
        elif setting.name in stored:
            values[setting.name] = stored[setting.name]
        else:
            values[setting.name] = setting.default
    return values


def resolved_paths(values: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Values of a problem file with its paths taken from where the file is."""
    paths = {setting.name for setting in _ALL if setting.kind == "path"}
    return {
        name: str(folder / value) if name in paths and value != "-" else value
        for name, value in values.items()
    }
