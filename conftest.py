"""Shared fixtures. Real data is found through ABSTAIN_DATA; with ABSTAIN_NO_SKIP=1 every skip is a failure."""

from __future__ import annotations

import functools
import inspect
import os
from pathlib import Path

import click.testing
import pytest
from hypothesis import Phase, settings

# For runs that are expected to fail (test_mutants): a counterexample is enough, it need not be a small one.
settings.register_profile("mutants", phases=[Phase.explicit, Phase.generate], database=None)

NO_SKIP = os.environ.get("ABSTAIN_NO_SKIP") == "1"

# One thread of OpenMP and BLAS in each process of the tests: several workers share the cores, and threads that wait for
# a core are busy waiting; small trainings took thirty times as long. Threads of this package itself are not meant.
for _variable in ("OMP_THREAD_LIMIT", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")


# Before version 8.2, click's test runner kept standard error apart only if asked to, and then left it out of `output`.
if "mix_stderr" in inspect.signature(click.testing.CliRunner).parameters:
    click.testing.CliRunner.__init__ = functools.partialmethod(
        click.testing.CliRunner.__init__, mix_stderr=False
    )
    click.testing.Result.output = property(lambda result: result.stdout + result.stderr)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of real model outputs (logits/, images/, checkpoints/, text/)."""
    folder = os.environ.get("ABSTAIN_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip(
            "real data not found: set ABSTAIN_DATA to a folder with logits/, images/, checkpoints/, text/"
        )
    return Path(folder)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that needs the real data, so that `-m "not data"` leaves out all of them and no others."""
    for item in items:
        if "data_dir" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.data)


@pytest.fixture(scope="session", autouse=True)
def files_of_examples(doctest_namespace: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> None:
    """The file that examples of the engines read."""
    path = tmp_path_factory.mktemp("examples") / "predictions.csv"
    path.write_text("confidence,loss\n0.9,0\n0.8,0\n0.7,1\n")
    doctest_namespace["predictions"] = str(path)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):
    """In CI nothing may be skipped: a missing component must not look like a pass."""
    outcome = yield
    report = outcome.get_result()
    if NO_SKIP and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped where skips are failures (ABSTAIN_NO_SKIP=1): {report.longrepr}"


@pytest.hookimpl(hookwrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):
    """The same for a whole file: a module-level `importorskip` skips while tests are being collected."""
    outcome = yield
    report = outcome.get_result()
    if NO_SKIP and report.skipped:
        report.outcome = "failed"
        report.longrepr = f"skipped where skips are failures (ABSTAIN_NO_SKIP=1): {report.longrepr}"
