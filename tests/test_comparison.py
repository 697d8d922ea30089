"""Comparing methods: nested leave-one-source-out, intervals, tests and the verdict."""

import itertools

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from roodso import SAA, ConvexHullDRO, RooDSO, SolverError
from roodso.datasets import make_newsvendor_sources
from roodso.losses import Newsvendor
from roodso.model_selection import Comparison, compare, select
from roodso.model_selection.comparison import sign_flip_p_value
from roodso.plots import RobustnessPathDisplay

mpl.use("Agg")
LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
BALL = RooDSO(LOSS, n_support=20, random_state=0, n_jobs=1)


@pytest.fixture(scope="module")
def shops():
    return {f"s{i}": t for i, t in enumerate(make_newsvendor_sources(5, (8, 20), random_state=2))}


@pytest.fixture(scope="module")
def comparison(shops):
    methods = {"SAA": SAA(LOSS), "hull": ConvexHullDRO(LOSS), "ball": (BALL, {"nu": [0.2, 0.6]})}
    return compare(methods, shops, n_bootstrap=400)


def made_up(costs, **options):
    """A Comparison of given costs, one column a method."""
    rows = [
        {"method": name, "target": t, "cost": c, "regret": c, "rank": 1, "objective": c}
        | {"seconds": 1.0, "params": {}}
        for name, column in costs.items()
        for t, c in enumerate(column)
    ]
    settings = {"n_bootstrap": 500, "confidence": 0.95, "seed": 0} | options
    return Comparison(pd.DataFrame(rows), **settings)


def test_each_target_is_judged_without_having_been_seen(comparison, shops):
    for label, table in shops.items():
        others = {name: t for name, t in shops.items() if name != label}
        tuned = select(BALL, {"nu": [0.2, 0.6]}, others)
        expected = {
            "SAA": SAA(LOSS).fit(others),
            "hull": ConvexHullDRO(LOSS).fit(others),
            "ball": tuned.best_estimator_,
        }
        for name, model in expected.items():
            row = comparison.table.set_index(["method", "target"]).loc[(name, label)]
            assert row["cost"] == -model.score(table)
            assert row["regret"] == row["cost"] - SAA(LOSS).fit([table]).objective_
            assert row["objective"] == model.objective_
        assert row["params"] == {"nu": repr(tuned.best_params_["nu"])}


def test_ranks_within_each_target(comparison):
    for _, part in comparison.table.groupby("target"):
        assert sorted(part["rank"]) == [1, 2, 3]
        assert (
            part.set_index("method")["rank"].idxmin() == part.set_index("method")["cost"].idxmin()
        )


def test_the_summary_is_in_order_of_mean_cost(comparison):
    summary = comparison.summary()
    assert summary["mean"].is_monotonic_increasing
    np.testing.assert_allclose(summary["mean"], comparison.costs.mean()[summary.index])
    np.testing.assert_allclose(summary["worst"], comparison.costs.max()[summary.index])
    assert (summary["low"] <= summary["mean"]).all()
    assert (summary["mean"] <= summary["high"]).all()


def test_parallel_equals_serial(shops, comparison):
    methods = {"SAA": SAA(LOSS), "hull": ConvexHullDRO(LOSS), "ball": (BALL, {"nu": [0.2, 0.6]})}
    parallel = compare(methods, shops, n_jobs=2, n_bootstrap=400)
    drop = {"columns": "seconds"}
    pd.testing.assert_frame_equal(
        comparison.table.drop(**drop), parallel.table.drop(**drop), check_exact=True
    )


def test_a_stopped_run_is_resumed(shops, tmp_path, monkeypatch):
    path, methods = tmp_path / "j", {"SAA": SAA(LOSS), "hull": ConvexHullDRO(LOSS)}
    whole = compare(methods, shops)

    def stop(_, share, __):
        if share >= 0.3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(methods, shops, checkpoint=path, progress=stop)
    assert len(path.read_text().splitlines()) == 1 + 3
    resumed = compare(methods, shops, checkpoint=path)
    pd.testing.assert_frame_equal(whole.costs, resumed.costs, check_exact=True)


# The uncertainty of the answer


def test_the_sign_flip_test_by_hand():
    differences = np.array([0.5, -0.2, 1.0])
    reached = [
        abs(sum(s * d for s, d in zip(signs, differences, strict=True))) >= 1.3 - 1e-12
        for signs in itertools.product((-1, 1), repeat=3)
    ]
    assert sign_flip_p_value(differences) == np.mean(reached)


def test_the_sign_flip_test_rejects_as_often_as_it_says():
    rng = np.random.default_rng(0)
    p_values = [sign_flip_p_value(rng.standard_normal(8)) for _ in range(600)]
    # At level 0.1, 600 draws: 60 expected, 4 standard deviations are 29.
    assert abs(np.sum(np.array(p_values) <= 0.1) - 60) < 30


def test_many_targets_are_sampled_and_never_give_zero():
    rng = np.random.default_rng(1)
    assert sign_flip_p_value(1.0 + 0.01 * rng.random(40)) == pytest.approx(1 / (2**16 + 1))
    assert sign_flip_p_value(rng.standard_normal(40)) > 1e-3


