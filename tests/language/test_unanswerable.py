"""Questions that have no answer: a column says which, and abstention recall, precision and F1 follow from counts."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner
from written import inspect_json, inspect_sample, lines, option_record

import abstain
from abstain.cli import cli
from abstain.errors import AbstainWarning, DataError, InputError
from abstain.formats import read_log, read_predictions


def run(*arguments) -> str:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def write_table(path, *, unanswerable, declined, column="unanswerable", confidence=True, repeats=1):
    """A table in which every third answer is wrong, and its columns by name."""
    names = ["question_id", "correct", "answered", column, *(["confidence"] if confidence else [])]
    lines = [",".join(names)]
    for number, (without_answer, is_declined) in enumerate(zip(unanswerable, declined)):
        says = {"unanswerable": without_answer, "is_answerable": not without_answer}.get(column, "maybe")
        row = [number // repeats, int(number % 3 > 0), "no" if is_declined else "yes", str(says).lower()]
        lines.append(",".join(map(str, [*row, *([number / 1000] if confidence else [])])))
    path.write_text("\n".join(lines) + "\n")
    return path


def shares_by_hand(unanswerable, declined) -> dict[str, float]:
    """Recall, precision and F1 of abstaining, counted."""
    both = sum(a and b for a, b in zip(unanswerable, declined))
    recall = both / sum(unanswerable)
    precision = both / sum(declined)
    return {
        "abstention_recall": recall,
        "abstention_precision": precision,
        "abstention_f1": 2 * recall * precision / (recall + precision),
    }


UNANSWERABLE = [number % 4 == 0 for number in range(120)]
DECLINED = [(number % 4 == 0 and number % 5 > 0) or number % 7 == 0 for number in range(120)]
OTHER_DECLINED = [number % 8 == 0 for number in range(120)]


@pytest.mark.parametrize("column", ["unanswerable", "is_answerable"])
@pytest.mark.parametrize("confidence", [True, False])
def test_evaluate_counts_abstentions(tmp_path, column, confidence):
    path = write_table(
        tmp_path / "a.csv",
        unanswerable=UNANSWERABLE,
        declined=DECLINED,
        column=column,
        confidence=confidence,
    )
    table = abstain.Evaluation.from_json(run("evaluate", path, "--json"))
    for metric, share in shares_by_hand(UNANSWERABLE, DECLINED).items():
        assert table[metric].estimate == pytest.approx(share, abs=1e-12)
        assert table[metric].low < share < table[metric].high
    as_wrong = abstain.Evaluation.from_json(run("evaluate", path, "--unanswered", "wrong", "--json"))
    assert not any(metric.startswith("abstention") for metric in as_wrong.metrics)


def test_evaluate_takes_unanswerable_by_group():
    loss = np.arange(120) % 3 == 0
    groups = np.arange(120) % 2
    table = abstain.evaluate(
        loss=loss,
        confidence=np.arange(120),
        abstained=DECLINED,
        unanswerable=UNANSWERABLE,
        groups=groups,
        metrics=["aurc", "abstention_precision"],
    )
    in_even = [DECLINED[number] for number in range(0, 120, 2)]
    expected = shares_by_hand(UNANSWERABLE[::2], in_even)["abstention_precision"]
    found = [entry for entry in table.entries if entry.metric == "abstention_precision" and entry.group == 0]
    assert found[0].estimate == pytest.approx(expected, abs=1e-12)
    with pytest.raises(InputError, match="`unanswerable` must hold true or false"):
        abstain.evaluate(loss=loss, confidence=np.arange(120), unanswerable=np.arange(120))


def test_models_are_compared_by_abstention(tmp_path):
    paths = [
        write_table(tmp_path / f"{name}.csv", unanswerable=UNANSWERABLE, declined=declined)
        for name, declined in [("a", DECLINED), ("b", OTHER_DECLINED)]
    ]
    found = json.loads(run("compare", *paths, "--metric", "abstention_f1", "--json"))
    expected = {
        name: shares_by_hand(UNANSWERABLE, declined)["abstention_f1"]
        for name, declined in [("a", DECLINED), ("b", OTHER_DECLINED)]
    }
    assert {row["name"]: row["estimate"] for row in found["contestants"]} == pytest.approx(expected)
    unpaired = json.loads(run("compare", *paths, "--metric", "abstention_f1", "--unpaired", "--json"))
    assert {row["name"]: row["estimate"] for row in unpaired["contestants"]} == pytest.approx(expected)
    page = tmp_path / "board.html"
    run("compare", *paths, "--html", page)  # ranked by AURC, abstention in further columns
    data = json.loads(
        page.read_text().split('<script type="application/json" id="data">')[1].split("</script>")[0]
    )
    shown = {model["name"]: dict(zip(data["columns"], model["more"])) for model in data["models"]}
    assert shown["a"]["abstention F1 %"] == pytest.approx(expected["a"])


def test_a_column_that_does_not_say_it_is_left_out_or_refused(tmp_path):
    path = write_table(
        tmp_path / "a.csv", unanswerable=UNANSWERABLE, declined=DECLINED, column="should_abstain"
    )
    with pytest.warns(AbstainWarning, match="`unanswerable` must be true or false, got 'maybe'"):
        assert read_predictions(path).unanswerable is None
    with pytest.raises(DataError, match="`unanswerable` must be true or false, got 'maybe'"):
        read_predictions(path, columns={"unanswerable": "should_abstain"})
    path.write_text("correct,confidence,unanswerable\n1,0.5,true\n0,0.2,\n")
    with pytest.raises(DataError, match="in every row, got none in row 2"):
        read_predictions(path, columns={"unanswerable": "unanswerable"})
    path.write_text("correct,confidence,unanswerable,answerable\n1,0.5,1,0\n0,0.2,0,0\n")
    with pytest.raises(DataError, match="contradict each other"):
        read_predictions(path)


def test_repeats_of_a_log_with_a_confidence_are_counted_by_question(tmp_path):
    declined = [False] * 120
    path = write_table(tmp_path / "a.csv", unanswerable=UNANSWERABLE, declined=declined, repeats=2)
    table = abstain.Evaluation.from_json(run("evaluate", path, "--json"))
    right = np.reshape([number % 3 > 0 for number in range(120)], (60, 2))
    assert table["accuracy"].estimate == pytest.approx(right.mean())
    assert table["pass_at@2"].estimate == pytest.approx(right.any(axis=1).mean())
    assert table["pass_all@2"].estimate == pytest.approx(right.all(axis=1).mean())
    assert table["pass_all@2"].n == 60
    named = abstain.Evaluation.from_json(run("evaluate", path, "--metric", "aurc", "--json"))
    assert named.metrics == ("aurc",)


def test_logs_of_harnesses_say_it_in_what_they_keep_of_the_question(tmp_path):
    samples = [inspect_sample(k) | {"metadata": {"is_answerable": k != 1}} for k in range(6)]
    inspect_path = tmp_path / "log.json"
    inspect_path.write_text(json.dumps(inspect_json() | {"samples": samples}))
    expected = [False, True, False, False, False, False]
    assert read_log(inspect_path).unanswerable.tolist() == expected
    records = [option_record(k) | {"doc": {"is_impossible": k == 1}} for k in range(6)]
    lm_eval_path = tmp_path / "samples_mine_2024-01-01.jsonl"
    lm_eval_path.write_bytes(lines(records))
    assert read_log(lm_eval_path).unanswerable.tolist() == expected
    assert read_log(lm_eval_path).column_of_role["unanswerable"] == "unanswerable"


def test_the_column_is_kept_when_a_file_is_converted(tmp_path):
    path = write_table(tmp_path / "a.csv", unanswerable=UNANSWERABLE, declined=DECLINED)
    CliRunner().invoke(cli, ["convert", str(path), str(tmp_path / "b.parquet")])
    assert read_predictions(tmp_path / "b.parquet").unanswerable.tolist() == UNANSWERABLE
