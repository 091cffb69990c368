"""Reports of SWE-bench: lists of instances."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "language"))
from written import RIGHT, swe_bench

from abstain.errors import DataError
from abstain.formats import read_log


def write(path: Path, content) -> Path:
    path.write_text(json.dumps(content))
    return path


def test_a_report(tmp_path):
    log = read_log(write(tmp_path / "report.json", swe_bench()))
    assert (log.tool, (1 - log.loss).tolist()) == ("SWE-bench", RIGHT)
    assert log.answered.tolist() == [True, False, True, True, True, True]
    assert "6 of 9 instances were submitted; the others are left out." in log.notes


def test_the_older_layout(tmp_path):
    content = {"generated": ["a", "b"], "resolved": ["b"], "no_generation": ["c"]}
    log = read_log(write(tmp_path / "results.json", content))
    assert ((1 - log.loss).tolist(), log.answered.tolist()) == ([0, 1, 0], [True, True, False])


@pytest.mark.parametrize("count", [1, 3])
def test_reports_of_instances_by_id(tmp_path, count):
    tests = {name: {"success": ["test_a (b.c)"], "failure": []} for name in ("FAIL_TO_PASS", "PASS_TO_PASS")}
    reports = [
        {
            "patch_exists": k != 1,
            "patch_successfully_applied": k != 1,
            "resolved": k == 0,
            "tests_status": tests,
        }
        for k in range(count)
    ]
    path = write(tmp_path / "report.json", {f"i{k}": report for k, report in enumerate(reports)})
    for log in (read_log(path), read_log(path, columns={"correct": "resolved"})):
        assert (log.tool, (1 - log.loss).tolist()) == ("SWE-bench", [1, 0, 0][:count])
        assert log.answered.tolist() == [True, False, True][:count]


def test_resolved_without_being_submitted_is_refused(tmp_path):
    with pytest.raises(DataError, match="resolved instances that were not submitted"):
        read_log(write(tmp_path / "report.json", swe_bench() | {"resolved_ids": ["x"]}))


def test_a_list_of_resolved_instances_alone_is_refused(tmp_path):
    path = tmp_path / "results.json"
    path.write_text(json.dumps({"no_generation": ["a"], "no_logs": [], "resolved": ["b", "c"]}))
    with pytest.raises(DataError, match="names the resolved instances and not those that failed"):
        read_log(path)
