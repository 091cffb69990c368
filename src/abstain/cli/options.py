"""Options that several commands share: one table of them, and what they turn into.

A flag is the argument of the Python function with dashes.
"""

from __future__ import annotations

import importlib
import inspect
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import wraps
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeVar, get_type_hints

import click
from click.core import ParameterSource

import abstain  # whose modules are loaded when they are used: `--help` is quick
from abstain import _outputs
from abstain._size import parse_size
from abstain._tables import escape_controls
from abstain.errors import AbstainError

Command = TypeVar("Command", bound=Callable[..., Any])
_FORMATS = "npz, npy, csv, tsv, xlsx, json, jsonl, parquet, arrow, safetensors, pt, inspect"
_ROLES = (
    "logits, probs, labels, prediction, correct, loss, error, confidence, abstained, answered, question, task, "
    "epoch, groups, sample_weight, clusters, classes, ids"
)
_HELP = {
    "columns": f"Which column is which, where its name does not say. Roles: {_ROLES}. `probs=class_*` takes one "
    "column per class, `confidence=A,B` several confidences, `confidence=-A` the values of A with the other sign.",
    "kind": "What the array of an npy file is. Never guessed from its values.",
    "labels": "A second file that holds the labels.",
    "classes": "Class names in the order of the class scores, where labels are words; in the order of the labels, "
    "where these are numbers and columns are named by words.",
    "format": f"Where neither its name nor its content says it: {_FORMATS}.",
    "tolerance": "How far rows of probabilities may be from summing to one; they are divided by their sums. By "
    "default what rounding to 2, 3 or 4 decimals explains.",
    "memory": "Refuse files whose values would take more.",
    "only": "Read the rows with this value, such as filter=strict-match.",
    "unanswered": "What a question without an answer is; wrong ones are ranked last. By default abstained for one file "
    "and in a cascade, wrong where several files are compared.",
    "missing": "What becomes of an answer without a confidence; last: it is ranked last. By default left_out for one "
    "file, last where there are several; a plain table must have all its confidences.",
    "scale": "The confidence is a number that the model stated: percent, fraction, or mixed.",
    "outside": "What becomes of stated numbers outside their scale; refused by default.",
    "grades": "What words in the column of correctness mean: right, wrong or unanswered.",
    "path": "Write it there instead of to the screen; .json, .csv and .tex say the form.",
}
_FORMS = {
    "json": "Print JSON, every digit.",
    "csv": "Print comma-separated rows.",
    "latex": "Print a LaTeX table (booktabs).",
    "quiet": "Print the one number that matters.",
}
_NAMES = "Names of the models; by default those of the files."


class Documented(click.Command):
    """A command whose docstring is its help; what the docstring says from "Examples:" on stands after the options."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        text, found, examples = inspect.cleandoc(settings.pop("help", None) or "").partition("Examples:\n")
        epilog = f"\b\nExamples:\n{examples}" if found else None
        settings |= {"help": text, "epilog": epilog}
        super().__init__(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it, unless one of its outputs would destroy an input or another output."""
        inputs: list[str] = []
        outputs: dict[str, str] = {}
        types: dict[str, OutputFile] = {}
        for param in self.params:
            value = ctx.params.get(param.name or "")
            if value and isinstance(param.type, OutputFile):
                flag = param.opts[-1] if isinstance(param, click.Option) else str(param.metavar)
                outputs[flag] = value
                types[flag] = param.type
            elif value and isinstance(param.type, click.Path):
                inputs += value if isinstance(value, tuple) else (value,)
        _check_targets(outputs, inputs)
        for flag, path in outputs.items():
            if not types[flag].verdict_first:
                _outputs.check_place(path)
            fitting_name(path, *types[flag].kinds)
        return super().invoke(ctx)


def _check_targets(outputs: dict[str, str], inputs: list[str]) -> None:
    """Refuse outputs that would be one file, or that are read as well; before any work."""
    for (flag, path), (second_flag, second_path) in combinations(outputs.items(), 2):
        if _outputs.same_target(path, second_path):
            raise click.UsageError(
                f"{flag} and {second_flag} name the same file, {path}: the second would replace the first. "
                "Name two files."
            )
    for flag, path in outputs.items():
        _outputs.check_target(path, inputs)
        if _is_screen(path):
            raise click.UsageError(
                f"{flag} and standard output are the same file, {path}: one would replace the other. Name two files."
            )


