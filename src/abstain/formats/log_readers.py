"""Logs of evaluation harnesses, recognised by their content and not by the names of the files.

None of the harnesses is imported. To add one:

1. Write a file of its own, `NAME_log.py`, with a function that recognises the parsed JSON and a function that reads it.
   The reader turns each answer into a flat row (`log_rows.Row`) and returns `LogContent`: the rows, and `LogFacts` that
   say which columns are right or wrong and which are confidences. Users see these facts and can overrule them.
2. Add a `LogReader` to `LOG_READERS` below.
3. Add a small log to `tests/language/written.py` and its damage to `tests/language/test_damaged_logs.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from abstain.formats import helm_log, inspect_log, lm_eval_log, promptfoo_log, uqlm_log
from abstain.formats.columns import Source
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
        name="lm-evaluation-harness, summary without answers",
        recognise=lm_eval_log.is_lm_eval_summary,
        read=lm_eval_log.refuse_summary,
    ),
    LogReader(name="HELM", recognise=helm_log.is_helm_instances, read=helm_log.read_helm),
    LogReader(name="promptfoo", recognise=promptfoo_log.is_promptfoo_log, read=promptfoo_log.read_promptfoo),
    LogReader(name="UQLM", recognise=uqlm_log.is_uqlm_log, read=uqlm_log.read_uqlm),
)


def read_json_log(path: Path, content: Any, limits: Limits, load_json: LoadJson) -> Source | None:
    """Return the log of an evaluation harness that a JSON file holds; None where it holds no log but, say, a table.

    `content` is the parsed file, and `load_json` loads another file of the same run. A file with a single line may be
    parsed as an object where it should be a list of one record, or the other way round, so both readings are tried.
    DataError where the log is recognised but damaged, needs more than `limits` allow, or is not the file of the run
    that holds the answers.
    """
    helm_log.check_holds_scores(path)
    if isinstance(content, list) and len(content) == 1:
        other_reading = content[0]
    else:
        other_reading = [content]
    for candidate in (content, other_reading):
        for reader in LOG_READERS:
            if reader.recognise(candidate):
                return make_log_source(path, limits, reader.read(path, candidate, load_json))
    return None
