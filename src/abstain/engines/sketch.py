"""A stream of predictions in at most a megabyte, with bounds that hold for certain."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from abstain._arrays import Array, is_torch
from abstain._check import check_choice, check_fraction
from abstain.core import confidence_bins
from abstain.core.curve_points import mass_for_share
from abstain.core.influence import MetricDerivative
from abstain.core.rows import rows_from_blocks
from abstain.core.stretch import Table, combined, stacked, stretch_of
from abstain.engines import histogram
from abstain.engines.histogram import Histogram, joined, nothing
from abstain.engines.ranges import Columns, joined_columns
from abstain.errors import DataError, InputError
from abstain.metrics._sample import Sample, prepare
from abstain.metrics.definitions import by_name


@dataclass(frozen=True)
class Certified:
    """A point estimate with bounds that hold for certain on the data seen (up to rounding in the last
    digits).

    `low` and `high` are None when nothing is certain: losses below zero have no bound to stand on.
    """

    estimate: float
    low: float | None
    high: float | None

    @property
    def gap(self) -> float | None:
        """Width of the bounds; 0 when the answer is exact."""
        return None if self.low is None or self.high is None else self.high - self.low

    def __float__(self) -> float:
        return self.estimate

    def __repr__(self) -> str:
        if self.low is None:
            return f"{self.estimate:.6g} (no certificate: some losses are below zero)"
        return f"{self.estimate:.6g} (for certain between {self.low:.6g} and {self.high:.6g})"


@dataclass(frozen=True)
class CertifiedCurve:
    """A risk-coverage curve in few points, most confident first; accept when `confidence >= threshold`.

    Coverage and risk at each threshold with their bounds (equal to them wherever the table knows exactly who
    is accepted; None without a certificate).
    """

    threshold: np.ndarray
    coverage: np.ndarray
    risk: np.ndarray
    risk_low: np.ndarray | None
    risk_high: np.ndarray | None
    coverage_low: np.ndarray
    coverage_high: np.ndarray

    def __repr__(self) -> str:
        return (
            f"CertifiedCurve({len(self.coverage)} points, risk {self.risk[0]:.4g} at coverage "
            f"{self.coverage[0]:.4g} to {self.risk[-1]:.4g} at {self.coverage[-1]:.4g})"
        )


def certified(result: confidence_bins.Bracket) -> Certified:
    """As plain numbers."""
    if result.low is None or result.high is None:
        return Certified(float(result.estimate), None, None)
    return _without_rounding(float(result.estimate), float(result.low), float(result.high))


def _without_rounding(estimate: float, low: float, high: float) -> Certified:
    """Bounds of a mean of losses of at least 0; a lower one that is rounding of sums of weights proves nothing."""
    return Certified(estimate, 0.0 if low < _ROUNDING * high else low, high)


def risk_at(table: Histogram, position: float, most: float | None) -> Certified:
    """Selective risk when the samples at and above the one at `position` (mass from the top) are accepted."""
    order = np.argsort(table.low + table.high, kind="stable")[::-1]
    c, L = table.mass[order], table.loss[order]
    N, S = np.cumsum(c), np.cumsum(L)
    at = min(int(np.searchsorted(N, position, "left")), len(N) - 1)
    tie = bool(table.low[order[at]] == table.high[order[at]])
    part = 1.0 if tie else (position - (N[at] - c[at])) / c[at]
    estimate = float((S[at] - L[at] + part * L[at]) / (N[at] - c[at] + part * c[at]))
    if most is None:
        return Certified(estimate, None, None)
    # whatever overlaps a stretch is taken with it as one bin: its members may stand anywhere in it
    above, loss_above, over_mass, over_loss = histogram.overlaps(table)
    mass = table.mass + over_mass
    maybe = (above < position) & (position <= above + mass)
    known = (table.low == table.high) & (over_mass == 0)
    place = np.where(known, above + mass, position)
    low, high = confidence_bins.risk_between(np, place, above, loss_above, mass, table.loss + over_loss, most)
    least, greatest = float(low[maybe].min()), float(high[maybe].max())
    return _without_rounding(min(max(estimate, least), greatest), least, greatest)


def curve(table: Histogram, most: float | None) -> CertifiedCurve:
    """Coverage and risk at the lower end of each stretch, most confident first."""
    threshold = np.unique(table.low)[::-1]
    first = np.searchsorted(table.low, threshold, "left")  # from here on they are accepted whole
    gone = np.searchsorted(np.sort(table.high), threshold, "left")  # rejected whole
    (N, open_mass), (S, open_loss) = histogram.shares(table, first, gone)
    open_mass, open_loss = (np.where(first > gone, x, 0.0) for x in (open_mass, open_loss))
    W = table.mass.sum()
    risk = (S + open_loss / 2) / (N + open_mass / 2)
    bounds: tuple[np.ndarray | None, np.ndarray | None] = (None, None)
    if most is not None:
        heavy = open_loss / most
        bounds = (S / (N + np.maximum(open_mass - heavy, 0.0)), (S + open_loss) / (N + heavy))
    return CertifiedCurve(threshold, (N + open_mass / 2) / W, risk, *bounds, N / W, (N + open_mass) / W)


_ROUNDING = 1e-12  # relative; sums of ten million weights are off by less
_CHUNK = 1 << 22  # samples sorted at a time
_BUFFER = 1 << 15  # small updates wait until they are worth a sort
_KIND, _VERSION = b"abstain.Sketch.", 3


class Sketch:
    """Constant-size summary of a stream: feed it, merge it, ask it; lower areas are better.

    Parameters
    ----------
    size : int
        Largest size in bytes when stored. While the confidences seen have few distinct values (some 30,000 in
        the default megabyte) every answer is exact; beyond that, stretches of the confidence axis are joined
        where it costs the bounds least, and each answer comes with the bounds that remain.
    repetitions : bool
        Are weights numbers of repetitions? Otherwise they are relative, one scale for all updates and merges.

    Sketches of parts merge, in any order and any shape of tree, into the sketch of the whole.

    Examples
    --------
    >>> sketch = Sketch()
    >>> sketch.update([0, 0, 1], [0.9, 0.8, 0.1])
    >>> sketch.aurc()
    0.111111 (for certain between 0.111111 and 0.111111)
    """

    def __init__(self, size: int = 1_000_000, *, repetitions: bool = False) -> None:
        if int(size) < 4096:
            raise InputError(f"Sketch: `size` must be at least 4096 bytes, got {size}.")
        self.size = int(size)
        self._histogram = nothing()
        self._waiting: list[Columns] = []
        self._waits = 0
        self.n = 0
        self.repetitions = repetitions
        self._unit: float | None = None  # of relative weights, set by the first ones; they are stored over it
        self._whole = True  # are all masses counts of samples?
        self._least, self._most = np.inf, -np.inf

    # feeding ------------------------------------------------------------------------------------------------

    def update(self, loss: Array, confidence: Array, /, *, sample_weight: Array | None = None) -> None:
        """Add samples: one loss and one confidence each (higher = surer), arrays of any one shape.

        Tensors on a device are sorted there; only a table of at most twice `size` bytes comes to the host.
        """
        loss, confidence, sample_weight = (_flat(x) for x in (loss, confidence, sample_weight))
        if getattr(loss, "shape", None) == (0,) and getattr(confidence, "shape", None) == (0,):
            return
        sample = prepare("Sketch.update", loss, confidence, sample_weight, repetitions=self.repetitions)
        weight = self._in_common_unit(sample, sample_weight)
        self._note(sample.loss, weight, sample.backend.xp)
        columns = Columns(sample.loss, sample.confidence, weight)
        if not sample.backend.host:
            if not is_torch(sample.loss):
                raise InputError(
                    "Sketch.update: takes numpy arrays and torch tensors (and what lives on the host), got another."
                )
            self._take(histogram.histogram_of_tensor(*columns.samples, self._limit(False)))
        elif len(sample.loss) + self._waits < _BUFFER:
            self._waiting.append(joined_columns([columns]))  # a copy: the caller may use its memory again
            self._waits += len(sample.loss)
        else:
            self._flush()
            for a in range(0, len(sample.loss), _CHUNK):
                part = columns.take(slice(a, a + _CHUNK))
                self._take(histogram.histogram_of(*part.samples, self._limit(False)))

    def _in_common_unit(self, sample: Sample, sample_weight: Array | None) -> Array | None:
        """Weights over the unit of all updates; `prepare` has divided these by their own."""
        xp = sample.backend.xp
        if self.repetitions or (sample_weight is None and self._unit in (None, 1.0)):
            self._unit = 1.0
            return sample.weight
        if sample.weight is None:
            return xp.ones_like(sample.loss, dtype=xp.float64) / (self._unit or 1.0)
        largest = float(xp.max(sample.backend.asarray(sample_weight, sample.loss)))
        unit = largest / float(xp.max(sample.every_weight))
        self._unit = unit if self._unit is None else self._unit
        return sample.weight if unit == self._unit else sample.weight * (unit / self._unit)

    def _over(self, unit: float) -> Histogram:
        """The table with masses over another unit."""
        factor = (self._unit or 1.0) / unit
        if factor == 1:
            return self._histogram
        sums = self._histogram.widened().sums.copy()
        sums[:2] *= factor
        sums[2:] *= factor * factor
        return replace(self._histogram, sums=sums)

    def merge(self, *others: Sketch) -> Sketch:
        """The sketch of all samples together (of the size of this one); neither input changes."""
        result = Sketch(self.size, repetitions=self.repetitions)
        parts = [self, *others]
        for part in parts:
            part._flush()
            if part.repetitions != self.repetitions:
                raise InputError(
                    "Sketch.merge: sketches must agree in `repetitions`, got both. Make all of them alike."
                )
        units = [part._unit for part in parts if part._unit is not None]
        result._unit = units[0] if units else None
        wide = any(len(part._histogram.sums) == 5 for part in parts)
        tables = [part._over(result._unit or 1.0) for part in parts]
        result._histogram = joined(tables, result._limit(wide))
        result.n = sum(part.n for part in parts)
        result._whole = all(part._whole and part._unit in (None, result._unit) for part in parts)
        result._least, result._most = min(p._least for p in parts), max(p._most for p in parts)
        return result

    def _note(self, loss: Array, weight: Array | None, xp: Any) -> None:
        self.n += int(loss.shape[0])
        self._least = min(self._least, float(loss.min()))
        self._most = max(self._most, float(loss.max()))
        if weight is not None and self._whole and not self.repetitions:
            self._whole = bool(xp.all(weight == 1))

    def _limit(self, wide: bool) -> int:
        return (self.size - 512) // (8 * (7 if wide else 4))

    def _take(self, table: Histogram) -> None:
        wide = len(table.sums) == 5 or len(self._histogram.sums) == 5
        self._histogram = joined([self._histogram, table], self._limit(wide))

    def _flush(self) -> None:
        if not self._waiting:
            return
        waiting, self._waiting, self._waits = self._waiting, [], 0
        if any(part.weight is not None for part in waiting):
            ones = [np.ones(part.rows) if part.weight is None else part.weight for part in waiting]
            waiting = [part._replace(weight=weight) for part, weight in zip(waiting, ones)]
        self._take(histogram.histogram_of(*joined_columns(waiting).samples, self._limit(False)))

    # asking -------------------------------------------------------------------------------------------------

    @property
    def exact(self) -> bool:
        """Does every stretch hold one confidence only, so that all answers are exact?"""
        return bool(np.all(self._table("exact").low == self._histogram.high))

    def _table(self, name: str) -> Histogram:
        self._flush()
        if not len(self._histogram):
            raise InputError(f"Sketch.{name}: needs at least one sample, got none. Call `update` first.")
        return self._histogram

    def _largest(self) -> float | None:
        """The largest loss seen, which bounds all of them; None when some are negative."""
        if self._least < 0:
            return None
        return max(self._most, 1.0) if self._most in (0.0, 1.0) else self._most

    def _bins(self, name: str) -> confidence_bins.Bins:
        return histogram.as_bins(self._table(name), self._largest(), self._whole)

    def aurc(self) -> Certified:
        """Area under the risk-coverage curve (harmonic, threshold ties); lower is better."""
        return certified(confidence_bins.aurc(self._bins("aurc"), self._largest()))

    def augrc(self) -> Certified:
        """Area under the generalised risk-coverage curve (mean rule); lower is better."""
        return certified(confidence_bins.augrc(self._bins("augrc"), self._largest()))

    def risk(self) -> Certified:
        """Mean loss of all samples: always exact; lower is better."""
        table = self._table("risk")
        value = float(table.loss.sum() / table.mass.sum())
        return Certified(value, value, value)

    def risk_at_coverage(self, coverage: float) -> Certified:
        """Selective risk at the least attainable coverage of at least `coverage`; lower is better."""
        asked = check_fraction("Sketch.risk_at_coverage", "coverage", coverage)
        table = self._table("risk_at_coverage")
        position = float(mass_for_share(np, table.mass.sum(), asked, self._whole))
        return risk_at(table, position, self._largest())

    def curve(self) -> CertifiedCurve:
        """The risk-coverage curve at the lower end of every stretch."""
        return curve(self._table("curve"), self._largest())

    def standard_error(self, metric: Literal["aurc", "augrc"] = "aurc") -> float:
        """Standard error of "aurc" or "augrc", members of a stretch taken as equals: no certificate."""
        check_choice("Sketch.standard_error", "metric", metric, ("aurc", "augrc"))
        table = self._table("standard_error").widened()
        m, L, *squares = table.sums[:, np.argsort(table.low + table.high)]
        squares = [x[::-1] for x in squares]
        rows = Table(rows_from_blocks(m, L), squares, [np.zeros_like(m)] * 5)  # fourth powers tell no error
        area = by_name(metric).area
        sums = combined(stacked([stretch_of(rows, area)]), area, MetricDerivative(0.0))
        return float(np.sqrt(sums.squares))

    # storing ------------------------------------------------------------------------------------------------

    def _meta(self) -> dict[str, Any]:
        self._flush()
        span = None if self.n == 0 else [self._least, self._most]
        kind = {"whole": self._whole, "repetitions": self.repetitions, "unit": self._unit}
        return {"size": self.size, "n": self.n, **kind, "losses": span}

    def _packed(self) -> bytes:
        meta = json.dumps(self._meta() | {"columns": len(self._histogram.sums)}).encode()
        columns = [self._histogram.low, self._histogram.high, *self._histogram.sums]
        body = b"".join(np.ascontiguousarray(c, dtype="<f8").tobytes() for c in columns)
        return len(meta).to_bytes(4, "little") + meta + body

    def to_bytes(self) -> bytes:
        """At most `size` bytes; `Sketch.from_bytes` reads them on any machine."""
        packed = self._packed()
        return _KIND + b"%d\n" % _VERSION + zlib.crc32(packed).to_bytes(4, "little") + packed

    @classmethod
    def from_bytes(cls, stored: bytes) -> Sketch:
        """The inverse of `to_bytes`."""
        if not stored.startswith(_KIND):
            raise DataError("Sketch.from_bytes: these bytes were not written by `Sketch.to_bytes`.")
        version, _, rest = bytes(stored[len(_KIND) :]).partition(b"\n")
        _check_version("Sketch.from_bytes", version.decode(errors="replace"))
        with _undamaged("Sketch.from_bytes"):
            end = 8 + int.from_bytes(rest[4:8], "little")
            meta = json.loads(rest[8:end])
            table = np.frombuffer(rest[end:], dtype="<f8").reshape(meta["columns"] + 2, -1).astype(np.float64)
            return cls._from(
                meta, Histogram(table[0], table[1], table[2:]), int.from_bytes(rest[:4], "little")
            )

    def to_json(self) -> str:
        """The same as text, numbers in full."""
        head = {"version": _VERSION, "checksum": zlib.crc32(self._packed())}
        low, high, sums = (getattr(self._histogram, k).tolist() for k in ("low", "high", "sums"))
        return json.dumps(head | self._meta() | {"low": low, "high": high, "sums": sums})

    @classmethod
    def from_json(cls, stored: str) -> Sketch:
        """The inverse of `to_json`."""
        with _undamaged("Sketch.from_json"):
            meta = dict(json.loads(stored))
        _check_version("Sketch.from_json", str(meta.get("version", 1)))
        with _undamaged("Sketch.from_json"):
            table = Histogram(*(np.asarray(meta[k], dtype=np.float64) for k in ("low", "high", "sums")))
            return cls._from(meta, table, meta["checksum"])

    @classmethod
    def _from(cls, meta: dict[str, Any], table: Histogram, checksum: int) -> Sketch:
        sketch = cls(meta["size"], repetitions=bool(meta["repetitions"]))
        sketch._unit = None if meta["unit"] is None else float(meta["unit"])
        sketch._histogram, sketch.n, sketch._whole = table, meta["n"], meta["whole"]
        if meta["losses"] is not None:
            sketch._least, sketch._most = map(float, meta["losses"])
        ordered = (table.low <= table.high).all() and (sketch.n == 0 or sketch._least <= sketch._most)
        if not ordered or zlib.crc32(sketch._packed()) != checksum:
            raise ValueError("not what was stored")
        return sketch

    def __repr__(self) -> str:
        waiting = f" and {self._waits} samples waiting" if self._waits else ""
        return f"Sketch(n = {self.n}, {len(self._histogram)} items{waiting})"


def _check_version(name: str, version: str) -> None:
    if version != str(_VERSION):
        raise DataError(
            f"{name}: takes sketches of version {_VERSION}, got version {version[:20]!r}. Make the sketch again with "
            f"this release of abstain, or read it with the one that wrote it."
        )


@contextmanager
def _undamaged(name: str) -> Iterator[None]:
    """Whatever fails while a stored sketch is read, and a checksum that does not fit, has one cause."""
    try:
        yield
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise DataError(
            f"{name}: the sketch is damaged or cut short. Store it again from where it was made."
        ) from error


def _flat(x: Array) -> Array:
    """Images and batches are samples too; a gradient is no part of a sketch."""
    x = x.detach() if is_torch(x) else x
    return x.reshape(-1) if getattr(x, "ndim", 1) > 1 and hasattr(x, "reshape") else x
