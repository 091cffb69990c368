"""torchmetrics metrics for selective classification: AURC and others, exact or in constant memory.

`SelectiveMetric` makes a torchmetrics metric from any metric of the package, or from your own. It keeps either every
sample (exact) or bins (constant memory). Its value is that of the function in `abstain`, its interval that of
`abstain.inference.interval`. `AURC` and the other classes are `SelectiveMetric`s with a fixed metric.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import array_api_compat.torch as xp
import torch

from abstain import losses, scores
from abstain._arrays import Array
from abstain._check import check_choice, check_risk
from abstain.core import confidence_bins
from abstain.core.area_estimators import area, zero_one_oracle_rows
from abstain.core.confidence_bins import BinMap, Bins, Bracket
from abstain.core.curve_points import exceeds
from abstain.errors import (
    AbstainError,
    AbstainWarning,
    DtypeError,
    InfeasibleError,
    InputError,
    ShapeError,
    import_optional,
)
from abstain.inference import Interval, interval
from abstain.metrics.definitions import ESTIMATOR, METRICS, TIE_RULE, by_name
from abstain.metrics.metric import Metric, Options
from abstain.torch import bin_state

TorchMetric = import_optional("torchmetrics", "abstain.torch metrics", "torch").Metric

# Class scores handled at a time: this bounds the scratch memory of large images. On an H200 twice as many are 7% faster
# and take twice the scratch, half as many are 25% slower.
_LOGITS_PER_CHUNK = 1 << 24
_UNIT_SCORES = ("max_softmax", "softmax_margin", "probability_norm", "vote_share")  # displayed within [0, 1]
_USUAL_IGNORE = -100  # the default `ignore_index` of PyTorch's losses, and of AURCLoss
_STORED_DTYPES = (torch.uint8, torch.float32, torch.float64)  # of stored samples, from narrow to wide


class BatchReader:
    """Turns the `(preds, target, confidence)` of a batch into losses and confidences.

    Parameters
    ----------
    name : str
        The metric class to name in error messages.
    loss, score : str, object or callable
        See `abstain.losses.by_name` and `abstain.scores.by_name`.
    input_kind : {"logits", "probs"}
        What floating-point `preds` are.
    ignore_index : int or None
        Samples with this target are dropped.
    """

    def __init__(
        self, name: str, *, loss: Any, score: Any, input_kind: str, ignore_index: int | None
    ) -> None:
        """Look up the loss and the score; raise InputError for an unknown name, or a score that needs other inputs.

        `name` is the metric class in messages, and `input_kind`, "logits" or "probs", what `preds` will be. `loss` and
        `score` are names, functions of the user's own, or a `Loss` and a `Score`. Samples whose target is
        `ignore_index` are left out; None leaves out none.
        """
        check_choice(name, "input", input_kind, ("logits", "probs"))
        self.name = name
        self.input_kind = input_kind
        self.ignore_index = ignore_index
        self.loss = losses.by_name(loss)
        self.score = scores.by_name(score)
        if input_kind not in self.score.takes:  # the kinds of input that the score can be computed from
            raise InputError(
                f'{name}: score="{self.score.name}" needs {self.score.takes[0]}, got input="{input_kind}". '
                f'Pass the model\'s logits, or use score="max_softmax".'
            )

    @property
    def is_zero_one(self) -> bool:
        """True if all losses are 0 or 1."""
        return self.loss.name in ("zero_one", "top_k")

    def read(self, preds: Array, target: Array, confidence: Array | None) -> Iterator[tuple[Array, Array]]:
        """Yield losses and confidences of a batch, as vectors over a bounded number of samples at a time.

        `preds` are logits or probabilities (N, C, ...) or, with a `confidence` and a 0/1 loss, class numbers (N, ...).
        `target` holds class numbers (N, ...). `confidence` (N, ...), higher = surer, replaces the score, which would
        compute rank keys. 0/1 losses are uint8. Ignored samples are dropped, and results have no gradient. Raises
        ShapeError or DtypeError if arguments do not fit together.
        """
        self._check_batch(preds, target, confidence)  # raises
        has_class_axis = preds.is_floating_point()
        if has_class_axis:
            rows = preds.detach().movedim(1, -1).flatten(0, -2)  # (samples, classes)
        else:
            rows = preds.reshape(-1)
        flat_target = target.reshape(-1)
        flat_confidence = None if confidence is None else confidence.detach().reshape(-1)
        numbers_per_sample = rows.shape[1] if has_class_axis else 1
        chunk_size = max(1, _LOGITS_PER_CHUNK // numbers_per_sample)
        for start in range(0, flat_target.shape[0], chunk_size):
            chunk = slice(start, start + chunk_size)
            chunk_confidence = None if flat_confidence is None else flat_confidence[chunk]
            yield self._read_chunk(rows[chunk], flat_target[chunk], chunk_confidence)

    def _read_chunk(self, preds: Array, target: Array, confidence: Array | None) -> tuple[Array, Array]:
        """Return losses (uint8 for 0/1 losses) and confidences of some samples, without the ignored ones.

        `preds` are class scores (samples, classes), or class numbers (samples,), which come with a confidence; `target`
        and `confidence` are vectors. Confidences that the score computes are rank keys: they order samples as the score
        does, but do not round to its largest value. Raises InputError for a confidence on the CPU that is not finite;
        on a GPU that is not checked.
        """
        if self.ignore_index is not None:
            is_counted = target != self.ignore_index
            preds = preds[is_counted]
            target = target[is_counted]
            confidence = None if confidence is None else confidence[is_counted]
        if target.shape[0] == 0:
            loss_dtype = torch.uint8 if self.is_zero_one else torch.float64
            return target.new_zeros(0, dtype=loss_dtype), target.new_zeros(0, dtype=torch.float64)
        if confidence is not None and confidence.device.type == "cpu" and not confidence.isfinite().all():
            raise InputError(f"{self.name}: `confidence` must be finite, got NaN or an infinity.")
        if not preds.is_floating_point():  # class numbers, for a 0/1 loss
            # confidences as float32 or float64, without a change of their order
            return (preds != target).to(torch.uint8), _as_stored_dtype(confidence)
        try:
            loss = self.loss(labels=target, **{self.input_kind: preds})
            key = (
                self.score(**{self.input_kind: preds}) if confidence is None else _as_stored_dtype(confidence)
            )
        except AbstainError as error:
            raise type(error)(self._in_words_of_metric(str(error))) from None
        return (loss.to(torch.uint8) if loss.dtype is torch.bool else loss.detach()), key

    def _in_words_of_metric(self, message: str) -> str:
        """Return the message of a loss or a score with the names that users of the metric know.

        It begins with the function and a colon, and calls the arguments `logits` or `probs`, and `labels`; a metric has
        `preds` and `target`, and `input` says what `preds` are.
        """
        _, _, text = message.partition(": ")
        new_words = {
            "as the first argument instead of `probs=`": f'to {self.name}(input="logits"), the default',
            "as `probs=`": f'to {self.name}(input="probs")',
            "`logits`": "`preds`",
            "`probs`": "`preds`",
            "`labels`": "`target`",
        }
        for old, new in new_words.items():
            text = text.replace(old, new)
        return f"{self.name}: {text}"

    def _check_batch(self, preds: Array, target: Array, confidence: Array | None) -> None:
        """Raise ShapeError or DtypeError unless shapes and dtypes fit together, InputError for labels of -100.

        Allowed are floating-point `preds` (N, C, ...) with `target` (N, ...), and whole numbers of the shape of
        `target`, if there is a `confidence` and the loss is 0/1. A `confidence` has the shape of `target`. Labels are
        looked at only on the CPU, since reading them would make a GPU wait, and only without an `ignore_index`.
        """
        for argument, value in (("preds", preds), ("target", target), ("confidence", confidence)):
            if not isinstance(value, torch.Tensor) and not (value is None and argument == "confidence"):
                raise DtypeError(
                    f"{self.name}: `{argument}` must be a torch tensor, got {type(value).__name__}. Use "
                    f"`torch.as_tensor({argument})`."
                )
        if preds.is_floating_point():
            expected_shape = preds.shape[:1] + preds.shape[2:]
            if preds.ndim < 2 or target.shape != expected_shape:
                remedy = "Classes are axis 1."
                if target.shape == preds.shape:
                    remedy = "For one-hot labels or class probabilities pass `target.argmax(1)`."
                raise ShapeError(
                    f"{self.name}: `preds` must have shape (N, C, ...) and `target` (N, ...), got "
                    f"{tuple(preds.shape)} and {tuple(target.shape)}. {remedy}"
                )
        elif confidence is None or not self.is_zero_one:
            raise DtypeError(
                f"{self.name}: `preds` of class numbers ({preds.dtype}) carry no confidence: pass `confidence=` "
                f'with loss="zero_one", or pass {self.input_kind} of shape (N, C, ...).'
            )
        elif preds.shape != target.shape:
            raise ShapeError(
                f"{self.name}: `preds` and `target` must have one shape, got {tuple(preds.shape)} and "
                f"{tuple(target.shape)}."
            )
        if (
            self.ignore_index is None
            and target.device.type == "cpu"
            and bool((target == _USUAL_IGNORE).any())
        ):
            raise InputError(
                f"{self.name}: `target` holds {_USUAL_IGNORE}, the label that losses leave out. Pass "
                f"ignore_index={_USUAL_IGNORE} to leave it out here, too."
            )
        if confidence is not None and confidence.shape != target.shape:
            raise ShapeError(
                f"{self.name}: `confidence` must have the shape of `target`, one number per sample (higher = "
                f"surer), got {tuple(confidence.shape)} and {tuple(target.shape)}."
            )


def _as_stored_dtype(confidence: Array) -> Array:
    """Convert half precision to float32 and whole numbers to float64; neither changes the order of confidences."""
    if confidence.dtype in (torch.float32, torch.float64):
        return confidence
    return confidence.float() if confidence.is_floating_point() else confidence.double()


@functools.lru_cache(maxsize=16)
def bin_map(thresholds: int, domain: str) -> BinMap:
    """Return the map from confidences to bins; metrics of the same size and domain share one."""
    return BinMap(thresholds, domain)


class SelectiveMetric(TorchMetric):  # type: ignore[misc, valid-type]
    """Any metric of this package, or your own, as a torchmetrics metric.

    `update(preds, target)` uses the argument names of torchmetrics, by which a `MetricCollection` passes them on.

    Parameters
    ----------
    metric : str, Metric or function
        A name such as "aupr_error" or "risk_at_coverage@0.9", a function such as `abstain.aurc`, or a `Metric` object.
    loss : str or callable
        Per-sample loss: "zero_one" (default), "cross_entropy", "brier", or a function of (preds, target) rows.
    score : str
        The confidence computed from `preds`; see `abstain.scores`. Not used with `update(..., confidence=...)`.
    input : {"logits", "probs"}
        What `preds` are.
    thresholds : int, optional
        None: every sample is kept and the value is exact. A number from 100 on: that many bins, constant memory, and
        `compute_bounds()` certifies the value for losses with a largest value (0/1, Brier). Bins are available for the
        metrics that have a class here.
    ignore_index : int, optional
        Samples with this target are left out.
    **kwargs
        Of `torchmetrics.Metric`.

    Raises
    ------
    InputError
        If the metric or an option is unknown, if the metric needs 0/1 losses and `loss` is another, or if bins cannot
        certify the metric.

    Examples
    --------
    >>> import torch
    >>> metric = SelectiveMetric("aupr_error")
    >>> metric.update(torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.5, 0.0]]), torch.tensor([0, 1, 1]))
    >>> metric.compute()  # the error has the lowest confidence
    tensor(1., dtype=torch.float64)
    """

    is_differentiable = False
    full_state_update = False
    plot_lower_bound: float | None = None
    plot_upper_bound: float | None = None

    def __init__(
        self,
        metric: str | Metric | Callable[..., Any],
        *,
        loss: Any = "zero_one",
        score: Any = "max_softmax",
        input: str = "logits",  # noqa: A002 - the word users know
        thresholds: int | None = None,
        ignore_index: int | None = None,
        **kwargs: Any,
    ) -> None:
        """Check the options, and register the state with torchmetrics: lists of samples, or bins.

        `loss` and `score` are names, functions of the user's own, or a `Loss` and a `Score`; `input`, "logits" or
        "probs", says what `preds` will be. Samples whose target is `ignore_index` are left out (None: none are).
        `thresholds` is the number of bins, None without bins. `dist_reduce_fx` says how torchmetrics joins the states
        of several processes.
        """
        super().__init__(**kwargs)
        name = type(self).__name__
        self.metric = by_name(metric, name)  # raises InputError for an unknown name or option
        self.reader = BatchReader(name, loss=loss, score=score, input_kind=input, ignore_index=ignore_index)
        self.thresholds = thresholds
        self._check_loss()  # raises InputError if the loss does not suit the metric
        if thresholds is None:
            self.add_state("confidence", default=[], dist_reduce_fx="cat")
            self.add_state("loss", default=[], dist_reduce_fx="cat")
            return
        if int(thresholds) != thresholds or thresholds < 100:
            raise InputError(
                f"{name}: `thresholds` must be None (exact) or a whole number of bins, at least 100, "
                f"got {thresholds!r}. A few thousand give three digits."
            )
        _check_bins_certify(name, self.metric)  # raises InputError for a metric that bins cannot bound
        # of the familiar number by which samples are binned: [0, 1], or all numbers
        self.domain = "unit" if self.reader.score.name in _UNIT_SCORES else "real"
        empty = bin_state.empty_state(bin_map(thresholds, self.domain).size)
        self.add_state("bin_count", default=empty.count, dist_reduce_fx="sum")
        self.add_state("bin_loss_sum", default=empty.loss_sum, dist_reduce_fx="sum")
        self.add_state("bin_low", default=empty.low, dist_reduce_fx="min")
        self.add_state("bin_high", default=empty.high, dist_reduce_fx="max")

    def _check_loss(self) -> None:
        """Raise InputError if the loss does not suit the metric, or a risk is larger than the largest loss."""
        name = type(self).__name__
        if self.metric.needs.zero_one and not self.reader.is_zero_one:
            raise InputError(
                f'{name}: `loss` must be 0/1, got "{self.reader.loss.name}". Use loss="zero_one".'
            )
        largest_loss = self.reader.loss.upper
        if self.metric.needs.risk_within_losses and largest_loss is not None:
            check_risk(name, self.metric.option_values["risk"], high=largest_loss)

    @property
    def higher_is_better(self) -> bool:
        """The direction of the metric."""
        return not self.metric.lower_is_better

    def update(self, preds: Array, target: Array, confidence: Array | None = None) -> None:
        """Add a batch.

        `preds` (N, C, ...) are logits or probabilities, as `input` says, or class numbers (N, ...) with `confidence=`;
        `target` is (N, ...). `confidence` (higher = surer), of the shape of `target`, is used instead of the score.

        `reader` turns a batch into losses and rank keys, in one or more chunks. With `thresholds` (a number of bins)
        samples are counted by the bin of their plain score, whose `domain` is "unit" for [0, 1] and "real" otherwise;
        without it they are kept. A rank key orders samples as its score does, but does not round to the score's largest
        value.
        """
        for loss, key in self.reader.read(preds, target, confidence):
            if self.thresholds is None:
                self.loss.append(loss)
                self.confidence.append(key)
            else:
                binned_value = None  # bins are spaced by the key itself, which is the user's confidence
                if confidence is None:
                    # bins are spaced by the familiar number, such as a probability, not by the score's rank key
                    binned_value = self.reader.score.to_display(xp, key)
                binmap = bin_map(self.thresholds, self.domain)
                state = self._bin_state()  # this metric's own tensors, which `add` changes in place
                bin_state.add(state, binmap, loss, key, binned_value)

    def compute(self) -> Array:
        """Return the metric of all samples so far (in all processes).

        A metric that needs right and wrong samples is NaN, with a warning, while there is only one kind.
        """
        if self.thresholds is None:
            return self._compute_exact(*self._stored_samples())
        return self._compute_bracket(self._bins()).estimate

    def compute_bounds(self) -> Bracket:
        """Return the estimate with certified lower and upper bounds; without bins all three are equal."""
        if self.thresholds is None:
            value = self.compute()
            return Bracket(estimate=value, low=value, high=value)
        return self._while_synced(lambda: self._compute_bracket(self._bins()))

    def compute_with_interval(self, level: float = 0.95, **options: Any) -> Interval:
        """Return the metric with a confidence interval; see `abstain.inference.interval` for the options."""
        return interval(self.metric, *self.samples(), level=level, **options)

    def samples(self) -> tuple[Array, Array]:
        """Return losses and confidences of all samples so far (in all processes), in the order they came.

        Raises InfeasibleError if the metric keeps bins.
        """
        if self.thresholds is not None:
            raise InfeasibleError(
                f"{type(self).__name__}: an interval needs the samples, which bins do not keep. "
                f"Use thresholds=None, or `compute_bounds()` for certified bounds."
            )
        return self._while_synced(self._stored_samples)

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Plot a value, or a list of values over time, as all torchmetrics do; by default the current value."""
        return self._plot(val, ax)

    def merge_state(self, incoming_state: Any) -> None:
        """Add the samples of another metric of this class, such as that of another shard of the data.

        `incoming_state` is that metric, or its `metric_state`. Raises InputError if it has another loss, score, input
        or number of bins. Options that only `compute` reads, such as the estimator, may differ.
        """
        name = type(self).__name__
        if isinstance(incoming_state, SelectiveMetric):
            # the options that decide what is stored of a sample: loss, score, input, bins and ignored label
            other_settings = incoming_state._sample_settings()
            for option, value in self._sample_settings().items():
                if other_settings[option] != value:
                    raise InputError(
                        f"{name}: metrics with {option}={value!r} and {option}={other_settings[option]!r} cannot be "
                        f"merged. Make both with the same options."
                    )
        elif isinstance(incoming_state, dict) and not self._has_same_bins(incoming_state):
            raise InputError(
                f"{name}: a state of other `thresholds` cannot be merged; here they are {self.thresholds}. Make both "
                f"metrics with the same options."
            )
        super().merge_state(incoming_state)

    def _has_same_bins(self, metric_state: dict[str, Any]) -> bool:
        """Return True if a state has as many bins as this metric, or lists of samples if it keeps samples."""
        if self.thresholds is None:
            return "confidence" in metric_state
        return "bin_count" in metric_state and metric_state["bin_count"].shape == self.bin_count.shape

    def _sample_settings(self) -> dict[str, Any]:
        """Return the options that decide what is stored of a sample, by their names in `__init__`."""
        return {
            "loss": self.reader.loss.name,
            "score": self.reader.score.name,
            "input": self.reader.input_kind,
            "thresholds": self.thresholds,
            "ignore_index": self.reader.ignore_index,
        }

    def set_dtype(self, dst_type: Any) -> SelectiveMetric:
        """Do nothing: in half precision, confidences would lose their order and counts would lose whole numbers."""
        return self

    def _compute_exact(self, loss: Array, confidence: Array) -> Array:
        """Compute the metric of one loss and one confidence per sample, as a scalar tensor."""
        if self.metric.needs.both_kinds and (bool(loss.all()) or not bool(loss.any())):
            return self._undefined_value(confidence)
        value = self.metric(loss, confidence)
        if isinstance(value, torch.Tensor):
            return value
        return torch.as_tensor(value, dtype=torch.float64, device=confidence.device)

    def _compute_bracket(self, bins: Bins) -> Bracket:
        """Compute the metric of samples that were counted in bins of the confidence, with certified bounds.

        The bounds are None for losses without a largest value. Estimate and bounds are NaN, with a warning, for a
        metric that needs right and wrong samples if one kind is missing. Raises InfeasibleError for a metric that needs
        the samples in the order of their losses, unless these are 0/1.
        """
        # the number of samples, and the sum of their losses
        total_mass, total_loss = confidence_bins.total(bins)
        if self.metric.needs.both_kinds and not 0 < float(total_loss) < float(total_mass):
            undefined = self._undefined_value(total_mass)  # NaN, with a warning
            return Bracket(estimate=undefined, low=undefined, high=undefined)
        if self.metric.needs.order_by_loss and not self.reader.is_zero_one:
            raise InfeasibleError(
                f"{type(self).__name__}: bins give the best ordering of 0/1 losses only. Use thresholds=None."
            )
        compute = _BRACKET_FUNCTIONS[self.metric.name]  # `__init__` refused metrics that are not among them
        largest_loss = self.reader.loss.upper  # None where losses have no bound
        return compute(bins, self.metric.option_values, largest_loss)

    def _undefined_value(self, like: Array) -> Array:
        """Warn that only right or only wrong samples have been seen, and return NaN on the device of `like`."""
        warnings.warn(
            f"{type(self).__name__}: only one kind of sample (right or wrong) has been seen; nan. `AURC` is defined "
            f"for either.",
            AbstainWarning,
            stacklevel=3,
        )
        return like.new_full((), float("nan")).double()

    def _while_synced(self, compute: Callable[[], Any]) -> Any:
        """Call `compute` while the state holds the samples of all processes."""
        with self.sync_context(
            dist_sync_fn=self.dist_sync_fn, should_sync=self._to_sync, should_unsync=self._should_unsync
        ):
            return compute()

    def _stored_samples(self) -> tuple[Array, Array]:
        """Return stored losses (as booleans if they are 0/1) and confidences; raise InputError if there are none."""
        loss = _concatenate(self.loss)
        confidence = _concatenate(self.confidence)
        self._check_not_empty(has_samples=len(loss) > 0)
        return (loss.bool() if loss.dtype is torch.uint8 else loss), confidence

    def _bin_state(self) -> bin_state.BinState:
        """Return the tensors of this metric's state, not copies: changing them in place changes the metric."""
        return bin_state.BinState(
            count=self.bin_count, loss_sum=self.bin_loss_sum, low=self.bin_low, high=self.bin_high
        )

    def _bins(self) -> Bins:
        """Return the bins; raise InputError if there are no samples, or if a confidence was NaN."""
        state = self._bin_state()
        self._check_not_empty(has_samples=bool(state.count.any()))
        # checked here and not in `update`, which would have to wait for the GPU
        has_nan = bool((state.low.isnan() | state.high.isnan()).any())
        if has_nan:
            raise InputError(f"{type(self).__name__}: `confidence` must be finite, got NaN.")
        return bin_state.to_bins(state)

    def _check_not_empty(self, *, has_samples: bool) -> None:
        if not has_samples:
            raise InputError(
                f"{type(self).__name__}: needs at least one sample, got none. Call `update` first."
            )

    def _sync_dist(self, dist_sync_fn: Any, process_group: Any = None) -> None:
        """Exchange the states of all processes, after they have agreed on the dtype of stored samples.

        torchmetrics calls this before it computes. Each process joins its stored samples into one tensor, which it
        converts to the widest dtype among all processes. A process without samples counts as the narrowest dtype.
        `dist_sync_fn(tensor, group=...)` returns the tensors of all processes.
        """
        if self.thresholds is None:
            for name in ("loss", "confidence"):
                parts = getattr(self, name)  # one tensor per batch
                joined = torch.cat(parts) if parts else torch.zeros(0, device=self.device)
                # dtypes are exchanged as their place in _STORED_DTYPES, which has the wider ones later
                dtype_index = torch.tensor(
                    _STORED_DTYPES.index(joined.dtype) if parts else 0, device=self.device
                )
                all_indices = dist_sync_fn(dtype_index, group=process_group or self.process_group)
                widest_dtype = _STORED_DTYPES[int(torch.stack(list(all_indices)).max())]
                setattr(self, name, [joined.to(widest_dtype)])  # a list again, as torchmetrics expects
        super()._sync_dist(dist_sync_fn, process_group)


