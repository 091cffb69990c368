"""One row for every figure and table of the paper: what it shows, which file shows it here, with which models."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

# -------------------------------- models that stand in for the paper's


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


SAME = "same architecture"


def _trained(dataset: str, model: str, *otherwise: str, seeds: int = 1) -> StandIn:
    """Networks of the same architecture trained here; their outputs are in results/."""
    names = tuple(f"{dataset}__{model}__trained-seed{i}" for i in range(seeds))
    several = f"{SAME}, {seeds} seeds" if seeds > 1 else SAME
    return StandIn(Group(names[:1], SAME, otherwise[:1]), Group(names, several, otherwise))


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
    "VGG16BN": _trained("cifar10", "vgg16_bn", _cifar10("vgg16bn", "plambda"), seeds=5),
    "PreResNet20": _trained(
        "cifar10", "preresnet20", *(_cifar10("resnet20", s) for s in _PUBLIC_20), seeds=5
    ),
    "PreResNet56": _trained("cifar10", "preresnet56", _cifar10("resnet56", "akamaster")),
    "PreResNet110": _trained("cifar10", "preresnet110", _cifar10("resnet44", "akamaster")),
    "PreResNet164": _trained("cifar10", "preresnet164", _cifar10("resnet26", "karanchahal")),
    "WideResNet28x10": _trained("cifar10", "wideresnet28_10", _cifar10("wrn28-1", "karanchahal")),
}

_CIFAR100 = {
    "VGG16BN": _trained("cifar100", "vgg16_bn", _cifar100("vgg19_bn", "chenyaofo_luferrer")),
    "PreResNet20": _trained("cifar100", "preresnet20", _cifar100("resnet20", "chenyaofo_luferrer")),
    "PreResNet56": _trained("cifar100", "preresnet56", _cifar100("resnet26", "karanchahal")),
    "PreResNet110": _trained("cifar100", "preresnet110", _cifar100("resnet32", "karanchahal")),
    "PreResNet164": _trained("cifar100", "preresnet164", _cifar100("resnet20", "karanchahal")),
    "WideResNet28x10": _trained("cifar100", "wideresnet28_10", _cifar100("wrn16-4", "netcal")),
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


# -------------------------------- the manifest

_SIX = ("VGG16BN", "PreResNet20", "PreResNet56", "PreResNet110", "PreResNet164", "WideResNet28x10")
_FIVE = _SIX[1:]
_BERTS = ("BERT", "D-BERT", "RoBERTa", "D-RoBERTa")
_VITS = ("ViT-Small", "ViT-Large", "Swin-Tiny", "Swin-Base")


@dataclass(frozen=True)
class Panel:
    """One panel: the paper's model and loss; `kind` says which set of stand-ins applies ("one" or "several")."""

    model: str
    dataset: str
    loss: str

    def group(self, several: bool) -> Group:
        """Our models for it."""
        return DATASETS[self.dataset][self.model].take(several)


@dataclass(frozen=True)
class Entry:
    """A label of the paper, or an addition of ours (labels that begin with "ours:")."""

    label: str
    shows: str  # which drawing: mean, bias, mae, mse, scores, weights, surface, equivalence, table, ...
    title: str
    panels: tuple[Panel, ...] = ()
    part_of: str | None = None
    sizes: tuple[int, ...] = ()

    @property
    def file(self) -> str:
        """Output file, without its folder; a panel's own label points at the file of its figure."""
        label = self.part_of or self.label
        ending = ".md" if label.startswith("tb:") else ".png"
        return label.split(":")[1].replace("_", "-") + ending

    @property
    def several(self) -> bool:
        """Does it average over several models of one architecture?"""
        return self.shows == "mae"

    def in_short(self) -> str:
        """Which of the paper's models are our own of the same architecture, and what stands in for the others."""
        models: dict[str, list[str]] = {}
        for panel in self.panels:
            named = models.setdefault(panel.group(self.several).remark, [])
            if panel.model not in named:
                named.append(panel.model)
        return "; ".join(
            f"{', '.join(named)}: {remark}" if remark.startswith(SAME) else remark
            for remark, named in models.items()
        )

    def substitutes(self) -> list[str]:
        """For each panel: the paper's model, and by what it is replaced here, or why it is missing."""
        return [f"{p.model} ({_loss_name(p.loss)}): {p.group(self.several).describe()}" for p in self.panels]


def _loss_name(loss: str) -> str:
    return {"01": "0/1", "ce": "CE"}[loss]


def _grid(models: Sequence[str], dataset: str, losses: str = "01 ce") -> tuple[Panel, ...]:
    return tuple(Panel(model, dataset, loss) for loss in losses.split() for model in models)


def _figure(label: str, shows: str, title: str, panels: tuple[Panel, ...]) -> Entry:
    return Entry(f"fig:{label}", shows, title, panels)


_ESTIMATES, _BIAS, _MAE, _MSE = "Finite-sample estimators", "Bias", "MAE", "MSE and squared bias"

