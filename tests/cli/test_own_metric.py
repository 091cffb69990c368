"""A user's own metric on the command line: `--metric module:object` and `--metric file.py:object`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from abstain.cli import cli
from abstain.metrics import METRICS

DEFINITION = '''
import numpy as np
from abstain.metrics import Metric, RowInfluence


def late_risk(rows, options):
    """Mean loss of the accepted per sample of all, over all thresholds."""
    return float(np.sum(rows.mass * rows.accepted_loss) / float(rows.total_mass[0]) ** 2)


def late_risk_influence(rows, options):
    total_mass = float(rows.total_mass[0])
    mass_from_row_down = np.cumsum(rows.mass[::-1])[::-1]
    constant = rows.accepted_loss / total_mass - late_risk(rows, options)
    return RowInfluence(constant=constant, slope=mass_from_row_down / total_mass)


LATE = Metric(
    name="late_risk_for_test",
    label="late risk",
    summary="the mean generalised risk over all thresholds",
    lower_is_better=True,
    value=late_risk,
    influence=late_risk_influence,
)
'''


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(METRICS, "late_risk_for_test", raising=False)
    rng = np.random.default_rng(2)
    for name in ("a", "b"):
        confidence = np.round(rng.random(60), 2)
        wrong = rng.random(60) > confidence
        lines = [f"{int(not w)},{c}" for w, c in zip(wrong, confidence)]
        Path(f"{name}.csv").write_text("\n".join(["correct,confidence", *lines]))
    Path("my_metrics.py").write_text(DEFINITION)

    def call(*arguments: str):
        return CliRunner().invoke(cli, list(arguments), prog_name="abstain")

    yield call
    METRICS.pop("late_risk_for_test", None)


def late_risk_by_hand(path: str) -> float:
    correct, confidence = np.loadtxt(path, delimiter=",", skiprows=1, unpack=True)
    return float(np.mean([np.sum((1 - correct)[confidence >= t]) / len(correct) for t in confidence]))


@pytest.mark.parametrize("metric", ["my_metrics:LATE", "my_metrics.py:LATE"])
def test_evaluate(run, metric):
    result = run("evaluate", "a.csv", "--metric", f"aurc,{metric}", "--json")
    assert result.exit_code == 0, result.output
    entries = json.loads(result.stdout)["entries"]
    entry = next(entry for entry in entries if entry["metric"] == "late_risk_for_test")
    assert entry["estimate"] == pytest.approx(late_risk_by_hand("a.csv"), abs=1e-12)
    assert entry["low"] < entry["estimate"] < entry["high"]


def test_compare(run):
    result = run("compare", "a.csv", "b.csv", "--metric", "my_metrics:LATE", "--json")
    assert result.exit_code == 0, result.output
    estimates = {c["name"]: c["estimate"] for c in json.loads(result.stdout)["contestants"]}
    assert estimates["a"] == pytest.approx(late_risk_by_hand("a.csv"), abs=1e-12)


def test_report_shows_the_metric_and_its_summary(run):
    result = run("report", "a.csv", "--metric", "my_metrics:LATE", "-o", "page.html")
    assert result.exit_code == 0, result.output
    page = Path("page.html").read_text()
    assert "late risk: the mean generalised risk over all thresholds." in page


@pytest.mark.parametrize(
    ("metric", "message"),
    [
        ("no_such_module:LATE", "cannot import 'no_such_module:LATE'"),
        ("my_metrics:MISSING", "cannot import 'my_metrics:MISSING'"),
        ("no_such_file.py:LATE", "there is no file no_such_file.py"),
        ("my_metrics:late_risk", "must be an abstain.Metric, got function"),
        ("AURC", 'Did you mean "aurc"?'),
    ],
)
def test_a_metric_that_cannot_be_found_is_a_usage_error(run, metric, message):
    result = run("evaluate", "a.csv", "--metric", metric)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_help_lists_the_metrics_with_their_summaries(run):
    text = " ".join(run("evaluate", "--help").output.split())
    for metric in METRICS.values():
        assert f"{metric.key} {' '.join(metric.summary.split())}" in text
