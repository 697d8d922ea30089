"""``roodso reproduce``: the paper's experiments, and what it leaves out, each by one command."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from roodso.cli.commands import guarded
from roodso.cli.screen import Screen
from roodso.experiments.catalogue import NAMES, OF_THEIR_OWN, STUDIES, make_study
from roodso.experiments.study import find_tables, reproduce
from roodso.planner import MissingPackageError, Note, ProblemError
from roodso.planner.errors import library_errors, nearest

__all__ = ["register"]

_EXAMPLES = [
    "roodso reproduce table1 --quick --out quick",
    "roodso reproduce table1 --quick --out quick --resume",
]


def register(app: typer.Typer) -> None:
    """Add the command."""

    @app.command("reproduce", epilog="\n\n".join(["Example:", *_EXAMPLES]))
    def command(
        name: Annotated[str, typer.Argument(metavar="NAME", help=f"One of: {', '.join(NAMES)}.")],
        repetitions: Annotated[
            int | None,
            typer.Option(metavar="NUMBER", help="By default the study's own, enough for a page."),
        ] = None,
        jobs: Annotated[
            int, typer.Option(metavar="NUMBER", help="Processes. It changes no result.")
        ] = 1,
        out: Annotated[
            str | None,
            typer.Option(
                metavar="FOLDER",
                help="Where rows, summary, page and picture go; with `all`, each study's in a "
                "folder of its own there. Default: results/NAME, or results/NAME-quick.",
            ),
        ] = None,
        data: Annotated[
            list[str] | None,
            typer.Option(
                metavar="FOLDER",
                help="A folder with the tables of coffee and etf, which may not be passed on; may "
                "be given again.",
            ),
        ] = None,
        resume: Annotated[
            bool,
            typer.Option("--resume", help="Take the rows that are there, run what is missing."),
        ] = False,
        quick: Annotated[
            bool,
            typer.Option("--quick", help="A small form that takes seconds, apart from others."),
        ] = False,
        debug: Annotated[
            bool, typer.Option("--debug", help="Show the traceback of an error.")
        ] = False,
    ) -> None:
        """Run an experiment of the paper again: rows, a summary, verdicts on its claims."""
        given = {
            "name": name, "repetitions": repetitions, "jobs": jobs, "out": out,
            "data": data or [], "resume": resume, "quick": quick, "debug": debug,
        }  # fmt: skip
        guarded(_reproduce, given)


def _reproduce(given: dict[str, Any]) -> None:
    name = given["name"]
    if name not in NAMES:
        raise ProblemError(f"there is no experiment {name!r}", remedy=nearest(name, NAMES))
    if find_spec("matplotlib") is None:
        raise MissingPackageError(
            "the pictures need matplotlib", remedy="pip install 'roodso[plot]'"
        )
    screen = Screen()
    for one in [*STUDIES, *OF_THEIR_OWN] if name == "all" else [name]:
        if name == "all" and not _can_run(one, given, screen):
            continue
        with library_errors():
            _one(one, _folder(one, given), given, screen)


def _can_run(name: str, given: dict[str, Any], screen: Screen) -> bool:
    """Whether a study's tables are there; says so where they are not."""
    needs = STUDIES[name].needs if name in STUDIES else ()
    if needs and not find_tables(needs, given["data"]):
        wanted = ", ".join(f"{table}.csv" for table in needs)
        screen.note(Note(f"{name} is left out: --data has none of {wanted}", "warning"))
        return False
    return True


def _folder(name: str, given: dict[str, Any]) -> Path:
    if given["out"] is None:
        return Path("results") / (name + ("-quick" if given["quick"] else ""))
    out = Path(given["out"])
    return out / name if given["name"] == "all" else out


def _one(name: str, folder: Path, given: dict[str, Any], screen: Screen) -> None:
    how = {
        "repetitions": given["repetitions"],
        "n_jobs": given["jobs"],
        "resume": given["resume"],
    }
    with screen.progress(name, left=True) as progress:
        if name in OF_THEIR_OWN:
            OF_THEIR_OWN[name](folder, quick=given["quick"], progress=progress, **how)
            verdicts = []
        else:
            study = make_study(name, quick=given["quick"], folders=given["data"])
            verdicts = study.verdicts(reproduce(study, folder, progress=progress, **how))
    for verdict in verdicts:
        screen.say(verdict.line().replace("**", ""))
    screen.note(Note(f"written: {folder}"))
