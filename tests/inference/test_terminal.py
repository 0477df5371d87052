"""Bins of histograms: those of the law, of samples and of the exact law say the same."""

import io
import math

import numpy as np
import pytest
from rich.console import Console

from pipeline.core.laws.families import FAMILIES
from pipeline.core.laws.quantiles import quantile
from pipeline.core.prompts.structured import make_prompt
from pipeline.inference.terminal import bin_edges, bin_labels, one_line, sample_shares, show_answers, target_shares

LAWS = {name: family.law_at(next(family.grid_points("test", "selected"))) for name, family in FAMILIES.items()}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_law_has_bins_in_which_its_quantiles_lie_as_often_as_it_says(family):
    law = LAWS[family]
    edges = bin_edges(law)
    target, size = target_shares(law, edges), 4000
    samples = quantile(law, (np.arange(size) + 0.5) / size)
    assert target.sum() == pytest.approx(1) and (target >= 0).all()
    assert np.abs(sample_shares(samples, edges) - target).max() < 2 / size
    assert len(set(bin_labels(law, edges))) == len(target) <= 24
    assert (np.diff(edges) > 0).all() and target.max() < 0.95


def test_values_of_an_integer_law_are_named():
    law = make_prompt("poisson", {"lambda": 1.0}, "ood").law
    edges = bin_edges(law)
    labels = bin_labels(law, edges)
    assert labels[:2] == ["0", "1"] and labels[-1].startswith("from ")
    assert target_shares(law, edges)[0] == pytest.approx(math.exp(-1))
    assert sample_shares(np.array([0.0, 1.0, 1.0, 50.0]), edges).tolist()[:2] == [0.25, 0.5]


def test_answers_cannot_command_the_terminal():
    assert one_line("a\x1b[2Jb\nc\u202e é") == "a\\x1b[2Jb\\nc\\u202e é"
    row = {"answer": "[red]\x1b[2J", "invalid": None, "finish_reason": "stop"}
    file = io.StringIO()
    show_answers(Console(file=file, width=100), "m", "[bold]", [row] * 3)
    assert "[red]\\x1b[2J" in file.getvalue() and "[bold]" in file.getvalue() and "\x1b" not in file.getvalue()
