"""Samples in the schema of EvalEval ("Every Eval Ever"): one record per answer, whichever harness gave it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from abstain.formats.columns import LogFacts, text_or_none
from abstain.formats.log_rows import (
    SECONDS,
    TOKENS,
    LoadJson,
    LogContent,
    Row,
    assign_correct_role,
    float_or_none,
    get_nested,
    names_of_columns_from_0_to_1,
    only_text_or_empty,
)
from abstain.formats.safety import count_noun, file_error, is_or_are

_MILLISECONDS_PER_SECOND = 1000


def is_evaleval_samples(content: Any) -> bool:
    """Return whether parsed JSON is a list of samples of this schema."""
    first = get_nested(content, 0)
    has_ids = all(get_nested(first, name) is not None for name in ("sample_id", "evaluation_id"))
    return has_ids and isinstance(get_nested(first, "evaluation"), dict)


def is_evaleval_summary(content: Any) -> bool:
    """Return whether parsed JSON holds scores of whole evaluations in this schema, and no samples."""
    has_results = isinstance(get_nested(content, "evaluation_results"), list)
    return has_results and get_nested(content, "evaluation_id") is not None


def refuse_evaleval_summary(path: Path, content: Any, load_json: LoadJson) -> LogContent:
    """Raise DataError that says which file holds the samples."""
    raise file_error(
        path,
        "holds the scores of whole evaluations in EvalEval's schema, without answers. Name the *_samples.jsonl next to "
        "it.",
    )


def read_evaleval(path: Path, records: list[Any], load_json: LoadJson) -> LogContent:
    """Read samples: one row each, with `is_correct` and `score`, the answer, the model, and what the answer cost.

    The answer is the last value that was extracted, or else the whole output. Samples with an error and no score are
    left out with a note. DataError where a record has no sample_id. `load_json`, which all readers of logs take, is not
    used. The result holds the rows, and facts that say which column has which role; columns without a role (the answer,
    tokens, seconds) stay in the table, where the user can name them.
    """
    rows: list[Row] = []
    failed_count = 0
    for index, record in enumerate(records):
        question = text_or_none(get_nested(record, "sample_id"))
        if question is None:
            raise file_error(path, f"record {index + 1} is not a sample (it has no sample_id).")
        score = float_or_none(get_nested(record, "evaluation", "score"))
        is_correct = float_or_none(get_nested(record, "evaluation", "is_correct"))
        if get_nested(record, "error") and score is None:
            failed_count += 1
            continue
        latency = float_or_none(get_nested(record, "performance", "latency_ms"))
        rows.append(
            {
                "question": question,
                "task": text_or_none(get_nested(record, "evaluation_name")),
                "model": text_or_none(get_nested(record, "model_id")),
                "is_correct": is_correct,
                "score": score,
                "answer": _find_answer(record),
                TOKENS: float_or_none(get_nested(record, "token_usage", "total_tokens")),
                SECONDS: None if latency is None else latency / _MILLISECONDS_PER_SECOND,
            }
        )
    # those of the two whose numbers all lie between 0 and 1
    correctness_columns = names_of_columns_from_0_to_1(rows, ["is_correct", "score"])
    tasks = {row["task"] for row in rows}  # None, of samples that name none, counts as one more
    models = {row["model"] for row in rows}
    column_of_role = {
        **assign_correct_role(
            correctness_columns, prefer=("is_correct", "score")
        ),  # {"correct": name}, or {}
        "question": "question",
    }
    if len(tasks) > 1:
        column_of_role["task"] = "task"
    notes = []
    if failed_count:
        notes.append(f"{count_noun(failed_count, 'sample')} failed and {is_or_are(failed_count)} left out.")
    if len(models) > 1:
        notes.append(
            f"the file holds {len(models):,} models. Read one with --only model=NAME, or compare them with "
            f"`abstain compare FILE --by model`."
        )
    facts = LogFacts(
        tool="EvalEval",
        column_of_role=column_of_role,
        possible_correctness_columns=correctness_columns,
        task=only_text_or_empty(tasks),
        model=only_text_or_empty(models),
        model_column="model" if len(models) > 1 else "",
        notes=tuple(notes),
    )
    return LogContent(rows, facts)


def _find_answer(record: Any) -> str | None:
    """Return the last extracted value of a record, or else its whole output; None where it has neither."""
    attributions = get_nested(record, "answer_attribution")
    if isinstance(attributions, list) and attributions:
        extracted = text_or_none(get_nested(attributions[-1], "extracted_value"))
        if extracted is not None:
            return extracted
    output = get_nested(record, "output", "raw")
    return text_or_none(output[0] if isinstance(output, list) and output else output)
