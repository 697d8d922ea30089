"""The studies: what is measured, what is concluded, and that rows can be trusted."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import roodso
from roodso import SAA
from roodso.cli.app import app
from roodso.datasets import make_newsvendor_sources
from roodso.experiments import (
    ablation,
    bakery,
    choice,
    coffee,
    etf,
    measures,
    methods,
    page,
    study,
    table1,
)
from roodso.experiments.catalogue import STUDIES, make_study
from roodso.experiments.held_out import HINDSIGHT, TUNED, Case
from roodso.experiments.measures import MEASURES, SUMMARY, Sample, contrast, judge, summarize
from roodso.experiments.methods import BALL, HULL, METHODS
from roodso.experiments.study import TIMINGS, find_tables, reproduce
from roodso.experiments.synthetic import LOSS
from roodso.losses import CVaRPortfolio, Newsvendor
from roodso.model_selection import WithinSourceSplit, paper_grid, select
from roodso.sets import SupportMeasureBall

ROOT = Path(__file__).parents[1]
PAPER = ROOT.parent / "shared" / "paper" / "rood-so.tex"
RESULTS = ROOT / "results"


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Made-up tables of the form that users bring."""
    folder, rng = tmp_path_factory.mktemp("tables"), np.random.default_rng(0)
    cups = pd.DataFrame(
        rng.uniform(10, 40, (40, 3)).round(2), columns=["small", "regular", "large"]
    )
    cups.insert(0, "n_days", [7] * 9 + [5] + [7] * 30)
    cups.insert(0, "product", np.repeat([1, 2, 3, 4], 10))
    cups.to_csv(folder / "coffee_weekly_sun.csv", index=False)
    funds = pd.DataFrame(
        rng.normal(0.01, 0.05, (48, 3)).round(4), columns=["utilities", "tech", "health"]
    )
    funds.insert(0, "set", np.repeat(["1", "2", "3", "A"], 12))
    funds.to_csv(folder / "etf_sector_monthly_tr.csv", index=False)
    return folder


def without_timings(rows):
    return rows.drop(columns=[name for name in TIMINGS if name in rows])


# --- Measures -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "decision"),
    [(LOSS, np.array([2.0, 1.5])), (CVaRPortfolio(10.0, 0.2), np.array([0.3, 0.7]))],
)
def test_costs_are_those_of_the_formulas(loss, decision):
    xi = np.random.default_rng(0).normal(1.5, 1.0, (203, 2))
    if isinstance(loss, Newsvendor):
        p, c, h, b = (np.array(v) for v in (loss.price, loss.cost, loss.holding, loss.backorder))
        over, under = np.maximum(decision - xi, 0), np.maximum(xi - decision, 0)
        values = -np.minimum(decision, xi) @ p + decision @ c + over @ h + under @ b
    else:
        losses = -xi @ decision
        values = min(
            (losses + 10 * (tau + np.maximum(losses - tau, 0) / 0.2) for tau in losses),
            key=np.mean,
        )
    found = measures.costs_of(loss, decision, xi)
    ordered = np.sort(values)
    assert found.mean == pytest.approx(values.mean())
    assert found.quantile == pytest.approx(np.quantile(values, 0.95))
    assert found.cvar == pytest.approx(ordered[-10:].mean())
    assert found.largest == pytest.approx(ordered[-1])


def test_measures_over_distributions():
    costs = [measures.Costs(mean, mean + 1, mean + 2, mean + 3) for mean in range(11)]
    found = measures.over_distributions(costs)
    assert found == {
        "mean": 5.0,
        "quantile 90": 9.0,
        "worst": 10.0,
        "largest quantile 95": 11,
        "largest CVaR": 12,
    }
    assert list(found) == list(MEASURES)


def test_a_summary_has_values_intervals_and_paired_differences():
    rng = np.random.default_rng(0)
    ball = rng.normal(0, 10, 40)
    values = pd.DataFrame({"SAA": ball + 1.0, BALL: ball, "noisy": rng.normal(0, 10, 40)})
    found = summarize([Sample("a study", "mean", values)]).set_index("method")
    assert ["method", *found.columns] == [SUMMARY[1], SUMMARY[0], *SUMMARY[2:]]
    assert found["value"].to_numpy() == pytest.approx(values.mean().to_numpy())
    # A difference that is the same in every unit is known, whatever the spread of both.
    assert found.loc["SAA", "difference_to_ball":].tolist() == pytest.approx([1.0] * 3)
    assert found.loc["SAA", "high"] - found.loc["SAA", "low"] > 3
    assert found.loc["noisy", "diff_low"] < 0 < found.loc["noisy", "diff_high"]
    pairs = contrast([Sample("a study", "mean", values)], "SAA", BALL).iloc[0]
    assert pairs[["difference", "low", "high"]].tolist() == pytest.approx([1.0] * 3)


