"""The report in a real browser, offline. Every number shown is recomputed here from the raw file."""

from __future__ import annotations

import csv
import re
import shutil
import warnings
from importlib import resources
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

import abstain
from abstain.cli import cli

sync_api = pytest.importorskip("playwright.sync_api")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
N = 700


@pytest.fixture(scope="module")
def browser():
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("chromium not found: install Debian's package `chromium`")
    with sync_api.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=path, args=FLAGS)
        yield opened
        opened.close()


class Watched:
    """A page opened offline, with everything it asked for or complained about."""

    def __init__(self, browser, path: Path) -> None:
        self.context = browser.new_context(offline=True, viewport={"width": 1100, "height": 900})
        self.page = self.context.new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.page.on(
            "console", lambda m: self.complaints.append(m.text) if m.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.url = path.as_uri()
        self.page.goto(self.url)
        self.ready()

    def ready(self) -> None:
        """The figures are drawn."""
        self.page.wait_for_selector("#curve-chart path.line")

    def fresh(self) -> Watched:
        """As it was when opened (opening it again for every test would take most of the time)."""
        self.page.evaluate(
            "STATE.view = 'risk'; STATE.bands = true; STATE.log = false; STATE.hidden.clear(); STATE.tried.clear(); STATE.step = DATA.models.map(m => m.start);"
            "STATE.rule = DATA.models.map(m => m.rule_start);"
            "chooseModel(DATA.best); setTheme('light', false); document.activeElement.blur(); scrollTo(0, 0)"
        )
        return self

    def value(self, name: str) -> float:
        return float(self.page.locator(f"#{name}").get_attribute("data-value"))

    def text(self, name: str) -> str:
        return self.page.locator(f"#{name}").inner_text()

    def check_quiet(self) -> None:
        assert self.complaints == []
        assert [
            url for url in self.requests if url != self.url and not url.startswith(("data:", "blob:"))
        ] == []


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A plain table with ties, groups and refusals, and its report."""
    folder = tmp_path_factory.mktemp("table")
    rng = np.random.default_rng(11)
    confidence = np.round(rng.random(N), 3)
    correct = rng.random(N) > 0.5 * (1 - confidence) ** 2
    away = rng.random(N) < 0.1
    group = rng.choice(["maths", "law", "medicine"], N)
    lines = ["correct,confidence,abstained,group"]
    lines += [f"{int(c)},{g},{int(a)},{k}" for c, g, a, k in zip(correct, confidence, away, group)]
    (folder / "answers.csv").write_text("\n".join(lines))
    cli(["report", str(folder / "answers.csv"), "-o", str(folder / "out.html"), "-q"], standalone_mode=False)
    return folder


@pytest.fixture(scope="module")
def answers_page(browser, table):
    watched = Watched(browser, table / "out.html")
    yield watched
    watched.context.close()


@pytest.fixture
def answers(answers_page):
    return answers_page.fresh()


def by_hand(table: Path, threshold: float) -> dict[str, object]:
    """Coverage, risk, limits and counts at a threshold, straight from the text file."""
    rows = [line.split(",") for line in (table / "answers.csv").read_text().split("\n")[1:]]
    taken = [r for r in rows if r[2] == "0" and float(r[1]) >= threshold]
    wrong = sum(r[0] == "0" for r in taken)
    k, n = len(taken), len(rows)
    low, high = limits_of(wrong, k)
    return {
        "accepted": k,
        "rejected": n - k,
        "coverage": k / n,
        "risk": wrong / k,
        "wrong": wrong,
        "low": low,
        "high": high,
        "groups": {
            g: (
                sum(r[3] == g for r in taken),
                sum(r[3] == g for r in rows),
                sum(r[3] == g and r[0] == "0" for r in taken),
            )
            for g in {r[3] for r in rows}
        },
    }


def check_numbers(watched: Watched, table: Path) -> float:
    threshold = watched.value("threshold")
    told = by_hand(table, threshold)
    for name in ("accepted", "rejected", "coverage", "risk"):
        assert watched.value(name) == pytest.approx(told[name], rel=1e-9), name
    bound = watched.page.locator("#bound")
    assert float(bound.get_attribute("data-low")) == pytest.approx(told["low"], abs=1e-9)
    assert float(bound.get_attribute("data-high")) == pytest.approx(told["high"], abs=1e-9)
    # and what a person reads
    assert watched.text("coverage") == f"{100 * told['coverage']:.1f}%"
    assert watched.text("accepted") == f"{told['accepted']:,}"
    assert watched.text("rejected") == f"{told['rejected']:,}"
    assert watched.text("wrong") == f"{told['wrong']} of them wrong"
    assert float(watched.text("risk").rstrip("%")) == pytest.approx(100 * told["risk"], abs=0.0051)
    assert f"to {100 * told['high']:.2f}%" in bound.inner_text()
    rows = watched.page.locator("#part-0 tr").all()
    assert len(rows) == len(told["groups"])
    lows = []
    for row in rows:
        name, risk, _, share, yes, no, wrong = row.locator("td").all_inner_texts()
        accepted, total, errors = told["groups"][name]
        assert (int(yes), int(no), int(wrong)) == (accepted, total - accepted, errors)
        assert float(share.rstrip("%")) == pytest.approx(100 * accepted / total, abs=0.051)
        if not accepted:
            assert risk.strip() == "–"
            lows.append(-1.0)
            continue
        low, high = limits_of(errors, accepted)
        numbers = [float(x) for x in re.findall(r"([\d.]+)%", risk)]
        assert numbers == pytest.approx([100 * errors / accepted, 100 * low, 100 * high], abs=0.0101)
        lows.append(low)
    assert lows == sorted(lows, reverse=True)  # the worst first
    return threshold


def limits_of(errors: int, trials: int) -> tuple[float, float]:
    """The 95% limits of a proportion after Jeffreys; exact where no trial or every trial is an error."""
    low, high = beta.ppf([0.025, 0.975], errors + 0.5, trials - errors + 0.5)
    if errors == 0:
        return 0.0, 1 - 0.025 ** (1 / trials)
    if errors == trials:
        return 0.025 ** (1 / trials), 1.0
    return low, high


def test_slider_by_mouse(answers, table):
    answers.page.locator("#slider").scroll_into_view_if_needed()
    box = answers.page.locator("#slider").bounding_box()
    seen = set()
    for share in (0.1, 0.45, 0.9):
        answers.page.mouse.click(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
        seen.add(check_numbers(answers, table))
    assert len(seen) == 3
    answers.page.mouse.move(box["x"] + 0.9 * box["width"], box["y"] + box["height"] / 2)
    answers.page.mouse.down()
    answers.page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + box["height"] / 2, steps=8)
    answers.page.mouse.up()
    assert check_numbers(answers, table) not in seen
    answers.check_quiet()


def test_slider_by_keyboard(answers, table):
    slider = answers.page.locator("#slider")
    slider.focus()
    seen = []
    for keys in (["Home"], ["ArrowRight"] * 7, ["PageUp"] * 3, ["ArrowLeft"] * 2, ["End"]):
        for key in keys:
            answers.page.keyboard.press(key)
        seen.append(check_numbers(answers, table))
    assert len(set(seen)) == 5
    assert seen == sorted(seen, reverse=True) or seen[3] > seen[2]
    # the last step accepts every answered sample: the abstained stay out for ever
    rows = (table / "answers.csv").read_text().split("\n")[1:]
    assert answers.value("accepted") == sum(r.split(",")[2] == "0" for r in rows)
    assert "coverage" in slider.get_attribute("aria-valuetext")
    answers.check_quiet()


def test_buttons_reach_a_coverage(answers, table):
    answers.page.get_by_role("button", name="50%", exact=True).click()
    check_numbers(answers, table)
    assert 0.5 <= answers.value("coverage") < 0.51
    answers.check_quiet()


@pytest.fixture(scope="module")
def digits(tmp_path_factory):
    """Two of the bundled models: probabilities in float32, one of them saturated."""
    folder = tmp_path_factory.mktemp("digits")
    source = Path(str(resources.files("abstain") / "data" / "demo"))
    files = []
    for name in ("naive-bayes", "logistic-regression"):
        shutil.copy(source / f"{name}.npz", folder)
        files.append(str(folder / f"{name}.npz"))
    cli(["report", *files, "-o", str(folder / "out.html"), "-q"], standalone_mode=False)
    return folder


@pytest.fixture(scope="module")
def models_page(browser, digits):
    watched = Watched(browser, digits / "out.html")
    yield watched
    watched.context.close()


@pytest.fixture
def models(models_page):
    return models_page.fresh()


def raw(digits: Path, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rank key -ln(1 - largest), errors and labels of a raw file; what is not largest is summed exactly."""
    data = np.load(digits / f"{name}.npz")
    p, y = data["probs"].astype(np.float64), data["labels"]
    others = np.sort(p, axis=1)[:, :-1].sum(axis=1) / p.sum(axis=1)
    with np.errstate(divide="ignore"):
        return -np.log(others), p.argmax(1) != y, y


@pytest.mark.parametrize("name", ["naive-bayes", "logistic-regression"])
def test_numbers_from_probabilities(models, digits, name):
    key, wrong, labels = raw(digits, name)
    models.page.select_option("#model", label=name)
    models.page.locator("#slider").focus()
    seen = set()
    for keys in (["Home"], ["PageUp"] * 4, ["PageUp"] * 4):
        for press in keys:
            models.page.keyboard.press(press)
        threshold = models.value("threshold")
        taken = key >= threshold * (1 - 1e-9)
        assert models.value("accepted") == taken.sum()
        assert models.value("coverage") == pytest.approx(taken.mean(), rel=1e-9)
        assert models.value("risk") == pytest.approx(wrong[taken].mean(), rel=1e-9)
        rows = models.page.locator("#part-0 tr").all()
        for row in rows:
            digit, _, _, _, yes, no, errors = row.locator("td").all_inner_texts()
            assert int(yes) == (taken & (labels == int(digit))).sum()
            assert int(errors) == (taken & wrong & (labels == int(digit))).sum()
            assert int(yes) + int(no) == (labels == int(digit)).sum()
        assert len(rows) == 10
        seen.add(threshold)
    assert len(seen) == 3
    models.check_quiet()


def drawn(models: Watched, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The curve of a model as it was handed to the drawing, held against the path on the screen."""
    found = models.page.evaluate(
        "n => { const p = document.getElementById('curve-chart').placed;"
        " const m = p.marks.find(m => m.kind === 'line' && m.name === n); if (!m) return null;"
        " const last = m.x.length - 1, end = `${p.x(m.x[last]).toFixed(1)} ${p.y(m.y[last]).toFixed(1)}`;"
        " const ends = [...document.querySelectorAll('#curve-chart path.line')].map(l => l.getAttribute('d'));"
        " return [m.x, m.y, ends.some(d => d.endsWith('L' + end) || m.x.length <= 60)]; }",
        name,
    )
    if found is None:
        return np.array([]), np.array([])
    assert found[2]
    return np.array(found[0]), np.array(found[1])


def test_curves_in_both_views(models, digits):
    key, wrong, _ = raw(digits, "logistic-regression")
    order = np.argsort(-key)
    risks = np.cumsum(wrong[order]) / np.arange(1, len(key) + 1)
    x, y = drawn(models, "logistic-regression")
    place = np.rint(x * len(key)).astype(int) - 1
    np.testing.assert_allclose(y, risks[place], atol=2e-6)
    models.page.get_by_role("button", name="Generalised risk").click()
    x, y = drawn(models, "logistic-regression")
    np.testing.assert_allclose(y, risks[place] * (place + 1) / len(key), atol=2e-6)
    models.page.get_by_role("button", name="logistic-regression", exact=True).click()
    assert not len(drawn(models, "logistic-regression")[0])
    models.check_quiet()


def test_bands_hold_their_curve(models):
    bands = models.page.evaluate("DATA.models.map(m => [m.risk.band, m.risk.coverage, m.risk.value])")
    assert len(bands) == 2
    for band, coverage, value in bands:
        middle = np.interp(band["coverage"], coverage, value)
        assert (
            np.mean((np.array(band["low"]) <= middle + 1e-3) & (middle <= np.array(band["high"]) + 1e-3))
            > 0.95
        )
    bands = models.page.locator("#curve-chart path.area")
    assert bands.count() == 2
    models.page.get_by_role("button", name="Bands").click()
    assert bands.count() == 0


def hover(watched: Watched, x: float, y: float) -> str:
    spot = watched.page.evaluate(
        "([x, y]) => { const c = document.getElementById('curve-chart'), b = c.getBoundingClientRect();"
        " return [b.left + c.placed.x(x), b.top + c.placed.y(y)]; }",
        [x, y],
    )
    watched.page.mouse.move(spot[0] - 3, spot[1])
    watched.page.mouse.move(*spot, steps=3)
    watched.page.wait_for_selector("#curves .tip:not([hidden])")
    return watched.page.locator("#curves .tip").inner_text()


def test_hover_tells_the_point(models, digits):
    key, wrong, _ = raw(digits, "naive-bayes")
    models.page.locator("#curve-chart").scroll_into_view_if_needed()
    told = hover(models, 1.0, float(wrong.mean()))
    assert "naive-bayes" in told
    coverage, risk = re.search(r"coverage ([\d.]+)%\s+risk ([\d.]+)%", told).groups()
    points = [(np.mean(key >= t), np.mean(wrong[key >= t])) for t in np.unique(key)]
    assert (coverage, risk) in {(f"{100 * c:.1f}", f"{100 * r:.2f}") for c, r in points}
    assert float(coverage) > 99
    models.check_quiet()


def test_theme_switches_and_is_readable(models):
    page = models.page
    look = "getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color"
    before = page.evaluate(look)
    page.locator("#theme").focus()
    page.keyboard.press("Enter")
    assert page.evaluate(look) != before
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    colours = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
    )
    assert contrast(*colours) > 7
    page.locator("#theme").click()
    assert page.evaluate(look) == before
    models.check_quiet()


def contrast(a: str, b: str) -> float:
    """WCAG contrast of two rgb() colours."""

    def light(text: str) -> float:
        parts = np.array([int(x) for x in text[4:-1].split(",")]) / 255
        linear = np.where(parts <= 0.03928, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    low, high = sorted((light(a), light(b)))
    return (high + 0.05) / (low + 0.05)


def test_dark_by_system_preference(browser, digits):
    context = browser.new_context(offline=True, color_scheme="dark")
    page = context.new_page()
    page.goto((digits / "out.html").as_uri())
    page.wait_for_selector("#curve-chart path.line")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    context.close()


def test_everything_is_reachable_by_keyboard(models):
    reached = []
    for _ in range(60):
        models.page.keyboard.press("Tab")
        reached.append(
            models.page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()")
        )
    assert {
        "theme",
        "slider",
        "model",
        "picked",
        "bands",
        "log",
        "Generalised risk",
        "naive-bayes",
        "80%",
        "SVG",
        "CSV",
    } <= set(reached)


def test_prints_without_controls(models):
    models.page.emulate_media(media="print")
    assert not models.page.locator("nav").is_visible()
    assert not models.page.locator("#slider").is_visible()
    assert models.page.locator("#risk").is_visible()
    assert models.page.pdf()[:4] == b"%PDF"
    models.page.emulate_media(media="screen")
    models.check_quiet()


def test_fits_a_phone(browser, digits):
    context = browser.new_context(offline=True, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto((digits / "out.html").as_uri())
    page.wait_for_selector("#curve-chart path.line")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


def test_user_strings_stay_text(browser, tmp_path):
    evil = "<script>window.hacked=1</script>"
    image = '"><img src=x onerror=window.hacked=1>'
    rng = np.random.default_rng(0)
    folder = tmp_path / "d"
    folder.mkdir()
    file = folder / "<script>window.hacked=1<!--.npz"
    probs = rng.dirichlet([1, 1, 1], 90)
    labels = rng.integers(0, 3, 90)
    np.savez(
        file,
        **{"probs": probs, evil.replace("/", "|"): labels, "classes": np.array([evil, image, "</script>"])},
    )
    arguments = ["report", str(file), "-o", str(tmp_path / "out.html"), "-q", "--names", f"{evil}{image}%{{x}}",
                 "--title", f"{evil}&amp;", "-c", f"labels={evil.replace('/', '|')}"]  # fmt: skip
    cli(arguments, standalone_mode=False)
    watched = Watched(browser, tmp_path / "out.html")
    page = watched.page
    page.locator("#slider").focus()
    page.keyboard.press("End")
    page.locator("#theme").click()
    page.locator("#curve-chart").scroll_into_view_if_needed()
    told = hover(watched, 1.0, float(np.mean(probs.argmax(1) != labels)))
    assert evil in told
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.locator("h1").inner_text() == f"{evil}&amp;"
    assert page.title() == f"{evil}&amp;"
    named = {row.locator("td").first.get_attribute("title") for row in page.locator("#part-0 tr").all()}
    assert named == {evil, image, "</script>"}
    whole = f"{evil}{image}%{{x}}"
    assert page.locator("button.chip span[title]").get_attribute("title") == whole
    assert page.locator("button.chip").inner_text() == whole[:20] + "…" + whole[-19:]
    method = page.locator("#method").inner_text()
    assert "<script>window.hacked=1<!--.npz" in method
    assert evil.replace("/", "|") in method
    assert page.evaluate("[...document.scripts].length") == 2
    watched.check_quiet()
    watched.context.close()


# low risks, many models, saving, paper, access ------------------------------------------------------------


def test_low_risks_on_a_log_scale(models):
    """Equal ratios are equally far apart there, and far further apart than they were."""
    page = models.page
    places = "[0.005, 0.02, 0.08].map(v => document.getElementById('curve-chart').placed.y(v))"
    low, middle, high = page.evaluate(places)
    assert low - middle < (middle - high) / 3
    page.get_by_role("button", name="Log scale").click()
    low, middle, high = page.evaluate(places)
    assert low - middle == pytest.approx(middle - high, abs=0.01)
    assert "log scale" in page.locator("#curve-chart").text_content()
    models.check_quiet()


def test_findings_lead_with_difference_interval_and_p(models, digits):
    """The numbers of the first table are those of the library, in its order."""
    entries = {name: raw(digits, name) for name in ("naive-bayes", "logistic-regression")}
    found = abstain.compare(
        {name: (wrong.astype(float), np.minimum(key, 1e3)) for name, (key, wrong, _) in entries.items()}
    )
    pair = found.pair("naive-bayes", "logistic-regression")
    name, words, difference, span, p = models.page.locator("#verdicts tbody tr td").all_inner_texts()
    assert name == "naive-bayes"
    assert float(difference) == pytest.approx(pair.difference, abs=1e-3)
    assert [float(x) for x in span.split(" to ")] == pytest.approx([pair.low, pair.high], abs=1e-3)
    assert p == "< 0.001"
    assert words == "logistic-regression is better"


def test_the_marked_point_is_explained(models):
    models.page.get_by_role("button", name="50%", exact=True).click()
    told = models.page.locator("#marked").inner_text()
    assert models.text("coverage") in told
    assert models.text("risk") in told


def test_a_risk_that_cannot_be_promised_has_no_dot(browser, tmp_path):
    rows = [f"{int(k % 20 > 0)},{0.5 + (k * 37 % 200) / 500}" for k in range(200)]
    (tmp_path / "cal.csv").write_text("\n".join(["correct,confidence", *rows]))
    page_file = tmp_path / "page.html"
    cli(
        ["report", str(tmp_path / "cal.csv"), "--risk", "0.01", "-o", str(page_file), "-q"],
        standalone_mode=False,
    )
    watched = Watched(browser, page_file)
    told = watched.page.locator("#marked")
    dots = watched.page.locator("#curve-chart circle")
    assert told.inner_text().startswith("No dot: there is no threshold with a promise at 1%.")
    assert dots.count() == 0
    watched.page.get_by_role("button", name="50%", exact=True).click()
    assert told.inner_text().startswith(
        "The dot marks the threshold tried below, without a promise: cal answers 50"
    )
    assert dots.count() == 1
    watched.check_quiet()
    watched.context.close()


@pytest.fixture(scope="module")
def crowd(tmp_path_factory):
    """Twelve models of two hospitals, one with a very long name."""
    folder = tmp_path_factory.mktemp("crowd")
    rng = np.random.default_rng(0)
    labels, groups = rng.integers(0, 4, 400), rng.choice(["north", "south"], 400)
    for k in range(12):
        logits = rng.normal(size=(400, 4))
        logits[np.arange(400), labels] += 1 + k / 6
        name = "long-" * 30 if k == 3 else f"m{k:02d}"
        np.savez(folder / f"{name}.npz", logits=logits, labels=labels, groups=groups)
    files = sorted(str(path) for path in folder.glob("*.npz"))
    cli(["report", *files, "-o", str(folder / "out.html"), "-q"], standalone_mode=False)
    return folder


def test_twelve_models_stay_readable(browser, crowd):
    assert (crowd / "out.html").stat().st_size < 1e6
    watched = Watched(browser, crowd / "out.html")
    page = watched.page
    assert page.locator("#curve-chart path.area").count() == 1  # only the one picked out has a band
    strong = "[...document.querySelectorAll('#curve-chart path.line')].filter(p => p.getAttribute('stroke-opacity') === '1').length"
    assert page.evaluate(strong) == 1
    page.select_option("#picked", label="m05")
    assert "m05" in page.locator("#marked").inner_text()
    assert page.evaluate("document.getElementById('model').selectedOptions[0].text") == "m05"
    captions = page.locator("#parts caption").all_inner_texts()
    assert [c.split(",")[0] for c in captions] == ["By group", "By true class"]
    long = page.locator("button.chip span[title]")
    assert len(long.inner_text()) == 40
    assert long.get_attribute("title") == "long-" * 30
    watched.check_quiet()
    watched.context.close()


def test_figures_and_tables_can_be_saved(models):
    with models.page.expect_download() as got:
        models.page.locator("#curves .saving button", has_text="SVG").click()
    svg = Path(got.value.path()).read_text()
    assert got.value.suggested_filename == "curve-chart.svg"
    assert "naive-bayes" in svg  # the legend goes along
    assert svg.startswith("<svg")
    with models.page.expect_download() as got:
        models.page.locator("#curves .saving button", has_text="PNG").click()
    assert Path(got.value.path()).read_bytes()[:4] == b"\x89PNG"
    with models.page.expect_download() as got:
        models.page.locator("#parts .saving button", has_text="CSV").click()
    rows = list(csv.reader(Path(got.value.path()).read_text().splitlines()))
    limits = ["error rate", "error rate low", "error rate high"]
    assert rows[0] == ["name", *limits, "share answered", "answered", "left", "wrong"]
    assert len(rows) == 11
    models.check_quiet()


def csv_tables(watched: Watched) -> list[list[dict[str, str]]]:
    """Every table of a page as its CSV file holds it."""
    files = watched.page.evaluate("[...document.querySelectorAll('table')].map(t => csvLines(t).join('\\n'))")
    return [list(csv.DictReader(text.splitlines())) for text in files]


def test_saved_tables_have_one_number_a_cell(models):
    """Limits have columns of their own; no percent signs, no thousands separators, no "-0", no marks of sorting."""
    tables = csv_tables(models)
    assert len(tables) >= 8
    for rows in tables:
        names = list(rows[0])
        assert len(set(names)) == len(names)
        assert not any(re.search("[▲▼–]", name) for name in names)
        for row in rows:
            assert None not in row  # no more cells than the head has
            for name, value in row.items():
                if name.endswith((" low", " high")):
                    assert value == "" or float(value) == float(value)
                if name not in (
                    "model",
                    "name",
                    "file",
                    "read as",
                    "columns",
                    "in words",
                    "metric",
                    "letters",
                    "rank",
                ):
                    assert value == "" or re.fullmatch(r"-?[\d.]+(e-?\d+)?", value), (name, value)
                assert not re.fullmatch(r"-0(\.0*)?%?", value)
    verdicts = next(rows[0] for rows in tables if "difference" in rows[0])
    assert (
        float(verdicts["95% interval low"])
        < float(verdicts["difference"])
        < float(verdicts["95% interval high"])
    )


def test_saved_cells_are_no_formulas(models):
    cell = models.page.evaluate("[csvCell('=1+1'), csvCell('-0.5'), csvCell('a,b')]")
    assert cell == ["'=1+1", "-0.5", '"a,b"']


def test_paper_has_curves_with_a_legend(browser, digits):
    watched = Watched(browser, digits / "out.html")
    watched.page.emulate_media(media="print")
    assert [chip.is_visible() for chip in watched.page.locator(".chip").all()] == [True, True]
    assert not watched.page.locator(".saving").first.is_visible()
    assert watched.page.locator("#part-0 .bar").first.is_visible()
    adjust = "getComputedStyle(document.querySelector('.bar')).printColorAdjust"
    assert watched.page.evaluate(adjust) == "exact"
    watched.context.close()


def test_phone_shows_the_error_rates(browser, crowd):
    context = browser.new_context(offline=True, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto((crowd / "out.html").as_uri())
    page.wait_for_selector("#curve-chart path.line")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    box = page.locator("#part-0 tr td").nth(6).bounding_box()
    assert box["x"] + box["width"] <= 390
    title = page.evaluate(
        "[...document.querySelectorAll('#forest text, #curve-chart text')].map(t => t.getBoundingClientRect())"
        ".every(b => b.left >= 0 && b.right <= 390)"
    )
    assert title
    context.close()


def serious_findings(browser, path: Path, drawn: str, width: int, theme: str) -> list[tuple[str, str]]:
    """What axe calls serious or critical on a page of this width, once `drawn` is there."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": 900})
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector(drawn)
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.wait_for_timeout(100)  # sizes are observed, not polled
    violations = axe.run(page).response["violations"]
    context.close()
    return [
        (v["id"], v["nodes"][0]["html"][:100]) for v in violations if v["impact"] in ("serious", "critical")
    ]


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory):
    """Models of 62 hospitals whose long names differ at their ends only, one of them never wrong; a cascade below."""
    folder = tmp_path_factory.mktemp("hospitals")
    rng = np.random.default_rng(4)
    n = 60 * 40
    labels = rng.integers(0, 2, n)
    groups = np.array([f"hospital {k:02d}" for k in range(60) for _ in range(40)])
    groups[:25] = "small"
    contents = []
    for k, gain in enumerate((1.5, 2.0, 40.0)):
        logits = rng.normal(size=(n, 2))
        logits[np.arange(n), labels] += gain
        if k < 2:
            logits[:18] = -10 * np.eye(2)[labels[:18]]  # 18 of its 25 answers are wrong
        path = folder / f"{k}.npz"
        np.savez(path, logits=logits, labels=labels, groups=groups)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", ".*predictions equal the labels")  # one is never wrong
            contents.append(
                abstain.formats.read_predictions(path, name=f"{'resnet-50-with-a-very-long-prefix-' * 2}{k}")
            )
    sure = rng.random(2000)
    curve = abstain.cascades.cost_risk_curve(
        {"only": (rng.random(2000) > sure, sure, 1.0)}, person=(10.0, 0.0)
    )
    content = abstain.report.gather(contents)
    abstain.report.save_page(content, folder / "out.html", more=curve.to_html())
    return folder


