"""The page of a folder of logs: tables by task, the verdict, and no path of the author's machine."""

from __future__ import annotations

import numpy as np

from abstain.cli import cli
from abstain.report.folder_page import Estimate, FolderRow, folder_page
from tests.language.written import evaleval, lines

NOTHING = Estimate(None, None, None)


def row(task: str, model: str, accuracy: float, rank: str, **fields) -> FolderRow:
    given = {
        "runs": 1,
        "questions": 1200,
        "answers": 1200,
        "unanswered": 0.0,
        "signal": "",
        "area": NOTHING,
    } | fields
    return FolderRow(
        task=task,
        model=model,
        accuracy=Estimate(accuracy, accuracy - 0.1, accuracy + 0.1),
        rank=rank,
        **given,
    )


def test_each_task_has_a_table_and_empty_columns_are_left_out():
    rows = [row("law", "a", 0.8, "1"), row("law", "b", 0.5, "2"), row("maths", "a", 0.7, "")]
    html = folder_page(rows, label="AURC", level=0.9, notes=["One note."])
    assert html.count("<table>") == 2
    assert "a holds the first rank, alone or shared, on 1 of 1 task." in html
    assert "law, with 90% intervals" in html
    assert ">AURC</th>" not in html
    assert ">runs</th>" not in html
    assert "1,200" in html
    assert "<li>One note.</li>" in html
    area = folder_page([row("law", "a", 0.8, "", area=Estimate(0.1, 0.05, 0.2))], label="AURC", level=0.9)
    assert ">AURC</th>" in area
    refusing = folder_page([row("law", "a", 0.6, "", unanswered=0.327)], label="AURC", level=0.9)
    assert "not answered" in refusing
    assert ">32.7%</td>" in refusing
    assert row("law", "a", 0.6, "", unanswered=1e-4).unanswered_percent == "<0.1%"
    assert "not answered" not in html
    assert "No task has two models that can be compared." in area


def test_shared_first_ranks_and_names_are_escaped():
    rows = [row("<i>", "a", 0.8, "1-2"), row("<i>", "b", 0.75, "1-2"), row("<i>", "c", 0.1, "3")]
    html = folder_page(rows, label="AURC", level=0.95)
    assert "a and b each hold the first rank, alone or shared, on 1 of 1 task." in html
    assert "<i>" not in html.partition("</main>")[0]


def test_a_first_rank_that_nothing_can_be_told_apart_from_is_no_victory():
    """The headline counts tasks on which some model is worse, and says what the other tasks are."""
    shared = [row("arc", "a", 0.9, "1-2"), row("arc", "b", 0.3, "1-2")]
    alone = [row("law", "a", 0.8, "")]
    html = folder_page([*shared, *alone], label="AURC", level=0.95)
    assert "Models are ranked on 1 of 2 tasks; no model can be told apart from the first." in html
    assert "first rank" not in html
    decided = [row("maths", "b", 0.9, "1"), row("maths", "a", 0.5, "2"), row("maths", "c", 0.5, "")]
    html = folder_page([*shared, *alone, *decided], label="AURC", level=0.95)
    assert "b holds the first rank, alone or shared, on 1 of 1 task." in html
    assert "On 1 other task, no model can be told apart from the first." in html
    assert "1 other task has no two models that can be compared." in html


def test_the_command_writes_the_page_without_paths(tmp_path):
    rng = np.random.default_rng(0)
    runs = tmp_path / "runs"
    runs.mkdir()
    for model, share in {"good": 0.9, "bad": 0.4}.items():
        records = [evaleval()[0] | {"sample_id": f"q{k}", "model_id": model} for k in range(300)]
        for record, right in zip(records, rng.random(300) < share):
            record["evaluation"] = {"is_correct": bool(right), "score": float(right)}
        (runs / f"{model}_samples.jsonl").write_bytes(lines(records))
    (runs / "notes.md").write_text("# no log\n\nbut text\n")
    target = tmp_path / "runs.html"
    cli(["compare", str(runs), "--html", str(target), "--title", "Runs", "-q"], standalone_mode=False)
    html = target.read_text()
    assert "<h1>Runs</h1>" in html
    assert "good holds the first rank" in html
    assert "1 file not read" in html
    assert str(tmp_path) not in html
