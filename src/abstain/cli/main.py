"""The command `abstain` and its small commands; the others are imported when they are run: `--help` is quick."""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

import abstain
from abstain._tables import escape_controls
from abstain.cli.options import Documented, InputFile, OutputFile, ReadOptions, reading, say, tell_first
from abstain.errors import AbstainError, AbstainWarning, InfeasibleError, MissingDependencyError

OK, INTERRUPTED, USAGE, BAD_DATA, INFEASIBLE, ALARM = 0, 1, 2, 3, 4, 5

_COMMANDS = {
    "evaluate": "The whole table for one file of predictions, with intervals.",
    "describe": "What a file or log holds, and the commands that evaluate it.",
    "compare": "Rank several models on the same samples; say which cannot be told apart.",
    "threshold": "Choose the confidence below which to abstain, with a guarantee.",
    "cascade": "Choose when a cheap model answers, when a dear one, when a person, with a guarantee.",
    "decide": "Apply a saved rule to new data: which answers to accept.",
    "clinical": "Sensitivity, specificity and predictive values among the accepted.",
    "report": "One interactive HTML page that works offline.",
    "demo": "Real model outputs that come along: a table here, a report on disk.",
    "reproduce": "Repeat the experiments of the paper.",
    "convert": "Write a file of predictions in another format.",
    "version": "Versions of abstain and of what it uses.",
}
_HOMES = {"decide": "threshold", "clinical": "threshold", "demo": "report"}  # beside another command


class _Commands(Documented, click.Group):
    """Commands by name; help needs their one line only."""

    command_class = Documented

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.commands or cmd_name not in _COMMANDS:
            return self.commands.get(cmd_name)
        home = importlib.import_module(f"abstain.cli.{_HOMES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(home, cmd_name)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        near = [name for name in _COMMANDS if args and args[0] and name.startswith(args[0])]
        if args and args[0] not in _COMMANDS and len(near) == 1:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        ctx.meta["abstain.arguments"] = list(args)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # overflow in a number that is then left out
                warnings.simplefilter("always", AbstainWarning)
                warnings.showwarning = partial(_told, warnings.showwarning)
                return super().invoke(ctx)
        except click.ClickException as error:
            vars(error)["message"] = escape_controls(error.message, keep="\n")  # it may quote a file's name
            raise
        # anything else is a mistake of ours and shows its traceback
        except (AbstainError, MemoryError) as error:
            complain(error)
            codes = {MissingDependencyError: USAGE, InfeasibleError: INFEASIBLE}
            ctx.exit(next((code for kind, code in codes.items() if isinstance(error, kind)), BAD_DATA))


def _told(others: Callable[..., None], message: Any, category: type[Warning], *where: Any) -> None:
    """A warning of the library is a line on stderr."""
    if issubclass(category, AbstainWarning):
        say(f"note: {message}")
    else:
        others(message, category, *where)


def complain(error: BaseException) -> None:
    """One line on stderr; a preview of the columns before it when the choice among them was uncertain."""
    if isinstance(error, abstain.formats.UncertainError) and sys.stderr.isatty():
        from abstain.cli.screen import show_preview

        show_preview(error.source, stderr=True)
    say(f"abstain: {abstain.formats.safety.one_line(error) or 'needs more memory than there is'}")


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.version_option(package_name="abstain", prog_name="abstain")
def cli() -> None:
    """Know when not to predict: risk-coverage curves, AURC with error bars, thresholds with guarantees.

    Reads npz, npy, csv, tsv, xlsx, json, jsonl, parquet, arrow, feather, safetensors and pt (tensors only), and logs of
    lm-evaluation-harness, Inspect, HELM, promptfoo and UQLM; `-` is standard input.

    Examples:
      abstain demo
      abstain evaluate preds.npz
      abstain evaluate answers.csv --metric aurc,auroc --json
      abstain compare a.npz b.npz
      abstain threshold preds.parquet --risk 0.05 --delta 0.05 --save rule.json
      abstain decide rule.json new.csv -o decided.csv
      abstain report a.npz b.npz -o report.html

    \b
    Exit codes:
      0 ok          1 interrupted              2 usage
      3 bad data    4 no feasible threshold    5 a rule's check alarms

    \b
    Shell completion:
      bash  eval "$(_ABSTAIN_COMPLETE=bash_source abstain)"
      zsh   eval "$(_ABSTAIN_COMPLETE=zsh_source abstain)"
      fish  _ABSTAIN_COMPLETE=fish_source abstain | source
    """


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; what cannot be printed is one line and an exit code, never a traceback."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the shell has closed it: what would be printed goes nowhere
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):  # a name that the terminal's encoding lacks is spelt out
            stream.reconfigure(errors="backslashreplace")
    try:
        return cli(arguments, prog_name="abstain")
    except (
        OSError
    ) as error:  # readers and writers turn theirs into AbstainError; what is left is a full device
        _discard_output()
        name = escape_controls(error.filename) if error.filename else "standard output"
        with suppress(OSError):
            say(f"abstain: {name}: cannot be read or written ({error.strerror or error}).")
        raise SystemExit(BAD_DATA) from None


def _discard_output() -> None:
    """Send what is still in the buffer of standard output nowhere, so that closing it does not fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@cli.command()
@click.argument("source", metavar="IN", type=InputFile())
@click.argument("target", metavar="OUT", type=OutputFile("predictions"))
@reading
def convert(source: str, target: str, how: ReadOptions) -> None:
    """Write a file of predictions in another format, under the standard names.

    OUT ends in .npz, .csv, .tsv, .parquet, .arrow, .feather, .json, .jsonl or .safetensors.

    Examples:
      abstain convert preds.json preds.parquet
      abstain convert model.pt preds.npz
      abstain convert table.csv table.npz -c confidence=p_max -c correct=is_right
    """
    read = how.read(source)
    tell_first(read)
    abstain.formats.write_predictions(read, target)
    say(f"wrote {target}: {read.n:,} samples, {read.kind}")


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def version(as_json: bool) -> None:
    """Versions of abstain and of what it uses."""
    found = abstain.report.versions()
    if as_json:
        click.echo(json.dumps(found))
        return
    width = max(map(len, found))
    for name, number in found.items():
        click.echo(f"{name:<{width}}  {number}")


@cli.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def reproduce(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Repeat the experiments of the paper; `abstain reproduce --help` lists them."""
    root = checkout()
    if root is None:
        click.echo(
            "abstain: the paper's experiments are not in the package; they are in a checkout of its repository: "
            "run `pip install -e .` there",
            err=True,
        )
        context.exit(USAGE)
    if sys.path[:1] != [str(root)]:
        sys.path.insert(0, str(root))  # before the working directory, which may have a folder of that name
    try:
        code = importlib.import_module("reproduction.__main__").main(list(arguments))
    except ModuleNotFoundError as error:
        raise MissingDependencyError("`abstain reproduce`", str(error.name), "all") from error
    context.exit(code)


def checkout() -> Path | None:
    """The root of the checkout that an editable install points at, known by what lies beside `src`; else None."""
    package = Path(abstain.__file__).resolve().parent
    root = package.parent.parent
    here = package.parent.name == "src" and (root / "reproduction" / "__main__.py").is_file()
    return root if here else None
