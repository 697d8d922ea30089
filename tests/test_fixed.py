"""The ball of given radius and shares: against the whole programme, and in its own words."""

import cvxpy as cp
import numpy as np
import pytest
from scipy.spatial.distance import cdist

from programmes import NEWSVENDOR, TERMS
from reference import programme as reference
from reference.kernels import describe
from reference.losses import newsvendor_cost
from roodso import RooDSO
from roodso.exceptions import DegenerateDataWarning
from roodso.kernels import RBF
from roodso.sets import FixedBall, SupportMeasureBall

TERMS = tuple(map(np.array, TERMS))


def tables(*sizes, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.uniform(1, 3, 2) + 0.3 * rng.standard_normal((n, 2)) for n in sizes]


@pytest.mark.parametrize(("sizes", "seed"), [((12,), 0), ((5, 9, 3), 1)])
@pytest.mark.parametrize("radius", [0.02, 0.1, 0.5])
def test_the_pooled_ball_against_the_whole_programme(sizes, seed, radius):
    data = tables(*sizes, seed=seed)
    learner = FixedBall(radius, bandwidth=0.7)
    model = RooDSO(NEWSVENDOR, uncertainty_set=learner, n_support=15, random_state=0).fit(data)
    x, support = cp.Variable(2), model.solution_.support
    value = reference.full_programme(
        reference.newsvendor(x, support, *TERMS),
        [x >= 0],
        support,
        [np.vstack(data)],  # one law: that every sample has the same share is in the reference
        [1.0],
        radius,
        describe(RBF(0.7)),
    )
    slack = 1e-7 * abs(value)
    assert model.solution_.lower_bound - slack <= value <= model.solution_.upper_bound + slack
    assert model.solution_.gap < 1e-6
    assert model.uncertainty_set_.radius == pytest.approx(radius)


@pytest.mark.parametrize(
    ("weights", "shares"),
    [
        ("pooled", [0.2, 0.5, 0.3]),
        ("equal", [1 / 3, 1 / 3, 1 / 3]),
        ([0.0, 0.25, 0.75], [0.0, 0.25, 0.75]),
    ],
)
def test_the_center_has_the_shares_asked_for(weights, shares):
    data = tables(4, 10, 6)
    ball = FixedBall(0.3, weights=weights, bandwidth=0.9).fit(data)
    np.testing.assert_allclose(ball.weights_, shares, rtol=1e-15)
    every = np.vstack(data)
    each = np.repeat(np.divide(shares, [4, 10, 6]), [4, 10, 6])
    for table, distance in zip(data, ball.distances_, strict=True):
        apart = np.concatenate([each, np.full(len(table), -1 / len(table))])
        points = np.vstack([every, table])
        gram = np.exp(-cdist(points, points, "sqeuclidean") / (2 * 0.9**2))
        assert distance == pytest.approx(np.sqrt(apart @ gram @ apart), abs=1e-9)
        assert (ball.predict([table])[0] == 1) == (distance <= 0.3)


def test_the_radius_of_the_learned_ball_gives_the_learned_ball():
    data = tables(8, 9, 10, 11, seed=3)
    learned = SupportMeasureBall(0.3, bandwidth=1.0).fit(data)
    fixed = FixedBall(learned.radius_, weights=learned.weights_, bandwidth=1.0)
    given = RooDSO(NEWSVENDOR, uncertainty_set=fixed, random_state=0).fit(data)
    same = RooDSO(NEWSVENDOR, nu=0.3, bandwidth=1.0, random_state=0).fit(data)
    assert given.objective_ == pytest.approx(same.objective_, rel=1e-6)


def test_radius_zero_is_the_pooled_average():
    data = tables(6, 8)
    with pytest.warns(DegenerateDataWarning):
        model = RooDSO(NEWSVENDOR, uncertainty_set=FixedBall(0.0), random_state=0).fit(data)
    costs = [newsvendor_cost(model.decision_, xi, *TERMS) for xi in np.vstack(data)]
    assert model.objective_ == pytest.approx(np.mean(costs), rel=1e-9)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"radius": -0.1}, ValueError, "radius must be"),
        ({"radius": "0.1"}, TypeError, "radius must be"),
        ({"weights": "even"}, ValueError, "weights must be one of 'pooled', 'equal'"),
        ({"weights": [0.5, 0.5, 0.0]}, ValueError, "2 numbers, one per source"),
        ({"weights": 0.5}, ValueError, "2 numbers, one per source"),
        ({"weights": [1.5, -0.5]}, ValueError, "at least 0 and add up to 1"),
        ({"weights": [0.5, 0.4]}, ValueError, "at least 0 and add up to 1"),
        ({"weights": [0.5, np.nan]}, ValueError, "weights must hold finite numbers"),
        ({"bandwidth": 0.0}, ValueError, "bandwidth must be"),
    ],
)
def test_bad_parameters_are_named(options, error, message):
    learner = FixedBall(**options)
    with pytest.raises(error, match=message):
        learner.fit(tables(3, 4))
    with pytest.raises(error, match=message):
        RooDSO(NEWSVENDOR, uncertainty_set=learner).fit(tables(3, 4))
