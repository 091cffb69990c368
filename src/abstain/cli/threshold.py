"""Commands about thresholds: `threshold` makes or checks a rule, `decide` applies one, `clinical` tabulates rates."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, get_args

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from abstain import Threshold, _tables, scores
from abstain._risk import explain_wrong_risk
from abstain.cli import options as opt
from abstain.cli.dependent_rows import hints_in_file
from abstain.cli.main import ALARM, INFEASIBLE
from abstain.cli.promises import (
    PromiseColumns,
    check_columns,
    choose_jointly,
    first_joint_rule,
    parse_risks,
    read_promises,
)
from abstain.cli.screen import (
    deliver,
    plain_table,
    range_dash,
    show_notes,
    show_working,
    write_file,
    write_text,
)
from abstain.cli.series import (
    Look,
    fingerprint_predictions,
    note_calibration_files,
    refuse_calibration_rows,
    run_look,
)
from abstain.cli.unnamed_answers import refuse_unnamed_answers
from abstain.errors import AbstainError, DataError
from abstain.formats import Predictions
from abstain.formats.loaded_columns import BlankOutcomesError
from abstain.formats.safety import display_name, file_error, naming_file
from abstain.formats.writing import table_text, write_table
from abstain.inference.clusters import cluster_counts
from abstain.metrics._sample import group_codes
from abstain.report.certified import choose_threshold, origin_facts
from abstain.report.content import clinical_of
from abstain.thresholds import (
    Check,
    GroupChecks,
    GroupThresholds,
    JointGroupThresholds,
    JointThreshold,
    decision_record,
    load_rule,
)
from abstain.thresholds.calibration import Method
from abstain.thresholds.counted_rows import share_too_coarse
from abstain.thresholds.cut import NO_CONFIDENCE
from abstain.thresholds.later_options import cluster_column, reading_options
from abstain.thresholds.rules import key_text

_TABLE_FIELDS = (
    "value",
    "form",
    "target",
    "method",
    "delta",
    "n",
    "coverage",
    "risk",
    "risk_upper",
    "guarantee",
)
_BOUNDED_HELP = "Lowest and highest possible loss, known beforehand."
_RISK_HELP = (
    "Largest risk of accepted samples. With names, once for each predicted class or column of losses: one threshold "
    "keeps all of these promises."
)
_GROUPS_HELP = "One threshold for each group; all guarantees hold together."
_RECORD_HELP = "Write a page to file with the rule: data, guarantee, assumptions, and what makes it void."
_STATE_HELP = "With --check: file with the series of checks so far. It is updated."
# if more than this share of new confidences exceeds all calibration data, they are probably on another scale
_LARGE_SHARE_ABOVE = 0.1
CLEARLY_OTHER = 0.001  # p-value of equal distributions, for a note on new data
_MAJORITY = 0.5
_GROUPS_LISTED = 6  # in one message
_OUTCOME_ROLES = {"labels", "label", "correct", "loss", "target", "prediction"}


@click.command("threshold", cls=opt.DocumentedCommand)
@click.argument("file", type=opt.InputFile())
@click.option("--risk", multiple=True, callback=parse_risks, metavar="[NAME=]NUMBER", help=_RISK_HELP)
@opt.fraction_option("--coverage", "Smallest share of samples to accept.")
@click.option("--cost", type=click.FloatRange(min=0), help="Cost of a rejection, if an error costs 1.")
@opt.delta_option("Probability that the guarantee fails.")
@click.option(
    "--method", type=click.Choice(get_args(Method)), default="ltt", help="Method behind the guarantee."
)
@opt.shared_options("score", "loss")
@click.option("--bounded", type=(float, float), default=(0.0, 1.0), metavar="LOW HIGH", help=_BOUNDED_HELP)
@click.option("--groups", "--per-group", "groups", is_flag=True, help=_GROUPS_HELP)
@opt.output_option("--save", kind="json", help="Save the rule with its guarantee as JSON.")
@opt.output_option("--record", kind="markdown", help=_RECORD_HELP)
@opt.input_option(
    "--check",
    help="Check a saved rule on these data. Rows are read in order, as cases come in; shuffle them if it is not time.",
)
@opt.output_option("--state", kind="json", verdict_first=True, help=_STATE_HELP)
@opt.with_read_options
@opt.with_output_options
def threshold(
    file: str,
    read_options: opt.ReadOptions,
    output: opt.Output,
    score: str,
    loss: str,
    groups: bool,
    save: str | None,
    record: str | None,
    check: str | None,
    state: str | None,
    **target: Any,
) -> None:
    """Choose the threshold below which to abstain, and state what it guarantees.

    FILE is calibration data that were not used to train the model. A sample is accepted if its confidence is at
    least the threshold.

    Examples:
      abstain threshold preds.npz --risk 0.05
          risk of accepted samples at most 5%, with probability 95%
      abstain threshold answers.csv --risk 0.1 --delta 0.01
      abstain threshold scans.npz --risk 0=0.05 --risk 1=0.02
          error rates among those predicted as class 0 and 1, by one threshold
      abstain threshold preds.npz --coverage 0.8
      abstain threshold preds.npz --cost 0.2
          a rejection costs 0.2, an error 1
      abstain threshold preds.npz --risk 0.05 --save rule.json --record rule.md
      abstain decide rule.json new.npz -o decided.csv
      abstain threshold later.npz --check rule.json --state series.json
          does the guarantee still hold? Each run continues the series.

    Samples of one cluster (a column `cluster`: patient, document) may depend on each other: the guarantee is then
    for whole clusters.

    With --check, a file without labels is compared with the calibration by its confidences alone, which says nothing
    about the risk.

    If no threshold can be certified, the exit code is 4. An alarm of --check is exit code 5.
    """
    if sum(option is not None for option in (target["risk"], target["coverage"], target["cost"], check)) != 1:
        raise click.UsageError("give one of --risk, --coverage, --cost (or --check).")
    if (state and not check) or (check and (save or record)):
        raise click.UsageError("--state goes with --check; --save and --record go with a new rule.")
    low, high = target["bounded"]
    risk = target["risk"]
    for single_risk in risk.values() if isinstance(risk, dict) else [risk]:
        explanation = "" if single_risk is None else explain_wrong_risk(single_risk, low, high)
        if explanation:
            raise click.UsageError(f"--risk {explanation}")
    promise_columns = None
    predictions: Predictions | None
    promise_names = _promise_names(check, risk)
    with show_working(f"reading {display_name(file)}"):
        if promise_names:
            named_in = "--risk" if check is None else display_name(check)
            promise_columns = read_promises(read_options, file, promise_names, named_in)
            if check is not None:
                promise_columns = promise_columns.rows(_find_labelled_rows(promise_columns.predictions))
            predictions = promise_columns.predictions
        else:
            predictions = _read_labelled(file, read_options, is_check=check is not None)
    if predictions is None:
        if state is not None:
            raise click.UsageError(f"--state needs labels, and {display_name(file)} has none.")
        check_unlabelled(str(check), file, read_options, output)
        return
    opt.note_chosen_confidence(predictions)
    answered = predictions.without_abstentions()
    abstained_count = predictions.n - answered.n
    notes = []
    if abstained_count:
        samples = _tables.count_noun(abstained_count, "abstained sample")
        notes = [f"{samples} left out: coverage is a share of the answered."]
    if groups and answered.groups is None:
        raise click.UsageError("--groups needs a column of groups; name it with --column groups=NAME.")
    if check:
        check_rule(
            check, answered, promise_columns, only=read_options.only, output=output, notes=notes, state=state
        )
        return
    opt.refuse_unused_names(answered)
    group_labels = answered.group_labels() if groups else None
    result: Threshold | GroupThresholds | JointThreshold
    with show_working(f"choosing among {answered.n:,} samples"), naming_file(file):
        if promise_columns is not None:
            result = choose_jointly(promise_columns, score, loss, risk, group_labels, target)
        else:
            result = choose_threshold(answered, score, loss, groups=group_labels, **target)
        opt.warn_if_worse_than_chance(answered, score, loss)
    kind: Any = answered.kind
    result = result.made_from(kind, **origin_facts(answered, score, loss, opt.typed_command()))
    save_rule(
        result, save, record, load_rule, accepts_something
    )  # before anything is printed, which may fail
    if answered.has_class_scores:
        sentence = describe_plain_threshold(result, score)
        if sentence:
            notes = [" ".join([sentence, *notes])]
    if answered.groups is not None and not isinstance(result, GroupThresholds):
        notes += _note_on_unused_groups(
            answered, result, score, loss, "one rule for all; --groups makes one for each"
        )
    rules = rules_by_group(result, single_name="all")
    columns: dict[str, list[Any]] = {"group": list(map(str, rules))}
    columns |= _tables.collect_columns(list(rules.values()), _TABLE_FIELDS)
    if isinstance(result, (JointThreshold, JointGroupThresholds)):
        columns["risk"] = _risks_of_promises(result)
    notes += hints_in_file(file, read_options, predictions, "the guarantee does not hold")
    values = [rule.value for rule in rules_with_own_threshold(result)]
    quiet = "\n".join("none" if value is None else repr(value) for value in values)
    draw = partial(draw_facts, result=result, notes=notes)
    deliver(output, result, quiet=quiet, draw=draw, columns=columns, latex=threshold_latex(columns))
    if not result.feasible:
        click.get_current_context().exit(INFEASIBLE)
    if save and output.is_screen:
        of_new = reading_options(read_options.flags(), has_truth=False)
        of_later = reading_options(read_options.flags(), has_truth=True)
        decide_command = ("decide", save, "NEW_FILE", *of_new, "-o", "decided.csv")
        check_command = ("threshold", "LATER_FILE", *of_later, "--check", save, "--state", "series.json")
        opt.suggest_commands(
            {
                decide_command: "which answers to new data may be used?",
                check_command: "does the guarantee hold on later data with labels?",
            }
        )


def _read_labelled(file: str, read_options: opt.ReadOptions, *, is_check: bool) -> Predictions | None:
    """Read a file with labels. For a check, rows without a label yet are left out, and their number is printed.

    Returns None, for a check, if the file has confidences or class scores alone: the caller then checks only these.
    Raises DataError for any other file. `is_check` is True for later data that a saved rule is checked on, False for
    the data that a rule is made from, where every row needs a label. A log is a file of answers, where rows without a
    grade have none that counts.
    """
    try:
        predictions = read_options.read(file)
        if not is_check:
            return predictions
        if predictions.log is not None:  # rows without a label are left out already
            # `scored` marks the rows that have a grade, or need none since there is no answer
            _note_incomplete_clusters(file, predictions.log.find_clusters(), predictions.log.scored)
        return predictions.rows(_find_labelled_rows(predictions))
    except BlankOutcomesError:  # a plain table, and some cells of the column of outcomes are empty
        if not is_check or read_options.missing or read_options.grades:  # or the user said how to read them
            raise
        # with this option the table is read as answers: those without an outcome, or without a confidence, are left out
        predictions = read_options._replace(missing="left_out").read(file)
        if predictions.log is not None:
            _note_incomplete_clusters(file, predictions.log.find_clusters(), predictions.log.scored)
        return predictions
    except DataError:
        # where the user names labels or a column of outcomes (what says right or wrong), the error is about these
        states_outcome = read_options.labels is not None or _OUTCOME_ROLES & set(read_options.columns)
        if not is_check or states_outcome:
            raise
        try:
            unlabelled = read_options.read_unlabelled(file)
        except AbstainError:
            unlabelled = None
        # a column of outcomes that could not be read is a mistake in the file, not a file without labels
        if unlabelled is None or _OUTCOME_ROLES & {name.lower() for name in unlabelled.other_columns}:
            raise
        return None


def _find_labelled_rows(predictions: Predictions) -> np.ndarray:
    """Return the numbers of the rows of class scores that have a label, and print on stderr how many have none.

    Raises DataError if no row has a label. Of other predictions all rows are returned: these were read without the rows
    that say nothing. Rows are counted from 0. It also prints how many clusters have rows of both kinds.
    """
    labels = predictions.labels
    all_rows = np.arange(predictions.n)
    # only floats can be NaN, which stands for a missing label; labels of two axes are one-hot rows
    if not predictions.has_class_scores or labels is None or labels.ndim != 1 or labels.dtype.kind != "f":
        return all_rows
    is_labelled = ~np.isnan(labels)
    if is_labelled.all():
        return all_rows
    if not is_labelled.any():
        raise file_error(predictions.path, "no row has a label, so there is nothing to check.")
    left_out_count = int((~is_labelled).sum())
    opt.say(
        f"note: {display_name(predictions.path)}: {left_out_count:,} of {_tables.count_noun(predictions.n, 'row')} "
        f"without a label, left out of the check."
    )
    _note_incomplete_clusters(predictions.path, predictions.clusters, is_labelled)
    return all_rows[is_labelled]


def _note_incomplete_clusters(file: Any, clusters: np.ndarray | None, is_labelled: np.ndarray) -> None:
    """Print on stderr how many clusters have rows with and rows without a label: they count now, and never again.

    `clusters` holds the cluster of each row of the file, None without clusters; `is_labelled` is a mask of the rows.
    Nothing is printed for two crossed kinds of clusters, an array of two columns: a series takes one kind.
    """
    if clusters is None or clusters.ndim != 1:
        return
    _, codes = group_codes("clusters", clusters)  # for each row, the number of its cluster from 0
    # per cluster: its rows with a label, compared below with all of its rows
    labelled_count = np.bincount(codes, is_labelled)
    incomplete_count = int(((labelled_count > 0) & (labelled_count < np.bincount(codes))).sum())
    if incomplete_count:
        opt.say(
            f"note: {_tables.count_noun(incomplete_count, 'cluster')} of {display_name(file)} also "
            f"{'has' if incomplete_count == 1 else 'have'} rows without a label. A cluster counts once, with the rows "
            f"that are labelled now: in a series, labels that come later add nothing. To count such clusters whole, "
            f"leave all of their rows out now, and give them when all are labelled."
        )


def check_unlabelled(rule: str, file: str, read_options: opt.ReadOptions, output: opt.Output) -> None:
    """Compare the confidences of a file without labels with those of a saved rule; an alarm is exit code 5.

    `rule` is the file of the rule. Raises DataError if the rule does not fit the other file, or has a threshold for
    each group. `output` says in which form the result is written, and to which file. Without labels nothing is known of
    errors: an alarm says that the confidences are distributed otherwise than those that the rule was made from.
    """
    saved_rule = load_rule(rule)
    if isinstance(saved_rule, GroupThresholds):
        raise DataError(f"{display_name(rule)}: a rule per group can be checked on data with labels only.")
    # of several promises the first, since all have one threshold on the same confidences
    threshold_to_check = first_rule(saved_rule)
    predictions, _ = read_options.read_unlabelled(file)
    score = check_rule_fits(
        rule,
        rule_score=threshold_to_check.cut.score,  # None for a rule of a column of confidences
        kind=predictions.kind,
        score=opt.explicit_value("score"),  # None unless the user typed --score
    )
    with naming_file(file):  # an error begins with the name of the file
        result = threshold_to_check.check_confidences(**rule_columns(predictions, score))
    # DataError if about all of these rows are rows that the rule was made from
    refuse_calibration_rows(file, result.from_calibration, result.n)

    def draw(console: Console) -> None:
        console.print(Text(repr(result)))
        show_notes(console, _note_on_coarse_confidences(predictions, score))

    names = ["n", "accepted", "coverage", "drift_p", "delta", "from_calibration", "holds"]
    columns = _tables.collect_columns([result], names)
    verdict = "holds" if result.holds else "alarm"
    if output.path is not None:  # the file may not be looked at, or written
        opt.say(repr(result).splitlines()[0])
    deliver(output, result, quiet=verdict, draw=draw, columns=columns, latex=repr(result))
    if not result.holds:
        click.get_current_context().exit(ALARM)


def _promise_names(check: str | None, risk: float | dict[str, float] | None) -> list[str]:
    """The names of several promises: those of the rule in the file `check`, or else of `risk`; empty for one."""
    if check is not None:
        rule = load_rule(check)
        if not isinstance(rule, (JointThreshold, JointGroupThresholds)):
            return []
        return list(map(str, first_joint_rule(rule).promises))
    return list(risk) if isinstance(risk, dict) else []


def accepts_something(rule: Any) -> bool:
    """Has the rule a threshold, or one in some group?"""
    return any(single.feasible for single in rules_with_own_threshold(rule))


def save_rule(
    rule: Any,
    path: str | None,
    record: str | None,
    load: Callable[[str], Any],
    is_usable: Callable[[Any], bool],
) -> None:
    """Write a rule and its record to these files, where they are given.

    A rule that accepts nothing does not replace one that accepts something, which is perhaps in use; neither file is
    written then, with a note. `load` reads such a rule, and `is_usable` says whether it accepts something. `path` is
    for JSON, and `record` for a text that documents the decision; None leaves the file out. AbstainError if a file
    cannot be written.
    """
    if path and not is_usable(rule) and os.path.isfile(path):
        try:
            has_usable_rule = is_usable(load(path))
        except (AbstainError, OSError):  # the file holds no rule, so that it may be replaced
            has_usable_rule = False
        if has_usable_rule:
            files = f"{path} and {record} are" if record else f"{path} is"
            opt.say(
                f"note: the new rule accepts nothing, so {files} not written: the rule that is stored there accepts "
                f"something. To replace it, delete {path} first."
            )
            return
    if path:
        note_on_replaced = _describe_replaced(rule, path, load)
        write_file(path, rule.to_json())
        if note_on_replaced:
            opt.say(note_on_replaced)
    if record:
        write_file(record, decision_record(rule, saved_as=path))


def _describe_replaced(rule: Any, path: str, load: Callable[[str], Any]) -> str:
    """Return a note on the other rule that a file holds, which `rule` replaces; empty if it holds no other rule.

    `load` reads such a rule. `target` is what was asked for, `targets` by promise for rules with several; a cascade has
    no `method`. The date is that of the file, since a rule stores none.
    """
    try:
        old_rule = load(path)
        written = datetime.fromtimestamp(os.path.getmtime(path), UTC)
    except (AbstainError, OSError):  # there is no file, or it holds no rule
        return ""
    if old_rule.to_json() == rule.to_json():
        return ""
    # `form` is the kind of target: "risk", "coverage" or "cost"
    asked_of = old_rule
    if isinstance(old_rule, GroupThresholds):  # all groups were asked for the same
        asked_of = next(iter(old_rule.thresholds.values()))
    targets = getattr(asked_of, "targets", None)  # of a rule with several promises
    if targets is not None:
        asked_for = "risk " + ", ".join(
            f"{display_name(name)}={target:g}" for name, target in targets.items()
        )
    else:
        asked_for = f"{getattr(asked_of, 'form', 'risk')} {asked_of.target:g}"
    method = getattr(asked_of, "method", None)
    return (
        f"note: {display_name(path)} held another rule ({asked_for}{f', method {method}' if method else ''}, written "
        f"{written:%Y-%m-%d %H:%M} UTC), which is replaced. A decision record of that rule no longer matches the file."
    )


def rules_by_group(result: Any, single_name: str) -> dict[Any, Any]:
    """The thresholds of a result: of each group (the worst first), of each promise, or of each promise of each group.

    They are mapped from the name of the group or the promise, or from "GROUP: PROMISE". `result` is a threshold, which
    is returned under `single_name`, or one per group, with one promise or several. A promise is an upper bound on one
    risk; with several, each has a threshold of its own here, of the same value.
    """
    if isinstance(result, JointThreshold):
        return result.promises
    if isinstance(result, JointGroupThresholds):
        rules = {}
        for group in result.worst_first():
            for name, promise in result.thresholds[group].promises.items():
                rules[f"{group}: {name}"] = promise
        return rules
    if isinstance(result, GroupThresholds):
        return {group: result.thresholds[group] for group in result.worst_first()}
    return {single_name: result}


def rules_with_own_threshold(result: Any) -> list[Threshold]:
    """One rule for each group (the worst first), or a single one: the promises of a group share their threshold."""
    if isinstance(result, JointGroupThresholds):
        return [first_rule(result.thresholds[group]) for group in result.worst_first()]
    if isinstance(result, JointThreshold):
        return [first_rule(result)]
    return list(rules_by_group(result, single_name="").values())


def _risks_of_promises(result: JointThreshold | JointGroupThresholds) -> list[float | None]:
    """The risk of the calibration samples that each promise is about, in the order of `rules_by_group`."""
    if isinstance(result, JointThreshold):
        return list(result.risks.values())
    risks: list[float | None] = []
    for group in result.worst_first():
        risks += result.thresholds[group].risks.values()
    return risks


def _note_on_unused_groups(
    predictions: Predictions, rule: Threshold | JointThreshold, score: str, loss: str, reason: str
) -> list[str]:
    """Return a sentence that says why groups are not used, with the risk of the accepted samples in each of them.

    `score` and `loss` are names that class scores need, and `reason` is why groups are not used. The highest risks come
    first, of many groups only some. They are plain means, without an interval. There are none for a rule with several
    promises, and for one that accepts nothing. The predictions must have groups, and no abstentions.
    """
    sentence = f"The groups are not used: {reason}."
    if not isinstance(rule, Threshold) or not rule.feasible:
        return [sentence]
    # the distinct labels, and for each row the place of its label among them
    labels, codes = group_codes("groups", np.asarray(predictions.group_labels(), dtype=object))
    losses = np.asarray(predictions.loss_and_confidence(score, loss).loss, dtype=np.float64)
    # class scores or confidences, as the rule takes them; `cut.score` is the score that it was made with, if any
    is_accepted = np.asarray(rule.accepts(**rule_columns(predictions, rule.cut.score)))
    loss_sums = np.bincount(codes[is_accepted], losses[is_accepted], len(labels))
    counts = np.bincount(codes[is_accepted], minlength=len(labels))
    risks = loss_sums / np.maximum(counts, 1)  # 0 where nothing is accepted, which is not shown
    texts = []
    for k in np.argsort(-risks, kind="stable"):
        risk = f"{risks[k]:.4f} of {counts[k]:,}" if counts[k] else "none accepted"
        texts.append(f"{_list_groups([labels[k]])} {risk}")
    hidden = f" and {len(texts) - _GROUPS_LISTED} more" if len(texts) > _GROUPS_LISTED else ""
    return [f"{sentence} Risk of the accepted by group: {', '.join(texts[:_GROUPS_LISTED])}{hidden}."]


def describe_plain_threshold(result: Any, score: str) -> str:
    """Make a sentence with the thresholds as plain values of the score, e.g. probabilities.

    A rule is stored in the score's rank key, which orders samples as the score does but does not round to its largest
    value; people know the plain value. Empty if key and plain value are the same, if there is no feasible threshold, or
    if all is accepted. `result` is a threshold, or one per group, with one promise or several. `value` of a rule is its
    threshold: None if there is no feasible one, -inf if all is accepted.
    """
    rules = [rule for rule in rules_with_own_threshold(result) if rule.value is not None]
    accepts_all = any(rule.value == float("-inf") for rule in rules)
    # a score that saturates rounds to its largest value, and so has a rank key of its own
    if not scores.by_name(score).saturates or not rules or accepts_all:
        return ""
    plain_values = []
    for rule in rules:
        # "1 − 3e-09", for a probability that would round to 1, with the hyphen that a user can type
        # (`or` is for type checkers: no value here is None)
        value = key_text(score, float(rule.value or 0.0)).replace("−", "-")
        # With `lies_above` the threshold is the next floating-point number above a confidence that is rejected. Both
        # look the same in a few digits, so the words are "above". Otherwise the threshold is an accepted confidence.
        plain_values.append(f"above {value}" if rule.lies_above else f"from {value} on")
    listed = ", ".join(plain_values)
    return (
        f"In values of {score}: accept {listed}. The rule stores its rank key, which orders samples alike and does not "
        f"round to the largest value."
    )


def threshold_latex(columns: dict[str, list[Any]]) -> str:
    """A LaTeX table of the main columns, one row per group."""

    def make_cell(value: Any) -> str:
        return str(value) if isinstance(value, (str, int)) else _tables.format_number(value)

    names = ("group", "value", "coverage", "risk", "risk_upper", "n")
    return _tables.latex_table(
        {name.replace("_", " "): list(map(make_cell, columns[name])) for name in names}
    )


def draw_facts(console: Console, result: Any, notes: list[str]) -> None:
    """Print a threshold (or one per group, or a cascade) and its guarantee, then the notes.

    `console` is where the text goes. `facts()` of a rule are pairs of a name and a text, such as its threshold,
    coverage and guarantee. Joint rules have several promises and print one block for all of them.
    """
    rule_of_group = rules_by_group(result, single_name="")
    if isinstance(result, JointThreshold):  # its facts name all promises
        rule_of_group = {"": result}
    if isinstance(result, JointGroupThresholds):
        rule_of_group = {group: result.thresholds[group] for group in result.worst_first()}
    for group, rule in rule_of_group.items():
        kind = type(rule).__name__  # the class is the title: "Threshold", "Cascade" ...
        words = re.sub("(?<=[a-z])(?=[A-Z])", " ", kind).lower()  # "joint threshold"
        title = kind if rule.feasible else f"No feasible {words}"
        suffix = f" for group {display_name(group)}" if group != "" else ""
        console.print(Text(title + suffix, style="bold"))
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column()
        for name, text in rule.facts():
            grid.add_row(Text(name), Text(text))
        console.print(grid)
    if isinstance(result, GroupThresholds):
        console.print(Text(f"together: {result.guarantee or 'no guarantee'}"))
    show_notes(console, notes)


def first_rule(rule: Threshold | GroupThresholds | JointThreshold) -> Threshold:
    """The rule itself, or that of the first group or promise, for what all share."""
    first: Threshold = next(iter(rules_by_group(rule, single_name="").values()))
    return first


def rule_columns(predictions: Predictions, rule_score: str | None) -> dict[str, Any]:
    """Return the columns of a file by argument of a rule's `accepts` and `check`: class scores, or confidences.

    `rule_score` is the score that the rule was made with, None if it was made from a column of confidences or for a
    learned confidence. For a rule with a score, a column of confidences holds plain values of that score
    (probabilities, say) and not its rank key, which `units` "plain" says. A learned confidence is passed on as `score`,
    so that a rule for another one refuses it. Class scores are passed as confidences (rank keys) where refusals count
    as wrong, which ranks them last. `predictions` holds what a file says of one model: class scores or
    confidences, labels or losses, weights and groups.
    """
    if predictions.has_class_scores and predictions.refused is None:
        return {predictions.kind: predictions.class_scores()}  # by kind: "logits" or "probs"
    if predictions.has_class_scores:  # and some refusals count as wrong
        return {"confidence": predictions.compute_or_take_confidence(rule_score), "units": "key"}
    # the column of that name; the first column of confidences where there is none, or no score
    confidence = predictions.compute_or_take_confidence(rule_score)
    if predictions.learned is not None:
        return {"confidence": confidence, "score": predictions.learned}
    if rule_score is None:
        return {"confidence": confidence}  # one number per sample, as in the file
    return {"confidence": confidence, "units": "plain"}


def check_rule_fits(
    rule: str, rule_score: str | None, kind: str, score: str | None, *, allow_plain: bool = True
) -> str | None:
    """Return the score of a rule; raise DataError if the rule does not fit the file.

    A rule fits class scores from which its score can be computed, and a rule of a column fits a column. A score is the
    name of a confidence that is computed from class scores, such as "max_softmax".

    Parameters
    ----------
    rule : str
        The file of the rule, for the message.
    rule_score : str or None
        The score it was made with; None if it was made from a column of confidences.
    kind : str
        What the data file holds: "logits", "probs" or "confidence".
    score : str or None
        The user's --score. It says that a column of confidences holds plain values of that score.
    allow_plain : bool
        Whether the command can use such a column.
    """
    mismatch = ""  # what the rule is for and the file is not: the second half of the message
    if score is not None and score != rule_score:
        mismatch = f"{rule_score or 'a column of confidences'}, not for {score}"
    elif rule_score is None and kind != "confidence":
        mismatch = f"a column of confidences, and the file holds {kind}"
    elif rule_score is not None and kind == "confidence" and not (allow_plain and score):
        mismatch = f"{rule_score} of class scores, and the file holds a column of confidences"
        if allow_plain:
            mismatch += f". If these are plain {rule_score} numbers, say --score {rule_score}"
    elif rule_score is not None and kind not in (*scores.by_name(rule_score).takes, "confidence"):
        # `takes` are the kinds that the score can be computed from: "logits" and, for some scores, "probs"
        mismatch = f"{rule_score}, which needs logits; the file holds {kind}"
    if mismatch:
        raise DataError(f"{display_name(rule)}: this rule is for {mismatch}.")
    return rule_score


def check_rule(
    rule: str,
    predictions: Predictions,
    promise_columns: PromiseColumns | None,
    only: dict[str, str],
    output: opt.Output,
    notes: list[str],
    state: str | None,
) -> None:
    """Check a saved rule on later data and print the verdict; an alarm ends the program with exit code 5.

    Raises DataError if the rule does not fit the data: another score or loss, or groups that are missing.

    Parameters
    ----------
    rule : str
        The path of the saved rule.
    predictions : Predictions
        The later data, without abstained samples.
    promise_columns : PromiseColumns or None
        What the same data say for the promises of a rule with several.
    only : dict
        Which rows were read (`--only`): the value of each named column; empty for all rows.
    output : Output
        Where the verdict goes.
    notes : list of str
        Sentences to print after it.
    state : str or None
        The file that holds the series of checks so far; None for a single check.
    """
    saved_rule = load_rule(rule)
    first = first_rule(saved_rule)
    score = check_rule_fits(rule, first.cut.score, predictions.kind, opt.explicit_value("score"))
    loss = "zero_one"
    if first.origin and first.origin.loss:
        loss = first.origin.loss
    requested_loss = opt.explicit_value("loss")
    if requested_loss not in (None, loss):
        raise DataError(f"{display_name(rule)}: this rule is for the loss {loss}, not for {requested_loss}.")
    columns: dict[str, Any] = {}
    if isinstance(saved_rule, GroupThresholds):
        is_known = _find_known_groups(rule, saved_rule, predictions, "left out of the check")
        row_numbers = np.flatnonzero(is_known)
        predictions = predictions.rows(row_numbers)
        promise_columns = None if promise_columns is None else promise_columns.rows(row_numbers)
        columns["groups"] = predictions.group_labels()
        _note_groups_without_threshold(saved_rule, predictions, "not checked")
    elif predictions.groups is not None:
        reason = f"{display_name(rule)} has one threshold for all"
        notes = [
            *notes,
            *_note_on_unused_groups(predictions, saved_rule, score or "max_softmax", loss, reason),
        ]
    columns["clusters"] = predictions.clusters
    opt.note_ignored_columns(predictions, "sample_weight")
    with naming_file(predictions.path):
        # losses do not depend on the score, so any name will do
        losses = predictions.loss_and_confidence(score or "max_softmax", loss).loss
        columns |= rule_columns(predictions, score)

    check_losses: Any = losses
    if isinstance(saved_rule, (JointThreshold, JointGroupThresholds)) and promise_columns is not None:
        columns |= check_columns(saved_rule, rule, promise_columns)
        check_losses = losses if promise_columns.losses is None else promise_columns.losses

    def check(previous: Any) -> Any:
        with naming_file(predictions.path):
            return saved_rule.check(check_losses, previous=previous, **columns)

    notes = [*notes, *_note_on_coarse_confidences(predictions, score)]
    calibration = [first.origin.sha256] if first.origin and first.origin.sha256 else []
    row_fingerprints = None
    if state is not None and first.clusters is None:  # a cluster counts once anyway
        row_fingerprints = fingerprint_predictions(predictions, score)
    look = Look(
        files=[str(predictions.path)],
        only=only,
        calibration=calibration,
        state=state,
        rows=row_fingerprints,
    )
    check_type = Check if isinstance(saved_rule, Threshold) else GroupChecks
    run_look(check, check_type=check_type, look=look, output=output, notes=notes)


def _note_on_coarse_confidences(predictions: Predictions, score: str | None) -> list[str]:
    """Return a sentence if rows of the calibration data could not be recognised among these; otherwise none.

    They are recognised by their confidences, which does not work where many rows share one. `score` names the
    confidence that is computed from class scores; None for a column of confidences.
    """
    confidence = predictions.compute_or_take_confidence(score)
    # The share of rows (0 to 1) with the confidence of another row; 0 where few share one. Answers without a confidence
    # are ranked last by NO_CONFIDENCE, the lowest number, and do not count.
    share = share_too_coarse(confidence[np.isfinite(confidence) & (confidence > NO_CONFIDENCE)])
    if not share:
        return []
    return [
        f"{share:.0%} of the confidences are those of another row too, so rows of the calibration data cannot be "
        f"recognised among these, unless they are all there and alone. Give only data that came after the calibration."
    ]


def _find_known_groups(
    rule_file: str, rule: GroupThresholds, predictions: Predictions, treatment: str
) -> np.ndarray:
    """Return a mask of the rows whose group the rule knows, and print on stderr how many others there are.

    `treatment` says what happens to the others: "not accepted". Raises DataError without a column of groups, or if the
    rule knows none of them. `rule_file` is for messages; `rule.thresholds` has one rule for each group that it knows.
    """
    if predictions.groups is None:
        raise DataError(
            f"{display_name(rule_file)}: this rule is per group, and {display_name(predictions.path)} has no column of "
            f"groups. Name it with -c groups=NAME."
        )
    # the distinct labels, and for each row the place of its label among them
    labels, codes = group_codes("groups", np.asarray(predictions.group_labels(), dtype=object))
    is_known = np.array([label in rule.thresholds for label in labels])[codes]
    if is_known.all():
        return is_known
    unknown = _list_groups(label for label in labels if label not in rule.thresholds)
    if not is_known.any():
        raise file_error(
            predictions.path,
            f"has only groups that {display_name(rule_file)} does not know ({unknown}). It is for "
            f"{_list_groups(rule.thresholds)}.",
        )
    unknown_count = int((~is_known).sum())
    opt.say(
        f"note: {_tables.count_noun(unknown_count, 'row')} of {display_name(predictions.path)} "
        f"{'is' if unknown_count == 1 else 'are'} {treatment}: {display_name(rule_file)} has no threshold for "
        f"group {unknown}."
    )
    return is_known


def _note_groups_without_threshold(rule: GroupThresholds, predictions: Predictions, treatment: str) -> None:
    """Print on stderr how many rows are of groups in which the rule accepts nothing, and what happens to them.

    `treatment` is "not checked", say. Groups that the rule does not know are no part of it. The predictions must have
    groups; nothing is printed if the rule accepts something in each of them.
    """
    # the distinct labels, and for each row the place of its label among them
    labels, codes = group_codes("groups", np.asarray(predictions.group_labels(), dtype=object))
    # a threshold is infeasible if none could be certified: it rejects everything
    is_idle = np.array(
        [label in rule.thresholds and not rule.thresholds[label].feasible for label in labels], dtype=bool
    )
    row_count = int(is_idle[codes].sum())
    if row_count:
        idle_groups = _list_groups(label for label, is_one in zip(labels, is_idle) if is_one)
        opt.say(
            f"note: {_tables.count_noun(row_count, 'row')} of group {idle_groups} {treatment}: the rule accepts "
            f"nothing there and promises nothing."
        )


def _list_groups(labels: Iterable[Any]) -> str:
    """The names of some groups, separated by commas; of many only the first ones."""
    names = [display_name(label) if label not in (None, "") else "(empty)" for label in labels]
    hidden = f" and {len(names) - _GROUPS_LISTED} more" if len(names) > _GROUPS_LISTED else ""
    return ", ".join(names[:_GROUPS_LISTED]) + hidden


@click.command("decide", cls=opt.DocumentedCommand)
@click.argument("rule", type=click.Path(exists=True, dir_okay=False))
@click.argument("file", type=opt.InputFile())
@opt.name_option("scores", "The column of confidences holds plain values of this score.")
@opt.with_read_options
@click.option("--name", "column_name", default="accepted", help="Name of the added column.")
@opt.output_option(
    "-o", "--output", "path", kind="table", help="Write the table to this file instead of the screen."
)
def decide(
    rule: str,
    file: str,
    read_options: opt.ReadOptions,
    score: str | None,
    column_name: str,
    path: str | None,
) -> None:
    """Apply a saved rule to new data without labels: adds a column `accepted`, 1 or 0.

    RULE is what `abstain threshold --save` wrote. It stores which confidence it is about, and computes it from the
    class scores of FILE; another confidence is refused. The output has the columns of FILE, except class scores, and
    `accepted`; for class scores also `prediction` and the score, such as `max_softmax`. It is CSV on the screen, and in
    a file what its name says (.csv, .tsv, .json, .jsonl, .parquet, .arrow, .feather). No column of FILE is replaced.

    Examples:
      abstain decide rule.json new.csv -o decided.csv
      abstain decide rule.json new.npz > decided.csv
      abstain decide rule.json new.parquet -o decided.parquet
      abstain decide rule.json table.csv --column confidence=p_max --score max_softmax
    """
    saved_rule = load_rule(rule)
    predictions, other_columns = _read_to_decide(rule, first_rule(saved_rule), file, read_options)
    rule_score = check_rule_fits(rule, first_rule(saved_rule).cut.score, predictions.kind, score)
    is_known = np.ones(predictions.n, dtype=bool)
    if isinstance(saved_rule, GroupThresholds):
        is_known = _find_known_groups(rule, saved_rule, predictions, "not accepted")
        _note_groups_without_threshold(saved_rule, predictions, "not accepted")
    computed: dict[str, Any] = {}
    with naming_file(file):
        confidence = predictions.compute_or_take_confidence(rule_score)
        if rule_score is not None and predictions.has_class_scores:
            computed["prediction"] = predictions.likeliest_classes()
            computed[rule_score] = scores.display(rule_score, confidence)
        rows_to_decide = predictions if is_known.all() else predictions.rows(np.flatnonzero(is_known))
        columns_to_decide = rule_columns(rows_to_decide, rule_score)
        if isinstance(saved_rule, GroupThresholds):
            columns_to_decide["groups"] = rows_to_decide.group_labels()
        accepted = np.zeros(predictions.n, dtype=bool)
        accepted[is_known] = saved_rule.accepts(**columns_to_decide)
    has_confidence = np.isfinite(confidence) & (confidence > NO_CONFIDENCE)
    sample_shapes = ((len(accepted),), (len(accepted), 1))  # columns with one value per sample
    user_columns = {name: values for name, values in other_columns.items() if values.shape in sample_shapes}
    clusters = _find_clusters(saved_rule, read_options, user_columns)
    if clusters is not None:
        _note_large_clusters(rule, saved_rule, rows_to_decide, clusters[is_known])
    is_noted = _check_scale(rule, saved_rule, predictions, confidence)
    if not is_noted and not isinstance(saved_rule, GroupThresholds):
        _note_other_distribution(first_rule(saved_rule), predictions, rule_score, has_confidence)
    if predictions.abstained is not None:
        accepted &= ~predictions.abstained
        has_confidence |= predictions.abstained  # they are no answers, and need none
    missing_count = int((~has_confidence).sum())
    if missing_count:
        opt.say(
            f"note: {_tables.count_noun(missing_count, 'row')} of {display_name(file)} "
            f"{'has no confidence and is' if missing_count == 1 else 'have no confidence and are'} not accepted."
        )
    columns = add_columns(file, user_columns, computed, {column_name: accepted.astype(int)})
    if path is None:
        write_text(None, table_text(columns))
    else:
        write_table(columns, path)
        opt.say(f"wrote {path}")
    click.echo(f"accepted {int(accepted.sum()):,} of {len(accepted):,} ({accepted.mean():.1%})", err=True)
    if not accepts_something(saved_rule):
        reason = first_rule(saved_rule).note or "it has no threshold."
        opt.say(f"note: {display_name(rule)} accepts nothing, whatever the data: {reason}")


def _read_to_decide(
    rule_file: str, rule: Threshold, file: str, read_options: opt.ReadOptions
) -> opt.UnlabelledFile:
    """Read new data to which a rule is applied; DataError where options of the command that made the rule are missing.

    These are the learned confidence that the rule is for, and the column that says which questions have an answer. A
    note is printed where the file is the one that the rule was made from.
    """
    if rule.cut.learned is not None and not read_options.learned_confidence_files:
        raise DataError(
            f"{display_name(rule_file)}: this rule is for the learned confidence {rule.cut.learned}. Name the file of "
            f"that learned confidence: --confidence FILE."
        )
    with show_working(f"reading {display_name(file)}"):
        unlabelled = read_options.read_unlabelled(file)
    origin = rule.origin
    note_calibration_files([file], [] if origin is None else [origin.sha256])
    refuse_unnamed_answers(rule_file, origin.command if origin else None, *unlabelled)
    return unlabelled


def _find_clusters(
    rule: Threshold | GroupThresholds | JointThreshold,
    read_options: opt.ReadOptions,
    columns: dict[str, np.ndarray],
) -> np.ndarray | None:
    """Return the cluster of each new row; None for a rule made without clusters, or where no column has them.

    Their column is the one that the user names, or that the command named that made the rule, or called `cluster`.
    `columns` are those of the file by name, one value per row. The caller uses them only for a note on large clusters.
    """
    first = first_rule(rule)  # of several groups or promises, which all have clusters or none
    if first.clusters is None:
        return None
    command = first.origin.command if first.origin else None  # the command line that made the rule
    # the first two may be None, which is no column
    for name in (read_options.columns.get("clusters"), cluster_column(command), "clusters", "cluster"):
        if name in columns:
            return columns[name].reshape(-1)
    return None


def _note_large_clusters(
    rule_file: str,
    rule: Threshold | GroupThresholds | JointThreshold,
    predictions: Predictions,
    clusters: np.ndarray,
) -> None:
    """Print a note on stderr if a cluster has more samples than the promise allows for, by group if there are groups.

    The promise on whole clusters takes none to be larger than the largest one in the calibration data. `predictions`
    holds rows of groups that the rule knows, and `clusters` the cluster of each of them.
    """
    rule_of_group = rule.thresholds if isinstance(rule, GroupThresholds) else {"": rule}
    groups = np.zeros(predictions.n, dtype=object)
    groups[:] = predictions.group_labels() if isinstance(rule, GroupThresholds) else ""
    for group, rule_in_group in rule_of_group.items():
        # samples of the largest calibration cluster; None for a rule without clusters
        size_limit = first_rule(rule_in_group).largest
        rows = np.flatnonzero(groups == group)
        if size_limit is None or not len(rows):
            continue
        _, codes = group_codes("clusters", clusters[rows])
        sizes = np.bincount(codes)
        too_large_count = int((sizes > size_limit).sum())
        if too_large_count:
            of_group = f" of group {display_name(group)}" if group != "" else ""
            opt.say(
                f"note: {_tables.count_noun(too_large_count, 'cluster')}{of_group} in {display_name(predictions.path)} "
                f"{'has' if too_large_count == 1 else 'have'} more samples (up to {sizes.max()}) than the largest one "
                f"in calibration ({size_limit:g}), so the promise of {display_name(rule_file)} does not hold."
            )


def _check_scale(
    rule_file: str,
    rule: Threshold | GroupThresholds | JointThreshold,
    predictions: Predictions,
    confidence: np.ndarray,
) -> bool:
    """Raise DataError, or print a note, if many new confidences exceed all calibration data, as percentages do.

    It is an error if most of them exceed the largest one by more than the range of the calibration data, for a column
    of confidences none of which was below 0 in calibration. Others have no known bound, so a note must do. Returns
    whether a note was printed, which needs a share above 10%. `confidence` has one number per new row, NaN where there
    is none; NaN exceeds nothing.
    """
    # a cut is the threshold with what the rule knows of the confidences of its calibration data
    cuts = [single.cut for single in rules_by_group(rule, single_name="").values()]
    largest = max(cut.highest for cut in cuts)  # of the calibration data
    smallest = min(cut.lowest for cut in cuts)
    far_above = largest + (largest - smallest)
    is_of_a_column = cuts[0].source == "own"  # not of a score of class scores, nor of a named score
    if is_of_a_column and smallest >= 0 and float((confidence > far_above).mean()) > _MAJORITY:
        raise file_error(
            predictions.path,
            f"most of the confidences lie far above those that {display_name(rule_file)} was made from ({smallest:g} "
            f"to {largest:g}), up to {np.nanmax(confidence):g}. Give them on the scale of the calibration.",
        )
    share_above = float((confidence > largest).mean())
    if share_above > _LARGE_SHARE_ABOVE:
        opt.say(
            f"note: {share_above:.0%} of the confidences lie above all calibration data ({largest:g}). Are both on "
            f"the same scale?"
        )
    return share_above > _LARGE_SHARE_ABOVE


def _note_other_distribution(
    rule: Threshold, predictions: Predictions, rule_score: str | None, has_confidence: np.ndarray
) -> None:
    """Print a note if the confidences of new data are clearly distributed otherwise than those of the calibration.

    `rule_score` is the score that the rule was made with, None for a column of confidences. Only answers with a
    confidence are compared: `has_confidence` is a mask of the rows that have one, and abstentions are left out.
    """
    if predictions.abstained is not None:
        has_confidence = has_confidence & ~predictions.abstained
    if not rule.feasible or not has_confidence.any():  # an infeasible rule accepts nothing
        return
    compared = predictions.rows(np.flatnonzero(has_confidence))
    with naming_file(predictions.path):  # an error begins with the name of the file
        # p-value of the hypothesis that both have one distribution
        drift_p = rule.check_confidences(**rule_columns(compared, rule_score)).drift_p
    if drift_p <= CLEARLY_OTHER:  # 0.001
        opt.say(
            f"note: the confidences of {display_name(predictions.path)} differ from those of the calibration "
            f"({_tables.p_value_text(drift_p)}). The guarantee is for data of the same population and scale."
        )


def add_columns(
    file: str, user_columns: dict[str, Any], computed: dict[str, Any], decision: dict[str, Any]
) -> dict[str, np.ndarray]:
    """Add computed columns and the decision to the user's columns, none of which is replaced.

    All columns are arrays by name with one value per sample, and are returned as vectors: the user's first, the
    decision last. A computed column whose name exists gets another name, with a note on stderr. Programs read the
    decision by its name, so an existing column of that name raises DataError. `file` is for these messages. None of the
    arguments is changed; `decision` has one column, with 1 for accepted and 0 for rejected.
    """
    for name in decision:
        if name in user_columns:
            raise file_error(
                file,
                f"has a column `{display_name(name)}` already, which is not replaced. Name the new one with --name.",
            )
    columns = dict(user_columns)
    for name, values in computed.items():
        free_name = name
        while free_name in columns or free_name in decision:
            free_name += "_computed"
        if free_name != name:
            opt.say(
                f"note: {display_name(file)} has a column `{name}`, which stays; the computed one is `{free_name}`."
            )
        columns[free_name] = values
    return {name: np.asarray(values).reshape(-1) for name, values in (columns | decision).items()}


@click.command("clinical", cls=opt.DocumentedCommand)
@click.argument("file", type=opt.InputFile())
@click.option("--positive", required=True, metavar="CLASS", help="The positive class.")
@opt.shared_options("score", "level")
@opt.with_read_options
@opt.with_output_options
def clinical(
    file: str,
    read_options: opt.ReadOptions,
    output: opt.Output,
    positive: str,
    score: str,
    level: float,
) -> None:
    """Sensitivity, specificity and predictive values among the accepted samples, by threshold.

    FILE holds class scores with labels, or columns of labels, predictions and confidences. There is one row for each
    share of 100%, 90% ... 10% of the answered; every interval is exact on its own. Refused cases count in the coverage.

    Examples:
      abstain clinical scans.npz --positive 1
      abstain clinical scans.csv --positive ill --latex
    """
    predictions = read_options.read(file)
    opt.note_chosen_confidence(predictions)  # which of several confidences is taken
    labels = predictions.without_abstentions().true_and_given_classes().true_class
    # as the labels are written: "1" is the text of a word, or the number 1.0 where labels are numbers
    positive_label: Any = positive
    if labels.dtype.kind in "biuf" and _tables.is_number(positive):
        positive_label = float(positive)
    with naming_file(file):  # an error begins with the name of the file
        # the class is shown as the user typed it, even where labels are numbers
        table = replace(clinical_of(predictions, score, positive_label, level), positive=positive)
    grid = table.grid()  # cells of text by title, such as "0.5 [0.4, 0.6]"; one row for each share
    opt.note_ignored_columns(predictions, "sample_weight")

    def draw(console: Any) -> None:
        samples = _tables.count_samples(table.n, cluster_counts(predictions.clusters))
        title = f"Among the accepted, positive: {positive}, {samples}, {level:.0%} intervals below"
        console.print(Text(title, style="bold"))
        columns = {}
        for name, cells in grid.items():
            if name != "prevalence":  # the screen has the other columns only; --csv and --json have it
                columns[name] = [_stack_limits(cell, range_dash(console)) for cell in cells]
        console.print(plain_table(columns))

    deliver(output, table, quiet="\n".join(grid["sensitivity"]), draw=draw)


def _stack_limits(cell: str, dash: str) -> str:
    """Put the limits of "0.5 [0.4, 0.6]" on a second line: "0.4-0.6"."""
    return re.sub(r" \[(.*), (.*)\]", rf"\n\1{dash}\2", cell)
