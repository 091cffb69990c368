"""The command `abstain` and its small commands. The others are imported when they run, so that `--help` is quick."""

from __future__ import annotations

import importlib
import io
import json
import os
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import click

import abstain
from abstain._names import find_similar_name
from abstain._tables import count_noun, escape_controls
from abstain.cli.options import (
    DocumentedCommand,
    InputFile,
    OutputFile,
    ReadOptions,
    note_chosen_confidence,
    say,
    with_read_options,
)
from abstain.errors import AbstainError, AbstainWarning, InfeasibleError, MissingDependencyError

# exit codes
OK = 0
INTERRUPTED = 1
USAGE = 2
BAD_DATA = 3
INFEASIBLE = 4
ALARM = 5
GATE_FAILED = 6
GATE_UNDECIDED = 7

_COMMANDS = {
    "evaluate": "All metrics for one file of predictions, with intervals.",
    "describe": "What a file or log holds, and the commands that evaluate it.",
    "compare": "Rank several models on the same samples, with tests of their differences.",
    "improve": "Learn a better confidence from what a file holds, and test whether it is.",
    "gate": "May a new model replace the old one? The exit code says so.",
    "threshold": "Choose the confidence below which to abstain, with a guarantee.",
    "cascade": "Route between a cheap model, an expensive model and a person, with a guarantee.",
    "decide": "Apply a saved rule to new data: which answers to accept.",
    "clinical": "Sensitivity, specificity and predictive values of accepted samples.",
    "report": "One interactive HTML page that works offline.",
    "demo": "Try it on real model outputs: tables here, a report on disk.",
    "reproduce": "Repeat the experiments of the paper.",
    "convert": "Write a file of predictions in another format.",
    "version": "Versions of abstain and of the packages it uses.",
}
# commands in the file of another one
_MODULES = {
    "decide": "threshold",
    "clinical": "threshold",
    "demo": "report",
}


# "Threshold.check: " at the beginning of a message, or after the name of a file
_METHOD_OF_RULE = re.compile(
    r"(^|: )(?:(?:Joint)?(?:Group)?Thresholds?\.(?:accepts|check|check_confidences)|select_threshold|accepts|check"
    r"|load_rule): "
)
# What messages of the library say to those who call it, and what a command says instead.
_PERCENTAGES = "If these are percentages, say --scale percent."
_COMMAND_WORDS = (
    (
        'Say units="key" for rank keys, as `abstain.scores` gives them, or give `logits=` or `probs=`.',
        _PERCENTAGES,
    ),
    (
        "Give the confidence it was calibrated on: no percentages, no rank keys for probabilities.",
        f"Give the confidence it was calibrated on. {_PERCENTAGES}",
    ),
    (
        "If these are logits, pass them as the first argument instead of `probs=`.",
        "If these are logits, say so: -c logits=NAME.",
    ),
    (
        "Pass `score=` the learned confidence whose values these are.",
        "Name the file of that learned confidence: --confidence FILE.",
    ),
    (
        "Pass `logits`, `probs` or another entry of `signals`.",
        "Name another confidence: -c confidence=NAME.",
    ),
    ("Label more rows, or use `combine_signals`, which needs no labels.", "Label more rows."),
    ("`previous` must be a check of this threshold", "the series must be one of this threshold"),
    (
        "Begin a new series: without `previous=`, or in a new file for --state.",
        "Begin one in a new file for --state.",
    ),
)
_INDEX = re.compile(r"at index \(?(\d+)(?:, \d+)*\)?")  # of an array, from 0


