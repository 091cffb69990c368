"""Every figure and table label of the paper has a row, and every row a file and models."""

from __future__ import annotations

import re

import pytest

from reproduction.manifest import DATASETS, ENTRIES, as_markdown, entry, own_architectures
from reproduction.runs import kept_outputs

# the labels of figures, sub-figures and tables in the paper's source
LABELS = [
    "fig:bias_n8",
    "fig:bias_n128",
    "fig:bias_alpha",
    "fig:Var_nalphaUpperBound",
    "fig:amazon-bert01",
    "fig:amazon-bertce",
    "fig:amazon",
    "fig:cifar10-vgg16bn",
    "fig:cifar10-vgg16bn-ce",
    "fig:cifar10absbias01loss",
    "fig:mseimagenet",
    "fig:csfamazon_compare",
    "tb:finetune",
    "tb:csfs",
    "fig:aurc_p",
    "fig:fullbias",
    "fig:cifar10biasceloss",
    "fig:cifar100biasceloss",
    "fig:amazonbias",
    "fig:imagenetbias",
    "fig:cifar10absbiasceloss",
    "fig:cifar100absbiasceloss",
    "fig:cifa10resultsseed5",
    "fig:cifa10resultsseed5ce",
    "fig:cifa100resultsseed5",
    "fig:amazon_ce",
    "fig:imagenet",
    "fig:msecifa10resultsseed5",
    "fig:msecifa10resultsseed5ce",
    "fig:msecifa100resultsseed5",
    "fig:msecifa100resultsseed5ce",
    "fig:mseamazon",
    "fig:mseimagenet_ce",
    "fig:csfamazon",
    "fig:csfsimagenet",
    "fig:csfsimagenet_ce",
]


def rows() -> list[str]:
    return [e.label for e in ENTRIES if not e.label.startswith("ours:")]


def test_every_label_has_exactly_one_row():
    assert sorted(rows()) == sorted(LABELS)


@pytest.mark.data
def test_the_list_of_labels_is_the_paper_s(data_dir):
    source = data_dir.parent / "paper.txt"
    if not source.is_file():
        pytest.skip("the paper's source is not beside the data folder")
    found = re.findall(r"\\label\{((?:fig|tb):[^}]*)\}", source.read_text())
    assert sorted(found) == sorted(LABELS)
    assert sorted(rows()) == sorted(found)


def test_files_are_distinct_and_panels_point_at_their_figure():
    own = [e.file for e in ENTRIES if e.part_of is None]
    assert len(set(own)) == len(own)
    for e in ENTRIES:
        if e.part_of:
            assert e.file == entry(e.part_of).file
            assert set(e.panels) <= set(entry(e.part_of).panels)
            assert set(e.sizes) <= set(entry(e.part_of).sizes)


def test_every_panel_names_its_stand_in_or_says_why_not():
    for e in ENTRIES:
        for text, panel in zip(e.substitutes(), e.panels, strict=True):
            group = panel.group(e.several)
            assert group.remark
            assert panel.model in text
            assert ("not available" in text) == (not group.names)


@pytest.mark.data
def test_stand_ins_exist_in_the_data_folder_or_are_trained_here(data_dir):
    there = {p.stem for p in (data_dir / "logits").glob("*.npz")}
    for dataset in DATASETS.values():
        for stand_in in dataset.values():
            for group in (stand_in.one, stand_in.several):
                assert {n for n in (*group.names, *group.otherwise) if "__trained-" not in n} <= there


def test_every_network_of_the_cifar_figures_is_our_own():
    assert own_architectures() == (12, 12)
    kept = {outputs.name for outputs in kept_outputs()}
    for dataset in ("cifar10", "cifar100"):
        for group in (g for s in DATASETS[dataset].values() for g in (s.one, s.several)):
            assert set(group.names) <= kept


def test_the_table_has_a_line_for_each():
    assert as_markdown().count("\n") == len(ENTRIES) + 2
