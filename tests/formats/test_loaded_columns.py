"""Labels, verdicts and probabilities that contradict each other are refused; rounded ones are mended."""

from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pytest
from click.testing import CliRunner

from abstain.cli import cli
from abstain.errors import AbstainWarning, DataError
from abstain.formats import Rules, read_predictions

N, K = 40, 3
CLASSES = ("cat", "dog", "newt")


@pytest.fixture
def scores() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.normal(size=(N, K)).astype(np.float32), rng.integers(0, K, N)


def test_label_words_need_the_order_of_the_classes(tmp_path, scores):
    logits, labels = scores
    words = np.array(CLASSES)[labels]
    np.savez(tmp_path / "w.npz", logits=logits, labels=words)
    with pytest.raises(DataError, match="--classes"):
        read_predictions(tmp_path / "w.npz")
    read = read_predictions(tmp_path / "w.npz", classes=CLASSES)
    np.testing.assert_array_equal(read.labels, labels)
    swapped = read_predictions(tmp_path / "w.npz", classes=("newt", "cat", "dog"))
    np.testing.assert_array_equal(swapped.labels, (labels + 1) % 3)
    np.savez(tmp_path / "v.npz", logits=logits, labels=words, classes=np.array(CLASSES))
    np.testing.assert_array_equal(read_predictions(tmp_path / "v.npz").labels, labels)
    with pytest.raises(DataError, match="'newt' is not one of the classes"):
        read_predictions(tmp_path / "w.npz", classes=("cat", "dog", "eel"))


def test_class_names_from_columns(tmp_path):
    text = "label,prob_dog,prob_cat\ncat,0.25,0.75\ndog,0.5,0.5\ncat,0.9,0.1\n"
    (tmp_path / "t.csv").write_text(text)
    read = read_predictions(tmp_path / "t.csv")
    assert read.classes == ("dog", "cat")
    assert read.labels.tolist() == [1, 0, 1]
    assert read.probs.tolist() == [[0.25, 0.75], [0.5, 0.5], [0.9, 0.1]]


def test_labels_and_predictions_make_the_loss(tmp_path):
    (tmp_path / "t.csv").write_text("label,prediction,confidence\na,a,0.5\nb,a,0.25\nc,zebra,1\n")
    read = read_predictions(tmp_path / "t.csv")
    assert read.loss.tolist() == [0, 1, 1]
    (tmp_path / "u.csv").write_text("label,prediction,confidence\n1,1,0.5\n2,0,0.25\n")
    assert read_predictions(tmp_path / "u.csv").loss.tolist() == [0, 1]


@pytest.mark.parametrize("decimals", [2, 3, 4])
def test_rounded_probabilities_are_divided_by_their_sums_and_that_is_told(tmp_path, decimals):
    rng = np.random.default_rng(1)
    exact = rng.dirichlet(np.ones(5), 300)
    labels, path = rng.integers(0, 5, 300), tmp_path / "t.npz"
    np.savez(path, probs=np.round(exact, decimals), labels=labels)
    with pytest.warns(AbstainWarning, match="divided by their sums"):
        read = read_predictions(path)
    assert read.probs.sum(axis=1) == pytest.approx(np.ones(300), abs=1e-12)
    assert read.probs == pytest.approx(exact, abs=5 * 10.0**-decimals)
    done = CliRunner().invoke(cli, ["evaluate", str(path), "--json"])
    assert done.exit_code == 0
    assert "note: " in done.stderr
    assert json.loads(done.stdout)["n"] == 300


def test_what_rounding_does_not_explain_needs_a_tolerance(tmp_path):
    path = tmp_path / "t.npz"
    np.savez(path, probs=np.array([[0.61234, 0.41234], [0.3, 0.7]]), labels=np.array([0, 1]))
    run = CliRunner().invoke
    refused = run(cli, ["evaluate", str(path)])
    assert refused.exit_code == 3
    assert "must sum to one" in refused.output
    suggested = re.search(r"--tolerance ([\d.]+\d)", refused.output)
    assert run(cli, ["evaluate", str(path), "--tolerance", suggested[1]]).exit_code == 0
    assert run(cli, ["evaluate", str(path), "--tolerance", "0.05"]).exit_code == 0
    assert run(cli, ["evaluate", str(path), "--tolerance", "0.01"]).exit_code == 3


