"""What is promised of the unseen: each bound against simulation, and where its premise fails.

Populations are such that embeddings of distributions are exact. A bound that holds with
probability 1 - delta must not fail oftener in repeated trials than a binomial count with share
delta does but once in a million.
"""

import math
import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import null_space
from scipy.optimize import linprog
from scipy.stats import binom

from reference.ball import dual
from reference.formulas import herding, rbf
from reference.populations import Atoms, embedding_errors, gaussian_products
from roodso import RooDSO, guarantees
from roodso.datasets import make_newsvendor_sources
from roodso.guarantees import sampling
from roodso.losses import Newsvendor
from roodso.sets import SupportMeasureBall, ThickenedHull
from roodso.sets.ball import solve_dual, squared_distances_to_center, squared_radius

DELTA = 0.2


def not_too_often(failures, delta=DELTA):
    failures = np.asarray(failures)
    return failures.sum() <= binom.ppf(1 - 1e-6, failures.size, delta)


def far_too_often(failures, delta=DELTA):
    failures = np.asarray(failures)
    return failures.sum() > binom.ppf(1 - 1e-6, failures.size, delta)


# The formulas, by hand ------------------------------------------------------------------------


def test_the_formulas_at_numbers_that_come_out_even():
    g = guarantees
    assert g.moment_bound(2, 1) == pytest.approx(16.04, abs=0.005)  # the paper's own number
    assert g.moment_bound(4, 3, C=2.0) == pytest.approx(
        math.sqrt(16 * math.pi) * (32 / (3 * math.e)) ** 2 * math.exp(1 / 24)
    )
    assert g.second_moment_bound(8, C=2.0) == 0.25
    assert g.embedding_bound(4, math.exp(-2)) == pytest.approx(1.5)
    assert g.embedding_bound(16, math.exp(-2), C=4.0) == pytest.approx(1.5)
    assert g.effective_size([2, 3, 6]) == pytest.approx(1.0)
    # M = 4, n_bar = 36 and 1 + 2 log(M / delta) = 9, so s^2 = 1/4.
    sizes, delta = [144] * 4, 4 * math.exp(-4)
    assert g.gram_bound(sizes, delta, C=2.0) == pytest.approx(2 * (math.sqrt(8) + 0.5))
    assert g.optimizer_bound(sizes, delta, nu=1.0, lambda_min=0.1) == pytest.approx(
        10 * (0.5 * (math.sqrt(8) + 0.5) + math.sqrt(0.5))
    )
    assert g.expected_center_error(
        sizes, nu=1.0, lambda_min=0.5, lambda_max=2.0, C=3.0
    ) == pytest.approx(
        math.sqrt(4 * 9 * 2 / 0.25 * (0.25 * (32 / 36 + 512 / 36**2) + 1 / 36) + 2 * 0.25 * 3 / 36)
    )
    errors = g.ball_error([0.1, 0.3], nu=1.0, C=2.0)  # nu = 1: equal weights, e = 0.2, D = 2
    assert (errors.center, errors.radius) == pytest.approx((math.sqrt(0.8), 0.3 + math.sqrt(0.8)))
    assert errors.squared_radius == pytest.approx(2 * math.sqrt(2) * errors.radius)
    # log(1 / delta) = 2 and M = 100: McDiarmid's term is 0.1.
    delta = math.exp(-2)
    assert g.miss_bound(100, 0.1, 3.0, delta) == pytest.approx(0.4)
    assert g.miss_bound(100, 0.1, 6.0, delta, C=2.0) == pytest.approx(0.4)
    assert g.halfspace_miss_bound(100, 0.1, 2.0, delta, C=4.0) == pytest.approx(1.0)
    assert g.halfspace_miss_bound(100, 0.1, 2.0, delta, 4.0, B=0.5, B_0=1) == pytest.approx(0.4)
    assert g.distribution_miss_bound(100, 0.1, 2.0, delta, C=2.0) == pytest.approx(0.85)
    assert g.vanishing_excess(16, -0.25, scale=2.0, C=0.5) == pytest.approx(
        3 / 4 + math.sqrt(math.log(16) / 32)
    )
    assert g.gap_bound(np.array([3.0, 4.0]), np.diag([0.04, 0.01]), 4.0) == pytest.approx(4.0)


@given(
    t=st.lists(st.integers(0, 1000).map(lambda k: k / 1000), min_size=1, max_size=6),
    nu=st.floats(0.1, 1),
    lambda_min=st.floats(1e-3, 2),
    C=st.floats(0.2, 5),
)
def test_the_ball_error_is_the_root_of_its_inequality(t, nu, lambda_min, C):
    """Of |x|^2 <= e |x| + kappa (|x| + e), or sqrt(2 D e) if smaller; e by linear programming."""
    cap = 1 / (len(t) * nu)
    mixed = linprog([-x for x in t], A_eq=[[1] * len(t)], b_eq=[1], bounds=[(0, cap)] * len(t))
    e, D = -mixed.fun, math.sqrt(2 * C)
    h = math.sqrt(sum((x * x + 2 * D * x) ** 2 for x in t)) / 2
    kappa = h / math.sqrt(lambda_min)
    root = max(np.roots([1, -e - kappa, -kappa * e]).real)
    bound = guarantees.ball_error(t, nu=nu, lambda_min=lambda_min, C=C)
    assert bound.center == pytest.approx(min(root, math.sqrt(2 * D * e)), abs=1e-9)
    assert bound.weights == pytest.approx((e + kappa) / math.sqrt(lambda_min), abs=1e-9)


def test_the_ball_error_of_samples_is_that_of_all_embeddings_at_once():
    sizes = [10, 20, 40]
    errors = [guarantees.embedding_bound(n, 0.1 / 3, C=2.0) for n in sizes]
    assert guarantees.center_radius_bound(
        sizes, 0.1, nu=0.4, lambda_min=0.3, C=2.0
    ) == guarantees.ball_error(errors, nu=0.4, lambda_min=0.3, C=2.0)


