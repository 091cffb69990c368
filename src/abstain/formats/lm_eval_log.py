"""Logs of lm-evaluation-harness: `samples_*.jsonl`, one record per document and filter; and what older versions wrote.

A results file may hold the samples of all its tasks. Versions before 0.4 wrote `*_write_out_info.json` instead: a
record per document with the log-likelihood of each option (`logit_0`, `logit_1`, ...), or the reply, and the metrics as
texts.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from abstain.errors import DataError
from abstain.formats.columns import LogFacts, text_or_none
from abstain.formats.log_rows import (
    OPTION_CONFIDENCES,
    LoadJson,
    LogContent,
    Row,
    ScoredOption,
    assign_correct_role,
    confidences_of_options,
    float_or_none,
    get_nested,
    names_of_columns_from_0_to_1,
    read_unanswerable,
)
from abstain.formats.roles import AGREEMENT
from abstain.formats.safety import count_noun, display_name, file_error, has_or_have

# Fields of a record that are no metrics, where the record does not list its metrics (files of 2024).
_OTHER_FIELDS = ("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics")
_MAIN_METRICS = ("acc", "exact_match", "pass@1")  # those that say right or wrong if a task has several
_TASK_METRIC = "task_metric"  # column of a file of several tasks that holds the main metric of each
_VOTE_FILTER = "maj"  # names of filters that score the most frequent reply begin so
_INVALID_REPLY = "[invalid]"  # what a filter writes where it finds no answer in the reply


def is_lm_eval_samples(content: Any) -> bool:
    """Return whether parsed JSON is a list of samples."""
    first = get_nested(content, 0)
    if get_nested(first, "doc_id") is None:
        return False
    return "resps" in first or "filtered_resps" in first


def holds_lm_eval_samples(content: Any) -> bool:
    """Return whether parsed JSON is a results file that holds samples by task."""
    return bool(_samples_by_task(content))


def _samples_by_task(content: Any) -> dict[str, list[Any]]:
    """Return the samples of a results file by task; tasks without samples are left out."""
    samples = get_nested(content, "samples")
    if not isinstance(samples, dict):
        return {}
    return {str(task): records for task, records in samples.items() if is_lm_eval_samples(records)}


def read_results_with_samples(path: Path, content: Any, load_json: LoadJson) -> LogContent:
    """Read the samples of every task of a results file: one row per sample, whose column "task" names the task.

    `content` is the parsed file, and `load_json` loads another JSON file of the run. DataError where a sample has no
    doc_id. Where there is one task, it is named in the facts (`LogFacts`, what the columns mean) and the column has no
    role.
    """
    records_by_task = _samples_by_task(content)
    records: list[Any] = []  # those of all tasks, one task after the other
    tasks: list[str] = []  # of each record
    for task, task_records in records_by_task.items():
        records += task_records
        tasks += [task] * len(task_records)
    # one row per record, in the order of the records; the facts say what the columns of the rows mean
    rows, facts = read_lm_eval(path, records, load_json)
    for row, task in zip(rows, tasks, strict=True):
        row["task"] = task
    model = text_or_none(get_nested(content, "model_name")) or ""
    if len(records_by_task) == 1:
        return LogContent(rows, replace(facts, task=tasks[0], model=model))
    facts = _use_metric_of_each_task(rows, facts)  # changes the rows where tasks have different main metrics
    return LogContent(
        rows, replace(facts, column_of_role={**facts.column_of_role, "task": "task"}, task="", model=model)
    )


def _use_metric_of_each_task(rows: list[Row], facts: LogFacts) -> LogFacts:
    """Let the main metric of each task say which answers are right, where the tasks have different ones.

    Rows get a column `task_metric` with the value of that metric, and lose the confidences of another answer than the
    one that it judges. Returns the facts with this column as that of right answers; unchanged where all tasks have the
    same main metric. A task without a metric from 0 to 1 has no score. `rows` name their task in the column "task" and
    are changed in place; the facts, what the columns mean, are not.
    """
    rows_of_task: dict[str, list[Row]] = {}
    for row in rows:
        rows_of_task.setdefault(row["task"], []).append(row)
    metric_of_task = {}
    for task, task_rows in rows_of_task.items():
        metrics = names_of_columns_from_0_to_1(task_rows, facts.possible_correctness_columns)
        # the first of several among which nothing says which is the main one
        fallback = {"correct": metrics[0]} if metrics else {}
        # {"correct": the first of `_MAIN_METRICS` that the task has, or its only metric}; {} where neither applies
        chosen = assign_correct_role(metrics, prefer=_MAIN_METRICS) or fallback
        if chosen:
            metric_of_task[task] = chosen["correct"]
    if len(set(metric_of_task.values())) < 2:
        return facts
    for row in rows:
        metric = metric_of_task.get(row["task"], "")
        row[_TASK_METRIC] = row.get(metric)  # None for a task without a metric
        for name in facts.excluded_confidences_by_correctness.get(metric, ()):
            row.pop(name, None)
    counts = Counter(metric_of_task.values())
    listed = ", ".join(f"{metric} of {count_noun(count, 'task')}" for metric, count in counts.items())
    return replace(
        facts,
        column_of_role={**facts.column_of_role, "correct": _TASK_METRIC},
        possible_correctness_columns=(_TASK_METRIC, *facts.possible_correctness_columns),
        descriptions={**facts.descriptions, _TASK_METRIC: listed},
    )


def is_lm_eval_write_out(content: Any) -> bool:
    """Return whether parsed JSON is a `*_write_out_info.json`, or a file that holds several of them by task."""
    return bool(_write_outs_by_task(content))


def _write_outs_by_task(content: Any) -> dict[str, list[Any]]:
    """Return the records that versions before 0.4 wrote, by task ("" where the file is that of one task).

    `content` is the parsed file: a list of records, or {"write_out_info": {task: list of records}}. Entries that are no
    such lists are left out, so that the result is empty for any other file.
    """
    lists_by_task = get_nested(content, "write_out_info")
    if not isinstance(lists_by_task, dict):
        lists_by_task = {"": content}
    return {
        str(task): records
        for task, records in lists_by_task.items()
        if isinstance(records, list)
        and get_nested(records, 0, "doc_id") is not None
        and get_nested(records, 0, "logit_0") is not None
    }


def read_write_out(path: Path, content: Any, load_json: LoadJson) -> LogContent:
    """Read the records of versions before 0.4: one row per document of each task.

    Where `truth` is the number of an option, the log-likelihoods of all options are known and give confidences;
    otherwise `logit_0` is the reply, or the log-likelihood of the right answer, which is no confidence. DataError where
    a record has no doc_id. `content` is the parsed file; `load_json`, which all readers of logs take, is not used.
    """
    # not empty, since the caller recognised the file; the task is "" where the file does not name it
    records_by_task = _write_outs_by_task(content)
    rows: list[Row] = []
    metric_names: dict[str, None] = {}  # a set that keeps the order of the records
    for task, records in records_by_task.items():
        for index, record in enumerate(records):
            question = text_or_none(get_nested(record, "doc_id"))
            if question is None:
                raise file_error(path, f"record {index + 1} has no doc_id.")
            # name of a metric -> number, also of a text such as "0.5" or "True"; None for any other value
            scores = {
                name: _parse_score(value)
                for name, value in record.items()
                if name not in ("doc_id", "truth") and not re.fullmatch(r"(prompt|logit)_\d+", name)
            }
            metric_names |= dict.fromkeys(name for name, score in scores.items() if score is not None)
            # the confidences of a multiple-choice record, or its reply as "answer"
            reply_columns = _read_write_out_reply(record)
            rows.append({"question": question, "task": task, **scores, **reply_columns})
    correctness_columns = names_of_columns_from_0_to_1(rows, list(metric_names))
    column_of_role = {
        **assign_correct_role(correctness_columns, prefer=("acc", "exact_match", "em")),
        "question": "question",
    }
    has_several_tasks = len(records_by_task) > 1
    if has_several_tasks:
        column_of_role["task"] = "task"
    # the file may be named after a task
    match = re.fullmatch(r"(.+)_write_out_info", path.name.partition(".")[0])
    facts = LogFacts(
        tool="lm-evaluation-harness",
        column_of_role=column_of_role,
        possible_correctness_columns=correctness_columns,
        possible_confidence_columns=OPTION_CONFIDENCES,  # those that no row has are taken out later
        # `acc_norm` judges the option that is best by normalised log-likelihoods. These confidences are of the option
        # that is best by plain ones, so they are not offered with `acc_norm`.
        excluded_confidences_by_correctness={"acc_norm": OPTION_CONFIDENCES},
        task="" if has_several_tasks else next(iter(records_by_task)) or (match[1] if match else ""),
    )
    return LogContent(rows, facts)


def _parse_score(value: Any) -> float | None:
    """Return a metric that was written as a text ("True", "0.5") or a number; None where it is neither."""
    if value in ("True", "False"):
        return float(value == "True")
    try:
        return float_or_none(value) if not isinstance(value, str) else float(value)
    except ValueError:
        return None


def _read_write_out_reply(record: Row) -> Row:
    """Return the confidences of a multiple-choice record, or the column "answer" of a reply."""
    logits = [record[name] for name in sorted(record, key=_number_at_end) if name.startswith("logit_")]
    numbers = [float_or_none(logit) for logit in logits]
    if isinstance(record.get("truth"), int) and len(logits) > 1 and None not in numbers:
        # length 0: the file does not say how long the options are
        options = [ScoredOption(loglikelihood=number, length=0) for number in numbers if number is not None]
        return confidences_of_options(options, is_normalised=False)
    return {"answer": logits[0]} if logits and isinstance(logits[0], str) else {}


def _number_at_end(name: str) -> int:
    """Return the number after the last underscore of a field's name; -1 where there is none."""
    ending = name.rpartition("_")[2]
    return int(ending) if ending.isdecimal() else -1