# widths and themes; axe takes seconds a page, so that the suite that always runs sees each of them once
LOOKS = [
    (1400, "light"),
    (768, "dark"),
    (390, "light"),
    pytest.param(1400, "dark", marks=pytest.mark.slow),
    pytest.param(768, "light", marks=pytest.mark.slow),
    pytest.param(390, "dark", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_axe_finds_nothing_serious(browser, hospitals, width, theme):
    """With a clinical table, a model that is never wrong, and the section of a cascade."""
    assert serious_findings(browser, hospitals / "out.html", "#curve-chart path.line", width, theme) == []


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 768, 390])
def test_axe_finds_nothing_serious_with_twelve_models(browser, crowd, width, theme):
    assert serious_findings(browser, crowd / "out.html", "#curve-chart path.line", width, theme) == []


def test_the_worst_group_leads_and_the_rest_is_counted(browser, hospitals):
    watched = Watched(browser, hospitals / "out.html")
    page = watched.page
    page.select_option("#model", index=0)
    page.locator("#slider").focus()
    page.keyboard.press("End")

    def shown_cells() -> list[list[str]]:
        return [row.locator("td").all_inner_texts() for row in page.locator("#part-0 tr").all()]

    caption = page.locator("#parts caption").first
    cells = shown_cells()
    assert len(cells) == 11  # the ten worst; the others are folded
    assert cells[0][0] == "small"
    assert cells[0][4] == "25"
    assert cells[-1][0] == "51 others together"
    assert "The 10 worst of 61 are shown; the last row adds up the others" in caption.inner_text()
    assert sum(int(row[4].replace(",", "")) for row in cells) == 2400
    fold = page.locator("#unfold-0")
    assert fold.get_attribute("aria-expanded") == "false"
    fold.click()
    unfolded = shown_cells()
    assert fold.get_attribute("aria-expanded") == "true"
    assert len(unfolded) == 25
    assert unfolded[:10] == cells[:10]
    assert unfolded[-1][0] == "37 others together"
    assert "The 24 worst of 61 are shown" in caption.inner_text()
    assert sum(int(row[4].replace(",", "")) for row in unfolded) == 2400
    fold.click()
    assert shown_cells() == cells
    watched.check_quiet()
    watched.context.close()


