"""Tables in any JSON: the same six rows in many layouts give the same numbers; what is no table shows its tree."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from abstain.cli import cli
from abstain.errors import AbstainError
from abstain.formats import open_source, read_log, read_predictions
from abstain.formats.json_files import NoTableError

CORRECT = [1, 0, 1, 1, 0, 1]
STATED = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]
RECORDS = [
    {"q": f"q{k}", "judge": {"ok": bool(right), "sure": stated}}
    for k, (right, stated) in enumerate(zip(CORRECT, STATED))
]
FLAT = [
    {"q": row["q"], "judge.ok": row["judge"]["ok"], "judge.sure": row["judge"]["sure"]} for row in RECORDS
]
NAMES = list(FLAT[0])
ROWS = [list(row.values()) for row in FLAT]
LAYOUTS: dict[str, Any] = {
    "records": RECORDS,
    "by id": {row["q"]: {"judge": row["judge"]} for row in RECORDS},
    "by number": {str(k): row for k, row in enumerate(RECORDS)},
    "lists by id": {row["q"]: [row] for row in RECORDS},
    "under a name": {"accuracy": 0.5, "config": {"seed": 1}, "run": {"predictions": RECORDS}},
    "pandas split": {"columns": NAMES, "index": list(range(6)), "data": ROWS},
    "pandas default": {name: {str(k): row[name] for k, row in enumerate(FLAT)} for name in NAMES},
    "pandas table": {"schema": {"fields": [{"name": n} for n in NAMES]}, "data": FLAT},
    "Weights & Biases": {"columns": NAMES, "data": ROWS, "ncols": 3, "nrows": 6},
    "columns": {name: [row[name] for row in FLAT] for name in NAMES},
    "columns in an object": {"judge": {"ok": [bool(x) for x in CORRECT], "sure": STATED}},
}


def write(path, content: Any):
    path.write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_gives_the_same_rows(tmp_path, layout):
    path = write(tmp_path / "a.json", LAYOUTS[layout])
    columns = {"correct": "judge.ok", "confidence": "judge.sure"}
    if layout == "pandas table":  # its description of the columns is a table too
        columns = {role: f"data.{name}" for role, name in columns.items()}
    read = read_predictions(path, columns=columns)
    assert (1 - read.loss).tolist() == CORRECT
    assert read.confidence.tolist() == STATED


def test_two_tables_are_told_apart_by_their_names(tmp_path):
    other = [{"judge": {"ok": True, "sure": 0.1}}, {"judge": {"ok": False, "sure": 0.3}}]
    path = write(tmp_path / "a.json", {"first": RECORDS, "second": other, "n": 8})
    read = read_predictions(path, columns={"correct": "second.judge.ok", "confidence": "second.judge.sure"})
    assert (read.n, read.confidence.tolist()) == (2, [0.1, 0.3])
    with pytest.raises(AbstainError, match=r"`first.q` \(6 text\)"):
        read_predictions(path)


def test_two_models_under_two_names_are_never_mixed(tmp_path):
    for part in (RECORDS, {"accuracy": 0.5, "rows": RECORDS}):
        path = write(tmp_path / "a.json", {"baseline": part, "tuned": part})
        columns = open_source(path).columns
        assert {name.split(".")[0] for name in columns} == {"baseline", "tuned"}
        assert all(column.shape == (6,) for column in columns.values())


def test_one_verdict_by_id_is_read(tmp_path):
    content = {f"instance_{k}": right == 1 for k, right in enumerate(CORRECT)}
    log = read_log(write(tmp_path / "a.json", content))
    assert (1 - log.loss).tolist() == CORRECT
    assert log.column_of_role["correct"] == "correct"
    with pytest.raises(NoTableError):  # the roles say that it is one record
        open_source(write(tmp_path / "b.json", {"correct": True, "answered": True}))


@pytest.mark.parametrize("layout", ["alone", "under a name", "beside the answers"])
def test_lists_of_verdicts_by_id_are_repeated_answers(tmp_path, layout):
    verdicts = {f"q{k}": [right == 1, k % 2 == 0] for k, right in enumerate(CORRECT)}
    answers = {key: ["yes", "no"] for key in reversed(verdicts)}  # in another order
    content = {
        "alone": verdicts,
        "under a name": {"pass_at_1": 0.5, "scored": verdicts},
        "beside the answers": {"raw": answers, "scored": verdicts, "notes": {"seed": 1}},
    }[layout]
    path = write(tmp_path / "a.json", content)
    columns = open_source(path).columns
    assert list(columns) == ["id", "epoch", "correct", *(["raw"] if layout == "beside the answers" else [])]
    log = read_log(path)
    assert (log.n, log.questions) == (12, 6)
    assert (1 - log.loss).tolist() == [float(right) for values in verdicts.values() for right in values]


@pytest.mark.parametrize(
    ("ids", "is_table"),
    [
        ([f"{number}" for number in range(6)], True),
        ([f"q{number}" for number in range(60)], True),
        ([f"metric {number}" for number in range(6)], False),
    ],
    ids=["numbers", "many names", "few names"],
)
def test_single_values_by_the_same_ids_are_a_table(tmp_path, ids, is_table):
    path = tmp_path / "run.json"
    outputs = {key: f"it is {key}" for key in reversed(ids)}
    content = {
        "acc": 0.5,
        "args": {"options": ["A", "B"]},
        "results": dict.fromkeys(ids, 1),
        "outputs": outputs,
    }
    path.write_text(json.dumps(content))
    columns = open_source(path).columns
    assert list(columns) == (["id", "results", "outputs"] if is_table else ["options"])
    if is_table:
        assert columns["outputs"].load().texts().tolist() == [f"it is {key}" for key in ids]


def test_lists_of_truth_values_by_name_stay_columns(tmp_path):
    for names in ("abc", ["correct", *"bcdefg"]):  # few names, or one that states a role
        content = {name: [True, False, True] for name in names}
        assert list(open_source(write(tmp_path / "a.json", content)).columns) == list(names)


def test_dialogues_inside_records_by_id_are_no_tables(tmp_path):
    dialogue = [{"role": "user", "content": "?"}, {"role": "model", "content": "!"}]
    content = {row["q"]: row["judge"] | {"messages": dialogue} for row in RECORDS}
    read = read_predictions(
        write(tmp_path / "a.json", content), columns={"correct": "ok", "confidence": "sure"}
    )
    assert (1 - read.loss).tolist() == CORRECT


def test_answers_inside_the_only_variant_of_a_run(tmp_path):
    instances = [{"name": row["q"], "resolved": right == 1} for row, right in zip(RECORDS, CORRECT)]
    content = {"run": "a", "variants": [{"name": "base", "resolved_count": 2, "instances": instances}]}
    path = write(tmp_path / "a.json", content)
    for name in ("variants.instances.resolved", "resolved"):
        assert (1 - read_log(path, columns={"correct": name}).loss).tolist() == CORRECT
    # a dialogue beside the verdict of the only record is no table of answers
    dialogue = [{"role": "user", "success": True}, {"role": "model", "success": False}]
    path = write(tmp_path / "b.json", [{"correct": 1, "messages": dialogue}])
    assert read_log(path).loss.tolist() == [0]


def test_lists_of_samples_give_an_answer_and_its_share(tmp_path):
    samples = [["4", " 4", "5"], ["1", "2", "2"], [], ["7", "7", "7"]]
    rows = [{"replies": texts, "target": "4", "raw": ["only one"]} for texts in samples]
    columns = open_source(write(tmp_path / "a.json", rows)).columns
    assert columns["replies.answer"].load().texts().tolist() == ["4", "2", "", "7"]
    assert columns["replies.agreement"].load()[[0, 1, 3]].tolist() == pytest.approx([2 / 3, 2 / 3, 1.0])
    assert columns["raw"].load().texts().tolist() == ["only one"] * 4
    keywords = [{"tags": ["law", "art"]}, {"tags": ["art"]}]
    assert list(open_source(write(tmp_path / "k.json", keywords)).columns) == [
        "tags"
    ]  # nothing is said twice
    steps = [{"category": ["code", "code"]}, {"category": ["code"]}, {"category": ["api", "code", "api"]}]
    assert list(open_source(write(tmp_path / "s.json", steps)).columns) == ["category"]  # no samples
    equally_long = [{"tries": ["4", "5"]}, {"tries": ["7", "7"]}]
    assert "tries.agreement" in open_source(write(tmp_path / "e.json", equally_long)).columns
    read = read_predictions(
        tmp_path / "a.json",
        columns={"labels": "target", "prediction": "replies.answer", "confidence": "replies.agreement"},
    )
    assert read.abstained.tolist() == [False, False, True, False]


def test_class_probabilities_in_an_object(tmp_path):
    rows = [{"gold": "AB"[k % 2], "p": {"A": 0.1 * k, "B": 1 - 0.1 * k}} for k in range(6)]
    read = read_predictions(write(tmp_path / "a.json", rows), columns={"labels": "gold", "probs": "p.*"})
    assert (read.labels.tolist(), read.classes) == ([0, 1, 0, 1, 0, 1], ("A", "B"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"accuracy": 0.5, "n": {"total": 3}}, "holds no table.* A summary has no answers"),
        ({"q1": "A", "q2": "C"}, "holds no table[^.]*[.] If these are answers by id"),
        ({"model": "m", "score": 7}, "If this is one answer"),
        ([], "no records"),
        ([1, 2], "named values"),
    ],
)
def test_what_is_no_table_is_refused_and_its_tree_is_shown(tmp_path, content, reason):
    path = write(tmp_path / "a.json", content)
    with pytest.raises(NoTableError, match=reason) as refused:
        open_source(path)
    assert "\n" not in str(refused.value)
    shown = CliRunner().invoke(cli, ["describe", str(path)])
    assert shown.exit_code != 0
    if "accuracy" in content:
        assert "accuracy: number\nn: object of 1 key\n  total: number" in shown.output


@pytest.mark.parametrize("layout", ["records", "by id", "under a name", "Weights & Biases"])
def test_every_command_that_describe_suggests_works(tmp_path, layout):
    rows = [
        {"answer_correct": row["judge"]["ok"], "confidence_pct": row["judge"]["sure"], "mean_entropy": k % 4}
        for k, row in enumerate(RECORDS)
    ]
    content: Any = {
        "records": rows,
        "by id": {f"q{k}": {"judged": row} for k, row in enumerate(rows)},
        "under a name": {"results": {"rows": rows}},
        "Weights & Biases": {"columns": list(rows[0]), "data": [list(row.values()) for row in rows]},
    }[layout]
    path = write(tmp_path / "a.json", content)
    runner = CliRunner()
    described = json.loads(runner.invoke(cli, ["describe", str(path), "--json"]).stdout)
    assert len(described["commands"]) == 2
    assert any("-c uncertainty=" in command for command in described["commands"])
    import shlex

    for command in described["commands"]:
        done = runner.invoke(cli, [*shlex.split(command)[1:], "--quiet"])
        assert done.exit_code == 0, done.output
        assert 0 < float(done.stdout) < 1
