"""Behind `abstain evaluate`: who computes, and the table on the screen."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from abstain.cli.options import Reading, no_folders
from abstain.cli.screen import can_draw, console, estimate, plain_table, show_preview, span, working
from abstain.formats import Predictions, open_source
from abstain.formats.limits import Limits, shown, values_of

_METRIC = 15  # columns for the names of the metrics
_PLAIN_FROM = 1_000_000  # rows from which a bare table of losses takes the short road


def evaluated(file: str, how: Reading, options: dict[str, Any]) -> tuple[Any, Predictions | None]:
    """The evaluation of a file, and what was read (nothing, when an engine reads for itself)."""
    engine = options.pop("engine") or _engine(file, how)
    if engine == "memory":
        no_folders((file,))
    else:
        from abstain.cli.engines import evaluated_by

        return evaluated_by(engine, file, how, options), None
    import abstain

    with working(f"reading {shown(file)}"):
        read = how.read(file)
    with working(f"evaluating {read.n:,} samples"), values_of(file):
        if _is_bare(read, options):
            from abstain.cli.engines import evaluated_bare

            return evaluated_bare(read, options["metrics"], options["level"]), read
        table = abstain.evaluate(
            **read.arguments(), metrics=options["metrics"], scores=options["scores"], losses=options["losses"],
            level=options["level"], replicates=options["replicates"], rng=options["seed"], progress=False,
        )  # fmt: skip
    return table, read


def _engine(file: str, how: Reading) -> str:
    """Folders, and files larger than the memory allowed, go to the engine that needs little of it."""
    from pathlib import Path

    path = Path(file)
    if path.is_dir():
        return "files"
    times = {".parquet": 2, ".arrow": 1, ".feather": 1, ".csv": 4}.get(path.suffix.lower(), 0)
    return "files" if times * path.stat().st_size > how.memory else "memory"


def _is_bare(read: Predictions, options: dict[str, Any]) -> bool:
    """Millions of losses with confidences and nothing else, and only areas asked for."""
    plain = read.kind == "confidence" and read.n >= _PLAIN_FROM and options["metrics"] is not None
    return plain and set(read.arguments()) == {"loss", "confidence"} and options["metrics"] != "all"


def draw_preview(file: str, how: Reading) -> None:
    """What a file holds and how it would be read."""
    no_folders((file,))
    source = open_source(file, format=how.format, limits=Limits(memory=how.memory))
    show_preview(source)
    read = how.read(file)
    on = console()
    on.print(Text(f"\nread as {read.kind}, {read.n:,} samples"))
    on.print(plain_table({"role": list(read.used), "column": list(read.used.values())}))


def draw_evaluation(on: Console, table: Any, read: Predictions | None) -> None:
    """The whole table, a piece of it at a time where the screen is narrow."""
    away = f", {table.abstained:.1%} abstained" if table.abstained else ""
    name = "" if read is None else f"{shown(read.name)}: "
    on.print(Text(f"{name}{table.n:,} samples{away}", style="bold"))
    on.print(Text(f"estimate, {table.level:.0%} interval below it; * best of its row", style="dim"))
    for loss in table.losses:
        on.print()
        for place, scores in enumerate(_pieces(on, table, loss)):
            if place:
                on.print()
            on.print(_piece(on, table, loss, scores))
    if table.groups:
        on.print()
        on.print(_groups(on, table))
    notes = [str(n) for n in table.notes] + _reasons(table)
    for note in dict.fromkeys(notes):
        on.print(Text(f"- {note}"))


def _pieces(on: Console, table: Any, loss: str) -> list[list[str]]:
    """Scores that fit beside each other, in pieces of about one size."""
    found = [e for e in table.entries if e.loss == loss and e.group is None]
    spans = [span(e.low, e.high, e.standard_error, can_draw(on)) for e in found]
    cell = 2 + max([12, *map(len, spans)])
    fit = max(1, (on.width - _METRIC) // cell)
    count = -(-len(table.scores) // fit)
    size = -(-len(table.scores) // count)
    return [list(table.scores[i : i + size]) for i in range(0, len(table.scores), size)]


def _heading(name: str) -> Text:
    """Long names break after an underscore."""
    return Text(name if len(name) <= 14 else name.replace("_", "_\n", 1))


def _piece(on: Console, table: Any, loss: str, scores: list[str]) -> Table:
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title_justify="left")
    drawn.add_column(Text(loss if loss == "loss" else f"{loss} loss"), max_width=_METRIC - 2)
    for score in scores:
        drawn.add_column(_heading(score), no_wrap=True)
    for metric in table.metrics:
        found = table.select(loss=loss, metric=metric)
        if all(e.estimate is None for e in found):
            continue
        values = {e.estimate for e in found if e.estimate is not None}
        best = table.best(metric, loss=loss).estimate if len(values) > 1 else None
        own = {e.score: e for e in found}
        cells = [_cell(on, own[s], best) for s in scores]
        drawn.add_row(Text(found[0].label), *cells)
    return drawn


def _cell(on: Console, entry: Any, best: float | None) -> Text:
    star = " *" if best is not None and entry.estimate == best else ""
    text = Text(estimate(entry.estimate, entry.standard_error) + star, style="bold" if star else "")
    below = span(entry.low, entry.high, entry.standard_error, can_draw(on))
    return text.append(f"\n{below}", style="not bold dim") if below else text


def _groups(on: Console, table: Any) -> Table:
    """The first metric and score within each group."""
    metric, loss, score = table.metrics[0], table.losses[0], table.scores[0]
    found = [table.select(metric=metric, loss=loss, score=score, group=g)[0] for g in table.groups]
    return plain_table(
        {
            "group": [shown(g) for g in table.groups],
            "samples": [f"{e.n:,}" for e in found],
            found[0].label: [estimate(e.estimate, e.standard_error) for e in found],
            f"{table.level:.0%} interval": [
                span(e.low, e.high, e.standard_error, can_draw(on)) or (e.reason or "") for e in found
            ],
        },
        right=("samples",),
    )


def _reasons(table: Any) -> list[str]:
    return [f"{e.label} ({e.loss}): {e.reason}" for e in table.entries if e.reason and e.group is None]
