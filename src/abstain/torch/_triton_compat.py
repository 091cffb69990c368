# mypy: ignore-errors
"""Triton where there is one; without it the sources of the kernels can still be imported (and are never run)."""

from __future__ import annotations

try:
    import triton
    import triton.language as tl

    AVAILABLE, jit = True, triton.jit
except ImportError:  # the kernels are then plain functions that nobody calls

    def jit(function=None, **options):
        """Without Triton nothing is compiled."""
        return jit if function is None else function

    AVAILABLE, tl = False, None
