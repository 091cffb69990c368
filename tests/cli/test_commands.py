"""Commands: what they print in every form, exit codes, Ctrl-C, options that are wrong."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli


def aurc_by_hand(loss, confidence) -> float:
    """Mean over samples of the mean loss at or above each one's confidence, by brute force."""
    return float(np.mean([np.mean(loss[confidence >= t]) for t in confidence]))


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def call(*arguments: str):
        return CliRunner().invoke(cli, list(arguments), prog_name="abstain")

    return call


@pytest.fixture
def table(tmp_path):
    """2,000 answers, fewer errors where surer, with ties."""
    rng = np.random.default_rng(5)
    confidence = np.round(rng.random(2000), 2)
    wrong = rng.random(2000) < 0.4 * (1 - confidence) ** 2
    group = np.where(rng.random(2000) < 0.5, "law", "maths")
    lines = [
        "correct,confidence,group",
        *[f"{int(not w)},{c},{g}" for w, c, g in zip(wrong, confidence, group)],
    ]
    (tmp_path / "answers.csv").write_text("\n".join(lines))
    return wrong.astype(float), confidence, group


@pytest.fixture
def outputs(tmp_path):
    rng = np.random.default_rng(6)
    labels = rng.integers(0, 5, 400)
    for name, signal_size in (("strong", 3.0), ("weak", 1.0), ("strong2", 3.0)):
        logits = rng.normal(size=(400, 5))
        logits[np.arange(400), labels] += signal_size
        np.savez(tmp_path / f"{name}.npz", logits=logits, labels=labels)
    return labels


def test_evaluate_forms_agree_with_brute_force(run, table):
    wrong, confidence, _ = table
    truth = aurc_by_hand(wrong, confidence)
    quiet = run("evaluate", "answers.csv", "--metrics", "aurc", "--quiet")
    assert quiet.exit_code == 0
    assert float(quiet.output) == pytest.approx(truth, rel=1e-12)
    data = json.loads(run("evaluate", "answers.csv", "--metrics", "aurc,risk", "--json").output)
    by = {(e["metric"], e["group"]): e["estimate"] for e in data["entries"]}
    assert by["aurc", None] == pytest.approx(truth, rel=1e-12)
    assert by["risk", None] == pytest.approx(wrong.mean())
    rows = list(
        csv.DictReader(io.StringIO(run("evaluate", "answers.csv", "--metrics", "aurc", "--csv").output))
    )
    assert float(rows[0]["estimate"]) == pytest.approx(truth, rel=1e-12)
    latex = run("evaluate", "answers.csv", "--metrics", "aurc", "--latex").output
    assert r"\toprule" in latex
    assert f"{truth:.3g}" in latex  # two digits of the standard error
    screen = run("evaluate", "answers.csv").output
    assert f"{truth:.3f}"[:5] in screen


def test_groups_are_shown(run, table):
    wrong, _, group = table
    screen = run("evaluate", "answers.csv", "--metrics", "risk").output
    for name in ("law", "maths"):
        line = next(x for x in screen.splitlines() if x.startswith(name))
        assert f"{wrong[group == name].mean():.3f}"[:5] in line


@pytest.mark.parametrize("command", [
    ["evaluate", "strong.npz"], ["compare", "strong.npz", "weak.npz"], ["threshold", "strong.npz", "--risk", "0.1"],
    ["--help"], ["evaluate", "--help"], ["compare", "--help"], ["threshold", "--help"], ["report", "--help"],
    ["convert", "--help"], ["demo", "--help"], ["gate", "--help"],
])  # fmt: skip
def test_readable_at_80_columns_without_colour(run, outputs, command):
    result = run(*command)
    assert result.exit_code == 0, result.output
    assert "\x1b" not in result.output
    assert max(map(len, result.output.splitlines())) <= 80


