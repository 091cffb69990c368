"""Logs of evaluation harnesses, recognised by their content and not by the names of the files.

None of the harnesses is imported. To add one:

1. Write a file of its own, `NAME_log.py`, with a function that recognises the parsed JSON and a function that reads it.
   The reader turns each answer into a flat row (`log_rows.Row`) and returns `LogContent`: the rows, and `LogFacts` that
   say which columns are right or wrong and which are confidences. Users see these facts and can overrule them.
2. Add a `LogReader` to `LOG_READERS` below.
   For a table, as lighteval writes one, the functions take the opened table, and it is a `TableLogReader`.
3. Add a small log to `tests/language/written.py` and its damage to `tests/language/test_damaged_logs.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abstain.formats import (
    evaleval_log,
    helm_log,
    inspect_log,
    lighteval_log,
    lm_eval_log,
    openai_evals_log,
    promptfoo_log,
    swe_bench_log,
    tau_bench_log,
    uqlm_log,
)
from abstain.formats.columns import OpenedTable
from abstain.formats.log_rows import LoadJson, LogContent, make_log_source
from abstain.formats.safety import Limits


@dataclass(frozen=True, kw_only=True)
class LogReader:
    """How the logs of one harness are recognised and read.

    Parameters
    ----------
    name : str
        Name of the harness.
    recognise : callable of the parsed JSON
        True where it is a log of this harness.
    read : callable of path, parsed JSON and a function that loads another JSON file
        Returns the rows and what their columns mean, or raises DataError.
    """

    name: str
    recognise: Callable[[Any], bool]
    read: Callable[[Path, Any, LoadJson], LogContent]


# Asked in this order; the first that recognises a file reads it.
LOG_READERS = (
    LogReader(name="Inspect", recognise=inspect_log.is_inspect_log, read=inspect_log.read_inspect),
    LogReader(
        name="lm-evaluation-harness", recognise=lm_eval_log.is_lm_eval_samples, read=lm_eval_log.read_lm_eval
    ),
    LogReader(
        name="lm-evaluation-harness, results with samples",
        recognise=lm_eval_log.holds_lm_eval_samples,
        read=lm_eval_log.read_results_with_samples,
    ),
    LogReader(
        name="lm-evaluation-harness before 0.4",
        recognise=lm_eval_log.is_lm_eval_write_out,
        read=lm_eval_log.read_write_out,
    ),
    LogReader(
        name="lm-evaluation-harness, summary without answers",
        recognise=lm_eval_log.is_lm_eval_summary,
        read=lm_eval_log.refuse_summary,
    ),
    LogReader(name="HELM", recognise=helm_log.is_helm_instances, read=helm_log.read_helm),
    LogReader(name="promptfoo", recognise=promptfoo_log.is_promptfoo_log, read=promptfoo_log.read_promptfoo),
    LogReader(
        name="promptfoo, without results",
        recognise=promptfoo_log.is_promptfoo_without_results,
        read=promptfoo_log.refuse_without_results,
    ),
    LogReader(name="tau-bench", recognise=tau_bench_log.is_tau_bench_log, read=tau_bench_log.read_tau_bench),
    LogReader(name="EvalEval", recognise=evaleval_log.is_evaleval_samples, read=evaleval_log.read_evaleval),
    LogReader(
        name="EvalEval, summary without answers",
        recognise=evaleval_log.is_evaleval_summary,
        read=evaleval_log.refuse_evaleval_summary,
    ),
    LogReader(
        name="OpenAI evals",
        recognise=openai_evals_log.is_openai_evals_log,
        read=openai_evals_log.read_openai_evals,
    ),
    LogReader(
        name="simple-evals",
        recognise=openai_evals_log.is_simple_evals_results,
        read=openai_evals_log.read_simple_evals,
    ),
    LogReader(
        name="SWE-bench", recognise=swe_bench_log.is_swe_bench_report, read=swe_bench_log.read_swe_bench
    ),
    LogReader(
        name="SWE-bench, reports of instances",
        recognise=swe_bench_log.is_instance_reports,
        read=swe_bench_log.read_instance_reports,
    ),
    LogReader(
        name="SWE-bench, resolved instances alone",
        recognise=swe_bench_log.lists_resolved_only,
        read=swe_bench_log.refuse_resolved_only,
    ),
    LogReader(name="UQLM", recognise=uqlm_log.is_uqlm_log, read=uqlm_log.read_uqlm),
)


@dataclass(frozen=True, kw_only=True)
class TableLogReader:
    """How a table that a harness wrote (CSV, parquet) is recognised by its columns, and read.

    Parameters
    ----------
    formats : tuple of str
        Formats of the files, as in `OpenedTable.format`.
    recognise : callable of the opened table
        True where it is a log of this harness.
    read : callable of the opened table and the limits
        Returns the rows and what their columns mean, or raises DataError.
    """

    formats: tuple[str, ...]
    recognise: Callable[[OpenedTable], bool]
    read: Callable[[OpenedTable, Limits], LogContent]


TABLE_LOG_READERS = (
    TableLogReader(
        formats=("csv", "tsv"),
        recognise=promptfoo_log.is_promptfoo_table,
        read=promptfoo_log.read_promptfoo_table,
    ),
    TableLogReader(
        formats=("parquet",),
        recognise=lighteval_log.is_lighteval_details,
        read=lighteval_log.read_lighteval,
    ),
)


def read_table_log(source: OpenedTable, limits: Limits) -> OpenedTable:
    """Return the log that an opened table holds where a harness wrote it; otherwise the table unchanged.

    DataError where the log is damaged or needs more memory than `limits` allow. `source` is the opened file: its
    columns by name, with their types. `TABLE_LOG_READERS` has one entry for each harness that writes tables: `formats`
    are those of its files, `recognise` says whether a table is one of its logs, and `read` returns the rows and what
    their columns mean. The first reader that recognises the table reads it.
    """
    if source.is_harness_log:  # it was read as one before, as JSON files are
        return source
    for reader in TABLE_LOG_READERS:
        if source.format in reader.formats and reader.recognise(source):
            return make_log_source(source.path, limits, reader.read(source, limits))
    return source


def read_json_log(path: Path, content: Any, limits: Limits, load_json: LoadJson) -> OpenedTable | None:
    """Return the log of an evaluation harness that a JSON file holds; None where it holds no log but, say, a table.

    `content` is the parsed file, and `load_json` loads another file of the same run. A file with a single line may be
    parsed as an object where it should be a list of one record, or the other way round, so both readings are tried.
    DataError where the log is recognised but damaged, needs more than `limits` allow, or is not the file of the run
    that holds the answers. `LOG_READERS` has one entry per harness: `recognise` looks at the content alone, and `read`
    returns the rows and what their columns mean. The first reader that recognises the content reads it.
    """
    helm_log.check_holds_scores(path)  # raises DataError for the other files of a HELM run
    if isinstance(content, list) and len(content) == 1:
        other_reading = content[0]
    else:
        other_reading = [content]
    for candidate in (content, other_reading):
        for reader in LOG_READERS:
            if reader.recognise(candidate):
                return make_log_source(path, limits, reader.read(path, candidate, load_json))
    return None