def test_intervals_hold_the_mean_as_often_as_they_say():
    rng, held = np.random.default_rng(1), 0
    for _ in range(300):
        sample = Sample("x", "mean", pd.DataFrame({BALL: rng.exponential(1.0, 30)}))
        row = summarize([sample]).iloc[0]
        held += row["low"] <= 1.0 <= row["high"]
    assert 0.88 < held / 300 < 0.98  # percentile bootstrap of 30 skewed values falls a little short


def test_one_unit_allows_no_conclusion():
    values = pd.DataFrame({"SAA": [1.0], BALL: [0.0]})
    samples = [Sample("x", measure, values) for measure in MEASURES]
    assert summarize(samples)[["low", "high", "diff_low", "diff_high"]].isna().all(axis=None)
    assert judge(contrast(samples, BALL, "SAA"))[0] == "undecided here"


@pytest.mark.parametrize(
    ("mean", "tail", "word"),
    [
        ("for", "for", "holds"),
        ("against", "for", "holds for tail measures only"),
        ("unclear", "for", "holds for tail measures only"),
        ("for", "unclear", "holds for the mean only"),
        ("for", "against", "holds for the mean only"),
        ("against", "against", "does not hold here"),
        ("against", "unclear", "does not hold here"),
        ("unclear", "against", "does not hold here"),
        ("unclear", "unclear", "undecided here"),
    ],
)
def test_verdicts(mean, tail, word):
    ends = {"for": (-2.0, -1.0), "against": (1.0, 2.0), "unclear": (-1.0, 1.0)}
    rows = [("mean", *ends[mean])] * 3 + [("worst", *ends[tail])] * 3
    # One comparison that is not clear leaves a majority; one clearly against does not.
    rows[0] = ("mean", -1.0, 1.0)
    found = pd.DataFrame(rows, columns=["measure", "low", "high"])
    assert judge(found)[0] == word

    # And one that is clearly against the claim leaves it at most mostly true.
    found.loc[0, ["low", "high"]] = (1.0, 2.0)
    expected = {
        "holds": "holds mostly",
        "holds for the mean only": "holds mostly for the mean only",
    }
    assert judge(found)[0] == expected.get(word, word)
    found["measure"] = found["measure"].replace({"mean": "worst", "worst": "mean"})
    if (mean, tail) == ("for", "against"):
        assert judge(found)[0] == "holds for most tail measures only"


# --- What the paper prints, and what is possible --------------------------------------------------


def test_possible_averages_agree_with_sampling():
    """Against the generator itself, by many targets with many samples each."""
    possible = table1.possible_averages()
    targets = make_newsvendor_sources(600, 200, random_state=0)
    samples = np.stack(targets)
    p, c, h, b = (np.array(v) for v in (LOSS.price, LOSS.cost, LOSS.holding, LOSS.backorder))

    def average(x):
        over, under = np.maximum(x - samples, 0), np.maximum(samples - x, 0)
        costs = (x * c - np.minimum(x, samples) * p + over * h + under * b).sum(axis=2)
        return costs.mean(axis=1)

    grid = [np.array([x, y]) for x in np.linspace(1, 3, 11) for y in np.linspace(1, 3, 11)]
    every = np.stack([average(x) for x in grid])
    error = 4 * every.std(axis=1).max() / np.sqrt(len(targets))
    means = every.mean(axis=1)
    assert possible["lowest"] - error < means.min() < possible["lowest"] + error
    assert possible["highest"] - error < means.max() < possible["highest"] + error
    assert every.max() < possible["single"] + 1.5  # of 200 samples each
    knowing = np.mean([SAA(LOSS).fit([target]).objective_ for target in targets[:400]])
    assert knowing == pytest.approx(possible["knowing"], abs=4 * 22 / np.sqrt(400))
    assert possible["perfect"] == pytest.approx(-110)
    # What a target's own spread costs varies little between targets.
    spread = [SAA(LOSS).fit([t]).objective_ + t.mean(axis=0) @ (p - c) for t in targets[:400]]
    error = 4 * np.std(spread) / np.sqrt(400)
    assert error < 0.5
    assert np.mean(spread) == pytest.approx(possible["knowing"] + 110, abs=error)


