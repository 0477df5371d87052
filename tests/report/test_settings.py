"""Tables 3 to 5 against the parameters and the families that they are from."""

import dataclasses

import pytest

from pipeline.config.params import load_params
from pipeline.core.laws.families import FAMILIES
from pipeline.core.prompts.structured import build_split
from pipeline.report.settings import family_table, method_settings, training_prompts
from tests.conftest import ROOT


@pytest.fixture(scope="module")
def config():
    return load_params(ROOT / "params.yaml")


def with_most(config, most, families=None):
    return dataclasses.replace(
        config, prompts=dataclasses.replace(config.prompts, train_prompts_per_family=most, families=families)
    )


@pytest.mark.parametrize(("most", "families"), [(None, None), (7, None), (50, ["gaussian", "poisson", "geometric"])])
def test_the_number_of_training_prompts_is_that_of_the_prompts(config, most, families):
    expected = len(build_split("train", families=families, prompts_per_family=most, seed=0))
    assert training_prompts(with_most(config, most, families)) == expected
    assert most is not None or expected == 1988


def test_steps_by_method_at_the_papers_settings(config):
    train = config.train
    paper = dataclasses.replace(
        with_most(config, None),
        train=dataclasses.replace(
            train,
            global_batch_size=32,
            micro_batch_size=32,
            soft=dataclasses.replace(train.soft, epochs=3, samples_per_prompt=1),
            hard=dataclasses.replace(train.hard, epochs=2, samples_per_prompt=16, completions_per_prompt=1),
        ),
    )
    (row,) = [row for row in method_settings(paper).rows if row[0] == "Optimiser steps"]
    assert row[1:] == ("189", "1,988", "189", "1,988")


def test_every_family_has_its_grids_and_this_runs_prompts(config):
    prompts = build_split("unseen", selection="selected") + build_split("ood", selection="selected")
    table = family_table(with_most(config, 30), prompts)
    frame = table.frame.set_index("family")
    assert list(frame.index) == list(FAMILIES) and frame["train_grid_points"].sum() == 1988
    assert frame["test_prompts"].sum() == len(prompts) == 42 and frame.loc["poisson", "test_prompts"] == 3
    assert frame.loc["gaussian", "train_prompts"] == 30 and frame.loc["geometric", "train_prompts"] == 13
    assert (frame["role"] == "held out").sum() == 6 and frame.loc["poisson", "train_prompts"] == 0
