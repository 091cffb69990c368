"""Figures and the whole reproduction on a set that needs no data folder."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from abstain.errors import DataError
from reproduction.__main__ import main
from reproduction.figures import draw, path, with_shared_seeds
from reproduction.manifest import ENTRIES, entry
from reproduction.outputs import digits_outputs
from reproduction.runs import load_study


@pytest.fixture(scope="module")
def study():
    return load_study()


def colours(path):
    with Image.open(path) as image:
        assert min(image.size) > 300
        pixels = np.asarray(image.convert("RGB")).reshape(-1, 3)
    return {tuple(p) for p in np.unique(pixels, axis=0).tolist()}


@pytest.mark.parametrize(
    "label",
    ["fig:amazon", "fig:mseimagenet", "fig:cifar10absbias01loss", "fig:csfamazon_compare", "fig:aurc_p",
     "fig:bias_alpha", "fig:Var_nalphaUpperBound", "ours:mean_mse", "ours:convergence",
     "ours:finetuning"],
)  # fmt: skip
def test_each_kind_of_figure_shows_its_estimators(study, tmp_path, label):
    found = colours(draw(entry(label), study, tmp_path))
    harmonic, sele = (0, 114, 178), (213, 94, 0)
    if label not in ("fig:Var_nalphaUpperBound", "ours:mean_mse", "ours:finetuning", "fig:aurc_p"):
        assert {harmonic, sele} <= found
    assert len(found) > 20


def test_the_figure_of_fine_tuning_has_a_line_for_every_objective_and_network(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("reproduction.figures.finish", lambda figure, *more: drawn.append(figure))
    draw(entry("ours:finetuning"), {}, tmp_path)
    axes = drawn[0].axes
    # ResNet-18, -34, -50, VGG16-BN, VGG19-BN, WideResNet-28-10 on CIFAR-10 and then on CIFAR-100; two panels each
    lines = [n for network in (7, 4, 4, 7, 4, 4, 4, 4, 4, 4, 4, 4) for n in (network, network)]
    assert [len(axis.lines) for axis in axes] == lines
    final = {line.get_label(): line.get_ydata()[-1] for line in axes[0].lines}
    assert final["CE"] > max(value for name, value in final.items() if name != "CE")


def test_lines_of_a_network_rest_on_the_seeds_that_all_objectives_have():
    runs = [
        {"objective": objective, "seed": seed}
        for objective, seed in (("ce", 0), ("ce", 1), ("log", 0), ("log", 2))
    ]
    assert with_shared_seeds(runs) == [runs[0], runs[2]]


def test_a_path_begins_with_the_network_it_started_from():
    starts = {"a": {"log": [{"aurc_01": 9.0}, {"aurc_01": 0.5}]}, "b": {"log": [{"aurc_01": 0.7}]}}
    run = {"start": "a", "log": [{"aurc_01": 0.4}, {"aurc_01": 0.3}]}
    assert path(run, starts, "aurc_01") == [0.5, 0.4, 0.3]


def test_a_panel_without_models_says_so_in_words(study, tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr("reproduction.figures.empty", lambda axis, why: said.append(why))
    draw(entry("fig:mseimagenet_ce"), study, tmp_path)
    assert len(said) == 2
    assert all(why.startswith("not available: only two ImageNet models") for why in said)


def test_every_drawn_entry_finds_its_models_in_the_kept_study(study):
    for e in ENTRIES:
        for panel in e.panels:
            group = panel.group(e.several)
            if group.names:
                assert group.among(study["models"]) == [n for n in group.names if n in study["models"]] != []


@pytest.mark.slow
def test_all_of_it_from_digits_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("ABSTAIN_DATA", raising=False)
    assert main(["all", "--out", str(tmp_path)]) == 0
    for e in ENTRIES:
        assert (tmp_path / e.file).is_file(), e.label
    assert "slip confirmed" in capsys.readouterr().out
    assert "# The paper, reproduced" in (tmp_path / "paper.md").read_text()


def test_digits_classifiers_are_real_ones():
    said = []
    outputs = digits_outputs(report=said.append)
    assert len(outputs) == len(said) == 5
    for o in outputs:
        assert len(o) == 1797
        assert 0.8 < 1 - o.loss("01").mean() < 0.999


def test_commands_that_only_print(capsys):
    for command, word in (("manifest", "fig:aurc_p"), ("table", "resnet18"), ("claims", "agrees")):
        assert main([command]) == 0
        assert word in capsys.readouterr().out


def test_a_study_that_is_not_there_says_how_to_make_it(tmp_path):
    with pytest.raises(DataError, match=r"reproduction study"):
        main(["claims", "--study", str(tmp_path / "none.json")])


def test_figures_from_a_study_file(tmp_path, study, monkeypatch):
    (tmp_path / "s.json").write_text(json.dumps(study))
    monkeypatch.setattr("reproduction.reproduce.draw_all", lambda s, to, report: (to.mkdir(), [])[1])
    assert main(["figures", "--study", str(tmp_path / "s.json"), "--out", str(tmp_path / "o")]) == 0
    assert "CE AURC" in (tmp_path / "o" / "finetune.md").read_text()