def _concatenate(state: Any) -> Array:
    """Join the parts of a list state; after a sync it is one tensor already."""
    return torch.cat(state) if isinstance(state, list) and state else state


# Metrics of binned samples ------------------------------------------------------------------------------------


def _bracket_of_aurc(bins: Bins, options: Options, largest_loss: float | None) -> Bracket:
    return confidence_bins.aurc(bins, largest_loss)


def _bracket_of_augrc(bins: Bins, options: Options, largest_loss: float | None) -> Bracket:
    return confidence_bins.augrc(bins, largest_loss)


def _bracket_of_auroc(bins: Bins, options: Options, largest_loss: float | None) -> Bracket:
    return confidence_bins.auroc(bins)


def _bracket_of_risk_at_coverage(bins: Bins, options: Options, largest_loss: float | None) -> Bracket:
    return confidence_bins.risk_at_coverage(bins, options["coverage"], largest_loss)


def _bracket_of_coverage_at_risk(bins: Bins, options: Options, largest_loss: float | None) -> Bracket:
    return confidence_bins.coverage_at_risk(bins, options["risk"], largest_loss)


def _bracket_of_e_aurc(bins: Bins, options: Options, largest_loss: float | None) -> Bracket:
    """AURC minus that of the best ordering; 0/1 losses only."""
    best_aurc, _ = _best_aurc_and_risk(bins)
    return _map_bracket(confidence_bins.aurc(bins, 1.0), lambda aurc: aurc - best_aurc)


