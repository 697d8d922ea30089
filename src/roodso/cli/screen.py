"""What people see: sentences, tables, a progress bar.

Results go to the standard output, notes and the bar to the standard error. Text of the user's is
shown as it is: no markup is interpreted, and control characters are made visible.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from roodso._typing import Progress as ProgressCallback
from roodso.planner.errors import PlannerError
from roodso.planner.table import Note

__all__ = ["Screen", "visible"]


def visible(text: object) -> str:
    r"""Text with control characters made visible, so that none reaches the terminal.

    Examples
    --------
    >>> visible("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in str(text)
    )


class Screen:
    """The two streams.

    Parameters
    ----------
    quiet : bool
        Notes, tables and the bar are left out; warnings and errors are not.

    Attributes
    ----------
    notes : list of Note
        All so far, shown or not.
    """

    def __init__(self, *, quiet: bool = False) -> None:
        self.out, self.err = _console(sys.stdout), _console(sys.stderr)
        self.quiet = quiet
        self.notes: list[Note] = []

    def say(self, text: str = "", *, style: str = "") -> None:
        """A paragraph on the standard output."""
        if not self.quiet:
            _print(self.out, Text(_lines(text), style=style))

    def bare(self, text: str) -> None:
        """Text for machines, whatever `quiet` says, and never wrapped."""
        sys.stdout.write(text + "\n")

    def note(self, note: Note) -> None:
        """A note, said once; warnings are shown even where quiet. All are kept for machines."""
        if note in self.notes:
            return
        self.notes.append(note)
        if note.level == "warning":
            self._mark("warning: ", "yellow", note.text)
        elif not self.quiet:
            self._mark("note: ", "dim", note.text)

    def table(
        self, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], *, words: int = 1
    ) -> None:
        """A table; the first ``words`` columns hold words, the others numbers."""
        if self.quiet:
            return
        self.say("\n" + title, style="bold")
        table = Table()
        for place, column in enumerate(columns):
            table.add_column(
                Text(visible(column)),
                justify="left" if place < words else "right",
                overflow="fold",
            )
        for row in rows:
            table.add_row(*[Text(visible(cell)) for cell in row])
        self.out.print(table)

    def error(self, error: PlannerError) -> None:
        """What is wrong, why, and what to do."""
        self._mark("error: ", "bold red", error.message)
        if error.cause:
            self._mark("why: ", "dim", error.cause)
        if error.remedy:
            self._mark("what to do: ", "dim", error.remedy)

    def _mark(self, mark: str, style: str, text: str) -> None:
        _print(self.err, Text.assemble((mark, style), _lines(text)))

    @contextmanager
    def progress(self, task: str, *, left: bool = False) -> Iterator[ProgressCallback]:
        """A bar on the standard error where that is a terminal; yields the library's callback.

        With ``left``, the time that is left stands beside the time gone by.
        """
        columns = [TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()]
        if left:
            columns += [TextColumn("left:"), TimeRemainingColumn()]
        shown = self.err.is_terminal and not self.quiet
        with Progress(*columns, console=self.err, transient=True, disable=not shown) as bar:
            number = bar.add_task(task, total=None)

            def update(stage: str, fraction: float | None, _: dict[str, Any]) -> None:
                total = None if fraction is None else 1.0
                done = fraction or 0.0
                bar.update(number, description=f"{task}: {stage}", total=total, completed=done)

            yield update


def _console(stream: TextIO) -> Console:
    """Nothing in the user's text is markup; tables in pipes do not depend on who reads them."""
    terminal = stream.isatty()
    width = None if terminal else 120
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)


def _print(console: Console, text: Text) -> None:
    """Lines are broken for terminals only."""
    console.print(text, soft_wrap=not console.is_terminal)


def _lines(text: str) -> str:
    return "\n".join(visible(line) for line in text.split("\n"))
