"""Random instances of the whole programme: the bounds hold, the gap closes, the proofs check.

The optimum comes from the full formulation through cvxpy (`reference.programme`); the bounds are
confirmed by a checker that sees only data, ball, decision, weights and witness
(`reference.checker`), and the checker itself is shown to notice tampering.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest

from instances import KERNELS, LOSSES, draw
from reference import programme as reference
from reference.checker import check
from reference.kernels import describe
from roodso.exceptions import DegenerateDataWarning

#: Each loss with each kernel six times.
N_INSTANCES = 6 * len(LOSSES) * len(KERNELS)


def solved(seed, **changes):
    """The instance and its fitted model; the ball of a few has radius 0."""
    instance = draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DegenerateDataWarning)
        return instance, instance.model(**changes).fit(instance.tables)


@pytest.mark.parametrize("seed", range(N_INSTANCES))
def test_the_bounds_bracket_the_optimum_and_the_proofs_check(seed):
    instance, model = solved(seed)
    solution = model.solution_
    assert solution.status == "optimal"
    assert 0 <= solution.gap <= 1e-6 or abs(solution.gap) < 1e-12
    if solution.witness is None:  # radius 0: the centre is the only distribution in the set
        used = np.flatnonzero(solution.worst_case_weights)
        weights = solution.worst_case_weights[used]
        optimum = instance.minimum(solution.support[used], weights)
    else:
        optimum = instance.optimum(model)
        assert check(instance.claim(model)) == []
    slack = 1e-5 * max(1.0, abs(optimum))
    assert solution.lower_bound - slack <= optimum <= solution.upper_bound + slack
    assert model.objective_ == solution.upper_bound


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(N_INSTANCES, 5 * N_INSTANCES))
def test_more_instances(seed):
    test_the_bounds_bracket_the_optimum_and_the_proofs_check(seed)


@pytest.mark.parametrize("seed", range(0, 36, 5))
def test_another_solver_finds_the_same_optimum(seed):
    instance, model = solved(seed)
    if model.solution_.witness is None:
        return
    optimum = instance.optimum(model, solver="SCS")
    assert model.objective_ == pytest.approx(optimum, rel=2e-3, abs=2e-3)


@pytest.mark.parametrize("seed", range(0, 18, 3))
def test_the_worst_case_of_any_decision_is_that_of_the_inner_programme(seed):
    instance, model = solved(seed)
    if model.solution_.witness is None or instance.kind == "portfolio":
        return  # for the portfolio the inner programme depends on tau, which is chosen after x
    ball, solution = model.uncertainty_set_, model.solution_
    scale = ball.space.coordinates.scale
    rng = np.random.default_rng(seed)
    x = np.abs(solution.decision * rng.uniform(0.5, 1.5, instance.d))
    certified = model.worst_case_cost(x)
    inner = reference.worst_distribution(
        instance.values(x, solution.support),
        solution.support / scale,
        [table / scale for table in instance.tables],
        ball.weights,
        ball.radius,
        describe(ball.kernel),
    )
    slack = 1e-5 * max(1.0, abs(inner))
    assert certified.lower_bound - slack <= inner <= certified.upper_bound + slack
    assert certified.gap <= 1e-6
    assert certified.upper_bound >= solution.lower_bound
    np.testing.assert_array_equal(certified.decision, x)


@pytest.fixture(scope="module")
def claims():
    """Sound claims, one of each loss, in which the ball binds (a large one leaves g = 0)."""
    found = {}
    for seed in range(N_INSTANCES):
        if LOSSES[seed % len(LOSSES)] not in found:
            instance, model = solved(seed)
            witness = model.solution_.witness
            if witness is not None and witness.g.norm > 1e-2 * abs(model.objective_):
                found[instance.kind] = instance.claim(model)
    assert set(found) == set(LOSSES)
    return found


def shrunk_radius(claim):
    return replace(claim, radius=0.9 * claim.radius)


def shifted_weights(claim):
    weights = claim.weights.copy()
    heaviest, lightest = np.argmax(weights), np.argmin(weights)
    moved = 0.5 * weights[heaviest]
    weights[heaviest] -= moved
    weights[lightest] += moved
    return replace(claim, weights=weights)


def lost_weight(claim):
    return replace(claim, weights=0.99 * claim.weights)


def negative_weight(claim):
    weights = claim.weights.copy()
    weights[np.argmin(weights)] -= 1e-3
    weights[np.argmax(weights)] += 1e-3
    return replace(claim, weights=weights)


def scaled_witness(claim):
    return replace(claim, witness_coefficients=1.05 * claim.witness_coefficients)


def moved_witness(claim):
    return replace(claim, witness_points=claim.witness_points + 0.1 * claim.witness_points.std())


def lower_beta(claim):
    return replace(claim, beta=claim.beta - 1e-3 * max(1.0, abs(claim.upper)))


def lower_upper_bound(claim):
    return replace(claim, upper=claim.upper - 1e-3 * max(1.0, abs(claim.upper)))


def higher_lower_bound(claim):
    return replace(claim, lower=claim.lower + 1e-3 * max(1.0, abs(claim.lower)))


def other_source_weights(claim):
    weights = claim.source_weights.copy()
    weights[0] += 0.05
    return replace(claim, source_weights=weights)


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize(
    "tamper",
    [
        shrunk_radius,
        shifted_weights,
        lost_weight,
        negative_weight,
        scaled_witness,
        moved_witness,
        lower_beta,
        lower_upper_bound,
        higher_lower_bound,
        other_source_weights,
    ],
    ids=lambda tamper: tamper.__name__,
)
def test_the_checker_notices_tampering(kind, tamper, claims):
    assert check(claims[kind]) == []
    assert check(tamper(claims[kind])) != []
