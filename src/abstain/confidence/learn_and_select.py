"""`learn_and_select`: learn a confidence on one part of the labelled rows, certify a threshold on the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from abstain import _tables
from abstain._arrays import ArrayLike, to_host
from abstain._check import check_fraction, refuse_other_row_order
from abstain.confidence.crossfit import find_repeated_rows
from abstain.confidence.input_table import Columns, read_inputs, read_losses
from abstain.confidence.learn import learn_confidence
from abstain.confidence.learned import Keep, LearnedConfidence
from abstain.errors import InputError
from abstain.metrics._sample import group_codes
from abstain.thresholds.calibration import Method
from abstain.thresholds.rules import Threshold
from abstain.thresholds.select import select_threshold

_NAME = "learn_and_select"
# More rows to fit on improve the ranking little (0.5% of AURC from 2,000 to 5,000), more to certify on still help.
_ENOUGH_TO_FIT = 2000


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class LearnedRule(_tables.Notebook):
    """A learned confidence and the threshold that was certified for it, on different rows.

    Attributes
    ----------
    confidence : LearnedConfidence
        Fitted on `n_fit` rows.
    threshold : Threshold
        Chosen on `n_certify` other rows; its promise is in `guarantee`.
    n_fit, n_certify : int
        Numbers of rows.
    advice : str
        How else the rows could be split.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> a, b = rng.normal(size=(2, 2000))
    >>> right = a + b + rng.logistic(size=2000) > -2
    >>> rule = learn_and_select(right, signals={"a": a, "b": b}, risk=0.1)
    >>> rule.n_fit, rule.n_certify, rule.threshold.feasible
    (1000, 1000, True)
    >>> rule.accepts(signals={"a": [2.0, -2.0], "b": [2.0, -2.0]}).tolist()
    [True, False]
    """

    confidence: LearnedConfidence
    threshold: Threshold
    n_fit: int
    n_certify: int
    advice: str

    def accepts(self, **inputs: Any) -> np.ndarray:
        """Return True for each row to accept; `inputs` are those of the confidence (signals, logits, ...)."""
        return self.threshold.accepts(to_host(self.confidence(**inputs)), score=self.confidence)

    def __repr__(self) -> str:
        split = (
            f"{self.n_fit:,} rows to fit the confidence, {self.n_certify:,} others to certify the threshold"
        )
        return f"LearnedRule: {split}. {self.advice}\n{self.confidence!r}\n{self.threshold!r}"


@refuse_other_row_order
def learn_and_select(
    correct: ArrayLike | None = None,
    /,
    *,
    loss: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    logits: ArrayLike | None = None,
    probs: ArrayLike | None = None,
    signals: Columns | None = None,
    features: Columns | None = None,
    categories: Columns | None = None,
    predicted: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    risk: float | None = None,
    coverage: float | None = None,
    cost: float | None = None,
    delta: float = 0.05,
    method: Method = "ltt",
    bounded: tuple[float, float] = (0, 1),
    fit_share: float | None = None,
    keep: Keep = "lowest",
    folds: int = 5,
    level: float = 0.95,
    rng: np.random.Generator | int = 0,
) -> LearnedRule:
    """Split the labelled rows at random, learn a confidence on one part and choose a threshold for it on the other.

    The threshold's promise holds because it is chosen on rows that the confidence has never seen.

    Parameters
    ----------
    correct, loss, labels, logits, probs, signals, features, categories, predicted
        The labelled rows, as in `learn_confidence`.
    clusters : array, shape (n,), optional
        One label per row: clusters are never divided, neither between the parts nor between folds.
    risk, coverage, cost, delta, method, bounded
        What the threshold has to promise, as in `select_threshold`.
    fit_share : float in (0, 1), optional
        Share of the rows to fit on. By default half, but not more than 2,000 rows: more improve the ranking little,
        while every row that certifies makes the promise easier to prove.
    keep, folds, level
        As in `learn_confidence`.
    rng : Generator or int
        For the split and the folds.

    Returns
    -------
    LearnedRule

    Raises
    ------
    InputError, ShapeError, DtypeError
        As `learn_confidence` and `select_threshold` do, and if there is a single cluster.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> number = rng.normal(size=500)
    >>> rule = learn_and_select(number + rng.logistic(size=500) > -3, signals={"number": number}, risk=0.2)
    >>> rule.n_fit + rule.n_certify
    500
    """
    table = read_inputs(
        _NAME,
        logits=logits,
        probs=probs,
        signals=signals,
        features=features,
        categories=categories,
        predicted=predicted,
    )
    losses = read_losses(_NAME, table, correct=correct, loss=loss, labels=labels, predicted=predicted)
    n = table.row_count
    share = min(0.5, _ENOUGH_TO_FIT / n)
    if fit_share is not None:
        share = check_fraction(_NAME, "fit_share", fit_share, open_high=True)
    if clusters is None:
        block_of_row = find_repeated_rows(table)  # copies of a row stay together
    else:
        block_of_row = group_codes(_NAME, clusters, (n,), "clusters").codes
    generator = np.random.default_rng(rng)
    is_fitted = _split(block_of_row, share, generator)
    inputs: dict[str, Any] = {
        "logits": logits,
        "probs": probs,
        "signals": signals,
        "features": features,
        "categories": categories,
        "predicted": predicted,
    }
    fit_inputs = {name: _take(value, is_fitted) for name, value in inputs.items()}
    certify_inputs = {name: _take(value, ~is_fitted) for name, value in inputs.items()}
    confidence = learn_confidence(
        loss=losses[is_fitted],
        **fit_inputs,
        clusters=None if clusters is None else block_of_row[is_fitted],
        keep=keep,
        folds=folds,
        level=level,
        rng=generator,
    )
    threshold = select_threshold(
        losses[~is_fitted],
        to_host(confidence(**certify_inputs)),
        score=confidence,
        risk=risk,
        coverage=coverage,
        cost=cost,
        delta=delta,
        method=method,
        bounded=bounded,
        clusters=None if clusters is None else block_of_row[~is_fitted],
    )
    n_fit = int(is_fitted.sum())
    return LearnedRule(
        confidence=confidence,
        threshold=threshold,
        n_fit=n_fit,
        n_certify=n - n_fit,
        advice=_advise(
            n_fit,
            n - n_fit,
            feasible=threshold.feasible,
            is_limited=fit_share is None and share < 0.5,
        ),
    )


def _split(block_of_row: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Return a random mask of about this share of the rows, at least one block on either side.

    A block is a cluster, or the copies of one row: its rows stay together. `block_of_row` is the number of each row's
    block, from 0 on without gaps. Raises InputError if all rows are one block. `rng` is the source of all randomness.
    True in the mask is a row to fit on, False one to certify on. `share` lies in (0, 1).
    """
    sizes = np.bincount(block_of_row)  # number of rows of each block
    if len(sizes) < 2:
        raise InputError(f"{_NAME}: needs at least two clusters to split, got {len(sizes)}.")
    shuffled = rng.permutation(len(sizes))
    # blocks in random order, until the share of the rows is reached; the first is always in, the last never
    rows_before = np.cumsum(sizes[shuffled]) - sizes[shuffled]
    is_in = rows_before < share * len(block_of_row)
    is_in[0] = True
    is_in[-1] = False
    is_in_by_block = np.zeros(len(sizes), dtype=bool)
    is_in_by_block[shuffled[is_in]] = True
    return np.asarray(is_in_by_block[block_of_row])


