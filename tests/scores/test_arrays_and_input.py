"""Every array library, every wrong input, names, tuning."""

from __future__ import annotations

import numpy as np
import pytest

import abstain
from abstain import scores
from abstain.errors import DtypeError, InputError, ShapeError

ALL = (*scores.NAMES, *scores.READING_NAMES)
LOGITS_ONLY = [n for n in ALL if scores.by_name(n).takes == ("logits",)]


def make(library, values):
    import importlib.util
    from pathlib import Path

    spec = importlib.util.spec_from_file_location("arrays", Path(__file__).with_name("conftest.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.make(library, values)


def as_numpy(x):
    return np.asarray(x.detach() if hasattr(x, "detach") else x)


@pytest.mark.parametrize("name", [*ALL, *scores.ENSEMBLE_NAMES])
def test_every_library_gives_the_numpy_answer(library, name):
    score = scores.by_name(name)
    shape = (3, 8, 5) if score.ensemble else (2, 9, 5)
    logits = np.random.default_rng(1).normal(0, 6, shape).astype(np.float32)
    expected = score(logits)
    given = make(library, logits)
    found = score(given)
    tolerance = {"rtol": 3e-6, "atol": 3e-6} if library == "jax" else {"rtol": 1e-13, "atol": 1e-13}
    np.testing.assert_allclose(as_numpy(found), expected, **tolerance)
    assert isinstance(found, np.ndarray if library in ("list", "numpy", "read-only numpy") else type(given))
    if "probs" in score.takes:
        exps = np.exp(logits.astype(float))
        probs = exps / exps.sum(-1, keepdims=True)
        found = score(probs=make(library, probs))
        np.testing.assert_allclose(as_numpy(found), score(probs=probs), **tolerance)


def test_jax_under_jit_and_one_hot_stay_finite(library):
    probs = make(library, np.array([[1.0, 0.0], [0.25, 0.75]]))
    assert np.isfinite(as_numpy(scores.max_softmax(probs=probs))).all()
    if library == "jax":
        import jax

        logits = jax.numpy.asarray([[3.0, 1.0, 0.0], [40.0, 0.0, 0.0]])
        for name in ALL:
            score = scores.by_name(name)
            np.testing.assert_allclose(jax.jit(lambda z, s=score: s(z))(logits), score(logits), rtol=2e-6)


def test_float16_and_bfloat16_are_read_exactly():
    import torch

    half = torch.randn(20, 4, generator=torch.Generator().manual_seed(0)) * 9
    for dtype in (torch.float16, torch.bfloat16):
        narrow = half.to(dtype)
        assert torch.equal(scores.max_softmax(narrow), scores.max_softmax(narrow.double()))
    scores.max_softmax(probs=torch.softmax(half, -1).to(torch.bfloat16))


@pytest.mark.parametrize("name", [*ALL, *scores.ENSEMBLE_NAMES])
def test_one_number_per_sample_is_that_of_class_1(library, name):
    """A binary model's log-odds stand for the logits -d/2 and d/2, its probabilities p for 1 - p and p."""
    score = scores.by_name(name)
    shape = (3, 12) if score.ensemble else (12,)
    log_odds = np.random.default_rng(3).normal(0, 4, shape)
    expected = score(np.stack([-log_odds / 2, log_odds / 2], axis=-1))
    tolerance = {"rtol": 3e-6, "atol": 3e-6} if library == "jax" else {"rtol": 1e-13, "atol": 1e-13}
    for form in (log_odds[..., None],) if score.ensemble else (log_odds, log_odds[..., None]):
        np.testing.assert_allclose(as_numpy(score(make(library, form))), expected, **tolerance)
    if "probs" in score.takes:
        p = (1 / (1 + np.exp(-log_odds))).astype(np.float32)
        expected = score(probs=np.stack([1 - p.astype(float), p], axis=-1))
        p = p[..., None] if score.ensemble else p
        np.testing.assert_allclose(as_numpy(score(probs=make(library, p))), expected, **tolerance)


@pytest.mark.parametrize(
    ("outputs", "error", "message"),
    [
        ({"probs": [0.2, 1.3]}, InputError, r"probabilities of class 1 in \[0, 1\], got 1.3 at index 1"),
        ({"probs": [0.2, np.nan]}, InputError, "got nan at index 1"),
        (
            {"probs": [0.7, 0.2, 0.1]},
            ShapeError,
            r"sums to one. Pass one sample of 3 classes with shape \(1, 3\)",
        ),
        ({"logits": [0.2, np.inf]}, InputError, "log-odds of class 1"),
        (
            {"logits": np.linspace(0.1, 0.9, 8)},
            InputError,
            r"all lie in \[0, 1\]. Pass probabilities.*`probs=`",
        ),
    ],
)
def test_bad_outputs_of_binary_models(outputs, error, message):
    with pytest.raises(error, match=f"max_softmax: .*{message}"):
        scores.max_softmax(outputs.pop("logits", None), **outputs)


@pytest.mark.parametrize("name", [*ALL, *scores.ENSEMBLE_NAMES, *abstain.losses.NAMES])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_probabilities_are_refused_as_logits(name, dtype):
    import torch

    shape = (3, 8, 5) if name in scores.ENSEMBLE_NAMES else (8, 5)
    logits = torch.randn(shape, generator=torch.Generator().manual_seed(0)) * 2
    probs = torch.softmax(logits.double(), -1).to(getattr(torch, dtype))
    labels = [torch.arange(8) % 4] if name in abstain.losses.NAMES else []
    function = getattr(abstain.losses, name) if labels else scores.by_name(name)
    options = {"k": 1} if name == "top_k" else {}
    with pytest.raises(
        InputError, match=r"`logits` must be scores before the softmax.*`probs=`.*add 1 to all"
    ):
        function(probs, *labels, **options)
    function(probs + 1, *labels, **options)  # how to insist
    function(probs.to(logits.dtype) * 1.1, *labels, **options)


def test_one_row_of_half_precision_may_sum_to_one_by_chance():
    row = np.array([[0.375, 0.625]])
    scores.max_softmax(row.astype(np.float16))
    with pytest.raises(InputError, match="before the softmax"):
        scores.max_softmax(row)


@pytest.mark.parametrize("name", LOGITS_ONLY)
def test_scores_of_logits_refuse_probabilities(name):
    with pytest.raises(DtypeError, match=f"{name}: needs logits, got `probs=`.*pass the logits"):
        scores.by_name(name)(probs=[[0.5, 0.5]])


@pytest.mark.parametrize("name", [*ALL, *scores.ENSEMBLE_NAMES])
def test_both_and_neither_are_errors(name):
    score = scores.by_name(name)
    with pytest.raises(InputError, match="got neither"):
        score()
    with pytest.raises(InputError, match="got both"):
        score([[1.0, 2.0]], probs=[[0.5, 0.5]])


@pytest.mark.parametrize(
    ("logits", "error", "message"),
    [
        ([[1.0, np.nan]], InputError, r"got nan at index \(0, 1\)"),
        ([[1.0, 2.0], [np.inf, 0.0]], InputError, r"got inf at index \(1, 0\)"),
        ([[-np.inf, -np.inf]], InputError, "possible class"),
        (np.zeros((0, 3)), ShapeError, "one sample"),
        (3.0, ShapeError, "shape"),
        (np.array([["a", "b"]]), DtypeError, "real numbers"),
        (np.array([[1.0, None]], dtype=object), DtypeError, "object"),
        (np.array([[1j, 2]]), DtypeError, "complex"),
    ],
)
def test_bad_logits(logits, error, message):
    with pytest.raises(error, match=f"max_softmax.*{message}"):
        scores.max_softmax(logits)


@pytest.mark.parametrize(
    ("probs", "message"),
    [
        ([[0.5, 0.5], [0.5, 0.6]], "sum to one.*got 1.1 at index 1, the worst row"),
        ([[0.5, 0.52], [0.5, 0.6], [0.2, 0.2]], "got 0.4 at index 2"),
        ([[80, 20], [55, 45.0]], "If these are percentages, divide by 100"),
        ([[1.5, -0.5]], r"negative.*-0.5 at index \(0, 1\).*logits"),
        ([[np.nan, 0.5]], "NaN"),
        ([[np.inf, 0.5]], "sum to one"),
    ],
)
def test_bad_probabilities(probs, message):
    with pytest.raises(InputError, match=message):
        scores.max_softmax(probs=probs)


def test_sum_tolerance_goes_by_dtype():
    near = np.array([[0.5, 0.50005]])
    scores.max_softmax(probs=near.astype(np.float32))
    scores.max_softmax(probs=np.array([[0.5, 0.51]], dtype=np.float16))
    with pytest.raises(InputError, match="within 1e-05"):
        scores.max_softmax(probs=near)
    with pytest.raises(InputError, match=r"within 0\.0001"):
        scores.max_softmax(probs=np.array([[0.5, 0.51]], dtype=np.float32))


@pytest.mark.parametrize("name", ["logit_norm", "normalised_max_logit"])
def test_norms_have_no_masked_classes(name):
    with pytest.raises(InputError, match="needs finite ones"):
        scores.by_name(name)([[1.0, -np.inf]])


def test_bad_options():
    for temperature in (0, -1, np.nan, np.inf, "warm"):
        with pytest.raises(InputError, match="temperature"):
            scores.max_softmax([[1.0, 2.0]], temperature=temperature)
    with pytest.raises(InputError, match="`p` must be a number above 1"):
        scores.probability_norm([[1.0, 2.0]], p=1)
    with pytest.raises(InputError, match="`p` must be a number above 0"):
        scores.logit_norm([[1.0, 2.0]], p=0)
    with pytest.raises(ShapeError, match="members, samples, classes"):
        scores.mutual_information([[1.0, 2.0]])
    with pytest.raises(InputError, match='"max_softmax"'):
        scores.by_name("msp")


def test_names_are_all_public_and_callables_are_scores():
    for name in (*ALL, *scores.ENSEMBLE_NAMES):
        assert getattr(scores, name) is scores.by_name(name).function
        assert scores.by_name(scores.by_name(name)).name == name
    own = scores.by_name(lambda z: np.asarray(z)[..., 0])
    assert own([[3.0, 1.0]]).tolist() == [3.0]
    assert own(probs=[[0.4, 0.6]]).tolist() == [0.4]


def test_saturation_counts_no_tracers():
    jax = pytest.importorskip("jax")
    with pytest.raises(InputError, match="outside of jit"):
        jax.jit(scores.saturation)(jax.numpy.asarray([0.2, 1.0]))


def test_saturation_counts_the_top():
    result = scores.saturation([1.0, 0.5, 1.0, 0.1])
    assert (result.n, result.tied, result.top, result.share) == (4, 2, 1.0, 0.5)
    assert "2 of 4 samples (50.0%)" in result.sentence
    assert "No tie" in scores.saturation([0.1, 0.2]).sentence
    by_probs = scores.saturation(probs=np.array([[1, 1e-9], [1, 1e-8], [0.5, 0.5]], dtype=np.float32))
    assert (by_probs.tied, by_probs.repaired) == (2, 1)
    assert by_probs.sentence.endswith("no two tie at the top.")
    above_one = np.array([[1.000008, 0], [1.000008, 1e-9], [0.5, 0.5]], dtype=np.float32)
    told = scores.saturation(probs=above_one).sentence
    assert "2 of 3 samples (66.7%) tie at the top by their largest probability, 1. Ranked by" in told
    with pytest.raises(InputError, match="finite"):
        scores.saturation([1.0, np.inf])
    with pytest.raises(InputError, match="either a vector"):
        scores.saturation()


def test_the_normalised_max_logit_of_two_classes_ranks_nothing():
    logits = np.random.default_rng(0).normal(0, 5, (1000, 2))
    logits[0] = 3.0  # equal logits have no norm
    for p in (0.7, 1.0, 2.0, 3.0, np.inf):
        values = scores.normalised_max_logit(logits, p=p)
        assert values[0] == 0
        assert set(values[1:].tolist()) == {2 ** (-1 / p)}


def test_gradients_reach_the_logits_and_stay_finite():
    import torch

    rows = [[3.0, 1.0, 0.0], [40.0, 0.0, -2.0], [5.0, 5.0, 1.0], [800.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    z = torch.tensor(rows, dtype=torch.float64, requires_grad=True)
    for name in ALL:
        (gradient,) = torch.autograd.grad(scores.by_name(name)(z).sum(), z)
        assert torch.isfinite(gradient).all(), name
    smooth = torch.tensor([[2.0, 0.7, -0.5], [0.3, 1.1, 0.2]], dtype=torch.float64, requires_grad=True)
    for name in ALL:
        assert torch.autograd.gradcheck(scores.by_name(name), (smooth,)), name


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        ("msp", "max_softmax"),
        ("MSP", "max_softmax"),
        ("max-softmax", "max_softmax"),
        ("margin", "softmax_margin"),
        ("entropy", "negative_entropy"),
        ("free energy", "energy"),
        ("gini", "negative_gini"),
        ("BALD", "mutual_information"),
    ],
)
def test_the_familiar_name_of_a_score_is_answered_with_its_name_here(name, suggestion):
    with pytest.raises(InputError, match=f'Did you mean "{suggestion}"'):
        scores.by_name(name)


@pytest.mark.parametrize(
    ("name", "suggestion"), [("0/1", "zero_one"), ("NLL", "cross_entropy"), ("brier_score", "brier")]
)
def test_the_familiar_name_of_a_loss_is_answered_with_its_name_here(name, suggestion):
    with pytest.raises(InputError, match=f'Did you mean "{suggestion}"'):
        abstain.losses.by_name(name)


@pytest.mark.parametrize("name", ["max_softmax", "energy", "probability_norm", "negative_entropy"])
def test_logits_may_be_named(name):
    logits = np.array([[2.0, 0.5, -1.0], [0.1, 0.3, 0.2]])
    score = getattr(abstain.scores, name)
    np.testing.assert_array_equal(score(logits=logits), score(logits))
