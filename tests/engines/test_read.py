"""Columns of prediction files: what is read, checked and refused by file and row."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.engines import files
from abstain.engines.read import _as_arrow
from abstain.errors import DataError, InputError
from tests.engines.test_files import pa, write

from .conftest import write_parts


@pytest.fixture
def sample():
    rng = np.random.default_rng(0)
    g = rng.normal(0, 1, 30_000)
    return rng.random(30_000) < 0.3 / (1 + np.exp(g)), g


def test_a_nan_in_the_middle_of_file_7_is_named(sample, tmp_path, dask_client, spark_session):
    l, g = sample
    g = g.copy()
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l})
    import pyarrow.parquet as pq

    file = tmp_path / "d" / "part-7.parquet"
    table = pq.read_table(file)
    values = table["confidence"].to_numpy().copy()
    values[1234] = np.nan
    pq.write_table(table.set_column(0, "confidence", pa.array(values)), file, row_group_size=900)
    from abstain.engines import dask, spark

    for attempt in (
        lambda: files.aurc(path),
        lambda: dask.aurc(path, client=dask_client),
        lambda: spark.aurc(path, session=spark_session),
    ):
        with pytest.raises(DataError, match=r"must be finite, got nan in .*part-7\.parquet, row 1234\."):
            attempt()
    values = [None if np.isnan(v) else v for v in values]
    pq.write_table(table.set_column(0, "confidence", pa.array(values, pa.float64())), file)
    with pytest.raises(DataError, match=r"missing value in .*part-7\.parquet, row 1234\."):
        files.aurc(path)


def test_bad_questions_are_told(sample, tmp_path):
    l, g = sample
    path = write_parts(tmp_path / "d", {"confidence": g, "loss": l, "w": g * g})
    with pytest.raises(DataError, match="has no column 'score'; it has confidence, loss, w"):
        files.aurc(path, confidence="score")
    with pytest.raises(DataError, match="found no files"):
        files.aurc(str(tmp_path / "nothing-*.parquet"))
    with pytest.raises(InputError, match="needs weights that are repetitions"):
        files.aurc(path, estimator="loo", sample_weight="w")
    with pytest.raises(InputError, match=r"files.coverage_at_risk: .* got 5. Write 0.05 for 5%."):
        files.coverage_at_risk(path, risk=5)
    with pytest.raises(InputError, match='size such as "1GB"'):
        files.aurc(path, memory="plenty")
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        files.aurc(path, colour="red")
    for ignored in ("logits", "scores", "losses"):
        with pytest.raises(InputError, match=f"`{ignored}` needs `labels`, got none"):
            files.evaluate(path, **{ignored: "max_softmax"})
    for ignored in ("loss", "correct", "confidence"):
        with pytest.raises(InputError, match=f"or from `{ignored}`, got both"):
            files.evaluate(path, labels="y", logits=["a", "b"], **{ignored: "loss"})
    empty = write_parts(tmp_path / "e", {"confidence": g[:0], "loss": l[:0]})
    with pytest.raises(InputError, match="needs at least one sample"):
        files.aurc(empty)


@pytest.mark.parametrize("dtype", [bool, int, float])
def test_a_column_of_right_answers(dtype, sample, tmp_path):
    l, g = sample
    path = write(tmp_path / "a.parquet", "parquet", (~l).astype(dtype), g)
    assert files.aurc(path, correct="loss") == pytest.approx(abstain.aurc(l, g), rel=1e-12)
    with pytest.raises(InputError, match="got both"):
        files.aurc(path, correct="loss", loss="loss")


def test_a_right_answer_is_zero_or_one(sample, tmp_path):
    l, g = sample
    odd = (~l).astype(float)
    odd[1234] = 0.5
    with pytest.raises(DataError, match=r"0 \(wrong\) and 1 \(right\), got 0.5 in .*, row 1234"):
        files.aurc(write(tmp_path / "a.parquet", "parquet", odd, g), correct="loss")


ODD_LISTS = {
    "ragged": ([[1.0, 2, 3], [1.0], [1.0, 2, 3, 4, 5], [3.0, 2, 1]], 1),
    "a missing list": ([[1.0, 2], [3.0, 4], None, [5.0, 6], [7.0, 8]], 2),
    "a missing value": ([[1.0, 2], [None, 4], [5.0, 6]], 1),
    "an empty list": ([[1.0, 2], [2.0, 1], []], 2),
}


@pytest.mark.parametrize("kind", ODD_LISTS)
def test_lists_of_logits_of_other_lengths_are_refused_by_their_row(kind, tmp_path):
    from abstain.engines import cluster
    from abstain.engines.read import parse_one_pair

    rows, row = ODD_LISTS[kind]
    table = pa.table({"z": pa.array(rows), "label": np.zeros(len(rows), dtype=int)})
    pa.parquet.write_table(table, tmp_path / "z.parquet")
    with pytest.raises(
        DataError, match=rf"files.aurc: rows of `z` must be lists of one length .* row {row}\."
    ):
        files.aurc(tmp_path, logits="z", labels="label")
    load = cluster.Loader("f", parse_one_pair("f", {"logits": "z", "labels": "label"}))
    for part in (table, table.to_batches()[0], table.to_pandas()):
        with pytest.raises(DataError, match=rf"f: rows of `z` must be lists .* a partition, row {row}\."):
            load(part)


def test_whole_confidences_that_floats_cannot_tell_apart_are_refused(tmp_path):
    pa.parquet.write_table(
        pa.table({"loss": [0, 1, 0], "confidence": [1, 2**53, 2**53 + 1]}), tmp_path / "p.parquet"
    )
    with pytest.raises(DataError, match=r"`confidence` must not exceed 2\^53 .*p.parquet, row 2"):
        files.aurc(tmp_path / "p.parquet")


def test_a_frame_with_a_column_named_column_is_still_a_frame():
    """Arrow tables have a method `column`, and so has such a frame by chance."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"loss": [0.0, 1.0], "confidence": [0.9, 0.1], "column": [1, 2]})
    table = _as_arrow("evaluate", frame, ["loss", "confidence"])
    assert table.column_names == ["loss", "confidence"]
    assert _as_arrow("evaluate", table, ["loss"]) is table


