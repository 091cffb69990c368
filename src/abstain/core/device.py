"""AURC of 0/1 losses that live on a GPU (torch, cupy), without bringing them to the host.

The rows of a risk-coverage curve need only two numbers per distinct confidence: how many samples have it, and how many
of these are errors. So nothing is sorted together with the losses. The confidences alone are sorted and counted, then
those of the errors, which are few; the two tables are merged by confidence. A sort of keys alone takes about half the
time of `torch.sort`, which also sorts the places of the keys.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from abstain._arrays import Array, Namespace, is_cupy, is_torch
from abstain.core.area_estimators import area_terms
from abstain.core.rows import rows_from_blocks

# rows handled at a time: float64 columns of a billion distinct confidences would be large
ROWS_AT_ONCE = 1 << 26
_FLOAT_TYPES = ("float64", "float32", "float16", "bfloat16")


def supports(loss: Array, confidence: Array, weight: Array | None, is_zero_one: Callable[[], bool]) -> bool:
    """Can `area` take these samples? They must be torch or cupy vectors of unweighted 0/1 losses.

    The confidences must be floats, and nothing may need a gradient. `is_zero_one()` says whether all losses are 0 or 1;
    it is called last, because it reads all losses.
    """
    if not (is_torch(loss) or is_cupy(loss)) or loss.ndim != 1 or weight is not None:
        return False
    if getattr(loss, "requires_grad", False) or getattr(confidence, "requires_grad", False):
        return False
    dtype_name = str(confidence.dtype).rpartition(".")[2]
    return dtype_name in _FLOAT_TYPES and bool(is_zero_one())


def area(xp: Namespace, loss: Array, confidence: Array, estimator: str, ties: str) -> Array:
    """AURC of one vector of samples, for which `supports` is true, as a float64 scalar on the device.

    `estimator` and `ties` are names in `area_estimators.ESTIMATORS` and `TIES`. The order of the samples does not
    matter. The host waits for the device, to learn how many distinct confidences and how many errors there are.
    """
    sample_counts, error_counts = count_by_confidence(xp, xp.astype(loss, xp.bool), confidence)
    row_count = sample_counts.shape[0]
    n = loss.shape[0]
    total_mass = xp.full((1,), float(n), dtype=xp.float64, device=loss.device)
    mass_above = xp.zeros((1,), dtype=xp.float64, device=loss.device)
    loss_above = mass_above
    sum_of_terms = xp.zeros((), dtype=xp.float64, device=loss.device)
    # the counts are least confident first, so begin at their end
    for stop in range(row_count, 0, -ROWS_AT_ONCE):
        part = slice(max(stop - ROWS_AT_ONCE, 0), stop)
        mass = xp.astype(sample_counts[part], xp.float64)
        loss_sum = xp.astype(error_counts[part], xp.float64)
        rows = rows_from_blocks(mass, loss_sum, xp)
        rows = rows._replace(total_mass=total_mass, padded=False)
        if stop < row_count:
            rows = rows._replace(
                accepted_mass=rows.accepted_mass + mass_above,
                accepted_loss=rows.accepted_loss + loss_above,
            )
        mass_above = rows.accepted_mass[-1:]
        loss_above = rows.accepted_loss[-1:]
        sum_of_terms = sum_of_terms + xp.sum(area_terms(rows, estimator, ties))
    return sum_of_terms / n


def count_by_confidence(xp: Namespace, is_error: Array, confidence: Array) -> tuple[Array, Array]:
    """Count the samples and the errors of each distinct confidence; -0 and 0 are the same confidence.

    `is_error` is a boolean vector, `confidence` a vector of finite floats of the same length, at least 1; both are
    torch tensors or cupy arrays. Returns two int64 vectors on their device, with one entry per distinct confidence,
    least confident first.
    """
    keys = _integer_keys(confidence) if is_cupy(confidence) else confidence
    distinct_keys, sample_counts = xp.unique(keys, return_counts=True)
    error_counts = xp.zeros_like(sample_counts)
    error_keys = keys[is_error]
    if error_keys.shape[0] > 0:
        distinct_error_keys, counts = xp.unique(error_keys, return_counts=True)
        error_counts[xp.searchsorted(distinct_keys, distinct_error_keys)] = counts
    return sample_counts, error_counts


def _integer_keys(confidence: Array) -> Array:
    """Integers that sort like the floats of a cupy vector, in the width of these floats; -0 and 0 both give 0.

    cupy sorts integers by radix, but floats by comparison, which is several times slower. The bits of a positive float
    sort like the float. Those of a negative one sort in reverse, which flipping all bits but the sign undoes.
    """
    bit_count = 8 * confidence.dtype.itemsize
    bits = confidence.view(f"int{bit_count}")
    bits_of_minus_zero = bits.dtype.type(-(1 << (bit_count - 1)))
    kernel = sys.modules["cupy"].ElementwiseKernel(
        "T bits, T minus_zero",
        "T key",
        "key = bits == minus_zero ? 0 : (bits < 0 ? bits ^ ~minus_zero : bits)",
        "integer_keys",
    )
    return kernel(bits, bits_of_minus_zero)