def test_ascii_terminals_get_ascii(tmp_path, outputs):
    done = subprocess.run(
        [sys.executable, "-m", "abstain", "evaluate", "strong.npz", "--metrics", "aurc"], cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii", "LC_ALL": "C"}, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout.decode("ascii").count("AURC") >= 2  # both losses


def test_compare_ranks_and_keeps_ties(run, outputs):
    result = run("compare", "weak.npz", "strong.npz", "strong2.npz", "--json")
    data = json.loads(result.output)
    names = [c["name"] for c in data["contestants"]]
    assert names[-1] == "weak"
    groups = {c["name"]: set(c["group"]) for c in data["contestants"]}
    assert groups["strong"] & groups["strong2"]
    assert not groups["strong"] & groups["weak"]
    winners = run("compare", "weak.npz", "strong.npz", "strong2.npz", "--quiet").output.split()
    assert sorted(winners) == ["strong", "strong2"]


def test_compare_refuses_other_samples(run, tmp_path, outputs):
    other = np.load(tmp_path / "weak.npz")
    np.savez(tmp_path / "other.npz", logits=other["logits"][::-1], labels=other["labels"][::-1])
    result = run("compare", "strong.npz", "other.npz")
    assert result.exit_code == 3
    assert "--unpaired" in result.output
    assert run("compare", "strong.npz", "other.npz", "--unpaired").exit_code == 0


def test_compare_models_that_refuse(run, tmp_path):
    """A refusal is never accepted: the area of each model is over what it answered."""
    rng = np.random.default_rng(3)
    truth = {}
    for name in ("gpt", "claude"):
        confidence, away = rng.random(500), rng.random(500) < (0.2 if name == "gpt" else 0)
        wrong = rng.random(500) < 0.4 * (1 - confidence)
        rows = [f"{int(not w)},{c},{int(a)}" for w, c, a in zip(wrong, confidence, away)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["correct,confidence,abstained", *rows]))
        truth[name] = aurc_by_hand(wrong[~away], confidence[~away])
    data = json.loads(run("compare", "gpt.csv", "claude.csv", "--json").stdout)
    assert {c["name"]: c["estimate"] for c in data["contestants"]} == pytest.approx(truth, rel=1e-12)
    assert "gpt answered" in run("compare", "gpt.csv", "claude.csv").output
    assert run("report", "gpt.csv", "claude.csv", "-q").exit_code == 0


def test_compare_scores_of_one_model(run, outputs):
    result = run("compare", "strong.npz", "--scores", "max_softmax,max_logit", "--json")
    assert sorted(c["name"] for c in json.loads(result.output)["contestants"]) == ["max_logit", "max_softmax"]
    assert run("compare", "strong.npz").exit_code == 2


def test_threshold_keeps_its_word(run, table, tmp_path):
    wrong, confidence, _ = table
    result = run("threshold", "answers.csv", "--risk", "0.1", "--json", "--save", "rule.json")
    assert result.exit_code == 0
    data = json.loads(result.stdout)
    accepted = confidence >= data["value"]
    assert data["coverage"] == pytest.approx(accepted.mean())
    assert data["risk"] == pytest.approx(wrong[accepted].mean())
    assert data["risk"] < 0.1
    assert json.loads((tmp_path / "rule.json").read_text())["value"] == data["value"]
    header, *rows = (tmp_path / "answers.csv").read_text().splitlines()
    (tmp_path / "later.csv").write_text("\n".join([header, *rows[::2]]))
    assert run("threshold", "later.csv", "--check", "rule.json", "--quiet").output.strip() == "holds"
    assert float(run("threshold", "answers.csv", "--risk", "0.1", "--quiet").output) == data["value"]


def test_no_feasible_threshold_is_exit_code_4(run, table):
    result = run("threshold", "answers.csv", "--risk", "0.0001")
    assert result.exit_code == 4
    assert "No feasible threshold" in result.output
    assert run("threshold", "answers.csv", "--risk", "0.0001", "--quiet").output.strip() == "none"


