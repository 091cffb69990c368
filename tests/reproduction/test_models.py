"""Networks: parameter counts of the literature, float32 logits, public checkpoints reproduce their stored logits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from abstain.errors import AbstainError, DataError
from reproduction.data import unpack
from reproduction.networks import MODELS, build, compile_parts, load_checkpoint, parameter_count

# exact counts are those of the widely used 32x32 forms; "millions" are the tables of He et al. (2016, 2016b) and
# Zagoruyko & Komodakis (2016), rounded as printed there
EXACT = {
    "vgg13_bn": 9_416_010,
    "vgg16_bn": 14_728_266,
    "vgg19_bn": 20_040_522,
    "resnet18": 11_173_962,
    "resnet34": 21_282_122,
    "resnet50": 23_520_842,
    "resnet20": 269_722,
    "resnet32": 464_154,
    "resnet44": 658_586,
    "resnet56": 853_018,
    "resnet110": 1_727_962,
}
MILLIONS = {
    "resnet20": 0.27, "resnet56": 0.85, "resnet110": 1.7, "resnet164": 1.7, "preresnet20": 0.27,
    "preresnet56": 0.85, "preresnet110": 1.7, "preresnet164": 1.7, "wideresnet28_10": 36.5,
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(EXACT))
def test_parameter_counts_are_exact(name):
    assert parameter_count(build(name)) == EXACT[name]


@pytest.mark.parametrize("name", sorted(MILLIONS))
def test_parameter_counts_round_to_the_published_millions(name):
    digits = len(str(MILLIONS[name]).split(".")[1])
    assert abs(parameter_count(build(name)) / 1e6 - MILLIONS[name]) <= 0.6 * 10**-digits


def test_every_named_network_is_checked_against_the_literature():
    assert set(MODELS) == set(EXACT) | set(MILLIONS)


def test_depth_counts_the_layers_with_weights():
    """ResNet-20 and the like are named by their convolutions (without shortcuts) plus the linear layer."""
    for name, depth in (
        ("resnet20", 20),
        ("resnet164", 164),
        ("preresnet56", 56),
        ("vgg16_bn", 14),
        ("resnet18", 18),
    ):
        layers = [
            n for n, m in build(name).named_modules() if isinstance(m, (torch.nn.Conv2d, torch.nn.Linear))
        ]
        assert sum("shortcut" not in n for n in layers) == depth, (
            name
        )  # 32x32 VGG16 has one linear layer, not three


@pytest.mark.parametrize("name", ["resnet18", "preresnet20", "vgg16_bn"])
def test_logits_stay_float32_under_autocast(name):
    model = build(name, classes=7)
    with torch.autocast("cpu", torch.bfloat16):
        logits = model(torch.randn(2, 3, 32, 32))
    assert logits.dtype is torch.float32
    assert logits.shape == (2, 7)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(AbstainError, match="resnet18"):
        build("resnet19")


NORMALISATION = {
    "akamaster": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "benjames_a": ((0.4914, 0.4822, 0.4465), (0.247, 0.243, 0.261)),
    "karanchahal": ((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
}


@pytest.fixture(scope="module")
def test_images(data_dir):
    return unpack(data_dir / "images" / "cifar10_test.npz")[0][:64]


@pytest.mark.data
@pytest.mark.parametrize(
    "name",
    ["resnet20__akamaster", "resnet20__benjames_a", "resnet32__akamaster", "resnet44__akamaster",
     "resnet56__akamaster", "wrn28-1__karanchahal"],
)  # fmt: skip
def test_public_checkpoints_reproduce_their_stored_logits(data_dir, test_images, name):
    model = load_checkpoint(data_dir / "checkpoints" / f"cifar10__{name}.npz")
    mean, std = (torch.tensor(v) for v in NORMALISATION[name.split("__")[1]])
    images = ((torch.from_numpy(test_images).float() / 255 - mean) / std).permute(0, 3, 1, 2)
    with torch.inference_mode():
        logits = model(images.contiguous()).numpy()
    stored = np.load(data_dir / "logits" / f"cifar10__{name}.npz")["logits"][: len(test_images)]
    np.testing.assert_allclose(logits, stored, atol=1e-4)


def test_a_checkpoint_of_another_depth_is_refused(tmp_path):
    weights = {k: v.numpy() for k, v in build("resnet20").state_dict().items()}
    np.savez(tmp_path / "cifar10__resnet32__nobody.npz", **weights)
    with pytest.raises(DataError, match="does not fit"):
        load_checkpoint(tmp_path / "cifar10__resnet32__nobody.npz")


def test_compiling_takes_blocks_or_the_whole_network():
    deep, plain = build("preresnet20"), build("vgg16_bn")
    for model in (deep, plain):
        compile_parts(model)
    compiled = [type(part).__name__ for part in deep.modules() if part._compiled_call_impl is not None]
    assert compiled == ["PreBlock"] * 9
    assert [part for part in plain.modules() if part._compiled_call_impl is not None] == [plain]