def test_names_of_the_scores_figure_differ_and_absent_numbers_are_explained(browser, hospitals):
    for width in (1100, 390):
        context = browser.new_context(viewport={"width": width, "height": 800})
        page = context.new_page()
        page.goto((hospitals / "out.html").as_uri())
        page.wait_for_selector("#forest .point")
        heads = page.locator("#forest text[font-weight]").evaluate_all(
            "all => all.map(t => t.firstChild.data)"
        )
        assert len(set(heads)) == len(heads) == 3
        options = page.locator("#model option").all_inner_texts()
        assert len(set(options)) == 3
        context.close()
    html = (hospitals / "out.html").read_text()
    assert "AUROC of failures, zero_one: needs both right and wrong samples" in html.replace(
        "errors (0/1 loss)", "zero_one"
    )


def test_curves_differ_by_more_than_colour(browser, crowd):
    watched = Watched(browser, crowd / "out.html")
    looks = watched.page.evaluate("[...Array(24).keys()].map(k => [ink(k), dashes(k)].join())")
    assert len(set(looks)) == 24
    dashes = watched.page.evaluate("[...Array(24).keys()].map(dashes)")
    assert all(a != b for a, b in pairwise(dashes))
    keys = watched.page.locator(".chip svg.key line").evaluate_all(
        "all => all.map(l => l.getAttribute('stroke-dasharray') || '')"
    )
    assert keys == dashes[: len(keys)]
    watched.context.close()


