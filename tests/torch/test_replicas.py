"""Two gloo processes against one process on the concatenated batch; shards of any size."""

from __future__ import annotations

import pytest
import torch
import torch.multiprocessing as mp
import workers
from metric_cases import collection

from abstain.torch import aurc_loss

# name: where the 23 samples are cut, options, compiled?
LOSSES = {
    "even": (12, {}, False),
    "uneven": (3, {"estimator": "loo", "mix": 0.3}, False),
    "nothing in the second process": (23, {"estimator": "log"}, False),
    "weighted": (
        9,
        {"weight": torch.tensor([1.0, 2.0, 0.5, 3.0], dtype=torch.float64), "reduction": "sum"},
        False,
    ),
    "compiled": (7, {"estimator": "sele"}, True),
}
METRICS = {
    f"{kind}, cut at {cut}": (cut, {"ignore_index": -100, "thresholds": thresholds})
    for kind, thresholds in (("exact", None), ("binned", 500))
    for cut in (12, 5, 23)
}


pytestmark = pytest.mark.xdist_group("replicas")  # two processes are started once


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replicas")
    mp.start_processes(
        workers.run_all, (str(folder), LOSSES, METRICS), nprocs=2, join=True, start_method="spawn"
    )
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in (0, 1)]


@pytest.mark.parametrize("case", LOSSES)
def test_loss_and_gradients_are_those_of_the_joined_batch(saved, case):
    options = LOSSES[case][1]
    net = workers.model()
    x, y = workers.data()
    loss = aurc_loss(net(x), y, **options)
    loss.backward()
    gradient = torch.cat([p.grad.reshape(-1) for p in net.parameters()])
    mean = (saved[0][case]["loss"] + saved[1][case]["loss"]) / 2
    torch.testing.assert_close(mean, loss.detach(), rtol=1e-12, atol=1e-14)
    for part in saved:
        torch.testing.assert_close(part[case]["gradient"], gradient, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("case", METRICS)
def test_metrics_are_those_of_the_joined_data(saved, case):
    metrics = collection(**METRICS[case][1])
    x, y = workers.data()
    metrics.update(workers.model()(x).detach(), y)
    expected = metrics.compute()
    bounds = {k: tuple(m.compute_bounds()) for k, m in metrics.items()}
    for part in saved:
        for name, value in expected.items():
            torch.testing.assert_close(part[case]["values"][name], value, rtol=1e-12, atol=1e-14)
            torch.testing.assert_close(part[case]["after"][name], value, rtol=1e-12, atol=1e-14)
            torch.testing.assert_close(part[case]["bounds"][name], bounds[name], rtol=1e-12, atol=1e-14)
