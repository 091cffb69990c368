"""Write docs/side-by-side.md: other packages' numbers and speed beside ours.

    python docs/generate/side_by_side.py [--folder DIR]

Makes an environment for each package (kept in DIR for the next time), runs `side_by_side_worker.py` in it, and fills
`side_by_side_template.md`. What does not install is left out of the tables and named with the reason.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import tempfile
import venv
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

import abstain

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# what to install, step by step; torch-uncertainty without its dependencies, of which its metrics need few
STEPS = {
    "mapie": [["mapie"]],
    "torch-uncertainty": [
        ["torch"], ["torchmetrics", "lightning", "einops", "matplotlib", "seaborn"], ["--no-deps", "torch-uncertainty"],
    ],
    "scikit-learn": [["scikit-learn"]],
    "torchmetrics": [["torch"], ["torchmetrics"]],
    "fd-shifts": [["fd-shifts"]],
}  # fmt: skip
LABELS = {
    "five points": "five points, no ties",
    "network": "network, 1,200 digits, no ties",
    "neighbours": "7 nearest neighbours, 1,200 digits, ties",
}


def samples(path: Path) -> None:
    """Losses and confidences for everybody; probabilities as they are, since not all packages rank by logarithms."""
    data: dict[str, np.ndarray] = {
        "five points/loss": np.array([0, 1, 0, 0, 1]),
        "five points/confidence": np.array([0.9, 0.8, 0.7, 0.6, 0.5]),
    }
    for name, file in (("network", "neural-network"), ("neighbours", "nearest-neighbours")):
        with np.load(str(files("abstain") / "data" / "demo" / f"{file}.npz")) as demo:
            probs, labels = demo["probs"].astype(np.float64), demo["labels"]
        sure = (
            probs.max(axis=1) > 0.5
        )  # some packages take two probabilities, the larger of which is the confidence
        data[f"{name}/loss"] = (probs.argmax(axis=1) != labels)[sure].astype(np.int64)
        data[f"{name}/confidence"] = probs.max(axis=1)[sure]
    np.savez(path, **data)


def environment(package: str, folder: Path) -> Path:
    """The Python of the package's own environment, made if it is not there."""
    place = folder / package
    python = place / "bin" / "python"

    def install(*words: str) -> None:
        call = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *words]
        subprocess.run(call, check=True, capture_output=True, text=True)

    if not (place / "ready").exists():
        venv.create(place, with_pip=True, clear=True)
        pins = (ROOT / "constraints.txt").read_text().splitlines()
        pin = next(line for line in pins if line.startswith("torch=="))
        for step in [*STEPS[package], [str(ROOT)]]:
            install(*(pin if word == "torch" else word for word in step))
        (place / "ready").touch()
    install("--force-reinstall", "--no-deps", str(ROOT))  # ours as it is now, not as it was then
    return python


def ask(package: str, folder: Path, data: Path) -> dict[str, Any] | str:
    """The worker's answer, or why there is none."""
    print(f"{package} ...", flush=True)
    try:
        python = environment(package, folder)
        call = [python, HERE / "side_by_side_worker.py", package, data]
        one_core = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run(call, check=True, capture_output=True, text=True, env=one_core)
    except subprocess.CalledProcessError as error:
        lines = [line for line in error.stderr.splitlines() if line.startswith(("ERROR", "ModuleNotFound"))]
        return (lines or error.stderr.splitlines() or ["failed"])[-1]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def value_table(answers: dict[str, Any]) -> str:
    lines = ["| package | samples | its own number | `abstain` by that name | difference |"]
    lines.append("| --- | --- | ---: | ---: | ---: |")
    for package, answer in answers.items():
        for what, found in answer["values"].items():
            for name, label in LABELS.items():
                theirs, ours = found[name]
                name_of = f"`{what}`" if what == "auroc" else f"`compat.{what}`"
                lines.append(
                    f"| {package} | {label} | {theirs:.6f} | {ours:.6f} ({name_of}) | {abs(theirs - ours):.0e} |"
                )
    return "\n".join(lines)


def speed_table(answers: dict[str, Any]) -> str:
    lines = ["| package | what | theirs, ms | `abstain`, ms | ratio |", "| --- | --- | ---: | ---: | ---: |"]
    for package, answer in answers.items():
        for what, (theirs, ours) in answer["speed"].items():
            number = "AUROC of failures" if what == "auroc" else "AUGRC" if "augrc" in what else "AURC"
            lines.append(
                f"| {package} | {number} | {theirs * 1e3:.0f} | {ours * 1e3:.1f} | {theirs / ours:.1f} |"
            )
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "abstain-side-by-side")
    folder = options.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    samples(folder / "samples.npz")
    found = {package: ask(package, folder, folder / "samples.npz") for package in STEPS}
    answers = {k: v for k, v in found.items() if isinstance(v, dict)}
    notes = [f"- **{k}** {v['version']}: {v['note'] or 'as installed'}." for k, v in answers.items()]
    notes += [
        f"- **{k}**: did not install or run here ({v.removeprefix('ERROR: ')}), so not measured. Features from its "
        "documentation; its rules, where it has some, are in `abstain.compat`."
        for k, v in found.items()
        if isinstance(v, str)
    ]
    page = (HERE / "side_by_side_template.md").read_text()
    for key, text in {
        "VALUES": value_table(answers),
        "SPEED": speed_table(answers),
        "VERSIONS": "\n".join(notes),
        "DATE": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "OURS": abstain.__version__,
        "PYTHON": platform.python_version(),
    }.items():
        page = page.replace(f"@{key}@", text)
    (ROOT / "docs" / "side-by-side.md").write_text(page)
    print(f"wrote {ROOT / 'docs' / 'side-by-side.md'}")


if __name__ == "__main__":
    main()