def test_paper_is_drawn_for_paper(browser, digits):
    """Figures have the width of the paper, so that their text keeps its size; a heading stays with what follows."""
    watched = Watched(browser, digits / "out.html")
    page = watched.page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("['curve-chart', 'forest'].map(id => byId(id).getAttribute('width'))") == [
        "660",
        "660",
    ]
    page.emulate_media(media="print")
    style = "(selector, name) => getComputedStyle(document.querySelector(selector))[name]"
    for selector in ("#line h2", "#line > p", "#scores h2"):
        assert page.evaluate(f"({style})('{selector}', 'breakAfter')") == "avoid"
    assert page.evaluate(f"({style})('#line .card', 'breakInside')") == "avoid"
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate("byId('curve-chart').getAttribute('width')") != "660"
    watched.context.close()


def test_every_table_has_a_caption_and_figures_a_text(models):
    page = models.page
    assert page.evaluate(
        "[...document.querySelectorAll('table')].every(t => t.caption && t.caption.textContent.trim())"
    )
    for name in ("curve-chart", "forest"):
        figure = page.locator(f"#{name}")
        assert figure.get_attribute("role") == "img"
        assert figure.locator("title").first.text_content()
    page.locator("#curves summary").click()
    cells = page.locator("#curves tbody tr").first.locator("td").all_inner_texts()
    assert len(cells) == 11
    page.locator("#slider").focus()
    page.keyboard.press("End")
    sync_api.expect(page.locator("#announced")).to_contain_text("coverage 100.0%")


