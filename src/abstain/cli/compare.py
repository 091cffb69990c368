"""`abstain compare FILE FILE ...`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import click
from rich.console import Console
from rich.text import Text

import abstain
from abstain.cli.options import (
    Documented,
    InputFile,
    Output,
    ReadOptions,
    named,
    no_folders,
    output,
    reading,
    shared,
)
from abstain.cli.screen import deliver, plain_table, show_notes, stacked, working
from abstain.evaluation import Comparison
from abstain.formats import Predictions
from abstain.formats.limits import shown
from abstain.formats.predictions import aligned, along, model_name
from abstain.scores import NAMES, by_name

_SENTENCES = 8


@click.command("compare", cls=Documented)
@click.argument("files", nargs=-1, required=True, type=InputFile(folders=True))
@named("metrics", "Rank by this one.", default="aurc")
@named("scores", "Confidences computed from class scores; several, or all, are compared, too.", several=True,
       default=["max_softmax"])  # fmt: skip
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
      abstain compare preds.npz --score max_softmax,max_logit,energy
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
    short = [model_name(f) for f in files]
    if len(set(short)) == len(short):
        return short
    return list(files) if len(set(files)) == len(files) else [f"{f} ({k + 1})" for k, f in enumerate(files)]


def compared(
    files: dict[str, str], how: ReadOptions, *, scores: list[str] | str, unpaired: bool, **options: Any
) -> tuple[Comparison, list[str]]:
    """Read every file and compare; and what to know besides."""
    models = []
    for name, file in files.items():
        with working(f"reading {shown(file)}"):
            models.append(how.read(file, name))
    models = models if unpaired else aligned(models)
    contestants = [c for model in models for c in _by_score(model, scores, len(files) == 1)]
    if len(contestants) < 2:
        raise click.UsageError("comparing needs at least two files, or several scores of one (--score A,B).")
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


def _by_score(model: Predictions, scores: list[str] | str, alone: bool) -> list[tuple[Predictions, str]]:
    """A model by each score asked for, under a name that says which."""
    if scores == "all":
        scores = [name for name in NAMES if model.kind in by_name(name).takes] or ["confidence"]
    if model.kind == "confidence" or len(scores) == 1:
        return [(model, scores[0])]
    return [(replace(model, name=score if alone else f"{model.name} / {score}"), score) for score in scores]


def compared_by_files(
    files: dict[str, str], how: ReadOptions, *, metric: str, unpaired: bool, level: float, **options: Any
) -> tuple[Comparison, list[str]]:
    """Two tables of the same samples, range by range on disk."""
    from abstain.engines import files as engine
    from abstain.metrics import registry

    asked = registry.by_name(metric)
    if len(files) != 2 or asked.name != "aurc" or unpaired:
        raise click.UsageError("--engine files compares two tables of the same samples by AURC.")
    columns = [how.engine_columns(file) for file in files.values()]
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
    told = f"{result.level:.0%} intervals below, differences from the best;"
    on.print(Text(f"{told}\nmodels that share a letter cannot be told apart", style="dim"))
    on.print()
    rows, pairs = result.contestants, result.from_best()
    columns = {
        "rank": [c.ranks for c in rows],
        "model": [shown(c.name) for c in rows],
        result.label: [stacked(on, c.estimate, c) for c in rows],
        "difference": ["" if p is None else stacked(on, p.difference, p) for p in pairs],
        "p": ["" if p is None else f"{p.p_adjusted:.2g}" for p in pairs],
        "group": [c.group for c in rows],
    }
    on.print(plain_table(columns))
    on.print()
    sentences = result.sentences()
    show_notes(on, sentences[:_SENTENCES])
    if len(sentences) > _SENTENCES:
        show_notes(on, [f"... and {len(sentences) - _SENTENCES} more such neighbours"])
    show_notes(on, notes)
