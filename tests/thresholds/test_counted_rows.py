"""Rows of earlier looks are found again in any order, and not by chance."""

import numpy as np
import pytest

from abstain.thresholds import counted_rows


def look(seed, n=300):
    return np.random.default_rng(seed).random(n)


def prints(values, ids=None):
    return counted_rows.fingerprint_rows(np.asarray(values), ids)


def remember(*looks):
    seen = ()
    for values in looks:
        seen = counted_rows.remember_rows(seen, prints(values))
    return seen


def test_a_file_with_all_rows_of_a_look_is_known_in_any_order():
    first, second = look(1), look(2)
    everything = np.random.default_rng(0).permutation(np.concatenate([first, second, look(3)]))
    again = counted_rows.find_counted_again(remember(first, second), prints(everything))
    assert (again.found, again.remembered, again.holds_whole_look) == (128, 128, True)


def test_a_part_of_a_look_is_told_in_proportion():
    first = look(1, n=2000)
    again = counted_rows.find_counted_again(remember(first), prints(np.concatenate([first[:1000], look(3)])))
    assert not again.holds_whole_look
    assert 16 <= again.found <= 48  # about half of 64


@pytest.mark.parametrize("decimals", [None, 2, 1])
def test_other_rows_are_not_found_even_where_confidences_are_coarse(decimals):
    looks = [look(k) if decimals is None else look(k).round(decimals) for k in range(6)]
    assert counted_rows.find_counted_again(remember(*looks[:5]), prints(looks[5])) is None


def test_a_series_without_rows_finds_none():
    assert counted_rows.find_counted_again((), prints(look(1))) is None


def test_ids_tell_equal_confidences_apart():
    assert len(set(prints([0.5, 0.5, 0.5], ids=["a", "b", "a"]))) == 2
    assert prints([0.0])[0] == prints([-0.0])[0]


def test_only_the_latest_looks_are_remembered_in_a_bounded_text():
    seen = remember(*(look(k) for k in range(12)))
    assert len(seen) == 8
    assert sum(map(len, seen)) <= 8 * 8 * 64
    assert counted_rows.are_rows_seen(seen)
    assert counted_rows.find_counted_again(seen, prints(look(0))) is None
    assert counted_rows.find_counted_again(seen, prints(look(11))).holds_whole_look


@pytest.mark.parametrize("damaged", [("not base64!",), ("AAAA" * 200,), ("AAAA",), ("",) * 9])
def test_damaged_texts_are_known(damaged):
    assert not counted_rows.are_rows_seen(damaged)
