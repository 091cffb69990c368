"""Loaders: standard archives by a tiny fixture in their format, packed images, outputs in npz and JSON, reviews."""

from __future__ import annotations

import io
import json
import lzma
import pickle
import tarfile

import numpy as np
import pytest

from abstain.errors import DataError, InputError
from reproduction.data import archived_cifar, image_files, image_folder, load_images
from reproduction.outputs import find_outputs, read_json, read_npz, read_reviews

RNG = np.random.default_rng(3)
PIXELS = RNG.integers(
    0, 256, (7, 32, 32, 3), dtype=np.uint8
)  # five training images, one per batch, and two for test
LABELS = [3, 0, 9, 1, 7, 2, 5]


def planes(images):
    """Rows of 1024 red, 1024 green, 1024 blue values."""
    return np.stack([np.concatenate([image[:, :, c].ravel() for c in range(3)]) for image in images])


def members(version, dataset):
    """File name -> content, as the dataset's own archives have them."""
    ten = dataset == "cifar10"
    parts = {f"data_batch_{i + 1}": [i] for i in range(5)} if ten else {"train": list(range(5))}
    parts["test_batch" if ten else "test"] = [5, 6]
    files = {}
    for name, index in parts.items():
        data, labels = planes(PIXELS[index]), [LABELS[i] for i in index]
        if version == "python":
            key = b"labels" if ten else b"fine_labels"
            files[name] = pickle.dumps({b"data": data, key: labels, b"batch_label": b"x"}, protocol=2)
        else:
            coarse = [] if ten else [np.full((len(index), 1), 19)]
            rows = np.hstack([*coarse, np.array(labels)[:, None], data]).astype(np.uint8)
            files[f"{name}.bin"] = rows.tobytes()
    return files


FOLDERS = {
    ("python", "cifar10"): ("cifar-10-batches-py", "cifar-10-python.tar.gz"),
    ("binary", "cifar10"): ("cifar-10-batches-bin", "cifar-10-binary.tar.gz"),
    ("python", "cifar100"): ("cifar-100-python", "cifar-100-python.tar.gz"),
    ("binary", "cifar100"): ("cifar-100-binary", "cifar-100-binary.tar.gz"),
}


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(("version", "dataset"), list(FOLDERS))
def test_standard_archives_give_back_the_pixels(tmp_path, version, dataset, packed):
    folder, archive = FOLDERS[version, dataset]
    files = members(version, dataset)
    if packed:
        with tarfile.open(tmp_path / archive, "w:gz") as tar:
            for name, content in files.items():
                info = tarfile.TarInfo(f"{folder}/{name}")
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    else:
        (tmp_path / folder).mkdir()
        for name, content in files.items():
            (tmp_path / folder / name).write_bytes(content)
    images = load_images(dataset, tmp_path)
    np.testing.assert_array_equal(images.train_images, PIXELS[:5])
    np.testing.assert_array_equal(images.test_images, PIXELS[5:])
    assert images.train_labels.tolist() + images.test_labels.tolist() == LABELS
    assert images.classes == (10 if dataset == "cifar10" else 100)


def test_a_batch_that_wants_to_run_code_is_refused(tmp_path):
    class Evil:
        def __reduce__(self):
            return print, ("gotcha",)

    (tmp_path / "cifar-100-python").mkdir()
    for name in ("train", "test"):
        (tmp_path / "cifar-100-python" / name).write_bytes(pickle.dumps({b"data": Evil()}))
    with pytest.raises(DataError, match="Not loaded"):
        archived_cifar("cifar100", tmp_path)


def test_a_folder_without_images_says_what_it_looked_for(tmp_path):
    with pytest.raises(DataError, match=r"cifar-100-python\.tar\.gz"):
        load_images("cifar100", tmp_path)
    with pytest.raises(InputError, match='"cifar10", "cifar100"'):
        load_images("mnist", tmp_path)