def write_columns(path, columns, **options):
    """Write a Parquet file of these columns and return its path."""
    import pyarrow.parquet as pq

    pq.write_table(pa.table(columns), path, **options)
    return path


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """A learned confidence, its inputs, the losses, and a Parquet file of both with gaps, whole numbers and text."""
    rng = np.random.default_rng(3)
    n = 3000
    token = rng.normal(size=n)
    stated = np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 5, n))
    topic = np.array(["law", "art", None], dtype=object)[rng.integers(0, 3, n)]
    right = token + np.nan_to_num(stated) + rng.logistic(size=n) > 1
    inputs = {"signals": {"token": token, "stated": stated}, "categories": {"topic": topic}}
    learned = abstain.learn_confidence(right, **inputs, contributions=False)
    folder = tmp_path_factory.mktemp("answers")
    import pyarrow.parquet as pq

    table = {
        "token": token,
        "stated": pa.array(stated, from_pandas=True),
        "topic": list(topic),
        "right": right,
    }
    pq.write_table(pa.table(table), folder / "answers.parquet", row_group_size=700)
    return learned, inputs, ~right, folder / "answers.parquet"


def test_every_engine_ranks_by_a_learned_confidence(answers, dask_client, spark_session, monkeypatch):
    from abstain.engines import dask, spark

    learned, inputs, loss, path = answers
    monkeypatch.setattr("abstain.engines.read._LEARNED_ROWS", 256)
    expected = abstain.aurc(loss, learned(**inputs))
    columns = {"confidence": learned, "correct": "right"}
    assert files.aurc(path, **columns) == pytest.approx(expected, rel=1e-12)
    assert dask.aurc(str(path), client=dask_client, **columns) == pytest.approx(expected, rel=1e-12)
    assert spark.aurc(str(path), session=spark_session, **columns) == pytest.approx(expected, rel=1e-12)


def test_a_confidence_learned_from_logits_is_applied_to_their_columns(tmp_path):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(800, 3)) * [3.0, 1.0, 1.0]
    labels = np.where(rng.random(800) < 0.7, logits.argmax(axis=1), rng.integers(0, 3, 800))
    learned = abstain.learn_confidence(labels=labels, logits=logits)
    path = write_columns(tmp_path / "logits.parquet", {"logits": list(logits), "labels": labels})
    table = files.evaluate(path, confidence=learned, labels="labels", metrics=["aurc"])
    loss = logits.argmax(axis=1) != labels
    assert table["learned", "zero_one", "aurc"].estimate == pytest.approx(
        abstain.aurc(loss, learned(logits=logits))
    )
    with pytest.raises(InputError, match="this confidence reads logits"):
        files.aurc(path, confidence=learned, loss="labels")
    with pytest.raises(InputError, match="`scores` or a learned confidence"):
        files.aurc(path, confidence=learned, labels="labels", scores="energy")
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    of_probs = abstain.learn_confidence(labels=labels, probs=probs)
    with pytest.raises(InputError, match="engines read logits"):
        files.aurc(path, confidence=of_probs, labels="labels")


def test_inputs_of_a_learned_confidence_must_be_columns_of_their_kind(answers, tmp_path):
    learned, inputs, loss, _ = answers
    lacking = write_columns(tmp_path / "lacking.parquet", {"token": inputs["signals"]["token"], "loss": loss})
    with pytest.raises(DataError, match="has no column 'stated'"):
        files.aurc(lacking, confidence=learned)
    text = {"token": ["a"], "stated": [1.0], "topic": ["law"], "loss": [1.0]}
    with pytest.raises(DataError, match=r"`token` must hold numbers, got .*string"):
        files.aurc(write_columns(tmp_path / "text.parquet", text), confidence=learned)
    with pytest.raises(InputError, match="must name columns, got LearnedConfidence"):
        files.compare(lacking, first=(learned, "loss"), second=("token", "loss"))
