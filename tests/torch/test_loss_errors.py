"""Every mistake gets a message that names the remedy; nothing dies on a short batch."""

from __future__ import annotations

import pickle
import warnings

import pytest
import torch
from torch import nn

from abstain.errors import AbstainError, AbstainWarning, DtypeError, InputError, ShapeError
from abstain.torch import AURCLoss, LinearWarmup, aurc_loss

Z, Y = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
NAN = torch.tensor([[0.0, float("nan")], [1.0, 2.0]])


@pytest.mark.parametrize(
    ("arguments", "options", "error", "says"),
    [
        ((Z[0], Y[0]), {}, ShapeError, r"logits\[None\]"),
        ((Z, Y[:3]), {}, ShapeError, r"shape \(4,\) for logits"),
        ((Z, Y[:, None]), {}, ShapeError, r"got \(4, 1\)\. Use `labels.squeeze\(1\)`"),
        ((torch.randn(4, 5, 3), Y.repeat(5, 1)), {}, ShapeError, "movedim"),
        ((torch.randn(2, 5, 5, 3), torch.zeros(2, 5, 5, dtype=torch.long)), {}, ShapeError, "movedim"),
        ((torch.randn(4, 1), Y), {}, ShapeError, "C >= 2"),
        ((Z.long(), Y), {}, DtypeError, "raw output"),
        ((Z, Y.float()), {}, DtypeError, r"labels.long\(\)"),
        ((Z, Y > 0), {}, DtypeError, r"labels.long\(\)"),
        ((Z.tolist(), Y), {}, DtypeError, "torch tensor"),
        ((Z, nn.functional.one_hot(Y, 3)), {}, ShapeError, r"one-hot labels .* `labels.argmax\(1\)`"),
        ((Z, Y + 1), {}, InputError, "count from 0"),
        ((Z, Y - 1), {}, InputError, "ignore_index"),
        ((Z[:0], Y[:0]), {}, InputError, "Skip empty batches"),
        (
            (NAN, Y[:2]),
            {},
            InputError,
            "An input is NaN or infinite, or training has diverged.* learning rate",
        ),
        ((Z, Y), {"mix": LinearWarmup(5)}, InputError, r"`mix` must be a number.*AURCLoss\(mix="),
        ((Z, Y), {"mix": "half"}, InputError, "`mix` must be a number"),
        ((NAN.nan_to_num(float("inf")), Y[:2]), {}, InputError, "first in sample 0"),
        ((Z, Y), {"estimator": "mean"}, InputError, '"harmonic"'),
        ((Z, Y), {"score": "msp"}, InputError, '"max_softmax"'),
        ((Z, Y), {"reduction": "avg"}, InputError, '"mean"'),
        ((Z, Y), {"rank": "fuzzy"}, InputError, '"soft"'),
        ((Z, Y), {"rank": "soft", "temperature": 0}, InputError, "positive"),
        ((Z, Y), {"label_smoothing": 2}, InputError, r"\[0, 1\]"),
        (
            (Z, Y),
            {"label_smoothing": 0.1, "criterion": nn.CrossEntropyLoss(reduction="none")},
            InputError,
            "criterion",
        ),
        ((Z, Y), {"weight": torch.ones(2)}, ShapeError, r"shape \(3,\)"),
        ((Z, Y), {"weight": torch.ones(3), "estimator": "loo"}, InputError, "harmonic"),
        ((Z, Z.softmax(1)), {"weight": torch.ones(3)}, InputError, "class numbers"),
        ((Z, Y), {"gather": True}, InputError, "init_process_group"),
        ((Z, Y), {"gather": True, "rank": "soft"}, InputError, "per replica"),
        ((Z, Y), {"criterion": nn.CrossEntropyLoss()}, ShapeError, 'reduction="none"'),
        ((Z, Y), {"score": lambda z: z}, ShapeError, "one confidence per row"),
        ((torch.randn(9000, 2), torch.zeros(9000, dtype=torch.long)), {"rank": "soft"}, InputError, '"hard"'),
    ],
)
def test_mistakes_are_named(arguments, options, error, says):
    with pytest.raises(error, match=says):
        aurc_loss(*arguments, **options)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_outputs_of_a_softmax_are_warned_of_once_for_each_loss_object(dtype):
    logits, labels = torch.randn(60, 3), torch.arange(60) % 3
    probs = logits.softmax(1).to(dtype).requires_grad_()
    for shape in ((60, 3), (15, 3, 4)):
        criterion = AURCLoss(mix=0.5)
        outputs, targets = probs, labels
        if len(shape) == 3:
            outputs, targets = probs.reshape(15, 4, 3).movedim(-1, 1), labels.reshape(15, 4)
        with pytest.warns(AbstainWarning, match="`logits` look like outputs of a softmax.* takes logits"):
            criterion(outputs, targets)
        criterion(outputs, targets)  # warnings are errors here


def test_logits_are_not_taken_for_outputs_of_a_softmax():
    logits, labels = torch.randn(60, 3), torch.arange(60) % 3
    for scores in (
        logits,
        logits.log_softmax(1),
        logits.sigmoid(),
        logits.softmax(1) + 1,
        logits.softmax(1)[:20],
    ):
        AURCLoss()(scores, labels[: len(scores)])


