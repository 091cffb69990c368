"""`abstain improve`, and `--confidence` in the commands that rank: the same numbers as in Python, rows of the fit refused."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.confidence import LearnedConfidence

COLUMNS = ("-c", "confidence=token,stated", "-c", "features=length", "-c", "categories=topic")


def make_rows(n: int, seed: int) -> dict[str, np.ndarray]:
    """Answers with two confidences, of which each says something about the error that the other does not."""
    rng = np.random.default_rng(seed)
    token, stated, length = rng.normal(size=(3, n))
    topic = rng.integers(0, 3, n)
    correct = 2 * token + 2 * stated + 0.8 * (topic == 1) + rng.logistic(size=n) > -1
    return {
        "correct": correct.astype(int),
        "token": token,
        "stated": np.where(rng.random(n) < 0.1, np.nan, stated),
        "length": length,
        "topic": np.array(["law", "math", "art"])[topic],
    }


def write_table(path: Path, columns: dict[str, np.ndarray]) -> str:
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        for row in zip(*columns.values()):
            writer.writerow(["" if value != value else value for value in row])
    return str(path)


def inputs_of(columns: dict[str, np.ndarray]) -> dict:
    return {
        "signals": {"token": columns["token"], "stated": columns["stated"]},
        "features": {"length": columns["length"]},
        "categories": {"topic": columns["topic"]},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("improve")
    write_table(folder / "fit.csv", make_rows(1500, seed=1))
    write_table(folder / "fresh.csv", make_rows(1500, seed=2))
    write_table(folder / "few.csv", {"correct": np.array([1, 0]), "confidence": np.array([0.9, 0.2])})
    result = CliRunner().invoke(
        cli, ["improve", str(folder / "fit.csv"), *COLUMNS, "--save", str(folder / "confidence.json")]
    )
    assert result.exit_code == 0, result.output
    assert "'signals' was kept" in result.output
    assert "proven" in result.output
    assert "AURC with all inputs minus AURC without one" in result.output
    return folder


@pytest.fixture
def run(folder, monkeypatch):
    monkeypatch.chdir(folder)
    return lambda *arguments: CliRunner().invoke(cli, list(arguments), prog_name="abstain")


def test_the_saved_confidence_is_that_of_python(folder):
    rows = make_rows(1500, seed=1)
    direct = abstain.learn_confidence(rows["correct"] == 1, **inputs_of(rows))
    stored = LearnedConfidence.load(folder / "confidence.json")
    assert stored.verdict == direct.verdict
    fresh = inputs_of(make_rows(50, seed=3))
    np.testing.assert_allclose(stored(**fresh), direct(**fresh), rtol=1e-12)


def test_evaluate_shows_it_next_to_the_confidences_of_the_file(run, folder):
    result = run(
        "evaluate", "fresh.csv", *COLUMNS, "--confidence", "confidence.json", "--metric", "aurc", "--json"
    )
    entries = json.loads(result.stdout)["entries"]
    by_score = {entry["score"]: entry["estimate"] for entry in entries}
    assert list(by_score) == ["learned", "token", "stated"]
    rows = make_rows(1500, seed=2)
    confidence = LearnedConfidence.load(folder / "confidence.json")(**inputs_of(rows))
    loss = 1.0 - rows["correct"]
    by_hand = np.mean([loss[confidence >= value].mean() for value in confidence])
    assert by_score["learned"] == pytest.approx(by_hand, abs=1e-12)
    assert by_score["learned"] < 0.8 * min(by_score["token"], by_score["stated"])


@pytest.mark.parametrize("command", [("evaluate",), ("compare",)])
def test_rows_that_it_was_fitted_on_are_said_to_flatter_it(run, command):
    for file, is_fitted in (("fit.csv", True), ("fresh.csv", False)):
        result = run(*command, file, *COLUMNS, "--confidence", "confidence.json")
        assert result.exit_code == 0, result.output
        said = " ".join(result.stdout.split())
        assert ("fit: all 1,500 rows are rows that the learned confidence was fitted on" in said) == is_fitted
        assert ("are rows that the learned confidence was fitted on" in said) == is_fitted


def test_the_rows_of_the_fit_are_counted_among_those_without_an_answer_too(run, folder):
    write_cut_off_answers(folder / "cut.csv", seed=8)
    given = (*COLUMNS, "-c", "labels=gold", "-c", "prediction=reply")
    made = run("improve", "cut.csv", *given, "--save", "of-cut.json")
    assert made.exit_code == 0, made.output
    result = run("evaluate", "cut.csv", *given, "--confidence", "of-cut.json")
    said = " ".join(result.stdout.split())
    assert "cut: about 1,000 of 1,500 rows are rows that the learned confidence was fitted on" in said


@pytest.mark.parametrize("file", ["fit.csv", "later.csv"])
@pytest.mark.parametrize("command", ["threshold", "cascade"])
def test_a_check_on_rows_of_the_fit_is_told(run, folder, command, file):
    write_table(folder / "later.csv", make_rows(1500, seed=6))
    learned = ("--confidence", "confidence.json")
    costs = ("--cost", "1", "--person-cost", "20", "--person-error", "0") if command == "cascade" else ()
    made = run(
        command, "fresh.csv", *COLUMNS, *learned, *costs, "--risk", "0.2", "--save", "rule-to-check.json"
    )
    assert made.exit_code == 0, made.output
    checked = run(command, file, *COLUMNS, *learned, "--check", "rule-to-check.json")
    assert checked.exit_code in (0, 5), checked.output
    told = "all 1,500 rows are rows that the learned confidence was fitted on"
    assert (told in " ".join(checked.output.split())) == (file == "fit.csv")


def test_unanswered_questions_as_wrong_are_told_for_it_too(run, folder):
    rows = make_rows(600, seed=5)
    answered = np.arange(600) % 10 > 0
    truth = np.where(rows["correct"] == 1, "a", "b")
    columns = {**rows, "answer": np.where(answered, "a", ""), "truth": truth}
    del columns["correct"]
    write_table(folder / "gaps.csv", columns)
    stated = (*COLUMNS, "-c", "labels=truth", "-c", "prediction=answer")
    result = run("evaluate", "gaps.csv", *stated, "--confidence", "confidence.json", "--json")
    (note,) = [
        note for note in json.loads(result.stdout)["notes"] if "unanswered questions as wrong" in note.lower()
    ]
    confidence = LearnedConfidence.load(folder / "confidence.json")(**inputs_of(rows))
    ranked_last = np.where(answered, confidence, confidence.min() - 1)
    wrong = np.where(answered, rows["correct"] == 0, True)
    by_hand = np.mean([wrong[ranked_last >= value].mean() for value in ranked_last])
    assert f"learned {by_hand:.3g}" in note or f"learned {by_hand:.4g}" in note


def test_describe_suggests_it_where_there_is_something_to_learn_from(run, folder):
    np.savez(folder / "few.npz", logits=np.eye(3)[[0, 1, 2] * 4], labels=[0, 1, 2] * 4)  # no errors
    several = json.loads(run("describe", "fresh.csv", "-c", "confidence=token,stated", "--json").stdout)
    assert several["improve"].startswith("abstain improve fresh.csv")
    program, *command = several["improve"].split()
    assert (program, command[-2:]) == ("abstain", ["--save", "confidence.json"])
    learned = run(*command[:-1], "another.json", "--quiet")
    assert learned.exit_code == 0, learned.output
    for arguments in (("fresh.csv", "-c", "confidence=token"), ("few.npz",)):
        assert json.loads(run("describe", *arguments, "--json").stdout)["improve"] is None


@pytest.mark.parametrize("engine", ["files", "sketch"])
def test_an_engine_ranks_by_it_as_memory_does(run, engine):
    arguments = ("evaluate", "fresh.csv", *COLUMNS, "--confidence", "confidence.json", "--json")
    in_memory = json.loads(run(*arguments).output)
    by_engine = json.loads(run(*arguments, "--engine", engine).output)
    assert by_engine["entries"][0]["score"] == "learned"
    estimates = [
        next(entry["estimate"] for entry in table["entries"] if entry["metric"] == "aurc")
        for table in (in_memory, by_engine)
    ]
    assert estimates[0] == pytest.approx(estimates[1], rel=1e-9)


def test_a_rule_is_for_its_confidence_and_fresh_rows(run):
    learned = ("--confidence", "confidence.json")
    refused = run("threshold", "fit.csv", *COLUMNS, *learned, "--risk", "0.1")
    assert refused.exit_code == 3
    assert "that the confidence was fitted on" in refused.output
    made = run("threshold", "fresh.csv", *COLUMNS, *learned, "--risk", "0.1", "--save", "rule.json")
    assert made.exit_code == 0, made.output
    unlabelled = make_rows(40, seed=4)
    del unlabelled["correct"]
    write_table(Path("new.csv"), unlabelled)
    decided = run("decide", "rule.json", "new.csv", *COLUMNS, *learned, "-o", "decided.csv")
    assert decided.exit_code == 0, decided.output
    with open("decided.csv") as stream:
        accepted = [row["accepted"] == "1" for row in csv.DictReader(stream)]
    confidence = LearnedConfidence.load("confidence.json")(**inputs_of(unlabelled))
    assert accepted == (confidence >= abstain.load_rule("rule.json").value).tolist()
    for columns in (("-c", "confidence=token"), COLUMNS):
        other = run("decide", "rule.json", "new.csv", *columns, "-o", "other.csv")
        assert other.exit_code == 3
        assert "this rule is for the learned confidence" in other.output
        assert other.output.endswith("Name the file of that learned confidence: --confidence FILE.\n")
    swapped = run("decide", "confidence.json", "new.csv", *COLUMNS)
    assert swapped.exit_code == 3
    assert "'confidence.json' holds a learned confidence, not a rule. Give the rule" in swapped.output
    write_table(Path("later.csv"), make_rows(400, seed=5))
    checked = run("threshold", "later.csv", *COLUMNS, *learned, "--check", "rule.json")
    assert checked.exit_code == 0, checked.output


def test_learning_and_certifying_in_one_command(run):
    result = run("improve", "fit.csv", *COLUMNS, "--risk", "0.2", "--save", "c.json", "--save-rule", "r.json")
    assert result.exit_code == 0, result.output
    assert "750 rows to learn, 750 others to certify" in " ".join(result.output.split())
    rule = abstain.load_rule("r.json")
    assert rule.feasible
    assert rule.cut.learned == LearnedConfidence.load("c.json").fingerprint
    more = run("improve", "fit.csv", *COLUMNS, "--risk", "0.01", "--fit-share", "0.4")
    assert more.exit_code == 4
    said = " ".join(more.output.split())
    assert "600 rows to learn, 900 others to certify" in said
    assert "give a smaller --fit-share" in said


def test_rows_without_an_answer_are_said_to_be_left_out(run, folder):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(400, 3))
    labels = np.where(rng.random(400) < 0.7, logits.argmax(axis=1), 0)
    np.savez(folder / "three.npz", logits=logits, labels=labels, classes=np.array(["a", "b", "E"]))
    said = " ".join(run("improve", "three.npz", "--refusals", "E").output.split())
    refused_count = int((logits.argmax(axis=1) == 2).sum())
    assert f"- {refused_count} rows without an answer left out" in said
    assert f"learned from {400 - refused_count} rows" in said


def write_cut_off_answers(path: Path, seed: int) -> None:
    """Rows of which a third have no answer, all of these with a length that no answer has."""
    rows = make_rows(1500, seed=seed)
    has_answer = np.arange(1500) % 3 > 0
    rows["reply"] = np.where(has_answer, np.where(rows.pop("correct"), "a", "b"), "")
    rows["length"] = np.where(has_answer, rows["length"], 9.0)
    write_table(path, {**rows, "gold": np.full(1500, "a")})


def test_rows_without_an_answer_are_not_compared_with_those_learned_from(run, folder):
    for seed in (8, 9):
        write_cut_off_answers(folder / f"cut{seed}.csv", seed)
    learned = (*COLUMNS, "-c", "prediction=reply", "--confidence", "confidence.json")
    given = (*learned, "-c", "labels=gold")
    for command in (
        ("evaluate", "cut8.csv", *given),
        ("evaluate", "cut8.csv", *given, "--unanswered", "wrong"),
        ("compare", "cut8.csv", *given),
        ("threshold", "cut8.csv", *given, "--risk", "0.3", "--save", "cut-rule.json"),
        ("threshold", "cut9.csv", *given, "--check", "cut-rule.json"),
        ("decide", "cut-rule.json", "cut9.csv", *learned, "-o", "cut-decided.csv"),
        ("report", "cut8.csv", *given, "-o", "cut.html"),
    ):
        result = run(*command)
        assert result.exit_code == 0, result.output
        assert "otherwise than in learning" not in " ".join(result.output.split()), command


@pytest.mark.parametrize("confidence", ["token", "learned"])
def test_a_column_that_says_what_was_answered_is_asked_for_where_it_was_forgotten(run, folder, confidence):
    given = ("-c", f"confidence={confidence}")
    if confidence == "learned":
        given = (*COLUMNS, "--confidence", "answers.json")
    for seed in (8, 9):
        write_cut_off_answers(folder / f"cut{seed}.csv", seed)
    made = run(
        "improve",
        "cut8.csv",
        *COLUMNS,
        "-c",
        "labels=gold",
        "-c",
        "prediction=reply",
        "--save",
        "answers.json",
    )
    assert made.exit_code == 0, made.output
    assert "500 rows without an answer left out: a confidence is learned from answers alone" in " ".join(
        made.output.split()
    )
    options = ("-c", "labels=gold", "-c", "prediction=reply", "--risk", "0.3", "--save", "answers-rule.json")
    made = run("threshold", "cut9.csv", *given, *options)
    assert made.exit_code == 0, made.output
    write_cut_off_answers(folder / "new.csv", seed=10)
    full = {key: column for key, column in make_rows(1500, seed=10).items() if key != "correct"}
    write_table(folder / "none.csv", full)
    write_table(folder / "full.csv", {**full, "reply": np.full(1500, "a")})

    def apply(file, *more):
        return run("decide", "answers-rule.json", file, *given, *more, "-o", "out.csv")

    refused = apply("new.csv")
    assert refused.exit_code == 3, refused.output
    assert refused.output.endswith(
        "answers-rule.json was made with -c prediction=reply, which says which questions have an answer, and 500 rows "
        "here have none. Name the column here too: -c prediction=reply.\n"
    )
    named = apply("new.csv", "-c", "prediction=reply")
    assert named.exit_code == 0, named.output
    accepted = apply("none.csv")
    assert accepted.exit_code == 0
    assert "none.csv has no such column, so every row counts as answered" in accepted.output
    asked = "nothing says which rows of none.csv have one. Name the column: -c prediction=NAME."
    assert (asked in accepted.output) == (confidence == "learned")
    assert "note: answers-rule.json was made with" not in apply("full.csv").output


@pytest.mark.parametrize("command", [("compare",), ("report", "-o", "missing.html")])
def test_answers_that_lack_an_input_are_not_said_to_be_ranked_last_by_it(run, folder, command):
    for seed in (8, 9):
        write_cut_off_answers(folder / f"cut{seed}.csv", seed)
    files = ("cut8.csv", "cut9.csv")
    given = (*COLUMNS, "-c", "labels=gold", "-c", "prediction=reply")
    told = "Answers without a confidence are ranked last: cut"
    for learned in ((), ("--confidence", "confidence.json,confidence.json")):
        result = run(command[0], *files, *given, *learned, *command[1:])
        assert result.exit_code == 0, result.output
        page = (folder / "missing.html").read_text() if command[0] == "report" else result.output
        assert (told in " ".join(page.split())) == (not learned)


@pytest.mark.parametrize("learned_from", ["numbers", "text"])
def test_a_feature_that_holds_text_in_place_of_numbers_is_told(run, folder, learned_from):
    texts = np.array(["a" * length for length in np.random.default_rng(0).integers(1, 40, 1500)])
    of_numbers = make_rows(1500, seed=7)
    of_texts = {**of_numbers, "length": texts}
    first, second = (of_numbers, of_texts) if learned_from == "numbers" else (of_texts, of_numbers)
    write_table(folder / "first.csv", first)
    write_table(folder / "second.csv", second)
    made = run("improve", "first.csv", *COLUMNS, "--save", "first.json")
    assert made.exit_code == 0, made.output
    refused = run("evaluate", "second.csv", *COLUMNS, "--confidence", "first.json")
    assert refused.exit_code == 3
    other = "text" if learned_from == "numbers" else "numbers"
    assert refused.output == (
        f"abstain: second.csv: column `length` holds {other}, and the learned confidence reads {learned_from} from it.\n"
    )


def test_cascade_compare_and_report_rank_by_it(run):
    both = ("fresh.csv", "fresh.csv", "--names", "small,large", *COLUMNS)
    costs = ("--cost", "1,5", "--person-cost", "20", "--person-error", "0", "--risk", "0.2")
    learned = ("--confidence", "confidence.json,confidence.json")
    made = run("cascade", *both, *costs, *learned, "--save", "cascade.json")
    assert made.exit_code == 0, made.output
    applied = run("cascade", *both, *learned, "--apply", "cascade.json", "--json")
    assert applied.exit_code == 0
    assert set(json.loads(applied.stdout)) <= {"small", "large", "person"}
    plain = ("fresh.csv", "fresh.csv", "--names", "small,large", "-c", "confidence=token")
    other = run("cascade", *plain, "--apply", "cascade.json")
    assert other.exit_code == 3
    assert "learned confidence" in other.output
    ranked = run("compare", "fresh.csv", *COLUMNS, "--confidence", "confidence.json", "--quiet")
    assert ranked.stdout.strip() == "learned"
    page = run("report", "fresh.csv", *COLUMNS, "--confidence", "confidence.json", "-o", "page.html")
    assert page.exit_code == 0, page.output
    text = Path("page.html").read_text()
    assert "Before and after" in text
    assert "fresh: learned" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("improve", "fit.csv", *COLUMNS, "--save-rule", "r2.json"), "--save-rule goes with --risk"),
        (("improve", "fit.csv", *COLUMNS, "--fit-share", "0.2"), "--fit-share goes with --risk"),
        (("improve", "fit.csv", *COLUMNS, "--confidence", "confidence.json"), "this command learns one"),
        (("improve", "fit.csv", "-c", "confidence=*"), "* stands for all confidences of a log"),
        (("improve", "few.csv"), "got 1 right and 1 wrong. Label more rows."),
        (("improve", "few.csv", "--risk", "0.2"), "Name another confidence: -c confidence=NAME."),
        (
            ("evaluate", "fresh.csv", "-c", "confidence=token", "--confidence", "confidence.json"),
            "stated",
        ),
        (
            ("compare", "fit.csv", "fresh.csv", "--confidence", "a.json,b.json,c.json", *COLUMNS),
            "one file for all models or 2, one each, got 3",
        ),
        (("evaluate", "fresh.csv", *COLUMNS, "--confidence", "nowhere.json"), "nowhere.json"),
        (
            ("evaluate", "few.csv", "--confidence", "confidence.json", "--engine", "files"),
            "there is no column 'token'",
        ),
        (
            ("evaluate", "few.csv", "--confidence", "confidence.json"),
            "few.csv: the learned confidence reads `token`, `stated`, `length`, `topic`, which are not read "
            "from this file. Name the columns: -c confidence=token,stated -c features=length -c categories=topic.",
        ),
        (
            ("evaluate", "fresh.csv", *COLUMNS[:4], "--confidence", "confidence.json"),
            "reads `topic`, which is not read from this file. Name the columns: -c categories=topic.",
        ),
        (
            ("improve", "fit.csv", "-c", "confidence=token,stated", "-c", "features=length,correct"),
            "column `correct` says which answers are right, so nothing can be learned from it: leave it out of "
            "-c features, or rename it if new rows have it too.",
        ),
        (
            ("compare", "fit.csv", "fresh.csv", "--confidence", "confidence.json", "--engine", "files"),
            "--engine files compares columns",
        ),
    ],
)
def test_what_is_refused(run, arguments, message):
    result = run(*arguments)
    assert result.exit_code in (2, 3), result.output
    assert message in " ".join(result.output.split())
    assert "Traceback" not in result.output


@pytest.mark.parametrize("more", [[], ["--risk", "0.3", "--save-rule", "next-rule.json"]])
def test_what_to_run_next_runs_on_a_fresh_file(run, folder, more):
    made = run("improve", "fit.csv", *COLUMNS, "-c", "correct=correct", "--save", "next.json", *more)
    lines = [line for line in made.stderr.splitlines() if line.startswith("  abstain ")]
    assert [line.split()[1] for line in lines] == ["evaluate", "decide" if more else "threshold"]
    for line in lines:
        assert "-c confidence=token,stated" in line
        done = run(*line.replace("FRESH_FILE", "fresh.csv").replace("NEW_FILE", "fresh.csv").split()[1:])
        assert done.exit_code == 0, (line, done.output)


def test_another_column_is_not_taken_for_the_one_that_was_learned_from(run, folder):
    """A column called confidence is no substitute for the column that the user named when the rule was made."""
    rng = np.random.default_rng(0)
    sure = rng.random(400)
    path = folder / "answers.csv"
    rows = [f"{rng.random()},{value},{int(rng.random() < value)}" for value in sure]
    path.write_text("\n".join(["confidence,entropy_based,correct", *rows]))
    made = run("improve", "answers.csv", "-c", "confidence=entropy_based", "--save", "learned.json")
    assert made.exit_code == 0, made.output
    (folder / "fresh.csv").write_text(path.read_text() + "\n0.5,0.5,1\n")
    refused = run("evaluate", "fresh.csv", "--confidence", "learned.json")
    assert refused.exit_code == 3
    assert "-c confidence=entropy_based" in refused.output
