"""The pages on forecasts and detections show the numbers that the data give."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

import abstain

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def beyond():
    """The script that computes the tables and draws the figures."""
    folder = str(ROOT / "docs" / "generate")
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("beyond", Path(folder) / "beyond.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


@pytest.fixture(scope="module")
def tables(beyond, data_dir):
    return beyond.make_tables(data_dir)


@pytest.mark.parametrize(("page", "table_count"), [("forecasts.md", 4), ("detections.md", 3)])
def test_the_tables_are_those_of_the_page(page, table_count, tables):
    text = (ROOT / "docs" / page).read_text()
    assert len(tables[page]) == table_count
    for table in tables[page]:
        assert table.strip() in text


def test_the_promise_by_image_holds_on_other_images(beyond, data_dir):
    """Half of the images choose the threshold for people, the other half keeps the promise, in most of 20 splits."""
    boxes = beyond.read_detections(data_dir)["SSD"]
    rows = boxes.category == "person"
    wrong = ~boxes.right[rows]
    images = boxes.image[rows]
    rng = np.random.default_rng(0)
    broken = 0
    for _ in range(20):
        chosen = rng.permutation(np.unique(images))[: len(np.unique(images)) // 2]
        calibration = np.isin(images, chosen)
        rule = abstain.select_threshold(
            wrong[calibration],
            boxes.score[rows][calibration],
            risk=0.35,
            delta=0.1,
            clusters=images[calibration],
        )
        accepted = rule.accepts(boxes.score[rows][~calibration])
        broken += wrong[~calibration][accepted].mean() > 0.35
    assert broken <= 5
