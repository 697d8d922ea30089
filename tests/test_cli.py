"""The command line: each command, its outputs, and errors that end in a message and a code."""

import json
import os
import re
import shlex
import signal
import stat
import subprocess
import sys
import time
import tomllib
import types

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from typer.testing import CliRunner

import roodso
from roodso import SAA, RooDSO
from roodso.cli.app import app
from roodso.cli.commands import EXIT_CODES
from roodso.cli.init import sample
from roodso.cli.methods import METHODS
from roodso.cli.screen import visible
from roodso.exceptions import SolverError
from roodso.losses import CVaRPortfolio, Newsvendor
from roodso.model_selection import compare, select
from roodso.planner.formats import Formats
from roodso.planner.words import sentence
from roodso.sets import ConformalBall, ThickenedHull

MONEY = ["--price", "50,40", "--cost", "20,15", "--holding", "5,3", "--backorder", "10,8"]
LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
NEWS = ["newsvendor", "sales.csv", "--source", "shop", "--items", "loaves,rolls", *MONEY]
PORT = ["portfolio", "returns.csv", "--source", "family", "--assets", "stocks,bonds,gold"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the sample tables, in which commands run."""
    (tmp_path / "sales.csv").write_text(sample("newsvendor"))
    (tmp_path / "returns.csv").write_text(sample("portfolio"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def run(*arguments, code=0, stdin=None):
    result = CliRunner().invoke(app, list(arguments), input=stdin)
    assert "Traceback" not in result.output
    assert result.exit_code == code, result.output
    return result


def error(*arguments, code):
    """The message of a command that fails."""
    before = {entry: entry.read_bytes() for entry in _files()}
    result = run(*arguments, code=code)
    assert {entry: entry.read_bytes() for entry in _files()} == before, "files have changed"
    assert code == 2 or "error: " in result.stderr
    return " ".join(result.stderr.split())


def _files():
    from pathlib import Path

    return [entry for entry in Path().rglob("*") if entry.is_file()]


def sales():
    frame = pd.read_csv("sales.csv")
    return frame[["loaves", "rolls"]], frame["shop"]


def model(**options):
    table, groups = sales()
    parameters = {"nu": 0.2, "scale": True, "random_state": 0} | options
    return RooDSO(LOSS, **parameters).fit(table, groups=groups)


# Decide ---------------------------------------------------------------------------------------


def test_decide_newsvendor_gives_what_the_library_gives(folder):
    said = run("decide", *NEWS, "--json", "-")
    found, fitted = json.loads(said.stdout), model()
    assert list(found["decision"].values()) == pytest.approx(fitted.decision_.tolist())
    assert found["worst_case"]["upper_bound"] == pytest.approx(fitted.objective_)
    pooled = SAA(LOSS).fit(*sales()[:1], groups=sales()[1]).decision_
    assert list(found["pooled"]["decision"].values()) == pytest.approx(pooled.tolist())
    assert found["pooled"]["worst_case"]["upper_bound"] == pytest.approx(
        fitted.worst_case_cost(pooled).upper_bound
    )
    weights = [row["weight"] for row in found["worst_world"]]
    assert sum(weights) == pytest.approx(1.0, abs=1e-6)
    assert [source["rows"] for source in found["sources"]] == [
        int(size) for size in sales()[1].value_counts(sort=False)
    ]


def test_decide_says_the_decision_in_plain_words(folder):
    out = run("decide", *NEWS, "--currency", "EUR", "--unit", "pieces").stdout
    fitted = model()
    assert f"{fitted.decision_['loaves']:.2f} pieces" in out
    assert f"a profit of at least {-fitted.objective_:,.2f} EUR" in out
    assert "No order can promise better" in out
    assert "The world that is feared" in out
    losing = run("decide", *NEWS[:6], "--price", "20", "--cost", "19", "--backorder", "9").stdout
    assert "a cost of at most" in losing


def test_the_scale_and_nu_reach_the_model(folder):
    for flags, options in (
        (["--no-scale"], {"scale": False}),
        (["--nu", "0.7", "--support-points", "0"], {"nu": 0.7, "n_support": 0}),
        (["--seed", "3"], {"random_state": 3}),
    ):
        found = json.loads(run("decide", *NEWS, *flags, "--json", "-").stdout)
        assert found["worst_case"]["upper_bound"] == pytest.approx(model(**options).objective_)


def test_decide_portfolio_gives_what_the_library_gives(folder):
    flags = ["--risk-aversion", "3", "--tail", "0.1", "--constraint", "gold <= 0.25"]
    found = json.loads(run("decide", *PORT, *flags, "--json", "-").stdout)
    frame = pd.read_csv("returns.csv")
    loss = CVaRPortfolio(3, 0.1, A_ub=[[0, 0, 1]], b_ub=[0.25])
    fitted = RooDSO(loss, scale=True, random_state=0).fit(
        frame[["stocks", "bonds", "gold"]], groups=frame["family"]
    )
    assert list(found["decision"].values()) == pytest.approx(fitted.decision_.tolist(), abs=1e-6)
    assert sum(found["decision"].values()) == pytest.approx(1.0)
    out = run("decide", *PORT, *flags).stdout
    # What is said of the feared world, from its table alone.
    world = pd.DataFrame(
        [{"weight": row["weight"], **row["amounts"]} for row in found["worst_world"]]
    )
    returns = world[["stocks", "bonds", "gold"]] @ np.array(list(found["decision"].values()))
    assert f"returns {100 * (returns @ world['weight']):.2f}% on average" in out
    order = np.argsort(returns.to_numpy())
    shares = world["weight"].to_numpy()[order]
    taken = np.minimum(shares, np.maximum(0.1 - (np.cumsum(shares) - shares), 0.0))
    tail = float(taken @ returns.to_numpy()[order]) / 0.1
    assert f"and {100 * tail:.2f}% on average in the worst 10%" in out


OTHERS = {
    "conformal": RooDSO(
        LOSS,
        uncertainty_set=ConformalBall(nu=0.2, scale=True, random_state=0),
        random_state=0,
    ),
    "thick": RooDSO(
        LOSS,
        uncertainty_set=ThickenedHull(0.1, scale=True, random_state=0),
        random_state=0,
    ),
    "saa": SAA(LOSS),
    "hull": roodso.ConvexHullDRO(LOSS),
    "wasserstein": roodso.WassersteinDRO(LOSS),
    "barycenter": roodso.BarycenterSAA(LOSS, random_state=0),
    "intersection": roodso.IntersectionDRO(LOSS, random_state=0),
}


@pytest.mark.parametrize("method", OTHERS)
def test_other_methods_can_decide(folder, method):
    assert set(METHODS) == {"rood", *OTHERS}
    flags = ["--method", method, "--json", "d.json"]
    out = run("decide", *NEWS, *flags).stdout
    found = json.loads((folder / "d.json").read_text())
    table, groups = sales()
    expected = clone(OTHERS[method]).fit(table, groups=groups)
    assert found["worst_case"]["upper_bound"] == pytest.approx(expected.objective_)
    assert list(found["decision"].values()) == pytest.approx(
        expected.solution_.decision.tolist(), rel=1e-6
    )
    robust = method not in ("saa", "barycenter")
    assert ("At worst: a profit of at least" in out) == robust
    assert ("Expected: a profit of" in out) == (not robust)
    assert ("The world that is feared" in out) == robust
    assert ("Proved: the set contains" in out) == (method == "conformal")
    assert ("nearest_mixture" in found) == (method in ("conformal", "thick"))


@pytest.mark.parametrize("name", ["ball", "hull", "thick"])
def test_the_set_is_another_word_for_the_method(folder, name):
    method = {"ball": "rood"}.get(name, name)
    decided = run("decide", *NEWS, "--set", name, "--quiet").stdout
    assert decided == run("decide", *NEWS, "--method", method, "--quiet").stdout
    run("init", "--output", "p.toml")
    text = (folder / "p.toml").read_text().replace('# set = "ball"', f'set = "{name}"')
    (folder / "p.toml").write_text(text)
    assert run("decide", "newsvendor", "--problem", "p.toml", "--quiet").stdout == decided
    # A flag goes before the file, whichever word it uses.
    other = run("decide", "newsvendor", "--problem", "p.toml", "--method", "saa", "--quiet").stdout
    assert other == run("decide", *NEWS, "--method", "saa", "--quiet").stdout


def test_set_and_method_may_not_contradict_each_other(folder):
    told = error("decide", *NEWS, "--set", "thick", "--method", "saa", code=4)
    assert "contradict each other" in told
    run("decide", *NEWS, "--set", "thick", "--method", "thick", "--quiet")
    assert "one of ball, hull, thick" in error("decide", *NEWS, "--set", "thik", code=4)


def test_thickness_and_tail_reach_the_set(folder):
    table, groups = sales()
    for flags, options in (
        (["--thickness", "0.25"], {"thickness": 0.25}),
        (["--thickness", "0.05", "--source-tail", "0.4"], {"thickness": 0.05, "tail": 0.4}),
        (
            ["--thickness", "leave-one-out", "--nu", "0.5"],
            {"thickness": "leave-one-out", "nu": 0.5},
        ),
    ):
        learner = ThickenedHull(scale=True, random_state=0).set_params(**options)
        expected = RooDSO(LOSS, uncertainty_set=learner, random_state=0).fit(table, groups=groups)
        found = json.loads(run("decide", *NEWS, "--set", "thick", *flags, "--json", "-").stdout)
        assert found["worst_case"]["upper_bound"] == pytest.approx(expected.objective_)
    tail = roodso.ConvexHullDRO(LOSS, tail=0.4).fit(table, groups=groups)
    out = run("decide", *NEWS, "--set", "hull", "--source-tail", "0.4").stdout
    assert f"{-tail.objective_:,.2f} on average" in out
    assert "none of them with more than 21%" in out


@pytest.mark.parametrize("value", ["x", "", "-1", "nan"])
def test_impossible_thicknesses_are_refused(folder, value):
    told = error("decide", *NEWS, "--set", "thick", "--thickness", value, code=4)
    assert "thickness" in told


@pytest.mark.parametrize(
    ("flags", "name"),
    [
        (["--thickness", "0.2"], "--thickness has no effect on the method rood"),
        (["--set", "thick", "--nu", "0.3"], "--nu has no effect on the method thick"),
        (["--method", "saa", "--nu", "0.3"], "--nu has no effect on the method saa"),
        (["--method", "conformal", "--source-tail", "0.3"], "--source-tail has no effect"),
    ],
)
def test_flags_without_effect_are_pointed_at(folder, flags, name):
    assert name in run("decide", *NEWS, *flags, "--quiet").stderr
    assert "no effect" not in run("decide", *NEWS, "--nu", "0.3", "--quiet").stderr
    calibrated = ["--set", "thick", "--thickness", "split", "--nu", "0.5"]
    assert "no effect" not in run("decide", *NEWS, *calibrated, "--quiet").stderr


def test_auto_chooses_thickness_and_tail(folder):
    (folder / "small.csv").write_text("\n".join(sample("newsvendor").splitlines()[:206]))
    flags = ["newsvendor", "small.csv", *NEWS[2:], "--set", "thick", "--auto", "--json", "d.json"]
    said = " ".join(run("decide", *flags).stderr.split())
    found = re.search(r"source_tail = (\S+) and thickness = (\S+) cost least", said)
    frame = pd.read_csv("small.csv")
    table, groups = frame[["loaves", "rolls"]], frame["shop"]
    learner = ThickenedHull(scale=True, random_state=0)
    best = select(RooDSO(LOSS, uncertainty_set=learner, random_state=0), None, table, groups)
    chosen = json.loads((folder / "d.json").read_text())["method"]["parameters"]
    assert chosen["thickness"] == best.best_params_["uncertainty_set__thickness"]
    tail = best.best_params_["uncertainty_set__tail"]
    assert found.group(1) == ("none" if tail is None else f"{tail:g}")
    assert found.group(2) == f"{best.best_params_['uncertainty_set__thickness']:g}"


@pytest.mark.parametrize("method", ["conformal", "barycenter", "intersection", "thick"])
def test_every_method_has_a_page(folder, method):
    run("decide", *NEWS, "--method", method, "--report", "page.html", "--jobs", "1")
    page = (folder / "page.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert METHODS[method].label in page
    assert ("Proved: the set contains" in page) == (method == "conformal")


def test_a_ball_that_cannot_be_calibrated_is_refused(folder):
    told = error("decide", *NEWS, "--method", "conformal", "--nu", "0.05", code=4)
    assert "calibration" in told


def test_auto_chooses_nu_on_held_out_sources(folder):
    result = run("decide", *NEWS, "--auto", "--criterion", "worst", "--json", "-")
    nu = json.loads(result.stdout)["method"]["parameters"]["nu"]
    assert "costs least on sources held out (worst)" in result.stderr or nu
    assert json.loads(result.stdout)["worst_case"]["upper_bound"] == pytest.approx(
        model(nu=nu).objective_, rel=1e-5
    )
    assert "for the methods rood, conformal and thick" in error(
        "decide", *NEWS, "--auto", "--method", "saa", code=4
    )


def test_whole_packs_and_constraints_are_kept(folder):
    flags = ["--pack-size", "loaves=6,rolls=12", "--constraint", "loaves + 2 * rolls <= 190"]
    found = json.loads(run("decide", *NEWS, *flags, "--json", "-").stdout)
    order = found["decision"]
    assert order["loaves"] % 6 == order["rolls"] % 12 == 0
    assert order["loaves"] + 2 * order["rolls"] <= 190
    assert found["worst_case"]["upper_bound"] >= found["best"]["worst_case"]["lower_bound"]
    assert found["whole"]["loss_at_most"] == pytest.approx(
        found["worst_case"]["upper_bound"] - found["best"]["worst_case"]["lower_bound"]
    )
    assert found["worst_case"]["upper_bound"] == pytest.approx(
        model().worst_case_cost(list(order.values())).upper_bound
    )
    out = run("decide", *NEWS, "--integer").stdout
    assert "no order, whole or not, is better by more than" in out


def test_bounds_by_name_and_once_for_all(folder):
    found = json.loads(
        run("decide", *NEWS, "--upper", "rolls=50", "--lower", "45", "--json", "-").stdout
    )
    assert found["decision"]["rolls"] <= 50
    assert min(found["decision"].values()) >= 45


def test_quiet_prints_the_bare_decision(folder):
    lines = run("decide", *NEWS, "--quiet").stdout.splitlines()
    decision = model().decision_
    assert [line.split("\t")[0] for line in lines] == ["loaves", "rolls"]
    assert [float(line.split("\t")[1]) for line in lines] == pytest.approx(decision.tolist())


def test_tables_are_written_and_read_back(folder):
    run("decide", *NEWS, "--table", "order.csv", "--json", "result.json")
    table = pd.read_csv("order.csv")
    found = json.loads((folder / "result.json").read_text())
    assert dict(zip(table["item"], table["order"], strict=True)) == pytest.approx(found["decision"])
    assert table["order"].tolist() == list(found["decision"].values())


def test_the_table_may_come_from_standard_input(folder):
    news = ["newsvendor", "-", *NEWS[2:]]
    found = run("decide", *news, "--quiet", stdin=(folder / "sales.csv").read_text()).stdout
    assert found == run("decide", *NEWS, "--quiet").stdout


# Evaluate, compare, inspect -------------------------------------------------------------------


def test_evaluate_certifies_an_order_of_ones_own(folder):
    result = run("evaluate", *NEWS, "--order", "rolls=150,loaves=120", "--json", "-")
    found, fitted = json.loads(result.stdout), model()
    expected = fitted.worst_case_cost([120.0, 150.0])
    assert found["worst_case"]["upper_bound"] == pytest.approx(expected.upper_bound)
    assert found["worst_case"]["lower_bound"] == pytest.approx(expected.lower_bound)
    assert found["best"]["worst_case"]["upper_bound"] == pytest.approx(fitted.objective_)
    out = run("evaluate", *NEWS, "--order", "120,150").stdout
    assert "a cost of at most" in out
    assert "The best order of all promises a profit of at least" in out


def test_evaluate_says_what_an_order_does_not_meet(folder):
    result = run(
        "evaluate", *NEWS, "--order", "120,150", "--constraint", "loaves + rolls <= 200",
        "--upper", "140",
    )  # fmt: skip
    assert "does not meet loaves + rolls <= 200" in result.stderr
    assert "does not meet rolls <= 140" in result.stderr
    assert "no order to evaluate" in error("evaluate", *NEWS, code=4)
    assert "names 'rols'" in error("evaluate", *NEWS, "--order", "rols=1", code=4)
    assert "missing for 'rolls'" in error("evaluate", *NEWS, "--order", "loaves=1", code=4)
    told = error("evaluate", *PORT, "--weights", "1,1,1", code=4)
    assert "add up to one" in told


def test_compare_gives_what_the_library_gives(folder):
    result = run("compare", *NEWS, "--methods", "rood,saa", "--json", "-", "--table", "t.csv")
    table, groups = sales()
    expected = compare(
        {"RooD-SO": RooDSO(LOSS, scale=True, random_state=0), "pooled average": SAA(LOSS)},
        table,
        groups,
    )
    found = json.loads(result.stdout)
    means = {row["method"]: row["mean"] for row in found["summary"]}
    assert means == pytest.approx(expected.summary()["mean"].to_dict())
    assert found["verdict"] == expected.verdict()
    written = pd.read_csv("t.csv")
    assert written["cost"].tolist() == pytest.approx(expected.table["cost"].tolist())
    out = run("compare", *NEWS, "--methods", "ball,saa").stdout  # the set names the method
    assert sentence(expected.verdict()) in out
    assert "no method 'sa'" in error("compare", *NEWS, "--methods", "sa", code=4)


def test_inspect_names_the_outlying_sources(folder):
    rng = np.random.default_rng(0)
    frames = [
        pd.DataFrame(rng.normal(50, 8, (30, 2)), columns=["loaves", "rolls"]).assign(
            shop=f"shop {number}"
        )
        for number in range(1, 13)
    ]
    frames[6][["loaves", "rolls"]] *= 100
    frame = pd.concat(frames)
    frame.to_csv("odd.csv", index=False)
    result = run("inspect", "odd.csv", "--source", "shop", "--items", "loaves,rolls")
    assert "Outlying sources (the farthest first): shop 7" in result.stdout
    assert "is it in the same unit?" in result.stderr
    found = json.loads(
        run(
            "inspect", "odd.csv", "--source", "shop", "--items", "loaves,rolls", "--json", "-"
        ).stdout
    )
    assert "shop 7" in [source["name"] for source in found["sources"] if source["outlying"]]
    assert found["sources"][0]["means"]["loaves"] == pytest.approx(
        frame.loc[frame["shop"] == "shop 1", "loaves"].mean()
    )


def test_inspect_counts_gaps_by_source_and_column(folder):
    rows = ["a,1,2", "a,,3", "a,,", "b,4,1", "b,2,", "b,3,3"]
    (folder / "gaps.csv").write_text("shop,rolls,loaves\n" + "\n".join(rows) + "\n")
    found = json.loads(run("inspect", "gaps.csv", "--source", "shop", "--json", "-").stdout)
    assert [source["missing"] for source in found["sources"]] == [
        {"rolls": 2, "loaves": 1},
        {"rolls": 0, "loaves": 1},
    ]
    assert [source["rows"] for source in found["sources"]] == [1, 2]
    said = run("inspect", "gaps.csv", "--source", "shop").stdout
    assert [line.split()[3:6:2] for line in said.splitlines() if line.startswith("│ a")] == [
        ["1", "3"]
    ]


def test_inspect_counts_gaps_and_looks_at_a_single_source(folder):
    (folder / "gaps.csv").write_text("shop,rolls\na,1\na,\na,-3\n")
    result = run("inspect", "gaps.csv", "--source", "shop")
    assert "1 of 3 rows had a missing entry (rolls: 1)" in result.stderr
    assert "1 entry is below 0" in result.stderr
    assert "There is one source only" in result.stdout


# Init, doctor, demo, help ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "table"), [("newsvendor", "sales.csv"), ("portfolio", "returns.csv")]
)
def test_init_writes_a_file_that_works_and_a_sample(tmp_path, monkeypatch, kind, table):
    monkeypatch.chdir(tmp_path)
    run("init", "--kind", kind, "--sample", "--output", "p.toml")
    tree = tomllib.loads((tmp_path / "p.toml").read_text())
    assert tree["kind"] == kind
    assert (tmp_path / table).is_file()
    assert run("decide", kind, "--problem", "p.toml", "--quiet").stdout
    assert "exists" in error("init", "--kind", kind, "--output", "p.toml", code=5)
    run("init", "--kind", kind, "--output", "p.toml", "--force")


@pytest.mark.parametrize("kind", ["newsvendor", "portfolio"])
def test_every_commented_setting_of_the_file_is_accepted(folder, kind):
    text = run("init", "--kind", kind, "--output", "-").stdout
    lines = []
    for line in text.splitlines():
        key = line.removeprefix("# ").split(" = ")[0]
        shown = line.startswith("# ") and " = " in line and key.isidentifier()
        lines.append(line.removeprefix("# ") if shown else line)
    from roodso.cli.problem_file import read_problem
    from roodso.cli.settings import SETTINGS

    (folder / "full.toml").write_text("\n".join(lines))
    values = read_problem(str(folder / "full.toml"), kind)
    expected = {name for name, setting in SETTINGS[kind].items() if setting.example}
    assert set(values) == expected


def test_flags_go_before_the_problem_file_and_paths_count_from_it(folder):
    inner = folder / "inner"
    inner.mkdir()
    (folder / "sales.csv").rename(inner / "sales.csv")
    text = run("init", "--output", "-").stdout
    (inner / "p.toml").write_text(text + 'json = "out.json"\n')  # [output] stands last
    run("decide", "newsvendor", "--problem", "inner/p.toml", "--upper", "rolls=50")
    found = json.loads((inner / "out.json").read_text())
    assert found["decision"]["rolls"] <= 50
    assert found["settings"]["price"] == [50.0, 40.0]
    flags = ["--price", "60,45", "--json", "-"]
    found = json.loads(run("decide", "newsvendor", "--problem", "inner/p.toml", *flags).stdout)
    assert found["settings"]["price"] == [60.0, 45.0]
    # What a problem file names for its decision is not where other commands write.
    run("evaluate", "newsvendor", "--problem", "inner/p.toml", "--order", "60,60")


PROBLEM = '[data]\nfile = "sales.csv"\nsource = "shop"\nitems = ["loaves", "rolls"]\n'


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (PROBLEM + "[newsvendor]\nprise = 3\n", 4, "no key 'prise' in [newsvendor]"),
        (PROBLEM + "[newsvendor]\nprise = 3\n", 4, "did you mean 'price'?"),
        (PROBLEM + "[newsvender]\nprice = 3\n", 4, "did you mean 'newsvendor'?"),
        ("price = 3\n", 4, "it belongs into the section [newsvendor]"),
        (PROBLEM + "price = 3\n", 4, "it belongs into the section [newsvendor]"),
        (PROBLEM + "[newsvendor]\nprice = true\n", 4, "price must be a number"),
        (PROBLEM + '[newsvendor]\nprice = ["a"]\n', 4, "'a' is not a number"),
        (PROBLEM + "[newsvendor]\nprice = { loaves = 1 }\ncost = 1\n", 4, "missing for 'rolls'"),
        (PROBLEM + "[newsvendor]\nprice = [1, 2, 3]\ncost = 1\n", 4, "3 numbers for 2 items"),
        (PROBLEM + "[newsvendor]\nprice = nan\n", 4, "price must be a number"),
        (PROBLEM + "[method]\nnu = 2\n[newsvendor]\nprice = 2\ncost = 1\n", 4, "nu must be"),
        (PROBLEM + "[method]\nnu = '0.2'\n", 4, "nu must be a number without quotes"),
        (PROBLEM + "[method]\nseed = 1.5\n", 4, "seed must be a whole number"),
        (PROBLEM + "[method]\nseed = -1\n[newsvendor]\nprice = 2\ncost = 1\n", 4, "random_state"),
        (PROBLEM + "[decision]\nconstraints = 'a <= 1'\n", 4, "constraints must be texts"),
        (PROBLEM + "[decision]\ninteger = 1\n", 4, "integer must be true or false"),
        (PROBLEM + '[method]\nmethod = "rod"\n', 4, "method must be one of rood,"),
        ('kind = "portfolio"\n', 4, "is about a portfolio, the command about a newsvendor"),
        ('kind = "x"\n', 4, "kind must be newsvendor or portfolio"),
        ("data = 3\n", 4, "'data' must be a section"),
        ("[data\n", 4, "not well-formed TOML"),
        ("a = \xff".encode("latin-1"), 4, "not well-formed TOML"),
        (PROBLEM, 4, "the price is not given"),
        ("", 4, "the table is not given"),
    ],
)
def test_problem_files_that_cannot_be_used(folder, text, code, message):
    (folder / "p.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    assert message in error("decide", "newsvendor", "--problem", "p.toml", code=code)


def test_a_problem_file_that_is_not_there(folder):
    told = error("decide", "newsvendor", "--problem", "no.toml", code=3)
    assert "roodso init newsvendor" in told or "roodso init" in told
    assert "cannot be read" in error("decide", "newsvendor", "--problem", ".", code=3)


def test_doctor_lists_versions_and_solves_a_problem():
    out = run("doctor").stdout
    for name in (roodso.__version__, "clarabel", "scs", "cores", "A small problem was solved"):
        assert name in out
    found = json.loads(run("doctor", "--json").stdout)
    assert found["self_test"]["passed"]
    assert found["packages"]["numpy"] == np.__version__
    assert found["solvers"] == {"clarabel": True, "scs": True, "highspy": True}


def test_doctor_fails_where_a_solver_or_the_problem_fails(monkeypatch):
    from roodso.cli import doctor

    with monkeypatch.context() as patch:
        patch.setitem(doctor._SOLVERS, "scs", "GUROBI")  # not installed
        assert "scs FAILS" in run("doctor", code=6).stdout
    monkeypatch.setattr(doctor, "_self_test", lambda: {"passed": False, "gap": 1.0, "seconds": 1.0})
    assert "NOT solved" in run("doctor", code=6).stdout


def test_demo_decides_and_judges_without_looking_ahead(folder, report, monkeypatch):
    from roodso.cli import reporting

    monkeypatch.setattr(reporting, "compared", lambda *_: None)  # it takes ten seconds
    out = run("demo", "--store", "4").stdout
    assert "Store 4 opens on 30 April 2018" in out
    assert "What the orders would have earned" in out
    assert "had one known the demand" in out
    assert (folder / "roodso-demo.html").read_text() == "<html>made</html>"
    assert "exists" in error("demo", "--store", "4", code=5)
    told = error("demo", "--store", "999", "--force", code=4)
    assert "no store '999'" in told
    assert "4" not in set(report[0]["groups"])
    assert len(report[0]["target"]) >= 26


def test_the_demo_goes_on_where_no_page_can_be_made(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "roodso.report", None)
    result = run("demo")
    assert "no page is written" in result.stderr
    assert not (folder / "roodso-demo.html").exists()
    assert "pip install" in error("demo", "--report", "x.html", code=7)


def test_every_command_has_help_with_an_example():
    for path in (
        ["decide", "newsvendor"], ["decide", "portfolio"], ["evaluate", "newsvendor"],
        ["evaluate", "portfolio"], ["compare", "newsvendor"], ["compare", "portfolio"],
        ["inspect"], ["init"], ["demo"], ["doctor"],
    ):  # fmt: skip
        out = run(*path, "--help").stdout
        assert "Example:" in out
        assert " ".join(["roodso", *path]) in " ".join(out.split())
    assert roodso.__version__ in run("--version").stdout


# Reports --------------------------------------------------------------------------------------


@pytest.fixture
def report(monkeypatch):
    """Stands in for the report: notes what it is called with."""
    calls = []

    def build_report(model, X, groups, **options):
        calls.append({"model": model, "X": X, "groups": groups, **options})
        return "<html>made</html>"

    module = types.ModuleType("roodso.report")
    module.build_report = build_report
    monkeypatch.setitem(sys.modules, "roodso.report", module)
    return calls


def test_the_report_is_handed_all_it_needs(folder, report):
    run("decide", *NEWS, "--report", "r.html", "--target-note", "the <station>", "--integer")
    (call,) = report
    assert (folder / "r.html").read_text() == "<html>made</html>"
    assert isinstance(call["model"], RooDSO)
    table, groups = sales()
    pd.testing.assert_frame_equal(call["X"], table.astype(float))
    assert call["groups"].tolist() == groups.tolist()
    assert "pooled average" in call["rivals"]
    assert set(call["comparison"].summary().index) == {*call["rivals"], call["name"]}
    assert call["title"] == "Order for the <station>"
    assert call["decision"].tolist() == np.round(call["decision"]).tolist()
    assert call["note"] == "614 rows of 12 sources (shop) from sales.csv: loaves, rolls"
    assert call["source"] == "shop"
    assert "whole packs" in call["decision_note"]


def test_the_command_on_the_page_makes_the_same_decision_again(folder, report):
    flags = ["--constraint", "loaves + rolls <= 120", "--no-scale", "--nu", "0.4"]
    said = run("decide", *NEWS, *flags, "--report", "r.html", "--force", "--quiet").stdout
    line = shlex.split(report[0]["command"])
    assert line[0] == "roodso"
    assert not {"--report", "--force", "--quiet"} & set(line)
    assert run(*line[1:], "--quiet").stdout == said


def test_warnings_on_the_data_reach_the_page(folder, report):
    table = pd.read_csv("sales.csv").astype({"loaves": float})
    table.loc[5, "loaves"] = None
    table.loc[9, "rolls"] = -3
    table.to_csv("gaps.csv", index=False)
    flags = ["gaps.csv", *NEWS[2:], "--missing", "drop", "--report", "r.html"]
    run("decide", "newsvendor", *flags)
    missing, negative = report[0]["remarks"]
    assert missing.startswith("1 of 614 rows had a missing entry (loaves: 1)")
    assert negative.startswith("1 entry is below 0")


def test_an_order_in_mind_has_a_page(folder, report):
    run("evaluate", *NEWS, "--order", "120,150", "--report", "r.html")
    (call,) = report
    assert call["decision"].tolist() == [120.0, 150.0]
    assert "in mind already" in call["decision_note"]
    assert "--order 120,150" in call["command"]


def test_a_report_that_cannot_be_made_is_refused_before_any_work(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "roodso.report", None)
    monkeypatch.setattr(RooDSO, "fit", lambda *_, **__: pytest.fail("work was done"))
    assert "roodso[report]" in error("decide", *NEWS, "--report", "r.html", code=7)


def test_a_report_that_fails_leaves_no_file(folder, report, monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("no ink")

    monkeypatch.setattr(sys.modules["roodso.report"], "build_report", fails)
    told = error("decide", *NEWS, "--report", "r.html", "--json", "r.json", code=1)
    assert "no ink" in told


# Files that are written -----------------------------------------------------------------------


def test_files_are_not_replaced_without_force(folder):
    (folder / "r.json").write_text("mine")
    told = error("decide", *NEWS, "--json", "r.json", code=5)
    assert "'r.json' exists" in told
    assert "--force" in told
    run("decide", *NEWS, "--json", "r.json", "--force")
    assert json.loads((folder / "r.json").read_text())


def test_places_are_checked_before_any_work(folder, monkeypatch):
    monkeypatch.setattr(RooDSO, "fit", lambda *_, **__: pytest.fail("work was done"))
    (folder / "there").mkdir()
    (folder / "link.csv").symlink_to("sales.csv")
    for place, message in (
        ("no/r.json", "there is no folder"),
        ("there", "is a folder"),
        ("sales.csv", "which is read"),
        ("link.csv", "which is read"),
        ("x" * 300, "too long"),
        ("", "must be the path of a file"),
    ):
        code = 4 if not place else 5
        assert message in error("decide", *NEWS, "--json", place, "--force", code=code)
    told = error("decide", *NEWS, "--json", "a", "--table", "./a", code=5)
    assert "the same place" in told
    assert "the same place" in error("decide", *NEWS, "--json", "-", "--table", "-", code=5)


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write anywhere")
def test_a_folder_that_forbids_writing_is_noticed(folder):
    (folder / "locked").mkdir(mode=0o500)
    assert "does not allow it" in error("decide", *NEWS, "--json", "locked/r.json", code=5)


def test_a_disk_that_is_full_leaves_no_partial_file(folder, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    assert "No space left" in error("decide", *NEWS, "--json", "r.json", code=5)


def test_a_file_that_comes_to_be_meanwhile_is_not_replaced(folder, monkeypatch):
    fit = RooDSO.fit

    def slow(self, *arguments, **options):
        (folder / "r.json").write_text("theirs")
        return fit(self, *arguments, **options)

    monkeypatch.setattr(RooDSO, "fit", slow)
    result = run("decide", *NEWS, "--json", "r.json", code=5)
    assert "exists" in result.stderr
    assert (folder / "r.json").read_text() == "theirs"


def test_written_files_have_ordinary_rights(folder):
    old = os.umask(0o027)
    try:
        run("decide", *NEWS, "--json", "r.json")
    finally:
        os.umask(old)
    assert stat.S_IMODE((folder / "r.json").stat().st_mode) == 0o640


# Errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--constraint", "loavs <= 3"], 4, "did you mean 'loaves'?"),
        (["--constraint", "loaves + rolls <= 30", "--lower", "20"], 4,
         "exclude each other: loaves + rolls <= 30; loaves >= 20; rolls >= 20"),
        (["--upper", "3", "--lower", "4"], 4, "exclude each other"),
        (["--price", "-3"], 4, "the price of 'loaves' is below 0: -3"),
        (["--backorder", "5,-1"], 4, "the backorder of 'rolls' is below 0"),
        (["--price", "many"], 4, "'many' is not a number"),
        (["--price", "1,2,3"], 4, "3 numbers for 2 items"),
        (["--price", "loaves=1,2"], 4, "'2' has no name"),
        (["--price", "loaves=1,loaves=2"], 4, "given twice"),
        (["--price", '"a'], 4, "is not understood"),
        (["--items", "loaves,rols"], 3, "did you mean 'rolls'?"),
        (["--items", "shop"], 4, "cannot be the source and an item"),
        (["--source", "loaves", "--items", "rolls", "--price", "1", "--cost", "1", "--holding", "1",
          "--backorder", "x"], 4, "'x' is not a number"),
        (["--missing", "guess"], 4, "missing must be one of error, drop"),
        (["--nu", "0"], 4, "nu must be"),
        (["--nu", "1.5"], 4, "nu must be"),
        (["--support-points", "-1"], 4, "n_support"),
        (["--seed", "-1"], 4, "random_state"),
        (["--jobs", "0"], 4, "n_jobs"),
        (["--pack-size", "0"], 4, "pack size of 'loaves' must be above 0"),
        (["--pack-size", "7", "--constraint", "loaves = 3"], 4, "no whole-number order"),
        (["--holding", "-30"], 4, "without upper"),
        (["--delimiter", "ab"], 3, "cannot separate cells"),
        (["--delimiter", ";"], 3, "no column 'shop'"),
        (["--nu", "x"], 2, "a valid number"),
        (["--colour", "x"], 2, "No such option"),
    ],
)  # fmt: skip
def test_errors_say_what_is_wrong_and_end_in_their_code(folder, arguments, code, message):
    assert message in error("decide", *NEWS, *arguments, code=code)


def test_errors_have_message_cause_and_remedy(folder):
    result = run("decide", *NEWS[:2], "--source", "shp", "--items", "rolls", *MONEY, code=3)
    lines = result.stderr.splitlines()
    assert lines == [
        "error: there is no column 'shp' in sales.csv",
        "why: it was asked for as the source of each row",
        "what to do: did you mean 'shop'?",
    ]
    assert result.stdout == ""


def test_the_traceback_is_shown_on_demand_only(folder):
    result = CliRunner().invoke(app, ["decide", *NEWS, "--price", "-3", "--debug"])
    assert result.exit_code == 4
    assert "Traceback" in result.stderr
    assert "error: the price" in result.stderr


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [
        (SolverError("no luck", "failed"), 6, "no trustworthy answer"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (ZeroDivisionError("oh"), 1, "ZeroDivisionError: oh"),
        (MemoryError(), 1, "MemoryError"),
        (ValueError("of another package"), 1, "ValueError: of another package"),
    ],
)
def test_what_goes_wrong_later_ends_in_its_code(folder, monkeypatch, raised, code, message):
    def fails(*_, **__):
        raise raised

    monkeypatch.setattr(RooDSO, "fit", fails)
    assert message in error("decide", *NEWS, "--json", "r.json", code=code)
    assert code in EXIT_CODES


def test_economic_oddities_are_warned_of(folder):
    result = run("decide", *NEWS, "--price", "10", "--holding", "-1", "--quiet")
    assert "sold below its cost (10 < 20)" in result.stderr
    assert "left over brings 1" in result.stderr
    found = json.loads(run("decide", *NEWS, "--price", "10", "--json", "-").stdout)
    assert "sold below its cost" in " ".join(note["text"] for note in found["notes"])


def test_refusals_of_the_library_itself_are_the_users_to_put_right(folder, monkeypatch):
    from roodso._validation import check_real

    monkeypatch.setattr(RooDSO, "fit", lambda *_, **__: check_real(3.0, "tol", high=1.0))
    assert "tol must be a number in" in error("decide", *NEWS, code=4)


def test_the_shell_completes_choices():
    environment = {
        "_ROODSO_COMPLETE": "complete_bash",
        "COMP_WORDS": "roodso decide newsvendor --method ba",
        "COMP_CWORD": "4",
    }
    result = CliRunner().invoke(app, [], prog_name="roodso", env=environment)
    assert result.stdout.split() == ["barycenter"]


def test_a_cell_that_holds_markup_shows_as_text(folder):
    names = ["[bold red]a[/]", "<script>", "\x1b[31mred", ":smile:", "[link=http://x]y"]
    rows = [f'"{name}",{k + 1},{k + 2}' for k in range(3) for name in names]
    text = 'shop,"[i]rolls[/i]",b\n' + "\n".join(rows) + "\n"
    (folder / "markup.csv").write_text(text)
    flags = ["--source", "shop", "--items", "[i]rolls[/i],b", *MONEY]
    out = run("decide", "newsvendor", "markup.csv", *flags, "--target-note", "[red]x").stdout
    assert "[i]rolls[/i]" in out
    assert "[red]x" in out
    assert "\x1b" not in out
    seen = run("inspect", "markup.csv", "--source", "shop").stdout
    for name in names:
        assert visible(name) in seen
    assert "\x1b" not in seen
    run("decide", "newsvendor", "markup.csv", *flags, "--target-note", "<b>x", "--report", "m.html")
    page = (folder / "m.html").read_text()
    assert "&lt;script&gt;" in page
    assert page.count("<script") == 2  # the slider's data, and the page's own
    assert "<b>" not in page
    assert "\x1b" not in page
    told = run("decide", "newsvendor", "markup.csv", "--source", "[bold]x", *MONEY, code=4)
    assert "\x1b" not in told.output


def test_money_and_amounts_in_words():
    plain, euros, pounds = Formats(), Formats("EUR", "kg"), Formats("£")
    assert plain.money(-0.001) == "-0.001"
    assert plain.money(-0.0) == "0.00"
    assert euros.money(-1234.567) == "-1,234.57 EUR"
    assert pounds.money(-5) == "-£5.00"
    assert euros.quantity(1200) == "1,200 kg"
    assert euros.quantity(0.5) == "0.50 kg"
    assert euros.worst(3) == "a cost of at most 3.00 EUR"
    assert euros.mean(-3) == "a profit of 3.00 EUR"


# As a process ---------------------------------------------------------------------------------


def process(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "roodso", *arguments],
        capture_output=True, text=True, check=False, **options,
    )  # fmt: skip


def test_the_module_runs_as_a_program(folder):
    done = process("decide", *NEWS, "--quiet")
    assert done.returncode == 0
    assert done.stdout == run("decide", *NEWS, "--quiet").stdout
    failed = process("decide", *NEWS, "--price", "-1")
    assert failed.returncode == 4
    assert failed.stdout == ""
    assert failed.stderr.splitlines()[-2].startswith("error: the price of 'loaves'")


def test_standard_input_and_output_of_a_process(folder):
    with open("sales.csv", "rb") as stream:
        arguments = ["decide", "newsvendor", "-", *NEWS[2:], "--json", "-"]
        done = process(*arguments, stdin=stream)
    assert json.loads(done.stdout)["decision"]


def test_a_reader_that_goes_away_is_no_error_of_ours(folder):
    command = f"{sys.executable} -m roodso doctor | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr


def test_an_interrupt_leaves_no_file(folder):
    code = (
        "import signal, time, roodso.methods.rood as r, roodso.cli as c;"
        "signal.signal(signal.SIGINT, signal.default_int_handler);"  # a background job ignores it
        "r.RooDSO.fit = lambda *a, **k: (print('begun', flush=True), time.sleep(60));"
        "c.main()"
    )
    running = subprocess.Popen(
        [sys.executable, "-c", code, "decide", *NEWS, "--json", "r.json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stdout.readline() == "begun\n"
    time.sleep(0.1)
    running.send_signal(signal.SIGINT)
    _, stderr = running.communicate(timeout=30)
    assert running.returncode == 130
    assert "interrupted" in stderr
    assert "Traceback" not in stderr
    assert not (folder / "r.json").exists()
    assert not list(folder.glob(".roodso-*"))
