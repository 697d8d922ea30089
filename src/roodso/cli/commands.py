"""How a command is made of settings: its flags, its help, and errors that end in a code.

A command is a function of the values of its settings. Its signature, from which typer makes the
flags, is built from the list of settings, so that a setting is described in one place only.
"""

from __future__ import annotations

import inspect
import shlex
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer

from roodso.cli.screen import Screen
from roodso.cli.settings import SECTIONS, Setting
from roodso.exceptions import SolverError
from roodso.planner.errors import PlannerError

__all__ = ["EXIT_CODES", "command", "command_line", "epilog", "guarded"]

#: What the exit code says.
EXIT_CODES = {
    0: "all went well",
    1: "an error of the program's own, to be reported; or the reader of a pipe went away",
    2: "the command line is not understood",
    3: "the table or the problem file cannot be read or used",
    4: "the numbers of the problem, its constraints or the problem file cannot be used",
    5: "a result cannot be written",
    6: "a solver found no trustworthy answer",
    7: "an optional package is not installed",
    130: "interrupted",
}

_TYPES: dict[str, Any] = {
    "text": str | None,
    "path": str | None,
    "names": str | None,
    "amounts": str | None,
    "number": float | None,
    "level": str | None,
    "whole": int | None,
    "switch": bool | None,
    "texts": list[str] | None,
}
_METAVARS = {
    "path": "FILE",
    "names": "A,B,...",
    "amounts": "NUMBERS",
    "number": "NUMBER",
    "level": "NUMBER",
    "whole": "NUMBER",
}
#: Switches that a problem file can turn on, so that a flag has to be able to turn them off.
_TWO_WAY = ("scale", "auto", "integer")


def command(
    app: typer.Typer,
    name: str,
    settings: Sequence[Setting],
    *,
    examples: Sequence[str] = (),
    hidden: bool = False,
) -> Callable[[Callable[[dict[str, Any]], None]], Callable[[dict[str, Any]], None]]:
    """Register a function of the values given as a command.

    Parameters
    ----------
    app : Typer
    name : str
    settings : sequence of Setting
    examples : sequence of str
        Command lines that work in a folder where ``roodso init --sample`` was run.
    hidden : bool
    """

    def register(run: Callable[[dict[str, Any]], None]) -> Callable[[dict[str, Any]], None]:
        def invoke(**given: Any) -> None:
            guarded(run, given)

        parameters = [_parameter(setting) for setting in settings]
        invoke.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        invoke.__annotations__ = {p.name: p.annotation for p in parameters}
        invoke.__name__ = run.__name__
        shown = epilog(examples) if examples else None
        app.command(name, help=inspect.getdoc(run), epilog=shown, hidden=hidden)(invoke)
        return run

    return register


def epilog(examples: Sequence[str]) -> str:
    """What stands below a command's help."""
    return "\n\n".join(["Example:", *examples])


def _parameter(setting: Setting) -> inspect.Parameter:
    """A flag that is None where it is not given."""
    kind = _TYPES[setting.kind]
    info: Any
    if setting.name == "file":
        info = typer.Argument(metavar="DATA", help=setting.help, show_default=False)
    else:
        flag = setting.option
        if setting.kind == "switch":
            flag = f"{flag}/--no-{flag[2:]}" if setting.name in _TWO_WAY else flag
        info = typer.Option(
            flag,
            metavar=_METAVARS.get(setting.kind, "TEXT") if setting.kind != "switch" else None,
            help=help_text(setting),
            show_default=False,
            rich_help_panel=setting.section.capitalize() if setting.section != "run" else None,
            autocompletion=_completion(setting.choices),
        )
    return inspect.Parameter(
        setting.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind, info],
    )


#: Where results go, and how to run, is no part of what was asked.
_LEFT_OUT = ("report", "json", "table", "force", "quiet", "debug")


def command_line(path: str, settings: Sequence[Setting], given: Mapping[str, Any]) -> str:
    """The command line with the flags given, for a page that says how it was made.

    Examples
    --------
    >>> flags = [Setting("file", "data", "", "path"), Setting("scale", "method", "", "switch")]
    >>> command_line("inspect", flags, {"file": "my sales.csv", "scale": False})
    "roodso inspect 'my sales.csv' --no-scale"
    """
    parts = ["roodso", *path.split()]
    for setting in settings:
        value = given.get(setting.name)
        if value is None or value == [] or setting.name in _LEFT_OUT:
            continue
        if setting.name == "file":
            parts.append(str(value))
        elif setting.kind == "switch":
            parts.append(setting.option if value else f"--no-{setting.option[2:]}")
        else:
            for entry in value if isinstance(value, list) else [value]:
                parts += [setting.option, str(entry)]
    return shlex.join(parts)


def _completion(choices: tuple[str, ...]) -> Callable[[str], list[str]] | None:
    if not choices:
        return None
    return lambda incomplete: [choice for choice in choices if choice.startswith(incomplete)]


def help_text(setting: Setting) -> str:
    """The setting's help, with what may be chosen and the default."""
    text = setting.help
    if setting.choices:
        what = "A number, or one of" if setting.kind == "level" else "One of"
        text += f" {what}: {', '.join(setting.choices)}."
    default = setting.default
    if default is not None and default != "" and default != [] and setting.kind != "switch":
        text += f" Default: {default:g}." if isinstance(default, float) else f" Default: {default}."
    if setting.kind == "switch" and default:
        text += " On by default."
    return text


def guarded(run: Callable[[dict[str, Any]], None], given: dict[str, Any]) -> None:
    """Run a command; whatever goes wrong ends in a message and a code."""
    try:
        run(given)
    except (typer.Exit, typer.Abort, BrokenPipeError):
        raise
    except (Exception, KeyboardInterrupt) as error:
        if given.get("debug"):
            traceback.print_exc()
        failure, code = _failure(error)
        Screen().error(failure)
        raise typer.Exit(code) from None


def _failure(error: BaseException) -> tuple[PlannerError, int]:
    """An error in words for people, and the exit code."""
    if isinstance(error, PlannerError):
        return error, error.exit_code
    if isinstance(error, SolverError):
        failure = PlannerError(
            "the solver found no trustworthy answer",
            cause=str(error),
            remedy="check the data for extreme values, or report it with the table",
        )
        return failure, 6
    if isinstance(error, KeyboardInterrupt):
        return PlannerError("interrupted; nothing was written"), 130
    reason = str(error).splitlines()[0] if str(error) else ""
    failure = PlannerError(
        "something went wrong that is not your fault",
        cause=f"{type(error).__name__}: {reason}",
        remedy="run it again with --debug and report what is shown",
    )
    return failure, 1


def panels() -> list[str]:
    """Headings of the flags, in order."""
    return [section.capitalize() for section in SECTIONS]
