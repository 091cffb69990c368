"""One training run: network, optimiser and log, with a step that a CUDA graph can hold."""

from __future__ import annotations

from typing import Any

import torch

from abstain._arrays import Array
from abstain.paper.models import build
from abstain.paper.training.feed import Pixels
from abstain.paper.training.objectives import objective
from abstain.paper.training.recipe import RunSpec


class Run:
    """A run in progress. `epoch` counts the finished ones; `log` has one entry for each."""

    def __init__(self, spec: RunSpec, classes: int, device: str, *, compiled: bool = False) -> None:
        torch.manual_seed(spec.seed)
        self.spec, self.device, self.epoch = spec, device, 0
        self.log: list[dict[str, Any]] = []
        self.model = build(spec.model, classes).to(device, memory_format=torch.channels_last)
        self.forward = torch.compile(self.model) if compiled else self.model
        self.objective = objective(spec.objective)
        self.rate = torch.zeros((), device=device)
        self.loss_sum = torch.zeros((), device=device)
        recipe = spec.recipe
        self.optimiser = torch.optim.SGD(
            self.model.parameters(), lr=self.rate, momentum=recipe.momentum, nesterov=recipe.nesterov,
            weight_decay=recipe.weight_decay, fused=True,
        )  # fmt: skip
        for p in self.model.parameters():  # allocated now, so that their addresses never change
            self.optimiser.state[p]["momentum_buffer"] = torch.zeros_like(p)

    @property
    def finished(self) -> bool:
        """All epochs done."""
        return self.epoch >= self.spec.recipe.epochs

    def step(self, images: Array, labels: Array) -> None:
        """One step of gradient descent; nothing in it waits for the device."""
        with self.precision():
            loss = self.objective(self.forward(images), labels)
        loss.backward()
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.loss_sum += loss.detach()

    def precision(self) -> Any:
        """bfloat16 on a GPU, float32 on the host."""
        return torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda", cache_enabled=False)

    def tensors(self) -> list[Array]:
        """Everything a step changes."""
        moments = [self.optimiser.state[p]["momentum_buffer"] for p in self.model.parameters()]
        return [*self.model.parameters(), *self.model.buffers(), *moments, self.loss_sum]

    @torch.inference_mode()  # type: ignore[untyped-decorator]
    def test_logits(self, pixels: Pixels, batch: int = 2000) -> Array:
        """Logits of the test images, float32, still on the device."""
        self.model.eval()
        with self.precision():
            parts = [self.model(pixels.normalise(part)) for part in pixels.test_images.split(batch)]
        self.model.train()
        return torch.cat(parts)

    def state(self) -> dict[str, Any]:
        """What a restart needs, copied to the host: training goes on while it is being written."""
        buffers = [self.optimiser.state[p]["momentum_buffer"] for p in self.model.parameters()]
        moments = [buffer.to("cpu", copy=True) for buffer in buffers]
        weights = {k: v.to("cpu", copy=True) for k, v in self.model.state_dict().items()}
        return {"epoch": self.epoch, "log": list(self.log), "weights": weights, "moments": moments}

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.epoch, self.log = state["epoch"], list(state["log"])
        self.model.load_state_dict(state["weights"])
        for p, saved in zip(self.model.parameters(), state["moments"], strict=True):
            self.optimiser.state[p]["momentum_buffer"].copy_(saved)
