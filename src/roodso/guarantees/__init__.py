"""What is promised about the distribution nobody has seen: every bound of the paper, as a function.

Each bound is a pure function of numbers, with its label, and with what its proof really gives:
every proof was checked, and where a step fails the function returns what follows instead and says
so. C is the kernel's value at distance 0 (``kernel.bound``); kernels are taken to be non-negative,
as all of this library are.

`sampling`
    Samples instead of distributions: embeddings, Gram matrix, weights, centre and radius.
`coverage`
    Few sources instead of all: how often a new one falls outside the ball.
`nystrom`
    Few points in the representer instead of all.
`fitted`
    `summary`: what all of it means for a model that has been fitted.
"""

from roodso.guarantees.coverage import (
    distribution_miss_bound,
    gamma_needed,
    halfspace_miss_bound,
    miss_bound,
    solution_level,
    sources_needed,
    surrogate_risk,
    vanishing_excess,
)
from roodso.guarantees.fitted import GuaranteeSummary, summary
from roodso.guarantees.nystrom import gap_bound, nystrom_residual
from roodso.guarantees.sampling import (
    BallError,
    ball_error,
    center_radius_bound,
    effective_size,
    embedding_bound,
    expected_center_error,
    gram_bound,
    moment_bound,
    optimizer_bound,
    second_moment_bound,
    separation,
)

__all__ = [
    "BallError",
    "GuaranteeSummary",
    "ball_error",
    "center_radius_bound",
    "distribution_miss_bound",
    "effective_size",
    "embedding_bound",
    "expected_center_error",
    "gamma_needed",
    "gap_bound",
    "gram_bound",
    "halfspace_miss_bound",
    "miss_bound",
    "moment_bound",
    "nystrom_residual",
    "optimizer_bound",
    "second_moment_bound",
    "separation",
    "solution_level",
    "sources_needed",
    "summary",
    "surrogate_risk",
    "vanishing_excess",
]
