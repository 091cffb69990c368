"""Logs of HELM: a folder of JSON files for one run.

`per_instance_stats.json` holds the scores of each instance; `scenario_state.json` and `run_spec.json` next to it say
what the model replied and how it was asked.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from abstain.formats.columns import LogFacts, text_or_none
from abstain.formats.log_rows import (
    LoadJson,
    LogContent,
    Row,
    assign_correct_role,
    float_or_none,
    get_nested,
    names_of_columns_from_0_to_1,
)
from abstain.formats.safety import file_error

INSTANCES_FILE = "per_instance_stats.json"
_OTHER_FILES = ("run_spec.json", "scenario.json", "scenario_state.json", "stats.json")
# Ways of asking (adapter methods) where `logprob` is that of the model's own reply; in others it may be that of the
# right answer, which must not serve as a confidence.
_METHODS_THAT_GENERATE = ("generation", "multiple_choice_joint", "chat")
_MODEL_IN_NAME = re.compile(r"[,-]?model=[^,]*")
RequestKey = tuple[str | None, Any]  # id of the instance, index of the trial


def is_helm_instances(content: Any) -> bool:
    """Return whether parsed JSON is the `per_instance_stats.json` of a run."""
    return get_nested(content, 0, "instance_id") is not None and get_nested(content, 0, "stats") is not None


def check_holds_scores(path: Path) -> None:
    """Raise DataError for a file of a HELM run, known by its name and its neighbour, that does not hold the scores."""
    if path.name in _OTHER_FILES and path.with_name(INSTANCES_FILE).is_file():
        raise file_error(path, f"is a part of a HELM run. Name its folder, or {INSTANCES_FILE} in it.")


def read_helm(path: Path, instances: list[Any], load_json: LoadJson) -> LogContent:
    """Read the instances of a run: one row per instance and trial, with a column for the mean of each statistic.

    `path` is `per_instance_stats.json` and `instances` its parsed content; `load_json` loads the files next to it,
    which may be absent. Columns besides the statistics: "question" (the instance's id), "epoch" (the trial) and
    "answered" (whether the reply is one of the options; None where the run does not say). DataError where an entry is
    not an instance.
    """
    state_path = path.with_name("scenario_state.json")
    # (instance id, trial) -> whether the reply is one of the options; empty where the run has no options
    chose_option = _find_chosen_options(load_json(state_path)) if state_path.is_file() else {}
    rows: list[Row] = []
    for index, instance in enumerate(instances):
        instance_id = text_or_none(get_nested(instance, "instance_id"))
        statistics = get_nested(instance, "stats")
        if instance_id is None or not isinstance(statistics, list):
            raise file_error(path, f"entry {index + 1} is not an instance of a HELM run.")
        trial = get_nested(instance, "train_trial_index")
        row: Row = {
            "question": instance_id,
            "epoch": float_or_none(trial),
            # a request whose options or reply the run does not hold counts as answered
            "answered": chose_option.get((instance_id, trial), True) if chose_option else None,
        }
        # such as {"name": {"name": "exact_match", ...}, "mean": 1.0, ...}
        for statistic in statistics:
            name = get_nested(statistic, "name", "name")
            mean = float_or_none(get_nested(statistic, "mean"))
            if isinstance(name, str) and mean is not None:
                row[name] = mean
        rows.append(row)
    column_names = dict.fromkeys(name for row in rows for name in row)  # in order, without repeats
    score_names = [name for name in column_names if re.search("match|correct|accuracy|f1", name)]
    # those with all numbers from 0 to 1
    correctness_columns = names_of_columns_from_0_to_1(rows, score_names)
    column_of_role = {
        # "correct": `exact_match` or the only such column; nothing where the user has to choose
        **assign_correct_role(correctness_columns, prefer=("exact_match",)),
        "question": "question",
        "epoch": "epoch",
    }
    if chose_option:
        column_of_role["answered"] = "answered"
    # `logprob` is that of the model's own reply where it generates one. Otherwise it may be that of the right answer,
    # which says whether the model is right. Columns that no row has are taken out later.
    confidence_columns = ("max_prob", "logprob") if _model_generates(path, load_json) else ("max_prob",)
    facts = LogFacts(
        tool="HELM",
        column_of_role=column_of_role,
        possible_correctness_columns=correctness_columns,
        possible_confidence_columns=confidence_columns,
        task=_MODEL_IN_NAME.sub("", path.absolute().parent.name),  # the folder is named scenario,model=NAME
        model=_find_model(path, load_json),
        descriptions={"answered": "the reply is one of the options"},
    )
    return LogContent(rows, facts)


def _find_model(path: Path, load_json: LoadJson) -> str:
    """Return the model that `run_spec.json` next to the instances names; empty where it names none."""
    spec_path = path.with_name("run_spec.json")
    specification = load_json(spec_path) if spec_path.is_file() else None
    return text_or_none(get_nested(specification, "adapter_spec", "model")) or ""


def _model_generates(path: Path, load_json: LoadJson) -> bool:
    """Return whether `run_spec.json` says that the model wrote its replies, so that `logprob` is theirs."""
    spec_path = path.with_name("run_spec.json")
    if not spec_path.is_file():
        return False
    method = get_nested(load_json(spec_path), "adapter_spec", "method")
    return isinstance(method, str) and method in _METHODS_THAT_GENERATE


def _find_chosen_options(state: Any) -> dict[RequestKey, bool]:
    """Return (instance id, trial) -> whether the model's reply is one of the options.

    `state` is the parsed `scenario_state.json`. Requests without options, or without a reply, are left out.
    """
    chose_option = {}
    for request in get_nested(state, "request_states") or ():
        # letters of the options -> their texts; `get_nested` returns None where a key is missing
        options = get_nested(request, "output_mapping")
        reply = get_nested(request, "result", "completions", 0, "text")
        if isinstance(options, dict) and isinstance(reply, str):
            instance_id = text_or_none(get_nested(request, "instance", "id"))
            trial = get_nested(request, "train_trial_index")
            chose_option[instance_id, trial] = reply.strip() in options
    return chose_option
