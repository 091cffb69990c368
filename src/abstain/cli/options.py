"""Options that several commands share, and the objects that commands get from them.

A flag is named like the argument of the Python function, with dashes. `abstain` loads its modules when they are used,
and so does this file, so that `--help` is quick.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import wraps
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import click
from click.core import ParameterSource

import abstain
from abstain import _outputs
from abstain._delta import explain_large_delta
from abstain._names import suggest_name
from abstain._risk import percent_hint
from abstain._roles import COLUMN_NAMES, normalise_name, role_of
from abstain._size import parse_size
from abstain._tables import escape_controls
from abstain.errors import AbstainError

Command = TypeVar("Command", bound=Callable[..., Any])
Help = str | Callable[[], str]  # a text, or a function that makes it when help is printed
_TARGETS_IN_HELP = (0.75,)  # an example of a metric that takes a number
_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_DECIMAL_COMMA = re.compile(r"(\d+),(\d+)")
_NAMES_HELP = "Names of the models, separated by commas. By default the names of the files."


def _columns_help() -> str:
    return (
        f"Which column is which, if its name does not say. Roles: {', '.join(abstain.formats.ROLES)}. "
        f"`probs=class_*` takes one column per class, `confidence=A,B` several confidences, `clusters=A,B` "
        f"two crossed kinds of clusters, `uncertainty=A` (or `confidence=-A`) the values of A with the opposite sign. "
        f"`correct=A/10` is a score of 0 to 10. Dots name fields inside objects: "
        f"`correct=judge.ok`."
    )


def _format_help() -> str:
    return (
        f"Format of the file, if neither its name nor its content says: {', '.join(abstain.formats.FORMATS)}."
    )


_READ_HELP: dict[str, Help] = {
    "columns": _columns_help,
    "kind": "What the array of an npy file holds. It is never guessed from the values.",
    "labels": "A second file with the labels.",
    "classes": "Class names in the order of the class scores, if labels are words; in the order of the labels, if "
    "labels are numbers and columns are named by words.",
    "format": _format_help,
    "tolerance": "How far rows of probabilities may be from summing to one; they are divided by their sums. By "
    "default as much as rounding to 2, 3 or 4 decimals explains.",
    "memory": "Refuse files whose values need more memory.",
    "only": "Read only rows with this value, e.g. filter=strict-match.",
    "unanswered": "How to count a question without an answer: as abstained, or as wrong and ranked last. By default "
    "abstained for one file and in a cascade, wrong if several files are compared.",
    "missing": "What to do with an answer without a confidence: leave it out, or rank it last. By default left_out "
    "for one confidence of one file, last for several confidences or files; a plain table must have all its "
    "confidences.",
    "scale": "The confidence is a number that the model stated: percent, fraction, or mixed.",
    "outside": "What to do with stated numbers outside their scale. Refused by default.",
    "grades": "What words or numbers in the column of correctness mean: right, wrong or unanswered.",
    "refusals": 'Predictions that are no answers, e.g. "IDK,I don\'t know*" (* is any text), or classes that mean '
    "abstention. They count as unanswered.",
    "confidence": "Rank by a confidence that `abstain improve` saved. The file must have the same columns. For several "
    "files: one for all, or one each.",
    "path": "Write to this file instead of the screen; .json, .csv and .tex choose the format.",
}
_FORM_HELP = {
    "json": "Print JSON with all digits.",
    "csv": "Print comma-separated rows.",
    "latex": "Print a LaTeX table (booktabs).",
    "quiet": "Print only the main number.",
}


class DocumentedCommand(click.Command):
    """A command whose docstring is its help. Lines from "Examples:" on are printed after the options.

    If it takes metrics, its help lists them. Before it runs, its outputs are checked: none may replace an input or
    another output.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        docstring = inspect.cleandoc(settings.pop("help", None) or "")
        text, separator, examples = docstring.partition("Examples:\n")
        settings["help"] = text
        settings["epilog"] = f"\b\nExamples:\n{examples}" if separator else None
        super().__init__(*args, **settings)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the options, then the metrics that the command takes if there is an option for them.

        click calls this for --help. A command that takes several metrics is one of tables, with a single metric it
        compares models. The former lists metrics of calibration too.
        """
        super().format_options(ctx, formatter)
        options = [parameter for parameter in self.params if isinstance(parameter, MetricOption)]
        if not options:
            return
        is_comparison = not options[0].multiple  # of models, by one metric
        # a comparison tests differences by the influence of each sample, which only smooth metrics have
        ranking_metrics = [
            metric for metric in abstain.metrics.METRICS.values() if metric.is_smooth or not is_comparison
        ]
        answer_metrics = [
            *abstain.metrics.ANSWER_METRICS.values(),
            *(abstain.metrics.score_at_target(target) for target in _TARGETS_IN_HELP),
        ]
        with formatter.section("Metrics"):
            formatter.write_dl(_describe_metrics(ranking_metrics))
        if is_comparison:
            with formatter.section("Metrics of right, wrong and not attempted"):
                formatter.write_dl(_describe_metrics(answer_metrics))
            return
        calibration_metrics = abstain.calibration.table_metrics.CALIBRATION_METRICS.values()
        with formatter.section("Metrics of right, wrong and not attempted, and of calibration"):
            formatter.write_dl(_describe_metrics([*answer_metrics, *calibration_metrics]))

    def invoke(self, ctx: click.Context) -> Any:
        """Check that the outputs can be written and replace no input, then run the command.

        Raises a usage error or DataError, before any work. click calls this after it has parsed the command line;
        outputs are the parameters of type OutputFile, inputs all others that are paths.
        """
        inputs: list[str] = []
        outputs: dict[str, str] = {}  # paths by flag
        output_types: dict[str, OutputFile] = {}  # by flag
        for parameter in self.params:
            value = ctx.params.get(parameter.name or "")
            if value and isinstance(parameter.type, OutputFile):
                is_option = isinstance(parameter, click.Option)
                # of several flags the last, which is the long one: --output of -o
                flag = parameter.opts[-1] if is_option else str(parameter.metavar)
                outputs[flag] = value
                output_types[flag] = parameter.type
            elif value and isinstance(parameter.type, click.Path):
                inputs += value if isinstance(value, tuple) else (value,)
        _check_outputs(outputs, inputs)
        for flag, path in outputs.items():
            # Raises for a place that cannot be written to. With `verdict_first` (a series of checks) that is reported
            # only after the verdict, which must not depend on it.
            if not output_types[flag].verdict_first:
                _outputs.check_place(path)
            check_output_name(path, *output_types[flag].kinds)  # raises for an ending such as .png for JSON
        return super().invoke(ctx)


def _describe_metrics(metrics: Iterable[Any]) -> list[tuple[str, str]]:
    """The key of each metric, and its summary with its direction, for help."""
    lines = []
    for metric in metrics:
        direction = "lower" if metric.lower_is_better else "higher"
        lines.append((metric.key, f"{metric.summary.rstrip('.')}; {direction} is better"))
    return lines


def _check_outputs(outputs: dict[str, str], inputs: list[str]) -> None:
    """Raise if two outputs are one file, or if one is also read or is where standard output goes.

    `outputs` maps flags to paths, and `inputs` are paths of files and folders that are read. A usage error, and
    DataError for a file that is read.
    """
    for (flag, path), (second_flag, second_path) in combinations(outputs.items(), 2):
        if _outputs.same_target(path, second_path):
            raise click.UsageError(
                f"{flag} and {second_flag} name the same file, {path}: the second would replace the first. "
                "Name two files."
            )
    for flag, path in outputs.items():
        _outputs.check_target(path, inputs)  # raises if the file is one of the inputs
        if _is_standard_output(path):
            raise click.UsageError(
                f"{flag} and standard output are the same file, {path}: one would replace the other. Name two files."
            )


def check_output_name(path: str, *kinds: str) -> None:
    """Raise a usage error if the ending of an output's name belongs to another kind of file."""
    try:
        _outputs.check_ending(path, *kinds)
    except AbstainError as error:
        raise click.UsageError(str(error)) from None


