"""`learn_confidence`: a better confidence from what is known of each row, with a proof."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Sequence
from typing import NamedTuple, get_args

import numpy as np

from abstain._arrays import ArrayLike
from abstain._check import check_choice, check_count, check_fraction, refuse_other_row_order
from abstain._tables import count_noun
from abstain.confidence.candidates import (
    BASELINE,
    COMBINED,
    FEW_ROWS,
    SIGNALS,
    Candidate,
    LearningData,
    list_candidates,
    single_scores,
)
from abstain.confidence.combinations import SHIPPED_WEIGHTS, choose_combination
from abstain.confidence.crossfit import assign_folds, find_repeated_rows, score_out_of_fold
from abstain.confidence.fitted_rows import FittedRows
from abstain.confidence.input_profile import InputProfile
from abstain.confidence.input_table import Columns, InputTable, read_inputs, read_losses, read_row_weights
from abstain.confidence.judging import (
    CandidateResult,
    Contribution,
    choose_candidate,
    is_clearly_lower,
    judge,
    results_of,
)
from abstain.confidence.learned import LEAK, LEAK_OF_PAIR, Keep, LearnedConfidence
from abstain.confidence.models import score_without_inputs
from abstain.errors import AbstainWarning, InputError
from abstain.metrics._sample import group_codes

_NAME = "learn_confidence"
MIN_OF_A_KIND = 10  # right rows, and wrong ones: with fewer, no candidate can be told from chance
# a number with more values than these, and more than a tenth of the rows, hardly repeats by chance
_MANY_DISTINCT_VALUES = 50
# Share of pairs or rows; an input that orders more of them by the truth is hardly known before it.
_LEAK_SHARE = 0.999
_MAX_INPUTS_IN_PAIRS = 30  # whose pairs are looked at for leaks: they are 435
PREDICTED_CLASS = "the predicted class"  # what a note calls the class with the largest score
_MOST_COPIES_WITHOUT_NOTE = 0.05  # of rows that are copies of others, above which a note suggests clusters


@refuse_other_row_order
def learn_confidence(
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
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    candidates: Sequence[str] | None = None,
    keep: Keep = "lowest",
    folds: int = 5,
    level: float = 0.95,
    contributions: bool = True,
    rng: np.random.Generator | int = 0,
) -> LearnedConfidence:
    """Learn a confidence from all that is known of each row before its label, and say whether it is proven better.

    Candidates are fitted on all folds but one and judged on the one left out, so that no row is judged by a model that
    has seen it:

    - "baseline": the single signal, or max softmax, with the lowest AURC on these labels.
    - "logits", "class offsets", "runner-up": ridge logistic regressions of "right" on features of the class scores,
      with an offset for each predicted class, and with one for each class in the second place (up to 100 classes).
      By default only the last of them that the classes allow.
    - "shrunk": that one, averaged with a logistic regression on the max softmax alone.
    - "temperature", "p-norm": max softmax at another temperature, and the normalised max logit; if asked for.
    - "combined": what `combine_signals` makes of the signals without labels; with fewer than 300 rows, or if asked for.
    - "signals": a logistic regression on all inputs, with smooth functions of the ranks of signals and features, their
      products, and categories. Where the shipped weights of `combine_signals` apply, it starts from them: with few
      labels it stays close to them.

    From 500 rows on, the last of them is averaged with boosted trees of the same inputs. Differences from the baseline
    are tested in pairs and corrected for the number of candidates. What is kept is then fitted on all rows.

    Do not choose a threshold on these rows afterwards: `select_threshold` refuses them. `learn_and_select` splits the
    rows for you.

    Parameters
    ----------
    correct : array of bool, shape (n,)
        Is the prediction right? Give this, `loss` or `labels`, one of them.
    loss : array, shape (n,)
        Any finite loss of each row.
    labels : array, shape (n,)
        True classes, which are compared with the largest class score or with `predicted`.
    logits, probs : array, shape (n, K)
        Class scores, one of them.
    signals : dict of array, shape (n,)
        Confidences by name, higher = surer; None or NaN where missing.
    features : dict of array, shape (n,)
        Other numbers by name, such as the length of an answer; they are never a baseline.
    categories : dict of array, shape (n,)
        Labels by name, such as the topic of a question; at most 1,000 different ones each.
    predicted : array, shape (n,)
        The predicted class, where there are no class scores: one more category.
    sample_weight : array, shape (n,), optional
        The mass of each row, relative to the others.
    clusters : array, shape (n,), optional
        One label per row: rows of one cluster (a patient, a document) are never split between folds.
    candidates : sequence of str, optional
        Names of those to try besides the baseline, by default those above that the inputs allow; [] keeps the baseline.
    keep : {"lowest", "proven"}
        "lowest": the candidate with the lowest out-of-fold AURC, whether proven or not; but the baseline if it is lower
        by less than half of the standard error of the difference. With fewer than 300 rows no such margin is asked
        for, but "signals" must be lower than "combined" by half a standard error, and where shipped weights apply
        the baseline is kept only if these rows prove them worse.
        "proven": only one that the test proves better than the baseline.
    folds : int
        Number of folds, at least 2.
    level : float
        Of the intervals and of the proof.
    contributions : bool
        False: do not measure what each input adds, which takes another fit for each input and fold, and most of the
        time where there are many inputs.
    rng : Generator or int
        For the folds.

    Returns
    -------
    LearnedConfidence
        Call it with the same inputs of new rows. It prints the candidates, the verdict and the contributions, and is
        stored by `save` as plain JSON. A note and a warning (AbstainWarning) name each input that alone says which
        answers are right, and each two that do together: they may be made from the labels.

    Raises
    ------
    InputError, ShapeError, DtypeError
        If inputs do not fit each other, all signals are constant or missing, or there are fewer than 10 right or 10
        wrong rows.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> token, stated = rng.normal(size=(2, 1000))
    >>> right = 3 * token + stated + rng.logistic(size=1000) > 0
    >>> learned = learn_confidence(right, signals={"token": token, "stated": stated})
    >>> print(learned.verdict.partition(":")[0])
    'signals' was kept
    >>> learned(signals={"token": token[:2], "stated": stated[:2]}).shape
    (2,)
    """
    check_choice(_NAME, "keep", keep, get_args(Keep))
    level = check_fraction(_NAME, "level", level, open_high=True)
    fold_count = check_count(_NAME, "folds", folds)
    if fold_count < 2:
        raise InputError(f"{_NAME}: `folds` must be at least 2, got {fold_count}.")
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
    table, notes = drop_useless_inputs(table)
    data = make_learning_data(_NAME, table, losses, sample_weight, clusters)
    leaks = _find_leaks(data)
    for leak in leaks:
        warnings.warn(f"{_NAME}: {leak}", AbstainWarning, stacklevel=3)  # the caller of the checked function
    notes += leaks
    profile = InputProfile.of(data.table, data.weight)
    combination = choose_combination(data.table, profile) if data.table.signals else None
    tried = _choose_candidates(list_candidates(data.table, combination), candidates)
    fold, repeated_note = _make_folds(data, fold_count, rng)
    notes += repeated_note
    profiles = [
        InputProfile.of(data.table.take(rows), data.weight[rows])
        for rows in (np.flatnonzero(fold != number) for number in range(fold_count))
    ]
    # the baseline is chosen on all rows: its small advantage makes the comparison stricter
    baseline = tried[0].fit(data, profile)
    scores = [baseline.apply(data.table)]
    scores += [score_out_of_fold(candidate, data, fold, profiles) for candidate in tried[1:]]
    results = results_of([candidate.name for candidate in tried], judge(_NAME, data, scores, level, fold))
    uses_shipped = combination is not None and combination.name == SHIPPED_WEIGHTS
    is_few = data.table.row_count < FEW_ROWS
    chosen = choose_candidate(results, keep, level, is_few=is_few, trusted=COMBINED if uses_shipped else None)
    if is_few and keep == "lowest":
        chosen = _prefer_combination(data, results, scores, fold, chosen, is_trusted=uses_shipped)
    model = tried[chosen].fit(data, profile)
    parts: tuple[Contribution, ...] = ()
    if contributions and model.linear is not None:
        parts = _measure_contributions(tried[chosen], data, fold, profiles, level)
    if baseline.single is not None:
        notes.append(f"The baseline is {baseline.single.label!r}, the best single one on these labels.")
    if model.linear is not None and model.linear.plan.transfer is not None and combination is not None:
        notes.append(f"It starts from the {SHIPPED_WEIGHTS}: {combination.reason}.")
    return LearnedConfidence(
        model=model,
        kept=results[chosen].name,
        keep=keep,
        candidates=results,
        contributions=parts,
        level=level,
        n=data.table.row_count,
        clusters=None if clusters is None or data.cluster is None else int(data.cluster.max()) + 1,
        folds=fold_count,
        fitted=FittedRows.of(model.apply(data.table)),
        notes=tuple(notes),
    )


def _prefer_combination(
    data: LearningData,
    results: Sequence[CandidateResult],
    scores: Sequence[np.ndarray],
    fold: np.ndarray,
    chosen: int,
    *,
    is_trusted: bool,
) -> int:
    """Return the index of the combination without labels if the chosen candidate is not clearly better than it.

    With few rows a model of all signals is often lower by chance. `results` and `scores` are the judgements and the
    out-of-fold confidences of all candidates, the baseline first; `fold` is the fold of each row, and `chosen` the
    index of the chosen candidate, which is returned otherwise. The caller asks only with few rows. `is_trusted` says
    that the combination is known to be good from other data; if it is not, it must be at least as good as the baseline
    here. `data` holds the labelled rows: inputs, losses, targets from 1 (best) to 0 (worst), weights and clusters.
    """
    names = [result.name for result in results]
    # only the model of all inputs (SIGNALS) is set against the combination (COMBINED), if both were tried
    if names[chosen] != SIGNALS or COMBINED not in names:
        return chosen
    combined = names.index(COMBINED)
    baseline = results[0]
    # lower AURC is better; `is_clearly_lower` asks for half a standard error of the difference
    is_acceptable = is_trusted or results[combined].aurc <= baseline.aurc
    if is_acceptable and not is_clearly_lower(_NAME, data, scores[chosen], scores[combined], fold):
        return combined
    return chosen


def drop_useless_inputs(table: InputTable) -> tuple[InputTable, list[str]]:
    """Return the table without inputs that are constant or missing everywhere, and a sentence for each of them.

    Raises InputError if no signal and no class scores are left, since there is then no baseline. `table` holds the
    inputs of all rows: signals (confidences), other numbers and categories by name, and class scores. The given table
    stays as it is. The user sees the sentences among the notes of the result.
    """
    if table.row_count == 0:
        raise InputError(f"{_NAME}: needs labelled rows, got none.")
    notes = []
    for name, column in table.numbers.items():  # signals and other numbers
        values = column[~np.isnan(column)]  # NaN where missing
        if not len(values):
            notes.append(f"{name!r} was left out: it is missing in every row.")
        elif len(values) == len(column) and bool(np.all(values == values[0])):
            # one value with gaps is kept: it tells the rows that have it from those that do not
            notes.append(f"{name!r} was left out: it is {values[0]:g} in every row.")
        else:
            continue
        table = table.without(name)
    for name, labels in table.categories.items():  # a missing label is "(missing)", a label like any other
        if bool(np.all(labels == labels[0])):
            notes.append(f"{name!r} was left out: it is {str(labels[0])!r} in every row.")
            table = table.without(name)
    if not single_scores(table):  # class scores, and signals that vary
        problem = " ".join(notes) or "got features and categories only."
        raise InputError(
            f"{_NAME}: needs class scores or a signal that varies, as a baseline: {problem} "
            f"Pass `logits`, `probs` or another entry of `signals`."
        )
    return table, notes


def make_learning_data(
    function: str,
    table: InputTable,
    losses: np.ndarray,
    sample_weight: ArrayLike | None,
    clusters: ArrayLike | None,
) -> LearningData:
    """Check losses, weights and clusters against the table and put them together; rows of weight 0 are dropped.

    Raises InputError, which names `function`, for weights that are negative, infinite or all 0, and for fewer than 10
    rows with a loss in the better or in the worse half of the range of losses. `table` holds the inputs of all rows,
    and `losses` their losses; there must be at least one row. In the result, `target` is the loss scaled to 1 (best)
    ... 0 (worst), weights have mean 1, and `cluster` numbers clusters from 0, None without clusters.
    """
    n = table.row_count
    weight = read_row_weights(function, sample_weight, n)
    cluster = None
    if clusters is not None:
        # the number of each row's cluster, from 0
        cluster = group_codes(function, clusters, (n,), "clusters").codes
    has_mass = weight > 0  # at least one row
    if not has_mass.all():
        table = table.take(has_mass)
        losses = losses[has_mass]
        weight = weight[has_mass]
        if cluster is not None:
            _, cluster = np.unique(cluster[has_mass], return_inverse=True)  # from 0 without gaps again
    lowest = float(losses.min())
    highest = float(losses.max())
    target = np.ones(len(losses))  # 1 for the smallest loss, 0 for the largest, all 1 if they are equal
    if highest > lowest:
        target = (highest - losses) / (highest - lowest)
    wrong_count = int(np.sum(target < 0.5))  # losses in the worse half of their range
    right_count = len(target) - wrong_count
    if min(wrong_count, right_count) < MIN_OF_A_KIND:  # 10
        raise InputError(
            f"{function}: needs at least {MIN_OF_A_KIND} right and {MIN_OF_A_KIND} wrong rows, got "
            f"{right_count:,} right and {wrong_count:,} wrong. Label more rows, or use `combine_signals`, which needs "
            f"no labels."
        )
    return LearningData(
        table=table, loss=losses, target=target, weight=weight / weight.mean(), cluster=cluster
    )


def _find_leaks(data: LearningData) -> list[str]:
    """Return a sentence for each input, and each pair, that says which answers are right: it may be made from labels.

    A number does where more than `_LEAK_SHARE`, 99.9%, of the pairs of a right and a wrong row are in the same order by
    it, with gaps below or above all numbers. A category does where its levels tell right from wrong
    (`_tells_right_from_wrong`). Two inputs of few values may do together where neither does alone
    (`_tell_right_from_wrong_together`). `data` holds the labelled rows, with the losses scaled to targets from 1 (best)
    to 0 (worst); a row counts as right from 1/2 on, and there are rows of both kinds. `data.table` has by name the
    numbers, NaN where missing, and the categories, and the predicted class where there are class scores.
    """
    is_right = data.target >= 0.5
    suspects = []
    # a `_FewValues` holds for each row the number of its value, from 0, and the value as text
    numbers_of_few_values: dict[str, _FewValues] = {}
    inputs: dict[str, _FewValues] = {}  # of which pairs are made, by name: categories first
    for name, column in data.table.numbers.items():
        # Gaps (NaN) are put below all numbers, then above. `_share_in_order` returns the share of the pairs of a right
        # and a wrong row in which the right one has the larger number. Ties count half; 0.5 says nothing.
        shares = [
            _share_in_order(np.where(np.isnan(column), gap, column), is_right) for gap in (-np.inf, np.inf)
        ]
        if any(max(share, 1 - share) > _LEAK_SHARE for share in shares):
            suspects.append(name)
            continue
        values, level = np.unique(column, return_inverse=True)  # all NaN are one value
        if len(values) <= _MANY_DISTINCT_VALUES:  # 50
            # "3" and not "3.0", as in a category that was made of whole numbers
            text = np.array([f"{value:g}" for value in values])[level]
            numbers_of_few_values[name] = _FewValues(level, text)
    for name, labels in data.table.categories.items():
        level = np.unique(labels, return_inverse=True)[1]
        if _tells_right_from_wrong(level, is_right):
            suspects.append(name)
        else:
            inputs[name] = _FewValues(level, labels)
    if data.table.class_scores is not None and data.table.predicted is not None:
        # by the name that notes give it
        inputs[PREDICTED_CLASS] = _FewValues(data.table.predicted, data.table.predicted.astype(str))
    inputs |= numbers_of_few_values
    first_names = list(inputs)[:_MAX_INPUTS_IN_PAIRS]  # 30, which bounds the number of pairs
    pairs = [
        (first, second)
        for first, second in itertools.combinations(first_names, 2)
        if _tell_right_from_wrong_together(inputs[first], inputs[second], is_right)
    ]
    remedy = "Such an input proves nothing, and new rows will not have it."
    # LEAK is "alone says which answers are right", LEAK_OF_PAIR "together say which answers are right"
    return [f"{name!r} {LEAK}: is it made from the labels? {remedy}" for name in suspects] + [
        f"{first!r} and {second!r} {LEAK_OF_PAIR}: is one of them the label? {remedy}"
        for first, second in pairs
    ]


class _FewValues(NamedTuple):
    """An input that takes few values: the number of each row's value, from 0, and the value itself as text."""

    level: np.ndarray
    text: np.ndarray


