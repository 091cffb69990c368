"""After lm-evaluation-harness: AURC and risk at coverage beside the accuracies it reports.

Works on what `lm_eval.simple_evaluate(..., log_samples=True)` returns; the harness itself is not imported.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from abstain.errors import AbstainError, InputError
from abstain.formats.answers import make_log
from abstain.formats.lm_eval_log import read_lm_eval
from abstain.formats.log_rows import make_log_source
from abstain.formats.logs import Log, Rules
from abstain.formats.safety import Limits
from abstain.inference import Interval, interval

__all__ = ["add_selective"]


def add_selective(
    results: dict[str, Any],
    *,
    confidence: str | None = None,
    coverage: float = 0.8,
    unanswered: str = "abstained",
    level: float = 0.95,
) -> dict[str, Any]:
    """Add `aurc` and `risk_at_<coverage>` with error and interval to every task that has a confidence.

    The keys are those of the harness, "aurc,none" and "aurc_stderr,none", with "aurc_low,none" and "aurc_high,none"
    beside them, for each filter. Repeats of one question are a cluster; equal confidences are accepted together.

    Parameters
    ----------
    results : dict
        What `simple_evaluate(..., log_samples=True)` gave; changed in place.
    confidence : str, optional
        The signal to rank by: "softmax", "softmax_norm", "margin", "loglikelihood" or "agreement";
        by default the first that a task has.
    coverage : float
        The share to answer, at least, for the risk.
    unanswered : {"abstained", "wrong"}
        A reply that no filter could read: never accepted and kept in the coverage, or wrong and ranked last.
    level : float
        Of the intervals.

    Returns
    -------
    dict
        The same `results`; `results["selective"]` says per task what was taken for what, or why there is nothing.

    Examples
    --------
    >>> answers = [["-0.1", "-3.0"], ["-0.7", "-0.8"], ["-0.2", "-2.0"]]
    >>> samples = [{"doc_id": k, "filter": "none", "metrics": ["acc"], "acc": right, "resps": [],
    ...             "filtered_resps": [[x, "False"] for x in answers[k]]} for k, right in enumerate((1, 0, 1))]
    >>> found = add_selective({"results": {"mine": {"acc,none": 2 / 3}}, "samples": {"mine": samples}})
    >>> round(found["results"]["mine"]["aurc,none"], 4)
    0.1111
    """
    if not isinstance(results.get("samples"), dict):
        raise InputError(
            "add_selective: `results` must have samples. Run simple_evaluate(..., log_samples=True)."
        )
    told: dict[str, list[str]] = {}
    metrics = {"aurc": ("aurc", {}), f"risk_at_{coverage:g}": ("risk_at_coverage", {"coverage": coverage})}
    stated = {} if confidence is None else {"confidence": confidence}
    for task, samples in results["samples"].items():
        place, notes = results.setdefault("results", {}).setdefault(task, {}), told.setdefault(task, [])
        records = json.loads(json.dumps(samples, default=str))  # as it would lie in its log
        for name in dict.fromkeys(str(record.get("filter") or "none") for record in records):
            try:
                read = read_lm_eval(Path(task), records, lambda path: None)
                source = make_log_source(Path(task), Limits(), read)
                only = {"filter": name} if source.facts.variant else {}
                rules = Rules(only=only, unanswered=unanswered, missing="last")
                log = make_log(source, source.roles(stated), rules, None)
            except AbstainError as problem:  # nothing says right or wrong
                notes.append(str(problem))
                continue
            notes += log.summary_lines()
            for label, (metric, options) in metrics.items() if log.signals else ():
                try:
                    place |= _values(label, name, interval_of(log, rules, metric, level, options))
                except AbstainError as problem:  # more abstentions than that coverage allows, say
                    notes.append(str(problem))
    results["selective"] = told
    return results


def _values(label: str, name: str, found: Interval) -> dict[str, float]:
    values = {"": found.estimate, "_stderr": found.standard_error, "_low": found.low, "_high": found.high}
    return {f"{label}{part},{name}": value for part, value in values.items()}


def interval_of(log: Log, rules: Rules, metric: str, level: float, options: dict[str, Any]) -> Interval:
    """A metric of answers, ranked by their first signal; repeats of one question are a cluster."""
    read = log.fields(rules)
    along = {name: read[name] for name in ("abstained", "clusters") if name in read}
    return interval(metric, read["loss"], read["confidence"], level=level, **along, **options)
