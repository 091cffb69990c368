"""What `evaluate` and `compare` take: binary models, word labels, classifiers, probabilities where they belong."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.svm import LinearSVC

import abstain
from abstain.errors import DataError, InputError


def model(n=300, k=3, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    logits = rng.normal(size=(n, k))
    logits[np.arange(n), labels] += rng.exponential(2.0, n)
    return logits, labels


LOGITS, LABELS = model()
PROBS = np.exp(LOGITS) / np.exp(LOGITS).sum(axis=1, keepdims=True)
WORDS = np.array(["cat", "ant", "dog"])  # on purpose not in the order of the alphabet


def risk(table):
    return table["max_softmax", "zero_one", "risk"].estimate


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_probabilities_are_refused_where_logits_belong(dtype):
    probs = PROBS.astype(dtype)
    for take in (
        lambda: abstain.evaluate(probs, LABELS),
        lambda: abstain.compare({"a": probs, "b": LOGITS}, LABELS),
        lambda: abstain.evaluation.expected_aurc(logits=np.stack([probs, probs]), labels=LABELS),
    ):
        with pytest.raises(
            InputError, match=r"must be scores before the softmax.*Pass probabilities as `probs=`"
        ):
            take()
    entropy = abstain.evaluate(probs=probs, labels=LABELS)["max_softmax", "cross_entropy", "risk"].estimate
    by_hand = -np.log(PROBS[np.arange(len(LABELS)), LABELS]).mean()
    assert entropy == pytest.approx(by_hand, rel=5e-3)


def test_one_number_per_sample_is_that_of_class_1():
    logits, labels = model(400, 2)
    log_odds = logits[:, 1] - logits[:, 0]
    p = 1 / (1 + np.exp(-log_odds))
    wrong = ((log_odds > 0) != labels).mean()
    tables = [
        abstain.evaluate(log_odds, labels),
        abstain.evaluate(log_odds[:, None], labels),
        abstain.evaluate(probs=p, labels=labels),
        abstain.evaluate(logits, labels),
    ]
    expected = abstain.aurc((log_odds > 0) != labels, np.abs(log_odds))
    for table in tables:
        assert risk(table) == wrong
        assert table["max_softmax", "zero_one", "aurc"].estimate == pytest.approx(expected, rel=1e-12)
    compared = abstain.compare({"a": log_odds, "b": logits[:, 1]}, labels)
    assert compared.contestants[0].estimate == pytest.approx(expected, rel=1e-12)
    with pytest.raises(InputError, match=r"`logits` of one number per sample must be log-odds.*`probs=`"):
        abstain.evaluate(p, labels)


def test_word_labels_need_the_order_of_the_columns():
    expected = risk(abstain.evaluate(LOGITS, LABELS))
    assert risk(abstain.evaluate(LOGITS, WORDS[LABELS], classes=WORDS)) == expected
    assert risk(abstain.evaluate(LOGITS, WORDS[LABELS].tolist(), classes=WORDS.tolist())) == expected
    assert risk(abstain.evaluate(LOGITS, LABELS + 1, classes=[1, 2, 3])) == expected
    one = abstain.compare({"a": LOGITS, "b": -LOGITS}, WORDS[LABELS], classes=WORDS)
    other = abstain.compare({"a": LOGITS, "b": -LOGITS}, LABELS)
    assert one.contestants == other.contestants
    members = np.stack([LOGITS, LOGITS + 1])
    by_words = abstain.evaluation.expected_aurc(logits=members, labels=WORDS[LABELS], classes=WORDS)
    assert by_words.members == abstain.evaluation.expected_aurc(logits=members, labels=LABELS).members


@pytest.mark.parametrize(
    ("labels", "classes", "message"),
    [
        (WORDS[LABELS], None, "`labels` must be class indices from 0 to 2, got words.*`classes=`"),
        (WORDS[LABELS], ["cat", "ant", "cow"], r"among the classes 'cat', 'ant', 'cow', got 'dog' at index"),
        (WORDS[LABELS], ["cat", "cat", "dog"], "must name every class once"),
        (LABELS, WORDS, r"got numbers while the classes are named 'cat', 'ant', 'dog'.*k-th column"),
    ],
)
def test_labels_that_do_not_say_their_column_are_refused(labels, classes, message):
    with pytest.raises((InputError, TypeError), match=f"evaluate: .*{message}"):
        abstain.evaluate(LOGITS, labels, classes=classes)


def test_named_columns_of_a_frame_are_the_classes():
    pd = pytest.importorskip("pandas")
    expected = risk(abstain.evaluate(LOGITS, LABELS))
    frame = pd.DataFrame(LOGITS, columns=WORDS)
    assert risk(abstain.evaluate(frame, WORDS[LABELS])) == expected
    assert risk(abstain.evaluate(frame, pd.Series(LABELS), classes=WORDS)) == expected
    # numbers follow the stated order of the classes, whatever the order of the columns
    assert risk(abstain.evaluate(frame[["dog", "cat", "ant"]], LABELS, classes=WORDS)) == expected
    assert risk(abstain.evaluate(pd.DataFrame(LOGITS), LABELS)) == expected
    with pytest.raises(InputError, match="got numbers while the classes are named 'cat'"):
        abstain.evaluate(frame, LABELS)
    with pytest.raises(InputError, match="`classes` must be the names of the columns"):
        abstain.evaluate(frame, WORDS[LABELS], classes=["a", "b", "c"])


@pytest.mark.parametrize("names", [None, ["no", "yes", "perhaps"]])
@pytest.mark.parametrize("estimator", [LogisticRegression(), LinearSVC(), RidgeClassifier()])
@pytest.mark.parametrize("k", [2, 3])
def test_a_classifier_with_its_samples(estimator, k, names):
    X, y = make_classification(600, 6, n_informative=4, n_redundant=0, n_classes=k, random_state=0)
    y = y if names is None else np.asarray(names)[y]
    classifier = estimator.fit(X[:300], y[:300])
    table = abstain.evaluate(classifier, X[300:], y[300:])
    wrong = classifier.predict(X[300:]) != y[300:]
    assert risk(table) == wrong.mean()
    scorer = abstain.sklearn.aurc_scorer()
    assert table["max_softmax", "zero_one", "aurc"].estimate == pytest.approx(
        -scorer(classifier, X[300:], y[300:])
    )
    with pytest.raises(InputError, match=r"needs samples and labels, `evaluate\(classifier, X, y\)`"):
        abstain.evaluate(classifier, X)
    with pytest.raises(InputError, match="takes `y` after a fitted classifier"):
        abstain.evaluate(LOGITS, LABELS, LABELS)


class Dataset:
    """What `datasets.Dataset` has, as far as it is read: column names, and an Arrow table behind a format."""

    def __init__(self, table):
        self.table = table
        self.column_names = table.column_names

    def with_format(self, kind):
        assert kind == "arrow"
        return self.table

    def to_pandas(self):
        return self.table.to_pandas()


def containers(columns):
    """The same columns in every container of tables."""
    pd, pl, pa = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    listed = {name: list(values) for name, values in columns.items()}
    return {
        "pandas": pd.DataFrame(listed),
        "polars": pl.DataFrame(listed),
        "pyarrow": pa.table(listed),
        "datasets": Dataset(pa.table(listed)),
    }


ONE_PER_CLASS = {f"prob_{word}": PROBS[:, k] for k, word in enumerate(WORDS)}
TABLES = {
    "rows of logits": ({"logits": LOGITS.tolist(), "labels": LABELS.tolist()}, {}),
    "words": ({"label": WORDS[LABELS].tolist(), **ONE_PER_CLASS}, {}),
    "numbers": ({"label": LABELS.tolist(), **ONE_PER_CLASS}, {"classes": WORDS}),
    "named": ({"truth": WORDS[LABELS].tolist(), **ONE_PER_CLASS}, {"labels": "truth"}),
}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "datasets"])
@pytest.mark.parametrize("content", TABLES)
def test_tables_in_memory_are_read_as_files_are(content, library):
    columns, arguments = TABLES[content]
    table = abstain.evaluate(containers(columns)[library], **arguments)
    assert risk(table) == (LOGITS.argmax(axis=1) != LABELS).mean()


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "datasets"])
def test_a_plain_table_in_memory_with_groups(library, tmp_path):
    rng = np.random.default_rng(0)
    columns = {
        "correct": (rng.random(60) < 0.8).tolist(),
        "confidence": rng.random(60).tolist(),
        "group": rng.choice(["north", "south"], 60).tolist(),
        "comment": [None, "a"] * 30,
    }
    frames = containers(columns)
    frames["pandas"].to_csv(tmp_path / "t.csv", index=False)
    from_file = abstain.evaluate(tmp_path / "t.csv")
    in_memory = abstain.evaluate(frames[library])
    assert in_memory.entries == from_file.entries
    assert in_memory["confidence", "zero_one", "risk"].estimate == 1 - np.mean(columns["correct"])


def test_what_a_table_lacks_is_named():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"label": LABELS, **ONE_PER_CLASS})
    with pytest.raises(DataError, match="the labels are numbers and the columns are named cat, ant, dog"):
        abstain.evaluate(frame)
    with pytest.raises(DataError, match="needs `logits` or `probs` with `labels`"):
        abstain.evaluate(pd.DataFrame({"x": [1, 2]}))
    with pytest.raises(DataError, match="has no rows"):
        abstain.evaluate(frame[:0])
    with pytest.raises(DataError, match="two columns of one name"):
        abstain.evaluate(pd.DataFrame([[1, 2]], columns=["loss", "loss"]))
    mixed = pd.DataFrame({"correct": [1, 0], "confidence": ["a", 0.5]})
    with pytest.raises(DataError, match="'confidence' must hold numbers or text throughout"):
        abstain.evaluate(mixed)
