"""`abstain compare` of answers: refusals count as wrong, several confidences compete, and the page of the ranking."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from abstain.cli import cli


def by_definition(wrong: np.ndarray, sure: np.ndarray) -> float:
    """The mean, over samples, of the risk of everything that is at least as sure."""
    values, places = np.unique(sure, return_inverse=True)
    risks = np.array([wrong[sure >= v].mean() for v in values])
    return float(risks[places].mean())


def write(folder: Path, name: str, rows: list[tuple[int, str, str, str, str]]) -> str:
    path = folder / f"{name}.csv"
    head = "question_id,truth,answer,stated,tokens"
    path.write_text("\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return str(path)


@pytest.fixture
def files(tmp_path):
    """Two models of 300 questions in different orders; the careful one refuses the 60 hardest."""
    rng = np.random.default_rng(0)
    hard = rng.random(300)
    found = []
    for name, refuses in (("careful-4.1", 0.8), ("bold", 2.0)):
        rows = []
        for k in rng.permutation(300):
            right = rng.random() > hard[k]
            stated = "" if hard[k] > refuses else round(float(1 - hard[k]), 1)
            answer = "" if hard[k] > refuses else ("A" if right else "B")
            rows.append((k, "A", answer, stated, round(float(1 - hard[k] + 0.3 * rng.normal()), 6)))
        found.append((write(tmp_path, name, rows), rows))
    return found


COLUMNS = ["-c", "labels=truth", "-c", "prediction=answer"]


def run(*arguments: str):
    result = CliRunner().invoke(cli, ["compare", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_refusing_the_hard_questions_is_no_gain(files):
    paths = [path for path, _ in files]
    told = json.loads(run(*paths, *COLUMNS, "-c", "confidence=stated", "--json").stdout)
    assert told["n"] == 300
    for contestant in told["contestants"]:
        rows = next(rows for path, rows in files if Path(path).stem == contestant["name"])
        wrong = np.array([row[2] != "A" for row in rows], float)
        sure = np.array([-1.0 if row[2] == "" else float(row[3]) for row in rows])
        assert contestant["estimate"] == pytest.approx(by_definition(wrong, sure), abs=1e-12)
    shown = run(*paths, *COLUMNS, "-c", "confidence=stated")
    said = " ".join(shown.stdout.split())
    assert "Unanswered questions count as wrong and are ranked last" in said
    assert f"careful-4.1 {np.mean([row[2] == '' for row in files[0][1]]):.1%}" in said


def test_the_other_view_can_be_asked_for(files):
    paths = [path for path, _ in files]
    asked = [*paths, *COLUMNS, "-c", "confidence=stated", "--unanswered", "abstained", "--json"]
    told = {c["name"]: c["estimate"] for c in json.loads(run(*asked).stdout)["contestants"]}
    rows = [row for row in files[0][1] if row[2] != ""]
    wrong, sure = np.array([row[2] != "A" for row in rows], float), np.array([float(row[3]) for row in rows])
    assert told["careful-4.1"] == pytest.approx(by_definition(wrong, sure), abs=1e-12)


def test_each_confidence_is_a_contestant(files):
    paths = [path for path, _ in files]
    told = json.loads(run(*paths, *COLUMNS, "-c", "confidence=stated,tokens", "--json").stdout)
    names = {f"{model} / {signal}" for model in ("careful-4.1", "bold") for signal in ("stated", "tokens")}
    assert {c["name"] for c in told["contestants"]} == names


def test_questions_in_another_order_are_paired(files):
    """The same file twice, one of them shuffled: no difference at all."""
    path, rows = files[1]
    mixed = [rows[k] for k in np.random.default_rng(1).permutation(len(rows))]
    other = write(Path(path).parent, "shuffled", mixed)
    told = json.loads(run(path, other, *COLUMNS, "-c", "confidence=tokens", "--json").stdout)
    assert told["pairs"][0]["difference"] == 0
    assert told["pairs"][0]["standard_error"] == 0


def test_the_page(files, tmp_path):
    page = tmp_path / "board.html"
    run(
        *[p for p, _ in files],
        *COLUMNS,
        "-c",
        "confidence=stated,tokens",
        "--html",
        str(page),
        "--title",
        "Two",
    )
    html = page.read_text()
    data = json.loads(html.split('<script type="application/json" id="data">')[1].split("</script>")[0])
    assert "<title>Two</title>" in html
    assert "Data: 300 questions." in html  # the files name no task, and their folder is none
    assert data["columns"] == [
        "accuracy %",
        "risk of the most confident 80%",
        "unanswered %",
        "AURC, answered only",
        "calibration error %",
        "score at 0.5",
        "score at 0.75",
        "score at 0.9",
    ]
    careful = next(m for m in data["models"] if m["name"] == "careful-4.1 / stated")
    rows = files[0][1]
    refused = np.array([row[2] == "" for row in rows])
    assert careful["more"][2] == pytest.approx(refused.mean())
    kept = [row for row in rows if row[2] != ""]
    wrong, sure = np.array([r[2] != "A" for r in kept], float), np.array([float(r[3]) for r in kept])
    assert careful["more"][3] == pytest.approx(by_definition(wrong, sure), abs=1e-12)


def page_data(path: Path) -> dict:
    return json.loads(
        path.read_text().split('<script type="application/json" id="data">')[1].split("</script>")[0]
    )


@pytest.mark.parametrize("more", [[], ["--unanswered", "abstained"], ["--unanswered", "wrong"]])
def test_compare_and_report_count_refusals_alike_and_say_it(files, tmp_path, more):
    """Areas and what is said of the refused questions are the same on the screen, on the board and in the report."""
    paths = [path for path, _ in files]
    stated = [*COLUMNS, "-c", "confidence=stated", *more]
    told = json.loads(run(*paths, *stated, "--json", "--html", str(tmp_path / "board.html")).stdout)
    areas = {c["name"]: c["estimate"] for c in told["contestants"]}
    written = CliRunner().invoke(cli, ["report", *paths, *stated, "-o", str(tmp_path / "page.html")])
    assert written.exit_code == 0, written.output
    for row in page_data(tmp_path / "page.html")["forest"]:
        assert row["estimate"] == pytest.approx(areas[row["model"]], rel=1e-9)
    meaning = "count as abstentions" if "abstained" in more else "count as wrong and are ranked last"
    share = f"careful-4.1 {np.mean([row[2] == '' for row in files[0][1]]):.1%}"
    screen = " ".join(run(*paths, *stated).stdout.split())
    for said in (screen, (tmp_path / "board.html").read_text(), (tmp_path / "page.html").read_text()):
        assert f"Unanswered questions {meaning}" in said
        assert share in said


@pytest.fixture
def refusing_classifiers(tmp_path) -> dict[str, list[str]]:
    """Two models that may choose class E, no answer: as logits, and as answers with the max softmax beside them."""
    rng = np.random.default_rng(4)
    labels = rng.integers(0, 3, 400)
    written: dict[str, list[str]] = {"logits": [], "answers": []}
    for name, pull in (("timid", 1.0), ("bold", -1.0)):
        logits = np.round(rng.normal(size=(400, 4)) + 1.5 * np.eye(4)[labels] + [0, 0, 0, pull], 3)
        probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        chosen = logits.argmax(axis=1)
        np.savez(tmp_path / f"{name}.npz", logits=logits, labels=labels, classes=list("ABCE"))
        rows = [
            f"{'ABCE'[y]},{'ABCE'[z]},{p!r}" for y, z, p in zip(labels, chosen, probs.max(axis=1).tolist())
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(["truth,answer,sure", *rows]) + "\n")
        written["logits"].append(str(tmp_path / f"{name}.npz"))
        written["answers"].append(str(tmp_path / f"{name}.csv"))
    return written


@pytest.mark.parametrize("more", [[], ["--unanswered", "abstained"], ["--metric", "accuracy"]])
def test_a_class_that_means_abstention_counts_as_an_answer_in_words_does(refusing_classifiers, more):
    """Logits with a class of refusals give the numbers of the same answers in a table."""
    answer_columns = [*COLUMNS, "-c", "confidence=sure"]
    told = {
        kind: json.loads(run(*paths, "--refusals", "E", *more, *columns, "--json").stdout)
        for (kind, paths), columns in zip(refusing_classifiers.items(), ([], answer_columns))
    }
    for model, same_model in zip(told["logits"]["contestants"], told["answers"]["contestants"]):
        assert model["name"] == same_model["name"]
        assert model["estimate"] == pytest.approx(same_model["estimate"], rel=1e-9)
        assert model["low"] == pytest.approx(same_model["low"], rel=1e-6)


def test_every_command_counts_a_class_of_refusals_as_it_says(refusing_classifiers, tmp_path):
    paths = refusing_classifiers["logits"]
    refusals = ["--refusals", "E"]
    screen = " ".join(run(*paths, *refusals).stdout.split())
    assert "Unanswered questions count as wrong and are ranked last" in screen
    areas = {
        c["name"]: c["estimate"] for c in json.loads(run(*paths, *refusals, "--json").stdout)["contestants"]
    }
    written = CliRunner().invoke(cli, ["report", *paths, *refusals, "-o", str(tmp_path / "page.html")])
    assert written.exit_code == 0, written.output
    shown = [row for row in page_data(tmp_path / "page.html")["forest"] if row["score"] == "max_softmax"]
    assert len(shown) == 2
    for row in shown:
        assert row["estimate"] == pytest.approx(areas[row["model"]], rel=1e-9)
    wrong = [*refusals, "--unanswered", "wrong"]
    done = CliRunner().invoke(cli, ["evaluate", paths[0], *wrong, "--score", "max_softmax,energy", "--json"])
    table = json.loads(done.stdout)
    area_of_score = {e["score"]: e["estimate"] for e in table["entries"] if e["metric"] == "aurc"}
    assert list(area_of_score) == ["max_softmax", "energy"]
    assert area_of_score["max_softmax"] == pytest.approx(areas["timid"], rel=1e-9)
    calibration = ["--metric", "brier_score", "--json"]
    brier_scores = [
        json.loads(CliRunner().invoke(cli, ["evaluate", paths[0], *rule, *calibration]).stdout)["entries"][0]
        for rule in (refusals, wrong)
    ]
    assert brier_scores[0]["estimate"] == brier_scores[1]["estimate"]  # refusals have no probability
    alone = CliRunner().invoke(cli, ["evaluate", paths[0], *refusals])
    notes = " ".join(alone.output.split())
    assert "not attempted" in notes
    assert (
        f"AURC with unanswered questions as wrong and ranked last: max_softmax {areas['timid']:.4g} ["
        in notes
    )
    rule = str(tmp_path / "rule.json")
    for arguments in (
        ["threshold", paths[0], *wrong, "--risk", "0.45", "--save", rule],
        ["threshold", paths[1], *wrong, "--check", rule],
        ["decide", rule, paths[0], *refusals, "-o", str(tmp_path / "decided.csv")],
    ):
        outcome = CliRunner().invoke(cli, arguments)
        assert outcome.exit_code in (0, 5), outcome.output  # 5: an alarm
    cost = ["--cost", "1,2", "--person-cost", "9", "--person-error", "0", "--risk", "0.4"]
    for arguments, reason in (
        (["evaluate", paths[0], "--unanswered", "wrong"], "every row has an answer"),
        (["cascade", *paths, *wrong, *cost], "the next model of a cascade gets what a model refuses"),
        (["compare", *paths, *refusals, "--loss", "cross_entropy"], "Say --unanswered abstained"),
    ):
        outcome = CliRunner().invoke(cli, arguments)
        assert (outcome.exit_code, reason in " ".join(outcome.output.split())) == (3, True), outcome.output


def test_one_file_is_measured_on_what_it_answered(files, tmp_path):
    """`evaluate`, `compare` of its confidences and `report` give one area, and say how refusals are counted."""
    path = files[0][0]
    stated = [*COLUMNS, "-c", "confidence=stated,tokens"]
    done = CliRunner().invoke(cli, ["evaluate", path, *stated, "--metric", "aurc", "--json"])
    table = json.loads(done.stdout)
    areas = {e["score"]: e["estimate"] for e in table["entries"] if e["group"] is None}
    assert any("taken as abstentions" in note for note in table["notes"])
    told = json.loads(run(path, *stated, "--json").stdout)
    assert {c["name"]: c["estimate"] for c in told["contestants"]} == pytest.approx(areas)
    CliRunner().invoke(cli, ["report", path, *stated, "-o", str(tmp_path / "page.html")])
    page = tmp_path / "page.html"
    assert {row["score"]: row["estimate"] for row in page_data(page)["forest"]} == pytest.approx(areas)
    assert "Unanswered questions count as abstentions" in page.read_text()


def test_a_model_without_the_confidence_is_not_ranked(files, tmp_path):
    """Its answers are all right, so that as one block of ties it would come first."""
    silent = write(tmp_path, "silent", [(k, "A", "A", "", 0.5) for k in range(300)])
    paths = [path for path, _ in files]
    stated = [*COLUMNS, "-c", "confidence=stated"]
    shown = run(*paths, silent, *stated, "--json", "--html", str(tmp_path / "board.html"))
    assert {c["name"] for c in json.loads(shown.stdout)["contestants"]} == {"careful-4.1", "bold"}
    written = CliRunner().invoke(cli, ["report", *paths, silent, *stated, "-o", str(tmp_path / "page.html")])
    assert written.exit_code == 0, written.output
    assert [m["name"] for m in page_data(tmp_path / "page.html")["models"]] == ["careful-4.1", "bold"]
    screen = " ".join(run(*paths, silent, *stated).stdout.split())
    for said in (screen, (tmp_path / "board.html").read_text(), (tmp_path / "page.html").read_text()):
        assert "silent is not ranked: no answer has `stated`" in said
    mute = write(tmp_path, "mute", [(k, "A", "A", "", 0.5) for k in range(300)])
    screen = " ".join(run(*paths, silent, mute, *stated).stdout.split())
    assert "2 models are not ranked (silent, mute): no answer has `stated`." in screen
    alone = CliRunner().invoke(cli, ["compare", paths[0], silent, *stated])
    assert alone.exit_code == 2
    assert "silent is not ranked" in alone.output
    both = run(*paths, silent, *COLUMNS, "-c", "confidence=stated,tokens", "--json")
    names = {c["name"] for c in json.loads(both.stdout)["contestants"]}
    assert "silent / tokens" in names
    assert not {"silent / stated", "silent"} & names
    asked = ["--cost", "1,2", "--person-cost", "9", "--person-error", "0", "--risk", "0.4"]
    refused = CliRunner().invoke(cli, ["cascade", silent, paths[0], *stated, *asked])
    assert (refused.exit_code, "no answer has `stated`" in refused.output) == (3, True)


def test_each_role_is_given_once_and_confidences_add_up(files):
    paths = [path for path, _ in files]
    one = run(*paths, *COLUMNS, "-c", "confidence=stated", "-c", "confidence=tokens", "--json")
    other = run(*paths, *COLUMNS, "-c", "confidence=stated,tokens", "--json")
    assert json.loads(one.stdout) == json.loads(other.stdout)
    for twice in (
        ["-c", "labels=truth", "-c", "y_true=answer"],
        ["-c", "question=question_id", "-c", "question=stated"],
        ["--only", "truth=A", "--only", "truth=B"],
        ["--scale", "percent", "--scale", "fraction"],
        ["--scale", "stated=percent,stated=mixed"],
        ["--grades", "A=right", "--grades", "A=wrong"],
    ):
        refused = CliRunner().invoke(cli, ["evaluate", paths[0], "-c", "confidence=stated", *twice])
        assert refused.exit_code == 2, (twice, refused.output)
        assert "given twice" in refused.output


@pytest.mark.xdist_group("browser")
def test_sixty_eight_models_on_one_page(data_dir, tmp_path):
    """All models of MMLU-Pro by what they stated: quick, and readable in a browser without a complaint."""
    files = sorted(map(str, (data_dir / "llm" / "mmlu_pro").glob("*.parquet")))
    assert len(files) == 68
    page = tmp_path / "board.html"
    columns = [
        "-c",
        "labels=correct_answer",
        "-c",
        "prediction=extracted_answer",
        "-c",
        "question=question_index",
    ]
    more = ["-c", "confidence=verbal_numerical_confidence", "-c", "groups=category", "--html", str(page)]
    started = time.process_time()
    told = json.loads(run(*files, *columns, *more, "--json").stdout)
    assert time.process_time() - started < 90  # reading included, on a machine that does other things
    assert (
        len(told["contestants"]) == 67
    )  # one model answered nothing and states no confidence: it is not ranked
    assert all(c["n"] == 12_032 for c in told["contestants"])
    sync_api = pytest.importorskip("playwright.sync_api")
    path = shutil.which("chromium")
    assert path, "chromium not found: install Debian's package `chromium`"
    complaints: list[str] = []
    with sync_api.sync_playwright() as play:
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = play.chromium.launch(executable_path=path, args=flags)
        opened = browser.new_page()
        opened.on("console", lambda m: complaints.append(m.text))
        opened.on("pageerror", lambda e: complaints.append(str(e)))
        opened.goto(page.as_uri())
        opened.wait_for_selector("#rows tr")
        assert opened.locator("#rows tr").count() == 67
        lead = opened.locator("main > .lead").inner_text() + opened.locator("ul.notes").inner_text()
        assert "Data: 12,032 questions." in lead
        assert "Ranked by the confidence verbal_numerical_confidence." in lead
        assert "phi-4 is not ranked by" in lead
        assert "verdicts depend on how equal confidences are counted." in lead
        opened.locator("#find").fill("gpt-4.1-mini")
        assert opened.locator("#rows tr").count() == 1
        browser.close()
    assert complaints == []


@pytest.mark.parametrize("rule", ["abstained", "wrong"])
def test_no_score_of_abstention_where_refusals_count_as_wrong(tmp_path, rule):
    """Where they count as wrong nobody abstains: a recall of 0% would say that the models never refused."""
    rng = np.random.default_rng(1)
    paths = []
    for name in ("a", "b"):
        rows = ["id,correct,answer,unanswerable"]
        for k in range(200):
            answer = "" if rng.random() < 0.3 else "x"
            right = int(answer != "" and k % 4 != 0 and rng.random() < 0.6)
            rows.append(f"{k},{right if answer else ''},{answer},{int(k % 4 == 0)}")
        paths.append(tmp_path / f"{name}.csv")
        paths[-1].write_text("\n".join(rows) + "\n")
    page = tmp_path / "board.html"
    options = ["--metric", "accuracy", "-c", "prediction=answer", "--unanswered", rule, "--html", str(page)]
    run(*map(str, paths), *options)
    columns = page_data(page)["columns"]
    assert any(column.startswith("abstention recall") for column in columns) == (rule == "abstained")
