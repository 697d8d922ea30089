"""The study of defaults judges what it says, can be stopped, and its page is made from it."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GroupKFold

from roodso import SAA, RooDSO
from roodso.datasets import load_bakery
from roodso.experiments import defaults
from roodso.experiments.defaults import (
    CONTENDERS,
    LOSSES,
    Settings,
    draw,
    reproduce,
    run,
    summarize,
)
from roodso.experiments.defaults_report import page
from roodso.model_selection import select

TINY = Settings(
    n_stores=4, n_sources=4, n_samples=(6, 9), n_fresh=5, n_population=30, n_folds=3, seed=1
)
NAMES = ("SAA", "paper's setting", "scale='robust'", "clip=0.05")
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("defaults")
    return folder, run(TINY, folder, repetitions=2, contenders=NAMES)


# What is judged -------------------------------------------------------------------------------


def test_there_is_a_row_for_every_setting(finished):
    found = finished[1].groupby(["dataset", "contender"])[["unit", "setting"]].nunique()
    assert found.loc[("bakery", "SAA")].tolist() == [4, 1]
    assert found.loc[("bakery", "paper's setting")].tolist() == [4, 5]
    assert found.loc[("heavy-tailed", "clip=0.05")].tolist() == [2, 3]
    assert ("paper", "clip=0.05") not in found.index
    assert ("paper", "paper's setting") in found.index


@pytest.mark.parametrize("dataset", ["bakery", "heavy-tailed"])
def test_costs_are_those_of_plain_fits_on_targets_that_were_not_seen(finished, dataset):
    rows = finished[1]
    sources, targets = draw(TINY, dataset, 1)
    loss = LOSSES[dataset]
    settings = {"random_state": 0, "n_jobs": 1}
    models = {
        "SAA": SAA(loss),
        "paper's setting": RooDSO(loss, nu=0.8, **settings),
        "clip=0.05": RooDSO(loss, nu=0.8, clip=0.05, **settings),
    }
    for name, model in models.items():
        own = rows[(rows["dataset"] == dataset) & (rows["unit"] == 1) & (rows["contender"] == name)]
        row = (own if name == "SAA" else own[own["setting"] == "nu=0.8"]).iloc[0]
        model.fit(sources)  # by another way to a decision as good, so costs may differ a little
        costs = np.array([-model.score(table) for table in targets])
        optima = np.array([SAA(loss).fit([table]).objective_ for table in targets])
        assert row["mean"] == pytest.approx(costs.mean(), rel=0.01)
        assert row["worst"] == pytest.approx(costs.max(), rel=0.01)
        worst_fifth = 1 if dataset == "bakery" else len(costs) // 5
        expected = np.sort(costs)[-worst_fifth:].mean()
        assert row["cvar"] == pytest.approx(expected, rel=0.01)
        assert row["regret"] == pytest.approx((costs - optima).mean(), rel=0.01)


def test_a_store_is_judged_by_a_decision_from_the_others():
    bakery = load_bakery()
    stores = list(dict.fromkeys(bakery.groups.tolist()))
    for unit in range(TINY.n_stores):
        sources, (target,) = draw(TINY, "bakery", unit)
        assert list(sources.labels) == [stores[i] for i in range(TINY.n_stores) if i != unit]
        np.testing.assert_array_equal(target, bakery.data[bakery.groups == stores[unit]])


def test_generated_units_differ_and_can_be_drawn_again():
    (first, _), (second, targets) = draw(TINY, "heavy-tailed", 0), draw(TINY, "heavy-tailed", 1)
    assert first.n_samples != second.n_samples or not np.array_equal(first.samples, second.samples)
    again = draw(TINY, "heavy-tailed", 1)
    np.testing.assert_array_equal(again[0].samples, second.samples)
    np.testing.assert_array_equal(again[1][2], targets[2])
    assert len(targets) == TINY.n_fresh


def test_what_choices_look_at_is_what_leaving_sources_out_says(finished):
    rows = finished[1]
    sources, _ = draw(TINY, "heavy-tailed", 0)
    model, grid = CONTENDERS["paper's setting"](LOSSES["heavy-tailed"])
    found = select(model, grid, sources, cv=GroupKFold(3), tail=defaults.TAIL, refit=False)
    own = rows[(rows["dataset"] == "heavy-tailed") & (rows["unit"] == 0)]
    own = own[own["contender"] == "paper's setting"]
    for choice in defaults.CHOICES:
        np.testing.assert_allclose(own[f"inner_{choice}"], found.cv_results_[choice], rtol=1e-9)
    assert rows.loc[rows["contender"] == "clip=0.05", "inner_mean"].isna().all()


# What is made of it ---------------------------------------------------------------------------


def made_up():
    """Two units, two settings of one contender, of which each is best once on sources left out."""
    records = []
    for unit, (inner_a, inner_b) in enumerate([(1.0, 2.0), (2.0, 1.0)]):
        entries = [
            ("SAA", "-", 5.0, 5.0 + unit),
            ("paper's setting", "nu=0.2", inner_a, 3.0 + unit),
        ]
        entries.append(("paper's setting", "nu=0.8", inner_b, 10.0 + unit))
        for name, setting, inner, cost in entries:
            measures = {"mean": cost, "worst": cost + 1, "cvar": cost + 0.5, "regret": cost - 1}
            records.append(
                {"dataset": "heavy-tailed", "unit": unit, "contender": name, "setting": setting}
                | measures
                | {f"inner_{choice}": inner for choice in defaults.CHOICES}
            )
    return pd.DataFrame(records)


def test_choices_are_made_unit_by_unit_and_judged_on_the_targets():
    summary = summarize(made_up()).set_index(["contender", "setting"])
    chosen = summary.loc[("paper's setting", "by mean")]
    assert chosen["mean"] == np.mean([3.0, 11.0])  # the first in unit 0, the second in unit 1
    assert chosen["worst"] == chosen["mean"] + 1
    assert chosen["mean_more"] == chosen["mean"] - 5.5
    assert summary.loc[("paper's setting", "nu=0.2"), "mean_more"] == -2.0
    assert summary.loc[("paper's setting", "nu=0.2"), "mean_more_low"] == -2.0
    assert summary.loc[("paper's setting", "nu=0.2"), "mean_low"] == 3.0
    assert summary.loc[("paper's setting", "nu=0.2"), "mean_high"] == 4.0
    either = summary.loc[("any of all, SAA among them", "by worst")]
    assert either["mean"] == chosen["mean"]


def test_single_targets_are_summed_up_over_the_units():
    rng = np.random.default_rng(0)
    costs = rng.normal(size=10)
    rows = pd.DataFrame(
        {"dataset": "bakery", "unit": range(10), "contender": "SAA", "setting": "-"}
        | dict.fromkeys(("mean", "worst", "cvar", "regret"), costs)
        | {f"inner_{choice}": 0.0 for choice in defaults.CHOICES}
    )
    row = summarize(rows).iloc[0]
    assert row["mean"] == pytest.approx(costs.mean())
    assert row["worst"] == costs.max()
    assert row["cvar"] == pytest.approx(np.sort(costs)[-2:].mean())
    assert row["worst_high"] == costs.max()
    assert row["mean_low"] < row["mean"] < row["mean_high"]
    assert row["mean_more_low"] == row["mean_more_high"] == 0.0


def test_contenders_that_are_not_finished_are_left_out():
    rows = made_up()
    unfinished = (rows["contender"] == "paper's setting") & (rows["unit"] == 1)
    assert set(summarize(rows[~unfinished])["contender"]) == {"SAA", "any of all, SAA among them"}


# Stopped and resumed --------------------------------------------------------------------------


def test_what_is_finished_is_not_done_again(finished, tmp_path, monkeypatch):
    folder, rows = finished
    for name in ("runs.csv", "runs.json"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    kept = rows[rows["unit"] == 0]
    kept.to_csv(tmp_path / "runs.csv", index=False, float_format="%.12g")
    done = []
    original = defaults._contend

    def counted(settings, dataset, number, name):
        done.append((dataset, number, name))
        return original(settings, dataset, number, name)

    monkeypatch.setattr(defaults, "_contend", counted)
    again = run(TINY, tmp_path, repetitions=2, contenders=NAMES)
    assert all(number > 0 for _, number, _ in done)
    pd.testing.assert_frame_equal(again, rows)


def test_rows_of_other_settings_are_not_mixed(finished):
    with pytest.raises(ValueError, match="holds runs of other settings"):
        run(replace(TINY, seed=2), finished[0], repetitions=2, contenders=NAMES)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"repetitions": 0}, "repetitions must be"),
        ({"contenders": ["magic"]}, "contenders must be among .* got .'magic'"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"settings": replace(TINY, n_stores=3)}, "n_stores must be"),
    ],
)
def test_bad_arguments_are_named(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        run(**({"settings": TINY, "folder": tmp_path} | arguments))


def test_the_study_writes_all_and_resuming_adds_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(defaults, "QUICK", TINY)
    reproduce(tmp_path, quick=True, contenders=NAMES)
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"runs.csv", "runs.json", "summary.csv", "heavy-tails.md"}
    before = {name: (tmp_path / name).read_bytes() for name in written}
    monkeypatch.setattr(defaults, "_contend", lambda *_: pytest.fail("work was done"))
    with pytest.raises(ValueError, match="resume to take its rows"):
        reproduce(tmp_path, quick=True, contenders=NAMES)
    reproduce(tmp_path, quick=True, contenders=NAMES, resume=True)
    assert {name: (tmp_path / name).read_bytes() for name in written} == before


# The page -------------------------------------------------------------------------------------


def test_the_page_says_what_the_summary_says(finished):
    summary = summarize(finished[1])
    text = page(summary, TINY)
    bakery = summary[summary["dataset"] == "bakery"]
    saa = bakery[bakery["contender"] == "SAA"].iloc[0]
    others = bakery[bakery["contender"] != "SAA"]
    best = others.loc[others["mean"].idxmin()]
    assert f"SAA's is {saa['mean']:.1f}. The lowest of the {len(others)} others" in text
    assert f"others is {best['mean']:.1f} ({best['contender']}" in text
    assert f"difference of {best['mean_more']:+.1f} [{best['mean_more_low']:+.1f}" in text
    clipped = bakery[(bakery["contender"] == "clip=0.05") & (bakery["setting"] == "nu=0.8")].iloc[0]
    cell = " / ".join(f"{clipped[measure]:.1f}" for measure in ("mean", "cvar", "worst"))
    assert cell in next(line for line in text.splitlines() if line.startswith("| clip=0.05"))


def test_the_page_counts_what_beats_saa(finished):
    summary = summarize(finished[1])
    for high, word in ((1.0, "none"), (-1.0, str((summary["contender"] != "SAA").sum()))):
        text = page(summary.assign(mean_more_high=high), TINY)
        assert f"settings and choices below, {word} has a lower mean than SAA's" in text


def test_the_page_in_the_documentation_is_made_from_the_results_beside_it():
    summary = pd.read_csv(ROOT / "results" / "defaults" / "summary.csv")
    text = (ROOT / "docs" / "heavy-tails.md").read_text(encoding="utf-8")
    assert text == page(summary, Settings())