@pytest.mark.parametrize("missing", ["left_out", "last"])
def test_the_cell_that_is_no_number_is_named(tmp_path, missing):
    path = tmp_path / "t.csv"
    path.write_text("correct,confidence\n1,0.9\n0,n/a\n0,high\n1,0.7\n")
    with pytest.raises(DataError, match=r"must be numbers, got .*'high'\. Write plain numbers, .* empty"):
        read_predictions(path, rules=Rules(missing=missing))


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_cells_that_say_that_there_is_no_number_count_as_missing(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    marks = ["", "-", "N/A", "n/a", "NA", "nan", "None", "null", "#N/A"]
    rows = [("correct", "confidence"), (1, 0.9), (0, 0.2), *((1, mark) for mark in marks), (1, 0.7)]
    path.write_text("\n".join(("," if ending == "csv" else "\t").join(map(str, row)) for row in rows))
    with pytest.raises(DataError, match="9 rows have no confidence, first row 3"):
        read_predictions(path)
    read = read_predictions(path, rules=Rules(missing="left_out"))
    assert read.confidence.tolist() == [0.9, 0.2, 0.7]
    assert "9 answers have no `confidence` and are left out" in " ".join(read.log.notes)


def test_words_for_right_and_wrong_lead_to_grades(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("grade,confidence\nCORRECT,0.9\nINCORRECT,0.5\nNOT_ATTEMPTED,0.2\n")
    with pytest.raises(
        DataError, match="unanswered: -c correct=grade --grades CORRECT=MEANING,INCORRECT=MEANING,NOT_"
    ):
        read_predictions(path, columns={"correct": "grade"})


def risk_of(path, **options) -> float:
    read = read_predictions(path, **options)
    return float(np.mean(read.own_or_zero_one_losses()))


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
    with pytest.raises(DataError, match=r"contradicts the labels in 1 row, first in row 2.*--column"):
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
        assert read_predictions(path).own_or_zero_one_losses().sum() == 0
    read = read_predictions(path, classes=("ant", "cat", "dog"))
    assert read.own_or_zero_one_losses().sum() == 0
    assert read.likeliest_classes().tolist() == ["cat", "dog", "ant", "cat"]
    assert read.probs[0].tolist() == [0.1, 0.7, 0.2]


@pytest.mark.parametrize("kind", ["probability", "logit"])
def test_one_column_of_a_binary_model_is_that_of_class_1(tmp_path, kind):
    p = np.array([0.9, 0.2, 0.6, 0.4, 0.8])
    numbers = p if kind == "probability" else np.log(p / (1 - p))
    path = tmp_path / "binary.csv"
    path.write_text(f"label,{kind}\n" + "".join(f"{y},{v:.17g}\n" for y, v in zip([1, 0, 0, 0, 1], numbers)))
    with pytest.warns(AbstainWarning, match=f"`{kind}` is taken for the .* of class 1"):
        read = read_predictions(path)
    loss, key = read.loss_and_confidence("max_softmax", "zero_one")
    assert loss.tolist() == [False, False, True, False, False]
    np.testing.assert_allclose(key, -np.log(np.minimum(p, 1 - p)), rtol=1e-12)


def test_the_probability_of_the_prediction_is_no_probability_of_class_1(tmp_path):
    path = tmp_path / "predicted.csv"
    path.write_text("label,probability\n" + "".join(f"{k % 2},{0.5 + k / 40}\n" for k in range(12)))
    with pytest.raises(DataError, match=r"never below 0.5.*-c confidence=probability"):
        read_predictions(path)
    path.write_text("label,prediction,probability\n1,1,0.9\n0,0,0.8\n0,1,0.6\n")
    with pytest.raises(DataError, match="`prediction` contradicts `probability` in 1 row, first in row 2"):
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


def test_columns_that_were_taken_for_probabilities_are_named(tmp_path):
    (tmp_path / "t.csv").write_text("p_0,p_1,label\n0.9,0.9,1\n0.8,0.2,0\n")
    message = r"probabilities \(`p_0`, `p_1`\) must sum to one, got 1.8 in row 1.* -c confidence=NAME"
    with pytest.raises(DataError, match=message):
        read_predictions(tmp_path / "t.csv")
    with pytest.raises(DataError, match=r"\(`p_0`, `p_1`\).*without a name\.$"):
        read_predictions(tmp_path / "t.csv", columns={"probs": "p_*"})


def test_probabilities_in_percent_are_recognised(tmp_path):
    (tmp_path / "t.csv").write_text("p_0,p_1,label\n90,10,1\n80,20.2,0\n")
    with pytest.raises(DataError, match="If they are percentages, divide by 100"):
        read_predictions(tmp_path / "t.csv")


def test_a_column_of_right_answers_that_is_named_as_the_confidence_cannot_be_both(tmp_path):
    (tmp_path / "t.csv").write_text("correct,confidence\n1,0.9\n0,0.5\n")
    message = (
        "`correct` is named as the confidence, so it cannot be the column of right and wrong answers too"
    )
    with pytest.raises(DataError, match=message):
        read_predictions(tmp_path / "t.csv", columns={"confidence": "correct"})


@pytest.mark.parametrize("kind", ["logits", "probs"])
def test_class_scores_with_nan_are_refused_with_the_row_and_what_to_do(tmp_path, kind):
    scores = np.full((6, 3), 1 / 3)
    scores[4, 1] = np.nan
    np.savez(tmp_path / "n.npz", **{kind: scores}, labels=np.arange(6) % 3)
    message = f"n.npz: 1 row of `{kind}` holds NaN or an empty cell, first row 5.*: leave it out of the file"
    with pytest.raises(DataError, match=message):
        read_predictions(tmp_path / "n.npz")
    lines = [",".join([*("" if np.isnan(x) else str(x) for x in row), "1"]) for row in scores]
    names = [f"{'prob' if kind == 'probs' else 'logit'}_{k}" for k in range(3)]
    (tmp_path / "n.csv").write_text("\n".join([",".join([*names, "label"]), *lines]))
    with pytest.raises(DataError, match=message.replace("npz", "csv")):
        read_predictions(tmp_path / "n.csv")


@pytest.mark.parametrize(("scores", "copy"), [("confidence", "checked"), ("prob_cat,prob_dog", "predicted")])
def test_labels_that_equal_every_prediction_are_doubted(tmp_path, scores, copy):
    file = tmp_path / "preds.csv"
    rows = []
    for k in range(60):
        answer = "dog" if k % 3 else "cat"
        numbers = "0.7" if scores == "confidence" else f"{0.3 if k % 3 else 0.7},{0.7 if k % 3 else 0.3}"
        rows.append(f"{'dog' if k % 7 else 'cat'},{answer},{answer},{numbers}")
    file.write_text("\n".join([f"truth,predicted,checked,{scores}", *rows]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_predictions(file, columns={"labels": "truth"})
    message = f"preds.csv: all 60 predictions equal the labels. Is `{copy}` the column of predictions"
    with pytest.warns(AbstainWarning, match=message):
        read_predictions(file, columns={"labels": copy})
    file.write_text("\n".join([f"truth,predicted,checked,{scores}", *rows[:40]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_predictions(file, columns={"labels": copy})


@pytest.mark.parametrize(
    "first_line", ["correct,confidence,site,patient", "correct,confidence,site,patient,task"]
)
@pytest.mark.parametrize("clusters", ["patient", "site,patient"])
def test_rows_without_a_cluster_are_refused(tmp_path, first_line, clusters):
    """In a plain table, and in a table of answers (with a task): such rows would be one cluster."""
    end = ",t" if first_line.endswith("task") else ""
    rows = [f"{k % 2},0.{k},{'xy'[k % 2]},{'' if k in (2, 4) else k}{end}" for k in range(9)]
    (tmp_path / "t.csv").write_text("\n".join([first_line, *rows]) + "\n")
    with pytest.raises(
        DataError, match=r"2 rows have nothing in `.*patient`, the clusters, first row 3\. Give each"
    ):
        read_predictions(tmp_path / "t.csv", columns={"clusters": clusters})


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_confidences_and_weights_of_true_and_false_are_numbers(tmp_path, ending):
    rows = [{"correct": k % 3, "confidence": k % 2 == 0, "weight": True} for k in (0, 1, 3, 4)]
    path = tmp_path / f"t.{ending}"
    if ending == "json":
        path.write_text(json.dumps(rows))
    else:
        np.savez(path, **{name: np.array([row[name] for row in rows]) for name in rows[0]})
    read = read_predictions(path)
    assert (read.confidence.dtype, read.confidence.tolist()) == (np.float64, [1, 0, 0, 1])
    assert read.sample_weight.dtype == np.float64
    page = tmp_path / "page.html"
    made = CliRunner().invoke(cli, ["report", str(path), "-o", str(page)])
    assert made.exit_code == 0, made.output


def test_a_row_without_a_label_contradicts_nothing(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("prob_0,prob_1,label,correct\n0.9,0.1,0,1\n0.2,0.8,,1\n0.3,0.7,1,1\n")
    assert np.isnan(read_predictions(path).labels[1])


@pytest.mark.parametrize("columns", ["correct,confidence", "label,prob_0,prob_1"])
def test_the_warning_on_a_column_that_is_left_out_names_the_caller(tmp_path, columns):
    path = tmp_path / "t.csv"
    rows = {"correct,confidence": "1,0.9", "label,prob_0,prob_1": "0,0.9,0.1"}
    path.write_text(f"{columns},unanswerable\n{rows[columns]},perhaps\n")
    with pytest.warns(AbstainWarning, match="The column is left out") as caught:
        read_predictions(path)
    assert [warning.filename for warning in caught] == [__file__]
