"""Runs of sweeps, grouped."""

import json

import pytest
import yaml

from pipeline.config.params import load_params
from pipeline.errors import ArtifactError
from pipeline.report.ablations.runs import (
    HARD_ABLATION,
    SOFT_GRANULARITY,
    block_titles,
    differences_note,
    metric_by_seed,
    read_blocks,
)
from tests.conftest import ROOT
from tests.report.sweep_cells import OTHERS, write_cell

DESIGN = SOFT_GRANULARITY


def preset(name):
    return yaml.safe_load((ROOT / "conf" / "sweep" / f"{name}.yaml").read_text())


def test_designs_are_the_presets():
    grid = preset("soft_granularity")["grid"]
    product = tuple((d, m) for d in grid[DESIGN.factors[0]] for m in grid[DESIGN.factors[1]])
    assert product == DESIGN.settings
    cells = preset("hard_ablation")["cells"]
    assert tuple(tuple(cell[key] for key in HARD_ABLATION.factors) for cell in cells) == HARD_ABLATION.settings


def test_seeds_of_a_setting_are_together_in_order(tmp_path):
    write_cell(tmp_path, DESIGN, (2, 1001), 7, 0.3)
    write_cell(tmp_path, DESIGN, (2, 1001), 1, 0.1)
    write_cell(tmp_path, DESIGN, (5, 1001), 1, 0.2)
    (block,) = read_blocks(tmp_path, DESIGN)
    assert {setting: [run.seed for run in runs] for setting, runs in block.runs.items()} == {
        (2, 1001): [1, 7],
        (5, 1001): [1],
    }
    table = metric_by_seed(block.runs[2, 1001], "embedded", "soft", "ood", "wasserstein_1_normalised")
    assert dict(zip(table["seed"], table["value"], strict=True)) == {1: 0.1, 7: 0.3}


def test_unfinished_cells_do_not_count(tmp_path):
    write_cell(tmp_path, DESIGN, (2, 1001), 0, 0.3, finished=False)
    assert read_blocks(tmp_path, DESIGN) == []


def test_cells_that_differ_otherwise_are_never_compared(tmp_path):
    write_cell(tmp_path, DESIGN, (2, 1001), 0, 0.3)
    write_cell(tmp_path, DESIGN, (2, 1001), 0, 0.4, others={**OTHERS, "train.learning_rate": 0.001})
    write_cell(tmp_path, DESIGN, (2, 1001), 0, 0.5, model="qwen3_14b")
    blocks = read_blocks(tmp_path, DESIGN)
    assert [block.model for block in blocks] == ["embedded", "embedded", "qwen3_14b"]
    titles = block_titles(blocks, load_params(ROOT / "params.yaml"))
    assert titles == ["Embedded-3.5M (1)", "Embedded-3.5M (2)", "qwen3_14b"]
    assert differences_note(blocks, titles) == (
        "Embedded-3.5M (1): train.learning_rate 0.001. Embedded-3.5M (2): train.learning_rate 0.004."
    )


def test_a_finished_cell_without_its_evaluation_is_an_error(tmp_path):
    directory = write_cell(tmp_path, DESIGN, (2, 1001), 0, 0.3)
    (directory / "artifacts" / "evals").rename(directory / "artifacts" / "moved")
    with pytest.raises(ArtifactError, match="must hold one"):
        read_blocks(tmp_path, DESIGN)


def test_a_rehearsals_evaluations_are_one_directory_deeper(tmp_path):
    directory = write_cell(tmp_path, DESIGN, (2, 1001), 0, 0.3)
    (directory / "artifacts" / "stand_ins").mkdir()
    (directory / "artifacts" / "evals").rename(directory / "artifacts" / "stand_ins" / "evals")
    (block,) = read_blocks(tmp_path, DESIGN)
    assert len(block.runs[2, 1001]) == 1


def test_a_cell_without_a_factor_is_an_error(tmp_path):
    path = write_cell(tmp_path, DESIGN, (2, 1001), 0, 0.3) / "cell.json"
    record = json.loads(path.read_text())
    del record["parameters"]["discretize.soft.max_bins"]
    path.write_text(json.dumps(record))
    with pytest.raises(ArtifactError, match=r"parameters lack discretize.soft.max_bins"):
        read_blocks(tmp_path, DESIGN)
