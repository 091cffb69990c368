"""Clusters on the command line: a file that seems to have some says so, and every count of samples tells them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.formats import alignment, file_evaluation


def run(*arguments: object) -> str:
    done = CliRunner().invoke(cli, [*map(str, arguments)])
    assert done.exit_code == 0, done.output
    return " ".join(done.output.split())


@pytest.fixture
def pictures(tmp_path):
    """Two models on five pictures of each of 40 patients, with a stated confidence of few values."""
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        correct = (rng.random(200) < 0.8).astype(int)
        confidence = np.round(rng.random(200), 2)
        topic = np.arange(200) % 3
        rows = [",".join(map(str, row)) for row in zip(correct, confidence, np.arange(200) // 5, topic)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["correct,confidence,picture_of,topic", *rows]))
    return tmp_path


def test_describe_hints_at_a_column_whose_values_repeat_in_blocks(pictures):
    told = run("describe", pictures / "a.csv")
    assert "`picture_of` has 40 values in 200 rows." in told
    assert "add -c clusters=picture_of" in told
    assert "topic` has" not in told
    assert (
        "clusters="
        not in run("describe", pictures / "a.csv", "-c", "clusters=picture_of").split("commands")[0]
    )


def test_every_count_of_samples_tells_the_clusters(pictures):
    columns = ("-c", "clusters=picture_of")
    counted = "200 samples in 40 clusters"
    assert counted in run("evaluate", pictures / "a.csv", *columns)
    assert "n = 200 in 40 clusters" in run("evaluate", pictures / "a.csv", *columns, "--latex")
    assert '"clusters": [40]' in run("evaluate", pictures / "a.csv", *columns, "--json")
    both = [pictures / "a.csv", pictures / "b.csv", *columns]
    assert f"the same {counted}" in run("compare", *both)
    assert f"the same {counted}" in run("compare", *both, "--latex")
    assert '"clusters": [40]' in run("compare", *both, "--json")
    assert '"clusters": [40]' in run("compare", *both, "--metric", "accuracy", "--json")
    run("report", *both, "-o", pictures / "report.html")
    page = (pictures / "report.html").read_text()
    assert page.count("200 samples in 40 clusters") >= 2  # subtitle and ranking
    assert "with each cluster as one independent draw" in page
    run("compare", *both, "--html", pictures / "board.html")
    assert f"the same {counted}" in (pictures / "board.html").read_text()


def test_two_kinds_of_clusters_are_both_counted():
    rng = np.random.default_rng(0)
    loss, confidence = rng.integers(0, 2, 60), rng.random(60)
    place, week = np.arange(60) // 5, np.arange(60) % 7
    table = abstain.evaluate(loss=loss, confidence=confidence, clusters=[place, week], metrics=["aurc"])
    assert table.clusters == (12, 7)
    assert "60 samples in 12 and 7 clusters" in repr(table)
    assert abstain.Evaluation.from_json(table.to_json()) == table
    alone = abstain.evaluate(loss=loss, confidence=confidence, clusters=np.arange(60), metrics=["aurc"])
    assert alone.clusters == ()  # each sample by itself


def test_evaluate_notes_what_share_of_the_samples_ties(pictures):
    told = run("evaluate", pictures / "a.csv")
    share = re.search(r"same confidence as another one: (\d+)% by confidence", told)
    values = np.loadtxt(pictures / "a.csv", delimiter=",", skiprows=1, usecols=1)
    _, sizes = np.unique(values, return_counts=True)
    assert int(share[1]) == round(100 * sizes[sizes > 1].sum() / 200)
    distinct = abstain.evaluate(loss=[0, 1, 0, 1], confidence=[0.1, 0.2, 0.3, 0.4], metrics=["aurc"])
    assert not any("same confidence" in note for note in distinct.notes)


@pytest.mark.parametrize("command", ["compare", "gate"])
def test_metrics_in_the_help_of_a_comparison_can_be_compared(command, pictures):
    listed = re.findall(r"^  (\S+) {2,}\S", CliRunner().invoke(cli, [command, "--help"]).output, re.M)
    metrics = [name for name in listed if not name.startswith("-")]
    assert {"aurc", "auroc", "prediction_rejection_ratio", "accuracy"} <= set(metrics)
    assert not {"risk_at_coverage@0.8", "coverage_at_risk@0.05", "fpr_at_tpr@0.95", "ece"} & set(metrics)
    if command == "compare":
        for metric in metrics:
            done = CliRunner().invoke(
                cli, ["compare", str(pictures / "a.csv"), str(pictures / "b.csv"), "--metric", metric, "-q"]
            )
            assert done.exit_code == 0 or "undefined" in done.output or "unanswerable" in done.output, metric


def test_a_refused_metric_is_told_which_ones_can_be_compared(pictures):
    done = CliRunner().invoke(
        cli, ["compare", str(pictures / "a.csv"), str(pictures / "b.csv"), "--metric", "risk_at_coverage@0.8"]
    )
    assert done.exit_code == 3
    assert "paired test" in done.output
    assert "aurc, augrc" in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("question", {}),
        ("Question", {"id": lambda row: f"r{row}"}),  # ids of rows beside the questions
        ("id", {}),
        ("sample_id", {}),
    ],
)
def test_repeated_questions_and_ids_of_a_plain_table_are_clusters(tmp_path, name, given):
    rng = np.random.default_rng(4)
    rows = range(100)
    columns = {
        "correct": [int(value) for value in rng.random(100) < 0.7],
        "confidence": rng.random(100).round(4).tolist(),
        name: [f"q{row // 5}" for row in rows],
        **{title: [value(row) for row in rows] for title, value in given.items()},
    }
    lines = [",".join(columns), *(",".join(map(str, cells)) for cells in zip(*columns.values()))]
    path = tmp_path / "asked.csv"
    path.write_text("\n".join(lines))
    metrics = ["evaluate", path, "--metric", "aurc"]
    stated = run(*metrics, "-c", f"clusters={name}")
    assert "in 20 clusters" in stated
    read = run(*metrics)
    note = (
        f"note: `{name}` has 20 values in 100 rows: rows with one value are taken as a cluster. Name other clusters "
        f"with -c clusters=NAME (a column of row numbers: none)."
    )
    assert note in read
    assert stated.split("next:")[0] == read.replace(f"{note} ", "").split("next:")[0]
    assert f"clusters {name}" in run("describe", path)
    # a file without a confidence is read twice, and the note is said once
    graded = tmp_path / "graded.csv"
    graded.write_text("\n".join(line.replace("confidence", "seconds") for line in lines))
    assert run("evaluate", graded).count(note) == 1
    refused = CliRunner().invoke(cli, [*map(str, metrics), "--engine", "files"])
    assert refused.exit_code == 2
    assert f"rows of one `{name}` are a cluster" in " ".join(refused.output.split())
    path.write_text("\n".join([lines[0], *lines[1::5]]))  # one row of each question
    assert "cluster" not in run(*metrics)


@pytest.mark.parametrize(
    ("ids", "is_refused"),
    [
        ([["a", "b", "c", "d", "e"], ["f", "g", "h", "i", "a"]], True),  # once in each file
        ([["a", "b", "c", "d", "e"], ["f", "g", "h", "i", "i"]], True),
        ([[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]], False),  # row numbers
        ([[1, 2, 3, 4, 5], [1, 2, 3, 4, 1]], True),
        ([["a", "b", "c", "d", "e"], ["f", "g", "h", "", "a"]], False),
        ([["a"] * 5, ["a"] * 5], False),
    ],
)
def test_engines_look_for_repeated_ids_in_all_files(tmp_path, monkeypatch, ids, is_refused):
    monkeypatch.setattr(alignment, "_BATCH_ROW_COUNT", 2)
    for number, ids_of_file in enumerate(ids):
        rows = [f"{name},{row % 2},0.{row + 1}" for row, name in enumerate(ids_of_file)]
        (tmp_path / f"{number}.csv").write_text("\n".join(["id,correct,confidence", *rows]))
    done = CliRunner().invoke(cli, ["evaluate", str(tmp_path), "--engine", "files", "--metric", "aurc"])
    assert ("rows of one `id` are a cluster" in " ".join(done.output.split())) == is_refused
    assert done.exit_code == (2 if is_refused else 0)
    monkeypatch.setattr(file_evaluation, "_MAX_COMPARED_IDS", 3)  # later rows are not looked at
    done = CliRunner().invoke(cli, ["evaluate", str(tmp_path), "--engine", "files", "--metric", "aurc"])
    assert done.exit_code == 0


def test_repeated_ids_with_epochs_are_the_questions_of_a_comparison(tmp_path):
    rng = np.random.default_rng(4)
    for name in ("a", "b"):
        rows = [f"q{row // 3},{row % 3},{int(rng.random() < 0.7)},{rng.random():.4f}" for row in range(60)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,epoch,correct,confidence", *rows]))
    told = run("compare", tmp_path / "a.csv", tmp_path / "b.csv")
    assert "the same 60 samples in 20 clusters" in told


@pytest.mark.parametrize(
    ("call", "cluster_count", "told"),
    [
        ("evaluate", 1, False),
        ("evaluate", 2, True),
        ("evaluate", 40, False),
        ("compare", 14, True),
        ("compare", 40, False),
    ],
)
def test_few_clusters_are_the_reason_of_wide_intervals(pictures, call, cluster_count, told):
    rng = np.random.default_rng(1)
    loss, confidence = (rng.random(200) < 0.3).astype(float), rng.random(200)
    clusters = np.arange(200) % cluster_count
    if call == "evaluate":
        notes = abstain.evaluate(loss=loss, confidence=confidence, clusters=clusters, metrics="aurc").notes
    else:
        models = {"a": (loss, confidence), "b": (loss, -confidence)}
        notes = abstain.compare(models, clusters=clusters).notes
    assert any(note.startswith(f"{cluster_count} clusters are few") for note in notes) == told


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_a_comparison_says_what_it_does_with_groups(pictures, form):
    files = [pictures / "a.csv", pictures / "b.csv"]
    told = run("compare", *files, "-c", "groups=topic", *form)
    assert "-c groups=topic adds one within each group to a page (--html board.html)" in told
    assert "--only topic=VALUE ranks within one group" in told
    page = pictures / "board.html"
    assert "adds one within" not in run("compare", *files, "-c", "groups=topic", "--html", page, *form)
    assert "adds one within" not in page.read_text()
    assert "ranks within one group" not in run("compare", *files, *form)