def test_no_printed_cost_is_a_possible_average():
    possible = table1.possible_averages()
    printed = [cost for row in table1.PRINTED.values() for cost, _ in row.values() if cost]
    assert len(printed) == 22
    assert not any(possible["lowest"] <= cost <= possible["highest"] for cost in printed)


@pytest.mark.skipif(not PAPER.exists(), reason="the paper is not beside the repository")
@pytest.mark.parametrize(
    ("label", "printed"),
    [
        ("tab:newsvendor_results_1", [
            [value for pair in row.values() for value in pair] for row in table1.PRINTED.values()
        ]),
        ("tab:cost_coffee_5sets", list(map(list, zip(*coffee.PRINTED.values(), strict=True)))),
        ("tab:sharpe_loso_9sets", list(map(list, zip(*etf.PRINTED.values(), strict=True)))),
    ],
)  # fmt: skip
def test_printed_figures_are_those_of_the_paper(label, printed):
    text = PAPER.read_text()
    start = text.index(r"\midrule", text.index(rf"\label{{{label}}}"))
    lines = re.split(r"\\\\", text[start : text.index(r"\end{tabular", start)])
    found = []
    for line in lines[: len(printed)]:
        cells = re.sub(r"\\textbf\{([^}]*)\}", r"\1", line).split("&")[1:]
        numbers = [re.match(r"\s*(-?[\d.]+|--)", cell).group(1) for cell in cells]
        values = [None if number == "--" else float(number) for number in numbers]
        found.append(values if len(values) == len(printed[0]) else values[::2])
    assert found == printed


# --- Rows -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("table1")
    return folder, reproduce(make_study("table1", quick=True), folder, repetitions=2)


def test_there_is_a_row_for_every_task(finished):
    rows, one = finished[1], make_study("table1", quick=True)
    keys = set(rows[["case", "repetition", "method"]].itertuples(index=False, name=None))
    assert keys == {(c, r, m) for c in one.cases for r in (0, 1) for m in METHODS}
    assert len(rows) == len(keys)
    assert set(rows["version"]) == {roodso.__version__}
    assert set(rows["seed"]) == {0}


@pytest.mark.parametrize("name", ["SAA", BALL, methods.HULL])
def test_a_row_is_what_its_settings_say(finished, name):
    """Drawn, tuned, fitted and judged again by hand."""
    case, repetition = "M = 5, n in [8, 12]", 1
    learn, unseen = np.random.default_rng([0, 1, repetition]).spawn(2)
    sources = make_newsvendor_sources(5, (8, 12), random_state=learn)
    targets = make_newsvendor_sources(10, 200, random_state=unseen)
    model = METHODS[name].make(LOSS, repetition, False)
    grid = METHODS[name].searched(model, 5, quick=True)
    if grid:
        split = WithinSourceSplit(random_state=repetition)
        model = select(model, grid, sources, cv=split).best_estimator_
    else:
        model.fit(sources)
    costs = [-model.score(target) for target in targets]
    rows = finished[1]
    row = rows[(rows.case == case) & (rows.repetition == repetition) & (rows.method == name)]
    assert len(row) == 1
    row = row.iloc[0]
    assert row[["x0", "x1"]].tolist() == pytest.approx(model.decision_.tolist(), abs=1e-4)
    assert row["mean"] == pytest.approx(np.mean(costs), abs=1e-3)
    assert row["worst"] == pytest.approx(max(costs), abs=1e-3)
    assert row["objective"] == pytest.approx(model.objective_, rel=1e-5)


def test_processes_change_nothing_but_timings(finished, tmp_path):
    rows = reproduce(make_study("table1", quick=True), tmp_path, repetitions=2, n_jobs=2)
    pd.testing.assert_frame_equal(
        without_timings(rows), without_timings(finished[1]), check_exact=True
    )


