"""The command lines for later files carry the options by which the calibration files were read."""

from __future__ import annotations

import shlex

from abstain.cascades.later_commands import later_command
from abstain.thresholds.rules import Origin

COMMAND = (
    "abstain cascade a.parquet b.parquet -c labels=truth --column=prediction=answer -c 'confidence=*_confidence' "
    "--confidence a.json,b.json --cost 1,2 --person-cost 5 --person-error 0 --risk 0.1 --scale percent "
    "--grades A=right,B=wrong --unit '$/M' --save rule.json --html page.html"
)
ORIGINS = {name: Origin("confidence", data=f"{name}.parquet", command=COMMAND) for name in ("a", "b")}


def test_reading_options_stay_and_the_others_go():
    made = later_command(("a", "b"), ORIGINS, action=("--check", "rule.json"), has_truth=True)
    assert shlex.split(made) == [
        *("abstain", "cascade", "later-a.parquet", "later-b.parquet", "-c", "labels=truth"),
        *("--column", "prediction=answer", "-c", "confidence=*_confidence", "--confidence", "a.json,b.json"),
        *("--scale", "percent", "--grades", "A=right,B=wrong", "--check", "rule.json"),
    ]


def test_new_cases_have_no_right_answers():
    made = later_command(("a", "b"), ORIGINS, action=("--apply", "rule.json"), has_truth=False)
    assert "labels" not in made
    assert "--grades" not in made
    assert "prediction=answer" in made


def test_a_rule_without_a_command_has_plain_file_names():
    made = later_command(("a", "b"), {}, action=("--apply", "rule.json"), has_truth=False)
    assert made == "abstain cascade later-a.csv later-b.csv --apply rule.json"
