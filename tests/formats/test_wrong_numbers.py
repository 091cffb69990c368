"""Files that were once read as something else without a word: each is read right now, or refused in one line."""

from __future__ import annotations

import io
import json
import re
import struct
import zipfile

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.errors import AbstainWarning, DataError, InputError
from abstain.formats import open_source, read_predictions
from abstain.formats.alignment import align_models


def risk_of(path, **options) -> float:
    read = read_predictions(path, **options)
    return float(np.mean(read.samples("max_softmax", "zero_one")[0]))


def test_a_space_after_commas_changes_nothing(tmp_path):
    rows = [("cat", "cat", 0.9), ("dog", "cat", 0.6), ("cat", "cat", 0.8), ("dog", "dog", 0.7)]
    for between in (",", ", ", " , "):
        path = tmp_path / "t.csv"
        path.write_text(
            "\n".join(between.join(map(str, row)) for row in [("label", "prediction", "confidence"), *rows])
        )
        assert risk_of(path) == 0.25


def test_names_with_underscores_are_no_numbers(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("correct,confidence,group\n1,0.9,1_0\n0,0.6,10\n1,0.8,1_0\n")
    assert read_predictions(path).group_labels().tolist() == ["1_0", "10", "1_0"]


def test_labels_are_class_names_of_many_digits(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("prob_1234567,prob_1234568,label\n0.9,0.1,1234567\n0.6,0.4,1234568\n")
    assert read_predictions(path).labels.tolist() == [0, 1]


def test_whole_numbers_are_read_as_such(tmp_path, monkeypatch):
    monkeypatch.setattr("abstain.formats.text_tables._CHUNK_SIZE", 100)  # a few rows at a time
    path = tmp_path / "t.csv"
    path.write_text(
        "id,group,code,confidence,correct\n" + "".join(f"{2**53 + k},{k},{k:02d},{k},1\n" for k in range(30))
    )
    columns = open_source(path).columns
    assert columns["id"].load().tolist() == [2**53 + k for k in range(30)]
    assert columns["code"].load().tolist() == list(range(30))
    assert columns["code"].texts.texts().tolist() == [f"{k:02d}" for k in range(30)]
    assert columns["group"].texts is None
    assert read_predictions(path).group_labels().tolist() == list(range(30))


@pytest.mark.parametrize("extra", ["logit_scale", "logit_bias"])
def test_a_column_named_like_the_logits_is_no_class(tmp_path, extra):
    path = tmp_path / "t.csv"
    path.write_text(f"logit_0,{extra},logit_1,label\n2,100,0,0\n0,100,3,1\n1,100,0,1\n")
    read = read_predictions(path)
    assert read.logits.tolist() == [[2, 0], [0, 3], [1, 0]]
    assert risk_of(path) == pytest.approx(1 / 3)


CONTRADICTIONS = {
    "predictions.csv": "label,prediction,correct,confidence\n1,1,1,0.9\n0,1,1,0.8\n",
    "errors.csv": "label,prediction,error,confidence\n1,1,0,0.9\n0,1,0,0.8\n",
    "words.csv": "label,prediction,correct,confidence\na,a,true,0.9\nb,a,true,0.8\n",
    "logits.csv": "label,logit_0,logit_1,correct\n1,0,2,1\n0,0,2,1\n",
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_column_of_right_answers_must_not_contradict_the_labels(tmp_path, name):
    path = tmp_path / name
    path.write_text(CONTRADICTIONS[name])
    with pytest.raises(DataError, match=r"contradicts the labels in 1 rows, first in row 2.*--column"):
        read_predictions(path)
    path.write_text(CONTRADICTIONS[name].rsplit("\n", 2)[0])  # without the row in question
    assert risk_of(path) == 0


def test_a_verdict_that_was_stated_counts(tmp_path):
    """A judge may accept an answer that is not the label word for word."""
    path = tmp_path / "t.csv"
    path.write_text(CONTRADICTIONS["words.csv"])
    assert risk_of(path, columns={"correct": "correct"}) == 0


def test_rows_the_labels_cannot_judge_are_no_contradiction(tmp_path):
    tied, refused = tmp_path / "tied.csv", tmp_path / "refused.csv"
    tied.write_text("label,prob_0,prob_1,correct\n1,0.5,0.5,1\n0,0.5,0.5,0\n0,0.9,0.1,1\n")
    read_predictions(tied)
    refused.write_text(
        "label,prediction,correct,confidence,abstained\n1,0,1,0.4,1\n1,1,,0.8,0\n0,0,1,0.9,0\n"
    )
    read_predictions(refused)


@pytest.mark.parametrize("answers", [("ill", "well"), ("1", "0")])
def test_a_sample_without_a_label_is_no_error(tmp_path, answers):
    """Nobody knows whether its prediction is right: it is left out, and that is told."""
    yes, no = answers
    path = tmp_path / "t.csv"
    rows = [(yes, yes, 0.9), ("", yes, 0.8), (no, yes, 0.7), ("", no, 0.6), (no, no, 0.5), ("", "", 0.4)]
    path.write_text("label,prediction,confidence\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    read = read_predictions(path)
    assert "2 of 6 answers have no score and are left out." in read.log.notes
    assert read.loss[~read.abstained].tolist() == [0, 1, 0]
    assert read.confidence[~read.abstained].tolist() == [0.9, 0.7, 0.5]
    told = CliRunner().invoke(cli, ["clinical", str(path), "--positive", yes, "--json"]).stdout
    assert json.loads(told)["specificity"]["of"][0] == 2
    path.write_text(
        f"label,prediction,correct,confidence\n{yes},{yes},1,0.9\n,{yes},0,0.8\n{no},{yes},0,0.7\n"
    )
    assert risk_of(path) == pytest.approx(
        2 / 3
    )  # where somebody judged the answer, a label need not be there


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
    "in one file only": ("q0 q1 q2 q3 q4", "", r"has no ids and .* has"),
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
        elif case in ("repeated", "missing there", "empty"):
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


def test_the_display_of_predictions_takes_labels_and_probabilities():
    labels, p = [1, 1, 0, 1], [0.9, 0.8, 0.1, 0.3]
    for display in (abstain.RiskCoverageDisplay, pytest.importorskip("abstain.sklearn").RiskCoverageDisplay):
        both = display.from_predictions(labels, np.column_stack([1 - np.array(p), p]))
        for shown in (both, display.from_predictions(labels, p)):
            assert shown.lines[0].risk[-1] == 0.25  # one of four is wrong; read as losses it would be 0.75
            assert shown.lines[0].risk[0] == 0
        with pytest.raises(InputError, match="from_losses"):
            display.from_predictions([0.2, 0.7, 0.1, 0.4], p)
        with pytest.raises(InputError, match="from_losses"):
            display.from_predictions(labels, [3.0, 2.0, 1.0, 5.0])


def test_names_that_stand_twice(tmp_path):
    for name, text in {
        "t.json": '{"correct": [1, 0], "confidence": [0.9, 0.1], "correct": [0, 1]}',
        "t.jsonl": '{"correct": 1, "confidence": 0.9, "correct": 0}\n{"correct": 1, "confidence": 0.3}',
        "records.json": '[{"correct": 1, "confidence": 0.9, "confidence": 0.2}]',
    }.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(DataError, match="twice"):
            read_predictions(tmp_path / name)


def test_an_archive_with_two_arrays_of_one_name(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, correct=np.array([1, 0]), confidence=np.array([0.9, 0.1]))
    body = io.BytesIO()
    np.save(body, np.array([0.1, 0.9]))
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("confidence.npy", body.getvalue())
    with pytest.raises(DataError, match="two arrays named 'confidence'"):
        read_predictions(path)


def test_tensors_that_overlap(tmp_path):
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    header = json.dumps({"correct": entry, "confidence": {**entry, "data_offsets": [4, 12]}}).encode()
    path = tmp_path / "t.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + np.array([1, 0, 1], "<f4").tobytes())
    with pytest.raises(DataError, match="overlap"):
        read_predictions(path)


def test_labels_of_another_shape_than_the_predictions_are_refused(tmp_path):
    labels, confidence = np.array([0, 2, 1, 1]), np.array([0.9, 0.8, 0.7, 0.6])
    np.savez(tmp_path / "t.npz", labels=np.eye(3)[labels], prediction=labels, confidence=confidence)
    with pytest.raises(DataError, match="labels and predictions must be of one kind and length"):
        read_predictions(tmp_path / "t.npz")


NAMED = "label,prob_dog,prob_cat,prob_ant\n{}\n"
NAMED_ROWS = [
    (1, "cat", 0.2, 0.7, 0.1),
    (2, "dog", 0.6, 0.3, 0.1),
    (0, "ant", 0.1, 0.2, 0.7),
    (1, "cat", 0.3, 0.5, 0.2),
]


@pytest.mark.parametrize("labels", ["numbers", "words"])
def test_numbers_as_labels_beside_columns_named_by_words(tmp_path, labels):
    """The numbers follow the alphabet and the columns do not: by position three of four answers would be wrong."""
    path = tmp_path / "animals.csv"
    rows = [(row[labels == "words"], *row[2:]) for row in NAMED_ROWS]
    path.write_text(NAMED.format("\n".join(",".join(map(str, row)) for row in rows)))
    if labels == "numbers":
        with pytest.raises(
            DataError, match=r"animals.csv: the labels are numbers and the columns are named dog, cat"
        ):
            read_predictions(path)
        result = CliRunner().invoke(cli, ["evaluate", str(path)])
        assert result.exit_code == 3
        assert "--classes first,second" in " ".join(result.output.split())
    else:
        assert read_predictions(path).samples("max_softmax", "zero_one")[0].sum() == 0
    read = read_predictions(path, classes=("ant", "cat", "dog"))
    assert read.samples("max_softmax", "zero_one")[0].sum() == 0
    assert read.likeliest().tolist() == ["cat", "dog", "ant", "cat"]
    assert read.probs[0].tolist() == [0.1, 0.7, 0.2]


def test_an_engine_asks_for_the_order_of_named_columns_too(tmp_path):
    path = tmp_path / "animals.csv"
    rows = "".join(f"{row[0]},{','.join(map(str, row[2:]))}\n" for row in NAMED_ROWS * 20)
    path.write_text("label,logit_dog,logit_cat,logit_ant\n" + rows)
    arguments = ["evaluate", str(path), "--engine", "files"]
    refused = CliRunner().invoke(cli, arguments)
    assert refused.exit_code == 2
    assert "do not say which number is which class" in " ".join(refused.output.split())
    right = abstain.formats.file_evaluation.engine_columns(path, {}, classes=("ant", "cat", "dog"))
    assert right["logits"] == ["logit_ant", "logit_cat", "logit_dog"]


def test_numbered_columns_take_numbers_as_labels(tmp_path):
    path = tmp_path / "numbered.csv"
    path.write_text("label,prob_class1,prob_class2\n1,0.9,0.1\n2,0.2,0.8\n2,0.6,0.4\n")
    assert read_predictions(path).samples("max_softmax", "zero_one")[0].tolist() == [False, False, True]


@pytest.mark.parametrize("kind", ["probability", "logit"])
def test_one_column_of_a_binary_model_is_that_of_class_1(tmp_path, kind):
    p = np.array([0.9, 0.2, 0.6, 0.4, 0.8])
    numbers = p if kind == "probability" else np.log(p / (1 - p))
    path = tmp_path / "binary.csv"
    path.write_text(f"label,{kind}\n" + "".join(f"{y},{v:.17g}\n" for y, v in zip([1, 0, 0, 0, 1], numbers)))
    with pytest.warns(AbstainWarning, match=f"`{kind}` is taken for the .* of class 1"):
        read = read_predictions(path)
    loss, key = read.samples("max_softmax", "zero_one")
    assert loss.tolist() == [False, False, True, False, False]
    np.testing.assert_allclose(key, -np.log(np.minimum(p, 1 - p)), rtol=1e-12)


def test_the_probability_of_the_prediction_is_no_probability_of_class_1(tmp_path):
    path = tmp_path / "predicted.csv"
    path.write_text("label,probability\n" + "".join(f"{k % 2},{0.5 + k / 40}\n" for k in range(12)))
    with pytest.raises(DataError, match=r"never below 0.5.*-c confidence=probability"):
        read_predictions(path)
    path.write_text("label,prediction,probability\n1,1,0.9\n0,0,0.8\n0,1,0.6\n")
    with pytest.raises(DataError, match="`prediction` contradicts `probability` in 1 rows, first in row 2"):
        read_predictions(path)


def test_probabilities_named_logits_are_refused(tmp_path):
    probs = np.array([[0.5, 0.25, 0.25], [0.1, 0.7, 0.2], [0.3, 0.3, 0.4]])
    np.savez(tmp_path / "named.npz", logits=probs, labels=[0, 1, 1])
    np.save(tmp_path / "array.npy", probs)
    np.save(tmp_path / "labels.npy", [0, 1, 1])
    with pytest.raises(
        DataError, match=r"named.npz: its logits .* are probabilities. State them as -c probs=NAME"
    ):
        read_predictions(tmp_path / "named.npz")
    labels = tmp_path / "labels.npy"
    with pytest.raises(DataError, match=r"--as probs"):
        read_predictions(tmp_path / "array.npy", kind="logits", labels=labels)
    assert risk_of(tmp_path / "named.npz", columns={"probs": "logits"}) == pytest.approx(1 / 3)
    assert risk_of(tmp_path / "array.npy", kind="probs", labels=labels) == pytest.approx(1 / 3)
