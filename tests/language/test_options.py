"""Every reading option is obeyed for every kind of file, or refused in one line; none is ignored."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parent))
from written import helm_run, inspect_json, lines, option_record, promptfoo, text_records, uqlm

import abstain
from abstain.cli import cli
from abstain.errors import AbstainError
from abstain.formats import Limits, Rules, read_predictions

N = 30
RNG = np.random.default_rng(0)
SPLIT = np.where(np.arange(N) % 3 == 0, "test", "train")
LABELS = np.arange(N) % 3
LOGITS = RNG.normal(size=(N, 3)) + 2 * np.eye(3)[LABELS]
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)


def table(path: Path, **columns: Any) -> Path:
    rows = zip(*([str(x) for x in values] for values in columns.values()))
    path.write_text("\n".join([",".join(columns), *(",".join(row) for row in rows)]))
    return path


def write_all(folder: Path) -> dict[str, tuple[Path, dict[str, Any]]]:
    """A file of each kind, with the arguments that read it. Each has what an obeyed option must change."""
    right = (LOGITS.argmax(axis=1) == LABELS).astype(int)
    sure = (100 * PROBS.max(axis=1)).round(3)
    away = (np.arange(N) % 7 == 0).astype(int)
    words = np.array(["no", "yes"])[right]
    gap = [("" if k == 5 else x) for k, x in enumerate(sure)]
    np.savez(folder / "logits.npz", logits=LOGITS, labels=LABELS, split=SPLIT, abstained=away, grade=words)
    np.save(folder / "array.npy", LOGITS)
    np.save(folder / "labels.npy", LABELS)
    uqlm_log = uqlm()
    (folder / "uqlm.json").write_text(json.dumps(uqlm_log))
    table(folder / "right.csv", labels=["yes", "no", "no", "no", "no", "no"])
    texts = text_records()
    for k, record in enumerate(texts):
        record["split"] = k % 2
    (folder / "text.jsonl").write_bytes(lines(texts))
    (folder / "options.jsonl").write_bytes(lines([option_record(k) | {"split": k % 2} for k in range(6)]))
    (folder / "inspect.json").write_text(json.dumps(inspect_json()))
    (folder / "promptfoo.json").write_text(json.dumps(promptfoo(3)))
    off = PROBS * np.where(np.arange(N) == 4, 1.05, 1.0)[:, None]
    return {
        "logits": (folder / "logits.npz", {}),
        "probs": (
            table(folder / "probs.csv", p_0=PROBS[:, 0], p_1=PROBS[:, 1], p_2=PROBS[:, 2], label=LABELS, split=SPLIT,
                  abstained=away, grade=words),
            {},
        ),
        "probs off by 5%": (
            table(folder / "off.csv", p_0=off[:, 0], p_1=off[:, 1], p_2=off[:, 2], label=LABELS, split=SPLIT),
            {},
        ),
        "unnamed array": (folder / "array.npy", {"kind": "logits", "labels": folder / "labels.npy"}),
        "plain": (table(folder / "plain.csv", correct=right, confidence=sure, split=SPLIT, abstained=away), {}),
        "plain with a gap": (table(folder / "gap.csv", correct=right, confidence=gap, split=SPLIT), {}),
        "losses": (table(folder / "loss.csv", loss=1.5 * right, confidence=sure, split=SPLIT, abstained=away), {}),
        "graded": (
            table(folder / "graded.csv", grade=words, confidence=sure, split=SPLIT),
            {"columns": {"correct": "grade"}},
        ),
        "answers": (
            table(folder / "answers.csv", label=LABELS, prediction=[("" if a else p) for a, p in zip(away, LABELS)],
                  confidence=gap, split=SPLIT),
            {},
        ),
        "lm-eval options": (folder / "options.jsonl", {}),
        "lm-eval text": (folder / "text.jsonl", {}),
        "Inspect": (folder / "inspect.json", {}),
        "HELM": (helm_run(folder / "run"), {}),
        "promptfoo": (folder / "promptfoo.json", {}),
        "UQLM": (folder / "uqlm.json", {"labels": folder / "right.csv"}),
    }  # fmt: skip


FIRST = {"lm-eval options": ("acc_norm", "0"), "lm-eval text": ("filter", "loose"), "Inspect": ("other", "1"),
         "HELM": ("exact_match", "1"), "promptfoo": ("prompt", "p1"), "UQLM": ("answer", "yes")}  # fmt: skip
OPTIONS: dict[str, Any] = {
    "--only": None,  # a column and a value of the file
    "--unanswered": {"rules": Rules(unanswered="wrong")},
    "--missing left_out": {"rules": Rules(missing="left_out")},
    "--missing last": {"rules": Rules(missing="last")},
    "--scale": {"rules": Rules(scale={"": "percent"})},
    "--outside": {"rules": Rules(outside="missing", scale={"": "fraction"})},
    "--outside alone": {"rules": Rules(outside="missing")},
    "--grades": {"rules": Rules(grades={"yes": "wrong", "no": "right"})},
    "--tolerance": {"tolerance": 0.2},
    "--classes": {"classes": ("x", "y", "z")},
    "--labels": None,  # a file of other labels
    "--as": {"kind": "probs"},
    "--format": {"format": "npy"},
    "--memory": {"limits": Limits(memory=50)},
}
RELEVANT = {  # files that are refused without them
    "plain with a gap": ("--missing left_out", "--missing last"),
    "probs off by 5%": ("--tolerance",),
}
NO_CHANGE = {  # what these kinds do anyway
    ("answers", "--missing left_out"),
    *((kind, option) for kind in ("lm-eval options", "lm-eval text", "Inspect", "HELM", "promptfoo", "UQLM", "graded")
      for option in ("--missing left_out", "--missing last")),
    *((kind, "--unanswered") for kind in ("lm-eval options", "promptfoo", "UQLM", "graded")),
    *((kind, "--outside") for kind in ("lm-eval text", "HELM", "UQLM")),  # all within 0 to 1
    ("plain", "--missing left_out"), ("plain", "--missing last"),
    ("losses", "--missing left_out"), ("losses", "--missing last"),
    ("unnamed array", "--format"),  # it is one
    ("logits", "--tolerance"), ("probs", "--tolerance"),  # obeyed: the sums are within it
}  # fmt: skip


def outcome(path: Path, arguments: dict[str, Any]) -> tuple[str, Any]:
    """What is read, as plain values; or the refusal."""
    try:
        read = read_predictions(path, **arguments)
    except AbstainError as error:
        return "refused", str(error)
    names = ("loss", "confidence", "abstained", "labels", "logits", "probs")
    values = [getattr(read, name) for name in names] + list(read.signals.values())
    plain = [None if x is None else np.asarray(x).tolist() for x in values]
    return "read", (read.n, read.classes, json.dumps(plain))


def stated(kind: str, option: str, folder: Path) -> dict[str, Any]:
    """The arguments that state an option."""
    if option == "--only":
        column, value = FIRST.get(kind, ("split", "test"))
        return {"rules": Rules(only={column: value})}
    if option == "--labels":
        other = table(folder / f"other {kind}.csv", labels=(LABELS + 1) % 3)
        return {"labels": other}
    return OPTIONS[option]


@pytest.mark.filterwarnings("ignore:.*divided by their sums")
def test_no_option_is_ignored(tmp_path):
    kinds = write_all(tmp_path)
    found: dict[str, dict[str, str]] = {}
    for kind, (path, arguments) in kinds.items():
        base = {"graded": {"rules": Rules(grades={"yes": "right", "no": "wrong"})}}.get(kind, {})
        without = outcome(path, arguments | base)
        if kind not in ("plain with a gap", "probs off by 5%"):
            assert without[0] == "read", (kind, without)
        for option in OPTIONS:
            if option not in RELEVANT.get(kind, OPTIONS):
                continue
            asked = stated(kind, option, tmp_path)
            if "rules" in asked and base:
                merged = {**vars(base["rules"]), **{k: v for k, v in vars(asked["rules"]).items() if v}}
                asked = {"rules": Rules(**merged)}
            result = outcome(path, arguments | base | asked)
            if (kind, option) in NO_CHANGE:
                found.setdefault(option, {})[kind] = (
                    "refused" if result[0] == "refused" else "nothing to change"
                )
                continue
            assert result != without, f"{option} is ignored for {kind}"
            assert "\n" not in str(result[1])
            found.setdefault(option, {})[kind] = "obeyed" if result[0] == "read" else "refused"
    if "-s" in sys.argv:
        for option, row in found.items():
            print(option, row)
    for kind, result in found["--only"].items():  # an array without a name has no other column
        assert result == ("refused" if kind == "unnamed array" else "obeyed"), kind
    assert found["--grades"]["logits"] == found["--grades"]["probs"] == "refused"
    assert (
        found["--missing left_out"]["plain with a gap"]
        == found["--missing last"]["plain with a gap"]
        == "obeyed"
    )


def test_a_price_is_obeyed_or_refused(tmp_path):
    for kind, (path, arguments) in write_all(tmp_path).items():
        flags = flags_of(kind, arguments)
        done = CliRunner().invoke(cli, ["evaluate", str(path), *flags, "--price", "7", "--json"])
        if kind == "losses":
            assert (done.exit_code, "this file has losses" in done.output) == (2, True)
            continue
        assert done.exit_code == 0, (kind, done.output)
        (said,) = [note for note in json.loads(done.stdout)["notes"] if "a wrong answer costing 7" in note]
        if kind == "plain":
            right = LOGITS.argmax(axis=1) == LABELS
            away = np.arange(N) % 7 == 0
            expected = abstain.evaluation.three_way(right & ~away, answered=~away, price=7)
            assert said == f"{expected}."


def test_rows_are_chosen_before_a_threshold_is_certified(tmp_path):
    """The rule must know the chosen rows only: as many, and with their risk."""
    path, _ = write_all(tmp_path)["logits"]
    done = CliRunner().invoke(
        cli, ["threshold", str(path), "--coverage", "0.5", "--only", "split=test", "--json"]
    )
    assert done.exit_code == 0, done.output
    here = (SPLIT == "test") & (np.arange(N) % 7 != 0)
    assert json.loads(done.stdout)["n"] == here.sum()
    refused = CliRunner().invoke(cli, ["threshold", str(path), "--coverage", "0.5", "--grades", "yes=right"])
    assert (refused.exit_code, "--grades has no effect here" in refused.output) == (3, True)


@pytest.mark.parametrize(
    "flags", [["-c", "question=split"], ["-c", "prediction=grade"], ["-c", "correct=abstained"]]
)
def test_a_stated_column_that_would_not_be_used_is_refused(tmp_path, flags):
    path, _ = write_all(tmp_path)["logits"]
    done = CliRunner().invoke(cli, ["evaluate", str(path), *flags])
    assert done.exit_code == 3
    assert "has no effect here" in done.output


def test_a_stated_verdict_counts(tmp_path):
    """Beside logits, beside another verdict, in memory and by an engine; two of them are refused."""
    right = (LOGITS.argmax(axis=1) == LABELS).astype(int)
    sure = RNG.random(N).round(6)
    np.savez(tmp_path / "t.npz", logits=LOGITS, labels=LABELS, mine=1 - right, sure=sure)
    read = read_predictions(tmp_path / "t.npz", columns={"correct": "mine", "confidence": "sure"})
    assert (read.kind, read.loss.tolist(), read.confidence.tolist()) == (
        "confidence",
        right.tolist(),
        sure.tolist(),
    )
    path = table(tmp_path / "t.csv", correct=right, cost=2 * right, confidence=sure)
    assert read_predictions(path, columns={"loss": "cost"}).loss.tolist() == (2 * right).tolist()
    found = [
        json.loads(
            CliRunner().invoke(cli, ["evaluate", str(path), *more, "--metric", "aurc", "--json"]).stdout
        )
        for more in (["-c", "loss=cost"], ["-c", "loss=cost", "--engine", "files"], [], ["--engine", "files"])
    ]
    areas = [table["entries"][0]["estimate"] for table in found]
    assert areas[0] == pytest.approx(areas[1])
    assert areas[2] == pytest.approx(areas[3])
    assert areas[0] != pytest.approx(areas[2])
    with pytest.raises(AbstainError, match="correct and loss both say"):
        read_predictions(path, columns={"loss": "cost", "correct": "correct"})


@pytest.mark.parametrize(
    "flags", [["--tolerance", "0"], ["--as", "logits"], ["--price", "2"], ["-c", "labels=correct"]]
)
def test_an_engine_refuses_what_it_does_not_read(tmp_path, flags):
    path = table(tmp_path / "t.csv", correct=np.arange(N) % 2, confidence=np.arange(N) / N)
    done = CliRunner().invoke(cli, ["evaluate", str(path), "--engine", "files", *flags])
    assert done.exit_code == 2, done.output


def suggested(path: Path, flags: list[str]) -> list[str] | None:
    """What `describe` suggests for a file; each must give a table when it is typed."""
    described = CliRunner().invoke(cli, ["describe", str(path), *flags, "--json"])
    if described.exit_code == 3:  # no file of answers at all, such as a summary
        return None
    assert described.exit_code == 0, described.output
    commands = json.loads(described.stdout)["commands"]
    for command in commands:
        done = CliRunner().invoke(cli, shlex.split(command)[1:])
        assert done.exit_code == 0, (command, done.output)
        assert "AURC" in done.output or "accuracy" in done.output  # which needs no confidence
    return commands


def flags_of(kind: str, arguments: dict[str, Any]) -> list[str]:
    """The arguments that read a file, as flags."""
    flags = [f for role, name in arguments.get("columns", {}).items() for f in ("-c", f"{role}={name}")]
    if "labels" in arguments:
        flags += ["--labels", str(arguments["labels"])]
    if "kind" in arguments:
        flags += ["--as", arguments["kind"]]
    more = {"graded": ["--grades", "yes=right,no=wrong"], "plain with a gap": ["--missing", "left_out"]}
    return flags + more.get(kind, []) + (["--tolerance", "0.06"] if kind == "probs off by 5%" else [])


def test_what_describe_suggests_works(tmp_path):
    for kind, (path, arguments) in write_all(tmp_path).items():
        assert suggested(path, flags_of(kind, arguments)), kind
        suggested(path, [])  # nothing, or something that works
    unclear = table(tmp_path / "unclear.csv", a=[1, 0], b=[0.5, 0.25])
    assert suggested(unclear, []) == []
    said = CliRunner().invoke(cli, ["describe", str(unclear)]).output
    assert "-c correct=NAME -c confidence=NAME" in " ".join(said.split())


@pytest.mark.data
def test_what_describe_suggests_for_real_logs_works(data_dir):
    paths = [
        p
        for p in sorted((data_dir / "llm" / "raw_logs").rglob("*"))
        if p.suffix in (".eval", ".json", ".jsonl")
    ]
    found = [suggested(path, []) for path in paths]
    counts = [len(commands) for commands in found if commands is not None]
    assert len(counts) >= 30
    assert sum(counts) >= 8


def test_a_table_by_group_names_its_signal(tmp_path):
    path = table(tmp_path / "t.csv", correct=np.arange(N) % 2, sure=RNG.random(N), group=np.arange(N) % 3)
    done = CliRunner().invoke(cli, ["evaluate", str(path), "-c", "confidence=sure"])
    assert "AURC by confidence" in done.output or "AURC by sure" in done.output
