"""The page of a cascade: what it says, the rule that its button saves, and its look in a browser."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import abstain
from abstain.cascades import Cascade, cost_risk_curve
from abstain.cli import cli
from abstain.report import cascade_page
from abstain.report.cascade_page import describe_cascade
from tests.report.test_browser import FLAGS, browser, serious_findings  # noqa: F401

SETTINGS = ["--cost", "1,10", "--person-cost", "100", "--person-error", "0", "--risk", "0.12"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two models of the same 3,000 questions, a cheap and a better one, and the page of their cascade."""
    folder = tmp_path_factory.mktemp("cascade")
    rng = np.random.default_rng(0)
    hard = rng.random(3000)
    for name, slope in (("small", 0.5), ("large", 0.2)):
        wrong = rng.random(3000) < slope * hard
        confidence = 1 - hard + 0.05 * rng.random(3000)
        rows = [f"{int(not w)},{c:.6f}" for w, c in zip(wrong, confidence)]
        (folder / f"{name}.csv").write_text("\n".join(["correct,confidence", *rows]))
    files = [str(folder / "small.csv"), str(folder / "large.csv")]
    cli(["cascade", *files, *SETTINGS, "--html", str(folder / "page.html"), "--save", str(folder / "rule.json")],
        standalone_mode=False)  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def rule(folder):
    return Cascade.load(folder / "rule.json")


def test_the_page_states_decision_cost_promise_and_use(folder, rule):
    html = (folder / "page.html").read_text()
    assert describe_cascade(rule) in html
    assert describe_cascade(rule) == (
        "For at most 12% errors of the models: ask small, then large, then a person. The risk is promised with 95% "
        "confidence."
    )
    assert f"A case costs {rule.cost:.4g} on average" in html
    assert rule.guarantee.partition(",")[0] in html
    assert "abstain cascade later-small.csv later-large.csv --apply rule.json" in html
    for name in rule.names:
        assert f"is at least {rule.thresholds[name]:.6g}" in html or rule.thresholds[name] == -np.inf
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", html)
    assert len(html) < 300_000


def test_the_picture_is_that_of_the_library(folder):
    stages = {}
    for name, cost in (("small", 1.0), ("large", 10.0)):
        table = np.loadtxt(folder / f"{name}.csv", delimiter=",", skiprows=1)
        stages[name] = (1 - table[:, 0], table[:, 1], cost)
    curve = cost_risk_curve(stages, person=(100.0, 0.0))
    html = cascade_page(
        abstain.cascade(stages, risk=0.12, person=(100.0, 0.0)), curve=curve, command="abstain cascade"
    )
    [first_risk, *_] = curve.target
    assert f'"risk":[{float(f"{first_risk:.6g}")}' in html
    assert f"{curve.cost[0]:.4g}" in html


def test_a_risk_that_cannot_be_promised_says_what_would_help():
    confidence = np.linspace(0, 1, 60)
    loss = (np.arange(60) % 3 == 0).astype(float)
    rule = abstain.cascade({"only": (loss, confidence, 1.0)}, risk=0.05, person=(10.0, 0.0))
    html = cascade_page(rule, no_curve="There is no picture.")
    assert not rule.feasible
    assert "At most 5% errors of the models cannot be promised with these data." in html
    assert "There is no picture." in html
    assert '"rule":null' in html


def test_names_are_escaped():
    loss = [0.0] * 300
    rule = abstain.cascade({"<b>x</b>": (loss, range(300), 1.0)}, risk=0.2, person=(9.0, 0.0))
    assert "<b>x</b>" not in cascade_page(rule).partition("</main>")[0]


def test_button_saves_the_rule(browser, folder, rule, tmp_path):  # noqa: F811
    context = browser.new_context(offline=True, viewport={"width": 1400, "height": 900})
    page = context.new_page()
    complaints = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto((folder / "page.html").as_uri())
    page.wait_for_selector("#cost-chart path.line")
    for selector in ("#promise", "#save-rule", "#cost-chart"):
        box = page.locator(selector).bounding_box()
        assert box["y"] + 0.8 * box["height"] <= 900, selector
    with page.expect_download() as got:
        page.locator("#save-rule").click()
    saved = Path(got.value.path()).read_text()
    assert saved == (folder / "rule.json").read_text()
    assert page.locator("#cost-chart path.line").count() == 4  # cascade, each model alone, a coin
    before = page.locator("#cost-chart path.line").first.get_attribute("d")
    page.locator("#log").click()
    assert page.locator("#cost-chart path.line").first.get_attribute("d") != before
    assert complaints == []
    context.close()


@pytest.mark.parametrize(
    ("width", "theme"), [(1400, "dark"), pytest.param(390, "light", marks=pytest.mark.slow)]
)
def test_axe_finds_nothing_serious(browser, folder, width, theme):  # noqa: F811
    assert serious_findings(browser, folder / "page.html", "#cost-chart path.line", width, theme) == []