def _is_standard_output(path: str) -> bool:
    """True if standard output is redirected to this regular file."""
    with suppress(OSError, ValueError, AttributeError):
        return os.path.isfile(path) and os.path.samestat(os.stat(path), os.fstat(sys.stdout.fileno()))
    return False


class OutputFile(click.Path):
    """A file to write, of kinds that `abstain._outputs.ENDINGS` lists; `DocumentedCommand` checks it before any work.

    With `verdict_first` a place that cannot be written to is reported only when it is written: the command's verdict,
    possibly an alarm, must not depend on it.
    """

    def __init__(self, *kinds: str, verdict_first: bool = False) -> None:
        super().__init__(dir_okay=verdict_first)
        self.kinds = kinds
        self.verdict_first = verdict_first


class InputFile(click.Path):
    """A file to read; `-` is standard input."""

    def __init__(self, *, folders: bool = False) -> None:
        super().__init__(exists=True, dir_okay=folders, allow_dash=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; standard input is copied to a temporary file first."""
        if super().convert(value, param, ctx) != "-":
            return value
        return str(abstain.formats.readers.save_standard_input(abstain.formats.Limits()))


class FormatName(click.ParamType):  # type: ignore[type-arg]  # generic since click 8.5
    """The name of a file format that `abstain.formats` can read."""

    name = "format"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name, or fail with the formats that exist."""
        formats = abstain.formats.FORMATS
        if value not in formats:
            suggestion = suggest_name(value, formats)
            self.fail(f"{value!r} is not one of {', '.join(formats)}. {suggestion}".strip(), param, ctx)
        return value


class LazyHelpOption(click.Option):
    """An option whose help text is made when help is printed, because making it loads other modules."""

    def __init__(self, *args: Any, make_help: Callable[[], str], **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.make_help = make_help

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """The flags and the help text."""
        self.help = self.make_help()
        return super().get_help_record(ctx)


class MetricOption(click.Option):
    """An option that takes names of metrics; the command's help lists them."""


def _make_option(*flags: str, help: Help, **settings: Any) -> Callable[[Command], Command]:  # noqa: A002
    """Make the decorator of an option whose help is a text, or a function that makes it when it is printed."""
    if callable(help):
        return click.option(*flags, cls=LazyHelpOption, make_help=help, **settings)
    return click.option(*flags, help=help, **settings)


# of columns that hold 1 for a wrong answer
_NAMES_OF_ERRORS = (*COLUMN_NAMES["error"], "incorrect", "is_incorrect", "is_wrong")
_OWN_METRIC_HELP = "MODULE:OBJECT or FILE.py:OBJECT takes an abstain.Metric of your own."


def say(text: object) -> None:
    """Print a line on stderr, with control characters escaped."""
    click.echo(escape_controls(text), err=True)


def suggest_commands(purposes: Mapping[tuple[str, ...], str]) -> None:
    """Print commands that a user may want to run next, each with its purpose, on stderr.

    The keys are the words of a command line after `abstain`. Programs read stdout, so hints are kept out of it.
    """
    say("next:")
    for words, purpose in purposes.items():
        say(f"  # {purpose}")
        say(f"  {shlex.join(['abstain', *words])}")


def refuse_folders(files: Iterable[str]) -> None:
    """Raise a usage error if one of the files is a folder, which only an engine reads."""
    for file in files:
        if os.path.isdir(file):
            raise click.UsageError(
                f"{file} is a folder: name a file, or let an engine read it (--engine files)."
            )


def typed_command(*omitted: str) -> str:
    """The command line as the user typed it, for pages and records, without the arguments in `omitted`.

    Absolute paths are reduced to the file's name: pages are passed on, and folders may be private.
    """
    arguments = click.get_current_context().meta["abstain.arguments"]
    return shlex.join(["abstain", *(_drop_folders(a) for a in arguments if a not in omitted)])


def _drop_folders(argument: str) -> str:
    """Return an argument, or `--option=argument`, with an absolute path reduced to its name."""
    option, equals, value = argument.rpartition("=")
    is_path = os.path.isabs(value) and Path(value).name
    return f"{option}{equals}{Path(value).name}" if is_path else argument


def note_ignored_columns(predictions: abstain.formats.Predictions, *names: str) -> None:
    """Print a note that the command ignores a column, for each of these columns that the file has."""
    consequences = {"sample_weight": "every sample counts once"}
    for name in names:
        if getattr(predictions, name) is not None:
            say(f"note: the column of {name} is not read here: {consequences[name]}.")


def note_chosen_confidence(predictions: abstain.formats.Predictions) -> None:
    """If a file has several confidences, print a note that the first one is used."""
    if len(predictions.signals) > 1:
        first, second, *_ = map(abstain.formats.safety.display_name, predictions.signals)
        say(f"note: the confidence here is `{first}`, the first; name another with -c confidence={second}.")


def fitted_rows_notes(predictions: abstain.formats.Predictions) -> list[str]:
    """A sentence if a learned confidence ranks rows that it was fitted on, which flatter it; otherwise none.

    A learned confidence is a saved model (`abstain improve`) that computed `predictions.confidence`; `learned` is None
    for other predictions.
    """
    learned = predictions.learned
    confidence = predictions.without_abstentions().confidence
    if learned is None or confidence is None:
        return []
    known = learned.count_fitted_rows(confidence, predictions.n)  # in words: "about 40 of 840 rows"
    if not known:  # no more rows are recognised than chance explains
        return []
    name = abstain.formats.safety.display_name(predictions.name)
    return [
        f"{name}: {known} are rows that the learned confidence was fitted on, so its numbers are too good. Judge it on "
        f"other rows."
    ]


def warn_if_worse_than_chance(predictions: abstain.formats.Predictions, score: str, loss: str) -> None:
    """Print a warning if the confidence of a file ranks its answers significantly worse than chance.

    `score` and `loss` name what is computed from class scores, if the file has any.
    """
    for warning in direction_warnings(predictions, score, loss, title="confidence"):
        say(f"warning: {abstain.formats.safety.display_name(predictions.name)}: {warning}")


def direction_warnings(
    predictions: abstain.formats.Predictions, score: str, loss: str, *, title: str
) -> list[str]:
    """Return a warning if a file's confidence ranks the answers that have it significantly worse than chance, or [].

    `score` and `loss` name what is computed from class scores, if the file has any; the warning begins with `title`.
    Worse than chance means that the 99% interval of AUROC lies below 1/2; so there is none for losses other than 0/1.
    """
    chance = abstain.evaluation.chance
    # None if no answer has a confidence; answers without one are ranked last by a made-up number, which says nothing
    ranked = predictions.without_abstentions().with_own_confidence()
    if ranked is None:
        return []
    sample_loss, confidence = ranked.loss_and_confidence(score, loss)
    table = abstain.evaluate(
        loss=sample_loss,
        confidence={title: confidence},
        clusters=ranked.clusters,
        metrics=["auroc"],
        progress=False,
    )
    # of the table's notes, those about rankings that are worse than chance
    warnings = chance.chance_warnings(table.notes)
    # which name the column whose sign may be wrong; None is a confidence computed from class scores
    return chance.with_sign_advice(warnings, {title: ranked.name_of_ranking()})


def explicit_value(name: str) -> Any:
    """Return the value of an option if the user typed it, None if it is the default."""
    context = click.get_current_context()
    is_typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    return context.params[name] if is_typed else None


def refuse_unused_names(*models: abstain.formats.Predictions) -> None:
    """Raise a usage error if --score or --loss would do nothing: all files have confidences and losses already.

    A name that is one of the files' confidences is accepted: `model.signals` holds them by name. Nothing is raised if
    some file has class scores, or if the user typed neither option. Reads the options of the command that is running.
    """
    if not models or any(model.has_class_scores for model in models):
        return
    # commands that take several names have the plural as the name of their parameter
    flags = {"score": "--score", "scores": "--score", "loss": "--loss", "losses": "--loss"}
    for parameter, flag in flags.items():
        # None if the user did not type the option, or the command does not have it
        value = explicit_value(parameter)
        names = value if isinstance(value, list | tuple) else [value]
        if value is not None and not all(name in model.signals for name in names for model in models):
            path = abstain.formats.safety.display_name(models[0].path)
            raise click.UsageError(
                f"{flag} is for files with logits or probabilities, and {path} has confidences of its own. Leave it "
                f"out; -c confidence=NAME names another column."
            )


def refuse_unanswered_as_wrong(metrics: Iterable[Any], unanswered: str | None) -> None:
    """Raise a usage error for `--unanswered wrong` with a metric in which a wrong answer and no answer differ.

    `metrics` are names or definitions of metrics of any kind; `unanswered` is the value of that option. Only metrics of
    right, wrong and unattempted answers ("simpleqa_f") can tell the two apart, so all others are passed over.
    """
    answer_metrics = abstain.metrics.answer_metrics
    if unanswered != "wrong":
        return
    for metric in metrics:
        if not answer_metrics.is_answer_metric(metric):
            continue
        definition = answer_metrics.answer_metric(metric)
        if definition.tells_wrong_from_unanswered:
            raise click.UsageError(
                f"{definition.key} tells wrong answers from questions without an answer, and --unanswered wrong counts "
                f"both as wrong. Leave --unanswered out, or use --metric accuracy."
            )


def input_option(*flags: str, **settings: Any) -> Callable[[Command], Command]:
    """Make an option that takes an existing file."""
    return click.option(*flags, metavar="FILE", type=click.Path(exists=True, dir_okay=False), **settings)


def output_option(
    *flags: str, kind: str, verdict_first: bool = False, **settings: Any
) -> Callable[[Command], Command]:
    """Make an option that takes a file to write; see `OutputFile`."""
    file_type = OutputFile(kind, verdict_first=verdict_first)
    return click.option(*flags, metavar="FILE", type=file_type, **settings)


def refuse_other_notations(
    typed: str, ctx: click.Context | None = None, param: click.Parameter | None = None
) -> None:
    """Raise BadParameter, with the notation to use, for a percentage such as 20% and a decimal comma such as 0,2.

    `typed` is what the user wrote, perhaps with other text before a percentage ("a=20%"). Anything else passes, also
    what is no number: the caller parses it. `ctx` and `param` say in the message which option it is.
    """
    percentage = _PERCENT.search(typed)  # group 1 is the number before the sign
    if percentage:
        fraction = float(percentage[1]) / 100
        raise click.BadParameter(
            f"{percentage[0]!r} must be a fraction. Write {fraction:g} for {percentage[0]}.", ctx, param
        )
    decimal_comma = _DECIMAL_COMMA.fullmatch(typed.strip())  # digits, a comma, digits
    if decimal_comma:
        whole, decimals = decimal_comma.groups()
        raise click.BadParameter(
            f"{typed!r} must have a decimal point. Write {whole}.{decimals} for {whole},{decimals}.",
            ctx,
            param,
        )


class _Fraction(click.types.FloatParamType):
    """A number; 20% and 0,2 are refused with what to write instead."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str):
            refuse_other_notations(value, ctx, param)
        return super().convert(value, param, ctx)


def fraction_option(
    name: str,
    help: str,  # noqa: A002
    default: float | None = None,
    *,
    explain_refusal: Callable[[float], str] = lambda value: "",
) -> Callable[[Command], Command]:
    """Make an option that takes a number between 0 and 1; percentages are refused with a hint.

    `explain_refusal` returns the sentence on a number that the option refuses, "" for any other; it comes before the
    check that the number lies between 0 and 1, neither of which is allowed. Without a `default` the command gets None
    where the option is not used. The type `_Fraction` refuses "5%" and "0,05" before both.
    """

    def check(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
        """Return the number as it is, or raise BadParameter; click calls this with what the user typed."""
        refusal = explain_refusal(value) if value is not None else ""
        if refusal:
            raise click.BadParameter(refusal)
        if value is None or 0 < value < 1:
            return value
        # the hint says what to write for a number such as 5, which may be meant as a percentage; otherwise ""
        raise click.BadParameter(f"{value:g} must lie between 0 and 1.{percent_hint(value)}")

    return click.option(
        name, type=_Fraction(), callback=check, metavar="FRACTION", help=help, default=default
    )


def delta_option(help: str) -> Callable[[Command], Command]:  # noqa: A002
    """Make the option `--delta`, 0.05 unless given; a level of confidence such as 0.95 is refused with a sentence."""
    return fraction_option("--delta", help, 0.05, explain_refusal=explain_large_delta)


def split_commas(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Split the value of an option at its commas; a callback of click."""
    return tuple(part.strip() for part in (value or "").split(",") if part.strip())


def name_option(
    registry: str,
    help: str,  # noqa: A002
    *,
    several: bool = False,
    **settings: Any,
) -> Callable[[Command], Command]:
    """Make an option that takes names of "metrics", "scores" or "losses", checked before any file is read.

    `registry` is one of these three words, and the flag is its singular. With `several` the option takes names
    separated by commas, may be repeated, and accepts "all": the command gets a list of names, "all", or None if the
    option is not used. Otherwise it gets a name or None. A user's own metric, "module:object", is imported, registered,
    and replaced by its name. `settings` go to `click.option`. Unknown names are a usage error.
    """
    flag = "--loss" if registry == "losses" else f"--{registry[:-1]}"

    def check(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        """Return the names, a name, "all" or None as said above, or raise BadParameter; click calls this."""
        # `value` is what the user typed: a tuple with `several`, else a text; empty or None without the option
        if not value:
            return None
        names = list(split_commas(ctx, param, ",".join(value))) if several else [value]
        if not several and "," in value:
            raise click.BadParameter(f"takes one name here, got {value}. Run the command once for each.")
        if several and names == ["all"]:
            return "all"
        try:
            names = [_check_name(registry, name) for name in names]  # raises for an unknown name
        except AbstainError as error:
            reason = str(error).split(": ", 1)[-1]  # without the name of the function
            raise click.BadParameter(reason) from None
        if not names:
            raise click.BadParameter("needs at least one name.")
        return names if several else names[0]

    # `registry`, without dashes, is the name of the command's parameter; by default that is the flag's word
    flags = (flag, f"--{registry}", registry) if several else (flag,)
    metavar = "A,B,..." if several else "NAME"
    if registry == "metrics":
        settings["cls"] = MetricOption  # so that the command's help lists the metrics
        help = f"{help} {_OWN_METRIC_HELP}"  # noqa: A001
    return click.option(*flags, multiple=several, callback=check, metavar=metavar, help=help, **settings)


def _check_name(registry: str, name: str) -> str:
    """Return the name under which a metric, score or loss is registered; raise InputError for an unknown one."""
    if registry == "metrics":
        if abstain.evaluation.graded.find_further_metric(name) is not None:
            return name
        name = _register_own_metric(name)
        abstain.evaluation.graded.find_ranking_metric(name)
        return name
    importlib.import_module(f"abstain.{registry}").by_name(name)
    return name


def _register_own_metric(name: str) -> str:
    """Import and register the metric of "module:object", and return its name; other names are returned unchanged.

    Options may follow as in any name: "module:object@0.9" becomes "its_name@0.9".
    """
    module, colon, remainder = name.partition(":")
    if not colon or module.partition("@")[0] in abstain.metrics.METRICS:  # such as aurc:loo
        return name
    object_name = re.split("[@:]", remainder, maxsplit=1)[0]
    metric = abstain.metrics.load(f"{module}:{object_name}")
    return metric.name + remainder.removeprefix(object_name)


def _parse_columns(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """Parse ROLE=NAME, each role once, into names by role; several confidences are joined by commas.

    A callback of click. Raises BadParameter for an unknown role, a missing name, or a repeated role. A role says what a
    column holds ("confidence", "correct", ...); roles such as confidence may have several columns, all others one.
    """
    columns: dict[str, str] = {}
    for text in value:
        title, _, name = text.partition("=")
        try:
            role = role_of(title)  # its usual name: "confidence" for "uncertainty", too
        except AbstainError:
            name = ""  # no such role, so that the message below is raised
        if not name:
            roles = abstain.formats.ROLES
            suggestion = suggest_name(title, roles)
            message = f"write ROLE=NAME with a role among {', '.join(roles)}; got {text!r}."
            raise click.BadParameter(f"{message} {suggestion}".strip())
        name = abstain.formats.roles.columns_by_role({title: name})[role]  # an uncertainty gets a minus sign
        if role in columns and role not in abstain.formats.roles.ROLES_WITH_SEVERAL_COLUMNS:
            raise click.BadParameter(
                f"{role} is given twice, {columns[role]!r} and {name!r}. Name one column."
            )
        columns[role] = f"{columns[role]},{name}" if role in columns else name
    _note_contradicting_names(columns)  # a note on stderr for `correct=error`, say
    return columns


def _note_contradicting_names(columns: Mapping[str, str]) -> None:
    """Print a note if a column of errors is stated as one of right answers, or the other way round.

    `columns` are names by role, as the user typed them. The user's word counts all the same.
    """
    correct = columns.get("correct", "")
    if normalise_name(correct) in _NAMES_OF_ERRORS:
        say(
            f"note: `{correct}` is read as correct (1 = right), and its name says that it holds errors: "
            f"-c error={correct}."
        )
    error = columns.get("error", "")
    if normalise_name(error) in COLUMN_NAMES["correct"]:
        say(
            f"note: `{error}` is read as error (1 = wrong), and its name says that it holds right answers: "
            f"-c correct={error}."
        )


def _parse_pairs(ctx: click.Context, param: click.Parameter, value: Iterable[str]) -> dict[str, str]:
    """Parse NAME=VALUE, repeated or separated by commas; a value without a name gets the empty name.

    A callback of click. Returns values by name, empty without the option. Raises BadParameter if a name occurs twice.
    """
    pairs: dict[str, str] = {}
    for text in ",".join(value).split(",") if value else ():
        title, _, setting = text.rpartition("=")  # a text without = is all setting, and its title is empty
        name = title.strip()
        if name in pairs:
            which = f"{name!r} is" if name else "it is"
            raise click.BadParameter(
                f"{which} given twice, {pairs[name]!r} and {setting.strip()!r}. Give one."
            )
        pairs[name] = setting.strip()
    return pairs


def _parse_output_path(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the path, or None for "-", the screen; a callback of click."""
    return None if value == "-" else value


def _parse_memory(ctx: click.Context, param: click.Parameter, value: str) -> int:
    """Return the bytes of a size such as 4GB; a callback of click."""
    try:
        return parse_size("--memory", value)
    except AbstainError as error:
        raise click.BadParameter(str(error)) from None


def _option(*flags: str, **settings: Any) -> dict[str, Any]:
    """The settings of the option that fills a field; without `flags` the flag is the field's name."""
    return {"flags": flags, **settings}


def _choice(*values: str) -> dict[str, Any]:
    """The settings of an option that takes one of these values; None if the user leaves it out."""
    return _option(type=click.Choice(values))


class ReadModels(NamedTuple):
    """Models that were read from files."""

    models: list[abstain.formats.Predictions]  # those with a confidence, in the order of the files
    notes: list[str]  # sentences that name the others, and why they are not ranked


def _notes_on_unranked(
    unranked: Iterable[tuple[str, abstain.formats.read_files.NoConfidenceError]],
) -> list[str]:
    """Sentences that name the models without a confidence, one for each reason.

    `unranked` has the name of each of these models, and the error that was raised when its file was read. The message
    of that error is "FILE: no answer has `NAME`."
    """
    names_by_reason: dict[str, list[str]] = {}
    for name, error in unranked:
        reason = str(error).rpartition(": ")[2]  # without the name of the file
        names_by_reason.setdefault(reason, []).append(abstain.formats.safety.display_name(name))
    notes = []
    for reason, names in names_by_reason.items():
        if len(names) == 1:
            notes.append(f"{names[0]} is not ranked: {reason}")
        else:
            notes.append(f"{len(names)} models are not ranked ({', '.join(names)}): {reason}")
    return notes


class UnlabelledFile(NamedTuple):
    """New data whose labels are not known yet."""

    predictions: abstain.formats.Predictions
    other_columns: dict[str, Any]  # all other columns of the file: arrays by name


class ReadOptions(NamedTuple):
    """How files are read. Each field is an option; `_READ_HELP` describes it."""

    columns: Annotated[
        dict[str, str], _option("-c", "--column", multiple=True, callback=_parse_columns, metavar="ROLE=NAME")
    ]
    kind: Annotated[str | None, _option("--as", type=click.Choice(["logits", "probs", "confidence"]))]
    labels: Annotated[str | None, _option(type=InputFile(), metavar="FILE")]
    classes: Annotated[tuple[str, ...], _option(callback=split_commas, metavar="A,B,...")]
    format: Annotated[str | None, _option(type=FormatName(), metavar="NAME")]
    tolerance: Annotated[float | None, _option(type=click.FloatRange(0, 1), metavar="NUMBER")]
    memory: Annotated[
        int, _option("--memory", "--max-memory", default="4GB", callback=_parse_memory, metavar="SIZE")
    ]
    only: Annotated[dict[str, str], _option(multiple=True, callback=_parse_pairs, metavar="NAME=VALUE")]
    unanswered: Annotated[str | None, _choice("abstained", "wrong")]
    missing: Annotated[str | None, _choice("left_out", "last")]
    scale: Annotated[dict[str, str], _option(multiple=True, callback=_parse_pairs, metavar="[NAME=]SCALE")]
    outside: Annotated[str | None, _choice("refused", "missing")]
    grades: Annotated[dict[str, str], _option(multiple=True, callback=_parse_pairs, metavar="TEXT=GRADE")]
    refusals: Annotated[tuple[str, ...], _option(callback=split_commas, metavar="TEXT,...")]
    confidence: Annotated[tuple[str, ...], _option(callback=split_commas, metavar="FILE,...")]

    def engine_columns(self, path: str) -> dict[str, Any]:
        """Return the names of the columns of a table that an engine reads, by argument of the engine ("loss", ...).

        `path` is a table or a folder of tables. Raises a usage error for options that change values, because an engine
        reads them as they are, and if the columns are missing or ambiguous. `self.columns` maps roles to columns as the
        user typed them. An engine computes from files that need not fit in memory. With --confidence the value at
        "confidence" is the learned confidence itself, a saved model, in place of a name.
        """
        # names of options about answers: "only", "unanswered", "missing", "grades" ...
        options_of_answers = abstain.formats.Rules.__dataclass_fields__
        for name in ("kind", "labels", "tolerance", *options_of_answers):
            if explicit_value(name) is not None:
                flag = "--as" if name == "kind" else f"--{name}"
                raise click.UsageError(f"{flag} is for files that are read in memory, not for --engine.")
        if self.columns.get("confidence", "").startswith("-"):
            raise click.UsageError(
                "--engine reads columns as they are: store the uncertainty with the other sign, or leave --engine out."
            )
        return abstain.formats.file_evaluation.engine_columns(
            path,
            stated=self.columns,
            kind=self.kind,
            format=self.format,
            refusal=click.UsageError,  # to raise where the columns are missing or ambiguous
            classes=self.classes,
            learned=self.load_learned(),
        )

    @property
    def limits(self) -> abstain.formats.Limits:
        """How much memory a file may take."""
        return abstain.formats.Limits(memory=self.memory)

    @property
    def rules(self) -> abstain.formats.Rules:
        """How the answers of a log are counted."""
        return abstain.formats.Rules(**self._select(*abstain.formats.Rules.__dataclass_fields__))

    def _select(self, *names: str) -> dict[str, Any]:
        """These fields and properties, by name."""
        return {name: getattr(self, name) for name in names}

    def read(
        self,
        path: str,
        name: str | None = None,
        *,
        summarise: bool = True,
        purpose: str = "one file",
        keep_others: bool = False,
    ) -> abstain.formats.Predictions:
        """Read one file of predictions.

        Parameters
        ----------
        path : str
            The file.
        name : str or None
            Name of the model; by default that of the file.
        summarise : bool
            For a log of answers, print on stderr how it was read.
        purpose : str
            What the file is read for: "one file", "compared", "cascade" or "learning". It decides how unanswered
            questions and missing confidences count unless the user says it.
        keep_others : bool
            With --confidence, keep the file's own confidences next to the learned one.

        Raises
        ------
        DataError
            If the file cannot be read as predictions, or needs more memory than allowed.
        """
        # these options by name, as arguments of `read_predictions`; `limits` and `rules` are made of several options
        settings = self._select(
            "columns", "kind", "labels", "classes", "format", "limits", "tolerance", "rules"
        )
        # a learned confidence copes with missing inputs, so an answer without one of them is kept
        if self.learned_confidence_files and purpose == "one file":
            purpose = "learning"
        predictions = abstain.formats.read_predictions(path, name=name, purpose=purpose, **settings)
        # unchanged without --confidence
        predictions = self.rank_by_learned(predictions, keep_others=keep_others)
        if summarise and predictions.log:  # None where the file is no log of answers
            for line in predictions.log.summary_lines():
                say(f"{predictions.name}: {line}")
        return predictions

    @property
    def learned_confidence_files(self) -> tuple[str, ...]:
        """The files of --confidence, each with a learned confidence; empty without that option."""
        return self.confidence

    def read_to_learn(self, path: str) -> abstain.formats.Predictions:
        """Read labelled data that a confidence is learned from; answers may lack some of the confidences.

        Raises a usage error for --confidence, and DataError if the file cannot be read as predictions.
        """
        if self.learned_confidence_files:
            raise click.UsageError(
                "--confidence is a learned confidence; this command learns one. Leave it out."
            )
        return self.read(path, purpose="learning")

    def rank_by_learned(
        self, predictions: abstain.formats.Predictions, *, keep_others: bool = False
    ) -> abstain.formats.Predictions:
        """Return predictions ranked by the learned confidence of --confidence; as they are without that option.

        A learned confidence is what `abstain improve` saved: a model that computes a confidence from columns of a file.
        With `keep_others`, the file's own confidences stay next to it. Raises a usage error if the option names several
        files, and DataError if the data lack an input of the confidence. `predictions` is not changed.
        """
        learned = self.load_learned()
        if learned is None:
            return predictions
        # `rules.refusals` are texts of answers that the user named as refusals; they say which rows have no answer, too
        if learned.is_from_answers_alone and not predictions.tells_unanswered and not self.rules.refusals:
            name = abstain.formats.safety.display_name
            say(
                f"note: {name(self.learned_confidence_files[0])} was learned without rows that have no answer, and "
                f"nothing says which rows of {name(predictions.path)} have one. Name the column: -c prediction=NAME."
            )
        return predictions.with_confidence(learned, keep_others=keep_others)

    def load_learned(self) -> abstain.confidence.LearnedConfidence | None:
        """Return the learned confidence (a saved model that computes one) of --confidence, None without that option.

        Raises a usage error if the option names several files, and DataError if the file holds something else. Where
        each of several files has its own, `of_file` has to be called first.
        """
        if not self.learned_confidence_files:
            return None
        if len(self.learned_confidence_files) > 1:
            raise click.UsageError(
                f"--confidence takes one file here, got {len(self.learned_confidence_files)}."
            )
        return abstain.confidence.LearnedConfidence.load(self.learned_confidence_files[0])

    def of_file(self, number: int, file_count: int) -> ReadOptions:
        """Return the options for one of several files: with its own learned confidence where each file has one.

        `number` counts the files from 0. Raises a usage error unless --confidence has one file for all, or one each.
        The field `confidence` holds the files of --confidence, which `learned_confidence_files` returns.
        """
        if len(self.learned_confidence_files) <= 1:
            return self
        if len(self.learned_confidence_files) != file_count:
            raise click.UsageError(
                f"--confidence must name one file for all models or {file_count}, one each, "
                f"got {len(self.learned_confidence_files)}."
            )
        return self._replace(confidence=(self.learned_confidence_files[number],))

    def read_several(self, files: dict[str, str], purpose: str, *, summarise: bool = True) -> ReadModels:
        """Read files by the names of their models; those without a confidence get a note instead.

        `purpose` ("one file" or "compared") says what files are read for, which decides how unanswered questions and
        missing confidences count unless the user says it. `summarise` prints on stderr how logs of answers were read.
        Raises DataError if a file cannot be read. All of the models may lack a confidence: then there are only notes.
        """
        models = []
        unranked: list[tuple[str, abstain.formats.read_files.NoConfidenceError]] = []
        keep_others = len(files) == 1  # next to the learned confidence, which is then compared with them
        for number, (name, path) in enumerate(files.items()):
            # with the learned confidence of this file; a usage error unless --confidence has one file, or one each
            options = self.of_file(number, len(files))
            try:
                models.append(
                    options.read(path, name, summarise=summarise, purpose=purpose, keep_others=keep_others)
                )
            except abstain.formats.read_files.NoConfidenceError as error:
                unranked.append((name, error))
        return ReadModels(models, _notes_on_unranked(unranked))

    def read_by(self, path: str, column: str) -> ReadModels:
        """Read one long table of several models, which the values of a column name.

        The models come in the order of the table; those without a confidence get a note instead. They are read to be
        compared, so that unanswered questions are wrong unless the user says otherwise. Raises DataError if the file
        cannot be read or has no such column, and a usage error if --confidence names several files.
        """
        source = abstain.formats.open_source(path, format=self.format, limits=self.limits)
        # these options by name, as arguments of `make_predictions`
        settings = self._select("columns", "kind", "labels", "classes", "limits", "tolerance", "rules")
        models = []
        unranked: list[tuple[str, abstain.formats.read_files.NoConfidenceError]] = []
        for name, part in abstain.formats.log_folders.split_by_column(source, column).items():
            try:
                # `part` is the table of the rows with this name
                model = abstain.formats.read_files.make_predictions(
                    part, name=name, path=path, purpose="compared", **settings
                )
                models.append(self.rank_by_learned(model))
            except abstain.formats.read_files.NoConfidenceError as error:
                unranked.append((name, error))
        return ReadModels(models, _notes_on_unranked(unranked))

    def make_log(self, source: abstain.formats.OpenedTable, purpose: str) -> abstain.formats.Log:
        """Make the log of an opened file of answers, with a confidence or without.

        `purpose` ("one file" or "compared") says what the file is read for, which decides how unanswered questions and
        missing confidences count unless the user says it. A role says what a column holds ("correct", "confidence").
        Raises DataError if nothing says which answers are right, or if columns contradict each other.
        """
        right_answers = None
        if self.labels is not None:  # a second file
            right_answers = abstain.formats.open_source(self.labels, limits=self.limits)
        # `self.columns` maps roles to what the user typed: a name, "-entropy" for the column `entropy` with the other
        # sign, or "score/10" for a tenth of `score`. Columns of the latter two kinds are added, so that they are found.
        source = abstain.formats.columns.add_derived_columns(source, self.columns)
        stated_roles = set(self.columns)
        return abstain.formats.answers.make_log(
            source,
            # the columns of each role; `add_repeats` adds the one that says which rows are of the same question
            abstain.formats.answers.add_repeats(
                source, source.find_roles(self.columns), self.rules, stated_roles=stated_roles
            ),
            self.rules,  # which rows are read, and how answers and missing confidences count
            right_answers=right_answers,
            stated_roles=stated_roles,
            purpose=purpose,
        )

    def flags(self) -> list[str]:
        """Return the options as a user would type them, without those that have their default.

        A list of arguments: columns (`self.columns`, role -> column as it was typed), then pairs NAME=VALUE, then
        single settings. A new field of this class must be added here, or suggested commands read files otherwise.
        """
        arguments: list[str] = []
        for role, name in self.columns.items():
            arguments += ["-c", f"{role}={name}"]
        for option in ("only", "scale", "grades"):
            for name, value in getattr(self, option).items():  # the name may be empty: a value for all
                arguments += [f"--{option}", f"{name}={value}" if name else value]
        settings: dict[str, Any] = {
            "as": self.kind,
            "labels": self.labels,
            "classes": ",".join(self.classes),
            "format": self.format,
            "tolerance": self.tolerance,
            "unanswered": self.unanswered,
            "missing": self.missing,
            "outside": self.outside,
            "refusals": ",".join(self.refusals),
            "confidence": ",".join(self.learned_confidence_files),
        }
        for option, setting in settings.items():
            if setting not in (None, ""):
                arguments += [f"--{option}", str(setting)]
        if self.limits != abstain.formats.Limits():  # not the default amount of memory
            arguments += ["--memory", str(self.memory)]
        return arguments

    def read_log(self, path: str) -> abstain.formats.Log:
        """Read one file of answers, with a confidence or without."""
        settings = self._select("columns", "labels", "format", "limits", "rules")
        return abstain.formats.read_log(path, **settings)

    def read_answers(self, path: str, name: str | None = None) -> abstain.formats.Predictions:
        """Read one file of graded answers, whether it has a confidence or not.

        Questions without an answer are abstentions, unless the user says that they count as wrong. The predictions of a
        log have a constant confidence, since none is read, so that no answer is left out for lack of one. `name` is the
        model's; by default that of the file. Raises DataError if the file says nothing about right and wrong answers. A
        file that is no log is read as class scores with labels, which say it, too; if that fails as well, the first
        error is the one that is raised.
        """
        try:
            log = self.read_log(path)
        except AbstainError as problem:
            try:
                predictions = self.read(path, name, summarise=False)  # class scores with labels
            except AbstainError:
                raise problem from None
            return predictions
        return abstain.formats.predictions.graded_predictions(
            log, name=name or abstain.formats.file_names.model_name(path), unanswered=self.unanswered
        )

    def read_answers_by(self, path: str, column: str) -> list[abstain.formats.Predictions]:
        """Read one long table of graded answers of several models, which the values of a column name.

        The models come in the order of the table. Questions without an answer are abstentions, unless the user says
        that they count as wrong. The predictions have a constant confidence, since none is read, so that no answer is
        left out for lack of one. Raises DataError if there is no such column, or nothing says which answers are right.
        Unlike `read_answers` it takes no class scores.
        """
        source = abstain.formats.open_source(path, format=self.format, limits=self.limits)
        return [
            abstain.formats.predictions.graded_predictions(
                self.make_log(part, purpose="compared"), name=name, unanswered=self.unanswered
            )
            for name, part in abstain.formats.log_folders.split_by_column(source, column).items()
        ]

    def read_unlabelled(self, path: str) -> UnlabelledFile:
        """Read class scores or confidences of new data, whose labels are not known yet, and all other columns.

        Raises a usage error if the user named a file of labels, and DataError if the file cannot be read. With
        --confidence the predictions are ranked by that learned confidence.
        """
        if self.labels is not None:
            raise click.UsageError(
                "--labels is for data with known labels; new data need none. Leave it out."
            )
        settings = self._select("columns", "kind", "classes", "format", "limits", "tolerance", "rules")
        # a learned confidence has several inputs, so the file may have several columns of confidences
        has_learned_confidence = bool(self.learned_confidence_files)
        predictions, other_columns = abstain.formats.read_files.read_unlabelled(
            path, to_learn=has_learned_confidence, **settings
        )
        return UnlabelledFile(self.rank_by_learned(predictions), other_columns)


class Output(NamedTuple):
    """Where a result goes and in which form.

    `form` is "json", "csv", "latex" or "quiet"; None for the form that the name of the file says, or a table on the
    screen. `path` is None for the screen.
    """

    form: str | None
    path: Annotated[
        str | None,
        _option(
            "-o",
            "--output",
            type=OutputFile("text", "json", "csv", "latex"),
            callback=_parse_output_path,
            metavar="FILE",
        ),
    ]

    @property
    def is_screen(self) -> bool:
        """True for a table on the screen: no file, and no other form."""
        return self.form is None and self.path is None

    def resolved(self) -> Output:
        """Return the same with the form that the name of the file says, if no option says it."""
        if self.path is None:
            return self
        if self.form is not None:
            check_output_name(self.path, self.form)
            return self
        ending = _outputs.ending_of(self.path)
        matching_forms = (form for form in ("json", "csv", "latex") if ending in _outputs.ENDINGS[form])
        return self._replace(form=next(matching_forms, None))


_ANYTIME_HELP = "Intervals and tests hold at every look, for files that grow. About 1.5 times as wide."
_PLANNED_HELP = "Samples at which you hope to stop, with --anytime; by default 1,000. Keep it for all looks."
_REPETITIONS_HELP = (
    "Sample weights are numbers of repetitions (aurc:loo and aurc:log need that), not relative."
)
_SHARED: dict[str, Callable[[Any], Any]] = {
    "score": name_option(
        "scores", "Confidence computed from class scores, if the file has any.", default="max_softmax"
    ),
    "loss": name_option(
        "losses", "Loss computed from class scores, if the file has any.", default="zero_one"
    ),
    "names": click.option("--names", metavar="A,B,...", callback=split_commas, help=_NAMES_HELP),
    "level": fraction_option("--level", "Confidence level of intervals, bands and tests.", 0.95),
    "anytime": click.option("--anytime", is_flag=True, help=_ANYTIME_HELP),
    "planned": click.option("--planned", type=click.IntRange(1), metavar="N", help=_PLANNED_HELP),
    "rng": click.option("--rng", "--seed", "rng", type=int, default=0, help="Random seed of the bands."),
    "repetitions": click.option("--repetitions", is_flag=True, help=_REPETITIONS_HELP),
    "open": click.option("--open", "open_it", is_flag=True, help="Open the page in the browser."),
}


def shared_options(*names: str) -> Callable[[Command], Command]:
    """Add these options of `_SHARED` to a command, in this order."""

    def decorate(command: Command) -> Command:
        for name in reversed(names):
            command = _SHARED[name](command)
        return command

    return decorate


def _gather_options(fields_type: type[ReadOptions] | type[Output], argument: str, command: Command) -> Any:
    """Add an option for each field of a NamedTuple to a command, which gets all of them as one argument.

    `fields_type` is the NamedTuple; the annotation of a field holds the settings of its option. A field without
    settings is filled by an option that is added elsewhere. `argument` is the name of the command's argument that gets
    the tuple.
    """

    @wraps(command)
    def call(**options: Any) -> Any:
        # click passes the value of each option by the name of its field; all others go on to the command
        values: Any = {name: options.pop(name) for name in fields_type._fields}
        fields = fields_type(**values)
        if isinstance(fields, Output):
            fields = fields.resolved()  # without a form, it has the one that the name of its file says
        return command(**options, **{argument: fields})

    decorated: Any = call
    # click lists options in the reverse order of their decorators
    for name, hint in reversed(get_type_hints(fields_type, include_extras=True).items()):
        # what `Annotated` adds to the type: a dict with the settings of the option, or nothing
        for metadata in getattr(hint, "__metadata__", ()):
            settings = dict(metadata)
            flags = settings.pop("flags") or (f"--{name}",)  # without stated flags, the name of the field
            decorated = _make_option(*flags, name, help=_READ_HELP[name], **settings)(decorated)
    return decorated


def with_read_options(command: Command) -> Any:
    """Add the options that say how files are read; the command gets them as `read_options`."""
    return _gather_options(ReadOptions, "read_options", command)


def with_output_options(command: Command) -> Any:
    """Add the options that say where the result goes; the command gets them as `output`."""
    decorated = _gather_options(Output, "output", command)
    for form, help_text in reversed(_FORM_HELP.items()):
        short_flags = ("-q",) if form == "quiet" else ()
        decorated = click.option(*short_flags, f"--{form}", "form", flag_value=form, help=help_text)(
            decorated
        )
    return decorated
