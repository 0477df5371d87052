"""Figure 1 shows what the core computes."""

import math

import pytest
from matplotlib import pyplot as plt

from pipeline.report.figures.method import MAX_BINS, SAMPLES, method_drawings


def test_the_figure_has_the_masses_the_trie_and_the_strings_of_its_seed():
    def texts(seed):
        drawing = method_drawings(seed)["figure1"]
        law, soft, hard = drawing.function(*drawing.arguments).axes
        assert len(law.patches) == MAX_BINS and math.fsum(p.get_height() for p in law.patches) == pytest.approx(1)
        assert [text.get_text() for text in soft.texts].count("end") == MAX_BINS
        # The law has .4495 of its mass between the bins that begin with 1.
        assert "0.45" in [text.get_text() for text in soft.texts]
        plt.close("all")
        return [text.get_text() for text in hard.texts]

    assert texts(0).count("prompt") == texts(0).count("end") == SAMPLES
    assert texts(0) == texts(0) != texts(1)
