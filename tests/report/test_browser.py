"""The report in a real browser, offline. Every number shown is recomputed here from the raw file."""

from __future__ import annotations

import re
import shutil
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

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
        self.page.wait_for_selector("#curve-chart .main-svg")

    def fresh(self) -> Watched:
        """As it was when opened (loading five megabytes again for every test would take most of the time)."""
        self.page.evaluate(
            "STATE.view = 'risk'; STATE.bands = true; STATE.hidden.clear(); STATE.step = DATA.models.map(m => m.start);"
            "chooseModel(DATA.best); setTheme('light', false); document.activeElement.blur(); scrollTo(0, 0)"
        )
        return self

    def value(self, name: str) -> float:
        return float(self.page.locator(f"#{name}").get_attribute("data-value"))

    def text(self, name: str) -> str:
        return self.page.locator(f"#{name}").inner_text()

    def check_quiet(self) -> None:
        assert self.complaints == []
        assert [url for url in self.requests if url != self.url and not url.startswith("data:")] == []


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
    return {
        "accepted": k,
        "rejected": n - k,
        "coverage": k / n,
        "risk": wrong / k,
        "wrong": wrong,
        "low": beta.ppf(0.025, wrong, k - wrong + 1) if wrong else 0.0,
        "high": beta.ppf(0.975, wrong + 1, k - wrong) if wrong < k else 1.0,
        "groups": {
            g: (sum(r[3] == g for r in taken), sum(r[3] == g for r in rows)) for g in {r[3] for r in rows}
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
    rows = watched.page.locator("#classes tr").all()
    assert len(rows) == len(told["groups"])
    for row in rows:
        name, _, share, yes, no = row.locator("td").all_inner_texts()
        accepted, total = told["groups"][name]
        assert (int(yes), int(no)) == (accepted, total - accepted)
        assert float(share.rstrip("%")) == pytest.approx(100 * accepted / total, abs=0.051)
    return threshold


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
        rows = models.page.locator("#classes tr").all()
        for row in rows:
            digit, _, _, yes, no = row.locator("td").all_inner_texts()
            assert int(yes) == (taken & (labels == int(digit))).sum()
            assert int(yes) + int(no) == (labels == int(digit)).sum()
        assert len(rows) == 10
        seen.add(threshold)
    assert len(seen) == 3
    models.check_quiet()


def drawn(models: Watched, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The curve of a model as plotly has it."""
    found = models.page.evaluate(
        "n => { const t = document.getElementById('curve-chart').data.find(t => t.name === n);"
        " return t ? [Array.from(t.x), Array.from(t.y)] : null; }",
        name,
    )
    return (np.array([]), np.array([])) if found is None else (np.array(found[0]), np.array(found[1]))


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
    count = "document.getElementById('curve-chart').data.filter(t => t.fill === 'tonexty').length"
    assert models.page.evaluate(count) == 2
    models.page.get_by_role("button", name="Bands").click()
    assert models.page.evaluate(count) == 0


def hover(watched: Watched, x: float, y: float) -> str:
    spot = watched.page.evaluate(
        "([x, y]) => { const gd = document.getElementById('curve-chart'), l = gd._fullLayout,"
        " b = gd.getBoundingClientRect();"
        " return [b.left + l._size.l + l.xaxis.d2p(x), b.top + l._size.t + l.yaxis.d2p(y)]; }",
        [x, y],
    )
    watched.page.mouse.move(spot[0] - 3, spot[1])
    watched.page.mouse.move(*spot, steps=3)
    watched.page.wait_for_selector("#curve-chart .hoverlayer .hovertext")
    return watched.page.locator("#curve-chart .hoverlayer").text_content()


def test_hover_tells_the_point(models, digits):
    key, wrong, _ = raw(digits, "naive-bayes")
    models.page.locator("#curve-chart").scroll_into_view_if_needed()
    told = hover(models, 1.0, float(wrong.mean()))
    assert "naive-bayes" in told
    coverage, risk = re.search(r"coverage ([\d.]+)%risk ([\d.]+)%", told).groups()
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
    page.wait_for_selector("#curve-chart .main-svg")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    context.close()


def test_everything_is_reachable_by_keyboard(models):
    reached = []
    for _ in range(40):
        models.page.keyboard.press("Tab")
        reached.append(
            models.page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()")
        )
    assert {"theme", "slider", "model", "bands", "Generalised risk", "naive-bayes", "80%"} <= set(reached)


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
    page.wait_for_selector("#curve-chart .main-svg")
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
    assert [row.locator("td").first.inner_text() for row in page.locator("#classes tr").all()] == [
        evil,
        image,
        "</script>",
    ]
    assert f"{evil}{image}%{{x}}" in page.locator("button.chip").inner_text()
    method = page.locator("#method").inner_text()
    assert "<script>window.hacked=1<!--.npz" in method
    assert evil.replace("/", "|") in method
    assert page.evaluate("[...document.scripts].length") == 3
    watched.check_quiet()
    watched.context.close()