def test_threshold_for_losses_of_another_range(run, tmp_path):
    rng = np.random.default_rng(0)
    g = rng.random(3000)
    loss = 10 * rng.random(3000) * (1 - g)
    (tmp_path / "l.csv").write_text("\n".join(["loss,confidence", *[f"{a},{b}" for a, b in zip(loss, g)]]))
    assert run("threshold", "l.csv", "--risk", "3").exit_code == 2
    assert run("threshold", "l.csv", "--risk", "0.5").exit_code == 3
    value = float(run("threshold", "l.csv", "--risk", "2", "--bounded", "0", "10", "--quiet").output)
    assert loss[g >= value].mean() < 2


def test_threshold_per_group(run, table):
    result = run("threshold", "answers.csv", "--risk", "0.15", "--per-group", "--csv")
    assert [row["group"] for row in csv.DictReader(io.StringIO(result.output))] == ["law", "maths"]


@pytest.mark.parametrize("arguments", [
    ["evaluate"], ["evaluate", "nowhere.csv"], ["evaluate", "answers.csv", "--metrics", "area"],
    ["evaluate", "answers.csv", "--level", "95"], ["evaluate", "answers.csv", "-c", "confidence"],
    ["evaluate", "answers.csv", "-c", "colour=red"], ["evaluate", "answers.csv", "--memory", "lots"],
    ["threshold", "answers.csv"], ["threshold", "answers.csv", "--risk", "5"], ["threshold", "answers.csv", "--risk", "0.1", "--cost", "1"], ["evaluat", "x"],
    ["convert", "answers.csv", "answers.doc"], ["evaluate", "answers.csv", "--metrics", "aurc:best"],
])  # fmt: skip
def test_usage_is_exit_code_2(run, table, arguments):
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output


def test_missing_package_prints_the_install_line(run, tmp_path, monkeypatch):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    result = run("evaluate", "a.parquet")
    assert result.exit_code == 2
    assert "pip install '.[files]'" in result.output


def test_convert_there_and_back(run, outputs, tmp_path):
    assert run("convert", "strong.npz", "x.parquet").exit_code == 0
    assert run("convert", "x.parquet", "y.npz").exit_code == 0
    np.testing.assert_array_equal(
        np.load(tmp_path / "y.npz")["logits"], np.load(tmp_path / "strong.npz")["logits"]
    )


def test_output_file_is_whole(run, table, tmp_path):
    result = run("evaluate", "answers.csv", "--json", "-o", "out.json")
    assert result.exit_code == 0
    assert json.loads((tmp_path / "out.json").read_text())["n"] == 2000
    assert run("evaluate", "answers.csv", "--json", "-o", "no/such/out.json").exit_code == 3


def test_preview_says_how_a_file_is_read(run, table):
    output = run("evaluate", "answers.csv", "--preview").output
    assert "read as confidence, 2,000 samples" in output
    assert "correct" in output


