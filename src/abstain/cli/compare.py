"""`abstain compare FILE FILE ...`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

import abstain
from abstain.cli import options as opt
from abstain.cli.screen import deliver, plain_table, show_notes, stacked, working
from abstain.evaluation import Comparison
from abstain.formats import Predictions
from abstain.formats.alignment import align_models, comparison_arguments, confirming_columns
from abstain.formats.file_names import model_name
from abstain.formats.predictions import reading_notes
from abstain.formats.safety import display_name
from abstain.metrics import registry
from abstain.scores import NAMES, by_name

_SENTENCES = 8
_SCORES = "Confidences computed from class scores; several, or all, are compared, too."
_ENGINE = "Who computes. files: two tables of losses and confidences, of any size."
_BOARD = "Also write the ranking as an interactive page, readable with a hundred models."
_TOLD = 4  # of more files than these it is not told, file by file, what was taken for what


@click.command("compare", cls=opt.Documented)
@click.argument("files", nargs=-1, required=True, type=opt.InputFile(folders=True))
@opt.named("metrics", "Rank by this one.", default="aurc")
@opt.named("scores", _SCORES, several=True, default=["max_softmax"])
@opt.shared("loss", "names", "level")
@click.option("--engine", type=click.Choice(["memory", "files"]), default="memory", help=_ENGINE)
@click.option("--unpaired", is_flag=True, help="The files are different test sets.")
@opt.output_file("--html", "board", kind="page", help=_BOARD)
@click.option("--title", default="Leaderboard", help="Of that page.")
@opt.reading
@opt.output
def compare(
    files: tuple[str, ...], how: opt.ReadOptions, out: opt.Output, names: tuple[str, ...], **options: Any
) -> None:
    """Rank models by AURC (or another metric) on the same samples, with ties where the data leave them.

    P-values are two-sided. They and the intervals of differences are corrected for the number of pairs (Holm).
    Models that share a letter cannot be told apart.

    Rows are matched by their ids (or questions); by position only where no file has ids. Where several files are
    compared, a question without an answer counts as wrong and is ranked last unless --unanswered says otherwise, so
    that refusing the hard ones is no gain. A model without the named confidence is not ranked. Several confidences
    (-c confidence=A,B) are compared, too.

    Examples:
      abstain compare a.npz b.npz c.npz
      abstain compare gpt.csv claude.csv --metric augrc
      abstain compare preds.npz --score max_softmax,max_logit,energy
      abstain compare a.npz b.npz --unpaired          different test sets
      abstain compare a.parquet b.parquet --engine files
      abstain compare mmlu/*.parquet -c confidence=stated --html board.html
    """
    if options["engine"] == "memory":
        opt.no_folders(files)
    board, title = options.pop("board"), options.pop("title")
    named = named_files(files, names)
    if options["engine"] == "files":
        if board:
            raise click.UsageError("--html needs the samples in memory: leave --engine files out.")
        result, notes = compared_by_files(named, how, **options)
    else:
        result, models, notes = compared(named, how, **options)
        if board:
            content = abstain.report.board_content(result, models, options["loss"])
            about: dict[str, Any] = {"title": title, "notes": notes, "command": opt.typed()}
            abstain.report.save_board(result, board, **about, **content)
            opt.say(f"wrote {board}")
    draw = partial(draw_comparison, result=result, notes=notes)
    deliver(out, result, "\n".join(result.winners), draw)


def named_files(files: tuple[str, ...], stated: tuple[str, ...]) -> dict[str, str]:
    """Files by the names of their models: those stated, else those of the files, made distinct where they must be."""
    if stated and (len(stated) != len(files) or len(set(stated)) < len(stated)):
        raise click.UsageError(f"--names must give {len(files)} different names, got {len(stated)}.")
    return dict(zip(stated or _distinct_names(files), files))


def _distinct_names(files: tuple[str, ...]) -> list[str]:
    """Names of models from those of their files, with as few folders in front as tell them apart.

    >>> _distinct_names(("/home/me/runs/a/preds.npz", "/home/me/runs/b/preds.npz"))
    ['a/preds', 'b/preds']
    """
    folders = [Path(file).absolute().parent.parts[1:] for file in files]
    for depth in range(1 + max(map(len, folders))):
        names = [
            "/".join([*parts[len(parts) - min(depth, len(parts)) :], model_name(file)])
            for parts, file in zip(folders, files)
        ]
        if len(set(names)) == len(files):
            return names
    return [f"{model_name(file)} ({place})" for place, file in enumerate(files, 1)]


Contestants = dict[str, tuple[Predictions, str]]


def compared(
    files: dict[str, str], how: opt.ReadOptions, *, scores: list[str] | str, unpaired: bool, **options: Any
) -> tuple[Comparison, Contestants, list[str]]:
    """Read every file and compare; the models by the names of the ranking, and what to know besides."""
    purpose = "compared" if len(files) > 1 else "one file"
    with working(
        f"reading {len(files)} files" if len(files) > 1 else f"reading {display_name(next(iter(files)))}"
    ):
        models, apart = how.read_several(files, purpose, tell=len(files) <= _TOLD)
    for model in models:
        absent = () if model.log is None else model.log.absent
        apart += [
            f"{display_name(model.name)} is not ranked by `{display_name(name)}`: no answer has it."
            for name in absent
        ]
    opt.no_names_for_own_confidences(*models)
    models = models if unpaired else align_models(models)
    several = len(how.columns.get("confidence", "").split(",")) > 1 or any(len(m.signals) > 1 for m in models)
    named = {
        model.name: (model, score)
        for read in models
        for model, score in _by_score(read, scores, alone=len(files) == 1, several=several)
    }
    if len(named) < 2:
        reason = f" {' '.join(apart)}" if apart else ""
        raise click.UsageError(
            f"comparing needs at least two files, or several scores of one (--score A,B).{reason}"
        )
    entries = {name: model.samples(score, options["loss"]) for name, (model, score) in named.items()}
    beside = comparison_arguments([model for model, _ in named.values()])
    asked = {"metric": options["metric"], "level": options["level"], "paired": not unpaired}
    with working("comparing"):
        result = abstain.compare(entries, **asked, **beside)
    notes = [*apart, *reading_notes(models)]
    if not unpaired and len(models) > 1 and all(model.ids is None for model in models):
        confirmed = confirming_columns(models)
        reason = f"their {confirmed} agree" if confirmed else "nothing in them confirms it"
        notes.append(f"No file has ids: rows are paired by position, and {reason}.")
    return result, named, notes


def _by_score(
    model: Predictions, scores: list[str] | str, *, alone: bool, several: bool
) -> list[tuple[Predictions, str]]:
    """A model by each score asked for, or by each of its own confidences, under a name that says which."""
    if model.signals and several:
        ranked = {k: replace(model, confidence=g, signals={k: g}) for k, g in model.signals.items()}
        return [(replace(m, name=k if alone else f"{m.name} / {k}"), "confidence") for k, m in ranked.items()]
    if scores == "all":
        scores = [name for name in NAMES if model.kind in by_name(name).takes] or ["confidence"]
    if model.kind == "confidence" or len(scores) == 1:
        return [(model, scores[0])]
    return [(replace(model, name=score if alone else f"{model.name} / {score}"), score) for score in scores]


def compared_by_files(
    files: dict[str, str], how: opt.ReadOptions, *, metric: str, unpaired: bool, level: float, **options: Any
) -> tuple[Comparison, list[str]]:
    """Two tables of the same samples, range by range on disk."""
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
    sides["ids"] = how.columns.get("ids", how.columns.get("question"))
    means: dict[str, Any] = {"memory": how.memory, "level": level}
    return abstain.engines.files.compare(path, **sides, **means, **weight, **dict(asked.options)), []


def _caption(result: Comparison) -> str:
    """What the columns hold; with two models there is nothing to correct for."""
    pairs = len(result.pairs)
    corrected = f" (with p, corrected for {pairs} pairs)" if pairs > 1 else ""
    columns = f"{result.level:.0%} intervals below, differences from the best{corrected};"
    return f"{columns}\nmodels that share a letter cannot be told apart"


def draw_comparison(on: Console, result: Comparison, notes: Sequence[str] = ()) -> None:
    """The ranking, and what can be said of neighbours."""
    way = "lower" if result.lower_is_better else "higher"
    kind = f"the same {result.n:,} samples" if result.paired else "different test sets"
    on.print(Text(f"{result.label} on {kind}, {way} is better", style="bold"))
    on.print(Text(_caption(result), style="dim"))
    on.print()
    rows, pairs = result.contestants, result.from_best()
    columns: dict[str, list[Any]] = {
        "rank": [c.ranks for c in rows],
        "model": [display_name(c.name) for c in rows],
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
    show_notes(on, [*result.notes, *notes])
