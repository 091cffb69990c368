"""Numbers that describe a row of class scores and may tell right from wrong predictions."""

from __future__ import annotations

from typing import Any

import numpy as np

from abstain._arrays import Array, Namespace
from abstain._check import ClassScores

_TOP_CLASSES = 10  # log-probabilities of so many most likely classes are features
_NORM_ORDERS = (3, 5, 8)  # of the norms of centred logits; larger orders are close to the maximum
# Log-probabilities below this are raised to it: e^-60 is far below what any float32 model can mean, and a
# probability of exactly 0 gets a finite logarithm.
LOWEST_LOG_PROBABILITY = -60.0


def logit_feature_names(kind: str, class_count: int) -> tuple[str, ...]:
    """Name the columns of `compute_logit_features`, in order, for `kind` "logits" or "probs" and so many classes.

    The features of two classes are all functions of the one margin, so that is the only column then. Probabilities
    have no overall size, so the features that measure it are left out. The order must stay that of `features_of_rows`,
    and stored models depend on it.
    """
    if class_count == 2:
        return ("log-odds of the prediction",)
    top_count = min(_TOP_CLASSES, class_count)  # at most 10
    names = ["log-odds of the prediction", "margin", "negative entropy"]
    # 1 is the most likely class
    names += [f"log-probability of class {place} by rank" for place in range(1, top_count + 1)]
    if kind == "logits":
        names += ["centred maximum", "centred energy", "spread"]
        names += [f"centred maximum over {order}-norm" for order in _NORM_ORDERS]  # 3, 5 and 8
    return tuple(names)


def compute_logit_features(classes: ClassScores) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return features of each row of class scores, shape (n, features), and its two leading classes, shape (n,) each.

    The first of these is the predicted class, the second the runner-up. `classes` holds checked logits or probabilities
    of shape (n, K) with K >= 2, on the host. Equal scores: the first column leads. Columns are those that
    `logit_feature_names` lists. All are finite, and none changes if a constant is added to a row of logits.
    """
    is_logits = classes.kind == "logits"

    def compute(xp: Namespace, rows: Array) -> Array:
        """Features of each row, and the numbers of its largest and second largest entry in the last two columns.

        `rows` are logits, or probabilities unless `is_logits`. `xp`, their array library, is always numpy here.
        """
        predicted = np.argmax(rows, axis=1)
        other_scores = np.where(np.arange(rows.shape[1]) == predicted[:, None], -np.inf, rows)
        runner_up = np.argmax(other_scores, axis=1)
        # a probability of 0 gets a finite logarithm, -60
        logits = rows if is_logits else np.log(np.maximum(rows, np.exp(LOWEST_LOG_PROBABILITY)))
        features = features_of_rows(np, logits, is_logits)
        return np.column_stack([features, predicted, runner_up])

    columns = np.asarray(classes.map_rows(compute))  # of all rows, computed a chunk at a time
    return columns[:, :-2], columns[:, -2].astype(np.int64), columns[:, -1].astype(np.int64)


def features_of_rows(xp: Any, logits: Array, has_size: bool) -> Array:
    """Features of rows of logits, shape (n, K), in the array library `xp` (numpy or torch); shape (n, features).

    `has_size` is True for logits; their overall size then has features of its own, the last ones. It is False for
    logarithms of probabilities, whose overall size means nothing. Columns are those that `logit_feature_names` lists,
    in its order. K is at least 2. Logits are finite.
    """
    class_count = logits.shape[1]
    top_count = min(_TOP_CLASSES, class_count)  # at most 10 classes
    largest = xp.amax(logits, 1)[:, None]
    # distances below the largest logit, smallest (that of the prediction, 0) first
    distance = xp.clip(largest - logits, None, -LOWEST_LOG_PROBABILITY)  # at most 60
    nearest = _smallest_in_order(xp, distance, top_count)  # shape (n, top_count)
    odds = xp.exp(-distance)  # of each class relative to the predicted one
    total = xp.sum(odds, 1)
    log_total = xp.log(total)  # log-sum-exp of the logits less the largest
    # The odds of the other classes together, relative to the second: e^(margin - distance), at most 1 for each. That of
    # the prediction is e^margin, beside which those of the others would lose their digits: it is lowered to 1, which is
    # subtracted from the sum.
    margin = nearest[:, 1]  # distance of the second largest logit
    relative_odds = xp.exp(xp.clip(margin[:, None] - distance, None, 0.0))
    odds_of_others = xp.sum(relative_odds, 1) - 1.0
    log_odds = margin - xp.log(odds_of_others)
    if class_count == 2:
        return log_odds[:, None]
    negative_entropy = -(log_total + xp.sum(distance * odds, 1) / total)
    log_probabilities = -nearest - log_total[:, None]
    columns = [log_odds, margin, negative_entropy]
    columns += [log_probabilities[:, place] for place in range(top_count)]
    if has_size:
        mean_distance = xp.sum(distance, 1) / class_count  # the centred maximum
        centred = mean_distance[:, None] - distance
        squares = centred * centred
        cubes = squares * xp.abs(centred)
        power_sums = [  # of the powers 3, 5 and 8, which are _NORM_ORDERS
            xp.sum(cubes, 1),
            xp.sum(cubes * squares, 1),
            xp.sum(cubes * cubes * squares, 1),
        ]
        # centred maximum, centred energy (log-sum-exp less the mean logit) and spread (standard deviation)
        columns += [mean_distance, mean_distance + log_total, xp.sqrt(xp.sum(squares, 1) / class_count)]
        for order, power_sum in zip(_NORM_ORDERS, power_sums, strict=True):
            norm = power_sum ** (1 / order)
            # a row of equal logits has the norm 0, and gets 0
            columns.append(mean_distance / xp.where(norm > 0, norm, xp.ones_like(norm)))
    return xp.stack(columns, 1)


def _smallest_in_order(xp: Any, distance: Array, count: int) -> Array:
    """Return the `count` smallest entries of each row in increasing order, shape (n, count)."""
    if xp is not np:
        return xp.topk(distance, count, dim=1, largest=False, sorted=True).values
    if distance.shape[1] > count:
        distance = np.partition(distance, count - 1, axis=1)[:, :count]
    return np.sort(distance, axis=1)
