"""The numbers behind the charts and the slider, as JSON that is safe inside a page."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

import numpy as np

from abstain.report.content import Content, ModelContent

_POINTS = 600


def embedded(content: Content) -> dict[str, Any]:
    """Plain values for the page's scripts."""
    zero_one = all(m.zero_one for m in content.models)
    noun = "error rate" if zero_one else "mean loss"
    return {
        "level": f"{content.level:.0%}"
        if round(content.level, 2) == content.level
        else f"{content.level:.1%}",
        "zero_one": zero_one,
        "words": {
            "risk": f"selective risk: {noun} of the answered",
            "generalised": f"generalised risk: {'errors' if zero_one else 'loss'} answered, per sample of all",
        },
        "best": _best(content),
        "models": [_model(m) for m in content.models],
        "forest": _forest(content),
    }


def _best(content: Content) -> int:
    """The model the slider starts with."""
    names = [m.read.name for m in content.models]
    ranked = content.comparison.names if content.comparison is not None and len(names) > 1 else names
    return names.index(ranked[0])


def _model(model: ModelContent) -> dict[str, Any]:
    curve, steps = model.curve, asdict(model.steps)
    grid = np.linspace(curve.coverage[0], curve.coverage[-1], _POINTS)
    keep = np.unique(np.minimum(np.searchsorted(curve.coverage, grid - 1e-12), len(curve.coverage) - 1))
    covered = _short(curve.coverage[keep])
    start = int(np.searchsorted(steps["coverage"], 0.8 * steps["coverage"][-1] - 1e-12))
    views = {"risk": curve.risk[keep], "generalised": curve.generalised_risk[keep]}
    return {
        "name": model.read.name,
        "n": model.read.n,
        "start": min(start, len(steps["coverage"]) - 1),
        "steps": steps,
        **{
            view: {"coverage": covered, "value": _short(values), "band": _band(model, view)}
            for view, values in views.items()
        },
    }


def _band(model: ModelContent, view: str) -> dict[str, Any] | None:
    """Generalised risk is risk times coverage, and so is its band at a fixed coverage."""
    band = model.band
    if band is None:
        return None
    scale = band.coverage if view == "generalised" else np.ones_like(band.coverage)
    some = band.coverage >= model.curve.coverage[0] - 1e-12  # below it no threshold accepts anybody
    values = (band.coverage, band.low * scale, band.high * scale)
    return dict(zip(("coverage", "low", "high"), (_short(v[some]) for v in values)))


def _short(values: np.ndarray) -> list[float]:
    """Six digits are more than a screen shows."""
    return [float(f"{v:.6g}") for v in values.tolist()]


def _forest(content: Content) -> list[dict[str, Any]]:
    rows = []
    for k, model in enumerate(content.models):
        found = model.evaluation
        for score in found.scores:
            entry = found[score, found.losses[0], "aurc"]
            if entry.estimate is None:
                continue
            alone = len(content.models) == 1
            rows.append(
                {
                    "model": model.read.name, "score": score, "colour": k, "first": score == model.score,
                    "label": score if alone else f"{_clipped(model.read.name)} · {score}",
                    "estimate": entry.estimate, "low": entry.low, "high": entry.high,
                }
            )  # fmt: skip
    return rows


def _clipped(name: str, most: int = 28) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


def safe_json(data: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever strings it holds.

    >>> safe_json({"name": "</script><script>"})
    '{"name": "\\\\u003c/script\\\\u003e\\\\u003cscript\\\\u003e"}'
    """
    text = json.dumps(_finite(data), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _finite(data: Any) -> Any:
    """What has overflowed is not there: JSON knows no infinity."""
    if isinstance(data, dict):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_finite(value) for value in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data
