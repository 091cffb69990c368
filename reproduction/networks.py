"""Image classifiers for 32x32 inputs, written out here so that a table names exactly what was trained."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from abstain.errors import DataError
from reproduction import Array, check_choice

# -------------------------------- layers that all networks share


class Head(nn.Linear):  # type: ignore[misc]
    """Last linear layer, always in float32: bfloat16 logits would tie confidences that differ."""

    def forward(self, x: Array) -> Array:
        """Logits of pooled features."""
        with torch.autocast(x.device.type, enabled=False):
            return super().forward(x.float())


class ZeroPadShortcut(nn.Module):  # type: ignore[misc]
    """He et al.'s option A: take every second pixel, fill new channels with zeros; no parameters."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.stride, self.before = stride, (outside - inside) // 2
        self.after = outside - inside - self.before

    def forward(self, x: Array) -> Array:
        """Subsample and pad."""
        picked = x[:, :, :: self.stride, :: self.stride]
        return nn.functional.pad(picked, (0, 0, 0, 0, self.before, self.after))


def conv(inside: int, outside: int, size: int, stride: int = 1) -> Array:
    """A convolution that keeps the image size (up to its stride), without bias: batch norm follows or leads."""
    return nn.Conv2d(inside, outside, size, stride, size // 2, bias=False)


def start_like_he(model: Array) -> Array:
    """He initialisation for convolutions, ones and zeros for batch norm."""
    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
        elif isinstance(layer, nn.BatchNorm2d):
            nn.init.ones_(layer.weight)
            nn.init.zeros_(layer.bias)
    return model


# -------------------------------- activation after the sum (He et al., 2016): ResNet-18/34/50 and ResNet-20/56/110/164


class _Block(nn.Module):  # type: ignore[misc]
    """A residual block: `body` plus `shortcut`, then the activation."""

    growth = 1

    def __init__(self, inside: int, width: int, stride: int, shortcut: str) -> None:
        super().__init__()
        outside = width * self.growth
        self.body = nn.Sequential(*self.layers(inside, width, stride))
        self.shortcut: Array = nn.Identity()
        if stride != 1 or inside != outside:
            self.shortcut = (
                ZeroPadShortcut(inside, outside, stride)
                if shortcut == "A"
                else nn.Sequential(conv(inside, outside, 1, stride), nn.BatchNorm2d(outside))
            )
        self.act = nn.ReLU(inplace=True)

    def layers(self, inside: int, width: int, stride: int) -> list[Array]:
        raise NotImplementedError

    def forward(self, x: Array) -> Array:
        """Residual sum."""
        return self.act(self.body(x) + self.shortcut(x))


class BasicBlock(_Block):
    """Two 3x3 convolutions."""

    def layers(self, inside: int, width: int, stride: int) -> list[Array]:
        """The residual branch."""
        return [
            conv(inside, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            conv(width, width, 3), nn.BatchNorm2d(width),
        ]  # fmt: skip


class Bottleneck(_Block):
    """1x1 down, 3x3, 1x1 up to four times the width."""

    growth = 4

    def layers(self, inside: int, width: int, stride: int) -> list[Array]:
        """The residual branch."""
        return [
            conv(inside, width, 1), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            conv(width, width, 3, stride), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width),
        ]  # fmt: skip


class ResNet(nn.Module):  # type: ignore[misc]
    """Stem, stages of residual blocks, global mean, linear head."""

    def __init__(
        self,
        block: type[_Block],
        depths: Sequence[int],
        widths: Sequence[int],
        classes: int,
        shortcut: str = "B",
    ) -> None:
        super().__init__()
        inside = widths[0]
        self.stem = nn.Sequential(conv(3, inside, 3), nn.BatchNorm2d(inside), nn.ReLU(inplace=True))
        stages = []
        for i, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            blocks = []
            for j in range(depth):
                blocks.append(block(inside, width, 2 if i and not j else 1, shortcut))
                inside = width * block.growth
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.head = Head(inside, classes)
        start_like_he(self)

    def forward(self, x: Array) -> Array:
        """Logits of a batch of images."""
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


def resnet(depth: int, classes: int) -> ResNet:
    """ResNet-18, -34 or -50 with a 3x3 stem and no pooling, as is usual for 32x32 images."""
    depths = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}[depth]
    return ResNet(Bottleneck if depth == 50 else BasicBlock, depths, (64, 128, 256, 512), classes)


