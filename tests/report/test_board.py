"""The leaderboard page in a real browser: 68 models, every number recomputed here."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.display import thinned
from abstain.errors import InputError
from abstain.formats import Predictions, read_predictions
from abstain.report import board, save_board
from abstain.report.board import board_content, calibration_notes
from tests.report.test_browser import (  # noqa: F401
    LOOKS,
    Watched,
    browser,
    contrast,
    csv_tables,
    serious_findings,
)

sync_api = pytest.importorskip("playwright.sync_api")
N, MODELS = 300, 68


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """68 models of the same questions, some equal in all but name, one with hostile letters."""
    rng = np.random.default_rng(3)
    hard = rng.random(N)
    entries = {}
    for k in range(MODELS):
        name = "<img src=x onerror=window.hacked=1>" if k == 40 else f"model-{k:02d}"
        name = f"organisation/a-family-of-models-{k}" if k in (50, 51) else name
        wrong = (hard + rng.normal(0, 0.2, N) > 0.75 - 0.006 * k).astype(float)
        entries[name] = (wrong, np.round(1 - hard + rng.normal(0, 0.3, N), 1))
    found = abstain.compare(entries)
    curves = {}
    for name, (loss, sure) in entries.items():
        curve = abstain.risk_coverage_curve(loss, sure)
        curves[name] = thinned(name, curve.coverage, curve.risk, 60)
    half = np.arange(N) < N // 2
    groups = {
        "law": {name: float(abstain.aurc(loss[half], sure[half])) for name, (loss, sure) in entries.items()},
        "maths": {
            name: float(abstain.aurc(loss[~half], sure[~half])) for name, (loss, sure) in entries.items()
        },
    }
    columns = {
        "accuracy %": {name: 1 - loss.mean() for name, (loss, _) in entries.items()},
        "price": {"model-00": 3.0},
    }
    path = tmp_path_factory.mktemp("board") / "board.html"
    save_board(found, path, curves=curves, columns=columns, groups=groups, title="All of them")
    return path, found, entries, groups


class Board(Watched):
    def ready(self) -> None:
        self.page.wait_for_selector("#board-forest .point")


@pytest.fixture
def opened(browser, made):  # noqa: F811
    watched = Board(browser, made[0])
    yield watched
    watched.context.close()


def shown(watched) -> list[list[str]]:
    rows = watched.page.locator("#rows tr").all()
    return [row.locator("td").all_inner_texts() for row in rows]


def test_the_table_is_the_ranking(opened, made):
    _, found, entries, _ = made
    rows = shown(opened)
    assert len(rows) == MODELS
    for row, c in zip(rows, found.contestants):
        assert float(row[2]) == pytest.approx(c.estimate, abs=5.1e-5)
        low, high = (float(v) for v in row[3].split(" to "))
        assert (low, high) == pytest.approx((c.low, c.high), abs=5.1e-5)
        assert float(row[4].rstrip("%")) == pytest.approx(100 * (1 - entries[c.name][0].mean()), abs=0.051)
    opened.check_quiet()


def test_search_and_sort(opened):
    page = opened.page
    page.locator("#find").fill("-1")
    assert {row[1] for row in shown(opened)} == {f"model-1{k}" for k in range(10)}
    assert page.locator("#found").inner_text() == f"10 of {MODELS}"
    page.locator("#find").fill("")
    page.get_by_role("button", name="accuracy %").click()
    shares = [float(row[4].rstrip("%")) for row in shown(opened)]
    assert shares == sorted(shares)
    page.get_by_role("button", name="accuracy %").click()
    assert [float(row[4].rstrip("%")) for row in shown(opened)] == sorted(shares, reverse=True)
    page.get_by_role("button", name="price").click()
    assert shown(opened)[0][1] == "model-00"  # the only one that has a price; the rest come last
    opened.check_quiet()


def test_a_model_picked_out(opened, made):
    _, found, _, groups = made
    name = found.names[30]
    opened.page.select_option("#picked", label=name)
    same = [p.b if p.a == name else p.a for p in found.pairs if name in (p.a, p.b) and not p.different]
    told = opened.page.locator("#told").inner_text()
    assert told.startswith(f"{name}: AURC")
    more = f" and {len(same) - 8} more" if len(same) > 8 else ""
    assert more in told
    assert sum(n in told for n in same) >= min(8, len(same))
    rows = [row.locator("td").all_inner_texts() for row in opened.page.locator("#by-group tbody tr").all()]
    own = {group: values[name] for group, values in groups.items()}
    assert [row[0] for row in rows] == sorted(own, key=own.get, reverse=True)
    for group, value, limits, _, rank in rows:
        assert float(value) == pytest.approx(own[group], abs=5.1e-5)
        assert limits == "–"  # plain numbers have none
        assert rank == f"{1 + sum(v < own[group] for v in groups[group].values())} of {MODELS}"
    opened.page.locator("#rows button.name").first.click()
    assert opened.page.locator("#told").inner_text().startswith(found.names[0])
    opened.check_quiet()


def test_groups_with_intervals_are_ordered_by_the_lower_limit(browser, tmp_path):  # noqa: F811
    """A small group with a few unlucky samples has the largest value; one that is certainly bad comes first."""
    rng = np.random.default_rng(5)
    group = np.repeat(["certainly bad", "fine", "unlucky"], [400, 400, 6])
    chance = np.repeat([0.4, 0.05, 0.0], [400, 400, 6])
    loss = (rng.random(806) < chance).astype(float)
    loss[-5:] = 1.0
    sure = rng.random(806)
    models = {
        name: (Predictions(name, "t.csv", "csv", 806, loss=loss, confidence=g, groups=group), "confidence")
        for name, g in (("a", sure), ("b", 1 - sure))
    }
    found = abstain.compare({name: (p.loss, p.confidence) for name, (p, _) in models.items()})
    content = board_content(found, models)
    by_group = {name: values["a"] for name, values in content["groups"].items()}
    in_group = group == "fine"
    alone = abstain.interval("aurc", loss[in_group], sure[in_group])
    assert (by_group["fine"].low, by_group["fine"].high) == (alone.low, alone.high)
    assert by_group["unlucky"].estimate > by_group["certainly bad"].estimate
    assert by_group["unlucky"].low < by_group["certainly bad"].low
    path = tmp_path / "board.html"
    save_board(found, path, **content)
    watched = Board(browser, path)
    watched.page.select_option("#picked", label="a")
    rows = [row.locator("td").all_inner_texts() for row in watched.page.locator("#by-group tbody tr").all()]
    assert [row[0] for row in rows] == sorted(by_group, key=lambda name: -by_group[name].low)
    assert rows[0][0] == "certainly bad"
    bad = by_group["certainly bad"]
    assert rows[0][2] == f"{bad.low:.4f} to {bad.high:.4f}"
    watched.check_quiet()
    watched.context.close()


def test_names_stay_text(opened):
    assert opened.page.evaluate("window.hacked") is None
    assert opened.page.locator("img").count() == 0


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_axe_finds_nothing_serious(browser, made, width, theme):  # noqa: F811
    assert serious_findings(browser, made[0], "#board-forest .point", width, theme) == []


def test_a_phone_shows_rank_name_number_and_interval(browser, made):  # noqa: F811
    context = browser.new_context(offline=True, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(made[0].as_uri())
    page.wait_for_selector("#board-forest .point")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    ends = (
        page.locator("#rows tr")
        .first.locator("td")
        .evaluate_all("all => all.map(c => c.getBoundingClientRect().right)")
    )
    assert max(ends[:4]) <= 390
    names = page.locator("#board-forest text title").evaluate_all(
        "all => all.map(t => t.parentNode.firstChild.data)"
    )
    assert len(set(names)) == len(names) == MODELS  # cut, and still different
    context.close()


def test_intervals_are_seen_beside_their_dots(opened):
    """Their ends are higher than the dot, and their colour has a contrast of 3 to 1 against the card."""
    for theme in ("light", "dark"):
        opened.page.evaluate(f"document.documentElement.dataset.theme = '{theme}'; draw()")
        marks = opened.page.locator("#board-forest .span-mark, #board-forest .point").evaluate_all(
            "all => all.map(m => [m.getAttribute('class'), m.getBBox().height, m.getAttribute('stroke')])"
        )
        spans = [m for m in marks if m[0] == "span-mark"]
        dots = [m[1] for m in marks if m[0] == "point"]
        assert len(spans) == len(dots) == MODELS
        assert min(m[1] for m in spans) > max(dots)
        ground = opened.page.evaluate("colour('--card')")
        for colour in {m[2] for m in spans}:
            assert contrast(rgb(colour), rgb(ground)) >= 3


def rgb(code: str) -> str:
    return f"rgb({', '.join(str(int(code[i : i + 2], 16)) for i in (1, 3, 5))})"


def test_the_saved_table_has_one_number_a_cell(opened, made):
    opened.page.get_by_role("button", name="accuracy %").click()
    rows = csv_tables(opened)[0]
    names = [
        "rank low",
        "rank high",
        "model",
        "AURC",
        "AURC low",
        "AURC high",
        "accuracy %",
        "price",
        "letters",
    ]
    assert list(rows[0]) == names
    for row in rows:
        c = made[1][row["model"]]
        numbers = [float(row[name]) for name in names[3:6]]
        assert numbers == pytest.approx([c.estimate, c.low, c.high])
        assert (int(row["rank low"]), int(row["rank high"])) == (c.rank_low, c.rank_high)


def test_all_columns_of_answers_are_in_sight(browser, made, tmp_path):  # noqa: F811
    """The letters stand last, and the text above the table speaks of them."""
    names = (
        "accuracy %",
        "risk of the most confident 80%",
        "unanswered %",
        "AURC, answered only",
        "score at 0.75",
    )
    long = {f"{k}-with-a-name-of-thirty-letters": made[2][f"model-{k}"] for k in ("00", "30", "67")}
    found = abstain.compare(long)
    save_board(found, tmp_path / "wide.html", columns={n: dict.fromkeys(found.names, 0.1234) for n in names})
    watched = Board(browser, tmp_path / "wide.html")
    watched.page.set_viewport_size({"width": 1280, "height": 900})
    wide, there = watched.page.evaluate(
        "(e => [e.scrollWidth, e.clientWidth])(document.querySelector('.board').closest('.scroll'))"
    )
    watched.context.close()
    assert wide <= there


def test_strangers_are_refused(made):
    with pytest.raises(InputError, match="not in the comparison"):
        board(made[1], columns={"accuracy": {"nobody": 1.0}})


def test_titles_leave_out_what_all_confidences_share_and_columns_are_explained(tmp_path):
    rng = np.random.default_rng(0)
    loss = (rng.random(200) < 0.3).astype(float)
    signals = {
        f"{model} / {signal}_confidence": (loss, rng.random(200))
        for model in ("m", "k")
        for signal in ("a_b", "c_b")
    }
    found = abstain.compare(signals)
    columns = {
        name: dict.fromkeys(found.names, 0.5)
        for name in ("AURC, answered only", "calibration error %", "score at 0.75")
    }
    save_board(found, tmp_path / "b.html", columns=columns)
    text = (tmp_path / "b.html").read_text()
    for title in ("m / a", "k / a", "m / c", "k / c"):
        assert f'"short": "{title}"' in text or f'"short":"{title}"' in text
    for sentence in (
        "Answered only: over the answers",
        "Calibration error: the gap",
        "Score at t: right answers",
    ):
        assert sentence in text
    save_board(found, tmp_path / "plain.html")
    assert "Calibration error:" not in (tmp_path / "plain.html").read_text()


def test_a_phone_says_that_there_are_more_columns_and_breaks_no_interval(browser, made):  # noqa: F811
    for width, is_cut in ((390, True), (1400, False)):
        context = browser.new_context(offline=True, viewport={"width": width, "height": 800})
        page = context.new_page()
        page.goto(made[0].as_uri())
        page.wait_for_selector("#board-forest .point")
        board = page.locator(".scroll", has=page.locator(".board"))
        assert (board.get_attribute("data-more") is not None) == is_cut
        interval = page.locator("#rows tr").first.locator("td").nth(3)
        assert interval.evaluate("e => e.getBoundingClientRect().height") < 60
        assert interval.evaluate("e => getComputedStyle(e).whiteSpace") == "nowrap"
        ticks = page.locator("#board-forest text").evaluate_all(
            "all => all.filter(e => e.getAttribute('text-anchor') === 'middle' && !isNaN(parseFloat(e.textContent))).length"
        )
        assert ticks >= 2
        context.close()


def test_a_missing_calibration_error_has_its_reason(tmp_path):
    models = {}
    for name, last in (("good", "0.5"), ("loud", "1.5")):
        rows = [f"{row},{row % 3 > 0:d},{0.01 * row:g}" for row in range(1, 90)] + [f"90,1,{last}"]
        (tmp_path / f"{name}.csv").write_text("\n".join(["question_index,correct,confidence", *rows]))
        models[name] = (read_predictions(tmp_path / f"{name}.csv", name=name), "confidence")
    found = abstain.compare({name: read.loss_and_confidence("", "") for name, (read, _) in models.items()})
    assert board_content(found, models)["columns"]["calibration error %"]["loud"] is None
    assert calibration_notes(models) == [
        "loud has no calibration error: 1 value of the confidence is outside 0 to 1."
    ]
    assert calibration_notes({"loud": models["loud"]}) == []  # the board has no such column
