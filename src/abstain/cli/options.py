"""Options that several commands share: one table of them, and what they turn into.

A flag is the argument of the Python function with dashes.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, NamedTuple, TypeVar

import click

from abstain._size import bytes_of
from abstain._tables import visible
from abstain.errors import AbstainError

Command = TypeVar("Command", bound=Callable[..., Any])
Callback = Callable[[click.Context, click.Parameter, Any], Any]
_FORMATS = (
    "npz", "npy", "csv", "tsv", "xlsx", "json", "jsonl", "parquet", "arrow", "safetensors", "pt", "inspect"
)  # fmt: skip
_ROLES = (
    "logits, probs, labels, prediction, correct, loss, error, confidence, abstained, answered, question, task, "
    "epoch, groups, sample_weight, clusters, classes, ids"
)


class Documented(click.Command):
    """A command whose docstring is its help; what the docstring says from "Examples:" on stands after the options."""

    def __init__(self, *args: Any, **settings: Any) -> None:
        text, found, examples = inspect.cleandoc(settings.pop("help", None) or "").partition("Examples:\n")
        epilog = f"\b\nExamples:\n{examples}" if found else None
        settings |= {"help": text, "epilog": epilog}
        super().__init__(*args, **settings)

    def invoke(self, ctx: click.Context) -> Any:
        """Run it, unless it would write over what it reads."""
        paths: dict[bool, list[str]] = {True: [], False: []}
        for param in self.params:
            if isinstance(param.type, click.Path) and (value := ctx.params.get(param.name or "")):
                paths[param.type.exists] += value if isinstance(value, tuple) else (value,)
        if all(paths.values()):
            from abstain.formats.writing import check_target

            for target in paths[False]:
                check_target(target, paths[True])
        return super().invoke(ctx)


class InputFile(click.Path):
    """A file that is read; `-` is standard input."""

    def __init__(self, *, folders: bool = False) -> None:
        super().__init__(exists=True, dir_okay=folders, allow_dash=True)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, of a copy where it is standard input."""
        if super().convert(value, param, ctx) != "-":
            return value
        from abstain.formats.limits import Limits, standard_input

        return str(standard_input(Limits()))


class ReadOptions(NamedTuple):
    """How files are to be read."""

    columns: dict[str, str]
    kind: str | None
    labels: str | None
    classes: tuple[str, ...]
    format: str | None
    tolerance: float | None
    memory: int
    only: dict[str, str]
    unanswered: str
    missing: str
    scale: dict[str, str]
    outside: str
    grades: dict[str, str]

    def engine_columns(self, path: str) -> dict[str, Any]:
        """The columns of a table that an engine is to read, by argument."""
        from abstain.formats.predictions import engine_columns

        return engine_columns(path, self.columns, self.kind, self.format, click.UsageError)

    @property
    def rules(self) -> Any:
        """How answers are to be taken."""
        from abstain.formats import Rules

        return Rules(**{name: getattr(self, name) for name in Rules.__dataclass_fields__})

    def read(self, path: str, name: str | None = None, *, tell: bool = True) -> Any:
        """One file of predictions; of answers, what was taken for what is told on stderr."""
        from abstain.formats import Limits, read_predictions

        own = {k: getattr(self, k) for k in ("columns", "kind", "labels", "classes", "format", "tolerance")}
        read = read_predictions(path, name=name, limits=Limits(memory=self.memory), rules=self.rules, **own)
        for note in read.log.told() if tell and read.log else ():
            say(f"{read.name}: {note}")
        return read


class Output(NamedTuple):
    """What to print and where."""

    form: str | None  # "json", "csv", "latex" or "quiet"; by default what a screen shows
    path: str | None


def say(text: object) -> None:
    """A line on stderr, whatever characters it has."""
    click.echo(visible(text), err=True)


def no_folders(files: Iterable[str]) -> None:
    """In memory a folder is not read."""
    for file in files:
        if os.path.isdir(file):
            raise click.UsageError(
                f"{file} is a folder: name a file, or let an engine read it (--engine files)."
            )


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
    from abstain.formats.columns import role_of

    found = {}
    for text in value:
        role, _, name = text.partition("=")
        try:
            found[role_of(role)] = name
        except AbstainError:
            name = ""
        if not name:
            raise click.BadParameter(f"write ROLE=NAME with a role among {_ROLES}; got {text!r}.")
    return found


def _pairs(ctx: click.Context, param: click.Parameter, value: Iterable[str]) -> dict[str, str]:
    """NAME=VALUE, several times or between commas; without a name it is for all."""
    found = {}
    for text in (part for given in value for part in given.split(",")):
        name, _, what = text.rpartition("=")
        found[name.strip()] = what.strip()
    return found


