"""Which of our models stands where the paper has one of its own, and which panels nothing stands for."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Group:
    """Names of outputs to use, with a remark; without any name the remark says why the panel is empty.

    `otherwise` is used where none of `names` is at hand.
    """

    names: tuple[str, ...]
    remark: str
    otherwise: tuple[str, ...] = ()

    def among(self, available: Collection[str]) -> list[str]:
        """Those of our models that are at hand; with digits only, one of the digit classifiers."""
        digits = sorted(name for name in available if name.startswith("digits__"))
        if digits:
            return [digits[sum(map(ord, self.remark)) % len(digits)]]
        return [n for n in self.names if n in available] or [n for n in self.otherwise if n in available]

    def describe(self) -> str:
        """For the manifest."""
        if not self.names:
            return f"not available: {self.remark}"
        return f"{', '.join(self.names)} ({self.remark})"


@dataclass(frozen=True)
class StandIn:
    """For one architecture of the paper: one model, and several for averages over models."""

    one: Group
    several: Group

    def take(self, several: bool) -> Group:
        """The group a panel asks for."""
        return self.several if several else self.one


def _cifar10(model: str, source: str) -> str:
    return f"cifar10__{model}__{source}"


def _cifar100(model: str, source: str) -> str:
    return f"cifar100__{model}__{source}"


def _trained(model: str, *otherwise: str) -> StandIn:
    """Networks of the same architecture trained with this package; their outputs come with it."""
    names = tuple(_cifar10(model, f"trained-seed{i}") for i in range(5))
    return StandIn(
        Group(names[:1], "same architecture, trained here", otherwise[:1]),
        Group(names, "five seeds, trained here", otherwise),
    )


_PUBLIC_20 = (
    "akamaster",
    "benjames_a",
    "benjames_b",
    "chenyaofo_luferrer",
    "fattorib",
    "karanchahal",
    "laodao",
)

_CIFAR10 = {
    "VGG16BN": _trained("vgg16_bn", _cifar10("vgg16bn", "plambda")),
    "PreResNet20": _trained("preresnet20", *(_cifar10("resnet20", s) for s in _PUBLIC_20)),
    "PreResNet56": StandIn(
        Group((_cifar10("resnet56", "akamaster"),), "post-activation ResNet-56"),
        Group(
            tuple(_cifar10("resnet20", s) for s in _PUBLIC_20), "seven public ResNet-20, not five ResNet-56"
        ),
    ),
    "PreResNet110": StandIn(
        Group((_cifar10("resnet44", "akamaster"),), "ResNet-44 for ResNet-110"),
        Group(
            tuple(_cifar10(m, s) for m in ("resnet32", "resnet44") for s in ("akamaster", "fattorib")),
            "two ResNet-32 and two ResNet-44",
        ),
    ),
    "PreResNet164": StandIn(
        Group((_cifar10("resnet26", "karanchahal"),), "ResNet-26 with a wide stem for ResNet-164"),
        Group(
            tuple(_cifar10(f"resnet{d}", "karanchahal") for d in (14, 20, 26)),
            "ResNet-14, -20, -26, wide stem",
        ),
    ),
    "WideResNet28x10": StandIn(
        Group((_cifar10("wrn28-1", "karanchahal"),), "WideResNet-28-1 for 28-10"),
        Group(
            tuple(_cifar10(f"wrn{d}-1", "karanchahal") for d in (10, 16, 28)), "WideResNet-10-1, -16-1, -28-1"
        ),
    ),
}

_RES_26_32 = Group(
    tuple(_cifar100(f"resnet{d}", "karanchahal") for d in (26, 32)), "ResNet-26 and -32, wide stem"
)
_CIFAR100 = {
    "VGG16BN": StandIn(
        Group((_cifar100("vgg19_bn", "chenyaofo_luferrer"),), "VGG19-BN for VGG16-BN"),
        Group(
            tuple(_cifar100(m, "chenyaofo_luferrer") for m in ("vgg19_bn", "repvgg_a2")),
            "VGG19-BN and RepVGG-A2",
        ),
    ),
    "PreResNet20": StandIn(
        Group((_cifar100("resnet20", "chenyaofo_luferrer"),), "post-activation ResNet-20"),
        Group(
            tuple(_cifar100("resnet20", s) for s in ("chenyaofo_luferrer", "karanchahal")), "two ResNet-20"
        ),
    ),
    "PreResNet56": StandIn(Group(_RES_26_32.names[:1], "ResNet-26 for ResNet-56"), _RES_26_32),
    "PreResNet110": StandIn(Group(_RES_26_32.names[1:], "ResNet-32 for ResNet-110"), _RES_26_32),
    "PreResNet164": StandIn(
        Group((_cifar100("resnet20", "karanchahal"),), "ResNet-20 with a wide stem for ResNet-164"),
        _RES_26_32,
    ),
    "WideResNet28x10": StandIn(
        Group((_cifar100("wrn16-4", "netcal"),), "WideResNet-16-4 for 28-10"),
        Group((_cifar100("wrn16-4", "netcal"),), "one WideResNet-16-4"),
    ),
}


def _amazon(name: str, remark: str) -> StandIn:
    heads = tuple(f"amazon2023__minilm-mlp-seed{i}" for i in range(5))
    return StandIn(Group((f"amazon2023__{name}",), remark), Group(heads, "MiniLM with five MLP heads"))


_AMAZON = {
    "BERT": _amazon("tfidf-logreg", "TF-IDF and logistic regression for BERT"),
    "D-BERT": _amazon("minilm-linear", "MiniLM-L6 with a linear head for D-BERT"),
    "RoBERTa": _amazon("minilm-mlp-seed0", "MiniLM-L6 with an MLP head for RoBERTa"),
    "D-RoBERTa": _amazon("minilm-mlp-seed1", "MiniLM-L6 with another MLP head for D-RoBERTa"),
}


def _imagenet(name: str | None, remark: str) -> StandIn:
    group = Group((f"imagenet5k__{name}",) if name else (), remark)
    return StandIn(group, group)


_LITE = "on 5,000 validation images, float16 logits"
_IMAGENET = {
    "ViT-Small": _imagenet("efficientnet-lite0", f"EfficientNet-Lite0 for ViT-Small, {_LITE}"),
    "ViT-Large": _imagenet("efficientnet-lite2", f"EfficientNet-Lite2 for ViT-Large, {_LITE}"),
    "Swin-Tiny": _imagenet(None, "only two ImageNet models at hand; `imagenet_outputs` makes it from timm"),
    "Swin-Base": _imagenet("efficientnet-lite2", f"EfficientNet-Lite2 for Swin-Base, {_LITE}"),
}

DATASETS = {"cifar10": _CIFAR10, "cifar100": _CIFAR100, "amazon": _AMAZON, "imagenet": _IMAGENET}
