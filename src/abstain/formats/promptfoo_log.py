"""Logs of promptfoo: five shapes around one list of results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from abstain.formats.columns import LogFacts, text_of
from abstain.formats.log_rows import MEAN_TOKEN, SEQUENCE, Load, Read, Row, at, number, shares, token_signals
from abstain.formats.safety import count_noun, file_error, is_or_are

# promptfoo: five shapes around one list of results


def _promptfoo_results(content: Any) -> list[Any] | None:
    inner = at(content, "data") or content
    found = at(inner, "results", "results") or at(inner, "results")
    first = at(found, 0) if isinstance(found, list) else None
    asked = at(first, "vars") is not None or at(first, "testCase") is not None
    known = any(
        at(first, name) is not None for name in ("prompt", "provider", "failureReason", "gradingResult")
    )
    return found if isinstance(at(first, "success"), bool) and asked and known else None


def _promptfoo(path: Path, content: Any, load: Load) -> Read:
    rows: list[Row] = []
    failed = 0
    for result in _promptfoo_results(content) or ():
        response = at(result, "response") or at(result, "providerResponse")
        if number(at(result, "success")) is None:
            raise file_error(path, f"result {len(rows) + failed + 1} of promptfoo must say `success` or not.")
        if at(result, "failureReason") == 2 or (at(result, "error") and at(response, "output") is None):
            failed += 1
            continue
        asked = at(result, "vars") or at(result, "testCase", "vars")
        given = {"provider": at(result, "provider", "id"), "prompt": at(result, "prompt", "label")}
        row = {"question": json.dumps(asked, sort_keys=True), "correct": number(result["success"])}
        named = at(result, "namedScores")
        row |= {f"namedScores.{k}": number(v) for k, v in (named if isinstance(named, dict) else {}).items()}
        row |= {k: text_of(v) for k, v in given.items()} | token_signals(at(response, "logProbs"))
        rows.append(row | {"score": number(at(result, "score"))})
    several = len({row["provider"] for row in rows}) > 1
    return rows, LogFacts(
        "promptfoo",
        {"correct": "correct", "question": "question"} | ({"groups": "provider"} if several else {}),
        shares(rows, ["correct", "score"]),
        signals=("namedScores.confidence", SEQUENCE, MEAN_TOKEN),
        about={"correct": "success", "question": "the values of vars"},
        notes=(f"{count_noun(failed, 'result')} failed and {is_or_are(failed)} left out.",) if failed else (),
    )
