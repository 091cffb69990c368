"""A note under comparisons by AURC: where curves cross, the other model is better if few samples are answered."""

from __future__ import annotations

from collections.abc import Mapping

from abstain._tables import p_value_text
from abstain.evaluation.results import Comparison, Pair

LOW_COVERAGES = (0.1, 0.25, 0.5)  # up to these the areas are compared as well
_MOST_PAIRS_NAMED = 3  # pairs with crossing curves that are named; others are counted


def corrected_level(level: float) -> float:
    """The confidence level of each comparison at low coverage, so that all of them together hold with `level`."""
    return 1 - (1 - level) / len(LOW_COVERAGES)


def describe_crossings(comparison: Comparison, by_low_coverage: Mapping[float, Comparison]) -> str | None:
    """Name the pairs of which one model is better over all coverages, and the other one at low coverage.

    Only significant differences count, in both directions, so that the noise at the start of a curve is not reported.

    Parameters
    ----------
    comparison : Comparison
        By the area over all coverages.
    by_low_coverage : mapping
        By each coverage in `LOW_COVERAGES`, a comparison of the same contestants by the area up to it, at a level that
        is corrected for the number of these comparisons.

    Returns
    -------
    str or None
        None if there is no such pair.
    """
    sentences = []
    for pair in comparison.pairs:
        reversed_coverages = [
            coverage
            for coverage, comparison_at_low in by_low_coverage.items()
            # `pair(a, b)` is a minus b, like `pair` itself
            if _are_opposite_and_significant(pair, comparison_at_low.pair(pair.a, pair.b))
        ]
        if reversed_coverages:
            coverage = max(reversed_coverages)  # one sentence per pair, for as many answers as possible
            sentences.append(_describe_crossing(pair, coverage, by_low_coverage[coverage], comparison))
    if not sentences:
        return None
    unnamed_count = len(sentences) - _MOST_PAIRS_NAMED
    ending = f" The curves of {unnamed_count} more pairs cross as well." if unnamed_count > 0 else ""
    return f"Not at every coverage: {'; '.join(sentences[:_MOST_PAIRS_NAMED])}.{ending}"


def _are_opposite_and_significant(pair: Pair, pair_at_low: Pair) -> bool:
    """Whether both differences are significant and have opposite signs."""
    return pair.different and pair_at_low.different and pair.difference * pair_at_low.difference < 0


def _describe_crossing(pair: Pair, coverage: float, at_low: Comparison, comparison: Comparison) -> str:
    """Say which of a pair is better up to a coverage, with its number, the other's, and the p-value."""
    sign = 1 if comparison.lower_is_better else -1
    better, worse = sorted((pair.a, pair.b), key=lambda name: sign * at_low[name].estimate)
    p_value = p_value_text(at_low.pair(pair.a, pair.b).p_adjusted, at_low.level)
    return (
        f"if at most {coverage:.0%} are answered, {better} is better than {worse} "
        f"({at_low.label} {at_low[better].estimate:.4g} against {at_low[worse].estimate:.4g}, {p_value})"
    )