def test_large_bare_tables_give_the_same_number(run, tmp_path):
    """Above a million rows a shorter road is taken: it must end at the same place."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    import abstain

    rng = np.random.default_rng(0)
    confidence, loss = rng.random(1_000_001), rng.random(1_000_001)
    pq.write_table(pa.table({"confidence": confidence, "loss": loss}), tmp_path / "big.parquet")
    data = json.loads(run("evaluate", "big.parquet", "--metrics", "aurc,augrc", "--json").output)
    found = {e["metric"]: e for e in data["entries"]}
    assert found["aurc"]["estimate"] == pytest.approx(abstain.aurc(loss, confidence), rel=1e-12)
    assert found["augrc"]["estimate"] == pytest.approx(abstain.augrc(loss, confidence), rel=1e-12)
    assert found["aurc"]["low"] < found["aurc"]["estimate"] < found["aurc"]["high"]


def test_files_engine_gives_the_same_number(run, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    confidence, loss = np.round(rng.random(5000), 3), (rng.random(5000) < 0.2).astype(float)
    pq.write_table(pa.table({"confidence": confidence, "loss": loss}), tmp_path / "t.parquet")
    ask = ["evaluate", "t.parquet", "--metrics", "aurc", "--quiet"]
    memory, files = run(*ask), run(*ask, "--engine", "files")
    assert files.exit_code == 0, files.output
    assert float(files.output) == pytest.approx(float(memory.output), rel=1e-9)
    sketch = json.loads(run("evaluate", "t.parquet", "--engine", "sketch", "--json").output)["entries"][0]
    assert sketch["low"] <= float(memory.output) <= sketch["high"]


@pytest.mark.parametrize("engine", [[], ["--engine", "files"], ["--engine", "sketch"]])
@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_folder_of_tables_with_a_column_of_right_answers(run, tmp_path, engine, suffix):
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyarrow import csv

    import abstain

    rng = np.random.default_rng(1)
    confidence, correct = np.round(rng.random(3000), 2), rng.random(3000) < 0.8
    (tmp_path / "parts").mkdir()
    for k in range(3):
        some = slice(1000 * k, 1000 * (k + 1))
        table = pa.table({"p": confidence[some], "correct": correct[some].astype(int)})
        write = pq.write_table if suffix == "parquet" else csv.write_csv
        write(table, tmp_path / "parts" / f"{k}.{suffix}")
    found = run("evaluate", "parts", "-c", "confidence=p", "--metrics", "aurc", "--quiet", *engine)
    assert found.exit_code == 0, found.output
    assert float(found.output) == pytest.approx(abstain.aurc(~correct, confidence), rel=1e-9)


@pytest.mark.parametrize("engine", ["files", "dask", "spark", "sketch"])
@pytest.mark.parametrize("column", ["abstained", "cluster"])
def test_an_engine_ignores_no_column_that_would_change_the_number(run, tmp_path, engine, column):
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.table({"confidence": [0.9, 0.8, 0.7], "correct": [1, 0, 1], column: [0, 0, 1]})
    pq.write_table(table, tmp_path / "a.parquet")
    refused = run("evaluate", "a.parquet", "--engine", engine)
    assert refused.exit_code == 2
    assert column in refused.output
    assert "--engine memory" in refused.output


def test_memory_takes_no_folder(run, tmp_path):
    (tmp_path / "parts").mkdir()
    for ask in (
        ["evaluate", "parts", "--engine", "memory"],
        ["evaluate", "parts", "--preview"],
        ["compare", "parts", "parts"],
    ):
        refused = run(*ask)
        assert refused.exit_code == 2
        assert "--engine files" in refused.output
    remedy = "Name a file in it, or read all its logs with `abstain compare`."
    logs = tmp_path / "parts" / "log.jsonl"
    logs.write_text('{"correct": 1}')
    without_tables = run("evaluate", "parts")
    assert without_tables.exit_code == 3
    assert f"'parts' is a folder without tables (.parquet, .pq, .arrow, .feather, .ipc, .csv). {remedy}" in (
        without_tables.output
    )
    (tmp_path / "parts" / "model.csv").write_text("question,correct\na,1\n")
    not_one_table = run("evaluate", "parts")
    assert not_one_table.exit_code == 2
    assert "parts is a folder, which an engine reads as the parts of one table: an engine reads columns" in (
        not_one_table.output
    )
    assert remedy in not_one_table.output


def test_a_report_of_several_models_keeps_the_same_questions(run, tmp_path):
    """Each model lacks the confidence of another answer; left out, they would be different test sets."""
    for place, name in enumerate(("a", "b")):
        rows = [
            f"q{k},A,{'AB'[k % 5 == 0]},{'' if k == 7 + place else (k * (3 + place)) % 60}" for k in range(60)
        ]
        (tmp_path / f"{name}.csv").write_text("question_id,label,prediction,confidence\n" + "\n".join(rows))
    done = run("report", "a.csv", "b.csv", "-o", "page.html")
    assert done.exit_code == 0, done.output
    assert "1 answer has no `confidence` and is ranked last" in done.stderr
    text = (tmp_path / "page.html").read_text()
    assert "on the same 60 samples" in text
    assert "different test sets" not in text


@pytest.mark.parametrize("engine", ["files", "sketch"])
def test_an_engine_tells_that_it_takes_every_row_for_an_answer(run, tmp_path, engine):
    """In memory a row without a prediction is a refusal."""
    (tmp_path / "t.csv").write_text("prediction,correct,confidence\na,1,0.9\n,0,0.8\nb,1,0.7\nb,0,0.6\n")
    asked = ("evaluate", "t.csv", "--metric", "risk", "-q")
    assert float(run(*asked).stdout) == pytest.approx(1 / 3)
    done = run(*asked, "--engine", engine)
    assert "note: Engines do not read `prediction`: a row without a prediction counts" in done.stderr
    refused = run(*asked, "--engine", engine, "--only", "prediction=b")
    assert refused.exit_code == 2
    assert "--only is for files that are read in memory" in refused.stderr


@pytest.mark.parametrize("engine", ["files", "sketch"])
def test_an_engine_says_which_files_it_reads(run, tmp_path, engine):
    np.savez(tmp_path / "a.npz", loss=np.zeros(5), confidence=np.arange(5.0))
    refused = run("evaluate", "a.npz", "--engine", engine)
    assert refused.exit_code in (2, 3)
    assert "Parquet, Arrow" in refused.output


SAYS_WHEN_IT_WORKS = """
import abstain.cli.report as command
from abstain.cli import main
gather = command.gather
command.gather = lambda *given, **how: print("at work", flush=True) or gather(*given, **how)
main(["report", "a.npz", "-o", "out.html"])
"""


def test_interrupt_leaves_no_half_file(tmp_path):
    """Ctrl-C while a report of many samples is being made: no page, no temporary neighbour."""
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", logits=rng.normal(size=(300_000, 10)), labels=rng.integers(0, 10, 300_000))
    work = subprocess.Popen(
        [sys.executable, "-c", SAYS_WHEN_IT_WORKS],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert work.stdout.readline() == b"at work\n"
    time.sleep(0.3)
    work.send_signal(signal.SIGINT)
    _, err = work.communicate(timeout=60)
    assert work.returncode == 1
    assert b"Traceback" not in err
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]


def test_module_and_completion(tmp_path):
    version = subprocess.run(
        [sys.executable, "-m", "abstain", "--version"], capture_output=True, text=True, check=True
    )
    assert version.stdout.startswith("abstain")
    script = subprocess.run(
        [sys.executable, "-c", "from abstain.cli import main; main()"], capture_output=True, text=True,
        env={**os.environ, "_ABSTAIN_COMPLETE": "bash_source"}, check=False,
    )  # fmt: skip
    assert "complete" in script.stdout


def test_help_needs_no_numpy():
    code = "import sys; from abstain.cli import cli; cli(['--help'], standalone_mode=False); print('numpy' in sys.modules, 'rich' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False False"


def test_help_is_quick():
    """At most four times what importing click costs (best of five each: the machine may be busy)."""

    def best(*command: str) -> float:
        times = []
        for _ in range(5):
            began = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            times.append(time.perf_counter() - began)
        return min(times)

    assert best(sys.executable, "-m", "abstain", "--help") < 4 * best(sys.executable, "-c", "import click")


def test_uncertain_columns_are_previewed_on_a_terminal(tmp_path):
    import pty

    (tmp_path / "t.csv").write_text("correct,confidence,conf\n1,0.5,0.21\n0,0.25,0.75\n")
    near, far = pty.openpty()
    work = subprocess.Popen(
        [sys.executable, "-m", "abstain", "evaluate", "t.csv"],
        cwd=tmp_path,
        stdout=far,
        stderr=far,
        close_fds=True,
    )
    os.close(far)
    seen = b""
    try:
        while piece := os.read(near, 4096):
            seen += piece
    except OSError:  # the other end is closed
        pass
    assert work.wait() == 3
    told = seen.decode()
    assert "first values" in told
    assert "0.21, 0.75" in told
    assert "--column confidence=confidence" in told.replace("\r\n", "")


def test_versions(run):
    found = json.loads(run("version", "--json").output)
    assert found["numpy"] == np.__version__


def test_reproduce_forwards(run, monkeypatch):
    commands = []

    def record(command, **settings):
        commands.append(command)
        return subprocess.CompletedProcess(command, returncode=7)

    monkeypatch.setattr(subprocess, "run", record)
    assert run("reproduce", "finetune", "--seeds", "1").exit_code == 7
    assert [command[-5:] for command in commands] == [["-m", "reproduction", "finetune", "--seeds", "1"]]


def reproduce_manifest(folder, package):
    """`abstain reproduce manifest` in a folder with a `reproduction` of its own, by the package under a path."""
    (folder / "reproduction").mkdir()
    (folder / "reproduction" / "__init__.py").touch()
    (folder / "reproduction" / "__main__.py").write_text("def main(arguments):\n    print('not this one')\n")
    call = [sys.executable, "-m", "abstain", "reproduce", "manifest"]
    env = {**os.environ, "PYTHONPATH": str(package)}
    return subprocess.run(call, cwd=folder, env=env, capture_output=True, text=True, check=False)


def test_reproduce_is_found_beside_the_source_and_not_in_the_working_directory(tmp_path):
    done = reproduce_manifest(tmp_path, Path(__file__).parents[2] / "src")
    assert done.returncode == 0, done.stderr
    assert "fig:aurc_p" in done.stdout
    assert "not this one" not in done.stdout


def test_reproduce_of_an_installed_package_says_where_the_experiments_are(tmp_path):
    shutil.copytree(Path(abstain.__file__).parent, tmp_path / "site" / "abstain")
    done = reproduce_manifest(tmp_path, tmp_path / "site")
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "checkout of its repository" in done.stderr


def test_markup_in_names_is_text(run, tmp_path):
    (tmp_path / "[red]x.csv").write_text(
        "correct,confidence,group\n1,0.5,[bold]b\n0,0.25,[bold]b\n1,0.1,[/]\n0,.2,[/]\n"
    )
    output = run("evaluate", "[red]x.csv", "--metrics", "risk").output
    assert "[red]x" in output
    assert "[bold]b" in output
    assert "[/]" in output


@pytest.mark.parametrize(("data", "best"), [("cifar10", "tuned by AURC"), ("digits", "neural-network")])
def test_demo(run, tmp_path, data, best):
    began = time.process_time()
    result = run("demo", "--data", data)
    assert result.exit_code == 0, result.output
    assert (
        best
        in result.output.splitlines()[
            next(k for k, x in enumerate(result.output.splitlines()) if x.startswith("─")) + 1
        ]
    )
    assert "With probability at least 0.95" in result.output
    assert max(map(len, result.output.splitlines())) <= 80
    assert 100_000 < (tmp_path / "abstain-demo.html").stat().st_size < 2_500_000
    assert time.process_time() - began < 10  # CPU seconds: other tests may run beside this one


def test_a_sketch_refuses_groups(run, table):
    done = run("evaluate", "answers.csv", "--engine", "sketch")
    assert done.exit_code == 2
    assert "a sketch has no groups" in done.output


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_no_memory_is_too_small_for_a_table_that_an_engine_reads(ending, tmp_path):
    """Where the values prove too large while they are read, the table goes to the engine of files, as the help says."""
    pa = pytest.importorskip("pyarrow")
    from pyarrow import csv, parquet

    rng = np.random.default_rng(0)
    table = pa.table({"confidence": rng.random(30_000), "correct": rng.random(30_000) < 0.9})
    path = tmp_path / f"answers.{ending}"
    write = csv.write_csv if ending == "csv" else parquet.write_table
    write(table, path)
    answers = {
        size: CliRunner().invoke(cli, ["evaluate", str(path), "--memory", size, "--quiet"])
        for size in ("1KB", "300KB", "1MB", "2MB", "3MB", "4MB", "6MB", "10MB", "100MB")
    }
    assert {size: answer.exit_code for size, answer in answers.items()} == dict.fromkeys(answers, 0)
    values = [float(answer.output) for answer in answers.values()]
    assert values == pytest.approx([values[-1]] * len(values), rel=1e-12)
    refused = CliRunner().invoke(cli, ["evaluate", str(path), "--memory", "300KB", "--engine", "memory"])
    assert refused.exit_code != 0
    assert "raise the limit with --memory" in refused.output


@pytest.mark.parametrize("engine", ["memory", "files"])
def test_weights_are_repetitions_only_if_stated(engine, tmp_path):
    path = tmp_path / "answers.csv"
    path.write_text("confidence,correct,weight\n.9,1,2\n.8,0,1\n.7,1,3\n.6,0,1\n")
    call = ["evaluate", str(path), "--metric", "aurc:loo", "--quiet", "--engine", engine]
    refused = CliRunner().invoke(cli, call)
    assert refused.exit_code != 0
    assert "repetitions" in refused.output
    stated = CliRunner().invoke(cli, [*call, "--repetitions"])
    written_out = abstain.aurc([0, 0, 1, 0, 0, 0, 1], [0.9, 0.9, 0.8, 0.7, 0.7, 0.7, 0.6], estimator="loo")
    assert float(stated.output) == pytest.approx(written_out)


def weighted_tables(folder):
    """Two CSV tables of the same 60 samples with whole weights; loss and confidence of the first, written out."""
    rng = np.random.default_rng(0)
    weight = rng.integers(1, 4, 60)
    written_out = None
    for name in ("a", "b"):
        confidence = rng.permutation(60) / 60
        loss = (rng.random(60) > confidence).astype(int)
        rows = [f"{row},{confidence[row]},{loss[row]},{weight[row]}" for row in range(60)]
        (folder / f"{name}.csv").write_text("\n".join(["id,confidence,loss,weight", *rows, ""]))
        written_out = written_out or (np.repeat(loss, weight), np.repeat(confidence, weight))
    return [str(folder / "a.csv"), str(folder / "b.csv")], written_out


@pytest.mark.parametrize("engine", ["memory", "files"])
def test_a_comparison_takes_weights_for_repetitions_only_if_stated(engine, tmp_path):
    tables, written_out = weighted_tables(tmp_path)
    call = ["compare", *tables, "--metric", "aurc:loo", "--engine", engine, "--json"]
    refused = CliRunner().invoke(cli, call)
    assert refused.exit_code != 0
    assert "repetitions" in refused.output
    stated = CliRunner().invoke(cli, [*call, "--repetitions"])
    assert stated.exit_code == 0, stated.output
    contestants = json.loads(stated.stdout)["contestants"]
    estimates = {contestant["name"]: contestant["estimate"] for contestant in contestants}
    assert estimates["a"] == pytest.approx(abstain.aurc(*written_out, estimator="loo"))


def test_a_report_takes_weights_for_repetitions_only_if_stated(tmp_path):
    tables, _ = weighted_tables(tmp_path)
    pages = {}
    for flags in ((), ("--repetitions",)):
        path = tmp_path / "page.html"
        answer = CliRunner().invoke(cli, ["report", *tables, "-o", str(path), *flags])
        assert answer.exit_code == 0, answer.output
        pages[flags] = path.read_text(encoding="utf-8")
        path.unlink()
    assert "leave-one-out" not in pages[()]
    assert "leave-one-out" in pages["--repetitions",]


def test_the_command_alone_says_where_to_begin(run):
    result = run()
    assert result.exit_code == 0
    assert "abstain demo" in result.output
    listed = [line.split()[1] for line in result.output.splitlines() if line.startswith("  abstain ")]
    assert set(listed) <= set(cli.list_commands(None))
    assert max(map(len, result.output.splitlines())) <= 80


def test_the_demo_writes_its_files_and_the_next_commands_run_on_them(run, tmp_path):
    result = run("demo", "--copy", "new/folder")
    assert result.exit_code == 0, result.output
    names = ["cifar10_resnet18_aurc.npz", "cifar10_resnet18_ce.npz"]
    assert [path.name for path in sorted((tmp_path / "new/folder").iterdir())] == names
    assert not (tmp_path / "abstain-demo.html").exists()
    for name in names:
        bundled = Path(abstain.__file__).parent / "data" / name
        assert (tmp_path / "new/folder" / name).read_bytes() == bundled.read_bytes()
    commands = [line for line in result.stderr.splitlines() if line.startswith("  abstain ")]
    assert len(commands) == 3
    for line in commands:
        assert run(*line.split()[1:]).exit_code == 0, line


def test_a_folder_that_cannot_be_made_is_one_line(run, tmp_path):
    (tmp_path / "file").write_text("")
    result = run("demo", "--copy", "file/folder")
    assert result.exit_code == 3
    assert result.output.count("\n") == 1


def test_evaluate_says_what_to_run_next(run, table):
    result = run("evaluate", "answers.csv", "--metric", "aurc,risk")
    commands = [line.split()[1:] for line in result.stderr.splitlines() if line.startswith("  abstain ")]
    assert [words[0] for words in commands] == ["threshold", "report", "evaluate"]
    wrong, _confidence, _group = table
    risk = float(commands[0][commands[0].index("--risk") + 1])
    assert risk == pytest.approx(wrong.mean() / 2, rel=0.5)
    for words in commands:
        assert run(*words).exit_code == 0, words
    assert "next:" not in result.stdout
    for option in (["--json"], ["--quiet"], ["-o", "table.txt"]):
        assert "next:" not in run("evaluate", "answers.csv", *option).stderr


def test_describe_says_what_to_run_next(run, table):
    result = run("describe", "answers.csv")
    commands = [line.split()[1:] for line in result.output.splitlines() if line.startswith("  abstain ")]
    assert [words[0] for words in commands] == ["evaluate", "threshold", "report"]
    for words in commands:
        assert run(*words).exit_code == 0, words


def test_compare_names_the_loss_and_the_score_of_files(run, outputs):
    result = json.loads(run("compare", "weak.npz", "strong.npz", "--json").output)
    assert (result["loss"], result["score"]) == ("zero_one", "max_softmax")
    assert any("includes accuracy" in note and "AUROC" in note for note in result["notes"])
    several = json.loads(
        run("compare", "weak.npz", "strong.npz", "--score", "energy,max_softmax", "--json").output
    )
    assert (several["loss"], several["score"]) == ("zero_one", "")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("evaluate strong.npz weak.npz", "To rank several: abstain compare strong.npz weak.npz"),
        ("compare strong.npz weak.npz --metric aurc,augrc", "takes one name here, got aurc,augrc"),
        ("compare strong.npz weak.npz --loss zero_one,brier", "takes one name here"),
        ("report strong.npz --score max_softmax,max_logit -o p.html", "takes one name here"),
        ("compare strong.npz weak.npz --names a,a", "different names, got a twice"),
        ("compare strong.npz weak.npz --names a", "2 names, one for each file, got 1"),
    ],
)
def test_one_thing_where_several_are_given_says_what_to_do(run, outputs, command, message):
    result = run(*command.split())
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize(
    "command", ["evaluate strong.npz", "compare strong.npz --score max_softmax,max_logit"]
)
def test_a_latex_table_of_one_model_names_it(run, outputs, command):
    result = run(*command.split(), "--latex")
    assert result.exit_code == 0, result.output
    assert r"\caption{strong: " in result.stdout
