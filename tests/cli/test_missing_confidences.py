"""Answers without one of several confidences: which rows a number is of, and what the other rule gives."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from abstain.cli import cli
from abstain.cli.missing_confidences import measure_by_other_rule, missing_confidence_notes
from abstain.formats import Log, Predictions, Rules, read_log, read_predictions

COLUMNS = ["-c", "labels=truth", "-c", "prediction=answer", "-c", "question=q"]
BOTH = [*COLUMNS, "-c", "confidence=stated,tokens"]


def by_definition(wrong: np.ndarray, sure: np.ndarray) -> float:
    """The mean, over samples, of the risk of everything that is at least as sure."""
    values, places = np.unique(sure, return_inverse=True)
    risks = np.array([wrong[sure >= value].mean() for value in values])
    return float(risks[places].mean())


class Answers:
    """Answers of which the hard ones lack the stated number, and on which the tokens are wrongly sure."""

    def __init__(self, seed: int, n: int = 1200):
        rng = np.random.default_rng(seed)
        lacks = rng.random(n) < 0.15
        self.wrong = np.where(lacks, rng.random(n) < 0.7, rng.random(n) < 0.2)
        self.answered = rng.random(n) > 0.1
        self.stated = np.where(
            lacks, np.nan, np.round(0.6 - 0.25 * self.wrong + 0.15 * rng.normal(size=n), 6)
        )
        tokens = 0.6 - 0.5 * self.wrong + 0.15 * rng.normal(size=n)
        self.tokens = np.where(lacks, 2 + 0.1 * rng.normal(size=n), tokens)

    def save(self, path: Path) -> str:
        lines = ["q,truth,answer,stated,tokens"]
        for row in range(len(self.wrong)):
            answer = ("B" if self.wrong[row] else "A") if self.answered[row] else ""
            stated = "" if np.isnan(self.stated[row]) else self.stated[row]
            lines.append(f"{row},A,{answer},{stated},{self.tokens[row]}")
        path.write_text("\n".join(lines) + "\n")
        return str(path)

    def area(self, signal: str, *, missing: str, unanswered: str = "abstained") -> float:
        """AURC by its definition, over all rows or over those with both confidences."""
        confidence = np.where(np.isnan(getattr(self, signal)), -1e9, getattr(self, signal))
        rows = np.ones(len(self.wrong), bool)
        if missing == "left_out":
            rows = ~np.isnan(self.stated) | ~self.answered
        if unanswered == "abstained":
            rows &= self.answered
        wrong = np.where(self.answered, self.wrong, True).astype(float)
        confidence = np.where(self.answered, confidence, -1e10)
        if unanswered == "wrong":  # missing ones and refusals are tied below all others
            confidence = np.maximum(confidence, -1e9)
        return by_definition(wrong[rows], confidence[rows])


@pytest.fixture
def answers() -> Answers:
    return Answers(0)


@pytest.fixture
def table(answers, tmp_path) -> str:
    return answers.save(tmp_path / "model.csv")


def run(*arguments: str):
    result = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize("missing", ["left_out", "last"])
def test_several_confidences_of_one_file_are_compared_on_all_answers_unless_stated(answers, table, missing):
    """`evaluate` and `compare` have the same rows and numbers: all rows by default."""
    stated = [] if missing == "last" else ["--missing", missing]
    evaluated = json.loads(run("evaluate", table, *BOTH, *stated, "--json", "--metric", "aurc").stdout)
    compared = json.loads(run("compare", table, *BOTH, *stated, "--json").stdout)
    estimate = {entry["score"]: entry["estimate"] for entry in evaluated["entries"]}
    assert estimate == {each["name"]: each["estimate"] for each in compared["contestants"]}
    for signal in ("stated", "tokens"):
        assert estimate[signal] == pytest.approx(answers.area(signal, missing=missing), abs=1e-12)


def test_one_confidence_is_measured_on_the_answers_that_have_it(answers, table):
    alone = [*COLUMNS, "-c", "confidence=stated"]
    told = json.loads(run("evaluate", table, *alone, "--json", "--metric", "aurc").stdout)
    assert told["entries"][0]["estimate"] == pytest.approx(
        answers.area("stated", missing="left_out"), abs=1e-12
    )
    others = f"{answers.area('stated', missing='last'):.4g}"
    assert any(
        note.startswith("AURC if answers without a confidence are ranked last") and others in note
        for note in told["notes"]
    )


def test_the_other_rule_and_a_changed_verdict_are_told(answers, table):
    for missing in ("last", "left_out"):
        other = {"last": "left_out", "left_out": "last"}[missing]
        for command in ("compare", "evaluate"):
            notes = " ".join(run(command, table, *BOTH, "--missing", missing).stdout.split())
            assert f"(--missing {other})" in notes
            for signal in ("stated", "tokens"):
                assert f"{signal} {answers.area(signal, missing=other):.4g}" in notes
            assert (
                "1 of 1 verdict between confidences depends on how answers without a confidence count"
                in notes
            )
            assert "stated is better" in notes
            assert "tokens is better" in notes


def test_no_verdict_is_told_where_none_changes(tmp_path):
    answers = Answers(1)
    answers.tokens = (
        0.6 - 0.5 * answers.wrong + 0.05 * np.random.default_rng(2).normal(size=len(answers.wrong))
    )
    notes = " ".join(run("compare", answers.save(tmp_path / "a.csv"), *BOTH).stdout.split())
    assert "AURC if answers without a confidence are left out" in notes
    assert "verdict between confidences" not in notes


def test_how_right_the_answers_without_a_confidence_are(answers, table):
    lacks = np.isnan(answers.stated) & answers.answered
    has = ~np.isnan(answers.stated) & answers.answered
    shares = f"{1 - answers.wrong[lacks].mean():.1%} of them are right, of the others {1 - answers.wrong[has].mean():.1%}"
    assert shares in " ".join(run("evaluate", table, *BOTH).stdout.split())


def test_the_area_by_the_other_rule_for_refusals_says_its_rows(answers, table):
    count = int((~np.isnan(answers.stated) | ~answers.answered).sum())
    for missing, rows in (("last", ""), ("left_out", f", on {count:,} of 1,200 rows")):
        notes = " ".join(run("evaluate", table, *BOTH, "--missing", missing).stdout.split())
        assert f"AURC with unanswered questions as wrong and ranked last{rows}: stated" in notes
        for signal in ("stated", "tokens"):
            area = answers.area(signal, missing=missing, unanswered="wrong")
            assert f"{signal} {area:.4g}" in notes


def test_coverages_of_a_changed_mixture_are_told(table):
    said = " ".join(run("evaluate", table, *COLUMNS, "-c", "confidence=stated").stdout.split())
    assert "rows that are left, of which" in said
    assert "rows that are left" not in " ".join(run("evaluate", table, *BOTH).stdout.split())


def board_column(page: Path, column: str) -> dict[str, float]:
    data = json.loads(
        page.read_text().split('<script type="application/json" id="data">')[1].split("</script>")[0]
    )
    place = data["columns"].index(column)
    return {model["name"]: model["more"][place] for model in data["models"]}


def test_the_board_measures_each_confidence_on_the_answers_that_have_it(answers, table, tmp_path):
    second = Answers(5)
    files = [table, second.save(tmp_path / "second.csv")]
    page = tmp_path / "board.html"
    run("compare", *files, *BOTH, "--html", str(page))
    shown = board_column(page, "AURC, answered only")
    for model, its_answers in (("model", answers), ("second", second)):
        for signal in ("stated", "tokens"):
            confidence = getattr(its_answers, signal)
            rows = its_answers.answered & ~np.isnan(confidence)
            area = by_definition(its_answers.wrong[rows].astype(float), confidence[rows])
            assert shown[f"{model} / {signal}"] == pytest.approx(area, abs=1e-12)


def test_the_board_of_a_learned_confidence_measures_that_one(answers, table, tmp_path):
    """The column of answered questions and the calibration error are of what ranks, not of a column of the file."""
    second = Answers(5).save(tmp_path / "second.csv")
    saved = str(tmp_path / "learned.json")
    run("improve", Answers(7).save(tmp_path / "learn.csv"), *BOTH, "--save", saved)
    page = tmp_path / "board.html"
    run("compare", table, second, *BOTH, "--confidence", saved, "--html", str(page))
    shown = board_column(page, "AURC, answered only")
    told = json.loads(
        run("evaluate", table, *BOTH, "--confidence", saved, "--unanswered", "abstained", "--json").stdout
    )
    assert '"calibration error %"' not in page.read_text()  # the learned confidence is no probability
    learned = next(
        entry for entry in told["entries"] if (entry["score"], entry["metric"]) == ("learned", "aurc")
    )
    assert shown["model / learned"] == pytest.approx(learned["estimate"], abs=1e-12)


def test_only_models_whose_verdict_changes_are_named(answers, tmp_path):
    """Of several models in one board, in one sentence."""
    changing = answers.save(tmp_path / "changing.csv")
    steady = Answers(1)
    steady.tokens = 0.6 - 0.5 * steady.wrong + 0.05 * np.random.default_rng(2).normal(size=len(steady.wrong))
    notes = " ".join(run("compare", changing, steady.save(tmp_path / "steady.csv"), *BOTH).stdout.split())
    assert "Which confidence of a model is better depends on how answers without a confidence count" in notes
    assert "for 1 model: changing." in notes


def test_a_log_without_gaps_has_no_such_sentence(table):
    log = read_log(table, columns={"labels": "truth", "prediction": "answer", "confidence": "tokens"})
    assert measure_by_other_rule(log, "aurc", 0.95) == ([], [])
    empty = replace(log, signals={})
    assert measure_by_other_rule(empty, "aurc", 0.95) == ([], [])
    model = Predictions("m", "t.csv", "csv", 2, loss=np.zeros(2), confidence=np.ones(2))
    assert missing_confidence_notes([model], "aurc", 0.95) == []


def test_nothing_is_said_where_no_answer_has_all_confidences():
    wrong = np.array([0.0, 1.0, 0.0, 1.0])
    nan = np.nan
    signals = {"a": np.array([0.1, 0.2, nan, nan]), "b": np.array([nan, nan, 0.3, 0.4])}
    rules = Rules().settled("several confidences")
    log = Log("t.csv", "csv", wrong, np.ones(4, bool), signals, rules=rules)
    assert log.rules.missing == "last"
    assert measure_by_other_rule(log, "aurc", 0.95) == ([], [])


def test_a_page_of_one_file_uses_all_rows_for_its_first_confidence(answers, table, tmp_path):
    """A second confidence with gaps does not change the rows of the first, which `threshold` and `report` use."""
    columns = {"labels": "truth", "prediction": "answer", "confidence": "tokens,stated"}
    both = read_predictions(table, columns=columns)
    alone = read_predictions(table, columns={**columns, "confidence": "tokens"})
    assert both.n == alone.n == 1200
    np.testing.assert_array_equal(both.confidence, alone.confidence)


@pytest.mark.parametrize("model", ["Qwen3-32B-think", "Phi-4-mini-reasoning"])
def test_real_answers(data_dir, model, tmp_path):
    """The area of each signal over its own rows, from the file by another way."""
    pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = data_dir / "llm" / "mmlu_pro" / f"{model}.parquet"
    other = data_dir / "llm" / "mmlu_pro" / "gpt-4.1-mini.parquet"
    names = ["verbal_numerical_confidence", "logit_perplexity_confidence"]
    columns = ["labels=correct_answer", "prediction=extracted_answer", "question=question_index"]
    stated = [part for column in [*columns, f"confidence={','.join(names)}"] for part in ("-c", column)]
    page = tmp_path / "board.html"
    run("compare", str(path), str(other), *stated, "--html", str(page))
    shown = board_column(page, "AURC, answered only")
    rows = pyarrow.parquet.read_table(path).to_pydict()
    for name in names:
        kept = [
            (float(truth != answer), confidence)
            for truth, answer, confidence in zip(rows["correct_answer"], rows["extracted_answer"], rows[name])
            if answer is not None and confidence is not None
        ]
        wrong, confidence = map(np.array, zip(*kept))
        assert shown[f"{model} / {name}"] == pytest.approx(by_definition(wrong, confidence), abs=1e-12)


def test_a_model_whose_unanswered_questions_alone_have_the_confidence_is_not_ranked_by_it(
    answers, table, tmp_path
):
    """A number beside a question without an answer ranks nothing."""
    other = Answers(3)
    other.tokens = np.where(other.answered, np.nan, 0.5)
    path = other.save(tmp_path / "other.csv")
    text = Path(path).read_text().replace(",nan\n", ",\n")
    Path(path).write_text(text)
    told = json.loads(run("compare", table, path, *BOTH, "--json").stdout)
    assert {each["name"] for each in told["contestants"]} == {
        "model / stated",
        "model / tokens",
        "other / stated",
    }
    said = " ".join(run("compare", table, path, *BOTH).stdout.split())
    assert "other is not ranked by `tokens`: no answer has it." in said


def test_a_warning_about_one_model_stays_where_the_name_of_another_begins_like_it(tmp_path, monkeypatch):
    """`a` lacks confidences, so that its warning is made again; that of `a 2` must not be lost with it."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    with_gaps = ["id,correct,sure"]
    worse_than_chance = ["id,correct,sure"]
    for k in range(300):
        right = int(rng.random() < 0.7)
        noise = rng.random()
        with_gaps.append(f"{k},{right},{'' if k % 10 == 0 else f'{noise + right:.4f}'}")
        worse_than_chance.append(f"{k},{right},{noise + 1 - right:.4f}")
    (tmp_path / "a.csv").write_text("\n".join(with_gaps) + "\n")
    (tmp_path / "a 2.csv").write_text("\n".join(worse_than_chance) + "\n")
    command = ["compare", "a.csv", "a 2.csv", "-c", "confidence=sure", "--missing", "last"]
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 0, done.output
    assert "a 2 ranks worse than chance" in " ".join(done.stdout.split())