def is_lm_eval_summary(content: Any) -> bool:
    """Return whether parsed JSON is a `results_*.json`, which holds scores of tasks and no samples."""
    return isinstance(get_nested(content, "results"), dict) and isinstance(
        get_nested(content, "n-shot"), dict
    )


def refuse_summary(path: Path, content: Any, load_json: LoadJson) -> LogContent:
    """Raise DataError that says which file holds the samples."""
    raise file_error(
        path,
        "is a summary of lm-evaluation-harness without answers. Name the samples_*.jsonl that "
        "`lm_eval --log_samples` writes next to it.",
    )


def read_lm_eval(path: Path, records: list[Any], load_json: LoadJson) -> LogContent:
    """Read samples of lm-evaluation-harness, as a file or the harness itself holds them: one row per record.

    A record of a multiple-choice task has confidences from the log-likelihoods of its options; one of a generation task
    has the filtered reply as its answer. `path` is that of the samples file, whose name says the task, and `load_json`
    loads the results file next to it, to compare the number of documents. DataError where a record has no doc_id.
    """
    rows: list[Row] = []
    metric_names: dict[str, None] = {}  # a set that keeps the order of the records
    list_names: dict[
        str, None
    ] = {}  # metrics that are computed of all answers together, from a list in each record
    answer_only_count = 0  # records with the log-likelihood of the right answer alone
    for index, record in enumerate(records):
        if not isinstance(record, dict) or text_or_none(record.get("doc_id")) is None:
            raise file_error(
                path, f"record {index + 1} is not a sample of lm-evaluation-harness (it has no doc_id)."
            )
        scores = _find_scores(record)
        metric_names |= dict.fromkeys(name for name, score in scores.items() if score is not None)
        list_names |= dict.fromkeys(name for name in scores if isinstance(record.get(name), list))
        row: Row = {
            "question": text_or_none(record["doc_id"]),
            "filter": text_or_none(record.get("filter")),
            **scores,
        }
        row |= read_unanswerable(record.get("doc"))
        options = _find_options(record)
        if options is None:
            row |= _read_reply(record)
        elif len(options) == 1:  # the log-likelihood of the right answer: ranking by it would use the label
            row["answered"] = True
            answer_only_count += 1
        else:
            row |= confidences_of_options(options, is_normalised="acc_norm" in record)
        rows.append(row)
    correctness_columns = names_of_columns_from_0_to_1(rows, list(metric_names))
    column_of_role = {
        **assign_correct_role(correctness_columns, prefer=_MAIN_METRICS),
        "question": "question",
    }
    if any("answered" in row for row in rows):
        rows = [{"answered": True, **row} for row in rows]  # a multiple-choice task always has an answer
        column_of_role["answered"] = "answered"
    document_count = len({row["question"] for row in rows})
    results_file = _load_results(path, load_json)
    notes = _note_missing_documents(path, document_count, results_file.name, results_file.content)
    if answer_only_count:
        notes.append(
            f"{count_noun(answer_only_count, 'row')} {has_or_have(answer_only_count)} one log-likelihood, that of the "
            f"right answer. The model does not know it, so it is not a confidence."
        )
    facts = LogFacts(
        tool="lm-evaluation-harness",
        column_of_role=column_of_role,
        possible_correctness_columns=correctness_columns,
        possible_confidence_columns=(*OPTION_CONFIDENCES, "softmax_norm", AGREEMENT),
        # Accuracy by normalised log-likelihoods judges another answer than accuracy, so each has its own confidences.
        excluded_confidences_by_correctness={"acc_norm": OPTION_CONFIDENCES, "acc": ("softmax_norm",)},
        variant_column="filter" if any(row["filter"] for row in rows) else "",  # column that names the filter
        descriptions={
            "answered": "the filtered reply is neither empty nor [invalid]",
            **{name: "lists, no score of an answer" for name in list_names if name not in metric_names},
        },
        task=_find_task(path),
        model=_find_model(path, results_file.content),
        notes=tuple(notes),
    )
    return LogContent(rows, facts)


