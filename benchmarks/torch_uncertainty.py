"""torch-uncertainty's own AURC metric at 1e7 samples, in an environment of its own, beside ours.

    python benchmarks/torch_uncertainty.py [--folder /tmp/torch-uncertainty]

Makes a virtual environment with torch-uncertainty (and this package), then times both in one process, turn by turn.
Where the package does not import as a whole (it wants torchvision), its metric's file is loaded alone; if that fails
too, the reason is printed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]

TIMING = """
import importlib.util, statistics, time
import torch, abstain
spec = importlib.util.find_spec("torch_uncertainty")
try:
    from torch_uncertainty.metrics import AURC
    how = "the package"
except ImportError as reason:
    path = spec.submodule_search_locations[0] + "/metrics/classification/risk_coverage.py"
    alone = importlib.util.spec_from_file_location("risk_coverage", path)
    module = importlib.util.module_from_spec(alone)
    alone.loader.exec_module(module)
    AURC, how = module.AURC, f"its metric's file alone ({reason})"
n = 10**7
torch.manual_seed(0)
confidence = 0.5 + torch.rand(n) / 2
wrong = torch.rand(n) < 0.6 * (1 - confidence)
metric = AURC()
metric.update(torch.stack([confidence, 1 - confidence], -1), wrong.long())
times = {"ours": [], "theirs": []}
for _ in range(3):
    start = time.perf_counter(); ours = abstain.aurc(wrong, confidence)
    times["ours"].append(time.perf_counter() - start)
    metric._computed = None
    start = time.perf_counter(); theirs = metric.compute()
    times["theirs"].append(time.perf_counter() - start)
a, b = (statistics.median(times[k]) for k in ("ours", "theirs"))
import importlib.metadata
print(f"torch-uncertainty {importlib.metadata.version('torch-uncertainty')}, {how}")
print(f"compute at n = 1e7: theirs {b:.2f} s, ours {a:.2f} s, {b / a:.1f}x")
print(f"values {float(theirs):.6f} and {float(ours):.6f}")
print("theirs is a trapezoid on [1/n, 1] in float32, ties in row order; ours the mean of the selective risks")
"""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--folder", default=str(Path(tempfile.gettempdir()) / "torch-uncertainty"))
    folder = Path(options.parse_args().folder)
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        pin = next(
            line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch==")
        )
        needed = ["torchmetrics", "lightning", "einops", "matplotlib", "seaborn"]
        for step in ([pin], needed, ["--no-deps", "torch-uncertainty"], [str(ROOT)]):
            subprocess.run([python, "-m", "pip", "install", "--quiet", *step], check=True)
    return subprocess.run([python, "-c", TIMING], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
