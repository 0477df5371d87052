"""Presets that give both training methods the same steps, or the same supervised strings."""

import pytest

from pipeline.config.params import Params, validate
from pipeline.core.training.examples import training_steps
from pipeline.errors import ConfigError
from pipeline.estimates.prices import Prices
from pipeline.report.settings import training_prompts
from tests.composition import composed_params

pytestmark = pytest.mark.slow


def composed(*overrides: str) -> Params:
    return validate(composed_params(*overrides))


def steps(params: Params) -> tuple[int, ...]:
    """Optimiser steps of soft and hard, from the order that training itself takes."""
    soft, hard = params.train.soft, params.train.hard
    families = ["f"] * training_prompts(params)
    budgets = (
        (soft.epochs, soft.samples_per_prompt),
        (hard.epochs, hard.samples_per_prompt // hard.completions_per_prompt),
    )
    return tuple(len(training_steps(families, *budget, params.train.global_batch_size, 0)) for budget in budgets)


@pytest.mark.parametrize(
    ("experiment", "own", "matched", "few"), [("paper", (189, 1988), 1988, 126), ("demo", (375, 300), 300, 75)]
)
def test_matched_steps_and_matched_tokens(experiment, own, matched, few):
    default = composed(f"experiment={experiment}")
    assert steps(default) == own and default == composed(f"experiment={experiment}", "budget=own")
    assert steps(composed(f"experiment={experiment}", "budget=matched_steps")) == (matched, matched)
    strings = composed(f"experiment={experiment}", "budget=matched_tokens")
    model, prices = next(iter(strings.models)), Prices(strings)
    tokens = {prices.training(model, method).completion_tokens for method in ("soft", "hard")}
    assert steps(strings) == (few, matched) and len(tokens) == 1


def test_a_budget_follows_the_other_method_and_yields_to_the_command_line():
    changed = composed("budget=matched_steps", "train.hard.samples_per_prompt=64", "train.hard.epochs=3")
    assert len(set(steps(changed))) == 1
    assert composed("budget=matched_steps", "train.soft.epochs=7").train.soft.epochs == 7
    with pytest.raises(ConfigError, match=r"hard\.completions_per_prompt 5 must divide hard\.samples_per_prompt 32"):
        composed("budget=matched_steps", "train.hard.completions_per_prompt=5")