# the first screen: a risk, its promise, and the rule to save -----------------------------------------------


def saved_rule(watched: Watched) -> str:
    with watched.page.expect_download() as got:
        watched.page.locator("#save-rule").click()
    assert got.value.suggested_filename == "rule.json"
    return Path(got.value.path()).read_text()


def test_the_saved_rule_decides_as_the_page_says(models, digits, tmp_path):
    """What the button saves is applied by `abstain decide` to the same file: it accepts what the page promised."""
    page = models.page
    page.locator("#asked").focus()
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    told = page.locator("#promise").inner_text()
    rule = abstain.Threshold.from_json(saved_rule(models))
    assert f"then at most {100 * rule.target:g}% of the answers are wrong" in told
    assert f"Answer {round(100 * rule.coverage)}% of the cases" in told
    (tmp_path / "rule.json").write_text(rule.to_json())
    model = page.locator("#picked option:checked").inner_text()
    arguments = ["decide", str(tmp_path / "rule.json"), str(digits / f"{model}.npz")]
    cli([*arguments, "-o", str(tmp_path / "decided.csv")], standalone_mode=False)
    rows = list(csv.DictReader((tmp_path / "decided.csv").read_text().splitlines()))
    accepted = sum(row["accepted"] == "1" for row in rows)
    assert f"{accepted:,} of 1,200 cases" in page.locator("#rule-facts").inner_text()
    assert models.value("accepted") == accepted  # the slider below shows the same threshold
    assert page.locator("#asked").get_attribute("aria-valuetext") == told
    assert page.locator("#curve-chart path.level").count() == 1
    models.check_quiet()


