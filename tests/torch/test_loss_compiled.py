"""torch.compile without graph breaks, and the same numbers."""

from __future__ import annotations

import pytest
import torch

from abstain.torch import AURCLoss, LinearWarmup, aurc_loss, smooth_zero_one


@pytest.fixture(autouse=True)
def _forget_compiled_code():
    torch._dynamo.reset()


@pytest.mark.filterwarnings("error")  # the compiler warns about what it cannot see through
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"estimator": "log"},
        {"estimator": "loo", "mix": 0.25},
        {"estimator": "sele", "score": "negative_entropy"},
        {"rank": "soft"},
        {"criterion": smooth_zero_one, "weight": torch.tensor([1.0, 2.0, 1.0, 0.5])},
    ],
    ids=lambda o: "-".join(map(str, o)) or "default",
)
def test_whole_graph_and_equal(batch, options):
    compiled = torch.compile(AURCLoss(**options), fullgraph=True, backend="aot_eager")
    sizes = (40, 17) if options.get("rank") == "soft" else (40, 17, 5000)  # 5000: the road by sorting
    for n in sizes:
        logits, target = batch(n, dtype=torch.float32)
        target[0] = -100
        gradients = []
        for loss in (compiled, AURCLoss(**options)):
            z = logits.clone().requires_grad_()
            value = loss(z, target)
            value.backward()
            gradients.append((value.detach(), z.grad))
        torch.testing.assert_close(gradients[0], gradients[1])


def test_inductor_gives_the_same_numbers(batch):
    logits, target = batch(64, dtype=torch.float32)
    compiled = torch.compile(aurc_loss, fullgraph=True)
    z, w = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    compiled(z, target).backward()
    aurc_loss(w, target).backward()
    torch.testing.assert_close(z.grad, w.grad)


def test_a_schedule_does_not_recompile(batch):
    logits, target = batch(16, dtype=torch.float32)
    counter = torch._dynamo.testing.CompileCounter()
    criterion = AURCLoss(mix=LinearWarmup(8))
    compiled = torch.compile(criterion, fullgraph=True, backend=counter)
    values = []
    for _ in range(4):
        values.append(compiled(logits, target).item())
        criterion.step()
    assert counter.frame_count == 1
    assert len(set(values)) == 4
