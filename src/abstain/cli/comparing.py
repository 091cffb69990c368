"""Behind `abstain compare`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.text import Text

from abstain.cli.options import Reading
from abstain.cli.screen import can_draw, estimate, plain_table, span, working
from abstain.errors import DataError
from abstain.formats import Predictions
from abstain.formats.limits import shown
from abstain.formats.vectors import along_samples, full_pair

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
        from abstain.cli.engines import compared_by_files

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