def _bracket_of_naurc(bins: Bins, options: Options, largest_loss: float | None) -> Bracket:
    """Excess AURC as a share of that of a random ordering; 0/1 losses only.

    It is 0 if all samples are right or all are wrong, since then all orderings are equally good.
    """
    best_aurc, risk = _best_aurc_and_risk(bins)
    excess = _bracket_of_e_aurc(bins, options, largest_loss)
    if not exceeds(risk, best_aurc):
        return _map_bracket(excess, lambda value: 0 * value)
    return _map_bracket(excess, lambda value: value / (risk - best_aurc))


def _best_aurc_and_risk(bins: Bins) -> tuple[float, float]:
    """Return the AURC of the best ordering, which for 0/1 losses depends on the counts alone, and the risk."""
    total_mass, error_count = (float(total) for total in confidence_bins.total(bins))
    best_aurc = float(area(zero_one_oracle_rows(error_count, total_mass), "harmonic", "expected"))
    return best_aurc, error_count / total_mass


def _map_bracket(bracket: Bracket, increasing: Callable[[Array], Array]) -> Bracket:
    """Apply an increasing function to an estimate and its bounds, which may be None."""
    return Bracket(
        estimate=increasing(bracket.estimate),
        low=None if bracket.low is None else increasing(bracket.low),
        high=None if bracket.high is None else increasing(bracket.high),
    )


