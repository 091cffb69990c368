"""The command `abstain improve`: learn a better confidence from what a file holds, and say whether it is proven."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, get_args

import click
import numpy as np
from rich.console import Console
from rich.text import Text

import abstain
from abstain._risk import explain_wrong_risk
from abstain._tables import count_noun
from abstain.cli import options as opt
from abstain.cli.main import INFEASIBLE
from abstain.cli.screen import deliver, plain_table, show_notes, show_working, write_file
from abstain.confidence import LearnedConfidence, LearnedRule, candidates, learn_and_select
from abstain.confidence.learned import FROM_ANSWERS_ALONE, Keep
from abstain.formats import Predictions
from abstain.formats.safety import display_name, naming_file
from abstain.report.certified import origin_facts
from abstain.thresholds.later_options import reading_options

_KEEP_HELP = (
    "lowest: keep the candidate with the lowest AURC on rows it was not fitted on. proven: keep one only if the test "
    "proves it better than the best single confidence."
)
_RISK_HELP = (
    "Also choose a threshold with at most this risk: the confidence is learned on one part of the rows, and the "
    "threshold is certified on the others."
)
_FIT_SHARE_HELP = (
    "With --risk: share of the rows to learn from. By default half, but not more than 2,000 rows: more improve the "
    "ranking little, and every row that certifies makes the promise easier to prove."
)


# what each candidate but the baseline is, for the line below the table
_CANDIDATE_WORDS = {
    candidates.TEMPERATURE: "max softmax at another temperature",
    candidates.P_NORM: "the largest class score over a norm of all of them",
    candidates.COMBINED: "the confidences of the file, combined without labels",
    candidates.LOGITS: "a logistic regression on features of the class scores",
    candidates.CLASS_OFFSETS: "that of `logits` with an offset for each predicted class",
    candidates.RUNNER_UP: "that of `class offsets` with one more for each class in the second place",
    candidates.SIGNALS: "a model of all confidences, features and categories of the file",
}


@click.command("improve", cls=opt.DocumentedCommand)
@click.argument("file", type=opt.InputFile())
@click.option(
    "--keep", type=click.Choice(get_args(Keep)), default="lowest", show_default=True, help=_KEEP_HELP
)
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True, help="Folds that judge it.")
@opt.shared_options("level")
@click.option("--rng", "--seed", "rng", type=int, default=0, help="Random seed of folds and parts.")
@opt.fraction_option("--risk", _RISK_HELP, explain_refusal=explain_wrong_risk)
@opt.delta_option("Probability that the guarantee of --risk fails.")
@opt.fraction_option("--fit-share", _FIT_SHARE_HELP)
@opt.output_option("--save", kind="json", help="Save the confidence, for --confidence of other commands.")
@opt.output_option("--save-rule", kind="json", help="With --risk: save the rule with its guarantee.")
@opt.with_read_options
@opt.with_output_options
def improve(
    file: str,
    read_options: opt.ReadOptions,
    output: opt.Output,
    keep: Keep,
    folds: int,
    level: float,
    rng: int,
    risk: float | None,
    delta: float,
    fit_share: float | None,
    save: str | None,
    save_rule: str | None,
) -> None:
    """Learn a better confidence from all that a file holds, and say whether the gain is proven.

    FILE is labelled data: class scores with labels, or answers with one or more confidences. Name further columns with
    -c features=A,B (numbers, or texts whose length counts) and -c categories=C (topics and the like). Nothing that
    tells the right answer may be among them. Candidates are judged on rows that they were not fitted on.

    The saved confidence is plain numbers in JSON. Use it with --confidence in evaluate, compare, threshold, decide,
    cascade and report, on files with the same columns.

    Examples:
      abstain improve answers.parquet -c confidence=logprob,stated -c features=tokens -c categories=topic
      abstain improve log.eval -c confidence=* --save confidence.json     all confidences of a log
      abstain improve preds.npz --keep proven
      abstain improve preds.npz --risk 0.1 --save confidence.json --save-rule rule.json
      abstain threshold fresh.parquet --confidence confidence.json --risk 0.1
    """
    if save_rule and risk is None:
        raise click.UsageError("--save-rule goes with --risk.")
    if fit_share is not None and risk is None:
        raise click.UsageError("--fit-share goes with --risk.")
    with show_working(f"reading {display_name(file)}"):
        all_rows = read_options.read_to_learn(file)
        predictions = answered_rows(all_rows)
    losses = predictions.own_or_zero_one_losses()
    settings: dict[str, Any] = {"keep": keep, "folds": folds, "level": level, "rng": rng}
    settings |= {"clusters": predictions.clusters, **predictions.learning_inputs()}
    rule = None
    with show_working(f"learning from {count_noun(len(losses), 'row')}"), naming_file(file):
        if risk is None:
            learned = abstain.learn_confidence(
                loss=losses, sample_weight=predictions.sample_weight, **settings
            )
        else:
            opt.note_ignored_columns(predictions, "sample_weight")
            rule = learn_and_select(loss=losses, risk=risk, delta=delta, fit_share=fit_share, **settings)
            learned = rule.confidence
    unanswered_count = all_rows.n - predictions.n
    if unanswered_count:  # stored with the confidence, so that later commands ask which rows have an answer
        left_out = f"{count_noun(unanswered_count, 'row')} without an answer left out: {FROM_ANSWERS_ALONE}."
        learned = replace(learned, notes=(left_out, *learned.notes))
    if save:
        write_file(save, learned.to_json())
    if save_rule and rule is not None:
        facts = origin_facts(predictions, score="learned", loss="zero_one", command=opt.typed_command())
        facts.pop("score", None)
        write_file(save_rule, rule.threshold.made_from("confidence", **facts).to_json())
    quiet = repr(learned.result.aurc) if learned.result is not None else "-"
    draw = partial(
        _draw,
        learned=learned,
        rule=rule,
        model_name=predictions.name,
    )
    deliver(output, learned, quiet=quiet, draw=draw, latex=repr(learned))
    if save and output.is_screen:
        _suggest_after(
            read_options, save, save_rule if rule is not None and rule.threshold.feasible else None
        )
    if rule is not None and not rule.threshold.feasible:
        click.get_current_context().exit(INFEASIBLE)


def _suggest_after(read_options: opt.ReadOptions, save: str, save_rule: str | None) -> None:
    """Print what to run with a saved confidence, with the options by which its file was read.

    `save` is the file of the learned confidence, a saved model, and `save_rule` that of a threshold for it, None where
    there is none. FRESH_FILE and NEW_FILE stand for files that the user puts in.
    """
    # options about right and wrong answers are left out for unlabelled data, which have none; --confidence names the
    # saved confidence in both
    flags_for_unlabelled = [*reading_options(read_options.flags(), has_truth=False), "--confidence", save]
    flags_for_labelled = [*reading_options(read_options.flags(), has_truth=True), "--confidence", save]
    # from a command line to the question that it answers
    commands = {
        ("evaluate", "FRESH_FILE", *flags_for_labelled): "how good is it on rows that it has not seen?"
    }
    if save_rule is None:
        commands[("threshold", "FRESH_FILE", *flags_for_labelled, "--risk", "0.1")] = (
            "below which confidence not to answer?"
        )
    else:
        commands[("decide", save_rule, "NEW_FILE", *flags_for_unlabelled)] = (
            "which answers to new data may be used?"
        )
    opt.suggest_commands(commands)


def answered_rows(predictions: Predictions) -> Predictions:
    """Return the rows that the model answered: a question without an answer teaches nothing about a confidence."""
    answered = predictions.without_abstentions()
    if answered.refused is None:
        return answered
    return answered.rows(np.flatnonzero(~answered.refused))


def _draw(
    console: Console,
    learned: LearnedConfidence,
    rule: LearnedRule | None,
    model_name: str,
) -> None:
    """Print the verdict, the candidates and the contributions, then the threshold if one was chosen.

    `rule` is a threshold on the learned confidence, certified on rows that were not used to learn it; None without one.
    A candidate is a way to compute a confidence; the first is the baseline, the best confidence that the file has
    already, of which `_CANDIDATE_WORDS` says nothing. `console` is where the text goes. `learned.tables()` returns
    columns of text by caption.
    """
    title = f"{display_name(model_name)}: a confidence learned from {count_noun(learned.n, 'row')}"
    console.print(Text(title, style="bold"))
    console.print(Text(learned.verdict))
    # in the table of candidates a star follows the name of the one that was kept
    for caption, columns in learned.tables().items():
        console.print()
        console.print(Text(caption, style="dim"))
        aligned_to_the_right = ("p",)  # the column of p-values
        console.print(plain_table(columns, right=aligned_to_the_right))
    if rule is not None:
        console.print()
        console.print(Text(repr(rule.threshold)))
        # a sentence on how the rows were split, with the name of the option in place of the argument's
        advice = rule.advice.replace("`fit_share`", "--fit-share")
        split = f"{rule.n_fit:,} rows to learn, {rule.n_certify:,} others to certify the threshold. {advice}"
        show_notes(console, [split])
    candidate_names = [result.name for result in learned.candidates]
    meanings = [f"{name}: {_CANDIDATE_WORDS[name]}" for name in candidate_names if name in _CANDIDATE_WORDS]
    if meanings:  # there are candidates besides the baseline, so it must be said which one was kept
        console.print(Text(f"* kept. {'; '.join(meanings)}."))
    show_notes(console, learned.notes)
