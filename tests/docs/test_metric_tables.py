"""Pages that list metrics by hand list those that are defined, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import abstain
from abstain.metrics import METRICS

DOCS = Path(__file__).parents[2] / "docs"
CODE_NAME = re.compile(r"`(?:metrics\.)?([a-z]+(?:_[a-z]+)*)`")


def code_names(page: str, start: str, end: str) -> list[str]:
    """Names in backquotes between two texts of a page, in their order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return CODE_NAME.findall(text.split(start)[1].split(end)[0])


def test_the_page_on_intervals_lists_every_metric():
    listed = code_names("how-sure.md", "influence functions, computed in one pass", "`standard_error` and")
    assert sorted(listed) == sorted(METRICS)


def test_the_table_of_choices_names_public_functions():
    listed = code_names("choose.md", "| the question |", "All of them take any loss")
    assert {"aurc", "augrc", "naurc", "auroc", "e_aurc", "risk_at_coverage"} <= set(listed)
    public = {*dir(abstain), *abstain.metrics.__all__}
    assert set(listed) <= public


def test_the_page_on_choices_names_the_metrics_of_a_zero_one_loss():
    listed = code_names("choose.md", "All of them take any loss", "Report the loss")
    defined = {name for name, metric in METRICS.items() if metric.needs.zero_one}
    assert {"auroc", "fpr_at_tpr"} == defined & set(listed)
    assert defined - {"auroc", "fpr_at_tpr"} == {"aupr_error", "aupr_success"}  # "both kinds of AUPR"


@pytest.mark.parametrize("name", ["aurc", "augrc", "e_aurc", "naurc"])
def test_the_glossary_explains_the_metrics_of_every_table(name):
    terms = re.findall(r"^(\S.*)\n: ", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.M)
    assert METRICS[name].label in ", ".join(terms).split(", ")
