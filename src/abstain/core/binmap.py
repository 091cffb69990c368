"""A fixed, monotone map from confidences to bin numbers, the same everywhere, so that bins merge by addition.
addition.

Numbers are cut by the bits of their floating-point form, which no rounding of a logarithm can disturb: each
octave (a power of two of the distance from the nearest of 0 and 1) gets a share of the bins, cut evenly
inside. Between 1/2 and 1 the octaves are those of `1 - x`, so that resolution is concentrated at the
confident end of probabilities; 1.0 itself is a bin of its own. Log-domain rank keys (0 to some hundreds)
and negated entropies get their octaves too.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from abstain._arrays import Array, Namespace, float64_bits, is_torch

_BIAS = 1023  # exponent of 1.0 in the bits of a float64
_MANTISSA = 52
_CODES = 2048  # one octave per exponent

# relative share of bins for each kind of octave: (region, from exponent, to exponent, share)
_UNIT = [
    ("top", -26, -2, 8.0),  # 1 - x from 2^-26 to 1/2
    ("top", -60, -27, 0.25),
    ("low", -4, -2, 8.0),  # x from 1/16 to 1/2
    ("low", -12, -5, 1.0),
    ("low", -60, -13, 0.1),
]
_REAL = [
    *_UNIT,
    ("big", 0, 6, 24.0),  # rank keys and logits: 1 to 128
    ("big", 7, 12, 2.0),
    ("big", 13, 60, 0.1),
    ("negative", -24, 6, 4.0),  # negated entropies and impurities, down to -128
    ("negative", -60, -25, 0.1),
    ("negative", 7, 12, 1.0),
    ("negative", 13, 60, 0.1),
]
_REGIONS = ("negative", "low", "top", "big")


class BinMap:
    """`index(confidence)` in [0, size), never falling as confidence rises.

    domain "unit" spends all bins on [0, 1] (what lies outside shares the end bins), "real" serves any number.
    The size is near `bins`, fixed by it and the domain alone.
    """

    def __init__(self, bins: int = 1 << 15, domain: str = "real") -> None:
        self.bins, self.domain = bins, domain
        self._offset, self._cells, self.size = _tables(bins, domain)
        self._beside: dict[str, tuple[Array, Array]] = {}

    def index(self, xp: Namespace, confidence: Array) -> Array:
        """Bin numbers (int64) of the confidences, where they live."""
        x = xp.astype(confidence, xp.float64) + 0.0  # -0 and +0 are one number
        low = (x > 0) & (x <= 0.5)
        top = (x > 0.5) & (x <= 1)
        region = xp.where(x > 1, 3, xp.where(top, 2, xp.where(low, 1, 0)))
        distance = xp.where(top, 1 - x, xp.abs(x))  # exact: x is within a factor of two of 1
        bits = float64_bits(distance)
        octave = bits >> _MANTISSA
        fraction = bits & ((1 << _MANTISSA) - 1)
        offset, cells = self._tables_beside(xp, x)
        code = region * _CODES + octave
        # astype, not `* 1.0`: torch would make float32 of it and put borderline numbers elsewhere than numpy
        cell = (xp.astype(fraction, xp.float64) / (1 << _MANTISSA)) * cells[code]
        cell = xp.minimum(xp.floor(cell), cells[code] - 1)  # the product may round up to the next octave
        falling = (region == 0) | (region == 2)  # confidence rises as the distance falls
        rise = xp.astype(xp.where(falling, cells[code] - 1 - cell, cell), xp.int64)
        return offset[code] + rise

    def _tables_beside(self, xp: Namespace, x: Array) -> tuple[Array, Array]:
        """The tables as arrays on the device of `x`."""
        if isinstance(x, np.ndarray):
            return self._offset, self._cells
        where = str(getattr(x, "device", ""))
        if where not in self._beside:
            offset, cells = xp.asarray(self._offset), xp.asarray(self._cells)
            self._beside[where] = (
                (offset.to(x.device), cells.to(x.device)) if is_torch(x) else (offset, cells)
            )
        return self._beside[where]


@lru_cache(maxsize=16)
def _tables(bins: int, domain: str) -> tuple[np.ndarray, np.ndarray, int]:
    """For each (region, octave): where its bins start and how many there are."""
    shares = np.zeros((len(_REGIONS), _CODES))
    for region, first, last, share in _UNIT if domain == "unit" else _REAL:
        shares[_REGIONS.index(region), first + _BIAS : last + _BIAS + 1] = share
    cells = np.floor(bins * shares / shares.sum())
    cells = np.where((shares > 0) & (cells < 1), 1, cells)
    offset = np.zeros_like(cells, dtype=np.int64)
    position = 0
    for r, region in enumerate(_REGIONS):
        order = range(_CODES) if region in ("low", "big") else range(_CODES - 1, -1, -1)
        for octave in order:
            offset[r, octave] = position
            position += int(cells[r, octave])
        if region == "top" or region == "negative":  # the point 1 (or 0) itself: distance 0
            offset[r, 0] = position
            cells[r, 0] = 1
            position += 1
    return _closed(offset, cells, position)


def _closed(offset: np.ndarray, cells: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Octaves without bins of their own share the first bin that follows (the last one at the very end)."""
    empty = cells == 0
    offset = np.where(empty, np.minimum(offset, size - 1), offset)
    cells = np.where(empty, 1.0, cells)
    return offset.reshape(-1), cells.reshape(-1), size
