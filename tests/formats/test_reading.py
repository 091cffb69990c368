"""Every format gives back the numbers that were written, and says what it is by key or flag only."""

from __future__ import annotations

import gzip
import json
import lzma

import numpy as np
import pytest

from abstain.errors import DataError
from abstain.formats import Limits, UncertainError, read_predictions

N, K = 40, 3
CLASSES = ("cat", "dog", "newt")


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


def test_npy_is_what_the_flag_says(tmp_path, scores):
    logits, labels = scores
    np.save(tmp_path / "z.npy", logits)
    np.save(tmp_path / "y.npy", labels)
    with pytest.raises(DataError, match="--as logits"):
        read_predictions(tmp_path / "z.npy", labels=tmp_path / "y.npy")
    assert read_predictions(tmp_path / "z.npy", kind="logits", labels=tmp_path / "y.npy").kind == "logits"
    with pytest.raises(DataError, match=r"must sum to one.*--as logits"):
        read_predictions(tmp_path / "z.npy", kind="probs", labels=tmp_path / "y.npy")
    np.save(tmp_path / "p.npy", np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True))
    assert read_predictions(tmp_path / "p.npy", kind="probs", labels=tmp_path / "y.npy").kind == "probs"


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


def test_bfloat16_and_half_safetensors(tmp_path):
    import torch
    from safetensors.torch import save_file

    z = torch.randn(6, 4)
    save_file(
        {"logits": z.bfloat16(), "labels": torch.arange(6, dtype=torch.int16) % 4},
        str(tmp_path / "a.safetensors"),
    )
    read = read_predictions(tmp_path / "a.safetensors")
    np.testing.assert_array_equal(read.logits, z.bfloat16().float().numpy())
    save_file(
        {"probs": z.softmax(1).half(), "labels": torch.zeros(6, dtype=torch.uint8)},
        str(tmp_path / "b.safetensors"),
    )
    assert read_predictions(tmp_path / "b.safetensors").probs.dtype == np.float16


def test_label_words_need_the_order_of_the_classes(tmp_path, scores):
    logits, labels = scores
    words = np.array(CLASSES)[labels]
    np.savez(tmp_path / "w.npz", logits=logits, labels=words)
    with pytest.raises(DataError, match="--classes"):
        read_predictions(tmp_path / "w.npz")
    read = read_predictions(tmp_path / "w.npz", classes=CLASSES)
    np.testing.assert_array_equal(read.labels, labels)
    swapped = read_predictions(tmp_path / "w.npz", classes=("newt", "cat", "dog"))
    np.testing.assert_array_equal(swapped.labels, (labels + 1) % 3)
    np.savez(tmp_path / "v.npz", logits=logits, labels=words, classes=np.array(CLASSES))
    np.testing.assert_array_equal(read_predictions(tmp_path / "v.npz").labels, labels)
    with pytest.raises(DataError, match="'newt' is none of the classes"):
        read_predictions(tmp_path / "w.npz", classes=("cat", "dog", "eel"))


def test_class_names_from_columns(tmp_path):
    text = "label,prob_dog,prob_cat\ncat,0.25,0.75\ndog,0.5,0.5\ncat,0.9,0.1\n"
    (tmp_path / "t.csv").write_text(text)
    read = read_predictions(tmp_path / "t.csv")
    assert read.classes == ("dog", "cat")
    assert read.labels.tolist() == [1, 0, 1]
    assert read.probs.tolist() == [[0.25, 0.75], [0.5, 0.5], [0.9, 0.1]]


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


def test_labels_and_predictions_make_the_loss(tmp_path):
    (tmp_path / "t.csv").write_text("label,prediction,confidence\na,a,0.5\nb,a,0.25\nc,zebra,1\n")
    read = read_predictions(tmp_path / "t.csv")
    assert read.loss.tolist() == [0, 1, 1]
    (tmp_path / "u.csv").write_text("label,prediction,confidence\n1,1,0.5\n2,0,0.25\n")
    assert read_predictions(tmp_path / "u.csv").loss.tolist() == [0, 1]


def test_column_flags_and_wildcards(tmp_path):
    (tmp_path / "t.csv").write_text("truth,score,z1,z0\n1,0.5,1,2\n0,0.25,3,4\n")
    read = read_predictions(tmp_path / "t.csv", columns={"labels": "truth", "logits": "z*"})
    assert read.logits.tolist() == [[2, 1], [4, 3]]
    read = read_predictions(tmp_path / "t.csv", columns={"error": "truth", "confidence": "score"})
    assert read.loss.tolist() == [1, 0]
    with pytest.raises(UncertainError, match="no column `nothing`"):
        read_predictions(tmp_path / "t.csv", columns={"confidence": "nothing"})