def _memory(ctx: click.Context, param: click.Parameter, value: str) -> int:
    try:
        return bytes_of("--memory", value)
    except AbstainError as error:
        raise click.BadParameter(str(error)) from None


_OPTIONS: dict[str, tuple[Callable[[Command], Command], ...]] = {
    "score": (named("scores", "Confidence computed from class scores, where there are any.", default="max_softmax"),),
    "loss": (named("losses", "Loss computed from class scores, where there are any.", default="zero_one"),),
    "names": (click.option("--names", metavar="A,B,...", callback=between_commas,
                           help="Names of the models; by default those of the files."),),
    "level": (fraction("--level", "Of intervals, bands and tests.", 0.95),),
    "rng": (click.option("--rng", "--seed", "rng", type=int, default=0, help="Seed of the bands."),),
    "open": (click.option("--open", "open_it", is_flag=True, help="Open the page in the browser."),),
    "columns": (click.option("-c", "--column", "columns", multiple=True, callback=_columns, metavar="ROLE=NAME",
                             help=f"Which column is which, where its name does not say. Roles: {_ROLES}. "
                                  "`probs=class_*` takes one column per class."),),
    "kind": (click.option("--as", "kind", type=click.Choice(["logits", "probs", "confidence"]),
                          help="What the array of an npy file is. Never guessed from its values."),),
    "labels": (click.option("--labels", metavar="FILE", type=InputFile(),
                            help="A second file that holds the labels."),),
    "classes": (click.option("--classes", metavar="A,B,...", callback=between_commas,
                             help="Class names in the order of the class scores, where labels are words."),),
    "format": (click.option("--format", type=click.Choice(_FORMATS), metavar="NAME",
                            help=f"Where neither its name nor its content says it: {', '.join(_FORMATS)}."),),
    "tolerance": (click.option("--tolerance", type=click.FloatRange(0, 1), metavar="NUMBER",
                               help="How far rows of probabilities may be from summing to one; they are divided by "
                                    "their sums. By default what rounding to 2, 3 or 4 decimals explains."),),
    "memory": (click.option("--memory", "--max-memory", "memory", default="4GB", callback=_memory, metavar="SIZE",
                            help="Refuse files whose values would take more."),),
    "only": (click.option("--only", multiple=True, callback=_pairs, metavar="NAME=VALUE",
                          help="Read the rows with this value, such as filter=strict-match."),),
    "unanswered": (click.option("--unanswered", type=click.Choice(["abstained", "wrong"]), default="abstained",
                                help="What a question without an answer is; wrong ones are ranked last."),),
    "missing": (click.option("--missing", type=click.Choice(["left_out", "last"]), default="left_out",
                             help="What becomes of an answer without a confidence; last: it is ranked last."),),
    "scale": (click.option("--scale", multiple=True, callback=_pairs, metavar="[NAME=]SCALE",
                           help="The confidence is a number that the model stated: percent, fraction, or mixed."),),
    "outside": (click.option("--outside", type=click.Choice(["refused", "missing"]), default="refused",
                             help="What becomes of stated numbers outside their scale."),),
    "grades": (click.option("--grades", multiple=True, callback=_pairs, metavar="TEXT=GRADE",
                            help="What words in the column of correctness mean: right, wrong or unanswered."),),
    "form": (
        click.option("--json", "form", flag_value="json", help="Print JSON, every digit."),
        click.option("--csv", "form", flag_value="csv", help="Print comma-separated rows."),
        click.option("--latex", "form", flag_value="latex", help="Print a LaTeX table (booktabs)."),
        click.option("-q", "--quiet", "form", flag_value="quiet", help="Print the one number that matters."),
    ),
    "path": (click.option("-o", "--output", "path", metavar="FILE", type=click.Path(dir_okay=False),
                          callback=lambda ctx, param, value: None if value == "-" else value,
                          help="Write it there instead of to the screen."),),
}  # fmt: skip


def shared(*names: str) -> Callable[[Command], Command]:
    """Options of the table, in this order."""

    def decorate(command: Command) -> Command:
        for name in reversed(names):
            for option in reversed(_OPTIONS[name]):
                command = option(command)
        return command

    return decorate


def _gathered(kind: type[ReadOptions] | type[Output], argument: str) -> Callable[[Command], Command]:
    """A decorator: options that are the fields of `kind` reach the command as one argument."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def call(**options: Any) -> Any:
            own: Any = {name: options.pop(name) for name in kind._fields}
            return command(**options, **{argument: kind(**own)})

        return shared(*kind._fields)(call)  # type: ignore[return-value]

    return decorate


reading = _gathered(ReadOptions, "how")
output = _gathered(Output, "out")
