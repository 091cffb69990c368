"""The paper's propositions as functions one can plan with: bias, mean squared error, rates, known populations."""

from abstain.theory import populations
from abstain.theory.planning import SamplePlan, plan_sample_size, samples_to_tell_apart
from abstain.theory.populations import (
    ExpectedBias,
    Population,
    SeleCounterexample,
    estimator_bias,
    expected_bias,
    sele_counterexample,
)
from abstain.theory.weights import (
    MonteCarloWeights,
    expected_weight,
    mean_mse_order,
    mean_weight_mse,
    monte_carlo_weights,
    mse_order,
    population_weight,
    weight_bias,
    weight_mse,
)

__all__ = [
    "ExpectedBias",
    "MonteCarloWeights",
    "Population",
    "SamplePlan",
    "SeleCounterexample",
    "estimator_bias",
    "expected_bias",
    "expected_weight",
    "mean_mse_order",
    "mean_weight_mse",
    "monte_carlo_weights",
    "mse_order",
    "plan_sample_size",
    "population_weight",
    "populations",
    "samples_to_tell_apart",
    "sele_counterexample",
    "weight_bias",
    "weight_mse",
]
