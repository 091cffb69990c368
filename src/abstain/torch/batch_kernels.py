"""The weights of a batch on a GPU by three kernels: for eager training, where launching is what costs time."""

from __future__ import annotations

from typing import Any

import torch

from abstain._arrays import Array
from abstain.torch import _triton_rank
from abstain.torch._triton_compat import AVAILABLE

SAMPLES_AT_MOST = 4096
CLASSES_AT_MOST = 8192
_ESTIMATORS = ("harmonic", "loo", "sele", "2sele")
_TILE = 2048  # class scores held by one program


def takes(logits: Array, target: Array, estimator: str, score: Any) -> bool:
    """Is this the plain case: a small batch of class numbers on a GPU, ranked by max softmax?"""
    return (
        AVAILABLE
        and logits.is_cuda
        and score == "max_softmax"
        and estimator in _ESTIMATORS
        and logits.ndim == 2
        and logits.stride(1) == 1
        and target.ndim == 1
        and target.is_contiguous()
        and 0 < logits.shape[0] <= SAMPLES_AT_MOST
        and logits.shape[1] <= CLASSES_AT_MOST
        and not torch.compiler.is_compiling()
    )


def weights(logits: Array, target: Array, estimator: str, ignore_index: int, mean: bool, dtype: Any) -> Array:
    """Weight of each sample, in the dtype of the losses; divided by their number where `mean`."""
    n, classes = logits.shape
    columns = max(2, 1 << (classes - 1).bit_length())
    rows = max(1, min(64, _TILE // columns))
    keys = torch.empty(n, dtype=torch.float64, device=logits.device)
    share, out = torch.empty_like(keys), torch.empty(n, dtype=dtype, device=logits.device)
    loo, sele = estimator == "loo", estimator in ("sele", "2sele")
    with torch.cuda.device_of(logits):
        _triton_rank.odds_keys[((n + rows - 1) // rows,)](
            logits, target, keys, n, classes, logits.stride(0), ignore_index, ROWS=rows, COLUMNS=columns
        )
        grid = ((n + 31) // 32,)
        if not sele:
            _triton_rank.shares[grid](keys, share, n, LOO=int(loo), MINE=32, THEIRS=128)
        _triton_rank.pair_weights[grid](
            keys,
            share,
            out,
            n,
            2.0 if estimator == "2sele" else 1.0,
            MEAN=mean,
            LOO=loo,
            SELE=sele,
            MINE=32,
            THEIRS=128,
        )
    return out
