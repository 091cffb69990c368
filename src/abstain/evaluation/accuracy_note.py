"""A note under comparisons by AURC: how accurate the contestants are, and whether their rankings alone differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from abstain._tables import p_value_text
from abstain.evaluation.results import Comparison
from abstain.metrics.definitions import AUGRC, AURC

# names of metrics by which of two equal rankings the more accurate wins
INCLUDE_ACCURACY = (AURC.name, AUGRC.name)
_MOST_CONTESTANTS_LISTED = 4  # one by one; of the numbers of more, the smallest and the largest are listed
_LARGEST_ROUNDING = 1e-12  # of a mean loss, relative: contestants with the same answers differ by no more


def differ(risks: Sequence[float]) -> bool:
    """Whether mean losses differ by more than rounding. Scores of one model have one mean loss."""
    return max(risks) - min(risks) > _LARGEST_ROUNDING * max(abs(risk) for risk in risks)


def describe_accuracy(
    comparison: Comparison,
    risks: Mapping[str, float],
    *,
    are_error_rates: bool,
    aurocs: Mapping[str, float | None],
    by_ranking_alone: Comparison | None,
    leaves_out_ranked_last: bool = False,
) -> str:
    """Say how accurate the contestants are, and whether one is better at knowing which of its answers are wrong.

    Parameters
    ----------
    comparison : Comparison
        By a metric that includes accuracy.
    risks : mapping
        The mean loss of each contestant by its name.
    are_error_rates : bool
        Whether losses are 0 and 1, so that a mean loss is a share of wrong answers.
    aurocs : mapping
        The AUROC of each contestant by its name; None where it is unknown or undefined. Read only if
        `by_ranking_alone` is None.
    by_ranking_alone : Comparison or None
        The same contestants compared by AUROC; None if they were not compared by it.
    leaves_out_ranked_last : bool
        Whether `aurocs` and `by_ranking_alone` are of the samples that have a confidence of their own, without those
        that a rule ranks last.
    """
    # `comparison.names` are best first; every list below is in this order
    risks_best_first = [risks[name] for name in comparison.names]
    if are_error_rates:
        accuracy = f"{_list_numbers([f'{100 * risk:.1f}' for risk in risks_best_first])}% wrong"
    else:
        accuracy = f"mean loss {_list_numbers([f'{risk:.4g}' for risk in risks_best_first])}"
    note = f"{comparison.label} includes accuracy ({accuracy})."  # `label`: the metric's name, such as "AURC"
    of_which = " of the answers that have a confidence:" if leaves_out_ranked_last else ""
    if by_ranking_alone is not None:
        areas = _list_numbers([f"{by_ranking_alone[name].estimate:.3f}" for name in comparison.names])
        return (
            f"{note} By the ranking alone (AUROC{of_which} {areas}) {_describe_verdicts(by_ranking_alone)}."
        )
    if any(area is None for area in aurocs.values()):
        return note
    areas = _list_numbers([f"{aurocs[name]:.3f}" for name in comparison.names])
    return f"{note} By the ranking alone (AUROC{of_which} {areas}) their order may differ: compare by AUROC to see."


def _describe_verdicts(comparison: Comparison) -> str:
    """Which pairs of a comparison differ, as the end of a sentence.

    `comparison.names` are best first, and every pair of them is in `comparison.pairs`. `different` says that a pair
    differs significantly after the correction for the number of pairs. The `note` of a pair says why there is no
    verdict on it, such as "rests on about 3.2 effective errors (5 in all): too few to compare"; it is empty where there
    is one. Of several notes the first is shown.
    """
    notes_without_verdict = [pair.note for pair in comparison.pairs if pair.note]
    different_count = sum(pair.different for pair in comparison.pairs)
    if len(comparison.pairs) == 1:
        (pair,) = comparison.pairs
        if pair.note:
            return f"there is no verdict: it {pair.note}"
        p_value = f"({p_value_text(pair.p_adjusted, comparison.level)})"
        if pair.different:
            return f"{comparison.names[0]} is better {p_value}"
        return f"they do not differ significantly {p_value}"
    pair_count = len(comparison.pairs)
    if different_count == 0:
        if len(notes_without_verdict) == pair_count:
            return f"there is no verdict: it {notes_without_verdict[0]}"
        if notes_without_verdict:
            return (
                f"no two differ significantly; on {len(notes_without_verdict)} of {pair_count} pairs there is no "
                f"verdict: it {notes_without_verdict[0]}"
            )
        return "no two differ significantly"
    possible_winners = comparison.winners  # all that may be the best, as far as the tests can tell
    if len(possible_winners) > _MOST_CONTESTANTS_LISTED:
        best = f"{len(possible_winners)} may be the best"
    elif len(possible_winners) > 1:
        best = f"{', '.join(possible_winners[:-1])} or {possible_winners[-1]} is the best"
    else:
        best = f"{possible_winners[0]} is the best"
    return f"{different_count} of {pair_count} pairs differ significantly; {best}"


def _list_numbers(numbers: Sequence[str]) -> str:
    """Numbers in a sentence: "1, 2 and 3"; of more than four the smallest and the largest, "1 to 9"."""
    if len(numbers) > _MOST_CONTESTANTS_LISTED:
        ascending = sorted(numbers, key=float)
        return f"{ascending[0]} to {ascending[-1]}"
    return f"{', '.join(numbers[:-1])} and {numbers[-1]}"