ENTRIES: tuple[Entry, ...] = (
    Entry("fig:bias_alpha", "weights", "Bias of the weights against beta", sizes=(8, 128)),
    Entry("fig:bias_n8", "weights", "Bias of the weights, n = 8", part_of="fig:bias_alpha", sizes=(8,)),
    Entry("fig:bias_n128", "weights", "Bias of the weights, n = 128", part_of="fig:bias_alpha", sizes=(128,)),
    Entry(
        "fig:fullbias", "weights", "Bias of the weights, all n", sizes=(8, 16, 32, 64, 128, 256, 512, 1024)
    ),
    Entry("fig:Var_nalphaUpperBound", "surface", "Bound of the weights' MSE against n and beta"),
    _figure("amazon", "mean", f"{_ESTIMATES}, Amazon", _grid(["BERT"], "amazon")),
    Entry("fig:amazon-bert01", "mean", "Amazon, 0/1", _grid(["BERT"], "amazon", "01"), "fig:amazon"),
    Entry("fig:amazon-bertce", "mean", "Amazon, CE", _grid(["BERT"], "amazon", "ce"), "fig:amazon"),
    _figure(
        "cifar10absbias01loss",
        "mae",
        f"{_MAE}, CIFAR-10/100, 0/1",
        (Panel("VGG16BN", "cifar10", "01"), Panel("VGG16BN", "cifar100", "01")),
    ),
    Entry(
        "fig:cifar10-vgg16bn",
        "mae",
        "CIFAR-10",
        (Panel("VGG16BN", "cifar10", "01"),),
        "fig:cifar10absbias01loss",
    ),
    # the paper's label says "ce", its caption CIFAR-100
    Entry(
        "fig:cifar10-vgg16bn-ce",
        "mae",
        "CIFAR-100",
        (Panel("VGG16BN", "cifar100", "01"),),
        "fig:cifar10absbias01loss",
    ),
    _figure("mseimagenet", "mse", f"{_MSE}, ImageNet", _grid(["Swin-Base"], "imagenet")),
    _figure("csfamazon_compare", "scores", "Scores at n = 128, Amazon", _grid(["BERT"], "amazon")),
    Entry("tb:finetune", "table", "Test AURC after fine-tuning with each objective"),
    Entry("tb:csfs", "score table", "Confidence scores, and the AURC each of them gives"),
    _figure("aurc_p", "equivalence", "AURC_a against AURC_p over all models", ()),
    _figure("cifar10biasceloss", "bias", f"{_BIAS}, CIFAR-10", _grid(_SIX, "cifar10")),
    _figure("cifar100biasceloss", "bias", f"{_BIAS}, CIFAR-100", _grid(_SIX, "cifar100")),
    _figure("amazonbias", "bias", f"{_BIAS}, Amazon", _grid(_BERTS, "amazon")),
    _figure("imagenetbias", "bias", f"{_BIAS}, ImageNet", _grid(_VITS, "imagenet")),
    _figure(
        "cifar10absbiasceloss",
        "mae",
        f"{_MAE}, CIFAR-10",
        (*_grid(_FIVE, "cifar10"), Panel("VGG16BN", "cifar10", "ce")),
    ),
    _figure(
        "cifar100absbiasceloss",
        "mae",
        f"{_MAE}, CIFAR-100",
        (*_grid(_FIVE, "cifar100"), Panel("VGG16BN", "cifar100", "ce")),
    ),
    _figure("cifa10resultsseed5", "mean", f"{_ESTIMATES}, CIFAR-10, 0/1", _grid(_SIX, "cifar10", "01")),
    _figure("cifa10resultsseed5ce", "mean", f"{_ESTIMATES}, CIFAR-10, CE", _grid(_SIX, "cifar10", "ce")),
    _figure("cifa100resultsseed5", "mean", f"{_ESTIMATES}, CIFAR-100, 0/1", _grid(_SIX, "cifar100", "01")),
    _figure("amazon_ce", "mean", f"{_ESTIMATES}, Amazon", _grid(["D-BERT", "D-RoBERTa"], "amazon")),
    _figure("imagenet", "mean", f"{_ESTIMATES}, ImageNet", _grid(_VITS, "imagenet")),
    _figure("msecifa10resultsseed5", "mse", f"{_MSE}, CIFAR-10, 0/1", _grid(_SIX, "cifar10", "01")),
    _figure("msecifa10resultsseed5ce", "mse", f"{_MSE}, CIFAR-10, CE", _grid(_SIX, "cifar10", "ce")),
    _figure("msecifa100resultsseed5", "mse", f"{_MSE}, CIFAR-100, 0/1", _grid(_SIX, "cifar100", "01")),
    _figure("msecifa100resultsseed5ce", "mse", f"{_MSE}, CIFAR-100, CE", _grid(_SIX, "cifar100", "ce")),
    _figure("mseamazon", "mse", f"{_MSE}, Amazon", _grid(_BERTS, "amazon")),
    _figure("mseimagenet_ce", "mse", f"{_MSE}, ImageNet", _grid(_VITS[:3], "imagenet")),
    _figure("csfamazon", "scores", "Scores at n = 128, Amazon", _grid(_BERTS[1:], "amazon")),
    _figure("csfsimagenet", "scores", "Scores at n = 128, ImageNet, 0/1", _grid(_VITS, "imagenet", "01")),
    _figure("csfsimagenet_ce", "scores", "Scores at n = 128, ImageNet, CE", _grid(_VITS, "imagenet", "ce")),
    Entry("ours:mean_mse", "mean mse", "Average MSE of the weights against H_n/n and (ln n)/n"),
    Entry("ours:convergence", "convergence", "Measured convergence of the estimators, with the sqrt(n) line"),
    Entry("ours:finetuning", "tuning", "Test AURC by epoch of fine-tuning"),
)


def entry(label: str) -> Entry:
    """The row of a label."""
    return next(e for e in ENTRIES if e.label == label)


def as_markdown() -> str:
    """The manifest as a table."""
    lines = ["| label | shows | file | networks here |", "| --- | --- | --- | --- |"]
    lines += [
        f"| `{e.label}` | {e.title} | {e.file} | {e.in_short() or 'theory or all models'} |" for e in ENTRIES
    ]
    return "\n".join(lines) + "\n"


def own_architectures() -> tuple[int, int]:
    """How many networks of the paper's CIFAR figures are of their own architecture here, and of how many."""
    groups = [DATASETS[d][m].one for d in ("cifar10", "cifar100") for m in _SIX]
    return sum(group.remark == SAME for group in groups), len(groups)
