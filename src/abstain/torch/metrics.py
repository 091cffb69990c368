"""torchmetrics metrics for selective classification: AURC and its relatives, exact or in constant memory.

Each metric keeps either every sample (exact) or bins (constant memory); its value is that of the function in
`abstain`, its interval that of `abstain.inference.interval`.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import array_api_compat.torch as xp
import torch

import abstain.metrics as functional
from abstain import losses, scores
from abstain._arrays import Array
from abstain._check import check_choice, check_fraction, check_nonnegative, check_risk
from abstain.core import confidence_bins
from abstain.core.area_estimators import ESTIMATORS, TIES, area, zero_one_oracle_rows
from abstain.core.confidence_bins import BinMap, Bins, Bracket
from abstain.core.curve_points import exceeds
from abstain.errors import (
    AbstainWarning,
    DtypeError,
    InfeasibleError,
    InputError,
    ShapeError,
    import_optional,
)
from abstain.inference import Interval, interval
from abstain.torch import bin_state

Metric = import_optional("torchmetrics", "abstain.torch metrics", "torch").Metric

_AT_ONCE = 1 << 25  # class scores worked on at a time: bounds the scratch memory of large images
_UNIT_SCORES = ("max_softmax", "softmax_margin", "probability_norm", "vote_share")
_DTYPES = (torch.uint8, torch.float32, torch.float64)


class Reader:
    """How one metric turns `(preds, target, confidence)` into losses and confidences."""

    def __init__(self, name: str, loss: Any, score: Any, input: str, ignore_index: int | None) -> None:  # noqa: A002
        check_choice(name, "input", input, ("logits", "probs"))
        self.name, self.input, self.ignore_index = name, input, ignore_index
        self.loss = losses.by_name(loss)
        self.score = scores.by_name(score)
        if input not in self.score.takes:
            raise InputError(
                f'{name}: score="{self.score.name}" needs {self.score.takes[0]}, got input="{input}". '
                f'Pass the model\'s logits, or use score="max_softmax".'
            )

    @property
    def zero_one(self) -> bool:
        """Are the losses 0 or 1?"""
        return self.loss.name in ("zero_one", "top_k")

    def pieces(self, preds: Array, target: Array, confidence: Array | None) -> Iterator[tuple[Array, Array]]:
        """Losses and confidences of a batch, a bounded number of samples at a time; ignored targets left out."""
        self._check(preds, target, confidence)
        by_class = preds.is_floating_point()
        preds = preds.detach().movedim(1, -1).flatten(0, -2) if by_class else preds.reshape(-1)
        target = target.reshape(-1)
        ranked = () if confidence is None else (confidence.detach().reshape(-1),)
        step = max(1, _AT_ONCE // (preds.shape[1] if by_class else 1))
        for a in range(0, target.shape[0], step):
            yield self._read(*(x[a : a + step] for x in (preds, target, *ranked)))

    def _read(self, preds: Array, target: Array, confidence: Array = None) -> tuple[Array, Array]:
        if self.ignore_index is not None:
            counted = target != self.ignore_index
            preds, target = preds[counted], target[counted]
            confidence = None if confidence is None else confidence[counted]
        if target.shape[0] == 0:
            dtype = torch.uint8 if self.zero_one else torch.float64
            return target.new_zeros(0, dtype=dtype), target.new_zeros(0, dtype=torch.float64)
        if confidence is not None and confidence.device.type == "cpu" and not confidence.isfinite().all():
            raise InputError(f"{self.name}: `confidence` must be finite, got NaN or an infinity.")
        if not preds.is_floating_point():
            return (preds != target).to(torch.uint8), _rankable(confidence)
        loss = self.loss(labels=target, **{self.input: preds})
        loss = loss.to(torch.uint8) if loss.dtype is torch.bool else loss.detach()
        if confidence is not None:
            return loss, _rankable(confidence)
        return loss, self.score(preds) if self.input == "logits" else self.score(probs=preds)

    def _check(self, preds: Array, target: Array, confidence: Array | None) -> None:
        if preds.is_floating_point():
            expected = preds.shape[:1] + preds.shape[2:]
            if preds.ndim < 2 or target.shape != expected:
                raise ShapeError(
                    f"{self.name}: `preds` must have shape (N, C, ...) and `target` (N, ...), got "
                    f"{tuple(preds.shape)} and {tuple(target.shape)}. Classes are axis 1."
                )
        elif confidence is None or not self.zero_one:
            raise DtypeError(
                f"{self.name}: `preds` of class numbers ({preds.dtype}) carry no confidence: pass `confidence=` "
                f'with loss="zero_one", or pass {self.input} of shape (N, C, ...).'
            )
        elif preds.shape != target.shape:
            raise ShapeError(
                f"{self.name}: `preds` and `target` must have one shape, got {tuple(preds.shape)} and "
                f"{tuple(target.shape)}."
            )
        if confidence is not None and confidence.shape != target.shape:
            raise ShapeError(
                f"{self.name}: `confidence` must have the shape of `target`, one number per sample (higher = "
                f"surer), got {tuple(confidence.shape)} and {tuple(target.shape)}."
            )


def _rankable(confidence: Array) -> Array:
    """A given confidence as it is; half precision as float32, which holds it exactly; whole numbers as float64."""
    if confidence.dtype in (torch.float32, torch.float64):
        return confidence
    return confidence.float() if confidence.is_floating_point() else confidence.double()


@functools.lru_cache(maxsize=16)
def bin_map(thresholds: int, domain: str) -> BinMap:
    """One map per size and domain, shared by all metrics."""
    return BinMap(thresholds, domain)


class SelectiveMetric(Metric):  # type: ignore[misc, valid-type]
    """Shared by all metrics: reading predictions, holding state, syncing, intervals and certified bounds.

    `update(preds, target)` keeps the names of torchmetrics, by which a `MetricCollection` hands arguments on.

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
    option_names: tuple[str, ...] = ()  # attributes that are arguments of that function

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
        empty = bin_state.empty_state(bin_map(thresholds, self.domain).size)
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
                place = None if confidence is not None else self.reader.score.to_display(xp, key)
                bin_state.add(self._bin_state(), bin_map(self.thresholds, self.domain), loss, key, place)

    def compute(self) -> Array:
        """The metric of everything seen so far (in all processes)."""
        if self.thresholds is None:
            return self._exact(*self._samples())
        return self._binned(self._table()).estimate

    def compute_bounds(self) -> Bracket:
        """Estimate with certified lower and upper bounds; of an exact metric all three are the same."""
        if self.thresholds is None:
            value = self.compute()
            return Bracket(value, value, value)
        return self._synced(lambda: self._binned(self._table()))

    def compute_with_interval(self, level: float = 0.95, **options: Any) -> Interval:
        """The metric with a confidence interval and its standard error: see `abstain.inference.interval`."""
        return interval(self.function, *self.samples(), level=level, **self._options, **options)

    def samples(self) -> tuple[Array, Array]:
        """Losses and confidences of everything seen so far (in all processes), in the order it came."""
        if self.thresholds is not None:
            raise InfeasibleError(
                f"{type(self).__name__}: an interval needs the samples, which bins have not kept. "
                f"Use thresholds=None, or `compute_bounds()` for what the bins prove."
            )
        return self._synced(self._samples)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot a value, or several over time, as all torchmetrics do; without `val`, of `compute()`."""
        return self._plot(val, ax)

    def set_dtype(self, dst_type: Any) -> SelectiveMetric:
        """Confidences and counts keep their type: in half precision they would lose order and whole numbers."""
        return self

    @property
    def _options(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.option_names}

    def _exact(self, loss: Array, confidence: Array) -> Array:
        return getattr(functional, self.function)(loss, confidence, **self._options)

    def _binned(self, table: Bins) -> Bracket:
        """The metric of binned samples, with its bounds; these need a largest possible loss."""
        finish = getattr(confidence_bins, self.function)
        return finish(table, *self._options.values(), self.reader.loss.upper)

    def _synced(self, work: Callable[[], Any]) -> Any:
        with self.sync_context(
            dist_sync_fn=self.dist_sync_fn, should_sync=self._to_sync, should_unsync=self._should_unsync
        ):
            return work()

    def _samples(self) -> tuple[Array, Array]:
        loss, confidence = (
            torch.cat(x) if isinstance(x, list) and x else x for x in (self.loss, self.confidence)
        )
        self._check_some(len(loss) > 0)
        return (loss.bool() if loss.dtype is torch.uint8 else loss), confidence

    def _bin_state(self) -> bin_state.BinState:
        return bin_state.BinState(self.bin_count, self.bin_loss_sum, self.bin_low, self.bin_high)

    def _table(self) -> Bins:
        state = self._bin_state()
        self._check_some(bool(state.count.any()))
        if bool(
            (state.low.isnan() | state.high.isnan()).any()
        ):  # seen late, so that no update waits for a GPU
            raise InputError(f"{type(self).__name__}: `confidence` must be finite, got NaN.")
        return bin_state.to_bins(state)

    def _check_some(self, seen: bool) -> None:
        if not seen:
            raise InputError(
                f"{type(self).__name__}: needs at least one sample, got none. Call `update` first."
            )

    def _sync_dist(self, dist_sync_fn: Any, process_group: Any = None) -> None:
        """Before samples travel: processes must agree on their types, those without samples included."""
        for name in ("loss", "confidence") if self.thresholds is None else ():
            parts = getattr(self, name)
            joined = torch.cat(parts) if parts else torch.zeros(0, device=self.device)
            code = torch.tensor(_DTYPES.index(joined.dtype) if parts else 0, device=self.device)
            codes = dist_sync_fn(code, group=process_group or self.process_group)
            setattr(self, name, [joined.to(_DTYPES[int(torch.stack(list(codes)).max())])])
        super()._sync_dist(dist_sync_fn, process_group)


class _Area(SelectiveMetric):
    """Metrics built on AURC with an estimator and a tie rule."""

    option_names = ("estimator", "ties")

    def __init__(self, *, estimator: str = "harmonic", ties: str = "threshold", **kwargs: Any) -> None:
        name = type(self).__name__
        check_choice(name, "estimator", estimator, ESTIMATORS)
        check_choice(name, "ties", ties, TIES)
        super().__init__(**kwargs)
        if self.thresholds is not None and (estimator != "harmonic" or ties != "threshold"):
            raise InputError(
                f'{name}: bins certify estimator="harmonic" with ties="threshold" only, got "{estimator}" and '
                f'"{ties}". Use thresholds=None.'
            )
        self.estimator, self.ties = estimator, ties

    def _binned(self, table: Bins) -> Bracket:
        return confidence_bins.aurc(table, self.reader.loss.upper)


class AURC(_Area):
    r"""Area under the risk-coverage curve; lower is better. See `abstain.aurc`.

    .. math:: \frac{1}{n}\sum_i \hat\alpha_i\,\ell_i

    Parameters
    ----------
    estimator : {"harmonic", "log", "loo", "sele", "2sele"}
        Which rank weights.
    ties : {"threshold", "expected"}
        Equal confidences are accepted together, or in random order.
    **kwargs
        `loss`, `score`, `input`, `thresholds`, `ignore_index` as in `SelectiveMetric`, and those of torchmetrics.

    Examples
    --------
    >>> import torch
    >>> metric = AURC()
    >>> metric.update(torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]]), torch.tensor([0, 1, 1]))
    >>> metric.compute()  # the least sure of three is wrong: risks 0, 0, 1/3
    tensor(0.1111, dtype=torch.float64)
    """

    function = "aurc"


class EAURC(_Area):
    r"""Excess AURC over the best ordering of the same losses; lower is better. See `abstain.e_aurc`.

    .. math:: \mathrm{AURC} - \mathrm{AURC}^*

    Parameters
    ----------
    estimator, ties : str
        As in `AURC`.
    **kwargs
        As in `SelectiveMetric`. With `thresholds`, 0/1 loss only: other losses would need a second pass ordered by
        loss.

    Examples
    --------
    >>> import torch
    >>> metric = EAURC()
    >>> metric.update(torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]]), torch.tensor([0, 1, 1]))
    >>> metric.compute()  # the error ranks last, and no order is better
    tensor(0., dtype=torch.float64)
    """

    function = "e_aurc"

    def _binned(self, table: Bins) -> Bracket:
        best, _ = self._best_and_risk(table)
        return _each(confidence_bins.aurc(table, 1.0), lambda x: x - best)

    def _best_and_risk(self, table: Bins) -> tuple[float, float]:
        """AURC of the best ordering, which for a 0/1 loss needs the counts alone, and the risk."""
        if not self.reader.zero_one:
            raise InfeasibleError(
                f"{type(self).__name__}: bins know the best ordering of 0/1 losses only. Use thresholds=None."
            )
        mass, errors = (float(x) for x in confidence_bins.total(table))
        return float(area(zero_one_oracle_rows(errors, mass), "harmonic", "expected")), errors / mass


class NAURC(EAURC):
    r"""Normalised AURC, 0 for the best ordering, 1 for a useless one; lower is better. See `abstain.naurc`.

    .. math:: \frac{\mathrm{AURC} - \mathrm{AURC}^*}{\mathrm{risk} - \mathrm{AURC}^*}

    Parameters
    ----------
    estimator, ties : str
        As in `AURC`.
    **kwargs
        As in `SelectiveMetric`. With `thresholds`, 0/1 loss only.

    Examples
    --------
    >>> import torch
    >>> metric = NAURC()
    >>> metric.update(torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]]), torch.tensor([0, 1, 1]))
    >>> metric.compute()
    tensor(0., dtype=torch.float64)
    """

    function = "naurc"

    def _binned(self, table: Bins) -> Bracket:
        best, risk = self._best_and_risk(table)
        room = risk - best
        some = exceeds(risk, best)  # else all right or all wrong: no ordering is better than another
        return _each(super()._binned(table), lambda x: x / room if some else 0 * x)


class AUGRC(SelectiveMetric):
    r"""Area under the generalised risk-coverage curve; lower is better. See `abstain.augrc`.

    .. math:: \frac{1}{n}\sum_i \frac{r_i}{n}\,\ell_i

    with r the rank, 1 for the least confident; equal confidences share the largest of theirs.

    Parameters
    ----------
    loss, score, input, thresholds, ignore_index
        As in `SelectiveMetric`.
    **kwargs
        Of `torchmetrics.Metric`.

    Examples
    --------
    >>> import torch
    >>> metric = AUGRC()
    >>> metric.update(torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]]), torch.tensor([0, 1, 1]))
    >>> metric.compute()  # 1/9
    tensor(0.1111, dtype=torch.float64)
    """

    function = "augrc"


class RiskAtCoverage(SelectiveMetric):
    """Selective risk at a coverage; lower is better. See `abstain.risk_at_coverage`.

    The mean loss of the most confident samples, at least the share `coverage` of all; equal confidences are accepted
    together.

    Parameters
    ----------
    coverage : float
        The share of samples to accept at least.
    **kwargs
        As in `SelectiveMetric`.

    Examples
    --------
    >>> import torch
    >>> metric = RiskAtCoverage(coverage=1.0)
    >>> metric.update(torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]]), torch.tensor([0, 1, 1]))
    >>> metric.compute()
    tensor(0.3333, dtype=torch.float64)
    """

    function = "risk_at_coverage"
    option_names = ("coverage",)

    def __init__(self, *, coverage: float, **kwargs: Any) -> None:
        self.coverage = check_fraction("RiskAtCoverage", "coverage", coverage)
        super().__init__(**kwargs)


class CoverageAtRisk(SelectiveMetric):
    """Largest coverage within a risk; higher is better. See `abstain.coverage_at_risk`.

    The largest share of most confident samples whose mean loss is at most `risk`; equal confidences are accepted
    together.

    Parameters
    ----------
    risk : float
        The selective risk to stay within, on the samples seen: no promise about new data.
    **kwargs
        As in `SelectiveMetric`.

    Examples
    --------
    >>> import torch
    >>> metric = CoverageAtRisk(risk=0.1)
    >>> metric.update(torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]]), torch.tensor([0, 1, 1]))
    >>> metric.compute()
    tensor(0.6667, dtype=torch.float64)
    """

    function = "coverage_at_risk"
    option_names = ("risk",)
    higher_is_better = True
    plot_upper_bound = 1.0

    def __init__(self, *, risk: float, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        most = self.reader.loss.upper
        if most is None:
            self.risk = check_nonnegative("CoverageAtRisk", "risk", risk)
        else:
            self.risk = check_risk("CoverageAtRisk", risk, high=most)


class AUROC(SelectiveMetric):
    """Chance that a right sample is surer than a wrong one; higher is better. See `abstain.auroc`.

    Equal confidences count half. While only right or only wrong samples have been seen it is undefined: nan, with a
    warning, so that a batch without errors does not end a run.

    Parameters
    ----------
    **kwargs
        As in `SelectiveMetric`; 0/1 losses only.

    Examples
    --------
    >>> import torch
    >>> metric = AUROC()
    >>> metric.update(torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]]), torch.tensor([0, 1, 1]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    function = "auroc"
    higher_is_better = True
    plot_upper_bound = 1.0

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not self.reader.zero_one:
            raise InputError(
                f'AUROC: `loss` must be 0/1, got "{self.reader.loss.name}". Use loss="zero_one".'
            )

    def _exact(self, loss: Array, confidence: Array) -> Array:
        if bool(loss.all()) or not bool(loss.any()):
            return _undefined(confidence)
        return functional.auroc(loss, confidence)

    def _binned(self, table: Bins) -> Bracket:
        mass, errors = confidence_bins.total(table)
        if not 0 < float(errors) < float(mass):
            value = _undefined(mass)
            return Bracket(value, value, value)
        return confidence_bins.auroc(table)


def _each(value: Bracket, work: Callable[[Array], Array]) -> Bracket:
    """An increasing function of a certified number."""
    return Bracket(*(None if x is None else work(x) for x in value))


def _undefined(like: Array) -> Array:
    warnings.warn(
        "AUROC: only one kind of sample (right or wrong) has been seen; nan. `AURC` is defined for either.",
        AbstainWarning,
        stacklevel=3,
    )
    return like.new_full((), float("nan")).double()
