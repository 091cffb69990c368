"""Arrays of every library the scores must accept."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

LIBRARIES = ("list", "numpy", "read-only numpy", "array_api_strict", "torch", "torch tracked", "jax")


def make(library: str, values: np.ndarray):
    """`values` as an array of a library."""
    if library == "list":
        return values.tolist()
    if library == "numpy":
        return values.copy()
    if library == "read-only numpy":
        copy = values.copy()
        copy.flags.writeable = False
        return copy
    if library == "array_api_strict":
        return importlib.import_module("array_api_strict").asarray(values)
    if library.startswith("torch"):
        tensor = importlib.import_module("torch").from_numpy(values.copy())
        tracked = library == "torch tracked" and tensor.is_floating_point()
        return tensor.requires_grad_() if tracked else tensor
    return importlib.import_module("jax").numpy.asarray(values)


@pytest.fixture(params=LIBRARIES)
def library(request):
    return request.param
