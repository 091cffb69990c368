"""Logs of evaluation harnesses as columns, known by what is in them and not by their names.

lm-evaluation-harness, HELM, promptfoo, UQLM and Inspect; none of them is imported. A reader turns each answer into a
flat row; which columns say right or wrong and which are confidences is kept beside them in `LogFacts`, to be shown,
and to be overruled by whoever knows better.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from abstain.formats.columns import Source
from abstain.formats.helm_log import _HELM_PARTS, HELM, _helm
from abstain.formats.inspect_log import _inspect, _is_inspect
from abstain.formats.lm_eval_log import _lm_eval_records, _no_samples, read_lm_eval
from abstain.formats.log_rows import Load, Read, at, source_of
from abstain.formats.promptfoo_log import _promptfoo, _promptfoo_results
from abstain.formats.safety import Limits, file_error
from abstain.formats.uqlm_log import _uqlm, _uqlm_parts

TOOLS: list[tuple[Callable[[Any], Any], Callable[[Path, Any, Load], Read]]] = [
    (_is_inspect, _inspect),
    (_lm_eval_records, read_lm_eval),
    (lambda c: isinstance(at(c, "results"), dict) and isinstance(at(c, "n-shot"), dict), _no_samples),
    (lambda c: at(c, 0, "instance_id") is not None and at(c, 0, "stats") is not None, _helm),
    (_promptfoo_results, _promptfoo),
    (_uqlm_parts, _uqlm),
]


def read_json_log(path: Path, content: Any, limits: Limits, load: Load) -> Source | None:
    """The log that a JSON file holds; None where it is a table or anything else."""
    if path.name in _HELM_PARTS and path.with_name(HELM).is_file():
        raise file_error(path, f"is a part of a HELM run. Name its folder, or {HELM} beside it.")
    single = content[0] if isinstance(content, list) and len(content) == 1 else [content]
    for candidate in (content, single):
        for fits, read in TOOLS:
            if fits(candidate):
                return source_of(path, limits, *read(path, candidate, load))
    return None