# the metrics that bins can certify
_BRACKET_FUNCTIONS: dict[str, Callable[[Bins, Options, float | None], Bracket]] = {
    "aurc": _bracket_of_aurc,
    "augrc": _bracket_of_augrc,
    "e_aurc": _bracket_of_e_aurc,
    "naurc": _bracket_of_naurc,
    "auroc": _bracket_of_auroc,
    "risk_at_coverage": _bracket_of_risk_at_coverage,
    "coverage_at_risk": _bracket_of_coverage_at_risk,
}


def _check_bins_certify(name: str, metric: Metric) -> None:
    """Raise InputError unless bins can bound the metric: one named in `_BRACKET_FUNCTIONS`, with default options.

    Options that a metric cannot do without (a coverage, a risk) may have any value. `name` is the class in the message.
    """
    # compared, without its options, with the package's metric of that name, since a user's own metric may have the name
    is_built_in = replace(metric, settings=()) == METRICS.get(metric.name)
    if metric.name not in _BRACKET_FUNCTIONS or not is_built_in:
        raise InputError(
            f"{name}: bins certify {', '.join(_BRACKET_FUNCTIONS)} only, got {metric.key}. Use thresholds=None."
        )
    for option in metric.options:
        value = metric.option_values[option.name]
        if not option.is_required and value != option.default:
            raise InputError(
                f"{name}: bins certify {option.name}={option.default!r} only, got {value!r}. Use thresholds=None."
            )


