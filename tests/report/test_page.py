"""The page without a browser: what it says, for every kind of data, and that it is closed in itself."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta

import abstain
from abstain.formats import Rules, read_predictions
from abstain.inference import interval
from abstain.report import gather, page
from abstain.report.certified import EVERY_ANSWER, certified_point
from abstain.report.content import short_names
from abstain.report.decision import summary
from abstain.report.markup import decimals, html_table, safe_json, text
from abstain.report.page import about_ties, ranking
from abstain.report.page_data import embedded
from abstain.report.slider import Partition, make_breakdown


@pytest.fixture
def read(tmp_path):
    def make(text: str, name: str = "t.csv", **options):
        (tmp_path / name).write_text(text)
        return read_predictions(tmp_path / name, **options)

    return make


def plain_table(n: int = 80, seed: int = 0, column: str = "correct") -> str:
    rng = np.random.default_rng(seed)
    g = rng.random(n)
    value = (rng.random(n) < 0.6 + 0.4 * g).astype(int) if column == "correct" else rng.random(n) * (1 - g)
    return "\n".join([f"{column},confidence", *[f"{v},{c}" for v, c in zip(value, g)]])


def test_nothing_is_fetched_and_versions_are_told(read):
    html = page(gather([read(plain_table())]), command="abstain report t.csv", made="today")
    assert len(html) < 300_000
    assert not re.search(r"""(?:src|href)=["'](?!data:|#)""", html)
    assert "http" not in html.replace("http-equiv", "")
    assert f"abstain {abstain.__version__}" in html
    assert f"numpy {np.__version__}" in html
    assert "abstain report t.csv" in html


def test_losses_that_are_not_errors(read):
    content = gather([read(plain_table(column="loss"))])
    data = embedded(content)
    assert data["zero_one"] is False
    steps = data["models"][0]["steps"]
    last = steps["high"][-1]
    loss = content.models[0].predictions.loss
    assert steps["low"][-1] < loss.mean() < last
    assert "mean loss" in summary(content)[0]
    page(content)


def test_weighted_samples_have_limits_too(read):
    text = "loss,confidence,weight\n" + "\n".join(f"{k % 3 == 0:d},{k / 40},{1 + k % 2}" for k in range(40))
    steps = embedded(gather([read(text)]))["models"][0]["steps"]
    weight = 1 + np.arange(40) % 2
    loss = np.arange(40) % 3 == 0
    assert steps["risk"][-1] == pytest.approx(np.sum(weight * loss) / weight.sum())
    risk = interval("risk_at_coverage", loss, np.arange(40.0), coverage=1.0, sample_weight=weight)
    assert (steps["low"][-1], steps["high"][-1]) == pytest.approx((risk.low, risk.high))


def test_samples_of_weight_0_are_not_counted_at_the_slider(read):
    text = "loss,confidence,weight,groups\n" + "\n".join(
        f"{k % 3 == 0:d},{k / 40},{k % 2},{'ab'[k % 5 > 2]}" for k in range(40)
    )
    steps = embedded(gather([read(text)]))["models"][0]["steps"]
    most_confident_first = np.arange(39, -1, -2)  # odd numbers have weight 1
    wrong_counts = np.cumsum(most_confident_first % 3 == 0)
    assert steps["accepted"] == list(range(1, 21))
    assert steps["loss"] == wrong_counts.tolist()
    (part,) = steps["parts"]
    assert [sum(counts) for counts in part["accepted"]] == steps["accepted"]
    assert [sum(losses) for losses in part["loss"]] == steps["loss"]


def test_two_test_sets_are_compared_unpaired(read):
    content = gather([read(plain_table(80), "a.csv"), read(plain_table(90, 1), "b.csv")])
    assert content.comparison is not None
    assert not content.comparison.paired
    shown = ranking(content)
    assert "different test sets" in shown
    assert content.comparison.notes
    assert all(text(note) in shown for note in content.comparison.notes)


@pytest.mark.filterwarnings("ignore:Nothing in the files says")
def test_names_may_have_braces(read):
    html = page(gather([read(plain_table(seed=k), f"{name}.csv") for k, name in enumerate(("{a}", "{}"))]))
    assert html.count('<option value="0">{a}</option>') == 2


