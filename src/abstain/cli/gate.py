"""The command `abstain gate`."""

from __future__ import annotations

import click
from rich.console import Console
from rich.text import Text

from abstain.cli import options as opt
from abstain.cli.compare import compare_in_memory, name_files
from abstain.cli.main import GATE_FAILED, GATE_UNDECIDED, OK
from abstain.cli.screen import deliver, show_notes, write_text
from abstain.errors import InputError
from abstain.evaluation import judge, two_sided_level
from abstain.evaluation.release_gate import Question

_MARGIN_HELP = (
    "By how much the metric may get worse (with --superior: must get better; with --equivalent: may change)."
)
_MARKDOWN_HELP = "Print a summary in Markdown, for the page of a workflow run."
_EXIT_CODES = {"pass": OK, "fail": GATE_FAILED, "undecided": GATE_UNDECIDED}
_LEVEL_HELP = "A model that is exactly at the margin passes with probability 1 - LEVEL at most."


@click.command("gate", cls=opt.DocumentedCommand)
@click.argument("old", type=opt.InputFile())
@click.argument("new", type=opt.InputFile())
@opt.name_option("metrics", "Metric of the comparison; listed below.", default="aurc")
@opt.name_option("scores", "Confidence computed from class scores.", default="max_softmax")
@opt.shared_options("loss", "names", "repetitions")
@click.option("--margin", type=click.FloatRange(0), default=0.0, metavar="NUMBER", help=_MARGIN_HELP)
@click.option("--superior", "question", flag_value="superior", help="The new model must be better.")
@click.option(
    "--equivalent", "question", flag_value="equivalent", help="The new model must be about as good."
)
@click.option(
    "--level", type=click.FloatRange(0.5, 1, min_open=True, max_open=True), default=0.95, help=_LEVEL_HELP
)
@opt.shared_options("anytime", "planned")
@click.option("--markdown", is_flag=True, help=_MARKDOWN_HELP)
@opt.with_read_options
@opt.with_output_options
def gate(
    old: str,
    new: str,
    read_options: opt.ReadOptions,
    output: opt.Output,
    names: tuple[str, ...],
    metric: str,
    score: str,
    loss: str,
    repetitions: bool,
    margin: float,
    question: Question | None,
    level: float,
    anytime: bool,
    planned: int | None,
    markdown: bool,
) -> None:
    """May the new model replace the old one? For a release pipeline: the exit code is the verdict.

    By default the new model must not be worse by the margin or more (non-inferiority). For a verdict, a one-sided limit
    of the difference on the same samples must lie on one side of the margin. Rows are matched as in `abstain compare`.

    Exit codes: 0 pass, 6 fail, 7 not enough data for either; 2 wrong options, 3 bad files, 4 a metric that these data
    leave undefined (AUROC without any error).

    Examples:
      abstain gate old.npz new.npz --margin 0.002
      abstain gate old.npz new.npz --metric risk --superior
      abstain gate old.csv new.csv --margin 0.01 --equivalent --markdown
    """
    chosen_question: Question = question or "non_inferior"
    if margin == 0 and chosen_question != "superior":
        raise click.UsageError(
            "--margin must be above 0: say by how much the metric may get worse, or change."
        )
    if planned and not anytime:
        raise click.UsageError("--planned goes with --anytime.")
    files = name_files((old, new), names)
    compared = compare_in_memory(
        files,
        read_options,
        metric=metric,
        scores=[score],
        loss=loss,
        level=two_sided_level(level),
        repetitions=repetitions,
        unpaired=False,
        anytime=anytime,
        planned=planned,
    )
    comparison = compared.comparison
    if len(comparison.names) != 2:
        raise InputError(
            f"gate: takes one confidence per file, got {len(comparison.names)} rankings. Name one."
        )
    old_name, new_name = files
    verdict = judge(comparison, old_name, new_name, margin=margin, question=chosen_question, level=level)

    def draw(console: Console) -> None:
        console.print(Text(repr(verdict)))
        show_notes(console, [*comparison.notes, *compared.notes])

    if markdown:
        write_text(output.path, verdict.to_markdown())
    else:
        deliver(output, verdict, quiet=verdict.verdict, draw=draw)
    click.get_current_context().exit(_EXIT_CODES[verdict.verdict])