def test_an_interrupted_run_goes_on_where_it_stopped(finished, tmp_path, monkeypatch):
    one, calls = make_study("table1", quick=True), []
    original = type(one).work

    def stops(self, task):
        calls.append(task)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return original(self, task)

    monkeypatch.setattr(type(one), "work", stops)
    with pytest.raises(KeyboardInterrupt):
        reproduce(one, tmp_path, repetitions=2)
    assert len(pd.read_csv(tmp_path / "rows.csv")) == 5
    with pytest.raises(ValueError, match="resume to take its rows"):
        reproduce(one, tmp_path, repetitions=2)
    told = []
    rows = reproduce(
        one, tmp_path, repetitions=2, resume=True, progress=lambda *news: told.append(news[1])
    )
    assert len(calls) == 1 + len(finished[1])  # the one interrupted was done again
    assert told == sorted(told)
    assert told[0] == pytest.approx(6 / len(rows))
    assert told[-1] == 1.0
    pd.testing.assert_frame_equal(
        without_timings(rows), without_timings(finished[1]), check_exact=True
    )


def test_rows_of_other_settings_are_not_mixed(finished):
    folder, rows = finished
    before = (folder / "rows.csv").read_bytes()
    for other in (make_study("table1"), replace(make_study("table1", quick=True), seed=1)):
        with pytest.raises(ValueError, match="other settings"):
            reproduce(other, folder, repetitions=1, resume=True)
    assert (folder / "rows.csv").read_bytes() == before
    assert len(rows)


def test_other_data_are_other_settings(tables, tmp_path):
    one = make_study("coffee", quick=True, folders=[tables])
    changed = tmp_path / "coffee_weekly_sun.csv"
    changed.write_text((tables / "coffee_weekly_sun.csv").read_text().replace("7", "6"))
    other = make_study("coffee", quick=True, folders=[tmp_path])
    assert one.settings() != other.settings()


def test_files_written_say_what_the_rows_say(finished):
    folder, rows = finished
    one = make_study("table1", quick=True)
    summary = pd.read_csv(folder / "summary.csv")
    assert list(summary.columns) == SUMMARY
    case, name = "M = 2, n in [8, 10]", "DRO-Conv"
    here = rows[(rows.case == case) & (rows.method == name)]
    row = summary[
        (summary.study == f"table1: {case}")
        & (summary.method == name)
        & (summary.measure == "largest CVaR")
    ].iloc[0]
    assert row["value"] == pytest.approx(here["largest CVaR"].mean(), rel=1e-5)
    text = (folder / "table1.md").read_text()
    assert "The quick form" in text
    for verdict in one.verdicts(rows):
        assert verdict.line() in text
    assert (folder / "table1.png").stat().st_size > 10_000


@pytest.mark.parametrize(("name", "value"), [("repetitions", 0), ("n_jobs", 0)])
def test_bad_arguments_are_named(tmp_path, name, value):
    with pytest.raises(ValueError, match=name):
        reproduce(make_study("table1", quick=True), tmp_path, **{name: value})


def test_rows_name_the_commit_and_whether_it_was_changed(monkeypatch):
    said = {"ls-files": "", "rev-parse": "0123456789", "status": ""}

    def answers(command, **_):
        return type("Done", (), {"stdout": said[command[1]] + "\n"})

    monkeypatch.setattr(study.subprocess, "run", answers)
    assert study.origin()["commit"] == "0123456789"
    said["status"] = " M src/roodso/kernels.py"
    assert study.origin()["commit"] == "0123456789+"

    def fails(*_, **__):
        raise OSError

    monkeypatch.setattr(study.subprocess, "run", fails)
    assert study.origin() == {"version": roodso.__version__, "commit": ""}


# --- Studies on real data -------------------------------------------------------------------------


def tiny_case(target_shift=0.0):
    rng = np.random.default_rng(0)
    data = np.vstack([rng.uniform(1, 5, (8, 2)) + center for center in (0, 1, 2, 3)])
    data[-8:] += target_shift
    return Case("tiny", LOSS, data, np.repeat(["a", "b", "c", "d"], 8))


