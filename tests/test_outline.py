"""The map of a thickened hull: its shadow is that of the set, its distances those of the set."""

import numpy as np
import pytest
from scipy.optimize import linprog

from roodso import RooDSO
from roodso.datasets import make_newsvendor_sources
from roodso.losses import Newsvendor
from roodso.plots import plot_source_map, source_map, worst_mixture
from roodso.plots.outline import outline
from roodso.sets import ThickenedHull

LOSS = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])


def model(shops, **options):
    hull = ThickenedHull(**options)
    return RooDSO(LOSS, uncertainty_set=hull, n_support=30, random_state=0, n_jobs=1).fit(shops)


@pytest.fixture(scope="module")
def shops():
    return make_newsvendor_sources(9, 40, random_state=3)


@pytest.mark.parametrize("cap", [1.0, 0.5, 0.37, 0.125, 1 / 9])
def test_the_outline_is_the_support_function_of_the_capped_hull(cap):
    points = np.random.default_rng(0).normal(size=(9, 2))
    boundary, directions = outline(points, cap)
    for corner, u in zip(boundary, directions, strict=True):
        best = linprog(-points @ u, A_eq=np.ones((1, 9)), b_eq=[1.0], bounds=(0.0, cap))
        assert corner @ u == pytest.approx(-best.fun, abs=1e-9)


@pytest.mark.parametrize("tail", [None, 0.4])
def test_distances_and_places_are_those_of_the_set(shops, tail):
    fitted = model(shops, thickness=0.1, tail=tail)
    known, found = fitted.uncertainty_set_, source_map(fitted, target=shops[0][:7])
    for label, table in enumerate(shops):
        row = found.table.loc[label]
        assert row["distance"] == pytest.approx(known.distance(table), abs=1e-6)
        assert (row["place"] != "outside") == known.contains(table)
    target = found.others.loc["target"]
    assert target["distance"] == pytest.approx(known.distance(shops[0][:7]), abs=1e-6)
    assert (target["place"] != "outside") == known.contains(shops[0][:7])
    assert len(found.outside) > 0 or tail is None
    assert found.others.loc["worst case", "place"] != "outside"
    assert found.table["weight"].sum() == pytest.approx(1.0)
    assert found.table["weight"].max() <= known.cap + 1e-9


def test_what_lies_in_the_set_lies_in_its_shadow(shops):
    fitted = model(shops, thickness=0.1, tail=0.4)
    known, found = fitted.uncertainty_set_, source_map(fitted)
    places = found.table[["x", "y"]].to_numpy()
    _, directions = outline(places)
    reach = (found.hull * directions).sum(axis=1)
    rng = np.random.default_rng(1)
    for _ in range(50):
        weights = rng.dirichlet(np.ones(9))
        if weights.max() > known.cap:
            continue
        assert (directions @ (weights @ places) <= reach + 1e-9).all()
    worst = found.others.loc["worst case", ["x", "y"]].to_numpy(dtype=float)
    edge = (found.edge * directions).sum(axis=1)
    assert (directions @ worst <= edge + 1e-9).all()
    assert edge == pytest.approx(reach + 0.1)


def test_three_sources_are_shown_without_any_distortion(shops):
    fitted = model(shops[:3], thickness=0.2)
    found, gram = source_map(fitted, target=shops[1]), fitted.uncertainty_set_.gram
    places = found.table[["x", "y"]].to_numpy()
    for i in range(3):
        for j in range(i):
            apart = np.linalg.norm(places[i] - places[j])
            true = np.sqrt(gram[i, i] + gram[j, j] - 2 * gram[i, j])
            assert apart == pytest.approx(true, abs=1e-9)
    assert found.shown == pytest.approx(1.0)
    spot = found.others.loc["target", ["x", "y"]].to_numpy(dtype=float)
    assert spot == pytest.approx(places[1], abs=1e-6)


def test_two_sources_and_a_bare_learner_have_a_map(shops):
    found = source_map(ThickenedHull(0.1).fit(shops[:2]))
    assert found.table["y"].abs().max() == 0.0
    assert found.others.empty
    assert found.table["weight"].isna().all()
    ax = plot_source_map(found)
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {"mixtures", "inside (2)"}


def test_the_mixture_is_the_one_that_the_worst_case_lies_near(shops):
    fitted = model(shops, thickness=0.1, tail=0.4)
    found, solution = worst_mixture(fitted), fitted.solution_
    assert found.weights.to_numpy() == pytest.approx(solution.mixture, abs=1e-6)
    assert found.weights.max() <= 1 / (0.4 * 9) + 1e-9
    assert 0 < found.distance <= 0.1 + 1e-9
    assert found.radius == 0.1
