"""Logs of tau-bench and tau2-bench: agents that solve each task several times, with a reward for each trial."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from abstain.formats.columns import LogFacts, text_or_none
from abstain.formats.log_rows import (
    DOLLARS,
    SECONDS,
    LoadJson,
    LogContent,
    Row,
    float_or_none,
    get_nested,
    names_of_columns_from_0_to_1,
)
from abstain.formats.safety import count_noun, file_error, is_or_are


def is_tau_bench_log(content: Any) -> bool:
    """Return whether parsed JSON is a list of trials (tau-bench), or an object with simulations (tau2-bench)."""
    first = get_nested(_find_trials(content), 0)
    if get_nested(first, "task_id") is None:
        return False
    has_trial = get_nested(first, "trial") is not None
    has_dialogue = any(get_nested(first, name) is not None for name in ("traj", "messages"))
    return has_trial and has_dialogue and _find_reward(first) is not None


def _find_trials(content: Any) -> Any:
    """Return the list of trials: the file itself, or what lies under "simulations"."""
    return content.get("simulations") if isinstance(content, dict) else content


def _find_reward(trial: Any) -> float | None:
    """Return the reward of a trial, 1 where the task was solved; None where it has none."""
    reward = get_nested(trial, "reward")
    if reward is None:
        reward = get_nested(trial, "reward_info", "reward")
    return float_or_none(reward)


def read_tau_bench(path: Path, content: Any, load_json: LoadJson) -> LogContent:
    """Read the trials: one row each, with "reward" (1 where the task was solved), the task as question, and the trial.

    Trials without a reward, which broke off, are left out with a note. The agent's cost in dollars and the duration in
    seconds are columns where the log has them. DataError where a trial has no task. `content` is the parsed file;
    `load_json`, which all readers of logs take, is not used. A trial is one try of one task; tries of a task are told
    apart by their trial number, the "epoch". `get_nested` gives None where a key is missing.
    """
    rows: list[Row] = []
    unscored_count = 0
    for index, trial in enumerate(_find_trials(content)):
        question = text_or_none(get_nested(trial, "task_id"))
        if question is None:
            raise file_error(path, f"trial {index + 1} of tau-bench has no task_id.")
        reward = _find_reward(trial)  # a number, or None where the trial broke off
        if reward is None:
            unscored_count += 1
            continue
        rows.append(
            {
                "question": question,
                "epoch": float_or_none(get_nested(trial, "trial")),
                "reward": reward,
                DOLLARS: float_or_none(get_nested(trial, "agent_cost")),
                SECONDS: float_or_none(get_nested(trial, "duration")),
            }
        )
    notes = []
    if unscored_count:
        notes.append(
            f"{count_noun(unscored_count, 'trial')} without a reward {is_or_are(unscored_count)} left out."
        )
    facts = LogFacts(
        tool="tau-bench",
        column_of_role={"correct": "reward", "question": "question", "epoch": "epoch"},
        possible_correctness_columns=names_of_columns_from_0_to_1(rows, ["reward"]),
        task=text_or_none(get_nested(content, "info", "environment_info", "domain_name")) or "",
        model=text_or_none(get_nested(content, "info", "agent_info", "llm")) or "",
        notes=tuple(notes),
    )
    return LogContent(rows, facts)
