"""Malformed tables, flags and problem files end in a message and a code.

Whatever comes in, a command ends in a documented exit code other than that of an error of the
program's own, shows no traceback, and leaves no partial file: what it wrote is whole or absent.
"""

import json
import os
import random
from functools import lru_cache
from io import BytesIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from roodso.cli.app import app
from roodso.cli.commands import EXIT_CODES
from roodso.cli.init import sample
from roodso.cli.problem_file import template

EXPECTED = set(EXIT_CODES) - {1, 130}
SHORT, LONG = 120, 8000

BYTES = [b"", b"\0", b"\xff\xfe", b"\r", b'"', b"'", b",,", b"\n\n", b";", b"\t", b"PAR1",
         b"PK\x03\x04", b"\xc3\x28", b"\xe2\x80\xae", b"[red]", b"\x1b[2J"]  # fmt: skip
CELLS = ["", "nan", "inf", "-inf", "1e308", "-1e15", "1e-320", "1,5", "1.234,5", "1 000", "NA", "x",
         "-7", "0", "9" * 400, "[b]", "\x1b[31m", "=1+1", '"', "3%", "12 EUR", "0x1F", "١٢",
         "1_000", "∞", "+", "-", "1e", "True", "2020-01-01", " 5 ", "\u22123"]  # fmt: skip
FLAGS = ["--price", "--cost", "--holding", "--backorder", "--items", "--source", "--lower",
         "--upper", "--constraint", "--pack-size", "--nu", "--seed", "--jobs", "--support-points",
         "--layout", "--item", "--value", "--row", "--missing", "--negative", "--decimal",
         "--delimiter", "--sheet", "--currency", "--unit", "--target-note", "--method", "--order",
         "--criterion", "--json", "--table", "--problem", "--risk-aversion", "--tail", "--weights",
         "--assets", "--methods", "--store", "--kind", "--set",
         "--thickness", "--source-tail", "--report"]  # fmt: skip
SWITCHES = ["--integer", "--no-scale", "--quiet", "--force", "--auto", "--debug", "--tune", "-x"]
VALUES = ["", "a", "b", "s", "a,b", "a,a", "a=1", "a=1,b=2", "1", "0", "-1", "1,2", "1,2,3", "0.5",
          "nan", "inf", "1e400", "1e15", "a <= 1", "a + b <= 5", "a = b", "a < 1", "((a", "a*b<=1",
          "'", '"', "a >= 9 <= 3", "[red]", "\x1b[1m", "wide", "long", "drop", "zero", "keep",
          "error", "rood", "saa", "hull", "mean", "tab", ";", ".", "no/such/place", ".", "-",
          "t.csv", "p.toml", "out.json", "ü", "\ud800", "99999999999999999999", "1.0", "a=",
          "=", "a=1=2", "a:1", "thick", "ball", "split", "leave-one-out",
          "2 a + 'b' <= 10", "portfolio"]  # fmt: skip
TOML = ["[", "]", "=", "\n", '"', "'", "nan", "inf", "1e999", "{", "}", "[[data]]", "true", "-1",
        "kind = 3", "[method]\nnu = 0", "[x]", "a.b.c = 1", "\0", "2020-01-01", "[data]", "#",
        "[decision]\nconstraints = [1]", "[newsvendor]\nprice = []", "seed = 0.5"]  # fmt: skip


@lru_cache
def binary(kind):
    """A sound Excel or Parquet file."""
    frame = pd.DataFrame({"s": ["x", "y", "z"] * 4, "a": range(12), "b": np.arange(12) / 3})
    stream = BytesIO()
    if kind == "excel":
        frame.to_excel(stream, index=False)
    else:
        frame.to_parquet(stream)
    return stream.getvalue()


def spoilt(rng, content, times):
    """Bytes with others put in, or cut out."""
    for _ in range(times):
        place = rng.randrange(len(content) + 1)
        content = content[:place] + rng.choice(BYTES) + content[place + rng.randrange(2) :]
    return content


def table(rng):
    """A small table, mostly sound, with some of its cells or bytes spoilt."""
    if rng.random() < 0.08:
        content = binary(rng.choice(["excel", "parquet"]))
        content = content[: rng.randrange(len(content))] if rng.random() < 0.3 else content
        return spoilt(rng, content, rng.choice([0, 1, 3]))
    rows = [["s", "a", "b"]]
    for source in range(rng.choice([1, 2, 3, 4])):
        for _ in range(rng.choice([1, 3, 5])):
            rows.append([f"s{source}", str(rng.randint(0, 20)), f"{rng.uniform(0, 9):.2f}"])
    for _ in range(rng.choice([0, 0, 1, 2, 6])):
        row = rng.choice(rows)
        row[rng.randrange(3)] = rng.choice(CELLS)
    for _ in range(rng.choice([0, 0, 0, 1])):
        row = rng.choice(rows)
        row.append("1") if rng.random() < 0.5 else row.pop()
    mark = rng.choice([",", ",", ";", "\t"])
    content = "\n".join(mark.join(row) for row in rows).encode("utf-8", "surrogatepass")
    return spoilt(rng, content, rng.choice([0, 0, 0, 1, 3]))


