"""Sets near capped mixtures of anchors: distances, membership, and the programmes behind them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from reference import formulas, hull
from roodso.datasets import make_newsvendor_sources
from roodso.embedding import Coordinates, Embedding, KernelSpace
from roodso.exceptions import SolverError
from roodso.kernels import RBF, Laplace, Matern52
from roodso.sets import UncertaintySet, quadratic
from roodso.sets.mixtures import into_capped_simplex, largest_mixture
from roodso.sets.quadratic import best_mixture
from roodso.sources import Sources

values = st.floats(-100, 100).map(lambda x: round(x, 3))
vectors = st.integers(1, 9).flatmap(lambda n: arrays(float, n, elements=values))


@st.composite
def caps(draw, size):
    """From 1/K, where only equal weights are left, to more than one."""
    tight = 1.0 / size
    return draw(st.sampled_from([tight, 1.0, 5.0, tight * 1.5, 1 / 3 if size >= 3 else 1.0]))


def is_mixture(a, cap):
    return (a >= 0).all() and (a <= min(cap, 1.0) * (1 + 1e-12)).all() and abs(a.sum() - 1) < 1e-12


# Mixtures -------------------------------------------------------------------------------------


@given(vectors, st.data())
def test_the_largest_mixture_solves_the_linear_programme(v, data):
    cap = data.draw(caps(len(v)))
    value, mixture = largest_mixture(v, cap)
    assert is_mixture(mixture, cap)
    assert value == pytest.approx(mixture @ v, abs=1e-12)
    assert value == pytest.approx(hull.linear(v, cap), abs=1e-7)


def test_among_equals_the_first_get_the_weight():
    assert largest_mixture(np.array([1.0, 2.0, 2.0, 2.0]), 0.5)[1].tolist() == [0, 0.5, 0.5, 0]


@given(vectors, st.floats(0, 1e-6), st.data())
def test_rounding_errors_leave_a_mixture_and_little_else(v, noise, data):
    cap = data.draw(caps(len(v)))
    exact = largest_mixture(v, cap)[1]
    disturbed = exact + noise * np.sin(np.arange(len(v)) + v)
    restored = into_capped_simplex(disturbed, cap)
    assert is_mixture(restored, cap)
    assert np.abs(restored - exact).max() <= 4 * len(v) * noise + 1e-12


@given(vectors, st.data())
def test_a_mixture_stays_as_it_is(v, data):
    mixture = largest_mixture(v, data.draw(caps(len(v))))[1]
    assert into_capped_simplex(mixture, 1.0) == pytest.approx(mixture, abs=1e-15)


# Quadratic programmes -------------------------------------------------------------------------


@st.composite
def quadratics(draw):
    shape = draw(st.integers(1, 8)), draw(st.integers(1, 3))
    points = draw(arrays(float, shape, elements=st.integers(-2, 2)))
    if draw(st.booleans()):
        points = points + np.random.default_rng(draw(st.integers(0, 999))).normal(size=shape)
    linear = draw(arrays(float, shape[0], elements=st.integers(-9, 9)))
    return points @ points.T, linear * draw(st.sampled_from([0.0, 0.1, 1.0, 100.0]))


@given(quadratics(), st.data())
def test_the_best_mixture_solves_the_quadratic_programme(programme, data):
    G, q = programme
    cap = data.draw(caps(len(q)))
    a = best_mixture(G, q, cap)
    size = max(np.abs(G).max(), np.abs(q).max(), 1.0)
    assert is_mixture(a, cap)
    assert q @ a - a @ G @ a == pytest.approx(hull.quadratic(G, q, cap), abs=1e-8 * size)


@given(quadratics(), st.data())
def test_nothing_can_be_moved_to_where_it_is_worth_more(programme, data):
    G, q = programme
    cap = min(data.draw(caps(len(q))), 1.0)
    a = best_mixture(G, q, cap)
    worth = q - 2 * G @ a
    gain = worth[a < cap].max(initial=-np.inf) - worth[a > 0].min()
    assert gain <= 1e-11 * max(np.abs(G).max(), np.abs(q).max(), 1.0)


@given(quadratics(), st.data())
def test_the_answer_does_not_hang_on_the_interior_point_solver(programme, data):
    G, q = programme
    cap = data.draw(caps(len(q)))
    usual = best_mixture(G, q, cap)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quadratic, "_interior_point", lambda *_: None)
        alone = best_mixture(G, q, cap)
    size = max(np.abs(G).max(), np.abs(q).max(), 1.0)
    assert is_mixture(alone, cap)
    assert alone @ (q - G @ alone) == pytest.approx(usual @ (q - G @ usual), abs=1e-12 * size)


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_nearly_flat_objectives_are_climbed_to_the_last_digit(seed, alone, monkeypatch):
    """Points within a tenth of a bandwidth: most directions have next to no curvature."""
    if alone:
        monkeypatch.setattr(quadratic, "_interior_point", lambda *_: None)
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(20, 1 + seed % 3))
    G = np.exp(-((points[:, None] - points[None]) ** 2).sum(axis=2) / 200)
    q = 0.1 * rng.normal(size=20)
    for cap in (1.0, 0.17, 0.06):
        a = best_mixture(G, q, cap)
        worth = q - 2 * G @ a
        assert a.sum() == pytest.approx(1.0, abs=1e-14)
        assert worth[a < cap].max() - worth[a > 0].min() <= 1e-12


def test_where_no_step_helps_the_failure_is_reported(monkeypatch):
    monkeypatch.setattr(quadratic, "_interior_point", lambda *_: None)
    monkeypatch.setattr(quadratic, "_exchanged", lambda G, worth, a, up, down, cap: a)
    monkeypatch.setattr(quadratic, "_newton_step", lambda *_: None)
    with pytest.raises(SolverError, match=r"over mixtures was left .* from its optimum"):
        best_mixture(np.eye(3), np.array([0.0, 1.0, 5.0]))


# Sets -----------------------------------------------------------------------------------------

KERNELS = {
    "rbf": (RBF(0.7), formulas.rbf(0.7)),
    "laplace": (Laplace(0.7), formulas.laplace(0.7)),
    "sum": (RBF(0.5) + Matern52(1.5), formulas.plus(formulas.rbf(0.5), formulas.matern52(1.5))),
}
SHOPS = make_newsvendor_sources(5, (4, 7), random_state=0)
FRESH = make_newsvendor_sources(4, (3, 6), random_state=1)


def make(kernel=KERNELS["rbf"][0], mixtures=None, radius=0.0, cap=1.0, tables=SHOPS, scale=False):
    sources = Sources.from_data(tables)
    coordinates = Coordinates.from_samples(sources.samples, scale=scale)
    space = KernelSpace(kernel, coordinates)
    gram = Embedding.compute(space, sources, np.empty((0, sources.n_columns))).gram
    mixtures = np.eye(sources.n_sources) if mixtures is None else np.asarray(mixtures)
    return UncertaintySet(mixtures, radius, radius, space, sources, gram, cap)


@pytest.mark.parametrize(("kernel", "textbook"), KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("cap", [1.0, 0.5, 0.3, 0.2])
def test_the_distance_to_a_hull_is_that_to_the_nearest_mixture(kernel, textbook, cap):
    learned = make(kernel, cap=cap)
    for table in [*FRESH, *SHOPS, np.vstack(SHOPS[:2])]:
        K = formulas.gram(textbook, [*SHOPS, table])
        expected = hull.squared_distance(K, np.eye(5), cap)
        assert learned.squared_distance(table) == pytest.approx(expected, abs=1e-9)
        assert learned.distance(table) == np.sqrt(learned.squared_distance(table))


@given(seed=st.integers(0, 10**6), n_anchors=st.integers(1, 6))
def test_the_distance_to_anchors_that_mix_sources(seed, n_anchors):
    rng = np.random.default_rng(seed)
    anchors = rng.dirichlet(np.full(5, 0.5), size=n_anchors)
    anchors[rng.random(anchors.shape) < 0.3] = 0.0  # sources that no anchor uses
    anchors[:, 0] += 1.0 - anchors.sum(axis=1)
    cap = float(rng.uniform(1 / n_anchors, 1.2))
    kernel, textbook = KERNELS["laplace"]
    K = formulas.gram(textbook, [*SHOPS, FRESH[0]])
    learned = make(kernel, anchors, cap=cap)
    expected = hull.squared_distance(K, anchors, cap)
    assert learned.squared_distance(FRESH[0]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("kernel", "textbook"), KERNELS.values(), ids=KERNELS)
def test_with_one_anchor_it_is_the_distance_to_the_centre(kernel, textbook):
    alpha = np.array([0.5, 0.0, 0.2, 0.3, 0.0])
    K = np.array(formulas.gram(textbook, [*SHOPS, FRESH[0]]))
    difference = np.append(-alpha, 1.0)
    expected = difference @ K @ difference
    found = make(kernel, alpha[None]).squared_distance(FRESH[0])
    assert found == pytest.approx(expected, abs=1e-14 * kernel.bound)


def test_a_hull_contains_its_sources_and_what_mixes_them():
    equal = [table[:4] for table in SHOPS]  # equal sizes: stacking mixes evenly
    thin = make(tables=equal)
    assert all(thin.contains(table) for table in equal)
    assert thin.contains(np.vstack(equal))
    assert thin.contains(np.vstack([equal[0], equal[0], equal[3]]))
    assert not any(thin.contains(table) for table in FRESH)


def test_a_cap_keeps_single_sources_out_and_even_mixtures_in():
    equal = [table[:4] for table in SHOPS]
    capped = make(tables=equal, cap=0.5)
    assert not any(capped.contains(table) for table in equal)
    assert capped.contains(np.vstack(equal[:2]))
    assert capped.contains(np.vstack(equal))
    assert not capped.contains(np.vstack([equal[0], equal[0], equal[1]]))  # 2/3 of one
    pooled = make(tables=equal, cap=0.2)
    assert pooled.contains(np.vstack(equal))
    assert not pooled.contains(np.vstack(equal[:4]))


@pytest.mark.parametrize("table", FRESH)
def test_thickness_decides_who_is_in(table):
    distance = make().distance(table)
    assert make(radius=distance).contains(table)  # the boundary belongs to the set
    assert make(radius=distance * 1.001).contains(table)
    assert not make(radius=distance * 0.999).contains(table)


@given(st.floats(0, 1), st.floats(0, 1))
def test_less_cap_is_never_nearer(one, other):
    low, high = sorted(0.2 + 0.8 * share for share in (one, other))
    near, far = make(cap=high).distance(FRESH[1]), make(cap=low).distance(FRESH[1])
    assert near <= far + 1e-8


def test_translation_and_with_scale_units_change_no_distance():
    shift, units = np.array([2.0**20, -(2.0**21)]), np.array([1e3, 1e-2])
    here, there = make(), make(tables=[t + shift for t in SHOPS])
    assert there.distance(FRESH[0] + shift) == pytest.approx(here.distance(FRESH[0]), abs=1e-8)
    here, there = make(scale=True), make(scale=True, tables=[t * units for t in SHOPS])
    assert there.distance(FRESH[0] * units) == pytest.approx(here.distance(FRESH[0]), abs=1e-9)


def test_samples_far_from_all_sources_are_at_the_distance_of_orthogonal_ones():
    learned = make(mixtures=np.eye(5)[:1])
    away = FRESH[0] + 1e7
    own = formulas.gram(formulas.rbf(0.7), [away])[0][0]
    assert learned.squared_distance(away) == pytest.approx(own + learned.gram[0, 0], abs=1e-12)


def test_admission_is_decided_entry_by_entry_with_a_billionth_to_spare():
    learned = make(radius=0.5)
    squared = 0.25 * np.array([0.0, 1.0, 1 + 1e-10, 1 + 1e-8, 2.0])
    assert learned.admits(squared).tolist() == [True, True, True, False, False]
    point = make(radius=0.0)
    assert point.admits(np.array([1e-13, 1e-11])).tolist() == [True, False]


# The ball as a set ----------------------------------------------------------------------------


def ball(squared_radius, gamma=0.0, kernel=KERNELS["rbf"][0]):
    hull_of_all = make(kernel)
    weights = np.full(5, 0.2)
    space, sources, gram = hull_of_all.space, hull_of_all.sources, hull_of_all.gram
    return UncertaintySet.ball(weights, squared_radius, gamma, space, sources, gram)


def test_a_ball_has_one_anchor_and_gamma_in_its_radius():
    learned = ball(0.09, gamma=0.07)
    assert learned.n_anchors == 1
    assert learned.weights.tolist() == [0.2] * 5
    assert learned.radius == pytest.approx(0.4, rel=1e-15)
    assert learned.radius_without_gamma == pytest.approx(0.3, rel=1e-15)
    assert learned.labels == (0, 1, 2, 3, 4)
    assert learned.kernel == RBF(0.7)
    assert learned.bandwidth == 0.7


@pytest.mark.parametrize("kernel", [RBF(1.0), RBF(1.0) + RBF(2.0)], ids=["C = 1", "C = 2"])
def test_a_radius_that_is_not_told_from_zero_is_zero(kernel):
    C = kernel.bound
    assert ball(0.9e-14 * C, kernel=kernel).radius == 0.0
    assert ball(1.1e-14 * C, kernel=kernel).radius > 0.0
    enlarged = ball(0.0, gamma=0.01, kernel=kernel)
    assert (enlarged.radius_without_gamma, enlarged.radius) == (0.0, pytest.approx(0.1))


def test_a_hull_of_several_anchors_has_no_single_centre():
    with pytest.raises(AttributeError, match="a hull of several anchors has no single centre"):
        _ = make().weights


def test_the_anchors_gram_matrix():
    anchors = np.array([[0.5, 0.5, 0, 0, 0], [0, 0, 0.2, 0.3, 0.5]])
    learned = make(mixtures=anchors)
    K = np.array(formulas.gram(formulas.rbf(0.7), SHOPS))
    assert learned.anchor_gram == pytest.approx(anchors @ K @ anchors.T, abs=1e-14)


# Bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros((3, 5)), "samples must have 2 columns, got 5"),
        (np.zeros((0, 2)), r"samples must have at least 1 row\(s\)"),
        (np.zeros(2), "samples must be a table of shape"),
        ([[1.0, np.nan]], "samples must hold finite numbers, got nan in row 0, column 1"),
        ([np.zeros((3, 2))], "samples must be a table of shape"),
    ],
)
def test_bad_samples_are_refused(samples, message):
    for method in (make().distance, make().contains):
        with pytest.raises(ValueError, match=message):
            method(samples)


def test_columns_are_matched_by_name():
    frames = [pd.DataFrame(t, columns=["loaves", "rolls"]) for t in SHOPS]
    learned = make(tables=frames)
    fresh = pd.DataFrame(FRESH[0], columns=["loaves", "rolls"])
    assert learned.distance(fresh[["rolls", "loaves"]]) == learned.distance(fresh)
    assert learned.distance(FRESH[0]) == learned.distance(fresh)
    with pytest.raises(ValueError, match=r"samples must have the columns \['loaves', 'rolls'\]"):
        learned.distance(fresh.rename(columns={"rolls": "buns"}))
