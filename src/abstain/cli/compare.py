"""`abstain compare FILE FILE ...`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from abstain.cli.options import (
    Fraction,
    Names,
    Reading,
    known_loss,
    known_metric,
    known_score,
    no_folders,
    output,
    reading,
    taken,
)
from abstain.cli.screen import can_draw, estimate, plain_table, span, working
from abstain.errors import DataError
from abstain.formats import Predictions
from abstain.formats.limits import shown
from abstain.formats.predictions import along_samples, full_pair

_SENTENCES = 8


def model_names(files: tuple[str, ...], stated: str | None) -> list[str]:
    """Names as stated, else those of the files, made distinct where they must be."""
    if stated:
        names = [n.strip() for n in stated.split(",")]
        if len(names) != len(files) or len(set(names)) < len(names):
            raise click.UsageError(f"--names must give {len(files)} different names, got {len(names)}.")
        return names
    short = [Path(f).name.split(".")[0] or Path(f).name for f in files]
    if len(set(short)) == len(short):
        return short
    return list(files) if len(set(files)) == len(files) else [f"{f} ({k + 1})" for k, f in enumerate(files)]


def compared(files: tuple[str, ...], how: Reading, options: dict[str, Any]) -> tuple[Any, list[str]]:
    """Read every file and compare; and what to know besides."""
    from abstain import compare

    if options["engine"] == "files":
        from abstain.cli.evaluate import compared_by_files

        return compared_by_files(files, model_names(files, options["names"]), how, options), []
    models = []
    for file, name in zip(files, model_names(files, options["names"])):
        with working(f"reading {shown(file)}"):
            models.append(how.read(file, name))
    contestants = [c for m in models for c in _contestants(m, options["scores"], len(files) == 1)]
    if len(contestants) < 2:
        raise click.UsageError("comparing needs at least two files, or several --scores of one.")
    paired = not options["unpaired"]
    if paired:
        _check_same_samples({m.name: m.labels for m, _ in contestants})
    entries = {m.name: full_pair(m, score, options["loss"][0]) for m, score in contestants}
    named = [m for m, _ in contestants]
    columns = {"sample_weight": "weight", "clusters": "clusters", "abstained": "abstained"}
    along: Any = {name: along_samples(named, column) for name, column in columns.items()}
    with working("comparing"):
        result = compare(entries, metric=options["metric"][0], level=options["level"], paired=paired, **along)
    return result, [_answered(m) for m in models if m.abstained is not None and m.abstained.any()]


def _contestants(read: Predictions, scores: list[str], alone: bool) -> list[tuple[Predictions, str]]:
    """A model by each score asked for, under a name that says which."""
    if read.kind == "confidence" or len(scores) == 1:
        return [(read, scores[0])]
    return [(replace(read, name=score if alone else f"{read.name} / {score}"), score) for score in scores]


def _answered(read: Predictions) -> str:
    assert read.abstained is not None
    share = 1 - float(read.abstained.mean())
    return (
        f"{shown(read.name)} answered {share:.1%} of the samples; areas are over the coverage it can attain."
    )


def _check_same_samples(labels: dict[str, Any]) -> None:
    """Files that hold labels must hold the same ones in the same order."""
    known = {name: values for name, values in labels.items() if values is not None}
    if not known:
        return
    first = next(iter(known))
    for name, values in known.items():
        same = values.shape == known[first].shape and bool((values == known[first]).all())
        if not same:
            raise DataError(
                f"{shown(first)} and {shown(name)} have different labels, so they are not the same samples in the "
                f"same order. For different test sets use --unpaired."
            )


def draw_comparison(on: Console, result: Any, notes: Sequence[str] = ()) -> None:
    """The ranking, and what can be said of neighbours."""
    way = "lower" if result.lower_is_better else "higher"
    kind = f"the same {result.n:,} samples" if result.paired else "different test sets"
    on.print(Text(f"{result.label} on {kind}, {way} is better", style="bold"))
    on.print(Text("models that share a letter cannot be told apart", style="dim"))
    on.print()
    rows = result.contestants
    ranks = [str(c.rank_low) if c.rank_low == c.rank_high else f"{c.rank_low}-{c.rank_high}" for c in rows]
    on.print(
        plain_table(
            {
                "rank": ranks,
                "model": [shown(c.name) for c in rows],
                result.label: [estimate(c.estimate, c.standard_error) for c in rows],
                f"{result.level:.0%} interval": [
                    span(c.low, c.high, c.standard_error, can_draw(on)) for c in rows
                ],
                "group": [c.group for c in rows],
            }
        )
    )
    on.print()
    told = result.sentences()
    for sentence in told[:_SENTENCES]:
        on.print(Text(f"- {sentence}"))
    if len(told) > _SENTENCES:
        on.print(Text(f"- ... and {len(told) - _SENTENCES} more such neighbours"))
    for note in notes:
        on.print(Text(f"- {note}"))


# compare ------------------------------------------------------------------------------------------
#
# `abstain compare FILE FILE ...`.


_EPILOG = """\b
Examples:
  abstain compare a.npz b.npz c.npz
  abstain compare gpt.csv claude.csv --metric augrc
  abstain compare preds.npz --scores max_softmax,max_logit,energy
  abstain compare a.npz b.npz --unpaired          different test sets
  abstain compare a.parquet b.parquet --engine files
"""


@click.command("compare", epilog=_EPILOG)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True))
@click.option(
    "--metric", type=Names(known_metric, False), default="aurc", show_default=True, help="Rank by this one."
)
@click.option("--scores", type=Names(known_score, False), default="max_softmax", show_default=True,
              metavar="A,B,...", help="Confidences computed from class scores; several are compared, too.")  # fmt: skip
@click.option(
    "--loss",
    type=Names(known_loss, False),
    default="zero_one",
    show_default=True,
    help="Where there are class scores.",
)
@click.option("--names", metavar="A,B,...", help="Names of the models; by default those of the files.")
@click.option("--level", type=Fraction(), default=0.95, show_default=True, help="Of intervals and tests.")
@click.option("--engine", type=click.Choice(["memory", "files"]), default="memory", show_default=True,
              help="Who computes. files: two tables of losses and confidences, of any size.")  # fmt: skip
@click.option("--unpaired", is_flag=True, help="The files are different test sets.")
@reading
@output
def command(files: tuple[str, ...], **options: Any) -> None:
    """Rank models by AURC (or another metric) on the same samples, with ties where the data leave them.

    P-values are two-sided and corrected after Holm. Models that share a letter cannot be told apart.
    """
    from abstain.cli.screen import as_csv, deliver

    how, out = taken(options)
    if options["engine"] == "memory":
        no_folders(files)
    result, notes = compared(files, how, options)
    forms = {
        "json": result.to_json,
        "csv": lambda: as_csv(result.frame("dict")),
        "latex": result.to_latex,
        "quiet": lambda: "\n".join(result.winners),
    }
    deliver(out, forms, lambda on: draw_comparison(on, result, notes))
