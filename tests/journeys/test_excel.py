"""Somebody with a spreadsheet: a file as Excel saves it in Germany, and the workbook itself."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import abstain

SAMPLES = 240


@pytest.fixture
def desk(tmp_path):
    """Answers with a confidence, a department, and a formula somebody left in a cell."""
    rng = np.random.default_rng(4)
    sure = np.round(rng.random(SAMPLES), 3)
    right = rng.random(SAMPLES) < 0.5 + 0.5 * sure
    ward = np.where(rng.random(SAMPLES) < 0.5, "Chirurgie", "=HYPERLINK(1)")
    rows = [("Richtig", "Konfidenz", "Station"), *zip(right.tolist(), sure.tolist(), ward.tolist())]

    def german(cell: object) -> str:
        return {True: "1", False: "0"}.get(cell, str(cell).replace(".", ",")) if cell is not None else ""

    text = "\r\n".join(";".join(german(cell) for cell in row) for row in rows) + "\r\n;;\r\n"
    (tmp_path / "antworten.csv").write_bytes(text.encode("utf-16"))
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(["'" + c if isinstance(c, str) and c.startswith("=") else c for c in row])
    book.save(tmp_path / "antworten.xlsx")
    return tmp_path, ~right, sure


COLUMNS = ["-c", "correct=Richtig", "-c", "confidence=Konfidenz", "-c", "groups=Station"]


@pytest.mark.parametrize("name", ["antworten.csv", "antworten.xlsx"])
def test_from_the_spreadsheet_to_a_threshold(desk, name):
    folder, wrong, sure = desk
    truth = float(np.mean([wrong[sure >= t].mean() for t in sure]))

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "abstain", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8")

    seen = run("evaluate", name, *COLUMNS, "--preview")
    assert seen.returncode == 0, seen.stderr
    assert f"{SAMPLES} samples" in seen.stdout

    table = json.loads(run("evaluate", name, *COLUMNS, "--json").stdout)
    found = {e["metric"]: e["estimate"] for e in table["entries"] if e["group"] is None}
    assert found["aurc"] == pytest.approx(truth, rel=1e-12)
    assert {e["group"] for e in table["entries"]} >= {None, "Chirurgie"}

    sheet = run("evaluate", name, *COLUMNS, "--csv", "-o", "ergebnis.csv")
    assert sheet.returncode == 0
    cells = (folder / "ergebnis.csv").read_text(encoding="utf-8").replace("\n", ",").split(",")
    assert not [cell for cell in cells if cell.startswith("=")]

    rule = run("threshold", name, *COLUMNS, "--risk", "0.35", "--save", "regel.json")
    assert rule.returncode in (0, 4), rule.stderr
    by_python = abstain.formats.read_predictions(
        folder / name, columns={"correct": "Richtig", "confidence": "Konfidenz"}
    )
    assert abstain.aurc(by_python.loss, by_python.confidence) == pytest.approx(truth, rel=1e-12)