def _find_scores(record: Row) -> dict[str, float | None]:
    """Return the metrics of a record by name; None for one that is no number."""
    listed_names = record.get("metrics")
    if isinstance(listed_names, list):
        names = [str(name) for name in listed_names]
    else:
        names = [name for name in record if name not in _OTHER_FIELDS and not name.endswith("_hash")]
    return {name: float_or_none(record.get(name)) for name in names}


def _read_reply(record: Row) -> Row:
    """Return the columns "answer" and "answered" of a generation task, and "agreement" where replies were repeated.

    A reply that is empty, or that the filter marked as [invalid], is not an answer. "answer" is None where the record
    holds no text. A task may have several filters, ways to find the answer in a reply; the record is of one of them.
    """
    reply = record.get("filtered_resps")  # a text in nested lists
    for _ in range(3):  # the harness writes up to three lists around it
        if isinstance(reply, list) and reply:
            reply = reply[0]
    answer = reply if isinstance(reply, str) else None
    is_answered = answer is not None and answer.strip() not in ("", _INVALID_REPLY)
    return {"answer": answer, "answered": is_answered, **_reply_agreement(record)}


def _reply_agreement(record: Row) -> Row:
    """Return {"agreement": share of the replies to one prompt that are the same as the one that is scored}.

    `record["resps"]` holds the list of replies to each of the record's prompts, of which a generation task has one. The
    harness scores the first reply, or the most frequent one where the filter is a vote ("maj@5"). Empty where there are
    fewer than two replies, or where one of them is not text.
    """
    replies = get_nested(record, "resps", 0)
    if not isinstance(replies, list) or len(replies) < 2:
        return {}
    if not all(isinstance(reply, str) for reply in replies):
        return {}
    texts = [reply.strip() for reply in replies]
    is_vote = str(record.get("filter", "")).startswith(_VOTE_FILTER)
    scored_text = Counter(texts).most_common(1)[0][0] if is_vote else texts[0]
    return {AGREEMENT: texts.count(scored_text) / len(texts)}


