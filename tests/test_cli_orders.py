"""Orders in whole packs, against all whole orders."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

from roodso import RooDSO
from roodso.datasets import make_newsvendor_sources
from roodso.losses import Newsvendor
from roodso.planner import Constraints, ProblemError, parse_constraints, whole_order
from roodso.planner.orders import CORNERS

ITEMS = ["a", "b", "c"]


@dataclass(frozen=True)
class Cost:
    """All that the search looks at."""

    upper_bound: float


def kinked(seed, width):
    """A convex function with its minimiser."""
    rng = np.random.default_rng(seed)
    slopes, center = rng.uniform(0.5, 3.0, width), rng.uniform(2.0, 9.0, width)
    pull = rng.normal(size=(4, width)) * 0.2

    def cost(x):
        bent = np.abs(pull @ (x - center)).sum()
        return Cost(float(slopes @ np.abs(x - center) + bent))

    return cost, center


def all_orders(pack, high, lower, upper, constraints):
    grids = [np.arange(0, high + 1e-9, size) for size in pack]
    for order in itertools.product(*grids):
        x = np.array(order)
        if (x >= lower).all() and (x <= upper).all() and not constraints.violated(x):
            yield x


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("text", [[], ["a + b + c <= 11"], ["a = 2 * b", "c >= 3"]])
def test_no_whole_order_is_missed_by_much_and_most_not_at_all(seed, text):
    cost, center = kinked(seed, 3)
    pack = np.array([1.0, 2.0, 1.5]) if seed % 2 else np.ones(3)
    lower, upper = np.zeros(3), np.full(3, 12.0)
    constraints = parse_constraints(text, ITEMS)
    found = whole_order(center, cost, pack=pack, lower=lower, upper=upper, constraints=constraints)
    orders = list(all_orders(pack, 12.0, lower, upper, constraints))
    best = min(cost(x).upper_bound for x in orders)
    assert any(np.allclose(found.order, x) for x in orders)
    assert found.solution.upper_bound == cost(found.order).upper_bound
    if not text:
        assert found.solution.upper_bound == pytest.approx(best)
    neighbours = [x for x in orders if (np.abs(x - center) < pack).all()]
    if neighbours:
        assert found.solution.upper_bound <= min(cost(x).upper_bound for x in neighbours) + 1e-12
    assert found.solution.upper_bound >= best - 1e-12


def test_the_certified_worst_case_decides_for_a_model():
    shops = [40 * shop for shop in make_newsvendor_sources(8, 30, random_state=0)]
    loss = Newsvendor(price=[50, 40], cost=[20, 15], holding=[5, 3], backorder=[10, 8])
    model = RooDSO(loss, random_state=0).fit(shops)
    pack = np.array([6.0, 12.0])
    found = whole_order(
        model.decision_,
        model.worst_case_cost,
        pack=pack,
        lower=np.zeros(2),
        upper=np.full(2, np.inf),
        constraints=Constraints(),
    )
    near = np.floor(model.decision_ / pack)
    costs = {
        tuple(packs * pack): model.worst_case_cost(packs * pack).upper_bound
        for packs in (near + step for step in itertools.product((-1, 0, 1, 2), repeat=2))
    }
    assert tuple(found.order) == min(costs, key=costs.get)
    assert found.solution.upper_bound >= model.solution_.lower_bound


def test_a_whole_decision_is_its_own_neighbour():
    calls = []

    def cost(x):
        calls.append(x)
        return Cost(float(np.abs(x - 3.0).sum()))

    found = whole_order(
        np.array([3.0 + 1e-12, 3.0]),
        cost,
        pack=np.ones(2),
        lower=np.zeros(2),
        upper=np.full(2, np.inf),
        constraints=Constraints(),
    )
    assert found.order.tolist() == [3.0, 3.0]
    assert len(calls) == found.evaluated == 5


def test_many_items_are_searched_step_by_step():
    width = CORNERS + 4
    cost, center = kinked(3, width)
    found = whole_order(
        center,
        cost,
        pack=np.ones(width),
        lower=np.zeros(width),
        upper=np.full(width, 20.0),
        constraints=Constraints(),
    )
    assert not found.all_neighbors
    assert found.evaluated < 1000
    for step in np.vstack([np.eye(width), -np.eye(width)]):
        assert cost(found.order + step).upper_bound >= found.solution.upper_bound


def test_where_no_rounding_is_allowed_the_nearest_whole_order_is_the_start():
    cost, _ = kinked(1, 2)
    constraints = parse_constraints(["a + b = 7", "a - b >= 2.5"], ["a", "b"])
    found = whole_order(
        np.array([4.75, 2.25]),
        cost,
        pack=np.ones(2),
        lower=np.zeros(2),
        upper=np.full(2, np.inf),
        constraints=constraints,
    )
    orders = [np.array([a, 7.0 - a]) for a in (5.0, 6.0, 7.0)]
    assert found.solution.upper_bound == min(cost(x).upper_bound for x in orders)


def test_no_whole_order_at_all_is_said():
    with pytest.raises(ProblemError, match="no whole-number order meets"):
        whole_order(
            np.array([0.5]),
            lambda x: Cost(0.0),
            pack=np.ones(1),
            lower=np.array([0.2]),
            upper=np.array([0.8]),
            constraints=Constraints(),
        )
