from __future__ import annotations

import numpy as np
import pytest

from abstain.confidence.input_profile import InputProfile
from abstain.confidence.input_table import read_inputs
from abstain.errors import InputError


def table_of(n=400, seed=0, missing=0.1, shift=0.0, topics=("law", "art")):
    rng = np.random.default_rng(seed)
    signal = rng.normal(size=n) + shift
    signal[rng.random(n) < missing] = np.nan
    return read_inputs(
        "test",
        signals={"token": signal},
        features={"length": rng.random(n)},
        categories={"topic": rng.choice(topics, n)},
    )


PROFILE = InputProfile.of(table_of(), np.ones(400))


def test_it_describes_shares_and_distributions():
    assert PROFILE.names == ("token", "length", "topic")
    assert PROFILE.signal_names == ("token",)
    assert sum(PROFILE.categories["topic"].values()) == pytest.approx(1)
    assert PROFILE.is_consistent
    assert PROFILE.restricted_to(table_of().without("token")).names == ("length", "topic")


def test_rows_like_those_of_learning_are_no_change():
    for seed in range(1, 20):
        assert PROFILE.find_changes(table_of(seed=seed)) == []


def test_a_value_that_many_rows_share_is_no_change_unless_its_share_changes():
    def table(seed, share):
        rng = np.random.default_rng(seed)
        softmax = np.where(rng.random(3000) < share, 1.0, rng.random(3000) ** 0.1)
        return read_inputs("test", signals={"softmax": softmax})

    profile = InputProfile.of(table(0, share=0.3), np.ones(3000))
    for seed in range(20):  # seed 0 gives the rows of the profile
        assert profile.find_changes(table(seed, share=0.3)) == []
    (change,) = profile.find_changes(table(1, share=0.05))
    assert "cumulative shares differ by up to 2" in change  # 25%, give or take the noise


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"missing": 0.5}, "'token' is missing in"),
        ({"shift": 1.0}, "'token' is distributed otherwise than in learning"),
        (
            {"topics": ("law", "music")},
            "have a 'topic' that was not seen in learning, such as 'music': it gets weight 0",
        ),
    ],
)
def test_other_rows_are_told(changed, words):
    changes = PROFILE.find_changes(table_of(seed=1, **changed))
    assert len(changes) == 1
    assert words in changes[0]
    if "topics" not in changed:  # too few rows to say anything about a distribution
        assert PROFILE.find_changes(table_of(n=20, seed=1, **changed)) == []


def test_a_missing_input_and_another_number_of_classes_are_refused():
    with pytest.raises(InputError, match="reads token, length, topic, got length, topic"):
        PROFILE.check_names("test", table_of().without("token"))
    with_logits = InputProfile.of(read_inputs("test", logits=3 * np.eye(3)), np.ones(3))
    with pytest.raises(InputError, match="learned on 3 classes, got 4"):
        with_logits.check_names("test", read_inputs("test", logits=3 * np.eye(4)))