def test_two_columns_for_one_thing_are_uncertain(tmp_path):
    (tmp_path / "t.csv").write_text("correct,confidence,conf\n1,0.5,0.2\n")
    with pytest.raises(UncertainError, match="could both be the confidence") as caught:
        read_predictions(tmp_path / "t.csv")
    assert caught.value.source.preview()["first values"] == ["1", "0.5", "0.2"]
    assert read_predictions(tmp_path / "t.csv", columns={"confidence": "conf"}).confidence.tolist() == [0.2]


def test_big_tables_keep_types_over_chunks(tmp_path):
    """A column that turns from numbers to words after 50,000 rows is words throughout."""
    rows = 60_000
    lines = ["correct,confidence,group"] + [f"1,{k},{k if k < 55_000 else 'late'}" for k in range(rows)]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    read = read_predictions(tmp_path / "t.csv")
    assert read.n == rows
    assert read.confidence[-1] == rows - 1
    assert read.groups.row(3) == "3"
    assert read.groups.row(rows - 1) == "late"


def test_quoted_cells_byte_order_mark_and_blanks(tmp_path):
    (tmp_path / "t.csv").write_bytes('\ufeffcorrect, confidence,group\n1,0.5,"a,b\nc"\n0,0.25,x\n'.encode())
    read = read_predictions(tmp_path / "t.csv")
    assert read.confidence.tolist() == [0.5, 0.25]
    assert read.groups.row(0) == "a,b\nc"


def test_limits_are_the_users(tmp_path, scores):
    np.savez(tmp_path / "a.npz", logits=scores[0], labels=scores[1])
    with pytest.raises(DataError, match="--memory"):
        read_predictions(tmp_path / "a.npz", limits=Limits(memory=100))


def test_structured_npy(tmp_path):
    table = np.array([(1, 0.5), (0, 0.25)], dtype=[("correct", "i1"), ("confidence", "f4")])
    np.save(tmp_path / "t.npy", table)
    read = read_predictions(tmp_path / "t.npy")
    assert (read.loss.tolist(), read.confidence.tolist()) == ([0, 1], [0.5, 0.25])


def test_fortran_order_and_big_endian(tmp_path):
    z = np.asfortranarray(np.arange(12.0).reshape(4, 3).astype(">f8"))
    np.savez(tmp_path / "a.npz", logits=z, labels=np.zeros(4, int))
    np.testing.assert_array_equal(read_predictions(tmp_path / "a.npz").logits, np.arange(12.0).reshape(4, 3))


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_words_with_gaps_in_columnar_files(tmp_path, name):
    import pyarrow as pa
    import pyarrow.parquet as pq

    groups = pa.chunked_array([["x", None], ["y", "x"], pa.array([], pa.string())])
    table = pa.table(
        {"correct": pa.array([True, False, True, True]), "confidence": [0.5, 0.25, 1, 0], "group": groups}
    )
    if name == "t.parquet":
        pq.write_table(table, tmp_path / name, row_group_size=2)
    else:
        with pa.OSFile(str(tmp_path / name), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    read = read_predictions(tmp_path / name)
    assert [read.groups.row(i) for i in range(4)] == ["x", "", "y", "x"]
    assert read.loss.tolist() == [0, 1, 0, 0]


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


@pytest.mark.parametrize("ending", [".gz", ".xz", ".bz2", ".txt"])
def test_unpacking_stops_at_the_limit_and_not_before(tmp_path, ending):
    import bz2

    from abstain.formats.safety import open_limited

    pack = {".gz": gzip.compress, ".xz": lzma.compress, ".bz2": bz2.compress, ".txt": bytes}[ending]
    path = tmp_path / f"a{ending}"
    data = np.random.default_rng(0).bytes(10_000)
    path.write_bytes(pack(data))

    def content(limit: int) -> bytes:
        with open_limited(path, Limits(memory=limit)) as stream:
            return stream.read()

    assert content(10_000) == data
    with pytest.raises(DataError, match="decompresses to more than"):
        content(9_999)


def test_the_format_stated_decides_how_cells_are_separated(tmp_path):
    (tmp_path / "odd.dat").write_text("correct\tconfidence\n1\t0.5\n0\t0.25\n")
    assert read_predictions(tmp_path / "odd.dat", format="tsv").confidence.tolist() == [0.5, 0.25]
    (tmp_path / "commas.tsv").write_text("correct,confidence\n1,0.5\n0,0.25\n")
    assert read_predictions(tmp_path / "commas.tsv", format="csv").loss.tolist() == [0, 1]
