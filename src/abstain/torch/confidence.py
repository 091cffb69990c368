"""How sure a row of logits is: a number that orders samples without saturating, whatever the precision."""

from __future__ import annotations

from collections.abc import Callable

import array_api_compat.torch as xp

from abstain import scores
from abstain._arrays import Array
from abstain._check import check_choice
from abstain.core import simplex
from abstain.core.pairwise import finite_key
from abstain.errors import ShapeError
from abstain.torch.ranking import wide_dtype

Score = str | Callable[[Array], Array]
# the softmax scores without the checks of `abstain.scores`, which look at values and would make a GPU wait
_LOG_DISTANCE = {
    "max_softmax": simplex.log_complement,
    "softmax_margin": simplex.log_margin_complement,
    "negative_entropy": simplex.log_entropy,
    "negative_gini": simplex.log_gini,
}


def rank_key(logits: Array, score: Score, differentiable: bool = False) -> Array:
    """One number per sample, higher = surer; logits (N, C, ...) give a vector over samples and positions."""
    if score == "max_softmax" and not differentiable:
        return _minus_odds_against(logits).reshape(-1)
    rows = logits.movedim(1, -1).reshape(-1, logits.shape[1])
    return _of_rows(rows, score)


def _minus_odds_against(logits: Array) -> Array:
    """-(1 - p_max)/p_max in wide floats: the order of max softmax in seven kernels.

    A sum over the *other* classes, so it does not round to 0 where p_max rounds to 1. Exponentials vanish only
    beyond a logit gap of 745, where samples tie on top.
    """
    z = logits.to(wide_dtype(logits))
    top, winner = z.max(dim=1, keepdim=True)
    return -(z - top).exp_().scatter_(1, winner, 0.0).sum(dim=1)


def _of_rows(rows: Array, score: Score) -> Array:
    if callable(score):
        key = score(rows)
        if key.shape != rows.shape[:1]:
            raise ShapeError(
                f"aurc_loss: `score` must return one confidence per row of logits, shape {tuple(rows.shape[:1])}, "
                f"got {tuple(key.shape)}. It is given (samples, classes)."
            )
        return key
    check_choice("aurc_loss", "score", score, scores.NAMES)
    if score not in _LOG_DISTANCE:
        return scores.by_name(score)(rows)
    distance = _LOG_DISTANCE[score]
    return finite_key(xp, rows.to(wide_dtype(rows)), lambda z: -distance(simplex.odds_of_logits(xp, z)))
