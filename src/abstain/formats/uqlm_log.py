"""Logs of UQLM: parallel lists, no correctness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from abstain.formats.columns import LogFacts, text_of
from abstain.formats.log_rows import Load, Read, Row, at, number, preferred, shares, token_signals
from abstain.formats.roles import states_truth
from abstain.formats.safety import file_error

# UQLM: parallel lists, no correctness


def _uqlm_parts(content: Any) -> dict[str, Any]:
    parts = {"": content} if isinstance(at(content, "data"), dict) else content
    if not isinstance(parts, dict) or not parts:
        return {}
    lists = [(at(p, "data", "responses"), at(p, "data", "prompts")) for p in parts.values()]
    return parts if all(isinstance(a, list) and isinstance(b, list) for a, b in lists) else {}


def _uqlm(path: Path, content: Any, load: Load) -> Read:
    rows: list[Row] = []
    signals: dict[str, None] = {}
    for part, held in _uqlm_parts(content).items():
        lists: dict[str, Any] = {k: v for k, v in held["data"].items() if isinstance(v, list)}
        if len(set(map(len, lists.values()))) != 1:
            raise file_error(path, "the lists of a UQLM result must be of one length.")
        lists["tokens"] = lists.pop("logprobs", None) or at(held, "metadata", "logprobs") or []
        for k, prompt in enumerate(lists["prompts"]):
            row: Row = {"part": part} if part else {}
            row |= {"question": text_of(prompt), "answer": text_of(at(lists, "responses", k))}
            numbers = {name: number(at(values, k)) for name, values in lists.items()}
            row |= {name: x for name, x in numbers.items() if x is not None}
            row |= token_signals(at(lists, "tokens", k))
            signals |= dict.fromkeys(name for name in row if name not in ("part", "question", "answer"))
            rows.append(row)
    verdicts = [name for name in signals if states_truth(name)]
    scorers = shares(rows, [name for name in verdicts if states_truth(name) == "correct"])
    return rows, LogFacts(
        "UQLM",
        preferred(scorers) | {"question": "question", "prediction": "answer"},
        scorers,
        signals=tuple(s for s in signals if s not in verdicts and not _is_entropy(s)),
        variant="part" if "part" in rows[0] else "",
    )


def _is_entropy(name: str) -> bool:
    """Entropies rise as a model gets less sure; UQLM gives a confidence beside each."""
    return "entropy" in name.lower() and "negentropy" not in name.lower()
