"""Pack results and outputs of many runs into few files of limited size, and unpack them."""

from __future__ import annotations

import tarfile
from pathlib import Path

LIMIT = 15 * 2**20


def pack(folder: str | Path, to: str | Path) -> list[Path]:
    """`results.tar.gz` and `outputs-0.tar`, `outputs-1.tar` ... under `to`, each below 15 MiB."""
    folder, to = Path(folder), Path(to)
    to.mkdir(parents=True, exist_ok=True)
    written = [to / "results.tar.gz"]
    with tarfile.open(written[0], "w:gz") as archive:
        for path in sorted((folder / "results").glob("*.json")):
            archive.add(path, f"results/{path.name}")
    lots: list[list[Path]] = [[]]
    size = 0
    for path in sorted((folder / "outputs").glob("*.npz")):
        if size + path.stat().st_size > LIMIT:
            lots.append([])
            size = 0
        lots[-1].append(path)
        size += path.stat().st_size + 1024
    for i, lot in enumerate(lots):
        written.append(to / f"outputs-{i}.tar")
        with tarfile.open(written[-1], "w") as archive:
            for path in lot:
                archive.add(path, f"outputs/{path.name}")
    return written


def unpack(archives: str | Path, folder: str | Path) -> None:
    """Undo `pack`: every `*.tar*` under `archives` into `folder`."""
    for path in sorted(Path(archives).glob("*.tar*")):
        with tarfile.open(path) as archive:
            archive.extractall(folder, filter="data")
