"""What every metric here is made of: samples (exact) or bins (constant memory), kept the torchmetrics way."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import array_api_compat.torch as xp
import torch

from abstain._arrays import Array
from abstain.core.binmap import BinMap
from abstain.core.binning import Bins, Certified
from abstain.errors import InfeasibleError, InputError, MissingDependencyError
from abstain.torch import bins
from abstain.torch.samples import Reader

if TYPE_CHECKING:
    from abstain.inference import Interval

try:
    from torchmetrics import Metric
except ImportError as problem:  # pragma: no cover - torchmetrics is present wherever the tests run
    raise MissingDependencyError("abstain.torch metrics", "torchmetrics", "torch") from problem

_UNIT_SCORES = ("max_softmax", "softmax_margin", "probability_norm", "vote_share")
_DTYPES = (torch.uint8, torch.float32, torch.float64)


@functools.lru_cache(maxsize=16)
def bin_map(thresholds: int, domain: str) -> BinMap:
    """One map per size and domain, shared by all metrics."""
    return BinMap(thresholds, domain)


class SelectiveMetric(Metric):  # type: ignore[misc]
    """Shared by all metrics: reading predictions, holding state, syncing, intervals and certified bounds.

    Parameters
    ----------
    loss : str or callable
        Per-sample loss: "zero_one" (default), "cross_entropy", "brier", or a function of (preds, target) rows.
    score : str
        Confidence computed from `preds`; see `abstain.scores`. Overridden by `update(..., confidence=...)`.
    input : {"logits", "probs"}
        What `preds` are. Stated, never guessed.
    thresholds : int, optional
        None: every sample is kept and the value is exact. A number: that many bins, constant memory, and
        `compute_bounds()` certifies the value for losses with a largest value (0/1, Brier).
    ignore_index : int, optional
        Targets to leave out.
    **kwargs
        Of `torchmetrics.Metric`.
    """

    is_differentiable = False
    higher_is_better = False
    full_state_update = False
    plot_lower_bound = 0.0
    function = ""  # the metric's name in `abstain`

    def __init__(
        self,
        *,
        loss: Any = "zero_one",
        score: Any = "max_softmax",
        input: str = "logits",  # noqa: A002 - the word users know
        thresholds: int | None = None,
        ignore_index: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.reader = Reader(type(self).__name__, loss, score, input, ignore_index)
        self.thresholds = thresholds
        if thresholds is None:
            self.add_state("confidence", default=[], dist_reduce_fx="cat")
            self.add_state("loss", default=[], dist_reduce_fx="cat")
            return
        if int(thresholds) != thresholds or thresholds < 100:
            raise InputError(
                f"{type(self).__name__}: `thresholds` must be None (exact) or a whole number of bins, at least 100, "
                f"got {thresholds!r}. Some thousands give three digits."
            )
        self.domain = "unit" if self.reader.score.name in _UNIT_SCORES else "real"
        empty = bins.empty_state(bin_map(thresholds, self.domain).size)
        for name, value, merge in zip(empty._fields, empty, ("sum", "sum", "min", "max")):
            self.add_state(f"bin_{name}", default=value, dist_reduce_fx=merge)

    def update(self, preds: Array, target: Array, confidence: Array | None = None) -> None:
        """Add a batch.

        `preds` (N, C, ...) are what `input` states, or class numbers (N, ...) with `confidence=`; `target` is (N, ...).
        `confidence` (higher = surer), where given, ranks the samples instead of the score.
        """
        for loss, key in self.reader.pieces(preds, target, confidence):
            if self.thresholds is None:
                self.loss.append(loss)
                self.confidence.append(key)
            else:
                place = None if confidence is not None else self.reader.score.back(xp, key)
                bins.add(self._bin_state(), bin_map(self.thresholds, self.domain), loss, key, place)

    # what subclasses say about themselves -----------------------------------------------------------------------------

    def exact(self, loss: Array, confidence: Array) -> Array:
        """The metric of all samples."""
        raise NotImplementedError

    def binned(self, table: Bins) -> Certified:
        """The metric of binned samples, with its bounds."""
        raise NotImplementedError

    def options(self) -> dict[str, Any]:
        """Arguments of the function in `abstain` that computes this metric."""
        return {}

    # results ----------------------------------------------------------------------------------------------------------

    def compute(self) -> Array:
        """The metric of everything seen so far (in all processes)."""
        if self.thresholds is None:
            return self.exact(*self._samples())
        return self.binned(self._table()).estimate

    def compute_bounds(self) -> Certified:
        """Estimate with certified lower and upper bounds; of an exact metric all three are the same."""
        if self.thresholds is None:
            value = self.compute()
            return Certified(value, value, value)
        return self._synced(lambda: self.binned(self._table()))

    def compute_with_interval(self, level: float = 0.95, **options: Any) -> Interval:
        """The metric with a confidence interval and its standard error: see `abstain.inference.interval`."""
        from abstain.inference import interval

        if self.thresholds is not None:
            raise InfeasibleError(
                f"{type(self).__name__}: an interval needs the samples, which bins have not kept. "
                f"Use thresholds=None, or `compute_bounds()` for what the bins prove."
            )
        return self._synced(
            lambda: interval(self.function, *self._samples(), level=level, **self.options(), **options)
        )

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot a value, or several over time, as all torchmetrics do; without `val`, of `compute()`."""
        return self._plot(val, ax)

    # state ------------------------------------------------------------------------------------------------------------

    @property
    def most(self) -> float | None:
        """The largest possible loss, None where there is none (and nothing is certain)."""
        return self.reader.loss.upper

    def _synced(self, work: Callable[[], Any]) -> Any:
        with self.sync_context(
            dist_sync_fn=self.dist_sync_fn, should_sync=self._to_sync, should_unsync=self._should_unsync
        ):
            return work()

    def _samples(self) -> tuple[Array, Array]:
        loss, confidence = (
            torch.cat(x) if isinstance(x, list) and x else x for x in (self.loss, self.confidence)
        )
        if len(loss) == 0:
            raise InputError(
                f"{type(self).__name__}: needs at least one sample, got none. Call `update` first."
            )
        return (loss.bool() if loss.dtype is torch.uint8 else loss), confidence

    def _bin_state(self) -> bins.BinState:
        return bins.BinState(self.bin_count, self.bin_loss_sum, self.bin_low, self.bin_high)

    def _table(self) -> Bins:
        state = self._bin_state()
        if not bool(state.count.any()):
            raise InputError(
                f"{type(self).__name__}: needs at least one sample, got none. Call `update` first."
            )
        return bins.certified(state)

    def _sync_dist(self, dist_sync_fn: Any, process_group: Any = None) -> None:
        """Before samples travel: processes must agree on their types, those without samples included."""
        for name in ("loss", "confidence") if self.thresholds is None else ():
            parts = getattr(self, name)
            own = _DTYPES.index(torch.cat(parts).dtype) if parts else 0
            code = torch.tensor(own, device=self.device)
            widest = int(
                torch.stack(list(dist_sync_fn(code, group=process_group or self.process_group))).max()
            )
            joined = torch.cat(parts) if parts else torch.zeros(0, device=self.device)
            setattr(self, name, [joined.to(_DTYPES[widest])])
        super()._sync_dist(dist_sync_fn, process_group)

    def set_dtype(self, dst_type: Any) -> SelectiveMetric:
        """Confidences and counts keep their type: in half precision they would lose order and whole numbers."""
        return self


def _joined(parts: Any) -> Array:
    """A list state as one vector, copied only where there is something to join."""
    if not isinstance(parts, list):
        return parts
    return parts[0] if len(parts) == 1 else torch.cat(parts) if parts else parts
