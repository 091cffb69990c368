"""A small network answers when it is sure, a large one when it is not, a person when neither is.

Two PyTorch networks read handwritten digits (scikit-learn's). With probability 95% at most 8% of the answers are wrong,
for as little as possible: 1 for a look of the small network, 20 for the large one, 200 for a person.
"""

from __future__ import annotations

import torch
from sklearn.datasets import load_digits
from torch import nn

import abstain

NETWORKS = {"small": (4, 1.0), "large": (128, 20.0)}  # width and cost


def trained(width: int, x: torch.Tensor, y: torch.Tensor) -> nn.Module:
    """A network with one hidden layer."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02, weight_decay=1e-3)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.eval()


def main() -> tuple[abstain.Cascade, float]:
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    x, y = torch.tensor(images, dtype=torch.float32)[order] / 16, torch.tensor(labels)[order]
    train, calibration, new = slice(0, 500), slice(500, 1500), slice(1500, None)
    models = {name: trained(width, x[train], y[train]) for name, (width, _) in NETWORKS.items()}
    with torch.no_grad():
        stages = {}
        for name, model in models.items():
            logits = model(x[calibration])
            loss = abstain.losses.zero_one(logits, y[calibration])
            stages[name] = (loss, abstain.scores.max_softmax(logits), NETWORKS[name][1])
        rule = abstain.cascade(stages, risk=0.08, person=(200.0, 0.0))
        print(rule)
        logits = models["small"](x[new])  # in use: the large network sees only what the small one passes on
        answer, sure = logits.argmax(1), {"small": abstain.scores.max_softmax(logits)}
        on = torch.tensor(rule.decide(sure) != "small")
        logits = models["large"](x[new][on])
        answer[on] = logits.argmax(1)
        sure = {"small": sure["small"][on], "large": abstain.scores.max_softmax(logits)}
    answered = ~on
    answered[on] = torch.tensor(rule.decide(sure) != "person")
    wrong = (answer != y[new])[answered].float().mean().item()
    print(f"\nOf {len(on)} new images the large network saw {int(on.sum())},")
    print(f"{int(answered.sum())} were answered, {wrong:.1%} of these wrongly.")
    return rule, wrong


if __name__ == "__main__":
    main()