def _tell_right_from_wrong_together(first: _FewValues, second: _FewValues, is_right: np.ndarray) -> bool:
    """Do two inputs together say which rows are right, as the prediction and the true label do?

    They do where they are equal in the right rows and differ in the wrong ones, which is seen in few rows too, or where
    the pairs of their values tell right from wrong. `is_right` must have rows of both kinds.
    """
    if _is_true_of_most_rows((first.text == second.text) == is_right, is_right):
        return True
    # each pair of values gets a number of its own
    level_of_pair = first.level * (second.level.max() + 1) + second.level
    return _tells_right_from_wrong(level_of_pair, is_right)


def _tells_right_from_wrong(level: np.ndarray, is_right: np.ndarray) -> bool:
    """Do the other rows of a row's level say, by their majority, whether it is right, for more than 99.9% of the rows?

    They must also do so for more than half of the right and of the wrong rows, each taken alone: where nearly all
    answers are right, every majority is. `level` numbers the level of each row from 0; `is_right` says of each row
    whether it is right, and must have rows of both kinds.
    """
    level = np.unique(level, return_inverse=True)[1]  # without gaps: pairs of levels are many
    others = np.bincount(level)[level] - 1  # for each row: the other rows of its level
    right_others = np.bincount(level, weights=is_right)[level] - is_right
    # a row alone in its level is not predicted: 0 of 0 is no majority
    is_predicted = np.where(is_right, 2 * right_others > others, 2 * right_others < others)
    return _is_true_of_most_rows(is_predicted, is_right)


