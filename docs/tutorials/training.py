# %% [markdown]
# # Train and tune a network that knows when it is wrong
#
# For somebody who trains a network in PyTorch and wants it to rank its errors last.
#
# - **You have** a training loop with cross-entropy.
# - **You want** the same accuracy or better, and a better ranking: errors among the least confident answers.
# - **You do**: measure AURC while you train, continue with the AURC loss, tune with averaged weights, and test on held-out
#   samples whether anything was gained.
#
# The data come with scikit-learn: 1,797 handwritten digits of 8 by 8 pixels. They are small, so that this page runs in
# seconds, and the gains here are those of a small network that was stopped early. [Train for it](../train.md) has the
# gains of ResNets on CIFAR, and the cases where there are none.

# %%
import copy

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import abstain
from abstain.torch import AURC, AURCLoss, fine_tune

torch.manual_seed(0)
torch.set_num_threads(1)  # the same numbers on every machine
images, labels = (torch.tensor(part) for part in load_digits(return_X_y=True))
digits = TensorDataset(images.float() / 16, labels)
train, held_out, test = random_split(digits, [300, 750, 747])
train_loader = DataLoader(train, batch_size=32, shuffle=True)
held_out_loader = DataLoader(held_out, batch_size=750)
test_images, test_labels = (torch.stack(part) for part in zip(*test))
print(
    f"{len(train)} digits to train, {len(held_out)} to decide, {len(test)} for the test"
)

# %% [markdown]
# ## A loop, and a metric beside it
#
# `AURC` works like every metric of torchmetrics. It takes logits and labels in batches; `compute_with_interval` says how
# far to trust it.


# %%
def train_epochs(network, criterion, epochs, rate):
    """Plain training; returns the held-out AURC after each epoch."""
    optimizer = torch.optim.SGD(network.parameters(), lr=rate, momentum=0.9)
    areas = []
    for _ in range(epochs):
        for inputs, target in train_loader:
            optimizer.zero_grad()
            criterion(network(inputs), target).backward()
            optimizer.step()
        metric = AURC()
        with torch.no_grad():
            for inputs, target in held_out_loader:
                metric.update(network(inputs), target)
        areas.append(float(metric.compute()))
    return areas


start = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
areas = train_epochs(start, nn.CrossEntropyLoss(), epochs=8, rate=0.1)
print("held-out AURC by epoch:", " ".join(f"{area:.4f}" for area in areas))

# %% [markdown]
# ## Continue with the AURC loss
#
# `AURCLoss` replaces `CrossEntropyLoss`: it weights the loss of each sample by the rank of its confidence in the batch.
# `mix=0.5` is half cross-entropy. The fair comparison is with as many more epochs of cross-entropy.

# %%
networks = {"start": start}
for name, criterion in (
    ("longer, cross-entropy", nn.CrossEntropyLoss()),
    ("longer, AURC loss", AURCLoss(estimator="loo", mix=0.5)),
):
    networks[name] = copy.deepcopy(start)
    train_epochs(networks[name], criterion, epochs=20, rate=0.02)

# %% [markdown]
# ## Tune with averaged weights
#
# `fine_tune` continues at a constant rate, averages the weights after each epoch, and keeps them only if held-out samples
# prove that the averaged network ranks better than the start.

# %%
networks["tuned"] = copy.deepcopy(start)
print(fine_tune(networks["tuned"], train_loader, held_out_loader))

# %% [markdown]
# ## What was gained, on digits that nobody has seen
#
# The held-out digits have been used to decide. The test digits have not.

# %%
with torch.no_grad():
    logits = {name: network(test_images) for name, network in networks.items()}
comparison = abstain.compare(logits, test_labels)
for name in networks:
    area = comparison[name]
    accuracy = (logits[name].argmax(1) == test_labels).float().mean()
    interval = f"{area.estimate:.4f} [{area.low:.4f}, {area.high:.4f}]"
    print(f"{name:<22} accuracy {accuracy:.1%}, AURC {interval}")
for sentence in comparison.sentences():
    print("-", sentence)

# %%
# Left: error rate against coverage of four networks. Right: differences from the best
panels = comparison.plot_panels(risk_scale="log")

# %% [markdown]
# The start was stopped early, so every way to go on helps. Among these ways, the sentences say which cannot be told apart
# by so few errors, and about how many digits would be needed. That is the usual result of such an experiment, and it is
# better to know it. What `fine_tune` adds is the test: it would have kept the start if nothing had been gained.
#
# ## From the network to a rule
#
# The better network is worth a better threshold. The held-out digits chose the weights, so the threshold is chosen on one
# half of the test digits and tried on the other.

# %%
half = len(test_labels) // 2
for name in ("start", "tuned"):
    rule = abstain.select_threshold(
        logits=logits[name][:half], labels=test_labels[:half], risk=0.05, delta=0.1
    )
    if not rule.feasible:
        print(f"{name}: no threshold")
        continue
    accepted = torch.as_tensor(rule.accepts(logits=logits[name][half:]))
    wrong = logits[name][half:].argmax(1) != test_labels[half:]
    share, error_rate = accepted.float().mean(), wrong[accepted].float().mean()
    print(f"{name}: answers {share:.1%} of the other half, {error_rate:.1%} wrong")

# %% [markdown]
# ## What it says, and what it does not say
#
# - A lower AURC on held-out samples may be luck. `fine_tune` tests it and keeps the start otherwise; so should you.
# - One run is one seed. [Train for it](../train.md) repeats the runs with several seeds, and finds that the gain comes
#   mostly from the averaged weights, not from the loss.
# - Lightning, Hugging Face and optax: one script for each is in `examples/training/`.