@pytest.mark.parametrize("name", ["DRO-W", BALL, methods.HULL, "SAA-WB", "DRO-Intx"])
def test_the_target_has_no_say_but_in_hindsight(monkeypatch, name):
    """Whatever the target's data, the decision and its parameters are the same."""
    one, found = bakery.Bakery(quick=True), []
    for shift in (0.0, 50.0):
        case = tiny_case(shift)
        monkeypatch.setattr(bakery.Bakery, "cases", lambda self, case=case: {"tiny": case})
        rows = pd.DataFrame(one.work(("tiny", 0, name)))
        found.append(rows[(rows.target == "store d") & (rows.tuning == TUNED)].iloc[0])
    same = ["x0", "x1", "parameters", "gap"]
    assert found[0][same].tolist() == found[1][same].tolist()
    assert found[0]["cost"] != found[1]["cost"]


def test_hindsight_takes_one_setting_and_costs_least(monkeypatch):
    case = tiny_case()
    monkeypatch.setattr(bakery.Bakery, "cases", lambda self: {"tiny": case})
    monkeypatch.setattr(bakery.Bakery, "labels", lambda self: ["tiny"])
    rows = pd.DataFrame(bakery.Bakery(quick=False).work(("tiny", 0, BALL)))
    hindsight = rows[rows.tuning == HINDSIGHT]
    assert len(set(hindsight["parameters"])) == 1
    settings = paper_grid(METHODS[BALL].make(LOSS, 0, False), 3)["nu"]
    means = []
    for nu in settings:
        costs = []
        for target in "abcd":
            unseen = case.groups == target
            model = METHODS[BALL].make(LOSS, 0, False).set_params(nu=nu)
            model.fit(case.data[~unseen], groups=case.groups[~unseen])
            costs.append(-model.score(case.data[unseen]))
        means.append(np.mean(costs))
    assert hindsight["cost"].mean() == pytest.approx(min(means), abs=1e-3)
    assert hindsight["cost"].mean() <= rows[rows.tuning == TUNED]["cost"].mean() + 1e-9


def test_what_is_drawn_is_not_replicated_where_nothing_is():
    one = bakery.Bakery(quick=True)
    tasks = one.tasks(4, pd.DataFrame())
    counts = {name: sum(task[2] == name for task in tasks) for name in METHODS}
    assert counts["SAA"] == counts["DRO-W"] == counts["DRO-Conv"] == 1
    assert counts[BALL] == counts["SAA-WB"] == 4


def test_sharpe_ratios_and_the_equal_weights(tables):
    one = make_study("etf", quick=True, folders=[tables])
    rows = pd.DataFrame(one.work(("total returns", 0, etf.EQUAL)))
    table = pd.read_csv(tables / "etf_sector_monthly_tr.csv")
    row = rows[(rows.target == "set A") & (rows.tuning == TUNED)].iloc[0]
    returns = table[table.set == "A"][["utilities", "tech", "health"]].mean(axis=1)
    assert row["sharpe"] == pytest.approx(returns.mean() / returns.std())
    assert row[["x0", "x1", "x2"]].tolist() == pytest.approx([1 / 3] * 3)


def test_week_rules_are_those_named(tables):
    one = make_study("coffee", folders=[tables])
    cases = one.cases()
    # Of the tables only that of Sundays is there.
    assert all("Sunday" in name for name in cases)
    full = next(case for name, case in cases.items() if "full" in name)
    main = next(iter(cases.values()))
    assert len(main.data) == 40
    assert len(full.data) == 39  # the week of five days is left out
    assert main.loss.price == [2.2, 3.0, 3.5]
    assert main.loss.cost == [0.66, 0.9, 1.05]


def test_tables_are_taken_from_the_first_folder_that_has_them(tables, tmp_path):
    (tmp_path / "coffee_weekly_sun.csv").write_text("x")
    found = find_tables(("coffee_weekly_sun", "coffee_weekly_mon"), [tmp_path, tables])
    assert found == {"coffee_weekly_sun": tmp_path / "coffee_weekly_sun.csv"}
    with pytest.raises(ValueError, match=r"coffee needs a folder .*coffee_weekly_sun\.csv"):
        make_study("coffee", folders=[tmp_path / "none"])


# --- The ablation ---------------------------------------------------------------------------------


def fake_rows(states):
    """(n, M, variant): the states of its trials."""
    return pd.DataFrame(
        [
            {"n": n, "M": M, "variant": variant, "repetition": trial, "status": status}
            for (n, M, variant), all_of in states.items()
            for trial, status in enumerate(all_of)
        ]
    )