def _take(value: Any, mask: np.ndarray) -> Any:
    """The rows of an input that the mask marks: of an array, of every array of a dict, or None of None."""
    if value is None:
        return None
    if isinstance(value, dict):
        return {name: _take(column, mask) for name, column in value.items()}
    return np.asarray(to_host(value))[mask]


def _advise(n_fit: int, n_certify: int, *, feasible: bool, is_limited: bool) -> str:
    """How else the rows could be split, in one sentence.

    `n_fit` rows were fitted on, and `n_certify` others certified the threshold. `feasible` says whether some threshold
    keeps the promise. `is_limited` says that fewer than half of the rows were fitted on because 2,000
    (`_ENOUGH_TO_FIT`) are enough; it is False if the user chose the share.
    """
    if not feasible:
        return "Nothing was certified: label more rows, or give a smaller `fit_share` to certify on more of them."
    if is_limited:
        return (
            f"About {_ENOUGH_TO_FIT:,} to learn are enough: more improve the ranking little, and every row that "
            f"certifies makes the promise easier to prove. A larger `fit_share` learns from more."
        )
    if n_fit < _ENOUGH_TO_FIT and n_certify > 2 * n_fit:
        return "A larger `fit_share` would improve the ranking."
    return "The split is a compromise: more rows to fit rank better, more to certify prove a larger coverage."
