"""The command `abstain`. Commands are imported when they are run, so that `--help` is quick."""

from __future__ import annotations

import importlib
import sys
import warnings
from typing import Any

import click

OK, INTERRUPTED, USAGE, BAD_DATA, INFEASIBLE = 0, 1, 2, 3, 4

_COMMANDS = {
    "evaluate": "The whole table for one file of predictions, with intervals.",
    "compare": "Rank several models on the same samples; say which cannot be told apart.",
    "threshold": "Choose the confidence below which to abstain, with a guarantee.",
    "report": "One interactive HTML page that works offline.",
    "demo": "Real model outputs that come along: a table here, a report on disk.",
    "reproduce": "Repeat the experiments of the paper.",
    "convert": "Write a file of predictions in another format.",
    "version": "Versions of abstain and of what it uses.",
}
_EPILOG = """\b
Examples:
  abstain demo
  abstain evaluate preds.npz
  abstain evaluate answers.csv --metrics aurc,auroc --json
  abstain compare a.npz b.npz
  abstain threshold preds.parquet --risk 0.05 --delta 0.05
  abstain report a.npz b.npz -o report.html

\b
Exit codes:
  0 ok    1 interrupted    2 usage    3 bad data    4 no feasible threshold

\b
Shell completion:
  bash  eval "$(_ABSTAIN_COMPLETE=bash_source abstain)"
  zsh   eval "$(_ABSTAIN_COMPLETE=zsh_source abstain)"
  fish  _ABSTAIN_COMPLETE=fish_source abstain | source
"""


class _Commands(click.Group):
    """Commands by name; help needs their one line only."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"abstain.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        near = [name for name in _COMMANDS if args and args[0] and name.startswith(args[0])]
        if args and args[0] not in _COMMANDS and len(near) == 1:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # overflow in a number that is then left out
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            code = exit_code(error)
            if code is None:
                raise
            complain(error)
            ctx.exit(code)


def exit_code(error: BaseException) -> int | None:
    """The code of an error raised on purpose; None for a mistake of ours, which shows its traceback."""
    from abstain.errors import AbstainError, InfeasibleError, MissingDependencyError

    if isinstance(error, MissingDependencyError):
        return USAGE
    if isinstance(error, InfeasibleError):
        return INFEASIBLE
    if isinstance(error, (AbstainError, MemoryError)):
        return BAD_DATA
    return None


def complain(error: BaseException) -> None:
    """One line on stderr; a preview of the columns before it when the choice among them was uncertain."""
    from abstain.formats.columns import UncertainError
    from abstain.formats.limits import one_line

    if isinstance(error, UncertainError) and sys.stderr.isatty():
        from abstain.cli.screen import show_preview

        show_preview(error.source, stderr=True)
    text = one_line(error) or "needs more memory than there is"
    click.echo(f"abstain: {text}", err=True)


@click.group(
    cls=_Commands,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="abstain", prog_name="abstain")
def cli() -> None:
    """Know when not to predict: risk-coverage curves, AURC with error bars, thresholds with guarantees.

    Reads npz, npy, csv, tsv, json, jsonl, parquet, arrow, feather, safetensors and pt (tensors only).
    """


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line."""
    return cli(arguments, prog_name="abstain")
