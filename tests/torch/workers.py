"""What each of two processes does; started by `test_replicas.py` with torch.multiprocessing."""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from abstain.torch import AURCLoss


def model() -> torch.nn.Module:
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4)).double()


def data(n: int = 23):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(n, 6, generator=generator, dtype=torch.float64)
    x[n // 2] = x[0]  # a tie, in the other process
    y = torch.randint(0, 4, (n,), generator=generator)
    y[1] = -100
    return x, y


def shard(rank: int, cut: int):
    x, y = data()
    part = slice(0, cut) if rank == 0 else slice(cut, None)
    return x[part], y[part]


def start(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", GLOO_SOCKET_IFNAME="lo")
    store = dist.FileStore(str(Path(folder) / "store"), 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)


def train(rank: int, cut: int, options: dict, compiled: bool) -> dict:
    """One backward pass of DDP: the local loss and the averaged gradient."""
    net = DistributedDataParallel(model())
    criterion = AURCLoss(gather=True, **options)
    if compiled:
        criterion = torch.compile(criterion, fullgraph=True, backend="aot_eager")
    x, y = shard(rank, cut)
    loss = criterion(net(x), y)
    loss.backward()
    gradient = torch.cat([p.grad.reshape(-1) for p in net.parameters()])
    return {"loss": loss.detach(), "gradient": gradient}


def measure(rank: int, cut: int, options: dict) -> dict:
    """Metrics over the shards, synced: what this process computes, twice."""
    from metric_cases import collection

    metrics = collection(**options)
    x, y = shard(rank, cut)
    logits = model()(x).detach()
    for a in range(0, len(y), 4):
        metrics.update(logits[a : a + 4], y[a : a + 4])
    values = {k: v.clone() for k, v in metrics.compute().items()}
    bounds = {k: tuple(m.compute_bounds()) for k, m in metrics.items()}
    for metric in metrics.values():
        metric._computed = None  # the state must have come back from the sync unharmed
    return {"values": values, "after": metrics.compute(), "bounds": bounds}


def run_all(rank: int, folder: str, losses: dict, metrics: dict) -> None:
    """All cases in one pair of processes, since starting one costs more than everything it does."""
    start(rank, folder)
    results = {name: train(rank, *case) for name, case in losses.items()}
    results |= {name: measure(rank, *case) for name, case in metrics.items()}
    torch.save(results, Path(folder) / f"{rank}.pt")
    dist.destroy_process_group()
