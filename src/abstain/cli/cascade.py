"""The command `abstain cascade`."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import click
import numpy as np
from rich.console import Console
from rich.text import Text

import abstain
from abstain._tables import p_value_text
from abstain.cascades import Cascade, JointCascade, load_cascade
from abstain.cli.compare import name_files
from abstain.cli.main import INFEASIBLE
from abstain.cli.options import (
    DocumentedCommand,
    InputFile,
    Output,
    ReadOptions,
    delta_option,
    explicit_value,
    input_option,
    note_chosen_confidence,
    note_ignored_columns,
    output_option,
    say,
    shared_options,
    typed_command,
    warn_if_worse_than_chance,
    with_output_options,
    with_read_options,
)
from abstain.cli.promises import parse_risks, predicted_names, with_loss_column
from abstain.cli.screen import deliver, show_working
from abstain.cli.series import Look, fingerprint_predictions, note_calibration_files, run_look
from abstain.cli.threshold import CLEARLY_OTHER, check_rule_fits, draw_facts, rule_columns, save_rule
from abstain.errors import AbstainError, AbstainWarning, DataError, InputError
from abstain.formats import Predictions
from abstain.formats.alignment import align_models
from abstain.formats.columns import as_array
from abstain.formats.log_rows import COST_COLUMNS
from abstain.formats.safety import count_noun, display_name, file_error, has_or_have, naming_file, one_line
from abstain.report.cascade_page import save_cascade_page
from abstain.report.certified import origin_facts
from abstain.thresholds import Check, GroupChecks, Origin

_COST_HELP = (
    "Cost of an answer of each model: a number, or a column with the cost of each answer (tokens), which a number may "
    "multiply (0.6*tokens,15*tokens). One column may stand for all models."
)

_RISK_HELP = (
    "Largest risk of the answers. With names, once for each predicted class or column of losses: one cascade keeps all "
    "of these promises."
)


class StageCost(NamedTuple):
    """What an answer of one model costs: a number, or that number times a column of its file."""

    factor: float
    column: str  # "" for a cost that is the same for every question


def _parse_costs(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[StageCost, ...]:
    """Parse costs separated by commas, each a number, a column (`tokens`) or both (`0.6*tokens`); a callback of click.

    A cost without a column has the column "". Raises BadParameter where the text before an asterisk is not a number.
    Costs come in the order of the files; empty without the option. Text that is no number is the name of a column, with
    the factor 1. Negative numbers and nan pass here: the cascade refuses them.
    """
    costs = []
    for text in (value or "").split(","):
        part = text.strip()
        number, asterisk, column = part.partition("*")  # without an asterisk all is in `number`
        if not part:
            continue
        try:
            costs.append(StageCost(factor=float(number), column=column.strip()))
        except ValueError:
            if asterisk:
                raise click.BadParameter(f"write NUMBER*COLUMN, got {part!r}.") from None
            costs.append(StageCost(factor=1.0, column=part))
    return tuple(costs)


@click.command("cascade", cls=DocumentedCommand)
@click.argument("files", nargs=-1, required=True, type=InputFile())
@click.option("--cost", callback=_parse_costs, metavar="A,B,...", help=_COST_HELP)
@click.option("--person-cost", type=float, help="Cost of a person's answer.")
@click.option("--person-error", type=float, help="Mean loss of a person's answers.")
@click.option("--risk", multiple=True, callback=parse_risks, metavar="[NAME=]NUMBER", help=_RISK_HELP)
@delta_option("Probability that the guarantee fails.")
@click.option(
    "--promise",
    type=click.Choice(["answered", "system"]),
    default="answered",
    help="Whose risk is guaranteed: of the models' answers, or of all answers including the person's.",
)
@shared_options("score", "loss", "names")
@click.option("--bounded", type=(float, float), default=(0.0, 1.0), help="Lowest and highest possible loss.")
@click.option("--unit", default="", help="Unit of the costs.")
@click.option("--groups", is_flag=True, help="The guarantee must hold in every group.")
@click.option("--rng", "--seed", "rng", type=int, default=0, help="Random seed of the split.")
@output_option("--save", kind="json", help="Save the rule as JSON.")
@output_option("--record", kind="markdown", help="Write a page to file with the rule, as for `threshold`.")
@output_option(
    "--html",
    "target",
    kind="page",
    help="Also write a page: the decision, costs, promise, and how to apply it.",
)
@click.option("--title", default="Cascade", help="Title of that page.")
@input_option("--apply", help="Apply a saved rule: which model answers each sample.")
@input_option(
    "--check",
    help="Check a saved rule on these data. Rows are read in order, as cases come in; shuffle them if it is not time.",
)
@output_option(
    "--state",
    kind="json",
    verdict_first=True,
    help="With --check: file with the series of checks so far. It is updated.",
)
@with_read_options
@with_output_options
def cascade(
    files: tuple[str, ...],
    read_options: ReadOptions,
    output: Output,
    names: tuple[str, ...],
    score: str,
    loss: str,
    save: str | None,
    record: str | None,
    target: str | None,
    title: str,
    apply: str | None,
    check: str | None,
    state: str | None,
    **settings: Any,
) -> None:
    """Route between a cheap model, an expensive model and a person, and state what that guarantees.

    FILES are the models' outputs on the same calibration data, in the order in which the models are asked.

    Examples:
      abstain cascade small.npz large.npz --cost 1,10 --person-cost 100 --person-error 0 --risk 0.1
      abstain cascade small.npz large.npz --cost 1,10 --person-cost 100 --person-error 0 --risk 0.1 --save rule.json
      abstain cascade small.npz large.npz --cost 1,10 --person-cost 100 --person-error 0 --risk 0=0.05 --risk 1=0.02
          error rates of the answers "class 0" and "class 1", by one cascade
      abstain cascade small.npz large.npz --cost 1,10 --person-cost 100 --person-error 0 --risk 0.1 --html page.html
      abstain cascade a.eval b.eval --cost 0.15*tokens,2.5*tokens ...
          what each answer cost is a column of the logs
      abstain cascade small.npz large.npz --apply rule.json -o who.csv --csv
          who answers each sample, with the answer and its confidence; no labels are needed
      abstain cascade small.npz large.npz --check rule.json --state series.json
          does the guarantee still hold? Each run continues the series.

    If nothing can be certified, the exit code is 4. An alarm of --check is exit code 5.
    """
    rule_file = apply or check  # a saved rule; without one a new rule is chosen
    if sum(bool(option) for option in (apply, check, save)) > 1:
        raise click.UsageError("--save goes with a new rule; give one of --save, --apply, --check.")
    if rule_file and (record or target):
        raise click.UsageError("--record and --html go with a new rule.")
    if target and isinstance(settings["risk"], dict):
        raise click.UsageError("--html shows one promise. Give one --risk, without a name.")
    if state and not check:
        raise click.UsageError("--state goes with --check.")
    rule = load_cascade(rule_file) if rule_file else None
    if rule and not names and len(rule.names) == len(files):
        names = _stages_of_files(files, rule.names)
    if len(settings["cost"]) == 1 and settings["cost"][0].column:
        settings["cost"] *= len(files)
    cost_columns = () if rule else tuple(cost.column for cost in settings["cost"])
    paths = name_files(files, names)
    promise_names = [] if apply else _promise_names(rule, settings["risk"])
    about = None  # what the files say for several promises
    if promise_names:
        named_in = display_name(rule_file) if rule_file else "--risk"
        about = _read_promises(paths, read_options, cost_columns, promise_names, named_in)
        models = about.models
    else:
        models = _read_models(paths, read_options, cost_columns, has_labels=not apply)
    # None: the model's confidence is a column of its file
    score_by_model: dict[str, str | None] = dict.fromkeys(models, score)
    if rule and rule_file:
        requested_score = explicit_value("score")
        for name, model in models.items():
            score_by_model[name] = check_rule_fits(
                rule_file, rule.scores.get(name), model.kind, requested_score, allow_plain=False
            )
    abstained = {name: model.abstained for name, model in models.items() if model.abstained is not None}
    if rule and apply:
        _apply_rule(rule, models, abstained, output)
        return
    losses: dict[str, Any] = {}
    for name, model in models.items():
        losses[name] = model.loss_and_confidence(score_by_model[name] or "", loss).loss
    among = None
    if about is not None:
        losses = about.losses or losses
        among = about.among
    if rule:
        look = _make_look(rule, files, models, read_options, state)
        _check_rule(rule, models, losses, abstained, among, look, output)
        return
    inputs = _make_inputs(models, losses, abstained, among, score, **settings)
    result = inputs.choose()
    for model in models.values():
        warn_if_worse_than_chance(model, score, loss)
    origins = {}
    for name, model in models.items():
        kind: Any = model.kind
        origins[name] = Origin(kind, **origin_facts(model, score, loss, typed_command()))
    result = result.made_from(origins)
    save_rule(result, save, record, load_cascade, is_usable=lambda cascade: cascade.feasible)
    if target and isinstance(result, Cascade):
        _write_page(result, inputs, target, title)
    quiet = repr(result.cost) if result.feasible else "none"
    facts = {name: [text] for name, text in result.facts()}
    draw = partial(draw_facts, result=result, notes=[])
    deliver(output, result, quiet=quiet, draw=draw, columns=facts, latex=repr(result))
    if not result.feasible:
        click.get_current_context().exit(INFEASIBLE)


def _stages_of_files(files: tuple[str, ...], stages: tuple[str, ...]) -> tuple[str, ...]:
    """Return the stage of a saved rule that each file belongs to; `files` must be as many as `stages`.

    Files that are called like the stages are matched by name, with a note if they come in another order. Other files
    belong to the stages in their order. Raises a usage error if such a file has another stage in its name. A stage is a
    model of the cascade, by its name; the stages come in the order in which the rule asks them.
    """
    # one name for each file, made from the file's name; they all differ. (): the user gave no --names
    names = tuple(name_files(files, ()))
    if set(names) == set(stages):
        if names != stages:
            say(
                f"note: the rule asks {', '.join(stages)}, in this order; the files are matched by their names."
            )
        return names
    for file, name, stage in zip(files, names, stages):
        # stages whose names are whole words of the file's name
        mentioned = [any_stage for any_stage in stages if _mentions(name, any_stage)]
        if mentioned and stage not in mentioned:
            raise click.UsageError(
                f"{display_name(file)} is given for the stage {stage!r} and has {mentioned[0]!r} in its name. Give "
                f"the files in the order {', '.join(stages)}, or say whose they are: --names "
                f"{','.join(mentioned[:1])},..."
            )
    return stages


def _mentions(file_name: str, stage: str) -> bool:
    """Whether the name of a file holds that of a stage as a word of its own: "may_large" mentions "large"."""
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(stage)}(?![A-Za-z0-9])", file_name) is not None


def _read_models(
    files: dict[str, str],
    read_options: ReadOptions,
    cost_columns: tuple[str, ...],
    *,
    has_labels: bool,
    show_notes: bool = True,
) -> dict[str, Predictions]:
    """Read the models' files and return them by name, in the order of `files`, with their rows in one order.

    `files` are paths by the names of their models. `cost_columns` holds for each file the column with the costs of its
    answers, "" for none; it is empty if no file has one. Notes about columns that are chosen or ignored are printed,
    unless `show_notes` is False. `read_options` are the options that say how files are read. `has_labels` is False for
    new data, whose right answers are not known.

    Raises a usage error unless `cost_columns` is empty or has an item for each file, and DataError if a file cannot be
    read, or if the files hold different samples.
    """
    column_of_file = cost_columns or ("",) * len(files)
    if len(column_of_file) != len(files):
        raise click.UsageError(f"--cost must give {len(files)} numbers or columns, one per file.")
    with show_working(f"reading {len(files)} files"):
        predictions = []
        for number, ((name, file), cost_column) in enumerate(zip(files.items(), column_of_file)):
            # where --confidence names a learned confidence for each file, the options have that of this file alone
            options = read_options.of_file(number, len(files))
            if cost_column:
                # read into `Predictions.cost`, without the number that multiplies it
                options = options._replace(columns=options.columns | {"cost": cost_column})
            if has_labels:
                predictions.append(options.read(file, name, purpose="cascade"))
            else:
                predictions.append(replace(options.read_unlabelled(file).predictions, name=name))
        models = {model.name: model for model in align_models(predictions)}
    if show_notes:
        for model in models.values():
            note_chosen_confidence(model)
        # weights are not used; one note for all files, since they hold the same samples
        note_ignored_columns(next(iter(models.values())), "sample_weight")
    return models


def _promise_names(rule: Cascade | JointCascade | None, risk: float | dict[str, float] | None) -> list[str]:
    """The names of several promises: those of the saved rule, or else of the option `risk`; empty for one promise."""
    if rule is not None:
        return list(map(str, rule.promises)) if isinstance(rule, JointCascade) else []
    return list(risk) if isinstance(risk, dict) else []


class PromisesOfModels(NamedTuple):
    """What the files of several models say for several promises."""

    models: dict[str, Predictions]  # by name, with their rows in one order
    # by model, then by promise, where each is a column of losses
    losses: dict[str, dict[str, np.ndarray]] | None
    among: dict[str, dict[str, np.ndarray]] | None  # by promise, then by model: the answers that it is about


def _read_promises(
    files: dict[str, str],
    read_options: ReadOptions,
    cost_columns: tuple[str, ...],
    names: list[str],
    named_in: str,
) -> PromisesOfModels:
    """Read the models' files for promises with these names: classes that the models answer, or columns of losses.

    A promise is an upper bound on one mean loss, or on the risk within one predicted class. `files` are paths by the
    names of their models, and `cost_columns` the columns with the costs of their answers, "" for none. Of classes,
    `among` says which answers each promise is about, as masks of the samples; of columns, `losses` holds them. The
    other of the two is None. `with_loss_column` returns the same options with a column named as that of the losses.
    `named_in` says where the names come from: the option, or the rule that is checked. Raises DataError if a file has
    neither.
    """
    try:
        models = _read_models(files, read_options, cost_columns, has_labels=True)
    except DataError:  # perhaps no column is called loss, and the promises name the columns
        if "loss" in read_options.columns:  # the user named the column, so that something else is wrong
            raise
        models = _read_models(files, with_loss_column(read_options, names[0]), cost_columns, has_labels=True)
    # by model, the class that it answers for each sample, as text; None where the file has no answers
    answers_of_model = {name: predicted_names(model) for name, model in models.items()}
    classes: set[str] = set()
    for answers in answers_of_model.values():
        if answers is not None:
            classes |= set(answers)
    if set(names) <= classes:  # all are classes that some model answers
        among: dict[str, dict[str, np.ndarray]] = {name: {} for name in names}
        for model_name, answers in answers_of_model.items():
            if answers is None:
                raise file_error(files[model_name], f"has no answers, and {named_in} names classes.")
            for name in names:
                among[name][model_name] = answers == name
        return PromisesOfModels(models, losses=None, among=among)
    if any(model.has_class_scores for model in models.values()):  # such a file has no columns of losses
        listed = ", ".join(sorted(classes)[:10])
        raise DataError(
            f"cascade: the names in {named_in} must be classes of the answers ({listed}), got {names}."
        )
    losses: dict[str, dict[str, np.ndarray]] = {model_name: {} for model_name in models}
    for name in names:  # each column is read on its own: a reading has one loss
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AbstainWarning)  # the first reading has given these
            models_with_loss = _read_models(
                files, with_loss_column(read_options, name), cost_columns, has_labels=True, show_notes=False
            )
        for model_name, model in models_with_loss.items():
            losses[model_name][name] = np.asarray(model.loss)
    return PromisesOfModels(models, losses=losses, among=None)


def _ranking_column(model: Predictions) -> Any:
    """The column by which a cascade ranks the answers of a model: its class scores, or one confidence per sample.

    For a model that is ranked by a learned confidence, that is what this confidence gives each sample.
    """
    # No score: a column of confidences is taken as it is. With it comes the learned confidence, if any, which commands
    # pass on as `_learned_confidences` returns it.
    columns = rule_columns(model, rule_score=None)
    return columns[model.kind]  # "logits", "probs" or "confidence"


def _learned_confidences(models: dict[str, Predictions]) -> dict[str, Any] | None:
    """The learned confidence of each model that is ranked by one; None if none is.

    A rule remembers which learned confidence it was made for, and refuses another one.
    """
    return {name: model.learned for name, model in models.items() if model.learned is not None} or None


def _shared_clusters(models: dict[str, Predictions]) -> Any:
    """The clusters of the samples, from the first file that has them; None if none has."""
    return next((model.clusters for model in models.values() if model.clusters is not None), None)


def _make_look(
    rule: Cascade | JointCascade,
    files: tuple[str, ...],
    models: dict[str, Predictions],
    read_options: ReadOptions,
    state: str | None,
) -> Look:
    """Describe the data of one look, that is, of one check in a series; `state` is the file of the series, if any.

    A check refuses files that the rule was made from, by their hashes in `calibration`, and adds nothing for a file
    that the series counted before. `only` maps columns to the values whose rows were read (empty: all rows): other rows
    of a file are other data.

    In a series no row may count twice: `rows` holds a fingerprint of each row, by which later looks recognise it. It is
    None without a series, and for a rule with clusters: of these the check leaves out all that an earlier look had, and
    so each cluster counts once.
    """
    # SHA-256 of the file that each model's calibration data came from, where that was a file; the calibration data are
    # those that the rule was made from
    calibration = [origin.sha256 for origin in rule.origins.values() if origin.sha256]
    rows = None
    # of a rule with several promises, `shared` is a rule with any one of them; all have the same clusters
    single_rule = rule.shared if isinstance(rule, JointCascade) else rule
    if state is not None and single_rule.clusters is None:
        # all models have the same rows, so the confidence of one of them tells the rows apart
        first_stage = rule.names[0]
        rows = fingerprint_predictions(models[first_stage], rule.scores.get(first_stage))
    return Look(files=files, only=read_options.only, calibration=calibration, state=state, rows=rows)


def _check_rule(
    rule: Cascade | JointCascade,
    models: dict[str, Predictions],
    losses: dict[str, Any],
    abstained: dict[str, Any],
    among: dict[str, Any] | None,
    look: Look,
    output: Output,
) -> None:
    """Check a saved rule on later data and print the verdict; an alarm ends the program with exit code 5.

    `losses` (one per sample, or a dict of them by promise) and `abstained` (booleans; only models that abstain) are by
    model. `among` holds, by promise and model, the answers that a promise is about. `look` says which files the data
    are from, and in which file the series of checks is saved. `output` says in which form the result is written, and to
    which file. A look is a call of `check` that brings new samples. A rule with several promises is a JointCascade.

    `run_look` calls `check`, prints the verdict and saves the series; an alarm ends the program there.
    """
    entries = {}  # by model: its loss, and the column by which its answers are ranked
    for name, model in models.items():
        ranking_columns = {model.kind: _ranking_column(model)}  # by kind: "logits", "probs" or "confidence"
        entries[name] = (losses[name], ranking_columns)
    clusters = _shared_clusters(models)
    # which learned confidences these are, by model, so that a rule for other ones refuses the columns
    learned_confidences = _learned_confidences(models)

    def check(previous: Any) -> Check | GroupChecks:
        """Check the rule; `previous` is the result of the looks before this one, None for the first."""
        options: dict[str, Any] = {
            "abstained": abstained,
            "clusters": clusters,
            "scores": learned_confidences,
        }
        if isinstance(rule, JointCascade):
            return rule.check(entries, among=among, previous=previous, **options)
        return rule.check(entries, previous=previous, **options)

    check_type = GroupChecks if isinstance(rule, JointCascade) else Check  # one check for each promise
    run_look(check, check_type=check_type, look=look, output=output, notes=[])


@dataclass(frozen=True, kw_only=True)
class CascadeInputs:
    """The arguments of `abstain.cascade`, some of which `cost_risk_curve` takes too.

    Attributes
    ----------
    stages : dict
        By model, in the order in which they are asked: (loss, confidence, cost), or a dict with class scores.
    shared : dict
        What both functions take: person, promise, bounded, abstained, clusters, unit, rng.
    promised : dict
        What only a promise takes: risk, delta, groups, scores (learned confidences by model); for several promises
        also among, by promise and model the answers that it is about, None for promises about losses of their own.
    """

    stages: dict[str, Any]
    shared: dict[str, Any]
    promised: dict[str, Any]

    def choose(self) -> Cascade | JointCascade:
        """Choose a new rule: for one risk, or for a dict of several."""
        rule = abstain.cascade(self.stages, **self.shared, **self.promised)
        if isinstance(rule, JointCascade):
            return replace(rule, by_class=self.promised["among"] is not None)
        return rule

    def trace(self) -> abstain.cascades.CostRiskCurve:
        """Measure what an answer costs at each risk; raises InputError for too few samples."""
        return abstain.cascades.cost_risk_curve(self.stages, **self.shared)


def _make_inputs(
    models: dict[str, Predictions],
    losses: dict[str, Any],
    abstained: dict[str, Any],
    among: dict[str, Any] | None,
    score: str,
    *,
    cost: tuple[StageCost, ...],
    person_cost: float | None,
    person_error: float | None,
    risk: float | dict[str, float] | None,
    delta: float,
    groups: bool,
    **settings: Any,
) -> CascadeInputs:
    """Collect the arguments for choosing a new rule.

    `losses` (one per sample, or a dict of them by promise) and `abstained` (booleans; only models that abstain) are by
    model. `among` holds, by promise and model, the answers that a promise is about. The other arguments are options of
    the command: `cost` has one entry per model, `groups` says whether the guarantee must hold in every group, and
    `settings` (promise, bounded, unit, rng) go to `abstain.cascade`. Raises a usage error if a required option or the
    groups are missing.
    """
    required = {
        "--cost": cost,
        "--person-cost": person_cost,
        "--person-error": person_error,
        "--risk": risk,
    }
    missing = [flag for flag, value in required.items() if value in (None, ())]
    if missing:
        raise click.UsageError(f"needs {', '.join(missing)}.")
    columns_of_costs = {stage_cost.column for stage_cost in cost}
    if not settings["unit"] and columns_of_costs <= set(COST_COLUMNS) and len(columns_of_costs) == 1:
        settings["unit"] = columns_of_costs.pop()
    labels = next((model.group_labels() for model in models.values() if model.groups is not None), None)
    if groups and labels is None:
        raise click.UsageError("--groups needs a column of groups; name it with --column groups=NAME.")
    stages: dict[str, Any] = {}
    for (name, model), stage in zip(models.items(), cost):
        stage_cost = _cost_of_answers(model, stage)
        ranking_column = _ranking_column(model)
        if not model.has_class_scores:
            stages[name] = (losses[name], ranking_column, stage_cost)
        else:
            stages[name] = {
                model.kind: ranking_column,  # "logits" or "probs"
                "loss": losses[name],
                "score": score,
                "cost": stage_cost,
            }
    promised: dict[str, Any] = {
        "risk": risk,
        "delta": delta,
        "groups": labels if groups else None,
        "scores": _learned_confidences(models),
    }
    if isinstance(risk, dict):
        promised["among"] = among
    return CascadeInputs(
        stages=stages,
        shared={
            "person": (person_cost, person_error),
            "abstained": abstained,
            "clusters": _shared_clusters(models),
            **settings,
        },
        promised=promised,
    )


def _write_page(rule: Cascade, inputs: CascadeInputs, target: str, title: str) -> None:
    """Write the page of a new rule to the file `target`, with the picture of cost against risk where there is one.

    `inputs` are the arguments that the rule was made from. Where there is no picture, the page says why.
    """
    curve = None
    no_curve = ""
    try:
        with show_working("measuring costs"):
            curve = inputs.trace()  # cost against risk; raises for too few samples
    except AbstainError as error:
        no_curve = f"There is no picture of cost against risk: {one_line(error)}"
    date = datetime.now(UTC).strftime("%d %B %Y")
    save_cascade_page(
        rule, target, curve=curve, no_curve=no_curve, title=title, command=typed_command(), made=date
    )
    say(f"wrote {target}")


def _cost_of_answers(model: Predictions, stage: StageCost) -> Any:
    """Return the cost of each answer of a model, or one number for all; DataError where an answer has no cost.

    `stage` is what the user stated as the cost: the number `factor`, times the numbers of a column that were read into
    `model.cost` if one was named.
    """
    if model.cost is None:  # no column was named
        return stage.factor
    is_missing = ~np.isfinite(model.cost)  # an empty cell is NaN
    if is_missing.any():
        count = int(is_missing.sum())
        raise file_error(
            model.path,
            f"{count_noun(count, 'row')} {has_or_have(count)} no number in `{display_name(stage.column)}`, first row "
            f"{int(np.argmax(is_missing)) + 1:,}. Give the cost as a number: --cost A,B.",
        )
    return stage.factor * model.cost


def _apply_rule(
    rule: Cascade | JointCascade, models: dict[str, Predictions], abstained: dict[str, Any], output: Output
) -> None:
    """Print or write which model answers each sample, "person" if none does.

    `abstained` holds booleans, one per sample, of the models that abstain; such a sample goes on to the next model.
    `output` says in which form the result is written, and to which file. `models` are by name, in the order in which
    the rule asks them, with the same samples; there is at least one.
    """
    # by kind, then by model: each model has one column, by which its answers are ranked
    columns: dict[str, dict[str, Any]] = {"confidence": {}, "logits": {}, "probs": {}}
    for name, model in models.items():
        columns[model.kind][name] = _ranking_column(model)
    with naming_file(next(iter(models.values())).path):  # an error begins with the name of the first file
        # by sample, the name of the model whose answer is taken, or "person"
        answered_by = rule.decide(
            columns["confidence"],
            logits=columns["logits"],
            probs=columns["probs"],
            abstained=abstained,
            # which learned confidences these are, by model, so that a rule for other ones refuses the columns
            scores=_learned_confidences(models),
        ).tolist()
    # prints a note for each of these files that the rule was made from, which is recognised by its SHA-256
    note_calibration_files(
        [str(model.path) for model in models.values()], [origin.sha256 for origin in rule.origins.values()]
    )
    _note_other_distribution(rule, models, abstained)
    counts = ", ".join(f"{name} {answered_by.count(name):,}" for name in (*rule.names, "person"))

    def draw(console: Console) -> None:
        console.print(Text(f"answered by: {counts}"))

    # A row per sample for --quiet, --json and --csv; only counts on the screen and for --latex. `rule.scores` has the
    # score by which each model with class scores is ranked.
    deliver(
        output,
        rule,
        quiet="\n".join(answered_by),
        draw=draw,
        json=json.dumps(answered_by),
        columns=_answer_columns(models, np.asarray(answered_by), rule.scores),
        latex=counts,
    )


def _note_other_distribution(
    rule: Cascade | JointCascade, models: dict[str, Predictions], abstained: dict[str, Any]
) -> None:
    """Print a note if a stage's confidences are clearly distributed otherwise than those of the calibration.

    That is so for files in the order of other stages, too. Compared are the samples that reach a stage. `abstained`
    holds booleans, one per sample, of the models that abstain.
    """
    single_rule = rule.shared if isinstance(rule, JointCascade) else rule
    # an infeasible rule accepts nothing; a rule also decides by the first stages alone, which are not compared
    if not single_rule.feasible or set(models) != set(single_rule.names):
        return
    # losses say nothing here, and are not read
    stages = {name: (0.0, {model.kind: _ranking_column(model)}) for name, model in models.items()}
    later = single_rule.read_later_answers(stages, abstained, _learned_confidences(models), units=None)
    try:
        # By stage. `later.answering` has one entry per sample, the index of the stage that answers it. Of all samples,
        # whose row numbers are passed, each stage is compared on those that reach it.
        p_values = single_rule.compare_by_stage(later, np.arange(len(later.answering)))
    except InputError:  # rounding hides where these confidences lie among those of the calibration
        return
    for name, p_value in p_values.items():
        # 0.001, divided by the number of stages that are tested
        if p_value <= CLEARLY_OTHER / len(p_values):
            say(
                f"note: the confidences of {display_name(name)} in {display_name(models[name].path)} differ from those "
                f"of the calibration ({p_value_text(p_value)}). Is this the file of that stage? The guarantee is for "
                f"data of the same population and scale."
            )


def _answer_columns(
    models: dict[str, Predictions], answered_by: np.ndarray, scores_of_rule: Mapping[str, str]
) -> dict[str, list[Any]]:
    """One row per sample: its id, who answers it, and the answer and the confidence of that model.

    Ids and answers are left out where the files have none; a sample of the person has neither answer nor confidence.
    `answered_by` holds names of models or "person", one per sample, and `scores_of_rule` the score by which each model
    is ranked, where it is known. All models have the same samples. Returns columns by title.
    """
    columns: dict[str, list[Any]] = {}
    ids = next((model.ids for model in models.values() if model.ids is not None), None)
    if ids is not None:
        columns["id"] = ids.as_texts().tolist()
    columns["answered_by"] = answered_by.tolist()
    # None where no model answers the sample
    prediction = np.full(len(answered_by), None, dtype=object)
    confidence = np.full(len(answered_by), None, dtype=object)
    for name, model in models.items():
        rows = np.flatnonzero(answered_by == name)
        score = scores_of_rule.get(name)  # None: ranked by a column of confidences
        answers = None if model.prediction is None else as_array(model.prediction)
        confidences = model.compute_or_take_confidence(score)
        if model.has_class_scores:
            answers = model.likeliest_classes()
            # Computed confidences are rank keys, which order as the score does and do not round to 1; people know the
            # plain numbers, such as probabilities. Of class scores the rule always knows the score, so the default is
            # for type checkers alone.
            confidences = np.asarray(abstain.scores.display(score or "max_softmax", confidences))
        confidence[rows] = confidences[rows].tolist()
        if answers is not None:
            prediction[rows] = answers[rows].tolist()
    if any(answer is not None for answer in prediction):
        columns["prediction"] = prediction.tolist()
    columns["confidence"] = confidence.tolist()
    return columns
