"""Fine-tune with the AURC loss: train by cross-entropy first, then by a loss that ranks errors last.

Data: scikit-learn's handwritten digits, 500 images for training and the rest for the test. Ten epochs with the AURC
loss are compared with ten more epochs of cross-entropy.
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


def evaluate(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> tuple:  # loss, confidence
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

    start = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    train(start, nn.CrossEntropyLoss(), loader, epochs=40, rate=3e-3)
    longer = copy.deepcopy(start)
    train(longer, nn.CrossEntropyLoss(), loader, epochs=10, rate=1e-3)
    tuned = copy.deepcopy(start)
    train(tuned, AURCLoss(estimator="loo", mix=0.5), loader, epochs=10, rate=1e-3)  # half cross-entropy

    of_start, of_longer, of_tuned = (evaluate(model, x_test, y_test) for model in (start, longer, tuned))
    print("AURC, fine-tuned minus start:          ", paired_difference(*of_tuned, *of_start))
    difference = paired_difference(*of_tuned, *of_longer)
    print("AURC, fine-tuned minus longer training:", difference)
    return difference


if __name__ == "__main__":
    main()
