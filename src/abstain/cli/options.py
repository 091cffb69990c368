"""Options that several commands share, and what they turn into."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

import click

from abstain._size import bytes_of
from abstain.errors import AbstainError

Command = TypeVar("Command", bound=Callable[..., Any])
_FORMATS = ("npz", "npy", "csv", "tsv", "json", "jsonl", "parquet", "arrow", "safetensors", "pt")
_ROLES = (
    "logits, probs, labels, prediction, correct, loss, error, confidence, abstained, group, weight, cluster, "
    "classes"
)


class Reading(NamedTuple):
    """How files are to be read."""

    columns: dict[str, str]
    kind: str | None
    labels: str | None
    classes: tuple[str, ...]
    format: str | None
    memory: int

    def read(self, path: str, name: str | None = None) -> Any:
        """One file of predictions."""
        from abstain.formats import Limits, read_predictions

        return read_predictions(
            path, columns=self.columns, kind=self.kind, labels=self.labels, classes=self.classes,
            name=name, format=self.format, limits=Limits(memory=self.memory),
        )  # fmt: skip


def no_folders(files: Iterable[str]) -> None:
    """In memory a folder is not read."""
    for file in files:
        if os.path.isdir(file):
            raise click.UsageError(
                f"{file} is a folder: name a file, or let an engine read it (--engine files)."
            )


class Output(NamedTuple):
    """What to print and where."""

    form: str  # "screen", "json", "csv", "latex" or "quiet"
    path: str | None


class _Size(click.ParamType):  # type: ignore[type-arg]
    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        try:
            return bytes_of("--max-memory", value)
        except AbstainError as error:
            self.fail(str(error), param, ctx)


class Fraction(click.ParamType):  # type: ignore[type-arg]
    """A number between 0 and 1; percent are refused with a hint."""

    name = "fraction"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Parse and check."""
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is no number.", param, ctx)
        if not 0 < number < 1:
            hint = f" Write {number / 100:g} for {number:g}%." if 1 < number < 100 else ""
            self.fail(f"{value} must lie between 0 and 1.{hint}", param, ctx)
        return number


class Names(click.ParamType):  # type: ignore[type-arg]
    """Names between commas, each known to a registry."""

    name = "names"

    def __init__(self, check: Callable[[str], Any], everything: bool = True) -> None:
        self._check, self._everything = check, everything

    def convert(self, value: Any, param: Any, ctx: Any) -> list[str] | str:
        """Parse and check."""
        if not isinstance(value, str) or (value == "all" and self._everything):
            return value
        names = [part.strip() for part in value.split(",") if part.strip()]
        for name in names:
            try:
                self._check(name)
            except AbstainError as error:
                self.fail(str(error).split(": ", 1)[-1], param, ctx)
        if not names:
            self.fail("needs at least one name.", param, ctx)
        return names


def known_metric(name: str) -> Any:
    """The metric, or an error that lists them."""
    from abstain.metrics.registry import by_name

    metric = by_name(name)
    given = dict(metric.options).get("estimator")
    if given is not None:
        from abstain._check import check_choice
        from abstain.core.estimators import ESTIMATORS

        check_choice("metrics", "estimator", given, ESTIMATORS)
    return metric


def known_score(name: str) -> Any:
    """The score, or an error that lists them."""
    from abstain.scores import by_name

    return by_name(name)


def known_loss(name: str) -> Any:
    """The loss, or an error that lists them."""
    from abstain.losses import by_name

    return by_name(name)


def _columns(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for text in value:
        role, equals, name = text.partition("=")
        role = {"label": "labels", "groups": "group", "weights": "weight"}.get(role.strip(), role.strip())
        if not equals or role not in _ROLES.split(", ") or not name:
            raise click.BadParameter(f"write ROLE=NAME with a role among {_ROLES}; got {text!r}.")
        found[role] = name
    return found


_READING = (
    click.option("-c", "--column", "column", multiple=True, callback=_columns, metavar="ROLE=NAME",
                 help=f"Which column is which, where its name does not say. Roles: {_ROLES}. "
                      "`probs=class_*` takes one column per class."),
    click.option("--as", "kind", type=click.Choice(["logits", "probs", "confidence"]),
                 help="What the array of an npy file is. Never guessed from its values."),
    click.option("--labels", metavar="FILE", type=click.Path(exists=True, dir_okay=False),
                 help="A second file that holds the labels."),
    click.option("--classes", metavar="A,B,...", default="",
                 help="Class names in the order of the class scores, where labels are words."),
    click.option("--format", "file_format", type=click.Choice(_FORMATS), help="Where the file's name does not say it."),
    click.option("--max-memory", type=_Size(), default="4GB", show_default=True,
                 help="Refuse files whose values would take more."),
)  # fmt: skip

_OUTPUT = (
    click.option("--json", "form", flag_value="json", help="Print JSON, every digit."),
    click.option("--csv", "form", flag_value="csv", help="Print comma-separated rows."),
    click.option("--latex", "form", flag_value="latex", help="Print a LaTeX table (booktabs)."),
    click.option("-q", "--quiet", "form", flag_value="quiet", help="Print the one number that matters."),
    click.option("-o", "--output", metavar="FILE", type=click.Path(dir_okay=False),
                 help="Write it there instead of to the screen."),
)  # fmt: skip


def reading(command: Command) -> Command:
    """The options of `Reading`."""
    for option in reversed(_READING):
        command = option(command)
    return command


def output(command: Command) -> Command:
    """The options of `Output`."""
    for option in reversed(_OUTPUT):
        command = option(command)
    return command


def taken(options: dict[str, Any]) -> tuple[Reading, Output]:
    """Take the shared options out of a command's own."""
    names = tuple(part.strip() for part in options.pop("classes").split(",") if part.strip())
    how = Reading(
        options.pop("column"), options.pop("kind"), options.pop("labels"), names,
        options.pop("file_format"), options.pop("max_memory"),
    )  # fmt: skip
    return how, Output(options.pop("form", None) or "screen", options.pop("output", None))
