"""Several promises on the command line: `--risk NAME=VALUE`, and the columns of a file that they are about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import click
import numpy as np

from abstain import select_threshold
from abstain.cli import options as opt
from abstain.errors import DataError
from abstain.formats import Predictions
from abstain.formats.safety import display_name, file_error, list_names
from abstain.thresholds import JointGroupThresholds, JointThreshold

_RISK = click.FloatRange(min=0)


def parse_risks(
    ctx: click.Context, param: click.Parameter, value: Iterable[str]
) -> float | dict[str, float] | None:
    """Parse `--risk`: one number, or NAME=NUMBER at least twice, repeated or separated by commas; None if not given.

    A callback of click. NAME is that of a promise: an upper bound on one mean loss, or on the risk within one predicted
    class. Raises BadParameter for anything else, such as a percentage (20%) or a decimal comma (0,2): these are looked
    for first, since a comma also separates promises. `value` has one text for each --risk.
    """
    for typed in value:
        opt.refuse_other_notations(typed, ctx, param)
    texts = [text.strip() for typed in value for text in typed.split(",")]
    if not texts:
        return None
    risks: dict[str, float] = {}
    for text in texts:
        name, _, typed_number = text.rpartition("=")  # a number alone has the empty name
        number: Any = typed_number
        if name.strip() in risks:
            raise click.BadParameter("give one number, or NAME=NUMBER once for each promise.", ctx, param)
        risks[name.strip()] = _RISK.convert(number, param, ctx)  # raises BadParameter unless it is at least 0
    if list(risks) == [""]:
        return risks[""]
    if "" in risks or len(risks) < 2:
        raise click.BadParameter("give one number, or NAME=NUMBER for at least two promises.", ctx, param)
    return risks


class PromiseColumns(NamedTuple):
    """What a file says for several promises, without the samples that the model abstained on."""

    predictions: Predictions
    losses: dict[Any, np.ndarray] | None  # by promise, where each is a column of losses
    # which samples each promise is about, where names are predicted classes
    among: dict[Any, np.ndarray] | None

    def rows(self, row_numbers: np.ndarray) -> PromiseColumns:
        """Return only the samples of these row numbers (integers from 0), in this order."""
        masks = None if self.among is None else {name: mask[row_numbers] for name, mask in self.among.items()}
        losses = (
            None if self.losses is None else {name: loss[row_numbers] for name, loss in self.losses.items()}
        )
        return PromiseColumns(self.predictions.rows(row_numbers), losses=losses, among=masks)


def predicted_names(predictions: Predictions) -> np.ndarray | None:
    """The predicted class of each sample as text; None if the file has no predictions."""
    if predictions.has_class_scores:
        return predictions.likeliest_classes().astype(str)
    if predictions.prediction is None:
        return None
    return np.asarray(predictions.true_and_given_classes().answer).astype(str)


def read_promises(
    read_options: opt.ReadOptions, file: str, names: list[str], named_in: str = "--risk"
) -> PromiseColumns:
    """Read a file for promises with these names: all are classes that the file predicts, or columns of losses.

    Of classes, `among` says which samples each promise is about; of columns, `losses` holds them. Raises DataError if
    the file has neither. A promise is an upper bound on one mean loss, or on the risk within one predicted class.
    `read_options` are the options that say how files are read. Abstentions are left out of all that is returned; masks
    and losses have one value for each sample that is left. The other of `losses` and `among` is None. `named_in` says
    where the names come from: the option, or the rule that is checked.
    """
    try:
        predictions = read_options.read(file)
    except DataError:  # perhaps no column is called loss, and the promises name the columns
        if "loss" in read_options.columns:  # the user named the column, so that something else is wrong
            raise
        # as if the first of them were called loss
        predictions = _read_with_loss(read_options, file, names[0])
    answered = predictions.without_abstentions()
    answers = predicted_names(answered)  # the predicted class of each sample, as text
    if answers is not None and set(names) <= set(answers):
        return PromiseColumns(answered, losses=None, among={name: answers == name for name in names})
    if answered.has_class_scores:  # such a file has no columns of losses
        classes = list_names(sorted(set(answers))) if answers is not None else "none"
        raise file_error(
            file, f"the names in {named_in} must be classes that it predicts ({classes}), got {names}."
        )
    losses = {}
    for name in names:
        with_loss = _read_with_loss(read_options, file, name)  # the same samples, in the same order
        losses[name] = np.asarray(with_loss.without_abstentions().loss)
    return PromiseColumns(answered, losses=losses, among=None)


def with_loss_column(read_options: opt.ReadOptions, column: str) -> opt.ReadOptions:
    """The same options of reading, for files whose losses are in this column."""
    return read_options._replace(columns={**read_options.columns, "loss": column})


def _read_with_loss(read_options: opt.ReadOptions, file: str, column: str) -> Predictions:
    """Read a file whose losses are in this column; DataError if it has no such column."""
    return with_loss_column(read_options, column).read(file, summarise=False)


def choose_jointly(
    columns: PromiseColumns,
    score: str,
    loss: str,
    risk: Mapping[str, float],
    groups: Any,
    command_options: Mapping[str, Any],
) -> JointThreshold | JointGroupThresholds:
    """Call `select_threshold` for several promises with the columns of a file.

    A promise is an upper bound on one mean loss, or on the risk within one predicted class. `score` and `loss` name
    what is computed from class scores, `risk` holds the bound of each promise. `groups` is the group of each sample,
    None for one threshold. Of `command_options`, delta (the allowed probability of a broken promise) and bounded (the
    range of the losses) are taken. Raises a usage error for a method other than "ltt". Exactly one of `columns.among`
    (masks of samples by promise) and `columns.losses` (by promise) is set; no sample is an abstention.
    """
    if command_options["method"] != "ltt":
        raise click.UsageError(f"several promises need --method ltt, got {command_options['method']}.")
    predictions = columns.predictions
    options: dict[str, Any] = {
        "sample_weight": predictions.sample_weight,
        "clusters": predictions.clusters,
        "delta": command_options["delta"],
        "bounded": command_options["bounded"],
        "among": columns.among,
        "groups": groups,
    }
    if not predictions.has_class_scores:
        sample_loss, confidence = predictions.loss_and_confidence(score, loss)
        # promises about predicted classes have one loss, that of every sample
        losses = columns.losses or dict.fromkeys(risk, sample_loss)
        # `learned` is the confidence that the rule remembers as its score; None for a column of confidences
        rule: JointThreshold | JointGroupThresholds = select_threshold(
            losses=losses, confidence=confidence, score=predictions.learned, risk=risk, **options
        )
    # some refusals count as wrong and are ranked last: their losses and ranks do not follow from their class scores
    elif predictions.refused is not None:
        sample_loss, confidence = predictions.loss_and_confidence(score, loss)
        rule = select_threshold(
            losses=dict.fromkeys(risk, sample_loss),
            confidence=confidence,
            score=score,
            units="key",  # rank keys, which order as the score does; computed confidences are always such
            risk=risk,
            **options,
        )
    else:
        options |= {predictions.kind: predictions.class_scores(), "labels": predictions.labels}
        rule = select_threshold(risk=risk, score=score, loss_name=loss, **options)
    # `read_promises` sets `among` exactly where the names are predicted classes. `select_threshold` got masks of
    # samples and cannot know that they are those of classes, so the rule is told here.
    return rule.with_promises_by_class(columns.among is not None)


def first_joint_rule(rule: JointThreshold | JointGroupThresholds) -> JointThreshold:
    """The rule itself, or that of the first group: all groups have the same promises."""
    return next(iter(rule.thresholds.values())) if isinstance(rule, JointGroupThresholds) else rule


def check_columns(
    rule: JointThreshold | JointGroupThresholds, rule_file: str, columns: PromiseColumns
) -> dict[str, Any]:
    """Return the arguments of `JointThreshold.check` that say which samples each promise is about.

    A promise is an upper bound on one mean loss, or on the risk within one predicted class. `columns.among` holds masks
    of samples by promise; it is set exactly where the file predicts classes with the names of the promises, and None
    where columns of losses have these names. Raises DataError if the file has columns of losses for promises about
    predicted classes, or the reverse. `rule_file` is for the message. `check` takes None where all samples count.
    """
    joint_rule = first_joint_rule(rule)
    # `counted` holds, for each promise, which calibration samples counted in it: `samples` is their number, None for
    # all samples. A rule made in Python may be about samples of any kind; here it is taken for one about predicted
    # classes, since files name no others.
    is_by_class = any(counted.samples is not None for counted in joint_rule.counted.values())
    if is_by_class != (columns.among is not None):
        needed = "predicted classes" if is_by_class else "columns of losses"
        names = ", ".join(map(str, joint_rule.promises))
        raise DataError(f"{display_name(rule_file)}: this rule needs {needed} with the names {names}.")
    return {"among": columns.among}