def cifar_resnet(depth: int, classes: int, shortcut: str = "A") -> ResNet:
    """He et al.'s thin CIFAR network: basic blocks up to depth 110, bottlenecks for 164."""
    block, layers = (Bottleneck, 9) if depth >= 164 else (BasicBlock, 6)
    each = (depth - 2) // layers
    # zero padding cannot serve a bottleneck's first shortcut alone, so those networks use projections
    return ResNet(block, (each,) * 3, (16, 32, 64), classes, "B" if block is Bottleneck else shortcut)


# -------------------------------- activation first (He et al., 2016b), and Wide ResNets (Zagoruyko & Komodakis, 2016)


class PreBlock(nn.Module):  # type: ignore[misc]
    """norm-relu-conv repeated; the first activation also feeds a projected shortcut."""

    def __init__(self, inside: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        outside = 4 * width if bottleneck else width
        self.first = nn.Sequential(nn.BatchNorm2d(inside), nn.ReLU(inplace=True))
        layers = [conv(inside, width, 1 if bottleneck else 3, 1 if bottleneck else stride)]
        if bottleneck:
            layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True), conv(width, width, 3, stride)]
        layers += [nn.BatchNorm2d(width), nn.ReLU(inplace=True), conv(width, outside, 1 if bottleneck else 3)]
        self.body = nn.Sequential(*layers)
        projected = stride != 1 or inside != outside
        self.shortcut = conv(inside, outside, 1, stride) if projected else None

    def forward(self, x: Array) -> Array:
        """Residual sum."""
        ready = self.first(x)
        return self.body(ready) + (x if self.shortcut is None else self.shortcut(ready))


class PreResNet(nn.Module):  # type: ignore[misc]
    """Stem, three stages of pre-activation blocks, norm, global mean, linear head."""

    def __init__(self, each: int, widen: int, bottleneck: bool, classes: int) -> None:
        super().__init__()
        inside = 16
        self.stem = conv(3, inside, 3)
        stages = []
        for i, width in enumerate((16 * widen, 32 * widen, 64 * widen)):
            blocks = []
            for j in range(each):
                blocks.append(PreBlock(inside, width, 2 if i and not j else 1, bottleneck))
                inside = 4 * width if bottleneck else width
            stages.append(nn.Sequential(*blocks))
        self.stages = nn.Sequential(*stages)
        self.last = nn.Sequential(nn.BatchNorm2d(inside), nn.ReLU(inplace=True))
        self.head = Head(inside, classes)
        start_like_he(self)

    def forward(self, x: Array) -> Array:
        """Logits of a batch of images."""
        return self.head(self.last(self.stages(self.stem(x))).mean((2, 3)))


