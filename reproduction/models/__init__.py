"""Image classifiers for 32x32 inputs, written out here so that a table names exactly what was trained."""

from abstain.paper.models.registry import MODELS, build, parameter_count

__all__ = ["MODELS", "build", "parameter_count"]
