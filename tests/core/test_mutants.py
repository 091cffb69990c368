"""The suite is itself checked: each planted bug, in a copy of the package, must turn it red."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import abstain

ROOT = Path(__file__).parents[2]
PACKAGE = Path(abstain.__file__).parent

MUTANTS = {  # name: (file, right, wrong)
    "rank one too low": ("core/estimators.py", "rank = np.arange(1.0, n + 1)", "rank = np.arange(0.0, n)"),
    "rank one too high": ("core/estimators.py", "above = n - rank ", "above = np.maximum(n - rank - 1, 0) "),
    "position one too low": ("core/rows.py", "N = places + (a + 1.0)", "N = places + (a + 0.5)"),
    "n for n + 1 in the log weight of a rank": (
        "core/estimators.py",
        "(above + 1) / (n + 1))",
        "(above + 1) / n)",
    ),
    "n for n + 1 in the log estimator": (
        "core/estimators.py",
        "log_n1 = r.xp.log(r.W + 1)",
        "log_n1 = r.xp.log(r.W)",
    ),
    "reversed order": ("core/sorting.py", "np.subtract(bits.dtype.type(top), bits, out=bits)", "bits"),
    "reversed order, generic": ("core/rows.py", "descending=True", "descending=False"),
    "cumulation inside ties": (
        "core/sorting.py",
        "np.not_equal(heads[1:], heads[:-1], out=ends[: len(heads) - 1])",
        "ends[:] = True",
    ),
    "cumulation inside ties, generic": (
        "core/rows.py",
        "confidence[..., 1:] != confidence[..., :-1], last",
        "xp.ones_like(confidence[..., 1:], dtype=xp.bool), last",
    ),
    "ties of a batch ignored": ("core/estimators.py", "if goes_on.any():", "if False:"),
    "dropped top block": ("core/rows.py", "for r in parts)))", "for r in list(parts)[1:])))"),
    "dropped top block of the area": (
        "core/estimators.py",
        "area_terms(rows, estimator, ties)))",
        "area_terms(rows, estimator, ties)[1:]))",
    ),
    "harmonic weight": ("core/estimators.py", "above, n + 0 * above)", "above, n + 1 + 0 * above)"),
    "harmonic area": ("core/estimators.py", "return r.m * r.risk", "return r.risk"),
    "loo weight": ("core/estimators.py", "above, n - 1 + 0 * above)", "above, n + 0 * above)"),
    "loo area": ("core/estimators.py", "r.m * r.S - r.L, 0.0", "r.m * r.S, 0.0"),
    "log area": (
        "core/estimators.py",
        "log_factorial_difference(r.xp, r.N - r.m, r.N)",
        "log_factorial_difference(r.xp, r.N - 1, r.N)",
    ),
    "sele weight": ("core/estimators.py", "np.asarray(rank / n * (2", "np.asarray((rank - 1) / n * (2"),
    "sele area": ("core/estimators.py", "return r.m * r.S / r.W", "return r.m * (r.S - r.L) / r.W"),
    "2sele area": ("core/estimators.py", "return 2 * _TERMS", "return 1 * _TERMS"),
    "expected harmonic area": ("core/estimators.py", "r.m - above * gain)", "r.m - r.N * gain)"),
    "expected sele area": ("core/estimators.py", "(r.m + 1) / 2", "r.m / 2"),
    "weights of samples": (
        "core/estimators.py",
        "accepted = rows.N - one_out",
        "accepted = rows.N - one_out + 1",
    ),
}


def _suite_passes(package_parent: Path) -> bool:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "--hypothesis-profile=mutants",
        "tests/core/test_estimators.py",
    ]
    environment = {
        **os.environ,
        "PYTHONPATH": str(package_parent),
        "HYPOTHESIS_STORAGE_DIRECTORY": str(package_parent),
    }
    done = subprocess.run(
        [*command, "-k", "not threads"], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.returncode == 0


def _copy(tmp_path: Path) -> Path:
    shutil.copytree(PACKAGE, tmp_path / "abstain", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "abstain"


def test_an_untouched_copy_is_green(tmp_path):
    _copy(tmp_path)
    assert _suite_passes(tmp_path)


@pytest.mark.parametrize("name", MUTANTS)
def test_planted_bug_turns_the_suite_red(name, tmp_path):
    file, right, wrong = MUTANTS[name]
    target = _copy(tmp_path) / file
    source = target.read_text()
    assert right in source, f"the mutant {name!r} no longer finds its place in {file}"
    target.write_text(source.replace(right, wrong, 1))
    assert not _suite_passes(tmp_path)