@pytest.mark.parametrize("batch_size", [1, 5, 60])
@pytest.mark.parametrize("earlier_count", [0, 3, 300])
@pytest.mark.parametrize("is_function", [True, False])
def test_outputs_of_a_softmax_are_warned_of_whenever_they_come(batch_size, earlier_count, is_function):
    torch.manual_seed(0)
    logits, labels = torch.randn(60, 3), torch.arange(60) % 3
    criterion = AURCLoss()  # from here on there may be a warning again
    measure = aurc_loss if is_function else criterion
    for _ in range(earlier_count):
        measure(logits[:batch_size], labels[:batch_size])
    measure(logits.softmax(1)[:20], labels[:20])  # too few rows
    measure(logits[:batch_size], labels[:batch_size])
    batches = list(zip(logits.softmax(1).split(batch_size), labels.split(batch_size)))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for outputs, targets in batches:
            measure(outputs, targets)
    assert [str(warning.message)[:50] for warning in told] == [
        "aurc_loss: `logits` look like outputs of a softmax"
    ]


def test_the_callers_criterion_is_left_alone():
    criterion = nn.CrossEntropyLoss(reduction="none", label_smoothing=0.1)
    before = dict(vars(criterion))
    AURCLoss(criterion=criterion)(Z, Y)
    assert vars(criterion) == before


def test_a_criterion_may_take_class_probabilities():
    soft = Y.new_tensor([1, 2, 0, 1])
    labels = 0.5 * (nn.functional.one_hot(Y, 3) + nn.functional.one_hot(soft, 3))
    by_hand = aurc_loss(Z, labels, criterion=nn.CrossEntropyLoss(reduction="none"))
    torch.testing.assert_close(by_hand, aurc_loss(Z, labels))


def test_masked_classes_are_allowed_and_check_can_be_turned_off():
    masked = torch.tensor([[0.0, -torch.inf, 1.0], [2.0, 0.0, 1.0]])
    assert torch.isfinite(aurc_loss(masked, torch.tensor([0, 1])))
    assert torch.isnan(aurc_loss(NAN, Y[:2], check_finite=False))  # for a GradScaler to see and skip


def test_module_passes_its_options_on(batch):
    logits, target = batch(20)
    options = {
        "estimator": "loo",
        "score": "negative_entropy",
        "label_smoothing": 0.1,
        "mix": 0.2,
        "reduction": "sum",
    }
    assert AURCLoss(**options)(logits, target).item() == aurc_loss(logits, target, **options).item()
    assert "loo" in repr(AURCLoss(estimator="loo"))


def test_module_refuses_bad_options_when_built():
    with pytest.raises(InputError, match="estimator"):
        AURCLoss(estimator="x")
    with pytest.raises(InputError, match="mix"):
        AURCLoss(mix=2.0)
    with pytest.raises(InputError, match="steps"):
        LinearWarmup(0)
    with pytest.raises(InputError, match="start"):
        LinearWarmup(3, start=2.0)


def test_warm_up_moves_with_step_and_survives_a_checkpoint(batch):
    logits, target = batch(20)
    criterion = AURCLoss(mix=LinearWarmup(4))
    values = []
    for _ in range(6):
        values.append(criterion(logits, target).item())
        criterion.step()
    expected = [aurc_loss(logits, target, mix=m).item() for m in (1.0, 0.75, 0.5, 0.25, 0.0, 0.0)]
    assert values == pytest.approx(expected, rel=1e-9)
    half = AURCLoss(mix=LinearWarmup(4))
    half.step()
    resumed = AURCLoss(mix=LinearWarmup(4))
    resumed.load_state_dict(half.state_dict())
    assert resumed.current_mix == half.current_mix == 0.75
    assert AURCLoss().state_dict() == {}  # a drop-in leaves checkpoints as they were


def test_module_can_be_pickled_and_moved(batch):
    logits, target = batch(20)
    criterion = AURCLoss(weight=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    again = pickle.loads(pickle.dumps(criterion)).to(torch.float64)
    assert again.weight.dtype is torch.float64
    assert again(logits, target).item() == pytest.approx(criterion(logits, target).item(), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mix": 5.0}, "`mix`"),
        ({"weight": [1, 2, 3, 4]}, "`weight` must be a torch tensor"),
        ({"weight": torch.tensor([1.0, -1.0, 1.0, 1.0])}, "negative"),
        ({"weight": torch.tensor([1.0, torch.nan, 1.0, 1.0])}, "NaN"),
        ({"score": lambda rows: rows[:, 0] * torch.nan}, "`score` must give every sample a number"),
    ],
)
def test_what_would_train_on_nonsense_is_refused(batch, options, words):
    with pytest.raises(AbstainError, match=words):
        aurc_loss(*batch(20), **options)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"score": "msp"}, InputError, 'Did you mean "max_softmax"'),
        ({"weight": [1.0, 2.0, 3.0]}, DtypeError, r"AURCLoss: `weight` .* got list. Use `torch\.tensor"),
    ],
)
def test_mistakes_in_the_options_are_named_when_the_loss_is_made(options, error, says):
    with pytest.raises(error, match=says):
        AURCLoss(**options)