def test_two_classes_have_a_clinical_table(tmp_path):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 300)
    logits = rng.normal(size=(300, 2)) + 2 * np.eye(2)[labels]
    np.savez(tmp_path / "two.npz", logits=logits, labels=labels, classes=np.array(["well", "ill"]))
    content = gather([read_predictions(tmp_path / "two.npz")], level=0.9)
    found = content.models[0].clinical
    sure = abstain.scores.max_softmax(logits)
    own = abstain.clinical_table(labels, logits.argmax(axis=1), sure, level=0.9)
    assert found.positive == "ill"
    assert np.array_equal(found.sensitivity.value, own.sensitivity.value)
    assert np.array_equal(found.threshold, abstain.scores.display("max_softmax", own.threshold))
    npv = own.npv.value[0], own.npv.low[0], own.npv.high[0]
    assert '>{:.3f}<br><span class="span">{:.3f} to {:.3f}</span></td>'.format(*npv) in page(content)
    assert '<a href="#clinical">' in page(content)


def test_without_two_classes_there_is_none(tmp_path, read):
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "m.npz", logits=rng.normal(size=(60, 3)), labels=rng.integers(0, 3, 60))
    content = gather([read_predictions(tmp_path / "m.npz"), read(plain_table())])
    assert [m.clinical for m in content.models] == [None, None]
    assert "#clinical" not in page(content)


def test_ties_in_words(read):
    rows = ["1,1.0"] * 30 + ["0,1.0"] * 10 + ["1,0.5"] * 10
    content = gather([read("correct,confidence\n" + "\n".join(rows))])
    told = " ".join(about_ties(content.models[0]))
    assert "50 samples share 2 different confidences" in told
    assert "40 of them (80.0%) tie at the very top" in told
    assert "coverage starts at 80.0%" in told
    assert "25.0%" in told


def test_no_ties_in_words(read):
    told = about_ties(gather([read(plain_table())]).models[0])
    assert told[0].startswith("All 80 samples have different confidences")


def test_many_classes_are_listed_worst_first_and_the_rest_added_up(tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 60, 500)
    logits = rng.normal(size=(500, 60))
    np.savez(tmp_path / "m.npz", logits=logits, labels=labels)
    steps = gather([read_predictions(tmp_path / "m.npz")]).models[0].slider
    [part] = steps.parts
    assert part.groups == 60
    assert {len(places) for places in part.listed} == {24}
    sizes = np.bincount(labels, minlength=60)
    assert [sizes[int(name)] for name in part.names] == part.totals
    for at in range(len(steps.accepted)):
        total, accepted, loss, _ = part.unlisted[at]
        assert sum(part.totals[i] for i in part.listed[at]) + total == 500
        assert sum(part.accepted[at]) + accepted == steps.accepted[at]
        assert sum(part.loss[at]) + loss == pytest.approx(steps.loss[at])
    wrong = np.bincount(labels, logits.argmax(axis=1) != labels, 60)
    # Jeffreys' limits of a proportion; the exact one where all answers are wrong
    lows = {
        str(k): beta.ppf(0.025, wrong[k] + 0.5, sizes[k] - wrong[k] + 0.5) if wrong[k] else 0.0
        for k in range(60)
    }
    lows |= {str(k): 0.025 ** (1 / sizes[k]) for k in range(60) if wrong[k] == sizes[k]}
    shown = [lows[part.names[i]] for i in part.listed[-1]]
    assert shown == pytest.approx(sorted(lows.values(), reverse=True)[:24])
    assert part.low[-1] == pytest.approx(shown, rel=1e-3)


@pytest.mark.parametrize("clustering", ["none", "patients", "patients and places"])
@pytest.mark.parametrize("weighting", ["equal", "weighted"])
@pytest.mark.parametrize("kind", ["errors", "costs", "losses", "gains"])
def test_limits_of_groups_are_those_of_evaluate(kind, weighting, clustering):
    """Of a group: the limits that `evaluate` gives its accepted samples alone."""
    rng = np.random.default_rng(1)
    values = {"errors": rng.random(90) < 0.3, "losses": rng.gamma(1.0, size=90), "gains": rng.normal(size=90)}
    values["costs"] = 10 * values["errors"]
    loss = np.asarray(values[kind], dtype=np.float64)
    weight = np.ones(90) if weighting == "equal" else rng.integers(1, 4, 90).astype(float)
    patients = rng.integers(0, 12, 90)
    places = rng.integers(0, 7, 90)
    two_kinds = np.stack([patients, places], axis=1)
    clusters = {"none": None, "patients": patients, "patients and places": two_kinds}[clustering]
    codes = np.repeat(np.arange(3), 30)
    partition = Partition(codes, ["a", "b", "c"], "group")
    accepted = rng.permutation(90)[:60]
    part = make_breakdown(partition, accepted, loss, weight, clusters, np.array([60]), 0.9)
    for place, low, high, risk in zip(part.listed[0], part.low[0], part.high[0], part.risk[0]):
        rows = accepted[codes[accepted] == place]
        alone = interval(
            "risk_at_coverage",
            loss[rows],
            np.arange(len(rows)) * 1.0,
            coverage=1.0,
            sample_weight=weight[rows],
            clusters=None if clusters is None else clusters[rows],
            level=0.9,
        )
        assert (risk, low, high) == pytest.approx((alone.estimate, alone.low, alone.high), rel=1e-3)
    assert part.low[0] == sorted(part.low[0], reverse=True)


