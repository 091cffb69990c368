"""Costs from the log: tokens, dollars and seconds of each answer as the cost of a stage of a cascade."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.formats import open_source, read_predictions

N = 600
RNG = np.random.default_rng(5)
SURE = RNG.random(N)
SMALL = (RNG.random(N) < SURE).astype(int)
LARGE = (RNG.random(N) < 0.5 + SURE / 2).astype(int)
TOKENS = RNG.integers(5, 50, N)


def evaleval(path: Path, right: np.ndarray, tokens: np.ndarray) -> Path:
    records = [
        {"sample_id": f"q{k}", "evaluation_id": "e", "evaluation": {"is_correct": bool(r), "score": float(s)},
         "token_usage": {"total_tokens": int(t)}}
        for k, (r, s, t) in enumerate(zip(right, SURE, tokens))
    ]  # fmt: skip
    path.write_text("\n".join(map(json.dumps, records)))
    return path


def run(*arguments: object):
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


@pytest.fixture
def files(tmp_path) -> list[Path]:
    return [
        evaleval(tmp_path / "small.jsonl", SMALL, TOKENS),
        evaleval(tmp_path / "large.jsonl", LARGE, 3 * TOKENS),
    ]


PERSON = ["--person-cost", 2000, "--person-error", 0, "--risk", 0.3, "-c", "confidence=score", "--json"]


def test_tokens_are_the_cost_of_each_answer(files):
    shown = run("cascade", *files, "--cost", "0.5*tokens,tokens", *PERSON)
    rule = json.loads(shown.stdout)
    stages = {
        "small": (1 - SMALL, SURE, 0.5 * TOKENS),
        "large": (1 - LARGE, SURE, 3.0 * TOKENS),
    }
    want = abstain.cascade(stages, person=(2000, 0), risk=0.3, unit="tokens", rng=0)
    assert (rule["cost"], rule["unit"]) == (pytest.approx(want.cost, rel=1e-12), "tokens")


def test_one_column_for_all_models_and_a_number_beside_a_column(files):
    both = json.loads(run("cascade", *files, "--cost", "tokens", *PERSON).stdout)
    stages = {"small": (1 - SMALL, SURE, TOKENS), "large": (1 - LARGE, SURE, 3.0 * TOKENS)}
    want = abstain.cascade(stages, person=(2000, 0), risk=0.3, rng=0).cost
    assert both["cost"] == pytest.approx(want, rel=1e-12)
    mixed = json.loads(run("cascade", *files, "--cost", "7,tokens", *PERSON).stdout)
    stages["small"] = (1 - SMALL, SURE, 7)
    want = abstain.cascade(stages, person=(2000, 0), risk=0.3, rng=0).cost
    assert (mixed["cost"], mixed["unit"]) == (pytest.approx(want, rel=1e-12), "")


def test_costs_that_are_missing_or_misspelt_are_refused(files, tmp_path):
    records = files[0].read_text().splitlines()
    files[0].write_text("\n".join([records[0].replace("total_tokens", "other"), *records[1:]]))
    shown = run("cascade", *files, "--cost", "tokens", *PERSON)
    assert shown.exit_code != 0
    assert "1 row has no number in `tokens`, first row 1" in shown.output
    shown = run("cascade", *files, "--cost", "x*tokens", *PERSON)
    assert "write NUMBER*COLUMN, got 'x*tokens'" in " ".join(shown.output.split())
    shown = run("cascade", *files, "--cost", "tokenz", *PERSON)
    assert "has no column `tokenz` for the cost" in " ".join(shown.output.split())


def test_a_column_of_any_table(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("correct,confidence,usd\n1,0.9,0.5\n0,0.2,0.25\n")
    assert read_predictions(path, columns={"cost": "usd"}).cost.tolist() == [0.5, 0.25]
    assert read_predictions(path).cost is None
    assert "usd" in open_source(path).columns
