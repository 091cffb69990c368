"""A learned confidence inside a network: the same numbers as in numpy, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain.errors import InputError

torch = pytest.importorskip("torch")

from abstain.torch import ConfidenceHead  # noqa: E402


def make_data(class_count: int):
    rng = np.random.default_rng(class_count)
    logits = rng.normal(size=(1200, class_count)) * 2
    chance = np.where(logits.argmax(1) == 0, 0.95, 0.6)
    return logits, rng.random(1200) < chance


@pytest.mark.parametrize(
    ("class_count", "candidate"),
    [
        *(
            (class_count, name)
            for class_count in (2, 3, 25)
            for name in ("baseline", "logits", "class offsets")
        ),
        (3, "temperature"),
        (3, "runner-up"),
        (25, "runner-up"),
    ],
)
def test_equal_to_numpy(class_count, candidate):
    logits, right = make_data(class_count)
    learned = abstain.learn_confidence(right, logits=logits, candidates=[candidate], contributions=False)
    head = ConfidenceHead(learned)
    extremes = np.vstack([logits[:50], logits[:5] * 1e3, np.zeros((1, class_count))])
    rows = torch.tensor(extremes, requires_grad=True)
    np.testing.assert_allclose(head(rows).detach().numpy(), learned(logits=extremes), rtol=1e-9, atol=1e-6)
    assert head.state_dict().keys() == {"slopes", "constant", "tree_leaves"}
    assert (learned.model.trees is not None) == (candidate == "runner-up")
    head(rows[:50]).sum().backward()
    assert torch.isfinite(rows.grad).all()


def test_what_is_refused():
    logits, right = make_data(3)
    with_signal = abstain.learn_confidence(
        right, logits=logits, signals={"a": logits[:, 0]}, contributions=False
    )
    with pytest.raises(InputError, match="learned from logits alone"):
        ConfidenceHead(with_signal)
    head = ConfidenceHead(abstain.learn_confidence(right, logits=logits, contributions=False))
    with pytest.raises(InputError, match=r"must have shape \(n, 3\)"):
        head(torch.zeros(2, 4))