@pytest.mark.parametrize("weights", [None, "weight"])
def test_limits_at_the_slider_are_those_of_evaluate_with_clusters(tmp_path, weights):
    """Five pictures of each patient say less than five patients, at every step and in every group."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(60), 5)
    confidence = rng.random(300)
    hard = rng.random(60)[patient]
    correct = (rng.random(300) > 0.7 * hard * (1 - confidence)).astype(int)
    columns = [correct, confidence, patient, rng.integers(1, 3, 300), patient % 2]
    rows = [",".join(map(str, row)) for row in zip(*columns)]
    (tmp_path / "t.csv").write_text("\n".join(["correct,confidence,patient,w,group", *rows]))
    names = {"clusters": "patient", "group": "group"} | ({} if weights is None else {"weight": "w"})
    predictions = read_predictions(tmp_path / "t.csv", columns=names)
    slider = gather([predictions]).models[0].slider
    for step in range(20, len(slider.coverage), 40):
        accepted = predictions.rows(np.flatnonzero(predictions.confidence >= slider.threshold[step]))
        table = abstain.evaluate(**accepted.arguments() | {"groups": None}, metrics="risk")
        [entry] = table.entries
        point = interval(
            "risk_at_coverage",
            accepted.loss,
            accepted.confidence,
            coverage=1.0,
            sample_weight=accepted.sample_weight,
            clusters=accepted.clusters,
        )
        assert slider.risk[step] == pytest.approx(entry.estimate)
        assert (slider.low[step], slider.high[step]) == pytest.approx((point.low, point.high), rel=1e-3)
    alone = gather([replace(predictions, clusters=None)]).models[0].slider
    assert slider.high[-1] - slider.low[-1] > 1.2 * (alone.high[-1] - alone.low[-1])
    widths = [np.subtract(steps.parts[0].high[-1], steps.parts[0].low[-1]).max() for steps in (slider, alone)]
    assert widths[0] > 1.2 * widths[1]


@pytest.mark.parametrize("extra", ["", "abstained"])
def test_limits_at_a_threshold_with_heavy_ties_are_those_of_a_fixed_one(read, extra):
    """Jeffreys' limits of 110 wrong among 3,513, whatever ties below the threshold."""
    rows = [(k >= 110, 0.98, False) for k in range(3513)] + [(k % 2, 0.95, False) for k in range(4000)]
    rows += [(0, 0.5, True)] * (300 if extra else 0)
    columns = "correct,confidence" + (",abstained" if extra else "")
    lines = [",".join(f"{float(value):g}" for value in row[: 3 if extra else 2]) for row in rows]
    slider = gather([read("\n".join([columns, *lines]))]).models[0].slider
    assert slider.accepted[0] == 3513
    limits = beta.ppf([0.025, 0.975], 110.5, 3403.5)
    assert (slider.low[0], slider.high[0]) == pytest.approx(tuple(limits), rel=1e-3)


@pytest.mark.parametrize("lowest", [0.0, 0.1])
@pytest.mark.parametrize("missing_count", [1, 40])
def test_a_page_does_not_show_the_number_that_ranks_answers_without_a_confidence(read, missing_count, lowest):
    """Only answers without a confidence are rejected by a rule that accepts every answer with one."""
    rows = [(k, int(k % 20 > 0), "1") for k in range(400)] + [(k, int(k % 9 > 0), "0.98") for k in range(400)]
    rows += [(k, int(k % 9 > 0), f"{lowest}") for k in range(40)] + [(0, 0, "")] * missing_count
    text_of_file = "question_index,correct,confidence\n" + "\n".join(
        f"{number},{correct},{confidence}" for number, (_, correct, confidence) in enumerate(rows)
    )
    content = gather([read(text_of_file, rules=Rules(missing="last", unanswered="wrong"))], risk=0.12)
    (model,) = content.models
    told = " ".join(about_ties(model))
    assert f"840 samples share 3 different confidences (confidence). {missing_count} sample" in told
    assert "400 of them" in told
    assert "tie at the very top, 1. No threshold" in told
    assert model.slider.threshold_text[-1] == "everything"
    assert model.slider.threshold_text[-2] in (EVERY_ANSWER, f"{lowest:g}")
    assert "e-324" not in " ".join(model.slider.threshold_text)
    html = page(content)
    assert "e-324" not in re.sub(r"<script.*?</script>|data-csv='.*?'", "", html, flags=re.DOTALL)
    rule = model.certified.rules[model.certified.start]
    curve = model.curve
    if missing_count == 40:
        assert certified_point(curve, rule) == len(curve.threshold) - 2
        assert f"Accept {EVERY_ANSWER}." in html


