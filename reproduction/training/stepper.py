"""One step of several runs at once: plainly, or as one CUDA graph with a branch for each run.

A small network's step is hundreds of short kernels; launched one by one they leave the device idle. Captured once
and replayed, they cost one launch, and the branches of different runs fill the device together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from abstain.paper.training.feed import Feed
from abstain.paper.training.run import Run

Group = tuple[Feed, Sequence[Run]]
MODES = ("plain", "graph", "branches")
_WARM_UP = 3


def make_step(groups: Sequence[Group], batch: int, mode: str) -> Callable[[], None]:
    """A function that advances every run by one batch; runs of one group see the same images.

    mode : {"plain", "graph", "branches"}
        Eager kernels; one captured graph; one captured graph in which runs are parallel branches.
    """
    if mode == "plain":
        return lambda: _sequential(groups, batch)
    streams = {id(run): torch.cuda.Stream() for _, runs in groups for run in runs}
    body = (
        (lambda: _sequential(groups, batch))
        if mode == "graph"
        else (lambda: _branched(groups, batch, streams))
    )
    return _captured(groups, body)


def _sequential(groups: Sequence[Group], batch: int) -> None:
    for feed, runs in groups:
        images, labels = feed.batch(batch)
        for run in runs:
            run.step(images, labels)


def _branched(groups: Sequence[Group], batch: int, streams: dict[int, torch.cuda.Stream]) -> None:
    main = torch.cuda.current_stream()
    batches = [feed.batch(batch) for feed, _ in groups]
    for (images, labels), (_, runs) in zip(batches, groups, strict=True):
        for run in runs:
            branch = streams[id(run)]
            branch.wait_stream(main)
            with torch.cuda.stream(branch):
                run.step(images, labels)
    for branch in streams.values():
        main.wait_stream(branch)


def _captured(groups: Sequence[Group], body: Callable[[], None]) -> Callable[[], None]:
    """Warm up, undo what the warm-up did, capture."""
    changed = [t for feed, runs in groups for t in (feed.cursor, *(t for run in runs for t in run.tensors()))]
    with torch.no_grad():
        before = [t.clone() for t in changed]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(_WARM_UP):
            body()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=side):
        body()
    with torch.no_grad():
        for t, old in zip(changed, before, strict=True):
            t.copy_(old)
    torch.cuda.synchronize()
    return graph.replay
