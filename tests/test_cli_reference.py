"""The reference page is the program's own, and every example on it works."""

import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roodso.cli.app import app
from roodso.cli.reference import JSON_KEYS, page

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
EXAMPLES = re.findall(r"^\$ roodso (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), (
        "run: python -m roodso.cli.reference docs/cli.md"
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the page's first lines leave behind."""
    folder = tmp_path_factory.mktemp("examples")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for example in EXAMPLES[:2]:
            assert CliRunner().invoke(app, shlex.split(example)).exit_code == 0
    return folder


@pytest.mark.parametrize("example", EXAMPLES[2:])
def test_every_example_works(example, folder, monkeypatch):
    monkeypatch.chdir(folder)
    arguments = shlex.split(example)
    if arguments[0] in ("init", "demo"):
        arguments.append("--force")
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "Traceback" not in result.output


def others():
    """Commands shown on pages written by hand: lines of a block that begin with ``roodso``."""
    root = PAGE.parents[1]
    for path in (root / "README.md", *sorted(PAGE.parent.glob("*.md"))):
        if path != PAGE:
            for line in re.findall(r"^(?:\$ )?roodso (.*)$", path.read_text("utf-8"), re.MULTILINE):
                yield pytest.param(line, id=f"{path.name}: {line.split('  ')[0]}")


@pytest.mark.parametrize("example", list(others()))
def test_so_does_every_example_on_other_pages(example, folder, monkeypatch):
    monkeypatch.chdir(folder)
    arguments = shlex.split(example, comments=True)
    writes = "--report" in arguments or arguments[0] == "init"
    if arguments[0] == "reproduce":
        if "DIR" in arguments:
            pytest.skip("the example stands for a folder of tables that users bring")
        if "--quick" not in arguments:  # in full it takes hours
            arguments.append("--quick")
    result = CliRunner().invoke(app, arguments + ["--force"] * writes)
    assert result.exit_code == 0, result.output


def test_there_is_an_example_of_every_command():
    begun = {" ".join(shlex.split(example)[:2]) for example in EXAMPLES}
    for name in ("decide", "evaluate", "compare"):
        assert {f"{name} newsvendor", f"{name} portfolio"} <= begun
    assert {"init", "inspect", "demo", "doctor"} <= {example.split()[0] for example in EXAMPLES}


def test_the_documented_keys_are_those_written(folder, monkeypatch):
    monkeypatch.chdir(folder)
    arguments = ["newsvendor", "--problem", "problem.toml", "--json", "-"]
    decided = CliRunner().invoke(app, ["decide", *arguments, "--integer"])
    assert set(json.loads(decided.stdout)) == set(JSON_KEYS)
    evaluated = CliRunner().invoke(app, ["evaluate", *arguments, "--order", "60,60"])
    assert set(json.loads(evaluated.stdout)) == set(JSON_KEYS) - {"whole", "pooled"}