def test_two_equal_losses_are_no_proof_of_a_bad_group():
    loss = np.array([5.0, 5.0, *np.linspace(0.5, 4, 40)])
    partition = Partition(np.array([0, 0] + [1] * 40), ["pair", "many"], "group")
    part = make_breakdown(partition, np.arange(42), loss, np.ones(42), None, np.array([1, 42]), 0.95)
    assert [part.names[i] for i in part.listed[-1]] == ["many", "pair"]
    assert part.low[-1][1] is None


@pytest.mark.filterwarnings("ignore:.*predictions equal the labels")
@pytest.mark.parametrize("shift", [30, -30])
def test_a_model_that_is_always_right_or_always_wrong_has_a_page(tmp_path, shift):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 200)
    logits = rng.normal(size=(200, 3)) + shift * np.eye(3)[labels]
    np.savez(tmp_path / "m.npz", logits=logits, labels=labels)
    html = page(gather([read_predictions(tmp_path / "m.npz")]))
    assert "Not defined for these data" in html
    assert "AUROC" in html[html.index("Not defined for these data") :]


def test_short_names_differ_whatever_their_order():
    names = [f"{'a' * 30}-{k}-{'b' * 30}" for k in range(12)] + ["plain", "x" * 50 + "1", "x" * 50 + "2"]
    shortened = short_names(names)
    assert shortened == short_names(names[::-1])
    assert len(set(shortened.values())) == len(names)
    assert max(map(len, shortened.values())) <= 40
    assert shortened["plain"] == "plain"


def test_one_hot_labels_and_overflow(tmp_path, read):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 90)
    np.savez(tmp_path / "h.npz", logits=rng.normal(size=(90, 3)), labels=np.eye(3)[labels])
    steps = gather([read_predictions(tmp_path / "h.npz")]).models[0].slider
    assert steps.parts[0].totals == np.bincount(labels).tolist()
    text = "loss,confidence\n" + "\n".join(f"{1e300 * k},{k}" for k in range(30))
    with np.errstate(over="ignore"):
        page(gather([read(text)]))  # squares overflow: the limits are left out, the page is not


def test_one_sample_kinds_and_small_data(read):
    """Two samples, all right: a page comes out and claims little."""
    content = gather([read("correct,confidence\n1,0.5\n1,0.25\n")])
    html = page(content)
    assert ">Risk against coverage</h2>" in html
    steps = embedded(content)["models"][0]["steps"]
    assert steps["high"][0] == pytest.approx(0.975)  # one sample, no error: 1 - 0.025


def test_embedded_json_cannot_leave_its_element():
    nasty = {"a": "</script><!--<script>", "b": "\u2028&amp;"}
    text = safe_json(nasty)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == nasty | {"b": "\\u2028&amp;"}  # a separator of lines is spelt out


def test_estimators_are_those_of_the_library(read):
    content = gather([read(plain_table())])
    model = content.models[0]
    for name, found in model.estimators:
        assert found.estimate == pytest.approx(
            abstain.aurc(model.predictions.loss, model.predictions.confidence, estimator=name)
        )
    assert [name for name, _ in model.estimators] == ["harmonic", "log", "loo", "sele"]


def test_notebook_views_escape():
    evil = "<script>x</script>"
    loss, sure = [0, 0, 1, 0, 1, 0, 0, 1], [8, 7, 3, 6, 2, 5, 4, 1]
    table = abstain.evaluate(loss={evil: loss}, confidence={evil: sure})
    ranking = abstain.compare({evil: (loss, sure), "b": (loss, sure[::-1])})
    rule = abstain.select_threshold(loss, sure, risk=0.2, method="empirical")
    for view in (table._repr_html_(), ranking._repr_html_()):
        assert "&lt;script&gt;" in view
        assert "<script>" not in view
    assert "<table" in rule._repr_html_()