@pytest.mark.parametrize("n_sources", [2, 3, 8])
def test_the_separation_is_the_least_eigenvalue_on_weights_that_add_up_to_nothing(n_sources):
    points = np.random.default_rng(n_sources).normal(size=(n_sources, 9))
    gram = points @ points.T
    basis = null_space(np.ones((1, n_sources)))
    expected = np.linalg.eigvalsh(basis.T @ gram @ basis)[0]
    assert guarantees.separation(gram) == pytest.approx(expected)
    assert guarantees.separation(gram) > 1.001 * np.linalg.eigvalsh(gram)[0]


@settings(max_examples=30)
@given(
    nu=st.floats(0, 0.9), gamma=st.floats(0.05, 2), C=st.floats(0.1, 5), delta=st.floats(0.01, 0.5)
)
def test_the_sources_and_the_gamma_needed_are_just_those_that_suffice(nu, gamma, C, delta):
    needed = guarantees.sources_needed(nu, gamma, delta, C)
    assert guarantees.miss_bound(needed, nu, gamma, delta, C) < 1 + 1e-12
    if needed > 1:
        assert guarantees.miss_bound(needed - 1, nu, gamma, delta, C) >= 1 - 1e-12
    least = guarantees.gamma_needed(needed, nu, delta, C)
    assert guarantees.miss_bound(needed, nu, least, delta, C) == pytest.approx(1.0)
    assert least <= gamma * (1 + 1e-12)
    assert guarantees.gamma_needed(1, 0.5, delta=0.05) == math.inf
    assert guarantees.sources_needed(0.3, 1.0, below=0.3) == math.inf


