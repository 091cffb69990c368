"""One vocabulary: a flag is the argument of the Python function with dashes, in the singular; a role of a column is
an argument."""

from __future__ import annotations

import inspect

import click
import numpy as np
import pytest
from click.testing import CliRunner

import abstain
from abstain.cli import cli
from abstain.errors import InputError
from abstain.formats import ROLES, Limits, Rules, read_predictions
from abstain.report import gather, page

ANSWERS = set(Rules.__dataclass_fields__)
READING = {"column", "as", "confidence"} | {"labels", "classes", "format", "tolerance", "memory"} | ANSWERS
OUTPUT = {"json", "csv", "latex", "quiet", "output"}
OWN = {  # flags that say how the command works, not what is computed
    "evaluate": {"preview", "engine", "price"},
    "compare": {"by", "names", "engine", "unpaired", "html", "title", "state"},
    "threshold": {"score", "save", "record", "check", "state", "loss"},
    "report": {"names", "open"},
}
FUNCTIONS = {
    "evaluate": [abstain.evaluate],
    "compare": [abstain.compare],
    "threshold": [abstain.select_threshold],
    "report": [gather, page],
}


def flags(name: str) -> set[str]:
    """The first spelling of each flag."""
    command = cli.get_command(click.Context(cli), name)
    options = [p for p in command.params if isinstance(p, click.Option)]
    return {next(o for o in p.opts if o.startswith("--")).removeprefix("--") for p in options}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_flag_is_an_argument_with_dashes(name):
    arguments = {a for f in FUNCTIONS[name] for a in inspect.signature(f).parameters}
    asked = {flag.replace("-", "_") for flag in flags(name) - READING - OUTPUT - OWN[name]}
    assert asked
    several = {"score": "scores", "loss": "losses", "metric": "metrics"}
    assert {flag if flag in arguments else several.get(flag, flag) for flag in asked} <= arguments


@pytest.mark.parametrize("name", FUNCTIONS)
def test_scores_losses_and_metrics_have_one_spelling(name):
    assert not {"scores", "losses", "metrics"} & flags(name)
    assert {"score", "loss"} <= flags(name)


def test_several_names_by_commas_by_repetition_and_in_the_old_spelling(tmp_path):
    path = tmp_path / "t.npz"
    rng = np.random.default_rng(0)
    np.savez(path, logits=rng.normal(size=(80, 3)), labels=rng.integers(0, 3, 80))
    ways = (["--score", "max_softmax,max_logit"], ["--score", "max_softmax", "--score", "max_logit"],
            ["--scores", "max_softmax,max_logit"])  # fmt: skip
    for command in ("evaluate", "compare"):
        first, *others = (run(command, str(path), "--json", *way) for way in ways)
        assert first.exit_code == 0
        assert "max_logit" in first.output
        assert all(other.output == first.output for other in others)
    everything = run("compare", str(path), "--score", "all", "--csv")
    assert everything.output.count("\n") == len(abstain.scores.NAMES) + 1


def test_flags_for_reading_are_arguments_too():
    arguments = {*inspect.signature(read_predictions).parameters, *Limits.__dataclass_fields__, *ANSWERS}
    assert flags("convert") == READING
    # columns= and kind=; a learned confidence is put in by `Predictions.with_confidence`
    assert READING - {"column", "as", "confidence"} <= arguments


def test_roles_are_arguments_of_evaluate_or_what_these_are_made_from():
    made_from = {"prediction", "correct", "error", "classes", "ids", "answered", "question", "task", "epoch"}
    made_from |= {"answerable"}  # `unanswerable=` of evaluate_answers
    of_a_cascade = {"cost"}
    learned_from = {"features", "categories"}
    assert learned_from <= set(inspect.signature(abstain.learn_confidence).parameters)
    assert set(ROLES) - made_from - of_a_cascade - learned_from <= set(
        inspect.signature(abstain.evaluate).parameters
    )


@pytest.fixture
def table(tmp_path):
    rows = [f"{k % 5 != 0:d},{k / 60},{'ab'[k % 2]},{1 + k % 3}" for k in range(60)]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["right,sure,kind,mass", *rows]))
    return str(path)


def run(*arguments: str):
    return CliRunner().invoke(cli, list(arguments), prog_name="abstain")


def test_a_role_may_be_spelled_as_a_column_is(table):
    new = ["-c", "correct=right", "-c", "confidence=sure", "-c", "groups=kind", "-c", "sample_weight=mass"]
    old = ["-c", "is_correct=right", "-c", "conf=sure", "-c", "group=kind", "-c", "weight=mass"]
    found = [run("evaluate", table, "--metrics", "aurc", "--json", *how) for how in (new, old)]
    assert [f.exit_code for f in found] == [0, 0]
    assert found[0].output == found[1].output
    assert '"group": "a"' in found[0].output


def test_old_spellings_of_flags(table):
    columns = ["-c", "correct=right", "-c", "confidence=sure", "-c", "groups=kind"]
    ask = ["threshold", table, "--risk", "0.9", "--csv", *columns]
    assert run(*ask, "--groups").output == run(*ask, "--per-group").output
    assert run(*ask, "--groups").output.count("\n") == 3
    for flag in ("--memory", "--max-memory"):
        refused = run("evaluate", table, *columns, "--engine", "memory", flag, "1kB")
        assert refused.exit_code == 3
        assert "raise the limit with --memory" in refused.output


def test_an_unknown_role_is_refused_in_python_as_on_the_command_line(table):
    with pytest.raises(InputError, match="role must be one of logits, probs, labels"):
        read_predictions(table, columns={"colour": "kind"})
    assert run("evaluate", table, "-c", "colour=kind").exit_code == 2


@pytest.mark.parametrize("command", ["evaluate", "threshold", "compare", "report"])
@pytest.mark.parametrize("flag", ["--score", "--loss"])
def test_names_of_scores_are_refused_where_a_file_has_confidences(tmp_path, command, flag):
    """In the words of the command line, not of Python's arguments."""
    path = tmp_path / "plain.csv"
    path.write_text("correct,confidence\n" + "1,0.9\n0,0.2\n1,0.7\n" * 9)
    value = "max_softmax" if flag == "--score" else "zero_one"
    other = tmp_path / "other.csv"
    other.write_text("correct,confidence\n" + "1,0.8\n0,0.3\n1,0.6\n" * 9)
    goal = {
        "threshold": ["--coverage", "0.5"],
        "compare": [str(other)],
        "report": ["-o", str(tmp_path / "page.html")],
    }.get(command, [])
    result = CliRunner().invoke(cli, [command, str(path), *goal, flag, value])
    assert result.exit_code == 2
    assert f"{flag} is for files with logits or probabilities" in " ".join(result.output.split())
    assert "scores=" not in result.output
    assert CliRunner().invoke(cli, [command, str(path), *goal]).exit_code == 0
