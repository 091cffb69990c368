"""The options that say how later files are read."""

from __future__ import annotations

import pytest

from abstain.thresholds.later_options import reading_options


@pytest.mark.parametrize(
    ("option", "for_new", "for_later"),
    [
        ("-c label=y", "", "-c label=y"),
        ("-c is_correct=y", "", "-c is_correct=y"),
        ("--column=confidence=p", "--column confidence=p", "--column confidence=p"),
        ("-c weight=w", "", "-c weight=w"),
        ("-c cluster=w", "", "-c cluster=w"),
        ("-c group=site", "-c group=site", "-c group=site"),
        ("--labels right.npy", "", "--labels LATER_LABELS"),
        ("--only part=1", "", "--only part=1"),
        ("--scale percent", "--scale percent", "--scale percent"),
        ("--confidence c.json --risk 0.1 --save r.json", "--confidence c.json", "--confidence c.json"),
    ],
)
def test_what_only_labelled_files_have_is_left_out_for_new_ones(option, for_new, for_later):
    command = f"abstain threshold a.csv {option} --html page.html"
    assert reading_options(command, has_truth=False) == for_new.split()
    assert reading_options(command.split(), has_truth=True) == for_later.split()
    assert reading_options(None, has_truth=True) == []