def test_every_model_has_its_own_risks(models):
    page = models.page
    promises = set()
    for name in ("naive-bayes", "logistic-regression"):
        page.select_option("#picked", label=name)
        promises.add(page.locator("#promise").inner_text())
        assert (
            name
            in page.locator(".model-steps:visible caption, .model-steps:not([hidden]) caption").text_content()
        )
    assert len(promises) == 2


@pytest.mark.parametrize(("width", "height"), [(1400, 900), (390, 844)])
def test_the_first_screen_decides(browser, digits, width, height):
    """Verdict, promise, slider, button and the curve are seen without scrolling."""
    context = browser.new_context(offline=True, viewport={"width": width, "height": height})
    page = context.new_page()
    page.goto((digits / "out.html").as_uri())
    page.wait_for_selector("#curve-chart path.line")
    for selector in (".verdict .lead", "#promise", "#asked", "#save-rule"):
        box = page.locator(selector).bounding_box()
        assert box["y"] + box["height"] <= height, selector
    chart = page.locator("#curve-chart").bounding_box()
    assert chart["y"] + 0.8 * chart["height"] <= height
    if width == 1400:  # the right third is used
        assert chart["x"] + chart["width"] > 1300
    numbers = page.locator(".verdict p:not(.lead)")  # on a phone below the curves
    assert numbers.is_visible()
    assert "interval" in numbers.inner_text()
    context.close()


