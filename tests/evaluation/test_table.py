"""evaluate: the table holds what the single functions say, for every kind of input."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import replace

import matplotlib
import numpy as np
import pytest

import abstain
from abstain.core.rows import Blocks
from abstain.evaluation import Evaluation, evaluate, evaluate_blocks, register_engine
from abstain.metrics import by_name

matplotlib.use("Agg")


def model(n=300, k=5, seed=0, scale=2.0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    logits = rng.normal(size=(n, k))
    logits[np.arange(n), labels] += rng.exponential(scale, n)
    return logits, labels


LOGITS, LABELS = model()


def test_every_number_is_the_one_of_the_single_functions():
    table = evaluate(LOGITS, LABELS)
    losses = {"zero_one": abstain.losses.zero_one(LOGITS, LABELS).astype(float)}
    losses["cross_entropy"] = abstain.losses.cross_entropy(LOGITS, LABELS)
    assert table.losses == tuple(losses)
    assert table.scores == ("max_softmax", "softmax_margin", "negative_entropy", "max_logit")
    assert len(table.entries) == 4 * (8 + 5)
    for e in table.entries:
        metric, loss = by_name(e.metric), losses[e.loss]
        confidence = getattr(abstain.scores, e.score)(LOGITS)
        assert e.estimate == pytest.approx(metric(loss, confidence), rel=1e-12, abs=1e-14)
        assert e.lower_is_better == metric.lower_is_better
        found = abstain.inference.interval(metric, loss, confidence)
        assert (e.low, e.high, e.standard_error) == pytest.approx(
            (found.low, found.high, found.standard_error), rel=1e-9
        )
        assert e.method == found.method
        assert e.reason is None
        assert e.low <= e.high


def test_probabilities_say_the_same_as_their_logits():
    probs = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
    a, b = (
        evaluate(LOGITS, LABELS, metrics=["aurc", "augrc"]),
        evaluate(probs=probs, labels=LABELS, metrics=["aurc", "augrc"]),
    )
    assert "max_logit" not in b.scores
    for e in b.entries:
        assert e.estimate == pytest.approx(a[e.score, e.loss, e.metric].estimate, rel=1e-9)


def test_own_losses_and_confidences():
    loss, confidence = {"a": LABELS % 2, "b": LABELS * 1.5}, {"x": LOGITS[:, 0], "y": LOGITS[:, 1]}
    table = evaluate(loss=loss, confidence=confidence, metrics=["aurc", "auroc"])
    assert table.scores == ("x", "y")
    own = abstain.auroc(loss["a"], confidence["y"])
    assert table["y", "a", "auroc"].estimate == pytest.approx(own, rel=1e-12)
    absent = table["y", "b", "auroc"]
    assert absent.estimate is None
    assert absent.reason == "needs a 0/1 loss"
    beside = evaluate(LOGITS, LABELS, confidence={"mine": LOGITS[:, 0]}, metrics=["aurc"])
    assert "mine" in beside.scores
    assert "max_softmax" in beside.scores


def test_chosen_scores_losses_and_metrics():
    table = evaluate(
        LOGITS, LABELS, scores=["energy", lambda z: z[:, 0]], losses="brier", metrics=["aurc:loo", "risk_at_coverage@0.5"]
    )  # fmt: skip
    assert table.scores == ("energy", "custom score")
    assert table.losses == ("brier",)
    assert table.metrics == ("aurc:loo", "risk_at_coverage@0.5")
    every = evaluate(LOGITS, LABELS, scores="all", losses="all", metrics="all")
    assert set(every.scores) == set(abstain.scores.NAMES)
    assert set(every.losses) == set(abstain.losses.NAMES) - {"top_k"}  # five classes have no top five
    assert any("top_k left out" in note for note in every.notes)
    assert {by_name(m).name for m in every.metrics} == set(abstain.metrics.METRICS)


def test_undefined_numbers_are_absent_with_a_reason_and_never_nan():
    loss = np.zeros(50)
    table = evaluate(loss=loss, confidence=np.arange(50.0))
    auroc = table["confidence", "loss", "auroc"]
    assert auroc.estimate is None
    assert "both right and wrong" in auroc.reason
    naurc = table["confidence", "loss", "naurc"]
    assert naurc.estimate == 0
    assert naurc.low is None
    assert "no spread" in naurc.reason
    area = table["confidence", "loss", "aurc"]
    assert (area.low, area.estimate) == (0, 0)
    assert area.high > 0.1  # the valid bound, not [0, 0]
    for text in (repr(table), table.to_json(), table.to_markdown(), table.to_latex(), table._repr_html_()):
        assert "nan" not in text.lower()
        assert "infinity" not in text.lower()
    assert "both right and wrong" in repr(table)
    with pytest.raises(abstain.errors.InfeasibleError, match="both right and wrong"):
        table.best("auroc")


def test_one_sample_has_a_value_and_no_interval():
    table = evaluate(loss=[1.0], confidence=[0.5], metrics=["aurc", "risk"])
    entry = table["confidence", "loss", "aurc"]
    assert entry.estimate == 1
    assert entry.low is None
    assert "two samples" in entry.reason


def test_a_third_of_the_samples_saturated_is_told():
    logits, labels = model(400, scale=20.0)
    logits = logits.astype(np.float32)
    table = evaluate(logits, labels, metrics=["aurc"])
    assert any("exactly 1.0 in float32" in note for note in table.notes)
    rounded = np.exp(logits - logits.max(axis=1, keepdims=True))
    rounded /= rounded.sum(axis=1, keepdims=True)
    plain = int(np.count_nonzero(rounded.max(axis=1) == 1))
    noted = int(next(n for n in table.notes if "float32" in n).split()[0])
    others = np.sort(np.exp(logits.astype(float) - logits.max(axis=1, keepdims=True)), axis=1)[:, :-1].sum(
        axis=1
    )
    assert noted == np.count_nonzero(np.float32(1) + others.astype(np.float32) == 1)
    assert noted == pytest.approx(plain, rel=0.05)  # the sum's own rounding, term by term, ties a few more
    probs = evaluate(probs=rounded, labels=labels, metrics=["aurc"], losses="zero_one")
    assert any(f"{plain} of 400 samples" in note for note in probs.notes)
    bare = evaluate(loss=(labels == 0), confidence=rounded.max(axis=1), metrics=["aurc"])
    assert bare.top_ties[0].tied == plain
    assert any("tie at the top" in note for note in bare.notes)


def test_labels_of_no_probability_leave_cross_entropy_out_by_default():
    probs = np.eye(3)[[0, 1, 2, 0]]
    table = evaluate(probs=probs, labels=[0, 1, 2, 1], metrics=["aurc"])
    assert table.losses == ("zero_one",)
    assert any("cross_entropy left out" in note for note in table.notes)
    with pytest.raises(abstain.errors.InputError, match="infinite"):
        evaluate(probs=probs, labels=[0, 1, 2, 1], losses="cross_entropy")


def test_groups_are_the_subsets():
    groups = np.where(LABELS < 2, "few", "many")
    table = evaluate(LOGITS, LABELS, groups=groups, scores="max_softmax")
    assert table.groups == ("few", "many")
    alone = evaluate(LOGITS[LABELS < 2], LABELS[LABELS < 2], scores="max_softmax")
    for e in alone.entries:
        twin = table.select(score=e.score, loss=e.loss, metric=e.metric, group="few")[0]
        assert (twin.estimate, twin.low, twin.high) == pytest.approx((e.estimate, e.low, e.high), rel=1e-12)
        assert twin.n == e.n
    worst = table.worst_group("aurc")
    assert worst.low == max(
        table.select(metric="aurc", loss="zero_one", group=g)[0].low for g in table.groups
    )
    assert "group" in table.frame("dict")
    with pytest.raises(abstain.errors.InputError, match="groups"):
        alone.worst_group()


def hospitals(small_errors: int = 28, seed: int = 0) -> tuple[list[int], list[float], list[str]]:
    """Sixty hospitals of 200 samples with 5% errors, one of 46 samples with 61%, and one single wrong sample."""
    rng = np.random.default_rng(seed)
    loss = (rng.random(60 * 200) < 0.05).astype(int).tolist()
    names = [f"hospital {k:02d}" for k in range(60) for _ in range(200)]
    loss += [1] * small_errors + [0] * (46 - small_errors) + [1]
    names += ["small"] * 46 + ["single"]
    return loss, rng.random(len(loss)).tolist(), names


def test_the_group_that_is_surely_bad_comes_first_in_every_view():
    loss, confidence, names = hospitals()
    table = evaluate(loss=loss, confidence=confidence, groups=names, metrics=["risk", "aurc", "auroc"])
    order = table.by_group()
    assert order[0].group == table.worst_group("risk").group == "small"
    limits = [e.low for e in order if e.low is not None]
    assert limits == sorted(limits, reverse=True)
    assert len(order) == 62
    by_auroc = table.by_group("auroc")  # higher is better: the smallest upper limit first, the undefined last
    highs = [e.high for e in by_auroc if e.high is not None]
    assert highs == sorted(highs)
    assert by_auroc[-1].group == "single"
    unlisted = sum(e.n for e in order[24:])
    for view in (repr(table), table._repr_html_(), table.to_latex(), table.to_markdown()):
        assert view.index("small") < min(view.index(e.group) for e in order[1:24])
        assert f"38 more groups with {unlisted:,} samples are not listed" in view
        assert not any(e.group in view for e in order[24:])
        assert order[0].shown_estimate[:4] in view  # LaTeX has the digits that the standard error leaves
    few = evaluate(loss=loss, confidence=confidence, groups=[n[:8] for n in names], metrics=["risk"])
    assert "groups, the worst first by lower limit of risk (confidence, loss)" in repr(few)
    with pytest.raises(abstain.errors.InputError, match="groups"):
        evaluate(loss=loss, confidence=confidence).by_group()


def test_values_that_look_equal_are_all_starred_or_none():
    loss = [0, 1] * 50
    noise = np.random.default_rng(0).random(100)
    better = np.where(loss, 0, 1) + noise
    scores = {"a": better, "b": 2 * better, "c": noise}
    grid = evaluate(loss=loss, confidence=scores, metrics=["aurc", "risk"]).grid("loss")
    assert [grid[k][0].endswith(" *") for k in "abc"] == [True, True, False]
    assert not any(grid[k][1].endswith("*") for k in "abc")  # the same risk for all
    entries = evaluate(loss=loss, confidence=scores, metrics=["aurc"]).entries
    nudged = [
        replace(entries[0], estimate=0.25),
        replace(entries[1], estimate=0.25 * (1 + 1e-12)),
        entries[2],
    ]
    table = Evaluation(entries=tuple(nudged), n=100, level=0.95)
    assert [table.grid("loss")[k][0].endswith(" *") for k in "abc"] == [True, True, False]


def test_weights_repeat_and_abstentions_stay_in_the_coverage():
    rng = np.random.default_rng(1)
    loss, confidence, weight = rng.integers(0, 2, 60), rng.random(60), rng.integers(1, 4, 60)
    weighted = evaluate(loss=loss, confidence=confidence, sample_weight=weight, repetitions=True)
    repeated = evaluate(loss=np.repeat(loss, weight), confidence=np.repeat(confidence, weight))
    for a, b in zip(weighted.entries, repeated.entries):
        assert a.estimate == pytest.approx(b.estimate, rel=1e-12)
    away = confidence < 0.3
    table = evaluate(loss=loss, confidence=confidence, abstained=away)
    assert table.abstained == pytest.approx(np.mean(away))
    assert "abstained" in repr(table)
    own = abstain.augrc(loss, confidence, abstained=away)
    assert table["confidence", "loss", "augrc"].estimate == pytest.approx(own, rel=1e-12)
    assert "cannot be reached" in table["confidence", "loss", "risk_at_coverage@0.8"].reason
    heavy = evaluate(loss=loss, confidence=confidence, abstained=away, sample_weight=weight)
    assert heavy.abstained == pytest.approx(np.sum(weight[away]) / np.sum(weight))


def test_clusters_widen_the_interval():
    loss, confidence = (
        np.repeat(np.random.default_rng(0).integers(0, 2, 40), 10),
        np.random.default_rng(1).random(400),
    )
    naive = evaluate(loss=loss, confidence=confidence, metrics=["risk"])["confidence", "loss", "risk"]
    clustered = evaluate(
        loss=loss, confidence=confidence, metrics=["risk"], clusters=np.repeat(np.arange(40), 10)
    )
    assert clustered["confidence", "loss", "risk"].standard_error > 2.5 * naive.standard_error


def test_points_have_intervals_however_many_samples_there_are():
    rng = np.random.default_rng(5)
    confidence = rng.random(300_000)
    table = evaluate(loss=rng.random(300_000) > confidence, confidence=confidence)
    for key in ("risk_at_coverage@0.8", "coverage_at_risk@0.05"):
        entry = table["confidence", "loss", key]
        assert entry.low < entry.estimate < entry.high < entry.low + 0.02


def test_pixels_are_samples():
    a = evaluate(LOGITS.reshape(30, 10, 5), LABELS.reshape(30, 10), metrics=["aurc"])
    b = evaluate(LOGITS, LABELS, metrics=["aurc"])
    assert a.entries == b.entries


def test_torch_tensors_give_the_same_table():
    torch = pytest.importorskip("torch")
    a = evaluate(torch.from_numpy(LOGITS), torch.from_numpy(LABELS), metrics=["aurc", "naurc"])
    b = evaluate(LOGITS, LABELS, metrics=["aurc", "naurc"])
    assert a.entries == b.entries


# the object -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    return evaluate(LOGITS, LABELS, groups=LABELS % 2, abstained=LOGITS[:, 0] > 2)


def test_json_round_trip(table):
    again = Evaluation.from_json(table.to_json())
    assert again == table
    assert repr(again) == repr(table)
    json.loads(table.to_json(), parse_constant=lambda name: pytest.fail(f"{name} in JSON"))
    for text in ('{"format": "else"}', "[]"):
        with pytest.raises(abstain.errors.InputError, match="not an evaluation"):
            Evaluation.from_json(text)


def test_frame_has_a_row_for_every_entry(table):
    frame = table.frame("pandas")
    assert len(frame) == len(table.entries)
    assert set(frame["metric"]) == set(table.metrics)
    assert table.frame("polars").height == len(table.entries)
    row = frame[
        (frame.score == "max_logit")
        & (frame.metric == "aurc")
        & (frame.loss == "zero_one")
        & frame.group.isna()
    ]
    assert float(row.estimate.iloc[0]) == table["max_logit", "zero_one", "aurc"].estimate


def test_best_and_stars(table):
    for metric in ("aurc", "auroc"):
        values = [e.estimate for e in table.select(metric=metric, loss="zero_one")]
        assert table.best(metric).estimate == (max(values) if metric == "auroc" else min(values))
    lines = repr(table).split("\n")
    row = next(line for line in lines if line.strip().startswith("AURC "))
    assert row.count("*") == 1
    risk = next(line for line in lines if line.strip().startswith("risk "))
    assert "*" not in risk  # the same for every score


def test_unknown_places_are_refused_with_the_known_ones(table):
    with pytest.raises(abstain.errors.InputError, match="max_softmax"):
        table["nothing", "zero_one", "aurc"]
    with pytest.raises(abstain.errors.InputError, match="kind"):
        table.plot(kind="pie")


def test_markdown_latex_and_html(table):
    assert table.to_markdown().count("| AURC") == 3  # one per loss, and the table of groups
    latex = table.to_latex("my_net")
    assert latex.count(r"\begin{tabular}") == 3
    assert latex.count(r"\caption{my\_net: ") == 3
    assert table.to_latex().count("my") == 0
    entry = table["max_softmax", "zero_one", "aurc"]
    decimals = 1 - math.floor(math.log10(entry.standard_error))  # two digits of the error
    assert f" & {entry.estimate:.{decimals}f}" in latex
    assert f" & [{entry.low:.{decimals}f}, {entry.high:.{decimals}f}]" in latex
    assert r"\phantom{0" not in latex.partition(r"\caption{my\_net: groups")[0]
    assert r"max\_softmax" in table.to_latex()
    nasty = evaluate(loss={"<b>|": [0, 1, 0]}, confidence={"<script>": [1, 2, 3]}, metrics=["aurc"])
    assert "<script>" not in nasty._repr_html_()
    assert "<b>" not in nasty._repr_html_()


def test_plots_draw_the_numbers(table):
    import matplotlib.pyplot as plt

    ax = table.plot()
    assert len(ax.lines) == 4
    display = table.display()
    x, y = ax.lines[0].get_data()
    assert tuple(y) == display.lines[0].risk
    curve = abstain.risk_coverage_curve(
        abstain.losses.zero_one(LOGITS, LABELS),
        abstain.scores.max_softmax(LOGITS),
        abstained=LOGITS[:, 0] > 2,
    )
    assert x[-1] == curve.coverage[-1] < 1
    assert y[-1] == curve.risk[-1]
    assert len(display.frame("dict")["risk"]) == sum(len(line.risk) for line in display.lines)
    bars = table.plot(kind="intervals", metric="augrc", loss="cross_entropy")
    labels = [abstain.scores.by_name(name).label for name in table.scores]
    assert [t.get_text() for t in bars.get_yticklabels()] == labels
    assert table.display("intervals").frame("dict")["name"] == labels
    given = plt.figure().add_subplot()
    assert table.plot(given) is given
    plt.close("all")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [({"loss": "cross_entropyy"}, "no loss"), ({"kind": "intervals", "metric": "aurcc"}, "no metric")],
)
def test_a_picture_of_what_is_not_in_the_table_is_refused(table, arguments, words):
    with pytest.raises(abstain.errors.InputError, match=words):
        table.display(**arguments)


def test_repr_breaks_wide_tables():
    table = evaluate(LOGITS, LABELS, scores="all", losses="zero_one", metrics=["aurc", "risk"])
    assert repr(table).count("metric") == 3
    assert max(len(line) for line in repr(table).split("\n")) < 160


# engines --------------------------------------------------------------------------------------------------


def test_an_engine_yields_block_tables_and_gives_the_same_numbers():
    loss, confidence = abstain.losses.zero_one(LOGITS, LABELS).astype(float), LOGITS[:, 0].round(1)
    seen = {}

    def engine(**given):
        seen.update(given)
        pieces = np.array_split(np.arange(300), 7)
        tables = [Blocks.from_samples(loss[p], confidence[p]) for p in pieces]
        return {("confidence", "loss"): tables[0].merge(*tables[1:])}

    register_engine("pieces", engine)
    table = evaluate(loss="column l", confidence="column g", engine="pieces")
    assert seen == {"loss": "column l", "confidence": "column g", "level": 0.95, "metrics": None}
    memory = evaluate(loss=loss, confidence=confidence)
    assert table.metrics == memory.metrics
    for a, b in zip(table.entries, memory.entries):
        assert a.estimate == pytest.approx(b.estimate, rel=1e-12)
        assert (a.low, a.high) == pytest.approx((b.low, b.high), rel=1e-9)
    assert table.top_ties == memory.top_ties
    assert table.curves[0][2].coverage == pytest.approx(memory.curves[0][2].coverage)
    assert table.curves[0][2].risk == pytest.approx(memory.curves[0][2].risk)


def test_an_engine_may_answer_with_the_finished_table():
    done = evaluate(loss=[0, 1, 1], confidence=[3, 2, 1], metrics=["aurc"])
    asked = {}
    found = evaluate(
        "a file", engine=lambda **given: asked.update(given) or done, metrics="aurc:loo", level=0.9
    )
    assert found is done
    assert asked == {"logits": "a file", "level": 0.9, "metrics": ["aurc:loo"]}


def test_engine_tables_of_other_losses_say_what_they_cannot_tell():
    blocks = Blocks.from_samples(LOGITS[:, 1] ** 2, LOGITS[:, 0])
    table = evaluate_blocks({("s", "l"): blocks}, metrics=["aurc", "e_aurc", "auroc", "aupr_error"])
    assert table["s", "l", "aurc"].estimate == pytest.approx(
        abstain.aurc(LOGITS[:, 1] ** 2, LOGITS[:, 0]), rel=1e-12
    )
    assert "samples themselves" in table["s", "l", "e_aurc"].reason
    assert table["s", "l", "auroc"].reason == "needs a 0/1 loss"
    assert table["s", "l", "aupr_error"].estimate is None


def test_unknown_engines_are_refused():
    with pytest.raises(abstain.errors.InputError, match="unknown engine"):
        evaluate(loss=[0], confidence=[1], engine="no_such_engine")
    with pytest.raises(abstain.errors.InputError, match="plain word"):
        register_engine("two words", lambda **given: {})


# bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "needs logits and labels"),
        ({"logits": LOGITS}, "needs `labels`"),
        ({"logits": LOGITS, "probs": LOGITS, "labels": LABELS}, "one of them"),
        ({"loss": [0, 1], "metrics": ["aurc"]}, "needs logits and labels"),
        ({"loss": [0, 2]}, "needs `confidence=` for losses other than"),
        ({"loss": [0, 1], "metrics": ["brier_score"]}, "brier_score needs `confidence=`"),
        ({"loss": [0, 1], "confidence": [1, 2], "scores": "energy"}, "computed from logits"),
        ({"loss": [0, 1], "confidence": [1, 2, 3]}, "one length"),
        ({"loss": [], "confidence": []}, "at least one sample"),
        ({"loss": [0, 1], "confidence": [1, np.nan]}, "finite"),
        ({"loss": [0, 1], "confidence": [1, 2], "level": 95}, "fraction"),
        ({"loss": [0, 1], "confidence": [1, 2], "groups": [1]}, "groups"),
        (
            {"loss": [0, 1], "confidence": [1, 2], "metrics": ["nonsense"]},
            "unknown metric.* aurc,.* simpleqa_f,",
        ),
        ({"loss": [0, 1], "confidence": [1, 2], "metrics": ["ece"]}, 'Did you mean "calibration_error"'),
        ({"loss": [0, 1], "confidence": [1, 2], "metrics": ["aurc:nonsense"]}, "estimator"),
        (
            {"loss": [0, 1], "confidence": [1, 2], "metrics": ["aurc:loo"], "sample_weight": [0.5, 1]},
            "needs weights that are repetitions",
        ),
    ],
)
def test_bad_input_is_refused(given, words):
    with pytest.raises(abstain.errors.InputError, match=words):
        evaluate(**given)


def test_light_import_and_no_plotting_library_before_plot():
    code = (
        "import sys, abstain\n"
        "t = abstain.evaluate(loss=[0, 1, 0, 1], confidence=[4, 3, 2, 1], metrics=['aurc'])\n"
        "repr(t), t.to_json(), t.to_markdown(), t.to_latex(), t._repr_html_()\n"
        "print([m for m in ('pandas', 'polars', 'matplotlib', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.data
def test_real_logits_agree_with_the_published_accuracy(data_dir):
    stored = np.load(data_dir / "logits" / "cifar10__resnet20__akamaster.npz")
    table = evaluate(stored["logits"], stored["labels"], metrics=["aurc", "risk"], losses="zero_one")
    assert table["max_softmax", "zero_one", "risk"].estimate == pytest.approx(1 - 0.9173, abs=1e-9)
    assert table["max_softmax", "zero_one", "aurc"].estimate == pytest.approx(0.01057, abs=6e-6)
    assert any("exactly 1.0 in float32" in note for note in table.notes)


def test_few_errors_are_told_of_with_the_number_they_are_worth():
    """By hand: errors at ranks 1 and 50 of 50 weigh alpha = sum of 1/(n - j) over the ranks above, n = 50."""
    n = 50
    confidence = np.arange(n, 0, -1) / n
    wrong = np.zeros(n, dtype=bool)
    wrong[[0, n - 1]] = True
    alpha = [sum(1 / k for k in range(1, n + 1)), 1 / n]  # of the most confident sample, and of the least
    worth = sum(alpha) ** 2 / sum(a * a for a in alpha)
    table = evaluate(loss=wrong, confidence=confidence, metrics=["aurc", "risk"])
    entry = table["confidence", "loss", "aurc"]
    assert entry.note == f"rests on about {np.floor(10 * worth) / 10:.1f} effective errors (2 in all)"
    assert table["confidence", "loss", "risk"].note is None  # its limits are those of a proportion
    assert table.notes == (f"AURC of confidence (loss) {entry.note}.",)
    assert table.notes[0] in repr(table)
    assert abstain.inference.interval("aurc", wrong, confidence).note == entry.note
    assert table.frame("dict")["note"] == [entry.note, None]
    both = evaluate(loss=wrong, confidence={"up": confidence, "down": -confidence}, metrics=["aurc"])
    assert both.notes == (f"AURC of up (loss) {entry.note}, 1 more number on fewer than 11.",)
    many = evaluate(loss=np.tile([True, False], 40), confidence=np.arange(80), metrics=["aurc"])
    assert many.entries[0].note is None
    assert "effective errors" not in repr(many)


@pytest.mark.parametrize("metric", ["aurc", "augrc", "naurc"])
def test_weights_of_one_change_nothing(metric):
    rng = np.random.default_rng(0)
    for loss in (rng.random(30), rng.random(30) < 0.4):
        confidence, clusters = rng.random(30), np.arange(30) // 2
        for along in ({}, {"clusters": clusters}):
            plain, weighted = (
                abstain.evaluate(
                    loss=loss, confidence=confidence, metrics=metric, sample_weight=weight, **along
                ).entries[0]
                for weight in (None, np.ones(30))
            )
            assert (weighted.low, weighted.high) == pytest.approx((plain.low, plain.high), rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_equal_losses_show_no_spread_however_their_sums_round(weighted):
    rng = np.random.default_rng(1)
    for n in (4, 10, 50):
        weight = rng.random(n) + 0.1 if weighted else None
        table = abstain.evaluate(
            loss=np.full(n, 0.3), confidence=rng.random(n), metrics=["aurc", "risk"], sample_weight=weight
        )
        assert {e.reason for e in table.entries} == {"no interval: the samples show no spread"}


@pytest.mark.parametrize("clusters", ["group", "two kinds"])
def test_a_group_that_is_one_cluster_has_numbers_without_intervals(clusters):
    rng = np.random.default_rng(0)
    n = 300
    confidence = rng.random(n)
    loss = rng.random(n) < 0.5 * (1 - confidence)
    group = np.arange(n) % 3
    kinds = group if clusters == "group" else [group, np.arange(n) % 7]
    metrics = ["aurc", "risk_at_coverage@0.5"]
    table = abstain.evaluate(loss=loss, confidence=confidence, groups=group, clusters=kinds, metrics=metrics)
    independent = abstain.evaluate(loss=loss, confidence=confidence, groups=group, metrics=metrics)
    for entry, same in zip(table.entries, independent.entries):
        assert entry.estimate == pytest.approx(same.estimate, rel=1e-12)
        assert (entry.low is None) == (entry.group is not None)
        assert entry.group is None or "at least two samples (or clusters)" in entry.reason


def test_answers_with_a_confidence_may_all_be_right():
    has_confidence = np.arange(20) < 15
    loss = (~has_confidence).astype(float)
    table = abstain.evaluate(
        loss=loss, confidence=np.arange(20.0), has_confidence=has_confidence, metrics=["aurc"]
    )
    assert np.isfinite(table["aurc"].estimate)
