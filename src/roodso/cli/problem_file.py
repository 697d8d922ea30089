"""The problem file: all settings in TOML, as an alternative to flags.

A key that is not known is refused, with the nearest that is, for a misspelt setting that is
silently left out would cost money.
"""

from __future__ import annotations

import shlex
import textwrap
import tomllib
from pathlib import Path
from typing import Any

from roodso.cli.settings import SECTIONS, SETTINGS, Setting, resolved_paths
from roodso.planner.errors import DataError, ProblemError, nearest

__all__ = ["read_problem", "template"]

_LARGEST = 1_000_000


def read_problem(path: str, kind: str) -> dict[str, Any]:
    """Checked values by name; paths in the file count from where it is.

    Parameters
    ----------
    path : str
    kind : {"newsvendor", "portfolio"}
        What the command is about; the file has to agree.
    """
    place = Path(path)
    try:
        content = place.read_bytes()
    except FileNotFoundError:
        raise DataError(
            f"there is no problem file {path!r}",
            remedy=f"write one by: roodso init --kind {kind} --output {shlex.quote(path)}",
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"the problem file {path!r} cannot be read", cause=reason) from None
    if len(content) > _LARGEST:
        raise ProblemError(f"{place.name} is larger than 1 MB", remedy="is it a problem file?")
    try:
        tree = tomllib.loads(content.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
        raise ProblemError(
            f"{place.name} is not well-formed TOML",
            cause=str(error) or type(error).__name__,
            remedy="see the file that `roodso init` writes",
        ) from None
    return resolved_paths(_values(tree, place.name, kind), place.parent)


def _values(tree: dict[str, Any], name: str, kind: str) -> dict[str, Any]:
    found = tree.pop("kind", kind)
    if found != kind:
        if found in SETTINGS:
            raise ProblemError(
                f"{name} is about a {found}, the command about a {kind}",
                remedy=f"say {found} instead of {kind} on the command line",
            )
        raise ProblemError(f"{name}: kind must be newsvendor or portfolio, got {found!r}")
    known = SETTINGS[kind]
    sections = [section for section in SECTIONS if _keys(kind, section)]
    values: dict[str, Any] = {}
    for section, entries in tree.items():
        if section not in sections:
            advice = nearest(section, [*sections, "kind"])
            if section in known:
                advice = f"it belongs into the section [{known[section].section}]"
            raise ProblemError(f"{name}: there is no section or key {section!r}", remedy=advice)
        if not isinstance(entries, dict):
            raise ProblemError(f"{name}: {section!r} must be a section: [{section}]")
        for key, value in entries.items():
            setting = _keys(kind, section).get(key)
            if setting is None:
                advice = nearest(key, _keys(kind, section))
                if key in known and known[key].section in sections:
                    advice = f"it belongs into the section [{known[key].section}]"
                raise ProblemError(f"{name}: there is no key {key!r} in [{section}]", remedy=advice)
            try:
                values[key] = setting.checked(value)
            except ProblemError as error:
                raise ProblemError(
                    f"{name}, [{section}]: {error.message}",
                    cause=error.cause,
                    remedy=error.remedy,
                ) from None
    return values


def _keys(kind: str, section: str) -> dict[str, Setting]:
    """What a section of the file may hold; how to run is for flags only."""
    return {
        name: setting
        for name, setting in SETTINGS[kind].items()
        if setting.section == section and setting.example
    }


def template(kind: str) -> str:
    """A commented problem file that works with the sample table."""
    noun = {"newsvendor": "order", "portfolio": "portfolio"}[kind]
    lines = [
        f"# A problem file of roodso: what {noun} to decide on, from which table.",
        f"# Use it by:  roodso decide {kind} --problem FILE.toml",
        "# Lines that begin with # are comments; those that hold a setting show another choice.",
        "# Paths count from where this file is. Flags go before what is said here.",
        "",
        f'kind = "{kind}"',
    ]
    for section, about in SECTIONS.items():
        keys = _keys(kind, section)
        if not keys:
            continue
        lines += ["", f"[{section}]", f"# {about}"]
        for name, setting in keys.items():
            text = setting.help + (
                f" One of: {', '.join(setting.choices)}." if setting.choices else ""
            )
            lines += textwrap.wrap(text, 96, initial_indent="# ", subsequent_indent="# ")
            mark = "" if setting.active else "# "
            lines.append(f"{mark}{name} = {_example(kind, setting)}")
    return "\n".join(lines) + "\n"


def _example(kind: str, setting: Setting) -> str:
    """Examples name what the sample table of the kind has."""
    if kind == "newsvendor":
        return setting.example
    other = {
        "file": '"returns.csv"',
        "source": '"family"',
        "value": '"return"',
        "constraints": '["stocks <= 0.6"]',
        "target_note": '"the new fund family"',
        "table": '"weights.csv"',
    }
    return other.get(setting.name, setting.example)
