"""`abstain describe FILE`: what a file or a log holds, how it would be read, and the commands that evaluate it."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from functools import partial
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.text import Text

import abstain
from abstain import _tables
from abstain.cli import screen
from abstain.cli.options import Documented, InputFile, Output, ReadOptions, output, reading
from abstain.errors import AbstainError
from abstain.formats import Log, Predictions, Source, Words, open_source
from abstain.formats.columns import UncertainError, as_texts
from abstain.formats.safety import display_name, one_line

_MOST = 60  # columns that are shown
_WIDEST = 24  # characters of a text that is shown
_HOW_TO_STATE = (
    "State which column is which: -c correct=NAME -c confidence=NAME, or -c labels=NAME -c prediction=NAME "
    "-c confidence=NAME."
)


@click.command("describe", cls=Documented)
@click.argument("file", type=InputFile(folders=True))
@reading
@output
def describe(file: str, how: ReadOptions, out: Output) -> None:
    """What a file or the log of a harness holds: rows, questions, repeats, filters, scores and confidences.

    Logs of lm-evaluation-harness, Inspect, HELM (the folder of a run), promptfoo and UQLM are known by what is in
    them; of any other table the columns can be stated. It ends with the commands that evaluate the file.

    Examples:
      abstain describe samples_gsm8k.jsonl
      abstain describe run.eval -c correct=match
      abstain describe answers.parquet -c labels=truth -c prediction=answer
    """
    found = described(file, how)
    columns = found["columns"]
    forms: Any = {"json": json.dumps(found), "columns": columns, "latex": _tables.latex_table(columns)}
    screen.deliver(out, None, str(found["rows"]), partial(draw_description, found=found), **forms)


def described(file: str, how: ReadOptions) -> dict[str, Any]:
    """Everything that is told of a file."""
    source = open_source(file, format=how.format, limits=how.limits)
    log: Log | None = None
    taken: dict[str, str] = {}
    notes = list(source.facts.notes)
    try:
        try:
            read = how.read(file, tell=False)
            taken, log = {"read as": f"{read.kind}, {read.n:,} samples", **read.used}, read.log
        except UncertainError:  # it may lack nothing but a confidence
            log = how.read_log(file)
            taken = log.used
        notes = [] if log is None else [*log.notes, *answer_notes(log, 1.0, 0.95)]
    except AbstainError as error:
        notes.append(one_line(error))
        if source.log is None:
            notes.append(_HOW_TO_STATE)
    shape = max((c.shape[0] for c in source.columns.values() if c.shape), default=0)
    return {
        "file": source.path.name,
        "written by": source.facts.tool,
        "rows": shape,
        "read": None if log is None else log.n,
        "questions": None if log is None else log.questions,
        "accuracy": None if log is None else log.accuracy,
        "unanswered": None if log is None else log.unanswered,
        "taken": taken,
        "columns": _columns(source),
        "notes": notes,
        "commands": _commands(file, source, how, log, "read as" in taken),
    }


def _columns(source: Source) -> dict[str, list[str]]:
    """A row for each column: what it may be, how much of it there is, and what it holds."""
    scorers, signals = source.facts.scorers, source.facts.signals
    rows = []
    for name, column in list(source.columns.items())[:_MOST]:
        kind = "score" if name in scorers else "signal" if name in signals else ""
        try:
            rows.append((display_name(name), kind, *_held(column.load())))
        except AbstainError:  # objects, or texts and numbers mixed: of no use as a column
            rows.append((display_name(name), kind, "", "", "neither numbers nor text"))
    titles = ("column", "kind", "present", "distinct", "holds")
    return {title: [str(row[k]) for row in rows] for k, title in enumerate(titles)}


def _held(values: Any) -> tuple[str, str, str]:
    if isinstance(values, Words):
        there = np.array([bool(v) for v in values.values])[values.codes]
        texts = [values.values[k] for k in np.unique(values.codes[there])]
        return f"{there.mean():.1%}", f"{len(texts):,}", ", ".join(map(_clipped, texts[:3]))
    if values.ndim != 1:
        return "100.0%", "", " x ".join(map(str, values.shape[1:])) + " numbers"
    there = np.isfinite(values)
    some = np.asarray(values[there], np.float64)
    span = f"{some.min():.4g} to {some.max():.4g}" if some.size else "nothing"
    distinct = len(np.unique(some))
    return f"{there.mean():.1%}", f"{distinct:,}", span + (" (constant)" if distinct == 1 else "")


def _clipped(text: str) -> str:
    """A text cut between words where it is long."""
    line = display_name(text)
    if len(line) <= _WIDEST:
        return line
    start = line[:_WIDEST]
    return f"{start.rpartition(' ')[0] or start} …"


def _commands(file: str, source: Source, how: ReadOptions, log: Log | None, ready: bool) -> list[str]:
    """Command lines that evaluate the file, as it is read now first; each was tried and gives a table."""
    facts = source.facts
    columns: list[dict[str, str]] = []
    if source.log is None:
        columns = []
    elif log is None:
        columns = [{"correct": name} for name in facts.scorers[:4]]
    elif not ready:
        varying = [n for n, c in source.columns.items() if n.startswith("metadata.") and _varies(c.load())]
        columns = [{"confidence": name} for name in varying[:4]]
    else:
        taken = log.used["correct"].split(" (")[0] if "correct" in log.used else ""
        columns = [{"correct": name} for name in facts.scorers if name != taken][:3]
    attempts = [how, *(how._replace(columns=how.columns | stated) for stated in columns)]
    if facts.variant and ready:
        variants = dict.fromkeys(as_texts(source.columns[facts.variant].load()).tolist())
        attempts += [how._replace(only=how.only | {facts.variant: value}) for value in list(variants)[1:]]
    lines = (
        shlex.join(["abstain", "evaluate", file, *attempt.flags()])
        for attempt in attempts
        if attempt.works(file)
    )
    return list(dict.fromkeys(lines))


def _varies(values: Any) -> bool:
    return not isinstance(values, Words) and len(np.unique(values[np.isfinite(values)])) > 1


def draw_description(on: Console, found: dict[str, Any]) -> None:
    """The same on a screen."""
    read = f", {found['read']:,} read" if found["read"] not in (None, found["rows"]) else ""
    asked = "" if found["questions"] is None else f", {found['questions']:,} questions"
    head = f"{display_name(found['file'])}: {found['written by']}, {found['rows']:,} rows{read}{asked}"
    on.print(Text(head, style="bold"))
    on.print()
    on.print(screen.plain_table(found["columns"], right=("present", "distinct")))
    if taken := dict(found["taken"]):
        on.print(Text(f"\nread as {taken.pop('read as', 'answers without a confidence')}"))
        on.print(screen.plain_table({"role": list(taken), "column": list(taken.values())}))
    on.print()
    screen.show_notes(on, found["notes"])
    for line in found["commands"]:
        on.print(Text(f"  {line}"), soft_wrap=True)


def answer_notes(log: Log, price: float, level: float) -> list[str]:
    """Right, wrong and not attempted; and the area when refusals are counted the other way."""
    if log.loss_name == "loss":
        return []
    rows, repeats = log.scored, log.repeats()
    clusters = None if repeats is None else repeats[rows]
    correct = 1 - log.losses(rows)
    asked: Any = {"answered": log.answered[rows], "price": price, "level": level, "clusters": clusters}
    told = [f"{abstain.three_way(correct, **asked)}."]
    if log.signals and log.unanswered and log.answered[rows].any():
        opposite = "wrong" if log.rules.unanswered == "abstained" else "abstained"
        other = replace(log.rules, unanswered=opposite)
        way = {"wrong": "wrong and ranked last", "abstained": "abstentions"}[opposite]
        read = Predictions("", log.path, "", **log.fields(other))
        found = abstain.evaluate(**read.arguments(), metrics="aurc", level=level)
        areas = (f"{e.score} {e.cell.removesuffix(e.mark)}" for e in found.entries if e.group is None)
        told.append(f"AURC with unanswered questions as {way}: {', '.join(areas)}.")
    return told