def test_only_what_every_trial_found_too_large_is_left_out():
    done, stopped = ablation.DONE, ablation.STOPPED
    rows = fake_rows({
        (100, 2, "exact"): [done, done],
        (100, 2, "w/o RG"): [done, stopped],
        (100, 4, "w/o RG"): [stopped, stopped],
    })  # fmt: skip
    beyond = ablation._beyond
    assert not beyond(rows, "exact", 100, 8)
    assert not beyond(rows, "w/o RG", 100, 4)  # its own size does not count
    assert not beyond(rows, "w/o RG", 200, 2)  # fewer sources than where it failed
    assert beyond(rows, "w/o RG", 100, 8)
    assert beyond(rows, "w/o RG", 200, 4)
    assert not beyond(pd.DataFrame(), "exact", 1, 1)


def test_what_is_left_out_is_said_and_what_it_follows_from_is_kept(tmp_path, monkeypatch):
    """With no time at all for programmes of many rows, larger sizes are not run."""
    one = make_study("ablation", quick=True)
    original = type(one).work

    def limited(self, task):
        rows = original(self, task)
        if task[3] == "w/o RG" and task[4] == "run" and task[1] == 3:
            rows[0]["status"] = ablation.STOPPED
        return rows

    monkeypatch.setattr(type(one), "work", limited)
    rows = reproduce(one, tmp_path, repetitions=2).set_index(["n", "M", "variant", "repetition"])
    rows = rows.sort_index()
    assert set(rows.loc[(20, 3, "w/o RG"), "status"]) == {ablation.STOPPED}
    assert set(rows.loc[(30, 2, "w/o RG"), "status"]) == {ablation.DONE}
    assert set(rows.loc[(30, 3, "w/o RG"), "status"]) == {ablation._NOT_RUN}
    assert rows.loc[(30, 3, "w/o RG"), "value"].isna().all()
    assert len(rows) == 4 * len(ablation.VARIANTS) * 2
    line = next(
        line for line in (tmp_path / "ablation.md").read_text().splitlines()
        if line.startswith("| 30 | 3 |")
    )  # fmt: skip
    assert line.split(" | ")[6] == "not run"


def test_a_fit_that_a_busy_machine_stopped_early_is_run_again(monkeypatch):
    """Its clock ran out before it had the processor for the time allowed."""
    limits = []

    def fit(model, sources):
        limits.append(model.time_limit)
        busy = len(limits) < 3
        state = ablation.STOPPED if busy else ablation.DONE
        return {"status": state, "cpu_seconds": 0.3 * ablation.LIMIT}

    monkeypatch.setattr(ablation, "_fit", fit)
    row = make_study("ablation").work((100, 2, 0, ablation.BOTH, "run"))[0]
    assert row["status"] == ablation.DONE
    assert limits == [ablation.LIMIT, 4 * ablation.LIMIT, 16 * ablation.LIMIT]

    def had_its_time(model, sources):
        limits.append(model.time_limit)
        return {"status": ablation.STOPPED, "cpu_seconds": 1.1 * ablation.LIMIT}

    limits.clear()
    monkeypatch.setattr(ablation, "_fit", had_its_time)
    row = make_study("ablation").work((100, 2, 0, ablation.BOTH, "run"))[0]
    assert (row["status"], len(limits)) == (ablation.STOPPED, 1)


@pytest.mark.parametrize("variant", [ablation.BOTH, ablation.NEITHER])
def test_the_common_ball_is_that_of_the_samples(variant):
    """With sources larger than what is herded, where the two differ."""
    rng = np.random.default_rng([0, 120, 3, 0])
    ball = SupportMeasureBall(nu=0.2, random_state=0).fit(
        make_newsvendor_sources(3, 120, random_state=rng)
    )
    row = make_study("ablation").work((120, 3, 0, variant, "run"))[0]
    assert row["radius"] == pytest.approx(ball.radius_, rel=1e-9)
    assert row["status"] == ablation.DONE


