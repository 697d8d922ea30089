"""Sweeps: few looks at all points lead to the bounds that a look in every round leads to."""

import warnings

import numpy as np
import pytest

from instances import draw
from reference.checker import check
from roodso import RooDSO, chunks
from roodso.chunks import SupportChunks
from roodso.datasets import make_newsvendor_sources
from roodso.exceptions import ConvergenceWarning
from roodso.losses import ConvexLoss, CVaRPortfolio, Newsvendor
from roodso.sets import SupportMeasureBall, ThickenedHull
from roodso.solver import solve, sweeps
from roodso.solver.rows import LoopOptions
from roodso.solver.sweeps import Question, WorkingSet, sweep, sweep_programme

LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
SHOPS = make_newsvendor_sources(8, (60, 120), random_state=1)


@pytest.fixture
def few_at_a_time(monkeypatch):
    """A working set of few samples, and chunks of few points."""
    monkeypatch.setattr(solve, "_MANY", 0)
    monkeypatch.setattr(solve, "_WORKING", 30)
    monkeypatch.setattr(chunks, "_ROWS", 64)


def low(loss=LOSS, data=SHOPS, **parameters):
    defaults = {"embedding": "low-rank", "random_state": 0, "n_jobs": 1, "tol": 1e-6}
    return RooDSO(loss, **(defaults | parameters)).fit(data)


LOSSES = {
    "newsvendor": LOSS,
    "portfolio": CVaRPortfolio(risk_aversion=3.0),
    "callables": ConvexLoss(
        value=lambda x, xi: ((x - xi) ** 2).sum(axis=1),
        subgradient=lambda x, xi: 2 * (x - xi),
        lower=0,
        upper=4,
    ),
}


@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize(
    "learner", [SupportMeasureBall(0.4), ThickenedHull(0.15, tail=0.5)], ids=["ball", "hull"]
)
def test_it_is_the_same_optimum(loss, learner, monkeypatch):
    at_once = low(loss, uncertainty_set=learner)
    monkeypatch.setattr(solve, "_MANY", 0)
    monkeypatch.setattr(solve, "_WORKING", 30)
    monkeypatch.setattr(chunks, "_ROWS", 64)
    swept = low(loss, uncertainty_set=learner)
    assert swept.solution_.status == at_once.solution_.status == "optimal"
    one, other = at_once.solution_, swept.solution_
    slack = 1e-9 * max(1.0, abs(one.upper_bound))
    assert other.lower_bound <= one.upper_bound + slack
    assert one.lower_bound <= other.upper_bound + slack
    assert other.worst_case_weights.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(one.support, other.support)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.usefixtures("few_at_a_time")
@pytest.mark.filterwarnings("ignore::roodso.exceptions.DegenerateDataWarning")
def test_the_independent_checker_confirms_both_bounds(seed):
    instance = draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = instance.model(embedding="low-rank", max_rank=12).fit(instance.tables)
    if model.solution_.witness is None:
        return
    assert check(instance.claim(model), tol=1e-8) == []


@pytest.mark.usefixtures("few_at_a_time")
def test_threads_change_nothing():
    one, two = (low(n_jobs=jobs).solution_ for jobs in (1, 2))
    assert (one.lower_bound, one.upper_bound) == (two.lower_bound, two.upper_bound)
    np.testing.assert_array_equal(one.worst_case_weights, two.worst_case_weights)


@pytest.mark.usefixtures("few_at_a_time")
def test_any_decision_a_path_and_folds_work():
    model = low(tol=1e-6)
    cost = model.worst_case_cost([1.5, 1.5])
    assert cost.lower_bound <= cost.upper_bound <= cost.lower_bound + 1e-5 * abs(cost.upper_bound)
    assert cost.upper_bound >= model.solution_.lower_bound
    nus = [0.2, 0.4]
    for part, nu in zip(model.path(SHOPS, nus), nus, strict=True):
        alone = low(tol=1e-6, nu=nu)
        assert part.objective_ == pytest.approx(alone.objective_, rel=1e-5)


@pytest.mark.usefixtures("few_at_a_time")
def test_it_stops_where_it_is_told_and_says_so():
    with pytest.warns(ConvergenceWarning, match="time limit"):
        model = low(time_limit=1e-6)
    assert model.solution_.status == "time limit"
    assert model.solution_.lower_bound <= model.solution_.upper_bound
    told = []
    low(progress=lambda stage, share, details: told.append(stage))
    assert "sweeps" in told


def question(model, points, coefficients, in_sources):
    """A question about the model's decision and a witness by hand."""
    embedding, ball = model._programme.embedding, model.uncertainty_set_
    return Question(
        problem=model._problem,
        z=model.solution_.decision,
        space=embedding.space,
        points=points,
        coefficients=coefficients,
        source_coefficients=in_sources,
        landmarks=embedding.landmarks.points,
        mean_coefficients=embedding.landmarks.coefficients @ in_sources,
        shares=ball.mixtures / ball.sources.sizes,
    )


@pytest.mark.parametrize("known", [True, False], ids=["means known", "by landmarks"])
@pytest.mark.usefixtures("few_at_a_time")
def test_answers_are_what_all_points_say(known, monkeypatch):
    monkeypatch.setattr(sweeps, "_TILE", 16)
    model = low()
    embedding = model._programme.embedding
    rng = np.random.default_rng(0)
    points, c, s = embedding.support[[3, 50, 200]], rng.normal(size=3), rng.normal(size=8)
    asked = question(model, points, c, s)
    if not known:
        plain = SupportChunks._chunk
        monkeypatch.setattr(
            SupportChunks,
            "_chunk",
            lambda self, number: chunks.Chunk(*list(vars(plain(self, number)).values())[:3]),
        )
    sizes = embedding.sources.sizes
    answer = sweep(SupportChunks(embedding), asked, sizes, 1)
    K = embedding.space(embedding.support, points)
    g = K @ c + embedding.means @ s
    costs = model._problem.values(asked.z, embedding.support)
    assert answer.largest == pytest.approx((costs - g).max(), rel=1e-10)
    assert answer.numbers[0] == np.argmax(costs - g)
    np.testing.assert_array_equal(answer.candidates, embedding.support[answer.numbers])
    np.testing.assert_allclose(answer.excess, (costs - g)[answer.numbers], rtol=1e-9)
    np.testing.assert_allclose(answer.products, embedding.averages(g), atol=1e-10)
    by_source = [embedding.averages(column) for column in K.T]
    np.testing.assert_allclose(answer.columns, by_source, atol=1e-12)
    ball, n = model.uncertainty_set_, embedding.sources.n_samples
    weights = model._programme.anchor_weights()
    np.testing.assert_allclose(answer.costs, costs[:n] @ weights, rtol=1e-12)
    slopes = model._problem.slopes(asked.z, embedding.support[:n])
    np.testing.assert_allclose(answer.slopes, weights.T @ slopes, rtol=1e-10)
    assert answer.least_cost == costs.min()
    assert ball.n_anchors == 1


@pytest.mark.usefixtures("few_at_a_time")
def test_few_sweeps_suffice_and_only_points_that_exceed_join():
    model = low()
    embedding = model._programme.embedding
    working = WorkingSet.of(embedding, 30)
    swept = sweep_programme(
        model._programme, working, SupportChunks(embedding), LoopOptions(tol=1e-7)
    )
    assert swept.sweeps <= 12
    assert len(np.unique(swept.working.numbers)) == len(swept.working.numbers)
    np.testing.assert_array_equal(
        swept.working.embedding.support, embedding.support[swept.working.numbers]
    )
