"""Every format gives back the numbers that were written, and says what it is by key or flag only."""

from __future__ import annotations

import gzip
import json
import lzma

import numpy as np
import pytest

from abstain.errors import DataError, InputError
from abstain.formats import UncertainError, read_predictions

N, K = 40, 3


@pytest.fixture
def scores() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(3)
    return rng.normal(size=(N, K)).astype(np.float32), rng.integers(0, K, N)


def _npz(path, logits, labels):
    np.savez(path, logits=logits, labels=labels)


def _npz_packed(path, logits, labels):
    np.savez_compressed(path, y_logits=logits, y_true=labels)


def _json_columns(path, logits, labels):
    path.write_text(json.dumps({"y_logits": logits.tolist(), "y_true": labels.tolist()}))


def _json_records(path, logits, labels):
    path.write_text(json.dumps([{"logits": z.tolist(), "label": int(y)} for z, y in zip(logits, labels)]))


def _jsonl(path, logits, labels):
    path.write_text(
        "\n".join(json.dumps({"logits": z.tolist(), "label": int(y)}) for z, y in zip(logits, labels)) + "\n"
    )


def _jsonl_gz(path, logits, labels):
    text = "\n".join(json.dumps({"logits": z.tolist(), "label": int(y)}) for z, y in zip(logits, labels))
    path.write_bytes(gzip.compress(text.encode()))


def _csv(path, logits, labels):
    lines = ["logit_2,label,logit_0,logit_1"]  # columns by their number, not by their place
    lines += [f"{z[2]!r},{y},{z[0]!r},{z[1]!r}" for z, y in zip(logits.tolist(), labels.tolist())]
    path.write_text("\n".join(lines) + "\n")


def _csv_xz(path, logits, labels):
    lines = ["logit_0,logit_1,logit_2,label"] + [
        ",".join(map(repr, z)) + f",{y}" for z, y in zip(logits.tolist(), labels.tolist())
    ]
    path.write_bytes(lzma.compress("\n".join(lines).encode()))


def _tsv(path, logits, labels):
    lines = ["logit_0\tlogit_1\tlogit_2\tlabel"]
    lines += ["\t".join(map(repr, z)) + f"\t{y}" for z, y in zip(logits.tolist(), labels.tolist())]
    path.write_text("\n".join(lines))


def _parquet(path, logits, labels):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"logits": pa.array(logits.tolist()), "label": labels}), path)


def _arrow(path, logits, labels):
    import pyarrow as pa

    table = pa.table({f"logit_{k}": logits[:, k] for k in range(K)} | {"label": labels})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


def _arrow_stream(path, logits, labels):
    import pyarrow as pa

    table = pa.table({f"logit_{k}": logits[:, k] for k in range(K)} | {"label": labels})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)


def _feather(path, logits, labels):
    import pyarrow as pa
    import pyarrow.feather as feather

    table = pa.table({f"logit_{k}": logits[:, k] for k in range(K)} | {"label": labels})
    feather.write_feather(table, str(path), compression="zstd")


def _safetensors(path, logits, labels):
    from safetensors.numpy import save_file

    save_file({"logits": logits, "labels": labels}, str(path))


def _pt(path, logits, labels):
    import torch

    torch.save({"logits": torch.tensor(logits), "labels": torch.tensor(labels)}, path)


WRITERS = {
    "a.npz": _npz, "b.npz": _npz_packed, "a.json": _json_columns, "b.json": _json_records, "a.jsonl": _jsonl,
    "a.jsonl.gz": _jsonl_gz, "a.csv": _csv, "a.csv.xz": _csv_xz, "a.tsv": _tsv, "a.parquet": _parquet,
    "a.arrow": _arrow, "b.arrow": _arrow_stream, "a.feather": _feather, "a.safetensors": _safetensors, "a.pt": _pt,
}  # fmt: skip


@pytest.mark.parametrize("name", WRITERS)
def test_numbers_come_back(tmp_path, scores, name):
    logits, labels = scores
    WRITERS[name](tmp_path / name, logits, labels)
    read = read_predictions(tmp_path / name)
    assert read.kind == "logits"
    assert read.n == N
    np.testing.assert_array_equal(np.asarray(read.logits, dtype=np.float32), logits)
    np.testing.assert_array_equal(read.labels, labels)


def test_kind_is_never_guessed_from_values(tmp_path):
    """Rows that sum to one under the name logits are neither taken for logits nor for probabilities."""
    p = np.full((5, 2), 0.5)
    np.savez(tmp_path / "p.npz", logits=p, labels=np.zeros(5, int))
    with pytest.raises(DataError, match=r"they are probabilities. State them"):
        read_predictions(tmp_path / "p.npz")
    assert read_predictions(tmp_path / "p.npz", columns={"probs": "logits"}).kind == "probs"
    np.savez(tmp_path / "q.npz", scores=p, labels=np.zeros(5, int))
    with pytest.raises(UncertainError):
        read_predictions(tmp_path / "q.npz")


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl", "t.parquet"])
def test_plain_table_of_an_evaluation_of_language_models(tmp_path, name):
    rows = [
        {"correct": True, "confidence": 0.9, "abstained": False, "group": "maths"},
        {"correct": False, "confidence": 0.4, "abstained": False, "group": "law"},
        {"correct": None, "confidence": None, "abstained": True, "group": "law"},
        {"correct": True, "confidence": 0.7, "abstained": False, "group": "maths"},
    ]
    path = tmp_path / name
    if name == "t.jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    elif name == "t.csv":
        cells = [",".join("" if v is None else str(v) for v in r.values()) for r in rows]
        path.write_text("\n".join([",".join(rows[0]), *cells]))
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path)
    read = read_predictions(path)
    assert read.kind == "confidence"
    assert read.loss[[0, 1, 3]].tolist() == [0, 1, 0]
    assert read.confidence[[0, 1, 3]].tolist() == [0.9, 0.4, 0.7]
    assert read.abstained.tolist() == [False, False, True, False]
    assert read.arguments()["groups"].tolist() == ["maths", "law", "law", "maths"]
    import abstain

    table = abstain.evaluate(**read.arguments(), metrics=["aurc", "risk"])
    # answered: right .9, right .7, wrong .4: selective risks 0, 0, 1/3
    assert table["confidence", "zero_one", "aurc"].estimate == pytest.approx(1 / 9)
    assert table.abstained == 0.25


def test_real_outputs_in_every_format(tmp_path, data_dir):
    """A public network's logits, through every format and back, to the last bit; and one AURC."""
    import abstain
    from abstain.formats import WRITABLE, write_predictions

    first = read_predictions(data_dir / "logits" / "cifar10__resnet20__akamaster.npz")
    truth = abstain.aurc(
        abstain.losses.zero_one(first.logits, first.labels), abstain.scores.max_softmax(first.logits)
    )
    for ending in WRITABLE:
        write_predictions(first, tmp_path / f"out{ending}")
        read = read_predictions(tmp_path / f"out{ending}")
        np.testing.assert_array_equal(read.logits.astype(np.float32), first.logits)
        loss = abstain.losses.zero_one(read.logits, read.labels)
        assert abstain.aurc(loss, abstain.scores.max_softmax(read.logits)) == pytest.approx(truth, rel=1e-12)


def test_what_is_no_path_is_refused_in_words():
    with pytest.raises(InputError, match=r"read_predictions: `path` must be that of a file, got dict"):
        read_predictions({"correct": [1, 0]})