def test_without_scripts_the_page_says_so_and_keeps_its_tables(browser, digits):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto((digits / "out.html").as_uri())
    assert "Scripts are off" in page.locator("noscript").inner_text()
    assert page.locator("#promise").inner_text().startswith("Answer ")
    for selector in ("#asked", "#save-rule", "#slider", ".chip"):
        assert not page.locator(selector).first.is_visible()
    assert page.locator("#verdicts table").is_visible()
    context.close()


TINY_TEXT = """() => {
  const tiny = [], walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const holder = walker.currentNode.parentElement, box = holder.getBoundingClientRect();
    if (!walker.currentNode.data.trim() || !box.width || !holder.checkVisibility({ visibilityProperty: true })) continue;
    if (holder.closest('.unseen') && box.width < 2) continue;
    const figure = holder.closest('svg[data-figure]');
    const scale = figure ? figure.getBoundingClientRect().width / figure.viewBox.baseVal.width : 1;
    const points = 0.75 * scale * parseFloat(getComputedStyle(holder).fontSize);
    if (points < 7.95) tiny.push([walker.currentNode.data.trim().slice(0, 40), points]);
  }
  return tiny;
}"""


@pytest.mark.parametrize("width", [688, 710])  # what A4 and Letter leave between margins of 14 mm, in pixels
def test_paper_has_no_tiny_text_and_no_dead_controls(browser, digits, width):
    watched = Watched(browser, digits / "out.html")
    page = watched.page
    page.set_viewport_size({"width": width, "height": 1000})
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.evaluate(TINY_TEXT) == []
    for selector in ("button:not(.chip)", "select", "input", "summary", "nav"):
        assert not [found for found in page.locator(selector).all() if found.is_visible()], selector
    assert page.locator(".model-steps:not([hidden]) table").is_visible()  # in place of the slider
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.emulate_media(media="screen")
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert not page.locator("details.steps").evaluate("d => d.open")  # as it was before
    watched.context.close()