def test_bootstrap_intervals_cover_the_mean():
    rng, covered = np.random.default_rng(3), 0
    for _ in range(200):
        summary = made_up({"a": rng.standard_normal(30)}, confidence=0.9).summary()
        covered += summary.loc["a", "low"] <= 0 <= summary.loc["a", "high"]
    # 90% nominal; the percentile bootstrap at 30 targets covers a little less. 4 deviations: 17.
    assert 180 - 25 <= covered <= 197


def test_paired_differences_to_the_best_and_to_another():
    made = made_up({"a": [1.0, 2.0, 3.0], "b": [2.0, 3.0, 4.5]})
    to_best = made.paired()
    assert to_best.index.tolist() == ["b"]
    assert to_best.loc["b", "difference"] == pytest.approx(3.5 / 3)
    assert to_best.loc["b", "more"] == 1.0
    assert made.paired("b").loc["a", "difference"] == pytest.approx(-3.5 / 3)
    with pytest.raises(ValueError, match="reference must be one of"):
        made.paired("c")


def test_the_verdict_can_say_that_saa_is_best():
    rng = np.random.default_rng(0)
    saa = rng.standard_normal(20)
    verdict = made_up({"ball": saa + 1 + 0.1 * rng.random(20), "SAA": saa}).verdict()
    assert verdict.startswith("SAA has the lowest mean cost over the 20 sources, and")
    assert "beyond chance" in verdict


def test_the_verdict_says_when_it_could_be_chance_and_who_is_best_at_worst():
    made = made_up({"a": [0.0, 0.0, 9.0], "b": [4.0, 4.0, 4.0]})
    verdict = made.verdict()
    assert "could be chance against b" in verdict
    assert verdict.endswith("On its worst source b costs least.")


def test_a_method_that_fails_is_kept_and_not_ranked(shops, monkeypatch):
    original = ConvexHullDRO._fit_prepared

    def fails_sometimes(self, prepared, warm=None):
        if "s1" not in prepared.labels:
            raise SolverError("no luck")
        original(self, prepared, warm)

    monkeypatch.setattr(ConvexHullDRO, "_fit_prepared", fails_sometimes)
    comparison = compare({"SAA": SAA(LOSS), "hull": ConvexHullDRO(LOSS)}, shops)
    assert comparison.costs["hull"].isna().tolist() == [False, True, False, False, False]
    assert comparison.summary().index.tolist() == ["SAA", "hull"]
    assert "Failed on some source, so not ranked: hull" in comparison.verdict()


def test_the_picture_has_a_dot_for_each_target(comparison, shops):
    ax = comparison.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == list(comparison.summary().index)
    dots = [line for line in ax.lines if len(line.get_xdata()) == len(shops)]
    assert len(dots) == 3
    mpl.pyplot.close(ax.figure)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"methods": {}}, TypeError, "methods must map"),
        ({"methods": {"a": 3}}, TypeError, r"methods\['a'\] must be"),
        ({"methods": {"a": RooDSO(LOSS, nu=2.0)}}, ValueError, "nu must be"),
        ({"confidence": 1.0}, ValueError, "confidence"),
        ({"n_bootstrap": 0}, ValueError, "n_bootstrap"),
        ({"criterion": "best"}, ValueError, "criterion"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, message, shops):
    with pytest.raises(error, match=message):
        compare(**({"methods": {"SAA": SAA(LOSS)}, "X": shops} | arguments))


def test_too_few_sources_are_refused(shops):
    two = dict(list(shops.items())[:2])
    compare({"SAA": SAA(LOSS)}, two)
    with pytest.raises(ValueError, match="at least 3 sources"):
        compare({"ball": (BALL, {"nu": [0.5]})}, two)


# The price of robustness


def test_the_path_shows_what_caution_costs(shops):
    path = RobustnessPathDisplay.from_estimator(BALL, shops, values=[0.2, 0.6])
    found = select(BALL, {"nu": [0.2, 0.6]}, shops)
    np.testing.assert_array_equal(path.table["held_out_mean"], found.cv_results_["mean"])
    np.testing.assert_array_equal(path.table["held_out_worst"], found.cv_results_["worst"])
    for nu in (0.2, 0.6):
        plain = RooDSO(LOSS, nu=nu, n_support=20, random_state=0).fit(shops)
        assert path.table.loc[nu, "worst_case"] == pytest.approx(plain.objective_, rel=1e-5)
        np.testing.assert_allclose(path.decisions.loc[nu], plain.decision_, rtol=1e-3)
    display = path.plot()
    assert len(display.ax_.lines) == 3
    assert display.ax_.get_xlabel() == "nu"
    mpl.pyplot.close(display.figure_)


def test_the_path_over_gamma_costs_ever_more():
    rng = np.random.default_rng(0)
    shops = [2 + 0.1 * rng.standard_normal(2) + rng.random((20, 2)) for _ in range(5)]
    model = RooDSO(LOSS, nu=1.0, n_support=20, random_state=0, n_jobs=1)
    path = RobustnessPathDisplay.from_estimator(
        model, shops, parameter="gamma", values=[0.0, 0.01, 0.05]
    )
    assert (np.diff(path.table["worst_case"]) > 0.01).all()
    assert path.table.index.name == "gamma"