def _is_true_of_most_rows(is_true: np.ndarray, is_right: np.ndarray) -> bool:
    """Is something true of more than 99.9% of the rows, and of most of the right and most of the wrong ones?

    Both arrays have one entry per row; there are right rows and wrong ones.
    """
    shares_of_both_kinds = (is_true[is_right].mean(), is_true[~is_right].mean())
    # `_LEAK_SHARE` is 99.9%
    return bool(is_true.mean() > _LEAK_SHARE and min(shares_of_both_kinds) > 0.5)


def _share_in_order(column: np.ndarray, is_right: np.ndarray) -> float:
    """Return the share of pairs of a right and a wrong row in which the right one has the larger number; ties half."""
    wrong = np.sort(column[~is_right])
    right = column[is_right]
    below = np.searchsorted(wrong, right, side="left") + np.searchsorted(wrong, right, side="right")
    return float(below.mean() / 2 / len(wrong))


def _choose_candidates(available: list[Candidate], names: Sequence[str] | None) -> list[Candidate]:
    """Return the baseline and the candidates that the user named, or the usual ones if `names` is None.

    `available` are all that the inputs allow, the baseline first. Raises InputError for a name that is not among them.
    `names` may be a single name. The baseline is always among the result, and first.
    """
    if names is None:
        return [candidate for candidate in available if candidate.by_default]
    # the order stays that of `available`, the simplest first
    requested = [names] if isinstance(names, str) else list(names)
    known_names = [candidate.name for candidate in available]
    for name in requested:
        check_choice(_NAME, "candidates", name, known_names)  # raises for an unknown name
    return [candidate for candidate in available if candidate.name in (BASELINE, *requested)]


