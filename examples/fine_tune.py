"""Fine-tune with the loss: train by cross-entropy, then teach the network to know when it is wrong.

Data: scikit-learn's handwritten digits, 500 images for training and the rest for the test. The fair rival of ten
epochs with the loss is ten more epochs without it.
"""

import copy

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from abstain.inference import Difference, paired_difference
from abstain.losses import zero_one
from abstain.scores import max_softmax
from abstain.torch import AURCLoss


def train(model: nn.Module, criterion: nn.Module, loader: DataLoader, epochs: int, rate: float) -> None:
    optimiser = torch.optim.Adam(model.parameters(), lr=rate)
    for _ in range(epochs):
        for inputs, target in loader:
            optimiser.zero_grad()
            criterion(model(inputs), target).backward()
            optimiser.step()


def judge(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.no_grad():
        logits = model(inputs)
    return zero_one(logits, labels), max_softmax(logits)


def main() -> Difference:
    torch.manual_seed(0)
    images, digits = load_digits(return_X_y=True)
    parts = train_test_split(images / 16, digits, train_size=500, stratify=digits, random_state=0)
    x, x_test = (torch.tensor(part, dtype=torch.float32) for part in parts[:2])
    y, y_test = (torch.tensor(part) for part in parts[2:])
    loader = DataLoader(TensorDataset(x, y), batch_size=128, shuffle=True)

    first = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    train(first, nn.CrossEntropyLoss(), loader, epochs=40, rate=3e-3)
    plain, tuned = copy.deepcopy(first), copy.deepcopy(first)
    train(plain, nn.CrossEntropyLoss(), loader, epochs=10, rate=1e-3)
    train(tuned, AURCLoss(estimator="loo", mix=0.5), loader, epochs=10, rate=1e-3)  # half cross-entropy

    before, without, with_it = (judge(model, x_test, y_test) for model in (first, plain, tuned))
    print("AURC on the test images, the same images paired.")
    print("fine-tuned less before:       ", paired_difference(*with_it, *before))
    difference = paired_difference(*with_it, *without)
    print("fine-tuned less more training:", difference)
    return difference


if __name__ == "__main__":
    main()
