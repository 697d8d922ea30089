"""The command ``roodso``: all commands in one place; another one is a module and a line here."""

from __future__ import annotations

from typing import Annotated

import typer

import roodso
from roodso.cli import demo, doctor, init, inspect_, reproduce
from roodso.cli.commands import command, epilog
from roodso.cli.compare import compare_app
from roodso.cli.decide import decide_app, evaluate_app

__all__ = ["app"]

app = typer.Typer(
    name="roodso",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Decide where no data exist yet, from data of related places, with a certificate.",
    epilog=epilog(["roodso init --sample", "roodso decide newsvendor --problem problem.toml"]),
)


def _version(shown: bool) -> None:
    if shown:
        typer.echo(f"roodso {roodso.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Take what stands before a command."""


app.add_typer(decide_app, name="decide")
app.add_typer(evaluate_app, name="evaluate")
app.add_typer(compare_app, name="compare")
command(
    app,
    "inspect",
    inspect_.SETTINGS,
    examples=["roodso inspect sales.csv --source shop --items loaves,rolls"],
)(inspect_.inspect)
command(
    app,
    "init",
    init.SETTINGS,
    examples=["roodso init --sample", "roodso init --kind portfolio --output funds.toml --sample"],
)(init.init)
command(app, "demo", demo.SETTINGS, examples=["roodso demo --store 2"])(demo.demo)
command(app, "doctor", doctor.SETTINGS, examples=["roodso doctor"])(doctor.doctor)
reproduce.register(app)
