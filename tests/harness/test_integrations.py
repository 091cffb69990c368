"""Every block of docs/integrations.md runs with the real packages, and they hold the numbers of `abstain`."""

from __future__ import annotations

import importlib
import json
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import abstain

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "integrations.md"


@pytest.fixture(scope="module")
def page_names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names that the page's code leaves behind, run in an empty folder without any server."""
    folder = tmp_path_factory.mktemp("page")
    with np.load(str(files("abstain") / "data/demo/neural-network.npz")) as data:
        logits = np.log(np.maximum(data["probs"].astype(np.float64), 1e-30))
        labels = data["labels"]
    X, y = load_breast_cancer(return_X_y=True)
    model = make_pipeline(StandardScaler(), LogisticRegression())
    names: dict[str, Any] = {"logits": logits, "labels": labels, "X": X, "y": y, "model": model}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # mlflow-skinny comes without a database
        patch.setenv("MLFLOW_TRACKING_URI", (folder / "mlruns").as_uri())
        patch.setenv("WANDB_MODE", "offline")
        patch.setenv("WANDB_SILENT", "true")
        patch.syspath_prepend(ROOT / "tests" / "docs")
        blocks = importlib.import_module("blocks")
        problems = blocks.run_page(PAGE, names)
        needed = {block.options for block in blocks.blocks_of(PAGE) if block.options}
        assert needed == {"needs-mlflow", "needs-wandb", "needs-evaluate", "needs-skore"}
        assert not problems, "\n".join(problems)
        run_id = names["run"].id if hasattr(names["run"], "id") else ""
        names["wandb_files"] = sorted(
            path.name for path in folder.glob(f"wandb/*{run_id}*/**/*") if path.is_file()
        )
        import mlflow

        (names["mlflow_run"],) = mlflow.search_runs(output_format="list")
        names["mlflow_files"] = sorted(
            file.path for file in mlflow.artifacts.list_artifacts(run_id=names["mlflow_run"].info.run_id)
        )
    sys.modules.pop("blocks", None)
    return names


def test_mlflow_has_the_numbers_and_the_page(page_names):
    logged = page_names["mlflow_run"].data.metrics
    assert logged == pytest.approx(page_names["table"].to_flat_dict())
    assert (
        logged["aurc"]
        == abstain.evaluate(
            page_names["logits"],
            page_names["labels"],
            metrics="aurc",
            scores="max_softmax",
            losses="zero_one",
        )["aurc"].value
    )
    assert page_names["mlflow_files"] == ["preds.npz", "report.html"]


def test_wandb_wrote_the_run_the_table_and_the_page(page_names):
    written = page_names["wandb_files"]
    assert any(name.endswith(".wandb") for name in written)
    assert any(name.startswith("metrics") and name.endswith(".table.json") for name in written)
    assert any(name.startswith("report") and name.endswith(".html") for name in written)


def test_hugging_face_computes_the_same_from_batches(page_names):
    # the package stores predictions in float32
    assert page_names["results"] == pytest.approx(page_names["table"].to_flat_dict(), rel=1e-4)
    json.dumps(page_names["results"])


def test_skore_has_the_mean_over_the_folds(page_names):
    from sklearn.model_selection import cross_val_score

    from abstain.sklearn import aurc_scorer

    scores = cross_val_score(page_names["model"], page_names["X"], page_names["y"], scoring=aurc_scorer())
    means = page_names["summary"].filter(like="mean").iloc[:, 0]
    assert means["aurc"] == pytest.approx(-scores.mean())
