"""The command `abstain compare`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
from rich.console import Console
from rich.text import Text

import abstain
from abstain import metrics
from abstain._outputs import locked
from abstain._tables import count_noun, count_samples, format_p_value
from abstain.cli import options as opt
from abstain.cli.folder_table import compare_folders, hold_several_tasks, holds_folder
from abstain.cli.missing_confidences import missing_confidence_notes
from abstain.cli.screen import deliver, plain_table, show_notes, show_working, stacked_cell, write_file
from abstain.errors import AbstainError
from abstain.evaluation import Comparison, ComparisonSeries
from abstain.evaluation.graded import find_further_metric
from abstain.evaluation.guessing_note import note_on_guessing
from abstain.formats import Predictions
from abstain.formats.alignment import (
    align_models,
    check_shared_columns_equal,
    comparison_arguments,
    missing_weights_error,
)
from abstain.formats.columns import as_texts
from abstain.formats.file_names import model_name
from abstain.formats.predictions import attempt_notes, reading_notes
from abstain.formats.safety import display_name, list_names
from abstain.metrics.answer_metrics import is_answer_metric
from abstain.metrics.definitions import AURC
from abstain.scores import NAMES, by_name

_MAX_LISTED = 4  # tasks or confidences that a page names
_MAX_SUMMARIES = 4  # with more files, it is not printed how each one was read
_SCORES_HELP = "Confidences computed from class scores. Several, or all, are compared with each other."
_ENGINE_HELP = "Compute backend. files: two tables of losses and confidences of any size."
_STATE_HELP = (
    "With --anytime: the looks so far. Read if it is there, and written with this look; says what is decided."
)
_BY_HELP = "Compare the values of this column (model) of one long table with each other."
_BOARD_HELP = "Also write the ranking as an interactive page, for up to hundreds of models."


@click.command("compare", cls=opt.DocumentedCommand)
@click.argument("files", nargs=-1, required=True, type=opt.InputFile(folders=True))
@opt.name_option(
    "metrics",
    "Metric of the ranking, e.g. aurc, aurc@0.8-1 (between two coverages); listed below.",
    default="aurc",
)
@opt.name_option("scores", _SCORES_HELP, several=True, default=["max_softmax"])
@opt.shared_options("loss", "names", "level", "repetitions")
@click.option("--engine", type=click.Choice(["memory", "files"]), default="memory", help=_ENGINE_HELP)
@click.option("--unpaired", is_flag=True, help="The files hold different test sets.")
@click.option("--by", metavar="COLUMN", help=_BY_HELP)
@opt.shared_options("anytime", "planned")
@opt.output_option("--state", kind="json", verdict_first=True, help=_STATE_HELP)
@opt.output_option("--html", "board", kind="page", help=_BOARD_HELP)
@click.option("--title", default="Leaderboard", help="Title of that page.")
@opt.with_read_options
@opt.with_output_options
def compare(
    files: tuple[str, ...],
    read_options: opt.ReadOptions,
    output: opt.Output,
    names: tuple[str, ...],
    engine: str,
    board: str | None,
    title: str,
    metric: str,
    scores: list[str] | str,
    loss: str,
    level: float,
    repetitions: bool,
    unpaired: bool,
    by: str | None,
    anytime: bool,
    planned: int | None,
    state: str | None,
) -> None:
    """Rank models by AURC (or another metric) on the same samples; is one better than the others?

    P-values are two-sided. They and the intervals of differences are corrected for the number of pairs (Holm).
    The difference between models that share a letter is not significant.

    Rows are matched by their ids (or questions), and by position if no file has ids. If several files are
    compared, a question without an answer counts as wrong and is ranked last unless --unanswered says otherwise, so
    that refusing hard questions is no advantage. A model without the named confidence is not ranked. Several
    confidences (-c confidence=A,B) are compared, too. Files without any confidence are ranked by accuracy.

    A folder is searched for logs: one row for each model and task, ranked by accuracy within the task, with the
    metric besides. So are several logs that a harness wrote for different tasks.

    Examples:
      abstain compare a.npz b.npz c.npz
      abstain compare gpt.csv claude.csv --metric augrc
      abstain compare gpt.csv claude.csv --metric accuracy
      abstain compare preds.npz --score max_softmax,max_logit,energy
      abstain compare a.npz b.npz --unpaired          different test sets
      abstain compare a.parquet b.parquet --engine files
      abstain compare mmlu/*.parquet -c confidence=stated --html board.html
      abstain compare runs/                a folder of logs, by model and task
      abstain compare runs/ --html runs.html
      abstain compare all.csv --by model   one long table of several models
      abstain compare a.csv b.csv --anytime --planned 5000 --state run.json
    """
    if (planned or state) and not anytime:
        raise click.UsageError("--planned and --state go with --anytime.")
    if anytime and (unpaired or engine == "files"):
        raise click.UsageError(
            "--anytime needs the same samples in memory: leave --unpaired and --engine out."
        )
    if engine == "memory" and holds_folder(files):
        if is_answer_metric(metric):
            opt.refuse_unanswered_as_wrong([metric], read_options.unanswered)
        if names or unpaired or by or anytime:
            raise click.UsageError("a folder of logs takes no --names, --unpaired, --by or --anytime.")
        compare_folders(files, read_options, output, metric=metric, level=level, page=board, title=title)
        return
    if by and (len(files) > 1 or engine == "files" or names):
        raise click.UsageError("--by divides one file that is read in memory, and names the models itself.")
    file_by_name = name_files(files, names)
    if engine == "files":
        if board:
            raise click.UsageError("--html needs the samples in memory: leave --engine files out.")
        result = compare_files(
            file_by_name,
            read_options,
            metric=metric,
            level=level,
            repetitions=repetitions,
            unpaired=unpaired,
        )
        notes: list[str] = []
    else:
        if opt.explicit_value("metric") is None and nothing_is_ranked(file_by_name, read_options):
            metric = "accuracy"
        by_answers = find_further_metric(metric) is not None
        if by_answers and anytime:
            raise click.UsageError(f"--anytime compares by metrics of the ranking, not by {metric}.")
        compare_models = compare_graded if by_answers else compare_in_memory
        try:
            compared = compare_models(
                file_by_name,
                read_options,
                metric=metric,
                scores=scores,
                loss=loss,
                level=level,
                repetitions=repetitions,
                unpaired=unpaired,
                by=by,
                anytime=anytime,
                planned=planned,
            )
        except AbstainError:
            is_plain = not (names or unpaired or by or anytime or opt.explicit_value("metric"))
            if not is_plain or not hold_several_tasks(files, read_options):
                raise
            opt.say(
                "note: these are logs of several tasks, so they are compared task by task, as in a folder."
            )
            compare_folders(files, read_options, output, metric="aurc", level=level, page=board, title=title)
            return
        result = compared.comparison
        notes = compared.notes
        if board:
            from abstain.report.board import calibration_notes  # pages are loaded only where one is asked for

            content = abstain.report.board_content(result, compared.contestants, loss)
            about = describe_contest(result, compared.contestants)
            about += calibration_notes(compared.contestants)
            abstain.report.save_board(
                result, board, title=title, notes=[*about, *notes], command=opt.typed_command(), **content
            )
            opt.say(f"wrote {board}")
    if "groups" in read_options.columns and not board:
        column = display_name(read_options.columns["groups"])
        notes.append(
            f"This ranking is of all samples: -c groups={column} adds one within each group to a page (--html "
            f"board.html), and --only {column}=VALUE ranks within one group."
        )
    if state is not None:
        show_growing(result, state, output, notes)
        return
    draw = partial(draw_comparison, result=result, notes=notes)
    # in JSON and LaTeX as on the screen: how unanswered questions count, and how many they are
    with_notes = replace(result, notes=(*result.notes, *notes))
    latex = None
    if output.form == "latex" and len(file_by_name) == 1 and by is None:
        latex = with_notes.to_latex(*file_by_name)  # the scores of one model
    deliver(output, with_notes, quiet="\n".join(result.winners), draw=draw, latex=latex)


def show_growing(result: Comparison, state: str, output: opt.Output, notes: list[str]) -> None:
    """Add a look to the series in the file `state`, print the comparison with what is decided, then save the series.

    The file is locked meanwhile, begun if it does not exist, and written whole or not at all. A look at as many samples
    as the last one is not added. Raises AbstainError if the file cannot be read or locked, or holds a series of other
    models, another metric, level or planned size, or a look at more samples. `result` is the comparison to show, made
    with --anytime. `output` says in which form the result is written, and to which file. A look is an evaluation of all
    data that came in so far. `notes` are printed below those of the series.
    """
    with locked(state):
        if os.path.lexists(state):
            series = ComparisonSeries.load(state)
            grown = series.add(result)  # the same series if it is as large as the last look
            if grown is series:
                opt.say(f"note: {display_name(state)} has a look at these {result.n:,} samples already.")
        else:
            series = None
            grown = ComparisonSeries.begin(result)
        draw = partial(draw_comparison, result=result, notes=[*grown.sentences(), *notes])
        with_notes = replace(result, notes=(*result.notes, *notes))  # in JSON and LaTeX, too
        # Printed before the look is saved, so that a series that cannot be written does not hide the result. `winner`
        # is the model that the looks so far decide for, None while nothing is decided.
        deliver(output, with_notes, quiet=grown.winner or "open", draw=draw)
        if grown is not series:
            write_file(state, grown.to_json())


def name_files(files: tuple[str, ...], names: tuple[str, ...]) -> dict[str, str]:
    """Map names of models to their files; without `names` they come from the files and are made distinct.

    Raises a usage error unless `names` is empty or has a different name for each file.
    """
    if names and len(names) != len(files):
        raise click.UsageError(f"--names must give {len(files)} names, one for each file, got {len(names)}.")
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if repeated:
        raise click.UsageError(f"--names must give different names, got {display_name(repeated[0])} twice.")
    return dict(zip(names or _distinct_names(files), files))


def _distinct_names(files: tuple[str, ...]) -> list[str]:
    """Make names of models from those of their files, with only as many folders as make them distinct.

    Where all folders do not, as for one file given twice, a number follows the name.

    >>> _distinct_names(("/home/me/runs/a/preds.npz", "/home/me/runs/b/preds.npz"))
    ['a/preds', 'b/preds']
    """
    # of each file, the names of the folders that it lies in, outermost first, without the root
    folders_of_file = [Path(file).absolute().parent.parts[1:] for file in files]
    for depth in range(1 + max(map(len, folders_of_file))):  # number of innermost folders in the name
        names = [
            "/".join([*folders[len(folders) - min(depth, len(folders)) :], model_name(file)])
            for folders, file in zip(folders_of_file, files)
        ]
        if len(set(names)) == len(files):
            return names
    return [f"{model_name(file)} ({number})" for number, file in enumerate(files, 1)]


# by name in the ranking: a model, and the score it is ranked by
Contestants = dict[str, tuple[Predictions, str]]


class ComparedFiles(NamedTuple):
    """Files that were read and compared."""

    comparison: Comparison  # the ranking
    contestants: Contestants
    notes: list[str]  # how the files were read


def compare_in_memory(
    files: dict[str, str],
    read_options: opt.ReadOptions,
    *,
    metric: str,
    scores: list[str] | str,
    loss: str,
    level: float,
    repetitions: bool,
    unpaired: bool,
    by: str | None = None,
    anytime: bool = False,
    planned: int | None = None,
) -> ComparedFiles:
    """Read all files and compare them.

    Parameters
    ----------
    files : dict
        Files by the names of their models.
    read_options : ReadOptions
        How files are read.
    metric, scores, loss, level, repetitions, unpaired, by, anytime, planned
        Options of the command.

    Returns
    -------
    ComparedFiles

    Raises
    ------
    click.UsageError
        If there are fewer than two contestants, or an option does not fit the files.
    DataError
        If a file cannot be read, or files to be paired hold different samples.
    """
    is_single = len(files) == 1 and by is None
    what = display_name(next(iter(files))) if len(files) == 1 else f"{len(files)} files"
    with show_working(f"reading {what}"):
        if by is not None:
            models, notes = read_options.read_by(next(iter(files.values())), by)
        else:
            models, notes = read_options.read_several(
                files,
                purpose="one file" if is_single else "compared",
                summarise=len(files) <= _MAX_SUMMARIES,
            )
    ranked_models = []
    for model in models:
        ranked = _drop_absent_confidences(model, notes)
        if ranked is not None:
            ranked_models.append(ranked)
    models = ranked_models
    opt.refuse_unused_names(*models)
    if not unpaired:
        models = align_models(models)
    requested_confidences = read_options.columns.get("confidence", "").split(",")
    has_several = len(requested_confidences) > 1 or any(len(model.signals) > 1 for model in models)
    contestants: Contestants = {}
    for predictions in models:
        for model, score in _split_by_score(
            predictions, scores, is_single=is_single, has_several=has_several
        ):
            contestants[model.name] = (model, score)
    if len(contestants) < 2:
        reason = f" {' '.join(notes)}" if notes else ""
        raise click.UsageError(
            f"comparing needs at least two files, or several scores of one (--score A,B).{reason}"
        )
    entries = {name: model.loss_and_confidence(score, loss) for name, (model, score) in contestants.items()}
    columns = comparison_arguments([model for model, _ in contestants.values()], paired=not unpaired)
    with show_working("comparing"):
        result = abstain.compare(
            entries,
            metric=metric,
            level=level,
            paired=not unpaired,
            repetitions=repetitions,
            anytime=anytime,
            planned=planned,
            **columns,
        )
    result = replace(result, notes=_judge_directions(result, contestants, loss))
    result = replace(
        result, loss=_common_loss(contestants, loss, default=result.loss), score=_common_score(contestants)
    )
    notes += reading_notes(models)
    notes += [note for model in models for note in opt.fitted_rows_notes(model)]
    notes += _notes_on_guessing(models)
    if has_several:
        notes += missing_confidence_notes(models, metric, level)
    if not unpaired and len(models) > 1 and all(model.ids is None for model in models):
        confirmed = check_shared_columns_equal(models)
        reason = f"their {confirmed} agree" if confirmed else "nothing in them confirms it"
        notes.append(f"No file has ids: rows are paired by position, and {reason}.")
    return ComparedFiles(result, contestants, notes)


def _notes_on_guessing(models: Sequence[Predictions]) -> list[str]:
    """A sentence for each model with class scores whose accuracy is that of guessing.

    Such a model is not an error: most often its labels and class scores are in different orders.
    """
    notes = [
        # None for a model that is better than that
        note_on_guessing(
            display_name(model.name),
            model.class_scores(),
            model.labels,
            kind="logits" if model.probs is None else "probs",
        )
        for model in models
        if model.has_class_scores and model.labels is not None
    ]
    return [note for note in notes if note is not None]


def _judge_directions(result: Comparison, contestants: Contestants, loss: str) -> tuple[str, ...]:
    """The notes of a comparison, where warnings of rankings worse than chance are about answers with a confidence.

    `contestants` holds each model with the name of the score that ranks it, by name in the ranking; `loss` names what
    is computed from class scores. The comparison itself knows neither which answers are ranked last for lack of a
    confidence, nor how a confidence came to be. So a warning about such a model is made again from the answers that
    have a confidence, which may give none. All other notes stay.
    """
    chance = abstain.evaluation.chance
    # in a warning, what to do about the sign fits the column (None: computed from class scores) that ranks the model
    notes = chance.with_sign_advice(
        result.notes, {name: model.name_of_ranking() for name, (model, _) in contestants.items()}
    )
    for name, (model, score) in contestants.items():
        ranked = model.with_own_confidence()  # only the answers that have a confidence; None if none has
        if ranked is not None and ranked.n == model.n:  # all have one, so the warning of the comparison holds
            continue
        # the warning of the comparison about this model, which begins so
        about_all = chance.chance_warnings(note for note in notes if note.startswith(f"{name} ranks "))
        notes = [note for note in notes if note not in about_all]
        notes += opt.direction_warnings(model, score, loss, title=name)  # one sentence or none
    return tuple(notes)


def _drop_absent_confidences(model: Predictions, notes: list[str]) -> Predictions | None:
    """Return a model without the requested confidences that none of its answers has; None if it has no other.

    A note for each of them is added to `notes`. A model without a confidence is not ranked among those that have it.
    `model.signals` are its confidences by name, and `model.confidence` the first of them. The model is returned as it
    is where nothing is absent; `model.log` (its questions and answers) is None for a plain table.
    """
    # confidences that the user named, and that no answer has; a plain table must have all of them
    absent = () if model.log is None else model.log.absent
    notes += [
        f"{display_name(model.name)} is not ranked by `{display_name(confidence_name)}`: no answer has it."
        for confidence_name in absent
    ]
    present = {name: signal for name, signal in model.signals.items() if name not in absent}
    # with --confidence, a learned confidence stands in place of all those of the file, the absent ones too
    if not absent or len(present) == len(model.signals):
        return model
    if not present:
        return None
    return replace(model, signals=present, confidence=next(iter(present.values())))


def _common_loss(contestants: Contestants, loss_of_class_scores: str, default: str) -> str:
    """The name of the loss of all contestants; `default` where they differ in it.

    Losses of files with class scores are computed, by the name `loss_of_class_scores`; other files have their own.
    """
    names = {
        loss_of_class_scores if model.has_class_scores else model.loss_name
        for model, _ in contestants.values()
    }
    return names.pop() if len(names) == 1 else default


def _confidence_names(model: Predictions, score: str) -> list[str]:
    """Names of the confidences that rank a contestant: its columns, or the score computed from class scores."""
    if model.signals:  # columns of confidences by name
        return list(model.signals)
    return [score if model.has_class_scores else model.column_of_role.get("confidence", "")]


def _common_score(contestants: Contestants) -> str:
    """The name of the confidence of all contestants; "" where they differ in it or it has no name."""
    names = {name for model, score in contestants.values() for name in _confidence_names(model, score)}
    return names.pop() if len(names) == 1 else ""


def describe_contest(result: Comparison, contestants: Contestants) -> list[str]:
    """Sentences for the page: the data set, the confidences that models are ranked by, and whether nobody refused.

    The data set has the names of the logs' tasks, and none if they name no task. How unanswered questions count is not
    said here: it is among the notes on how the files were read. `contestants` holds each model with the name of the
    score that ranks it, by name in the ranking. A model's `log` holds its questions and answers, None for a plain
    table.
    """
    tasks: dict[str, None] = {}  # in the order of the files
    confidence_names: dict[str, None] = {}  # of all contestants, each once
    has_unanswered = False
    logs = [model.log for model, _ in contestants.values() if model.log is not None]
    for log in logs:
        if log.task is not None:  # the name of the task of each question
            tasks |= dict.fromkeys(np.unique(as_texts(log.task)).tolist())
        has_unanswered |= bool(log.unanswered)  # the share of questions without an answer
    for model, score in contestants.values():
        confidence_names |= dict.fromkeys(_confidence_names(model, score))  # "" for one without a name
    data = f"{list_names(list(tasks), most=_MAX_LISTED)}, " if tasks else ""
    notes = [f"Data: {data}{count_noun(result.n, 'question' if logs else 'sample')}."]
    if not is_answer_metric(result.metric) and any(confidence_names):
        listed = list_names([name for name in confidence_names if name], most=_MAX_LISTED)
        notes.append(f"Ranked by the confidence {listed}.")
    if logs and not has_unanswered:
        notes.append("Every model answered every question.")
    return notes


def nothing_is_ranked(files: dict[str, str], read_options: opt.ReadOptions) -> bool:
    """Whether every file is a log of answers without a confidence; False if the user named one.

    The caller then compares by accuracy, which refuses answers with other losses than right and wrong. `files` are
    paths by the names of their models. `read_options` are the options that say how files are read; of them, `columns`
    maps roles to the columns that the user named.
    """
    if "confidence" in read_options.columns:
        return False
    for path in files.values():
        try:
            log = read_options.read_log(path)
        except AbstainError:  # class scores, or a file that cannot be read: reported where it is read
            return False
        if log.has_confidence:
            return False
    return True


def compare_graded(
    files: dict[str, str],
    read_options: opt.ReadOptions,
    *,
    metric: str,
    level: float,
    unpaired: bool,
    by: str | None = None,
    **ignored: Any,
) -> ComparedFiles:
    """Read all files as graded answers and compare them by a metric that reads no confidence.

    `files` are paths by the names of their models; `metric`, `level`, `unpaired` and `by` are options of the command,
    and `ignored` are those that only a comparison by confidence reads. `by` names a column of models, and stands with
    one file. The score of each contestant is called "answers".
    Raises a usage error for fewer than two files, weights, a metric of calibration, or questions without an answer as
    wrong in a metric that tells the two apart; DataError if a file has no right and wrong answers. `read_options` are
    the options that say how files are read.
    """
    if not is_answer_metric(metric):  # a metric of calibration, which has a table but no ranking
        raise click.UsageError(f"compare cannot rank by {metric}. See abstain evaluate --metric {metric}.")
    opt.refuse_unanswered_as_wrong([metric], read_options.unanswered)
    with show_working(f"reading {count_noun(len(files), 'file')}"):  # DataError is raised in here
        if by is not None:
            models = read_options.read_answers_by(next(iter(files.values())), by)
        else:
            models = [read_options.read_answers(path, name) for name, path in files.items()]
    if len(models) < 2:
        raise click.UsageError(f"comparing by {metric} needs at least two files, or one divided by --by.")
    if any(model.sample_weight is not None for model in models):
        raise click.UsageError(f"{metric} takes every question once, and a file has weights. Leave them out.")
    if not unpaired:  # puts the rows of all in one order; DataError for different questions
        models = align_models(models)
    answers = {}  # by model: which questions it answered correctly (1, or between 0 and 1), and which it answered
    unanswerable = {}  # by model: which questions have no answer, or None where the file does not say it
    for model in models:
        graded = model.graded_arguments()
        answers[model.name] = (graded["correct"], graded["answered"])
        unanswerable[model.name] = graded["unanswerable"]
    # argument of a comparison -> column by model; left out where no model has such a column
    columns = comparison_arguments(models, paired=not unpaired)
    with show_working("comparing"):
        result = abstain.evaluation.compare_answers(
            answers,
            metric=metric,
            unanswerable=unanswerable,
            level=level,
            clusters=columns.get("clusters"),
            paired=not unpaired,
        )
    # a contestant is a model with the score that ranks it; here nothing ranks, and "answers" stands in its place
    contestants = {model.name: (model, "answers") for model in models}
    # the last: the share that each model did not attempt, where there are such questions
    notes = [f"By {result.label}: no confidence is read.", *attempt_notes(models)]
    return ComparedFiles(result, contestants, notes)


def _split_by_score(
    model: Predictions, scores: list[str] | str, *, is_single: bool, has_several: bool
) -> list[tuple[Predictions, str]]:
    """Return a model once for each requested score, or for each of its confidences, with the name of the score.

    Copies are named after their score or confidence, and after the model too unless `is_single` (there is one file).
    `scores` are names of scores for files with class scores, or "all". `has_several`: some of the compared files has
    several columns of confidences. Names are those in the ranking.
    """
    if model.signals and has_several:  # `signals` are the columns of confidences by name
        contestants = []
        for signal, confidence in model.signals.items():
            name = signal if is_single else f"{model.name} / {signal}"
            single = replace(model, name=name, confidence=confidence, signals={signal: confidence})
            # a model without class scores takes its only confidence, whatever the name of the score
            contestants.append((single, "confidence"))
        return contestants
    if scores == "all":
        # those that can be computed from the model's class scores (`kind` is "logits" or "probs"); none where it has
        # confidences of its own
        scores = [name for name in NAMES if model.kind in by_name(name).takes] or ["confidence"]
    if not model.has_class_scores or len(scores) == 1:  # once, under the model's own name
        return [(model, scores[0])]
    return [
        (replace(model, name=score if is_single else f"{model.name} / {score}"), score) for score in scores
    ]


def compare_files(
    files: dict[str, str],
    read_options: opt.ReadOptions,
    *,
    metric: str,
    level: float,
    repetitions: bool,
    unpaired: bool,
) -> Comparison:
    """Compare two tables of the same samples by AURC with the engine for files, which does not hold them in memory.

    `files` are two paths by the names of their models; the other arguments are options of the command. Weights are
    read from the first table; the second must have them too, since the same samples have the same weights. Raises a
    usage error for other metrics, numbers of files, or class scores, and DataError where only one table has weights.
    `read_options` are the options that say how files are read; of them, `columns` maps roles (what a column holds) to
    columns that the user named. `repetitions` says that weights are numbers of repetitions.
    """
    chosen_metric = metrics.by_name(metric)  # "aurc:loo" too has the name of AURC
    if len(files) != 2 or chosen_metric.name != AURC.name or unpaired:
        raise click.UsageError("--engine files compares two tables of the same samples by AURC.")
    if read_options.learned_confidence_files:
        raise click.UsageError(
            "--engine files compares columns: leave --confidence out, or compare in memory."
        )
    # Names of columns by argument of the engine: "logits" for class scores, "correct" for right and wrong answers. Its
    # `compare` takes columns of losses only, and computes none from those two.
    first_columns, second_columns = (read_options.engine_columns(file) for file in files.values())
    if any("logits" in columns or "correct" in columns for columns in (first_columns, second_columns)):
        raise click.UsageError("--engine files compares columns of losses and confidences.")
    first_name, second_name = files  # in the order of the command line
    weight_column = {}
    if "sample_weight" in first_columns:
        if "sample_weight" not in second_columns:
            raise missing_weights_error(first_name, second_name)
        weight_column["sample_weight"] = first_columns["sample_weight"]
    elif "sample_weight" in second_columns:
        raise missing_weights_error(second_name, first_name)
    return abstain.engines.files.compare(
        files[first_name],
        # for each table, the names of its columns of confidences and of losses
        first=(first_columns["confidence"], first_columns["loss"]),
        second=(second_columns["confidence"], second_columns["loss"]),
        other=files[second_name],  # where the second columns are
        names=(first_name, second_name),
        # Rows are paired by position, and the values of this column, of one name in both tables, must agree row by row:
        # ids or, without them, the questions that the rows answer, which also tell rows apart. None: each table's own
        # column of ids or questions, found by its name.
        ids=read_options.columns.get("ids", read_options.columns.get("question")),
        memory=read_options.memory,
        level=level,
        repetitions=repetitions,
        **weight_column,
        **dict(chosen_metric.settings),  # options in the metric's name, such as estimator="loo"
    )


def _caption(result: Comparison) -> str:
    """What the columns of the ranking hold; with two models there is one pair, and nothing to correct for."""
    pair_count = len(result.pairs)
    correction = f" (with p, corrected for {pair_count} pairs)" if pair_count > 1 else ""
    looks = "" if result.planned is None else f", at any time, planned for {result.planned:,}"
    columns = f"{result.level:.0%} intervals below{looks}, differences from the best{correction};"
    return f"{columns}\nmodels that share a letter do not differ significantly"


def draw_comparison(console: Console, result: Comparison, notes: Sequence[str] = ()) -> None:
    """Print the ranking, sentences about pairs that cannot be told apart, and notes.

    `console` is where the text goes. `result` is the comparison to show; its contestants come best first. `notes` are
    those of the command, and follow the comparison's own.
    """
    direction = "lower" if result.lower_is_better else "higher"
    data = "different test sets"
    if result.paired:
        data = f"the same {count_samples(result.n, result.clusters)}"
    console.print(Text(f"{result.label} on {data}, {direction} is better", style="bold"))
    console.print(Text(_caption(result), style="dim"))
    console.print()
    contestants = result.contestants
    pairs = result.from_best()  # in the order of the contestants; None for the best itself
    # `ranks` are the ranks that a model may have; models with a common letter in `group` do not differ significantly
    columns: dict[str, list[Any]] = {
        "rank": [contestant.ranks for contestant in contestants],
        "model": [display_name(contestant.name) for contestant in contestants],
        result.label: [stacked_cell(console, contestant.estimate, contestant) for contestant in contestants],
        "difference": [
            "" if pair is None else stacked_cell(console, pair.difference, pair) for pair in pairs
        ],
        # no test where every sample adds the same to the metric of both (`is_equal`)
        "p": [
            "" if pair is None or pair.is_equal else format_p_value(pair.p_adjusted, result.level)
            for pair in pairs
        ],
        "group": [contestant.group for contestant in contestants],
    }
    console.print(plain_table(columns))
    console.print()
    show_notes(console, [*result.sentences(), *result.notes, *notes])
