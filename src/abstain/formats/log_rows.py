"""Rows of a harness's log: what the readers of all harnesses share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from abstain.formats.columns import Column, LogFacts, Source, Words
from abstain.formats.safety import Limits, file_error

Row = dict[str, Any]
Load = Callable[[Path], Any]  # the parsed content of a JSON file, within the limits
Read = tuple[list[Row], LogFacts]
SEQUENCE, MEAN_TOKEN = "sequence_logprob", "mean_token_logprob"


def at(content: Any, *places: Any) -> Any:
    """What lies under these keys and indices; None where anything on the way is missing or of another kind."""
    for place in places:
        if isinstance(content, dict):
            content = content.get(place)
        elif isinstance(content, list) and isinstance(place, int) and place < len(content):
            content = content[place]
        else:
            return None
    return content


def number(value: Any) -> float | None:
    """A number or a truth value as a number; None for everything else."""
    return float(value) if isinstance(value, (bool, int, float)) else None


def token_signals(logprobs: Any) -> Row:
    """Sum and mean of the log-probabilities of the tokens that were generated."""
    found = [number(at(token, "logprob") if isinstance(token, dict) else token) for token in logprobs or ()]
    values = [x for x in found if x is not None]
    if not values or len(values) < len(found):
        return {}
    return {SEQUENCE: math.fsum(values), MEAN_TOKEN: math.fsum(values) / len(values)}


def agreement(questions: Sequence[Hashable], answers: Sequence[Hashable | None]) -> list[float | None]:
    """Of the answers to one question, the share that are the same as this one; None where there is no answer."""
    asked = Counter(questions)
    same = Counter(zip(questions, answers))
    return [None if a is None else same[q, a] / asked[q] for q, a in zip(questions, answers)]


def source_of(path: Path, limits: Limits, rows: Sequence[Row], facts: LogFacts) -> Source:
    """Rows as columns: numbers where every value is one (a missing one is NaN), text otherwise."""
    if not rows:
        raise file_error(path, f"is a log of {facts.tool} that holds no answers.")
    names = list(dict.fromkeys(name for row in rows for name in row))
    limits.check_columns(path, len(names))
    limits.check(path, 40 * len(names) * len(rows))
    columns = {name: _column([row.get(name) for row in rows]) for name in names}
    scorers, signals = (tuple(n for n in some if n in columns) for some in (facts.scorers, facts.signals))
    return Source(path, "log", columns, log=replace(facts, scorers=scorers, signals=signals))


def _column(values: list[Any]) -> Column:
    if all(v is None or isinstance(v, (bool, int, float)) for v in values):
        return Column.of(np.array([math.nan if v is None else float(v) for v in values]))
    return Column.of(Words.of("" if v is None else str(v) for v in values))


def shares(rows: Sequence[Row], names: Sequence[str]) -> tuple[str, ...]:
    """Of these columns, those that may say how right an answer is: numbers, all of them from 0 to 1."""
    found = []
    for name in names:
        values = [row[name] for row in rows if row.get(name) is not None and not math.isnan(row[name])]
        if values and min(values) >= 0 and max(values) <= 1:
            found.append(name)
    return tuple(found)


def preferred(found: Sequence[str], *known: str) -> dict[str, str]:
    """The column to take for correctness: a known one, or the only one; none where it must be stated."""
    best = next((name for name in known if name in found), found[0] if len(found) == 1 else None)
    return {} if best is None else {"correct": best}
