"""Methods: what may be named, what differs by method, and the stages that follow from them."""

import pytest

from pipeline.config.conditions import training_settings
from pipeline.config.params import validate
from pipeline.dag.graph import StageGraph
from pipeline.errors import ConfigError
from tests.composition import composed_params

pytestmark = pytest.mark.slow

ANCHORED = "+method@methods.anchored=anchored"


def params(*overrides):
    return validate(composed_params("methods=paper", *overrides))


def test_conditions_follow_the_methods():
    assert params().conditions == ["base", "soft", "hard"]
    found = params(ANCHORED)
    assert found.conditions == ["base", "soft", "hard", "anchored"]
    graph = StageGraph(found)
    assert {"train-soft@embedded", "train-hard@embedded", "train-mixed@embedded-anchored"} < set(graph)
    alone = params("~method@methods.soft", "~method@methods.hard", ANCHORED)
    assert alone.conditions == ["base", "anchored"] and "train-soft@embedded" not in StageGraph(alone)


def test_a_second_method_of_one_kind_has_settings_of_its_own():
    long = "+method@methods.long=soft"
    found = params(long, "+methods.long.train={learning_rate:1.0e-3,soft:{epochs:9}}")
    assert "train-soft@embedded-long" in StageGraph(found)
    own, common = training_settings(found, "long"), training_settings(found, "soft")
    assert (own.learning_rate, own.soft.epochs, own.lora_rank) == (1e-3, 9, common.lora_rank)
    assert (common.learning_rate, common.soft.epochs) == (found.train.learning_rate, found.train.soft.epochs)


def test_an_adapter_depends_on_what_it_is_trained_on_alone():
    graph = StageGraph(params(ANCHORED, "+method@methods.mixed=mixed", "methods.mixed.anchors=null"))
    anchored, mixed = graph["train-mixed@embedded-anchored"], graph["train-mixed@embedded-mixed"]
    replies = "artifacts/generations/instructions/embedded/base.parquet"
    assert replies in anchored.dependencies and replies not in mixed.dependencies
    assert "train.hard" not in anchored.parameters and {"train.soft", "train.hard"} < set(mixed.parameters)
    assert "methods.anchored" in anchored.parameters
    assert not any("anchored" in key for node in graph if "anchored" not in node for key in graph[node].parameters)
    # No method with anchors: nobody asks for replies.
    assert "sample-instructions@embedded-base" in graph
    assert "sample-instructions@embedded-base" not in StageGraph(params())


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["+method@methods.base=soft"], r"methods\.base: a method's name has .* none of base, ssot"),
        (["+method@methods.A=soft"], r"methods\.A: a method's name has lower-case letters"),
        (["methods.soft.soft_share=1.5"], r"methods\.soft\.soft_share: must be less than or equal to 1"),
        (["+methods.soft.train={learning_rte:1.0}"], r"methods\.soft\.train: learning_rte: unknown key"),
        (["+methods.soft.train={soft:{epochs:0}}"], r"methods\.soft\.train: soft\.epochs: "),
        ([ANCHORED, "methods.anchored.anchors.weight=0.0"], r"methods\.anchored\.anchors\.weight"),
    ],
)
def test_what_is_not_allowed_is_named(overrides, message):
    with pytest.raises(ConfigError, match=message):
        params(*overrides)
