"""`abstain compare FILE FILE ...`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

import abstain
from abstain.cli.evaluate import table_columns
from abstain.cli.options import Documented, Output, ReadOptions, known, no_folders, output, reading, shared
from abstain.cli.screen import deliver, estimate, plain_table, show_notes, span, working
from abstain.errors import DataError
from abstain.evaluation import Comparison
from abstain.formats import Predictions
from abstain.formats.limits import shown
from abstain.formats.predictions import along

_SENTENCES = 8


@click.command("compare", cls=Documented)
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True))
@click.option("--metric", callback=known("metrics", several=False), default="aurc", metavar="NAME",
              help="Rank by this one.")  # fmt: skip
@click.option("--scores", callback=known("scores"), default="max_softmax", metavar="A,B,...",
              help="Confidences computed from class scores; several are compared, too.")  # fmt: skip
@shared("loss", "names", "level")
@click.option("--engine", type=click.Choice(["memory", "files"]), default="memory",
              help="Who computes. files: two tables of losses and confidences, of any size.")  # fmt: skip
@click.option("--unpaired", is_flag=True, help="The files are different test sets.")
@reading
@output
def command(
    files: tuple[str, ...], how: ReadOptions, out: Output, names: tuple[str, ...], **options: Any
) -> None:
    """Rank models by AURC (or another metric) on the same samples, with ties where the data leave them.

    P-values are two-sided and corrected after Holm. Models that share a letter cannot be told apart.

    Examples:
      abstain compare a.npz b.npz c.npz
      abstain compare gpt.csv claude.csv --metric augrc
      abstain compare preds.npz --scores max_softmax,max_logit,energy
      abstain compare a.npz b.npz --unpaired          different test sets
      abstain compare a.parquet b.parquet --engine files
    """
    if options["engine"] == "memory":
        no_folders(files)
    named = dict(zip(model_names(files, names), files))
    by = compared_by_files if options["engine"] == "files" else compared
    result, notes = by(named, how, **options)
    deliver(out, result, lambda: "\n".join(result.winners), lambda on: draw_comparison(on, result, notes))


def model_names(files: tuple[str, ...], stated: tuple[str, ...]) -> list[str]:
    """Names as stated, else those of the files, made distinct where they must be."""
    if stated and (len(stated) != len(files) or len(set(stated)) < len(stated)):
        raise click.UsageError(f"--names must give {len(files)} different names, got {len(stated)}.")
    if stated:
        return list(stated)
    short = [Path(f).name.split(".")[0] or Path(f).name for f in files]
    if len(set(short)) == len(short):
        return short
    return list(files) if len(set(files)) == len(files) else [f"{f} ({k + 1})" for k, f in enumerate(files)]


def compared(
    files: dict[str, str], how: ReadOptions, *, scores: list[str], unpaired: bool, **options: Any
) -> tuple[Comparison, list[str]]:
    """Read every file and compare; and what to know besides."""
    models = []
    for name, file in files.items():
        with working(f"reading {shown(file)}"):
            models.append(how.read(file, name))
    contestants = [c for model in models for c in _by_score(model, scores, len(files) == 1)]
    if len(contestants) < 2:
        raise click.UsageError("comparing needs at least two files, or several --scores of one.")
    if not unpaired:
        _check_same_samples({m.name: m.labels for m, _ in contestants if m.labels is not None})
    entries = {model.name: model.samples(score, options["loss"]) for model, score in contestants}
    told = {"metric": options["metric"], "level": options["level"], "paired": not unpaired}
    with working("comparing"):
        result = abstain.compare(entries, **told, **along([model for model, _ in contestants]))
    notes = [
        f"{shown(m.name)} answered {1 - float(m.abstained.mean()):.1%} of the samples; "
        f"areas are over the coverage it can attain."
        for m in models
        if m.abstained is not None and m.abstained.any()
    ]
    return result, notes


def _by_score(model: Predictions, scores: list[str], alone: bool) -> list[tuple[Predictions, str]]:
    """A model by each score asked for, under a name that says which."""
    if model.kind == "confidence" or len(scores) == 1:
        return [(model, scores[0])]
    return [(replace(model, name=score if alone else f"{model.name} / {score}"), score) for score in scores]


def _check_same_samples(labels: dict[str, Any]) -> None:
    """Files that hold labels must hold the same ones in the same order."""
    first = next(iter(labels), "")
    for name, values in labels.items():
        same = values.shape == labels[first].shape and bool((values == labels[first]).all())
        if not same:
            raise DataError(
                f"{shown(first)} and {shown(name)} have different labels, so they are not the same samples in the "
                f"same order. For different test sets use --unpaired."
            )


def compared_by_files(
    files: dict[str, str], how: ReadOptions, *, metric: str, unpaired: bool, level: float, **options: Any
) -> tuple[Comparison, list[str]]:
    """Two tables of the same samples, range by range on disk."""
    from abstain.engines import files as engine
    from abstain.metrics.registry import by_name

    asked = by_name(metric)
    if len(files) != 2 or asked.name != "aurc" or unpaired:
        raise click.UsageError("--engine files compares two tables of the same samples by AURC.")
    columns = [table_columns(file, how) for file in files.values()]
    if any("logits" in own or "correct" in own for own in columns):
        raise click.UsageError("--engine files compares columns of losses and confidences.")
    first, second = ((own["confidence"], own["loss"]) for own in columns)
    weight = {key: columns[0][key] for key in ("sample_weight",) if key in columns[0]}
    (one, path), (two, other) = files.items()
    sides: dict[str, Any] = {"first": first, "second": second, "other": other, "names": (one, two)}
    means: dict[str, Any] = {"memory": how.memory, "level": level}
    return engine.compare(path, **sides, **means, **weight, **dict(asked.options)), []


def draw_comparison(on: Console, result: Comparison, notes: Sequence[str] = ()) -> None:
    """The ranking, and what can be said of neighbours."""
    way = "lower" if result.lower_is_better else "higher"
    kind = f"the same {result.n:,} samples" if result.paired else "different test sets"
    on.print(Text(f"{result.label} on {kind}, {way} is better", style="bold"))
    on.print(Text("models that share a letter cannot be told apart", style="dim"))
    on.print()
    rows = result.contestants
    columns = {
        "rank": [c.ranks for c in rows],
        "model": [shown(c.name) for c in rows],
        result.label: [estimate(c.estimate, c.standard_error) for c in rows],
        f"{result.level:.0%} interval": [span(on, c) for c in rows],
        "group": [c.group for c in rows],
    }
    on.print(plain_table(columns))
    on.print()
    told = result.sentences()
    show_notes(on, told[:_SENTENCES])
    if len(told) > _SENTENCES:
        show_notes(on, [f"... and {len(told) - _SENTENCES} more such neighbours"])
    show_notes(on, notes)