def problem(rng):
    """The file that init writes, pointed at the table, with pieces put in or cut out."""
    text = template(rng.choice(["newsvendor", "newsvendor", "portfolio"]))
    for old, new in (("sales.csv", "t.csv"), ('"shop"', '"s"'), ('"loaves", "rolls"', '"a", "b"')):
        text = text.replace(old, new)
    for _ in range(rng.choice([0, 1, 1, 2, 5])):
        place = rng.randrange(len(text) + 1)
        text = text[:place] + rng.choice(TOML) + text[place + rng.choice([0, 0, 1, 30]) :]
    return text.encode()


@lru_cache
def flags_of(command):
    """The flags that a command has."""
    found = typer.main.get_command(app)
    for name in command:
        found = found.commands[name]
    return {flag for parameter in found.params for flag in parameter.opts}


def arguments(rng):
    command = rng.choice(
        [["decide", "newsvendor"]] * 4
        + [["evaluate", "newsvendor"], ["inspect"], ["compare", "newsvendor"], ["init"]]
        + [["decide", "portfolio"], ["evaluate", "portfolio"], ["compare", "portfolio"]]
    )
    given = []
    if command != ["init"] and rng.random() < 0.9:
        sound = {"--source": "s", "--items": "a,b", "--price": "5,4", "--cost": "2"}
        if command[-1] == "portfolio":
            sound = {"--source": "s", "--assets": "a,b"}
        if command == ["inspect"]:
            sound = {"--source": "s"}
        if command[0] == "evaluate":
            sound["--order" if command[1] == "newsvendor" else "--weights"] = "0.5,0.5"
        if rng.random() < 0.3 and len(command) == 2:
            sound = {"--problem": "p.toml"}
        given = ["t.csv"] * (rng.random() < 0.9)
        given += [part for pair in sound.items() for part in pair]
        given += ["--missing", "drop"] * (rng.random() < 0.5)
    for _ in range(rng.choice([0, 0, 0, 0, 1, 2, 4])):
        known = [flag for flag in FLAGS if flag in flags_of(tuple(command))]
        given += [rng.choice(known if rng.random() < 0.9 else FLAGS), rng.choice(VALUES)]
    if rng.random() < 0.2:
        given.append(rng.choice(SWITCHES))
    if rng.random() < 0.5:
        given += ["--json", "out.json"]
    if rng.random() < 0.02:
        given += ["--report", "page.html"]
    return command + given


def attempt(seed, folder):
    """One random case, and what must hold of it."""
    rng = random.Random(seed)
    (folder / "t.csv").write_bytes(table(rng))
    (folder / "p.toml").write_bytes(problem(rng))
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    line = arguments(rng)
    result = CliRunner().invoke(app, line, input=before["t.csv"])
    where = f"seed {seed}: {line}\n{result.output}"
    assert result.exit_code in EXPECTED, where
    assert result.exception is None or isinstance(result.exception, SystemExit), where
    assert "--debug" in line or "Traceback" not in result.output, where
    assert "\x1b" not in result.output.replace("\x1b[0m", ""), where
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert not [name for name in after if name.startswith(".roodso-")], where
    if result.exit_code != 0:
        assert result.output.strip(), where
        assert after == before, where
    for name in set(after) - set(before):
        if name == "out.json":
            json.loads(after[name])
        if name == "page.html":
            assert after[name].startswith(b"<!DOCTYPE html>"), where
            assert after[name].endswith(b"</html>\n"), where
        os.unlink(folder / name)


@pytest.fixture
def empty(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("block", range(4))
def test_random_cases_end_in_a_message_and_a_code(empty, block):
    for seed in range(block * SHORT // 4, (block + 1) * SHORT // 4):
        attempt(seed, empty)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_thousands_of_random_cases_end_in_a_message_and_a_code(empty, block):
    for seed in range(10_000 + block * LONG // 20, 10_000 + (block + 1) * LONG // 20):
        attempt(seed, empty)


def test_the_sound_cases_do_succeed(empty):
    codes = []
    for seed in range(60):
        rng = random.Random(seed)
        Path("t.csv").write_bytes(table(rng))
        Path("p.toml").write_bytes(problem(rng))
        line = arguments(rng)
        codes.append(CliRunner().invoke(app, line).exit_code)
        for path in Path().iterdir():
            path.unlink()
    assert codes.count(0) >= 6, "the cases would all fail for the same dull reason"
    assert len(set(codes)) >= 3
    assert sample("newsvendor").startswith("shop,")
