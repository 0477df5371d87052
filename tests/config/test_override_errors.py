"""A wrong override is named with what would be right; a right one is not found fault with."""

import pytest

from pipeline.compose import compose_params
from pipeline.config.override_errors import find_problem
from pipeline.errors import ConfigError
from tests.conftest import ROOT, TINY_OVERRIDES

pytestmark = pytest.mark.slow

CONF = ROOT / "conf"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trian.soft.epochs=3", "trian.soft.epochs: there is no key 'trian'; did you mean train .*keys here are"),
        ("train.soft.epoch=3", "there is no key 'epoch'; did you mean epochs. the keys of train.soft are epochs, samp"),
        ("+train.soft.epoch=3", "train.soft.epoch: unknown key; did you mean epochs. the keys allowed here are epochs"),
        ("experiment=papr", "there is no 'papr'; did you mean paper. there are best, demo, everything, laptop, la"),
        ("+modle@models.x=qwen3_4b", "there is no group 'modle'; did you mean model. there are compat, discretize"),
        ("models.qwen3_8b.dtype=float32", "no key 'qwen3_8b'; the keys of models are embedded; .model@models"),
        ("models.embedded.chat.template_arguments.a=1", "are enable_thinking; a . in front of the override adds one"),
        ("seed.x=3", "seed.x: seed is a value without keys"),
        ("seed", "seed: an override is KEY=VALUE"),
        ("train.soft.epochs=[1", "train.soft.epochs=.1: cannot be read .no viable alternative.*needs quotes"),
        ("seed=1,2", "several values are a sweep .python -m pipeline.sweep -m seed=1,2.; a list is KEY="),
    ],
)
def test_what_is_wrong_and_what_would_be_right(override, message):
    with pytest.raises(ConfigError, match=message):
        compose_params(CONF, [override])


def test_a_key_may_come_with_a_choice():
    """A model's keys exist once its file is chosen, whatever the order."""
    overrides = ["models.qwen3_8b.dtype=float32", "experiment=paper"]
    assert compose_params(CONF, overrides)["models"]["qwen3_8b"]["dtype"] == "float32"
    with pytest.raises(ConfigError, match="dtyp: there is no key 'dtyp'"):
        compose_params(CONF, [*overrides, "models.qwen3_8b.dtyp=float32"])


@pytest.mark.parametrize(
    "overrides",
    [
        TINY_OVERRIDES,
        ["experiment=paper", "stand_ins=tiny"],
        ["+model@models.x=qwen3_4b", "models.x.dtype=float32"],
        ["+models.embedded.chat.template_arguments.a=1", "++seed=3"],
        ["~paloma"],
        ["hydra.verbose=true"],
    ],
)
def test_no_fault_is_found_where_there_is_none(overrides):
    assert find_problem(CONF, "config", overrides) is None


def test_several_values_are_right_in_a_multirun():
    for overrides in (["seed=0,1", "experiment=demo,paper"], ["model=qwen3_4b,embedded", "~model"], ["sweep=chosen"]):
        assert find_problem(CONF, "multirun", overrides, several=True) is None
    found = find_problem(CONF, "multirun", ["experiment=demo,papr"], several=True)
    assert found is not None and found.startswith("experiment: there is no 'papr'; did you mean paper?")
    assert "no key 'sed'" in (find_problem(CONF, "multirun", ["sed=0,1"], several=True) or "")