def fitting_name(path: str, *kinds: str) -> None:
    """Refuse a file whose name promises a format that is not written there."""
    try:
        _outputs.check_ending(path, *kinds)
    except AbstainError as error:
        raise click.UsageError(str(error)) from None


def _is_screen(path: str) -> bool:
    """Is this the regular file that standard output was sent to?"""
    with suppress(OSError, ValueError, AttributeError):
        return os.path.isfile(path) and os.path.samestat(os.stat(path), os.fstat(sys.stdout.fileno()))
    return False


class OutputFile(click.Path):
    """A file that is written, of kinds that `abstain._outputs.ENDINGS` lists; `Documented` checks it before any work.

    With `verdict_first` a place that cannot be written to is reported only when it is written: what the command has to
    say (an alarm) must not depend on it.
    """

    def __init__(self, *kinds: str, verdict_first: bool = False) -> None:
        super().__init__(dir_okay=verdict_first)
        self.kinds = kinds
        self.verdict_first = verdict_first


class InputFile(click.Path):
    """A file that is read; `-` is standard input."""

    def __init__(self, *, folders: bool = False) -> None:
        super().__init__(exists=True, dir_okay=folders, allow_dash=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, of a copy where it is standard input."""
        if super().convert(value, param, ctx) != "-":
            return value
        return str(abstain.formats.readers.save_standard_input(abstain.formats.Limits()))


def say(text: object) -> None:
    """A line on stderr, whatever characters it has."""
    click.echo(escape_controls(text), err=True)


def no_folders(files: Iterable[str]) -> None:
    """In memory a folder is not read."""
    for file in files:
        if os.path.isdir(file):
            raise click.UsageError(
                f"{file} is a folder: name a file, or let an engine read it (--engine files)."
            )


def typed(*without: str) -> str:
    """The command line as the user typed it, for pages and records; of an absolute path only the name is kept."""
    arguments = click.get_current_context().meta["abstain.arguments"]
    return shlex.join(["abstain", *(_without_folders(a) for a in arguments if a not in without)])


def _without_folders(argument: str) -> str:
    """An argument without the folders of an absolute path: they are the author's, and pages are passed on."""
    option, equals, value = argument.rpartition("=")
    is_path = os.path.isabs(value) and Path(value).name
    return f"{option}{equals}{Path(value).name}" if is_path else argument


def tell_unread(read: abstain.formats.Predictions, *names: str) -> None:
    """Columns that would change the numbers if this command could read them."""
    taken = {"sample_weight": "every sample counts once", "clusters": "samples are taken as independent"}
    for name in names:
        if getattr(read, name) is not None:
            say(f"note: the column of {name} is not read here: {taken[name]}.")


def tell_first(read: abstain.formats.Predictions) -> None:
    """Which of several confidences is the one that counts here."""
    if len(read.signals) > 1:
        first, *others = map(abstain.formats.safety.display_name, read.signals)
        say(
            f"note: the confidence here is `{first}`, the first; name another with -c confidence={others[0]}."
        )


def stated(name: str) -> Any:
    """An option's value if it was given, None where it is the default."""
    context = click.get_current_context()
    given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    return context.params[name] if given else None


def no_names_for_own_confidences(*models: abstain.formats.Predictions) -> None:
    """Refuse --score and --loss where they would do nothing: all files have confidences and losses of their own."""
    if not models or any(read.kind != "confidence" for read in models):
        return
    read = models[0]
    for parameter, flag in (
        ("score", "--score"),
        ("scores", "--score"),
        ("loss", "--loss"),
        ("losses", "--loss"),
    ):
        value = stated(parameter)
        names = value if isinstance(value, list | tuple) else [value]
        if value is not None and not all(name in model.signals for name in names for model in models):
            raise click.UsageError(
                f"{flag} is for files with logits or probabilities, and "
                f"{abstain.formats.safety.display_name(read.path)} has "
                f"confidences of its own. Leave it out; -c confidence=NAME names another column."
            )


def input_file(*flags: str, **settings: Any) -> Callable[[Command], Command]:
    """An option that takes a file that exists."""
    return click.option(*flags, metavar="FILE", type=click.Path(exists=True, dir_okay=False), **settings)


def output_file(
    *flags: str, kind: str, verdict_first: bool = False, **settings: Any
) -> Callable[[Command], Command]:
    """An option that takes a file to write; see `OutputFile`."""
    file_type = OutputFile(kind, verdict_first=verdict_first)
    return click.option(*flags, metavar="FILE", type=file_type, **settings)


def fraction(name: str, help: str, default: float | None = None) -> Callable[[Command], Command]:  # noqa: A002
    """An option that takes a number between 0 and 1; percent are refused with a hint."""

    def check(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
        if value is None or 0 < value < 1:
            return value
        raise click.BadParameter(f"{value:g} must lie between 0 and 1.{percent_hint(value)}")

    return click.option(name, type=float, callback=check, metavar="FRACTION", help=help, default=default)


def percent_hint(value: float) -> str:
    return f" Write {value / 100:g} for {value:g}%." if 1 <= value < 100 else ""


def between_commas(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (value or "").split(",") if part.strip())


def named(kind: str, help: str, *, several: bool = False, **settings: Any) -> Callable[[Command], Command]:  # noqa: A002
    """An option for names of a registry: "metrics", "scores" or "losses". Several stand between commas or repeat the
    option, "all" among them."""
    flag = "--loss" if kind == "losses" else f"--{kind[:-1]}"

    def check(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        if not value:
            return None
        by_name = importlib.import_module(f"abstain.{kind}{'.registry' * (kind == 'metrics')}").by_name
        names = list(between_commas(ctx, param, ",".join(value))) if several else [value]
        if several and names == ["all"]:
            return "all"
        try:
            for name in names:
                by_name(name)
        except AbstainError as error:
            raise click.BadParameter(str(error).split(": ", 1)[-1]) from None
        if not names:
            raise click.BadParameter("needs at least one name.")
        return names if several else value

    flags = (flag, f"--{kind}", kind) if several else (flag,)
    shown = "A,B,..." if several else "NAME"
    return click.option(*flags, multiple=several, callback=check, metavar=shown, help=help, **settings)


def _columns(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    """ROLE=NAME, each role once; several confidences are all read."""
    columns: dict[str, str] = {}
    for text in value:
        title, _, name = text.partition("=")
        try:
            role = abstain.formats.roles.role_of(title)
        except AbstainError:
            name = ""
        if not name:
            raise click.BadParameter(f"write ROLE=NAME with a role among {_ROLES}; got {text!r}.")
        if role in columns and role != "confidence":
            raise click.BadParameter(
                f"{role} is given twice, {columns[role]!r} and {name!r}. Name one column."
            )
        columns[role] = f"{columns[role]},{name}" if role in columns else name
    return columns


def _pairs(ctx: click.Context, param: click.Parameter, value: Iterable[str]) -> dict[str, str]:
    """NAME=VALUE, several times or between commas; without a name it is for all."""
    pairs: dict[str, str] = {}
    for text in (part for written in value for part in written.split(",")):
        title, _, setting = text.rpartition("=")
        name = title.strip()
        if name in pairs:
            which = f"{name!r} is" if name else "it is"
            raise click.BadParameter(
                f"{which} given twice, {pairs[name]!r} and {setting.strip()!r}. Give one."
            )
        pairs[name] = setting.strip()
    return pairs


def _screen(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    return None if value == "-" else value


def _memory(ctx: click.Context, param: click.Parameter, value: str) -> int:
    try:
        return parse_size("--memory", value)
    except AbstainError as error:
        raise click.BadParameter(str(error)) from None


def _option(*flags: str, **settings: Any) -> dict[str, Any]:
    """A field that an option fills; its flag is its name unless others are given."""
    return {"flags": flags, **settings}


def _choice(*values: str) -> dict[str, Any]:
    """A field that holds one of these, or None where the user leaves it open."""
    return _option(type=click.Choice(values))


class ReadOptions(NamedTuple):
    """How files are to be read."""

    columns: Annotated[
        dict[str, str], _option("-c", "--column", multiple=True, callback=_columns, metavar="ROLE=NAME")
    ]
    kind: Annotated[str | None, _option("--as", type=click.Choice(["logits", "probs", "confidence"]))]
    labels: Annotated[str | None, _option(type=InputFile(), metavar="FILE")]
    classes: Annotated[tuple[str, ...], _option(callback=between_commas, metavar="A,B,...")]
    format: Annotated[str | None, _option(type=click.Choice(_FORMATS.split(", ")), metavar="NAME")]
    tolerance: Annotated[float | None, _option(type=click.FloatRange(0, 1), metavar="NUMBER")]
    memory: Annotated[
        int, _option("--memory", "--max-memory", default="4GB", callback=_memory, metavar="SIZE")
    ]
    only: Annotated[dict[str, str], _option(multiple=True, callback=_pairs, metavar="NAME=VALUE")]
    unanswered: Annotated[str | None, _choice("abstained", "wrong")]
    missing: Annotated[str | None, _choice("left_out", "last")]
    scale: Annotated[dict[str, str], _option(multiple=True, callback=_pairs, metavar="[NAME=]SCALE")]
    outside: Annotated[str | None, _choice("refused", "missing")]
    grades: Annotated[dict[str, str], _option(multiple=True, callback=_pairs, metavar="TEXT=GRADE")]

    def engine_columns(self, path: str) -> dict[str, Any]:
        """The columns of a table that an engine is to read, by argument; it reads them as they are."""
        for name in ("kind", "labels", "tolerance", *abstain.formats.Rules.__dataclass_fields__):
            if stated(name) is not None:
                flag = "--as" if name == "kind" else f"--{name}"
                raise click.UsageError(f"{flag} is for files that are read in memory, not for --engine.")
        return abstain.formats.file_evaluation.engine_columns(
            path, self.columns, self.kind, self.format, click.UsageError, self.classes
        )

    @property
    def limits(self) -> abstain.formats.Limits:
        """What a file may cost."""
        return abstain.formats.Limits(memory=self.memory)

    @property
    def rules(self) -> abstain.formats.Rules:
        """How answers are to be taken."""
        return abstain.formats.Rules(**self._some(*abstain.formats.Rules.__dataclass_fields__))

    def _some(self, *names: str) -> dict[str, Any]:
        return {name: getattr(self, name) for name in names}

    def read(
        self, path: str, name: str | None = None, *, tell: bool = True, purpose: str = "one file"
    ) -> abstain.formats.Predictions:
        """One file of predictions; of answers, what was taken for what is told on stderr."""
        names = ("columns", "kind", "labels", "classes", "format", "limits", "tolerance", "rules")
        read = abstain.formats.read_predictions(path, name=name, purpose=purpose, **self._some(*names))
        for note in read.log.summary_lines() if tell and read.log else ():
            say(f"{read.name}: {note}")
        return read

    def read_several(
        self, files: dict[str, str], purpose: str, *, tell: bool = True
    ) -> tuple[list[abstain.formats.Predictions], list[str]]:
        """Files by the names of their models, and a note for each that cannot be ranked; these are left out."""
        models = []
        notes = []
        for name, path in files.items():
            try:
                models.append(self.read(path, name, tell=tell, purpose=purpose))
            except abstain.formats.read_files.NoConfidenceError as error:
                reason = str(error).rpartition(": ")[2]
                notes.append(f"{abstain.formats.safety.display_name(name)} is not ranked: {reason}")
        return models, notes

    def works(self, path: str) -> bool:
        """Can `abstain evaluate` make a table of this file as these options say?"""
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                read = self.read(path, tell=False)
                abstain.evaluate(**read.arguments(), metrics=["aurc"], progress=False)
        except AbstainError:
            return False
        return True

    def flags(self) -> list[str]:
        """The options as a user would type them; nothing where they are the defaults."""
        typed = [f for role, name in self.columns.items() for f in ("-c", f"{role}={name}")]
        for option in ("only", "scale", "grades"):
            for name, value in getattr(self, option).items():
                typed += [f"--{option}", f"{name}={value}" if name else value]
        settings: dict[str, Any] = {
            "as": self.kind,
            "labels": self.labels,
            "classes": ",".join(self.classes),
            "format": self.format,
            "tolerance": self.tolerance,
            "unanswered": self.unanswered,
            "missing": self.missing,
            "outside": self.outside,
        }
        for option, setting in settings.items():
            typed += [] if setting in (None, "") else [f"--{option}", str(setting)]
        return typed if self.limits == abstain.formats.Limits() else [*typed, "--memory", str(self.memory)]

    def read_log(self, path: str) -> abstain.formats.Log:
        """One file of answers, with a confidence or without."""
        return abstain.formats.read_log(path, **self._some("columns", "labels", "format", "limits", "rules"))

    def read_unlabelled(self, path: str) -> tuple[abstain.formats.Predictions, dict[str, Any]]:
        """Class scores or confidences whose truth is not known yet, and all other columns."""
        if self.labels is not None:
            raise click.UsageError(
                "--labels is for data that are measured; new data need none. Leave it out."
            )
        own = self._some("columns", "kind", "classes", "format", "limits", "tolerance", "rules")
        return abstain.formats.read_files.read_unlabelled(path, **own)


class Output(NamedTuple):
    """What to print and where."""

    form: (
        str | None
    )  # "json", "csv", "latex" or "quiet"; by default what the name says, or what a screen shows
    path: Annotated[
        str | None,
        _option(
            "-o",
            "--output",
            type=OutputFile("text", "json", "csv", "latex"),
            callback=_screen,
            metavar="FILE",
        ),
    ]

    def resolved(self) -> Output:
        """The same with the form that the name of the file says, where no option says it."""
        if self.path is None:
            return self
        if self.form is not None:
            fitting_name(self.path, self.form)
            return self
        ending = _outputs.ending_of(self.path)
        forms = (form for form in ("json", "csv", "latex") if ending in _outputs.ENDINGS[form])
        return self._replace(form=next(forms, None))


_SHARED: dict[str, Callable[[Any], Any]] = {
    "score": named(
        "scores", "Confidence computed from class scores, where there are any.", default="max_softmax"
    ),
    "loss": named("losses", "Loss computed from class scores, where there are any.", default="zero_one"),
    "names": click.option("--names", metavar="A,B,...", callback=between_commas, help=_NAMES),
    "level": fraction("--level", "Of intervals, bands and tests.", 0.95),
    "rng": click.option("--rng", "--seed", "rng", type=int, default=0, help="Seed of the bands."),
    "open": click.option("--open", "open_it", is_flag=True, help="Open the page in the browser."),
}


def shared(*names: str) -> Callable[[Command], Command]:
    """Options of the table, in this order."""

    def decorate(command: Command) -> Command:
        for name in reversed(names):
            command = _SHARED[name](command)
        return command

    return decorate


def _gathered(kind: type[ReadOptions] | type[Output], argument: str, command: Command) -> Any:
    """The command with an option for each field of `kind`; they reach it as one argument."""

    @wraps(command)
    def call(**options: Any) -> Any:
        values: Any = {name: options.pop(name) for name in kind._fields}
        gathered = kind(**values)
        return command(
            **options, **{argument: gathered.resolved() if isinstance(gathered, Output) else gathered}
        )

    found: Any = call
    for name, hint in reversed(get_type_hints(kind, include_extras=True).items()):
        for settings in map(dict, getattr(hint, "__metadata__", ())):
            flags = settings.pop("flags") or (f"--{name}",)
            found = click.option(*flags, name, help=_HELP[name], **settings)(found)
    return found


def reading(command: Command) -> Any:
    """A command that reads files as its options say: `how`."""
    return _gathered(ReadOptions, "how", command)


def output(command: Command) -> Any:
    """A command that prints or writes as its options say: `out`."""
    found = _gathered(Output, "out", command)
    for form, told in reversed(_FORMS.items()):
        short = ("-q",) if form == "quiet" else ()
        found = click.option(*short, f"--{form}", "form", flag_value=form, help=told)(found)
    return found
