"""What travels below a confidence's key: the error bit of a 0/1 loss, or the 32 bits of a float32 one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from abstain.core import packed

Unpack = Callable[[np.ndarray], np.ndarray]


def is_zero_one(loss: np.ndarray) -> bool:
    """Are all losses 0 or 1?"""
    if loss.dtype == bool:
        return True
    flat = loss.reshape(-1)
    return all(
        bool(np.all(flat[a : a + packed.CHUNK] * flat[a : a + packed.CHUNK] == flat[a : a + packed.CHUNK]))
        for a in range(0, len(flat), packed.CHUNK)
    )


def pack_loss(loss: np.ndarray, confidence: np.ndarray) -> tuple[np.ndarray, int, Unpack] | None:
    """Keys to sort, how many bits below are payload, and how to read a loss from them; None if nothing fits."""
    packing = packed.Packing(confidence)
    if packing.fits(1) and is_zero_one(loss):
        flat = loss.reshape(-1)
        bits = flat.view(np.uint8) if flat.dtype == bool else flat
        keys = packing.pack(1, lambda a, b: bits[a:b].astype(np.uint8, copy=False))
        return keys, 1, _low_bit
    if packing.fits(32) and loss.dtype == np.float32:
        flat32 = loss.reshape(-1).view(np.uint32)
        keys = packing.pack(32, lambda a, b: flat32[a:b])
        return keys, 32, _low_float
    return None


def _low_bit(keys: np.ndarray) -> np.ndarray:
    """Whole numbers, so that sums stay exact, in bytes, so that they stay in cache."""
    bits = np.empty(keys.shape, dtype=np.uint8)
    return np.bitwise_and(keys, keys.dtype.type(1), out=bits, casting="unsafe")


def _low_float(keys: np.ndarray) -> np.ndarray:
    low: np.ndarray = np.asarray(keys & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return low.view(np.float32).astype(np.float64)