# Classes with a fixed metric ----------------------------------------------------------------------------------


class _FixedMetric(SelectiveMetric):
    """Base of the classes that are named after their metric.

    A subclass whose metric has options sets them as attributes before it calls `super().__init__`.
    """

    metric_name: ClassVar[str]
    higher_is_better: ClassVar[bool]
    plot_lower_bound = 0.0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Take the direction of the class from the metric's definition."""
        super().__init_subclass__(**kwargs)
        cls.higher_is_better = not METRICS[cls.metric_name].lower_is_better

    def __init__(self, **kwargs: Any) -> None:
        """Make the metric named `metric_name`; its options are read from attributes that the subclass has set.

        Options with their default are left out, so that the metric equals the plain one. `kwargs` go to
        `SelectiveMetric`. Raises InputError if an option is out of range.
        """
        definition = METRICS[self.metric_name]
        changed_options = {}
        for option in definition.options:
            value = vars(self).get(option.name, option.default)
            if option.is_required or value != option.default:
                changed_options[option.name] = value
        # raises InputError for an option out of range
        metric = definition.with_checked_options(type(self).__name__, changed_options)
        super().__init__(metric, **kwargs)


class AURC(_FixedMetric):
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
    >>> metric.compute()  # the least confident of three is wrong: risks 0, 0, 1/3
    tensor(0.1111, dtype=torch.float64)
    """

    metric_name = "aurc"

    def __init__(
        self, *, estimator: str = ESTIMATOR.default, ties: str = TIE_RULE.default, **kwargs: Any
    ) -> None:
        self.estimator = estimator
        self.ties = ties
        super().__init__(**kwargs)


class EAURC(_FixedMetric):
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
    >>> metric.compute()  # the error has the lowest confidence, and no order is better
    tensor(0., dtype=torch.float64)
    """

    metric_name = "e_aurc"

    def __init__(
        self, *, estimator: str = ESTIMATOR.default, ties: str = TIE_RULE.default, **kwargs: Any
    ) -> None:
        self.estimator = estimator
        self.ties = ties
        super().__init__(**kwargs)


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

    metric_name = "naurc"


