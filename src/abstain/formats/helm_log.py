"""Logs of HELM: a folder of JSON files for one run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from abstain.formats.columns import LogFacts, text_of
from abstain.formats.log_rows import Load, Read, Row, at, number, preferred, shares
from abstain.formats.safety import file_error

# HELM: a folder of JSON files for one run

HELM = "per_instance_stats.json"
# How a model was asked where `logprob` is that of its own reply; elsewhere it may be that of the right answer.
_HELM_GENERATES = ("generation", "multiple_choice_joint", "chat")
_HELM_PARTS = ("run_spec.json", "scenario.json", "scenario_state.json", "stats.json")


def _helm(path: Path, instances: list[Any], load: Load) -> Read:
    outputs = _helm_outputs(load(state)) if (state := path.with_name("scenario_state.json")).is_file() else {}
    rows: list[Row] = []
    for place, instance in enumerate(instances):
        if text_of(at(instance, "instance_id")) is None or not isinstance(at(instance, "stats"), list):
            raise file_error(path, f"entry {place + 1} is no instance of a HELM run.")
        key = (text_of(instance["instance_id"]), at(instance, "train_trial_index"))
        answered = outputs.get(key, True) if outputs else None
        stats = ((at(s, "name", "name"), number(at(s, "mean"))) for s in instance["stats"])
        row: Row = {"question": key[0], "epoch": number(key[1]), "answered": answered}
        rows.append(row | {name: x for name, x in stats if isinstance(name, str) and x is not None})
    names = dict.fromkeys(name for row in rows for name in row)
    scorers = shares(rows, [name for name in names if re.search("match|correct|accuracy|f1", name)])
    spec = path.with_name("run_spec.json")
    method = at(load(spec), "adapter_spec", "method") if spec.is_file() else None
    generates = isinstance(method, str) and method in _HELM_GENERATES
    roles = ("question", "epoch", "answered") if outputs else ("question", "epoch")
    return rows, LogFacts(
        "HELM",
        preferred(scorers, "exact_match") | dict(zip(roles, roles)),
        scorers,
        signals=("max_prob", "logprob") if generates else ("max_prob",),
        task=path.absolute().parent.name,
        about={"answered": "the reply is one of the options"},
    )


def _helm_outputs(state: Any) -> dict[Any, bool]:
    """Which requests with options were answered by one of them."""
    found = {}
    for request in at(state, "request_states") or ():
        options, reply = at(request, "output_mapping"), at(request, "result", "completions", 0, "text")
        if isinstance(options, dict) and isinstance(reply, str):
            key = (text_of(at(request, "instance", "id")), at(request, "train_trial_index"))
            found[key] = reply.strip() in options
    return found
