"""Files are put in one order by their ids, or refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.errors import AbstainWarning, DataError
from abstain.formats import Rules, read_predictions
from abstain.formats.alignment import (
    OtherSamplesError,
    align_models,
    check_same_ids,
    comparison_arguments,
)


def two_tables(folder, header="id,correct,confidence", rows=("1,1,0.9", "2,0,0.4", "3,1,0.7", "4,0,0.2")):
    """One model; another that is sure of the same samples, its file in another order."""
    a, b = folder / "a.csv", folder / "b.csv"
    a.write_text("\n".join([header, *rows]))
    b.write_text("\n".join([header, *rows[::-1]]))
    return a, b


@pytest.mark.parametrize("more", ["", ",prediction"])
def test_tables_in_another_order_are_put_in_one_by_their_ids(tmp_path, more):
    rows = [
        f"{k + 1},{right}{',' + 'ab'[k % 2] if more else ''}"
        for k, right in enumerate(("1,0.9", "0,0.4", "1,0.7", "0,0.2"))
    ]
    a, b = (read_predictions(path) for path in two_tables(tmp_path, f"id,correct,confidence{more}", rows))
    with pytest.warns(AbstainWarning, match="put in the order of a by its ids"):
        one, other = align_models([a, b])
    assert other.confidence.tolist() == one.confidence.tolist()
    assert other.loss.tolist() == one.loss.tolist()


def test_other_ids_are_other_samples(tmp_path):
    a, b = two_tables(tmp_path)
    b.write_text(a.read_text().replace("4,0,0.2", "5,0,0.2"))
    with pytest.raises(DataError, match=r"a has id '4' and b has not.*--unpaired"):
        align_models([read_predictions(a), read_predictions(b)])


IDS = {  # ids of one file, ids of the other, the message
    "repeated": ("q0 q1 q2 q1 q4", "q0 q1 q2 q3 q4", r"id 'q1' is in 2 rows.*-c epoch=NAME"),
    "missing there": ("q0 q1 q2 q3 q4", "q0 q1 q2 q3 q5", r"has id 'q4' and .* has not"),
    "fewer": ("q0 q1 q2 q3 q4", "q0 q1 q2 q3", r"has id 'q4' and .* has not"),
    "empty": ("q0 q1 q2 q3 q4", "q0 q1 q2 q3 -", r"row 5 has no id"),
    "in one file only": ("q0 q1 q2 q3 q4", "", r"has no ids(, but| and) .* has"),
}


def with_ids(path, ids: str, seed: int, column: str, losses: str = "correct"):
    """Forty rows whose ids are these, each eight times with another ending, in a random order."""
    rng = np.random.default_rng(seed)
    names = [f"{name}-{k}" if name != "-" else "" for k in range(8) for name in ids.split()]
    names = [name.replace("-0", "") for name in names]
    header = f"{losses},confidence" + (f",{column}" if ids else "")
    rows = [f"{rng.random() < 0.7:d},{rng.random():.6f}" for _ in range(len(names) or 40)]
    path.write_text(
        "\n".join([header, *(f"{row},{name}" if ids else row for row, name in zip(rows, names or rows))])
    )
    return str(path)


COMMANDS = {
    "compare": ["compare"],
    "leaderboard": ["compare", "--html", "board.html"],
    "report": ["report", "-q", "-o", "page.html"],
    "cascade": ["cascade", "--cost", "1,2", "--person-cost", "9", "--person-error", "0", "--risk", "0.4"],
    "files": ["compare", "--engine", "files"],
}


@pytest.mark.parametrize("column", ["id", "question_id"])
@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("case", IDS)
def test_ids_match_rows_or_stop_with_the_id_named(tmp_path, monkeypatch, case, command, column):
    monkeypatch.chdir(tmp_path)
    first, second, message = IDS[case]
    kind = "loss" if command == "files" else "correct"
    files = [with_ids(tmp_path / f"{k}.csv", ids, k, column, kind) for k, ids in enumerate((first, second))]
    if command == "files":
        if column == "question_id":
            message = "engines do not read a column of question"
        elif case == "repeated":
            message = "rows of one `id` are a cluster"
        elif case in ("missing there", "empty"):
            message = r"row \d+ has id .* in .* and .*Sort both by id"
        elif case == "fewer":
            message = r"row 5 has id 'q4' in"
    done = CliRunner().invoke(cli, [*COMMANDS[command][:1], *files, *COMMANDS[command][1:]])
    assert done.exit_code in (2, 3), done.output
    assert re.search(message, done.output), done.output
    assert not list(tmp_path.glob("*.html"))


def test_a_repeated_id_does_not_pair_rows_by_position(tmp_path):
    """The same model twice, the second file shuffled: with every id unique there is no difference at all."""
    rng = np.random.default_rng(5)
    right = rng.random(300) < 0.8
    sure = np.where(right, 0.6, 0.3) + 0.3 * rng.random(300)
    rows = [f"q{k},{right[k]:d},{sure[k]:.6f}" for k in range(300)]
    shuffled = [rows[k] for k in rng.permutation(300)]
    first, second = tmp_path / "a.csv", tmp_path / "b.csv"
    head = "id,correct,confidence\n"
    first.write_text(head + "\n".join(rows))
    second.write_text(head + "\n".join(shuffled))
    told = json.loads(CliRunner().invoke(cli, ["compare", str(first), str(second), "--json"]).stdout)
    assert (told["pairs"][0]["difference"], told["pairs"][0]["standard_error"]) == (0, 0)
    second.write_text(head + "\n".join(shuffled).replace("q7,", "q8,"))
    done = CliRunner().invoke(cli, ["compare", str(first), str(second)])
    assert done.exit_code == 3
    assert "id 'q8' is in 2 rows" in done.output


def test_repeats_of_a_question_are_matched_by_their_epoch(tmp_path):
    rows = [f"q{k % 5},{1 + k // 5},{k % 3 > 0:d},{k / 15:.3f}" for k in range(15)]
    head = "question_id,epoch,correct,confidence\n"
    for name, order in (("a", rows), ("b", rows[::-1])):
        (tmp_path / f"{name}.csv").write_text(head + "\n".join(order))
    a, b = (read_predictions(tmp_path / f"{name}.csv") for name in "ab")
    with pytest.warns(AbstainWarning, match="by its ids"):
        one, other = align_models([a, b])
    assert one.confidence.tolist() == other.confidence.tolist()
    assert one.rows(np.array([3, 1])).ids.as_texts().tolist() == ["q3, epoch 1", "q1, epoch 1"]


def test_class_scores_of_several_tasks_are_matched_by_id_and_task(tmp_path):
    rng = np.random.default_rng(0)
    columns = {"id": np.arange(20) % 10, "task": np.repeat(["a", "b"], 10), "labels": np.arange(20) % 3}
    order = rng.permutation(20)
    logits = rng.normal(size=(20, 3))
    np.savez(tmp_path / "a.npz", logits=logits, **columns)
    np.savez(
        tmp_path / "b.npz", logits=logits[order], **{name: values[order] for name, values in columns.items()}
    )
    with pytest.warns(AbstainWarning, match="by its ids"):
        one, other = align_models([read_predictions(tmp_path / f"{name}.npz") for name in "ab"])
    assert np.array_equal(one.logits, other.logits)


@pytest.mark.parametrize("written", ["007 08 9", "7 8 9"])
def test_ids_are_what_the_file_says(tmp_path, written):
    """Numbers and text of the same ids match; 007 and 7 are two ids."""
    table = tmp_path / "a.csv"
    table.write_text("id,correct,confidence\n" + "\n".join(f"{k},1,0.{k[-1]}" for k in written.split()))
    records = [{"id": k, "correct": 1, "confidence": 0.5} for k in written.split()]
    (tmp_path / "b.json").write_text(json.dumps(records))
    align_models([read_predictions(table), read_predictions(tmp_path / "b.json")])
    (tmp_path / "b.json").write_text(json.dumps([r | {"id": f"0{r['id']}"} for r in records]))
    with pytest.raises(DataError, match="id"):
        align_models([read_predictions(table), read_predictions(tmp_path / "b.json")])


@pytest.mark.parametrize("what", ["label", "group", "cluster"])
def test_without_ids_what_goes_along_the_samples_must_agree(tmp_path, what):
    rows = ("x,1,0.9", "y,0,0.4", "x,1,0.7", "z,0,0.2")
    a, b = (read_predictions(path) for path in two_tables(tmp_path, f"{what},correct,confidence", rows))
    with pytest.raises(DataError, match=f"different {what}"):
        align_models([a, b])


def test_an_order_that_nothing_confirms_is_told(tmp_path, monkeypatch):
    rows = [f"{k % 3 > 0:d},{k / 99:.4f}" for k in range(99)]
    two_tables(tmp_path, "correct,confidence", rows)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["compare", "a.csv", "b.csv", "--json"])
    assert "note: Nothing in the files says" in done.stderr
    assert "rows are paired by position" in done.stderr
    json.loads(done.stdout)


@pytest.mark.parametrize(("second", "same"), [("y", True), ("other", False)])
def test_an_empty_batch_is_not_the_end_of_the_ids(tmp_path, second, same):
    pa = pytest.importorskip("pyarrow")
    schema = pa.schema([("id", pa.string()), ("confidence", pa.float64())])

    def write(name, ids_by_batch):
        with pa.OSFile(str(tmp_path / name), "wb") as file, pa.ipc.new_file(file, schema) as writer:
            for ids in ids_by_batch:
                writer.write_batch(
                    pa.record_batch([pa.array(ids, pa.string()), pa.array([0.5] * len(ids))], schema)
                )
        return tmp_path / name

    paths = [write("a.arrow", [["x"], [], ["y"]]), write("b.arrow", [["x"], [second]])]
    if same:
        assert check_same_ids(paths[0], paths[1], {})
    else:
        with pytest.raises(DataError, match="row 2 has id 'y'"):
            check_same_ids(paths[0], paths[1], {})


def test_two_kinds_of_clusters_are_read_from_two_columns(tmp_path):
    rows = [f"{i},{i % 3 > 0},{(i * 7) % 50},L{i % 5},{i % 8}" for i in range(50)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["id,correct,confidence,location,week", *rows]))
    model = read_predictions(path, columns={"clusters": "location,week"})
    assert model.clusters.shape == (50, 2)
    place, week = np.arange(50) % 5, np.arange(50) % 8
    expected = abstain.inference.interval("risk", model.loss, model.confidence, clusters=[place, week])
    table = abstain.evaluate(**model.arguments(), metrics=["risk"])
    found = [table.entries[0].low, table.entries[0].high]
    assert found == pytest.approx([expected.low, expected.high], rel=1e-12)
    for names in ("location,week", ["location", "week"]):
        low = abstain.evaluate(path, clusters=names, metrics=["risk"]).entries[0].low
        assert low == pytest.approx(expected.low, rel=1e-12)
    assert model.rows(np.arange(10)).clusters.tolist()[9] == ["L4", 1]


def test_the_same_samples_have_the_same_weights(tmp_path):
    paths = []
    for name, column in (("a", "sample_weight"), ("b", "unused")):
        rows = [f"{i},{int((i + len(paths)) % 3 > 0)},{(i * 7) % 50},{1 + i % 4}" for i in range(50)]
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_text("\n".join([f"id,loss,confidence,{column}", *rows]))
    refusal = r"a has weights and b has none, .* \(-c sample_weight=NAME"
    for options in ([], ["--engine", "files"]):
        for order in (paths, paths[::-1]):
            outcome = CliRunner().invoke(cli, ["compare", *map(str, order), *options])
            assert re.search(refusal, outcome.stderr)
    header, *rows = paths[0].read_text().splitlines()
    for last, is_refused in (("2.0", False), ("2.5", True)):  # of the last row, whose weight is 2
        other = tmp_path / "other.csv"
        other.write_text("\n".join([header, *rows[:-1], rows[-1].rpartition(",")[0] + f",{last}"]))
        command = ["compare", str(paths[0]), str(other), "--engine", "files"]
        outcome = CliRunner().invoke(cli, command)
        assert ("row 50 has weight 2 in" in outcome.stderr) == is_refused
        assert outcome.exit_code == (3 if is_refused else 0)
    models = [read_predictions(path) for path in paths]
    assert comparison_arguments(models, paired=False)["sample_weight"]["b"].tolist() == [1] * 50
    entries = {model.name: (model.loss, model.confidence) for model in models}
    weights = models[0].sample_weight
    same = abstain.compare(entries, sample_weight={"a": weights, "b": weights.copy()})
    assert same.pair("a", "b") == abstain.compare(entries, sample_weight=weights).pair("a", "b")
    for other in (np.ones(50), weights[::-1].copy()):
        with pytest.raises(abstain.errors.InputError, match="the same weights; those of a and b differ"):
            abstain.compare(entries, sample_weight={"a": weights, "b": other})
    assert abstain.compare(entries, sample_weight={"a": weights, "b": other}, paired=False).n == 50


def test_a_model_without_clusters_takes_those_of_the_other_on_the_same_samples(tmp_path):
    models = []
    for name, column in (("a", "cluster"), ("b", "unused")):
        rows = [f"{i},{(i + len(models)) % 3 > 0},{(i * 7) % 50},{i // 5}" for i in range(50)]
        path = tmp_path / f"{name}.csv"
        path.write_text("\n".join([f"id,correct,confidence,{column}", *rows]))
        models.append(read_predictions(path))
    paired = comparison_arguments(models)["clusters"]
    assert paired["b"] is paired["a"]
    assert comparison_arguments(models, paired=False)["clusters"]["b"].tolist() == list(range(50))
    entries = {model.name: (model.loss, model.confidence) for model in models}
    assert abstain.compare(entries, clusters=paired).n == 50
    with pytest.raises(abstain.errors.InputError, match="must have the same clusters"):
        abstain.compare(entries, clusters={"a": paired["a"], "b": np.arange(50)})


@pytest.mark.parametrize("labels", ["abab" * 10, "0101" * 10])
@pytest.mark.parametrize("moved", [False, True])
def test_another_label_of_the_same_id_is_told(tmp_path, labels, moved):
    rng = np.random.default_rng(1)
    for name in ("one", "two"):
        rows = [
            f"q{row},{label},{labels[rng.integers(2)]},{rng.random():.4f}" for row, label in enumerate(labels)
        ]
        if name == "two":
            for row in (7, 9):
                rows[row] = rows[row].replace(f"q{row},{labels[row]}", f"q{row},{labels[row - 1]}")
            rows = rows[::-1] if moved else rows
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,label,prediction,confidence", *rows]))
    files = [str(tmp_path / f"{name}.csv") for name in ("one", "two")]
    told = " ".join(CliRunner().invoke(cli, ["compare", *files]).output.split())
    assert (
        f"note: one and two have different labels for 2 of 40 ids, first 'q7' ({labels[1]} and {labels[0]}): check that "
        "these are the same samples."
    ) in told
    assert "different labels" not in CliRunner().invoke(cli, ["compare", files[0], files[0]]).output


def test_a_gap_among_the_labels_of_both_files_is_no_difference(tmp_path):
    text = "label,prediction,confidence,abstained\n1,1,0.9,0\n0,1,0.8,0\n,1,0.7,1\n1,1,0.6,0\n"
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text(text)
    models = [read_predictions(tmp_path / name) for name in ("a.csv", "b.csv")]
    assert [model.n for model in align_models(models)] == [4, 4]
    (tmp_path / "b.csv").write_text(text.replace("\n,1", "\n0,1"))
    with pytest.raises(OtherSamplesError, match="different labels"):
        align_models([models[0], read_predictions(tmp_path / "b.csv")])


@pytest.mark.parametrize("has_ids", [True, False])
def test_rows_that_the_rule_for_gaps_left_out_are_not_called_other_samples(tmp_path, has_ids):
    models = []
    for name, gap in (("a", ""), ("b", "0.5")):
        rows = [f"{row},{row % 2},{0.1 * row:g},yes" for row in range(1, 9)]
        rows.append(f"9,1,{gap},yes")
        text = "\n".join([("id" if has_ids else "x") + ",correct,confidence,prediction", *rows])
        (tmp_path / f"{name}.csv").write_text(text)
        models.append(read_predictions(tmp_path / f"{name}.csv", rules=Rules(missing="left_out")))
    with pytest.raises(DataError) as caught:
        align_models(models)
    assert "--missing left_out" in str(caught.value)
    assert "--missing last" in str(caught.value)
    assert "--unpaired" not in str(caught.value)
    if has_ids:
        assert "a has no confidence for id '9'" in str(caught.value)
        with pytest.raises(DataError, match=r"b has id '9' and c has not: .*--unpaired"):
            align_models([models[1], replace(models[1].rows(np.arange(8)), name="c", log=None)])