def preresnet(depth: int, classes: int) -> PreResNet:
    """PreResNet-20/56/110 with basic blocks, PreResNet-164 with bottlenecks."""
    bottleneck = depth >= 164
    return PreResNet((depth - 2) // (9 if bottleneck else 6), 1, bottleneck, classes)


def wide_resnet(depth: int, widen: int, classes: int) -> PreResNet:
    """WideResNet-depth-widen, basic blocks, no dropout."""
    return PreResNet((depth - 4) // 6, widen, False, classes)


# -------------------------------- VGG with batch norm (Simonyan & Zisserman, 2014), for 32x32: one linear layer

# convolutions per stage; the widths are the same in all of them
_STAGES = {13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
_WIDTHS = (64, 128, 256, 512, 512)


class VGG(nn.Module):  # type: ignore[misc]
    """Five stages of 3x3 convolutions, each ended by 2x2 pooling; 32x32 images shrink to one pixel."""

    def __init__(self, depth: int, classes: int) -> None:
        super().__init__()
        layers: list[Array] = []
        inside = 3
        for count, width in zip(_STAGES[depth], _WIDTHS, strict=True):
            for _ in range(count):
                layers += [
                    nn.Conv2d(inside, width, 3, padding=1),
                    nn.BatchNorm2d(width),
                    nn.ReLU(inplace=True),
                ]
                inside = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.head = Head(512, classes)
        start_like_he(self)

    def forward(self, x: Array) -> Array:
        """Logits of a batch of images."""
        return self.head(self.features(x).flatten(1))


# -------------------------------- networks by name

MODELS: dict[str, Callable[[int], Array]] = {
    **{f"vgg{d}_bn": partial(VGG, d) for d in (13, 16, 19)},
    **{f"resnet{d}": partial(resnet, d) for d in (18, 34, 50)},
    **{f"resnet{d}": partial(cifar_resnet, d) for d in (20, 32, 44, 56, 110, 164)},
    **{f"preresnet{d}": partial(preresnet, d) for d in (20, 56, 110, 164)},
    "wideresnet28_10": partial(wide_resnet, 28, 10),
}


def build(name: str, classes: int = 10) -> Array:
    """A freshly initialised network by name, e.g. "resnet18"; see `MODELS`."""
    check_choice("build", "name", name, tuple(MODELS))
    return MODELS[name](classes)


def compile_parts(model: Array) -> None:
    """Compile in place what repeats: blocks of one shape share their code, so deep networks are ready in seconds.

    A network without residual blocks is compiled as a whole. `dynamic=False`: batches of 512 and then 128 would else
    be compiled for any size, which is slower.
    """
    blocks = [part for part in model.modules() if isinstance(part, (_Block, PreBlock))]
    for part in blocks or [model]:
        part.compile(dynamic=False)


def parameter_count(model: Array) -> int:
    """Number of trained values."""
    return sum(p.numel() for p in model.parameters())


# -------------------------------- public checkpoints: other names for the same layers

Names = tuple[tuple[str, str], ...]

# He et al. networks: conv1, bn1, layer1.0.conv1 ... linear (or fc)
_RESNET: Names = (
    (r"^conv1\.", "stem.0."),
    (r"^bn1\.", "stem.1."),
    (r"\.conv1\.", ".body.0."),
    (r"\.bn1\.", ".body.1."),
    (r"\.conv2\.", ".body.3."),
    (r"\.bn2\.", ".body.4."),
    (r"^(linear|fc)\.", "head."),
)
# pre-activation networks: layer1.layer.0.bn1 ... bn1, linear
_WIDE: Names = (
    (r"^conv1\.", "stem."),
    (r"^bn1\.", "last.0."),
    (r"\.layer\.", "."),
    (r"\.bn1\.", ".first.0."),
    (r"\.conv1\.", ".body.0."),
    (r"\.bn2\.", ".body.1."),
    (r"\.conv2\.", ".body.3."),
    (r"\.convShortcut\.", ".shortcut."),
    (r"^linear\.", "head."),
)


def load_checkpoint(path: Path, classes: int = 10) -> Array:
    """The network of a weights-only npz named like cifar10__resnet20__source.npz, ready to evaluate."""
    kind = path.stem.split("__")[1]
    with np.load(path) as file:
        weights = {key: torch.from_numpy(file[key]) for key in file.files}
    resnet, wide = re.fullmatch(r"resnet(\d+)", kind), re.fullmatch(r"wrn(\d+)-(\d+)", kind)
    if resnet:
        shortcut = "B" if any("shortcut" in key for key in weights) else "A"
        names = _RESNET
        model: Array = cifar_resnet(int(resnet[1]), classes, shortcut)
    elif wide:
        names = _WIDE
        model = wide_resnet(int(wide[1]), int(wide[2]), classes)
    else:
        raise DataError(f"load_checkpoint: no network for {kind!r} (from the name of {path.name}).")
    renamed = {_renamed(key, names): value for key, value in weights.items()}
    missing, unknown = model.load_state_dict(renamed, strict=False)
    missing = [key for key in missing if not key.endswith("num_batches_tracked")]
    if missing or unknown:
        raise DataError(
            f"load_checkpoint: {path.name} does not fit {kind}: missing {missing}, unknown {unknown}."
        )
    return model.eval()


def _renamed(key: str, names: Names) -> str:
    for pattern, replacement in names:
        key = re.sub(pattern, replacement, key)
    return re.sub(r"^layer(\d)\.", lambda found: f"stages.{int(found[1]) - 1}.", key)
