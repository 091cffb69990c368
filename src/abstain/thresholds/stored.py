"""A threshold as JSON and back. numpy only."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from abstain.errors import DataError
from abstain.thresholds.advice import Advice
from abstain.thresholds.candidates import COLUMNS, Candidates
from abstain.thresholds.threshold import Reference, Threshold

if TYPE_CHECKING:
    from abstain.thresholds.grouped import GroupThresholds

FORMAT = "abstain threshold 1"
GROUPED_FORMAT = "abstain group thresholds 1"
_PLAIN = (
    "form", "target", "method", "delta", "n", "coverage", "risk", "risk_upper", "guarantee", "note",
)  # fmt: skip
_KINDS = {"accepted": np.int64, "passed": np.bool_}


def _write(x: float | None) -> float | str | None:
    """JSON has no infinities and no NaN; Python's `repr` of the rest is exact."""
    if x is None or (isinstance(x, float) and math.isnan(x)):
        return None
    return ("inf" if x > 0 else "-inf") if isinstance(x, float) and math.isinf(x) else x


def _read(x: Any, missing: float | None = None) -> Any:
    return missing if x is None else float(x) if isinstance(x, str) else x


def as_dict(t: Threshold) -> dict[str, Any]:
    """Plain values only."""
    return {
        "format": FORMAT,
        "rule": t.rule,
        "value": _write(t.value),
        **{name: getattr(t, name) for name in _PLAIN},
        "coverage_interval": list(t.coverage_interval),
        "bounded": list(t.bounded),
        "advice": None if t.advice is None else asdict(t.advice),
        "reference": {
            "value": [_write(v) for v in t.reference.value.tolist()],
            "at_least": t.reference.at_least.tolist(),
            "n": t.reference.n,
        },
        "table": {name: [_write(x) for x in column] for name, column in t.table.columns().items()},
    }


def to_json(t: Threshold) -> str:
    """Strict JSON."""
    return json.dumps(as_dict(t), allow_nan=False)


def _table(columns: dict[str, list[Any]]) -> Candidates:
    arrays: dict[str, Any] = {
        name: np.asarray([_read(x, math.nan) for x in columns[name]], dtype=_KINDS.get(name, np.float64))
        for name in COLUMNS
    }
    return Candidates(**arrays)


def from_dict(d: dict[str, Any]) -> Threshold:
    """Back from plain values."""
    if not isinstance(d, dict) or d.get("format") != FORMAT:
        found = d.get("format") if isinstance(d, dict) else type(d).__name__
        raise DataError(f"Threshold.from_json: must hold a stored threshold ({FORMAT!r}), got {found!r}.")
    try:
        reference = d["reference"]
        return Threshold(
            value=_read(d["value"]),
            **{name: d[name] for name in _PLAIN},
            coverage_interval=(d["coverage_interval"][0], d["coverage_interval"][1]),
            bounded=(d["bounded"][0], d["bounded"][1]),
            advice=None if d["advice"] is None else Advice(**d["advice"]),
            reference=Reference(
                np.asarray([_read(v) for v in reference["value"]], dtype=np.float64),
                np.asarray(reference["at_least"], dtype=np.int64),
                reference["n"],
            ),
            table=_table(d["table"]),
        )
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise DataError(f"Threshold.from_json: a field is missing or malformed: {error!r}.") from error


def parse(text: str) -> Any:
    """JSON text, or a clear error."""
    try:
        return json.loads(text)
    except (json.JSONDecodeError, TypeError) as error:
        raise DataError(f"Threshold.from_json: not JSON: {error}.") from error


def from_json(text: str) -> Threshold:
    """A threshold from what `to_json` wrote."""
    return from_dict(parse(text))


def group_to_json(g: GroupThresholds) -> str:
    """Labels are kept as pairs, since JSON keys are strings only."""
    pairs = [[label, as_dict(t)] for label, t in g.thresholds.items()]
    return json.dumps({"format": GROUPED_FORMAT, "delta": g.delta, "thresholds": pairs}, allow_nan=False)


def group_from_json(text: str) -> tuple[dict[Any, Threshold], float]:
    """Thresholds by label, and delta."""
    d = parse(text)
    if not isinstance(d, dict) or d.get("format") != GROUPED_FORMAT:
        raise DataError("GroupThresholds.from_json: must hold stored group thresholds.")
    return {label: from_dict(t) for label, t in d["thresholds"]}, d["delta"]
