"""Numbers the paper prints, as facts to compare with."""

from __future__ import annotations

from typing import NamedTuple


class Cell(NamedTuple):
    """Mean and standard deviation over five seeds, as printed (the caption says times 1e-2, loss not named)."""

    mean: float
    std: float


_OBJECTIVES = ("ce", "sele", "harmonic", "log")


def _row(*numbers: float) -> dict[str, Cell]:
    return {name: Cell(*numbers[2 * i : 2 * i + 2]) for i, name in enumerate(_OBJECTIVES)}


# the fine-tuning table
TABLE = {
    "cifar10": {
        "resnet18": _row(4.967, 0.038, 4.470, 0.030, 4.473, 0.030, 4.471, 0.030),
        "resnet34": _row(6.464, 0.036, 5.661, 0.039, 5.652, 0.036, 5.651, 0.036),
        "resnet50": _row(8.318, 0.002, 7.892, 0.046, 7.921, 0.047, 7.918, 0.049),
        "vgg16_bn": _row(7.922, 0.002, 7.010, 0.018, 7.064, 0.014, 7.060, 0.015),
        "vgg19_bn": _row(9.813, 0.192, 8.475, 0.061, 8.528, 0.059, 8.524, 0.059),
        "wideresnet28_10": _row(4.137, 0.046, 3.867, 0.049, 3.864, 0.049, 3.863, 0.049),
    },
    "cifar100": {
        "resnet18": _row(6.648, 0.021, 6.577, 0.011, 6.532, 0.012, 6.533, 0.014),
        "resnet34": _row(6.023, 0.016, 5.862, 0.012, 5.825, 0.011, 5.826, 0.011),
        "resnet50": _row(6.225, 0.009, 6.043, 0.015, 6.007, 0.008, 6.007, 0.009),
        "vgg16_bn": _row(10.790, 0.001, 10.586, 0.029, 10.559, 0.029, 10.560, 0.030),
        "vgg19_bn": _row(10.633, 0.001, 10.421, 0.026, 10.393, 0.025, 10.391, 0.024),
        "wideresnet28_10": _row(5.912, 0.652, 5.607, 0.707, 5.836, 0.652, 5.607, 0.707),
    },
}

T_TEST_P = {"01": 0.9981, "ce": 0.998}  # of "AURC_a and AURC_p have the same mean", unpaired
