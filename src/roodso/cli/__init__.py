"""The command line ``roodso``: from a table of sales to a decision, its certificate, a page."""

from roodso.cli.app import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line; the entry point of the script ``roodso``."""
    app(prog_name="roodso")
