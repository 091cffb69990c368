"""Boundary checks: unknown names get a suggestion, and numbers are finite whatever their sign and byte order."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain._check import check_choice
from abstain._names import suggest_name
from abstain.errors import DtypeError, InputError

SCORES = ("max_softmax", "max_logit", "margin")
ALIASES = {"msp": "max_softmax"}


def test_a_known_name_passes():
    check_choice("by_name", "score", "margin", SCORES, ALIASES)


@pytest.mark.parametrize(
    ("value", "suggestion"),
    [
        ("Margin", "margin"),
        ("max softmax", "max_softmax"),
        ("max_sofmax", "max_softmax"),
        ("MSP", "max_softmax"),
    ],
)
def test_a_misspelled_name_gets_a_suggestion(value, suggestion):
    with pytest.raises(InputError) as error:
        check_choice("by_name", "score", value, SCORES, ALIASES)
    assert str(error.value) == (
        f'by_name: `score` must be one of "max_softmax", "max_logit", "margin", got {value!r}. '
        f'Did you mean "{suggestion}"?'
    )


@pytest.mark.parametrize("value", ["entropy of something", 3, None])
def test_nothing_is_suggested_for_a_name_unlike_all_choices(value):
    assert suggest_name(value, SCORES, ALIASES) == ""
    with pytest.raises(InputError, match=r"got [^.]*\.$"):
        check_choice("by_name", "score", value, SCORES, ALIASES)


@pytest.mark.parametrize("dtype", [">f4", "<f4", ">f8", "<f8"])
@pytest.mark.parametrize("sign", [1, -1])
def test_floats_of_either_byte_order_and_sign_are_ranked_and_checked(dtype, sign):
    confidence = (sign * np.asarray([0.0, 0.5, 0.25, -0.0, 1e-40, 3e38])).astype(dtype)
    loss = np.asarray([0, 1, 0, 0, 1, 0])
    as_python = [float(value) for value in confidence]
    assert abstain.aurc(loss, confidence) == abstain.aurc(loss, as_python)
    for bad in (np.nan, np.inf, -np.inf):
        confidence[4] = bad
        with pytest.raises(
            InputError, match=r"`confidence` must be finite, got .* at index 4 \(1 such value\)"
        ):
            abstain.aurc(loss, confidence)


def _call_with_other_order(frame, other):
    """Calls with columns of a frame and of another frame with the same rows, by what they call."""
    loss, confidence = frame["loss"], frame["confidence"]
    folded = {"tree": (loss, other["confidence"]), "net": (loss, confidence)}
    return {
        "aurc": lambda: abstain.aurc(loss, other["confidence"]),
        "aurc by group": lambda: abstain.aurc(loss, confidence, groups=other["site"]),
        "interval": lambda: abstain.interval("aurc", loss, confidence, clusters=other["site"]),
        "evaluate": lambda: abstain.evaluate(loss=loss, confidence={"net": other["confidence"]}),
        "compare": lambda: abstain.compare(folded),
        "select_threshold": lambda: abstain.select_threshold(
            loss, confidence, risk=0.5, groups=other["site"]
        ),
        "learn_confidence": lambda: abstain.learn_confidence(other[["confidence"]], loss=loss),
        "combine_signals": lambda: abstain.combine_signals(signals={"a": frame["a"], "b": other["b"]}),
        "compat": lambda: abstain.compat.seapig_aurc(loss, other["confidence"]),
        "Sketch": lambda: abstain.engines.Sketch().update(loss, other["confidence"]),
        "zero_one": lambda: abstain.losses.zero_one(frame[["a", "b"]], other["loss"]),
    }


@pytest.fixture
def frame():
    pd = pytest.importorskip("pandas")
    confidence = np.linspace(0.2, 0.9, 40)
    columns = {"loss": np.arange(40) % 2, "confidence": confidence, "site": ["x", "y"] * 20}
    return pd.DataFrame(columns | {"a": confidence, "b": 1.5 - confidence})


def test_columns_with_the_same_labels_in_another_order_are_refused(frame):
    shuffled = frame.sample(frac=1, random_state=0)
    for call in _call_with_other_order(frame, shuffled).values():
        with pytest.raises(InputError, match=r"same index labels in different orders.*\.loc.*\.to_numpy\(\)"):
            call()
    with pytest.raises(InputError, match="select_threshold: `confidence` and `clusters` must have"):
        abstain.select_threshold(
            frame["loss"].to_numpy(), frame["confidence"], risk=0.5, clusters=shuffled["site"]
        )


def test_columns_of_one_order_of_other_labels_and_plain_arrays_are_combined_by_position(frame):
    shuffled = frame.sample(frac=1, random_state=0)
    expected = abstain.aurc(frame["loss"].to_numpy(), frame["confidence"].to_numpy())
    later = frame.set_axis(range(100, 140))  # as a filtered frame beside a computed column
    for loss, confidence in [
        (frame["loss"], later["confidence"]),
        (frame["loss"], frame["confidence"].to_numpy()),
        (shuffled["loss"], shuffled["confidence"]),
        (frame["loss"], shuffled["confidence"].loc[frame.index]),
    ]:
        assert abstain.aurc(loss, confidence) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("dtype", ["bool", "int64", "int32", "uint8"])
def test_a_mask_of_whole_numbers_off_the_host_is_that_of_booleans(dtype):
    torch = pytest.importorskip("torch")
    loss = [0.0, 1.0, 0.0, 1.0, 0.0]
    confidence = [0.9, 0.8, 0.7, 0.6, 0.5]
    abstained = [0, 1, 0, 0, 0]
    expected = abstain.aurc(loss, confidence, abstained=abstained)
    # a tensor that is part of a gradient is computed by torch, as one on a GPU is
    losses = torch.tensor(loss, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor(abstained, dtype=getattr(torch, dtype))
    area = abstain.aurc(losses, torch.tensor(confidence, dtype=torch.float64), abstained=mask)
    assert area.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("bad", [[0, 2, 0], [0.0, 1.0, 0.0]])
def test_a_mask_of_other_numbers_is_refused_off_the_host(bad):
    torch = pytest.importorskip("torch")
    losses = torch.tensor([0.0, 1.0, 1.0], requires_grad=True)
    with pytest.raises(DtypeError, match="`abstained` must be boolean"):
        abstain.aurc(losses, torch.tensor([0.9, 0.8, 0.7]), abstained=torch.tensor(bad))
