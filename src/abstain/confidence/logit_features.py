"""Numbers that describe a row of class scores and may tell right from wrong predictions."""

from __future__ import annotations

import numpy as np

from abstain._arrays import Array, Namespace
from abstain._check import Classes

_TOP_CLASSES = 10  # log-probabilities of so many most likely classes are features
_NORM_ORDERS = (3, 5, 8)  # of the norms of centred logits; larger orders are close to the maximum
# Log-probabilities below this are raised to it: e^-60 is far below what any float32 model can mean, and a
# probability of exactly 0 gets a finite logarithm.
_LOWEST_LOG_PROBABILITY = -60.0


def logit_feature_names(kind: str, class_count: int) -> tuple[str, ...]:
    """Name the columns that `compute_logit_features` returns for `kind` "logits" or "probs" and so many classes.

    The features of two classes are all functions of the one margin, so that is the only column then. Probabilities
    have no overall size, so the features that measure it are left out.
    """
    if class_count == 2:
        return ("log-odds of the prediction",)
    top_count = min(_TOP_CLASSES, class_count)
    names = ["log-odds of the prediction", "margin", "negative entropy"]
    names += [f"log-probability of class {place} by rank" for place in range(1, top_count + 1)]
    if kind == "logits":
        names += ["centred maximum", "centred energy", "spread"]
        names += [f"centred maximum over {order}-norm" for order in _NORM_ORDERS]
    return tuple(names)


def compute_logit_features(classes: Classes) -> tuple[np.ndarray, np.ndarray]:
    """Return features of each row of class scores, shape (n, features), and its predicted class, shape (n,).

    `classes` holds checked logits or probabilities of shape (n, K) on the host. Columns are those that
    `logit_feature_names` lists. All are finite, and none changes if a constant is added to a row of logits.
    """
    is_logits = classes.kind == "logits"

    def compute(xp: Namespace, rows: Array) -> Array:
        """Features of each row, and the number of its largest entry in the last column."""
        predicted = np.argmax(rows, axis=1)
        logits = rows if is_logits else np.log(np.maximum(rows, np.exp(_LOWEST_LOG_PROBABILITY)))
        features = _features_of_rows(logits, is_logits)
        return np.column_stack([features, predicted])

    columns = np.asarray(classes.map_rows(compute))
    return columns[:, :-1], columns[:, -1].astype(np.int64)


def _features_of_rows(logits: np.ndarray, has_size: bool) -> np.ndarray:
    """Features of rows of logits, shape (n, K); `has_size` is False for logarithms of probabilities."""
    class_count = logits.shape[1]
    top_count = min(_TOP_CLASSES, class_count)
    largest = logits.max(axis=1, keepdims=True)
    # distances below the largest logit, smallest (that of the prediction, 0) first
    distance = np.minimum(largest - logits, -_LOWEST_LOG_PROBABILITY)
    if class_count > top_count:
        nearest = np.sort(np.partition(distance, top_count - 1, axis=1)[:, :top_count], axis=1)
    else:
        nearest = np.sort(distance, axis=1)
    odds = np.exp(-distance)
    total = odds.sum(axis=1)
    log_total = np.log(total)
    # 1 / odds against the prediction; the terms of the other classes are added without the 1 of the prediction
    runner_up = nearest[:, 1]
    others = np.exp(runner_up[:, None] - distance)
    odds_of_others = np.maximum(others.sum(axis=1) - np.exp(runner_up), 1.0)
    log_odds = runner_up - np.log(odds_of_others)
    if class_count == 2:
        return log_odds[:, None]
    negative_entropy = -(log_total + (distance * odds).sum(axis=1) / total)
    log_probabilities = -nearest - log_total[:, None]
    columns = [log_odds, runner_up, negative_entropy, *log_probabilities.T]
    if has_size:
        mean_distance = distance.mean(axis=1)  # the centred maximum
        centred = mean_distance[:, None] - distance
        squares = centred * centred
        cubes = squares * np.abs(centred)
        power_sums = [cubes.sum(axis=1), (cubes * squares).sum(axis=1), (cubes * cubes * squares).sum(axis=1)]
        columns += [mean_distance, mean_distance + log_total, np.sqrt(squares.mean(axis=1))]
        for order, power_sum in zip(_NORM_ORDERS, power_sums):
            norm = power_sum ** (1 / order)
            columns.append(mean_distance / np.where(norm > 0, norm, 1.0))
    return np.column_stack(columns)
