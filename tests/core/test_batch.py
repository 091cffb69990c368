"""Checks of a training batch that torch and JAX share, on numpy arrays."""

import numpy as np
import pytest

from abstain.core import batch
from abstain.errors import InputError, ShapeError

GOOD_OPTIONS = {
    "estimator": "harmonic",
    "reduction": "mean",
    "rank": "hard",
    "temperature": 1.0,
    "label_smoothing": 0.0,
    "criterion": None,
}


def test_good_options_pass():
    batch.check_options(**GOOD_OPTIONS)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("estimator", "harmonics"),
        ("reduction", "median"),
        ("rank", "firm"),
        ("temperature", 0.0),
        ("label_smoothing", 1.5),
        ("mix", -0.1),
    ],
)
def test_a_bad_option_is_named(option, value):
    with pytest.raises(InputError, match=f"aurc_loss: `{option}`"):
        batch.check_options(**GOOD_OPTIONS | {option: value})


def test_label_smoothing_needs_the_cross_entropy():
    with pytest.raises(InputError, match="label_smoothing"):
        batch.check_options(**GOOD_OPTIONS | {"criterion": abs, "label_smoothing": 0.1})


def test_labels_lie_among_the_classes_or_are_ignored():
    batch.check_labels(np.asarray([0, 2, -100]), 3, -100)
    with pytest.raises(InputError, match="got 3"):
        batch.check_labels(np.asarray([0, 3]), 3, -100)
    with pytest.raises(InputError, match="got -1"):
        batch.check_labels(np.asarray([0, -1]), 3, -100)


def test_the_first_sample_with_nan_is_named_and_minus_infinity_passes():
    import array_api_compat.numpy as xp

    batch.check_finite(xp, np.asarray([[0.0, -np.inf]]), "or stop")
    with pytest.raises(InputError, match=r"first in sample 1 \(2 such values\)"):
        batch.check_finite(xp, np.asarray([[0.0, 1.0], [np.nan, np.inf]]), "or stop")


def test_a_returned_array_has_the_shape_asked_for():
    batch.check_returned("criterion", "one loss per sample", np.zeros(3), (3,))
    with pytest.raises(ShapeError, match=r"shape \(3,\), got \(4,\)"):
        batch.check_returned("criterion", "one loss per sample", np.zeros(4), (3,))


@pytest.mark.parametrize("score", batch.SOFTMAX_SCORES)
def test_keys_are_those_of_the_public_scores(score):
    import array_api_compat.numpy as xp

    from abstain import scores

    logits = np.random.default_rng(0).normal(size=(20, 4))
    np.testing.assert_allclose(
        batch.softmax_key(xp, logits, score), scores.by_name(score)(logits), rtol=1e-12
    )