def _find_options(record: Row) -> list[ScoredOption] | None:
    """Return the texts whose log-likelihoods a record holds; None where it holds a generated reply.

    A multiple-choice task scores every option. A task of kind `loglikelihood` (LAMBADA, ASDiv) scores one text: the
    right answer. `record["filtered_resps"]` holds [log-likelihood, is greedy] for each text, and
    `record["arguments"]["gen_args_<index>"]` the prompt (arg_0) and the text (arg_1), where the log has them.
    """
    pairs = record.get("filtered_resps") or [None]  # without any, there is no scored text
    if not isinstance(pairs, list) or not all(map(_is_scored_text, pairs)):
        return None
    options = []
    for index, (loglikelihood, _is_greedy) in enumerate(pairs):
        request = get_nested(record, "arguments", f"gen_args_{index}")
        has_no_prompt = get_nested(request, "arg_0") == ""
        # After the options, a task may score each once more without the prompt, for the mutual information. These are
        # no further options. The first text counts even with an empty prompt: the task then has none at all.
        if index > 0 and has_no_prompt:
            continue
        text = get_nested(request, "arg_1")
        # in characters, without the blank before an option; 0 where the log does not hold the text
        length = len(text.removeprefix(" ")) if isinstance(text, str) else 0
        options.append(ScoredOption(float(loglikelihood), length))
    return options