def test_bold_only_where_a_test_tells_it_apart(tmp_path):
    """Two scores that rank alike are never bold; one that is noise loses to the other."""
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 2, 600)
    logits = rng.normal(size=(600, 2))
    logits[np.arange(600), labels] += 1.5
    np.savez(
        tmp_path / "two.npz", logits=logits, labels=labels
    )  # with two classes max, margin, entropy rank alike
    model = gather([read_predictions(tmp_path / "two.npz")]).models[0]
    assert ("zero_one", "aurc") not in model.best
    logits = logits + rng.normal(size=(600, 1)) * 30  # a shift of all logits: only max_logit suffers
    np.savez(tmp_path / "shifted.npz", logits=logits, labels=labels)
    model = gather([read_predictions(tmp_path / "shifted.npz")]).models[0]
    assert "max_logit" not in model.best.values()


def test_columns_show_the_same_digits():
    assert decimals([0.0123, 0.1]) == 4
    assert decimals([0.95, 0.9]) == 3
    assert decimals([0.0, 0.0]) == 0


def test_the_losses_and_metrics_have_words(read):
    html = page(gather([read(plain_table())]))
    assert "errors (0/1 loss)" in html
    assert "NAURC: AURC between the best possible ranking (0) and a random one (1)" in html


def test_groups_and_labels_that_are_numbers_keep_every_digit_and_gaps_are_named(read):
    rows = [f"{k % 3 > 0:d},{k / 40},{1234567 + k % 2},{'' if k % 5 == 0 else k % 2}" for k in range(40)]
    data = embedded(gather([read("correct,confidence,group,label\n" + "\n".join(rows))]))
    parts = data["models"][0]["steps"]["parts"]
    assert sorted(parts[0]["names"]) == ["1234567", "1234568"]
    assert sorted(parts[1]["names"]) == ["0", "1", "none"]


@pytest.mark.parametrize("signals", ["stated", "stated,judged"])
def test_answers_by_confidences_of_any_name(read, signals):
    rows = [f"A,{'AB'[k % 4 == 0]},{k / 60},{(7 * k) % 60 / 60}" for k in range(60)]
    columns = {"labels": "truth", "prediction": "answer", "confidence": signals}
    model = read("truth,answer,stated,judged\n" + "\n".join(rows), columns=columns)
    content = gather([model])
    loss = np.arange(60) % 4 == 0
    found = content.models[0].evaluation
    for name, sure in {"stated": np.arange(60) / 60, "judged": (7 * np.arange(60)) % 60 / 60}.items():
        if name in signals:
            area = abstain.aurc(loss.astype(float), sure)
            assert found[name, "zero_one", "aurc"].estimate == pytest.approx(area)
            if content.comparison is not None:
                told = {c.name: c.estimate for c in content.comparison.contestants}
                assert told[name] == pytest.approx(area)
    assert (content.comparison is None) == (signals == "stated")
    html = page(content)
    assert "confidence by stated" in html


def test_files_are_put_in_one_order_by_their_ids(read):
    rng = np.random.default_rng(0)
    sure, right = rng.random(90), rng.random(90) < 0.7
    rows = [f"x{k},{right[k]:d},{sure[k]:.6f}" for k in range(90)]
    near = [f"x{k},{right[k]:d},{sure[k] + 0.02 * (k % 2):.6f}" for k in range(90)]
    head = "id,correct,confidence\n"
    one = read(head + "\n".join(rows), "a.csv")
    same = gather([one, read(head + "\n".join(near), "b.csv")]).comparison
    with pytest.warns(abstain.errors.AbstainWarning, match="by its ids"):
        moved = gather([one, read(head + "\n".join(near[::-1]), "c.csv")]).comparison
    assert same.paired
    assert moved.paired
    assert moved.pairs[0].standard_error == pytest.approx(same.pairs[0].standard_error)
    others = gather([one, read(head + "\n".join(near).replace("x", "y"), "d.csv")]).comparison
    assert not others.paired


def test_a_curve_without_a_band_says_why(tmp_path):
    rows = [f"{i % 4 > 0:d},{(i * 7) % 60 / 60},L{i % 5},{i % 8}" for i in range(60)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["correct,confidence,place,week", *rows]))
    content = gather([read_predictions(path, columns={"clusters": "place,week"})])
    assert content.models[0].band is None
    assert any("no band" in note for note in content.notes)
    assert gather([read_predictions(path, columns={"clusters": "place"})]).models[0].band is not None


def test_a_table_without_rows_keeps_its_head():
    table = html_table(["model", "AURC"], [], "nothing yet", number_columns=(1,))
    assert table.count("<th ") == 2
    assert "<tbody></tbody>" in table
