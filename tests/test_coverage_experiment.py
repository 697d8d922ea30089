"""The coverage experiment counts what it says, can be stopped, and its page is made from it."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from reference import conformal as reference
from reference.kernels import kernel_matrix
from roodso.datasets import make_newsvendor_sources
from roodso.experiments import coverage
from roodso.experiments.coverage import (
    Settings,
    how,
    repetitions_at,
    reproduce,
    run,
    summarize,
)
from roodso.experiments.coverage_report import MEASURES, page, plot
from roodso.experiments.intervals import interval
from roodso.experiments.runs import write_atomically
from roodso.losses import Newsvendor
from roodso.methods import RooDSO
from roodso.sets import ConformalBall, SupportMeasureBall

TINY = Settings(
    sizes=(7, 10), nus=(0.15, 0.2), n_samples=(5, 8), n_fresh=10, n_population=40, n_cost=60
)
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("coverage")
    return folder, run(TINY, folder, repetitions=2)


# --- What is counted --------------------------------------------------------------------------


def test_there_is_a_row_for_every_case_that_can_be_fitted(finished):
    keys = ["generator", "n_sources", "repetition", "nu", "method"]
    found = set(finished[1][keys].itertuples(index=False, name=None))
    expected = set()
    for M in TINY.sizes:
        m = M - M // 2
        for nu in TINY.nus:
            methods = ["paper"]
            if m >= reference.smallest_calibration(str(nu)):
                methods += ["split", "split, enlarged"]
            if M - max(1, M // 4) >= reference.smallest_calibration(str(nu)):
                methods += ["leave-one-out"]
            for generator in ("paper", "heavy-tailed", "multimodal"):
                expected |= {(generator, M, r, nu, m) for r in (0, 1) for m in methods}
    assert found == expected
    assert len(finished[1]) == len(expected)


@pytest.mark.parametrize(
    ("method", "learner"),
    [
        ("paper", SupportMeasureBall(random_state=1)),
        ("split", ConformalBall(random_state=1)),
        ("leave-one-out", ConformalBall(method="leave-one-out", random_state=1)),
        ("split, enlarged", ConformalBall(sampling_error=0.05, random_state=1)),
    ],
)
def test_counts_are_those_of_single_fits_and_their_own_word(finished, method, learner):
    """Draw the sources again, fit one model at a time, and ask each about each fresh source."""
    rng = np.random.default_rng([TINY.seed, 0, 10, 1])
    sources = make_newsvendor_sources(10, TINY.n_samples, random_state=rng)
    fresh = []
    for _ in range(TINY.n_fresh):
        size = int(rng.integers(*TINY.n_samples, endpoint=True))
        drawn = make_newsvendor_sources(1, size + TINY.n_cost, random_state=rng)[0]
        fresh.append((drawn[:size], drawn[size:]))
    loss = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
    learner.set_params(nu=0.2)
    model = RooDSO(loss, uncertainty_set=learner, random_state=1).fit(sources)
    rows = finished[1]
    (row,) = rows[
        (rows.generator == "paper")
        & (rows.n_sources == 10)
        & (rows.repetition == 1)
        & (rows.nu == 0.2)
        & (rows.method == method)
    ].to_dict("records")
    costs = [-model.score(many) for _, many in fresh]
    assert row["radius"] == pytest.approx(model.uncertainty_set_.radius)
    assert row["worst_case"] == pytest.approx(model.objective_, abs=2e-5 * abs(model.objective_))
    assert row["inside"] == sum(model.uncertainty_set_.contains(few) for few, _ in fresh)
    laws = np.array([distance_of_law(model, many[: TINY.n_population]) for _, many in fresh])
    assert row["population_inside"] == (laws <= row["radius"] ** 2).sum()
    assert row["bounded"] == sum(cost <= row["worst_case"] for cost in costs)
    assert row["mean_cost"] == pytest.approx(np.mean(costs), rel=1e-4)
    assert row["fresh"] == TINY.n_fresh
    if method == "paper":
        assert np.isnan(row["promise"])
    else:
        assert row["promise"] == pytest.approx(model.set_learner_.promise_)


def distance_of_law(model, samples):
    """Squared distance to the centre of the law that samples come from, by an unbiased estimate."""
    ball, k = model.uncertainty_set_, ("rbf", model.uncertainty_set_.bandwidth)
    tables = [ball.sources.table(i) for i in range(ball.sources.n_sources)]
    own = kernel_matrix(k, samples, samples)
    np.fill_diagonal(own, 0.0)
    n = len(samples)
    cross = [kernel_matrix(k, samples, table).mean() for table in tables]
    K = reference.gram(k, tables)
    return own.sum() / (n * (n - 1)) - 2 * ball.weights @ cross + ball.weights @ K @ ball.weights


def test_distances_agree_with_the_sets_own():
    tables = make_newsvendor_sources(12, (5, 9), random_state=0)
    sets = [ConformalBall(nu, random_state=0).fit(tables).uncertainty_set_ for nu in (0.2, 0.4)]
    for table in make_newsvendor_sources(4, (5, 9), random_state=1):
        found = coverage.squared_distances(sets, table)
        assert np.sqrt(found) == pytest.approx([one.distance(table) for one in sets], abs=1e-9)


def test_many_samples_stand_for_their_distribution_without_bias():
    """Against the closed form for a Gaussian; few samples, so a bias of C / n would show."""
    tables = make_newsvendor_sources(6, (5, 9), random_state=0)
    ball = SupportMeasureBall(0.5, bandwidth=0.3, random_state=0).fit(tables)
    mean, covariance = np.array([2.0, 2.0]), np.array([[0.1, 0.02], [0.02, 0.05]])
    exact = reference.gaussian_distance(tables, ball.weights_, 0.3, mean, covariance) ** 2
    rng = np.random.default_rng(0)
    found = [
        coverage.squared_distances(
            [ball.uncertainty_set_], rng.multivariate_normal(mean, covariance, 10), own=False
        )[0]
        for _ in range(1500)
    ]
    error = np.std(found) / np.sqrt(len(found))
    assert np.mean(found) == pytest.approx(exact, abs=4 * error)
    assert error < 0.1 * (1 / 10)


def test_summaries_add_up(finished):
    runs = finished[1]
    summary = summarize(runs)
    assert summary["targets"].sum() == runs["fresh"].sum()
    for measure in MEASURES:
        total = (summary[measure] * summary["targets"]).sum()
        assert total == pytest.approx(runs[measure].sum())
        assert (summary[f"{measure}_low"] <= summary[measure]).all()
        assert (summary[f"{measure}_high"] >= summary[measure]).all()
    assert set(summary["method"]) == set(coverage.LEARNERS)
    assert list(dict.fromkeys(summary["generator"])) == list(coverage.GENERATORS)


# --- Intervals --------------------------------------------------------------------------------


@pytest.mark.parametrize(("alpha", "beta"), [(9.0, 1.0), (40.0, 10.0), (0.8, 0.8), (2e4, 5e3)])
def test_intervals_hold_the_share_as_often_as_they_say(alpha, beta):
    """Clusters whose own shares follow a beta law, as those of calibrated sets do."""
    rng = np.random.default_rng(0)
    share, held = alpha / (alpha + beta), 0
    for _ in range(400):
        counts = rng.binomial(20, rng.beta(alpha, beta, 25))
        _, low, high = interval(counts, 20)
        held += low <= share <= high
    assert held / 400 > 0.93  # 0.95 less two standard errors


def test_intervals_count_a_cluster_as_one_trial_where_all_agree():
    assert interval(np.full(10, 5), 5) == (1.0, pytest.approx(0.025 ** (1 / 10)), 1.0)
    assert interval(np.zeros(10, dtype=int), 5) == (0.0, 0.0, pytest.approx(1 - 0.025 ** (1 / 10)))
    share, low, high = interval(np.array([3]), 5)
    assert low < share < high


# --- Stopping and resuming ----------------------------------------------------------------------


def test_finished_repetitions_are_not_made_again(finished, tmp_path, monkeypatch):
    folder, complete = finished
    first = run(TINY, tmp_path, repetitions=1)
    made = []
    original = coverage._repetition

    def counted(settings, generator, n_sources, number):
        made.append((generator, n_sources, number))
        return original(settings, generator, n_sources, number)

    monkeypatch.setattr(coverage, "_repetition", counted)
    second = run(TINY, tmp_path, repetitions=2)
    assert {number for _, _, number in made} == {1}
    assert len(made) == 6
    pd.testing.assert_frame_equal(second, complete)
    assert (tmp_path / "runs.csv").read_bytes() == (folder / "runs.csv").read_bytes()
    pd.testing.assert_frame_equal(
        second[second.repetition == 0].reset_index(drop=True), first, check_exact=True
    )


def test_an_interrupted_run_keeps_what_is_finished_and_ends_the_same(
    finished, tmp_path, monkeypatch
):
    original, calls = coverage._repetition, []

    def stops(*arguments):
        calls.append(arguments)
        if len(calls) == 8:  # in the middle of the fourth of six tasks
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(coverage, "_repetition", stops)
    with pytest.raises(KeyboardInterrupt):
        run(TINY, tmp_path, repetitions=2)
    kept = pd.read_csv(tmp_path / "runs.csv")
    assert len(kept.groupby(["generator", "n_sources", "repetition"])) == 6
    run(TINY, tmp_path, repetitions=2)
    assert len(calls) == 8 + 6
    assert (tmp_path / "runs.csv").read_bytes() == (finished[0] / "runs.csv").read_bytes()


def test_processes_change_no_result(tmp_path, finished):
    run(TINY, tmp_path, repetitions=2, n_jobs=2)
    assert (tmp_path / "runs.csv").read_bytes() == (finished[0] / "runs.csv").read_bytes()


def test_runs_of_other_settings_are_not_mixed(tmp_path):
    one = replace(TINY, sizes=(3,))
    run(one, tmp_path, repetitions=1)
    before = (tmp_path / "runs.csv").read_bytes()
    with pytest.raises(ValueError, match="other settings"):
        run(replace(one, seed=1), tmp_path, repetitions=1)
    assert (tmp_path / "runs.csv").read_bytes() == before


def test_files_are_replaced_whole(tmp_path, monkeypatch):
    path = tmp_path / "new" / "file.txt"
    write_atomically(path, "old")

    def fails(*arguments):
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr("os.replace", fails)
        with pytest.raises(OSError, match="disk full"):
            write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(path.parent.iterdir()) == [path]


def test_progress_reaches_one(tmp_path):
    told = []
    run(
        replace(TINY, sizes=(3,)),
        tmp_path,
        repetitions=1,
        progress=lambda *news: told.append(news),
    )
    assert [fraction for _, fraction, _ in told] == pytest.approx([1 / 3, 2 / 3, 1])
    assert told[-1][2] == {"done": 3, "of": 3}


@pytest.mark.parametrize(("name", "value"), [("repetitions", 0), ("n_jobs", 0)])
def test_bad_arguments_are_named(tmp_path, name, value):
    with pytest.raises(ValueError, match=name):
        run(TINY, tmp_path, **{name: value})


# --- The command and the page -------------------------------------------------------------------


def test_everything_is_written_and_resuming_adds_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(coverage, "QUICK", TINY)
    out = tmp_path / "out"
    reproduce(out, quick=True, repetitions=1)
    files = {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}
    pictures = {f"images/coverage-{measure}.png" for measure in MEASURES}
    assert set(files) == {"runs.csv", "runs.json", "summary.csv", "coverage.md"} | pictures
    monkeypatch.setattr(coverage, "_repetition", None)  # nothing is left to do
    with pytest.raises(ValueError, match="resume to take its rows"):
        reproduce(out, quick=True, repetitions=1)
    reproduce(out, quick=True, repetitions=1, resume=True)
    for name in ("runs.csv", "summary.csv", "coverage.md"):
        assert (out / name).read_bytes() == files[name]


def test_the_page_says_what_the_summary_says(finished):
    summary = summarize(finished[1])
    text = page(summary, how(summary, TINY))
    cell = summary[(summary.method == "paper") & (summary.generator == "multimodal")].iloc[0]
    row = next(
        line
        for line in text.split("**Multimodal generator**")[1].splitlines()
        if line.startswith(f"| {cell.nu:g} | {cell.n_sources} |")
    )
    entries = row.split(" | ")
    assert entries[2] == f"{cell.inside:.3f} [{cell.inside_low:.3f}, {cell.inside_high:.3f}]"
    assert entries[3] == "-"  # of seven sources four calibrate, and nu = 0.15 needs six
    assert entries[4] != "-"  # leave-one-out has six
    assert entries[5] == "- |"
    assert "2 at M = 7, 2 at M = 10" in text
    assert len(text.split("| nu | M |")) == 1 + 4 * 3 + 1


def test_the_pictures_show_every_cell(finished):
    summary = summarize(finished[1])
    figure = plot(summary, "inside")
    assert len(figure.axes) == 6
    drawn = sum(len(bars[0].get_xdata()) for ax in figure.axes for bars in ax.containers)
    assert drawn == len(summary)


def test_the_page_in_the_documentation_is_made_from_the_results_beside_it():
    summary = pd.read_csv(ROOT / "results" / "coverage" / "summary.csv")
    assert (ROOT / "docs" / "coverage.md").read_text() == page(summary, how(summary, Settings()))


def test_the_published_run_is_the_full_one():
    summary = pd.read_csv(ROOT / "results" / "coverage" / "summary.csv")
    settings = Settings()
    paper = summary[summary.method == "paper"]
    assert len(paper) == 3 * len(settings.sizes) * len(settings.nus)
    for row in paper.to_dict("records"):
        assert row["repetitions"] == repetitions_at(row["n_sources"], 80)
        assert row["targets"] == row["repetitions"] * settings.n_fresh
    stored = json.loads((ROOT / "results" / "coverage" / "runs.json").read_text())
    assert stored == json.loads(json.dumps(vars(settings)))


def test_on_the_papers_generator_the_ball_does_not_bind_as_the_page_says():
    """A ball that holds every distribution on the support points has the same worst case."""
    loss = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
    sources = make_newsvendor_sources(10, (50, 100), random_state=1)
    ball, everything = (
        RooDSO(loss, nu=0.1, gamma=g, random_state=0).fit(sources) for g in (0.0, 4.0)
    )
    assert ball.uncertainty_set_.radius < 0.8
    assert ball.objective_ == pytest.approx(everything.objective_, rel=1e-5)


def test_the_published_run_contradicts_no_promise():
    """An interval of 95% misses on one side in 1 case of 40; a promise that is met exactly (the
    split's) may do so in a few of its cells, and these share sources over nu."""
    summary = pd.read_csv(ROOT / "results" / "coverage" / "summary.csv")
    for method, measure, allowed in [
        ("split", "inside", 4),
        ("leave-one-out", "inside", 0),
        ("split, enlarged", "population_inside", 0),
    ]:
        cells = summary[summary.method == method]
        assert (cells[f"{measure}_high"] < cells["promise"]).sum() <= allowed
