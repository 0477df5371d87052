"""Figure 1 shows what the core computes."""

import math

import pytest
from matplotlib import pyplot as plt

from pipeline.core.laws.discretize import discretize
from pipeline.core.tries.trie import build_trie
from pipeline.report.figures.method import (
    MAX_BINS,
    NUM_DECIMALS,
    SAMPLES,
    TERMINATOR,
    TOKENS,
    method_drawings,
    method_figure,
    trie_layout,
)

PROMPT, _ = method_drawings(0)["figure1"].arguments
TEXTS = {**TOKENS.text_of, TERMINATOR: "end"}


def test_paths_of_the_drawn_trie_are_the_strings_and_masses():
    space = discretize(PROMPT.law, num_decimals=NUM_DECIMALS, max_bins=MAX_BINS)
    strings = list(space.values)
    trie = build_trie([TOKENS.encode(text) for text in strings], space.probabilities, TERMINATOR)
    nodes = trie_layout(trie, TEXTS)
    found = {}
    for node in (node for node in nodes if node.text == "end"):
        text, mass, at = "", node.probability, nodes[node.parent]
        while at.parent >= 0:
            text, mass, at = at.text + text, mass * at.probability, nodes[at.parent]
        found[text] = mass
    assert found == pytest.approx(dict(zip(strings, space.probabilities, strict=True)))


def test_the_figure_has_three_panels_and_the_strings_of_its_seed():
    figure = method_figure(PROMPT, 0)
    law, soft, hard = figure.axes
    assert len(law.patches) == MAX_BINS and math.fsum(p.get_height() for p in law.patches) == pytest.approx(1)
    texts = [text.get_text() for text in hard.texts]
    assert texts.count("prompt") == texts.count("end") == SAMPLES
    assert "0.45" in [text.get_text() for text in soft.texts]
    again = [text.get_text() for text in method_figure(PROMPT, 0).axes[2].texts]
    other = [text.get_text() for text in method_figure(PROMPT, 1).axes[2].texts]
    assert texts == again != other
    plt.close("all")