def _is_scored_text(pair: Any) -> bool:
    """Return whether this is [log-likelihood, whether the text is the greedy continuation]; both may be strings."""
    if not isinstance(pair, list) or len(pair) != 2 or str(pair[1]) not in ("True", "False"):
        return False
    try:
        float(pair[0])
    except (TypeError, ValueError):
        return False
    return True


def _find_task(path: Path) -> str:
    """Return the task that the name of a samples file says; empty where it says none."""
    match = re.match(r"samples_(.+)_\d{4}-\d\d-\d\dT", path.name)
    return match[1] if match else ""


class _ResultsFile(NamedTuple):
    """The file with the results of a run, next to the files with its samples."""

    name: str  # "" where there is none
    content: Any  # parsed JSON; None where there is none


def _load_results(path: Path, load_json: LoadJson) -> _ResultsFile:
    """Load the results file of the run that a samples file is of.

    `path` is the samples file; results files of the same run carry the same timestamp in their names. `load_json` loads
    a JSON file. The result has the file's name and its parsed content; "" and None where there is no such file.
    """
    timestamp = re.search(r"\d{4}-\d\d-\d\dT[\d.-]*\d", path.name)
    if timestamp is None:
        return _ResultsFile(name="", content=None)
    for results_path in sorted(path.parent.glob(f"*{timestamp[0]}.json")):
        if not results_path.is_file() or results_path.name.startswith("samples_"):
            continue
        # It says the model and the number of documents, which the samples can do without: errors are ignored.
        try:
            return _ResultsFile(name=results_path.name, content=load_json(results_path))
        except (DataError, ValueError, RecursionError):  # not a results file
            continue
    return _ResultsFile(name="", content=None)


def _find_model(path: Path, results: Any) -> str:
    """Return the model of a samples file: that which the results file of the run names, or else the folder's name.

    The harness names the folder by the model. Empty where the file is not named as the harness names it.
    """
    if not _find_task(path):
        return ""
    return text_or_none(get_nested(results, "model_name")) or path.absolute().parent.name


def _note_missing_documents(path: Path, document_count: int, results_name: str, results: Any) -> list[str]:
    """Return a list of one note where the results file of the same run says another number of documents; else [].

    `path` is the samples file, `results_name` and `results` are name and parsed content of the results file, if any.
    """
    expected_count = float_or_none(get_nested(results, "n-samples", _find_task(path), "effective"))
    if expected_count is None or expected_count == document_count:
        return []
    expected = count_noun(int(expected_count), "document")
    return [f"{display_name(results_name)} promises {expected}, the file holds {document_count:,}."]
