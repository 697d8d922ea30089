"""The reference page docs/cli.md, made from the commands themselves.

``python -m roodso.cli.reference docs/cli.md`` writes it; a test refuses a page that differs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from roodso.cli.app import app
from roodso.cli.commands import EXIT_CODES, help_text
from roodso.cli.settings import SECTIONS, SETTINGS, Setting

__all__ = ["page"]

_HEAD = """\
# The command `roodso`

From a table of sales (or returns) of related places to a decision for a place without data, its
certified worst case, and what else could have been done. This page is made from the program; change
the program, then run `python -m roodso.cli.reference docs/cli.md`.

Begin in an empty folder, with a made-up table of twelve shops and a problem file to go with it:

```console
$ roodso init --sample
$ roodso init --kind portfolio --output funds.toml --sample
$ roodso decide newsvendor --problem problem.toml
```

The other examples on this page work in that folder.
"""

_HELP = """\
Every command has `--help`; `roodso --install-completion` sets up completion for the shell.
"""

_SETTINGS = """\
## Settings

Each is a flag and, in the problem file, a key of the section. Flags go before the file.
"""

_DATA = """\
## Tables

CSV (also with semicolons, tabs or bars), Parquet and Excel files are told apart by their content;
Parquet and Excel need `pip install 'roodso[io]'`. `-` is the standard input.

- **Wide**: one row a day (week, month) and source, one column an item, one column that names the
  source. **Long**: one row an entry, with columns `--item` and `--value`; `--row` names the column
  that says which entries were observed together.
- **Numbers** may have thousands separated and a decimal comma: how they were read is said. Where
  that cannot be known (`1,234` alone), the table is refused and `--decimal` decides.
- **Missing** entries are cells that are empty or hold `-`, `?`, `.`, `NA`, `N/A`, `NaN`, `null`,
  `none` or `missing`. By default the table is refused; `--missing drop` leaves these rows out.
- **Negative** demand is kept by default, with a warning; see `--negative`.
- Text in a column of numbers is refused with its row (the header is row 1) and value.

Constraints are linear: `a + 2 * b <= 300`, `10 <= a <= 50`, `a = b`, `0.5 (a + b) >= c`; names with
blanks or signs stand in quotation marks: `'brown bread' + rolls <= 300`. Where bounds and
constraints exclude each other, a smallest set of them that does is named.

Lists are separated by commas; a name that holds a comma stands in quotation marks. Amounts are
given in the items' order, by name (`--price loaves=50,rolls=40`), or once for all.
"""

_JSON = """\
## JSON

`--json FILE` (or `-`) writes one object. Its form is stable: keys may be added, none change their
meaning or go away. Costs are as the loss has them: negative ones are profit. Numbers are not
rounded; those that are not finite are `null`.

`"schema": "roodso.decision/1"` (`decide`) and `"roodso.evaluation/1"` (`evaluate`):

| key | meaning |
| --- | --- |
"""

#: Keys of a decision's JSON; a test holds this to what is written.
JSON_KEYS = {
    "schema": "name and version of this form",
    "version": "of roodso",
    "kind": "`newsvendor` or `portfolio`",
    "decision": "amount by item: what to order, or the weights",
    "worst_case": "`upper_bound`, `lower_bound`, `gap`, `status`: certified worst case of it",
    "best": "`decision` and `worst_case` of the best fractional decision",
    "method": "`name` and `parameters`",
    "worst_world": "list of `weight`, `source` (null: not seen anywhere), `amounts`",
    "nearest_mixture": "`weights` by source, `distance`, `radius`: the mixture of sources that the "
    "worst world is most like; only where a set of distributions was learned",
    "sources": "list of `name`, `rows`, `place` (inside, boundary, outside, or null)",
    "notes": "list of `level` (info, warning) and `text`",
    "settings": "the settings that were used",
    "whole": "with whole orders: `pack_size`, `orders_compared`, `loss_at_most`",
    "pooled": "`decision` and `worst_case` of the average of all rows; not in an evaluation",
}

_JSON_OTHERS = """\

`roodso inspect` writes `roodso.inspection/1` (`file`, `items`, `rows`, `radius`, `sources` with
`name`, `rows`, `missing`, `means`, `distance`, `place`, `outlying`, and `notes`); `roodso compare`
writes `roodso.comparison/1` (`kind`, `summary`, `costs`, `verdict`, `notes`); `roodso doctor
--json` writes `roodso.doctor/1` (`packages`, `cores`, `thread_pools`, `solvers`, `self_test`).
"""


def page() -> str:
    """The whole page."""
    parts = [_HEAD, "## Commands\n"]
    parts += [_command(path, found) for path, found in _commands(typer.main.get_command(app), [])]
    parts += [_HELP, _DATA, _SETTINGS]
    for section, about in SECTIONS.items():
        parts.append(_section(section, about))
    rows = "\n".join(f"| {code} | {text} |" for code, text in EXIT_CODES.items())
    parts.append(f"## Exit codes\n\n| code | meaning |\n| --- | --- |\n{rows}\n")
    keys = "\n".join(f"| `{key}` | {text} |" for key, text in JSON_KEYS.items())
    parts.append(_JSON + keys + "\n" + _JSON_OTHERS)
    return "\n".join(parts)


def _commands(found: Any, path: list[str]) -> Iterator[tuple[str, Any]]:
    """All commands with their full names, in the order registered."""
    for name, inner in getattr(found, "commands", {}).items():
        if getattr(inner, "commands", None):
            yield from _commands(inner, [*path, name])
        elif not inner.hidden:
            yield " ".join(["roodso", *path, name]), inner


def _command(path: str, found: Any) -> str:
    lines = [f"### {path}", "", str(found.help), ""]
    examples = [line for line in (found.epilog or "").split("\n\n") if line.startswith("roodso ")]
    lines += ["```console", *[f"$ {example}" for example in examples], "```", ""]
    flags = [
        "/".join([*parameter.opts, *parameter.secondary_opts])
        for parameter in found.params
        if parameter.param_type_name == "option" and "--help" not in parameter.opts
    ]
    lines += ["Flags: " + ", ".join(f"`{flag}`" for flag in flags) + ".", ""]
    own = [
        f"- `{parameter.opts[0]}`: {parameter.help}"
        for parameter in found.params
        if parameter.param_type_name == "option" and not _known(parameter.opts[0])
    ]
    own = [line for line in own if "--help" not in line]
    arguments = [
        f"- `{parameter.metavar}`: {parameter.help}"
        for parameter in found.params
        if parameter.param_type_name == "argument" and parameter.name != "file"
    ]
    own = [*arguments, *own]
    if own:
        lines += [*own, ""]
    return "\n".join(lines)


def _known(flag: str) -> bool:
    return any(
        setting.option == flag for settings in SETTINGS.values() for setting in settings.values()
    )


def _section(section: str, about: str) -> str:
    settings: dict[tuple[str, str], Setting] = {}
    for problem in SETTINGS.values():
        for setting in problem.values():
            if setting.section == section:
                settings.setdefault((setting.name, setting.help), setting)
    rows = [
        f"| {_flag(setting)} | {_key(setting)} | {_cell(help_text(setting))} |"
        for setting in settings.values()
    ]
    head = f"### {section}\n" + (f"\n{about}\n" if about else "")
    return f"{head}\n| flag | key | meaning |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n"


def _flag(setting: Setting) -> str:
    return "`DATA`" if setting.name == "file" else f"`{setting.option}`"


def _key(setting: Setting) -> str:
    """Settings that the problem file cannot hold have no key."""
    return f"`{setting.name}`" if setting.example else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
