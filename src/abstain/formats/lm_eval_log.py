"""Logs of lm-evaluation-harness: one record per document and filter."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from abstain.errors import DataError
from abstain.formats.columns import LogFacts, text_of
from abstain.formats.log_rows import Load, Read, Row, at, number, preferred, shares
from abstain.formats.roles import AGREEMENT
from abstain.formats.safety import count_noun, display_name, file_error, has_or_have

# lm-evaluation-harness: one record per document and filter

_LM_EVAL = ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics")
_OF_OPTIONS = ("softmax", "margin", "loglikelihood")


def read_lm_eval(path: Path, records: list[Any], load: Load) -> Read:
    """Samples of lm-evaluation-harness, as a file or the harness itself holds them."""
    rows: list[Row] = []
    metrics: dict[str, None] = {}
    leaking = 0
    for place, record in enumerate(records):
        if not isinstance(record, dict) or text_of(record.get("doc_id")) is None:
            raise file_error(path, f"record {place + 1} is no sample of lm-evaluation-harness (no doc_id).")
        told = record.get("metrics")
        others = (n for n in record if n not in _LM_EVAL and not n.endswith("_hash"))
        names = told if isinstance(told, list) else others
        scores = {str(name): number(record.get(str(name))) for name in names}
        metrics |= dict.fromkeys(name for name, value in scores.items() if value is not None)
        answer = _first_text(record.get("filtered_resps"))
        row = {"question": text_of(record["doc_id"]), "filter": text_of(record.get("filter")), **scores}
        likelihoods = _option_likelihoods(record)
        if likelihoods is None:
            answered = answer is not None and answer.strip() not in ("", "[invalid]")
            row |= {"answer": answer, "answered": answered, **_repeats(record)}
        elif len(likelihoods) == 1:  # of the right answer alone: whoever ranks by it has seen the label
            row["answered"] = True
            leaking += 1
        else:
            row |= _option_signals(likelihoods, "acc_norm" in record)
        rows.append(row)
    scorers = shares(rows, list(metrics))
    roles = preferred(scorers, "acc", "exact_match", "pass@1") | {"question": "question"}
    if texts := any("answered" in row for row in rows):
        rows = [{"answered": True, **row} for row in rows]  # an option is always chosen
    notes = _promised(path, len({row["question"] for row in rows}), load)
    if leaking:
        notes += (
            f"{count_noun(leaking, 'row')} {has_or_have(leaking)} one log-likelihood, that of the right "
            f"answer, which the model "
            f"does not know: it is no confidence.",
        )
    return rows, LogFacts(
        "lm-evaluation-harness",
        roles | ({"answered": "answered"} if texts else {}),
        scorers,
        signals=(*_OF_OPTIONS, "softmax_norm", AGREEMENT),
        not_with={"acc_norm": _OF_OPTIONS, "acc": ("softmax_norm",)},
        variant="filter" if any(row["filter"] for row in rows) else "",
        about={"answered": "the filtered reply is neither empty nor [invalid]"},
        task=_task_of(path),
        notes=notes,
    )


def _first_text(replies: Any) -> str | None:
    for _ in range(3):
        replies = replies[0] if isinstance(replies, list) and replies else replies
    return replies if isinstance(replies, str) else None


def _repeats(record: Row) -> Row:
    """How far several replies to one prompt agree, word for word."""
    replies = at(record, "resps", 0)
    if not isinstance(replies, list) or len(replies) < 2 or not all(isinstance(r, str) for r in replies):
        return {}
    return {AGREEMENT: Counter(r.strip() for r in replies).most_common(1)[0][1] / len(replies)}


class Option(NamedTuple):
    """One continuation that the model was asked to score."""

    loglikelihood: float
    length: int  # characters, without the blank before it; 0 where the log does not say


def _option_likelihoods(record: Row) -> list[Option] | None:
    """What each request of a document scored; None where the record holds text.

    A multiple-choice task scores every option. A task of kind `loglikelihood` (LAMBADA, ASDiv) scores one text: the
    right answer.
    """
    pairs = record.get("filtered_resps") or [None]
    if not isinstance(pairs, list) or not all(map(_is_scored, pairs)):
        return None
    options = []
    for k, (loglikelihood, _) in enumerate(pairs):
        request = at(record, "arguments", f"gen_args_{k}")
        if k and at(request, "arg_0") == "":  # unconditional, for the mutual information: no option
            continue
        text = at(request, "arg_1")
        length = len(text.removeprefix(" ")) if isinstance(text, str) else 0
        options.append(Option(float(loglikelihood), length))
    return options


def _is_scored(pair: Any) -> bool:
    """A log-likelihood beside whether it is the greedy continuation; numbers and truth values may be text."""
    if not isinstance(pair, list) or len(pair) != 2 or str(pair[1]) not in ("True", "False"):
        return False
    try:
        float(pair[0])
    except (TypeError, ValueError):
        return False
    return True


def _option_signals(options: list[Option], normalised: bool) -> Row:
    """Confidences from the log-likelihoods of all options, whichever of them is right."""
    values = [option.loglikelihood for option in options]
    if not all(map(math.isfinite, values)):
        return {"softmax": None}
    second, first = sorted(values)[-2:]
    signals = {"softmax": _softmax(values), "margin": first - second}
    if normalised and min(option.length for option in options) > 0:
        signals["softmax_norm"] = _softmax([option.loglikelihood / option.length for option in options])
    return signals | {"loglikelihood": first}


def _softmax(x: list[float]) -> float:
    """The largest probability of a softmax; of one short row, so without arrays."""
    return 1 / math.fsum(math.exp(value - max(x)) for value in x)


def _task_of(path: Path) -> str:
    found = re.match(r"samples_(.+)_\d{4}-\d\d-\d\dT", path.name)
    return found[1] if found else ""


def _promised(path: Path, held: int, load: Load) -> tuple[str, ...]:
    """What the results file beside a samples file says of its number of documents."""
    task, stamp = _task_of(path), re.search(r"\d{4}-\d\d-\d\dT[\d.-]*\d", path.name)
    for other in sorted(path.parent.glob(f"*{stamp[0]}.json")) if stamp else ():
        if other.is_file() and not other.name.startswith("samples_"):
            try:
                count = number(at(load(other), "n-samples", task, "effective"))
            except (DataError, ValueError, RecursionError):  # it is not what was asked for
                continue
            if count is not None and count != held:
                return (
                    f"{display_name(other.name)} promises {count_noun(int(count), 'document')}, the file holds "
                    f"{held:,}.",
                )
    return ()


def _no_samples(path: Path, content: Any, load: Load) -> Read:
    told = "is a summary of lm-evaluation-harness without answers. Name the samples_*.jsonl that"
    raise file_error(path, f"{told} `lm_eval --log_samples` writes beside it.")


# which of them a file is


def _lm_eval_records(content: Any) -> bool:
    first = at(content, 0)
    return at(first, "doc_id") is not None and ("resps" in first or "filtered_resps" in first)