def test_the_bound_with_no_gamma_is_infinite():
    assert guarantees.miss_bound(10**9, 0.1, 0.0) == math.inf
    assert guarantees.halfspace_miss_bound(10**9, 0.1, 0.0) == math.inf
    assert guarantees.distribution_miss_bound(10**9, 0.0, 0.0) == math.inf
    assert guarantees.solution_level(math.inf) == 0.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: guarantees.moment_bound(0, 5), "q must be a number in (0, inf), got 0"),
        (lambda: guarantees.second_moment_bound(0), "n must be a whole number >= 1, got 0"),
        (lambda: guarantees.embedding_bound(5, 1.0), "delta must be a number in (0, 1), got 1.0"),
        (lambda: guarantees.embedding_bound(5, 0.1, C=-1.0), "C must be a number in (0, inf)"),
        (lambda: guarantees.effective_size([]), "sizes must hold a whole number >= 1 per source"),
        (lambda: guarantees.gram_bound([5, 0], 0.1), "sizes must hold a whole number >= 1"),
        (lambda: guarantees.gram_bound([5, 1.5], 0.1), "sizes must hold a whole number >= 1"),
        (lambda: guarantees.gram_bound(["a"], 0.1), "sizes must hold a whole number >= 1"),
        (lambda: guarantees.center_radius_bound([5], 0.1, nu=0.0), "nu must be a number in (0, 1]"),
        (
            lambda: guarantees.optimizer_bound([5], 0.1, nu=0.5, lambda_min=-1.0),
            "lambda_min must be a number in [0, inf), got -1.0",
        ),
        (lambda: guarantees.ball_error([0.1, -1], nu=0.5), "errors must hold one number >= 0"),
        (lambda: guarantees.separation(np.ones((2, 3))), "gram must be a square matrix, got shape"),
        (lambda: guarantees.miss_bound(0, 0.1, 1.0), "n_sources must be a whole number >= 1"),
        (lambda: guarantees.miss_bound(5, 1.1, 1.0), "nu must be a number in [0, 1], got 1.1"),
        (lambda: guarantees.miss_bound(5, 0.1, -1.0), "gamma must be a number in [0, inf), got"),
        (lambda: guarantees.sources_needed(0.1, 1.0, below=0.0), "below must be a number in (0, 1"),
        (lambda: guarantees.vanishing_excess(9, -0.5), "exponent must be a number in (-0.5, 0)"),
        (
            lambda: guarantees.gap_bound(np.ones(2), np.eye(3)),
            "theta and residual must have the shapes",
        ),
        (
            lambda: guarantees.nystrom_residual(np.eye(3), np.ones((3, 2)), np.eye(2)),
            "k_nn, k_sn, k_ss must have the shapes",
        ),
    ],
)
def test_bad_arguments(call, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        call()


# One source: moments and the bound on its embedding -------------------------------------------


def gaussian_errors(rng, repeats, n, sigma=0.5):
    """|mu_hat - mu| for ``repeats`` samples of n from N(0, I) in two dimensions."""
    samples = rng.normal(size=(repeats, n, 2))
    return embedding_errors(samples, np.zeros((repeats, 2)), np.ones(repeats), sigma)


@pytest.mark.parametrize("n", [4, 40])
def test_moments_of_the_embedding_error(n):
    errors = gaussian_errors(np.random.default_rng(n), 1500, n)
    norm2 = gaussian_products(np.zeros((1, 2)), np.ones(1), np.zeros((1, 2)), np.ones(1), 0.5)
    exact = (1 - norm2[0, 0]) / n  # so the simulation itself can be trusted
    assert (errors**2).mean() == pytest.approx(exact, rel=0.05)
    assert (errors**2).mean() <= guarantees.second_moment_bound(n) <= 1.2 * exact
    for q in (0.5, 1, 2, 3, 4, 6):
        assert (errors**q).mean() <= guarantees.moment_bound(q, n)


def test_moments_where_the_kernel_is_larger_than_said_or_samples_repeat():
    rng = np.random.default_rng(0)
    errors = gaussian_errors(rng, 500, 20)
    assert 40 * (errors**2).mean() > guarantees.moment_bound(2, 20)  # C = 40, said 1
    assert 40 * (errors**2).mean() <= guarantees.moment_bound(2, 20, C=40)
    repeated = gaussian_errors(rng, 500, 1)  # one sample, recorded 20 times
    assert (repeated**2).mean() > guarantees.moment_bound(2, 20)


@pytest.mark.parametrize("delta", [0.5, DELTA, 0.02])
@pytest.mark.parametrize("n", [3, 30])
def test_the_embedding_is_within_t_of_the_truth(n, delta):
    errors = gaussian_errors(np.random.default_rng(n), 1000, n)
    assert not_too_often(errors > guarantees.embedding_bound(n, delta), delta)


def test_t_fails_where_the_kernel_is_larger_than_said_or_samples_repeat():
    rng = np.random.default_rng(1)
    bound = guarantees.embedding_bound(30, DELTA)
    assert far_too_often(4 * gaussian_errors(rng, 200, 30) > bound)  # C = 16, said 1
    assert far_too_often(gaussian_errors(rng, 200, 1) > bound)  # one sample 30 times


# Many sources: Gram matrix, weights, centre, radius -------------------------------------------


def test_the_gram_matrix_is_within_its_bound():
    rng = np.random.default_rng(2)
    sizes = [20, 40, 60, 80]
    bound = guarantees.gram_bound(sizes, DELTA)
    failures, dependent = [], []
    for _ in range(60):
        means, variances = rng.normal(size=(4, 1)), rng.uniform(0.2, 2, 4)
        true = gaussian_products(means, variances, means, variances, 0.3)
        noise = [rng.normal(size=(n, 1)) for n in sizes]
        tables = [m + np.sqrt(v) * z for m, v, z in zip(means, variances, noise, strict=True)]
        failures.append(np.linalg.norm(_gram_of_tables(tables) - true, 2) > bound)
        # Every source reports one and the same number, over and over.
        copies = [np.full((n, 1), noise[0][0, 0]) for n in sizes]
        many = guarantees.gram_bound([20_000] * 4, DELTA)
        dependent.append(np.linalg.norm(_gram_of_tables(copies) - true, 2) > many)
    assert not_too_often(failures)
    assert far_too_often(dependent)


def _gram_of_tables(tables, sigma=0.3):
    zeros = [np.zeros(len(table)) for table in tables]
    return np.array(
        [
            [
                gaussian_products(a, z, b, y, sigma).mean()
                for b, y in zip(tables, zeros, strict=True)
            ]
            for a, z in zip(tables, zeros, strict=True)
        ]
    )


def ball(population, distributions, nu):
    """Weights, centre (a measure on the atoms) and radius, of distributions or of samples."""
    gram = population.products(distributions, distributions)
    alpha = solve_dual(gram, nu)
    r2 = squared_radius(squared_distances_to_center(gram, alpha), nu)
    return alpha, alpha @ distributions, math.sqrt(r2), gram


def random_atoms(rng, n_sources, n_atoms=12, concentration=0.3):
    population = Atoms(rng.normal(size=(n_atoms, 2)), 0.5)
    return population, rng.dirichlet(np.full(n_atoms, concentration), n_sources)


@pytest.mark.parametrize("nu", [0.2, 0.5, 1.0])
def test_weights_centre_and_radius_are_within_their_bounds(nu):
    rng = np.random.default_rng(3)
    sizes = rng.integers(20_000, 100_000, 5)
    repaired, weights, centers, radii, squares, expected = [], [], [], [], [], []
    for _ in range(40):
        population, true = random_atoms(rng, 5)
        alpha, center, radius, gram = ball(population, true, nu)
        eigenvalues = np.linalg.eigvalsh(gram)
        assert guarantees.separation(gram) >= eigenvalues[0] > 1e-4
        for apart in (eigenvalues[0], guarantees.separation(gram), 0.0):
            bound = guarantees.center_radius_bound(sizes, DELTA, nu=nu, lambda_min=apart)
            loose = guarantees.optimizer_bound(sizes, DELTA, nu=nu, lambda_min=apart)
            assert bound.weights <= loose
            seen = population.sample(rng, true, sizes)
            alpha_hat, center_hat, radius_hat, _ = ball(population, seen, nu)
            off = population.norm(center_hat - center)
            repaired.append(np.linalg.norm(alpha_hat - alpha) > loose)
            weights.append(np.linalg.norm(alpha_hat - alpha) > bound.weights)
            centers.append(off > bound.center)
            radii.append(abs(radius_hat - radius) > bound.radius)
            squares.append(abs(radius_hat**2 - radius**2) > bound.squared_radius)
        expected.append(
            guarantees.expected_center_error(
                sizes, nu=nu, lambda_min=eigenvalues[0], lambda_max=eigenvalues[-1]
            )
            - off
        )
    for failures in (repaired, weights, centers, radii, squares):
        assert not_too_often(failures)
    assert np.mean(expected) > 0


def test_bounds_say_something_for_many_samples_and_fall_at_the_rate_of_the_theorem():
    few, many = (
        guarantees.center_radius_bound([n] * 5, 0.05, nu=0.2, lambda_min=0.2)
        for n in (10**6, 10**8)
    )
    assert few.center < 0.1
    assert many.center / few.center == pytest.approx(0.1, rel=0.05)
    assert many.weights / few.weights == pytest.approx(0.1, rel=0.05)
    blind = [guarantees.center_radius_bound([n] * 5, 0.05, nu=0.2).center for n in (10**6, 10**8)]
    assert blind[1] / blind[0] == pytest.approx(10**-0.5)  # without curvature, n^(-1/4)


def test_weights_of_identical_distributions_do_not_settle():
    """lambda_0 = 0: the bound is infinite, and rightly so; the centre's bound still holds."""
    rng = np.random.default_rng(4)
    population, true = random_atoms(rng, 1)
    true, sizes = np.repeat(true, 4, axis=0), [10**6] * 4
    assert guarantees.separation(population.products(true, true)) == pytest.approx(0, abs=1e-12)
    assert guarantees.optimizer_bound(sizes, DELTA, nu=0.3, lambda_min=0.0) == math.inf
    pretended = guarantees.center_radius_bound(sizes, DELTA, nu=0.3, lambda_min=0.5)
    assert pretended.weights < 0.05
    alphas, centers = [], []
    for _ in range(20):
        alpha, center, _, _ = ball(population, population.sample(rng, true, sizes), 0.3)
        alphas.append(alpha)
        centers.append(population.norm(center - true[0]))
    spread = [np.linalg.norm(a - b) for a, b in zip(alphas[::2], alphas[1::2], strict=True)]
    assert far_too_often(np.array(spread) > 2 * pretended.weights)
    assert max(centers) <= guarantees.center_radius_bound(sizes, 1e-6, nu=0.3).center


def test_the_centre_is_off_where_all_samples_of_a_source_are_one():
    rng = np.random.default_rng(5)
    failures = []
    for _ in range(20):
        population, true = random_atoms(rng, 4, concentration=5.0)
        _, center, _, gram = ball(population, true, 0.5)
        bound = guarantees.center_radius_bound(
            [10**6] * 4, DELTA, nu=0.5, lambda_min=guarantees.separation(gram)
        )
        _, center_hat, _, _ = ball(population, population.sample(rng, true, [1] * 4), 0.5)
        failures.append(population.norm(center_hat - center) > bound.center)
    assert far_too_often(failures)


@given(
    seed=st.integers(0, 10**6),
    n_sources=st.integers(1, 6),
    nu=st.sampled_from([0.1, 0.3, 0.5, 0.9, 1.0]),
    size=st.sampled_from([1e-4, 1e-2, 0.3]),
    C=st.sampled_from([1.0, 4.0]),
)
def test_a_ball_moves_no_farther_than_its_embeddings_allow(seed, n_sources, nu, size, C):
    """No probability here: nearly adversarial moves, and the true errors in the bound."""
    rng = np.random.default_rng(seed)
    points = np.abs(rng.normal(size=(n_sources, 3)))  # non-negative inner products, as k >= 0 has
    points *= rng.uniform(0.2, 1, (n_sources, 1)) / np.linalg.norm(points, axis=1, keepdims=True)
    moved = np.abs(points + size * rng.normal(size=points.shape))
    moved /= np.maximum(1, np.linalg.norm(moved, axis=1, keepdims=True))
    points, moved = math.sqrt(C) * points, math.sqrt(C) * moved
    errors = np.linalg.norm(moved - points, axis=1)
    (alpha, center, radius), (alpha2, center2, radius2) = (
        _ball_in_space(p, nu) for p in (points, moved)
    )
    for gram in (points @ points.T, moved @ moved.T):
        apart = guarantees.separation(gram)
        bound = guarantees.ball_error(errors, nu=nu, lambda_min=apart if apart > 1e-6 else 0.0, C=C)
        assert np.linalg.norm(alpha2 - alpha) <= bound.weights + 1e-6
        assert np.linalg.norm(center2 - center) <= bound.center + 1e-6
        assert abs(radius2 - radius) <= bound.radius + 1e-6
        assert abs(radius2**2 - radius**2) <= bound.squared_radius + 1e-6
    if n_sources == 1:  # here it is exact
        assert np.linalg.norm(center2 - center) == pytest.approx(bound.center)


def _ball_in_space(points, nu):
    alpha = dual(points @ points.T, nu)
    center = alpha @ points
    r2 = squared_radius(((points - center) ** 2).sum(axis=1), nu)
    return alpha, center, math.sqrt(r2)


def test_one_sample_moves_the_centre_farther_than_the_papers_proof_allows():
    """The bounded difference that McDiarmid's inequality would need is of order n^(-1/2)."""
    for n in (10**4, 10**6):
        farthest = 0.0
        for step in np.linspace(0.5, 2, 16):
            a, b, c = 0.0, 20.0, 20.0 + step / math.sqrt(n)
            population = Atoms(np.array([[a], [b], [c]]), 1.0)
            data = np.eye(3)
            changed = np.array([[1, 0, 0], [0, 1, 0], [1 / n, 0, 1 - 1 / n]])
            (_, one, _, _), (_, other, _, _) = (ball(population, x, 1 / 3) for x in (data, changed))
            farthest = max(farthest, population.norm(other - one))
        assert farthest == pytest.approx(0.5 / math.sqrt(n), rel=0.01)
        # t_i of the proof with M = 3, C = C_alpha = 1 and an eigenvalue of as much as 0.5:
        allowed = 2 / n + 4 / 0.5 * (3 / n + math.sqrt(3) / n**2 + math.sqrt(3) / (2 * n))
        assert farthest > 1.5 * allowed


def test_the_last_term_of_the_optimizer_bound_bears_no_c_alpha():
    """The step the paper takes, for orthogonal embeddings whose norms change in turn."""
    n_sources, nu, change = 100, 0.5, 1e-3
    signs = np.where(np.arange(n_sources) % 2, -1.0, 1.0)
    alpha, alpha_hat = (solve_dual(np.diag(q), nu) for q in (np.ones(100), 1 + change * signs))
    moved = np.linalg.norm(alpha_hat - alpha)
    matrix, diagonal = change, change * math.sqrt(n_sources)
    c_alpha = sampling._weight_norm(n_sources, nu)
    assert moved > 5 * c_alpha * (matrix + diagonal / 2)  # as printed, with lambda_0 = 1
    assert moved <= (c_alpha * matrix + diagonal / 2) / (1 - change)  # as it follows


# New sources: coverage ------------------------------------------------------------------------

M = 150
NU, GAMMA, SIGMA = 0.1, 0.95, 0.4


def gaussians(rng, n):
    """A population of Gaussians in the plane: means and variances."""
    return rng.normal(0, 0.5, (n, 2)), rng.uniform(0.05, 1.0, n)


def learn(gram, nu=NU):
    alpha = solve_dual(gram, nu)
    squared = squared_distances_to_center(gram, alpha)
    return alpha, float(alpha @ gram @ alpha), squared_radius(squared, nu), squared


def missed(alpha, norm2, r2, own, cross, gamma):
    """Share of new distributions outside, from their squared norms and products with sources."""
    return float((own - 2 * cross @ alpha + norm2 > r2 + gamma + 1e-12).mean())


@pytest.mark.parametrize("gamma", [0.0, 0.02, GAMMA])
def test_new_distributions_are_missed_no_oftener_than_the_bound_says(gamma):
    rng = np.random.default_rng(6)
    failures = []
    for _ in range(12):
        means, variances = gaussians(rng, M)
        alpha, norm2, r2, squared = learn(
            gaussian_products(means, variances, means, variances, SIGMA)
        )
        fresh, widths = gaussians(rng, 1000)
        cross = gaussian_products(fresh, widths, means, variances, SIGMA)
        own = SIGMA**2 / (SIGMA**2 + 2 * widths)
        share = missed(alpha, norm2, r2, own, cross, gamma)
        risk = guarantees.surrogate_risk(squared, r2, gamma)
        assert risk <= NU + 1e-12
        for bound in (
            guarantees.miss_bound(M, NU, gamma, DELTA),
            guarantees.miss_bound(M, risk, gamma, DELTA),
            guarantees.distribution_miss_bound(
                M, float(np.maximum(squared - r2, 0).mean()), gamma, DELTA
            ),
        ):
            failures.append(share > bound)
    assert guarantees.miss_bound(M, NU, GAMMA, DELTA) < 0.8  # so the largest gamma is put to a test
    assert not_too_often(failures)


def test_sources_from_elsewhere_are_missed_oftener():
    """Not identically distributed: the new ones lie far from all that was seen."""
    rng = np.random.default_rng(7)
    means, variances = gaussians(rng, M)
    variances *= 0.02  # point-like, so that the ball is no bigger than it must be
    means *= 0.2
    alpha, norm2, r2, squared = learn(gaussian_products(means, variances, means, variances, SIGMA))
    fresh, widths = gaussians(rng, 500)
    cross = gaussian_products(fresh + 20, 0.01 * widths, means, variances, SIGMA)
    own = SIGMA**2 / (SIGMA**2 + 0.02 * widths)
    share = missed(alpha, norm2, r2, own, cross, GAMMA)
    excess = float(np.maximum(squared - r2, 0).mean())
    assert share > guarantees.miss_bound(M, NU, GAMMA, DELTA)
    assert share > guarantees.distribution_miss_bound(M, excess, GAMMA, DELTA)


def test_a_kernel_larger_than_said_misses_oftener():
    """Point masses far apart, C = 1000: every new one is 2 C / M outside."""
    C, gamma = 1000.0, 0.9
    alpha, norm2, r2, _ = learn(C * np.eye(M))
    share = missed(alpha, norm2, r2, np.full(9, C), np.zeros((9, M)), gamma)
    assert share > guarantees.miss_bound(M, NU, gamma, DELTA)
    assert share <= guarantees.miss_bound(M, NU, gamma, DELTA, C=C)


def test_the_rademacher_average_behind_the_bound():
    """For orthogonal embeddings of norm sqrt(C) the ball's class nearly attains 3 C / sqrt(M).

    The half-space's 2 C / sqrt(M), which the paper prints, would be too small.
    """
    C, n_sources, gamma = 2.0, 400, 1.0
    signs = np.random.default_rng(8).choice([-1.0, 1.0], (4000, n_sources))
    # sup over |w| <= sqrt(C), |tau| <= C of the mean of sigma_i (-|mu_i|^2 + 2 <w, mu_i> - tau).
    norm = math.sqrt(C) * np.sqrt((signs**2).sum(axis=1)) / n_sources
    total = signs.mean(axis=1)
    average = (-C * total + 2 * math.sqrt(C) * norm + C * np.abs(total)).mean()
    bound, printed = (
        (f(n_sources, 0.0, gamma, 1 - 1e-12, C) - 1e-6) * gamma / 2
        for f in (guarantees.miss_bound, guarantees.halfspace_miss_bound)
    )
    assert printed < average <= bound <= 1.1 * average


def test_the_half_space_of_the_papers_proof_is_not_the_ball():
    """Gaussians of different widths: rho depends on the source it is read from, by far."""
    rng = np.random.default_rng(0)
    means, widths = rng.normal(0, 0.3, (100, 1)), rng.uniform(0.1, 3, 100) ** 2
    gram = gaussian_products(means, widths, means, widths, 1.0)
    alpha, _, r2, squared = learn(gram, 0.1)
    assert (squared > r2 + 1e-9).mean() <= 0.1
    boundary = (alpha > 1e-9) & (alpha < (1 - 1e-9) / 10)
    at_center = gram @ alpha
    outside = [float((at_center < rho - 1e-9).mean()) for rho in at_center[boundary]]
    assert max(outside) > 0.9  # nu allows 0.1
    assert min(outside) < 0.1


def test_with_equal_norms_the_enlarged_ball_is_the_half_space_at_half_of_gamma():
    rng = np.random.default_rng(9)
    points = rng.uniform(0, 1, 60)
    gram = np.exp(-np.abs(points[:, None] - points))  # point masses: every norm is 1
    alpha, norm2, r2, squared = learn(gram, 0.3)
    rho = 0.5 * (1 + norm2 - r2)
    for gamma in (0.0, 0.01, 0.1):
        in_ball = squared <= r2 + gamma + 1e-9
        np.testing.assert_array_equal(in_ball, gram @ alpha - rho >= -gamma / 2 - 5e-10)


# With samples only ----------------------------------------------------------------------------


def wide_distributions(rng, n):
    """Spread over 60 atoms far apart: small embeddings, whose samples of one are large."""
    return rng.dirichlet(np.full(60, 2.0), n)


FAR = Atoms(np.arange(60.0)[:, None], 0.3)
MANY, ENOUGH = 400, 0.6


def test_samples_alike_are_covered_as_promised_and_smaller_ones_are_not():
    rng = np.random.default_rng(10)
    bound = guarantees.miss_bound(MANY, NU, ENOUGH, DELTA)
    assert bound < 0.7
    failures, unlike = [], []
    for _ in range(5):
        seen = FAR.sample(rng, wide_distributions(rng, MANY), [300] * MANY)
        alpha, norm2, r2, _ = learn(FAR.products(seen, seen))
        fresh = wide_distributions(rng, 300)
        for size, result in ((300, failures), (1, unlike)):
            new = FAR.sample(rng, fresh, [size] * 300)
            own = np.einsum("na,ab,nb->n", new, FAR.kernel, new)
            cross = FAR.products(new, seen)
            result.append(missed(alpha, norm2, r2, own, cross, ENOUGH) > bound)
    assert not_too_often(failures)
    assert all(unlike)  # one sample a source where the others have 300


def test_the_distribution_itself_is_covered_as_promised_however_small_the_samples():
    """Also where ten samples a source make the ball, and for sizes that differ."""
    rng = np.random.default_rng(11)
    failures = []
    for _ in range(5):
        sizes = rng.integers(2, 20, MANY)
        seen = FAR.sample(rng, wide_distributions(rng, MANY), sizes)
        alpha, norm2, r2, squared = learn(FAR.products(seen, seen))
        fresh = wide_distributions(rng, 300)
        own = np.einsum("na,ab,nb->n", fresh, FAR.kernel, fresh)
        excess = float(np.maximum(squared - r2, 0).mean())
        bound = guarantees.distribution_miss_bound(MANY, excess, 0.9, DELTA)
        assert bound < 0.7
        share = missed(alpha, norm2, r2, own, FAR.products(fresh, seen), 0.9)
        failures.append(share > bound)
        # Jensen: the hinge loss of distributions is at most that of their samples.
        small = FAR.sample(rng, fresh, [3] * 300)
        small_own = np.einsum("na,ab,nb->n", small, FAR.kernel, small)
        hinge, small_hinge = (
            np.maximum(a - 2 * b @ alpha + norm2 - r2, 0).mean()
            for a, b in (
                (own, FAR.products(fresh, seen)),
                (small_own, FAR.products(small, seen)),
            )
        )
        assert hinge <= small_hinge
    assert not_too_often(failures)


# The limit ------------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.1, 0.3])
def test_without_gamma_coverage_can_be_zero_for_every_number_of_sources(nu):
    """The Laplace kernel and point masses: thm:asymptotic_behavior_U_empirical at gamma = 0 fails.

    With a gamma that shrinks slowly the same set covers what it should.
    """
    rng = np.random.default_rng(12)
    shares, enlarged = [], []
    for n_sources in (10, 40, 160):
        points = rng.uniform(0, 1, n_sources)
        alpha, norm2, r2, _ = learn(np.exp(-np.abs(points[:, None] - points) / 0.3), nu)
        fresh = rng.uniform(0, 1, 2000)
        fresh = fresh[np.abs(fresh[:, None] - points).min(axis=1) > 1e-5]  # beyond rounding
        cross = np.exp(-np.abs(fresh[:, None] - points) / 0.3)
        ones = np.ones(len(fresh))
        shares.append(1 - missed(alpha, norm2, r2, ones, cross, 0.0))
        enlarged.append(1 - missed(alpha, norm2, r2, ones, cross, 0.5 * n_sources**-0.25))
    assert shares == [0.0, 0.0, 0.0]
    assert min(enlarged) >= 1 - nu


def test_the_excess_over_nu_vanishes_slowly():
    excess = [guarantees.vanishing_excess(10**k) for k in range(2, 13, 2)]
    assert all(a > b for a, b in pairwise(excess))
    assert excess[0] > 1  # at M = 100 it says nothing
    assert excess[-1] < 0.01


# Solutions ------------------------------------------------------------------------------------

LOSS = Newsvendor(price=50, cost=20, holding=5, backorder=10)


def newsvendor_cost(x, demand):
    return (
        -50 * np.minimum(x, demand)
        + 20 * x
        + 5 * np.maximum(x - demand, 0)
        + 10 * np.maximum(demand - x, 0)
    )


def test_what_lies_in_the_set_costs_no_more_than_the_worst_case_whatever_is_decided():
    rng = np.random.default_rng(13)
    shops = [rng.normal(rng.uniform(2, 4), 0.5, (25, 1)) for _ in range(8)]
    model = RooDSO(LOSS, nu=0.25, gamma=0.05, n_support=20, random_state=0).fit(shops)
    support, alpha = model.solution_.support, model.uncertainty_set_.weights
    center = np.concatenate([np.full(25, a / 25) for a in alpha] + [np.zeros(20)])
    kernel = model.uncertainty_set_.space(support, support)
    inside = 0
    for _ in range(30):
        p = rng.dirichlet(np.full(len(support), 0.1))
        p = (1 - (share := rng.uniform(0, 0.5))) * center + share * p
        if (p - center) @ kernel @ (p - center) > model.uncertainty_set_.radius**2:
            continue
        inside += 1
        for x in (0.0, 2.0, 3.5, 6.0):
            worst = model.worst_case_cost([x]).upper_bound
            assert p @ newsvendor_cost(x, support[:, 0]) <= worst + 1e-9
    assert inside >= 10


def test_off_the_support_points_a_distribution_in_the_ball_can_cost_more():
    """The premise of a support that holds the new distribution: here it does not."""
    rng = np.random.default_rng(14)
    shops = [rng.normal(rng.uniform(2, 4), 0.5, (25, 1)) for _ in range(8)]
    model = RooDSO(LOSS, nu=0.25, n_support=0, random_state=0).fit(shops)
    everywhere = np.vstack([*shops, [[1000.0]]])  # a little mass far away moves no embedding far
    weights = model.uncertainty_set_.weights
    p = np.concatenate([np.full(25, 0.98 * a / 25) for a in weights] + [[0.02]])
    center = np.concatenate([np.full(25, a / 25) for a in weights] + [[0.0]])
    kernel = model.uncertainty_set_.space(everywhere, everywhere)
    assert (p - center) @ kernel @ (p - center) < model.uncertainty_set_.radius**2
    x = float(model.decision_[0])
    assert p @ newsvendor_cost(x, everywhere[:, 0]) > model.objective_


# The reduced representer ----------------------------------------------------------------------


def test_the_residual_is_what_least_squares_leaves():
    rng = np.random.default_rng(15)
    points = rng.normal(size=(30, 2))
    chosen = rng.choice(30, 8, replace=False)
    kernel = Atoms(points, 0.7).kernel
    residual = guarantees.nystrom_residual(kernel, kernel[chosen], kernel[np.ix_(chosen, chosen)])
    root = np.linalg.cholesky(kernel + 1e-14 * np.eye(30)).T  # columns: the points in a space
    for _ in range(5):
        theta = rng.normal(size=30)
        g = root @ theta
        rest = g - root[:, chosen] @ np.linalg.lstsq(root[:, chosen], g, rcond=None)[0]
        assert theta @ residual @ theta == pytest.approx(rest @ rest, rel=1e-6)
    everything = guarantees.nystrom_residual(kernel, kernel, kernel)
    np.testing.assert_allclose(everything, 0, atol=1e-9)


# The herded programme is restricted, so its certificate for the whole one stays open: a warning.
RESTRICTED = pytest.mark.filterwarnings("ignore::roodso.ConvergenceWarning")


def herding_models(seed, bandwidth, **options):
    """The same five shops with the full representer, and with others."""
    rng = np.random.default_rng(seed)
    shops = [rng.normal(rng.uniform(2, 3), 0.5, (12, 1)) for _ in range(5)]
    common = {"nu": 0.6, "bandwidth": bandwidth, "n_support": 6, "rows": "all", "random_state": 0}
    full = RooDSO(LOSS, representer="full", **common).fit(shops)
    return shops, full, RooDSO(LOSS, representer="herded", **common, **options).fit(shops)


@RESTRICTED
@pytest.mark.parametrize("steps", [1, 2, 4, 12])
def test_the_reduced_representer_costs_no_more_than_its_bound(steps):
    shops, full, herded = herding_models(3, 0.2, n_herding=steps)
    gap = herded.objective_ - full.solution_.lower_bound
    g, learned = full.solution_.witness.g, full.uncertainty_set_
    points = full.solution_.support
    theta = np.zeros(len(points))
    for point, coefficient in zip(g.points, g.coefficients, strict=True):
        theta[np.abs(points - point).max(axis=1) == 0] += coefficient
    chosen = herded_points(full, shops, steps)
    kernel = Atoms(points, 0.2).kernel
    residual = guarantees.nystrom_residual(kernel, kernel[chosen], kernel[np.ix_(chosen, chosen)])
    norm = math.sqrt(learned.weights @ learned.gram @ learned.weights)
    bound = guarantees.gap_bound(theta, residual, center_norm=norm)
    assert bound <= guarantees.gap_bound(theta, residual)
    assert -1e-4 <= gap <= bound + 1e-4
    if steps < 12:
        assert gap > 5.0  # the bound was put to a test
        # The sharper form behind it, |g - P g| itself in place of its bound:
        assert gap <= (norm + 1) * math.sqrt(theta @ residual @ theta)
    else:
        assert bound < 0.1  # all points


def herded_points(model, shops, steps):
    k, chosen = rbf(model.uncertainty_set_.bandwidth), []
    for i, table in enumerate(shops):
        rows = range(12) if steps >= 12 else set(herding(k, table.tolist(), steps))
        chosen += [12 * i + row for row in rows]
    return chosen + list(range(60, 66))


@RESTRICTED
def test_the_gap_bound_is_about_one_ball():
    """With the ball learned from herded samples, as in Algorithm 1, the 'gap' can be negative."""
    _, full, other = herding_models(1, 0.5, n_herding=1, gram="herded")
    assert other.objective_ < full.solution_.lower_bound - 1


# The summary of a fitted model ----------------------------------------------------------------


@pytest.fixture(scope="module")
def shops():
    return make_newsvendor_sources(12, (30, 60), random_state=17)


def test_a_summary_holds_the_numbers_of_the_bounds(shops):
    learner = SupportMeasureBall(nu=0.6, gamma=0.4).fit(shops)
    s = guarantees.summary(learner, delta=0.1)
    sizes = [len(shop) for shop in shops]
    assert (s.n_sources, s.smallest_size, s.largest_size) == (12, min(sizes), max(sizes))
    assert (s.nu, s.gamma, s.delta, s.C, s.n_support) == (0.6, 0.4, 0.1, 1.0, None)
    r2 = learner.uncertainty_set_.radius_without_gamma**2
    assert s.radius**2 == r2
    excess = np.maximum(learner.distances_**2 - r2, 0)
    risk = np.minimum(1, excess / 0.4).mean()
    assert s.inside == (excess < 1e-9).sum() >= 5
    assert excess.mean() > 0.01
    assert s.miss_sample == pytest.approx(guarantees.miss_bound(12, risk, 0.4, 0.1), rel=1e-6)
    assert s.miss_distribution == pytest.approx(
        guarantees.distribution_miss_bound(12, excess.mean(), 0.4, 0.1), rel=1e-6
    )
    assert s.miss_printed == guarantees.halfspace_miss_bound(12, 0.6, 0.4, 0.1)
    assert s.sources_needed == guarantees.sources_needed(0.6, 0.4, 0.1)
    assert s.gamma_needed == guarantees.gamma_needed(12, 0.6, 0.1)
    assert s.gram_error == guarantees.gram_bound(sizes, 0.1)
    assert s.embedding_error == guarantees.embedding_bound(min(sizes), 0.1 / 12)
    gram = learner.uncertainty_set_.gram
    assert s.separation == guarantees.separation(gram)
    assert s.ball_error == guarantees.center_radius_bound(
        sizes, 0.1, nu=0.6, lambda_min=s.separation
    )
    alpha = learner.weights_
    assert s.center_norm == pytest.approx(math.sqrt(alpha @ gram @ alpha))
    rho = (gram @ alpha)[learner.boundary_]
    assert np.abs(rho - s.offset).min() < 1e-6
    with pytest.raises(AttributeError):
        s.nu = 0.5


@pytest.mark.parametrize("gamma", [0.0, 0.02, 0.2])
def test_leaving_sources_out_is_learning_from_the_others(gamma):
    counts = []
    for seed, nu in enumerate([0.1, 0.25, 0.25, 0.5, 0.5]):
        shops = make_newsvendor_sources(14, 20, random_state=seed)
        given_ball = {"nu": nu, "gamma": gamma, "bandwidth": 0.7}
        inside = 0
        for i, shop in enumerate(shops):
            others = SupportMeasureBall(**given_ball).fit(shops[:i] + shops[i + 1 :])
            inside += int(others.predict([shop])[0] == 1)
        s = guarantees.summary(SupportMeasureBall(**given_ball).fit(shops))
        assert (s.left_out, s.left_out_inside) == (14, inside)
        counts.append(inside)
    assert min(counts) > 0
    assert len(set(counts)) > 1


def test_at_most_as_many_sources_are_left_out_as_asked(shops):
    learner = SupportMeasureBall(nu=0.25).fit(shops)
    assert guarantees.summary(learner, max_left_out=5).left_out == 5
    none = guarantees.summary(learner, max_left_out=0)
    assert none.left_out == none.left_out_inside == 0
    assert "left out" not in str(none)


def test_gamma_zero_is_told_that_the_theorem_says_nothing(shops):
    s = guarantees.summary(SupportMeasureBall(nu=0.25).fit(shops))
    assert s.vacuous
    assert s.miss_sample == s.miss_distribution == s.sources_needed == math.inf
    text = " ".join(str(s).split())
    assert "New sources: nothing. You have gamma = 0" in text
    assert f"it would need gamma > {s.gamma_needed:.2g}" in text
    assert "no gamma is of use" in text
    assert f"Some gamma is from M = {s.sources_useful} on" in text
    assert s.gamma_needed > s.gamma_all


def test_a_vacuous_bound_is_called_so_with_the_sources_it_would_take(shops):
    s = guarantees.summary(SupportMeasureBall(nu=0.25, gamma=0.4).fit(shops))
    text = " ".join(str(s).split())
    assert s.vacuous
    assert "vacuous at your M = 12" in text
    assert f"says something from M = {s.sources_needed} on" in text


def test_with_enough_sources_the_bounds_are_said_and_gamma_is_advised():
    rng = np.random.default_rng(18)
    tables = [rng.normal(rng.normal(), 0.3, (4, 1)) for _ in range(300)]
    s = guarantees.summary(SupportMeasureBall(nu=0.1, gamma=0.7).fit(tables), max_left_out=3)
    text = " ".join(str(s).split())
    assert not s.vacuous
    assert f"outside with probability at most {s.miss_sample:.2g}, with confidence 95%" in text
    plain = guarantees.summary(SupportMeasureBall(nu=0.1).fit(tables), max_left_out=3)
    text = " ".join(str(plain).split())
    assert f"At your M = 300 it says something for gamma > {plain.gamma_needed:.2g}" in text
    huge = guarantees.summary(SupportMeasureBall(nu=0.1, gamma=3.0).fit(tables), max_left_out=3)
    assert "holds every distribution whatsoever, so what it covers is no news" in " ".join(
        str(huge).split()
    )


def test_at_gamma_all_the_ball_holds_every_distribution(shops):
    s = guarantees.summary(SupportMeasureBall(nu=0.25).fit(shops))
    learner = SupportMeasureBall(nu=0.25, gamma=s.gamma_all).fit(shops)
    assert learner.predict([np.full((1, 2), 50.0)])[0] == 1
    smaller = SupportMeasureBall(nu=0.25, gamma=0.999 * s.gamma_all).fit(shops)
    assert smaller.predict([np.full((1, 2), 50.0)])[0] == -1


def test_a_model_adds_what_is_measured_about_its_support(shops):
    loss = Newsvendor(price=[50, 40], cost=[20, 15])
    model = RooDSO(loss, nu=0.25, n_support=50, random_state=0).fit(shops)
    s = guarantees.summary(model)
    assert s.n_support == sum(len(shop) for shop in shops) + 50
    assert f"over {s.n_support} support points" in str(s)
    assert s.radius == guarantees.summary(model.set_learner_).radius


def test_departures_from_the_theorems_are_named(shops):
    loss = Newsvendor(price=[50, 40], cost=[20, 15])
    even = [shop[:30] for shop in shops]
    clean = guarantees.summary(SupportMeasureBall(bandwidth=1.0).fit(even))
    assert clean.caveats == ()
    assert "departs" not in str(clean)

    def caveats(model):
        return " ".join(guarantees.summary(model).caveats)

    assert "median of these data" in caveats(SupportMeasureBall().fit(even))
    assert "Columns were scaled" in caveats(SupportMeasureBall(bandwidth=1.0, scale=True).fit(even))
    assert "30 to" in caveats(SupportMeasureBall(bandwidth=1.0).fit([*even, shops[0][:31]]))
    herded = RooDSO(loss, bandwidth=1.0, gram="herded", n_herding=3, random_state=0).fit(even)
    assert "herded samples" in caveats(herded)


@pytest.mark.filterwarnings("ignore::roodso.DegenerateDataWarning")
def test_one_source_is_summarized_too(shops):
    loss = Newsvendor(price=[50, 40], cost=[20, 15])
    s = guarantees.summary(RooDSO(loss, random_state=0).fit(shops[:1]))
    assert (s.n_sources, s.inside, s.left_out, s.separation) == (1, 1, 0, math.inf)
    assert s.ball_error.weights == 0.0
    assert "One source says nothing" in str(s)
    alike = guarantees.summary(SupportMeasureBall().fit([shops[0], shops[0], shops[0]]))
    assert (alike.radius, alike.inside) == (0.0, 3)
    assert alike.separation == pytest.approx(0, abs=1e-12)


def test_what_is_no_fitted_ball_is_refused(shops):
    from sklearn.exceptions import NotFittedError

    class Other(SupportMeasureBall):
        """Learns something else."""

    for model in (3, Other().fit(shops), None):
        with pytest.raises(TypeError, match="model must be a fitted SupportMeasureBall"):
            guarantees.summary(model)
    hull = RooDSO(LOSS, uncertainty_set=ThickenedHull(0.1)).fit(shops)
    with pytest.raises(TypeError, match=r"states its own: model\.set_learner_\.statement"):
        guarantees.summary(hull)
    for model in (SupportMeasureBall(), RooDSO(LOSS)):
        with pytest.raises(NotFittedError):
            guarantees.summary(model)
    with pytest.raises(ValueError, match=r"delta must be a number in \(0, 1\), got 0"):
        guarantees.summary(SupportMeasureBall().fit(shops), delta=0)