class AUGRC(_FixedMetric):
    r"""Area under the generalised risk-coverage curve; lower is better. See `abstain.augrc`.

    .. math:: \frac{1}{n}\sum_i \frac{r_i}{n}\,\ell_i

    with r the rank, 1 for the least confident; equal confidences share the largest of their ranks.

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

    metric_name = "augrc"


class RiskAtCoverage(_FixedMetric):
    """Selective risk at a coverage; lower is better. See `abstain.risk_at_coverage`.

    The mean loss of the most confident samples, at least the share `coverage` of all; equal confidences are accepted
    together.

    Parameters
    ----------
    coverage : float
        The smallest share of samples to accept.
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

    metric_name = "risk_at_coverage"

    def __init__(self, *, coverage: float, **kwargs: Any) -> None:
        self.coverage = coverage
        super().__init__(**kwargs)


class CoverageAtRisk(_FixedMetric):
    """Largest coverage within a risk; higher is better. See `abstain.coverage_at_risk`.

    The largest share of most confident samples whose mean loss is at most `risk`; equal confidences are accepted
    together.

    Parameters
    ----------
    risk : float
        The largest selective risk allowed, on the samples seen: no promise about new data.
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

    metric_name = "coverage_at_risk"
    plot_upper_bound = 1.0

    def __init__(self, *, risk: float, **kwargs: Any) -> None:
        self.risk = risk
        super().__init__(**kwargs)


class AUROC(_FixedMetric):
    """Chance that a right sample is more confident than a wrong one; higher is better. See `abstain.auroc`.

    Equal confidences count half. While only right or only wrong samples have been seen it is undefined: NaN, with a
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

    metric_name = "auroc"
    plot_upper_bound = 1.0
