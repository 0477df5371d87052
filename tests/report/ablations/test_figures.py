"""Figure 14."""

import numpy as np
import pandas as pd
import pytest
from matplotlib import pyplot as plt
from matplotlib.patches import StepPatch

from pipeline.config.params import load_params
from pipeline.report.ablations.figures import (
    ablation_drawings,
    overlaid_strings,
    precision_panels,
    samples_by_decimals,
)
from pipeline.report.ablations.runs import SOFT_GRANULARITY, Ablations, read_blocks
from tests.conftest import ROOT
from tests.report.sweep_cells import write_cell


@pytest.fixture
def blocks(tmp_path, prompts):
    members, _ = prompts
    for setting, seed in (((2, 1001), 0), ((2, 1001), 1), ((5, 1001), 0), ((5, 4096), 0)):
        samples = pd.DataFrame(
            {
                "prompt_id": [prompt.prompt_id for prompt in members],
                "values": [[1.0 + seed, 2.0, 2.0, 900.0]] * len(members),
            }
        )
        write_cell(tmp_path, SOFT_GRANULARITY, setting, seed, 0.1, samples=samples)
    return read_blocks(tmp_path, SOFT_GRANULARITY)


def test_seeds_are_pooled(blocks, prompts):
    found = samples_by_decimals(blocks[0], 1001)
    assert list(found) == [2, 5]
    prompt_id = prompts[0][0].prompt_id
    assert found[2][prompt_id].tolist() == [1, 2, 2, 900, 2, 2, 2, 900]
    assert found[5][prompt_id].tolist() == [1, 2, 2, 900]


def test_without_it_the_number_with_most_decimals_is(tmp_path):
    for setting in ((2, 77), (5, 4096), (3, 4096)):
        write_cell(tmp_path, SOFT_GRANULARITY, setting, 0, 0.1)
    (block,) = read_blocks(tmp_path, SOFT_GRANULARITY)
    assert overlaid_strings(block) == 4096


def test_a_panel_per_family_and_an_outline_per_precision(blocks, prompts):
    members, _ = prompts
    ablations = Ablations(pd.DataFrame(), blocks, [], {})
    drawing = ablation_drawings(ablations, load_params(ROOT / "params.yaml"), members)["figure14"]
    figure = drawing.function(*drawing.arguments)
    panels = [axis for axis in figure.axes if axis.axison]
    assert len(panels) == 2
    for axis in panels:
        outlines = [patch for patch in axis.patches if isinstance(patch, StepPatch)]
        assert [patch.get_label() for patch in outlines] == ["2 decimals", "5 decimals"]
        heights, edges, _ = outlines[1].get_data()
        # One of four samples lies outside.
        assert np.sum(heights * np.diff(edges)) == pytest.approx(0.75)
    plt.close(figure)
    assert "Embedded-3.5M: at most 1001" in drawing.caption


def test_missing_samples_leave_the_target(prompts):
    members, _ = prompts
    figure = precision_panels(members[:1], {"Model": {2: {}}})
    assert len(figure.axes[0].lines) == 1
    plt.close(figure)