@pytest.mark.data
def test_packed_cifar10_is_the_original(data_dir):
    from reproduction.data import unpack

    images, labels = unpack(data_dir / "images" / "cifar10_test.npz")
    assert images.shape == (10_000, 32, 32, 3)
    assert labels[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    assert np.bincount(labels).tolist() == [1000] * 10


@pytest.mark.data
def test_a_packed_shard_with_other_pixels_is_refused(data_dir, tmp_path):
    from reproduction.data import unpack

    with np.load(data_dir / "images" / "cifar10_test.npz") as shard:
        content = {**shard, "raw_sha256": np.array("0" * 64)}
    np.savez(tmp_path / "bad.npz", **content)
    with pytest.raises(DataError, match="does not decode"):
        unpack(tmp_path / "bad.npz")


def test_outputs_from_npz_and_from_both_forms_of_json_agree(tmp_path):
    logits, labels = RNG.normal(size=(20, 5)), RNG.integers(0, 5, 20)
    (tmp_path / "logits").mkdir()
    np.savez(tmp_path / "logits" / "amazon__bert__a.npz", logits=logits, labels=labels)
    columns = {"logits": logits.tolist(), "labels": labels.tolist()}
    (tmp_path / "logits" / "amazon__bert__b.json").write_text(json.dumps(columns))
    records = [{"logits": z.tolist(), "label": int(y)} for z, y in zip(logits, labels)]
    (tmp_path / "logits" / "amazon__bert__c.json").write_text(json.dumps(records))
    a, b, c = find_outputs(tmp_path, "amazon")
    assert [o.name for o in (a, b, c)] == ["amazon__bert__a", "amazon__bert__b", "amazon__bert__c"]
    wrong = (logits.argmax(1) != labels).astype(float)
    for o in (a, b, c):
        np.testing.assert_array_equal(o.loss("01"), wrong)
        p = np.exp(o.logits) / np.exp(o.logits).sum(1, keepdims=True)
        np.testing.assert_allclose(o.loss("ce"), -np.log(p[np.arange(20), labels]), rtol=1e-6)
        assert (np.argsort(o.score()) == np.argsort(p.max(1))).all()


def test_files_without_outputs_say_what_is_missing(tmp_path):
    np.savez(tmp_path / "x.npz", labels=[0])
    with pytest.raises(DataError, match="`logits` or `probs`"):
        read_npz(tmp_path / "x.npz")
    (tmp_path / "x.json").write_text('{"logits": [[0, 1]]}')
    with pytest.raises(DataError, match="`label`"):
        read_json(tmp_path / "x.json")
    with pytest.raises(InputError, match="no outputs"):
        find_outputs(tmp_path)


def test_reviews_plain_and_compressed(tmp_path):
    text = 'stars,text\n5,"good, very"\n1.0,"two\nlines"\n'
    (tmp_path / "a.csv").write_text(text)
    (tmp_path / "a.csv.xz").write_bytes(lzma.compress(text.encode()))
    for name in ("a.csv", "a.csv.xz"):
        texts, labels = read_reviews(tmp_path / name)
        assert texts == ["good, very", "two\nlines"]
        assert labels.tolist() == [4, 0]
    (tmp_path / "b.csv").write_text("rating,body\n1,x\n")
    with pytest.raises(DataError, match="`stars`"):
        read_reviews(tmp_path / "b.csv")


def test_imagenet_folder_numbers_classes_by_name(tmp_path):
    for folder, files in (("n02", ["b.JPEG", "a.jpeg", "notes.txt"]), ("n01", ["z.png"])):
        (tmp_path / folder).mkdir()
        for name in files:
            (tmp_path / folder / name).touch()
    found = [(path.name, number) for path, number in image_files(tmp_path)]
    assert found == [("z.png", 0), ("a.jpeg", 1), ("b.JPEG", 1)]
    with pytest.raises(DataError, match="one folder per class"):
        image_files(tmp_path / "n01")


# ---------------------------------------------------------------- folders of images


@pytest.fixture
def shapes(tmp_path):
    """Two classes, three training and two test images, written in another order than they are read."""
    from PIL import Image

    placed = [
        ("train/dot/b.png", 4),
        ("train/bar/z.png", 1),
        ("train/bar/a.png", 0),
        ("test/dot/c.PNG", 6),
        ("test/bar/d.png", 5),
    ]
    for path, i in placed:
        (tmp_path / "shapes" / path).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(PIXELS[i]).save(tmp_path / "shapes" / path)
    (tmp_path / "shapes" / "train" / "bar" / "notes.txt").write_text("not an image")
    return tmp_path


def test_a_folder_of_images_gives_back_the_pixels(shapes):
    for found in (load_images("shapes", shapes), load_images("shapes", shapes / "shapes")):
        assert (found.name, found.classes) == ("shapes", 2)
        np.testing.assert_array_equal(found.train_images, PIXELS[[0, 1, 4]])
        np.testing.assert_array_equal(found.test_images, PIXELS[[5, 6]])
        assert found.train_labels.tolist() == [0, 0, 1]
        assert found.test_labels.tolist() == [0, 1]
        assert found.train_labels.dtype == np.int64


def test_a_class_may_be_called_train(shapes):
    (shapes / "shapes" / "train" / "dot").rename(shapes / "shapes" / "train" / "train")
    (shapes / "shapes" / "test" / "dot").rename(shapes / "shapes" / "test" / "train")
    assert load_images("shapes", shapes).train_labels.tolist() == [0, 0, 1]


def test_folders_that_do_not_fit_are_refused(shapes):
    from PIL import Image

    with pytest.raises(DataError, match="CLASS"):
        load_images("cifar100", shapes)
    Image.fromarray(PIXELS[0][:16]).save(shapes / "shapes" / "train" / "dot" / "small.png")
    with pytest.raises(DataError, match=r"\(32, 32\) and \(16, 32\).*small.png"):
        image_folder("shapes", shapes / "shapes")
    (shapes / "shapes" / "test" / "dot").rename(shapes / "shapes" / "test" / "dots")
    with pytest.raises(DataError, match=r"\['dot', 'dots'\]"):
        image_folder("shapes", shapes / "shapes")
