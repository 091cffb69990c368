"""Sorting by digits: Python's own sort is the judge, whatever the spread of the keys."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.core import sorting


def one_by_one(work, count):
    for number in reversed(range(count)):  # the order of the pieces must not matter
        work(number)


def keys_of(kind, n, dtype, rng):
    top = np.iinfo(dtype).max
    few = rng.integers(0, top, 5, dtype=dtype)
    return {
        "uniform": lambda: rng.integers(0, top, n, dtype=dtype),
        "up to the top": lambda: top - rng.integers(0, 3, n, dtype=dtype),
        "one value": lambda: np.full(n, 7, dtype=dtype),
        "zeros": lambda: np.zeros(n, dtype=dtype),
        "few values": lambda: few[rng.integers(0, 5, n)],
        "small": lambda: rng.integers(0, 200, n, dtype=dtype),
        "octaves": lambda: (2.0 ** rng.uniform(0, 8 * np.dtype(dtype).itemsize - 1, n)).astype(dtype),
        "a heavy value": lambda: np.where(
            rng.random(n) < 0.8, dtype(3), rng.integers(0, top, n, dtype=dtype)
        ),
        "sorted": lambda: np.sort(rng.integers(0, top, n, dtype=dtype)),
        "falling": lambda: np.sort(rng.integers(0, top, n, dtype=dtype))[::-1].copy(),
        "alike but for the last bits": lambda: (
            (rng.integers(0, 40, n).astype(dtype) << dtype(24)) + rng.integers(0, 9, n, dtype=dtype)
        ),
    }[kind]()


KINDS = ["uniform", "up to the top", "one value", "zeros", "few values", "small", "octaves", "a heavy value",
         "sorted", "falling", "alike but for the last bits"]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 2, 255, 4096, 20_011])
def test_keys_come_out_in_order(n, kind, dtype, monkeypatch):
    monkeypatch.setattr(sorting, "_KEYS_PER_CHUNK", 1000)
    monkeypatch.setattr(sorting, "_run_for_each", one_by_one)
    keys = keys_of(kind, n, dtype, np.random.default_rng(n))
    expected = sorted(keys.tolist())
    found = sorting.sort_by_digits(keys.copy())
    assert found.dtype == dtype
    assert found.tolist() == expected


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_groups_too_large_for_digits(dtype, monkeypatch):
    monkeypatch.setattr(sorting, "_KEYS_PER_CHUNK", 1000)
    monkeypatch.setattr(sorting, "_run_for_each", one_by_one)
    monkeypatch.setattr(sorting, "_LARGEST_DIGIT_GROUP", 300)
    keys = keys_of("a heavy value", 9_999, dtype, np.random.default_rng(0))
    assert sorting.sort_by_digits(keys.copy()).tolist() == sorted(keys.tolist())


def test_keys_that_differ_only_below_the_digits_looked_at():
    """A group that spans 2^40: its 32 leading bits leave 256 keys alike, in any order."""
    rng = np.random.default_rng(1)
    keys = (rng.integers(0, 50, 5000).astype(np.uint64) << np.uint64(34)) + rng.integers(
        0, 256, 5000, dtype=np.uint64
    )
    out = np.empty_like(keys)
    sorting._sort_parts_by_digits([keys[:2000], keys[2000:]], out)
    assert out.tolist() == sorted(keys.tolist())


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_threads_share_the_work(workers, monkeypatch):
    monkeypatch.setattr(sorting, "thread_count", lambda: workers)
    keys = np.random.default_rng(2).integers(0, 1 << 62, 300_000, dtype=np.uint64)
    assert np.array_equal(sorting.sort_by_digits(keys.copy()), np.sort(keys))


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_area_is_the_same_number_by_either_sort(slow, dtype, monkeypatch):
    rng = np.random.default_rng(3)
    confidence = np.round(rng.normal(size=50_000), 3).astype(dtype)
    loss = rng.random(50_000) < 0.3
    expected = abstain.aurc(loss, confidence)
    asked = []
    monkeypatch.setattr(sorting, "_MIN_KEYS_FOR_DIGITS", 1000)
    monkeypatch.setattr(sorting, "numpy_sorts_slowly", lambda: asked.append(1) or slow)
    assert abstain.aurc(loss, confidence) == expected
    assert asked


@pytest.mark.parametrize("slow", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_long_lines_of_a_batch_give_the_same_numbers_by_either_sort(slow, dtype, monkeypatch):
    monkeypatch.setattr(sorting, "_MIN_LINE_FOR_DIGITS", 1000)
    monkeypatch.setattr(sorting, "numpy_sorts_slowly", lambda: slow)
    rng = np.random.default_rng(4)
    confidence, loss = rng.normal(size=(7, 3000)).astype(dtype), rng.random((7, 3000)) < 0.3
    confidence[3:] = np.round(confidence[3:], 2)
    expected = [abstain.aurc(l, g) for l, g in zip(loss, confidence, strict=True)]
    assert abstain.aurc(loss, confidence) == pytest.approx(expected, rel=1e-13)


def test_the_processor_is_timed_once(monkeypatch):
    first = sorting.numpy_sorts_slowly()
    monkeypatch.setattr(sorting, "_SLOW_NANOSECONDS", 0.0 if not first else 1e9)
    assert sorting.numpy_sorts_slowly() is first
    sorting.numpy_sorts_slowly.cache_clear()
    assert sorting.numpy_sorts_slowly() is not first
    sorting.numpy_sorts_slowly.cache_clear()


def test_signed_zeros_are_one_confidence():
    assert abstain.aurc([1, 0], np.array([0.0, -0.0])) == 0.5
    assert abstain.aurc([1, 0, 0], np.array([0.0, -0.0, -1.0], np.float32)) == pytest.approx(
        (0.5 + 0.5 + 1 / 3) / 3
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_floats_keep_their_order(dtype):
    info = np.finfo(dtype)
    values = np.array(
        [
            info.min,
            -1,
            -info.tiny,
            -info.smallest_subnormal,
            0,
            info.smallest_subnormal,
            info.tiny,
            1,
            info.max,
        ],
        dtype,
    )
    loss = np.arange(9.0)  # the more confident, the larger the loss: value known from the ranks
    exact = np.mean([np.mean(loss[k:]) for k in range(9)])
    assert abstain.aurc(loss, values) == pytest.approx(exact, rel=1e-14)
    assert abstain.aurc(loss.astype(np.float32), values) == pytest.approx(exact, rel=1e-7)
    assert abstain.aurc(loss > 4, values) == pytest.approx(np.mean([np.mean(loss[k:] > 4) for k in range(9)]))


def test_float64_confidences_that_agree_in_their_leading_bits():
    rng = np.random.default_rng(0)
    confidence = 1 - rng.permutation(70_000) * 2.0**-53  # neighbours in float64: leading bits alike
    confidence[0] = -1.0  # both signs: no room for the index below the key
    order = sorting.argsort_descending(confidence)
    assert np.array_equal(order, np.argsort(-confidence, kind="stable"))


def test_order_is_stable_and_descending_for_both_widths():
    rng = np.random.default_rng(1)
    for dtype in (np.float32, np.float64):
        confidence = rng.integers(-50, 50, 10_000).astype(dtype)
        assert np.array_equal(sorting.argsort_descending(confidence), np.argsort(-confidence, kind="stable"))


def test_sort_in_threads_sorts():
    keys = np.random.default_rng(0).integers(0, 1000, 3_000_000).astype(np.uint32)
    assert np.array_equal(sorting.sort_in_place(keys.copy()), np.sort(keys))
    assert np.array_equal(sorting.sort_in_place(np.full(3_000_000, 7, np.uint32)), np.full(3_000_000, 7))
