"""From confidences to the weight of each sample of a batch: the roads, all with the numbers of `core`.

A small batch compares all pairs (few kernels, and a compiler fuses them); a large one is sorted. With replicas, the
confidences of all are ranked together: one number per sample travels. Nothing here waits for the device, except the
exchange of batch sizes between replicas.
"""

from __future__ import annotations

import array_api_compat.torch as xp
import torch
import torch.distributed as dist

from abstain._arrays import Array
from abstain.core.estimators import accepts, pair_weights, sample_weights, softly_accepts
from abstain.errors import InputError

PAIRS_AT_MOST = 4096  # a batch of this size compared pair by pair costs an H200 less than its sort
PAIRS_AT_MOST_ON_HOST = 256
SOFT_AT_MOST = 8192  # n^2 numbers are kept for the backward pass

_groups: dict[str, Array] = {}  # process groups by name: custom operators take strings


def wide_dtype(x: Array) -> torch.dtype:
    """float64 where the device has it."""
    return torch.float32 if x.device.type == "mps" else torch.float64


def total_mass(valid: Array, mass: Array | None) -> Array:
    """Mass of all that count, shape (1,); 1 when nothing does, so that an all-ignored batch has loss 0, not NaN."""
    if mass is None:
        return valid.sum().clamp(min=1).to(wide_dtype(valid)).reshape(1)
    total = torch.where(valid, mass, 0).sum().reshape(1)
    return torch.where(total > 0, total, 1)


def hard_weights(key: Array, mass: Array | None, total: Array, estimator: str) -> Array:
    """Weight of each sample by its rank; no gradient. NaN keys are left out and weigh 0."""
    compiling = torch.compiler.is_compiling()
    most = PAIRS_AT_MOST if compiling or key.is_cuda else PAIRS_AT_MOST_ON_HOST
    if key.shape[0] <= most:
        return pair_weights(xp, accepts(key), mass, total, estimator)
    return _sorted_weights_op(key, mass, estimator) if compiling else _sorted_weights(key, mass, estimator)


def soft_weights(
    key: Array, valid: Array, mass: Array | None, total: Array, estimator: str, temperature: float
) -> Array:
    """Weights by a smooth comparison of confidences; the gradient flows through them."""
    if key.shape[0] > SOFT_AT_MOST:
        raise InputError(
            f'aurc_loss: rank="soft" compares all pairs and takes at most {SOFT_AT_MOST} samples, got {key.shape[0]}. '
            f'Use rank="hard", or a sample of the pixels.'
        )
    accepted = softly_accepts(xp, torch.where(valid, key, 0), temperature)
    weights = pair_weights(xp, accepted, valid.to(key.dtype) if mass is None else mass, total, estimator)
    return torch.where(valid, weights, 0)


def _sorted_weights(key: Array, mass: Array | None, estimator: str) -> Array:
    valid = ~torch.isnan(key)
    own = valid.to(key.dtype) if mass is None else torch.where(valid, mass, 0)
    weights = sample_weights(xp, torch.where(valid, key, -torch.inf), own, estimator, "threshold")
    return torch.where(valid, weights, 0)


@torch.library.custom_op("abstain::sorted_weights", mutates_args=())  # type: ignore[untyped-decorator]
def _sorted_weights_op(key: torch.Tensor, mass: torch.Tensor | None, estimator: str) -> torch.Tensor:
    """The same, opaque to the compiler: a sort gains nothing from fusion."""
    return _sorted_weights(key, mass, estimator)


@_sorted_weights_op.register_fake  # type: ignore[untyped-decorator]
def _(key: torch.Tensor, mass: torch.Tensor | None, estimator: str) -> torch.Tensor:
    return torch.empty_like(key)


def gathered_weights(
    key: Array, mass: Array | None, estimator: str, group: Array
) -> tuple[Array, Array, int]:
    """Weights by the ranks over all replicas, the mass of all, and the number of replicas."""
    if not (dist.is_available() and dist.is_initialized()):
        raise InputError(
            "aurc_loss: gather=True needs an initialised process group. "
            "Call torch.distributed.init_process_group() first, or leave gather=False on one process."
        )
    group = dist.group.WORLD if group is None else group
    name = group.group_name
    _groups[name] = group
    weights, total = _gathered_weights_op(key, mass, estimator, name)
    return weights, total, dist.get_world_size(group)


@torch.library.custom_op("abstain::gathered_weights", mutates_args=())  # type: ignore[untyped-decorator]
def _gathered_weights_op(
    key: torch.Tensor, mass: torch.Tensor | None, estimator: str, group_name: str
) -> tuple[torch.Tensor, torch.Tensor]:
    group = _groups[group_name]
    keys, start = _gather_vectors(key, group)
    masses = None if mass is None else _gather_vectors(mass, group)[0]
    total = total_mass(~torch.isnan(keys), masses)
    weights = hard_weights(keys, masses, total, estimator)
    return weights[start : start + key.shape[0]].clone(), total


@_gathered_weights_op.register_fake  # type: ignore[untyped-decorator]
def _(
    key: torch.Tensor, mass: torch.Tensor | None, estimator: str, group_name: str
) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(key), key.new_empty((1,))


def _gather_vectors(x: Array, group: Array) -> tuple[Array, int]:
    """The vectors of all replicas one after another, and where one's own begins; lengths may differ."""
    world, rank = dist.get_world_size(group), dist.get_rank(group)
    length = torch.tensor([x.shape[0]], device=x.device)
    lengths = [torch.empty_like(length) for _ in range(world)]
    dist.all_gather(lengths, length, group=group)
    sizes = [int(size) for size in torch.cat(lengths).tolist()]
    padded = x.new_zeros(max(*sizes, 1))
    padded[: x.shape[0]] = x
    parts = [torch.empty_like(padded) for _ in range(world)]
    dist.all_gather(parts, padded, group=group)
    return torch.cat([part[:size] for part, size in zip(parts, sizes)]), sum(sizes[:rank])