class _Commands(DocumentedCommand, click.Group):
    """The commands by name. The list of commands needs only their one-line descriptions, not their modules."""

    command_class = DocumentedCommand

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self.commands or cmd_name not in _COMMANDS:
            return self.commands.get(cmd_name)
        module = importlib.import_module(f"abstain.cli.{_MODULES.get(cmd_name, cmd_name)}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        name = args[0] if args else ""
        if name and name not in _COMMANDS and not name.startswith("-"):
            suggestion = _suggest_command(name)
            if suggestion:
                ctx.fail(f"No such command {name!r}. Did you mean {suggestion!r}?")
        ctx.meta["abstain.arguments"] = list(args)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; an error of the library is one line on stderr and an exit code.

        Warnings of the library are printed as notes. Any other error is a bug of ours and shows its traceback. Usage
        errors (ClickException) are raised again: click prints them and exits with code 2. `ctx.exit` raises, too.
        """
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # overflow in a number that is then left out
                warnings.simplefilter("always", AbstainWarning)
                # prints each warning of the library once, and leaves all others to the function that was set before
                warnings.showwarning = partial(_show_warning, warnings.showwarning, set())
                return super().invoke(ctx)
        except click.ClickException as error:
            # It may quote a file's name. An assignment to `error.message`, which click declares final, fails mypy.
            vars(error)["message"] = escape_controls(error.message, keep="\n")
            raise
        except (AbstainError, MemoryError) as error:
            # a line on stderr; on a terminal also the columns, if it is unclear which to read
            print_error(error)
            exit_code = BAD_DATA  # also where memory is too small
            if isinstance(error, MissingDependencyError):
                exit_code = USAGE
            elif isinstance(error, InfeasibleError):
                exit_code = INFEASIBLE
            ctx.exit(exit_code)


def _suggest_command(name: str) -> str | None:
    """Return the command that a wrong name probably means: one that starts with it, or a similar one."""
    completions = [command for command in _COMMANDS if command.startswith(name)]
    if len(completions) == 1:
        return completions[0]
    return find_similar_name(name, _COMMANDS)


def _show_warning(
    show_other: Callable[..., None], said: set[str], message: Any, category: type[Warning], *location: Any
) -> None:
    """Print a warning of the library as a line on stderr, unless it was printed before; pass others to `show_other`.

    `said` holds what was printed, and is added to: a file that is read twice has one warning. Stands in the place of
    `warnings.showwarning`; `location` is the file, the line and so on, which only `show_other` needs.
    """
    if issubclass(category, AbstainWarning):
        note = _in_words_of_commands(str(message))  # with options in place of arguments of Python functions
        if note not in said:
            say(f"note: {note}")
            said.add(note)
    else:
        show_other(message, category, *location)


def _in_words_of_commands(message: str) -> str:
    """Return a message of the library in the words of the command line.

    It does not begin with a method of a rule, which no user has called, names options in the place of arguments, and
    counts the rows of a file from 1.
    """
    message = _METHOD_OF_RULE.sub(r"\1", message, count=1)
    for words_of_library, words_of_command in _COMMAND_WORDS:
        message = message.replace(words_of_library, words_of_command)
    return _INDEX.sub(lambda match: f"in row {int(match[1]) + 1:,}", message)


def print_error(error: BaseException) -> None:
    """Print an error as one line on stderr, after a preview of the columns if it is unclear which to read."""
    if isinstance(error, abstain.formats.UncertainError) and sys.stderr.isatty():
        from abstain.cli.screen import show_preview

        show_preview(error.source, stderr=True)
    text = _in_words_of_commands(abstain.formats.safety.one_line(error))
    say(f"abstain: {text or 'needs more memory than there is'}")


_BEGIN_HERE = """\
abstain: know when not to predict

  abstain demo                        see it work on the outputs of two networks
  abstain describe FILE               what does it hold, and what can I run?
  abstain evaluate FILE               does the model know when it is wrong?
  abstain compare FILE FILE           is one model better than the other?
  abstain threshold FILE --risk 0.05  when should it not answer?
  abstain report FILE -o page.html    all of this on one interactive page

FILE has logits or probabilities with labels, or is a table with the columns
`correct` and `confidence`, or the log of an evaluation harness.
No file yet? `abstain demo --copy .` writes two.

All commands: abstain --help
One command, with examples: abstain evaluate --help
"""


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.version_option(package_name="abstain", prog_name="abstain")
@click.pass_context
def cli(context: click.Context) -> None:
    """Know when not to predict: how well a model knows when it is wrong, and when it should not answer.

    Files may be npz, npy, csv, tsv, xlsx, json, jsonl, parquet, arrow, feather, safetensors or pt (tensors only), or
    logs of lm-evaluation-harness, Inspect, HELM, promptfoo or UQLM; `-` is standard input. `abstain describe FILE`
    shows how a file is read.

    Examples:
      abstain demo
      abstain describe preds.npz
      abstain evaluate preds.npz
      abstain evaluate answers.csv --metric aurc,auroc --json
      abstain compare a.npz b.npz
      abstain threshold preds.parquet --risk 0.05 --delta 0.05 --save rule.json
      abstain decide rule.json new.csv -o decided.csv
      abstain report a.npz b.npz -o report.html

    \b
    Exit codes:
      0 ok             1 interrupted              2 usage, or a missing package
      3 bad data       4 no feasible threshold    5 alarm of a check
      6 gate failed    7 gate needs more data

    \b
    Shell completion:
      bash  eval "$(_ABSTAIN_COMPLETE=bash_source abstain)"
      zsh   eval "$(_ABSTAIN_COMPLETE=zsh_source abstain)"
      fish  _ABSTAIN_COMPLETE=fish_source abstain | source
    """
    if context.invoked_subcommand is None:  # `abstain` alone: a few lines on how to begin
        click.echo(_BEGIN_HERE, nl=False)


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line with these arguments, those of the process if None; it ends with SystemExit.

    If output cannot be written, exit with one line on stderr instead of a traceback. Returns nothing: click ends the
    program after each command. Changes the streams of the process.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the shell
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):  # escape characters that the terminal's encoding lacks
            stream.reconfigure(errors="backslashreplace")
    try:
        return cli(arguments, prog_name="abstain")
    except OSError as error:  # readers and writers raise AbstainError, so this is mostly a full device
        _discard_output()  # what is still in the buffer, so that closing it does not fail again
        name = escape_controls(error.filename) if error.filename else "standard output"
        with suppress(OSError):
            say(f"abstain: {name}: cannot be read or written ({error.strerror or error}).")
        raise SystemExit(BAD_DATA) from None


def _discard_output() -> None:
    """Discard what is still in the buffer of standard output, so that closing it does not fail again."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@cli.command()
@click.argument("source", metavar="IN", type=InputFile())
@click.argument("target", metavar="OUT", type=OutputFile("predictions"))
@with_read_options
def convert(source: str, target: str, read_options: ReadOptions) -> None:
    """Write a file of predictions in another format, with the standard column names.

    OUT ends in .npz, .csv, .tsv, .parquet, .arrow, .feather, .json, .jsonl or .safetensors.

    Examples:
      abstain convert preds.json preds.parquet
      abstain convert model.pt preds.npz
      abstain convert table.csv table.npz -c confidence=p_max -c correct=is_right
    """
    predictions = read_options.read(source)
    note_chosen_confidence(predictions)  # only one of several confidences is written
    abstain.formats.write_predictions(predictions, target)
    say(f"wrote {target}: {count_noun(predictions.n, 'sample')}, {predictions.kind}")


@cli.command()
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def version(as_json: bool) -> None:
    """Versions of abstain and of the packages it uses."""
    versions = abstain.report.versions()
    if as_json:
        click.echo(json.dumps(versions))
        return
    width = max(map(len, versions))
    for name, number in versions.items():
        click.echo(f"{name:<{width}}  {number}")


@cli.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []}, add_help_option=False
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def reproduce(context: click.Context, arguments: tuple[str, ...]) -> None:
    """Repeat the experiments of the paper; `abstain reproduce --help` lists them."""
    # the folder of the repository that this package runs from; None if it was installed
    checkout = find_checkout()
    if checkout is None:
        click.echo(
            "abstain: the paper's experiments are not in the package; they are in a checkout of its repository: "
            "run `pip install -e .` there",
            err=True,
        )
        context.exit(USAGE)
    # A process of its own, with the checkout on its import path. -P keeps the working directory off that path,
    # because it may have a folder of the same name.
    import_path = os.pathsep.join(filter(None, [str(checkout), os.environ.get("PYTHONPATH")]))
    completed = subprocess.run(
        [sys.executable, "-P", "-m", "reproduction", *arguments],
        env={**os.environ, "PYTHONPATH": import_path},
        check=False,
    )
    context.exit(completed.returncode)


def find_checkout() -> Path | None:
    """Return the root of the checkout that an editable install points at, or None for an installed package."""
    package = Path(abstain.__file__).resolve().parent
    root = package.parent.parent
    is_checkout = package.parent.name == "src" and (root / "reproduction" / "__main__.py").is_file()
    return root if is_checkout else None