def _make_folds(
    data: LearningData, fold_count: int, rng: np.random.Generator | int
) -> tuple[np.ndarray, list[str]]:
    """Return the fold of each row, and a list with a note if many rows are copies of others, empty if not.

    Rows of one cluster share a fold. Without clusters, rows with equal inputs do, so that no row is judged by a model
    that was fitted on its copy. `data` holds the labelled rows: inputs, losses, targets from 1 (best) to 0 (worst),
    weights and clusters. `rng` is the source of all randomness: a generator, or a seed. Folds are numbered from 0.
    Raises InputError if there are fewer clusters, or different rows, than folds.
    """
    generator = np.random.default_rng(rng)
    is_wrong = data.target < 0.5
    if data.cluster is not None:  # `cluster` numbers the cluster of each row from 0
        return assign_folds(_NAME, fold_count, data.cluster, is_wrong, generator), []
    distinct_row = find_repeated_rows(data.table)
    row_count = len(distinct_row)
    distinct_count = int(distinct_row.max()) + 1  # rows are numbered from 0, equal ones alike
    repeated_count = row_count - distinct_count
    # Equal rows are copies only if some input has so many values (as class scores have) that rows are hardly equal by
    # chance. Where all inputs have few values, equal rows are different cases.
    many_values = max(_MANY_DISTINCT_VALUES, row_count // 10)  # 50, or a tenth of the rows
    has_many_values = [
        len(np.unique(column[~np.isnan(column)])) > many_values for column in data.table.numbers.values()
    ]
    looks_copied = any(has_many_values) or data.table.class_scores is not None
    notes = []
    if looks_copied and repeated_count > _MOST_COPIES_WITHOUT_NOTE * row_count:  # 5% of the rows
        notes.append(
            f"{count_noun(repeated_count, 'row')} repeat the inputs of another row. Copies were kept in one fold; if "
            f"rows belong together (a patient, a document), pass `clusters`."
        )
    if not looks_copied:  # every row counts as different
        distinct_row = np.arange(row_count)
        distinct_count = row_count
    if distinct_count < fold_count:
        raise InputError(
            f"{_NAME}: needs at least {fold_count} different rows for {fold_count} folds, got {distinct_count}."
        )
    return assign_folds(_NAME, fold_count, distinct_row, is_wrong, generator), notes


def _measure_contributions(
    candidate: Candidate, data: LearningData, fold: np.ndarray, profiles: list[InputProfile], level: float
) -> tuple[Contribution, ...]:
    """Fit the kept candidate again without each input in turn, and test the differences as one family.

    `fold` is the fold of each row, and `profiles` holds for each fold the distribution of every input in the rows
    outside it. Empty unless the candidate is the model of all inputs, and has more than one. `data` holds the labelled
    rows: inputs, losses, targets from 1 (best) to 0 (worst), weights and clusters. `level` is the two-sided confidence
    level, such as 0.95. A difference is AURC with all inputs minus AURC without one: negative if the input helps.
    """
    names = profiles[0].names  # of all inputs, the same in every fold
    if candidate.name != SIGNALS or len(names) < 2:  # "signals" is the model of all inputs
        return ()
    scores_with_all = np.empty(len(fold))
    scores_without = {name: np.empty(len(fold)) for name in names}
    for number, profile in enumerate(profiles):
        is_held_out = fold == number
        fitted = data.take(np.flatnonzero(~is_held_out))
        held_out = data.table.take(np.flatnonzero(is_held_out))
        model = candidate.fit(fitted, profile)
        scores_with_all[is_held_out] = model.apply(held_out)
        # by name of the input that is left out: confidences of the held-out rows
        scores = score_without_inputs(
            model, fitted=(fitted.table, fitted.target, fitted.weight), held_out=held_out, names=names
        )
        for name in names:
            scores_without[name][is_held_out] = scores[name]
    # all against the first one, the scores with all inputs
    tests = judge(_NAME, data, [scores_with_all, *scores_without.values()], level, fold).tests
    # the tests are of AURC without each input minus AURC with all; contributions have the opposite sign
    return tuple(
        Contribution(
            name=name,
            difference=-float(tests.difference[index]),
            low=-float(tests.high[index]),
            high=-float(tests.low[index]),
            p_value=float(tests.p_adjusted[index]),
        )
        for index, name in enumerate(names)
    )
