"""Shared settings: Hypothesis is derandomized, so a failure repeats."""

from hypothesis import HealthCheck, settings

settings.register_profile(
    "roodso",
    derandomize=True,
    deadline=None,
    max_examples=50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("roodso")