def test_variants_share_a_ball_and_none_beats_the_exact_optimum(tmp_path):
    one = make_study("ablation", quick=True)
    rows = reproduce(one, tmp_path, repetitions=1)
    assert (rows["status"] == ablation.DONE).all()
    sizes = rows.groupby(["n", "M"])
    assert (sizes["radius"].max() == sizes["radius"].min()).all()
    values = rows.pivot_table(index=["n", "M"], columns="variant", values="value")
    gaps = values.sub(values[ablation.EXACT], axis=0).div(values[ablation.EXACT].abs(), axis=0)
    assert (gaps > -1e-5).all(axis=None)
    assert (gaps[["w/o RCR", ablation.NEITHER]].abs() < 1e-5).all(axis=None)


# --- The command ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*STUDIES, "coverage"])
def test_the_quick_form_of_each_runs(name, tables, tmp_path):
    arguments = ["reproduce", name, "--quick", "--out", str(tmp_path), "--data", str(tables)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    written = {path.name for path in tmp_path.iterdir()}
    rows = "runs" if name == "coverage" else "rows"
    assert {f"{rows}.csv", f"{rows}.json", "summary.csv", f"{name}.md"} <= written


def test_all_leaves_out_what_has_no_data_and_says_so(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(
        "roodso.cli.reproduce._one", lambda name, folder, *_: ran.append((name, folder))
    )
    done = CliRunner().invoke(app, ["reproduce", "all", "--out", str(tmp_path)])
    assert done.exit_code == 0
    names = [name for name, _ in ran]
    brought = [name for name in STUDIES if name not in ("coffee", "etf")]
    assert names == [*brought, "coverage", "defaults"]
    assert ran[0][1] == tmp_path / names[0]
    for name in ("coffee", "etf"):
        assert f"{name} is left out" in done.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["tabel1"], "did you mean 'table1'"),
        (["etf"], "etf needs a folder"),
        (["table1", "--quick", "--repetitions", "0"], "repetitions must be"),
        (["table1", "--quick", "--jobs", "0"], "n_jobs must be"),
    ],
)
def test_mistakes_are_explained(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["reproduce", *arguments])
    assert done.exit_code == 4
    assert said in done.output
    assert not list(tmp_path.rglob("rows.csv"))


# --- What is published ----------------------------------------------------------------------------

PUBLISHED = [name for name in STUDIES if (RESULTS / name / "rows.csv").exists()]


def test_the_page_is_made_from_the_results():
    assert (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8") == page.reproduction(
        RESULTS
    ), "run: python -m roodso.experiments.page docs"


def test_the_readme_has_the_bakery_s_table():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert page.with_bakery(text, RESULTS) == text


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_summaries_are_those_of_the_rows(name):
    rows = pd.read_csv(RESULTS / name / "rows.csv")
    made = STUDIES[name]().summarize(rows).to_csv(index=False, float_format="%.6g")
    assert (RESULTS / name / "summary.csv").read_text() == made


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_rows_are_full_ones_of_a_committed_program(name):
    rows = pd.read_csv(RESULTS / name / "rows.csv")
    stored = json.loads((RESULTS / name / "rows.json").read_text())
    expected = {"study": name, "seed": 0, **STUDIES[name]().settings()}
    for one in (stored, expected):
        one.pop("tables", None)  # the user's own
    assert stored == json.loads(json.dumps(expected))
    assert rows["commit"].str.fullmatch(r"[0-9a-f]{10}").all()
    assert all(path.stat().st_size < 500_000 for path in (RESULTS / name).iterdir())


def test_the_page_on_choosing_is_made_from_the_results():
    text = (ROOT / "docs" / "how-to-choose.md").read_text(encoding="utf-8")
    assert page.with_choice(text, RESULTS) == text


def test_choices_are_compared_in_pairs_on_the_same_draws():
    """Two methods of which one costs more by the same on every draw."""
    levels = np.random.default_rng(0).normal(0, 10, 30)
    costs = pd.DataFrame({HULL: levels, BALL: levels + 1.5})
    samples = {"a": {"mean": Sample("a", "mean", costs)}}
    assert choice._differences(samples, HULL, BALL)[2] == "| a | **-1.50 [-1.50, -1.50]** |  |  |"
    counted = choice._counts(samples)[2]
    assert counted.startswith(f"| {HULL} | {BALL} | 1 | 1 | 0 | 0 | 0 | 0 |")
    other = choice._differences(samples, BALL, HULL)[2]
    assert other == "| a | **1.50 [1.50, 1.50]** |  |  |"
